//! Resource quantities such as `100m`, `1Gi` and `1e3`.
//!
//! Amounts are exact, in units of 10^-9. Rounding, caps and canonical forms are those of upstream's
//! `apimachinery/pkg/api/resource`.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::de::{self, Deserialize, Deserializer, Visitor};

/// The text of upstream's parse errors.
pub const BAD_QUANTITY: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

/// Nano-units in one unit. Quantities have no smaller fraction.
const NANOS: i128 = 1_000_000_000;

/// Nano-units in a thousandth.
const NANOS_OF_MILLI: i128 = NANOS / 1000;

const DECIMAL: [(&str, i32); 10] = [
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];
const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// The format of a quantity's text. Its canonical form keeps the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Decimal,
    Exponent,
    Binary,
}

/// An exact amount. Comparisons ignore the format.
#[derive(Debug, Clone, Copy)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

impl Quantity {
    /// Parses a quantity; `None` for other texts. Fractions below 10^-9 round away from zero.
    pub fn parse(text: &str) -> Option<Quantity> {
        let Parts {
            negative,
            whole,
            fraction,
            suffix,
        } = Parts::of(text)?;
        let append = |number: i128, digit: u8| {
            let digit = i128::from(digit - b'0');
            number.checked_mul(10)?.checked_add(digit)
        };
        let mut digits = whole.bytes().chain(fraction.bytes());
        let digits = digits.try_fold(0, append)?;
        let scale = i32::try_from(fraction.len()).ok()?;
        let (exponent, factor, format) = unit(suffix)?;
        let scaled = digits.saturating_mul(factor);
        let nanos = match exponent - scale + 9 {
            up @ 0.. => scaled.saturating_mul(10_i128.saturating_pow(up.unsigned_abs())),
            down => {
                let divisor = 10_i128.saturating_pow(down.unsigned_abs());
                scaled / divisor + i128::from(scaled % divisor != 0)
            }
        };
        // Upstream caps amounts with a binary suffix at the largest int64, and no others.
        let nanos = if format == Format::Binary {
            nanos.min(i128::from(i64::MAX) * NANOS)
        } else {
            nanos
        };
        Some(Quantity {
            nanos: if negative { -nanos } else { nanos },
            format,
        })
    }

    /// The text that a server stores for `text`; `None` for other texts. Upstream keeps texts that
    /// pass a quick check for the canonical form, such as `1234.567`, `1E3` and `+1`. It stores all
    /// others in canonical form.
    pub fn stored(text: &str) -> Option<String> {
        let Parts {
            whole,
            fraction,
            suffix,
            ..
        } = Parts::of(text)?;
        let (exponent, _, format) = unit(suffix)?;
        let places = exponent - i32::try_from(fraction.len()).ok()?;
        let digits = format!("{}{fraction}", if whole.is_empty() { "0" } else { whole });
        let is_kept = format != Format::Binary
            && digits.len() <= 18
            && places >= -9
            && places % 3 == 0
            && !digits.starts_with('0')
            && !digits.ends_with("000");
        if is_kept {
            Some(text.to_owned())
        } else {
            Some(Self::parse(text)?.canonical())
        }
    }

    /// Whether `text` is an integer of at most three digits with a usual suffix, such as `100m`. Such
    /// a text is canonical, and a multiple of a thousandth. Most amounts in objects are plain.
    pub fn is_plain(text: &str) -> bool {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        (1..=3).contains(&digits)
            && !text.starts_with('0')
            && matches!(
                &text[digits..],
                "" | "m" | "k" | "M" | "G" | "Ki" | "Mi" | "Gi"
            )
    }

    /// The text of an amount rounded up to thousandths, if it has smaller fractions.
    /// Upstream: SetDefaults_ResourceList.
    pub fn in_thousandths(text: &str) -> Option<String> {
        if Self::is_plain(text) {
            return None;
        }
        const MILLI: i128 = NANOS / 1000;
        let quantity = Self::parse(text).filter(|quantity| quantity.nanos % MILLI != 0)?;
        let nanos = rounded(quantity.nanos, MILLI) * MILLI;
        Some(Self { nanos, ..quantity }.canonical())
    }

    /// An integer amount.
    pub fn whole(number: i64) -> Quantity {
        Quantity {
            nanos: i128::from(number) * NANOS,
            format: Format::Decimal,
        }
    }

    /// An amount of thousandths, such as `500m`.
    pub fn milli(thousandths: i64) -> Quantity {
        Quantity {
            nanos: i128::from(thousandths) * NANOS_OF_MILLI,
            format: Format::Decimal,
        }
    }

    /// An amount of thousandths with a binary suffix if it has one, such as `120Mi`.
    pub fn milli_binary(thousandths: i64) -> Quantity {
        Quantity {
            format: Format::Binary,
            ..Self::milli(thousandths)
        }
    }

    /// The amount in thousandths. Smaller fractions round away from zero, and amounts beyond 64 bits
    /// are cut. Upstream: `MilliValue`.
    pub fn milli_value(self) -> i64 {
        let milli = rounded(self.nanos, NANOS_OF_MILLI);
        milli.clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }

    /// The sum in the format of `self`, or of `other` if `self` is zero.
    pub fn plus(self, other: Quantity) -> Quantity {
        let format = if self.is_zero() {
            other.format
        } else {
            self.format
        };
        Quantity {
            nanos: self.nanos.saturating_add(other.nanos),
            format,
        }
    }

    /// The amount above `other`; zero if `self` is smaller.
    pub fn beyond(self, other: Quantity) -> Quantity {
        Quantity {
            nanos: self.nanos.saturating_sub(other.nanos).max(0),
            format: self.format,
        }
    }

    /// The amount in whole units, rounded away from zero. Upstream: `RoundUp(0)`.
    pub fn rounded_up(self) -> Quantity {
        Quantity {
            nanos: rounded(self.nanos, NANOS) * NANOS,
            format: self.format,
        }
    }

    /// The same amount with the opposite sign.
    pub fn negated(self) -> Quantity {
        Quantity {
            nanos: -self.nanos,
            format: self.format,
        }
    }

    /// The amount, if it is an integer of 64 bits.
    pub fn to_i64(self) -> Option<i64> {
        let whole = (self.nanos % NANOS == 0).then_some(self.nanos / NANOS)?;
        i64::try_from(whole).ok()
    }

    /// The approximate amount.
    pub fn to_f64(self) -> f64 {
        self.nanos as f64 / NANOS as f64
    }

    /// Whether the amount is below zero.
    pub fn is_negative(&self) -> bool {
        self.nanos < 0
    }

    /// Whether the amount is exactly zero.
    pub fn is_zero(&self) -> bool {
        self.nanos == 0
    }

    /// The amount in whole units. Fractions round away from zero.
    pub fn units(&self) -> i128 {
        rounded(self.nanos, NANOS)
    }

    /// Whether the amount has no thousandths. Smaller fractions round to one.
    pub fn is_integer(&self) -> bool {
        rounded(self.nanos, NANOS_OF_MILLI) % 1000 == 0
    }

    /// The canonical text of this amount in its format.
    pub fn canonical(&self) -> String {
        let binary_fits = self.nanos.abs() >= 1024 * NANOS && self.nanos % NANOS == 0;
        match self.format {
            Format::Binary if binary_fits => binary(self.nanos / NANOS),
            Format::Exponent => decimal(self.nanos, |exponent| match exponent {
                0 => String::new(),
                e => format!("e{e}"),
            }),
            _ => decimal(self.nanos, |exponent| {
                DECIMAL
                    .iter()
                    .find(|(_, e)| *e == exponent)
                    .map_or_else(String::new, |(s, _)| (*s).to_owned())
            }),
        }
    }
}

/// `amount` by `divisor`, rounded away from zero.
fn rounded(amount: i128, divisor: i128) -> i128 {
    amount / divisor + amount.signum() * i128::from(amount % divisor != 0)
}

/// The parts of a quantity's text.
struct Parts<'a> {
    negative: bool,
    /// Without leading zeros.
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

impl<'a> Parts<'a> {
    fn of(text: &'a str) -> Option<Self> {
        let (negative, unsigned) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let end = unsigned
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
            return None;
        }
        Some(Self {
            negative,
            whole: whole.trim_start_matches('0'),
            fraction,
            suffix,
        })
    }
}

/// A text that is no quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{BAD_QUANTITY}")]
pub struct QuantityError;

impl FromStr for Quantity {
    type Err = QuantityError;
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        Self::parse(text).ok_or(QuantityError)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    /// Decodes a string. A JSON number counts as its decimal text.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct QuantityVisitor;
        impl Visitor<'_> for QuantityVisitor {
            type Value = Quantity;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Quantity, E> {
                self.visit_str(&number.to_string())
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Quantity, E> {
                self.visit_str(&number.to_string())
            }
            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Quantity, E> {
                self.visit_str(&number.to_string())
            }
        }
        deserializer.deserialize_any(QuantityVisitor)
    }
}

impl Eq for Quantity {}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.nanos.partial_cmp(&other.nanos)
    }
}

/// Power of ten, factor and format of a suffix.
fn unit(suffix: &str) -> Option<(i32, i128, Format)> {
    if let Some((_, exponent)) = DECIMAL.iter().find(|(s, _)| *s == suffix) {
        return Some((*exponent, 1, Format::Decimal));
    }
    if let Some(power) = BINARY.iter().position(|s| *s == suffix) {
        return Some((0, 1_i128 << (10 * (power + 1)), Format::Binary));
    }
    let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    (-40..=40)
        .contains(&exponent)
        .then_some((exponent, 1, Format::Exponent))
}

fn binary(mut value: i128) -> String {
    let mut suffix = "";
    for next in BINARY {
        if value % 1024 != 0 {
            break;
        }
        value /= 1024;
        suffix = next;
    }
    format!("{value}{suffix}")
}

fn decimal(mut value: i128, suffix: impl Fn(i32) -> String) -> String {
    let mut exponent = -9;
    while value != 0 && value % 1000 == 0 && exponent < 18 {
        value /= 1000;
        exponent += 3;
    }
    if value == 0 {
        exponent = 0;
    }
    format!("{value}{}", suffix(exponent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_quantities_are_canonical() {
        for suffix in ["", "m", "k", "M", "G", "Ki", "Mi", "Gi"] {
            for number in 1..1000 {
                let text = format!("{number}{suffix}");
                assert!(Quantity::is_plain(&text), "{text}");
                assert_eq!(Quantity::stored(&text), Some(text.clone()));
                let quantity = Quantity::parse(&text).unwrap();
                assert_eq!(quantity.nanos % (NANOS / 1000), 0, "{text}");
            }
        }
        for text in [
            "", "m", "0", "01", "1000", "1.5", "-1", "1n", "1u", "1e3", "1Kim",
        ] {
            assert!(!Quantity::is_plain(text), "{text}");
        }
    }

    #[test]
    fn quantities_have_one_canonical_form() {
        let cases = [
            ("0.5", "500m"),
            ("1000m", "1"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("100m", "100m"),
            ("512Ki", "512Ki"),
            ("0.1Gi", "107374182400m"),
            ("0.5Ki", "512"),
            ("1e3", "1e3"),
            ("1E3", "1e3"),
            ("1E", "1E"),
            ("12e5", "1200e3"),
            ("0", "0"),
            ("0Mi", "0"),
            ("-1000", "-1k"),
            ("1000000", "1M"),
            ("1500", "1500"),
            ("+1", "1"),
            (".5", "500m"),
            ("5.", "5"),
            ("0.0000000001", "1n"),
        ];
        for (text, canonical) in cases {
            assert_eq!(
                Quantity::parse(text).map(|q| q.canonical()).as_deref(),
                Some(canonical),
                "{text}"
            );
        }
    }

    #[test]
    fn texts_that_pass_for_canonical_are_kept() {
        let kept = [
            "1234.567",
            "10E",
            "1E3",
            "+1",
            "007",
            "1500",
            "129e6",
            "100m",
            "9223372036854775808",
            "12345678901234567890",
        ];
        for text in kept {
            assert_eq!(Quantity::stored(text).as_deref(), Some(text));
        }
        for (text, stored) in [
            ("0.5", "500m"),
            ("1000m", "1"),
            ("16Ei", "9223372036854775807"),
            ("12e5", "1200e3"),
        ] {
            assert_eq!(Quantity::stored(text).as_deref(), Some(stored), "{text}");
        }
    }

    #[test]
    fn other_texts_are_rejected() {
        // The last one exceeds 128 bits.
        let beyond = "170141183460469231731687303715884105728";
        for text in [
            "", "x", "1.2.3", "1x", "Mi", "1 Gi", "1gi", "-", "1e", "0x1", beyond,
        ] {
            assert!(Quantity::parse(text).is_none(), "{text}");
        }
        assert!(Quantity::parse("170141183460469231731687303715884105727").is_some());
    }

    #[test]
    fn amounts_of_resources_have_at_most_thousandths() {
        let rounded = |text| Quantity::in_thousandths(text);
        assert_eq!(rounded("1.0005").as_deref(), Some("1001m"));
        assert_eq!(rounded("-1u").as_deref(), Some("-1m"));
        assert_eq!(rounded("500m"), None);
        assert_eq!(rounded("1Gi"), None);
    }

    #[test]
    fn fractions_round_away_from_zero() {
        for (text, units, is_integer) in [
            ("3", 3, true),
            ("1500m", 2, false),
            ("-1500m", -2, false),
            ("999999u", 1, true),
            ("1n", 1, false),
        ] {
            let amount = Quantity::parse(text).unwrap();
            assert_eq!(
                (amount.units(), amount.is_integer()),
                (units, is_integer),
                "{text}"
            );
        }
    }

    #[test]
    fn thousandths_are_rounded_up() {
        // (text, thousandths)
        let cases = [
            ("4", Some(4000)),
            ("0", Some(0)),
            ("250m", Some(250)),
            ("1.5", Some(1500)),
            ("0.0001", Some(1)),
            ("100u", Some(1)),
            ("2k", Some(2_000_000)),
            ("1Ki", Some(1_024_000)),
            ("1e3", Some(1_000_000)),
            ("-2", Some(-2000)),
            ("9E", Some(i64::MAX)),
            ("1e-40", Some(1)),
            ("", None),
            ("4 cores", None),
        ];
        for (text, expected) in cases {
            assert_eq!(
                Quantity::parse(text).map(Quantity::milli_value),
                expected,
                "{text:?}"
            );
        }
    }

    /// Upstream: `TestBuildQuantity` in `pkg/controller/podautoscaler`.
    #[test]
    fn thousandths_have_the_texts_of_metrics() {
        // (thousandths, binary, text)
        let cases = [
            (500, false, "500m"),
            (2000, false, "2"),
            (0, false, "0"),
            (125_829_120_000, true, "120Mi"),
            (734_527_488_000, true, "717312Ki"),
            (894_784_853_333, true, "894784853333m"),
            (500, true, "500m"),
            (512_000, true, "512"),
            (0, true, "0"),
        ];
        for (milli, is_binary, text) in cases {
            let amount = if is_binary {
                Quantity::milli_binary(milli)
            } else {
                Quantity::milli(milli)
            };
            assert_eq!(amount.canonical(), text);
        }
    }

    #[test]
    fn json_strings_and_numbers_are_quantities() {
        let milli = |json: &str| {
            let quantity: Result<Quantity, _> = serde_json::from_str(json);
            quantity.ok().map(Quantity::milli_value)
        };
        // (JSON, thousandths)
        let cases = [
            (r#""250m""#, Some(250)),
            ("3", Some(3000)),
            ("-3", Some(-3000)),
            ("0.5", Some(500)),
            (r#""many""#, None),
            ("null", None),
        ];
        for (json, expected) in cases {
            assert_eq!(milli(json), expected, "{json}");
        }
    }

    #[test]
    fn comparisons_ignore_the_format() {
        assert!(Quantity::parse("1Gi") > Quantity::parse("1G"));
        assert!(Quantity::parse("1") == Quantity::parse("1000m"));
    }
}
