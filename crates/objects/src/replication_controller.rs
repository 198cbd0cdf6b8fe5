//! The cached view of a ReplicationController.
//!
//! Its JSON has the form of a ReplicaSet, except for the selector, which is a plain map of labels.
//! Both kinds therefore share one decoder and the code of one controller. Upstream converts
//! between the types in `pkg/controller/replication/conversion.go`.

use std::collections::BTreeMap;

use steersman_values::resource::{self, ResourceType};

use super::Object;
use super::document::Document;
use super::meta::Meta;
use super::replica_set::{Parts, ReplicaSetSpec, ReplicaSetStatus, decode_parts};
use super::wire::DecodeError;

/// A ReplicationController: the fields that its controller reads, and the document for its writes.
#[derive(Debug, Clone)]
pub struct ReplicationController {
    /// Metadata.
    pub meta: Meta,
    /// Spec. Its selector matches pods that have every label of the served map.
    pub spec: ReplicaSetSpec,
    /// Status. `terminatingReplicas` is always unset, because the API lacks this field.
    pub status: ReplicaSetStatus,
    /// The served JSON without `managedFields`.
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
        self.meta.name.len() + self.document.size()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use steersman_values::labels::Labels;

    use super::*;

    fn decode(spec: Value) -> ReplicationController {
        let object = json!({
            "metadata": {"name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "7", "managedFields": [{}]},
            "spec": spec,
            "status": {"replicas": 2, "observedGeneration": 3},
        });
        ReplicationController::decode(object.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn the_selector_matches_pods_with_all_its_labels() {
        let labels = Labels::new([("app", "web"), ("tier", "front")]);
        // (case, selector, matches)
        let cases = [
            ("all equal", json!({"app": "web", "tier": "front"}), true),
            ("a subset", json!({"app": "web"}), true),
            (
                "another value",
                json!({"app": "web", "tier": "back"}),
                false,
            ),
            ("a missing key", json!({"app": "web", "zone": "a"}), false),
            ("an empty map", json!({}), true),
            ("no selector", Value::Null, false),
        ];
        for (case, selector, expected) in cases {
            let rc = decode(json!({"replicas": 1, "selector": selector, "template": {}}));
            assert_eq!(
                rc.spec.selector.unwrap().matches(&labels),
                expected,
                "{case}"
            );
        }
    }

    #[test]
    fn shared_fields_are_decoded_and_the_document_is_kept() {
        let rc = decode(
            json!({"minReadySeconds": 5, "template": {"metadata": {"labels": {"app": "web"}}}, "new": 1}),
        );
        assert_eq!(
            (rc.spec.replicas, rc.spec.min_ready_seconds),
            (1, 5),
            "replicas default to 1"
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
        let document: Value = serde_json::from_str(&rc.document.text()).unwrap();
        assert_eq!(
            (
                &document["spec"]["new"],
                &document["metadata"]["managedFields"]
            ),
            (&json!(1), &Value::Null)
        );
    }
}
