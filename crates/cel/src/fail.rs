//! Failures of evaluations.

use std::fmt;

/// Why an evaluation has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fail {
    /// The cost exceeded the limit.
    Cost,
    /// The words of cel-go.
    Error(String),
}

impl Fail {
    pub fn new(message: impl Into<String>) -> Self {
        Fail::Error(message.into())
    }

    pub(super) fn no_overload() -> Self {
        Self::new("no such overload")
    }
}

impl fmt::Display for Fail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fail::Cost => f.write_str("operation cancelled: actual cost limit exceeded"),
            Fail::Error(message) => f.write_str(message),
        }
    }
}
