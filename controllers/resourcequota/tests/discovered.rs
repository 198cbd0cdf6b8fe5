//! Types that only discovery knows, and failures of discovery and of lists.

use std::time::Duration;

use serde_json::json;
use steersman_devcluster::faults::{self, Matcher};
use steersman_options::features;

use super::*;

/// More than a period of discovery.
const A_MINUTE: Duration = Duration::from_secs(60);

fn definition(version: &str) -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let versions = [json!({"name": version, "served": true, "storage": true, "schema": schema})];
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "versions": versions,
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        },
    })
}

fn widget(name: &str) -> Value {
    object("example.com/v1", "Widget", name, json!({}))
}

const DEFINITION: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";

#[tokio::test(start_paused = true)]
async fn custom_resources_are_counted_once_discovery_shows_them() {
    let world = world().await;
    world
        .create(quota(json!({"count/widgets.example.com": "2"})))
        .await;
    tokio::time::sleep(SOON).await;
    assert_eq!(world.used(), Value::Null, "the type is unknown");
    world.create(definition("v1")).await;
    let used = |number: &str| json!({"count/widgets.example.com": number});
    tokio::time::sleep(A_MINUTE).await;
    assert_eq!(world.used(), used("0"));
    for name in ["a", "b"] {
        world.create(widget(name)).await;
    }
    let refused = world.cluster.create(widget("c")).await.unwrap_err();
    let why = "exceeded quota: q, requested: count/widgets.example.com=1, used: \
               count/widgets.example.com=2, limited: count/widgets.example.com=2";
    assert!(refused.to_string().contains(why), "{refused}");
    let path = "/apis/example.com/v1/namespaces/default/widgets/a";
    world.cluster.delete(path).await.unwrap();
    world.until_used(used("1")).await;
    // Without its definition, the type has no objects.
    world.cluster.delete(DEFINITION).await.unwrap();
    tokio::time::sleep(2 * A_MINUTE).await;
    world.create(definition("v1")).await;
    tokio::time::sleep(A_MINUTE).await;
    world.until_used(used("0")).await;
}

/// Upstream: `TestDiscoverySync`.
#[tokio::test(start_paused = true)]
async fn a_failed_discovery_keeps_all_counts() {
    let world = world().await;
    let hard = json!({"count/deployments.apps": "5", "configmaps": "5"});
    world.create(quota(hard)).await;
    let used = |deployments: &str, maps: &str| json!({"count/deployments.apps": deployments, "configmaps": maps});
    world.until_used(used("0", "0")).await;
    let selector = json!({"matchLabels": {"app": "a"}});
    let template = json!({
        "metadata": {"labels": {"app": "a"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    let spec = json!({"selector": selector, "template": template});
    let deployment = |name| object("apps/v1", "Deployment", name, json!({ "spec": spec }));
    for group in ["apps", faults::EVERY_GROUP] {
        world.cluster.faults().hide_from_discovery(group);
        tokio::time::sleep(A_MINUTE).await;
        world.create(deployment("d")).await;
        world.create(config_map("m")).await;
        world.until_used(used("1", "1")).await;
        world.delete("deployments", "d").await;
        world.delete("configmaps", "m").await;
        world.until_used(used("0", "0")).await;
        world.cluster.faults().show_in_discovery(group);
    }
}

/// Upstream blocks all quotas (issue 133737).
#[tokio::test(start_paused = true)]
async fn a_type_that_cannot_be_listed_blocks_only_itself() {
    let mut world = bare().await;
    let secrets = |verb| Matcher::new(verb, "secrets");
    let cluster = world.cluster.clone();
    let faults = cluster.faults();
    let rules =
        ["list", "watch"].map(|verb| faults.reject(secrets(verb), faults::internal_error(), None));
    world.restart(&[DESCRIPTOR]).await;
    world
        .create(quota(json!({"pods": "3", "secrets": "3"})))
        .await;
    world.until_used(json!({"pods": "0"})).await;
    tokio::time::sleep(A_MINUTE).await;
    assert_eq!(world.counts(), ["200"], "the rest is written once");
    rules.into_iter().for_each(|rule| faults.remove(rule));
    world.until_used(json!({"pods": "0", "secrets": "0"})).await;
}

/// A server without discovery at the start of the controller gets its quotas later.
#[tokio::test(start_paused = true)]
async fn a_start_without_discovery_counts_built_in_types() {
    let mut world = bare().await;
    let cluster = world.cluster.clone();
    let faults = cluster.faults();
    faults.hide_from_discovery(faults::EVERY_GROUP);
    world.restart(&[DESCRIPTOR]).await;
    world
        .create(quota(json!({"pods": "3", "secrets": "3"})))
        .await;
    world.until_used(json!({"pods": "0"})).await;
    faults.show_in_discovery(faults::EVERY_GROUP);
    world.until_used(json!({"pods": "0", "secrets": "0"})).await;
}

#[tokio::test(start_paused = true)]
async fn claims_for_devices_are_counted_by_class_and_extended_resource() {
    let world = world().await;
    let class = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"},
        "spec": {"extendedResourceName": "example.com/gpu"},
    });
    world.create(class).await;
    let hard = json!({
        "gpu.deviceclass.resource.k8s.io/devices": "9",
        "requests.example.com/gpu": "9",
        "count/resourceclaims.resource.k8s.io": "9",
    });
    world.create(quota(hard)).await;
    let used = |claims: &str, devices: &str, gpus: &str| {
        json!({
            "count/resourceclaims.resource.k8s.io": claims,
            "gpu.deviceclass.resource.k8s.io/devices": devices,
            "requests.example.com/gpu": gpus,
        })
    };
    world.until_used(used("0", "0", "0")).await;
    let exactly = json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2});
    let requests = json!([{"name": "r", "exactly": exactly}]);
    let spec = json!({"devices": {"requests": requests}});
    let claim = object(
        "resource.k8s.io/v1",
        "ResourceClaim",
        "c",
        json!({ "spec": spec }),
    );
    world.create(claim).await;
    assert_eq!(world.used(), used("1", "2", "2"));
    let mut user = pod("user", "1");
    let gpu = json!({"example.com/gpu": "1"});
    user["spec"]["containers"][0]["resources"] = json!({"requests": gpu, "limits": gpu});
    world.create(user).await;
    assert_eq!(world.used(), used("1", "2", "3"));
    tokio::time::sleep(SOON).await;
    assert_eq!(world.counts().len(), 1, "server and controller agree");
    let path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/c";
    world.cluster.delete(path).await.unwrap();
    world.until_used(used("0", "0", "1")).await;
}

/// Upstream: the registry of evaluators without `DynamicResourceAllocation`. The claim counts as an object of any
/// other type, and no type handles the other names.
#[tokio::test(start_paused = true)]
async fn without_their_gate_claims_for_devices_are_counted_by_number() {
    let world = without(features::DYNAMIC_RESOURCE_ALLOCATION).await;
    let exactly = json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2});
    let requests = json!([{"name": "r", "exactly": exactly}]);
    let spec = json!({"devices": {"requests": requests}});
    world
        .create(object(
            "resource.k8s.io/v1",
            "ResourceClaim",
            "c",
            json!({ "spec": spec }),
        ))
        .await;
    let hard = json!({
        "gpu.deviceclass.resource.k8s.io/devices": "9",
        "count/resourceclaims.resource.k8s.io": "9",
    });
    world.create(quota(hard)).await;
    let used = |number: &str| json!({"count/resourceclaims.resource.k8s.io": number});
    world.until_used(used("1")).await;
    let path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/c";
    world.cluster.delete(path).await.unwrap();
    world.until_used(used("0")).await;
}
