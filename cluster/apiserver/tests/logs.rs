//! Logs of simulated containers that a client follows.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_devcluster::DevCluster;
use tokio::time::Instant;

use crate::support::text;

const PATIENCE: Duration = Duration::from_secs(60);
const LOG: &str = "/api/v1/namespaces/default/pods/p/log";

/// A cluster with a pod that runs for half a minute.
async fn with_running_pod() -> DevCluster {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "annotations": {"simulate.steersman.dev/run-time": "30s"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
    });
    let builder = DevCluster::builder().nodes(1).object(pod);
    let cluster = builder.start().await.unwrap();
    let is_running = |pods: &[Value]| {
        let status = &pods[0]["status"]["containerStatuses"][0];
        status["state"]["running"].is_object()
    };
    cluster
        .wait_for("pods", PATIENCE, is_running)
        .await
        .unwrap();
    cluster
}

#[tokio::test(start_paused = true)]
async fn a_followed_log_ends_with_its_container() {
    let cluster = with_running_pod().await;
    let begun = Instant::now();
    let log = text(&cluster, &format!("{LOG}?follow=true")).await;
    let lines: Vec<&str> = log.lines().collect();
    assert!(lines[0].ends_with(": start 1"), "{log}");
    assert_eq!(lines[1..], ["simulated container c: exit code 0"]);
    assert!(
        begun.elapsed() >= Duration::from_secs(20),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(text(&cluster, &format!("{LOG}?follow=true")).await, log);
}

#[tokio::test(start_paused = true)]
async fn a_followed_log_ends_with_its_pod() {
    let cluster = with_running_pod().await;
    let following = {
        let cluster = cluster.clone();
        tokio::spawn(async move { text(&cluster, &format!("{LOG}?follow=true")).await })
    };
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(!following.is_finished());
    let path = "/api/v1/namespaces/default/pods/p?gracePeriodSeconds=0";
    cluster.delete(path).await.unwrap();
    assert!(following.await.unwrap().ends_with(": start 1\n"));
}

#[tokio::test(start_paused = true)]
async fn a_followed_log_ends_at_its_limit() {
    let cluster = with_running_pod().await;
    let begun = tokio::time::Instant::now();
    let said = text(&cluster, &format!("{LOG}?follow=true&limitBytes=4")).await;
    assert_eq!(said, "simu");
    assert!(begun.elapsed() < Duration::from_secs(1));
}
