//! Checks JSON against the types of a built-in kind, with the error texts of Go's decoder.

use jiff::Timestamp;
use serde_json::{Number, Value};

use super::quantity::{BAD_QUANTITY, Quantity};
use super::{Struct, Type};

/// The text of the 400 for a body of built-in kind `kind` with a value of a wrong type. Kinds
/// without a type pass.
pub fn decode_check(kind: &str, object: &Value) -> Result<(), String> {
    match decode_error(kind, object) {
        None => Ok(()),
        Some(error) => {
            let version = object
                .get("apiVersion")
                .and_then(Value::as_str)
                .unwrap_or("v1");
            let version = version.rsplit('/').next().unwrap_or(version);
            Err(format!(
                "{kind} in version {version:?} cannot be handled as a {kind}: {error}"
            ))
        }
    }
}

/// The first value of `object` that does not fit its type, in the words of Go's decoder. Patches
/// wrap this text differently than bodies.
pub fn decode_error(kind: &str, object: &Value) -> Option<String> {
    let shape = super::of_object(kind, object)?;
    match object {
        Value::Object(_) => check_struct(shape, object, None),
        other => Some(format!(
            "json: cannot unmarshal {} into Go value of type v1.{kind}",
            json_type(other)
        )),
    }
}

/// [`decode_check`] for kinds with known metadata only, such as custom kinds.
pub(crate) fn metadata_check(kind: &str, object: &Value) -> Result<(), String> {
    let error = metadata_error(object);
    error.map_or(Ok(()), |why| {
        let version = object
            .get("apiVersion")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let version = version.rsplit('/').next().unwrap_or(version);
        Err(format!(
            "{kind} in version {version:?} cannot be handled as a {kind}: {why}"
        ))
    })
}

/// [`decode_error`] for the metadata of any object.
pub(crate) fn metadata_error(object: &Value) -> Option<String> {
    match &object["metadata"] {
        metadata @ Value::Object(_) => check_struct(
            super::metadata(),
            metadata,
            Some(&Place {
                holder: "",
                above: None,
                embedded: None,
                name: "metadata",
            }),
        ),
        Value::Null => None,
        other => Some(format!(
            "json: cannot unmarshal {} into Go value of type v1.ObjectMeta",
            json_type(other)
        )),
    }
}

/// [`decode_error`] for results of strategic merge patches. Upstream reads them with another
/// decoder (`runtime.DefaultUnstructuredConverter`), which has other texts for lists, maps and
/// structs.
pub fn restore_error(kind: &str, object: &Value) -> Option<String> {
    let shape = super::of_object(kind, object)?;
    restore_struct(shape, object).or_else(|| decode_error(kind, object))
}

fn restore_struct(shape: &Struct, object: &Value) -> Option<String> {
    object
        .as_object()?
        .iter()
        .find_map(|(name, value)| restore(&shape.field(name)?.ty, value))
}

/// The first error of `DefaultUnstructuredConverter`, in the order of the object's fields.
fn restore(ty: &Type, value: &Value) -> Option<String> {
    let go_kind = match value {
        Value::Null => return None,
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    };
    match (ty, value) {
        (Type::Struct(_), Value::Object(_)) => restore_struct(ty.as_struct()?, value),
        (Type::List(item), Value::Array(items)) => {
            items.iter().find_map(|value| restore(item, value))
        }
        (Type::Map(item), Value::Object(entries)) => {
            entries.values().find_map(|value| restore(item, value))
        }
        (Type::Struct(_), _) => Some(format!("cannot restore struct from: {go_kind}")),
        (Type::List(_), _) => Some(format!("cannot restore slice from {go_kind}")),
        (Type::Map(_), _) => Some(format!("cannot restore map from {go_kind}")),
        _ => None,
    }
}

fn check_struct(shape: &Struct, object: &Value, above: Option<&Place<'_>>) -> Option<String> {
    let mut next = 0;
    object.as_object()?.iter().find_map(|(name, value)| {
        let at = shape.position(name, next)?;
        next = at + 1;
        let field = &shape.fields()[at];
        let place = Place {
            holder: shape.short_name(),
            above,
            embedded: field.embedded,
            name,
        };
        check(&field.ty, field.go_type, value, &place)
            .or_else(|| inner_schemas(shape, value, &place))
    })
}

/// The first wrong value in schemas below fields of type `any`, which Go reads with decoders of their
/// own.
fn inner_schemas(shape: &Struct, value: &Value, place: &Place<'_>) -> Option<String> {
    if shape.short_name() != "JSONSchemaProps" {
        return None;
    }
    let schemas: Vec<&Value> = match (place.name, value) {
        ("items" | "additionalItems" | "additionalProperties", Value::Object(_)) => vec![value],
        ("items", Value::Array(schemas)) => schemas.iter().collect(),
        ("dependencies", Value::Object(entries)) => {
            entries.values().filter(|entry| entry.is_object()).collect()
        }
        _ => Vec::new(),
    };
    schemas.into_iter().find_map(|schema| match schema {
        Value::Null => None,
        Value::Object(_) => check_struct(shape, schema, Some(place)),
        other => Some(mismatch(json_type(other), place, "v1.JSONSchemaProps")),
    })
}

/// The error about a value of another JSON type than the Go type `ty`.
fn mismatch(shown: &str, place: &Place<'_>, ty: &str) -> String {
    let holder = place.holder;
    let path = place.path();
    format!("json: cannot unmarshal {shown} into Go struct field {holder}.{path} of type {ty}")
}

/// Position of a value for messages: the nearest type with fields, and the path from the top.
struct Place<'a> {
    holder: &'static str,
    above: Option<&'a Place<'a>>,
    /// The embedded structs that contain the value, which are a part of the path.
    embedded: Option<&'static str>,
    name: &'a str,
}

impl Place<'_> {
    fn path(&self) -> String {
        let above = self.above.map(Place::path);
        let steps = [above.as_deref(), self.embedded, Some(self.name)];
        steps.into_iter().flatten().collect::<Vec<_>>().join(".")
    }
}

/// The first value that does not fit its type. Go's decoder also reports only one. `named` is the
/// type in Go, if `ty` does not tell it.
fn check(
    ty: &Type,
    named: Option<&'static str>,
    value: &Value,
    place: &Place<'_>,
) -> Option<String> {
    let mismatch = |shown: &str| {
        let ty = named.map_or_else(|| go_type(ty), str::to_owned);
        Some(mismatch(shown, place, &ty))
    };
    // Go's type of these two fields has a decoder of its own.
    let is_schema_or_bool = place.holder == "JSONSchemaProps"
        && matches!(place.name, "additionalProperties" | "additionalItems");
    let bad_number = |number: &Number| mismatch(&format!("number {number}"));
    match (ty, value) {
        (_, Value::Null) => None,
        (Type::Any, Value::String(_) | Value::Number(_) | Value::Array(_)) if is_schema_or_bool => {
            Some("boolean or JSON schema expected".to_owned())
        }
        (Type::Any, _) => None,
        (Type::Struct(_), Value::Object(_)) => check_struct(ty.as_struct()?, value, Some(place)),
        (Type::List(item), Value::Array(items)) => {
            let named = named.and_then(|name| name.strip_prefix("[]"));
            let mut items = items.iter();
            items.find_map(|value| check(item, named, value, place))
        }
        (Type::Map(item), Value::Object(entries)) => {
            let named = named.and_then(|name| Some(name.strip_prefix("map[")?.split_once(']')?.1));
            let mut values = entries.values();
            values.find_map(|value| check(item, named, value, place))
        }
        (Type::Bytes, Value::String(text)) => {
            corrupt_base64(text).map(|at| format!("illegal base64 data at input byte {at}"))
        }
        (Type::Text | Type::IntOrString | Type::Duration, Value::String(_))
        | (Type::Bool, Value::Bool(_)) => None,
        (Type::Int32 | Type::IntOrString, Value::Number(number)) => {
            let fits = number.as_i64().is_some_and(|n| i32::try_from(n).is_ok());
            if fits { None } else { bad_number(number) }
        }
        (Type::Int64, Value::Number(number)) => match number.as_i64() {
            Some(_) => None,
            None => bad_number(number),
        },
        (Type::Float, Value::Number(_)) => None,
        (Type::Quantity, Value::String(text)) => Quantity::parse(text)
            .is_none()
            .then(|| BAD_QUANTITY.to_owned()),
        (Type::Quantity, Value::Number(number)) => Quantity::parse(&number.to_string())
            .is_none()
            .then(|| BAD_QUANTITY.to_owned()),
        (Type::Quantity, _) => Some(BAD_QUANTITY.to_owned()),
        (Type::Time, Value::String(text)) => text
            .parse::<Timestamp>()
            .is_err()
            .then(|| time_error(text, "2006-01-02T15:04:05Z07:00", "2006")),
        (Type::MicroTime, Value::String(text)) => micro_time_error(text),
        _ => mismatch(json_type(value)),
    }
}

/// The position of the first byte at which Go's decoder of base64 gives up, if it does.
/// Upstream: `encoding/base64`, decodeQuantum.
fn corrupt_base64(text: &str) -> Option<usize> {
    let is_line_break = |byte: u8| byte == b'\r' || byte == b'\n';
    let mut bytes = text
        .bytes()
        .enumerate()
        .filter(|(_, byte)| !is_line_break(*byte));
    loop {
        for digit in 0..4 {
            let Some((at, byte)) = bytes.next() else {
                // The text may end between two groups of four digits.
                return (digit > 0).then_some(text.len() - digit);
            };
            match byte {
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/' => {}
                b'=' if digit > 1 => return after_padding(digit, at, text.len(), bytes),
                _ => return Some(at),
            }
        }
    }
}

/// The same behind the first `=` of a text, which is digit number `digit` of its group.
fn after_padding(
    digit: usize,
    at: usize,
    length: usize,
    mut rest: impl Iterator<Item = (usize, u8)>,
) -> Option<usize> {
    if digit == 2 {
        match rest.next() {
            None => return Some(length),
            Some((_, b'=')) => {}
            Some(_) => return Some(at),
        }
    }
    rest.next().map(|(at, _)| at)
}

/// The layout requires exactly six decimals.
fn micro_time_error(text: &str) -> Option<String> {
    const LAYOUT: &str = "2006-01-02T15:04:05.000000Z07:00";
    let fraction = text.get(19..).unwrap_or("");
    let digits = fraction.strip_prefix('.').map_or(0, |rest| {
        rest.bytes().take_while(u8::is_ascii_digit).count()
    });
    if text.parse::<Timestamp>().is_err() {
        return Some(time_error(text, LAYOUT, "2006"));
    }
    (digits != 6).then(|| {
        format!("parsing time {text:?} as {LAYOUT:?}: cannot parse {fraction:?} as \".000000\"")
    })
}

fn time_error(text: &str, layout: &str, part: &str) -> String {
    format!("parsing time {text:?} as {layout:?}: cannot parse {text:?} as {part:?}")
}

/// The type of a value, in the words of Go's messages.
pub(crate) fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn go_type(ty: &Type) -> String {
    match ty {
        Type::Text | Type::Time | Type::MicroTime | Type::Duration | Type::Quantity | Type::Any => {
            "string".to_owned()
        }
        Type::Int32 | Type::IntOrString => "int32".to_owned(),
        Type::Int64 => "int64".to_owned(),
        Type::Float => "float64".to_owned(),
        Type::Bool => "bool".to_owned(),
        Type::Bytes => "[]uint8".to_owned(),
        Type::Struct(_) => format!("v1.{}", ty.as_struct().map_or("", Struct::short_name)),
        Type::List(item) => format!("[]{}", go_type(item)),
        Type::Map(item) => format!("map[string]{}", go_type(item)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn wrong_types_have_the_texts_of_gos_decoder() {
        let cases = [
            (
                json!({"apiVersion": "apps/v1", "spec": {"replicas": "x"}}),
                "Deployment in version \"v1\" cannot be handled as a Deployment: json: cannot unmarshal string into Go struct field \
                 DeploymentSpec.spec.replicas of type int32",
            ),
            (
                json!({"spec": {"strategy": {"rollingUpdate": {"maxSurge": 1.5}}}}),
                "Deployment in version \"v1\" cannot be handled as a Deployment: json: cannot unmarshal number 1.5 into Go struct field \
                 RollingUpdateDeployment.spec.strategy.rollingUpdate.maxSurge of type int32",
            ),
        ];
        for (object, expected) in cases {
            assert_eq!(
                decode_check("Deployment", &object),
                Err(expected.to_owned())
            );
        }
        let schema = |schema: Value| {
            let version = json!({"schema": {"openAPIV3Schema": {"properties": {"spec": schema}}}});
            let definition = json!({"spec": {"versions": [version]}});
            decode_error("CustomResourceDefinition", &definition)
        };
        for inner in [
            json!({"items": {"additionalProperties": "text"}}),
            json!({"items": [{}, {"additionalItems": 1}]}),
            json!({"additionalProperties": {"additionalProperties": "text"}}),
            json!({"dependencies": {"a": ["b"], "c": {"additionalProperties": "text"}}}),
        ] {
            let expected = Some("boolean or JSON schema expected");
            assert_eq!(schema(inner.clone()).as_deref(), expected, "{inner}");
        }
        let path = "JSONSchemaProps.spec.versions.schema.openAPIV3Schema.properties.items";
        for (items, below, ty) in [
            (
                json!({"properties": {"a": {"type": 5}}}),
                ".properties.type",
                "string",
            ),
            (json!([5]), "", "v1.JSONSchemaProps"),
        ] {
            let expected = format!(
                "json: cannot unmarshal number into Go struct field {path}{below} of type {ty}"
            );
            assert_eq!(schema(json!({ "items": items })), Some(expected));
        }
        assert_eq!(
            decode_error("ConfigMap", &json!({"data": {"a": 1}})).as_deref(),
            Some(
                "json: cannot unmarshal number into Go struct field ConfigMap.data of type string"
            )
        );
        assert_eq!(
            decode_error(
                "Lease",
                &json!({"spec": {"renewTime": "2024-01-01T00:00:10.5Z"}})
            )
            .as_deref(),
            Some(
                "parsing time \"2024-01-01T00:00:10.5Z\" as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse \".5Z\" as \".000000\""
            )
        );
    }

    #[test]
    fn results_of_strategic_patches_have_other_texts() {
        let error = |spec: Value| restore_error("Pod", &json!({"spec": spec}));
        assert_eq!(
            error(json!({"containers": "x"})).as_deref(),
            Some("cannot restore slice from string")
        );
        assert_eq!(
            error(json!({"nodeSelector": 1})).as_deref(),
            Some("cannot restore map from int64")
        );
        assert_eq!(
            error(json!({"containers": [true]})).as_deref(),
            Some("cannot restore struct from: bool")
        );
        assert_eq!(
            error(json!({"priority": "x"})),
            decode_error("Pod", &json!({"spec": {"priority": "x"}}))
        );
        assert_eq!(error(json!({"containers": []})), None);
    }

    #[test]
    fn values_of_the_right_type_pass() {
        let fits = json!({"metadata": {"name": "d", "creationTimestamp": null}, "spec": {"replicas": 1,
            "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}},
            "template": {"spec": {"containers": [{"resources": {"limits": {"cpu": 1, "memory": "1Gi"}}}]}}}});
        assert_eq!(decode_check("Deployment", &fits), Ok(()));
        assert_eq!(decode_check("Widget", &json!({"spec": "anything"})), Ok(()));
    }
}
