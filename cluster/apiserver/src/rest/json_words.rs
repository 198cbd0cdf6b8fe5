//! The reason why a text is no JSON, in the words of Go's decoder.
//!
//! Upstream: `scanner.go` of `encoding/json`.

use crate::depth::{EXCEEDED, MAX_LEVELS};

/// `serde_json` words its errors for its own readers, so the text is read once more. `None` for
/// JSON without a mistake.
pub(super) fn why(text: &[u8]) -> Option<String> {
    let mut scan = Scan { text, at: 0 };
    let read = scan.value().and_then(|()| {
        scan.blank();
        match scan.peek() {
            None => Ok(()),
            Some(_) => Err(Wrong::Character("after top-level value".to_owned())),
        }
    });
    read.err().map(|wrong| match (wrong, scan.peek()) {
        (Wrong::Character(place), Some(byte)) => {
            format!("invalid character {} {place}", shown(byte))
        }
        (Wrong::Depth, _) => EXCEEDED.to_owned(),
        // Go ends a word, a number or an escape with a blank.
        (Wrong::Character(place), None)
            if place.contains("escape") || place.contains("literal") && place != STRING =>
        {
            format!("invalid character ' ' {place}")
        }
        (Wrong::Character(_), None) => "unexpected end of JSON input".to_owned(),
    })
}

const STRING: &str = "in string literal";

enum Wrong {
    /// The next byte is wrong here, or missing.
    Character(String),
    /// More than [`MAX_LEVELS`].
    Depth,
}

/// A byte in Go's quotes, as the letter of its number.
fn shown(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        b'\x07' => r"'\a'".to_owned(),
        b'\x08' => r"'\b'".to_owned(),
        b'\x0b' => r"'\v'".to_owned(),
        b'\x0c' => r"'\f'".to_owned(),
        b'\t' | b'\n' | b'\r' | b'\\' => format!("{:?}", char::from(byte)),
        0..0x20 | 0x7f => format!(r"'\x{byte:02x}'"),
        0x80..0xa1 | 0xad => format!(r"'\u{byte:04x}'"),
        _ => format!("'{}'", char::from(byte)),
    }
}

/// A reader of JSON. Its place is that of the wrong byte after an error.
struct Scan<'t> {
    text: &'t [u8],
    at: usize,
}

impl Scan<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn blank(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    /// Takes the next byte if it is right.
    fn take(&mut self, is_right: impl Fn(u8) -> bool, place: &str) -> Result<u8, Wrong> {
        let byte = self.peek().filter(|byte| is_right(*byte));
        let byte = byte.ok_or_else(|| Wrong::Character(place.to_owned()))?;
        self.at += 1;
        Ok(byte)
    }

    fn value(&mut self) -> Result<(), Wrong> {
        self.value_below(MAX_LEVELS)
    }

    fn value_below(&mut self, levels: usize) -> Result<(), Wrong> {
        self.blank();
        let begins = |byte: u8| b"{[\"-tfn".contains(&byte) || byte.is_ascii_digit();
        match self.take(begins, "looking for beginning of value")? {
            b'{' => self.object(levels.checked_sub(1).ok_or(Wrong::Depth)?),
            b'[' => self.array(levels.checked_sub(1).ok_or(Wrong::Depth)?),
            b'"' => self.string(),
            b't' => self.literal("true"),
            b'f' => self.literal("false"),
            b'n' => self.literal("null"),
            first => self.number(first),
        }
    }

    fn object(&mut self, levels: usize) -> Result<(), Wrong> {
        const KEY: &str = "looking for beginning of object key string";
        self.blank();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.blank();
            self.take(|byte| byte == b'"', KEY)?;
            self.string()?;
            self.blank();
            self.take(|byte| byte == b':', "after object key")?;
            self.value_below(levels)?;
            self.blank();
            let is_end = |byte| matches!(byte, b',' | b'}');
            if self.take(is_end, "after object key:value pair")? == b'}' {
                return Ok(());
            }
        }
    }

    fn array(&mut self, levels: usize) -> Result<(), Wrong> {
        self.blank();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.value_below(levels)?;
            self.blank();
            let is_end = |byte| matches!(byte, b',' | b']');
            if self.take(is_end, "after array element")? == b']' {
                return Ok(());
            }
        }
    }

    fn string(&mut self) -> Result<(), Wrong> {
        loop {
            match self.take(|byte| byte >= b' ', STRING)? {
                b'"' => return Ok(()),
                b'\\' => {
                    let is_escape = |byte| b"bfnrt\\/\"u".contains(&byte);
                    if self.take(is_escape, "in string escape code")? == b'u' {
                        let is_digit = |byte: u8| byte.is_ascii_hexdigit();
                        for _ in 0..4 {
                            self.take(is_digit, r"in \u hexadecimal character escape")?;
                        }
                    }
                }
                _ => {}
            }
        }
    }

    fn literal(&mut self, word: &str) -> Result<(), Wrong> {
        for wanted in word.bytes().skip(1) {
            let place = format!("in literal {word} (expecting {})", shown(wanted));
            self.take(|byte| byte == wanted, &place)?;
        }
        Ok(())
    }

    fn number(&mut self, first: u8) -> Result<(), Wrong> {
        let is_digit = |byte: u8| byte.is_ascii_digit();
        let first = match first {
            b'-' => self.take(is_digit, "in numeric literal")?,
            first => first,
        };
        if first != b'0' {
            self.digits();
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.take(is_digit, "after decimal point in numeric literal")?;
            self.digits();
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.take(is_digit, "in exponent of numeric literal")?;
            self.digits();
        }
        Ok(())
    }

    fn digits(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each answer is that of kube-apiserver 1.36.2.
    #[test]
    fn mistakes_have_the_words_of_go() {
        let cases: [(&[u8], &str); 26] = [
            (b"a: b", "'a' looking for beginning of value"),
            (b"{a: 1}", "'a' looking for beginning of object key string"),
            (b"{\"a\" 1}", "'1' after object key"),
            (b"{\"a\":1 \"b\":2}", "'\"' after object key:value pair"),
            (b"[1 2]", "'2' after array element"),
            (
                b"{\"a\":1,}",
                "'}' looking for beginning of object key string",
            ),
            (b"[1,]", "']' looking for beginning of value"),
            (b"{} x", "'x' after top-level value"),
            (b"nul1", "'1' in literal null (expecting 'l')"),
            (b"tru", "' ' in literal true (expecting 'e')"),
            (b"-x", "'x' in numeric literal"),
            (b"1.x", "'x' after decimal point in numeric literal"),
            (b"1e", "' ' in exponent of numeric literal"),
            (b"{\"a\":01}", "'1' after object key:value pair"),
            (b"\"a\nb\"", "'\\n' in string literal"),
            (b"\"\\q\"", "'q' in string escape code"),
            (b"\"\\u12g4\"", "'g' in \\u hexadecimal character escape"),
            (b"\"\\", "' ' in string escape code"),
            (b"\"\\u12", "' ' in \\u hexadecimal character escape"),
            (b"'a'", "'\\'' looking for beginning of value"),
            (b"\\", "'\\\\' looking for beginning of value"),
            (b"\x01", "'\\x01' looking for beginning of value"),
            (b"\x07", "'\\a' looking for beginning of value"),
            (b"\xff", "'\u{ff}' looking for beginning of value"),
            (b"\x80", "'\\u0080' looking for beginning of value"),
            (b"\xef\xbb\xbf{}", "'\u{ef}' looking for beginning of value"),
        ];
        for (text, place) in cases {
            let why = format!("invalid character {place}");
            assert_eq!(super::why(text), Some(why), "{text:?}");
        }
        for text in [&b""[..], b" ", b"{", b"{\"a\":", b"[1", b"\"a"] {
            let why = "unexpected end of JSON input".to_owned();
            assert_eq!(super::why(text), Some(why), "{text:?}");
        }
        assert_eq!(
            super::why(b" {\"a\": [1, -2.5e3, null, \"\\u00e9\"]} "),
            None
        );
    }

    #[test]
    fn levels_beyond_those_of_serde_json_are_too_many() {
        for (levels, why) in [(MAX_LEVELS, None), (150, Some(EXCEEDED.to_owned()))] {
            let text = "[".repeat(levels) + &"]".repeat(levels);
            assert_eq!(super::why(text.as_bytes()), why);
            let read = serde_json::from_str::<serde_json::Value>(&text);
            assert_eq!(read.is_err(), why.is_some(), "{levels}");
        }
    }
}
