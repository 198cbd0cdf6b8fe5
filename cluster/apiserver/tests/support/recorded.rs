//! Comparison with recorded answers: values that differ between runs, and lists of known
//! differences.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use jiff::Timestamp;
use serde_json::{Value, json};

/// Reads a list of known differences: lines of the form `name reason`.
pub(crate) fn known(text: &str) -> BTreeMap<String, String> {
    text.lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| {
            let (id, reason) = line
                .split_once(' ')
                .unwrap_or_else(|| panic!("{line:?} has no reason"));
            (id.to_owned(), reason.to_owned())
        })
        .collect()
}

/// Replaces values that differ between runs with the placeholders of the recordings, and sorts
/// managed fields as the recordings do.
pub(crate) fn masked(value: &Value) -> Value {
    mask(value, "")
}

fn mask(value: &Value, key: &str) -> Value {
    match value {
        Value::Object(fields) => {
            let generated = fields
                .get("generateName")
                .and_then(Value::as_str)
                .map(str::to_owned);
            fields
                .iter()
                .map(
                    |(key, value)| match (key.as_str(), value.as_str(), &generated) {
                        ("name", Some(name), Some(prefix))
                            if name.len() == prefix.len() + 5
                                && name.starts_with(prefix.as_str()) =>
                        {
                            (key.clone(), json!(format!("{prefix}<suffix>")))
                        }
                        _ => (key.clone(), mask(value, key)),
                    },
                )
                .collect()
        }
        Value::Array(items) => {
            let mut items: Vec<Value> = items.iter().map(|item| mask(item, key)).collect();
            if key == "managedFields" {
                items.sort_by_key(|entry| {
                    ["manager", "operation", "subresource", "apiVersion"]
                        .map(|key| entry[key].as_str().unwrap_or("").to_owned())
                });
            }
            Value::Array(items)
        }
        Value::String(text) => Value::from(mask_text(text, key)),
        other => other.clone(),
    }
}

pub(crate) fn mask_text(text: &str, key: &str) -> String {
    match key {
        "resourceVersion" | "remainingVersion"
            if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            "<rv>".to_owned()
        }
        "continue" => "<continue>".to_owned(),
        "storageVersionHash" => "<hash>".to_owned(),
        "serverAddress" => "<serverAddress>".to_owned(),
        "clusterIP" | "clusterIPs" if text.starts_with("10.96.") => "<ip>".to_owned(),
        "cells" if is_age(text) => "<age>".to_owned(),
        "cells" if text.starts_with("10.96.") => "<ip>".to_owned(),
        _ => {
            let mut masked = text.replace('\u{a0}', " ");
            for word in words(text) {
                if uuid::Uuid::try_parse(&word).is_ok() && word.len() == 36 {
                    masked = masked.replace(&word, "<uid>");
                } else if is_server_time(&word) {
                    masked = masked.replace(&word, "<time>");
                }
            }
            if key == "message" {
                masked = mask_versions(&masked);
            }
            masked
        }
    }
}

fn words(text: &str) -> Vec<String> {
    text.split(|letter: char| !(letter.is_ascii_alphanumeric() || "-:.".contains(letter)))
        .map(|word| word.trim_end_matches(['.', ':']).to_owned())
        .filter(|word| word.len() >= 20)
        .collect()
}

/// Times that clients sent are in 2024.
fn is_server_time(word: &str) -> bool {
    !word.starts_with("2024-") && word.parse::<Timestamp>().is_ok()
}

fn mask_versions(message: &str) -> String {
    let mut masked = message.to_owned();
    for (before, after) in [
        ("current: ", ""),
        ("too old resource version: 1 (", ")"),
        ("ResourceVersion in record (", ")"),
        ("ResourceVersion in object meta: ", ""),
        (r#"\"resourceVersion\":\""#, r#"\""#),
    ] {
        if let Some(start) = masked.find(before).map(|at| at + before.len()) {
            let digits = masked[start..]
                .bytes()
                .take_while(u8::is_ascii_digit)
                .count();
            if digits > 0 && masked[start + digits..].starts_with(after) {
                masked.replace_range(start..start + digits, "<rv>");
            }
        }
    }
    masked
}

/// Ages such as `0s`, `12m` and `3d4h`.
fn is_age(text: &str) -> bool {
    text.ends_with(['s', 'm', 'h', 'd', 'y'])
        && text.starts_with(|letter: char| letter.is_ascii_digit())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || b"smhdy".contains(&byte))
}

/// The differences, one line per path.
pub(crate) fn differ(expected: &Value, found: &Value) -> Option<String> {
    let mut lines = String::new();
    walk("", expected, found, &mut lines);
    (!lines.is_empty()).then_some(lines)
}

fn walk(path: &str, expected: &Value, found: &Value, lines: &mut String) {
    match (expected, found) {
        (Value::Object(wanted), Value::Object(got)) => {
            let keys: BTreeSet<&String> = wanted.keys().chain(got.keys()).collect();
            for key in keys {
                let path = format!("{path}/{key}");
                match (wanted.get(key), got.get(key)) {
                    (Some(wanted), Some(got)) => walk(&path, wanted, got, lines),
                    (Some(wanted), None) => writeln!(lines, "  {path}: missing {wanted}").unwrap(),
                    (None, Some(got)) => writeln!(lines, "  {path}: too much {got}").unwrap(),
                    (None, None) => {}
                }
            }
        }
        (Value::String(mark), Value::Array(entries))
            if mark == "<managedFields>" && !entries.is_empty() => {}
        (Value::Array(wanted), Value::Array(got)) if wanted.len() == got.len() => {
            for (index, (wanted, got)) in wanted.iter().zip(got).enumerate() {
                walk(&format!("{path}/{index}"), wanted, got, lines);
            }
        }
        // The recordings contain `<age>` only in cells that show an age.
        _ if expected != found => writeln!(
            lines,
            "  {path}:\n    recorded {expected}\n    answered {found}"
        )
        .unwrap(),
        _ => {}
    }
}
