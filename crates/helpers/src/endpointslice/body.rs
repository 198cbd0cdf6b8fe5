//! The bodies of writes of EndpointSlices.
//!
//! A body is a served slice with other endpoints, or a new slice. Both have the form in which
//! upstream sends them. A slice that takes over the name of another one is new: its PUT carries no
//! resource version, and replaces everything.
//!
//! Upstream: `newEndpointSlice` and `addTriggerTimeAnnotation` of `k8s.io/endpointslice`.

use std::collections::BTreeMap;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use steersman_objects::{Endpoint, EndpointSlice, Meta, Object};

use super::{AddressType, Ports};

/// The body of a POST or PUT of a slice.
pub struct SliceBody<'a> {
    /// All members but `endpoints`.
    members: Map<String, Value>,
    endpoints: &'a [Endpoint],
}

/// The fields of a new slice.
pub struct NewSlice<'a> {
    /// Metadata of the owner, which names the slice and has its namespace.
    pub owner: &'a Meta,
    /// Kind of the owner, in the API version `v1`.
    pub owner_kind: &'static str,
    /// Labels.
    pub labels: BTreeMap<&'a str, &'a str>,
    /// Annotations.
    pub annotations: BTreeMap<&'a str, &'a str>,
    /// Address type.
    pub address_type: AddressType,
    /// Ports.
    pub ports: &'a Ports,
    /// Endpoints.
    pub endpoints: &'a [Endpoint],
}

impl<'a> NewSlice<'a> {
    /// The body of a POST without `name`, and of a PUT to the slice called `name` otherwise.
    pub fn body(self, name: Option<&str>) -> SliceBody<'a> {
        let mut metadata = json!({
            "namespace": &*self.owner.namespace,
            "labels": self.labels,
            "ownerReferences": [{
                "apiVersion": "v1", "kind": self.owner_kind, "name": self.owner.name, "uid": self.owner.uid,
                "controller": true, "blockOwnerDeletion": true,
            }],
        });
        if let Some(name) = name {
            metadata["name"] = Value::from(name);
        }
        if !self.annotations.is_empty() {
            metadata["annotations"] = json!(self.annotations);
        }
        let mut members = Map::new();
        members.insert("metadata".to_owned(), metadata);
        members.insert("addressType".to_owned(), json!(self.address_type.as_str()));
        members.insert("ports".to_owned(), json!(unless_empty(self.ports)));
        SliceBody {
            members,
            endpoints: self.endpoints,
        }
    }
}

impl<'a> SliceBody<'a> {
    /// `slice` as served, with other endpoints.
    pub fn copy(slice: &EndpointSlice, endpoints: &'a [Endpoint]) -> Self {
        Self {
            members: slice.document.to_object(),
            endpoints,
        }
    }

    /// Sets `generateName`.
    #[must_use]
    pub fn with_generate_name(mut self, prefix: &str) -> Self {
        self.metadata()
            .insert("generateName".to_owned(), Value::from(prefix));
        self
    }

    /// Replaces the labels.
    #[must_use]
    pub fn with_labels(mut self, labels: &BTreeMap<&str, &str>) -> Self {
        self.metadata().insert("labels".to_owned(), json!(labels));
        self
    }

    /// Sets the annotation `key`; `None` removes it.
    #[must_use]
    pub fn with_annotation(mut self, key: &str, value: Option<String>) -> Self {
        let metadata = self.metadata();
        let annotations = metadata.remove("annotations");
        let mut annotations = match annotations {
            Some(Value::Object(annotations)) => annotations,
            _ => Map::new(),
        };
        match value {
            Some(value) => drop(annotations.insert(key.to_owned(), Value::from(value))),
            None => drop(annotations.remove(key)),
        }
        if !annotations.is_empty() {
            metadata.insert("annotations".to_owned(), Value::Object(annotations));
        }
        self
    }

    fn metadata(&mut self) -> &mut Map<String, Value> {
        let metadata = self.members.entry("metadata").or_insert_with(|| json!({}));
        metadata
            .as_object_mut()
            .expect("the metadata of a decoded object is a JSON object")
    }
}

impl Serialize for SliceBody<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("apiVersion", &EndpointSlice::RESOURCE.api_version())?;
        map.serialize_entry("kind", &EndpointSlice::RESOURCE.kind)?;
        for (key, value) in &self.members {
            // Objects in a list lack these two members.
            if !matches!(&**key, "apiVersion" | "kind") {
                map.serialize_entry(key, value)?;
            }
        }
        map.serialize_entry("endpoints", &unless_empty(self.endpoints))?;
        map.end()
    }
}

/// `list`, or null if it is empty. The author of an empty list would own it in `managedFields`, and
/// upstream's requests, which are no JSON, have none.
fn unless_empty<T>(list: &[T]) -> Option<&[T]> {
    (!list.is_empty()).then_some(list)
}

/// The `generateName` of slices for `owner`: its name and a dash.
///
/// Upstream leaves the dash out where the name with a dash is no valid prefix. A name of an existing
/// object with a dash is always one.
pub fn generate_name(owner: &str) -> String {
    format!("{owner}-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(annotations: &Value) -> EndpointSlice {
        let json = json!({
            "metadata": {
                "name": "web-a", "namespace": "ns", "uid": "u", "resourceVersion": "7", "labels": {"a": "1"},
                "annotations": annotations, "managedFields": [{}],
            },
            "addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": null, "x": 1,
        });
        EndpointSlice::decode(json.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn a_copy_keeps_all_members_that_it_does_not_replace() {
        // (served annotations, trigger time, annotations)
        let cases = [
            (
                json!({"b": "2", "t": "0"}),
                Some("1"),
                json!({"b": "2", "t": "1"}),
            ),
            (json!({"b": "2", "t": "0"}), None, json!({"b": "2"})),
            (json!({"t": "0"}), None, Value::Null),
            (Value::Null, None, Value::Null),
            (Value::Null, Some("1"), json!({"t": "1"})),
        ];
        for (annotations, time, expected) in cases {
            let slice = served(&annotations);
            let body = SliceBody::copy(&slice, &[])
                .with_labels(&BTreeMap::from([("c", "3")]))
                .with_annotation("t", time.map(str::to_owned));
            let found = serde_json::to_value(&body).unwrap();
            let mut metadata = json!({
                "name": "web-a", "namespace": "ns", "uid": "u", "resourceVersion": "7", "labels": {"c": "3"},
            });
            if !expected.is_null() {
                metadata["annotations"] = expected;
            }
            let expected = json!({
                "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": metadata,
                "addressType": "IPv4", "endpoints": null, "ports": null, "x": 1,
            });
            assert_eq!(found, expected, "{annotations}");
        }
    }
}
