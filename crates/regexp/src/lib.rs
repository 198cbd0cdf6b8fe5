//! Regular expressions of Go. CustomResourceDefinitions (`pattern`) and expressions (`matches`, `find`)
//! contain them, and the API server accepts and refuses them as Go's package `regexp` does.
//!
//! pattern -> [`translate`] -> pattern of the crate `regex` -> [`compile`]
//!
//! The two dialects differ in these points:
//!
//! | pattern | Go | crate `regex` |
//! |---|---|---|
//! | `\d`, `\w`, `\s`, `\b` | ASCII | Unicode |
//! | `\s` | without the vertical tab | with it |
//! | `[[]`, `[a&&b]`, `[a--b]`, `[a~~b]` | characters | nested classes and set operations |
//! | `[\w-.]` | a hyphen | an invalid range |
//! | `{`, `a{,3}`, `a{01}` | characters | errors or repetitions |
//! | `a**`, `a{2}{3}`, `a{1001}`, `(a{100}){100}` | errors | repetitions |
//! | `\Q..\E`, `\101` | a quotation, an octal number | errors |
//! | `(?x)`, `(?u)`, `(?R)`, `\<`, `\u0041`, `\h` | errors, or the character | flags, assertions, escapes |
//! | `\p{Lu}` | categories and scripts by full name | further properties and aliases |
//!
//! One difference remains. Compiled forms here have the parts of UTF-8, so that few patterns of Go need more
//! than the limit of 64 MiB, such as `\pL{1000}` in a sequence of five. [`translate`] accepts them, and
//! [`compile`] refuses them as too large. A `pattern` of a definition then restricts nothing, and an
//! expression that uses one fails.
//!
//! Upstream: `regexp/syntax/parse.go` of Go 1.27, with the flags of `regexp.Compile`. Tables of
//! Unicode are those of the crate, so scripts that Unicode 17 added are known and empty.

mod class;
mod error;
mod names;
mod node;
mod parser;

pub use error::{Code, Refused};
pub use regex::Regex;

/// The largest compiled form in bytes. Go accepts patterns that compile to 128 MB.
const SIZE_LIMIT: usize = 64 << 20;
/// Each level of a pattern is at most two levels of its translation.
const NEST_LIMIT: u32 = 2 * parser::MAX_HEIGHT + 10;

/// The same pattern in the dialect of the crate `regex`, without named groups.
pub fn translate(pattern: &str) -> Result<String, Refused> {
    parser::Parser::new(pattern).parse()
}

/// Compiles a pattern of Go. A few that Go accepts are refused as too large.
pub fn compile(pattern: &str) -> Result<Regex, Refused> {
    let translated = translate(pattern)?;
    regex::RegexBuilder::new(&translated)
        .size_limit(SIZE_LIMIT)
        .nest_limit(NEST_LIMIT)
        .build()
        .map_err(|_| Refused::new(Code::Large, pattern))
}

#[cfg(test)]
mod tests;
