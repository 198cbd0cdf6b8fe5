//! The development cluster with Steersman's controllers, selected by name.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_devcluster::DevCluster;

const WEB: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: web}]}
";

#[tokio::test(start_paused = true)]
async fn controllers_selected_by_name_act_in_a_cluster_and_in_its_fork() {
    let limit = Duration::from_secs(60);
    let started = || {
        DevCluster::builder()
            .nodes(2)
            .controllers_named(steersman_controllers::ALL, ["deployment", "replicaset"])
    };
    let available = |count: u64| {
        move |all: &[Value]| all.len() == 1 && all[0]["status"]["availableReplicas"] == count
    };
    let cluster = started().manifest(WEB).start().await.unwrap();
    cluster
        .wait_for("deployments", limit, available(3))
        .await
        .unwrap();

    let prepared = cluster.snapshot();
    let fork = started().snapshot(&prepared).start().await.unwrap();
    fork.patch(
        &fork.path("deployments", "default", "web"),
        json!({"spec": {"replicas": 5}}),
    )
    .await
    .unwrap();
    fork.wait_for("deployments", limit, available(5))
        .await
        .unwrap();
    tokio::time::sleep(limit).await;
    assert_eq!((cluster.count("pods"), fork.count("pods")), (3, 5));
}
