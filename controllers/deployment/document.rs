//! Changes of served objects before a PUT. The controller sets its own fields, and all other fields
//! stay as the API server sent them, including fields unknown to this program.
//!
//! A write from decoded fields would drop those of later releases, and the API server would take that for a
//! removal.

use serde_json::{Map, Value};

/// Adds `annotations` to an object.
pub(super) fn set_annotations<K: Into<String>>(
    object: &mut Map<String, Value>,
    annotations: impl IntoIterator<Item = (K, String)>,
) {
    let stored = entry(entry(object, "metadata"), "annotations");
    stored.extend(
        annotations
            .into_iter()
            .map(|(key, value)| (key.into(), Value::String(value))),
    );
}

/// The JSON object in `field`. Creates an empty one if there is none. A malformed value is replaced; the API
/// server stores none.
pub(super) fn entry<'a>(
    object: &'a mut Map<String, Value>,
    field: &str,
) -> &'a mut Map<String, Value> {
    let value = object
        .entry(field)
        .or_insert_with(|| Value::Object(Map::new()));
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value
        .as_object_mut()
        .expect("any other value was replaced above")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn annotations_are_added_to_metadata_with_and_without_annotations() {
        for metadata in [
            json!({}),
            json!({"annotations": null}),
            json!({"annotations": {"a": "0"}}),
        ] {
            let mut object = Map::from_iter([("metadata".to_owned(), metadata)]);
            set_annotations(&mut object, [("a", "1".to_owned())]);
            assert_eq!(
                Value::Object(object),
                json!({"metadata": {"annotations": {"a": "1"}}})
            );
        }
    }
}
