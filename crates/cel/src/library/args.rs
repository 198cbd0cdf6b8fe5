//! Arguments of functions.

use crate::fail::Fail;
use crate::value::Val;

/// The text at `index` of the arguments.
pub(super) fn text(args: &[Val], index: usize) -> Result<&str, Fail> {
    match args.get(index) {
        Some(Val::Text(text)) => Ok(text),
        _ => Err(Fail::no_overload()),
    }
}
