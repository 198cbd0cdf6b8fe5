//! Tables about NoSchedule taints, edits of taints, labels and pods.

use serde_json::{Value, json};
use steersman_objects::{Object, Pod};

use super::super::taints::{Edit, LiveNode, NOT_READY, UNREACHABLE, no_schedule};
use super::super::{labels, pods};
use super::{at, condition, decode, node, taint};

const NOW: &str = "2017-01-01T12:00:00.7Z";

/// Upstream: `TestTaintsNodeByCondition`.
#[test]
fn taints_node_by_condition() {
    let is = |kind: &str, status: &str| condition(kind, status, "2015-01-01T12:00:00Z");
    let ready = || is("Ready", "True");
    let no_taints = json!([]);
    let owned = |key: &str| json!([taint(key, "NoSchedule")]);
    // (case, conditions, taints, unschedulable, added, removed)
    let cases: [(&str, Value, Value, bool, &[&str], &[&str]); 13] = [
        (
            "NetworkUnavailable is true",
            json!([ready(), is("NetworkUnavailable", "True")]),
            no_taints.clone(),
            false,
            &["network-unavailable"],
            &[],
        ),
        (
            "NetworkUnavailable is true, MemoryPressure is true",
            json!([
                ready(),
                is("NetworkUnavailable", "True"),
                is("MemoryPressure", "True")
            ]),
            no_taints.clone(),
            false,
            &["network-unavailable", "memory-pressure"],
            &[],
        ),
        (
            "Ready is false",
            json!([is("Ready", "False")]),
            no_taints.clone(),
            false,
            &["not-ready"],
            &[],
        ),
        (
            "Ready is unknown",
            json!([is("Ready", "Unknown")]),
            no_taints.clone(),
            false,
            &["unreachable"],
            &[],
        ),
        (
            "all is well",
            json!([ready(), is("DiskPressure", "False")]),
            no_taints.clone(),
            false,
            &[],
            &[],
        ),
        (
            "pressure is unknown",
            json!([
                ready(),
                is("DiskPressure", "Unknown"),
                is("PIDPressure", "True")
            ]),
            no_taints.clone(),
            false,
            &["pid-pressure"],
            &[],
        ),
        (
            "unschedulable",
            json!([is("Ready", "False")]),
            no_taints.clone(),
            true,
            &["not-ready", "unschedulable"],
            &[],
        ),
        (
            "schedulable again",
            json!([ready()]),
            owned("unschedulable"),
            false,
            &[],
            &["unschedulable"],
        ),
        (
            "ready again",
            json!([ready()]),
            owned("not-ready"),
            false,
            &[],
            &["not-ready"],
        ),
        (
            "without a condition",
            json!([]),
            owned("not-ready"),
            false,
            &[],
            &["not-ready"],
        ),
        (
            "present already",
            json!([is("Ready", "False")]),
            owned("not-ready"),
            false,
            &[],
            &[],
        ),
        (
            "swap",
            json!([is("Ready", "Unknown")]),
            owned("not-ready"),
            false,
            &["unreachable"],
            &["not-ready"],
        ),
        (
            "taints of others and other effects",
            json!([ready()]),
            json!([
                taint("not-ready", "NoExecute"),
                taint("out-of-service", "NoSchedule"),
                taint("disk-pressure", "PreferNoSchedule")
            ]),
            false,
            &[],
            &[],
        ),
    ];
    for (case, conditions, taints, unschedulable, added, removed) in cases {
        let mut node = node("node0", "", "2012-01-01T00:00:00Z");
        node["status"]["conditions"] = conditions;
        node["spec"] = json!({"taints": taints, "unschedulable": unschedulable});
        let (add, remove) = no_schedule(&decode(&node));
        let keys = |list: Vec<super::super::taints::TaintId>| -> Vec<&str> {
            assert!(
                list.iter().all(|taint| taint.effect == "NoSchedule"),
                "{case}"
            );
            let keys = list.into_iter().map(|taint| taint.key);
            keys.map(|key| key.trim_start_matches("node.kubernetes.io/"))
                .collect()
        };
        assert_eq!(
            (keys(add), keys(remove)),
            (added.to_vec(), removed.to_vec()),
            "{case}"
        );
    }
}

#[test]
fn an_edit_replaces_the_live_list_with_its_version_as_precondition() {
    let time = "2017-01-01T12:00:00Z";
    let added = json!({"key": NOT_READY.key, "effect": "NoExecute", "timeAdded": time});
    let foreign = json!({"key": "k", "value": "v", "effect": "NoExecute", "fromTheFuture": 1});
    let old = taint("not-ready", "NoExecute");
    let add = Edit::Add(&[NOT_READY]);
    let remove = Edit::Remove(&[UNREACHABLE, NOT_READY]);
    // (case, taints, edit, taints in the patch)
    let cases = [
        ("first taint", json!(null), add, Some(json!([added]))),
        (
            "taint of others",
            json!([foreign]),
            add,
            Some(json!([foreign, added])),
        ),
        ("present already", json!([old, foreign]), add, None),
        (
            "another effect",
            json!([taint("not-ready", "NoSchedule")]),
            add,
            Some(json!([taint("not-ready", "NoSchedule"), added])),
        ),
        ("last taint", json!([old]), remove, Some(json!(null))),
        (
            "one of two",
            json!([old, foreign]),
            remove,
            Some(json!([foreign])),
        ),
        ("absent", json!([foreign]), remove, None),
    ];
    for (case, taints, edit, expected) in cases {
        let json =
            json!({"metadata": {"name": "n", "resourceVersion": "42"}, "spec": {"taints": taints}});
        let live: LiveNode = serde_json::from_value(json).unwrap();
        let expected = expected.map(
            |taints| json!({"metadata": {"resourceVersion": "42"}, "spec": {"taints": taints}}),
        );
        assert_eq!(live.patch(edit, at(NOW)), expected, "{case}");
    }
}

/// Upstream: `TestReconcileNodeLabels`.
#[test]
fn reconcile_node_labels() {
    let os = "beta.kubernetes.io/os";
    let arch = "beta.kubernetes.io/arch";
    // (case, labels, missing labels)
    let cases: [(&str, Value, &[(&str, &str)]); 5] = [
        ("No-op if node has no labels", json!(null), &[]),
        (
            "No-op if no target labels present",
            json!({"topology.kubernetes.io/region": "region1"}),
            &[],
        ),
        (
            "Create OS/arch beta labels when they don't exist",
            json!({"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}),
            &[(os, "linux"), (arch, "amd64")],
        ),
        (
            "Reconcile OS/arch beta labels to match labels",
            json!({os: "windows", arch: "arm", "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}),
            &[(os, "linux"), (arch, "amd64")],
        ),
        (
            "No-op if the beta labels match",
            json!({os: "linux", arch: "amd64", "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}),
            &[],
        ),
    ];
    for (case, set, expected) in cases {
        let mut node = node("node0", "", "2012-01-01T00:00:00Z");
        node["metadata"]["labels"] = set;
        let missing = labels::missing(&decode(&node).meta.labels);
        let found: Vec<(&str, &str)> = missing
            .iter()
            .map(|(key, value)| (*key, &**value))
            .collect();
        assert_eq!(found, expected, "{case}");
    }
}

/// Upstream: `TestPodStatusChange`.
#[test]
fn only_the_ready_condition_of_a_pod_changes() {
    let pod = |conditions: Value| {
        let metadata =
            json!({"name": "p", "namespace": "default", "uid": "u", "resourceVersion": "7"});
        let json =
            json!({"metadata": metadata, "status": {"phase": "Running", "conditions": conditions}});
        Pod::decode(json.to_string().as_bytes()).unwrap()
    };
    let is = |status: &str| json!([{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": status, "reason": "kept"}]);
    let patch = json!({
        "metadata": {"uid": "u", "resourceVersion": "7"},
        "status": {
            "$setElementOrder/conditions": [{"type": "PodScheduled"}, {"type": "Ready"}],
            "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": "2017-01-01T12:00:00Z"}],
        },
    });
    // (conditions, patch)
    let cases = [
        (is("True"), Some(patch.clone())),
        (is("Unknown"), Some(patch)),
        (is("False"), None),
        (json!([]), None),
    ];
    for (conditions, expected) in cases {
        assert_eq!(
            pods::not_ready(&pod(conditions.clone()), at(NOW)),
            expected,
            "{conditions}"
        );
    }
}
