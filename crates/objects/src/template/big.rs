//! Natural numbers of any size, with the operations that quantities need.
//!
//! The dump of a large quantity contains the words of Go's `big.Int`, so it needs exact arithmetic
//! beyond 128 bits. The few operations here avoid a dependency.

use std::cmp::Ordering;

/// Words of 64 bits in little-endian order, as in Go's `big.Int`. The last word is never zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Natural(Vec<u64>);

impl Natural {
    /// The number with these decimal digits.
    pub(super) fn from_digits(digits: impl Iterator<Item = u8>) -> Self {
        let mut number = Self(Vec::new());
        for digit in digits {
            number.multiply_add(10, u64::from(digit - b'0'));
        }
        number
    }

    /// The words of 64 bits, least significant first; empty for zero.
    pub(super) fn words(&self) -> &[u64] {
        &self.0
    }

    pub(super) fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    /// `self * factor + addend`.
    pub(super) fn multiply_add(&mut self, factor: u64, addend: u64) {
        let mut carry = u128::from(addend);
        for word in &mut self.0 {
            carry += u128::from(*word) * u128::from(factor);
            *word = carry as u64;
            carry >>= 64;
        }
        if carry > 0 {
            self.0.push(carry as u64);
        }
    }

    /// Divides by ten and returns the remainder.
    pub(super) fn divide_by_ten(&mut self) -> u64 {
        let mut remainder = 0;
        for word in self.0.iter_mut().rev() {
            let part = (u128::from(remainder) << 64) | u128::from(*word);
            *word = (part / 10) as u64;
            remainder = (part % 10) as u64;
        }
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
        remainder
    }

    /// Multiplies by `10^exponent`, and rounds the result up to an integer.
    pub(super) fn scale_up(&mut self, exponent: i32) {
        for _ in 0..exponent {
            self.multiply_add(10, 0);
        }
        let mut inexact = false;
        for _ in exponent..0 {
            // Zero stays zero, however negative the exponent is.
            if self.is_zero() {
                break;
            }
            inexact |= self.divide_by_ten() != 0;
        }
        if inexact {
            self.multiply_add(1, 1);
        }
    }

    /// The decimal digits as ASCII, least significant first; empty for zero.
    pub(super) fn into_digits(mut self) -> Vec<u8> {
        let mut digits = Vec::new();
        while !self.is_zero() {
            digits.push(b'0' + self.divide_by_ten() as u8);
        }
        digits
    }
}

impl PartialOrd for Natural {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Natural {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_length = self.0.len().cmp(&other.0.len());
        by_length.then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(digits: &str) -> Natural {
        Natural::from_digits(digits.bytes())
    }

    #[test]
    fn digits_are_equal_after_conversion_to_words_and_back() {
        for digits in [
            "",
            "7",
            "18446744073709551615",
            "18446744073709551616",
            "340282366920938463463374607431768211456",
        ] {
            let back: Vec<u8> = number(digits).into_digits().into_iter().rev().collect();
            assert_eq!(String::from_utf8(back).unwrap(), digits);
        }
        assert_eq!(number("18446744073709551616").words(), [0, 1]);
        assert_eq!(number("000"), number(""));
    }

    #[test]
    fn scaling_rounds_up() {
        // (digits, exponent, result)
        let cases = [
            ("15", 2, "1500"),
            ("15", 0, "15"),
            ("1500", -2, "15"),
            ("1501", -2, "16"),
            ("1", -400, "1"),
            ("", -3, ""),
        ];
        for (digits, exponent, result) in cases {
            let mut scaled = number(digits);
            scaled.scale_up(exponent);
            assert_eq!(scaled, number(result), "{digits}e{exponent}");
        }
    }

    #[test]
    fn numbers_are_ordered_by_value() {
        assert!(number("18446744073709551616") > number("18446744073709551615"));
        assert!(number("36893488147419103232") > number("18446744073709551617"));
        assert!(number("") < number("1"));
    }
}
