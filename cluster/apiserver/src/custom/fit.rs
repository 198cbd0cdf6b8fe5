//! Validation of an object against the schema of its kind, with upstream's messages.
//!
//! Upstream: `k8s.io/kube-openapi/pkg/validation/validate`, with ratcheting from
//! apiextensions-apiserver.

use serde_json::{Number, Value};

use super::schema::{Additional, ListType, Schema};
use crate::apimachinery::{schema_formats, string_formats};
use crate::fielderror::{FieldError, Problem};

/// The errors of `value` at `path` (empty for a whole object). Values that an update keeps from
/// `old` are not checked again, so that old objects stay editable after a schema change.
pub(super) fn check(
    schema: &Schema,
    value: &Value,
    old: Option<&Value>,
    path: &str,
) -> Vec<FieldError> {
    check_named(schema, value, old, path, "")
}

/// The same for a part of an object at `path`. Texts name fields below it, as upstream's do.
pub(super) fn check_part(
    schema: &Schema,
    value: &Value,
    old: Option<&Value>,
    path: &str,
) -> Vec<FieldError> {
    check_named(schema, value, old, path, path)
}

fn check_named(
    schema: &Schema,
    value: &Value,
    old: Option<&Value>,
    path: &str,
    unnamed: &str,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    // Errors of combined schemas (`anyOf` and others) name the path at which validation began.
    // Upstream prints `<nil>` for the root.
    let start = if path.is_empty() { "<nil>" } else { path };
    Check {
        start,
        unnamed,
        errors: &mut errors,
    }
    .value(schema, value, old, path);
    errors
}

/// Collects the errors of one validation.
struct Check<'a> {
    start: &'a str,
    /// The start of paths that texts leave out.
    unnamed: &'a str,
    errors: &'a mut Vec<FieldError>,
}

impl Check<'_> {
    fn add(&mut self, path: &str, problem: Problem) {
        self.errors.push(FieldError {
            field: path.to_owned(),
            problem,
        });
    }

    /// A path as texts show it.
    fn named<'p>(&self, path: &'p str) -> &'p str {
        let named = path.strip_prefix(self.unnamed).unwrap_or(path);
        named.strip_prefix('.').unwrap_or(named)
    }

    /// Adds an error that names its path in the text alone.
    fn add_unplaced(&mut self, why: String) {
        self.add(self.start, Problem::Invalid(Value::from(""), why));
    }

    fn invalid(&mut self, path: &str, value: &Value, why: &str) {
        self.add(
            path,
            Problem::Invalid(
                value.clone(),
                format!("{} in body should {why}", self.named(path)),
            ),
        );
    }

    /// Validates a value. A value that is equal to `old` was validated before.
    fn value(&mut self, schema: &Schema, value: &Value, old: Option<&Value>, path: &str) {
        if old == Some(value) {
            return;
        }
        self.kind(schema, value, path);
        if !value.is_null() {
            self.alternatives(schema, value, path);
            match value {
                Value::String(text) => self.text(schema, value, text, path),
                Value::Number(number) => self.number(schema, value, number, path),
                Value::Array(items) => self.list(schema, items, old, path),
                _ => {}
            }
        }
        let allowed = schema.allowed.is_empty()
            || schema.allowed.contains(value)
            || (value.is_null() && schema.nullable);
        if !allowed {
            let supported = schema.allowed.iter().map(|allowed| {
                allowed
                    .as_str()
                    .map_or_else(|| allowed.to_string(), str::to_owned)
            });
            self.add(
                path,
                Problem::NotSupported(value.clone(), supported.collect()),
            );
        }
        if value.is_object() {
            self.object(schema, value, old, path);
        }
    }

    fn kind(&mut self, schema: &Schema, value: &Value, path: &str) {
        let expected = if schema.int_or_string {
            "integer,string"
        } else {
            &schema.kind
        };
        let found = type_of(value);
        let fits = expected.is_empty()
            || expected
                .split(',')
                .any(|kind| kind == found || (kind == "number" && found == "integer"))
            || (value.is_null() && schema.nullable);
        if !fits {
            // Of numbers, the text names the types of Go's values.
            let (found, own_format) = match value {
                Value::Number(number) if number.is_f64() => ("number", "float64"),
                Value::Number(_) => (found, "int64"),
                _ => (found, ""),
            };
            let is_of_number =
                schema.int_or_string || matches!(&*schema.kind, "integer" | "number");
            let (expected, found) = match (format(schema), value) {
                ("", _) | (_, Value::Null) => (expected, found),
                // The validator of the format looks at these alone, and at texts only.
                (_, Value::String(_) | Value::Array(_)) if !is_of_number => return,
                (_, Value::String(_) | Value::Array(_)) => (expected, found),
                (format, _) => (format, own_format),
            };
            let named = self.named(path);
            let why = format!("{named} in body must be of type {expected}: \"{found}\"");
            self.add(path, Problem::TypeInvalid(Value::from(found), why));
        }
    }

    fn text(&mut self, schema: &Schema, value: &Value, text: &str, path: &str) {
        let length = text.chars().count();
        if let Some(max) = schema.max_length.filter(|max| length > *max) {
            self.add(path, Problem::TooLong(max));
        }
        if let Some(min) = schema.min_length.filter(|min| length < *min) {
            self.invalid(path, value, &format!("be at least {min} chars long"));
        }
        if !schema.pattern.is_empty() && !schema.matches(text) {
            self.invalid(path, value, &format!("match '{}'", schema.pattern));
        }
        if !string_formats::fits(&schema.format, text) {
            let named = self.named(path);
            let why = format!("{named} in body must be of type {}: {value}", schema.format);
            self.add(path, Problem::TypeInvalid(value.clone(), why));
        }
    }

    fn number(&mut self, schema: &Schema, value: &Value, number: &Number, path: &str) {
        let format = format(schema);
        if !is_in_range(number, &schema.kind, format) {
            let format = match format {
                "" => "(default format)".to_owned(),
                format => format!("with format {format}"),
            };
            let kind = &schema.kind;
            let why = format!("Checked value must be of type {kind} {format} in {path}");
            self.add_unplaced(why);
        }
        let exceeds = |limit: &Option<Number>, beyond: &dyn Fn(f64, f64) -> bool| {
            limit
                .as_ref()
                .filter(|limit| {
                    number
                        .as_f64()
                        .zip(limit.as_f64())
                        .is_some_and(|(found, limit)| beyond(found, limit))
                })
                .cloned()
        };
        if let Some(factor) = exceeds(&schema.multiple_of, &|found, factor| {
            (found / factor).fract() != 0.0
        }) {
            self.invalid(path, value, &format!("be a multiple of {factor}"));
        }
        let or_equal = |exclusive: bool| if exclusive { "" } else { " or equal to" };
        let than = |exclusive: bool, words: &str, limit: &Number| {
            if exclusive {
                format!("be {words} {}", shown(limit))
            } else {
                format!("be {words}{} {}", or_equal(exclusive), shown(limit))
            }
        };
        let exclusive = schema.exclusive_maximum;
        if let Some(max) = exceeds(&schema.maximum, &|found, max| {
            found > max || (exclusive && found >= max)
        }) {
            self.invalid(path, value, &than(exclusive, "less than", &max));
        }
        let exclusive = schema.exclusive_minimum;
        if let Some(min) = exceeds(&schema.minimum, &|found, min| {
            found < min || (exclusive && found <= min)
        }) {
            self.invalid(path, value, &than(exclusive, "greater than", &min));
        }
    }

    fn list(&mut self, schema: &Schema, items: &[Value], old: Option<&Value>, path: &str) {
        if let Some(item) = schema.item() {
            for (index, value) in items.iter().enumerate() {
                let before = old.and_then(|old| same_element(schema, old, value));
                self.value(item, value, before, &format!("{path}[{index}]"));
            }
        }
        let count = items.len();
        if let Some(min) = schema.min_items.filter(|min| count < *min) {
            self.invalid(
                path,
                &Value::from(count),
                &format!("have at least {min} items"),
            );
        }
        if let Some(max) = schema.max_items.filter(|max| count > *max) {
            self.add(path, Problem::TooMany(count, max));
        }
    }

    fn object(&mut self, schema: &Schema, value: &Value, old: Option<&Value>, path: &str) {
        let Some(fields) = value.as_object() else {
            return;
        };
        let count = fields.len();
        let below = |name: &str| {
            if path.is_empty() {
                name.to_owned()
            } else {
                format!("{path}.{name}")
            }
        };
        if let Some(min) = schema.min_properties.filter(|min| count < *min) {
            self.invalid(
                path,
                &Value::from(count),
                &format!("have at least {min} properties"),
            );
        }
        if let Some(max) = schema.max_properties.filter(|max| count > *max) {
            self.add(path, Problem::TooMany(count, max));
        }
        for (name, value) in fields {
            let forbidden = matches!(
                schema.additional_properties,
                Some(Additional::Allowed(false))
            );
            match schema.child(name) {
                Some(child) => self.value(
                    child,
                    value,
                    old.and_then(|old| old.get(name)),
                    &below(name),
                ),
                None if forbidden => {
                    let below = below(name);
                    let why = format!("{} in body is a forbidden property", self.named(&below));
                    self.add(path, Problem::Invalid(Value::from(""), why));
                }
                None => {}
            }
        }
        for name in schema
            .required
            .iter()
            .filter(|name| !fields.contains_key(*name))
        {
            self.add(&below(name), Problem::Required(String::new()));
        }
    }

    /// Checks `anyOf`, `oneOf`, `allOf` and `not`.
    fn alternatives(&mut self, schema: &Schema, value: &Value, path: &str) {
        let start = self.start;
        let unnamed = self.unnamed;
        let errors_of = |schema: &Schema| {
            let mut errors = Vec::new();
            Check {
                start,
                unnamed,
                errors: &mut errors,
            }
            .value(schema, value, None, path);
            errors
        };
        if !schema.any_of.is_empty() {
            let failures: Vec<_> = schema.any_of.iter().map(errors_of).collect();
            if failures.iter().all(|errors| !errors.is_empty()) {
                self.add_unplaced(format!(
                    "\"{path}\" must validate at least one schema (anyOf)"
                ));
                self.errors
                    .extend(failures.into_iter().next().unwrap_or_default());
            }
        }
        if !schema.one_of.is_empty() {
            let failures: Vec<_> = schema.one_of.iter().map(errors_of).collect();
            let valid = failures.iter().filter(|errors| errors.is_empty()).count();
            if valid != 1 {
                let found = if valid == 0 {
                    "Found none valid".to_owned()
                } else {
                    format!("Found {valid} valid alternatives")
                };
                self.add_unplaced(format!(
                    "\"{path}\" must validate one and only one schema (oneOf). {found}"
                ));
                if valid == 0 {
                    self.errors
                        .extend(failures.into_iter().next().unwrap_or_default());
                }
            }
        }
        if !schema.all_of.is_empty() {
            let failures: Vec<_> = schema.all_of.iter().map(errors_of).collect();
            let valid = failures.iter().filter(|errors| errors.is_empty()).count();
            self.errors.extend(failures.into_iter().flatten());
            if valid != schema.all_of.len() {
                let none = if valid == 0 { ". None validated" } else { "" };
                self.add_unplaced(format!(
                    "\"{path}\" must validate all the schemas (allOf){none}"
                ));
            }
        }
        if let Some(not) = &schema.not
            && errors_of(not).is_empty()
        {
            self.add_unplaced(format!("\"{path}\" must not validate the schema (not)"));
        }
    }
}

/// The type name of a value in messages. A number without a fraction is an integer, even if it is
/// written as `1.0`.
fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number)
            if number.is_f64() && number.as_f64().is_some_and(|number| !is_whole(number)) =>
        {
            "number"
        }
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The format that has an effect.
fn format(schema: &Schema) -> &str {
    // A schema of two types has formats of texts alone.
    let kind = if schema.int_or_string {
        ""
    } else {
        &schema.kind
    };
    if schema_formats::is_known(kind, &schema.format) {
        &schema.format
    } else {
        ""
    }
}

/// Whether JSON has the number as an integer, but for a small error.
/// Upstream: `IsFloat64AJSONInteger` of `go-openapi/swag`.
fn is_whole(number: f64) -> bool {
    const LARGEST: f64 = 9_007_199_254_740_991.0;
    const RELATIVE_ERROR: f64 = 1e-9;
    let rounded = number.round();
    number.abs() <= LARGEST
        && (number == rounded || (number - rounded).abs() < RELATIVE_ERROR * rounded.abs())
}

/// Whether a number of this type and of a format with effect has a place for the value.
/// Upstream: `IsValueValidAgainstRange`.
fn is_in_range(number: &Number, kind: &str, format: &str) -> bool {
    let text = match number.as_f64() {
        Some(float) if number.is_f64() => float.to_string(),
        _ => number.to_string(),
    };
    match (kind, format) {
        ("integer", "int32") => text.parse::<i32>().is_ok(),
        ("integer", _) => text.parse::<i64>().is_ok(),
        (_, "float") => text.parse::<f32>().is_ok_and(f32::is_finite),
        _ => true,
    }
}

/// A limit in the form in which Go prints it: `9` instead of `9.0`.
fn shown(number: &Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 1e15 => {
            format!("{float:.0}")
        }
        _ => number.to_string(),
    }
}

/// The element of `old` with the same list keys as `value`. Only lists of type `map` have keys;
/// elements of other lists have no counterpart.
fn same_element<'a>(schema: &Schema, old: &'a Value, value: &Value) -> Option<&'a Value> {
    let same = |old: &&Value| {
        schema
            .list_keys()
            .iter()
            .all(|key| old.get(key) == value.get(key))
    };
    (schema.list_type == ListType::Map).then(|| old.as_array()?.iter().find(same))?
}

/// Errors for duplicate elements in lists of type `set` and `map`.
pub(super) fn duplicates(schema: &Schema, value: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    match value {
        Value::Array(items) => {
            duplicates_in(schema, items, path, &mut errors);
            if let Some(item) = schema.item() {
                let of_item = |(index, value)| duplicates(item, value, &format!("{path}[{index}]"));
                errors.extend(items.iter().enumerate().flat_map(of_item));
            }
        }
        Value::Object(fields) => {
            for (name, value) in fields {
                let below = match (path, schema.property(name)) {
                    ("", Some(_)) => name.clone(),
                    (_, Some(_)) => format!("{path}.{name}"),
                    (_, None) => format!("{path}[{name}]"),
                };
                if let Some(child) = schema.child(name) {
                    errors.extend(duplicates(child, value, &below));
                }
            }
        }
        _ => {}
    }
    errors
}

/// Appends duplicate elements of one list.
fn duplicates_in(schema: &Schema, items: &[Value], path: &str, errors: &mut Vec<FieldError>) {
    let at = |index: usize| format!("{path}[{index}]");
    if schema.list_type == ListType::Map
        && let Some((index, value)) = items
            .iter()
            .enumerate()
            .find(|(_, item)| !item.is_object() && !item.is_null())
    {
        let why = "must be an object for an array of list-type map".to_owned();
        return errors.push(FieldError {
            field: at(index),
            problem: Problem::Invalid(value.clone(), why),
        });
    }
    let name = |item: &Value| -> Value {
        let key = |key: &String| item.get(key).map(|value| (key.clone(), value.clone()));
        schema
            .list_keys()
            .iter()
            .filter_map(key)
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    let names: Vec<Value> = match schema.list_type {
        ListType::Atomic => return,
        ListType::Set => items.to_vec(),
        ListType::Map => items.iter().map(name).collect(),
    };
    for (index, name) in names.iter().enumerate() {
        // Only the first repetition of an element is an error.
        if names[..index]
            .iter()
            .filter(|earlier| *earlier == name)
            .count()
            == 1
        {
            errors.push(FieldError {
                field: at(index),
                problem: Problem::Duplicate(name.clone(), String::new()),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn errors_of(schema: Value, value: Value) -> Vec<String> {
        let schema = Schema::parse(&schema).unwrap();
        let mut errors = check(&schema, &value, None, "");
        errors.extend(duplicates(&schema, &value, ""));
        errors.iter().map(ToString::to_string).collect()
    }

    fn spec(schema: Value) -> Value {
        json!({"type": "object", "properties": {"a": schema}})
    }

    #[test]
    fn invalid_values_have_the_messages_of_upstream() {
        let text = |more: Value| {
            let mut schema = more;
            schema["type"] = json!("string");
            spec(schema)
        };
        let keyed = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "properties": {"k": {"type": "string"}}}});
        // (schema, value of a, error)
        let cases = [
            (
                spec(json!({"type": "object"})),
                json!([]),
                "a: Invalid value: \"array\": a in body must be of type object: \"array\"",
            ),
            (
                spec(json!({"x-kubernetes-int-or-string": true})),
                json!(true),
                "a: Invalid value: \"boolean\": a in body must be of type integer,string: \"boolean\"",
            ),
            (
                text(json!({"maxLength": 2})),
                json!("abc"),
                "a: Too long: may not be more than 2 bytes",
            ),
            (
                text(json!({"minLength": 2})),
                json!("a"),
                "a: Invalid value: \"a\": a in body should be at least 2 chars long",
            ),
            (
                text(json!({"pattern": "^b$"})),
                json!("a"),
                "a: Invalid value: \"a\": a in body should match '^b$'",
            ),
            (
                text(json!({"format": "date-time"})),
                json!("now"),
                "a: Invalid value: \"now\": a in body must be of type date-time: \"now\"",
            ),
            (
                spec(json!({"type": "number", "minimum": 2, "exclusiveMinimum": true})),
                json!(2),
                "a: Invalid value: 2: a in body should be greater than 2",
            ),
            (
                spec(json!({"type": "integer", "multipleOf": 2})),
                json!(3),
                "a: Invalid value: 3: a in body should be a multiple of 2",
            ),
            (
                spec(json!({"type": "array", "maxItems": 1})),
                json!([1, 2]),
                "a: Too many: 2: must have at most 1 item",
            ),
            (
                spec(json!({"type": "object", "additionalProperties": {"type": "string"}})),
                json!({"x": 1}),
                "a.x: Invalid value: \"integer\": a.x in body must be of type string: \"integer\"",
            ),
            (
                spec(
                    json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}}),
                ),
                json!([1, 2, 1, 1]),
                "a[2]: Duplicate value: 1",
            ),
            (
                spec(keyed),
                json!([{"k": "x"}, {"k": "y"}, {"k": "x"}]),
                "a[2]: Duplicate value: {\"k\":\"x\"}",
            ),
            (
                spec(json!({"type": "integer", "not": {"enum": [1]}})),
                json!(1),
                "<nil>: Invalid value: \"\": \"a\" must not validate the schema (not)",
            ),
        ];
        for (schema, value, error) in cases {
            assert_eq!(errors_of(schema, json!({"a": value})), [error]);
        }
        let alternatives =
            spec(json!({"type": "integer", "oneOf": [{"minimum": 5}, {"maximum": 7}]}));
        let both = "<nil>: Invalid value: \"\": \"a\" must validate one and only one schema (oneOf). Found 2 valid alternatives";
        assert_eq!(errors_of(alternatives.clone(), json!({"a": 6})), [both]);
        assert_eq!(errors_of(alternatives, json!({"a": 8})), [""; 0]);
        assert_eq!(
            errors_of(
                spec(json!({"type": "string", "nullable": true, "enum": ["x"]})),
                json!({"a": null})
            ),
            [""; 0]
        );
    }

    #[test]
    fn numbers_have_a_range_beside_their_type() {
        let alternatives = json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]});
        let range = "<nil>: Invalid value: \"\": Checked value must be of type integer (default format) in a";
        let number = "a: Invalid value: \"number\": a in body must be of type integer: \"number\"";
        let int32 = "<nil>: Invalid value: \"\": Checked value must be of type integer with format int32 in a";
        let cases = [
            (json!({"type": "integer"}), json!(0.1), vec![number, range]),
            (json!({"type": "integer"}), json!(1e30), vec![number, range]),
            (json!({"type": "integer"}), json!(2.0), vec![]),
            (
                json!({"type": "integer", "format": "int32"}),
                json!(0.1),
                vec![
                    "a: Invalid value: \"float64\": a in body must be of type int32: \"float64\"",
                    int32,
                ],
            ),
            (
                json!({"type": "integer", "format": "int32"}),
                json!(99_999_999_999_u64),
                vec![int32],
            ),
            (
                alternatives,
                json!(0.1),
                vec![
                    "a: Invalid value: \"number\": a in body must be of type integer,string: \"number\"",
                    "<nil>: Invalid value: \"\": \"a\" must validate at least one schema (anyOf)",
                    number,
                    range,
                ],
            ),
        ];
        for (schema, value, errors) in cases {
            assert_eq!(errors_of(spec(schema), json!({"a": value})), errors);
        }
    }

    /// Each error is that of kube-apiserver 1.36.2.
    #[test]
    fn the_error_of_a_type_names_the_format_that_the_schema_has() {
        let cases = [
            ("integer", "int32", json!(true), ["", "int32"]),
            ("integer", "int64", json!({}), ["", "int64"]),
            ("number", "double", json!(true), ["", "double"]),
            ("integer", "int32", json!("x"), ["string", "integer"]),
            ("integer", "int32", json!([]), ["array", "integer"]),
            ("integer", "uint8", json!(true), ["boolean", "integer"]),
            ("string", "date", json!(5), ["int64", "date"]),
            ("boolean", "int64", json!(5), ["integer", "boolean"]),
            ("boolean", "int64", json!(2.0), ["number", "boolean"]),
        ];
        for (kind, format, value, [found, expected]) in cases {
            let schema = spec(json!({"type": kind, "format": format}));
            let error = format!(
                "a: Invalid value: \"{found}\": a in body must be of type {expected}: \"{found}\""
            );
            assert_eq!(errors_of(schema, json!({"a": value})), [error], "{value}");
        }
        let accepted = [
            ("string", "date", json!([])),
            ("integer", "uint32", json!(99_999_999_999_u64)),
        ];
        for (kind, format, value) in accepted {
            let schema = spec(json!({"type": kind, "format": format}));
            assert_eq!(errors_of(schema, json!({"a": value})), [""; 0], "{value}");
        }
    }

    #[test]
    fn a_float_can_miss_an_integer_by_a_billionth() {
        for number in [1e6 + 1e-4, -1e6 - 1e-4, 2.0, 0.0] {
            assert!(is_whole(number), "{number}");
        }
        for number in [1e6 + 1e-2, 1e-12, 1e16, f64::NAN] {
            assert!(!is_whole(number), "{number}");
        }
    }

    #[test]
    fn an_update_can_keep_invalid_values() {
        let schema = spec(
            json!({"type": "object", "properties": {"n": {"type": "integer", "maximum": 1}, "m": {"type": "integer"}}}),
        );
        let schema = Schema::parse(&schema).unwrap();
        let old = json!({"a": {"n": 5, "m": 1}});
        assert!(check(&schema, &json!({"a": {"n": 5, "m": 2}}), Some(&old), "").is_empty());
        assert_eq!(
            check(&schema, &json!({"a": {"n": 6, "m": 1}}), Some(&old), "").len(),
            1
        );
    }
}
