//! The stories of the operator with its informers.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use kube::CustomResourceExt;
use serde_json::{Value, json};
use steersman_devcluster::DevCluster;
use steersman_devcluster::faults::{Matcher, RequestFault, conflict};
use website_informers::CONTROLLER;
use website_operator::Website;

/// Time limit of each wait, in paused time.
const LIMIT: Duration = Duration::from_secs(60);

async fn cluster() -> DevCluster {
    DevCluster::builder()
        .object(Website::crd())
        .nodes(2)
        .controllers_named(
            steersman_controllers::ALL,
            ["deployment", "replicaset", "garbagecollector"],
        )
        .controllers(&[CONTROLLER])
        .start()
        .await
        .unwrap()
}

fn website(replicas: i32) -> Value {
    json!({"apiVersion": "example.dev/v1", "kind": "Website", "metadata": {"name": "blog"}, "spec": {"page": "Hello", "replicas": replicas}})
}

/// Waits until the only Website reports this many ready servers.
async fn served_by(cluster: &DevCluster, servers: i32) {
    let ready = |websites: &[Value]| {
        websites.len() == 1 && websites[0]["status"]["readyReplicas"] == servers
    };
    cluster.wait_for("websites", LIMIT, ready).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_website_is_served_scaled_and_deleted_with_its_objects() {
    let cluster = cluster().await;
    cluster.create(website(2)).await.unwrap();
    served_by(&cluster, 2).await;
    let path = cluster.path("websites", "default", "blog");
    let scale = json!({"spec": {"replicas": 5, "page": "Good bye"}});
    cluster.patch(&path, scale).await.unwrap();
    served_by(&cluster, 5).await;
    assert_eq!(
        cluster.objects("configmaps")[0]["data"]["index.html"],
        "Good bye"
    );
    cluster.delete(&path).await.unwrap();
    for plural in ["configmaps", "deployments", "replicasets", "pods"] {
        let gone = cluster.wait_for(plural, LIMIT, <[Value]>::is_empty);
        gone.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_status_and_a_lost_answer_are_repaired() {
    let cluster = cluster().await;
    let faults = cluster.faults();
    let status = Matcher::new("patch", "websites").subresource("status");
    let refused = faults.reject(status, conflict(), Some(1));
    let deployments = Matcher::new("patch", "deployments");
    let lost = faults.on_request(deployments, RequestFault::LoseAnswer, Some(1));
    cluster.create(website(1)).await.unwrap();
    served_by(&cluster, 1).await;
    assert_eq!((faults.hits(refused), faults.hits(lost)), (1, 1));
    assert_eq!(cluster.count("deployments"), 1);
}
