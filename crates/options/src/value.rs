//! Values of flags: parsed with Go's rules and messages, and printed as Go prints them.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use crate::duration::GoDuration;
use crate::{Kind, csv};

/// The value of a flag.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A bool.
    Bool(bool),
    /// A duration.
    Duration(GoDuration),
    /// An integer.
    Int(i64),
    /// A single-precision number, printed as such.
    Float32(f32),
    /// A double-precision number.
    Float(f64),
    /// A text.
    Text(String),
    /// A list of texts.
    List(Vec<String>),
    /// A map of texts.
    Map(BTreeMap<String, String>),
    /// Feature gates, each as `[component:]Gate=<bool>`.
    Gates(Vec<String>),
    /// An IP address.
    Ip(IpAddr),
}

impl Value {
    /// Parses `text` as `kind`. The error is Go's reason.
    pub fn parse(kind: Kind, text: &str) -> Result<Self, String> {
        match kind {
            Kind::Bool => bool(text).map(Self::Bool),
            Kind::Duration => text
                .parse()
                .map(Self::Duration)
                .map_err(|e: crate::duration::ParseDurationError| e.to_string()),
            Kind::Int32 => {
                int("ParseInt", text, i64::from(i32::MIN), i64::from(i32::MAX)).map(Self::Int)
            }
            Kind::Int => int("ParseInt", text, i64::MIN, i64::MAX).map(Self::Int),
            Kind::Level => level(text).map(Self::Int),
            Kind::Float32 => float(text).map(Self::Float32),
            Kind::Float => float(text).map(Self::Float),
            Kind::String | Kind::Version => Ok(Self::Text(text.to_owned())),
            Kind::Strings => csv::split(text).map(Self::List),
            Kind::Ip => text
                .trim()
                .parse()
                .map(Self::Ip)
                .map_err(|_| format!("failed to parse IP: {text:?}")),
            Kind::Int32Slice => int32_slice(text).map(Self::List),
            Kind::CertKeys => cert_key(text).map(Self::List),
            Kind::StringMap => string_map(text).map(Self::Map),
            Kind::Quantity => quantity(text).map(Self::Text),
            Kind::Vmodule => vmodule(text).map(Self::Text),
            Kind::Gates => Ok(Self::Gates(parts(text).map(str::to_owned).collect())),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => write!(f, "{value}"),
            Self::Duration(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Float32(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value}"),
            Self::Text(value) => f.write_str(value),
            Self::List(items) => write!(f, "[{}]", csv::join(items)),
            Self::Map(map) => {
                let items: Vec<String> = map
                    .iter()
                    .map(|(key, value)| format!("{key}={value}"))
                    .collect();
                write!(f, "[{}]", csv::join(&items))
            }
            Self::Gates(items) => {
                let mut pairs: Vec<(&str, &str)> = items
                    .iter()
                    .map(|item| item.split_once(':').unwrap_or(("", item)))
                    .collect();
                pairs.sort_by_key(|(component, _)| *component);
                let pairs: Vec<String> = pairs
                    .iter()
                    .map(|(component, gate)| format!("{component}:{gate}"))
                    .collect();
                f.write_str(&pairs.join(","))
            }
            Self::Ip(value) => write!(f, "{value}"),
        }
    }
}

/// The non-empty items of a comma-separated list.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
}

/// Go's `strconv.ParseBool`.
pub fn bool(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(false),
        _ => Err(syntax("ParseBool", text)),
    }
}

fn syntax(function: &str, text: &str) -> String {
    format!("strconv.{function}: parsing {text:?}: invalid syntax")
}

fn range(function: &str, text: &str) -> String {
    format!("strconv.{function}: parsing {text:?}: value out of range")
}

/// Go's `strconv.ParseInt` with base 0: a prefix selects the base, and underscores may separate
/// digits.
fn int(function: &str, text: &str, min: i64, max: i64) -> Result<i64, String> {
    let (sign, unsigned) = match text.as_bytes().first() {
        Some(b'-') => (-1, &text[1..]),
        Some(b'+') => (1, &text[1..]),
        _ => (1, text),
    };
    let lower = unsigned.to_ascii_lowercase();
    let (base, digits) = if let Some(rest) = lower.strip_prefix("0x") {
        (16, rest)
    } else if let Some(rest) = lower.strip_prefix("0b") {
        (2, rest)
    } else if let Some(rest) = lower.strip_prefix("0o") {
        (8, rest)
    } else if lower.len() > 1 && lower.starts_with('0') {
        (8, &lower[1..])
    } else {
        (10, lower.as_str())
    };
    // An underscore may stand between two digits, or between the prefix and a digit.
    let misplaced =
        digits.ends_with('_') || digits.contains("__") || (base == 10 && digits.starts_with('_'));
    let digits = digits.replace('_', "");
    if misplaced || digits.is_empty() || !digits.chars().all(|c| c.is_digit(base)) {
        return Err(syntax(function, text));
    }
    let value = i128::from_str_radix(&digits, base).map(|value| sign * value);
    let value = value.ok().and_then(|value| i64::try_from(value).ok());
    value
        .filter(|value| (min..=max).contains(value))
        .ok_or_else(|| range(function, text))
}

/// A verbosity of klog: an unsigned number that fits into 32 bits with sign.
fn level(text: &str) -> Result<i64, String> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(syntax("ParseUint", text));
    }
    text.parse::<i32>()
        .map(i64::from)
        .map_err(|_| range("ParseUint", text))
}

fn float<F: std::str::FromStr>(text: &str) -> Result<F, String> {
    text.parse().map_err(|_| syntax("ParseFloat", text))
}

/// A list of 32-bit integers; each is parsed like `int`.
fn int32_slice(text: &str) -> Result<Vec<String>, String> {
    let read = |part: &str| {
        int("ParseInt", part, i64::from(i32::MIN), i64::from(i32::MAX))
            .map(|value| value.to_string())
    };
    if text.is_empty() {
        Ok(Vec::new())
    } else {
        text.split(',').map(read).collect()
    }
}

/// A pair is a single item of the list, so that repeated flags add pairs.
fn cert_key(text: &str) -> Result<Vec<String>, String> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let (files, _domains) = text.split_once(':').unwrap_or((text, ""));
    match files
        .split(',')
        .map(str::trim)
        .collect::<Vec<_>>()
        .as_slice()
    {
        [cert, key] if !cert.is_empty() && !key.is_empty() => Ok(vec![text.to_owned()]),
        _ => Err("expected comma separated certificate and key file paths".to_owned()),
    }
}

/// A single pair may contain commas in its value. Several pairs are CSV fields.
fn string_map(text: &str) -> Result<BTreeMap<String, String>, String> {
    if text.is_empty() {
        return Ok(BTreeMap::new());
    }
    let items = if text.matches('=').count() == 1 {
        vec![text.trim_matches('"').to_owned()]
    } else {
        csv::split(text)?
    };
    let pair = |item: String| match item.split_once('=') {
        Some((key, value)) => Ok((key.to_owned(), value.to_owned())),
        None => Err(format!("{item} must be formatted as key=value")),
    };
    items.into_iter().map(pair).collect()
}

/// Checks a quantity such as `64Mi`; the text is kept as typed.
fn quantity(text: &str) -> Result<String, String> {
    let number = text.trim_start_matches(['+', '-']);
    let end = number
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(number.len());
    let (digits, suffix) = number.split_at(end);
    let known = [
        "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei",
    ];
    let exponent = suffix
        .strip_prefix(['e', 'E'])
        .is_some_and(|e| e.parse::<i32>().is_ok());
    if !digits.contains(|c: char| c.is_ascii_digit()) || digits.matches('.').count() > 1 {
        return Err("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'".to_owned());
    }
    if known.contains(&suffix) || exponent {
        Ok(text.to_owned())
    } else {
        Err("unable to parse quantity's suffix".to_owned())
    }
}

/// Checks a list of `filename=N`; the text is kept as typed.
fn vmodule(text: &str) -> Result<String, String> {
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let rule = part
            .split_once('=')
            .filter(|(pattern, level)| !pattern.is_empty() && !level.is_empty());
        let (_, level) = rule.ok_or("syntax error: expect comma-separated list of filename=N")?;
        level.parse::<u32>().map_err(|_| {
            format!(
                "parsing verbosity in {part:?}: {}",
                syntax("ParseUint", level)
            )
        })?;
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_printed_as_in_go() {
        // (kind, typed, printed)
        let cases = [
            (Kind::Bool, "T", "true"),
            (Kind::Bool, "0", "false"),
            (Kind::Duration, "90m", "1h30m0s"),
            (Kind::Int32, "0x10", "16"),
            (Kind::Int32, "017", "15"),
            (Kind::Int32, "1_000", "1000"),
            (Kind::Int32, "-2147483648", "-2147483648"),
            (Kind::Float32, "0.1", "0.1"),
            (Kind::Float32, "20", "20"),
            (Kind::Float, "1e-1", "0.1"),
            (Kind::Strings, "", "[]"),
            (Kind::Strings, r#"a,"b,c""#, r#"[a,"b,c"]"#),
            (Kind::Ip, "::", "::"),
            (Kind::Int32Slice, "29,0x17", "[29,23]"),
            (
                Kind::CertKeys,
                "c.crt,k.key:a.example,b.example",
                r#"["c.crt,k.key:a.example,b.example"]"#,
            ),
            (Kind::Quantity, "64Mi", "64Mi"),
            (Kind::Gates, "kube:B=false, A=true,", ":A=true,kube:B=false"),
            (Kind::Gates, "", ""),
            (Kind::StringMap, "m,l=a,b", r#"["m,l=a,b"]"#),
            (
                Kind::StringMap,
                r#""n,l=a,b","m,l=""#,
                r#"["m,l=","n,l=a,b"]"#,
            ),
            (Kind::StringMap, "", "[]"),
            (Kind::Level, "4", "4"),
        ];
        for (kind, typed, printed) in cases {
            assert_eq!(
                Value::parse(kind, typed).unwrap().to_string(),
                printed,
                "{kind:?} {typed}"
            );
        }
    }

    #[test]
    fn invalid_values_are_refused_with_gos_messages() {
        let cases = [
            (
                Kind::Bool,
                "yes",
                r#"strconv.ParseBool: parsing "yes": invalid syntax"#,
            ),
            (
                Kind::Int32,
                "five",
                r#"strconv.ParseInt: parsing "five": invalid syntax"#,
            ),
            (
                Kind::Int32,
                "",
                r#"strconv.ParseInt: parsing "": invalid syntax"#,
            ),
            (
                Kind::Int32,
                "3000000000",
                r#"strconv.ParseInt: parsing "3000000000": value out of range"#,
            ),
            (
                Kind::Int,
                "1__0",
                r#"strconv.ParseInt: parsing "1__0": invalid syntax"#,
            ),
            (
                Kind::Float32,
                "fast",
                r#"strconv.ParseFloat: parsing "fast": invalid syntax"#,
            ),
            (
                Kind::Duration,
                "15",
                r#"time: missing unit in duration "15""#,
            ),
            (Kind::Ip, "localhost", r#"failed to parse IP: "localhost""#),
            (
                Kind::Level,
                "-1",
                r#"strconv.ParseUint: parsing "-1": invalid syntax"#,
            ),
            (
                Kind::Level,
                "4294967296",
                r#"strconv.ParseUint: parsing "4294967296": value out of range"#,
            ),
            (
                Kind::CertKeys,
                "only.crt",
                "expected comma separated certificate and key file paths",
            ),
            (Kind::StringMap, "a", "a must be formatted as key=value"),
            (
                Kind::StringMap,
                "m,l=a,n,l=b",
                "m must be formatted as key=value",
            ),
            (
                Kind::Vmodule,
                "main",
                "syntax error: expect comma-separated list of filename=N",
            ),
        ];
        for (kind, typed, reason) in cases {
            assert_eq!(
                Value::parse(kind, typed).unwrap_err(),
                reason,
                "{kind:?} {typed}"
            );
        }
    }
}
