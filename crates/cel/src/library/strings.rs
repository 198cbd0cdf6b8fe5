//! Functions of texts. Positions count characters.
//!
//! Upstream: `ext/strings.go` of cel-go, version 2 of the extension.

use super::args::text;
use super::printf;
use crate::fail::Fail;
use crate::row::Row;
use crate::value::Val;

pub(super) const ROWS: &[Row] = &[
    (".contains(string, string) bool", |args| {
        test(args, |text, part| text.contains(part))
    }),
    (".startsWith(string, string) bool", |args| {
        test(args, |text, part| text.starts_with(part))
    }),
    (".endsWith(string, string) bool", |args| {
        test(args, |text, part| text.ends_with(part))
    }),
    (".charAt(string, int) string", char_at),
    (".indexOf(string, string) int", index_of),
    (".indexOf(string, string, int) int", index_of),
    (".lastIndexOf(string, string) int", last_index_of),
    (".lastIndexOf(string, string, int) int", last_index_of),
    (".join(list(string)) string", join),
    (".join(list(string), string) string", join),
    (".lowerAscii(string) string", |args| {
        Ok(Val::text(&text(args, 0)?.to_ascii_lowercase()))
    }),
    (".upperAscii(string) string", |args| {
        Ok(Val::text(&text(args, 0)?.to_ascii_uppercase()))
    }),
    (".replace(string, string, string) string", replace),
    (".replace(string, string, string, int) string", replace),
    (".split(string, string) list(string)", split),
    (".split(string, string, int) list(string)", split),
    (".substring(string, int) string", substring),
    (".substring(string, int, int) string", substring),
    (".trim(string) string", |args| {
        Ok(Val::text(text(args, 0)?.trim()))
    }),
    (".format(string, list(dyn)) string", printf::format),
    ("strings.quote(string) string", |args| {
        Ok(Val::text(&quoted(text(args, 0)?)))
    }),
    ("jsonpatch.escapeKey(string) string", |args| {
        Ok(Val::text(
            &text(args, 0)?.replace('~', "~0").replace('/', "~1"),
        ))
    }),
];

fn number(args: &[Val], index: usize) -> Result<Option<i64>, Fail> {
    match args.get(index) {
        None => Ok(None),
        Some(Val::Int(number)) => Ok(Some(*number)),
        Some(_) => Err(Fail::no_overload()),
    }
}

fn test(args: &[Val], holds: fn(&str, &str) -> bool) -> Result<Val, Fail> {
    Ok(Val::Bool(holds(text(args, 0)?, text(args, 1)?)))
}

fn out_of_range(index: i64) -> Fail {
    Fail::new(format!("index out of range: {index}"))
}

/// `index` as a position in a text of `length` characters.
fn position(index: i64, length: usize) -> Result<usize, Fail> {
    let found = usize::try_from(index).ok();
    found
        .filter(|found| *found <= length)
        .ok_or_else(|| out_of_range(index))
}

fn char_at(args: &[Val]) -> Result<Val, Fail> {
    let text = text(args, 0)?;
    let index = number(args, 1)?.unwrap_or(0);
    let at = position(index, text.chars().count())?;
    let found: String = text.chars().skip(at).take(1).collect();
    Ok(Val::text(&found))
}

/// Number of characters before a byte.
fn chars_before(text: &str, byte: usize) -> i64 {
    text[..byte].chars().count() as i64
}

/// The byte at which a character begins.
fn byte_of(text: &str, position: usize) -> usize {
    text.char_indices()
        .nth(position)
        .map_or(text.len(), |(byte, _)| byte)
}

fn index_of(args: &[Val]) -> Result<Val, Fail> {
    let part = text(args, 1)?;
    let text = text(args, 0)?;
    let offset = number(args, 2)?.unwrap_or(0);
    if part.is_empty() {
        return Ok(Val::Int(offset));
    }
    let length = text.chars().count();
    if offset < 0 {
        return Err(out_of_range(offset));
    }
    let start = byte_of(text, usize::try_from(offset).unwrap_or(length).min(length));
    let found = text[start..].find(part);
    Ok(Val::Int(
        found.map_or(-1, |byte| chars_before(text, start + byte)),
    ))
}

fn last_index_of(args: &[Val]) -> Result<Val, Fail> {
    let part = text(args, 1)?;
    let text = text(args, 0)?;
    let length = text.chars().count();
    let offset = number(args, 2)?;
    if let Some(offset) = offset.filter(|offset| *offset < 0) {
        return Err(out_of_range(offset));
    }
    if part.is_empty() {
        return Ok(Val::Int(offset.unwrap_or(length as i64)));
    }
    // The last match begins at or before the offset.
    let last = offset.and_then(|offset| usize::try_from(offset).ok());
    let end = last.map_or(text.len(), |last| {
        byte_of(text, last)
            .saturating_add(part.len())
            .min(text.len())
    });
    let found = text.get(..end).unwrap_or(text).rfind(part);
    Ok(Val::Int(found.map_or(-1, |byte| chars_before(text, byte))))
}

fn join(args: &[Val]) -> Result<Val, Fail> {
    let Val::List(list) = &args[0] else {
        return Err(Fail::no_overload());
    };
    let separator = if args.len() > 1 { text(args, 1)? } else { "" };
    let parts: Vec<&str> = list
        .items
        .iter()
        .map(|item| match item {
            Val::Text(text) => Ok(&**text),
            _ => Err(Fail::no_overload()),
        })
        .collect::<Result<_, _>>()?;
    Ok(Val::text(&parts.join(separator)))
}

fn replace(args: &[Val]) -> Result<Val, Fail> {
    let from = text(args, 1)?;
    let to = text(args, 2)?;
    let text = text(args, 0)?;
    let replaced = match number(args, 3)?.and_then(|limit| usize::try_from(limit).ok()) {
        Some(limit) => text.replacen(from, to, limit),
        None => text.replace(from, to),
    };
    Ok(Val::text(&replaced))
}

fn split(args: &[Val]) -> Result<Val, Fail> {
    let separator = text(args, 1)?;
    let text = text(args, 0)?;
    let limit = number(args, 2)?.and_then(|limit| usize::try_from(limit).ok());
    let limit = limit.unwrap_or(usize::MAX);
    let parts: Vec<Val> = if limit == 0 {
        Vec::new()
    } else if separator.is_empty() {
        let count = text.chars().count().min(limit);
        let mut parts: Vec<Val> = text
            .chars()
            .take(count.saturating_sub(1))
            .map(|letter| Val::text(letter.encode_utf8(&mut [0; 4])))
            .collect();
        if count > 0 {
            parts.push(Val::text(&text[byte_of(text, count - 1)..]));
        }
        parts
    } else {
        text.splitn(limit, separator).map(Val::text).collect()
    };
    Ok(Val::list(parts))
}

fn substring(args: &[Val]) -> Result<Val, Fail> {
    let text = text(args, 0)?;
    let length = text.chars().count();
    let start = number(args, 1)?.unwrap_or(0);
    let end = number(args, 2)?;
    let end = end.unwrap_or(length as i64);
    if args.len() > 2 && start > end {
        let why = format!("invalid substring range. start: {start}, end: {end}");
        return Err(Fail::new(why));
    }
    let start = position(start, length)?;
    let end = position(end, length)?;
    Ok(Val::text(&text[byte_of(text, start)..byte_of(text, end)]))
}

/// The text in double quotes, with escapes.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            '\\' => quoted.push_str("\\\\"),
            '"' => quoted.push_str("\\\""),
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}
