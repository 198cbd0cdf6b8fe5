//! Splits an expression into tokens.
//!
//! Upstream: `parser/gen/CEL.g4` of cel-go.

use std::sync::Arc;

use super::source::Issue;
use super::value::Val;

/// A token with its place in characters and its text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    pub(super) at: usize,
    pub(super) text: String,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum TokenKind {
    Ident,
    /// A number, text or bytes.
    Literal(Val),
    /// An operator or bracket.
    Sign(&'static str),
    End,
}

/// Longer signs come before their beginnings.
const SIGNS: [&str; 26] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!",
    "?", ":", "+", "*", "/", "%", "=", "`",
];

/// The tokens of `source`, with an `End` after the last one.
pub(super) fn tokens(source: &str) -> Result<Vec<Token>, Issue> {
    let letters: Vec<char> = source.chars().collect();
    let mut lexer = Lexer {
        letters: &letters,
        at: 0,
    };
    let mut found = Vec::new();
    loop {
        lexer.skip_blanks();
        let at = lexer.at;
        let kind = lexer.next()?;
        let text = match kind {
            TokenKind::End => "<EOF>".to_owned(),
            _ => letters[at..lexer.at].iter().collect(),
        };
        let is_end = kind == TokenKind::End;
        found.push(Token { kind, at, text });
        if is_end {
            return Ok(found);
        }
    }
}

struct Lexer<'a> {
    letters: &'a [char],
    at: usize,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.letters.get(self.at + ahead).copied()
    }

    fn skip_blanks(&mut self) {
        while let Some(letter) = self.peek(0) {
            if letter == '/' && self.peek(1) == Some('/') {
                while self.peek(0).is_some_and(|letter| letter != '\n') {
                    self.at += 1;
                }
            } else if matches!(letter, ' ' | '\t' | '\r' | '\n' | '\u{c}') {
                self.at += 1;
            } else {
                return;
            }
        }
    }

    fn next(&mut self) -> Result<TokenKind, Issue> {
        let Some(letter) = self.peek(0) else {
            return Ok(TokenKind::End);
        };
        if let Some(kind) = self.text()? {
            return Ok(kind);
        }
        if letter.is_ascii_digit()
            || (letter == '.' && self.peek(1).is_some_and(|next| next.is_ascii_digit()))
        {
            return self.number();
        }
        if letter.is_ascii_alphabetic() || letter == '_' {
            while self
                .peek(0)
                .is_some_and(|next| next.is_ascii_alphanumeric() || next == '_')
            {
                self.at += 1;
            }
            return Ok(TokenKind::Ident);
        }
        for sign in SIGNS {
            let length = sign.len();
            if sign
                .chars()
                .enumerate()
                .all(|(i, c)| self.peek(i) == Some(c))
            {
                self.at += length;
                return Ok(TokenKind::Sign(sign));
            }
        }
        Err(self.unrecognized(self.at, &letter.to_string()))
    }

    fn unrecognized(&self, at: usize, text: &str) -> Issue {
        Issue {
            at,
            message: format!("Syntax error: token recognition error at: '{text}'"),
        }
    }

    fn number(&mut self) -> Result<TokenKind, Issue> {
        let start = self.at;
        let hex = self.peek(0) == Some('0') && matches!(self.peek(1), Some('x' | 'X'));
        if hex {
            self.at += 2;
            while self.peek(0).is_some_and(|next| next.is_ascii_hexdigit()) {
                self.at += 1;
            }
        } else {
            self.digits();
            let mut float = false;
            if self.peek(0) == Some('.') && self.peek(1).is_some_and(|next| next.is_ascii_digit()) {
                float = true;
                self.at += 1;
                self.digits();
            }
            let signed = usize::from(matches!(self.peek(1), Some('+' | '-')));
            if matches!(self.peek(0), Some('e' | 'E'))
                && self
                    .peek(1 + signed)
                    .is_some_and(|next| next.is_ascii_digit())
            {
                float = true;
                self.at += 1 + signed;
                self.digits();
            }
            if float {
                let text: String = self.letters[start..self.at].iter().collect();
                let invalid = || Issue {
                    at: start,
                    message: "invalid double literal".to_owned(),
                };
                return text
                    .parse()
                    .map(|number| TokenKind::Literal(Val::Double(number)))
                    .map_err(|_| invalid());
            }
        }
        let text: String = self.letters[start..self.at].iter().collect();
        let (digits, radix) = if hex { (&text[2..], 16) } else { (&*text, 10) };
        let number = u64::from_str_radix(digits, radix).ok();
        let unsigned = matches!(self.peek(0), Some('u' | 'U'));
        let issue = |message: &str| Issue {
            at: start,
            message: message.to_owned(),
        };
        if unsigned {
            self.at += 1;
            let number = number.ok_or_else(|| issue("invalid uint literal"))?;
            return Ok(TokenKind::Literal(Val::Uint(number)));
        }
        // The parser negates the smallest integer, whose absolute value does not fit.
        match number {
            Some(number) if number <= i64::MAX as u64 => {
                Ok(TokenKind::Literal(Val::Int(number as i64)))
            }
            Some(number) if number == 1 << 63 => Ok(TokenKind::Literal(Val::Uint(number))),
            _ => Err(issue("invalid int literal")),
        }
    }

    fn digits(&mut self) {
        while self.peek(0).is_some_and(|next| next.is_ascii_digit()) {
            self.at += 1;
        }
    }

    /// A text or bytes, if one begins here: prefixes `r` and `b`, one or three quotes.
    fn text(&mut self) -> Result<Option<TokenKind>, Issue> {
        let start = self.at;
        let mut raw = false;
        let mut bytes = false;
        let mut ahead = 0;
        while let Some(letter) = self.peek(ahead) {
            match letter {
                'r' | 'R' if !raw => raw = true,
                'b' | 'B' if !bytes && !raw => bytes = true,
                '"' | '\'' => break,
                _ => return Ok(None),
            }
            ahead += 1;
        }
        let Some(quote) = self.peek(ahead) else {
            return Ok(None);
        };
        let triple = self.peek(ahead + 1) == Some(quote) && self.peek(ahead + 2) == Some(quote);
        let quotes = if triple { 3 } else { 1 };
        self.at += ahead + quotes;
        let mut content = Content::default();
        loop {
            let Some(letter) = self.peek(0) else {
                return Err(self.unterminated(start));
            };
            if letter == quote && (1..quotes).all(|i| self.peek(i) == Some(quote)) {
                self.at += quotes;
                break;
            }
            if letter == '\n' && !triple {
                return Err(self.unterminated(start));
            }
            self.at += 1;
            if letter == '\\' && !raw {
                self.escape(bytes, start, &mut content)?;
            } else {
                content.letter(letter);
                if letter == '\\'
                    && let Some(next) = self.peek(0).filter(|next| *next == quote)
                {
                    content.letter(next);
                    self.at += 1;
                }
            }
        }
        let literal = if bytes {
            Val::Bytes(Arc::from(content.0))
        } else {
            Val::text(&String::from_utf8_lossy(&content.0))
        };
        Ok(Some(TokenKind::Literal(literal)))
    }

    fn unterminated(&self, start: usize) -> Issue {
        let text: String = self.letters[start..self.at].iter().collect();
        self.unrecognized(start, &text)
    }

    /// Appends the meaning of an escape sequence, after its backslash.
    fn escape(&mut self, bytes: bool, start: usize, content: &mut Content) -> Result<(), Issue> {
        let invalid = || Issue {
            at: start,
            message: "Syntax error: token recognition error: invalid escape sequence".to_owned(),
        };
        let letter = self.peek(0).ok_or_else(invalid)?;
        self.at += 1;
        match letter {
            'a' => content.letter('\u{7}'),
            'b' => content.letter('\u{8}'),
            'f' => content.letter('\u{c}'),
            'n' => content.letter('\n'),
            'r' => content.letter('\r'),
            't' => content.letter('\t'),
            'v' => content.letter('\u{b}'),
            '\\' | '\'' | '"' | '`' | '?' => content.letter(letter),
            'x' | 'X' => content
                .code(self.code(2, 16, 0).ok_or_else(invalid)?, bytes)
                .ok_or_else(invalid)?,
            'u' if !bytes => content
                .code(self.code(4, 16, 0).ok_or_else(invalid)?, false)
                .ok_or_else(invalid)?,
            'U' if !bytes => content
                .code(self.code(8, 16, 0).ok_or_else(invalid)?, false)
                .ok_or_else(invalid)?,
            '0'..='3' => content
                .code(self.code(3, 8, 1).ok_or_else(invalid)?, bytes)
                .ok_or_else(invalid)?,
            _ => return Err(invalid()),
        }
        Ok(())
    }

    /// The number in the next `count` digits, of which `read` were read already.
    fn code(&mut self, count: usize, radix: u32, read: usize) -> Option<u32> {
        let begin = self.at - read;
        let digits: String = self.letters.get(begin..begin + count)?.iter().collect();
        self.at = begin + count;
        u32::from_str_radix(&digits, radix).ok()
    }
}

/// The bytes of a literal.
#[derive(Default)]
struct Content(Vec<u8>);

impl Content {
    fn letter(&mut self, letter: char) {
        self.0
            .extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
    }

    /// A byte in bytes, a code point in text.
    fn code(&mut self, code: u32, bytes: bool) -> Option<()> {
        if bytes {
            self.0.push(u8::try_from(code).ok()?);
        } else {
            self.letter(char::from_u32(code)?);
        }
        Some(())
    }
}
