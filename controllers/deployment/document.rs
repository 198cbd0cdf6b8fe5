//! Changing served objects before they are written back: what we own is set, everything else stays
//! as the server sent it.

use serde_json::{Map, Value};

/// Sets annotations of an object.
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

/// The object in `field`, made empty where there is none.
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
        .expect("it was made an object just now")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn annotations_are_added_where_there_are_none() {
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
