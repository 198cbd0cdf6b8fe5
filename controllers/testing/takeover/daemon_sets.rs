//! Takeover of DaemonSets at rest, without a write or an Event.
//!
//! The DaemonSets and their revisions are those of `controller-revisions.json`, with data, hashes
//! and names computed by upstream's code. If one byte of the data were different, the controller
//! would create a revision and restart the pods.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::daemonset;
use crate::testing::world::World;

const REVISION: &str = "controller-revision-hash";

/// Long enough for the back-off of failed syncs and for resyncs of the queue.
const A_WHILE: Duration = Duration::from_secs(600);

#[derive(Deserialize)]
struct Recorded {
    cases: Vec<Case>,
}

/// A DaemonSet or StatefulSet, and the revision that upstream created for it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Case {
    id: String,
    controller: String,
    status_collision_count: Option<i32>,
    object: Value,
    controller_revision: Value,
}

/// The recorded DaemonSets, each in a namespace of its own.
fn cases() -> Vec<Case> {
    let text =
        include_str!("../../../crates/helpers/src/history/testdata/controller-revisions.json");
    let recorded: Recorded = serde_json::from_str(text).unwrap();
    let of_daemon_sets = recorded
        .cases
        .into_iter()
        .filter(|case| case.controller == "daemonset");
    let numbered = of_daemon_sets.enumerate().map(|(number, mut case)| {
        let uid = format!("{number:08x}-2222-4222-8222-222222222222");
        let metadata = &mut case.object["metadata"];
        metadata["namespace"] = json!(format!("state-{number}"));
        metadata["uid"] = json!(uid);
        metadata["generation"] = json!(2);
        case.controller_revision["ownerReferences"][0]["uid"] = json!(uid);
        case
    });
    numbered.collect()
}

/// The state of the pods of a DaemonSet on the nodes `a` and `b`.
#[derive(Debug, Clone, Copy)]
enum Pods {
    /// All pods have the current revision and are ready.
    Current,
    /// All pods are old, and only users may delete them.
    OldWithOnDelete,
    /// The rolling update waits for the new pod on one node.
    HalfRolled,
}

impl Case {
    /// Loads the DaemonSet, its revisions and its pods.
    fn load(&self, world: &World, pods: Pods) {
        let metadata = &self.object["metadata"];
        let revision = &self.controller_revision;
        let namespace = &metadata["namespace"];
        let load = |object: Value| world.cluster.load(object).unwrap();
        load(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}));
        let data = |text: &Value| serde_json::from_str::<Value>(text.as_str().unwrap()).unwrap();
        let stored = |name: &Value, hash: &Value, number: i32, data: Value| {
            let mut labels = revision["labels"].clone();
            labels[REVISION] = hash.clone();
            json!({
                "apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": number, "data": data,
                "metadata": {
                    "name": name, "namespace": namespace, "labels": labels, "annotations": revision["annotations"],
                    "ownerReferences": revision["ownerReferences"], "uid": format!("{}-{number}", metadata["uid"].as_str().unwrap()),
                },
            })
        };
        let old = json!("old");
        let mut other = data(&revision["data"]);
        other["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = json!(77);
        load(stored(
            &revision["name"],
            &revision["hash"],
            2,
            data(&revision["data"]),
        ));
        load(stored(&old, &old, 1, other));

        let mut ds = self.object.clone();
        let spec = &ds["spec"]["template"]["spec"];
        let is_placed = ["nodeSelector", "affinity", "nodeName"]
            .iter()
            .all(|field| spec[field].is_null());
        let current = &revision["hash"];
        // (node, revision, whether the pod is ready)
        let on_nodes = match pods {
            Pods::Current => [("a", current, true), ("b", current, true)],
            Pods::OldWithOnDelete => [("a", &old, true), ("b", &old, true)],
            Pods::HalfRolled => [("a", current, false), ("b", &old, true)],
        };
        let on_nodes = on_nodes.into_iter().filter(|_| is_placed);
        let count = |counts: &dyn Fn(&(&str, &Value, bool)) -> bool| {
            on_nodes.clone().filter(|pod| counts(pod)).count()
        };
        let all = count(&|_| true);
        let ready = count(&|pod| pod.2);
        ds["status"] = json!({
            "currentNumberScheduled": all, "desiredNumberScheduled": all, "numberMisscheduled": 0, "numberReady": ready,
            "numberAvailable": ready, "numberUnavailable": all - ready, "observedGeneration": 2,
            "updatedNumberScheduled": count(&|pod| pod.1 == current),
        });
        if let Some(count) = self.status_collision_count {
            ds["status"]["collisionCount"] = json!(count);
        }
        let limits = json!({"maxSurge": 0, "maxUnavailable": 1});
        ds["spec"]["updateStrategy"] = match pods {
            Pods::OldWithOnDelete => json!({"type": "OnDelete"}),
            _ => json!({"type": "RollingUpdate", "rollingUpdate": limits}),
        };
        for (node, hash, ready) in on_nodes {
            let mut labels = ds["spec"]["template"]["metadata"]["labels"].clone();
            labels[REVISION] = hash.clone();
            let status = if ready { "True" } else { "False" };
            let ready = json!({"type": "Ready", "status": status, "lastTransitionTime": "2026-11-21T02:18:17Z"});
            let mut spec = ds["spec"]["template"]["spec"].clone();
            spec["nodeName"] = json!(node);
            load(json!({
                "apiVersion": "v1", "kind": "Pod", "spec": spec,
                "metadata": {
                    "name": node, "namespace": namespace, "labels": labels, "ownerReferences": revision["ownerReferences"],
                    "uid": format!("{}-{node}", metadata["uid"].as_str().unwrap()),
                },
                "status": {"phase": "Running", "conditions": [ready]},
            }));
        }
        load(ds);
    }
}

#[tokio::test(start_paused = true)]
async fn daemon_sets_of_upstream_are_taken_over_without_a_write() {
    for pods in [Pods::Current, Pods::OldWithOnDelete, Pods::HalfRolled] {
        let mut world = World::bare().await;
        for name in ["a", "b"] {
            let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
            world.cluster.load(node).unwrap();
        }
        let cases = cases();
        assert_eq!(cases.len(), 8);
        cases.iter().for_each(|case| case.load(&world, pods));
        world.restart(&[daemonset::DESCRIPTOR]).await;
        tokio::time::sleep(A_WHILE).await;
        let ids: Vec<&str> = cases.iter().map(|case| &*case.id).collect();
        assert_eq!(world.all_writes(), [""; 0], "{pods:?} of {ids:?}");
    }
}
