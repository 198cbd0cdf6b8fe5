//! Takeover of PodDisruptionBudgets: at rest without a write, and in the middle of an eviction.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::disruption;
use crate::testing::NAMESPACE;
use crate::testing::world::World;

/// The time of the takeover.
const BEGIN: &str = "2026-11-21T03:00:00Z";

/// The time of the last change before that: a minute earlier.
const CHANGED: &str = "2026-11-21T02:59:00Z";

/// Longer than all timers of the controller.
const AN_HOUR: Duration = Duration::from_secs(3600);

/// An object in the namespace `default`.
fn object(api_version: &str, kind: &str, name: &str, uid: u32) -> Value {
    let uid = format!("{uid:08x}-56c0-4c6e-a4bd-6d5d8f7d8a01");
    json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": uid, "generation": 1, "creationTimestamp": CHANGED},
    })
}

/// A budget with the numbers of the status: allowed, healthy, desired, expected.
pub(super) fn budget(app: &str, uid: u32, limits: &Value, numbers: [i64; 4]) -> Value {
    let mut budget = object("policy/v1", "PodDisruptionBudget", app, uid);
    budget["spec"] = limits.clone();
    budget["spec"]["selector"] = json!({"matchLabels": {"app": app}});
    let [allowed, healthy, desired, expected] = numbers;
    let (status, reason) = match allowed {
        0 => ("False", "InsufficientPods"),
        _ => ("True", "SufficientPods"),
    };
    let condition = json!({"type": "DisruptionAllowed", "status": status, "reason": reason, "message": "",
        "observedGeneration": 1, "lastTransitionTime": CHANGED});
    budget["status"] = json!({"observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": healthy,
        "desiredHealthy": desired, "expectedPods": expected, "conditions": [condition]});
    budget
}

/// Ready pods, named after their budget and a number.
pub(super) fn pods(app: &str, count: u32, owner: Option<&Value>) -> Vec<Value> {
    let pod = |number: u32| {
        let seed = u32::from(app.as_bytes()[0]) * 1000 + number;
        let mut pod = object("v1", "Pod", &format!("{app}-{number}"), seed);
        pod["metadata"]["labels"] = json!({"app": app});
        let references: Vec<Value> = owner
            .iter()
            .map(|owner| {
                json!({"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
                    "uid": owner["metadata"]["uid"], "controller": true})
            })
            .collect();
        pod["metadata"]["ownerReferences"] = json!(references);
        pod["spec"] = json!({"nodeName": "node", "containers": [{"name": "main", "image": "web"}]});
        let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": CHANGED});
        pod["status"] = json!({"phase": "Running", "conditions": [ready]});
        pod
    };
    (0..count).map(pod).collect()
}

/// A cluster with these objects, which the disruption controller then takes over.
async fn taken_over(objects: impl IntoIterator<Item = Value>) -> World {
    let begin: Timestamp = BEGIN.parse().unwrap();
    let mut world = World::bare_at(begin).await;
    for object in objects {
        world.cluster.load(object).unwrap();
    }
    world.restart(&[disruption::DESCRIPTOR]).await;
    world
}

#[tokio::test(start_paused = true)]
async fn budgets_at_rest_are_taken_over_without_a_write() {
    let mut set = object("apps/v1", "ReplicaSet", "set", 1);
    set["spec"] =
        json!({"replicas": 4, "selector": {"matchLabels": {"app": "set"}}, "template": {}});
    let mut foreign = budget("int", 2, &json!({"minAvailable": 2}), [1, 3, 2, 3]);
    let condition = json!({"type": "Ours", "status": "True", "reason": "R", "message": "m", "lastTransitionTime": CHANGED});
    foreign["status"]["conditions"]
        .as_array_mut()
        .unwrap()
        .insert(0, condition);
    let mut ended = pods("ended", 2, None);
    ended[0]["metadata"]["deletionTimestamp"] = json!(CHANGED);
    ended[0]["metadata"]["deletionGracePeriodSeconds"] = json!(30);
    ended[0]["metadata"]["finalizers"] = json!(["example.com/wait"]);
    ended[1]["status"]["phase"] = json!("Failed");
    // A terminating pod and a pod of a kubelet keep this condition.
    for (pod, reason) in ended
        .iter_mut()
        .zip(["EvictionByEvictionAPI", "TerminationByKubelet"])
    {
        let target = json!({"type": "DisruptionTarget", "status": "True", "reason": reason, "lastTransitionTime": CHANGED});
        pod["status"]["conditions"]
            .as_array_mut()
            .unwrap()
            .push(target);
    }
    let at_rest = [
        pods("set", 4, Some(&set)),
        pods("int", 3, None),
        ended,
        vec![
            budget("set", 3, &json!({"maxUnavailable": "30%"}), [2, 4, 2, 4]),
            foreign,
            budget("ended", 4, &json!({"minAvailable": 1}), [0, 1, 1, 2]),
            set,
        ],
    ];
    let world = taken_over(at_rest.into_iter().flatten()).await;
    let state = |world: &World| {
        [
            world.everything(),
            world.cluster.objects("poddisruptionbudgets"),
        ]
    };
    let before = state(&world);
    tokio::time::sleep(AN_HOUR).await;
    assert_eq!(world.all_writes(), Vec::<String>::new());
    assert_eq!(state(&world), before);
}

#[tokio::test(start_paused = true)]
async fn an_eviction_that_another_manager_saw_is_reviewed_in_time() {
    let mut guard = budget("web", 1, &json!({"minAvailable": 1}), [0, 1, 1, 2]);
    guard["status"]["disruptedPods"] = json!({"web-0": CHANGED});
    let mut all = pods("web", 2, None);
    all.push(guard);
    let world = taken_over(all).await;
    tokio::time::sleep(Duration::from_secs(59)).await;
    assert_eq!(world.all_writes(), Vec::<String>::new());
    tokio::time::sleep(Duration::from_secs(3)).await;
    let writes = world.all_writes();
    let (events, others): (Vec<String>, Vec<String>) = writes
        .into_iter()
        .partition(|write| write.contains("/events"));
    let path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/web/status";
    assert_eq!(others, [format!("update {path} 200")]);
    assert_eq!(events.len(), 1, "{events:?}");
    let guard = world.find("poddisruptionbudgets", "web").unwrap();
    assert_eq!(guard["status"]["disruptionsAllowed"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_condition_that_another_manager_saw_is_reset_in_time() {
    let mut pod = pods("web", 1, None).remove(0);
    let target = json!({"type": "DisruptionTarget", "status": "True", "reason": "R", "lastTransitionTime": CHANGED});
    pod["status"]["conditions"]
        .as_array_mut()
        .unwrap()
        .push(target);
    let world = taken_over([pod]).await;
    tokio::time::sleep(Duration::from_secs(59)).await;
    assert_eq!(world.all_writes(), Vec::<String>::new());
    tokio::time::sleep(AN_HOUR).await;
    let path = "/api/v1/namespaces/default/pods/web-0/status";
    assert_eq!(world.all_writes(), [format!("update {path} 200")]);
}
