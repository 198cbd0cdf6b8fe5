//! The data of a revision: the pod template of its owner, as the bytes that Go's encoder writes.
//!
//! Revisions are equal if their data are equal bytes, and the name of a revision is a hash of them.
//! With one other byte, a takeover from kube-controller-manager would restart all pods.
//!
//! Upstream: `getPatch` in `pkg/controller/statefulset` and in `pkg/controller/daemon`.

use std::fmt::Write;

use serde_json::{Number, Value};

/// The treatment of integers that a 64-bit float cannot represent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Integers {
    /// They keep their value.
    Exact,
    /// They become the nearest float, as in Go's decoder for maps without types.
    Rounded,
}

/// The data for `template`, which is `spec.template` as served: a strategic merge patch that
/// replaces the template of the owner.
pub fn data(template: &Value, integers: Integers) -> String {
    let mut out = String::with_capacity(2048);
    out.push_str(r#"{"spec":{"template":{"$patch":"replace""#);
    for (key, value) in sorted(template) {
        out.push(',');
        write_text(&mut out, key);
        out.push(':');
        write_value(&mut out, value, integers);
    }
    out.push_str("}}}");
    out
}

/// The members of `object` by key. `$patch` sorts before all fields of a template, and [`data`]
/// writes it.
fn sorted(object: &Value) -> Vec<(&String, &Value)> {
    let members = object.as_object().into_iter().flatten();
    let mut members: Vec<_> = members.filter(|(key, _)| *key != "$patch").collect();
    members.sort_unstable_by_key(|(key, _)| *key);
    members
}

fn write_value(out: &mut String, value: &Value, integers: Integers) {
    match value {
        Value::Object(object) => {
            let mut members: Vec<_> = object.iter().collect();
            members.sort_unstable_by_key(|(key, _)| *key);
            write_list(out, ['{', '}'], members, |out, (key, value)| {
                write_text(out, key);
                out.push(':');
                write_value(out, value, integers);
            });
        }
        Value::Array(items) => write_list(out, ['[', ']'], items, |out, item| {
            write_value(out, item, integers);
        }),
        Value::String(text) => write_text(out, text),
        Value::Number(number) => write_number(out, number, integers),
        Value::Bool(_) | Value::Null => {
            write!(out, "{value}").expect("writing to a String does not fail");
        }
    }
}

fn write_list<T>(
    out: &mut String,
    [open, close]: [char; 2],
    items: impl IntoIterator<Item = T>,
    mut write: impl FnMut(&mut String, T),
) {
    out.push(open);
    for (n, item) in items.into_iter().enumerate() {
        if n > 0 {
            out.push(',');
        }
        write(out, item);
    }
    out.push(close);
}

fn write_number(out: &mut String, number: &Number, integers: Integers) {
    let written = match number.as_i64() {
        // Rust and Go both write the fewest digits that identify the float, padded with zeros.
        #[allow(
            clippy::cast_precision_loss,
            reason = "Go rounds the number in the same way"
        )]
        Some(integer) if integers == Integers::Rounded => write!(out, "{}", integer as f64),
        _ => write!(out, "{number}"),
    };
    written.expect("writing to a String does not fail");
}

/// Writes a string with the escapes of Go's encoder.
fn write_text(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..='\u{1f}' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                write!(out, "\\u{:04x}", u32::from(character))
                    .expect("writing to a String does not fail");
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn strings_have_the_escapes_of_go() {
        let text = "\"\\/\u{8}\u{c}\n\r\t\0\u{1b}\u{7f}<>&\u{2028}\u{2029}é😀";
        let expected = concat!(
            r#""\"\\/\b\f\n\r\t\u0000\u001b"#,
            "\u{7f}",
            r#"\u003c\u003e\u0026\u2028\u2029é😀""#
        );
        let mut out = String::new();
        write_text(&mut out, text);
        assert_eq!(out, expected);
    }

    #[test]
    fn numbers_of_stateful_sets_are_rounded() {
        // (number, rounded, exact)
        let cases = [
            (0, "0", "0"),
            (-5, "-5", "-5"),
            (
                9_007_199_254_740_993,
                "9007199254740992",
                "9007199254740993",
            ),
            (
                4_611_686_018_427_387_905,
                "4611686018427388000",
                "4611686018427387905",
            ),
            (i64::MAX, "9223372036854776000", "9223372036854775807"),
        ];
        for (number, rounded, exact) in cases {
            for (integers, expected) in [(Integers::Rounded, rounded), (Integers::Exact, exact)] {
                let mut out = String::new();
                write_value(&mut out, &json!(number), integers);
                assert_eq!(out, expected, "{integers:?}");
            }
        }
    }
}
