//! Custom resources as owners and dependents, and CustomResourceDefinitions that are created and
//! deleted.

use std::collections::BTreeMap;

use super::*;

const DEFINITION: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";

/// Longer than the collector needs to discover a new type.
const ONE_DISCOVERY: Duration = Duration::from_secs(35);

impl World {
    /// Creates the CustomResourceDefinition of widgets.
    async fn define(&self) {
        let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        let version = json!({"name": "v1", "served": true, "storage": true, "schema": schema});
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
                "versions": [version],
            },
        });
        self.create(definition).await;
    }

    async fn widget(&self, name: &str, owners: &[(&Value, bool)]) -> Value {
        let references = owned(name, owners)["metadata"]["ownerReferences"].clone();
        let metadata = json!({"name": name, "namespace": NAMESPACE, "ownerReferences": references});
        self.create(json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata}))
            .await
    }

    /// Names of all widgets and ConfigMaps.
    fn left(&self) -> Vec<String> {
        let objects = [
            self.cluster.objects("widgets"),
            self.cluster.objects("configmaps"),
        ]
        .concat();
        objects
            .iter()
            .map(|object| object["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    }

    async fn until_left(&self, expected: &[&str]) {
        self.until(&format!("left with {expected:?}"), |_| {
            self.left() == expected
        })
        .await;
    }

    /// The number of watches of widgets that the collector opened so far.
    fn watches_of_widgets(&self) -> usize {
        self.cluster
            .requests()
            .iter()
            .filter(|r| r.verb == "watch" && r.resource == "widgets" && r.status == 200)
            .count()
    }
}

/// Upstream: `TestCustomResourceCascadingDeletion`, `TestMixedRelationships`.
#[tokio::test(start_paused = true)]
async fn custom_resources_own_and_are_owned() {
    let world = World::with_collector().await;
    world.define().await;
    let owner = world.widget("owner", &[]).await;
    world.widget("dependent", &[(&owner, true)]).await;
    world.config_map("core-dependent", &[(&owner, true)]).await;
    let core = world.config_map("core-owner", &[]).await;
    world.widget("dependent-of-core", &[(&core, true)]).await;
    tokio::time::sleep(ONE_DISCOVERY).await;
    world
        .delete_as(
            "widgets",
            "owner",
            json!({"propagationPolicy": "Foreground"}),
        )
        .await;
    world.until_left(&["dependent-of-core", "core-owner"]).await;
    world.delete_with("core-owner", "Foreground").await;
    world.until_left(&[]).await;
}

#[tokio::test(start_paused = true)]
async fn custom_resources_are_orphaned_and_deleted_in_the_background() {
    let world = World::with_collector().await;
    world.define().await;
    let a = world.widget("a", &[]).await;
    let b = world.widget("b", &[]).await;
    world.widget("of-a", &[(&a, true)]).await;
    world.widget("of-both", &[(&a, true), (&b, true)]).await;
    tokio::time::sleep(ONE_DISCOVERY).await;
    world
        .delete_as("widgets", "a", json!({"propagationPolicy": "Orphan"}))
        .await;
    world.until_left(&["b", "of-a", "of-both"]).await;
    assert_eq!(
        world.find("widgets", "of-a").unwrap()["metadata"]["ownerReferences"],
        Value::Null
    );
    world
        .delete_as("widgets", "b", json!({"propagationPolicy": "Background"}))
        .await;
    world.until_left(&["of-a"]).await;
}

/// Upstream: `TestCRDDeletionCascading`, both passes.
#[tokio::test(start_paused = true)]
async fn dependents_of_custom_resources_are_deleted_with_the_definition() {
    let world = World::with_collector().await;
    for pass in 1..=2 {
        world.define().await;
        let owner = world.widget("owner", &[]).await;
        world.config_map("dependent", &[(&owner, false)]).await;
        tokio::time::sleep(ONE_DISCOVERY).await;
        assert_eq!(world.watches_of_widgets(), pass, "one watch in each pass");
        world.until_left(&["owner", "dependent"]).await;
        world.cluster.delete(DEFINITION).await.unwrap();
        world.until_left(&[]).await;
        tokio::time::sleep(ONE_DISCOVERY).await;
        assert_eq!(
            world.watches_of_widgets(),
            pass,
            "a deleted type is not watched"
        );
    }
}

/// Runs all controllers. Several of them use the same types.
#[tokio::test(start_paused = true)]
async fn all_controllers_share_one_list_and_one_watch_per_type() {
    let mut world = World::bare().await;
    world.define().await;
    world.clear_requests();
    // The SELinux controller has a view of pods of its own, and is off by default. Requests for the status of pools
    // have one of slices, and need a feature gate that is off by default.
    let pools = crate::resourcepoolstatusrequest::DESCRIPTOR.name;
    let by_default = crate::ALL.iter();
    let by_default = by_default.filter(|one| one.enabled_by_default && one.name != pools);
    world
        .restart(&by_default.copied().collect::<Vec<_>>())
        .await;
    tokio::time::sleep(A_WHILE).await;
    // The requests of each path and field selector: some views select the objects of their resource.
    let of = |verb: &str| -> Vec<(String, u64)> {
        let requests = world.cluster.requests();
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for request in requests.iter().filter(|request| request.verb == verb) {
            let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
            let selector = query
                .split('&')
                .find(|part| part.starts_with("fieldSelector="));
            let resource = path.rsplit('/').next().unwrap_or_default();
            *counts
                .entry(format!("{resource}{}", selector.unwrap_or_default()))
                .or_default() += 1;
        }
        Vec::from_iter(counts)
    };
    let watches = of("watch");
    for needed in [
        "pods",
        "nodes",
        "replicasets",
        "deployments",
        "namespaces",
        "secrets",
        "widgets",
    ] {
        assert!(
            watches.iter().any(|(resource, _)| resource == needed),
            "{needed} in {watches:?}"
        );
    }
    assert!(watches.iter().all(|(_, count)| *count == 1), "{watches:?}");
    assert!(
        of("list").iter().all(|(_, count)| *count <= 1),
        "{:?}",
        of("list")
    );
}
