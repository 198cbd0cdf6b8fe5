//! The field path of a rule: `.spec.name` or `['a.b']`, below the value of the rule.
//!
//! Upstream: `ValidFieldPath` in `pkg/apiserver/schema/cel` of apiextensions-apiserver.

use super::super::schema::Schema;

/// The path in the form of error messages. `None` if the schema has no such field.
pub(super) fn normalized(schema: &Schema, path: &str) -> Option<String> {
    let mut shown = String::new();
    let mut schema = schema;
    let mut rest = path;
    while !rest.is_empty() {
        let (name, after) = match rest.strip_prefix('.') {
            Some(rest) => {
                let end = rest.find(['.', '[', ']']).unwrap_or(rest.len());
                let (name, after) = rest.split_at(end);
                (name.to_owned(), after)
            }
            None => quoted(rest.strip_prefix("['")?)?,
        };
        if name.is_empty() {
            return None;
        }
        rest = after;
        schema = if schema.properties.is_empty() {
            shown = format!("{shown}[{name}]");
            schema.additional()?
        } else {
            shown = format!("{shown}.{name}");
            schema.property(&name)?
        };
    }
    Some(shown)
}

/// A name up to `']`, without its escapes, and the text after it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\'' => return Some((name, text[at + 1..].strip_prefix(']')?)),
            '\\' => name.push(match letters.next()?.1 {
                'a' => '\u{7}',
                'b' => '\u{8}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'v' => '\u{b}',
                letter @ ('\'' | '\\') => letter,
                _ => return None,
            }),
            letter => name.push(letter),
        }
    }
    None
}
