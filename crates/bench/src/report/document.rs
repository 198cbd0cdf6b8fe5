//! The part of a document that the command writes.

use std::path::Path;

use anyhow::{Context, Result};

/// The marks around that part.
const MARKS: (&str, &str) = (
    "<!-- comparison: written by steersman-bench compare -->",
    "<!-- end -->",
);

/// Replaces the text between the marks of the document at `path`.
pub(crate) fn write_between_marks(path: &Path, text: &str) -> Result<()> {
    let document =
        std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    let replaced = replace(&document, text)
        .with_context(|| format!("{} lacks the lines {MARKS:?}", path.display()))?;
    std::fs::write(path, replaced).with_context(|| format!("write {}", path.display()))
}

fn replace(document: &str, text: &str) -> Option<String> {
    let (begin, end) = MARKS;
    let (before, rest) = document.split_once(begin)?;
    let (_, after) = rest.split_once(end)?;
    Some(format!(
        "{before}{begin}\n\n{}\n\n{end}{after}",
        text.trim()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_text_between_the_marks_is_replaced() {
        let (begin, end) = MARKS;
        let document = |text: &str| format!("a {end}\n{begin}\n\n{text}\n\n{end}\nb\n");
        let old = document("old");
        assert_eq!(replace(&old, "\nnew\n"), Some(document("new")));
        assert_eq!(replace("a\n<!-- end -->\n", "new"), None);
    }
}
