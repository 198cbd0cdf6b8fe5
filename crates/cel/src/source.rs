//! Errors in an expression, shown with the line and a mark below the place.
//!
//! Upstream: `common.Errors` of cel-go.

/// The messages that cel-go reports at most.
const MAX_ERRORS: usize = 100;

/// One error at an offset in characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Issue {
    pub(super) at: usize,
    pub(super) message: String,
}

/// All issues as cel-go prints them, in the order of their places.
pub(super) fn display(source: &str, issues: &[Issue]) -> String {
    let mut sorted: Vec<&Issue> = issues.iter().collect();
    sorted.sort_by_key(|issue| issue.at);
    let mut shown: Vec<String> = sorted
        .iter()
        .take(MAX_ERRORS)
        .map(|issue| one(source, issue))
        .collect();
    if let Some(more) = sorted.len().checked_sub(MAX_ERRORS + 1) {
        shown.push(format!("{} more errors were truncated", more + 1));
    }
    shown.join("\n")
}

fn one(source: &str, issue: &Issue) -> String {
    let mut line = 1;
    let mut start = 0;
    for (offset, letter) in source.chars().enumerate().take(issue.at) {
        if letter == '\n' {
            line += 1;
            start = offset + 1;
        }
    }
    let column = issue.at - start;
    let text = source.split('\n').nth(line - 1).unwrap_or_default();
    let text = text.replace('\t', " ");
    let wide = |letter: char| letter.len_utf8() > 1;
    let dots: String = text
        .chars()
        .take(column)
        .map(|letter| if wide(letter) { '．' } else { '.' })
        .collect();
    let mark = match text.chars().nth(column) {
        Some(letter) if wide(letter) => '＾',
        _ => '^',
    };
    // An empty source has no first column.
    let shown = if source.is_empty() { 0 } else { column + 1 };
    format!(
        "ERROR: <input>:{line}:{shown}: {}\n | {text}\n | {dots}{mark}",
        issue.message
    )
}
