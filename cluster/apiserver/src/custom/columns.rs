//! Tables of custom kinds: the name, then the printer columns of the definition.
//!
//! Upstream: `k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor`.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::jsonpath::JsonPath;
use crate::tables::{self, age_since};

/// One entry of `additionalPrinterColumns`.
#[derive(Debug)]
pub(super) struct Column {
    kind: String,
    path: Option<JsonPath>,
    definition: Value,
}

impl Column {
    /// The columns of a version. A version without columns shows the age of its objects.
    pub(super) fn of_version(version: &Value) -> Vec<Self> {
        match version["additionalPrinterColumns"].as_array() {
            Some(columns) if !columns.is_empty() => columns.iter().map(Self::parse).collect(),
            _ => vec![Self::parse(
                &json!({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}),
            )],
        }
    }

    fn parse(column: &Value) -> Self {
        let text = |field: &str| column[field].as_str().unwrap_or_default();
        let kind = text("type");
        let path = text("jsonPath");
        let description = match text("description") {
            "" => format!("Custom resource definition column (in JSONPath format): {path}"),
            description => description.to_owned(),
        };
        let definition = json!({
            "name": text("name"), "type": kind, "format": text("format"), "description": description,
            "priority": column["priority"].as_i64().unwrap_or(0),
        });
        Self {
            kind: kind.to_owned(),
            path: JsonPath::parse(path),
            definition,
        }
    }

    fn cell(&self, object: &Value, now: Timestamp) -> Value {
        let found = self
            .path
            .as_ref()
            .and_then(|path| path.first(object))
            .unwrap_or(&Value::Null);
        match (self.kind.as_str(), found) {
            (_, Value::Null) => Value::Null,
            ("string", Value::String(_)) => found.clone(),
            ("string", other) => Value::from(other.to_string()),
            ("integer", Value::Number(number)) => number
                .as_i64()
                .map_or_else(|| truncated(number), Value::from),
            ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => found.clone(),
            ("date", Value::String(text)) if text.parse::<Timestamp>().is_err() => {
                Value::from("<invalid>")
            }
            ("date", Value::String(_)) => Value::from(age_since(Some(found), now)),
            _ => Value::Null,
        }
    }
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "upstream truncates the fraction, too"
)]
fn truncated(number: &serde_json::Number) -> Value {
    number
        .as_f64()
        .map_or(Value::Null, |number| Value::from(number as i64))
}

/// The `columnDefinitions` of a Table.
pub(super) fn definitions(columns: &[Column]) -> Vec<Value> {
    std::iter::once(tables::name_column())
        .chain(columns.iter().map(|column| column.definition.clone()))
        .collect()
}

/// The cells of one object, in the order of the columns.
pub(super) fn cells(columns: &[Column], object: &Value, now: Timestamp) -> Vec<Value> {
    let name = object["metadata"]["name"].clone();
    std::iter::once(name)
        .chain(columns.iter().map(|column| column.cell(object, now)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_have_the_type_of_their_column() {
        let object = json!({"a": {"text": "x", "number": 3.7, "whole": 3, "list": ["y"], "truth": true, "time": "2024-01-01T00:00:00Z"}});
        let now = "2024-01-01T00:01:05Z".parse().unwrap();
        let cases = [
            ("string", ".a.text", json!("x")),
            ("string", ".a.list", json!("[\"y\"]")),
            ("string", ".a.whole", json!("3")),
            ("integer", ".a.whole", json!(3)),
            ("integer", ".a.number", json!(3)),
            ("integer", ".a.text", json!(null)),
            ("number", ".a.number", json!(3.7)),
            ("boolean", ".a.truth", json!(true)),
            ("date", ".a.time", json!("65s")),
            ("date", ".a.text", json!("<invalid>")),
            ("date", ".a.missing", json!(null)),
        ];
        for (kind, path, expected) in cases {
            let column = Column::parse(&json!({"name": "c", "type": kind, "jsonPath": path}));
            assert_eq!(column.cell(&object, now), expected, "{kind} {path}");
        }
    }
}
