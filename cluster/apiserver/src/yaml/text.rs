//! The text of a YAML body, with Go's errors about its bytes.
//!
//! Upstream: `readerc.go` of `go.yaml.in/yaml/v2`.

use std::borrow::Cow;

/// The text of `body`, in which each line ends as libyaml ends it: with `\n` alone.
pub(super) fn read(body: &[u8]) -> Result<Cow<'_, str>, String> {
    let text = std::str::from_utf8(body)
        .map_err(|error| format!("yaml: {}", problem(&body[error.valid_up_to()..])))?;
    if text.contains('\r') {
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        return Ok(Cow::Owned(text));
    }
    Ok(Cow::Borrowed(text))
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
        let cases: [(&[u8], &str); 7] = [
            (b"a: \xff\n", "invalid leading UTF-8 octet"),
            (b"a: \x80\n", "invalid leading UTF-8 octet"),
            (b"a: \xc3", "incomplete UTF-8 octet sequence"),
            (b"a: \xc3(\n", "invalid trailing UTF-8 octet"),
            (b"a: \xe0\x80\x80", "invalid length of a UTF-8 sequence"),
            (b"a: \xed\xa0\x80", "invalid Unicode character"),
            (b"a: \xf4\x90\x80\x80", "invalid Unicode character"),
        ];
        for (body, why) in cases {
            assert_eq!(read(body), Err(format!("yaml: {why}")), "{body:?}");
        }
    }

    #[test]
    fn lines_end_with_a_newline() {
        assert_eq!(read(b"a\rb\r\n\r\rc\n").unwrap(), "a\nb\n\n\nc\n");
    }
}
