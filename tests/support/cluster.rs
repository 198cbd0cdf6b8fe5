//! What stories ask of a cluster in memory.

use serde_json::{Value, json};
use steersman_devcluster::DevCluster;
use steersman_devcluster::https::HttpsDoor;
use steersman_devcluster::requests::RequestRecord;

use super::LIMIT;

/// A Deployment in the namespace `default`.
pub(crate) fn deployment(name: &str, replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    })
}

/// Waits until there are `count` objects.
pub(crate) async fn wait_for_count(cluster: &DevCluster, plural: &str, count: usize) {
    let waited = cluster
        .wait_for(plural, LIMIT, |objects| objects.len() == count)
        .await;
    waited.unwrap_or_else(|objects| {
        panic!(
            "{} {plural} instead of {count}: {objects:#?}",
            objects.len()
        )
    });
}

/// Waits until the Lease is as `condition` wants its spec.
pub(crate) async fn wait_for_lease(
    cluster: &DevCluster,
    condition: impl Fn(&Value) -> bool,
) -> Value {
    let ours = |lease: &&Value| lease["metadata"]["name"] == "kube-controller-manager";
    let find = |leases: &[Value]| leases.iter().find(ours).map(|lease| lease["spec"].clone());
    let waited = cluster
        .wait_for("leases", LIMIT, |leases| {
            find(leases).is_some_and(|spec| condition(&spec))
        })
        .await;
    find(&waited.unwrap_or_else(|leases| panic!("{leases:#?}"))).unwrap()
}

/// Durations of the election with which, as long as any test lasts, nobody tries for the Lease a
/// second time unless its watch says that it was given up, and nobody gets one that was not.
pub(crate) const UNHURRIED: [&str; 3] = [
    "--leader-elect-lease-duration=60m",
    "--leader-elect-renew-deadline=50m",
    "--leader-elect-retry-period=40m",
];

/// Whether somebody holds the Lease of this spec.
pub(crate) fn held(spec: &Value) -> bool {
    spec["holderIdentity"]
        .as_str()
        .is_some_and(|holder| !holder.is_empty())
}

/// How many creations or deletions of pods succeeded.
pub(crate) fn done(cluster: &DevCluster, verb: &str) -> usize {
    let is_one =
        |path: &str| path.ends_with("/pods") || (verb == "delete" && path.contains("/pods/"));
    cluster
        .requests()
        .iter()
        .filter(|r| r.verb == verb && is_one(&r.path) && r.status < 300)
        .count()
}

/// How many pods were created through this door.
pub(crate) fn created_through(cluster: &DevCluster, door: &HttpsDoor) -> usize {
    let is_one = |r: &RequestRecord| {
        r.door == Some(door.address())
            && r.verb == "create"
            && r.resource == "pods"
            && r.status < 300
    };
    cluster.requests().iter().filter(|r| is_one(r)).count()
}
