//! Sets of characters.

use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, HirKind};

use crate::names;

/// The class after a backslash, such as `d` or `W`.
pub(crate) fn perl(letter: char, fold: bool) -> Option<ClassUnicode> {
    let ranges: &[(char, char)] = match letter.to_ascii_lowercase() {
        'd' => &[('0', '9')],
        // Without the vertical tab, as in Go.
        's' => &[('\t', '\n'), ('\x0c', '\r'), (' ', ' ')],
        'w' => &[('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')],
        _ => return None,
    };
    Some(group(ranges, fold, letter.is_ascii_uppercase()))
}

/// A class of POSIX, such as `alpha` or `^alpha`.
pub(crate) fn posix(name: &str, fold: bool) -> Option<ClassUnicode> {
    let (name, negated) = match name.strip_prefix('^') {
        Some(name) => (name, true),
        None => (name, false),
    };
    let ranges: &[(char, char)] = match name {
        "alnum" => &[('0', '9'), ('A', 'Z'), ('a', 'z')],
        "alpha" => &[('A', 'Z'), ('a', 'z')],
        "ascii" => &[('\0', '\x7f')],
        "blank" => &[('\t', '\t'), (' ', ' ')],
        "cntrl" => &[('\0', '\x1f'), ('\x7f', '\x7f')],
        "digit" => &[('0', '9')],
        "graph" => &[('!', '~')],
        "lower" => &[('a', 'z')],
        "print" => &[(' ', '~')],
        "punct" => &[('!', '/'), (':', '@'), ('[', '`'), ('{', '~')],
        "space" => &[('\t', '\r'), (' ', ' ')],
        "upper" => &[('A', 'Z')],
        "word" => &[('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')],
        "xdigit" => &[('0', '9'), ('A', 'F'), ('a', 'f')],
        _ => return None,
    };
    Some(group(ranges, fold, negated))
}

/// A category or script of Unicode.
pub(crate) fn unicode(name: &str, fold: bool, negated: bool) -> Option<ClassUnicode> {
    if !names::is_known(name) {
        return None;
    }
    let parsed = regex_syntax::parse(&format!(r"\p{{{name}}}"));
    let mut class = match parsed.map(regex_syntax::hir::Hir::into_kind) {
        Ok(HirKind::Class(Class::Unicode(class))) => class,
        // A script that the tables of the crate lack, or surrogates, which no text contains.
        _ => ClassUnicode::empty(),
    };
    if fold {
        folded(&mut class);
    }
    if negated {
        class.negate();
    }
    Some(class)
}

/// The characters from `low` to `high`.
pub(crate) fn range(low: u32, high: u32, fold: bool) -> ClassUnicode {
    // Surrogates are no characters: ranges shrink to their sides.
    let low = char::from_u32(low).unwrap_or('\u{e000}');
    let high = char::from_u32(high).unwrap_or('\u{d7ff}');
    let ranges = (low <= high).then(|| ClassUnicodeRange::new(low, high));
    let mut class = ClassUnicode::new(ranges);
    if fold {
        folded(&mut class);
    }
    class
}

/// The class in the form of the crate `regex`.
pub(crate) fn written(class: &ClassUnicode) -> String {
    if class.ranges().is_empty() {
        return r"[^\x00-\x{10FFFF}]".to_owned();
    }
    let mut text = String::from("[");
    for range in class.ranges() {
        text.push_str(&character(range.start()));
        if range.start() != range.end() {
            text.push('-');
            text.push_str(&character(range.end()));
        }
    }
    text.push(']');
    text
}

/// A character that stands for itself in and outside of classes.
pub(crate) fn character(c: char) -> String {
    match c {
        c if c.is_ascii_alphanumeric() => c.to_string(),
        c => format!(r"\x{{{:X}}}", u32::from(c)),
    }
}

fn group(ranges: &[(char, char)], fold: bool, negated: bool) -> ClassUnicode {
    let ranges = ranges
        .iter()
        .map(|(low, high)| ClassUnicodeRange::new(*low, *high));
    let mut class = ClassUnicode::new(ranges);
    if fold {
        folded(&mut class);
    }
    if negated {
        class.negate();
    }
    class
}

/// Adds the other cases of all characters.
fn folded(class: &mut ClassUnicode) {
    class
        .try_case_fold_simple()
        .expect("the tables of cases are built in");
}
