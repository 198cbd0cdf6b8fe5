//! Deployments: roll-outs whose pods take five minutes to terminate. Upstream:
//! `test/integration/deployment/deployment_test.go`.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::stage::{
    COUNTS_TERMINATING, LIMIT, Scene, counts, is_controlled_by, is_terminating, name, now,
};

/// Upstream's interval for all waits.
const INTERVAL: Duration = Duration::from_millis(100);

const ANNOTATION: &str = "deployment.kubernetes.io";

fn manifest(replicas: u32, strategy: Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "strategy": strategy,
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

/// The numbers of a status: all pods, updated, available, unavailable and terminating ones.
fn status(replicas: u32, updated: u32, available: u32, terminating: u32) -> Value {
    json!({
        "replicas": replicas, "updatedReplicas": updated, "readyReplicas": available,
        "availableReplicas": available, "unavailableReplicas": replicas - available,
        "terminatingReplicas": terminating,
    })
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// Whether the latest template runs everywhere. Upstream: `DeploymentComplete`.
fn is_complete(deployment: &Value) -> bool {
    let wanted = &deployment["spec"]["replicas"];
    let all = json!({"replicas": wanted, "updatedReplicas": wanted, "availableReplicas": wanted});
    let observed = deployment["status"]["observedGeneration"].as_i64();
    counts(deployment, &all) && observed >= deployment["metadata"]["generation"].as_i64()
}

/// The Deployment `web` in a namespace of its own.
struct RollOut {
    scene: Scene,
}

impl RollOut {
    async fn begin(namespace: &str, replicas: u32, strategy: Value) -> Self {
        let scene = Scene::begin(namespace).await;
        scene
            .create("deployments", &manifest(replicas, strategy))
            .await;
        let rollout = Self { scene };
        rollout.complete(Terminated::Stay).await;
        rollout
    }

    /// Waits for a status. An API server of a release without terminating pods in it has no such number.
    async fn until(&self, mut expected: Value) {
        if !self.scene.has(COUNTS_TERMINATING) {
            expected["terminatingReplicas"] = json!(0);
        }
        let holds = |deployment: &Value| counts(deployment, &expected);
        self.scene
            .until(("deployments", "web"), INTERVAL, holds)
            .await;
    }

    /// Makes updated pods ready until the Deployment is complete, one after the other, as upstream's
    /// tests do. Pods count too, because the status may be older than a deletion.
    async fn complete(&self, terminated: Terminated) {
        let started = Instant::now();
        loop {
            let ready = self.make_ready().await;
            let deployment = self.scene.get("deployments", "web").await;
            if is_complete(&deployment) && deployment["spec"]["replicas"] == ready {
                return;
            }
            assert!(started.elapsed() < LIMIT, "not complete: {deployment:#}");
            if terminated == Terminated::Go {
                self.remove_terminating().await;
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// Makes updated pods ready. Returns the number of those that were ready already and stay.
    async fn make_ready(&self) -> usize {
        let pods = self.scene.list("pods").await;
        let Some(set) = self.newest_set().await else {
            return 0;
        };
        let of_set = |pod: &&Value| is_controlled_by(pod, &set);
        let (ready, others): (Vec<_>, Vec<_>) =
            pods.iter().filter(of_set).partition(|pod| is_ready(pod));
        for pod in others {
            let mut ready = pod.clone();
            ready["status"] = json!({
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": now()}],
            });
            match self.scene.update_status("pods", &ready).await {
                Ok(_) => {}
                // The pod was deleted or changed since; the next pass decides anew.
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
                Err(error) => panic!("make pod {} ready: {error}", name(pod)),
            }
        }
        ready.iter().filter(|pod| !is_terminating(pod)).count()
    }

    async fn remove_terminating(&self) {
        let pods = self.scene.list("pods").await;
        for pod in pods.iter().filter(|pod| is_terminating(pod)) {
            self.scene.delete("pods", name(pod), 0).await;
        }
    }

    /// Begins the deletion of this number of pods of a ReplicaSet.
    async fn terminate(&self, set: &Value, count: usize) {
        let pods = self.scene.list("pods").await;
        let pods = pods.iter().filter(|pod| is_controlled_by(pod, set));
        for pod in pods.take(count) {
            self.scene.delete("pods", name(pod), 300).await;
        }
    }

    /// The ReplicaSet of the current template, which is the one with its environment.
    async fn newest_set(&self) -> Option<Value> {
        let deployment = self.scene.get("deployments", "web").await;
        let template = |object: &Value| object["spec"]["template"]["spec"]["containers"].clone();
        let mut sets = self.scene.list("replicasets").await;
        sets.retain(|set| template(set) == template(&deployment));
        sets.pop()
    }

    async fn begin_next_rollout(&self) {
        let change = |deployment: &mut Value| {
            deployment["spec"]["template"]["spec"]["containers"][0]["env"] =
                json!([{"name": "ROLLOUT", "value": "2"}]);
        };
        self.scene.update("deployments", "web", change).await;
    }

    async fn scale(&self, replicas: u32) {
        let change = |deployment: &mut Value| deployment["spec"]["replicas"] = json!(replicas);
        self.scene.update("deployments", "web", change).await;
    }

    /// Asserts the annotations about scaling, and the size if it is given.
    async fn assert_set(&self, set: &Value, revision: &str, size: Option<u32>) {
        let set = self.scene.get("replicasets", name(set)).await;
        let expected = json!({
            format!("{ANNOTATION}/desired-replicas"): "120",
            format!("{ANNOTATION}/max-replicas"): "140",
            format!("{ANNOTATION}/revision"): revision,
        });
        assert_eq!(set["metadata"]["annotations"], expected);
        if let Some(size) = size {
            assert_eq!(set["spec"]["replicas"], size);
        }
    }
}

/// Whether terminating pods end at once or stay for their grace period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Terminated {
    Go,
    Stay,
}

/// `TestRollingUpdateAndProportionalScalingForDeploymentPodReplacement`.
#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_pods_roll_out_and_scale_in_proportion_within_the_limit() {
    let limits = json!({"maxSurge": 20, "maxUnavailable": 0});
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": limits});
    let rollout = RollOut::begin("proportional", 100, strategy).await;
    let first = rollout.newest_set().await.unwrap();
    rollout.terminate(&first, 15).await;
    rollout.complete(Terminated::Stay).await;

    rollout.begin_next_rollout().await;
    rollout.until(status(120, 20, 100, 15)).await;
    let second = rollout.newest_set().await.unwrap();
    rollout.terminate(&second, 1).await;
    rollout.until(status(120, 20, 100, 16)).await;
    rollout.scale(120).await;
    rollout.until(status(140, 23, 100, 16)).await;
    rollout.assert_set(&first, "1", Some(117)).await;
    rollout.assert_set(&second, "2", Some(23)).await;

    rollout.complete(Terminated::Go).await;
    rollout.assert_set(&first, "1", None).await;
    rollout.assert_set(&second, "2", None).await;
}

/// `TestRecreateDeploymentForPodReplacement`.
#[tokio::test(flavor = "multi_thread")]
async fn a_recreated_deployment_waits_for_its_old_pods_and_replaces_new_ones() {
    let rollout = RollOut::begin("recreate", 6, json!({"type": "Recreate"})).await;
    let first = rollout.newest_set().await.unwrap();
    rollout.begin_next_rollout().await;
    let is_empty =
        |set: &Value| set["spec"]["replicas"] == 0 && counts(set, &json!({"replicas": 0}));
    let old = ("replicasets", name(&first));
    rollout.scene.until(old, INTERVAL, is_empty).await;
    rollout.until(status(0, 0, 0, 6)).await;
    assert_eq!(rollout.newest_set().await, None, "old pods still terminate");
    rollout.remove_terminating().await;
    rollout.until(status(6, 6, 0, 0)).await;

    let second = rollout.newest_set().await.unwrap();
    rollout.terminate(&second, 1).await;
    rollout.until(status(6, 6, 0, 1)).await;
    rollout.scale(7).await;
    rollout.until(status(7, 7, 0, 1)).await;
    rollout.scale(5).await;
    rollout.until(status(5, 5, 0, 3)).await;
    rollout.complete(Terminated::Stay).await;
    rollout.until(status(5, 5, 5, 3)).await;
    rollout.remove_terminating().await;
    rollout.until(status(5, 5, 5, 0)).await;
}
