//! Final states without what differs from run to run.

use std::collections::{BTreeMap, HashSet};

use jiff::Timestamp;
use serde_json::Value;

use crate::film::State;

/// Fields of the metadata that the server draws anew each time.
const METADATA: &[&str] = &["uid", "resourceVersion", "generation", "managedFields"];
/// Fields of a status, at any depth, that a node draws anew, or that count what depends on the way.
const STATUS: &[&str] = &[
    "observedGeneration",
    "podIP",
    "podIPs",
    "hostIP",
    "hostIPs",
    "containerID",
];

/// Annotations of ReplicaSets that remember a size of their Deployment.
const SIZES: &[&str] = &[
    "deployment.kubernetes.io/desired-replicas",
    "deployment.kubernetes.io/max-replicas",
];

/// Resources whose objects nobody in the story changes but a simulation.
const ASIDE: &[&str] = &["nodes"];

/// How often each masked object occurs.
pub(crate) type Masked = BTreeMap<String, usize>;

/// Everything in a state, masked.
pub(crate) fn masked(state: &State) -> Masked {
    let live: HashSet<&str> = state
        .iter()
        .filter_map(|(_, object)| object["metadata"]["uid"].as_str())
        .collect();
    let mut all = Masked::new();
    for (plural, object) in state.iter().filter(|(plural, _)| !ASIDE.contains(plural)) {
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
        let lags = if lags { ", not observed" } else { "" };
        *all.entry(format!("{plural}{lags} {object}")).or_default() += 1;
    }
    all
}

/// Takes away what tells of the way there and has no meaning at the end.
fn forget(plural: &str, object: &mut Value) {
    match plural {
        // With Recreate there is an instant at which no pod is wanted and none is there, which
        // counts as complete. Where a crash follows and the next template is complete before
        // anybody looks, upstream leaves the condition that names the ReplicaSet of the last one
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
        // For which size of the Deployment an empty ReplicaSet was sized last: that is asked of
        // those with pods alone.
        "replicasets" if object["spec"]["replicas"] == 0 => {
            if let Some(annotations) = object["metadata"]["annotations"].as_object_mut() {
                annotations.retain(|name, _| !SIZES.contains(&name.as_str()));
            }
        }
        _ => {}
    }
}

/// Takes away what is drawn anew, and nothing of what users wrote. `live` are the UIDs of all
/// objects there are: which one an owner has is drawn, whether it is there is not.
fn mask(object: &mut Value, live: &HashSet<&str>) {
    let owners = object
        .pointer_mut("/metadata/ownerReferences")
        .and_then(Value::as_array_mut);
    for owner in owners.into_iter().flatten() {
        let is_live = owner["uid"].as_str().is_some_and(|uid| live.contains(uid));
        owner["uid"] = Value::from(if is_live { "of an object" } else { "of nobody" });
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

/// What is in one and not in the other, a few lines at most.
pub(crate) fn difference(expected: &Masked, found: &Masked) -> String {
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
    use crate::film::{Frame, Happened};

    fn alone(mut object: Value) -> Value {
        mask(&mut object, &HashSet::from(["live"]));
        object
    }

    #[test]
    fn what_is_drawn_anew_is_masked() {
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
    fn what_users_wrote_is_compared_whatever_it_is_called() {
        for written in [
            json!({"data": {"uid": "1", "generation": "2", "since": "2026-01-01T00:00:00Z"}}),
            json!({"spec": {"uid": "1", "podIP": "10.0.0.1", "until": "2026-01-01T00:00:00Z"}}),
            json!({"metadata": {"annotations": {"uid": "1", "generation": "2"}}}),
        ] {
            assert_eq!(alone(written.clone()), written);
        }
    }

    #[test]
    fn a_reference_to_an_owner_that_is_gone_differs_from_one_to_an_owner_that_is_there() {
        let of = |name: &str, uid: &str| {
            let owner = json!({"kind": "ConfigMap", "name": name, "uid": uid});
            alone(json!({"metadata": {"name": "b", "ownerReferences": [owner]}}))
        };
        assert_ne!(of("a", "live"), of("a", "gone"));
        assert_ne!(of("a", "live"), of("z", "live"));
        assert_eq!(of("a", "gone"), of("a", "gone, too"));
    }

    /// The same through a whole state: another object with the name of the owner is not the owner.
    #[test]
    fn an_owner_is_known_by_its_uid_alone() {
        let map = |name: &str, uid: &str, owners: Value| {
            let object = json!({"metadata": {"name": name, "uid": uid, "ownerReferences": owners}});
            Frame {
                revision: 1,
                at: Timestamp::UNIX_EPOCH,
                plural: "configmaps".into(),
                key: name.into(),
                happened: Happened::Created,
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
    fn only_what_has_no_meaning_any_more_is_forgotten() {
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
    fn a_difference_says_what_is_missing_and_what_is_too_much() {
        let expected = Masked::from([("a".to_owned(), 2), ("b".to_owned(), 1)]);
        let found = Masked::from([("a".to_owned(), 1), ("c".to_owned(), 1)]);
        assert_eq!(difference(&expected, &found), "-1 a\n-1 b\n+1 c");
        assert_eq!(difference(&expected, &expected), "");
    }
}
