//! Helpers for tests on a cluster in memory.

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

/// Waits until there are exactly `count` objects.
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

/// Waits until the spec of the Lease satisfies `condition`, and returns it.
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

/// Durations of the election that are longer than any test. A standby then tries again only when
/// its watch reports a release, and no Lease expires.
pub(crate) const NO_EXPIRY: [&str; 3] = [
    "--leader-elect-lease-duration=60m",
    "--leader-elect-renew-deadline=50m",
    "--leader-elect-retry-period=40m",
];

/// Whether the Lease with this spec has a holder.
pub(crate) fn held(spec: &Value) -> bool {
    spec["holderIdentity"]
        .as_str()
        .is_some_and(|holder| !holder.is_empty())
}

/// Number of successful creations or deletions of pods.
pub(crate) fn pod_writes(cluster: &DevCluster, verb: &str) -> usize {
    let is_one =
        |path: &str| path.ends_with("/pods") || (verb == "delete" && path.contains("/pods/"));
    cluster
        .requests()
        .iter()
        .filter(|r| r.verb == verb && is_one(&r.path) && r.status < 300)
        .count()
}

/// Number of pods that were created through this door.
pub(crate) fn created_through(cluster: &DevCluster, door: &HttpsDoor) -> usize {
    let is_one = |r: &RequestRecord| {
        r.door == Some(door.address())
            && r.verb == "create"
            && r.resource == "pods"
            && r.status < 300
    };
    cluster.requests().iter().filter(|r| is_one(r)).count()
}
