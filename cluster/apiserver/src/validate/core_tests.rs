//! Objects that a real 1.36.2 server refused, or accepted with warnings, with its words.

use serde_json::{Value, json};

use super::*;
use crate::defaults;

/// Lists that upstream makes from a map have no order. Differences of objects, after the first line,
/// have another form.
fn comparable(texts: &[String]) -> Vec<&str> {
    let first_line = |text: &'_ String| text.find('\n').unwrap_or(text.len());
    let mut texts: Vec<_> = texts.iter().map(|text| &text[..first_line(text)]).collect();
    texts.sort_unstable();
    texts
}

/// An object as the server has it before validation.
fn completed(kind: &str, object: &Value) -> Value {
    let mut object = object.clone();
    for (field, value) in [("namespace", "default"), ("uid", "u")] {
        object["metadata"][field] = json!(value);
    }
    defaults::on_create(Release::DEFAULT, kind, &mut object);
    object
}

/// Errors and warnings of a case.
fn answers(case: &Value) -> (Vec<String>, Vec<String>) {
    let kind = case["kind"].as_str().unwrap();
    let shown = |errors: Vec<FieldError>| errors.iter().map(ToString::to_string).collect();
    let Some(old) = case.get("old") else {
        let object = completed(kind, &case["object"]);
        let errors: Vec<String> = shown(create(Release::DEFAULT, kind, &object));
        let warnings = if errors.is_empty() {
            warnings(kind, &object)
        } else {
            Vec::new()
        };
        return (errors, warnings);
    };
    let old = completed(kind, old);
    let mut new = old.clone();
    change(&mut new, &case["old"], &case["object"]);
    defaults::apply(Release::DEFAULT, kind, &mut new);
    defaults::on_update(Release::DEFAULT, kind, &mut new, &old);
    (
        shown(update(
            Release::DEFAULT,
            kind,
            case["part"].as_str(),
            &new,
            &old,
        )),
        Vec::new(),
    )
}

/// Makes the change from `before` to `after` in `object`.
fn change(object: &mut Value, before: &Value, after: &Value) {
    match (&mut *object, before, after) {
        (Value::Object(fields), Value::Object(before), Value::Object(after)) => {
            for (name, value) in after
                .iter()
                .filter(|(name, value)| before.get(*name) != Some(value))
            {
                let old = before.get(name).unwrap_or(&Value::Null);
                if value.is_null() {
                    fields.remove(name);
                } else {
                    change(fields.entry(name).or_insert(Value::Null), old, value);
                }
            }
        }
        (Value::Array(list), Value::Array(before), Value::Array(after))
            if list.len() == after.len() && before.len() == after.len() =>
        {
            for ((object, before), after) in list.iter_mut().zip(before).zip(after) {
                change(object, before, after);
            }
        }
        _ => *object = after.clone(),
    }
}

#[test]
fn errors_and_warnings_are_those_of_a_real_server() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("core_cases.json")).unwrap();
    let mut differences = Vec::new();
    for case in &cases {
        let expected = |field: &str| -> Vec<String> {
            serde_json::from_value(case.get(field).cloned().unwrap_or(json!([]))).unwrap()
        };
        let (errors, warnings) = answers(case);
        for (found, expected) in [
            (errors, expected("errors")),
            (warnings, expected("warnings")),
        ] {
            if comparable(&found) != comparable(&expected) {
                differences.push(format!(
                    "{}\n  found {found:#?}\n  instead of {expected:#?}",
                    case["name"]
                ));
            }
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
