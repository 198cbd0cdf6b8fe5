//! Reasons to refuse a pattern, in the words of Go.

use std::fmt;

/// The kind of a fault in a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// A range whose end is before its start, or an unknown class.
    CharRange,
    /// An unknown escape.
    Escape,
    /// A group with an invalid name.
    NamedCapture,
    /// An unknown flag or kind of group.
    PerlOperator,
    /// A repetition of a repetition.
    RepeatOperator,
    /// A repetition of more than 1,000, or with a maximum below the minimum.
    RepeatSize,
    /// A class without its end.
    MissingBracket,
    /// A group without its end.
    MissingParenthesis,
    /// A repetition of nothing.
    MissingArgument,
    /// A backslash at the end.
    TrailingBackslash,
    /// The end of a group without its start.
    UnexpectedParenthesis,
    /// More than 1,000 levels.
    NestingDepth,
    /// Too large when compiled.
    Large,
}

impl Code {
    fn words(self) -> &'static str {
        match self {
            Code::CharRange => "invalid character class range",
            Code::Escape => "invalid escape sequence",
            Code::NamedCapture => "invalid named capture",
            Code::PerlOperator => "invalid or unsupported Perl syntax",
            Code::RepeatOperator => "invalid nested repetition operator",
            Code::RepeatSize => "invalid repeat count",
            Code::MissingBracket => "missing closing ]",
            Code::MissingParenthesis => "missing closing )",
            Code::MissingArgument => "missing argument to repetition operator",
            Code::TrailingBackslash => "trailing backslash at end of expression",
            Code::UnexpectedParenthesis => "unexpected )",
            Code::NestingDepth => "expression nests too deeply",
            Code::Large => "expression too large",
        }
    }
}

/// The fault of a pattern, and the part of the pattern that has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The kind of the fault.
    pub code: Code,
    /// The part of the pattern.
    pub part: String,
}

impl Refused {
    pub(crate) fn new(code: Code, part: impl Into<String>) -> Self {
        Self {
            code,
            part: part.into(),
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self.code.words();
        write!(f, "error parsing regexp: {words}: `{}`", self.part)
    }
}

impl std::error::Error for Refused {}
