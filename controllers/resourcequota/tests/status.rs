//! Upstream's `TestSyncResourceQuota`: the status that one sync writes.

use serde_json::{Value, json};
use steersman_devcluster::faults::{self, Matcher};

use super::*;

/// A pod that upstream's tests create.
fn counted_pod(name: &str, cpu: &str, memory: &str, class: &str) -> Value {
    let resources = json!({"requests": {"cpu": cpu, "memory": memory}});
    let container = json!({"name": "c", "image": "i", "resources": resources});
    let spec = json!({"containers": [container], "priorityClassName": class});
    object(
        "v1",
        "Pod",
        name,
        json!({"spec": spec, "status": {"phase": "Running"}}),
    )
}

fn best_effort_pod(name: &str) -> Value {
    let spec = json!({"containers": [{"name": "c", "image": "i"}]});
    object(
        "v1",
        "Pod",
        name,
        json!({"spec": spec, "status": {"phase": "Running"}}),
    )
}

/// A pod that has failed.
fn failed_pod() -> Value {
    let mut failed = counted_pod("failed", "100m", "1Gi", "");
    failed["status"]["phase"] = json!("Failed");
    failed
}

fn used(cpu: &str, memory: &str, pods: &str) -> Value {
    json!({"cpu": cpu, "memory": memory, "pods": pods})
}

/// `scopeSelector` with one requirement on the priority class.
fn class(operator: &str, values: &[&str]) -> Value {
    let mut requirement = json!({"scopeName": "PriorityClass", "operator": operator});
    if !values.is_empty() {
        requirement["values"] = json!(values);
    }
    json!({"scopeSelector": {"matchExpressions": [requirement]}})
}

/// The usage that the controller writes for a quota of CPU, memory and pods.
async fn counted(objects: Vec<Value>, scopes: Value) -> Value {
    let mut world = bare().await;
    for object in objects {
        world.cluster.load(object).unwrap();
    }
    let mut spec = json!({"hard": {"cpu": "3", "memory": "100Gi", "pods": "5"}});
    for (field, value) in scopes.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    world.cluster.load(quota_of(spec)).unwrap();
    world.restart(&[DESCRIPTOR]).await;
    world
        .until("a count", |_| world.used() != Value::Null)
        .await;
    assert_eq!(world.counts(), ["200"]);
    world.used()
}

#[tokio::test(start_paused = true)]
async fn sync_resource_quota() {
    let running = |class: &str| {
        vec![
            counted_pod("pod-running", "100m", "1Gi", class),
            counted_pod("pod-running-2", "100m", "1Gi", class),
            failed_pod(),
        ]
    };
    let best_effort = || vec![best_effort_pod("a"), best_effort_pod("b")];
    let two_classes = || {
        vec![
            counted_pod("high", "500m", "50Gi", "high"),
            counted_pod("low", "100m", "1Gi", "low"),
        ]
    };
    let none = || used("0", "0", "0");
    let plain = || json!({});
    let two = || used("200m", "2Gi", "2");
    let both = || used("600m", "51Gi", "2");
    let high = || used("500m", "50Gi", "1");
    let low = || used("100m", "1Gi", "1");
    let in_best_effort = || json!({"scopes": ["BestEffort"]});
    // (case, objects, scopes, usage)
    let cases = [
        (
            "non-matching-best-effort-scoped-quota",
            running(""),
            in_best_effort(),
            none(),
        ),
        (
            "matching-best-effort-scoped-quota",
            best_effort(),
            in_best_effort(),
            used("0", "0", "2"),
        ),
        (
            "non-matching-priorityclass-scoped-quota-OpExists",
            running(""),
            class("Exists", &[]),
            none(),
        ),
        (
            "matching-priorityclass-scoped-quota-OpExists",
            two_classes(),
            class("Exists", &[]),
            both(),
        ),
        (
            "matching-priorityclass-scoped-quota-OpIn",
            two_classes(),
            class("In", &["low", "high"]),
            both(),
        ),
        (
            "matching-priorityclass-scoped-quota-OpIn-high",
            two_classes(),
            class("In", &["high"]),
            high(),
        ),
        (
            "matching-priorityclass-scoped-quota-OpIn-low",
            two_classes(),
            class("In", &["low"]),
            low(),
        ),
        (
            "matching-priorityclass-scoped-quota-OpNotIn-low",
            two_classes(),
            class("NotIn", &["high"]),
            low(),
        ),
        (
            "non-matching-priorityclass-scoped-quota-OpIn",
            two_classes(),
            class("In", &["random"]),
            none(),
        ),
        (
            "non-matching-priorityclass-scoped-quota-OpNotIn",
            running(""),
            class("NotIn", &["random"]),
            two(),
        ),
        (
            "matching-priorityclass-scoped-quota-OpDoesNotExist",
            running(""),
            class("DoesNotExist", &[]),
            two(),
        ),
        ("pods", running(""), plain(), two()),
    ];
    for (case, objects, scopes, expected) in cases {
        assert_eq!(counted(objects, scopes).await, expected, "{case}");
    }
}

/// The cases `quota-spec-hard-updated` and `quota-unchanged`.
#[tokio::test(start_paused = true)]
async fn sync_resource_quota_with_a_status() {
    // (limit in the status, writes)
    for (hard, writes) in [("3", 1), ("4", 0)] {
        let mut world = bare().await;
        let mut quota = quota(json!({"cpu": "4"}));
        quota["status"] = json!({"hard": {"cpu": hard}, "used": {"cpu": "0"}});
        world.cluster.load(quota).unwrap();
        world.restart(&[DESCRIPTOR]).await;
        tokio::time::sleep(SOON).await;
        let status = world.find("resourcequotas", "q").unwrap()["status"].clone();
        assert_eq!(status, json!({"hard": {"cpu": "4"}, "used": {"cpu": "0"}}));
        assert_eq!(world.counts().len(), writes, "limit {hard}");
    }
}

/// The cases `quota-missing-status-with-calculation-error` and
/// `quota-missing-status-with-partial-calculation-error`.
#[tokio::test(start_paused = true)]
async fn sync_resource_quota_with_a_calculation_error() {
    // (limits, usage)
    let cases = [
        (json!({"secrets": "1"}), Value::Null),
        (
            json!({"secrets": "1", "configmaps": "1"}),
            json!({"configmaps": "0"}),
        ),
    ];
    for (hard, used) in cases {
        let mut world = bare().await;
        for verb in ["list", "watch"] {
            let secrets = Matcher::new(verb, "secrets");
            world
                .cluster
                .faults()
                .reject(secrets, faults::internal_error(), None);
        }
        world.cluster.load(quota(hard.clone())).unwrap();
        world.restart(&[DESCRIPTOR]).await;
        world
            .until("limits", |_| {
                world.find("resourcequotas", "q").unwrap()["status"]["hard"] == hard
            })
            .await;
        assert_eq!(world.used(), used);
    }
}
