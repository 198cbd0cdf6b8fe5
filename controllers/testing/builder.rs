//! The generic builder of cached views.

use std::marker::PhantomData;

use serde_json::{Value, json};
use steersman_objects::Object;

use super::time;

/// Builds a cached view by decoding the JSON of an object, as an informer does.
pub(crate) struct Builder<T>(pub(crate) Value, PhantomData<T>);

impl<T> Clone for Builder<T> {
    fn clone(&self) -> Self {
        Self::new(self.0.clone())
    }
}

impl<T> Builder<T> {
    /// Starts with the JSON of an object.
    pub(crate) fn new(served: Value) -> Self {
        Self(served, PhantomData)
    }

    /// Sets any field of the metadata.
    pub(crate) fn metadata(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.0["metadata"][field] = value.into();
        self
    }

    /// Sets any field of the spec.
    pub(crate) fn spec(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.0["spec"][field] = value.into();
        self
    }

    /// Sets any field of the status.
    pub(crate) fn status(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.0["status"][field] = value.into();
        self
    }

    /// Sets an annotation.
    pub(crate) fn annotation(mut self, key: &str, value: &str) -> Self {
        self.0["metadata"]["annotations"][key] = json!(value);
        self
    }

    /// Sets the creation timestamp, in seconds since the epoch.
    pub(crate) fn created(self, second: i64) -> Self {
        self.metadata("creationTimestamp", time(second))
    }

    /// Sets the desired size; the status stays.
    pub(crate) fn replicas(self, replicas: i32) -> Self {
        self.spec("replicas", replicas)
    }
}

impl<T: Object> Builder<T> {
    /// Decodes the view.
    pub(crate) fn build(self) -> T {
        T::decode(self.0.to_string().as_bytes()).unwrap()
    }
}
