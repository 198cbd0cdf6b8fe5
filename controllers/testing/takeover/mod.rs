//! Takeover of a cluster at rest from upstream's manager, without a write or an Event.
//!
//! `objects.json` has the Deployments and ReplicaSets that kube-controller-manager 1.36.2 left in
//! each state. The tests add pods that match them, and variants for further states that upstream
//! does not change.

mod accounts;
mod autoscalers;
mod budgets;
mod daemon_sets;
mod mid_flight;
mod nodes;
mod policies;
mod protection;
mod quotas;
mod trouble;
mod volumes;

use std::time::Duration;

use jiff::Timestamp;
use prometheus::Registry;
use serde::Deserialize;
use serde_json::{Value, json};
use steersman_runtime::controller::{ControllerContext, Descriptor};
use steersman_runtime::informer::InformerFactory;

use super::world::{World, condition_of};
use crate::{deployment, podgc, replicaset, replicationcontroller};

const CONTROLLERS: [Descriptor; 4] = [
    deployment::DESCRIPTOR,
    replicaset::DESCRIPTOR,
    replicationcontroller::DESCRIPTOR,
    podgc::DESCRIPTOR,
];

/// The longest period between two resyncs.
const RESYNC: Duration = Duration::from_secs(24 * 3600);

/// Time for two resyncs and all other timers.
const TWO_DAYS: Duration = Duration::from_secs(50 * 3600);

/// The objects of a Deployment in a recorded state.
#[derive(Clone, Deserialize)]
struct RecordedState {
    /// The name of the scenario and of its last step.
    state: String,
    /// The Deployment, and then its ReplicaSets.
    objects: Vec<Value>,
}

fn recorded() -> Vec<RecordedState> {
    serde_json::from_str(include_str!("objects.json")).unwrap()
}

impl RecordedState {
    /// The recorded state with this prefix of its name.
    fn of(state: &str) -> Self {
        recorded()
            .into_iter()
            .find(|rest| rest.state.starts_with(state))
            .unwrap()
    }

    fn deployment(&self) -> &Value {
        &self.objects[0]
    }

    /// The `Progressing` condition.
    fn progressing(&self) -> Option<&Value> {
        self.deployment()["status"]["conditions"]
            .as_array()?
            .iter()
            .find(|c| c["type"] == "Progressing")
    }

    /// True if a quota refuses pods, so that the controller retries creations.
    fn is_refused(&self) -> bool {
        condition_of(self.deployment(), "ReplicaFailure").is_some()
    }

    /// The time at which the progress deadline passes; `None` if no deadline is pending.
    fn deadline(&self) -> Option<Timestamp> {
        let condition = self.progressing()?;
        if !matches!(
            condition["reason"].as_str()?,
            "ReplicaSetUpdated" | "NewReplicaSetCreated" | "DeploymentResumed"
        ) {
            return None;
        }
        let seconds = self.deployment()["spec"]["progressDeadlineSeconds"].as_u64()?;
        let since: Timestamp = condition["lastUpdateTime"].as_str()?.parse().unwrap();
        Some(since + Duration::from_secs(seconds))
    }

    /// The same with its own namespace and UIDs, so that one cluster can have many states.
    fn numbered(mut self, number: usize) -> Self {
        let namespace = self.deployment()["metadata"]["namespace"]
            .as_str()
            .unwrap()
            .to_owned();
        let mut text = Value::Array(self.objects.clone())
            .to_string()
            .replace(&namespace, &format!("state-{number}"));
        for object in &self.objects {
            let uid = object["metadata"]["uid"].as_str().unwrap();
            text = text.replace(uid, &format!("{number:08x}{}", &uid[8..]));
        }
        self.objects = serde_json::from_str(&text).unwrap();
        self
    }

    /// Sets the field at `pointer` of object number `of` (0 is the Deployment). Null removes it.
    fn with(mut self, of: usize, pointer: &str, value: Value) -> Self {
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        let parent = self.objects[of]
            .pointer_mut(parent)
            .unwrap_or_else(|| panic!("{pointer} in {}", self.state));
        match (parent, value) {
            (Value::Object(parent), Value::Null) => {
                drop(parent.remove(field).expect("the recorded object has it"))
            }
            (parent, value) => parent[field] = value,
        }
        self
    }

    fn named(mut self, state: &str) -> Self {
        self.state = state.to_owned();
        self
    }

    /// Loads the state, with pods according to the statuses of the ReplicaSets.
    fn load(&self, world: &World) {
        let namespace = &self.deployment()["metadata"]["namespace"];
        world
            .cluster
            .load(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}))
            .unwrap();
        for object in &self.objects {
            world.cluster.load(object.clone()).unwrap();
            if object["kind"] == "ReplicaSet" {
                let count = |field: &str| object["status"][field].as_u64().unwrap_or(0);
                for n in 0..count("replicas") {
                    world
                        .cluster
                        .load(pod_of(object, n, n < count("readyReplicas")))
                        .unwrap();
                }
            }
        }
    }
}

/// Pod number `n` of a ReplicaSet, on a node.
fn pod_of(rs: &Value, n: u64, ready: bool) -> Value {
    let metadata = &rs["metadata"];
    let template = &rs["spec"]["template"];
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("{}-{n}", metadata["name"].as_str().unwrap()),
            "namespace": metadata["namespace"],
            "uid": format!("{}{n:04x}", &metadata["uid"].as_str().unwrap()[..32]),
            "generation": 1,
            "creationTimestamp": metadata["creationTimestamp"],
            "labels": template["metadata"]["labels"],
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": metadata["name"], "uid": metadata["uid"],
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": template["spec"],
        "status": {"phase": "Pending"},
    });
    pod["spec"]["nodeName"] = json!("node");
    if ready {
        let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": metadata["creationTimestamp"]});
        pod["status"] = json!({"phase": "Running", "conditions": [ready], "observedGeneration": 1});
    }
    pod
}

/// A cluster at this time, with the node of all pods.
async fn world_at(begin: Timestamp) -> World {
    let world = World::bare_at(begin).await;
    let ready = json!([{"type": "Ready", "status": "True"}]);
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node"}, "status": {"conditions": ready}});
    world.cluster.load(node).unwrap();
    world
}

/// The context with resyncs enabled.
fn resynced(mut context: ControllerContext) -> ControllerContext {
    let client = (context.clients)("shared-informers");
    context.informers = InformerFactory::new(client, RESYNC, &Registry::new()).unwrap();
    context
}

impl World {
    /// Starts the controllers with resyncs enabled.
    async fn take_over(&mut self) {
        self.restart_with(&CONTROLLERS, resynced).await;
    }

    /// Every write so far, including Events and failed writes.
    fn all_writes(&self) -> Vec<String> {
        let requests = self.cluster.requests();
        let writes = requests
            .iter()
            .filter(|r| !matches!(&*r.verb, "get" | "list" | "watch"));
        writes
            .map(|r| format!("{} {} {}", r.verb, r.path, r.status))
            .collect()
    }

    /// The number of the manager's writes so far. The request log may lack the oldest ones.
    fn count_writes(&self) -> u64 {
        let counts = self.cluster.request_counts("kube-controller-manager");
        counts
            .iter()
            .filter(|((verb, _), _)| !matches!(&**verb, "get" | "list" | "watch"))
            .map(|(_, count)| count)
            .sum()
    }

    /// All objects that the manager must not change.
    fn everything(&self) -> Vec<Value> {
        let plurals = [
            "deployments",
            "replicasets",
            "replicationcontrollers",
            "pods",
            "events",
            "nodes",
        ];
        plurals
            .into_iter()
            .flat_map(|plural| self.cluster.objects(plural))
            .collect()
    }
}

/// Further states that upstream does not change.
fn variants() -> Vec<RecordedState> {
    let complete = || RecordedState::of("defaults: all pods of the new ReplicaSet marked ready");
    // The objects of `complete` are the Deployment, an empty old ReplicaSet, and the new one with
    // two pods.
    let old = 1;
    let new = 2;
    let template = |field: &str| format!("/spec/template/spec/{field}");
    let resources = |cpu: &str, memory: &str| json!({"limits": {"cpu": cpu, "memory": memory}});
    let mut with_null = complete().deployment()["spec"]["template"]["metadata"].clone();
    with_null["creationTimestamp"] = Value::Null;
    let endless = complete().deployment()["status"]["conditions"]
        .as_array()
        .unwrap()
        .clone();
    let endless: Vec<Value> = endless
        .into_iter()
        .filter(|c| c["type"] != "Progressing")
        .collect();
    let mut conditions = complete().deployment()["status"]["conditions"]
        .as_array()
        .unwrap()
        .clone();
    conditions.reverse();
    conditions[0]["message"] = json!("ReplicaSet \"another\" has successfully progressed.");
    conditions.insert(
        1,
        json!({"type": "Ours", "status": "True", "unknownField": {"a": [1]}}),
    );
    let mut late = RecordedState::of("rolling-surge-unavailable: new image")
        .progressing()
        .unwrap()
        .clone();
    late["status"] = json!("False");
    late["reason"] = json!("ProgressDeadlineExceeded");
    let available =
        RecordedState::of("rolling-surge-unavailable: new image").deployment()["status"]["conditions"][0]
            .clone();
    vec![
        complete()
            .with(new, "/metadata/ownerReferences/0/apiVersion", json!("extensions/v1beta1"))
            .with(new, "/metadata/ownerReferences/0/blockOwnerDeletion", Value::Null)
            .named("an owner reference from an old cluster"),
        complete().with(0, "/spec/strategy", json!({"type": "Recreate"})).named("Recreate, with the earlier surge in the annotations"),
        complete()
            .with(0, "/spec/progressDeadlineSeconds", json!(i32::MAX))
            .with(0, "/status/conditions", json!(endless))
            .named("no deadline"),
        complete().with(0, "/status/collisionCount", json!(0)).named("a collision count of 0"),
        complete().with(0, "/status/collisionCount", json!(3)).named("a collision count of 3"),
        complete().with(0, "/status/conditions", json!(conditions)).named("reordered conditions, with an old message and a foreign one"),
        complete()
            .with(new, "/metadata/annotations/deployment.kubernetes.io~1revision-history", json!("1,3"))
            .named("a template that became current again"),
        complete()
            .with(new, "/metadata/annotations/removed-from-the-deployment", json!("kept"))
            .with(old, "/metadata/annotations/deployment.kubernetes.io~1desired-replicas", json!("77"))
            .with(new, "/metadata/annotations/deployment.kubernetes.io~1max-replicas", json!("77"))
            .named("outdated annotations"),
        complete()
            .with(new, "/metadata/labels/pod-template-hash", Value::Null)
            .with(new, "/spec/selector/matchLabels/pod-template-hash", Value::Null)
            .with(new, "/spec/template/metadata/labels/pod-template-hash", Value::Null)
            .named("an adopted ReplicaSet without a hash"),
        complete()
            .with(0, &template("containers/0/resources"), resources("1000m", "1Gi"))
            .with(new, &template("containers/0/resources"), resources("1", "1024Mi"))
            .with(0, &template("containers/0/args"), json!([]))
            .with(0, "/spec/template/metadata", with_null)
            .named("one template in two spellings"),
        complete()
            .with(0, &template("fromTheFuture"), json!({"a": [1, {"b": null}]}))
            .with(new, &template("fromTheFuture"), json!({"a": [1, {"b": null}]}))
            .named("a template with a field of a later version"),
        complete()
            .with(0, "/spec/paused", json!(true))
            .with(0, "/spec/progressDeadlineSeconds", json!(i32::MAX))
            .with(0, "/status/conditions", json!(endless))
            .named("paused without a deadline"),
        complete()
            .with(0, "/metadata/deletionTimestamp", json!("2026-11-21T02:20:00Z"))
            .with(0, "/metadata/finalizers", json!(["example.com/wait"]))
            .named("terminating"),
        complete()
            .with(0, "/spec/replicas", json!(0))
            .with(0, "/status", json!({
                "observedGeneration": 3, "terminatingReplicas": 0, "conditions": complete().deployment()["status"]["conditions"],
            }))
            .with(new, "/spec/replicas", json!(0))
            .with(new, "/status", json!({"replicas": 0, "terminatingReplicas": 0, "observedGeneration": 2}))
            .named("scaled to zero"),
        RecordedState::of("rolling-surge-unavailable: new image").with(0, "/status/conditions", json!([available, late])).named("timed out"),
    ]
}

/// Loads a ReplicaSet without a Deployment, with active, finished and terminating pods.
fn load_replica_set_without_owner(world: &World) {
    let rest =
        RecordedState::of("defaults: all pods of the new ReplicaSet marked ready").numbered(0xfff);
    let mut rs = rest.objects[2].clone();
    rs["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("ownerReferences");
    rs["spec"]["minReadySeconds"] = json!(30);
    // An edited template does not affect existing pods.
    rs["spec"]["template"]["spec"]["containers"][0]["image"] = json!("edited");
    rs["status"]["terminatingReplicas"] = json!(1);
    let conditions =
        json!([{"type": "Ours", "status": "True", "lastTransitionTime": "2026-11-21T02:18:17Z"}]);
    rs["status"]["conditions"] = conditions;
    rs["spec"]["selector"]["matchLabels"] = json!({"app": "loose"});
    rs["metadata"]["labels"] = json!({"app": "loose"});
    rs["spec"]["template"]["metadata"]["labels"] = json!({"app": "loose"});
    let loose = RecordedState {
        state: "loose".to_owned(),
        objects: vec![rs.clone()],
    };
    loose.load(world);
    for (n, phase) in [(10, "Failed"), (11, "Succeeded"), (12, "Running")] {
        let mut pod = pod_of(&rs, n, true);
        pod["status"]["phase"] = json!(phase);
        if phase == "Running" {
            pod["metadata"]["deletionTimestamp"] = json!("2026-11-21T02:20:00Z");
            pod["metadata"]["finalizers"] = json!(["example.com/wait"]);
        }
        world.cluster.load(pod).unwrap();
    }
}

/// Loads ReplicationControllers as upstream leaves them. Their status does not count terminating
/// pods.
fn load_replication_controllers(world: &World) {
    let rest =
        RecordedState::of("defaults: all pods of the new ReplicaSet marked ready").numbered(0xffe);
    let set = &rest.objects[2];
    let namespace = &rest.deployment()["metadata"]["namespace"];
    world
        .cluster
        .load(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}))
        .unwrap();
    for (name, min_ready, replicas) in [("plain", 0, 2), ("waiting", 30, 2), ("zero", 0, 0)] {
        let mut rc = json!({
            "apiVersion": "v1", "kind": "ReplicationController",
            "metadata": {
                "name": name, "namespace": namespace, "uid": format!("{name:0>8}{}", &set["metadata"]["uid"].as_str().unwrap()[8..]),
                "generation": 1, "creationTimestamp": set["metadata"]["creationTimestamp"], "labels": {"app": name},
            },
            "spec": {"replicas": replicas, "minReadySeconds": min_ready, "selector": {"app": name}, "template": set["spec"]["template"]},
            "status": {"replicas": replicas, "observedGeneration": 1},
        });
        rc["spec"]["template"]["metadata"]["labels"] = json!({"app": name});
        if replicas > 0 {
            let counters = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
            counters
                .into_iter()
                .for_each(|counter| rc["status"][counter] = json!(replicas));
        }
        for n in 0..=replicas {
            let mut pod = pod_of(&rc, n, true);
            let owner = &mut pod["metadata"]["ownerReferences"][0];
            owner["apiVersion"] = json!("v1");
            owner["kind"] = json!("ReplicationController");
            if n == replicas {
                pod["metadata"]["deletionTimestamp"] = json!("2026-11-21T02:20:00Z");
                pod["metadata"]["finalizers"] = json!(["example.com/wait"]);
            }
            world.cluster.load(pod).unwrap();
        }
        world.cluster.load(rc).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_cluster_at_rest_is_taken_over_without_a_write() {
    let mut world = world_at("2026-11-21T03:00:00Z".parse().unwrap()).await;
    let at_rest = recorded()
        .into_iter()
        .filter(|rest| rest.deadline().is_none())
        .chain(variants());
    for (number, rest) in at_rest.enumerate() {
        rest.numbered(number).load(&world);
    }
    load_replica_set_without_owner(&world);
    load_replication_controllers(&world);
    let before = world.everything();
    assert!(before.len() > 100, "{}", before.len());

    world.take_over().await;
    tokio::time::sleep(TWO_DAYS).await;
    assert_eq!(world.all_writes(), Vec::<String>::new());
    assert_eq!(world.count_writes(), 0);
    assert_eq!(world.everything(), before);

    // The controllers run: a change leads to writes.
    world
        .cluster
        .patch(
            "/apis/apps/v1/namespaces/state-0/deployments/defaults",
            json!({"spec": {"replicas": 3}}),
        )
        .await
        .unwrap();
    world.at_rest().await;
    assert!(world.count_writes() > 0);
}

#[tokio::test(start_paused = true)]
async fn after_a_takeover_a_stalled_rollout_still_misses_its_deadline() {
    let waits = |rest: &RecordedState| rest.deadline().is_some() && !rest.is_refused();
    let stalled: Vec<RecordedState> = recorded().into_iter().filter(waits).collect();
    assert!(stalled.len() >= 4);
    for rest in stalled {
        let deadline = rest.deadline().unwrap();
        let mut world = world_at(deadline - Duration::from_secs(60)).await;
        rest.load(&world);
        let before = world.everything();
        world.take_over().await;
        tokio::time::sleep(Duration::from_millis(60_900)).await;
        assert_eq!(world.all_writes(), Vec::<String>::new(), "{}", rest.state);
        assert_eq!(world.everything(), before, "{}", rest.state);

        tokio::time::sleep(Duration::from_secs(1)).await;
        let writes = world.all_writes();
        assert!(
            matches!(&writes[..], [one] if one.starts_with("update ") && one.ends_with("/status 200")),
            "{writes:?}"
        );
        let d = &world.cluster.objects("deployments")[0];
        assert_eq!(
            condition_of(d, "Progressing"),
            Some(("False", "ProgressDeadlineExceeded")),
            "{}",
            rest.state
        );
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(
            world.count_writes(),
            1,
            "{}: {:?}",
            rest.state,
            world.all_writes()
        );
    }
}

/// The new manager continues to retry creations. The retries and their Events do not change the
/// objects.
#[tokio::test(start_paused = true)]
async fn a_rollout_that_a_quota_refuses_is_taken_over_unchanged() {
    let refused = recorded()
        .into_iter()
        .find(RecordedState::is_refused)
        .unwrap();
    let mut world = world_at("2026-11-21T02:20:00Z".parse().unwrap()).await;
    refused.load(&world);
    let namespace = &refused.deployment()["metadata"]["namespace"];
    let metadata = json!({"name": "q", "namespace": namespace});
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": {"pods": "1"}}});
    world.cluster.load(quota).unwrap();
    let objects = |world: &World| {
        let mut objects = world.everything();
        objects.retain(|object| object["kind"] != "Event");
        objects
    };
    let before = objects(&world);
    world.take_over().await;
    // Less than the progress deadline.
    tokio::time::sleep(Duration::from_secs(500)).await;
    let writes = world.all_writes();
    let (tries, others): (Vec<String>, Vec<String>) = writes
        .into_iter()
        .partition(|write| write.ends_with("/pods 403"));
    assert!(tries.len() > 3, "{tries:?}");
    assert!(
        others.iter().all(|write| write.contains("/events")),
        "{others:?}"
    );
    assert_eq!(objects(&world), before);
}
