//! The normal form of a pod template: two templates that Go encodes to the same JSON have equal
//! normal forms.
//!
//! The normal form lacks fields that the table of types lacks, and fields that Go cannot
//! distinguish from unset ones. [`defaulted`] also has all defaults of the API server. A template
//! that another version stored can so be compared with a served one.
//!
//! Upstream: the round trip through the Go type in `setMatchesLatestExistingRevision` of
//! `pkg/controller/statefulset`.

use serde_json::{Map, Value};

use super::defaults;
use super::types::{Field, Kind, TYPES, TypeId, Types};

/// The normal form of `template`.
pub fn normal(template: &Value) -> Value {
    set_value(Types::ROOT, template).unwrap_or_else(|| Value::Object(Map::new()))
}

/// The normal form of `template` with all defaults.
pub fn defaulted(template: &Value) -> Value {
    let mut filled = normal(template);
    // The server sets the defaults of the spec even if the stored template lacks the spec.
    if let Value::Object(fields) = &mut filled {
        fields
            .entry("spec")
            .or_insert_with(|| Value::Object(Map::new()));
    }
    fill(Types::ROOT, &mut filled);
    normal(&filled)
}

/// The normal form of a value of the type `kind`. `None` if Go treats the value as unset.
fn set_value(kind: TypeId, value: &Value) -> Option<Value> {
    match (&TYPES.get(kind).kind, value) {
        (_, Value::Null) => None,
        // A pointer to an empty value differs from an unset pointer.
        (Kind::Pointer(target), value) => {
            Some(set_value(*target, value).unwrap_or_else(|| empty(value)))
        }
        (Kind::Struct(fields), Value::Object(object)) => {
            let known = object.iter().filter_map(|(key, value)| {
                let kind = TYPES.field(fields, key)?;
                Some((key.clone(), set_value(kind, value)?))
            });
            let known: Map<String, Value> = known.collect();
            (!known.is_empty()).then_some(Value::Object(known))
        }
        (Kind::List(element), Value::Array(list)) => {
            let item = |value| set_value(*element, value).unwrap_or_else(|| empty(value));
            (!list.is_empty()).then(|| list.iter().map(item).collect())
        }
        (Kind::Map(element), Value::Object(map)) => {
            let entries = map.iter().map(|(key, value)| {
                let value = set_value(*element, value).unwrap_or_else(|| empty(value));
                (key.clone(), value)
            });
            (!map.is_empty()).then(|| Value::Object(entries.collect()))
        }
        (Kind::Text, Value::String(text)) if text.is_empty() => None,
        (Kind::Int | Kind::IntOrString, Value::Number(number)) if number.as_i64() == Some(0) => {
            None
        }
        (Kind::Bool, Value::Bool(false)) => None,
        (_, value) => Some(value.clone()),
    }
}

/// The empty value of the same JSON type.
fn empty(value: &Value) -> Value {
    match value {
        Value::Object(_) => Value::Object(Map::new()),
        Value::Array(_) => Value::Array(Vec::new()),
        scalar => scalar.clone(),
    }
}

/// Sets the defaults of `value`, of the type `kind`, and of everything below it.
fn fill(kind: TypeId, value: &mut Value) {
    let declared = TYPES.get(kind);
    match (&declared.kind, value) {
        (Kind::Pointer(target), value) => fill(*target, value),
        (Kind::Struct(fields), Value::Object(object)) => {
            fill_struct(declared.name, fields, object);
        }
        (Kind::List(element), Value::Array(list)) => {
            list.iter_mut().for_each(|item| fill(*element, item));
        }
        (Kind::Map(element), Value::Object(map)) => {
            map.values_mut().for_each(|value| fill(*element, value));
        }
        _ => {}
    }
}

fn fill_struct(name: &str, fields: &[Field], object: &mut Map<String, Value>) {
    let name = name.strip_prefix("v1.").unwrap_or(name);
    defaults::fill(&format!("core.{name}"), object);
    for (key, value) in object {
        if let Some(kind) = TYPES.field(fields, key) {
            fill(kind, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unset_and_unknown_fields_are_removed_and_defaults_added() {
        let stored = json!({
            "metadata": {"creationTimestamp": null, "labels": {"app": ""}, "notAField": 1},
            "spec": {
                "hostname": "", "hostNetwork": false, "securityContext": {}, "tolerations": [],
                "containers": [{"name": "c", "image": "app", "resources": {}, "env": [{"name": "A", "value": ""}],
                    "livenessProbe": {"httpGet": {"port": 80}, "initialDelaySeconds": 0}}],
                "volumes": [{"name": "v"}],
            },
        });
        let expected = json!({
            "metadata": {"labels": {"app": ""}},
            "spec": {
                "securityContext": {},
                "containers": [{"name": "c", "image": "app", "env": [{"name": "A"}],
                    "livenessProbe": {"httpGet": {"port": 80}}}],
                "volumes": [{"name": "v"}],
            },
        });
        assert_eq!(normal(&stored), expected);
        let probe = json!({"httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
            "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3});
        let expected = json!({
            "metadata": {"labels": {"app": ""}},
            "spec": {
                "restartPolicy": "Always", "terminationGracePeriodSeconds": 30,
                "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler", "securityContext": {},
                "containers": [{"name": "c", "image": "app", "env": [{"name": "A"}], "livenessProbe": probe,
                    "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                    "imagePullPolicy": "Always"}],
                "volumes": [{"name": "v", "emptyDir": {}}],
            },
        });
        assert_eq!(defaulted(&stored), expected);
    }
}
