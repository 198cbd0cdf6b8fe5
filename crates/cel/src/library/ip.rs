//! IP addresses.
//!
//! Upstream: `k8s.io/apiserver/pkg/cel/library/ip.go`.

use std::net::IpAddr;

use super::args::text;
use crate::fail::Fail;
use crate::row::Row;
use crate::value::Val;

pub(super) const ROWS: &[Row] = &[
    ("ip(string) IP", |args| {
        parse(text(args, 0)?).map(Val::Ip).map_err(Fail::new)
    }),
    ("isIP(string) bool", |args| {
        Ok(Val::Bool(parse(text(args, 0)?).is_ok()))
    }),
    ("ip.isCanonical(string) bool", |args| {
        let text = text(args, 0)?;
        let address = parse(text).map_err(Fail::new)?;
        Ok(Val::Bool(address.to_string() == text))
    }),
    ("string(IP) string", |args| {
        Ok(Val::text(&of(args)?.to_string()))
    }),
    (".family(IP) int", |args| {
        Ok(Val::Int(if of(args)?.is_ipv4() { 4 } else { 6 }))
    }),
    (".isUnspecified(IP) bool", |args| {
        Ok(Val::Bool(of(args)?.is_unspecified()))
    }),
    (".isLoopback(IP) bool", |args| {
        Ok(Val::Bool(of(args)?.is_loopback()))
    }),
    (".isLinkLocalMulticast(IP) bool", |args| {
        Ok(Val::Bool(is_link_local_multicast(of(args)?)))
    }),
    (".isLinkLocalUnicast(IP) bool", |args| {
        Ok(Val::Bool(is_link_local_unicast(of(args)?)))
    }),
    (".isGlobalUnicast(IP) bool", |args| {
        let address = of(args)?;
        let broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
        Ok(Val::Bool(
            !address.is_unspecified()
                && !address.is_loopback()
                && !address.is_multicast()
                && !broadcast
                && !is_link_local_unicast(address),
        ))
    }),
];

fn of(args: &[Val]) -> Result<IpAddr, Fail> {
    match &args[0] {
        Val::Ip(address) => Ok(*address),
        _ => Err(Fail::no_overload()),
    }
}

/// The address in `text`. Zones and IPv4 addresses in IPv6 are refused, in upstream's words.
pub(super) fn parse(text: &str) -> Result<IpAddr, String> {
    if let Some((address, _)) = text.split_once('%')
        && address.parse::<std::net::Ipv6Addr>().is_ok()
    {
        return Err(format!(
            "IP address {text:?} with zone value is not allowed"
        ));
    }
    let address: IpAddr = text.parse().map_err(|_| {
        format!(
            "IP Address {text:?} parse error during conversion from string: ParseAddr({text:?}): {}",
            complaint(text)
        )
    })?;
    match address {
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => {
            Err(format!("IPv4-mapped IPv6 address {text:?} is not allowed"))
        }
        address => Ok(address),
    }
}

/// The reason that Go gives.
fn complaint(text: &str) -> String {
    let first = text
        .find(['.', ':', '%'])
        .and_then(|at| text[at..].chars().next());
    if first.is_none() {
        return "unable to parse IP".to_owned();
    }
    if first == Some('.') {
        let fields: Vec<&str> = text.split('.').collect();
        if let Some(letter) = text.find(|c: char| !c.is_ascii_digit() && c != '.') {
            return format!("unexpected character (at {:?})", &text[letter..]);
        }
        if fields
            .iter()
            .any(|field| field.parse::<u32>().is_ok_and(|number| number > 255))
        {
            return "IPv4 field has value >255".to_owned();
        }
        if fields
            .iter()
            .any(|field| field.len() > 1 && field.starts_with('0'))
        {
            return "IPv4 field has octet with leading zero".to_owned();
        }
        return match fields.len() {
            0..4 => "IPv4 address too short".to_owned(),
            _ => "IPv4 address too long".to_owned(),
        };
    }
    "unexpected character".to_owned()
}

fn is_link_local_multicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.octets()[..3] == [224, 0, 0],
        IpAddr::V6(v6) => v6.segments()[0] & 0xff0f == 0xff02,
    }
}

fn is_link_local_unicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}
