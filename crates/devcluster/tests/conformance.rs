//! The promises of an API server, kept by this one.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;

use steersman_devcluster::faults::{Matcher, RequestFault};
use steersman_devcluster::status::Status;
use steersman_devcluster::{DevCluster, conformance};
use steersman_runtime::clock::Clock;

#[tokio::test(start_paused = true)]
async fn every_promise_is_kept() {
    let cluster = DevCluster::full(Clock::runtime("2026-01-01T00:00:00Z".parse().unwrap()));
    let mut broken = Vec::new();
    for check in conformance::checks() {
        if let Err(why) = conformance::run(check, &cluster.client()).await {
            broken.push(format!("{} {}: {why}", check.area, check.name));
        }
    }
    assert!(broken.is_empty(), "\n{}", broken.join("\n"));
}

/// A check that passes where everything but namespaces is broken would promise nothing.
#[tokio::test(start_paused = true)]
async fn a_server_that_breaks_promises_is_found_out() {
    // They are about paths, discovery and namespaces alone.
    let elsewhere = ["paths_", "discovery_", "openapi_", "health_", "namespaces_go_"];
    let cluster = DevCluster::full(Clock::runtime("2026-01-01T00:00:00Z".parse().unwrap()));
    for check in conformance::checks().filter(|check| !elsewhere.iter().any(|start| check.name.starts_with(start))) {
        let fork = cluster.fork();
        let broken = Status::new(200, "", "broken");
        fork.faults().on_request(Matcher::default().except("namespaces"), RequestFault::Reject(broken), None);
        assert!(conformance::run(check, &fork.client()).await.is_err(), "{}", check.name);
    }
}

#[test]
fn every_promise_has_a_name_of_its_own() {
    let names: BTreeSet<&str> = conformance::checks().map(|check| check.name).collect();
    assert_eq!(names.len(), conformance::checks().count());
}
