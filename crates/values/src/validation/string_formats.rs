//! The string formats that are validated. Every other `format` accepts any string, as in upstream's
//! `k8s.io/kube-openapi/pkg/validation/strfmt`.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use jiff::civil::Date;

use super::formats::is_subdomain;

/// Whether `text` is valid for `format`.
pub fn fits(format: &str, text: &str) -> bool {
    match format {
        "byte" => STANDARD.decode(text).is_ok(),
        "cidr" => is_network(text),
        "date" => text.len() == 10 && text.parse::<Date>().is_ok(),
        "date-time" | "datetime" => text.parse::<Timestamp>().is_ok(),
        "duration" => is_duration(text),
        "email" => text.split_once('@').is_some_and(|(user, host)| {
            !user.is_empty() && !host.is_empty() && !host.contains('@')
        }),
        "hostname" => text.len() < 256 && is_subdomain(&text.to_lowercase()),
        "ipv4" => Ipv4Addr::from_str(text).is_ok(),
        "ipv6" => Ipv6Addr::from_str(text).is_ok(),
        "mac" => is_hardware_address(text),
        "uri" => text.parse::<http::Uri>().is_ok(),
        "uuid" => is_uuid(text, None),
        "uuid3" => is_uuid(text, Some('3')),
        "uuid4" => is_uuid(text, Some('4')),
        "uuid5" => is_uuid(text, Some('5')),
        _ => true,
    }
}

fn is_network(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else {
        return false;
    };
    let at_most = |max: u8| bits.parse::<u8>().is_ok_and(|bits| bits <= max);
    (Ipv4Addr::from_str(address).is_ok() && at_most(32))
        || (Ipv6Addr::from_str(address).is_ok() && at_most(128))
}

/// A duration in Go's form (`1h30m`), or a number with a unit (`3 days`).
fn is_duration(text: &str) -> bool {
    const UNITS: [&str; 31] = [
        "ns",
        "us",
        "µs",
        "ms",
        "s",
        "m",
        "h",
        "d",
        "w",
        "nano",
        "nanos",
        "nanosecond",
        "nanoseconds",
        "micros",
        "microsecond",
        "microseconds",
        "millis",
        "millisecond",
        "milliseconds",
        "sec",
        "secs",
        "second",
        "seconds",
        "min",
        "mins",
        "minute",
        "minutes",
        "hour",
        "hours",
        "day",
        "days",
    ];
    let mut rest = text.trim().strip_prefix('-').unwrap_or(text.trim());
    let mut any = rest == "0";
    while !rest.is_empty() && rest != "0" {
        let number = rest
            .bytes()
            .take_while(|byte| byte.is_ascii_digit() || *byte == b'.')
            .count();
        let after = rest[number..].trim_start();
        let unit = after
            .find(|letter: char| letter.is_ascii_digit() || letter == ' ')
            .unwrap_or(after.len());
        if number == 0 || !UNITS.contains(&&after[..unit]) {
            return false;
        }
        any = true;
        rest = after[unit..].trim_start();
    }
    any
}

fn is_hardware_address(text: &str) -> bool {
    let parts: Vec<&str> = text.split([':', '-']).collect();
    matches!(parts.len(), 6 | 8 | 20)
        && parts
            .iter()
            .all(|part| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn is_uuid(text: &str, version: Option<char>) -> bool {
    text.len() == 36
        && uuid::Uuid::try_parse(text).is_ok()
        && version.is_none_or(|version| text.chars().nth(14) == Some(version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_validated_by_format() {
        let cases = [
            ("date-time", "2024-01-01T00:00:00Z", "2024-01-01"),
            ("date", "2024-02-29", "2023-02-29"),
            ("byte", "YQ==", "a"),
            ("cidr", "10.0.0.0/8", "10.0.0.0/33"),
            ("duration", "1h30m", "1 parsec"),
            ("duration", "3 days", ""),
            ("email", "a@b.c", "a"),
            ("hostname", "Example.com", "a..b"),
            ("ipv4", "10.0.0.1", "::1"),
            ("ipv6", "::1", "10.0.0.1"),
            ("mac", "01:23:45:67:89:ab", "01:23"),
            ("uri", "https://example.com/a", "a b"),
            (
                "uuid4",
                "8ad1e5f3-3b0e-4d3c-9f2e-0a1b2c3d4e5f",
                "8ad1e5f3-3b0e-5d3c-9f2e-0a1b2c3d4e5f",
            ),
        ];
        for (format, good, bad) in cases {
            assert!(fits(format, good), "{good} is a {format}");
            assert!(!fits(format, bad), "{bad} is no {format}");
        }
        assert!(fits("shoe-size", "anything"));
    }
}
