//! Values of scalars, as `go.yaml.in/yaml/v2` finds them: YAML 1.1 with `0644`, `0b1`, `1_000` and `yes`.
//!
//! Timestamps stay texts. Upstream: `resolve.go` of that package.

use std::sync::LazyLock;

use base64::Engine;
use regex::Regex;

use crate::schema::typed_form::ANY_LAST_BITS;

/// The value of a scalar.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Scalar {
    Null,
    Bool(bool),
    Int(i64),
    /// A whole number that is above all of `i64`.
    Unsigned(u64),
    Float(f64),
    Text(String),
}

const TRUE: &[&str] = &[
    "y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON",
];
const FALSE: &[&str] = &[
    "n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF",
];
const NULL: &[&str] = &["", "~", "null", "Null", "NULL"];
const NAN: &[&str] = &[".nan", ".NaN", ".NAN"];
const INFINITE: &[&str] = &[".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"];
const NEGATIVE_INFINITE: &[&str] = &["-.inf", "-.Inf", "-.INF"];

/// The prefix of the tags that YAML itself defines.
const CORE: &str = "tag:yaml.org,2002:";

static FLOAT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$")
        .expect("the expression is valid")
});

/// The value of a plain scalar without a tag.
pub(super) fn plain(text: &str) -> Scalar {
    named(text)
        .or_else(|| number(text))
        .unwrap_or_else(|| Scalar::Text(text.to_owned()))
}

/// The value of a scalar with a tag. A tag of another kind than the value is an error.
pub(super) fn tagged(tag: &str, text: &str) -> Result<Scalar, String> {
    let resolved = match tag.strip_prefix(CORE) {
        Some("binary") => return binary(text),
        Some("bool" | "int" | "float" | "null" | "timestamp") => plain(text),
        _ => return Ok(Scalar::Text(text.to_owned())),
    };
    match (&tag[CORE.len()..], resolved) {
        ("float", Scalar::Int(int)) => Ok(Scalar::Float(int as f64)),
        ("bool", value @ Scalar::Bool(_))
        | ("int", value @ (Scalar::Int(_) | Scalar::Unsigned(_)))
        | ("float", value @ Scalar::Float(_))
        | ("null", value @ Scalar::Null)
        | ("timestamp", value @ Scalar::Text(_)) => Ok(value),
        (wanted, value) => Err(format!(
            "yaml: cannot decode !!{} `{text}` as a !!{wanted}",
            value.tag()
        )),
    }
}

fn binary(text: &str) -> Result<Scalar, String> {
    let encoded: String = text.split(['\n', '\r']).collect();
    let bytes = ANY_LAST_BITS
        .decode(encoded)
        .map_err(|_| "yaml: !!binary value contains invalid base64 data")?;
    Ok(Scalar::Text(String::from_utf8_lossy(&bytes).into_owned()))
}

fn named(text: &str) -> Option<Scalar> {
    let table = [
        (TRUE, Scalar::Bool(true)),
        (FALSE, Scalar::Bool(false)),
        (NULL, Scalar::Null),
        (NAN, Scalar::Float(f64::NAN)),
        (INFINITE, Scalar::Float(f64::INFINITY)),
        (NEGATIVE_INFINITE, Scalar::Float(f64::NEG_INFINITY)),
    ];
    let (_, value) = table.into_iter().find(|(names, _)| names.contains(&text))?;
    Some(value)
}

fn number(text: &str) -> Option<Scalar> {
    match text.as_bytes().first()? {
        b'.' => float(text),
        b'0'..=b'9' | b'+' | b'-' => {
            let text = text.replace('_', "");
            integer(&text).or_else(|| FLOAT.is_match(&text).then(|| float(&text)).flatten())
        }
        _ => None,
    }
}

fn float(text: &str) -> Option<Scalar> {
    let value: f64 = text.parse().ok()?;
    value.is_finite().then_some(Scalar::Float(value))
}

/// Upstream: Go's `strconv.ParseInt` and `ParseUint` with base 0.
fn integer(text: &str) -> Option<Scalar> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let magnitude = magnitude(digits)?;
    let value = match text.strip_prefix('-') {
        Some(_) => -magnitude,
        None => magnitude,
    };
    let signed = i64::try_from(value).map(Scalar::Int).ok();
    signed.or_else(|| {
        let unsigned = u64::try_from(value).map(Scalar::Unsigned).ok();
        // `ParseUint` knows no sign.
        unsigned.filter(|_| digits == text)
    })
}

fn magnitude(digits: &str) -> Option<i128> {
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = match lower.as_bytes() {
        [b'0', b'x', _, ..] => (16, &lower[2..]),
        [b'0', b'o', _, ..] => (8, &lower[2..]),
        [b'0', b'b', _, ..] => (2, &lower[2..]),
        [b'0', _, ..] => (8, &lower[1..]),
        _ => (10, lower.as_str()),
    };
    let unsigned = digits.bytes().all(|byte| byte.is_ascii_alphanumeric());
    unsigned
        .then(|| i128::from_str_radix(digits, radix).ok())
        .flatten()
}

impl Scalar {
    /// The short name of the tag that fits the value.
    fn tag(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "bool",
            Self::Int(_) | Self::Unsigned(_) => "int",
            Self::Float(_) => "float",
            Self::Text(_) => "str",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Upstream: the cases of `decode_test.go` of `go.yaml.in/yaml/v2`.
    #[test]
    fn plain_scalars_have_the_values_of_go() {
        let text = |text: &str| Scalar::Text(text.to_owned());
        let cases = [
            ("0644", Scalar::Int(0o644)),
            ("0o644", Scalar::Int(0o644)),
            ("-0744", Scalar::Int(-0o744)),
            ("0", Scalar::Int(0)),
            ("-0", Scalar::Int(0)),
            ("08", Scalar::Float(8.0)),
            ("0b1010_0111", Scalar::Int(0b1010_0111)),
            ("-0b101", Scalar::Int(-5)),
            ("0x_0A_74", Scalar::Int(0xA74)),
            ("+685_230", Scalar::Int(685_230)),
            ("0xff", Scalar::Int(255)),
            ("0x", text("0x")),
            ("9223372036854775808", Scalar::Unsigned(1 << 63)),
            ("+9223372036854775808", Scalar::Float(9223372036854775808.0)),
            (
                "18446744073709551616",
                Scalar::Float(18446744073709551616.0),
            ),
            ("0xFFFFFFFFFFFFFFFF", Scalar::Unsigned(u64::MAX)),
            ("+0xFFFFFFFFFFFFFFFF", text("+0xFFFFFFFFFFFFFFFF")),
            ("0x10000000000000000", text("0x10000000000000000")),
            ("01777777777777777777777", Scalar::Unsigned(u64::MAX)),
            (
                "0b1000000000000000000000000000000000000000000000000000000000000000",
                Scalar::Unsigned(1 << 63),
            ),
            (
                "-9223372036854775809",
                Scalar::Float(-9223372036854775808.0),
            ),
            ("685.230_15e+03", Scalar::Float(685_230.15)),
            ("1e3", Scalar::Float(1000.0)),
            ("1.", Scalar::Float(1.0)),
            (".5", Scalar::Float(0.5)),
            ("-.5", Scalar::Float(-0.5)),
            ("1e400", text("1e400")),
            ("-.inf", Scalar::Float(f64::NEG_INFINITY)),
            ("12:30", text("12:30")),
            ("190:20:30", text("190:20:30")),
            ("2006-01-02", text("2006-01-02")),
            ("+", text("+")),
            ("1.2.3", text("1.2.3")),
            ("yes", Scalar::Bool(true)),
            ("OFF", Scalar::Bool(false)),
            ("yEs", text("yEs")),
            ("", Scalar::Null),
            ("~", Scalar::Null),
            ("nULL", text("nULL")),
        ];
        for (given, expected) in cases {
            assert_eq!(plain(given), expected, "{given}");
        }
    }

    #[test]
    fn a_tag_of_another_kind_than_the_value_is_an_error() {
        let tagged = |tag: &str, text| tagged(&format!("{CORE}{tag}"), text);
        assert_eq!(tagged("str", "5"), Ok(Scalar::Text("5".to_owned())));
        assert_eq!(tagged("float", "5"), Ok(Scalar::Float(5.0)));
        assert_eq!(tagged("int", "0x10"), Ok(Scalar::Int(16)));
        assert_eq!(tagged("binary", "YWJj"), Ok(Scalar::Text("abc".to_owned())));
        assert_eq!(tagged("binary", "YR=="), Ok(Scalar::Text("a".to_owned())));
        let why = "yaml: cannot decode !!str `x` as a !!int";
        assert_eq!(tagged("int", "x"), Err(why.to_owned()));
    }
}
