//! Transcripts of the pod garbage collector.
//!
//! The controller starts in [`Recording::collect`], after the pods exist, so that the time of its
//! cycles is fixed.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_runtime::controller::ControllerContext;

use super::{Recording, Scenario, Steps, Suite, run, template};
use crate::podgc;

const SUITE: Suite = Suite {
    folder: "podgc",
    controllers: &[],
    client: "pod-garbage-collector",
};

const SCENARIOS: &[Scenario] = &[
    (
        "terminated",
        "there are more finished pods than the threshold",
        terminated,
    ),
    ("out-of-service", "a node is out of service", out_of_service),
    ("orphaned", "a node does not exist", orphaned),
    (
        "unscheduled",
        "a terminating pod was never bound to a node",
        unscheduled,
    ),
];

#[tokio::test(start_paused = true)]
async fn requests_of_the_pod_garbage_collector_equal_the_golden_files() {
    run(&SUITE, SCENARIOS).await;
}

fn pod(name: &str, node: &str) -> Value {
    let mut pod = template("one");
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["metadata"]["name"] = json!(name);
    if !node.is_empty() {
        pod["spec"]["nodeName"] = json!(node);
    }
    pod
}

fn node() -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node"}})
}

impl Recording {
    /// Starts the controller with a threshold for finished pods.
    async fn collect(&mut self, threshold: i32) {
        self.record("pods and nodes are created");
        let threshold = threshold.to_string();
        let configure = |context: ControllerContext| {
            context.with_flag("terminated-pod-gc-threshold", &threshold)
        };
        self.world
            .restart_with(&[podgc::DESCRIPTOR], configure)
            .await;
    }
}

fn terminated(mut s: Recording) -> Steps {
    Box::pin(async move {
        s.create(node()).await;
        for (name, phase) in [
            ("a", "Succeeded"),
            ("b", "Failed"),
            ("c", "Running"),
            ("d", "Succeeded"),
        ] {
            s.create(pod(name, "node")).await;
            s.world.pod_status(name, json!({"phase": phase})).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        s.collect(1).await;
        s.within("a cycle", Duration::from_secs(10)).await;
        s
    })
}

fn out_of_service(mut s: Recording) -> Steps {
    Box::pin(async move {
        s.create(node()).await;
        for name in ["a", "b", "c"] {
            s.create(pod(name, "node")).await;
        }
        s.world.pod_status("b", json!({"phase": "Succeeded"})).await;
        for name in ["a", "b"] {
            s.world.delete("pods", name).await;
        }
        s.collect(0).await;
        s.within("a cycle", Duration::from_secs(10)).await;
        let taint = json!([{"key": "node.kubernetes.io/out-of-service", "value": "down", "effect": "NoExecute"}]);
        s.world
            .cluster
            .patch("/api/v1/nodes/node", json!({"spec": {"taints": taint}}))
            .await
            .unwrap();
        s.within(
            "the node gets the out-of-service taint, and a cycle passes",
            Duration::from_secs(20),
        )
        .await;
        s
    })
}

fn orphaned(mut s: Recording) -> Steps {
    Box::pin(async move {
        for name in ["a", "b", "c", "d"] {
            s.create(pod(name, "gone")).await;
        }
        s.world.make_ready("b").await;
        s.world.pod_status("c", json!({"phase": "Failed"})).await;
        let kept = json!([{
            "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting",
            "lastTransitionTime": "2023-11-14T22:13:00Z",
        }]);
        s.world
            .pod_status("d", json!({"phase": "Running", "conditions": kept}))
            .await;
        s.collect(0).await;
        s.within(
            "the first two cycles, in which the node is in quarantine",
            Duration::from_secs(39),
        )
        .await;
        s.within("the next cycle", Duration::from_secs(10)).await;
        s
    })
}

fn unscheduled(mut s: Recording) -> Steps {
    Box::pin(async move {
        for (name, phase) in [("a", "Pending"), ("b", "Failed")] {
            let mut pod = pod(name, "");
            pod["metadata"]["finalizers"] = json!(["example.com/wait"]);
            s.create(pod).await;
            s.world.pod_status(name, json!({"phase": phase})).await;
            s.world.delete("pods", name).await;
        }
        s.collect(0).await;
        s.within("a cycle", Duration::from_secs(10)).await;
        s
    })
}
