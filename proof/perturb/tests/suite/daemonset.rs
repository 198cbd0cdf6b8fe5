//! Scenarios of DaemonSets: placement, rolling updates with and without surge, history, adoption.

use serde_json::{Value, json};
use steersman_client::Category;
use steersman_controllers::{daemonset, garbagecollector};
use steersman_perturb::rules::{AVAILABLE_NODES, ONE_PER_NODE, is_active, is_ready};
use steersman_perturb::{AllowedError, Scenario, State, Step};
use steersman_runtime::owner::OWNER_DELETED;

use crate::objects::{BLANK, delete, patch, template, until_caches_are_current};

/// With a stale cache, the controller tries to adopt the pods of its deleted owner. A live read
/// stops it and logs this error, as upstream's `RecheckDeletionTimestamp` does.
const DELETED_OWNER: AllowedError =
    AllowedError::of(Category::Named(OWNER_DELETED), 16).from(daemonset::DESCRIPTOR.name);

const BASE: Scenario = Scenario {
    controller: "daemonset",
    controllers: &[daemonset::DESCRIPTOR],
    nodes: 3,
    rules: &[ONE_PER_NODE, AVAILABLE_NODES],
    ..BLANK
};

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "create",
            steps: || vec![create(rolling(0, 1)), settled(3, "web:1")],
            ..BASE
        },
        Scenario {
            name: "rollout",
            steps: || rollout(rolling(0, 1)),
            ..BASE
        },
        Scenario {
            name: "surge",
            steps: || rollout(rolling(1, 0)),
            ..BASE
        },
        Scenario {
            name: "rollback",
            steps: rollback,
            ..BASE
        },
        Scenario {
            name: "on-delete",
            steps: on_delete,
            ..BASE
        },
        Scenario {
            name: "nodes",
            steps: nodes,
            ..BASE
        },
        Scenario {
            name: "adopt",
            steps: adopt,
            ..BASE
        },
        Scenario {
            name: "orphaned",
            controllers: &[daemonset::DESCRIPTOR, garbagecollector::DESCRIPTOR],
            errors: &[DELETED_OWNER],
            steps: orphaned,
            ..BASE
        },
        Scenario {
            name: "history",
            steps: history,
            ..BASE
        },
    ]
}

fn rolling(max_surge: i32, max_unavailable: i32) -> Value {
    let limits = json!({"maxSurge": max_surge, "maxUnavailable": max_unavailable});
    json!({"type": "RollingUpdate", "rollingUpdate": limits})
}

fn agent(strategy: Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}}, "updateStrategy": strategy,
            "template": template("web", "web:1"),
        },
    })
}

fn create(strategy: Value) -> Step {
    Step::Create(agent(strategy))
}

fn change(spec: Value) -> Step {
    patch("daemonsets", "web", json!({ "spec": spec }))
}

fn image(image: &str) -> Step {
    change(json!({ "template": template("web", image) }))
}

/// Waits until this number of nodes has an available pod with this image and no others, and the
/// status shows it.
fn settled(nodes: usize, image: &'static str) -> Step {
    Step::until("settled", move |state| {
        let Some(ds) = state.get("daemonsets", "default/web") else {
            return false;
        };
        let status = &ds["status"];
        let number = |field: &str| status[field].as_u64().unwrap_or(0) == nodes as u64;
        let has_image = |pod: &Value| pod["spec"]["containers"][0]["image"] == image;
        status["observedGeneration"] == ds["metadata"]["generation"]
            && number("desiredNumberScheduled")
            && number("numberAvailable")
            && number("updatedNumberScheduled")
            && pods(state).count() == nodes
            && pods(state).all(has_image)
    })
}

fn rollout(strategy: Value) -> Vec<Step> {
    vec![
        create(strategy),
        settled(3, "web:1"),
        image("web:2"),
        settled(3, "web:2"),
    ]
}

fn rollback() -> Vec<Step> {
    let mut steps = rollout(rolling(0, 1));
    steps.extend([image("web:1"), settled(3, "web:1")]);
    steps
}

/// With OnDelete only a pod that the user deletes gets the new template.
fn on_delete() -> Vec<Step> {
    let updated = |state: &State| {
        let new = |pod: &&Value| pod["spec"]["containers"][0]["image"] == "web:2" && is_ready(pod);
        let ds = state.get("daemonsets", "default/web");
        let status = ds.map(|ds| ds["status"].clone()).unwrap_or_default();
        pods(state).filter(new).count() == 1
            && status["updatedNumberScheduled"] == 1
            && status["numberAvailable"] == 3
    };
    vec![
        Step::Create(loose("one", "node-0")),
        create(json!({"type": "OnDelete"})),
        settled_loose(),
        image("web:2"),
        until_caches_are_current(),
        delete("pods", "one", json!({})),
        Step::until("one updated pod", updated),
    ]
}

/// Three available pods, one of which the user created.
fn settled_loose() -> Step {
    Step::until("settled", |state| {
        let ds = state.get("daemonsets", "default/web");
        let status = ds.map(|ds| ds["status"].clone()).unwrap_or_default();
        status["numberAvailable"] == 3 && pods(state).count() == 3
    })
}

/// Labels of nodes move the pods.
fn nodes() -> Vec<Step> {
    let mut ds = agent(rolling(0, 1));
    ds["spec"]["template"]["spec"]["nodeSelector"] = json!({"disk": "ssd"});
    let label = |node: &str, value: Value| {
        let labels = json!({"metadata": {"labels": {"disk": value}}});
        Step::Patch(format!("/api/v1/nodes/{node}"), labels)
    };
    vec![
        Step::Create(ds),
        settled(0, "web:1"),
        label("node-0", json!("ssd")),
        settled(1, "web:1"),
        label("node-1", json!("ssd")),
        settled(2, "web:1"),
        label("node-0", Value::Null),
        settled(1, "web:1"),
    ]
}

/// The DaemonSet adopts a pod, which has no revision, and replaces it once.
fn adopt() -> Vec<Step> {
    let ready = Step::until("running", |state| pods(state).any(is_ready));
    vec![
        Step::Create(loose("one", "node-1")),
        ready,
        create(rolling(0, 1)),
        settled(3, "web:1"),
    ]
}

/// The DaemonSet is deleted and orphans its pods and revisions. The next one of its name adopts
/// them, and creates and deletes none.
fn orphaned() -> Vec<Step> {
    let orphan = delete("daemonsets", "web", json!({"propagationPolicy": "Orphan"}));
    let is_orphan = |object: &Value| {
        object["metadata"]["ownerReferences"]
            .as_array()
            .is_none_or(Vec::is_empty)
    };
    let orphaned = Step::until("orphaned", move |state| {
        state.get("daemonsets", "default/web").is_none()
            && pods(state).all(is_orphan)
            && state.all("controllerrevisions").all(is_orphan)
    });
    vec![
        create(rolling(0, 1)),
        settled(3, "web:1"),
        until_caches_are_current(),
        orphan,
        orphaned,
        until_caches_are_current(),
        create(rolling(0, 1)),
        settled(3, "web:1"),
    ]
}

/// Old revisions beyond the limit are deleted.
fn history() -> Vec<Step> {
    let mut ds = agent(rolling(0, 1));
    ds["spec"]["revisionHistoryLimit"] = json!(1);
    let revisions = Step::until("two revisions", |state| {
        state.all("controllerrevisions").count() == 2
    });
    vec![
        Step::Create(ds),
        settled(3, "web:1"),
        image("web:2"),
        settled(3, "web:2"),
        image("web:3"),
        settled(3, "web:3"),
        revisions,
    ]
}

/// A pod without an owner on a node, with the labels of the selector.
fn loose(name: &str, node: &str) -> Value {
    let mut pod = template("web", "web:1");
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["metadata"]["name"] = json!(name);
    pod["spec"]["nodeName"] = json!(node);
    pod
}

/// The active pods with the label `app: web`.
fn pods(state: &State) -> impl Iterator<Item = &Value> {
    let all = state.all("pods");
    all.filter(|pod| is_active(pod) && pod["metadata"]["labels"]["app"] == "web")
}
