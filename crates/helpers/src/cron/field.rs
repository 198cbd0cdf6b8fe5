//! One field of a schedule: a list of ranges, as a set of numbers.
//!
//! `1-3,10/15` in the field of minutes is {1, 2, 3, 10, 25, 40, 55}. Upstream: `getField` and
//! `getRange` in `parser.go`.

use std::num::IntErrorKind;

use super::error::ScheduleError;

/// The numbers and names that a field accepts.
pub(super) struct Bounds {
    least: u64,
    most: u64,
    /// Names of the numbers from `least` on.
    names: &'static [&'static str],
}

pub(super) const MINUTES: Bounds = Bounds {
    least: 0,
    most: 59,
    names: &[],
};
pub(super) const HOURS: Bounds = Bounds {
    least: 0,
    most: 23,
    names: &[],
};
pub(super) const DAYS_OF_MONTH: Bounds = Bounds {
    least: 1,
    most: 31,
    names: &[],
};
pub(super) const MONTHS: Bounds = Bounds {
    least: 1,
    most: 12,
    names: &[
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ],
};
pub(super) const DAYS_OF_WEEK: Bounds = Bounds {
    least: 0,
    most: 6,
    names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
};

/// The numbers of a field, as bits, and whether a range of the field was a star.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Set {
    numbers: u64,
    pub(super) is_star: bool,
}

impl Set {
    /// Parses a field. Empty members of the list are ignored, so `,` is an empty set.
    pub(super) fn parse(field: &str, bounds: &Bounds) -> Result<Self, ScheduleError> {
        let mut all = Self::default();
        for range in field.split(',').filter(|range| !range.is_empty()) {
            let set = Self::range(range, bounds)?;
            all.numbers |= set.numbers;
            all.is_star |= set.is_star;
        }
        Ok(all)
    }

    /// Parses `*`, `low`, or `low-high`, each with an optional `/step`.
    fn range(text: &str, bounds: &Bounds) -> Result<Self, ScheduleError> {
        let parts: Vec<&str> = text.split('/').collect();
        let ends: Vec<&str> = parts[0].split('-').collect();
        let mut is_star = matches!(ends[0], "*" | "?");
        // Text after the hyphen of `*-5` is ignored.
        let (start, mut end) = if is_star {
            (bounds.least, bounds.most)
        } else {
            let start = bounds.number_or_name(ends[0])?;
            match ends[..] {
                [_] => (start, start),
                [_, high] => (start, bounds.number_or_name(high)?),
                _ => return Err(ScheduleError::Hyphens(text.to_owned())),
            }
        };
        let step = match parts[..] {
            [_] => 1,
            [_, step] => {
                let step = number(step)?;
                // `10/15` means `10-59/15`.
                if ends.len() == 1 {
                    end = bounds.most;
                }
                is_star &= step <= 1;
                step
            }
            _ => return Err(ScheduleError::Slashes(text.to_owned())),
        };
        let least = bounds.least;
        let most = bounds.most;
        let text = text.to_owned();
        if start < least {
            return Err(ScheduleError::TooLow { start, least, text });
        }
        if end > most {
            return Err(ScheduleError::TooHigh { end, most, text });
        }
        if start > end {
            return Err(ScheduleError::Reversed { start, end, text });
        }
        let Some(step) = usize::try_from(step).ok().filter(|step| *step > 0) else {
            return Err(ScheduleError::ZeroStep(text));
        };
        let numbers = (start..=end)
            .step_by(step)
            .fold(0, |bits, number| bits | 1 << number);
        Ok(Self { numbers, is_star })
    }

    pub(super) fn is_empty(self) -> bool {
        self.numbers == 0
    }

    /// Whether the set has `number`, which must not be negative.
    pub(super) fn has(self, number: i8) -> bool {
        self.numbers >> number & 1 == 1
    }
}

impl Bounds {
    fn number_or_name(&self, text: &str) -> Result<u64, ScheduleError> {
        let name = text.to_lowercase();
        match (self.least..)
            .zip(self.names)
            .find(|(_, known)| **known == name)
        {
            Some((number, _)) => Ok(number),
            None => number(text),
        }
    }
}

/// Parses a decimal number as Go's `strconv.Atoi` does; signs and leading zeros are accepted.
fn number(text: &str) -> Result<u64, ScheduleError> {
    let number: i64 = text.parse().map_err(|error: std::num::ParseIntError| {
        let reason = match error.kind() {
            IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        ScheduleError::Number {
            text: text.to_owned(),
            reason,
        }
    })?;
    u64::try_from(number).map_err(|_| ScheduleError::Negative {
        number,
        text: text.to_owned(),
    })
}
