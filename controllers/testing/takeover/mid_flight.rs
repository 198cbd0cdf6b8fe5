//! A change of the manager in the middle of its work.
//!
//! The previous manager ends after any one of its writes, and a new manager continues. The final
//! objects, and the numbers of created and deleted pods, must be the same as without the change.
//!
//! Thus the new manager meets every intermediate state, for example:
//!
//! * a new ReplicaSet that the status does not mention yet,
//! * only some of the ReplicaSets resized, or only some of the pods created,
//! * a counted hash collision without the new ReplicaSet,
//! * a rollback or a pause with only some of its writes,
//! * a new revision of a DaemonSet without new pods, or with pods on some of its nodes,
//! * terminating pods.

use serde_json::{Value, json};
use steersman_devcluster::nodes::BEHAVIOUR;
use steersman_devcluster::requests::RequestRecord;
use steersman_objects::template;
use steersman_runtime::controller::Descriptor;

use crate::testing::world::World;
use crate::{daemonset, deployment, replicaset, replicationcontroller};

const CONTROLLERS: [Descriptor; 4] = [
    daemonset::DESCRIPTOR,
    deployment::DESCRIPTOR,
    replicaset::DESCRIPTOR,
    replicationcontroller::DESCRIPTOR,
];

/// An action of a user.
enum Action {
    Create(Value),
    /// Patches the object `web` of this plural.
    Edit(&'static str, Value),
}

/// Actions, and a last one during which the manager changes.
struct Scenario {
    name: &'static str,
    /// The first actions; the cluster comes to rest after each.
    before: Vec<Action>,
    /// The manager changes while it works on this action.
    action: Action,
}

fn pod_template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": image}]}})
}

fn never_ready(image: &str) -> Value {
    let mut template = pod_template(image);
    template["metadata"]["annotations"] = json!({BEHAVIOUR: "never-ready"});
    template
}

/// A Deployment `web` with image `one` and these fields of its spec.
fn web(replicas: i32, spec: &Value) -> Value {
    let mut d = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": pod_template("one")},
    });
    for (field, value) in spec.as_object().unwrap() {
        d["spec"][field] = value.clone();
    }
    d
}

/// A DaemonSet `web` with image `one` and these limits of its rolling update.
fn daemon_set(max_surge: i32, max_unavailable: i32) -> Value {
    let limits = json!({"maxSurge": max_surge, "maxUnavailable": max_unavailable});
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": limits});
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "updateStrategy": strategy, "template": pod_template("one")},
    })
}

fn replication_controller(replicas: i32) -> Value {
    let spec =
        json!({"replicas": replicas, "selector": {"app": "web"}, "template": pod_template("one")});
    json!({"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "web"}, "spec": spec})
}

fn pod(name: &str) -> Value {
    let mut pod = pod_template("one");
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["metadata"]["name"] = json!(name);
    pod
}

/// A ReplicaSet without an owner that has the name of the new ReplicaSet of this Deployment.
async fn with_the_name_of_the_new_replica_set(d: Value) -> Value {
    let stored = World::bare().await.create(d).await;
    let hash = template::hash(&stored["spec"]["template"], None);
    let mut template = pod_template("other");
    template["metadata"]["labels"]["app"] = json!("other");
    let spec =
        json!({"replicas": 0, "selector": {"matchLabels": {"app": "other"}}, "template": template});
    json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": format!("web-{hash}")}, "spec": spec})
}

async fn scenarios() -> Vec<Scenario> {
    use Action::{Create, Edit};
    let limits = json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2, "maxUnavailable": 1}}});
    let recreate = json!({"strategy": {"type": "Recreate"}});
    let plain = json!({});
    let two = || json!({"spec": {"template": pod_template("two")}});
    let roll = json!({"spec": {"template": pod_template("two"), "revisionHistoryLimit": 0}});
    let roll_daemon_set = roll.clone();
    let scaled_roll = json!({"spec": {"template": never_ready("two"), "replicas": 6}});
    let scale = json!({"spec": {"replicas": 6}});
    let back = json!({"metadata": {"annotations": {"deprecated.deployment.rollback.to": "1"}}});
    let scenario = |name, before, action| Scenario {
        name,
        before,
        action,
    };
    vec![
        scenario("a Deployment is created", vec![], Create(web(2, &plain))),
        scenario(
            "it rolls out, and its history is deleted",
            vec![Create(web(2, &limits))],
            Edit("deployments", roll),
        ),
        scenario(
            "it is scaled with a new template",
            vec![Create(web(4, &limits))],
            Edit("deployments", scaled_roll),
        ),
        scenario(
            "it is scaled during a rollout",
            vec![
                Create(web(4, &limits)),
                Edit(
                    "deployments",
                    json!({"spec": {"template": never_ready("two")}}),
                ),
            ],
            Edit("deployments", scale),
        ),
        scenario(
            "it rolls out with Recreate",
            vec![Create(web(2, &recreate))],
            Edit("deployments", two()),
        ),
        scenario(
            "it is paused and scaled",
            vec![Create(web(2, &plain))],
            Edit(
                "deployments",
                json!({"spec": {"paused": true, "replicas": 4}}),
            ),
        ),
        scenario(
            "the name of its ReplicaSet is taken",
            vec![Create(
                with_the_name_of_the_new_replica_set(web(1, &plain)).await,
            )],
            Create(web(1, &plain)),
        ),
        scenario(
            "it rolls back",
            vec![Create(web(2, &plain)), Edit("deployments", two())],
            Edit("deployments", back),
        ),
        scenario(
            "a ReplicationController is created",
            vec![],
            Create(replication_controller(3)),
        ),
        scenario(
            "a ReplicationController adopts two pods and creates one",
            vec![Create(pod("a")), Create(pod("b"))],
            Create(replication_controller(3)),
        ),
        scenario(
            "a ReplicationController is scaled down",
            vec![Create(replication_controller(3))],
            Edit("replicationcontrollers", json!({"spec": {"replicas": 1}})),
        ),
        scenario("a DaemonSet is created", vec![], Create(daemon_set(0, 1))),
        scenario(
            "a DaemonSet rolls out, and its history is deleted",
            vec![Create(daemon_set(0, 1))],
            Edit("daemonsets", roll_daemon_set),
        ),
        scenario(
            "a DaemonSet rolls out with surge",
            vec![Create(daemon_set(1, 0))],
            Edit("daemonsets", two()),
        ),
        scenario(
            "a DaemonSet rolls back",
            vec![Create(daemon_set(0, 1)), Edit("daemonsets", two())],
            Edit(
                "daemonsets",
                json!({"spec": {"template": pod_template("one")}}),
            ),
        ),
    ]
}

/// The final state of a scenario.
#[derive(Debug, PartialEq)]
struct Outcome {
    objects: Vec<Value>,
    pods_created: usize,
    pods_deleted: usize,
}

impl Outcome {
    fn of(world: &World) -> Self {
        let plurals = [
            "controllerrevisions",
            "daemonsets",
            "deployments",
            "replicasets",
            "replicationcontrollers",
        ];
        let objects = plurals
            .into_iter()
            .flat_map(|plural| world.cluster.objects(plural));
        let requests = world.cluster.requests();
        let done = |verb: &str| {
            requests
                .iter()
                .filter(|r| r.verb == verb && r.resource == "pods" && r.status < 300)
                .count()
        };
        Self {
            objects: objects.map(comparable).collect(),
            pods_created: done("create"),
            pods_deleted: done("delete"),
        }
    }
}

/// The parts of an object that do not depend on the change of the manager.
///
/// Times, resource versions, UIDs, and the order and messages of conditions are omitted. A message
/// may name an earlier ReplicaSet, because an unchanged reason keeps its message.
fn comparable(mut object: Value) -> Value {
    let metadata = object["metadata"].as_object_mut().unwrap();
    metadata
        .retain(|field, _| matches!(&**field, "name" | "labels" | "annotations" | "generation"));
    if let Some(conditions) = object["status"]
        .get_mut("conditions")
        .and_then(Value::as_array_mut)
    {
        for condition in &mut *conditions {
            condition
                .as_object_mut()
                .unwrap()
                .retain(|field, _| matches!(&**field, "type" | "status" | "reason"));
        }
        conditions.sort_by_key(|condition| condition["type"].to_string());
    }
    object
}

impl World {
    async fn perform(&self, action: &Action) {
        match action {
            Action::Create(object) => drop(self.create(object.clone()).await),
            Action::Edit(plural, changes) => drop(self.patch(plural, "web", changes.clone()).await),
        }
    }
}

impl Scenario {
    /// Runs the scenario. With `change_after`, the manager changes after this number of writes,
    /// including Events.
    ///
    /// Returns the outcome, and the positions of the writes after which a change is to be tested.
    async fn run(&self, change_after: Option<usize>) -> (Outcome, Vec<usize>) {
        let mut world = World::with(&[]).await;
        let gate = world.restart_fenced(&CONTROLLERS).await;
        for action in &self.before {
            world.perform(action).await;
            world.at_rest().await;
        }
        world.clear_requests();
        gate.close_after(change_after.unwrap_or(usize::MAX));
        world.perform(&self.action).await;
        if change_after.is_some() {
            world.until(self.name, |_| gate.refused() > 0).await;
            world.restart(&CONTROLLERS).await;
        }
        world.at_rest().await;
        let log = world.cluster.requests();
        let is_write = |r: &&RequestRecord| {
            r.user_agent.ends_with("-controller") && !matches!(&*r.verb, "get" | "list" | "watch")
        };
        // No later decision depends on Events. The status of a ReplicaSet is recomputed in each
        // sync.
        let is_tested =
            |r: &RequestRecord| r.resource != "events" && r.resource != "replicasets/status";
        let writes = log
            .iter()
            .filter(is_write)
            .enumerate()
            .filter(|(_, r)| is_tested(r))
            .map(|(place, _)| place);
        (Outcome::of(&world), writes.collect())
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_manager_completes_the_work_of_the_previous_one_without_duplicates() {
    for scenario in scenarios().await {
        let (expected, writes) = scenario.run(None).await;
        assert!(writes.len() >= 3, "{}: {writes:?}", scenario.name);
        for change_after in writes {
            let (outcome, _) = scenario.run(Some(change_after)).await;
            assert_eq!(
                outcome, expected,
                "{}, another manager after {change_after} writes",
                scenario.name
            );
        }
    }
}
