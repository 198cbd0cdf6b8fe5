//! The identity of an endpoint, and the fields that may change under one identity.
//!
//! Upstream: `EndpointSet` and `EndpointsEqualBeyondHash` of `k8s.io/endpointslice/util`.

use std::borrow::Cow;

use steersman_objects::{Addresses, Endpoint};

/// The fields that identify an endpoint: addresses in any order, hostname, namespace and name of
/// its object.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EndpointKey<'a> {
    addresses: Cow<'a, Addresses>,
    hostname: &'a str,
    namespace: &'a str,
    name: &'a str,
}

impl<'a> EndpointKey<'a> {
    /// The key of `endpoint`.
    pub fn of(endpoint: &'a Endpoint) -> Self {
        let addresses = &endpoint.addresses;
        let target = endpoint.target_ref.as_ref();
        Self {
            addresses: if addresses.iter().nth(1).is_none() {
                Cow::Borrowed(addresses)
            } else {
                let mut sorted: Vec<&str> = addresses.iter().collect();
                sorted.sort_unstable();
                Cow::Owned(Addresses::new(sorted))
            },
            hostname: endpoint.hostname.as_deref().unwrap_or_default(),
            namespace: target.map_or("", |target| &target.namespace),
            name: target.map_or("", |target| &target.name),
        }
    }
}

/// Whether two endpoints with one identity agree in all fields that lead to a write. Hints and the
/// resource version of the object do not.
pub fn is_unchanged(old: &Endpoint, new: &Endpoint) -> bool {
    let is_same_object = match (&old.target_ref, &new.target_ref) {
        (Some(old), Some(new)) => old.is_same_object(new),
        (old, new) => old.is_none() && new.is_none(),
    };
    is_same_object
        && old.conditions == new.conditions
        && old.node_name == new.node_name
        && old.zone == new.zone
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn endpoint(changes: &Value) -> Endpoint {
        let mut json = json!({
            "addresses": ["10.0.0.1"], "conditions": {"ready": true},
            "targetRef": {"kind": "Pod", "namespace": "ns", "name": "a", "uid": "u", "resourceVersion": "1"},
            "nodeName": "n", "zone": "z",
        });
        for (field, value) in changes.as_object().unwrap() {
            json[field] = value.clone();
        }
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn addresses_hostname_and_object_identify_an_endpoint() {
        let two = endpoint(&json!({"addresses": ["10.0.0.1", "10.0.0.2"]}));
        let swapped = endpoint(&json!({"addresses": ["10.0.0.2", "10.0.0.1"]}));
        assert_eq!(EndpointKey::of(&two), EndpointKey::of(&swapped));
        // (changes, same identity)
        let cases = [
            (
                json!({"zone": "y", "nodeName": null, "conditions": {}}),
                true,
            ),
            (json!({"hostname": ""}), true),
            (
                json!({"targetRef": {"kind": "Node", "namespace": "ns", "name": "a", "uid": "v"}}),
                true,
            ),
            (json!({"hostname": "h"}), false),
            (json!({"addresses": ["10.0.0.2"]}), false),
            (
                json!({"targetRef": {"namespace": "ns", "name": "b"}}),
                false,
            ),
            (
                json!({"targetRef": {"namespace": "other", "name": "a"}}),
                false,
            ),
            (json!({"targetRef": null}), false),
        ];
        let plain = endpoint(&json!({}));
        for (changes, same) in cases {
            let other = endpoint(&changes);
            assert_eq!(
                EndpointKey::of(&plain) == EndpointKey::of(&other),
                same,
                "{changes}"
            );
        }
    }

    /// Upstream: `TestEndpointsEqualBeyondHash`.
    #[test]
    fn changes_that_lead_to_a_write_are_found() {
        let object = |field: &str, value: &str| {
            let mut target = json!({"kind": "Pod", "namespace": "ns", "name": "a", "uid": "u", "resourceVersion": "1"});
            target[field] = Value::from(value);
            json!({ "targetRef": target })
        };
        // (upstream's case, changes, unchanged)
        let cases = [
            ("No change", json!({}), true),
            ("NodeName changed", json!({"nodeName": "m"}), false),
            ("NodeName unset", json!({"nodeName": null}), false),
            ("Zone changed", json!({"zone": "y"}), false),
            ("Zone unset", json!({"zone": null}), false),
            (
                "Ready condition changed",
                json!({"conditions": {"ready": false}}),
                false,
            ),
            ("Ready condition unset", json!({"conditions": {}}), false),
            (
                "Serving condition changed",
                json!({"conditions": {"ready": true, "serving": false}}),
                false,
            ),
            (
                "Terminating condition changed",
                json!({"conditions": {"ready": true, "terminating": false}}),
                false,
            ),
            ("Pod name changed", object("name", "b"), false),
            ("Pod UID changed", object("uid", "v"), false),
            (
                "Pod resourceVersion changed",
                object("resourceVersion", "2"),
                true,
            ),
            (
                "Pod resourceVersion removed",
                object("resourceVersion", ""),
                true,
            ),
            ("no object", json!({"targetRef": null}), false),
            (
                "hints",
                json!({"hints": {"forZones": [{"name": "z"}]}}),
                true,
            ),
        ];
        let plain = endpoint(&json!({}));
        for (case, changes, expected) in cases {
            assert_eq!(
                is_unchanged(&plain, &endpoint(&changes)),
                expected,
                "{case}"
            );
        }
    }
}
