//! All objects of a cluster at one time, and the changes until another time.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::harness::Cluster;

/// Resources whose objects change without a controller.
const LEFT_OUT: [&str; 6] = [
    // Holders renew them: kubelets, managers and API servers.
    "leases.coordination.k8s.io",
    "leasecandidates.coordination.k8s.io",
    // The same objects as `events` of the core group.
    "events.events.k8s.io",
    // The API server computes them at each request.
    "componentstatuses",
    "nodes.metrics.k8s.io",
    "pods.metrics.k8s.io",
];

/// Sources of Events that are no controllers.
const OTHER_SOURCES: [&str; 2] = ["default-scheduler", "kubelet"];

/// Sources and reasons of Events that each manager reports at its start. The election has the source of its process.
const AT_START: [(&str, &str); 1] = [("node-controller", "RegisteredNode")];

/// The objects of a cluster by kind, namespace and name. An Event is known by its content, because each
/// start of a manager begins new Events.
pub(super) struct Snapshot(BTreeMap<String, Value>);

impl Snapshot {
    /// All objects of these resources, except for those that `is_left_out` names by namespace and name.
    pub(super) fn of(
        cluster: &Cluster,
        resources: &[Resource],
        is_left_out: impl Fn(&Value) -> bool,
    ) -> Self {
        let names: Vec<&str> = resources.iter().map(|resource| &*resource.name).collect();
        let words = format!(
            "get {} --all-namespaces --show-managed-fields -o json",
            names.join(",")
        );
        let list: Value =
            serde_json::from_str(&cluster.kubectl(&words)).expect("kubectl prints JSON");
        let Value::Array(items) = list["items"].clone() else {
            panic!("no list of objects: {list}");
        };
        let mut objects = BTreeMap::new();
        for object in items.into_iter().filter(|object| !is_left_out(object)) {
            match object["kind"].as_str().expect("objects have a kind") {
                "Event" => add_event(&mut objects, &object),
                "Node" => drop(objects.insert(key(&object), without_heartbeats(object))),
                _ => drop(objects.insert(key(&object), object)),
            }
        }
        Self(objects)
    }

    /// Whether an object of this resource exists.
    pub(super) fn has(&self, resource: &Resource) -> bool {
        let start = format!("{} ", resource.kind);
        self.0.keys().any(|key| key.starts_with(&start))
    }

    /// The objects that were created, written or deleted until `later`, each with its changes.
    pub(super) fn changes(&self, later: &Self) -> BTreeMap<String, String> {
        let names: BTreeSet<&String> = self.0.keys().chain(later.0.keys()).collect();
        let changed = names
            .into_iter()
            .filter(|name| self.0.get(*name) != later.0.get(*name));
        changed
            .map(|name| {
                (
                    name.clone(),
                    changed_lines(self.0.get(name), later.0.get(name)),
                )
            })
            .collect()
    }
}

/// A resource of the API.
#[derive(Debug, PartialEq)]
pub(super) struct Resource {
    /// Its plural name with the group, such as `deployments.apps`.
    pub(super) name: String,
    /// The API version and the kind of its objects.
    pub(super) kind: String,
}

/// The resources of the cluster whose objects only controllers write, once the cluster is at rest.
pub(super) fn resources(cluster: &Cluster) -> Vec<Resource> {
    let listed = cluster.kubectl("api-resources --verbs=list --no-headers");
    // Short names are optional.
    let resource = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [plural, .., version, _, kind] = words[..] else {
            panic!("no resource: {line}");
        };
        let group = version
            .split_once('/')
            .map_or(String::new(), |(group, _)| format!(".{group}"));
        Resource {
            name: format!("{plural}{group}"),
            kind: format!("{version} {kind}"),
        }
    };
    let all = listed.lines().map(resource);
    all.filter(|one| !LEFT_OUT.contains(&&*one.name)).collect()
}

fn key(object: &Value) -> String {
    let part = |name: &str| object["metadata"][name].as_str().unwrap_or_default();
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let kind = object["kind"].as_str().unwrap_or_default();
    format!("{version} {kind} {}/{}", part("namespace"), part("name"))
}

/// A Node without its heartbeats, which kubelets write.
fn without_heartbeats(mut node: Value) -> Value {
    for field in ["resourceVersion", "managedFields"] {
        node["metadata"][field].take();
    }
    for condition in node["status"]["conditions"]
        .as_array_mut()
        .into_iter()
        .flatten()
    {
        condition["lastHeartbeatTime"].take();
    }
    node
}

/// Counts an Event of a controller.
fn add_event(objects: &mut BTreeMap<String, Value>, event: &Value) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let sources = [&event["source"]["component"], &event["reportingComponent"]].map(text);
    let reason = text(&event["reason"]);
    if sources
        .iter()
        .any(|source| OTHER_SOURCES.contains(&&**source))
        || reason == "LeaderElection"
        || sources
            .iter()
            .any(|source| AT_START.contains(&(&**source, &*reason)))
    {
        return;
    }
    let of = &event["involvedObject"];
    let name = format!(
        "v1 Event {} {} {}/{} {reason}: {}",
        sources[0],
        text(&of["kind"]),
        text(&of["namespace"]),
        text(&of["name"]),
        text(&event["message"]),
    );
    let count = event["count"]
        .as_u64()
        .or(event["series"]["count"].as_u64());
    let known = objects.entry(name).or_insert(json!(0));
    *known = json!(known.as_u64().unwrap_or_default() + count.unwrap_or(1));
}

/// The lines of two objects that differ.
fn changed_lines(before: Option<&Value>, after: Option<&Value>) -> String {
    let text = |value: Option<&Value>| value.map_or(String::new(), |value| format!("{value:#}"));
    let [before, after] = [before, after].map(text);
    let without = |text: &str, other: &str, mark: &str| -> String {
        let others: BTreeSet<&str> = other.lines().collect();
        let lines = text.lines().filter(|line| !others.contains(line));
        lines
            .map(|line| format!("{mark} {}\n", line.trim()))
            .collect()
    };
    without(&before, &after, "-") + &without(&after, &before, "+")
}
