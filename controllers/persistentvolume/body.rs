//! The body of a PUT: an object as served, with changes.

use serde::Serialize;
use serde_json::{Map, Value, json};
use steersman_objects::{Document, Object, PersistentVolume, PersistentVolumeClaim};

/// An object whose document is kept.
pub(super) trait Documented: Object {
    fn document(&self) -> &Document;
}

impl Documented for PersistentVolume {
    fn document(&self) -> &Document {
        &self.document
    }
}

impl Documented for PersistentVolumeClaim {
    fn document(&self) -> &Document {
        &self.document
    }
}

/// The body of a PUT.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub(super) struct Body(Map<String, Value>);

impl Body {
    /// `object` as served.
    pub(super) fn of<T: Documented>(object: &T) -> Self {
        let mut body = object.document().to_object();
        // Objects in a list lack these two fields.
        body.insert("apiVersion".to_owned(), json!(T::RESOURCE.api_version()));
        body.insert("kind".to_owned(), json!(T::RESOURCE.kind));
        Self(body)
    }

    pub(super) fn annotate(&mut self, key: &str, value: &str) {
        let annotations = member(member(&mut self.0, "metadata"), "annotations");
        annotations.insert(key.to_owned(), json!(value));
    }

    pub(super) fn remove_annotation(&mut self, key: &str) {
        let metadata = member(&mut self.0, "metadata");
        let annotations = member(metadata, "annotations");
        annotations.remove(key);
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }

    pub(super) fn set_finalizers(&mut self, finalizers: Vec<String>) {
        let metadata = member(&mut self.0, "metadata");
        if finalizers.is_empty() {
            metadata.remove("finalizers");
        } else {
            metadata.insert("finalizers".to_owned(), json!(finalizers));
        }
    }

    pub(super) fn spec(&mut self) -> &mut Map<String, Value> {
        member(&mut self.0, "spec")
    }

    pub(super) fn status(&mut self) -> &mut Map<String, Value> {
        member(&mut self.0, "status")
    }
}

/// The object in the member `name` of `object`; a new one if it has none.
pub(super) fn member<'a>(
    object: &'a mut Map<String, Value>,
    name: &str,
) -> &'a mut Map<String, Value> {
    let value = object.entry(name).or_insert(Value::Null);
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("the value is an object now")
}
