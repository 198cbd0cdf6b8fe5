//! JSON merge patch (RFC 7386).

use serde_json::{Map, Value};

/// Merges objects field by field. `null` deletes a field; any other value replaces it.
pub fn merge(object: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        let replaces_object = object.is_object();
        *object = patch.clone();
        if !replaces_object {
            drop_nulls(object);
        }
        return;
    };
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let fields = object.as_object_mut().expect("made an object above");
    for (name, change) in changes {
        if change.is_null() {
            fields.remove(name);
        } else {
            merge(fields.entry(name.clone()).or_insert(Value::Null), change);
        }
    }
}

/// Removes the nulls inside of objects. Unlike the RFC, the library of upstream also does that in lists,
/// unless they replace objects.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// Sorts the keys of the objects that `patch` has merged or added, as the library of upstream does.
/// Other objects keep their order.
pub fn sort_merged(object: &mut Value, patch: &Value) {
    match (object, patch) {
        (Value::Object(fields), Value::Object(changes)) => {
            fields.sort_keys();
            for (name, change) in changes {
                if let Some(field) = fields.get_mut(name) {
                    sort_merged(field, change);
                }
            }
        }
        (Value::Array(items), Value::Array(changes)) => {
            for (item, change) in items.iter_mut().zip(changes) {
                sort_merged(item, change);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn merged_objects_have_sorted_keys() {
        let mut object = json!({"b": {"d": 1, "c": {"z": 1, "y": 2}}, "a": {"f": 1, "e": 2}});
        sort_merged(&mut object, &json!({"b": {"d": 1}}));
        assert_eq!(
            object.to_string(),
            r#"{"a":{"f":1,"e":2},"b":{"c":{"z":1,"y":2},"d":1}}"#
        );
    }

    #[test]
    fn the_cases_of_the_rfc() {
        let cases = [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (
                json!({"a": "b"}),
                json!({"b": "c"}),
                json!({"a": "b", "b": "c"}),
            ),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (
                json!({"a": {"b": "c"}}),
                json!({"a": {"b": "d", "c": null}}),
                json!({"a": {"b": "d"}}),
            ),
            (
                json!({"a": [{"b": "c"}]}),
                json!({"a": [1]}),
                json!({"a": [1]}),
            ),
            (
                json!({"a": [1], "o": {}}),
                json!({"a": [{"b": null, "c": [{"d": null}]}, null], "o": [{"b": null}]}),
                json!({"a": [{"c": [{}]}, null], "o": [{"b": null}]}),
            ),
            (
                json!({"e": null}),
                json!({"a": 1}),
                json!({"e": null, "a": 1}),
            ),
            (
                json!({}),
                json!({"a": {"bb": {"ccc": null}}}),
                json!({"a": {"bb": {}}}),
            ),
        ];
        for (mut object, patch, expected) in cases {
            merge(&mut object, &patch);
            assert_eq!(object, expected, "{patch}");
        }
    }
}
