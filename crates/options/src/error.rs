//! Errors of the command line, with the messages of upstream's flag library.

use super::{Flag, flags};

/// An invalid command line. `Display` is upstream's text after `Error: `.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct UsageError {
    text: String,
    /// Whether to print the usage text before the error.
    pub show_usage: bool,
    /// A flag that the user may have meant, without dashes.
    pub suggestion: Option<&'static str>,
}

impl UsageError {
    /// An error about a flag, with this message.
    pub fn flag(text: String) -> Self {
        Self {
            text,
            show_usage: true,
            suggestion: None,
        }
    }

    /// An error without the usage text.
    pub fn plain(text: String) -> Self {
        Self {
            text,
            show_usage: false,
            suggestion: None,
        }
    }

    /// An unknown flag, with a suggestion if a similar one exists.
    pub fn unknown_flag(name: &str) -> Self {
        Self {
            suggestion: nearest(name),
            ..Self::flag(format!("unknown flag: --{name}"))
        }
    }

    /// A value that the flag does not accept.
    pub fn invalid(flag: &Flag, text: &str, reason: &str) -> Self {
        let name = match short_of(flag) {
            Some(short) => format!("-{short}, --{}", flag.name),
            None => format!("--{}", flag.name),
        };
        Self::flag(format!(
            "invalid argument {text:?} for {name:?} flag: {reason}"
        ))
    }
}

/// The most similar flag, if it is similar enough to be meant.
fn nearest(name: &str) -> Option<&'static str> {
    let likeness = |flag: &'static Flag| (strsim::jaro_winkler(name, flag.name), flag.name);
    let best = flags().map(likeness).max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best.0 > 0.87).then_some(best.1)
}

/// The short form of a flag; only two have one.
pub fn short_of(flag: &Flag) -> Option<char> {
    match flag.name {
        "v" => Some('v'),
        "help" => Some('h'),
        _ => None,
    }
}
