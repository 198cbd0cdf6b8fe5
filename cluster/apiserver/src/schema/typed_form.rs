//! Objects in the form of a typed server: without nulls and empty optional fields, with all mandatory
//! ones.

use std::ops::Range;

use base64::Engine;
use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Map, Value};

use super::quantity::Quantity;
use super::unions::schemas_in;
use super::{Field, Struct, Type};

pub(crate) use super::prune::prune_metadata;
pub use super::prune::prune_unknown;

/// Reads base64 as Go does, which ignores what follows the last byte.
pub(crate) const ANY_LAST_BITS: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// The same as [`normalize`] for the metadata of any object.
pub(crate) fn normalize_metadata(metadata: &mut Value) {
    if let Some(fields) = metadata.as_object_mut() {
        Normal::without_change(Empties::Dropped).fields(super::metadata(), fields);
    }
}

/// Brings `object` of built-in kind `kind` into the form that the server writes. Nulls and empty
/// optional fields are dropped, and mandatory fields get their zero value. Quantities and times get
/// their canonical text, and fields their order. [`super::decode::decode_check`] reports values of
/// wrong types, and [`prune_unknown`] unknown fields; both stay here. Idempotent.
pub fn normalize(kind: &str, object: &mut Value) {
    normalize_to(kind, object, Empties::Dropped);
}

/// The same as [`normalize`] for an object that a client has sent. Empty lists and maps stay, because
/// Go has them until it stores the object.
pub(crate) fn normalize_sent(kind: &str, object: &mut Value) {
    normalize_to(kind, object, Empties::Kept);
}

/// The same with another treatment of empty lists and maps.
pub(super) fn normalize_to(kind: &str, object: &mut Value, empties: Empties) {
    if let Some(shape) = super::of_object(kind, object) {
        normalize_as(shape, object, empties);
    }
}

/// The same for a value of type `shape`.
pub(super) fn normalize_as(shape: &Struct, value: &mut Value, empties: Empties) {
    if let Some(fields) = value.as_object_mut() {
        Normal::without_change(empties).fields(shape, fields);
    }
}

/// The same as [`normalize_sent`] for an object of type `shape`, with a call of `change` for each
/// struct before its fields. Mandatory structs that are added have no call, so the object must be in
/// normal form.
pub(crate) fn normalize_changed(
    shape: &Struct,
    object: &mut Value,
    change: impl Fn(&Struct, &mut Map<String, Value>),
) {
    if let Some(fields) = object.as_object_mut() {
        let empties = Empties::Kept;
        Normal { empties, change }.fields(shape, fields);
    }
}

/// The treatment of empty lists and maps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Empties {
    /// They stay, as in Go's decoded objects.
    Kept,
    /// They stay in mandatory fields, as in the JSON of decoded objects.
    Encoded,
    /// The same, but they also stay in atomic lists. Field management compares these as Go's `reflect`
    /// does.
    Managed,
    /// They go. Storage does not distinguish them from missing ones.
    Dropped,
}

/// The walk that brings values into normal form.
struct Normal<C> {
    empties: Empties,
    /// Changes the fields of each struct first.
    change: C,
}

impl Normal<fn(&Struct, &mut Map<String, Value>)> {
    fn without_change(empties: Empties) -> Self {
        let change = |_: &Struct, _: &mut Map<String, Value>| {};
        Self { empties, change }
    }
}

impl<C: Fn(&Struct, &mut Map<String, Value>)> Normal<C> {
    /// Brings the fields into the encoder's order, with unknown fields at the end. Most objects have
    /// that form already, and are only checked.
    fn fields(&self, shape: &Struct, fields: &mut Map<String, Value>) {
        (self.change)(shape, fields);
        let mut next = 0;
        let mut is_normal = true;
        for (name, value) in fields.iter_mut() {
            let Some(at) = shape.position(name, next) else {
                is_normal = false;
                continue;
            };
            let field = &shape.fields()[at];
            match value {
                Value::Null if field.always => *value = field.zero(),
                Value::Null => is_normal = false,
                Value::Array(_) if self.empties == Empties::Managed && field.is_atomic_list() => {}
                _ => {
                    self.value(&field.ty, value);
                    for fields in schemas_in(shape, field, value) {
                        self.fields(shape, fields);
                    }
                }
            }
            is_normal &= at >= next && !self.omits(field, value) && !shape.any_always(next, at);
            next = at + 1;
        }
        if !is_normal || shape.any_always(next, shape.fields().len()) {
            self.rebuild(shape, fields);
        }
    }

    /// Sorts normalized fields, and drops and adds the fields that an encoder would.
    fn rebuild(&self, shape: &Struct, fields: &mut Map<String, Value>) {
        let mut known = Vec::with_capacity(fields.len());
        let mut unknown = Map::new();
        let mut next = 0;
        for (name, value) in std::mem::take(fields) {
            match shape.position(&name, next) {
                Some(at) => {
                    next = at + 1;
                    known.push((at, name, value));
                }
                None => drop(unknown.insert(name, value)),
            }
        }
        known.sort_unstable_by_key(|(at, ..)| *at);
        *fields = Map::with_capacity(known.len() + unknown.len());
        let mut next = 0;
        for (at, name, value) in known {
            let is_kept = !value.is_null() && !self.omits(&shape.fields()[at], &value);
            add_zeros(shape, next..at + usize::from(!is_kept), fields);
            if is_kept {
                fields.insert(name, value);
            }
            next = at + 1;
        }
        add_zeros(shape, next..shape.fields().len(), fields);
        fields.append(&mut unknown);
    }

    /// Whether the encoder omits the field. A decoder reads the omitted field as the same value.
    fn omits(&self, field: &Field, value: &Value) -> bool {
        match value {
            _ if is_empty(field, value) => match self.empties {
                Empties::Kept => false,
                Empties::Encoded | Empties::Managed => !field.always,
                Empties::Dropped => true,
            },
            _ if field.nullable || field.always => false,
            Value::String(text) => text.is_empty() && field.ty != Type::IntOrString,
            Value::Number(number) => number.as_f64() == Some(0.0) && field.ty != Type::IntOrString,
            Value::Bool(set) => !set,
            Value::Null => true,
            Value::Array(_) | Value::Object(_) => false,
        }
    }

    fn value(&self, ty: &Type, value: &mut Value) {
        match (ty, &mut *value) {
            (Type::Struct(_), Value::Object(fields)) => {
                if let Some(shape) = ty.as_struct() {
                    self.fields(shape, fields);
                }
            }
            (Type::List(item), Value::Array(items)) => {
                items.iter_mut().for_each(|value| self.item(item, value));
            }
            (Type::Map(item), Value::Object(entries)) => {
                entries.sort_keys();
                entries
                    .values_mut()
                    .for_each(|value| self.item(item, value));
            }
            (Type::Quantity, Value::String(text)) if !Quantity::is_plain(text) => {
                if let Some(quantity) = Quantity::stored(text) {
                    *text = quantity;
                }
            }
            (Type::Quantity, Value::Number(number)) => {
                if let Some(quantity) = Quantity::stored(&number.to_string()) {
                    *value = Value::String(quantity);
                }
            }
            (Type::Bytes, Value::String(text)) => rewrite_base64(text),
            (Type::Time, Value::String(text)) => {
                rewrite_time(text, "%Y-%m-%dT%H:%M:%SZ", "2006-01-02T15:04:05Z");
            }
            (Type::MicroTime, Value::String(text)) => rewrite_time(
                text,
                "%Y-%m-%dT%H:%M:%S.%6fZ",
                "2006-01-02T15:04:05.000000Z",
            ),
            _ => {}
        }
    }

    /// Normalizes an element of a list or map. A null there becomes the zero value.
    fn item(&self, ty: &Type, value: &mut Value) {
        if value.is_null() {
            *value = ty.zero();
        }
        self.value(ty, value);
    }
}

/// Adds the fields at these positions that the encoder always writes.
fn add_zeros(shape: &Struct, positions: Range<usize>, fields: &mut Map<String, Value>) {
    if shape.any_always(positions.start, positions.end) {
        for field in shape.fields()[positions]
            .iter()
            .filter(|field| field.always)
        {
            fields.insert(field.name.to_owned(), field.zero());
        }
    }
}

/// Whether the value of the field is a list or map without entries.
pub(super) fn is_empty(field: &Field, value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty() && field.ty != Type::Any,
        Value::Object(entries) => entries.is_empty() && matches!(field.ty, Type::Map(_)),
        _ => false,
    }
}

/// Go decodes and encodes bytes. This drops line breaks, and the bits of the last digit behind the last
/// byte.
fn rewrite_base64(text: &mut String) {
    if text.contains(['\r', '\n']) {
        text.retain(|digit| !matches!(digit, '\r' | '\n'));
    }
    let last = text.len().saturating_sub(4);
    if text.ends_with('=')
        && let Some(group) = text.get(last..)
        && let Ok(bytes) = ANY_LAST_BITS.decode(group)
    {
        text.replace_range(last.., &STANDARD.encode(bytes));
    }
}

/// Brings a time into `format`, whose texts have the form of `example`.
fn rewrite_time(text: &mut String, format: &str, example: &str) {
    if is_like(text, example) {
        return;
    }
    if let Ok(time) = text.parse::<Timestamp>() {
        *text = time.to_zoned(TimeZone::UTC).strftime(format).to_string();
    }
}

/// Whether `text` has digits where `example` has them, and equals it elsewhere. A leap second is
/// not alike, because it becomes the second before.
fn is_like(text: &str, example: &str) -> bool {
    let pairs = text.bytes().zip(example.bytes());
    text.len() == example.len()
        && text.get(17..19) != Some("60")
        && pairs.into_iter().all(|(given, expected)| match expected {
            b'0'..=b'9' => given.is_ascii_digit(),
            _ => given == expected,
        })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use steersman_releases::Release;

    use super::*;

    fn normalized(kind: &str, mut object: Value) -> Value {
        normalize(kind, &mut object);
        let once = object.clone();
        normalize(kind, &mut object);
        assert_eq!(object, once, "normalizing twice changes nothing more");
        object
    }

    #[test]
    fn empty_optional_fields_are_dropped_and_mandatory_ones_added() {
        let got = normalized(
            "ReplicaSet",
            json!({
                "metadata": {"name": "r", "creationTimestamp": null, "labels": {}, "generation": 0},
                "spec": {"replicas": 0, "minReadySeconds": 0, "template": {"spec": {"containers": [], "hostNetwork": false}}},
            }),
        );
        assert_eq!(
            got,
            json!({
                "metadata": {"name": "r"},
                "spec": {"replicas": 0, "selector": null, "template": {"metadata": {}, "spec": {"containers": null}}},
                "status": {"replicas": 0},
            })
        );
    }

    #[test]
    fn fields_are_in_the_order_of_the_type_with_unknown_ones_last() {
        let pod = json!({"spec": {"bogus": 1, "nodeName": "n", "hostNetwork": false, "containers": null,
            "volumes": []}, "metadata": {"name": "p"}, "apiVersion": "v1", "kind": "Pod"});
        let text = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p"},"spec":{"containers":null,"nodeName":"n","bogus":1},"status":{}}"#;
        assert_eq!(normalized("Pod", pod).to_string(), text);
    }

    #[test]
    fn times_and_quantities_get_their_canonical_text() {
        let got = normalized(
            "Lease",
            json!({"metadata": {"creationTimestamp": "2024-01-01T02:00:00.25+02:00"},
            "spec": {"renewTime": "2024-01-01T02:00:00.25+02:00"}}),
        );
        assert_eq!(
            got,
            json!({"metadata": {"creationTimestamp": "2024-01-01T00:00:00Z"},
            "spec": {"renewTime": "2024-01-01T00:00:00.250000Z"}})
        );
        let got = normalized(
            "Pod",
            json!({"spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": 1.5}}}]}}),
        );
        assert_eq!(
            got["spec"]["containers"][0]["resources"]["limits"]["cpu"],
            "1500m"
        );
    }

    #[test]
    fn bytes_are_encoded_again() {
        let data = json!({"a": "YWJj\nZGVm\r\n", "b": "YR==", "c": "YWJj", "d": "Y\nQ=\n=", "e": "wrong="});
        let got = normalized("Secret", json!({"data": data}));
        let expected =
            json!({"a": "YWJjZGVm", "b": "YQ==", "c": "YWJj", "d": "YQ==", "e": "wrong="});
        assert_eq!(got["data"], expected);
    }

    #[test]
    fn times_in_their_form_stay() {
        // (given, stored)
        for (given, stored) in [
            ("2024-01-01T02:00:00Z", "2024-01-01T02:00:00Z"),
            ("2024-01-01 02:00:00Z", "2024-01-01T02:00:00Z"),
            ("2016-12-31T23:59:60Z", "2016-12-31T23:59:59Z"),
            ("2024-02-31T02:00:00Z", "2024-02-31T02:00:00Z"),
            ("2024-01-01T02:00:00+", "2024-01-01T02:00:00+"),
        ] {
            let mut time = Value::from(given);
            Normal::without_change(Empties::Kept).value(&Type::Time, &mut time);
            assert_eq!(time, stored);
        }
    }

    /// Recorded from kube-apiserver 1.36.2: schemas in unions lose unknown fields without a warning.
    #[test]
    fn schemas_in_unions_have_the_form_of_schemas() {
        let inner = json!({"bogus": 1, "type": "string", "description": "", "nullable": false});
        let schema = json!({
            "items": inner,
            "additionalProperties": {"properties": {"a": {"items": [inner, {}]}}},
            "additionalItems": false,
            "dependencies": {"a": ["b"], "c": inner},
        });
        let mut object = json!({"spec": {"versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": schema}}]}});
        let unknown = prune_unknown(Release::DEFAULT, "CustomResourceDefinition", &mut object);
        assert_eq!(unknown, [""; 0]);
        normalize("CustomResourceDefinition", &mut object);
        let text = json!({"type": "string"});
        assert_eq!(
            object["spec"]["versions"][0]["schema"]["openAPIV3Schema"],
            json!({
                "items": text,
                "additionalProperties": {"properties": {"a": {"items": [text, {}]}}},
                "additionalItems": false,
                "dependencies": {"a": ["b"], "c": text},
            })
        );
    }
}
