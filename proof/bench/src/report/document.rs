//! The parts of a document that the commands write.

use std::path::Path;

use anyhow::{Context, Result};

/// The mark after such a part.
const END: &str = "<!-- end -->";

/// Replaces the text between the line `begin` and the next mark of an end in the document at `path`.
pub(crate) fn write_after_mark(path: &Path, begin: &str, text: &str) -> Result<()> {
    let document =
        std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    let replaced = replace(&document, begin, text)
        .with_context(|| format!("{} lacks the lines {begin:?} and {END:?}", path.display()))?;
    std::fs::write(path, replaced).with_context(|| format!("write {}", path.display()))
}

fn replace(document: &str, begin: &str, text: &str) -> Option<String> {
    let (before, rest) = document.split_once(begin)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!(
        "{before}{begin}\n\n{}\n\n{END}{after}",
        text.trim()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_text_between_the_marks_is_replaced() {
        let begin = "<!-- begin -->";
        let document = |text: &str| format!("a {END}\n{begin}\n\n{text}\n\n{END}\nb\n");
        let old = document("old");
        assert_eq!(replace(&old, begin, "\nnew\n"), Some(document("new")));
        assert_eq!(replace("a\n<!-- end -->\n", begin, "new"), None);
    }
}
