//! The life of quotas and of the objects that they count.

use std::time::Duration;

use serde_json::json;
use steersman_devcluster::faults::{self, Matcher};

use super::*;

#[tokio::test(start_paused = true)]
async fn a_new_quota_is_counted_once() {
    let world = world().await;
    world.create(pod("a", "100m")).await;
    world.create(quota(json!({"pods": "3", "cpu": "1"}))).await;
    world.until_used(json!({"pods": "1", "cpu": "100m"})).await;
    world.at_rest().await;
    assert_eq!(world.counts(), ["200"]);
    let status = &world.find("resourcequotas", "q").unwrap()["status"];
    assert_eq!(status["hard"], json!({"pods": "3", "cpu": "1"}));
}

/// Upstream: `TestQuota`. The server raises usage, and the controller lowers it.
#[tokio::test(start_paused = true)]
async fn the_usage_follows_creations_and_deletions() {
    let world = world().await;
    world
        .create(quota(json!({"pods": "2", "requests.memory": "4Gi"})))
        .await;
    world
        .until_used(json!({"pods": "0", "requests.memory": "0"}))
        .await;
    for name in ["a", "b"] {
        world.create(pod(name, "1")).await;
    }
    assert_eq!(
        world.used(),
        json!({"pods": "2", "requests.memory": "2Gi"}),
        "the server charges admitted pods"
    );
    let refused = world.cluster.create(pod("c", "1")).await.unwrap_err();
    let why = "exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2";
    assert!(refused.to_string().contains(why), "{refused}");
    tokio::time::sleep(SOON).await;
    assert_eq!(world.counts().len(), 1, "a correct usage is not written");
    world.delete("pods", "a").await;
    world
        .until_used(json!({"pods": "1", "requests.memory": "1Gi"}))
        .await;
    world.create(pod("c", "1")).await;
}

/// Upstream: `status unknown for quota` of the admission plugin.
#[tokio::test(start_paused = true)]
async fn objects_are_refused_while_their_usage_is_unknown() {
    let mut world = bare().await;
    world.create(config_map("before")).await;
    world.create(quota(json!({"configmaps": "5"}))).await;
    let limits = json!({"status": {"hard": {"configmaps": "5"}}});
    world.patch("resourcequotas", "q/status", limits).await;
    let refused = world
        .cluster
        .create(config_map("refused"))
        .await
        .unwrap_err();
    let why =
        "configmaps \"refused\" is forbidden: status unknown for quota: q, resources: configmaps";
    assert!(refused.to_string().contains(why), "{refused}");
    world.restart(&[DESCRIPTOR]).await;
    world.until_used(json!({"configmaps": "1"})).await;
    world.create(config_map("admitted")).await;
}

#[tokio::test(start_paused = true)]
async fn finished_pods_release_all_but_their_number() {
    let world = world().await;
    world
        .create(quota(json!({"pods": "5", "count/pods": "5", "cpu": "4"})))
        .await;
    world
        .until_used(json!({"pods": "0", "count/pods": "0", "cpu": "0"}))
        .await;
    world.create(pod("a", "1")).await;
    world.create(pod("b", "1")).await;
    world.pod_status("a", json!({"phase": "Succeeded"})).await;
    world
        .until_used(json!({"pods": "1", "count/pods": "2", "cpu": "1"}))
        .await;
    world.delete("pods", "a").await;
    world
        .until_used(json!({"pods": "1", "count/pods": "1", "cpu": "1"}))
        .await;
}

#[tokio::test(start_paused = true)]
async fn changed_limits_change_limits_and_usage_of_the_status() {
    let world = world().await;
    world
        .create(quota(json!({"configmaps": "3", "secrets": "3"})))
        .await;
    world
        .until_used(json!({"configmaps": "0", "secrets": "0"}))
        .await;
    let limits = json!({"spec": {"hard": {"secrets": null, "services": "7"}}});
    world.patch("resourcequotas", "q", limits).await;
    world
        .until_used(json!({"configmaps": "0", "services": "0"}))
        .await;
    let status = &world.find("resourcequotas", "q").unwrap()["status"];
    assert_eq!(status["hard"], json!({"configmaps": "3", "services": "7"}));
}

#[tokio::test(start_paused = true)]
async fn services_and_claims_release_what_they_no_longer_need() {
    let world = world().await;
    let hard = json!({"services.nodeports": "9", "services.loadbalancers": "1", "requests.storage": "9Gi"});
    world.create(quota(hard)).await;
    let used = |ports: &str, balancers: &str, storage: &str| json!({"services.nodeports": ports, "services.loadbalancers": balancers, "requests.storage": storage});
    world.until_used(used("0", "0", "0")).await;
    let ports = json!([{"name": "a", "port": 80}, {"name": "b", "port": 81}]);
    let spec = json!({"type": "LoadBalancer", "selector": {"a": "b"}, "ports": ports});
    world
        .create(object("v1", "Service", "s", json!({ "spec": spec })))
        .await;
    let spec = json!({
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}},
    });
    let claim = object("v1", "PersistentVolumeClaim", "c", json!({ "spec": spec }));
    world.create(claim).await;
    world.until_used(used("2", "1", "2Gi")).await;
    let cluster_ip = json!({"spec": {"type": "ClusterIP", "allocateLoadBalancerNodePorts": null}});
    world.patch("services", "s", cluster_ip).await;
    world.until_used(used("0", "0", "2Gi")).await;
    // A volume that grows is charged as soon as its size is allocated.
    let allocated = json!({"status": {"allocatedResources": {"storage": "3Gi"}}});
    world
        .patch("persistentvolumeclaims", "c/status", allocated)
        .await;
    world.until_used(used("0", "0", "3Gi")).await;
    world.delete("persistentvolumeclaims", "c").await;
    world.until_used(used("0", "0", "0")).await;
}

#[tokio::test(start_paused = true)]
async fn a_quota_counts_only_pods_in_its_scopes() {
    let world = world().await;
    let selected = json!({"scopeName": "PriorityClass", "operator": "In", "values": ["high"]});
    let spec = json!({
        "hard": {"pods": "5"}, "scopes": ["NotTerminating"],
        "scopeSelector": {"matchExpressions": [selected]},
    });
    world.create(quota_of(spec)).await;
    world.until_used(json!({"pods": "0"})).await;
    let with = |name, fields: Value| {
        let mut pod = pod(name, "1");
        for (field, value) in fields.as_object().into_iter().flatten() {
            pod["spec"][field] = value.clone();
        }
        pod
    };
    let high = json!({"priorityClassName": "high"});
    let limited = json!({"priorityClassName": "high", "activeDeadlineSeconds": 60});
    world.create(with("other", json!({}))).await;
    world.create(with("limited", limited)).await;
    world.create(with("high", high)).await;
    world.until_used(json!({"pods": "1"})).await;
    // A deadline takes the pod out of the scope.
    let deadline = json!({"spec": {"activeDeadlineSeconds": 60}});
    world.patch("pods", "high", deadline).await;
    world.until_used(json!({"pods": "0"})).await;
}

/// A quota, and a pod that stays after its deletion.
async fn stick(world: &World) {
    world.create(quota(json!({"pods": "5"}))).await;
    world.until_used(json!({"pods": "0"})).await;
    let mut stuck = pod("stuck", "1");
    stuck["metadata"]["finalizers"] = json!(["example.com/keep"]);
    world.create(stuck).await;
    world.delete("pods", "stuck").await;
}

/// No event tells the end of the grace period. The full resync counts the pod no more.
#[tokio::test(start_paused = true)]
async fn a_stuck_pod_is_released_by_the_full_resync() {
    let world = world().await;
    stick(&world).await;
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert_eq!(world.used(), json!({"pods": "1"}));
    world.until_used(json!({"pods": "0"})).await;
}

#[tokio::test(start_paused = true)]
async fn without_a_period_there_is_no_full_resync() {
    let mut world = bare().await;
    world
        .restart_with(&[DESCRIPTOR], |context| {
            context.with_flag("resource-quota-sync-period", "0s")
        })
        .await;
    stick(&world).await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(world.used(), json!({"pods": "1"}));
}

#[tokio::test(start_paused = true)]
async fn a_wrong_usage_is_repaired_within_a_minute() {
    let world = world().await;
    world.create(quota(json!({"configmaps": "5"}))).await;
    world.until_used(json!({"configmaps": "0"})).await;
    let wrong = json!({"status": {"used": {"configmaps": "4"}}});
    world.patch("resourcequotas", "q/status", wrong).await;
    tokio::time::sleep(SOON).await;
    let why = "a charge may come long before its object";
    assert_eq!(world.used(), json!({"configmaps": "4"}), "{why}");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(world.used(), json!({"configmaps": "0"}));
}

/// A sync between the admission of a pod and its watch event lowers the usage. The recount after the
/// event raises it again, long before the full resync.
#[tokio::test(start_paused = true)]
async fn a_pod_that_the_cache_lacked_is_counted_soon() {
    let world = world().await;
    world
        .create(quota(json!({"pods": "5", "configmaps": "5"})))
        .await;
    world
        .until_used(json!({"pods": "0", "configmaps": "0"}))
        .await;
    world.create(config_map("a")).await;
    let view = world.hold("pods", world.cluster.revision());
    world.create(pod("late", "1")).await;
    world.delete("configmaps", "a").await;
    world
        .until_used(json!({"pods": "0", "configmaps": "0"}))
        .await;
    world.cluster.faults().remove(view);
    tokio::time::sleep(SOON).await;
    assert_eq!(world.used(), json!({"pods": "1", "configmaps": "0"}));
}

/// The count after the first pod finds the charge of the second one, which the cache lacks.
#[tokio::test(start_paused = true)]
async fn a_count_after_a_new_pod_keeps_the_charge_of_the_next_one() {
    let world = world().await;
    world.create(quota(json!({"pods": "5"}))).await;
    world.until_used(json!({"pods": "0"})).await;
    world.create(pod("first", "1")).await;
    let view = world.hold("pods", world.cluster.revision());
    world.create(pod("second", "1")).await;
    tokio::time::sleep(SOON).await;
    assert_eq!(world.used(), json!({"pods": "2"}));
    world.cluster.faults().remove(view);
    world.delete("pods", "first").await;
    world.until_used(json!({"pods": "1"})).await;
}

#[tokio::test(start_paused = true)]
async fn failed_writes_are_retried() {
    let world = world().await;
    let update = |nth| {
        let update = Matcher::new("update", "resourcequotas").subresource("status");
        update.nth(nth)
    };
    let faults = world.cluster.faults();
    faults.reject(update(1), faults::internal_error(), Some(1));
    faults.reject(update(2), faults::conflict(), Some(1));
    world.create(quota(json!({"pods": "3"}))).await;
    world.until_used(json!({"pods": "0"})).await;
    assert_eq!(world.counts(), ["500", "409", "200"]);
}

/// A write of the server between cache and PUT wins, and the controller counts again.
#[tokio::test(start_paused = true)]
async fn a_concurrent_charge_is_never_overwritten() {
    let world = world().await;
    world.create(quota(json!({"configmaps": "5"}))).await;
    world.until_used(json!({"configmaps": "0"})).await;
    world.create(config_map("a")).await;
    world.create(config_map("b")).await;
    tokio::time::sleep(SOON).await;
    let view = world.hold("resourcequotas", world.cluster.revision());
    world.create(config_map("c")).await;
    world.delete("configmaps", "a").await;
    tokio::time::sleep(SOON).await;
    assert_eq!(world.used(), json!({"configmaps": "3"}));
    world.cluster.faults().remove(view);
    world.until_used(json!({"configmaps": "2"})).await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_quota_causes_no_write() {
    let world = world().await;
    world.create(quota(json!({"configmaps": "5"}))).await;
    world.until_used(json!({"configmaps": "0"})).await;
    world.create(config_map("a")).await;
    world.delete("resourcequotas", "q").await;
    world.delete("configmaps", "a").await;
    tokio::time::sleep(SOON).await;
    assert_eq!(world.counts().len(), 1);
}

/// Each change of a namespace without quotas is free.
#[tokio::test(start_paused = true)]
async fn names_that_no_type_handles_are_left_out() {
    let world = world().await;
    let hard = json!({"pods": "5", "example.com/gpu": "4", "count/widgets.example.com": "2"});
    world.create(quota(hard)).await;
    world.until_used(json!({"pods": "0"})).await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(world.counts(), ["200"], "no loop");
}
