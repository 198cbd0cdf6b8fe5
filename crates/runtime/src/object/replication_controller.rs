//! ReplicationControllers: on the wire as ReplicaSets, with a plain map as selector.

use std::collections::BTreeMap;

use super::Object;
use super::document::Document;
use super::meta::Meta;
use super::replica_set::{Parts, ReplicaSetSpec, ReplicaSetStatus, decode_parts};
use super::wire::DecodeError;
use crate::resource::{self, ResourceType};

/// A ReplicationController with everything its controller decides by, and the document its writes
/// start from.
#[derive(Debug, Clone)]
pub struct ReplicationController {
    /// Metadata.
    pub meta: Meta,
    /// Spec; pods must carry every label of the served selector.
    pub spec: ReplicaSetSpec,
    /// Status; this API has no `terminatingReplicas`.
    pub status: ReplicaSetStatus,
    /// The object as served, without managedFields.
    pub document: Document,
}

impl Object for ReplicationController {
    const RESOURCE: &'static ResourceType = &resource::REPLICATION_CONTROLLERS;

    fn decode(json: &[u8]) -> Result<Self, DecodeError> {
        let parts = decode_parts::<BTreeMap<String, String>>(json, "ReplicationController")?;
        let Parts {
            meta,
            annotations: _,
            spec,
            status,
            document,
        } = parts;
        Ok(Self {
            meta,
            spec,
            status,
            document,
        })
    }

    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn heap_size(&self) -> usize {
        self.meta.name.len() + self.document.len()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::labels::Labels;

    fn decode(spec: Value) -> ReplicationController {
        let object = json!({
            "metadata": {"name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "7", "managedFields": [{}]},
            "spec": spec,
            "status": {"replicas": 2, "observedGeneration": 3},
        });
        ReplicationController::decode(object.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn the_selector_is_a_map_of_labels_that_all_must_be_there() {
        let labels = Labels::new([("app", "web"), ("tier", "front")]);
        // (why, selector, matches)
        let cases = [
            ("all equal", json!({"app": "web", "tier": "front"}), true),
            ("some", json!({"app": "web"}), true),
            (
                "another value",
                json!({"app": "web", "tier": "back"}),
                false,
            ),
            ("a key it lacks", json!({"app": "web", "zone": "a"}), false),
            ("an empty map", json!({}), true),
            ("none at all", Value::Null, false),
        ];
        for (why, selector, expected) in cases {
            let rc = decode(json!({"replicas": 1, "selector": selector, "template": {}}));
            assert_eq!(
                rc.spec.selector.unwrap().matches(&labels),
                expected,
                "{why}"
            );
        }
    }

    #[test]
    fn what_the_machinery_reads_is_decoded_and_the_document_kept() {
        let rc = decode(
            json!({"minReadySeconds": 5, "template": {"metadata": {"labels": {"app": "web"}}}, "new": 1}),
        );
        assert_eq!(
            (rc.spec.replicas, rc.spec.min_ready_seconds),
            (1, 5),
            "one pod unless it says otherwise"
        );
        assert_eq!(
            rc.spec
                .template
                .labels()
                .get("app")
                .map(|value| value.as_str()),
            Some("web")
        );
        assert_eq!(
            (
                rc.status.replicas,
                rc.status.terminating_replicas,
                rc.status.observed_generation
            ),
            (2, None, 3)
        );
        let document: Value = serde_json::from_str(rc.document.as_str()).unwrap();
        assert_eq!(
            (
                &document["spec"]["new"],
                &document["metadata"]["managedFields"]
            ),
            (&json!(1), &Value::Null)
        );
    }
}
