//! Named formats of texts.
//!
//! Upstream: `k8s.io/apiserver/pkg/cel/library/format.go`.

use super::args::text;
use crate::fail::Fail;
use crate::objects::format::NamedFormat;
use crate::row::Row;
use crate::value::Val;

pub(super) const ROWS: &[Row] = &[
    ("format.named(string) optional(Format)", |args| {
        let name = text(args, 0)?;
        let found = NamedFormat::named(name).map(Val::Format);
        Ok(found.map_or(Val::Optional(None), Val::some))
    }),
    ("format.dns1123Label() Format", |_| constant("dns1123Label")),
    ("format.dns1123Subdomain() Format", |_| {
        constant("dns1123Subdomain")
    }),
    ("format.dns1035Label() Format", |_| constant("dns1035Label")),
    ("format.qualifiedName() Format", |_| {
        constant("qualifiedName")
    }),
    ("format.dns1123LabelPrefix() Format", |_| {
        constant("dns1123LabelPrefix")
    }),
    ("format.dns1123SubdomainPrefix() Format", |_| {
        constant("dns1123SubdomainPrefix")
    }),
    ("format.dns1035LabelPrefix() Format", |_| {
        constant("dns1035LabelPrefix")
    }),
    ("format.labelValue() Format", |_| constant("labelValue")),
    ("format.uri() Format", |_| constant("uri")),
    ("format.uuid() Format", |_| constant("uuid")),
    ("format.byte() Format", |_| constant("byte")),
    ("format.date() Format", |_| constant("date")),
    ("format.datetime() Format", |_| constant("datetime")),
    (".validate(Format, string) optional(list(string))", |args| {
        let text = text(args, 1)?;
        let Val::Format(format) = &args[0] else {
            return Err(Fail::no_overload());
        };
        let problems = (format.check)(text);
        Ok(if problems.is_empty() {
            Val::Optional(None)
        } else {
            Val::some(Val::list(problems.iter().map(|p| Val::text(p)).collect()))
        })
    }),
];

fn constant(name: &str) -> Result<Val, Fail> {
    NamedFormat::named(name)
        .map(Val::Format)
        .ok_or_else(|| Fail::new("unknown format"))
}
