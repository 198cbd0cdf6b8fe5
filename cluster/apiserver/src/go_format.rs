//! Values in the forms of Go's package `fmt`, which texts of upstream have.

use std::fmt::{Display, LowerExp};

use serde_json::Value;

/// `value` in the form of `%v`, such as `map[image:app:v1 name:m]`.
pub fn printed(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (None, Some(float)) => shortest(float),
            _ => number.to_string(),
        },
        Value::Bool(_) => value.to_string(),
        Value::Array(items) => format!(
            "[{}]",
            items.iter().map(printed).collect::<Vec<_>>().join(" ")
        ),
        Value::Object(entries) => {
            let mut entries: Vec<_> = entries.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            let entries: Vec<String> = entries
                .into_iter()
                .map(|(key, value)| format!("{key}:{}", printed(value)))
                .collect();
            format!("map[{}]", entries.join(" "))
        }
    }
}

/// The name of the type of a value, in the form of `%T`.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// A float as `FormatFloat(value, 'g', -1, bits)` writes it.
pub(crate) fn shortest(value: impl Display + LowerExp) -> String {
    let scientific = format!("{value:e}");
    let parts = scientific.split_once('e');
    let parts = parts.and_then(|(digits, exponent)| Some((digits, exponent.parse::<i32>().ok()?)));
    match parts {
        Some((digits, exponent)) if !(-4..6).contains(&exponent) => {
            format!("{digits}e{exponent:+03}")
        }
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Each text is a part of an answer of kube-apiserver 1.36.2 about replicas of a wrong type.
    #[test]
    fn values_and_types_have_the_forms_of_go() {
        for (value, text, name) in [
            (json!("<a&b> \"q\""), "<a&b> \"q\"", "string"),
            (json!(3), "3", "int64"),
            (json!(1.5), "1.5", "float64"),
            (json!(3.0), "3", "float64"),
            (json!(1e3), "1000", "float64"),
            (json!(1e20), "1e+20", "float64"),
            (json!(0.0001), "0.0001", "float64"),
            (json!(0.00001), "1e-05", "float64"),
            (
                json!(9_223_372_036_854_775_808_u64),
                "9.223372036854776e+18",
                "float64",
            ),
            (json!(null), "<nil>", "<nil>"),
            (json!(true), "true", "bool"),
            (
                json!(["a", 1, null, 2.0, {"b": 1, "a": "x"}]),
                "[a 1 <nil> 2 map[a:x b:1]]",
                "[]interface {}",
            ),
            (
                json!({"b": 1, "a": "x"}),
                "map[a:x b:1]",
                "map[string]interface {}",
            ),
        ] {
            assert_eq!(printed(&value), text, "{value}");
            assert_eq!(type_name(&value), name, "{value}");
        }
    }
}
