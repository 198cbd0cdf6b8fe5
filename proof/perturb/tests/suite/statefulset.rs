//! Scenarios of the StatefulSet controller.

use serde_json::{Value, json};
use steersman_controllers::{garbagecollector, statefulset};
use steersman_perturb::rules::{
    CLAIMS_STAY, ONE_POD_PER_ORDINAL, ORDERED_CREATION, ORDERED_DELETION, is_ready, is_terminating,
};
use steersman_perturb::{Scenario, Step};

use crate::objects::{BLANK, count, patch, template};

const BASE: Scenario = Scenario {
    controller: "statefulset",
    controllers: &[statefulset::DESCRIPTOR],
    nodes: 2,
    rules: &[
        ONE_POD_PER_ORDINAL,
        ORDERED_CREATION,
        ORDERED_DELETION,
        CLAIMS_STAY,
    ],
    ..BLANK
};

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "create",
            steps: || vec![Step::Create(with_claims(set(3))), settled(0, 3, "web:1")],
            ..BASE
        },
        Scenario {
            name: "parallel",
            steps: || {
                vec![
                    Step::Create(parallel(with_claims(set(8)))),
                    settled(0, 8, "web:1"),
                ]
            },
            ..BASE
        },
        Scenario {
            name: "scale",
            steps: scale,
            ..BASE
        },
        Scenario {
            name: "rollout",
            steps: || rollout(set(3)),
            ..BASE
        },
        Scenario {
            name: "parallel-rollout",
            steps: || rollout(parallel(set(4))),
            ..BASE
        },
        Scenario {
            name: "rollback",
            steps: rollback,
            ..BASE
        },
        Scenario {
            name: "partition",
            steps: partition,
            ..BASE
        },
        Scenario {
            name: "retention",
            controllers: &[statefulset::DESCRIPTOR, garbagecollector::DESCRIPTOR],
            steps: retention,
            ..BASE
        },
        Scenario {
            name: "adopt",
            steps: adopt,
            ..BASE
        },
    ]
}

/// An ordered set `web`.
fn set(replicas: usize) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web"},
        "spec": {"replicas": replicas, "serviceName": "web", "selector": {"matchLabels": {"app": "web"}},
            "template": template("web", "web:1")},
    })
}

fn parallel(mut set: Value) -> Value {
    set["spec"]["podManagementPolicy"] = json!("Parallel");
    set
}

fn with_claims(mut set: Value) -> Value {
    let spec =
        json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    set["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}, "spec": spec}]);
    set
}

fn change(spec: Value) -> Step {
    patch("statefulsets", "web", json!({ "spec": spec }))
}

fn roll_to(image: &str) -> Step {
    change(json!({ "template": template("web", image) }))
}

fn image(pod: &Value) -> &str {
    pod["spec"]["containers"][0]["image"]
        .as_str()
        .unwrap_or_default()
}

/// Waits until the pods from ordinal `start` are ready with this image, and the status shows it.
fn settled(start: usize, replicas: usize, wanted: &'static str) -> Step {
    Step::until("settled", move |state| {
        let Some(set) = state.get("statefulsets", "default/web") else {
            return false;
        };
        let status = &set["status"];
        let is_counted = ["replicas", "readyReplicas", "updatedReplicas"]
            .iter()
            .all(|field| status[field].as_u64().unwrap_or(0) == replicas as u64);
        let is_there = |n: usize| {
            let pod = state.get("pods", &format!("default/web-{n}"));
            pod.is_some_and(|pod| is_ready(pod) && !is_terminating(pod) && image(pod) == wanted)
        };
        is_counted
            && status["observedGeneration"] == set["metadata"]["generation"]
            && status["currentRevision"] == status["updateRevision"]
            && count(state, "pods") == replicas
            && (start..start + replicas).all(is_there)
    })
}

fn scale() -> Vec<Step> {
    let to = |replicas: usize| change(json!({ "replicas": replicas }));
    vec![
        Step::Create(with_claims(set(2))),
        settled(0, 2, "web:1"),
        to(4),
        settled(0, 4, "web:1"),
        to(1),
        settled(0, 1, "web:1"),
        to(0),
        settled(0, 0, "web:1"),
    ]
}

fn rollout(set: Value) -> Vec<Step> {
    let replicas = usize::try_from(set["spec"]["replicas"].as_u64().unwrap_or(0)).unwrap_or(0);
    vec![
        Step::Create(set),
        settled(0, replicas, "web:1"),
        roll_to("web:2"),
        settled(0, replicas, "web:2"),
    ]
}

fn rollback() -> Vec<Step> {
    let mut steps = rollout(set(2));
    steps.extend([roll_to("web:1"), settled(0, 2, "web:1")]);
    steps
}

/// A partition holds the first two pods back until it is lifted. The set starts at ordinal 5.
fn partition() -> Vec<Step> {
    let strategy = |partition: usize| json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}}});
    let mut set = set(3);
    set["spec"]["ordinals"] = json!({"start": 5});
    set["spec"]["updateStrategy"] = strategy(2)["updateStrategy"].clone();
    let held_back = Step::until("only the last pod is updated", |state| {
        let images = ["5", "6", "7"].map(|n| {
            let pod = state.get("pods", &format!("default/web-{n}"));
            pod.filter(|pod| is_ready(pod)).map(image)
        });
        let status = state
            .get("statefulsets", "default/web")
            .map(|set| &set["status"]);
        images == [Some("web:1"), Some("web:1"), Some("web:2")]
            && status.is_some_and(|s| s["readyReplicas"] == 3 && s["updatedReplicas"] == 1)
    });
    vec![
        Step::Create(set),
        settled(5, 3, "web:1"),
        roll_to("web:2"),
        held_back,
        change(strategy(0)),
        settled(5, 3, "web:2"),
    ]
}

/// A scale-down deletes the claims of its pods, and a scale-up creates them again.
fn retention() -> Vec<Step> {
    let mut set = with_claims(set(3));
    set["spec"]["persistentVolumeClaimRetentionPolicy"] =
        json!({"whenDeleted": "Delete", "whenScaled": "Delete"});
    let claims = |number: usize| {
        Step::until("the claims are deleted", move |state| {
            count(state, "persistentvolumeclaims") == number
        })
    };
    vec![
        Step::Create(set),
        settled(0, 3, "web:1"),
        change(json!({"replicas": 1})),
        settled(0, 1, "web:1"),
        claims(1),
        change(json!({"replicas": 2})),
        settled(0, 2, "web:1"),
    ]
}

/// The set adopts an orphan with the name of its first pod. The orphan has no revision, so a rolling
/// update replaces it.
fn adopt() -> Vec<Step> {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-0", "labels": {"app": "web"}},
        "spec": template("web", "web:1")["spec"],
    });
    vec![
        Step::Create(pod),
        Step::Create(set(2)),
        settled(0, 2, "web:1"),
    ]
}
