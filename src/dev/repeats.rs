//! Lines of the log that come again and again, such as the error of a sync that is retried.

use std::collections::HashMap;

/// Different lines that are counted. A new count begins after them.
const KINDS: usize = 1000;

/// Counts warnings and errors that are equal but for their time.
#[derive(Default)]
pub(super) struct Repeats(HashMap<String, u32>);

impl Repeats {
    /// The line to show, with its number at the 2nd, 4th, 8th time and so on; `None` between them.
    pub(super) fn shown(&mut self, line: &str) -> Option<String> {
        let text = line
            .split_once("] ")
            .map(|(_, text)| text)
            .filter(|_| line.starts_with(['W', 'E']));
        let Some(text) = text else {
            return Some(line.to_owned());
        };
        if self.0.len() >= KINDS && !self.0.contains_key(text) {
            self.0.clear();
        }
        let count = self.0.entry(text.to_owned()).or_default();
        *count += 1;
        match *count {
            1 => Some(line.to_owned()),
            count if count.is_power_of_two() => Some(format!("{line} ({count} times)")),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is shown of these lines.
    fn shown(lines: &[&str]) -> Vec<String> {
        let mut repeats = Repeats::default();
        lines
            .iter()
            .filter_map(|line| repeats.shown(line))
            .collect()
    }

    #[test]
    fn an_error_that_comes_again_is_shown_ever_more_rarely() {
        let lines: Vec<String> = (10..19)
            .map(|second| {
                format!("E1128 12:00:{second}.0 1 workers.rs:9] \"sync failed\" key=\"a\"")
            })
            .collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let expected = [
            lines[0].to_owned(),
            format!("{} (2 times)", lines[1]),
            format!("{} (4 times)", lines[3]),
            format!("{} (8 times)", lines[7]),
        ];
        assert_eq!(shown(&lines), expected);
    }

    #[test]
    fn other_errors_and_other_lines_are_all_shown() {
        let lines = [
            "E1128 12:00:10.0 1 a.rs:9] \"sync failed\" key=\"a\"",
            "E1128 12:00:11.0 1 a.rs:9] \"sync failed\" key=\"b\"",
            "I1128 12:00:12.0 1 a.rs:9] \"started\"",
            "I1128 12:00:13.0 1 a.rs:9] \"started\"",
            "applied 1 object",
            "applied 1 object",
        ];
        assert_eq!(shown(&lines), lines);
    }

    #[test]
    fn the_counts_do_not_grow_without_end() {
        let mut repeats = Repeats::default();
        for number in 0..3 * KINDS {
            let line = format!("E1128 12:00:10.0 1 a.rs:9] {number}");
            assert_eq!(repeats.shown(&line), Some(line));
        }
        assert!(repeats.0.len() <= KINDS);
    }
}
