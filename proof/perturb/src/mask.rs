//! Masks the random parts of a final state, so that two runs can be compared.
//!
//! The mask removes only fields that the server or a simulated node draws: names, UIDs, times and
//! addresses. Data of users stays, even under the same field names. Two states are equal if they
//! have the same masked objects, each as often as in the other.

use std::collections::{BTreeMap, HashSet};

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::history::{EVENTS, State};

/// Metadata fields that the server sets differently in each run.
const METADATA: &[&str] = &["uid", "resourceVersion", "generation", "managedFields"];
/// Status fields, at any depth, that a node draws at random or that count updates.
const STATUS: &[&str] = &[
    "observedGeneration",
    "podIP",
    "podIPs",
    "hostIP",
    "hostIPs",
    "containerID",
];

/// Annotations in which a ReplicaSet stores a size of its Deployment.
const SIZES: &[&str] = &[
    "deployment.kubernetes.io/desired-replicas",
    "deployment.kubernetes.io/max-replicas",
];

/// Resources that mostly the simulation changes: its nodes, and the volumes of its provisioner,
/// which are named after the UID of a claim. Events vary in number.
const IGNORED: &[&str] = &["nodes", "persistentvolumes", EVENTS];

/// Masked objects as text, each with its number of occurrences.
pub type Masked = BTreeMap<String, usize>;

/// All objects of a state, masked.
pub fn masked(state: &State) -> Masked {
    let live: HashSet<&str> = state
        .iter()
        .filter_map(|(_, object)| object["metadata"]["uid"].as_str())
        .collect();
    let mut all = Masked::new();
    for (plural, object) in state.iter().filter(|(plural, _)| !IGNORED.contains(plural)) {
        let mut object = object.clone();
        let generation = &object["metadata"]["generation"];
        let lags = object["status"]
            .get("observedGeneration")
            .is_some_and(|observed| observed != generation);
        if let Some(prefix) = object["metadata"]["generateName"].as_str() {
            object["metadata"]["name"] = Value::from(format!("{prefix}*"));
        }
        forget(plural, &mut object);
        mask(&mut object, &live);
        // The order of fields depends on the ones that were removed.
        object.sort_all_objects();
        let lags = if lags { ", not observed" } else { "" };
        *all.entry(format!("{plural}{lags} {object}")).or_default() += 1;
    }
    all
}

/// Removes fields that depend on the order of events and mean nothing in the final state.
fn forget(plural: &str, object: &mut Value) {
    match plural {
        // With Recreate there is an instant with zero desired and zero existing pods, which counts
        // as complete. After a crash, the next template may be complete before the next sync.
        // Upstream then keeps the condition with the name of the previous ReplicaSet
        // (`syncRolloutStatus`). A rolling update has no such instant.
        "deployments" if object["spec"]["strategy"]["type"] == "Recreate" => {
            let conditions = object["status"]["conditions"].as_array_mut();
            for condition in conditions
                .into_iter()
                .flatten()
                .filter(|condition| condition["type"] == "Progressing")
            {
                condition["message"] = Value::from("some ReplicaSet has successfully progressed.");
            }
        }
        // Serial numbers and signatures are random.
        "certificatesigningrequests" => {
            if let Some(certificate) = object.pointer_mut("/status/certificate") {
                *certificate = Value::from("a certificate");
            }
        }
        // The status refers to running Jobs by UID and version.
        "cronjobs" => {
            let active = object
                .pointer_mut("/status/active")
                .and_then(Value::as_array_mut);
            for job in active
                .into_iter()
                .flatten()
                .filter_map(Value::as_object_mut)
            {
                job.retain(|name, _| !METADATA.contains(&name.as_str()));
            }
        }
        // The trigger time depends on the number of changes that one write answers. UIDs are random.
        "endpoints" => {
            if let Some(metadata) = object["metadata"].as_object_mut() {
                forget_trigger_time(metadata);
            }
            let subsets = object["subsets"].as_array_mut();
            for subset in subsets.into_iter().flatten() {
                for list in ["addresses", "notReadyAddresses"] {
                    let addresses = subset.get_mut(list).and_then(Value::as_array_mut);
                    for target in addresses.into_iter().flatten() {
                        if let Some(uid) = target.pointer_mut("/targetRef/uid") {
                            *uid = Value::from("of a pod");
                        }
                    }
                }
            }
        }
        // A crash after the write of a size keeps its time from the status, as in upstream.
        "horizontalpodautoscalers" => {
            if let Some(status) = object["status"].as_object_mut() {
                status.remove("lastScaleTime");
            }
        }
        // The API server labels a Job and its pods with the UID of the Job.
        "jobs" => {
            for place in [
                "/metadata/labels",
                "/spec/template/metadata/labels",
                "/spec/selector/matchLabels",
            ] {
                if let Some(labels) = object.pointer_mut(place).and_then(Value::as_object_mut) {
                    labels.retain(|name, _| !name.ends_with("controller-uid"));
                }
            }
        }
        // The names of claims from templates are random, also without `generateName`.
        "pods" => {
            let claims = object.pointer_mut("/status/resourceClaimStatuses");
            let claims = claims.and_then(Value::as_array_mut);
            for claim in claims.into_iter().flatten() {
                if let Some(name) = claim.get_mut("resourceClaimName") {
                    *name = Value::from("of a claim");
                }
            }
        }
        // The simulated provisioner names a volume after the UID of the claim.
        "persistentvolumeclaims" => {
            if let Some(spec) = object["spec"].as_object_mut() {
                spec.remove("volumeName");
            }
        }
        // The names of mirrored slices are random, also without `generateName`. The order of
        // endpoints, and the time of the change that led to a write, depend on the order of events.
        "endpointslices" => {
            let service = object["metadata"]["labels"]["kubernetes.io/service-name"].take();
            object["metadata"]["labels"]["kubernetes.io/service-name"] = service.clone();
            if let Some(metadata) = object["metadata"].as_object_mut() {
                metadata.insert("name".to_owned(), service);
                metadata.remove("generateName");
                forget_trigger_time(metadata);
            }
            if let Some(endpoints) = object.get_mut("endpoints").and_then(Value::as_array_mut) {
                for endpoint in endpoints.iter_mut() {
                    let target = endpoint.get_mut("targetRef").and_then(Value::as_object_mut);
                    target.map(|target| target.remove("uid"));
                }
                endpoints.sort_by_key(Value::to_string);
            }
        }
        // The version of the list that began the migration.
        "storageversionmigrations" => {
            if let Some(status) = object["status"].as_object_mut() {
                status.remove("resourceVersion");
            }
        }
        // A token contains the random UID of its account.
        "secrets" => {
            for place in [
                "/data/token",
                "/metadata/annotations/kubernetes.io~1service-account.uid",
            ] {
                if let Some(value) = object.pointer_mut(place) {
                    *value = Value::from("of an account");
                }
            }
        }
        // Controllers read these annotations only of ReplicaSets with pods.
        "replicasets" if object["spec"]["replicas"] == 0 => {
            if let Some(annotations) = object["metadata"]["annotations"].as_object_mut() {
                annotations.retain(|name, _| !SIZES.contains(&name.as_str()));
            }
        }
        _ => {}
    }
}

/// Removes the annotation with the time of the change that led to the last write. A write that no
/// time belongs to has no annotations at all, instead of an empty map.
fn forget_trigger_time(metadata: &mut Map<String, Value>) {
    if let Some(Value::Object(mut annotations)) = metadata.remove("annotations") {
        annotations.remove("endpoints.kubernetes.io/last-change-trigger-time");
        if !annotations.is_empty() {
            metadata.insert("annotations".to_owned(), Value::Object(annotations));
        }
    }
}

/// Removes random values, and keeps all data of users. `live` are the UIDs of all existing objects:
/// the UID of an owner is random, but the existence of the owner is compared.
fn mask(object: &mut Value, live: &HashSet<&str>) {
    let owners = object
        .pointer_mut("/metadata/ownerReferences")
        .and_then(Value::as_array_mut);
    for owner in owners.into_iter().flatten() {
        let is_live = owner["uid"].as_str().is_some_and(|uid| live.contains(uid));
        owner["uid"] = Value::from(if is_live {
            "of an object"
        } else {
            "of no object"
        });
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|name, _| !METADATA.contains(&name.as_str()));
        metadata.values_mut().for_each(mask_times);
    }
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove("nodeName");
    }
    if let Some(status) = object.get_mut("status") {
        mask_status(status);
    }
}

fn mask_status(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !STATUS.contains(&name.as_str()));
            fields.values_mut().for_each(mask_status);
        }
        Value::Array(items) => {
            items.iter_mut().for_each(mask_status);
            if items.iter().all(|item| item["type"].is_string()) {
                items.sort_by(|a, b| a["type"].as_str().cmp(&b["type"].as_str()));
            }
        }
        time => mask_times(time),
    }
}

fn mask_times(value: &mut Value) {
    match value {
        Value::Object(fields) => fields.values_mut().for_each(mask_times),
        Value::Array(items) => items.iter_mut().for_each(mask_times),
        Value::String(text) if text.len() >= 20 && text.parse::<Timestamp>().is_ok() => {
            "some time".clone_into(text)
        }
        _ => {}
    }
}

/// The masked objects that only one of the states has, at most eight lines.
pub fn difference(expected: &Masked, found: &Masked) -> String {
    let mut lines = Vec::new();
    for (text, (here, there), sign) in expected
        .iter()
        .map(|(text, n)| (text, (*n, found.get(text).copied().unwrap_or(0)), '-'))
        .chain(
            found
                .iter()
                .map(|(text, n)| (text, (*n, expected.get(text).copied().unwrap_or(0)), '+')),
        )
    {
        if here > there {
            lines.push(format!("{sign}{} {text}", here - there));
        }
    }
    lines.truncate(8);
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::history::{Change, ChangeKind};

    fn alone(mut object: Value) -> Value {
        mask(&mut object, &HashSet::from(["live"]));
        object
    }

    #[test]
    fn random_fields_are_masked() {
        let first = json!({
            "metadata": {
                "name": "a", "uid": "1", "resourceVersion": "7", "generation": 2, "creationTimestamp": "2026-01-01T00:00:00Z",
            },
            "spec": {"nodeName": "one"},
            "status": {
                "observedGeneration": 2, "podIP": "10.0.0.1", "containerStatuses": [{"name": "main", "containerID": "x"}],
                "conditions": [{"type": "B", "lastTransitionTime": "2026-01-01T00:00:00.5Z"}, {"type": "A"}],
            },
        });
        let other = json!({
            "metadata": {
                "name": "a", "uid": "2", "resourceVersion": "9", "generation": 4, "creationTimestamp": "2026-01-02T00:00:00Z",
            },
            "spec": {"nodeName": "two"},
            "status": {
                "observedGeneration": 4, "podIP": "10.0.0.2", "containerStatuses": [{"name": "main", "containerID": "y"}],
                "conditions": [{"type": "A"}, {"type": "B", "lastTransitionTime": "2026-01-03T00:00:00.5Z"}],
            },
        });
        assert_eq!(alone(first.clone()), alone(other));
        assert_eq!(
            alone(first)["metadata"],
            json!({"name": "a", "creationTimestamp": "some time"})
        );
    }

    #[test]
    fn user_data_under_masked_field_names_is_compared() {
        for written in [
            json!({"data": {"uid": "1", "generation": "2", "since": "2026-01-01T00:00:00Z"}}),
            json!({"spec": {"uid": "1", "podIP": "10.0.0.1", "until": "2026-01-01T00:00:00Z"}}),
            json!({"metadata": {"annotations": {"uid": "1", "generation": "2"}}}),
        ] {
            assert_eq!(alone(written.clone()), written);
        }
    }

    #[test]
    fn a_reference_to_a_deleted_owner_differs_from_one_to_an_existing_owner() {
        let of = |name: &str, uid: &str| {
            let owner = json!({"kind": "ConfigMap", "name": name, "uid": uid});
            alone(json!({"metadata": {"name": "b", "ownerReferences": [owner]}}))
        };
        assert_ne!(of("a", "live"), of("a", "gone"));
        assert_ne!(of("a", "live"), of("z", "live"));
        assert_eq!(of("a", "gone"), of("a", "gone, too"));
    }

    /// The same rule in a whole state: an object with the owner's name and another UID is not the
    /// owner.
    #[test]
    fn an_owner_is_identified_by_uid() {
        let map = |name: &str, uid: &str, owners: Value| {
            let object = json!({"metadata": {"name": name, "uid": uid, "ownerReferences": owners}});
            Change {
                revision: 1,
                at: Timestamp::UNIX_EPOCH,
                plural: "configmaps".into(),
                key: name.into(),
                kind: ChangeKind::Created,
                before: None,
                object: Arc::new(object),
                by: String::new(),
            }
        };
        let end = |owner: &str| {
            let mut state = State::default();
            state.apply(&map("a", owner, json!([])));
            state.apply(&map(
                "b",
                "2",
                json!([{"kind": "ConfigMap", "name": "a", "uid": "1"}]),
            ));
            masked(&state)
        };
        assert_ne!(end("1"), end("3"));
        assert_eq!(end("3"), end("4"));
    }

    #[test]
    fn only_fields_without_meaning_in_the_final_state_are_removed() {
        let message = |strategy: &str| {
            let progressing = json!({"type": "Progressing", "reason": "NewReplicaSetAvailable", "message": "ReplicaSet \"a\" ..."});
            let mut web = json!({"spec": {"strategy": {"type": strategy}}, "status": {"conditions": [progressing]}});
            forget("deployments", &mut web);
            web["status"]["conditions"][0]["message"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        assert_eq!(message("RollingUpdate"), "ReplicaSet \"a\" ...");
        assert_ne!(message("Recreate"), "ReplicaSet \"a\" ...");
        for (replicas, left) in [(0, 1), (3, 2)] {
            let annotations = json!({SIZES[0]: "4", "deployment.kubernetes.io/revision": "1"});
            let mut set =
                json!({"metadata": {"annotations": annotations}, "spec": {"replicas": replicas}});
            forget("replicasets", &mut set);
            assert_eq!(
                set["metadata"]["annotations"].as_object().unwrap().len(),
                left,
                "{replicas}"
            );
        }
    }

    #[test]
    fn an_object_with_only_a_trigger_time_equals_one_without_annotations() {
        let trigger = "endpoints.kubernetes.io/last-change-trigger-time";
        let time = json!("2026-01-01T00:00:00Z");
        // (annotations, annotations that are compared)
        let cases = [
            (json!(null), json!(null)),
            (json!({}), json!(null)),
            (json!({trigger: time}), json!(null)),
            (json!({trigger: time, "mine": "1"}), json!({"mine": "1"})),
        ];
        for plural in ["endpoints", "endpointslices"] {
            for (annotations, compared) in &cases {
                let mut object = json!({"metadata": {"labels": {}, "annotations": annotations}});
                forget(plural, &mut object);
                let found = object["metadata"].get("annotations");
                let expected = Some(compared).filter(|compared| !compared.is_null());
                assert_eq!(found, expected, "{plural} {annotations}");
            }
        }
    }

    #[test]
    fn a_difference_lists_missing_and_surplus_objects() {
        let expected = Masked::from([("a".to_owned(), 2), ("b".to_owned(), 1)]);
        let found = Masked::from([("a".to_owned(), 1), ("c".to_owned(), 1)]);
        assert_eq!(difference(&expected, &found), "-1 a\n-1 b\n+1 c");
        assert_eq!(difference(&expected, &expected), "");
    }
}
