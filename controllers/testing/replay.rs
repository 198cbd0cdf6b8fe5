//! Replays recorded steps of kube-controller-manager 1.36.2 with Deployments, and compares the
//! results.
//!
//! After each step, the objects with their field managers, the number of pods and the Events must
//! equal the record. Times, resource versions, UIDs and the random suffixes of pod names are not
//! compared. As in the recorded cluster, no nodes exist, and the test makes pods ready.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use steersman_runtime::controller::Descriptor;

use super::NAMESPACE;
use super::world::World;
use crate::{deployment, replicaset};

const CONTROLLERS: [Descriptor; 2] = [deployment::DESCRIPTOR, replicaset::DESCRIPTOR];

/// One step of a recorded scenario, and the state after it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Step {
    /// Title of the scenario, only in its first step.
    story: Option<String>,
    action: String,
    /// The Deployment, or a merge patch of it. Without a request, all pods become ready.
    request: Option<Value>,
    deployment: Value,
    replica_sets: Vec<Value>,
    /// Number of pods by ReplicaSet.
    pods: Map<String, Value>,
    /// New or changed Events: kind and name of the object, type, reason, message, count.
    events: Vec<Value>,
}

fn recorded() -> Vec<Step> {
    include_str!("replay.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The parts of an object that are equal in every run; managed fields are included if `managed`.
fn comparable(object: &Value, owner: &Value, managed: bool) -> Value {
    let text = object
        .to_string()
        .replace(owner["metadata"]["uid"].as_str().unwrap(), "owner");
    let mut object: Value = serde_json::from_str(&text).unwrap();
    object
        .as_object_mut()
        .unwrap()
        .retain(|field, _| matches!(&**field, "metadata" | "spec" | "status"));
    let metadata = object["metadata"].as_object_mut().unwrap();
    metadata.retain(|field, _| {
        !matches!(
            &**field,
            "uid" | "resourceVersion" | "creationTimestamp" | "namespace"
        )
    });
    if !managed {
        metadata.remove("managedFields");
    }
    for entry in list(metadata.get_mut("managedFields")) {
        entry.as_object_mut().unwrap().remove("time");
        if entry["manager"] != "kube-controller-manager" {
            entry["manager"] = json!("example-client");
        }
    }
    for reference in list(metadata.get_mut("ownerReferences")) {
        reference.as_object_mut().unwrap().remove("uid");
    }
    for condition in list(object["status"].get_mut("conditions")) {
        condition
            .as_object_mut()
            .unwrap()
            .retain(|field, _| !field.ends_with("Time"));
    }
    object
}

fn list(value: Option<&mut Value>) -> &mut [Value] {
    value
        .and_then(Value::as_array_mut)
        .map_or(&mut [], |list| list)
}

fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap()
}

/// An Event in the format of the record; an asterisk replaces the suffix of pod names.
fn event(event: &Value) -> Value {
    let object = &event["involvedObject"];
    let message = event["message"].as_str().unwrap();
    let message = match message
        .rsplit_once(" pod: ")
        .and_then(|(verb, pod)| Some((verb, pod.rsplit_once('-')?.0)))
    {
        Some((verb, pod)) => format!("{verb} pod: {pod}-*"),
        None => message.to_owned(),
    };
    json!([
        object["kind"],
        object["name"],
        event["type"],
        event["reason"],
        message,
        event["count"]
    ])
}

fn sorted(mut values: Vec<Value>) -> Vec<String> {
    values.sort_by_key(Value::to_string);
    values.iter().map(Value::to_string).collect()
}

impl World {
    /// Makes all pods ready, and then the new pods that follow, until every pod is ready.
    async fn make_all_ready(&self) {
        loop {
            let is_ready = |pod: &Value| pod["status"]["conditions"][0]["status"] == "True";
            let waiting: Vec<Value> = self
                .cluster
                .objects("pods")
                .into_iter()
                .filter(|pod| !is_ready(pod))
                .collect();
            if waiting.is_empty() {
                return;
            }
            for pod in waiting {
                self.make_ready(pod["metadata"]["name"].as_str().unwrap())
                    .await;
            }
            self.at_rest().await;
        }
    }

    /// Performs the action of a step, and waits until the controllers are at rest.
    async fn take(&self, step: &Step, name: &str) {
        match &step.request {
            Some(request) if request["kind"] == "Deployment" => {
                drop(self.create(request.clone()).await)
            }
            Some(request) => drop(self.patch("deployments", name, request.clone()).await),
            None => self.make_all_ready().await,
        }
        self.at_rest().await;
    }
}

#[tokio::test(start_paused = true)]
async fn deployments_have_the_same_states_as_with_upstream() {
    let mut world = World::bare().await;
    let mut story = String::new();
    let mut name = String::new();
    for step in recorded() {
        if let Some(next) = &step.story {
            world = World::recorded().await;
            world.restart(&CONTROLLERS).await;
            story.clone_from(next);
            step.deployment["metadata"]["name"]
                .as_str()
                .unwrap()
                .clone_into(&mut name);
        }
        let why = format!("{story}: {}", step.action);
        let before = world.cluster.revision();
        world.take(&step, &name).await;

        let d = world.find("deployments", &name).unwrap();
        let managed = step.story.is_some();
        assert_eq!(comparable(&d, &d, managed), step.deployment, "{why}");
        let sets = world.cluster.objects("replicasets");
        assert_eq!(sets.len(), step.replica_sets.len(), "{why}");
        for expected in &step.replica_sets {
            let set = sets
                .iter()
                .find(|set| set["metadata"]["name"] == expected["metadata"]["name"]);
            let set = set.unwrap_or_else(|| panic!("{why}: no {}", expected["metadata"]["name"]));
            assert_eq!(&comparable(set, &d, managed), expected, "{why}");
        }
        let owned = |pod: &Value, set: &str| pod["metadata"]["ownerReferences"][0]["name"] == set;
        let pods = world.cluster.objects("pods");
        for (set, count) in &step.pods {
            assert_eq!(
                json!(pods.iter().filter(|pod| owned(pod, set)).count()),
                *count,
                "{why}: {set}"
            );
        }
        assert!(
            pods.iter()
                .all(|pod| step.pods.keys().any(|set| owned(pod, set))),
            "{why}"
        );
        let events = world
            .cluster
            .objects("events")
            .iter()
            .filter(|event| version(event) > before)
            .map(event)
            .collect();
        assert_eq!(sorted(events), sorted(step.events), "{why}");
        assert_eq!(d["metadata"]["namespace"], NAMESPACE);
    }
}
