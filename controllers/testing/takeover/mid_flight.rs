//! Taking over in the middle of something: the manager before us ends after any of its writes, and
//! we go on from there to where it would have got, with as many pods made and removed as it would
//! have.
//!
//! So all states come up that somebody may leave behind: a ReplicaSet that no status tells of, some
//! ReplicaSets scaled and others not, a collision counted, a rollback half done, half of the pods,
//! pods on their way out, a pause half told.

use serde_json::{Value, json};
use steersman_devcluster::nodes::BEHAVIOUR;
use steersman_devcluster::requests::RequestRecord;
use steersman_runtime::controller::Descriptor;
use steersman_runtime::template;

use crate::testing::world::World;
use crate::{deployment, replicaset, replicationcontroller};

const CONTROLLERS: [Descriptor; 3] = [
    deployment::DESCRIPTOR,
    replicaset::DESCRIPTOR,
    replicationcontroller::DESCRIPTOR,
];

/// What somebody does to a cluster.
enum Act {
    Create(Value),
    /// Edits the one called `web`.
    Edit(&'static str, Value),
}

/// Acts that follow each other at rest, and one in whose midst the manager changes.
struct Scenario {
    name: &'static str,
    before: Vec<Act>,
    act: Act,
}

fn pod_template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": image}]}})
}

fn never_ready(image: &str) -> Value {
    let mut template = pod_template(image);
    template["metadata"]["annotations"] = json!({BEHAVIOUR: "never-ready"});
    template
}

/// A Deployment `web` of image `one`, with these fields of its spec changed.
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

fn replication_controller(replicas: i32) -> Value {
    let spec =
        json!({"replicas": replicas, "selector": {"app": "web"}, "template": pod_template("one")});
    json!({"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "web"}, "spec": spec})
}

fn pod(name: &str) -> Value {
    let mut pod = pod_template("one");
    (pod["apiVersion"], pod["kind"], pod["metadata"]["name"]) =
        (json!("v1"), json!("Pod"), json!(name));
    pod
}

/// Somebody else's, under the name that the ReplicaSet of this Deployment would get.
async fn namesake(d: Value) -> Value {
    let stored = World::bare().await.create(d).await;
    let hash = template::hash(&stored["spec"]["template"], None);
    let mut template = pod_template("other");
    template["metadata"]["labels"]["app"] = json!("other");
    let spec =
        json!({"replicas": 0, "selector": {"matchLabels": {"app": "other"}}, "template": template});
    json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": format!("web-{hash}")}, "spec": spec})
}

async fn scenarios() -> Vec<Scenario> {
    use Act::{Create, Edit};
    let limits = json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2, "maxUnavailable": 1}}});
    let recreate = json!({"strategy": {"type": "Recreate"}});
    let plain = json!({});
    let two = || json!({"spec": {"template": pod_template("two")}});
    let roll = json!({"spec": {"template": pod_template("two"), "revisionHistoryLimit": 0}});
    let scaled_roll = json!({"spec": {"template": never_ready("two"), "replicas": 6}});
    let scale = json!({"spec": {"replicas": 6}});
    let back = json!({"metadata": {"annotations": {"deprecated.deployment.rollback.to": "1"}}});
    let scenario = |name, before, act| Scenario { name, before, act };
    vec![
        scenario("a Deployment is created", vec![], Create(web(2, &plain))),
        scenario(
            "it rolls, and history goes",
            vec![Create(web(2, &limits))],
            Edit("deployments", roll),
        ),
        scenario(
            "it is scaled with a new template",
            vec![Create(web(4, &limits))],
            Edit("deployments", scaled_roll),
        ),
        scenario(
            "it is scaled as it rolls",
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
            "it is recreated",
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
            "its name is taken",
            vec![Create(namesake(web(1, &plain)).await)],
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
            "one adopts and makes the rest",
            vec![Create(pod("a")), Create(pod("b"))],
            Create(replication_controller(3)),
        ),
        scenario(
            "one shrinks",
            vec![Create(replication_controller(3))],
            Edit("replicationcontrollers", json!({"spec": {"replicas": 1}})),
        ),
    ]
}

/// What comes of a scenario in the end.
#[derive(Debug, PartialEq)]
struct Outcome {
    objects: Vec<Value>,
    pods_created: usize,
    pods_deleted: usize,
}

impl Outcome {
    fn of(world: &World) -> Self {
        let objects = ["deployments", "replicasets", "replicationcontrollers"]
            .into_iter()
            .flat_map(|p| world.cluster.objects(p));
        let requests = world.cluster.requests();
        let done = |verb: &str| {
            requests
                .iter()
                .filter(|r| r.verb == verb && r.resource == "pods" && r.status < 300)
                .count()
        };
        Self {
            objects: objects.map(without_the_accidental).collect(),
            pods_created: done("create"),
            pods_deleted: done("delete"),
        }
    }
}

/// An object without times, versions, identities, the order of conditions, and their messages: one
/// that names an earlier ReplicaSet is left as it is when the state comes to the same in the end.
fn without_the_accidental(mut object: Value) -> Value {
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
    async fn act(&self, act: &Act) {
        match act {
            Act::Create(object) => drop(self.create(object.clone()).await),
            Act::Edit(plural, changes) => drop(self.patch(plural, "web", changes.clone()).await),
        }
    }
}

impl Scenario {
    /// Plays it, with a change of managers after so many writes, Events among them; the places of
    /// those that matter.
    async fn play(&self, change_after: Option<usize>) -> (Outcome, Vec<usize>) {
        let mut world = World::with(&[]).await;
        let gate = world.restart_fenced(&CONTROLLERS).await;
        for act in &self.before {
            world.act(act).await;
            world.at_rest().await;
        }
        world.cluster.clear_requests();
        gate.close_after(change_after.unwrap_or(usize::MAX));
        world.act(&self.act).await;
        if change_after.is_some() {
            world.until(self.name, |_| gate.refused() > 0).await;
            world.restart(&CONTROLLERS).await;
        }
        world.at_rest().await;
        let log = world.cluster.requests();
        let is_write = |r: &&RequestRecord| {
            r.user_agent.ends_with("-controller") && !matches!(&*r.verb, "get" | "list" | "watch")
        };
        // The status of a ReplicaSet is computed afresh in any case.
        let matters =
            |r: &RequestRecord| r.resource != "events" && r.resource != "replicasets/status";
        let writes = log
            .iter()
            .filter(is_write)
            .enumerate()
            .filter(|(_, r)| matters(r))
            .map(|(place, _)| place);
        (Outcome::of(&world), writes.collect())
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_the_manager_before_us_left_is_finished_and_nothing_done_twice() {
    for scenario in scenarios().await {
        let (expected, writes) = scenario.play(None).await;
        assert!(writes.len() >= 3, "{}: {writes:?}", scenario.name);
        for change_after in writes {
            let (outcome, _) = scenario.play(Some(change_after)).await;
            assert_eq!(
                outcome, expected,
                "{}, another manager after {change_after} writes",
                scenario.name
            );
        }
    }
}
