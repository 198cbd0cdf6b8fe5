//! Conversions between types.
//!
//! Upstream: `common/types` of cel-go.

use std::sync::Arc;

use crate::fail::Fail;
use crate::row::Row;
use crate::time;
use crate::value::Val;

pub(super) const ROWS: &[Row] = &[
    ("type(T) type", |args| Ok(Val::Type(args[0].kind()))),
    ("dyn(T) dyn", same),
    ("bool(bool) bool", same),
    ("bool(string) bool", to_bool),
    ("bytes(bytes) bytes", same),
    ("bytes(string) bytes", to_bytes),
    ("double(double) double", same),
    ("double(int) double", to_double),
    ("double(string) double", to_double),
    ("double(uint) double", to_double),
    ("duration(duration) duration", same),
    ("duration(string) duration", to_duration),
    ("int(int) int", same),
    ("int(double) int", to_int),
    ("int(duration) int", to_int),
    ("int(string) int", to_int),
    ("int(timestamp) int", to_int),
    ("int(uint) int", to_int),
    ("string(bool) string", to_text),
    ("string(bytes) string", to_text),
    ("string(double) string", to_text),
    ("string(duration) string", to_text),
    ("string(int) string", to_text),
    ("string(string) string", same),
    ("string(timestamp) string", to_text),
    ("string(uint) string", to_text),
    ("timestamp(timestamp) timestamp", same),
    ("timestamp(int) timestamp", to_timestamp),
    ("timestamp(string) timestamp", to_timestamp),
    ("uint(uint) uint", same),
    ("uint(double) uint", to_uint),
    ("uint(int) uint", to_uint),
    ("uint(string) uint", to_uint),
];

fn same(args: &[Val]) -> Result<Val, Fail> {
    Ok(args[0].clone())
}

fn to_bool(args: &[Val]) -> Result<Val, Fail> {
    match text(args)? {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(Val::Bool(true)),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(Val::Bool(false)),
        other => Err(unparsable("Bool", other)),
    }
}

fn to_bytes(args: &[Val]) -> Result<Val, Fail> {
    Ok(Val::Bytes(Arc::from(text(args)?.as_bytes())))
}

fn to_double(args: &[Val]) -> Result<Val, Fail> {
    match &args[0] {
        Val::Int(value) => Ok(Val::Double(*value as f64)),
        Val::Uint(value) => Ok(Val::Double(*value as f64)),
        _ => {
            let text = text(args)?;
            let number = text.parse().map_err(|_| unparsable("Float", text))?;
            Ok(Val::Double(number))
        }
    }
}

fn to_duration(args: &[Val]) -> Result<Val, Fail> {
    let text = text(args)?;
    time::parse_duration(text)
        .map(Val::Duration)
        .ok_or_else(|| Fail::new(format!("time: invalid duration {text:?}")))
}

fn to_int(args: &[Val]) -> Result<Val, Fail> {
    let overflow = || Fail::new("integer overflow");
    match &args[0] {
        Val::Double(value) if value.is_finite() && value.abs() < 9_223_372_036_854_775_808.0 => {
            Ok(Val::Int(*value as i64))
        }
        Val::Double(_) => Err(overflow()),
        Val::Duration(nanos) => Ok(Val::Int(*nanos)),
        Val::Timestamp(at) => Ok(Val::Int(at.as_second())),
        Val::Uint(value) => i64::try_from(*value).map(Val::Int).map_err(|_| overflow()),
        _ => {
            let text = text(args)?;
            let number = text.parse().map_err(|_| unparsable("Int", text))?;
            Ok(Val::Int(number))
        }
    }
}

fn to_uint(args: &[Val]) -> Result<Val, Fail> {
    let overflow = || Fail::new("unsigned integer overflow");
    match &args[0] {
        Val::Double(value) if *value >= 0.0 && *value < 18_446_744_073_709_551_616.0 => {
            Ok(Val::Uint(*value as u64))
        }
        Val::Double(_) => Err(overflow()),
        Val::Int(value) => u64::try_from(*value).map(Val::Uint).map_err(|_| overflow()),
        _ => {
            let text = text(args)?;
            let number = text.parse().map_err(|_| unparsable("Uint", text))?;
            Ok(Val::Uint(number))
        }
    }
}

fn to_timestamp(args: &[Val]) -> Result<Val, Fail> {
    match &args[0] {
        Val::Int(seconds) => jiff::Timestamp::from_second(*seconds)
            .map(Val::Timestamp)
            .map_err(|_| Fail::new("timestamp overflow")),
        _ => {
            let text = text(args)?;
            time::parse_timestamp(text)
                .map(Val::Timestamp)
                .ok_or_else(|| Fail::new(format!("parsing time {text:?} as RFC 3339 failed")))
        }
    }
}

fn to_text(args: &[Val]) -> Result<Val, Fail> {
    if let Val::Bytes(bytes) = &args[0] {
        return std::str::from_utf8(bytes)
            .map(Val::text)
            .map_err(|_| Fail::new("invalid UTF-8 in bytes, cannot convert to string"));
    }
    show(&args[0])
        .map(|text| Val::text(&text))
        .ok_or_else(Fail::no_overload)
}

/// The text of a scalar.
pub(super) fn show(value: &Val) -> Option<String> {
    Some(match value {
        Val::Null => "null".to_owned(),
        Val::Bool(value) => value.to_string(),
        Val::Int(value) => value.to_string(),
        Val::Uint(value) => value.to_string(),
        Val::Double(value) => show_double(*value),
        Val::Text(text) => text.to_string(),
        Val::Duration(nanos) => time::show_duration(*nanos),
        Val::Timestamp(at) => at.to_string(),
        Val::Type(ty) => ty.name(),
        _ => return None,
    })
}

/// As Go's `%g` with the shortest digits: exponents below -4 and from 21 on.
fn show_double(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let magnitude = value.abs();
    if magnitude != 0.0 && !(1e-4..1e21).contains(&magnitude) {
        let text = format!("{value:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = match exponent.strip_prefix('-') {
            Some(rest) => ('-', rest),
            None => ('+', exponent),
        };
        return format!("{digits}e{sign}{exponent:0>2}");
    }
    format!("{value}")
}

fn text(args: &[Val]) -> Result<&str, Fail> {
    match &args[0] {
        Val::Text(text) => Ok(text),
        _ => Err(Fail::no_overload()),
    }
}

/// The words of Go's strconv.
fn unparsable(kind: &str, text: &str) -> Fail {
    Fail::new(format!(
        "strconv.Parse{kind}: parsing {text:?}: invalid syntax"
    ))
}
