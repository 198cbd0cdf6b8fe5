//! A small lexer for Rust: names and punctuation, without comments and literals.
//!
//! It replaces a parser crate, since the check of modules needs only paths and brackets.

/// A token that matters for modules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    Name(String),
    /// `::`
    Separator,
    Mark(char),
}

/// The tokens of `source`, without comments, strings, characters, numbers and lifetimes.
pub(super) fn tokens(source: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = source;
    while let Some(letter) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(length) = literal_length(rest) {
            length
        } else if rest.starts_with("::") {
            tokens.push(Token::Separator);
            2
        } else if letter.is_alphanumeric() || letter == '_' {
            let length = rest
                .find(|c: char| !c.is_alphanumeric() && c != '_')
                .unwrap_or(rest.len());
            if !letter.is_numeric() {
                tokens.push(Token::Name(rest[..length].to_owned()));
            }
            length
        } else {
            if !letter.is_whitespace() {
                tokens.push(Token::Mark(letter));
            }
            letter.len_utf8()
        };
        rest = &rest[length..];
    }
    tokens
}

/// The length of the string, character or lifetime at the start of `rest`. `None` if there is none.
fn literal_length(rest: &str) -> Option<usize> {
    let prefix = rest
        .find(|c: char| !matches!(c, 'b' | 'c' | 'r'))
        .filter(|length| *length <= 2)?;
    let is_raw = rest[..prefix].ends_with('r');
    let text = &rest[prefix..];
    let hashes = text.find(|c| c != '#')?;
    if is_raw && text[hashes..].starts_with('"') {
        let end = format!("\"{}", "#".repeat(hashes));
        let from = hashes + 1;
        return Some(
            prefix
                + text[from..]
                    .find(&end)
                    .map_or(text.len(), |at| from + at + end.len()),
        );
    }
    let quote = text
        .chars()
        .next()
        .filter(|quote| matches!(quote, '"' | '\''))?;
    let mut letters = text.char_indices().skip(1);
    if quote == '\'' {
        let is_lifetime = !text[1..].starts_with('\\') && text[1..].chars().nth(1) != Some('\'');
        if is_lifetime {
            return Some(prefix + 1);
        }
    }
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => drop(letters.next()),
            _ if letter == quote => return Some(prefix + at + 1),
            _ => {}
        }
    }
    Some(rest.len())
}

#[test]
fn comments_and_literals_are_skipped() {
    let source = r##"a /* b */ :: c; // d
        "e \" f" r#"g " h"# b'i' '\'' '"' 'j 0x1f k.l"##;
    let names: Vec<String> = tokens(source)
        .into_iter()
        .map(|token| match token {
            Token::Name(name) => name,
            Token::Separator => "::".to_owned(),
            Token::Mark(mark) => mark.to_string(),
        })
        .collect();
    assert_eq!(names.join(" "), "a :: c ; j k . l");
}
