//! `format`, with the clauses `%s`, `%d`, `%f`, `%e`, `%b`, `%x`, `%X` and `%o`.
//!
//! Upstream: `ext/formatting.go` of cel-go.

use super::args::text;
use super::convert;
use crate::fail::Fail;
use crate::value::{Key, Val};

const DEFAULT_PRECISION: usize = 6;

pub(super) fn format(args: &[Val]) -> Result<Val, Fail> {
    let Some(Val::List(values)) = args.get(1) else {
        return Err(Fail::no_overload());
    };
    let mut letters = text(args, 0)?.chars().peekable();
    let mut values = values.items.iter().enumerate();
    let mut formatted = String::new();
    let mut used = 0;
    while let Some(letter) = letters.next() {
        if letter != '%' {
            formatted.push(letter);
            continue;
        }
        if letters.next_if_eq(&'%').is_some() {
            formatted.push('%');
            continue;
        }
        let mut precision = None;
        if letters.next_if_eq(&'.').is_some() {
            let mut digits = String::new();
            while let Some(digit) = letters.next_if(char::is_ascii_digit) {
                digits.push(digit);
            }
            precision = digits.parse().ok();
        }
        let clause = letters
            .next()
            .ok_or_else(|| Fail::new("unexpected end of string"))?;
        let (index, value) = values
            .next()
            .ok_or_else(|| Fail::new(format!("index {used} out of range")))?;
        used = index + 1;
        formatted.push_str(&clause_of(clause, precision, value)?);
    }
    Ok(Val::text(&formatted))
}

fn clause_of(clause: char, precision: Option<usize>, value: &Val) -> Result<String, Fail> {
    let unsupported = |what: &str| {
        let why = format!(
            "error during formatting: {what} cannot be formatted with %{clause}: {}",
            value.kind()
        );
        Fail::new(why)
    };
    let precision = precision.unwrap_or(DEFAULT_PRECISION);
    let shown = match (clause, value) {
        ('s', value) => shown(value, false),
        ('d', Val::Int(number)) => Some(number.to_string()),
        ('d', Val::Uint(number)) => Some(number.to_string()),
        ('f' | 'e', value) => as_double(value).map(|number| match clause {
            'f' => fixed(number, precision),
            _ => scientific(number, precision),
        }),
        ('b', Val::Bool(value)) => Some(u8::from(*value).to_string()),
        ('b', Val::Uint(number)) => Some(format!("{number:b}")),
        ('o', Val::Uint(number)) => Some(format!("{number:o}")),
        ('x', Val::Uint(number)) => Some(format!("{number:x}")),
        ('X', Val::Uint(number)) => Some(format!("{number:X}")),
        ('b' | 'o' | 'x' | 'X', Val::Int(number)) => {
            let sign = if *number < 0 { "-" } else { "" };
            let number = number.unsigned_abs();
            Some(match clause {
                'b' => format!("{sign}{number:b}"),
                'o' => format!("{sign}{number:o}"),
                'x' => format!("{sign}{number:x}"),
                _ => format!("{sign}{number:X}"),
            })
        }
        ('x' | 'X', Val::Text(text)) => Some(hex(text.as_bytes(), clause)),
        ('x' | 'X', Val::Bytes(bytes)) => Some(hex(bytes, clause)),
        ('d' | 'b' | 'o' | 'x' | 'X', _) => None,
        _ => {
            let why = format!(
                "could not parse formatting clause: unrecognized formatting clause \"{clause}\""
            );
            return Err(Fail::new(why));
        }
    };
    shown.ok_or_else(|| unsupported("value"))
}

fn as_double(value: &Val) -> Option<f64> {
    match value {
        Val::Double(number) => Some(*number),
        Val::Int(number) => Some(*number as f64),
        Val::Uint(number) => Some(*number as f64),
        Val::Text(text) if matches!(&**text, "NaN" | "Infinity" | "-Infinity") => {
            text.replace("Infinity", "inf").parse().ok()
        }
        _ => None,
    }
}

fn hex(bytes: &[u8], clause: char) -> String {
    bytes
        .iter()
        .map(|byte| match clause {
            'x' => format!("{byte:x}"),
            _ => format!("{byte:X}"),
        })
        .collect()
}

fn fixed(number: f64, precision: usize) -> String {
    special(number).unwrap_or_else(|| format!("{number:.precision$}"))
}

fn scientific(number: f64, precision: usize) -> String {
    special(number).unwrap_or_else(|| {
        let text = format!("{number:.precision$e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = match exponent.strip_prefix('-') {
            Some(rest) => ('-', rest),
            None => ('+', exponent),
        };
        format!("{digits}e{sign}{exponent:0>2}")
    })
}

fn special(number: f64) -> Option<String> {
    let text = match number {
        number if number.is_nan() => "NaN",
        f64::INFINITY => "Infinity",
        f64::NEG_INFINITY => "-Infinity",
        _ => return None,
    };
    Some(text.to_owned())
}

/// The text of `%s`. Inside of lists and maps texts have quotes, and times name their type.
fn shown(value: &Val, inside: bool) -> Option<String> {
    Some(match value {
        Val::List(list) => {
            let items: Option<Vec<String>> =
                list.items.iter().map(|item| shown(item, true)).collect();
            format!("[{}]", items?.join(", "))
        }
        Val::Map(map) => {
            let entry = |(key, value): (&Key, &Val)| {
                Some(format!(
                    "{}:{}",
                    shown(&key.to_val(), true)?,
                    shown(value, true)?
                ))
            };
            let entries: Option<Vec<String>> = map.iter().map(entry).collect();
            format!("{{{}}}", entries?.join(", "))
        }
        Val::Text(text) if inside => format!("\"{text}\""),
        Val::Bytes(bytes) => {
            let text = String::from_utf8_lossy(bytes);
            if inside {
                format!("b\"{text}\"")
            } else {
                text.into_owned()
            }
        }
        Val::Double(number) if inside => fixed(*number, DEFAULT_PRECISION),
        Val::Timestamp(at) if inside => format!("timestamp(\"{at}\")"),
        Val::Duration(_) if inside => format!("duration(\"{}\")", convert::show(value)?),
        value => return convert::show(value),
    })
}
