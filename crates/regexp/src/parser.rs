//! Reads a pattern of Go and writes it in the dialect of the crate `regex`.
//!
//! Flags become part of what they affect: a letter under `(?i)` becomes the class of its cases, and
//! a dot becomes a class. So the translation contains no flags except those of `^`, `$` and `\b`.

use regex_syntax::hir::ClassUnicode;

use crate::class;
use crate::error::{Code, Refused};
pub(crate) use crate::node::MAX_HEIGHT;
use crate::node::{MAX_REPEAT, Node, Repeat};

/// Flags of a part of the pattern.
#[derive(Debug, Clone, Copy, Default)]
struct Flags {
    /// `i`: letters match all their cases.
    fold: bool,
    /// `m`: `^` and `$` match at lines.
    lines: bool,
    /// `s`: a dot matches line breaks.
    dot_all: bool,
    /// `U`: repetitions are lazy.
    lazy: bool,
}

/// A group whose end is ahead, or the whole pattern.
#[derive(Debug, Default)]
struct Frame {
    alternatives: Vec<Node>,
    items: Vec<Node>,
    captures: bool,
    /// Flags that are in force again after the group.
    outer: Flags,
}

pub(crate) struct Parser<'a> {
    pattern: &'a str,
    /// Position of the next byte.
    at: usize,
    flags: Flags,
    frames: Vec<Frame>,
    current: Frame,
    /// Where the repetition begins that ends at `at`.
    last_repeat: Option<usize>,
}

impl<'a> Parser<'a> {
    pub(crate) fn new(pattern: &'a str) -> Self {
        Self {
            pattern,
            at: 0,
            flags: Flags::default(),
            frames: Vec::new(),
            current: Frame::default(),
            last_repeat: None,
        }
    }

    pub(crate) fn parse(mut self) -> Result<String, Refused> {
        while let Some(c) = self.peek() {
            let start = self.at;
            let is_repeat = match c {
                '*' => self.repeat(start, start + 1, Repeat::Star)?,
                '+' => self.repeat(start, start + 1, Repeat::Plus)?,
                '?' => self.repeat(start, start + 1, Repeat::Question)?,
                '{' => self.counted()?,
                _ => {
                    self.part(c)?;
                    false
                }
            };
            self.last_repeat = is_repeat.then_some(start);
        }
        if !self.frames.is_empty() {
            return Err(self.refuse_whole(Code::MissingParenthesis));
        }
        let frame = std::mem::take(&mut self.current);
        Ok(self.close(frame)?.text)
    }

    /// Reads anything but a repetition, which begins with `c`.
    fn part(&mut self, c: char) -> Result<(), Refused> {
        match c {
            '(' if self.rest().starts_with("(?") => self.perl_group(),
            '(' => {
                self.at += 1;
                self.open(true);
                Ok(())
            }
            '|' => {
                self.at += 1;
                let items = std::mem::take(&mut self.current.items);
                let items = Node::concat(items).map_err(|code| self.refuse_whole(code))?;
                self.current.alternatives.push(items);
                Ok(())
            }
            ')' => self.end_group(),
            '^' => self.anchor(1, if self.flags.lines { "(?m:^)" } else { r"\A" }),
            '$' => self.anchor(1, if self.flags.lines { "(?m:$)" } else { r"\z" }),
            '.' => self.anchor(
                1,
                if self.flags.dot_all {
                    r"[\x00-\x{10FFFF}]"
                } else {
                    r"[^\n]"
                },
            ),
            '[' => self.bracket(),
            '\\' => self.escape(),
            c => {
                self.at += c.len_utf8();
                self.literal(u32::from(c));
                Ok(())
            }
        }
    }

    fn rest(&self) -> &'a str {
        &self.pattern[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn refuse(&self, code: Code, from: usize) -> Refused {
        Refused::new(code, &self.pattern[from..self.at])
    }

    fn refuse_whole(&self, code: Code) -> Refused {
        Refused::new(code, self.pattern)
    }

    /// Adds an item that `length` bytes denote.
    fn anchor(&mut self, length: usize, text: &str) -> Result<(), Refused> {
        self.at += length;
        self.push(text.to_owned());
        Ok(())
    }

    fn push(&mut self, text: String) {
        self.current.items.push(Node::atom(text));
    }

    fn literal(&mut self, code_point: u32) {
        let text = match char::from_u32(code_point) {
            Some(c) if !self.flags.fold => class::character(c),
            _ => class::written(&class::range(code_point, code_point, self.flags.fold)),
        };
        self.push(text);
    }

    fn open(&mut self, captures: bool) {
        let frame = Frame {
            captures,
            outer: self.flags,
            ..Frame::default()
        };
        self.frames
            .push(std::mem::replace(&mut self.current, frame));
    }

    fn close(&self, mut frame: Frame) -> Result<Node, Refused> {
        let refuse = |code| self.refuse_whole(code);
        let last = Node::concat(frame.items).map_err(refuse)?;
        frame.alternatives.push(last);
        Node::alternate(frame.alternatives).map_err(refuse)
    }

    fn end_group(&mut self) -> Result<(), Refused> {
        let Some(outer) = self.frames.pop() else {
            return Err(self.refuse_whole(Code::UnexpectedParenthesis));
        };
        self.at += 1;
        let frame = std::mem::replace(&mut self.current, outer);
        self.flags = frame.outer;
        let captures = frame.captures;
        let group = self.close(frame)?.grouped(captures);
        let group = group.map_err(|code| self.refuse_whole(code))?;
        self.current.items.push(group);
        Ok(())
    }

    /// Repeats the last item. The operator is from `start` to `end`, and a `?` may follow it.
    fn repeat(&mut self, start: usize, end: usize, repeat: Repeat) -> Result<bool, Refused> {
        self.at = end;
        let mut lazy = self.flags.lazy;
        if self.peek() == Some('?') {
            self.at += 1;
            lazy = !lazy;
        }
        if let Some(last) = self.last_repeat {
            return Err(self.refuse(Code::RepeatOperator, last));
        }
        let Some(item) = self.current.items.pop() else {
            return Err(self.refuse(Code::MissingArgument, start));
        };
        let repeated = item.repeated(repeat, lazy);
        let repeated = repeated.map_err(|code| self.refuse_whole(code))?;
        let is_many = match repeat {
            Repeat::Counted { min, max } => min >= 2 || max.is_some_and(|max| max >= 2),
            _ => false,
        };
        if is_many && repeated.product > MAX_REPEAT {
            return Err(self.refuse(Code::RepeatSize, start));
        }
        self.current.items.push(repeated);
        Ok(true)
    }

    /// Reads `{min,max}`. Returns false for a brace that is a character.
    fn counted(&mut self) -> Result<bool, Refused> {
        let start = self.at;
        let Some((bounds, length)) = bounds(&self.rest()[1..]) else {
            self.at += 1;
            self.literal(u32::from('{'));
            return Ok(false);
        };
        self.at += 1 + length;
        let (min, max) = bounds;
        if min > MAX_REPEAT || max.is_some_and(|max| max > MAX_REPEAT || min > max) {
            return Err(self.refuse(Code::RepeatSize, start));
        }
        self.repeat(start, self.at, Repeat::Counted { min, max })
    }

    /// Reads `(?flags)`, `(?flags:` or the start of a named group.
    fn perl_group(&mut self) -> Result<(), Refused> {
        let start = self.at;
        let rest = self.rest();
        let name_at = ["(?P<", "(?<"]
            .iter()
            .find(|begin| rest.starts_with(**begin));
        // Go looks at one more byte than the beginning has.
        if let Some(begin) = name_at.filter(|begin| rest.len() > begin.len()) {
            let Some(end) = rest.find('>') else {
                return Err(Refused::new(Code::NamedCapture, rest));
            };
            let name = &rest[begin.len()..end];
            self.at += end + 1;
            let is_word = |c: char| c == '_' || c.is_ascii_alphanumeric();
            if name.is_empty() || !name.chars().all(is_word) {
                return Err(self.refuse(Code::NamedCapture, start));
            }
            self.open(true);
            return Ok(());
        }
        self.at += 2;
        let mut flags = self.flags;
        let mut on = true;
        let mut has_flag = false;
        while let Some(c) = self.next() {
            match c {
                'i' => flags.fold = on,
                'm' => flags.lines = on,
                's' => flags.dot_all = on,
                'U' => flags.lazy = on,
                '-' if on => {
                    on = false;
                    has_flag = false;
                    continue;
                }
                ':' | ')' if on || has_flag => {
                    if c == ':' {
                        self.open(false);
                    }
                    self.flags = flags;
                    return Ok(());
                }
                _ => break,
            }
            has_flag = true;
        }
        Err(self.refuse(Code::PerlOperator, start))
    }

    /// Reads what begins with a backslash, outside of a class.
    fn escape(&mut self) -> Result<(), Refused> {
        let start = self.at;
        let second = self.rest()[1..].chars().next();
        match second {
            Some('A') => return self.anchor(2, r"\A"),
            Some('z') => return self.anchor(2, r"\z"),
            Some('b') => return self.anchor(2, r"(?-u:\b)"),
            Some('B') => return self.anchor(2, r"(?-u:\B)"),
            Some('C') => {
                self.at += 2;
                return Err(self.refuse(Code::Escape, start));
            }
            Some('Q') => {
                self.at += 2;
                let quoted = self.rest();
                let (quoted, length) = match quoted.split_once(r"\E") {
                    Some((quoted, _)) => (quoted, quoted.len() + 2),
                    None => (quoted, quoted.len()),
                };
                for c in quoted.chars() {
                    self.literal(u32::from(c));
                }
                self.at += length;
                return Ok(());
            }
            _ => {}
        }
        if let Some(class) = self.named_class()? {
            self.push(class::written(&class));
            return Ok(());
        }
        let code_point = self.escaped()?;
        self.literal(code_point);
        Ok(())
    }

    /// Reads `\d`, `\pL`, `\p{Greek}` and their relatives, if the next characters are one.
    fn named_class(&mut self) -> Result<Option<ClassUnicode>, Refused> {
        let start = self.at;
        let Some(letter) = self
            .rest()
            .strip_prefix('\\')
            .and_then(|t| t.chars().next())
        else {
            return Ok(None);
        };
        if !matches!(letter, 'p' | 'P') {
            let class = class::perl(letter, self.flags.fold);
            if class.is_some() {
                self.at += 2;
            }
            return Ok(class);
        }
        let name = &self.rest()[2..];
        let first = name.chars().next();
        let (name, length) = if first == Some('{') {
            let Some(end) = name.find('}') else {
                return Err(Refused::new(Code::CharRange, self.rest()));
            };
            (&name[1..end], end + 1)
        } else {
            let length = first.map_or(0, char::len_utf8);
            (&name[..length], length)
        };
        self.at += 2 + length;
        let (name, inverted) = match name.strip_prefix('^') {
            Some(name) => (name, true),
            None => (name, false),
        };
        let class = class::unicode(name, self.flags.fold, inverted != (letter == 'P'));
        class
            .map(Some)
            .ok_or_else(|| self.refuse(Code::CharRange, start))
    }

    /// Reads the escape of one character.
    fn escaped(&mut self) -> Result<u32, Refused> {
        let start = self.at;
        self.at += 1;
        let Some(c) = self.next() else {
            return Err(Refused::new(Code::TrailingBackslash, ""));
        };
        let code_point = match c {
            '0' => Some(self.octal(0)),
            // A digit alone would refer to a group.
            '1'..='7' if self.octal_digit().is_some() => Some(self.octal(u32::from(c) - 48)),
            'x' => self.hexadecimal(),
            'a' => Some(7),
            'f' => Some(12),
            'n' => Some(10),
            'r' => Some(13),
            't' => Some(9),
            'v' => Some(11),
            c if c.is_ascii() && !c.is_ascii_alphanumeric() => Some(u32::from(c)),
            _ => None,
        };
        code_point.ok_or_else(|| self.refuse(Code::Escape, start))
    }

    fn octal_digit(&self) -> Option<u32> {
        self.peek().and_then(|c| c.to_digit(8))
    }

    /// Reads at most two further digits.
    fn octal(&mut self, first: u32) -> u32 {
        let mut number = first;
        for _ in 0..2 {
            let Some(digit) = self.octal_digit() else {
                break;
            };
            self.at += 1;
            number = number * 8 + digit;
        }
        number
    }

    /// Reads two digits, or any number of them in braces.
    fn hexadecimal(&mut self) -> Option<u32> {
        let first = self.next()?;
        if first != '{' {
            let second = self.next();
            return Some(first.to_digit(16)? * 16 + second?.to_digit(16)?);
        }
        let mut number = None;
        loop {
            match self.next()? {
                '}' => return number,
                c => {
                    let digit = c.to_digit(16)?;
                    let larger = number.unwrap_or(0) * 16 + digit;
                    number = (larger <= u32::from(char::MAX)).then_some(larger);
                    number?;
                }
            }
        }
    }

    /// Reads a class in brackets.
    fn bracket(&mut self) -> Result<(), Refused> {
        let start = self.at;
        self.at += 1;
        let negated = self.peek() == Some('^');
        if negated {
            self.at += 1;
        }
        let mut class = ClassUnicode::empty();
        let mut is_first = true;
        while is_first || self.peek() != Some(']') {
            is_first = false;
            if let Some(posix) = self.posix_class()? {
                class.union(&posix);
            } else if let Some(named) = self.named_class()? {
                class.union(&named);
            } else {
                class.union(&self.class_range(start)?);
            }
        }
        self.at += 1;
        if negated {
            class.negate();
        }
        self.push(class::written(&class));
        Ok(())
    }

    /// Reads `[:name:]`, if the next characters are one.
    fn posix_class(&mut self) -> Result<Option<ClassUnicode>, Refused> {
        let start = self.at;
        let Some(length) = self.rest().strip_prefix("[:").and_then(|t| t.find(":]")) else {
            return Ok(None);
        };
        let name = &self.rest()[2..2 + length];
        self.at += length + 4;
        class::posix(name, self.flags.fold)
            .map(Some)
            .ok_or_else(|| self.refuse(Code::CharRange, start))
    }

    /// Reads one character or a range in the class that began at `class_start`.
    fn class_range(&mut self, class_start: usize) -> Result<ClassUnicode, Refused> {
        let start = self.at;
        let low = self.class_character(class_start)?;
        let mut high = low;
        let rest = self.rest();
        if rest.len() >= 2 && rest.starts_with('-') && !rest.starts_with("-]") {
            self.at += 1;
            high = self.class_character(class_start)?;
            if high < low {
                return Err(self.refuse(Code::CharRange, start));
            }
        }
        Ok(class::range(low, high, self.flags.fold))
    }

    fn class_character(&mut self, class_start: usize) -> Result<u32, Refused> {
        if self.peek() == Some('\\') {
            return self.escaped();
        }
        let whole = &self.pattern[class_start..];
        let missing = || Refused::new(Code::MissingBracket, whole);
        self.next().map(u32::from).ok_or_else(missing)
    }
}

/// The bounds before the closing brace and the length of the text up to it. A number that is too
/// large is the largest one.
fn bounds(text: &str) -> Option<((u64, Option<u64>), usize)> {
    let end = text.find(|c: char| c != ',' && !c.is_ascii_digit())?;
    if !text[end..].starts_with('}') {
        return None;
    }
    let number = |digits: &str| {
        let is_number = digits.bytes().all(|b| b.is_ascii_digit()) && !digits.is_empty();
        let has_zero = digits.len() > 1 && digits.starts_with('0');
        (is_number && !has_zero).then(|| digits.parse().unwrap_or(u64::MAX))
    };
    let bounds = match text[..end].split_once(',') {
        None => {
            let min = number(&text[..end])?;
            (min, Some(min))
        }
        Some((min, "")) => (number(min)?, None),
        Some((min, max)) => (number(min)?, Some(number(max)?)),
    };
    Some((bounds, end + 1))
}
