//! Final states without what differs from run to run.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use crate::film::State;

/// Fields that the server, the scheduler or a node draws anew each time.
const VOLATILE: &[&str] = &[
    "uid",
    "resourceVersion",
    "generation",
    "observedGeneration",
    "managedFields",
    "podIP",
    "podIPs",
    "hostIP",
    "hostIPs",
    "nodeName",
    "containerID",
];

/// Annotations of ReplicaSets that remember a size of their Deployment.
const SIZES: &[&str] = &["deployment.kubernetes.io/desired-replicas", "deployment.kubernetes.io/max-replicas"];

/// Resources whose objects nobody in the story changes but a simulation.
const ASIDE: &[&str] = &["nodes"];

/// How often each masked object occurs.
pub(crate) type Masked = BTreeMap<String, usize>;

/// Everything in a state, masked.
pub(crate) fn masked(state: &State) -> Masked {
    let mut all = Masked::new();
    for (plural, object) in state.iter().filter(|(plural, _)| !ASIDE.contains(plural)) {
        let mut object = object.clone();
        let generation = &object["metadata"]["generation"];
        let lags = object["status"].get("observedGeneration").is_some_and(|observed| observed != generation);
        if let Some(prefix) = object["metadata"]["generateName"].as_str() {
            object["metadata"]["name"] = Value::from(format!("{prefix}*"));
        }
        forget(plural, &mut object);
        mask(&mut object);
        let lags = if lags { ", not observed" } else { "" };
        *all.entry(format!("{plural}{lags} {object}")).or_default() += 1;
    }
    all
}

/// Takes away what tells of the way there and has no meaning at the end.
fn forget(plural: &str, object: &mut Value) {
    match plural {
        // With Recreate there is an instant at which no pod is wanted and none is there, which counts as complete. Where a crash follows
        // and the next template is complete before anybody looks, upstream leaves the condition that names the ReplicaSet of the last
        // one (`syncRolloutStatus`). A rolling update has no such instant.
        "deployments" if object["spec"]["strategy"]["type"] == "Recreate" => {
            let conditions = object["status"]["conditions"].as_array_mut();
            for condition in conditions.into_iter().flatten().filter(|condition| condition["type"] == "Progressing") {
                condition["message"] = Value::from("some ReplicaSet has successfully progressed.");
            }
        }
        // For which size of the Deployment an empty ReplicaSet was sized last: that is asked of those with pods alone.
        "replicasets" if object["spec"]["replicas"] == 0 => {
            if let Some(annotations) = object["metadata"]["annotations"].as_object_mut() {
                annotations.retain(|name, _| !SIZES.contains(&name.as_str()));
            }
        }
        _ => {}
    }
}

fn mask(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !VOLATILE.contains(&name.as_str()));
            fields.values_mut().for_each(mask);
        }
        Value::Array(items) => {
            items.iter_mut().for_each(mask);
            if items.iter().all(|item| item["type"].is_string()) {
                items.sort_by(|a, b| a["type"].as_str().cmp(&b["type"].as_str()));
            }
        }
        Value::String(text) if text.len() >= 20 && text.parse::<Timestamp>().is_ok() => "some time".clone_into(text),
        _ => {}
    }
}

/// What is in one and not in the other, a few lines at most.
pub(crate) fn difference(expected: &Masked, found: &Masked) -> String {
    let mut lines = Vec::new();
    for (text, (here, there), sign) in expected
        .iter()
        .map(|(text, n)| (text, (*n, found.get(text).copied().unwrap_or(0)), '-'))
        .chain(found.iter().map(|(text, n)| (text, (*n, expected.get(text).copied().unwrap_or(0)), '+')))
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
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_drawn_anew_is_masked_and_the_rest_is_not() {
        let mut one = json!({
            "metadata": {"name": "a", "uid": "1", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "status": {"conditions": [{"type": "B", "lastTransitionTime": "2026-01-01T00:00:00.5Z"}, {"type": "A"}]},
        });
        let mut other = json!({
            "metadata": {"name": "a", "uid": "2", "creationTimestamp": "2026-01-02T00:00:00Z"},
            "status": {"conditions": [{"type": "A"}, {"type": "B", "lastTransitionTime": "2026-01-03T00:00:00.5Z"}]},
        });
        mask(&mut one);
        mask(&mut other);
        assert_eq!(one, other);
        assert_eq!(one["metadata"], json!({"name": "a", "creationTimestamp": "some time"}));
    }

    #[test]
    fn only_what_has_no_meaning_any_more_is_forgotten() {
        let message = |strategy: &str| {
            let progressing =
                json!({"type": "Progressing", "reason": "NewReplicaSetAvailable", "message": "ReplicaSet \"a\" ..."});
            let mut web = json!({"spec": {"strategy": {"type": strategy}}, "status": {"conditions": [progressing]}});
            forget("deployments", &mut web);
            web["status"]["conditions"][0]["message"].as_str().unwrap().to_owned()
        };
        assert_eq!(message("RollingUpdate"), "ReplicaSet \"a\" ...");
        assert_ne!(message("Recreate"), "ReplicaSet \"a\" ...");
        for (replicas, left) in [(0, 1), (3, 2)] {
            let annotations = json!({SIZES[0]: "4", "deployment.kubernetes.io/revision": "1"});
            let mut set = json!({"metadata": {"annotations": annotations}, "spec": {"replicas": replicas}});
            forget("replicasets", &mut set);
            assert_eq!(set["metadata"]["annotations"].as_object().unwrap().len(), left, "{replicas}");
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
