//! The loss of a zone under paused time: the table of the tour, second by second.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_devcluster::nodes::{Latency, NodesConfig};
use steersman_devcluster::{Admission, DevCluster};
use tokio::time::Instant;

use crate::docs::keep_part;

/// A cluster as that of `steersman dev --nodes 9 --zones 3`, with fast pods.
async fn cluster() -> DevCluster {
    let nodes = NodesConfig {
        count: 9,
        zones: 3,
        latency: Latency::total(Duration::ZERO),
        ..NodesConfig::default()
    };
    let builder = DevCluster::builder()
        .admission(Admission::FULL)
        .simulated_nodes(nodes)
        .controllers(steersman_controllers::ALL);
    let cluster = builder.start().await.unwrap();
    let untainted = |nodes: &[Value]| nodes.iter().all(|node| node["spec"]["taints"].is_null());
    let limit = Duration::from_secs(60);
    cluster.wait_for("nodes", limit, untainted).await.unwrap();
    let template = json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "web:1"}]},
    });
    let objects = [
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
            "spec": {"replicas": 9, "selector": {"matchLabels": {"app": "web"}}, "template": template},
        }),
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
            "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
        }),
    ];
    cluster.create_all(objects).await.unwrap();
    cluster
}

async fn behave(cluster: &DevCluster, behaviour: Value) {
    for node in cluster.objects("nodes") {
        if node["metadata"]["labels"]["topology.kubernetes.io/zone"] == "b" {
            let path = format!(
                "/api/v1/nodes/{}",
                node["metadata"]["name"].as_str().unwrap()
            );
            let annotation = json!({"simulate.steersman.dev/behaviour": behaviour});
            let change = json!({"metadata": {"annotations": annotation}});
            cluster.patch(&path, change).await.unwrap();
        }
    }
}

fn count(objects: &[Value], holds: impl Fn(&Value) -> bool) -> usize {
    objects.iter().filter(|object| holds(object)).count()
}

fn items<'a>(object: &'a Value, path: &str) -> impl Iterator<Item = &'a Value> {
    object
        .pointer(path)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

/// The columns of the table: nodes that are not ready, their two taints, ready endpoints, pods that
/// terminate.
fn state(cluster: &DevCluster) -> [usize; 5] {
    let nodes = cluster.objects("nodes");
    let pods = cluster.objects("pods");
    let slices = cluster.objects("endpointslices");
    let endpoints: Vec<Value> = slices
        .iter()
        .filter(|slice| slice["metadata"]["labels"]["kubernetes.io/service-name"] == "web")
        .flat_map(|slice| items(slice, "/endpoints").cloned())
        .collect();
    let is_ready = |node: &Value| {
        items(node, "/status/conditions").any(|c| c["type"] == "Ready" && c["status"] == "True")
    };
    let tainted = |effect: &str| {
        let is_it = |taint: &Value| {
            taint["key"] == "node.kubernetes.io/unreachable" && taint["effect"] == effect
        };
        count(&nodes, |node| items(node, "/spec/taints").any(is_it))
    };
    [
        count(&nodes, |node| !is_ready(node)),
        tainted("NoSchedule"),
        tainted("NoExecute"),
        count(&endpoints, |endpoint| {
            endpoint["conditions"]["ready"] == true
        }),
        count(&pods, |pod| {
            pod["metadata"]["deletionTimestamp"].is_string()
        }),
    ]
}

/// The rows of the table: the state after each second in which it has changed.
async fn rows(cluster: &DevCluster, from: Instant, seconds: u64) -> Vec<(u64, [usize; 5])> {
    let mut rows: Vec<(u64, [usize; 5])> = Vec::new();
    let begin = from.elapsed().as_secs();
    for second in begin..=begin + seconds {
        tokio::time::sleep_until(from + Duration::from_secs(second)).await;
        let now = state(cluster);
        if rows.last().is_none_or(|(_, before)| *before != now) {
            rows.push((second, now));
        }
    }
    rows
}

fn table(rows: &[(u64, [usize; 5])]) -> String {
    let mut table = "| time | nodes `NotReady` | taint `NoSchedule` | taint `NoExecute` | ready \
                     endpoints | pods `Terminating` |\n|---|---|---|---|---|---|\n"
        .to_owned();
    for (second, cells) in rows {
        let cells = cells.map(|cell| cell.to_string()).join(" | ");
        table += &format!("| {}:{:02} | {cells} |\n", second / 60, second % 60);
    }
    table
}

#[tokio::test(start_paused = true)]
async fn a_lost_zone_is_evicted_and_comes_back_as_the_tour_shows() {
    let cluster = cluster().await;
    // The annotation comes in the middle of a second of the monitor and the heartbeats.
    tokio::time::sleep(Duration::from_millis(60_500)).await;
    assert_eq!(state(&cluster), [0, 0, 0, 9, 0]);
    let lost = Instant::now();
    behave(&cluster, json!("dead")).await;
    let mut found = rows(&cluster, lost, 600).await;
    behave(&cluster, Value::Null).await;
    found.extend(rows(&cluster, lost, 60).await.into_iter().skip(1));
    assert_eq!(found.last().map(|row| row.1), Some([0, 0, 0, 9, 0]));
    let healthy = ["node-0", "node-2", "node-3", "node-5", "node-6", "node-8"];
    let is_healthy = |pod: &Value| healthy.iter().any(|node| pod["spec"]["nodeName"] == *node);
    assert_eq!(count(&cluster.objects("pods"), is_healthy), 9);

    keep_part("docs/tour.md", "zone", &table(&found));
}
