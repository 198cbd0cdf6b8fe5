//! ReplicaSets: the replacement of a pod that terminates. Upstream: `TestTerminatingReplicas` in
//! `test/integration/replicaset/replicaset_test.go`.

use std::time::Duration;

use serde_json::{Value, json};

use super::stage::{COUNTS_TERMINATING, Scene, counts, is_terminating, name};
use crate::support::skip;

/// Upstream's interval.
const INTERVAL: Duration = Duration::from_millis(100);
/// The number of pods.
const REPLICAS: usize = 5;

fn manifest() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"},
        "spec": {
            "replicas": REPLICAS,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {
                    "nodeName": "no-such-node", "terminationGracePeriodSeconds": 300,
                    "containers": [{"name": "main", "image": "i"}],
                },
            },
        },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_that_counts_a_terminating_pod_comes_after_its_replacement() {
    let scene = Scene::begin("terminating").await;
    if !scene.has(COUNTS_TERMINATING) {
        skip("this release of Kubernetes counts no terminating pods");
        return;
    }
    scene.create("replicasets", &manifest()).await;
    let has = |expected: Value| {
        let holds = move |set: &Value| counts(set, &expected);
        scene.until(("replicasets", "web"), INTERVAL, holds)
    };
    has(json!({"replicas": REPLICAS, "terminatingReplicas": 0})).await;
    let pods = scene.list("pods").await;
    assert_eq!(pods.len(), REPLICAS);
    for (terminating, pod) in pods.iter().enumerate() {
        scene.delete("pods", name(pod), 300).await;
        has(json!({"replicas": REPLICAS, "terminatingReplicas": terminating + 1})).await;
        let now = scene.list("pods").await;
        let active = now.iter().filter(|pod| !is_terminating(pod)).count();
        assert_eq!(active, REPLICAS, "after pod {terminating}: {now:#?}");
    }
    for (gone, pod) in pods.iter().enumerate() {
        scene.delete("pods", name(pod), 0).await;
        let left = pods.len() - gone - 1;
        has(json!({"replicas": REPLICAS, "terminatingReplicas": left})).await;
    }
    assert_eq!(scene.list("pods").await.len(), REPLICAS);
}
