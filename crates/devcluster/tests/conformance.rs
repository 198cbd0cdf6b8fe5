//! The promises of an API server, kept by this one.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;

use steersman_devcluster::DevCluster;
use steersman_devcluster::conformance::{self, Check};
use steersman_devcluster::faults::{Matcher, RequestFault};
use steersman_devcluster::status::Status;
use steersman_runtime::clock::Clock;

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

/// Everything outside of the namespaces of checks, which nobody finishes here, by resource.
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
async fn every_promise_is_kept() {
    let cluster = cluster();
    let before = remaining(&cluster);
    let broken = broken(&cluster, conformance::checks()).await;
    assert!(broken.is_empty(), "\n{}", broken.join("\n"));
    assert_eq!(remaining(&cluster), before, "nothing is left behind");
    let open: Vec<_> = cluster
        .objects("namespaces")
        .into_iter()
        .filter(|one| one["status"]["phase"] == "Active")
        .collect();
    assert_eq!(
        open.len(),
        4,
        "namespaces of checks are on their way out: {open:#?}"
    );
}

/// Those that may find a server remembering everything, where it has forgotten.
#[tokio::test(start_paused = true)]
async fn what_is_forgotten_is_told_so() {
    let cluster = cluster();
    let about_it = || conformance::checks().filter(|check| check.name.contains("forgotten"));
    for check in about_it() {
        cluster.compact("configmaps");
        conformance::run(check, &cluster.client()).await.unwrap();
    }
    assert_eq!(about_it().count(), 2);
    let refused = cluster
        .requests()
        .iter()
        .filter(|request| request.status == 410)
        .count();
    assert_eq!(refused, 2, "a list and a page; a watch is told in a frame");
}

/// A check that passes where everything but namespaces is broken would promise nothing.
#[tokio::test(start_paused = true)]
async fn a_server_that_breaks_promises_is_found_out() {
    // They are about paths, discovery and namespaces alone, or ask for too much before it is looked
    // at.
    let elsewhere = |check: &Check| {
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
    for check in conformance::checks().filter(|check| !elsewhere(check)) {
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
fn every_promise_has_a_name_of_its_own() {
    let names: BTreeSet<&str> = conformance::checks().map(|check| check.name).collect();
    assert_eq!(names.len(), conformance::checks().count());
}
