//! JSON for readers: short values on one line, and the differences of two objects.

use serde_json::Value;

/// Longest line in characters. Longer values are split over several lines.
const WIDTH: usize = 200;

/// `value` as lines with this indentation, each with a line break at its end.
pub(super) fn pretty(value: &Value, indent: usize) -> String {
    let mut text = String::new();
    write(&mut text, "", value, indent, "");
    text
}

fn write(text: &mut String, key: &str, value: &Value, indent: usize, end: &str) {
    let space = " ".repeat(indent);
    let line = format!("{space}{key}{value}{end}\n");
    let (open, close, fields): (_, _, Vec<(String, &Value)>) = match value {
        Value::Object(fields) if line.len() > WIDTH => (
            "{",
            "}",
            fields
                .iter()
                .map(|(key, value)| (format!("{}: ", Value::from(&**key)), value))
                .collect(),
        ),
        Value::Array(items) if line.len() > WIDTH => (
            "[",
            "]",
            items.iter().map(|item| (String::new(), item)).collect(),
        ),
        _ => return text.push_str(&line),
    };
    text.push_str(&format!("{space}{key}{open}\n"));
    for (at, (key, value)) in fields.iter().enumerate() {
        let comma = if at + 1 < fields.len() { "," } else { "" };
        write(text, key, value, indent + 2, comma);
    }
    text.push_str(&format!("{space}{close}{end}\n"));
}

/// A field with different values.
#[derive(Debug, PartialEq)]
pub(super) struct Difference {
    path: String,
    before: Option<Value>,
    after: Option<Value>,
}

impl Difference {
    pub(super) fn show(&self, indent: usize) -> String {
        let mut text = String::new();
        let Self {
            path,
            before,
            after,
        } = self;
        match (before, after) {
            (Some(before), None) => write(&mut text, &format!("- {path}: "), before, indent, ""),
            (None, Some(after)) => write(&mut text, &format!("+ {path}: "), after, indent, ""),
            (Some(before), Some(after)) if is_scalar(before) && is_scalar(after) => {
                write(
                    &mut text,
                    &format!("~ {path}: {before} -> "),
                    after,
                    indent,
                    "",
                );
            }
            (_, Some(after)) => write(&mut text, &format!("~ {path}: "), after, indent, ""),
            (None, None) => {}
        }
        text
    }
}

fn is_scalar(value: &Value) -> bool {
    !value.is_object() && !value.is_array()
}

/// The changes from `before` to `after`. A list counts as one value.
pub(super) fn differences(before: &Value, after: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    compare("", Some(before), Some(after), &mut found);
    found
}

/// Adds the differences below `path`. Keys with dots or slashes appear as `path["key"]`.
fn compare(path: &str, before: Option<&Value>, after: Option<&Value>, found: &mut Vec<Difference>) {
    match (before, after) {
        (Some(Value::Object(before)), Some(Value::Object(after))) => {
            let added = after.keys().filter(|key| !before.contains_key(*key));
            for key in before.keys().chain(added) {
                let path = match path {
                    "" => key.clone(),
                    path if key.contains(['.', '/']) => format!("{path}[{key:?}]"),
                    path => format!("{path}.{key}"),
                };
                compare(&path, before.get(key), after.get(key), found);
            }
        }
        (before, after) if before != after => {
            found.push(Difference {
                path: path.to_owned(),
                before: before.cloned(),
                after: after.cloned(),
            });
        }
        _ => {}
    }
}
