//! An API object as JSON.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use steersman_objects::Object;
use steersman_values::resource::ResourceType;

use crate::Subject;

/// An object as served.
#[derive(Debug, Clone)]
pub struct Doc(Arc<Value>);

impl Doc {
    /// A document from JSON.
    pub fn new(value: Value) -> Self {
        Self(Arc::new(value))
    }

    /// The value at a JSON pointer such as `/status/phase`.
    pub fn at(&self, pointer: &str) -> Option<&Value> {
        self.0.pointer(pointer)
    }

    /// The text at a JSON pointer; empty if there is none.
    pub fn text(&self, pointer: &str) -> &str {
        self.at(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// The number at a JSON pointer; 0 if there is none.
    pub fn number(&self, pointer: &str) -> i64 {
        self.at(pointer).and_then(Value::as_i64).unwrap_or_default()
    }

    /// The time at a JSON pointer.
    pub fn time(&self, pointer: &str) -> Option<Timestamp> {
        self.text(pointer).parse().ok()
    }

    /// The items of the list at a JSON pointer.
    pub fn items(&self, pointer: &str) -> &[Value] {
        let list = self.at(pointer).and_then(Value::as_array);
        list.map(Vec::as_slice).unwrap_or_default()
    }

    /// The texts of the list at a JSON pointer.
    pub fn texts(&self, pointer: &str) -> Vec<&str> {
        self.items(pointer)
            .iter()
            .filter_map(Value::as_str)
            .collect()
    }

    /// The namespace; empty for cluster-scoped objects.
    pub fn namespace(&self) -> &str {
        self.text("/metadata/namespace")
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.text("/metadata/name")
    }

    /// The value of the label `key`.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.at("/metadata/labels")?.get(key)?.as_str()
    }

    /// Whether a pod has ended: it holds no resources of its node then.
    pub fn has_ended(&self) -> bool {
        matches!(self.text("/status/phase"), "Succeeded" | "Failed")
    }

    /// The UID.
    pub fn uid(&self) -> &str {
        self.text("/metadata/uid")
    }

    /// `metadata.deletionTimestamp`.
    pub fn deleted(&self) -> Option<Timestamp> {
        self.time("/metadata/deletionTimestamp")
    }

    /// The time of the deletion. `metadata.deletionTimestamp` is later by the grace period.
    pub fn deleted_since(&self) -> Option<Timestamp> {
        let grace = self.number("/metadata/deletionGracePeriodSeconds");
        let deleted = self.deleted()?;
        deleted.checked_sub(SignedDuration::from_secs(grace)).ok()
    }

    /// The time of the last recorded change of a field other than the status, else of the creation.
    pub fn changed(&self) -> Option<Timestamp> {
        let fields = self.items("/metadata/managedFields").iter();
        let of_spec = fields
            .into_iter()
            .filter(|entry| entry["subresource"].as_str() != Some("status"));
        let times = of_spec.filter_map(|entry| entry["time"].as_str()?.parse().ok());
        times
            .max()
            .or_else(|| self.time("/metadata/creationTimestamp"))
    }

    /// The program that set the finalizer `name`, from the managed fields.
    pub fn set_by(&self, finalizer: &str) -> Option<&str> {
        let key = format!("v:\"{finalizer}\"");
        let mut fields = self.items("/metadata/managedFields").iter();
        let entry = fields.find(|entry| {
            let set = &entry["fieldsV1"]["f:metadata"]["f:finalizers"];
            set.get(&key).is_some()
        })?;
        entry["manager"].as_str()
    }

    /// The program that wrote the status last, from the managed fields.
    pub fn status_manager(&self) -> Option<&str> {
        let fields = self.items("/metadata/managedFields").iter();
        let of_status = fields.filter(|entry| entry["fieldsV1"].get("f:status").is_some());
        let newest = of_status.max_by_key(|entry| entry["time"].as_str())?;
        newest["manager"].as_str()
    }

    /// The condition `kind` of the status.
    pub fn condition(&self, kind: &str) -> Option<Self> {
        let conditions = self.items("/status/conditions").iter();
        let found = conditions
            .into_iter()
            .find(|condition| condition["type"] == kind);
        found.map(|condition| Self::new(condition.clone()))
    }

    /// Whether an owner reference with `controller: true` has this UID.
    pub fn is_controlled_by(&self, uid: &str) -> bool {
        let owners = self.items("/metadata/ownerReferences").iter();
        owners
            .into_iter()
            .any(|owner| owner["uid"] == uid && owner["controller"] == true)
    }

    /// The cached view of a controller. `None` if the object does not decode as one.
    pub fn view<T: Object>(&self) -> Option<Arc<T>> {
        let json = serde_json::to_vec(&*self.0).ok()?;
        T::decode(&json).ok().map(Arc::new)
    }

    /// The whole document.
    pub fn value(&self) -> &Value {
        &self.0
    }

    /// The object as the subject of an explanation.
    pub fn subject(&self, of: &ResourceType) -> Subject {
        Subject::new(of, self.namespace(), self.name())
    }
}
