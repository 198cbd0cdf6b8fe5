//! The errors of the parser. Their texts are upstream's, because users see them in Events.

use steersman_options::duration::ParseDurationError;

use super::zone::ZoneError;

/// A text is no schedule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    #[error("empty spec string")]
    Empty,
    /// Nothing follows a zone. Upstream's parser panics there, and this is the recovered text.
    #[error("invalid schedule format: runtime error: slice bounds out of range [:-1]")]
    NoFields,
    #[error("provided bad location {name}: {source}")]
    Zone { name: String, source: ZoneError },
    #[error("unrecognized descriptor: {0}")]
    Descriptor(String),
    #[error("failed to parse duration {text}: {source}")]
    Duration {
        text: String,
        source: ParseDurationError,
    },
    #[error("expected exactly 5 fields, found {found}: [{fields}]")]
    Count { found: usize, fields: String },
    #[error("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: {reason}")]
    Number { text: String, reason: &'static str },
    #[error("negative number ({number}) not allowed: {text}")]
    Negative { number: i64, text: String },
    #[error("too many hyphens: {0}")]
    Hyphens(String),
    #[error("too many slashes: {0}")]
    Slashes(String),
    #[error("beginning of range ({start}) below minimum ({least}): {text}")]
    TooLow {
        start: u64,
        least: u64,
        text: String,
    },
    #[error("end of range ({end}) above maximum ({most}): {text}")]
    TooHigh { end: u64, most: u64, text: String },
    #[error("beginning of range ({start}) beyond end of range ({end}): {text}")]
    Reversed { start: u64, end: u64, text: String },
    #[error("step of range should be a positive number: {0}")]
    ZeroStep(String),
}
