//! Tests of the garbage collector against the in-memory API server.
//!
//! ConfigMaps and Secrets own each other, because no other controller acts on them.

mod conflicting;
mod custom;
mod flags;
mod memory;
mod model;
mod races;
mod stage;
mod unseen;
mod worker;

use std::time::Duration;

use serde_json::{Value, json};
use steersman_devcluster::faults::{EVERY_GROUP, Matcher};
use steersman_devcluster::status::{Qualified, Status};

use super::DESCRIPTOR;
use crate::testing::NAMESPACE;
use crate::testing::world::World;

/// Long enough for all work without injected delays, including two rounds of discovery.
const A_WHILE: Duration = Duration::from_secs(65);

/// A ConfigMap with references to `owners`; the flag is `blockOwnerDeletion`.
fn owned(name: &str, owners: &[(&Value, bool)]) -> Value {
    let reference = |(owner, blocks): &(&Value, bool)| {
        json!({
            "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"], "blockOwnerDeletion": blocks,
        })
    };
    let owners: Vec<Value> = owners.iter().map(reference).collect();
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "ownerReferences": owners}})
}

/// `object` with a finalizer of another program, so its deletion waits for the test.
fn with_finalizer(mut object: Value) -> Value {
    object["metadata"]["finalizers"] = json!(["example.com/hold"]);
    object
}

impl World {
    /// A cluster with a running garbage collector.
    async fn with_collector() -> Self {
        let mut world = Self::bare().await;
        world.restart(&[DESCRIPTOR]).await;
        world
    }

    async fn config_map(&self, name: &str, owners: &[(&Value, bool)]) -> Value {
        self.create(owned(name, owners)).await
    }

    async fn delete_with(&self, name: &str, policy: &str) {
        self.delete_as("configmaps", name, json!({"propagationPolicy": policy}))
            .await;
    }

    async fn delete_as(&self, plural: &str, name: &str, options: Value) {
        self.cluster
            .delete_with(&self.cluster.path(plural, NAMESPACE, name), options)
            .await
            .unwrap();
    }

    async fn remove_finalizers(&self, name: &str) {
        self.patch(
            "configmaps",
            name,
            json!({"metadata": {"finalizers": null}}),
        )
        .await;
    }

    fn config_maps(&self) -> Vec<String> {
        let maps = self.cluster.objects("configmaps");
        maps.iter()
            .map(|map| map["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    }

    async fn until_config_maps(&self, expected: &[&str]) {
        self.until(&format!("left with {expected:?}"), |_| {
            self.config_maps() == expected
        })
        .await;
    }

    fn owners_of(&self, name: &str) -> Vec<String> {
        let object = self.find("configmaps", name).unwrap();
        let owners = object["metadata"]["ownerReferences"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        owners
            .iter()
            .map(|owner| owner["name"].as_str().unwrap().to_owned())
            .collect()
    }

    /// The collector's requests for single ConfigMaps: verb, name and status code.
    fn collector_requests(&self) -> Vec<String> {
        let ours = |agent: &str| agent.ends_with("/generic-garbage-collector");
        let requests = self.cluster.requests();
        let requests = requests
            .iter()
            .filter(|r| ours(&r.user_agent) && r.path.contains("/configmaps/"));
        requests
            .map(|r| {
                format!(
                    "{} {} {}",
                    r.verb,
                    r.path.rsplit('/').next().unwrap(),
                    r.status
                )
            })
            .collect()
    }
}

#[tokio::test(start_paused = true)]
async fn background_deletion_deletes_dependents_level_by_level() {
    let world = World::with_collector().await;
    let a = world.config_map("a", &[]).await;
    let b = world.config_map("b", &[(&a, false)]).await;
    world.config_map("c", &[(&b, true)]).await;
    world.config_map("d", &[]).await;
    tokio::time::sleep(A_WHILE).await;
    // An update without a meaning for the graph, as the kubelet's updates of pods are.
    let data = json!({"data": {"x": "y"}});
    world.patch("configmaps", "b", data).await;
    tokio::time::sleep(A_WHILE).await;
    world.clear_requests();
    world.delete_with("a", "Background").await;
    world.until_config_maps(&["d"]).await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(
        world.collector_requests(),
        ["delete b 200", "delete c 200"],
        "one request for each dependent"
    );
}

#[tokio::test(start_paused = true)]
async fn a_live_read_decides_about_an_object_that_changed_since_the_watch_showed_it() {
    let world = World::with_collector().await;
    let a = world.config_map("a", &[]).await;
    world.config_map("b", &[(&a, false)]).await;
    tokio::time::sleep(A_WHILE).await;
    world.clear_requests();
    let config_maps = Qualified {
        name: "configmaps",
        group: "",
    };
    world.cluster.faults().reject(
        Matcher::new("delete", "configmaps").name("b"),
        Status::modified(config_maps, "b"),
        Some(1),
    );
    world.delete_with("a", "Background").await;
    world.until_config_maps(&[]).await;
    assert_eq!(
        world.collector_requests(),
        ["delete b 409", "get b 200", "delete b 200"]
    );
}

#[tokio::test(start_paused = true)]
async fn foreground_deletion_waits_only_for_blocking_dependents() {
    let world = World::with_collector().await;
    let a = world.config_map("a", &[]).await;
    world
        .create(with_finalizer(owned("blocking", &[(&a, true)])))
        .await;
    world
        .create(with_finalizer(owned("not-blocking", &[(&a, false)])))
        .await;
    let nested = world.config_map("nested", &[(&a, true)]).await;
    world.config_map("leaf", &[(&nested, true)]).await;
    tokio::time::sleep(A_WHILE).await;
    world.delete_with("a", "Foreground").await;
    world
        .until_config_maps(&["a", "blocking", "not-blocking"])
        .await;
    tokio::time::sleep(A_WHILE).await;
    world
        .until_config_maps(&["a", "blocking", "not-blocking"])
        .await;
    assert!(
        world.find("configmaps", "not-blocking").unwrap()["metadata"]["deletionTimestamp"]
            .is_string()
    );
    world.remove_finalizers("blocking").await;
    world.until_config_maps(&["not-blocking"]).await;
    world.remove_finalizers("not-blocking").await;
    world.until_config_maps(&[]).await;
}

#[tokio::test(start_paused = true)]
async fn orphans_lose_their_reference_and_stay() {
    let world = World::with_collector().await;
    let a = world.config_map("a", &[]).await;
    let other = world.config_map("other", &[]).await;
    world.config_map("b", &[(&a, true)]).await;
    world.config_map("c", &[(&a, false), (&other, false)]).await;
    tokio::time::sleep(A_WHILE).await;
    world.clear_requests();
    world.delete_with("a", "Orphan").await;
    world.until_config_maps(&["b", "c", "other"]).await;
    tokio::time::sleep(A_WHILE).await;
    world.until_config_maps(&["b", "c", "other"]).await;
    assert_eq!(world.owners_of("b"), Vec::<String>::new());
    assert_eq!(world.owners_of("c"), ["other"]);
    let mut requests = world.collector_requests();
    // The two patches run in parallel.
    requests[..2].sort();
    assert_eq!(
        requests,
        ["patch b 200", "patch c 200", "get a 200", "patch a 200"]
    );
}

#[tokio::test(start_paused = true)]
async fn an_object_with_a_second_owner_stays_and_loses_its_reference_to_the_waiting_owner() {
    let world = World::with_collector().await;
    let a = world.config_map("a", &[]).await;
    let second = world.config_map("second", &[]).await;
    world.config_map("b", &[(&a, true), (&second, true)]).await;
    world.delete_with("a", "Foreground").await;
    world.until_config_maps(&["b", "second"]).await;
    assert_eq!(world.owners_of("b"), ["second"]);
}

#[tokio::test(start_paused = true)]
async fn foreground_deletion_ends_for_owners_in_a_cycle() {
    let world = World::with_collector().await;
    let a = world.config_map("a", &[]).await;
    let b = world.config_map("b", &[(&a, true)]).await;
    let back = owned("a", &[(&b, true)])["metadata"]["ownerReferences"].clone();
    world
        .patch(
            "configmaps",
            "a",
            json!({"metadata": {"ownerReferences": back}}),
        )
        .await;
    tokio::time::sleep(A_WHILE).await;
    world.until_config_maps(&["a", "b"]).await;
    world.delete_with("a", "Foreground").await;
    world.until_config_maps(&[]).await;
}

#[tokio::test(start_paused = true)]
async fn only_existing_owners_and_owners_of_unknown_kinds_keep_an_object() {
    let world = World::with_collector().await;
    let a = world.config_map("a", &[]).await;
    let change = |field: &str, value: &str| {
        let mut other = a.clone();
        match field {
            "name" | "uid" => other["metadata"][field] = json!(value),
            _ => other[field] = json!(value),
        }
        other
    };
    // (name, reference, whether it stays)
    let cases = [
        ("good", a.clone(), true),
        ("unknown-kind", change("kind", "Nothing"), true),
        (
            "unknown-group",
            change("apiVersion", "example.com/v1"),
            true,
        ),
        ("wrong-kind", change("kind", "Secret"), false),
        ("wrong-name", change("name", "other"), false),
        (
            "wrong-uid",
            change("uid", "0e5f2a64-56c0-4c6e-a4bd-6d5d8f7d8a01"),
            false,
        ),
    ];
    for (name, owner, _) in &cases {
        world.config_map(name, &[(owner, true)]).await;
    }
    let mut stay: Vec<&str> = cases
        .iter()
        .filter(|(_, _, stays)| *stays)
        .map(|(name, ..)| *name)
        .chain(["a"])
        .collect();
    stay.sort_unstable();
    world.until_config_maps(&stay).await;
    tokio::time::sleep(A_WHILE).await;
    world.until_config_maps(&stay).await;
}

#[tokio::test(start_paused = true)]
async fn an_owner_in_another_namespace_does_not_count_and_causes_an_event() {
    let world = World::with_collector().await;
    world
        .create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}))
        .await;
    let mut elsewhere = owned("a", &[]);
    elsewhere["metadata"]["namespace"] = json!("other");
    let a = world.create(elsewhere).await;
    tokio::time::sleep(A_WHILE).await;
    world.config_map("dependent", &[(&a, true)]).await;
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {
        "name": "wide", "ownerReferences": owned("x", &[(&a, true)])["metadata"]["ownerReferences"],
    }});
    world.create(role).await;
    world.until_config_maps(&["a"]).await;
    tokio::time::sleep(A_WHILE).await;
    world.until_config_maps(&["a"]).await;
    assert!(
        world.find("clusterroles", "wide").is_some(),
        "a cluster-scoped dependent stays"
    );
    let events = world.state().events_about("dependent");
    let uid = a["metadata"]["uid"].as_str().unwrap();
    let message = format!(
        "ownerRef [v1/ConfigMap, namespace: default, name: a, uid: {uid}] does not exist in namespace \"default\""
    );
    assert_eq!(events, [("OwnerRefInvalidNamespace".to_owned(), message)]);
}

#[tokio::test(start_paused = true)]
async fn the_debug_page_shows_the_graph_and_a_metric_counts_sync_errors() {
    let mut world = World::bare().await;
    let pages = std::cell::OnceCell::new();
    world
        .restart_with(&[DESCRIPTOR], |context| {
            let _ = pages.set(context.debug.clone());
            context
        })
        .await;
    let graph = pages
        .get()
        .unwrap()
        .get("garbage-collector-controller/graph")
        .unwrap();
    let a = world.config_map("a", &[]).await;
    let b = world.config_map("b", &[(&a, true)]).await;
    world.config_map("alone", &[]).await;
    tokio::time::sleep(A_WHILE).await;
    let uid = |object: &Value| object["metadata"]["uid"].as_str().unwrap().to_owned();
    let edge = format!("  {:?} -> {:?};\n", uid(&b), uid(&a));
    for query in [String::new(), format!("uid={}", uid(&b))] {
        let shown = graph(&query).body;
        assert!(
            shown.contains(&edge)
                && shown.contains("ConfigMap.v1/a\\n")
                && !shown.contains("alone"),
            "{query}: {shown}"
        );
    }
    assert_eq!(graph("uid=unknown").body, "strict digraph full {\n}\n");

    let counted = |name: &str| {
        let families = world.registry.gather();
        let family = families
            .iter()
            .find(|family| family.name() == name)
            .unwrap();
        family.get_metric()[0].get_counter().get_value()
    };
    const ERRORS: &str = "garbagecollector_controller_resources_sync_error_total";
    assert!(counted(ERRORS) == 0.0);
    world.cluster.faults().hide_from_discovery(EVERY_GROUP);
    tokio::time::sleep(A_WHILE).await;
    assert!(counted(ERRORS) >= 2.0, "one error every 30 seconds");
}
