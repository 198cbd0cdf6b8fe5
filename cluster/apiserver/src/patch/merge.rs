//! JSON merge patch (RFC 7386).

use serde_json::{Map, Value};

/// Merges objects field by field. `null` deletes a field; any other value replaces it.
pub fn merge(object: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *object = patch.clone();
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
