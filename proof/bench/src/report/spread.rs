//! The spread of repeated measurements.

/// Median, smallest and largest value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// The spread of the finite values; `None` if there are none.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().filter(|v| v.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let min = *values.first()?;
        let max = *values.last()?;
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 {
            values[middle]
        } else {
            f64::midpoint(values[middle - 1], values[middle])
        };
        Some(Self { median, min, max })
    }

    /// As text, such as `0.44 (0.41..0.47)`; without the range if it has no width.
    pub(crate) fn text(&self) -> String {
        let [median, min, max] = [self.median, self.min, self.max].map(|v| format!("{v:.2}"));
        if min == max {
            return median;
        }
        format!("{median} ({min}..{max})")
    }
}

/// A measured value with about three digits, such as `0.42`, `13.5` and `12,345`.
pub(crate) fn number(value: f64) -> String {
    match value {
        ..10.0 if value.fract() != 0.0 => format!("{value:.2}"),
        ..100.0 if value.fract() != 0.0 => format!("{value:.1}"),
        _ => {
            let digits = format!("{value:.0}");
            let mut text = String::new();
            for (index, digit) in digits.chars().enumerate() {
                if index > 0 && (digits.len() - index).is_multiple_of(3) {
                    text.push(',');
                }
                text.push(digit);
            }
            text
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_is_between_the_middle_values() {
        // (values, median, smallest, largest)
        let cases: [(&[f64], [f64; 3]); 4] = [
            (&[2.0], [2.0, 2.0, 2.0]),
            (&[3.0, 1.0, 2.0], [2.0, 1.0, 3.0]),
            (&[4.0, 1.0, 2.0, 3.0], [2.5, 1.0, 4.0]),
            (&[f64::NAN, 1.0, f64::INFINITY], [1.0, 1.0, 1.0]),
        ];
        for (values, [median, min, max]) in cases {
            let spread = Spread::of(values.iter().copied());
            assert_eq!(spread, Some(Spread { median, min, max }), "{values:?}");
        }
        assert_eq!(Spread::of([f64::NAN]), None, "a division by zero");
    }

    #[test]
    fn numbers_have_about_three_digits() {
        let cases = [
            (0.0, "0"),
            (0.4217, "0.42"),
            (13.52, "13.5"),
            (20.0, "20"),
            (999.6, "1,000"),
            (1_234_567.0, "1,234,567"),
        ];
        for (value, expected) in cases {
            assert_eq!(number(value), expected);
        }
    }

    #[test]
    fn a_single_value_has_no_range() {
        let text = |values: &[f64]| Spread::of(values.iter().copied()).map(|s| s.text());
        assert_eq!(text(&[0.5]).as_deref(), Some("0.50"));
        assert_eq!(text(&[0.501, 0.502]).as_deref(), Some("0.50"));
        assert_eq!(
            text(&[0.4, 0.6, 0.45]).as_deref(),
            Some("0.45 (0.40..0.60)")
        );
    }
}
