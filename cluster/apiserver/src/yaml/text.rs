//! The text of a YAML body, with Go's errors about its bytes.
//!
//! Upstream: `readerc.go` of `go.yaml.in/yaml/v2`.

use std::borrow::Cow;
use std::str::Utf8Error;

/// The text of `body`, in which each line ends as libyaml ends it: with `\n` alone.
pub(super) fn read(body: &[u8]) -> Result<Cow<'_, str>, String> {
    let text = match body {
        [0xFF, 0xFE, units @ ..] => utf_16(units, u16::from_le_bytes).map(Cow::Owned),
        [0xFE, 0xFF, units @ ..] => utf_16(units, u16::from_be_bytes).map(Cow::Owned),
        _ => utf_8(body).map(Cow::Borrowed),
    };
    let text = text.map_err(|why| format!("yaml: {why}"))?;
    if text.contains('\r') {
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        return Ok(Cow::Owned(text));
    }
    Ok(text)
}

fn utf_8(body: &[u8]) -> Result<&str, &'static str> {
    let invalid = |error: Utf8Error| problem(&body[error.valid_up_to()..]);
    let text = str::from_utf8(body).map_err(invalid);
    let valid = body.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    if valid.chars().all(is_allowed) {
        text
    } else {
        Err(CONTROL)
    }
}

/// The text behind the mark of a byte order.
fn utf_16(body: &[u8], unit: fn([u8; 2]) -> u16) -> Result<String, &'static str> {
    let units = body.chunks(2).map(|bytes| match bytes {
        [first, second] => Ok(unit([*first, *second])),
        _ => Err("incomplete UTF-16 character"),
    });
    let units: Vec<_> = units.collect();
    let mut text = String::new();
    let mut at = 0;
    while let Some(first) = units.get(at) {
        let first = (*first)?;
        at += 1;
        let pair = match first {
            0xDC00..=0xDFFF => return Err("unexpected low surrogate area"),
            0xD800..=0xDBFF => {
                let second = units.get(at).copied().and_then(Result::ok);
                at += 1;
                let second = second.ok_or("incomplete UTF-16 surrogate pair")?;
                if !(0xDC00..=0xDFFF).contains(&second) {
                    return Err("expected low surrogate area");
                }
                vec![first, second]
            }
            _ => vec![first],
        };
        let letter = char::decode_utf16(pair).next().and_then(Result::ok);
        text.push(letter.filter(|letter| is_allowed(*letter)).ok_or(CONTROL)?);
    }
    Ok(text)
}

const CONTROL: &str = "control characters are not allowed";

/// Whether libyaml takes a character.
fn is_allowed(letter: char) -> bool {
    matches!(letter,
        '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{A0}'..='\u{D7FF}' | '\u{E000}'..='\u{FFFD}' | '\u{10000}'..)
}

/// The reason why no character starts `bytes`.
fn problem(bytes: &[u8]) -> &'static str {
    let width = match bytes {
        [0xC0..=0xDF, ..] => 2,
        [0xE0..=0xEF, ..] => 3,
        [0xF0..=0xF7, ..] => 4,
        _ => return "invalid leading UTF-8 octet",
    };
    match bytes.get(..width) {
        None => "incomplete UTF-8 octet sequence",
        Some([_, others @ ..]) if others.iter().any(|octet| octet & 0xC0 != 0x80) => {
            "invalid trailing UTF-8 octet"
        }
        Some([0xC0 | 0xC1, ..] | [0xE0, ..0xA0, ..] | [0xF0, ..0x90, ..]) => {
            "invalid length of a UTF-8 sequence"
        }
        Some(_) => "invalid Unicode character",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_without_a_character_have_the_errors_of_go() {
        let cases: [(&[u8], &str); 14] = [
            (b"a: \xff\n", "invalid leading UTF-8 octet"),
            (b"a: \x80\n", "invalid leading UTF-8 octet"),
            (b"a: \xc3", "incomplete UTF-8 octet sequence"),
            (b"a: \xc3(\n", "invalid trailing UTF-8 octet"),
            (b"a: \xe0\x80\x80", "invalid length of a UTF-8 sequence"),
            (b"a: \xed\xa0\x80", "invalid Unicode character"),
            (b"a: \xf4\x90\x80\x80", "invalid Unicode character"),
            (b"a: \x7f\xff", CONTROL),
            (b"a: \xef\xbf\xbf\n", CONTROL),
            (b"\xff\xfea\0:\0 \0b", "incomplete UTF-16 character"),
            (b"\xff\xfe\0\xdca\0", "unexpected low surrogate area"),
            (b"\xff\xfe\0\xd8", "incomplete UTF-16 surrogate pair"),
            (b"\xff\xfe\0\xd8a\0", "expected low surrogate area"),
            (b"\xfe\xff\0a\0\0", CONTROL),
        ];
        for (body, why) in cases {
            assert_eq!(read(body), Err(format!("yaml: {why}")), "{body:?}");
        }
    }

    #[test]
    fn a_mark_of_the_byte_order_begins_utf_16() {
        assert_eq!(read(b"\xff\xfea\0=\xd8\0\xde\r\0").unwrap(), "a\u{1F600}\n");
        assert_eq!(read(b"\xfe\xff\0a\0:").unwrap(), "a:");
    }

    #[test]
    fn lines_end_with_a_newline() {
        assert_eq!(read(b"a\rb\r\n\r\rc\n").unwrap(), "a\nb\n\n\nc\n");
    }
}
