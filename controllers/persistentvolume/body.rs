//! The body of a PUT: an object as served, with changes.
//!
//! The served document is changed, and not a decoded object, so unknown fields survive each write. Its
//! resource version goes along and makes a write after a foreign change a conflict.

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

    /// Sets an annotation. Others stay.
    pub(super) fn annotate(&mut self, key: &str, value: &str) {
        let annotations = member(member(&mut self.0, "metadata"), "annotations");
        annotations.insert(key.to_owned(), json!(value));
    }

    /// An empty map is removed, as upstream does in `unbindVolume`.
    pub(super) fn remove_annotation(&mut self, key: &str) {
        let metadata = member(&mut self.0, "metadata");
        let annotations = member(metadata, "annotations");
        annotations.remove(key);
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }

    /// An empty list is left out, as Go's encoder does.
    pub(super) fn set_finalizers(&mut self, finalizers: Vec<String>) {
        let metadata = member(&mut self.0, "metadata");
        if finalizers.is_empty() {
            metadata.remove("finalizers");
        } else {
            metadata.insert("finalizers".to_owned(), json!(finalizers));
        }
    }

    /// For changes that have no function of their own here.
    pub(super) fn spec(&mut self) -> &mut Map<String, Value> {
        member(&mut self.0, "spec")
    }

    pub(super) fn status(&mut self) -> &mut Map<String, Value> {
        member(&mut self.0, "status")
    }
}

/// The object in the member `name` of `object`; a new one if it has none.
///
/// A value of another type gives way, which only a malformed object has.
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
