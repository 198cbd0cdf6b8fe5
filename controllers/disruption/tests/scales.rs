//! The sizes of workloads: Deployments, custom resources, and kinds without the subresource `scale`.

use super::*;

const GROUP: &str = "mygroup.example.com";

/// Longer than the discovery is kept.
const NEXT_DISCOVERY: Duration = Duration::from_secs(35);

/// A definition of custom resources; `subresources` of its only version.
fn definition(subresources: Value) -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let version = json!({"name": "v1beta1", "served": true, "storage": true, "schema": schema, "subresources": subresources});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("crds.{GROUP}")},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": {"plural": "crds", "kind": "Crd"}, "versions": [version]},
    })
}

fn scale() -> Value {
    json!({"scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}})
}

impl World {
    /// Defines a custom kind and creates an object of 4 replicas with 4 ready pods.
    async fn custom(&self, subresources: Value) -> Value {
        self.create(definition(subresources)).await;
        let owner = self
            .create(json!({"apiVersion": format!("{GROUP}/v1beta1"), "kind": "Crd", "metadata": {"name": "resource"},
                "spec": {"replicas": 4}}))
            .await;
        for count in 0..4 {
            self.run_pod(&format!("pod-{count}"), Some(&owner)).await;
        }
        owner
    }
}

/// Upstream: `TestPDBWithScaleSubresource` of the integration tests, and `TestScaleResource`.
#[tokio::test(start_paused = true)]
async fn pdb_with_scale_subresource() {
    let world = World::with_disruption().await;
    world.custom(scale()).await;
    world.create(budget(json!({"maxUnavailable": 2}))).await;
    assert_eq!(world.settled().await, [2, 4, 2, 4]);
    let reads = world.sent_to("crds/scale");
    assert_eq!(reads, ["get 200"; 2], "one before the write, one after it");
    let resize = json!({"spec": {"replicas": 10}});
    world.patch("crds", "resource", resize).await;
    world.run_pod("pod-4", None).await;
    assert_eq!(world.settled().await, [0, 5, 8, 10]);
    world.kill("pod-4").await;
    let limits = json!({"spec": {"maxUnavailable": 7}});
    world.patch_budget("", limits).await;
    assert_eq!(world.settled().await, [1, 4, 3, 10]);
}

/// Upstream: `TestScaleFinderNoResource`.
#[tokio::test(start_paused = true)]
async fn a_custom_kind_without_scale_or_without_the_object_is_reported() {
    // (why, subresources, message)
    let cases = [
        (
            "resource does not implement scale",
            json!({"status": {}}),
            format!("crds.{GROUP} does not implement the scale subresource"),
        ),
        (
            "resource implements scale",
            scale(),
            "found no controllers for pod \"pod-0\"".to_owned(),
        ),
    ];
    for (why, subresources, message) in cases {
        let world = World::with_disruption().await;
        world.custom(subresources).await;
        world.delete("crds", "resource").await;
        world.create(budget(json!({"maxUnavailable": 2}))).await;
        world.at_rest().await;
        assert_eq!(
            world.budget_status()["conditions"][0]["message"],
            message,
            "{why}"
        );
        assert!(world.shows("False", "SyncFailed"), "{why}");
    }
}

#[tokio::test(start_paused = true)]
async fn another_object_of_the_same_name_is_no_controller() {
    let world = World::with_disruption().await;
    let mut former = world.custom(scale()).await;
    former["metadata"]["uid"] = json!("another");
    world.run_pod("stray", Some(&former)).await;
    world.create(budget(json!({"maxUnavailable": 2}))).await;
    world.at_rest().await;
    let text = "found no controllers for pod \"stray\"";
    assert_eq!(world.budget_status()["conditions"][0]["message"], text);
}

#[tokio::test(start_paused = true)]
async fn a_failed_read_of_a_scale_is_repeated() {
    let world = World::with_disruption().await;
    world.custom(scale()).await;
    let scales = Matcher::new("get", "crds").subresource("scale");
    let rule = world
        .cluster
        .faults()
        .reject(scales, faults::internal_error(), Some(3));
    world.create(budget(json!({"maxUnavailable": 2}))).await;
    world.cluster.faults().met(rule).await;
    assert_eq!(world.settled().await, [2, 4, 2, 4]);
    assert_eq!(world.cluster.faults().hits(rule), 3);
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_defined_later_is_found_with_the_next_discovery() {
    let world = World::with_budget(json!({"maxUnavailable": 2})).await;
    let unknown = json!({"apiVersion": format!("{GROUP}/v1beta1"), "kind": "Crd", "metadata": {"name": "resource", "uid": "u"}});
    world.run_pod("early", Some(&unknown)).await;
    world.at_rest().await;
    let text = format!("no matches for kind \"Crd\" in version \"{GROUP}/v1beta1\"");
    assert_eq!(world.budget_status()["conditions"][0]["message"], text);
    world.kill("early").await;
    tokio::time::sleep(NEXT_DISCOVERY).await;
    world.custom(scale()).await;
    assert_eq!(world.settled().await, [2, 4, 2, 4]);
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_deployment_count_once_by_its_size() {
    let world = World::with_disruption().await;
    let mut deployment = workload("Deployment", 3);
    deployment["metadata"]["name"] = json!("web");
    let deployment = world.create(deployment).await;
    for (name, size) in [("old", 1), ("new", 3)] {
        let mut set = workload("ReplicaSet", size);
        set["metadata"] = json!({"name": name, "ownerReferences": [reference(&deployment)]});
        let set = world.create(set).await;
        for count in 0..size {
            world.run_pod(&format!("{name}-{count}"), Some(&set)).await;
        }
    }
    world.create(budget(json!({"maxUnavailable": "34%"}))).await;
    assert_eq!(world.settled().await, [3, 4, 1, 3]);
    assert!(world.sent_to("replicasets/scale").is_empty());
    let resize = json!({"spec": {"replicas": 6}});
    world.patch("deployments", "web", resize).await;
    assert_eq!(world.settled().await, [1, 4, 3, 6]);
}

/// The cache of ReplicaSets may lack the owner of a pod that the cache of pods has.
#[tokio::test(start_paused = true)]
async fn a_workload_that_the_cache_lacks_counts_by_a_read_until_the_cache_has_it() {
    let world = World::with_budget(json!({"maxUnavailable": 1})).await;
    world.at_rest().await;
    let sets = Matcher::new("watch", "replicasets");
    let view = world
        .cluster
        .faults()
        .hold_view(sets, world.cluster.revision());
    let owner = world.create(workload("ReplicaSet", 3)).await;
    world.run_pod("a", Some(&owner)).await;
    let counted = |_: &_| world.budget_status()["expectedPods"] == 3;
    world.until("counted by a read", counted).await;
    world.cluster.faults().remove(view);
    assert_eq!(world.settled().await, [0, 1, 2, 3]);
    let reads = world.sent_to("replicasets/scale").len();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(world.sent_to("replicasets/scale").len(), reads);
}
