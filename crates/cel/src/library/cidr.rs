//! Networks in CIDR notation.
//!
//! Upstream: `k8s.io/apiserver/pkg/cel/library/cidr.go`.

use super::args::text;
use super::ip;
use crate::fail::Fail;
use crate::objects::cidr::Cidr;
use crate::row::Row;
use crate::value::Val;

pub(super) const ROWS: &[Row] = &[
    ("cidr(string) CIDR", |args| {
        Cidr::parse(text(args, 0)?).map(Val::Cidr)
    }),
    ("isCIDR(string) bool", |args| {
        Ok(Val::Bool(Cidr::parse(text(args, 0)?).is_ok()))
    }),
    ("string(CIDR) string", |args| {
        Ok(Val::text(&of(&args[0])?.to_string()))
    }),
    (".ip(CIDR) IP", |args| Ok(Val::Ip(of(&args[0])?.address))),
    (".masked(CIDR) CIDR", |args| {
        Ok(Val::Cidr(of(&args[0])?.masked()))
    }),
    (".prefixLength(CIDR) int", |args| {
        Ok(Val::Int(of(&args[0])?.length.into()))
    }),
    (".containsIP(CIDR, IP) bool", |args| match &args[1] {
        Val::Ip(address) => Ok(Val::Bool(of(&args[0])?.contains(*address))),
        _ => Err(Fail::no_overload()),
    }),
    (".containsIP(CIDR, string) bool", |args| {
        let address = ip::parse(text(args, 1)?).map_err(Fail::new)?;
        Ok(Val::Bool(of(&args[0])?.contains(address)))
    }),
    (".containsCIDR(CIDR, CIDR) bool", |args| {
        Ok(Val::Bool(of(&args[0])?.includes(of(&args[1])?)))
    }),
    (".containsCIDR(CIDR, string) bool", |args| {
        let other = Cidr::parse(text(args, 1)?)?;
        Ok(Val::Bool(of(&args[0])?.includes(other)))
    }),
];

fn of(value: &Val) -> Result<Cidr, Fail> {
    match value {
        Val::Cidr(cidr) => Ok(*cidr),
        _ => Err(Fail::no_overload()),
    }
}
