//! Stories of the garbage collector on a test cluster: ConfigMaps and Secrets that own each other.

mod conflicting;
mod custom;
mod flags;
mod memory;
mod model;
mod ported;
mod races;
mod stage;
mod unseen;

use std::time::Duration;

use serde_json::{Value, json};
use steersman_devcluster::faults::EVERY_GROUP;

use super::DESCRIPTOR;
use crate::testing::NAMESPACE;
use crate::testing::world::World;

/// Long enough for everything that is not held up to have happened, two looks at discovery
/// included.
const A_WHILE: Duration = Duration::from_secs(65);

/// A ConfigMap that the objects of `owners` own; with `true` it blocks the deletion.
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

fn held(mut object: Value) -> Value {
    object["metadata"]["finalizers"] = json!(["example.com/hold"]);
    object
}

impl World {
    async fn collected() -> Self {
        let mut world = Self::bare().await;
        world.restart(&[DESCRIPTOR]).await;
        world
    }

    async fn map(&self, name: &str, owners: &[(&Value, bool)]) -> Value {
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

    async fn let_go(&self, name: &str) {
        self.patch(
            "configmaps",
            name,
            json!({"metadata": {"finalizers": null}}),
        )
        .await;
    }

    fn maps(&self) -> Vec<String> {
        let maps = self.cluster.objects("configmaps");
        maps.iter()
            .map(|map| map["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    }

    async fn until_maps(&self, expected: &[&str]) {
        self.until(&format!("left with {expected:?}"), |_| {
            self.maps() == expected
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

    /// What the collector asked for and wrote, discovery and watches aside.
    fn collector_asked(&self) -> Vec<String> {
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
async fn what_a_deleted_object_owned_goes_in_turn() {
    let world = World::collected().await;
    let a = world.map("a", &[]).await;
    let b = world.map("b", &[(&a, false)]).await;
    world.map("c", &[(&b, true)]).await;
    world.map("d", &[]).await;
    tokio::time::sleep(A_WHILE).await;
    world.cluster.clear_requests();
    world.delete_with("a", "Background").await;
    world.until_maps(&["d"]).await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(
        world.collector_asked(),
        ["get b 200", "delete b 200", "get c 200", "delete c 200"],
        "one read and one write each"
    );
}

#[tokio::test(start_paused = true)]
async fn a_foreground_deletion_waits_for_what_blocks_it_and_for_nothing_else() {
    let world = World::collected().await;
    let a = world.map("a", &[]).await;
    world.create(held(owned("blocking", &[(&a, true)]))).await;
    world.create(held(owned("loose", &[(&a, false)]))).await;
    let nested = world.map("nested", &[(&a, true)]).await;
    world.map("leaf", &[(&nested, true)]).await;
    tokio::time::sleep(A_WHILE).await;
    world.delete_with("a", "Foreground").await;
    world.until_maps(&["a", "blocking", "loose"]).await;
    tokio::time::sleep(A_WHILE).await;
    world.until_maps(&["a", "blocking", "loose"]).await;
    assert!(
        world.find("configmaps", "loose").unwrap()["metadata"]["deletionTimestamp"].is_string()
    );
    world.let_go("blocking").await;
    world.until_maps(&["loose"]).await;
    world.let_go("loose").await;
    world.until_maps(&[]).await;
}

#[tokio::test(start_paused = true)]
async fn orphans_lose_their_reference_and_stay() {
    let world = World::collected().await;
    let (a, other) = (world.map("a", &[]).await, world.map("other", &[]).await);
    world.map("b", &[(&a, true)]).await;
    world.map("c", &[(&a, false), (&other, false)]).await;
    tokio::time::sleep(A_WHILE).await;
    world.cluster.clear_requests();
    world.delete_with("a", "Orphan").await;
    world.until_maps(&["b", "c", "other"]).await;
    tokio::time::sleep(A_WHILE).await;
    world.until_maps(&["b", "c", "other"]).await;
    assert_eq!(world.owners_of("b"), Vec::<String>::new());
    assert_eq!(world.owners_of("c"), ["other"]);
    let mut asked = world.collector_asked();
    asked[..2].sort();
    assert_eq!(
        asked,
        ["patch b 200", "patch c 200", "get a 200", "patch a 200"]
    );
}

#[tokio::test(start_paused = true)]
async fn an_object_with_another_owner_survives_and_forgets_the_one_that_waits() {
    let world = World::collected().await;
    let (a, solid) = (world.map("a", &[]).await, world.map("solid", &[]).await);
    world.map("b", &[(&a, true), (&solid, true)]).await;
    world.delete_with("a", "Foreground").await;
    world.until_maps(&["b", "solid"]).await;
    assert_eq!(world.owners_of("b"), ["solid"]);
}

#[tokio::test(start_paused = true)]
async fn owners_in_a_circle_do_not_wait_for_each_other_for_ever() {
    let world = World::collected().await;
    let a = world.map("a", &[]).await;
    let b = world.map("b", &[(&a, true)]).await;
    let back = owned("a", &[(&b, true)])["metadata"]["ownerReferences"].clone();
    world
        .patch(
            "configmaps",
            "a",
            json!({"metadata": {"ownerReferences": back}}),
        )
        .await;
    tokio::time::sleep(A_WHILE).await;
    world.until_maps(&["a", "b"]).await;
    world.delete_with("a", "Foreground").await;
    world.until_maps(&[]).await;
}

#[tokio::test(start_paused = true)]
async fn references_to_what_is_not_there_do_not_keep_an_object_and_references_to_the_unknown_do() {
    let world = World::collected().await;
    let a = world.map("a", &[]).await;
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
        world.map(name, &[(owner, true)]).await;
    }
    let mut stay: Vec<&str> = cases
        .iter()
        .filter(|(_, _, stays)| *stays)
        .map(|(name, ..)| *name)
        .chain(["a"])
        .collect();
    stay.sort_unstable();
    world.until_maps(&stay).await;
    tokio::time::sleep(A_WHILE).await;
    world.until_maps(&stay).await;
}

#[tokio::test(start_paused = true)]
async fn an_owner_in_another_namespace_is_none_and_an_event_says_so() {
    let world = World::collected().await;
    world
        .create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}))
        .await;
    let mut elsewhere = owned("a", &[]);
    elsewhere["metadata"]["namespace"] = json!("other");
    let a = world.create(elsewhere).await;
    tokio::time::sleep(A_WHILE).await;
    world.map("stranger", &[(&a, true)]).await;
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {
        "name": "wide", "ownerReferences": owned("x", &[(&a, true)])["metadata"]["ownerReferences"],
    }});
    world.create(role).await;
    world.until_maps(&["a"]).await;
    tokio::time::sleep(A_WHILE).await;
    world.until_maps(&["a"]).await;
    assert!(
        world.find("clusterroles", "wide").is_some(),
        "cluster-scoped objects are left alone"
    );
    let events = world.state().events_about("stranger");
    let uid = a["metadata"]["uid"].as_str().unwrap();
    let message = format!(
        "ownerRef [v1/ConfigMap, namespace: default, name: a, uid: {uid}] does not exist in namespace \"default\""
    );
    assert_eq!(events, [("OwnerRefInvalidNamespace".to_owned(), message)]);
}

#[tokio::test(start_paused = true)]
async fn what_it_knows_is_shown_and_what_goes_wrong_is_counted() {
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
    let a = world.map("a", &[]).await;
    let b = world.map("b", &[(&a, true)]).await;
    world.map("alone", &[]).await;
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
    assert_eq!(graph("uid=nobody").body, "strict digraph full {\n}\n");

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
    assert!(counted(ERRORS) >= 2.0, "one in 30 seconds");
}
