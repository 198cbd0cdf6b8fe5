//! A cluster at rest changes hands between two managers, there and back: no object gets another
//! version, and no Event is told.
//!
//! The other manager is this one, unless `STEERSMAN_TAKEOVER_OTHER` names a program;
//! `tests/takeover --other PATH` sets it.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::Cluster;
use crate::support::{Program, steersman};

/// The workload controllers, which both managers have.
const CONTROLLERS: &str = "--controllers=deployment,replicaset,replicationcontroller,podgc";

/// What pods of these manifests do in a cluster with simulated nodes.
const BEHAVIOUR: &str = "simulate.steersman.dev/behaviour";

fn other() -> Command {
    match std::env::var_os("STEERSMAN_TAKEOVER_OTHER") {
        Some(path) => Command::new(path),
        None => steersman(&[]),
    }
}

/// How long to look whether something happens after all.
fn window() -> Duration {
    let seconds = std::env::var("STEERSMAN_TAKEOVER_WINDOW")
        .map_or(2, |text| text.parse().expect("a number of seconds"));
    Duration::from_secs(seconds)
}

/// A manager at work on `cluster`. It holds the usual Lease, so two never write at the same time.
struct Manager(Program);

impl Manager {
    fn start(cluster: &Cluster, mut program: Command) -> Self {
        Self(Program::spawn(
            program
                .arg("--kubeconfig")
                .arg(cluster.kubeconfig())
                .args([CONTROLLERS, "--secure-port=0"]),
        ))
    }

    fn end(mut self) {
        self.0.assert_running();
        self.0.signal("TERM");
        // Upstream's manager says by its status that it lost the Lease.
        self.0.end();
    }
}

/// An object of the group `apps`, or of the core when it has none.
fn object(kind: &str, name: &str, spec: Value) -> Value {
    let api_version = if kind == "ReplicationController" {
        "v1"
    } else {
        "apps/v1"
    };
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec})
}

fn template(name: &str, image: &str) -> Value {
    json!({"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "main", "image": image}]}})
}

/// The spec of something that keeps `replicas` pods, with these fields on top.
fn spec(name: &str, replicas: u32, more: Value) -> Value {
    let mut spec = json!({"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template(name, "app:v1")});
    for (field, value) in more.as_object().expect("fields") {
        spec[field] = value.clone();
    }
    spec
}

/// A template whose quantities are not spelled as the server would.
fn oddly_spelled() -> Value {
    let mut template = template("odd", "app:v1");
    template["spec"]["containers"][0]["resources"] =
        json!({"limits": {"cpu": "1000m", "memory": "1048576Ki"}, "requests": {"cpu": 0.25}});
    template["spec"]["volumes"] = json!([{"name": "scratch", "emptyDir": {"sizeLimit": "64Mi"}}]);
    template
}

/// What there is before the other manager starts: ReplicaSets to adopt, and Deployments that never
/// had a manager.
fn manifests() -> Vec<Value> {
    let mut stalled = template("stalled", "registry.invalid/never:v1");
    stalled["metadata"]["annotations"] = json!({BEHAVIOUR: "never-ready"});
    let deployment =
        |name: &str, replicas, more| object("Deployment", name, spec(name, replicas, more));
    vec![
        object("ReplicaSet", "orphan", spec("adopted", 1, json!({}))),
        deployment("adopted", 1, json!({})),
        deployment("complete", 3, json!({})),
        deployment("rolled", 2, json!({"minReadySeconds": 1})),
        deployment(
            "undone",
            2,
            json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2, "maxUnavailable": 0}}}),
        ),
        deployment("recreated", 2, json!({"strategy": {"type": "Recreate"}})),
        deployment(
            "stalled",
            2,
            json!({"progressDeadlineSeconds": 2, "template": stalled}),
        ),
        deployment("endless", 1, json!({"progressDeadlineSeconds": i32::MAX})),
        deployment("born-paused", 1, json!({"paused": true})),
        deployment("paused", 1, json!({})),
        deployment("zero", 0, json!({})),
        deployment("odd", 1, json!({"template": oddly_spelled()})),
        object(
            "ReplicaSet",
            "set",
            spec("set", 2, json!({"minReadySeconds": 1})),
        ),
        object(
            "ReplicationController",
            "controller",
            spec("controller", 2, json!({"selector": {"app": "controller"}})),
        ),
        object(
            "ReplicationController",
            "patient",
            spec(
                "patient",
                1,
                json!({"selector": {"app": "patient"}, "minReadySeconds": 1}),
            ),
        ),
    ]
}

/// Deployments of no pods with templates of every group of fields, and the hashes that upstream's
/// manager gives them.
fn hashed() -> Vec<(Value, String)> {
    let lines = include_str!("../crates/runtime/src/template/testdata/cases.jsonl").lines();
    let cases = lines.map(|line| serde_json::from_str::<Value>(line).expect("a case a line"));
    let is_plain = |case: &Value| {
        case["collisionCount"].is_null()
            && !case["name"].as_str().is_some_and(|name| name.contains(' '))
    };
    let made = cases.filter(is_plain).map(|case| {
        let app = case["template"]["metadata"]["labels"]["app"].clone();
        let spec = json!({"replicas": 0, "selector": {"matchLabels": {"app": app}}, "template": case["template"]});
        let name = case["name"].as_str().expect("a name");
        (object("Deployment", &format!("hash-{name}"), spec), case["hash"].as_str().expect("a hash").to_owned())
    });
    made.collect()
}

fn rolled_out(cluster: &Cluster, names: &[&str]) {
    for name in names {
        cluster.kubectl(&format!("rollout status deployment/{name} --timeout=90s"));
    }
}

/// Waits until the Deployment says why it does not go on.
fn told(cluster: &Cluster, name: &str, reason: &str) {
    let path = "{.status.observedGeneration}={.metadata.generation}={.status.conditions[?(@.type==\"Progressing\")].reason}";
    cluster.eventually(
        &format!("get deployment {name} -o jsonpath={path}"),
        |said| {
            let [observed, generation, said] = said.split('=').collect::<Vec<_>>()[..] else {
                return false;
            };
            observed == generation && said == reason
        },
    );
}

/// The version of every object that a workload controller could write, and every Event; what
/// `sentinel` is about left out.
fn versions(cluster: &Cluster) -> Vec<String> {
    let path =
        "{range .items[*]}{.kind} {.metadata.name} {.metadata.resourceVersion}{\"\\n\"}{end}";
    let all = cluster.get(
        "deployments,replicasets,replicationcontrollers,pods,events",
        path,
    );
    let mut lines: Vec<String> = all
        .lines()
        .filter(|line| !line.contains(" sentinel"))
        .map(str::to_owned)
        .collect();
    lines.sort_unstable();
    lines
}

/// Waits until nothing changes any more.
fn at_rest(cluster: &Cluster) -> Vec<String> {
    let mut before = versions(cluster);
    loop {
        std::thread::sleep(Duration::from_secs(2));
        let now = versions(cluster);
        if now == before {
            return now;
        }
        before = now;
    }
}

/// Starts a manager on what another left; everything must stay as it is. The manager goes on.
fn taken_over_without_a_write(cluster: &Cluster, program: Command, sentinel: &str) -> Manager {
    let before = versions(cluster);
    let manager = Manager::start(cluster, program);
    // Its queues are first in, first out: when this one is rolled out, everything else has been
    // looked at.
    cluster.apply(&object("Deployment", sentinel, spec(sentinel, 1, json!({}))).to_string());
    rolled_out(cluster, &[sentinel]);
    std::thread::sleep(window());
    let after = versions(cluster);
    let gone: Vec<_> = before.iter().filter(|line| !after.contains(line)).collect();
    let new: Vec<_> = after.iter().filter(|line| !before.contains(line)).collect();
    assert!(
        gone.is_empty() && new.is_empty(),
        "taking over changed\n{gone:#?}\nto\n{new:#?}"
    );
    manager
}

#[test]
fn a_cluster_at_rest_changes_hands_and_nothing_in_it_changes() {
    let Some(cluster) = Cluster::start_without_manager() else {
        return;
    };
    let list =
        |items: Vec<Value>| json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    cluster.apply(&list(manifests()));
    cluster.apply(&list(
        hashed().into_iter().map(|(manifest, _)| manifest).collect(),
    ));

    let first = Manager::start(&cluster, other());
    rolled_out(
        &cluster,
        &[
            "adopted",
            "complete",
            "rolled",
            "undone",
            "recreated",
            "endless",
            "paused",
            "zero",
            "odd",
        ],
    );
    for name in ["rolled", "undone", "recreated"] {
        cluster.kubectl(&format!("set image deployment/{name} main=app:v2"));
    }
    rolled_out(&cluster, &["rolled", "undone", "recreated"]);
    cluster.kubectl("rollout undo deployment/undone");
    cluster.kubectl("rollout pause deployment/paused");
    cluster.kubectl("set image deployment/paused main=app:v2");
    rolled_out(&cluster, &["undone"]);
    for name in ["born-paused", "paused"] {
        told(&cluster, name, "DeploymentPaused");
    }
    told(&cluster, "stalled", "ProgressDeadlineExceeded");
    for (kind, name, pods) in [
        ("rs", "set", "2"),
        ("rc", "controller", "2"),
        ("rc", "patient", "1"),
    ] {
        cluster.eventually(
            &format!("get {kind} {name} -o jsonpath={{.status.availableReplicas}}"),
            |count| count == pods,
        );
    }
    for (manifest, hash) in hashed() {
        let name = format!(
            "{}-{hash}",
            manifest["metadata"]["name"].as_str().expect("a name")
        );
        cluster.eventually(
            "get replicasets -o jsonpath={.items[*].metadata.name}",
            |names| names.split(' ').any(|n| n == name),
        );
    }
    at_rest(&cluster);
    first.end();

    let ours = taken_over_without_a_write(&cluster, steersman(&[]), "sentinel-one");
    cluster.kubectl("set image deployment/complete main=app:v2");
    cluster.kubectl("annotate deployment/odd touched=yes");
    cluster.kubectl("scale deployment/rolled rs/set rc/controller --replicas=3");
    cluster.kubectl("rollout resume deployment/paused");
    cluster.kubectl("rollout pause deployment/endless");
    rolled_out(&cluster, &["complete", "odd", "rolled", "paused"]);
    for (kind, name) in [("rs", "set"), ("rc", "controller")] {
        cluster.eventually(
            &format!("get {kind} {name} -o jsonpath={{.status.availableReplicas}}"),
            |count| count == "3",
        );
    }
    at_rest(&cluster);
    ours.end();

    taken_over_without_a_write(&cluster, other(), "sentinel-two").end();
}
