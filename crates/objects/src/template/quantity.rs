//! Quantities: the value for the comparison of templates, and Go's dump for the template hash.
//!
//! Go's `resource.Quantity` has two forms, and the dump shows the form in use. Short numbers take
//! the fast path (`int64Amount`), and all others `inf.Dec`. The dump also contains the parsed text
//! if the text is canonical.
//!
//! Upstream: `k8s.io/apimachinery/pkg/api/resource`, `ParseQuantity` in `quantity.go`.

use std::fmt::{self, Write};

use super::big::Natural;

/// A parsed quantity: digits before and after the decimal point, and a suffix for a power of ten or
/// two. Borrows from the text.
pub(super) struct Quantity<'a> {
    text: &'a str,
    negative: bool,
    /// Digits before the decimal point without leading zeros, at least one digit.
    integer: &'a str,
    /// Digits after the decimal point.
    fraction: &'a str,
    suffix: Suffix,
}

#[derive(Clone, Copy)]
enum Suffix {
    /// `k`, `m` or empty: a power of ten.
    Decimal(i32),
    /// `e3`: a power of ten.
    Exponent(i32),
    /// `Ki`: a power of two.
    Binary(u32),
}

/// Limit of the absolute value of decimal exponents. The API server rejects larger exponents, and
/// exact arithmetic with them would take hours.
const MAX_EXPONENT: i32 = 4096;

impl<'a> Quantity<'a> {
    /// Parses a quantity; `None` for malformed text, which the API server rejects.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let number_end = unsigned
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(number_end);
        let (integer, fraction) = number.split_once('.').unwrap_or((number, ""));
        if integer.len() + fraction.len() == 0 || fraction.contains('.') {
            return None;
        }
        let integer = match integer.trim_start_matches('0') {
            "" => "0",
            digits => digits,
        };
        Some(Self {
            text,
            negative: text.starts_with('-'),
            integer,
            fraction,
            suffix: Suffix::parse(suffix)?,
        })
    }

    fn digits(&self) -> impl Iterator<Item = u8> + Clone {
        self.integer.bytes().chain(self.fraction.bytes())
    }

    /// Writes the value in a canonical form, so that equal values have equal texts. The form is a
    /// sign, digits without zeros at either end, and a power of ten: `-5e-1`.
    pub(super) fn write_value(&self, out: &mut String) {
        let mut number = Natural::from_digits(self.digits());
        let mut exponent = -(self.fraction.len() as i32);
        match self.suffix {
            Suffix::Decimal(power) | Suffix::Exponent(power) => exponent += power,
            Suffix::Binary(power) => number.multiply_add(1 << power, 0),
        }
        if number.is_zero() {
            return out.push('0');
        }
        let digits = number.into_digits();
        let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
        if self.negative {
            out.push('-');
        }
        out.extend(digits[zeros..].iter().rev().map(|digit| char::from(*digit)));
        write!(out, "e{}", exponent + zeros as i32).expect("writing to a String does not fail");
    }

    pub(super) fn is_zero(&self) -> bool {
        self.digits().all(|digit| digit == b'0')
    }

    /// Writes Go's dump of the quantity.
    pub(super) fn dump(&self, out: &mut impl Write) -> fmt::Result {
        if self.text == "0" {
            return write_small(out, 0, 0, "0", "DecimalSI");
        }
        let format = self.suffix.format();
        match self.small() {
            Some((value, scale)) => {
                let kept = if self.keeps_text(scale) {
                    self.text
                } else {
                    ""
                };
                write_small(out, value, scale, kept, format)
            }
            None => self.dump_big(out, format),
        }
    }

    /// Value and power of ten on Go's fast path; `None` for quantities on the slow path.
    fn small(&self) -> Option<(i64, i32)> {
        let digits = (self.integer.len() + self.fraction.len()) as i32;
        let (budget, scale) = match self.suffix {
            Suffix::Decimal(power) | Suffix::Exponent(power) => {
                (18 - digits, power - self.fraction.len() as i32)
            }
            Suffix::Binary(power) if self.fraction.is_empty() => {
                (15 - digits - (3 * power as i32) / 10 - 1, 0)
            }
            Suffix::Binary(_) => return None,
        };
        if budget < 0 || scale < -9 {
            return None;
        }
        let mut value = self
            .digits()
            .fold(0, |value, digit| value * 10 + i64::from(digit - b'0'));
        if let Suffix::Binary(power) = self.suffix {
            value = value.checked_mul(1 << power)?;
        }
        Some((if self.negative { -value } else { value }, scale))
    }

    /// Whether Go keeps the parsed text. It does so for texts that its parser takes as canonical.
    fn keeps_text(&self, scale: i32) -> bool {
        let digits = self.digits();
        match self.suffix {
            Suffix::Decimal(_) | Suffix::Exponent(_) => {
                let ends_in_zeros = self.integer.len() + self.fraction.len() >= 3
                    && digits
                        .clone()
                        .skip(self.integer.len() + self.fraction.len() - 3)
                        .all(|digit| digit == b'0');
                scale % 3 == 0 && !ends_in_zeros && !self.integer.starts_with('0')
            }
            // Eight divides a number exactly if it divides the number of the last three digits.
            Suffix::Binary(_) => {
                digits.fold(0, |last, digit| {
                    (last * 10 + u32::from(digit - b'0')) % 1000
                }) % 8
                    != 0
            }
        }
    }

    /// Writes Go's dump of a quantity on the slow path.
    fn dump_big(&self, out: &mut impl Write, mut format: &'static str) -> fmt::Result {
        // Go's slow path stores billionths, rounded up.
        let mut unscaled = Natural::from_digits(self.digits());
        let exponent = 9 - self.fraction.len() as i32;
        match self.suffix {
            Suffix::Decimal(power) | Suffix::Exponent(power) => unscaled.scale_up(exponent + power),
            Suffix::Binary(power) => {
                unscaled.multiply_add(1 << power, 0);
                unscaled.scale_up(exponent);
                // Go caps binary quantities at the largest int64, and prints those below one with
                // a decimal suffix.
                unscaled = unscaled.min(in_nanos(i64::MAX as u64));
                if !unscaled.is_zero() && unscaled < in_nanos(1) {
                    format = "DecimalSI";
                }
            }
        }
        let negative = self.negative;
        write!(
            out,
            "{{i:(resource.int64Amount){{value:(int64)0 scale:(resource.Scale)0}} d:(resource.infDecAmount){{"
        )?;
        write!(
            out,
            "Dec:(*inf.Dec){{unscaled:(big.Int){{neg:(bool){negative} abs:(big.nat)"
        )?;
        if unscaled.is_zero() {
            out.write_str("<nil>")?;
        } else {
            for (n, word) in unscaled.words().iter().enumerate() {
                write!(out, "{}{word}", if n == 0 { "[" } else { " " })?;
            }
            out.write_str("]")?;
        }
        write!(
            out,
            "}} scale:(inf.Scale)9}}}} s:(string) Format:(resource.Format){format}}}"
        )
    }
}

impl Suffix {
    fn parse(text: &str) -> Option<Self> {
        let decimal = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
        let binary = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
        if let Some(index) = decimal.iter().position(|suffix| *suffix == text) {
            return Some(Self::Decimal(3 * index as i32 - 9));
        }
        if let Some(index) = binary.iter().position(|suffix| *suffix == text) {
            return Some(Self::Binary(10 * (index as u32 + 1)));
        }
        let exponent = text.strip_prefix(['e', 'E'])?.parse::<i32>().ok()?;
        Some(Self::Exponent(exponent.clamp(-MAX_EXPONENT, MAX_EXPONENT)))
    }

    fn format(self) -> &'static str {
        match self {
            Self::Decimal(_) => "DecimalSI",
            Self::Exponent(_) => "DecimalExponent",
            Self::Binary(_) => "BinarySI",
        }
    }
}

/// Writes Go's dump of an unset quantity.
pub(super) fn dump_unset(out: &mut impl Write) -> fmt::Result {
    write_small(out, 0, 0, "", "")
}

/// Writes Go's dump of a quantity on the fast path. `text` is the kept text, which may be empty.
fn write_small(
    out: &mut impl Write,
    value: i64,
    scale: i32,
    text: &str,
    format: &str,
) -> fmt::Result {
    write!(
        out,
        "{{i:(resource.int64Amount){{value:(int64){value} scale:(resource.Scale){scale}}} \
         d:(resource.infDecAmount){{Dec:(*inf.Dec)<nil>}} s:(string){text} Format:(resource.Format){format}}}"
    )
}

/// `units` in billionths.
fn in_nanos(units: u64) -> Natural {
    let mut number = Natural::from_digits("1000000000".bytes());
    number.multiply_add(units, 0);
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_texts_are_equal_for_equal_values_only() {
        let classes: [&[&str]; 9] = [
            &["1", "1000m", "1.0", "01", "+1", "1e0", "0.001k", "1000000u"],
            &["0", "0m", "-0", "0.00", "0Ki"],
            &["1Gi", "1024Mi", "1048576Ki", "1073741824"],
            &["1G", "1000M", "1e9", "1E9", "1000000000"],
            &["-500m", "-0.5"],
            &["0.5Ki", "512"],
            &["1E", "1e18", "1000P"],
            &["16Ei", "18446744073709551616"],
            &["1n", "0.000000001", "1e-9"],
        ];
        let value = |text: &str| {
            let mut out = String::new();
            Quantity::parse(text)
                .unwrap_or_else(|| panic!("{text} is a quantity"))
                .write_value(&mut out);
            out
        };
        for class in classes {
            for text in class {
                assert_eq!(value(text), value(class[0]), "{text}");
                assert_eq!(
                    Quantity::parse(text).unwrap().is_zero(),
                    value(text) == "0",
                    "{text}"
                );
            }
        }
        let mut values: Vec<_> = classes.iter().map(|class| value(class[0])).collect();
        values.sort();
        values.dedup();
        assert_eq!(values.len(), classes.len());
    }

    #[test]
    fn malformed_quantities_are_rejected() {
        for text in [
            "", "-", ".", "1.2.3", "Mi", "1X", "1 Mi", "1e", "1ki", "--1",
        ] {
            assert!(Quantity::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn short_quantities_are_dumped_like_the_fast_path_of_go() {
        // (text, value, scale, kept text, format)
        let cases = [
            ("500m", 500, -3, "500m", "DecimalSI"),
            ("1", 1, 0, "1", "DecimalSI"),
            ("1500k", 1500, 3, "1500k", "DecimalSI"),
            ("1000", 1000, 0, "", "DecimalSI"),
            ("129e6", 129, 6, "129e6", "DecimalExponent"),
            ("100Mi", 104_857_600, 0, "100Mi", "BinarySI"),
            ("64Mi", 67_108_864, 0, "", "BinarySI"),
            ("1Gi", 1_073_741_824, 0, "1Gi", "BinarySI"),
            ("-1", -1, 0, "-1", "DecimalSI"),
            ("0.5", 5, -1, "", "DecimalSI"),
            ("1234.567", 1_234_567, -3, "1234.567", "DecimalSI"),
            ("0", 0, 0, "0", "DecimalSI"),
        ];
        for (text, value, scale, kept, format) in cases {
            let mut found = String::new();
            let mut expected = String::new();
            Quantity::parse(text).unwrap().dump(&mut found).unwrap();
            write_small(&mut expected, value, scale, kept, format).unwrap();
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn large_or_small_quantities_are_dumped_like_the_slow_path_of_go() {
        // (case, text, words, format)
        let cases = [
            (
                "too many digits",
                "1Pi",
                "[2882303761517117440 61035]",
                "BinarySI",
            ),
            (
                "capped at the largest i64",
                "16Ei",
                "[18446744072709551616 499999999]",
                "BinarySI",
            ),
            (
                "binary with a fraction",
                "0.5Ki",
                "[512000000000]",
                "BinarySI",
            ),
            ("binary below one", "0.0001Ki", "[102400000]", "DecimalSI"),
            ("rounded up to a billionth", "0.1n", "[1]", "DecimalSI"),
            (
                "beyond i64",
                "18446744073709551616",
                "[0 1000000000]",
                "DecimalSI",
            ),
        ];
        for (case, text, words, format) in cases {
            let mut found = String::new();
            Quantity::parse(text).unwrap().dump(&mut found).unwrap();
            let expected = format!(
                "{{i:(resource.int64Amount){{value:(int64)0 scale:(resource.Scale)0}} d:(resource.infDecAmount){{\
                 Dec:(*inf.Dec){{unscaled:(big.Int){{neg:(bool)false abs:(big.nat){words}}} scale:(inf.Scale)9}}}} \
                 s:(string) Format:(resource.Format){format}}}"
            );
            assert_eq!(found, expected, "{case}");
        }
    }
}
