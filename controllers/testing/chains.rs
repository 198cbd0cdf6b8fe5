//! The virtual time of chains of steps, at API servers of several speeds.
//!
//! Each request takes the latency of the server and nothing else takes time, so the time of an effect
//! tells how many requests precede it. A controller that waits longer than for its requests fails
//! here; see docs/decisions/0011.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_devcluster::Admission;
use steersman_runtime::controller::Descriptor;
use tokio::time::Instant;

use super::world::World;
use crate::{
    daemonset, deployment, disruption, endpoint, endpointslice, replicaset, replicationcontroller,
    resourcequota, statefulset,
};

/// Latencies of a server nearby, a busy one, one far away, and one in trouble, in milliseconds.
const LATENCIES: [u64; 4] = [2, 10, 50, 200];

/// A server that answers after `latency` milliseconds, with these controllers.
async fn world_at(latency: u64, controllers: &[Descriptor]) -> World {
    let world = World::bare().await;
    let mut world = world.with_latency(Duration::from_millis(latency));
    world.restart(controllers).await;
    world
}

/// An object with one pod of the label `app: web` in its template.
fn workload(api_version: &str, kind: &str, spec: Value) -> Value {
    let containers = json!([{"name": "main", "image": "one"}]);
    let template =
        json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": containers}});
    let mut object = json!({
        "apiVersion": api_version, "kind": kind, "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template},
    });
    let fields = spec.as_object().expect("a spec is an object").clone();
    object["spec"]
        .as_object_mut()
        .expect("it is one")
        .extend(fields);
    object
}

fn deployment(replicas: u64, strategy: Value) -> Value {
    let spec = json!({"replicas": replicas, "strategy": strategy});
    workload("apps/v1", "Deployment", spec)
}

fn plain_pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {"nodeName": "node", "containers": [{"name": "main", "image": "one"}]},
    })
}

impl World {
    /// Makes all pods ready that are not.
    async fn all_get_ready(&self) {
        for pod in self.cluster.objects("pods") {
            if pod["status"]["phase"] != "Running" {
                let name = pod["metadata"]["name"].as_str();
                self.make_ready(name.expect("pods have names")).await;
            }
        }
    }

    /// Makes each pod ready within a millisecond of its creation, until the Deployment `web` is
    /// complete. Returns the time that this took.
    async fn roll_out(&self, cause: Instant) -> Duration {
        loop {
            self.all_get_ready().await;
            let d = &self.cluster.objects("deployments")[0];
            let observed = d["status"]["observedGeneration"] == d["metadata"]["generation"];
            let counts = ["replicas", "updatedReplicas", "availableReplicas"];
            let all = |field: &&str| d["status"][field] == d["spec"]["replicas"];
            if observed && counts.iter().all(all) {
                return cause.elapsed();
            }
            assert!(cause.elapsed() < Duration::from_secs(600), "{d:#}");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn each_owner_shows_a_ready_pod_after_one_request() {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node"}});
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
    });
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    });
    let mut rc = workload("v1", "ReplicationController", json!({"replicas": 1}));
    rc["spec"]["selector"] = json!({"app": "web"});
    let both = [deployment::DESCRIPTOR, replicaset::DESCRIPTOR];
    // (controllers, objects, writes after the pod gets ready: number of requests, and the write)
    type Case<'a> = (&'a [Descriptor], Vec<Value>, &'a [(u64, &'a str)]);
    let cases: [Case<'_>; 8] = [
        (
            &[replicaset::DESCRIPTOR],
            vec![workload("apps/v1", "ReplicaSet", json!({"replicas": 1}))],
            &[(1, "update replicasets/status")],
        ),
        (
            &[replicationcontroller::DESCRIPTOR],
            vec![rc],
            &[(1, "update replicationcontrollers/status")],
        ),
        (
            &both,
            vec![deployment(1, json!({}))],
            &[
                (1, "update replicasets/status"),
                (2, "update deployments/status"),
            ],
        ),
        (
            &[statefulset::DESCRIPTOR],
            vec![workload(
                "apps/v1",
                "StatefulSet",
                json!({"replicas": 1, "serviceName": ""}),
            )],
            &[(1, "update statefulsets/status")],
        ),
        (
            &[daemonset::DESCRIPTOR],
            vec![node.clone(), workload("apps/v1", "DaemonSet", json!({}))],
            &[(1, "update daemonsets/status")],
        ),
        (
            &[endpoint::DESCRIPTOR],
            vec![service.clone(), plain_pod()],
            &[(1, "update endpoints")],
        ),
        (
            &[endpointslice::DESCRIPTOR],
            vec![node, service, plain_pod()],
            &[(1, "update endpointslices")],
        ),
        (
            &[disruption::DESCRIPTOR],
            vec![budget, plain_pod()],
            &[(1, "update poddisruptionbudgets/status")],
        ),
    ];
    for (controllers, objects, chain) in cases {
        for latency in LATENCIES {
            let world = world_at(latency, controllers).await;
            for object in &objects {
                world.create(object.clone()).await;
            }
            world.at_rest().await;
            // Endpoints have pods with addresses only.
            for pod in world.cluster.objects("pods") {
                let name = pod["metadata"]["name"].as_str().expect("pods have names");
                let address = json!({"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]});
                world.pod_status(name, address).await;
            }
            world.at_rest().await;
            let cause = Instant::now();
            world.all_get_ready().await;
            world.at_rest().await;
            let expected: Vec<String> = chain
                .iter()
                .map(|(requests, write)| format!("{} ms: {write}", requests * latency))
                .collect();
            assert_eq!(world.writes_since(cause), expected);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_quota_shows_a_deleted_pod_after_one_request() {
    for latency in LATENCIES {
        let admission = Admission {
            quota_controller: true,
            ..Admission::default()
        };
        let world = World::with_admission(admission).await;
        let mut world = world.with_latency(Duration::from_millis(latency));
        world.restart(&[resourcequota::DESCRIPTOR]).await;
        let quota = json!({
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "web"},
            "spec": {"hard": {"pods": "5"}},
        });
        world.create(quota).await;
        world.create(plain_pod()).await;
        world.a_minute().await;
        world.kill("web").await;
        let cause = Instant::now();
        world.at_rest().await;
        assert_eq!(
            world.writes_since(cause),
            [format!("{latency} ms: update resourcequotas/status")]
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_roll_out_takes_as_long_as_its_requests() {
    let rolling = |surge: Value, unavailable: Value| json!({"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}});
    // (strategy, requests one after the other for six pods)
    let cases = [
        (rolling(json!(0), json!(1)), 38),
        (rolling(json!(1), json!(0)), 39),
        (rolling(json!("25%"), json!("25%")), 22),
        (json!({"type": "Recreate"}), 11),
    ];
    let both = [deployment::DESCRIPTOR, replicaset::DESCRIPTOR];
    for (strategy, requests) in cases {
        // Pods get ready a millisecond late, so a short latency would count them as requests.
        for latency in [50, 200] {
            let world = world_at(latency, &both).await;
            world.create(deployment(6, strategy.clone())).await;
            world.roll_out(Instant::now()).await;
            world.at_rest().await;
            let cause = Instant::now();
            let containers = json!([{"name": "main", "image": "two"}]);
            let template = json!({"spec": {"template": {"spec": {"containers": containers}}}});
            world.patch("deployments", "web", template).await;
            let took = u64::try_from(world.roll_out(cause).await.as_millis());
            let took = took.expect("a roll-out takes less than a century") / latency;
            let writes = world.writes_since(cause);
            assert_eq!(took, requests, "{strategy}, {latency} ms: {writes:#?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_size_and_a_lost_pod_lead_to_a_pod_after_as_many_requests_as_steps() {
    let both = [deployment::DESCRIPTOR, replicaset::DESCRIPTOR];
    for latency in LATENCIES {
        let world = world_at(latency, &both).await;
        let created = Instant::now();
        world.create(deployment(2, json!({}))).await;
        world.roll_out(created).await;
        let first = |writes: Vec<String>, write: &str| {
            let found = writes.iter().find(|entry| entry.contains(write));
            found
                .unwrap_or_else(|| panic!("no {write}: {writes:#?}"))
                .clone()
        };
        let posted = first(world.writes_since(created), "create pods");
        assert_eq!(
            posted,
            format!("{} ms: create pods", 2 * latency),
            "created"
        );
        world.at_rest().await;

        let scaled = Instant::now();
        world
            .patch("deployments", "web", json!({"spec": {"replicas": 3}}))
            .await;
        world.roll_out(scaled).await;
        let posted = first(world.writes_since(scaled), "create pods");
        assert_eq!(posted, format!("{} ms: create pods", 2 * latency), "scaled");
        world.at_rest().await;

        let pod = world.cluster.objects("pods")[0]["metadata"]["name"].clone();
        world.kill(pod.as_str().expect("pods have names")).await;
        let lost = Instant::now();
        world.at_rest().await;
        let posted = first(world.writes_since(lost), "create pods");
        assert_eq!(posted, format!("{latency} ms: create pods"), "lost");
    }
}
