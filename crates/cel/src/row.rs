//! Rows of the table of functions.
//!
//! A signature reads `name(argument types) result`. A leading dot marks a method, whose target is
//! the first argument. Capital letters are parameters of types.

use super::fail::Fail;
use super::value::Val;

/// The implementation of a function. The target of a method is the first argument.
pub(super) type Call = fn(&[Val]) -> Result<Val, Fail>;

/// A signature with its implementation.
pub(super) type Row = (&'static str, Call);
