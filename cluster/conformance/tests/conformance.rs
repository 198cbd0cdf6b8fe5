//! Runs the conformance checks on the development cluster.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;

use steersman_conformance::{self as conformance, Check};
use steersman_devcluster::DevCluster;
use steersman_devcluster::faults::{Matcher, RequestFault};
use steersman_devcluster::status::Status;
use steersman_values::clock::Clock;

fn cluster() -> DevCluster {
    DevCluster::full(Clock::runtime("2026-01-01T00:00:00Z".parse().unwrap()))
}

async fn broken(
    cluster: &DevCluster,
    checks: impl IntoIterator<Item = &'static Check>,
) -> Vec<String> {
    let mut broken = Vec::new();
    for check in checks {
        if let Err(why) = conformance::run(check, &cluster.client()).await {
            broken.push(format!("{} {}: {why}", check.area, check.name));
        }
    }
    broken
}

/// Names of all objects outside the namespaces of the checks, by resource. No namespace controller
/// runs here, so the deleted namespaces remain.
fn remaining(cluster: &DevCluster) -> Vec<(String, String)> {
    let own = |name: &str| name.starts_with("conformance-");
    let objects = |plural: &str| cluster.objects(plural).into_iter();
    let of = |plural: &'static str| {
        let names = objects(plural).map(|object| {
            let text = |field: &str| {
                object["metadata"][field]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned()
            };
            (text("namespace"), text("name"))
        });
        let kept = names.filter(|(namespace, name)| {
            !own(if plural == "namespaces" {
                name
            } else {
                namespace
            })
        });
        kept.map(|(namespace, name)| (plural.to_owned(), format!("{namespace}/{name}")))
            .collect::<Vec<_>>()
    };
    let plurals = [
        "namespaces",
        "configmaps",
        "secrets",
        "events",
        "pods",
        "nodes",
        "services",
        "serviceaccounts",
        "persistentvolumes",
        "customresourcedefinitions",
        "clusterroles",
        "clusterrolebindings",
        "roles",
        "rolebindings",
        "priorityclasses",
        "storageclasses",
        "leases",
        "endpointslices",
        "runtimeclasses",
        "validatingwebhookconfigurations",
        "mutatingwebhookconfigurations",
    ];
    plurals.into_iter().flat_map(of).collect()
}

#[tokio::test(start_paused = true)]
async fn all_checks_pass() {
    let cluster = cluster();
    let before = remaining(&cluster);
    let broken = broken(&cluster, conformance::checks()).await;
    assert!(broken.is_empty(), "\n{}", broken.join("\n"));
    assert_eq!(
        remaining(&cluster),
        before,
        "the checks delete their objects"
    );
    let open: Vec<_> = cluster
        .objects("namespaces")
        .into_iter()
        .filter(|one| one["status"]["phase"] == "Active")
        .collect();
    assert_eq!(
        open.len(),
        4,
        "namespaces of checks are terminating: {open:#?}"
    );
}

/// These checks skip servers that still have their history, so the test compacts it first.
#[tokio::test(start_paused = true)]
async fn compacted_revisions_are_reported() {
    let cluster = cluster();
    let checks = || conformance::checks().filter(|check| check.name.contains("compacted"));
    for check in checks() {
        cluster.compact("configmaps");
        conformance::run(check, &cluster.client()).await.unwrap();
    }
    assert_eq!(checks().count(), 2);
    let refused = cluster
        .requests()
        .iter()
        .filter(|request| request.status == 410)
        .count();
    assert_eq!(refused, 2, "a list and a page; a watch gets a frame");
}

/// A check that passes on a server with broken answers would promise nothing.
#[tokio::test(start_paused = true)]
async fn every_check_fails_on_a_broken_server() {
    // These checks concern paths, discovery or namespaces, which stay intact, or fail before the
    // fault applies.
    let is_unaffected = |check: &Check| {
        check.area == "discovery"
            || [
                "paths_",
                "bodies_have_a_limit",
                "namespaces_",
                "preconditions_of_namespaces",
                "phases_of_namespaces",
            ]
            .iter()
            .any(|start| check.name.starts_with(start))
    };
    let cluster = cluster();
    let mut unseen = Vec::new();
    for check in conformance::checks().filter(|check| !is_unaffected(check)) {
        let fork = cluster.fork();
        let broken = Status::new(200, "", "broken");
        let rule = Matcher::default().except("namespaces");
        fork.faults()
            .on_request(rule, RequestFault::Reject(broken), None);
        if conformance::run(check, &fork.client()).await.is_ok() {
            unseen.push(check.name);
        }
    }
    assert_eq!(unseen, Vec::<&str>::new());
}

#[test]
fn names_of_checks_are_unique() {
    let names: BTreeSet<&str> = conformance::checks().map(|check| check.name).collect();
    assert_eq!(names.len(), conformance::checks().count());
}
