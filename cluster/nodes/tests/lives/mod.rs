//! Lives of simulated pods, from creation to removal, under paused time.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use steersman_devcluster::DevCluster;
use steersman_devcluster::nodes::{NodesConfig, Stages};

mod devices;
mod endings;
mod join;
mod nodes;
mod placement;
mod resize;
mod starts;
mod volumes;

const PATH: &str = "/api/v1/namespaces/default/pods/p";

async fn cluster(table: &str) -> DevCluster {
    let stages = Stages::with(table).unwrap();
    DevCluster::builder()
        .simulated_nodes(NodesConfig {
            count: 1,
            stages,
            ..NodesConfig::default()
        })
        .start()
        .await
        .unwrap()
}

fn pod(app: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"app": app}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}
    })
}

/// Waits for the only pod to fulfil `is_met`, and returns it.
async fn wait(cluster: &DevCluster, is_met: impl Fn(&Value) -> bool) -> Value {
    let pods = cluster
        .wait_for("pods", Duration::from_secs(600), |pods| {
            pods.first().is_some_and(&is_met)
        })
        .await
        .unwrap();
    pods[0].clone()
}

/// Status and reason of a condition.
fn condition(pod: &Value, kind: &str) -> (String, String) {
    let conditions = pod["status"]["conditions"].as_array().unwrap();
    let found = conditions.iter().find(|c| c["type"] == kind).unwrap();
    let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
    (text("status"), text("reason"))
}

/// Whole seconds from now until the pod is running.
async fn seconds_until_running(cluster: &DevCluster) -> f64 {
    let began = Instant::now();
    cluster
        .wait_for("pods", Duration::from_secs(600), |pods| {
            pods[0]["status"]["phase"] == "Running"
        })
        .await
        .unwrap();
    began.elapsed().as_secs_f64().floor()
}

#[tokio::test(start_paused = true)]
async fn the_delay_of_a_left_stage_has_no_effect() {
    let cluster = cluster(
        "stages:\n- {name: a, state: pending, selector: {app: a}, after: 60s, then: running}\n\
         - {name: b, state: pending, selector: {app: b}, after: 100s, then: running}\n",
    )
    .await;
    // (event after 50 seconds, seconds from then until the pod runs)
    let cases = [
        ("nothing", 10.0),
        ("other label", 100.0),
        ("created again", 60.0),
    ];
    for (event, expected) in cases {
        cluster.create(pod("a")).await.unwrap();
        sleep_until(Instant::now() + Duration::from_secs(50)).await;
        match event {
            "other label" => drop(
                cluster
                    .patch(PATH, json!({"metadata": {"labels": {"app": "b"}}}))
                    .await
                    .unwrap(),
            ),
            "created again" => {
                cluster
                    .delete_with(PATH, json!({"gracePeriodSeconds": 0}))
                    .await
                    .unwrap();
                cluster.create(pod("a")).await.unwrap();
            }
            _ => {}
        }
        assert_eq!(seconds_until_running(&cluster).await, expected, "{event}");
        cluster
            .delete_with(PATH, json!({"gracePeriodSeconds": 0}))
            .await
            .unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn readiness_does_not_change_the_start_time_of_a_container() {
    let cluster = cluster("stages: [{name: slow, state: running, after: 30s, then: ready}]").await;
    cluster.create(pod("a")).await.unwrap();
    let ready = |pods: &[Value]| pods[0]["status"]["containerStatuses"][0]["ready"] == true;
    let pods = cluster
        .wait_for("pods", Duration::from_secs(600), ready)
        .await
        .unwrap();
    let status = &pods[0]["status"];
    assert_eq!(
        status["containerStatuses"][0]["state"]["running"]["startedAt"],
        status["startTime"]
    );
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_missing_node_wait_for_the_node() {
    let cluster = cluster("stages: []").await;
    let bound = |name: &str, node: &str| {
        let mut pod = pod("a");
        pod["metadata"]["name"] = json!(name);
        pod["spec"]["nodeName"] = json!(node);
        pod
    };
    cluster.create(bound("p", "elsewhere")).await.unwrap();
    cluster.create(bound("q", "node-0")).await.unwrap();
    let phase = |pods: &[Value], name: &str| {
        pods.iter()
            .find(|pod| pod["metadata"]["name"] == name)
            .map(|pod| pod["status"]["phase"].clone())
            .unwrap_or_default()
    };
    let limit = Duration::from_secs(600);
    let pods = cluster
        .wait_for("pods", limit, |pods| phase(pods, "q") == "Running")
        .await
        .unwrap();
    assert_eq!(phase(&pods, "p"), "Pending");
    cluster
        .create(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "elsewhere"}}))
        .await
        .unwrap();
    cluster
        .wait_for("pods", limit, |pods| phase(pods, "p") == "Running")
        .await
        .unwrap();
    cluster.delete("/api/v1/nodes/elsewhere").await.unwrap();
    cluster.delete(PATH).await.unwrap();
    cluster
        .delete(&cluster.path("pods", "default", "q"))
        .await
        .unwrap();
    let pods = cluster
        .wait_for("pods", limit, |pods| phase(pods, "q").is_null())
        .await
        .unwrap();
    assert_eq!(
        phase(&pods, "p"),
        "Running",
        "a pod of a deleted node keeps running: {pods:#?}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_ephemeral_container_starts_and_the_others_keep_their_status() {
    let cluster = cluster("stages: []").await;
    cluster.create(pod("a")).await.unwrap();
    let ready = |pods: &[Value]| pods[0]["status"]["containerStatuses"][0]["ready"] == true;
    cluster
        .wait_for("pods", Duration::from_secs(600), ready)
        .await
        .unwrap();
    let mut names = Vec::new();
    for name in ["first", "second"] {
        sleep_until(Instant::now() + Duration::from_secs(10)).await;
        names.push(json!({"name": name, "image": "i"}));
        let added = json!({"spec": {"ephemeralContainers": names}});
        cluster
            .patch(&format!("{PATH}/ephemeralcontainers"), added)
            .await
            .unwrap();
        let started = |pods: &[Value]| {
            let statuses = pods[0]["status"]["ephemeralContainerStatuses"].as_array();
            statuses.is_some_and(|statuses| {
                statuses.len() == names.len()
                    && statuses
                        .iter()
                        .all(|one| one["state"]["running"].is_object())
            })
        };
        let pods = cluster
            .wait_for("pods", Duration::from_secs(600), started)
            .await
            .unwrap();
        assert!(ready(&pods), "{}", pods[0]["status"]);
    }
    let status = &cluster.objects("pods")[0]["status"];
    let start = |index: usize| {
        status["ephemeralContainerStatuses"][index]["state"]["running"]["startedAt"].clone()
    };
    assert!(
        start(0).as_str() < start(1).as_str() && start(0).is_string(),
        "{status}"
    );
}

/// A cluster with a simulated node that reports Events.
async fn with_events() -> DevCluster {
    DevCluster::builder()
        .simulated_nodes(NodesConfig {
            count: 1,
            events: true,
            ..NodesConfig::default()
        })
        .start()
        .await
        .unwrap()
}
