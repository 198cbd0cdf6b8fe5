//! The text of an explanation, rendered from its data.

use std::fmt::Write as _;

use jiff::Timestamp;

use crate::{Code, Explanation, Reason, Role};

/// `4m10s`, `31 s`: the two largest units of a time.
pub fn age(seconds: i64) -> String {
    let seconds = seconds.max(0);
    let days = seconds / 86_400;
    let hours = seconds / 3_600 % 24;
    let minutes = seconds / 60 % 60;
    let rest = seconds % 60;
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{rest} s"),
        (0, 0, _) if rest == 0 => format!("{minutes}m"),
        (0, 0, _) => format!("{minutes}m{rest}s"),
        (0, _, 0) => format!("{hours}h"),
        (0, ..) => format!("{hours}h{minutes}m"),
        (_, 0, _) => format!("{days}d"),
        _ => format!("{days}d{hours}h"),
    }
}

/// `1 pod`, `2 pods`.
pub fn count(number: usize, noun: &str) -> String {
    let end = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{end}")
}

/// Names in one text.
const NAMES: usize = 4;

/// `there are fast, slow`: the objects that exist beside a missing one.
pub fn existing<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    let shown = names.iter().take(NAMES).copied().collect::<Vec<_>>();
    let shown = shown.join(", ");
    match names.len() {
        0 => "there is none".to_owned(),
        1 => format!("there is {shown}"),
        all if all > NAMES => format!("there are {shown} and {} more", all - NAMES),
        _ => format!("there are {shown}"),
    }
}

/// `9th`.
pub fn ordinal(number: u32) -> String {
    let end = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{end}")
}

fn ago(now: Timestamp, then: Timestamp) -> i64 {
    now.as_second() - then.as_second()
}

impl Explanation {
    /// The text for a terminal.
    pub fn text(&self, now: Timestamp) -> String {
        let mut text = self.object.long();
        self.headline(now, &mut text);
        self.body(now, 1, &mut text);
        text
    }

    fn headline(&self, now: Timestamp, text: &mut String) {
        // Writing to a String cannot fail.
        let _ = match self.since {
            Some(since) => writeln!(text, " {}, since {}", self.state, age(ago(now, since))),
            None => writeln!(text, " {}", self.state),
        };
    }

    fn body(&self, now: Timestamp, depth: usize, text: &mut String) {
        // The cause comes first, also if another object has it.
        let is_fact = |reason: &&Reason| reason.code.role() == Role::Fact;
        let (facts, first): (Vec<_>, Vec<_>) = self.reasons.iter().partition(is_fact);
        let (stuck, moving): (Vec<_>, Vec<_>) =
            self.waits_for.iter().partition(|other| other.is_stuck());
        for reason in first {
            reason.write(now, depth, text);
        }
        self.others(&stuck, now, depth, text);
        for reason in facts {
            reason.write(now, depth, text);
        }
        self.others(&moving, now, depth, text);
    }

    fn others(&self, others: &[&Self], now: Timestamp, depth: usize, text: &mut String) {
        for other in others {
            let same = other.object.namespace == self.object.namespace;
            let name = if same {
                other.object.short()
            } else {
                other.object.long()
            };
            let _ = write!(text, "{:indent$}{name}:", "", indent = depth * 2);
            other.headline(now, text);
            other.body(now, depth + 1, text);
        }
    }
}

impl Reason {
    fn write(&self, now: Timestamp, depth: usize, text: &mut String) {
        let indent = depth * 2;
        let _ = write!(text, "{:indent$}{}", "", self.line());
        let mut times = Vec::new();
        match (self.last_try, self.attempts) {
            (Some(last), attempts @ 1..) => times.push(format!(
                "last try {} ago (the {})",
                age(ago(now, last)),
                ordinal(attempts)
            )),
            (Some(last), 0) => times.push(format!("last try {} ago", age(ago(now, last)))),
            (None, _) => times.extend(
                self.since
                    .map(|since| format!("since {}", age(ago(now, since)))),
            ),
        }
        if let Some(next) = self.next_try
            && self.code != Code::NextRun
        {
            times.push(format!("next in {}", age(-ago(now, next))));
        }
        let times = times.join(", ");
        let line = [times.as_str(), self.by.as_str()]
            .into_iter()
            .filter(|part| !part.is_empty());
        let line: Vec<&str> = line.collect();
        if line.is_empty() {
            text.push('\n');
        } else {
            let _ = writeln!(text, "\n{:indent$}  [{}]", "", line.join("; "));
        }
        if !self.who.is_empty() {
            let _ = writeln!(text, "{:indent$}  who can act: {}", "", self.who);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_at_most_two_units() {
        let cases = [
            (-1, "0 s"),
            (59, "59 s"),
            (60, "1m"),
            (250, "4m10s"),
            (3_600, "1h"),
            (3_725, "1h2m"),
            (86_400, "1d"),
            (100_000, "1d3h"),
        ];
        for (seconds, text) in cases {
            assert_eq!(age(seconds), text);
        }
    }

    #[test]
    fn existing_names_are_told_in_english() {
        let cases = [
            ("", "there is none"),
            ("a", "there is a"),
            ("a b", "there are a, b"),
            ("a b c d e f", "there are a, b, c, d and 2 more"),
        ];
        for (names, text) in cases {
            assert_eq!(existing(names.split_whitespace()), text);
        }
    }

    #[test]
    fn ordinals_are_english() {
        let cases = [
            (1, "1st"),
            (2, "2nd"),
            (3, "3rd"),
            (4, "4th"),
            (11, "11th"),
            (22, "22nd"),
            (113, "113th"),
        ];
        for (number, text) in cases {
            assert_eq!(ordinal(number), text);
        }
    }
}
