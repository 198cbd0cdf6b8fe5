//! Field errors with upstream's texts.
//!
//! Upstream: `field.Error` in `k8s.io/apimachinery/pkg/util/validation/field`.

use std::fmt;

use serde_json::Value;

/// One invalid field of an object.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldError {
    /// Path, such as `spec.template.metadata.labels`.
    pub field: String,
    /// The kind of error.
    pub problem: Problem,
}

/// Kinds of field errors. The variant determines the `reason` of the cause and the start of the
/// message.
#[derive(Debug, Clone, PartialEq)]
pub enum Problem {
    /// `Required value[: detail]`.
    Required(String),
    /// `Invalid value: <json>[: detail]`.
    Invalid(Value, String),
    /// `Invalid value: detail`, for a whole object that is not shown.
    InvalidWhole(String),
    /// `Invalid value` for a value of another type than the schema has.
    TypeInvalid(Value, String),
    /// `Unsupported value: "x": supported values: "A", "B"`.
    NotSupported(Value, Vec<String>),
    /// `Forbidden: detail`.
    Forbidden(String),
    /// `Not found: "x"[: detail]`.
    NotFound(Value, String),
    /// `Duplicate value: "x"[: detail]`.
    Duplicate(Value, String),
    /// `Duplicate value`, for an object or list that is not shown.
    DuplicateWhole,
    /// `Too long: may not be more than N bytes`.
    TooLong(usize),
    /// `Too many: N: must have at most M items`.
    TooMany(usize, usize),
}

impl FieldError {
    /// Reason of the cause, such as `FieldValueRequired`.
    pub fn reason(&self) -> &'static str {
        match self.problem {
            Problem::Required(_) => "FieldValueRequired",
            Problem::Invalid(..) | Problem::InvalidWhole(_) => "FieldValueInvalid",
            Problem::TypeInvalid(..) => "FieldValueTypeInvalid",
            Problem::NotSupported(..) => "FieldValueNotSupported",
            Problem::Forbidden(_) => "FieldValueForbidden",
            Problem::NotFound(..) => "FieldValueNotFound",
            Problem::Duplicate(..) | Problem::DuplicateWhole => "FieldValueDuplicate",
            Problem::TooLong(_) => "FieldValueTooLong",
            Problem::TooMany(..) => "FieldValueTooMany",
        }
    }

    /// The message without the path, as in a cause.
    pub fn detail(&self) -> String {
        let tail = |text: &str| {
            if text.is_empty() {
                String::new()
            } else {
                format!(": {text}")
            }
        };
        match &self.problem {
            Problem::Required(detail) => format!("Required value{}", tail(detail)),
            Problem::Invalid(value, detail) | Problem::TypeInvalid(value, detail) => {
                format!("Invalid value: {}{}", shown(value), tail(detail))
            }
            Problem::InvalidWhole(detail) => format!("Invalid value: {detail}"),
            Problem::NotSupported(value, supported) => {
                let list: Vec<String> = supported.iter().map(|s| format!("{s:?}")).collect();
                format!(
                    "Unsupported value: {value}: supported values: {}",
                    list.join(", ")
                )
            }
            Problem::Forbidden(detail) => format!("Forbidden: {detail}"),
            Problem::NotFound(value, detail) => format!("Not found: {value}{}", tail(detail)),
            Problem::Duplicate(value, detail) => {
                format!("Duplicate value: {value}{}", tail(detail))
            }
            Problem::DuplicateWhole => "Duplicate value".to_owned(),
            Problem::TooLong(max) => format!("Too long: may not be more than {max} bytes"),
            Problem::TooMany(found, 1) => format!("Too many: {found}: must have at most 1 item"),
            Problem::TooMany(found, max) => {
                format!("Too many: {found}: must have at most {max} items")
            }
        }
    }
}

/// A value in a message. Go escapes some letters in the JSON of objects, and none in plain texts.
fn shown(value: &Value) -> String {
    let json = value.to_string();
    match value {
        Value::Object(_) | Value::Array(_) => json
            .replace('<', "\\u003c")
            .replace('>', "\\u003e")
            .replace('&', "\\u0026"),
        _ => json,
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.detail())
    }
}
