//! Whether an Endpoints object needs a write, and the object that is written.
//!
//! Labels are those of the Service and two of this controller. Annotations are kept, except the two
//! that this controller owns. All other members of a stored object are written back as served.
//!
//! Upstream: the end of `syncService`, `labelsCorrectForEndpoints`,
//! `endpointSubsetsEqualIgnoreResourceVersion`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value, json};
use steersman_helpers::endpointslice::{HEADLESS, PortOrder, TRIGGER_TIME, repack};
use steersman_objects::{EndpointAddress, EndpointSubset, Endpoints, Object, Service};
use steersman_values::labels::Labels;

use super::capacity::{self, OVER_CAPACITY};

/// Label of an Endpoints object with the name of its controller.
const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
/// The value of [`MANAGED_BY`] for this controller.
const MANAGER: &str = "endpoint-controller";

/// True if the stored object has these subsets, and labels and annotations that fit.
///
/// Another order of equal subsets is no reason for a write: the hash behind the order differs
/// between releases (kubernetes/kubernetes#129652). Upstream: the comparison in `syncService`.
pub(super) fn is_current(
    stored: &Endpoints,
    service: &Service,
    subsets: &[EndpointSubset],
    order: PortOrder,
) -> bool {
    // Managers of other releases store the same subsets in another order.
    let has_subsets =
        are_equal(&stored.subsets, subsets) || are_equal(&repack(&stored.subsets, order), subsets);
    has_subsets
        && labels_are_current(&stored.meta.labels, &service.meta.labels)
        && capacity::is_within(&stored.subsets, &stored.annotations)
}

/// Equal in all fields except the resource versions of pods. Upstream:
/// `endpointSubsetsEqualIgnoreResourceVersion`. Older releases wrote resource versions, which
/// change with each update of a pod.
fn are_equal(a: &[EndpointSubset], b: &[EndpointSubset]) -> bool {
    let same_address = |(a, b): (&EndpointAddress, &EndpointAddress)| {
        let same_target = match (&a.target_ref, &b.target_ref) {
            (Some(a), Some(b)) => a.is_same_object(b),
            (a, b) => a.is_none() && b.is_none(),
        };
        same_target && a.ip == b.ip && a.hostname == b.hostname && a.node_name == b.node_name
    };
    let same_list = |a: &[EndpointAddress], b: &[EndpointAddress]| {
        a.len() == b.len() && a.iter().zip(b).all(same_address)
    };
    let same_subset = |(a, b): (&EndpointSubset, &EndpointSubset)| {
        a.ports == b.ports
            && same_list(&a.addresses, &b.addresses)
            && same_list(&a.not_ready_addresses, &b.not_ready_addresses)
    };
    a.len() == b.len() && a.iter().zip(b).all(same_subset)
}

/// True if the labels are those of the Service, and this controller's mark. As upstream, the label
/// for headless Services does not count. A label that a user adds is a difference, and the write
/// removes it.
fn labels_are_current(labels: &Labels, of_service: &Labels) -> bool {
    let is_own = |key: &str| key == HEADLESS || key == MANAGED_BY;
    let copied = || labels.iter().filter(|(key, _)| !is_own(key));
    has_mark(labels)
        && copied().all(|(key, value)| of_service.get(key) == Some(value))
        && copied().count() == of_service.iter().count()
}

/// True for the labels of an Endpoints object that this controller writes. Objects of users lack
/// it, so their arrival enqueues nothing.
pub(super) fn has_mark(labels: &Labels) -> bool {
    labels
        .get(MANAGED_BY)
        .is_some_and(|manager| *manager == *MANAGER)
}

/// The body of a POST or a PUT.
#[derive(Debug)]
pub(super) struct Body {
    /// All members but `subsets`.
    members: Map<String, Value>,
    subsets: Vec<EndpointSubset>,
}

impl Serialize for Body {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (key, value) in &self.members {
            map.serialize_entry(key, value)?;
        }
        if !self.subsets.is_empty() {
            map.serialize_entry("subsets", &self.subsets)?;
        }
        map.end()
    }
}

/// The object to write for `service`. It replaces `stored`, or is new. `trigger` is the time of the
/// change that leads to the write.
pub(super) fn body(
    stored: Option<&Endpoints>,
    service: &Service,
    mut subsets: Vec<EndpointSubset>,
    trigger: Option<Timestamp>,
) -> Body {
    let is_truncated = capacity::truncate(&mut subsets);
    let mut members = stored.map_or_else(
        || {
            let mut new = Map::new();
            new.insert("metadata".to_owned(), json!({"name": &*service.meta.name}));
            new
        },
        |stored| stored.document.to_object(),
    );
    members.insert("kind".to_owned(), json!(Endpoints::RESOURCE.kind));
    members.insert(
        "apiVersion".to_owned(),
        json!(Endpoints::RESOURCE.api_version()),
    );
    let metadata = &mut members["metadata"];
    // All labels are replaced: they belong to the Service.
    metadata["labels"] = json!(labels(service));
    let mut annotations: BTreeMap<String, String> = stored
        .map(|stored| stored.document.annotations())
        .unwrap_or_default();
    // Without a new time the annotation goes, so that each latency is measured once.
    set(
        &mut annotations,
        TRIGGER_TIME,
        trigger.map(|time| time.to_string()),
    );
    let truncated = is_truncated.then(|| "truncated".to_owned());
    set(&mut annotations, OVER_CAPACITY, truncated);
    if annotations.is_empty() {
        metadata
            .as_object_mut()
            .and_then(|meta| meta.remove("annotations"));
    } else {
        metadata["annotations"] = json!(annotations);
    }
    Body { members, subsets }
}

/// A headless label of the Service itself does not pass to an object with a cluster IP.
fn labels(service: &Service) -> BTreeMap<&str, &str> {
    let of_service = service.meta.labels.iter();
    let mut labels: BTreeMap<&str, &str> = of_service
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect();
    if service.is_headless() {
        labels.insert(HEADLESS, "");
    } else {
        labels.remove(HEADLESS);
    }
    labels.insert(MANAGED_BY, MANAGER);
    labels
}

/// Sets or removes an annotation, and keeps all others.
fn set(annotations: &mut BTreeMap<String, String>, key: &str, value: Option<String>) {
    match value {
        Some(value) => drop(annotations.insert(key.to_owned(), value)),
        None => drop(annotations.remove(key)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Upstream: `TestEndpointSubsetsEqualIgnoreResourceVersion`.
    #[test]
    fn endpoint_subsets_equal_ignore_resource_version() {
        let subset = |number: u8, port: u16| {
            let address = |last: u8, namespace: &str| {
                json!({
                    "ip": format!("{number}.{number}.{number}.{last}"),
                    "targetRef": {"kind": "Pod", "name": format!("pod{number}-{last}"),
                                  "namespace": namespace, "resourceVersion": "1"},
                })
            };
            json!({
                "addresses": [address(1, "ns")], "notReadyAddresses": [address(2, "ns2")],
                "ports": [{"port": port, "protocol": "TCP"}],
            })
        };
        let [one, two] = [subset(1, 8081), subset(2, 8082)];
        let both = json!([one, two]);
        let changed = |pointer: &str, value: Value| {
            let mut subsets = both.clone();
            *subsets.pointer_mut(pointer).unwrap() = value;
            subsets
        };
        // (case, other subsets, equal)
        let cases = [
            ("same", both.clone(), true),
            ("Subsets removed", json!([one]), false),
            (
                "Ready Pod IP changed",
                changed("/0/addresses/0/ip", json!("1.1.1.10")),
                false,
            ),
            (
                "NotReady Pod IP changed",
                changed("/1/notReadyAddresses/0/ip", json!("2.2.2.10")),
                false,
            ),
            (
                "Pod ResourceVersion changed",
                changed("/1/addresses/0/targetRef/resourceVersion", json!("100")),
                true,
            ),
            (
                "Pod ResourceVersion removed",
                changed("/1/addresses/0/targetRef/resourceVersion", json!("")),
                true,
            ),
            (
                "Pod UID changed",
                changed("/1/addresses/0/targetRef/name", json!("x")),
                false,
            ),
            (
                "reference removed",
                changed("/1/addresses/0/targetRef", Value::Null),
                false,
            ),
            (
                "Ports changed",
                changed("/0/ports/0/port", json!(8082)),
                false,
            ),
        ];
        let decode =
            |json: &Value| -> Vec<EndpointSubset> { serde_json::from_value(json.clone()).unwrap() };
        for (case, other, expected) in cases {
            let found = are_equal(&decode(&both), &decode(&other));
            assert_eq!(found, expected, "{case}");
        }
    }

    #[test]
    fn labels_must_be_those_of_the_service_and_the_mark() {
        let mark = (MANAGED_BY, MANAGER);
        // (labels, labels of the Service, current)
        let cases: [(&[(&str, &str)], &[(&str, &str)], bool); 8] = [
            (&[mark], &[], true),
            (&[], &[], false),
            (&[(MANAGED_BY, "other")], &[], false),
            (&[mark, ("a", "1")], &[("a", "1")], true),
            (&[mark, ("a", "1")], &[("a", "2")], false),
            (&[mark, ("a", "1")], &[], false),
            (&[mark], &[("a", "1")], false),
            (&[mark, (HEADLESS, "")], &[], true),
        ];
        for (labels, of_service, expected) in cases {
            let [labels, of_service] = [labels, of_service].map(|all| Labels::new(all.to_vec()));
            assert_eq!(
                labels_are_current(&labels, &of_service),
                expected,
                "{labels:?}"
            );
        }
    }
}
