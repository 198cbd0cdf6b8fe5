//! Scenarios of the attach-detach controller, with simulated kubelets and a simulated attacher.

use serde_json::{Value, json};
use steersman_controllers::attachdetach;
use steersman_perturb::rules::{ONE_NODE, UNREPORTED, UNUSED};
use steersman_perturb::{Scenario, State, Step};

use crate::objects::{BLANK, delete, path, until_caches_are_current};

const BASE: Scenario = Scenario {
    controller: "attachdetach",
    controllers: &[attachdetach::DESCRIPTOR],
    nodes: 2,
    rules: &[ONE_NODE, UNREPORTED, UNUSED],
    ..BLANK
};

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "attach",
            steps: attach,
            ..BASE
        },
        Scenario {
            name: "detach",
            steps: detach,
            ..BASE
        },
        Scenario {
            name: "move",
            steps: move_to_another_node,
            ..BASE
        },
        Scenario {
            name: "shared",
            steps: shared,
            ..BASE
        },
        Scenario {
            name: "out-of-service",
            steps: out_of_service,
            ..BASE
        },
        Scenario {
            name: "slow-driver",
            steps: slow_driver,
            ..BASE
        },
        Scenario {
            name: "late-claim",
            steps: late_claim,
            ..BASE
        },
    ]
}

const DRIVER: &str = "csi.example.com";

/// A volume that is bound to the claim of its name.
fn volume(name: &str, mode: &str, annotations: Value) -> Step {
    Step::Load(json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": name, "uid": format!("uid-of-{name}"), "annotations": annotations},
        "spec": {
            "accessModes": [mode], "capacity": {"storage": "1Gi"},
            "persistentVolumeReclaimPolicy": "Retain",
            "csi": {"driver": DRIVER, "volumeHandle": format!("handle-of-{name}")},
            "claimRef": {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default",
                "name": name, "uid": format!("uid-of-claim-{name}"),
            },
        },
        "status": {"phase": "Bound"},
    }))
}

fn claim(name: &str, mode: &str) -> Step {
    Step::Load(json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-of-claim-{name}")},
        "spec": {
            "accessModes": [mode], "volumeName": name, "storageClassName": "",
            "resources": {"requests": {"storage": "1Gi"}},
        },
        "status": {"phase": "Bound", "accessModes": [mode], "capacity": {"storage": "1Gi"}},
    }))
}

fn bound(name: &str, mode: &str) -> [Step; 2] {
    [volume(name, mode, json!({})), claim(name, mode)]
}

/// A pod on a node, with these claims.
fn pod(name: &str, node: &str, claims: &[&str]) -> Step {
    let volume =
        |claim: &&str| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}});
    let volumes: Vec<Value> = claims.iter().map(volume).collect();
    Step::Create(json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {
            "nodeName": node, "terminationGracePeriodSeconds": 1, "volumes": volumes,
            "containers": [{"name": "main", "image": "web:1"}],
        },
    }))
}

fn runs(name: &'static str) -> Step {
    Step::until("running", move |state: &State| {
        let pod = state.get("pods", &format!("default/{name}"));
        pod.is_some_and(|pod| pod["status"]["phase"] == "Running")
    })
}

/// Waits until the nodes report exactly these numbers of attached volumes, and all others are
/// detached.
fn reported(numbers: [usize; 2]) -> Step {
    Step::until("reported", move |state: &State| {
        let count = |node: &str| {
            let node = state.get("nodes", node);
            let volumes = node.and_then(|node| node["status"]["volumesAttached"].as_array());
            volumes.map_or(0, Vec::len)
        };
        let attached = numbers.iter().sum::<usize>();
        [count("node-0"), count("node-1")] == numbers
            && state.all("volumeattachments").count() == attached
    })
}

const EXCLUSIVE: &str = "ReadWriteOnce";

fn attach() -> Vec<Step> {
    let mut steps = Vec::from(bound("one", EXCLUSIVE));
    steps.extend(bound("two", EXCLUSIVE));
    steps.extend([
        pod("web", "node-0", &["one", "two"]),
        runs("web"),
        reported([2, 0]),
    ]);
    steps
}

fn detach() -> Vec<Step> {
    let mut steps = attach();
    steps.extend([delete("pods", "web", json!({})), reported([0, 0])]);
    steps
}

/// A second pod waits until the first one has left its node.
fn move_to_another_node() -> Vec<Step> {
    let mut steps = Vec::from(bound("one", EXCLUSIVE));
    steps.extend([
        pod("first", "node-0", &["one"]),
        runs("first"),
        pod("second", "node-1", &["one"]),
        until_caches_are_current(),
        delete("pods", "first", json!({})),
        runs("second"),
        reported([0, 1]),
    ]);
    steps
}

fn shared() -> Vec<Step> {
    let mut steps = Vec::from(bound("one", "ReadWriteMany"));
    steps.extend([
        pod("first", "node-0", &["one"]),
        pod("second", "node-1", &["one"]),
        runs("first"),
        runs("second"),
        reported([1, 1]),
        delete("pods", "first", json!({})),
        reported([0, 1]),
    ]);
    steps
}

/// The kubelet of a node dies, and the user takes the node out of service.
fn out_of_service() -> Vec<Step> {
    let dead = json!({"metadata": {"annotations": {"simulate.steersman.dev/behaviour": "dead"}}});
    let taint = json!({"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"});
    let mut steps = Vec::from(bound("one", EXCLUSIVE));
    steps.extend([
        pod("first", "node-0", &["one"]),
        runs("first"),
        Step::Patch(path("nodes", "node-0"), dead),
        delete("pods", "first", json!({"gracePeriodSeconds": 0})),
        pod("second", "node-1", &["one"]),
        until_caches_are_current(),
        Step::Patch(
            path("nodes", "node-0"),
            json!({"spec": {"taints": [taint]}}),
        ),
        runs("second"),
        reported([0, 1]),
    ]);
    steps
}

/// The pod is deleted before its volume is attached.
fn slow_driver() -> Vec<Step> {
    let slow = json!({"simulate.steersman.dev/attach-latency": "20s"});
    vec![
        volume("one", EXCLUSIVE, slow),
        claim("one", EXCLUSIVE),
        pod("first", "node-0", &["one"]),
        Step::until("requested", |state: &State| {
            state.all("volumeattachments").count() == 1
        }),
        delete("pods", "first", json!({"gracePeriodSeconds": 0})),
        pod("second", "node-1", &["one"]),
        runs("second"),
        reported([0, 1]),
    ]
}

/// The claim of a bound pod appears after the pod.
fn late_claim() -> Vec<Step> {
    vec![
        pod("web", "node-0", &["one"]),
        until_caches_are_current(),
        claim("one", EXCLUSIVE),
        volume("one", EXCLUSIVE, json!({})),
        runs("web"),
        reported([1, 0]),
    ]
}
