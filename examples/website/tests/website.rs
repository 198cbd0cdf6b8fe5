//! Tests of the operator on the development cluster.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use kube::CustomResourceExt;
use serde_json::{Value, json};
use steersman_devcluster::DevCluster;
use steersman_devcluster::faults::{Matcher, RequestFault, conflict, internal_error};
use website_operator::Website;

/// Time limit of each wait. Time is paused, so a minute takes only as long as the work in it.
const LIMIT: Duration = Duration::from_secs(60);

/// A cluster with the operator, and with the controllers that roll out Deployments and delete
/// dependents.
async fn cluster() -> DevCluster {
    DevCluster::builder()
        .object(Website::crd())
        .nodes(2)
        .controllers_named(
            steersman_controllers::ALL,
            ["deployment", "replicaset", "garbagecollector"],
        )
        .run("website-operator", website_operator::run)
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
async fn a_website_is_served_and_scaled() {
    let cluster = cluster().await;
    cluster.create(website(2)).await.unwrap();
    served_by(&cluster, 2).await;
    cluster
        .patch(
            &cluster.path("websites", "default", "blog"),
            json!({"spec": {"replicas": 5}}),
        )
        .await
        .unwrap();
    served_by(&cluster, 5).await;
    assert_eq!(
        cluster
            .objects("pods")
            .iter()
            .filter(|pod| pod["status"]["phase"] == "Running")
            .count(),
        5
    );
}

#[tokio::test(start_paused = true)]
async fn a_changed_page_replaces_the_servers() {
    let cluster = cluster().await;
    cluster.create(website(2)).await.unwrap();
    served_by(&cluster, 2).await;
    let uids = |pods: &[Value]| {
        pods.iter()
            .map(|pod| pod["metadata"]["uid"].clone())
            .collect::<Vec<_>>()
    };
    let before = uids(&cluster.objects("pods"));
    cluster
        .patch(
            &cluster.path("websites", "default", "blog"),
            json!({"spec": {"page": "Good bye"}}),
        )
        .await
        .unwrap();
    let replaced =
        |pods: &[Value]| pods.len() == 2 && uids(pods).iter().all(|uid| !before.contains(uid));
    cluster.wait_for("pods", LIMIT, replaced).await.unwrap();
    assert_eq!(
        cluster.objects("configmaps")[0]["data"]["index.html"],
        "Good bye"
    );
}

#[tokio::test(start_paused = true)]
async fn deleting_a_website_deletes_all_its_objects() {
    let cluster = cluster().await;
    cluster.create(website(2)).await.unwrap();
    served_by(&cluster, 2).await;
    cluster
        .delete(&cluster.path("websites", "default", "blog"))
        .await
        .unwrap();
    for plural in ["configmaps", "deployments", "replicasets", "pods"] {
        cluster
            .wait_for(plural, LIMIT, <[Value]>::is_empty)
            .await
            .unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn failed_requests_are_retried_without_duplicates() {
    let cluster = cluster().await;
    let faults = cluster.faults();
    faults.reject(
        Matcher::new("patch", "configmaps"),
        internal_error(),
        Some(2),
    );
    faults.reject(
        Matcher::new("patch", "websites").subresource("status"),
        conflict(),
        Some(1),
    );
    let lost = faults.on_request(
        Matcher::new("patch", "deployments"),
        RequestFault::LoseAnswer,
        Some(1),
    );
    cluster.create(website(1)).await.unwrap();
    served_by(&cluster, 1).await;
    assert_eq!((faults.hits(lost), cluster.count("deployments")), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn an_invalid_website_is_refused() {
    let refusal = cluster().await.create(website(-1)).await.unwrap_err();
    assert_eq!(refusal.code, 422);
    assert!(
        refusal.message.contains("spec.replicas: Invalid value: -1"),
        "{}",
        refusal.message
    );
}
