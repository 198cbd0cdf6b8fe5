//! Whole syncs against the in-memory API server, which has StorageVersions as a custom kind.

use serde_json::{Value, json};
use steersman_devcluster::definitions::definition;
use steersman_devcluster::faults::{Matcher, internal_error};

use super::DESCRIPTOR;
use crate::testing::world::World;

const VERSIONS: &str = "storageversions";

/// The identity Lease of an API server.
fn lease(name: &str, component: &str) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {
            "name": name, "namespace": "kube-system",
            "labels": {"apiserver.kubernetes.io/identity": component},
        },
        "spec": {"holderIdentity": name},
    })
}

/// A StorageVersion with servers and their encoding versions.
fn version(entries: &[(&str, &str)]) -> Value {
    let entry = |(server, encoding): &(&str, &str)| json!({"apiServerID": server, "encodingVersion": encoding, "decodableVersions": [encoding]});
    let entries: Vec<Value> = entries.iter().map(entry).collect();
    json!({
        "apiVersion": "internal.apiserver.k8s.io/v1alpha1", "kind": "StorageVersion",
        "metadata": {"name": "k8s.test.resources"}, "spec": {},
        "status": {"storageVersions": entries, "commonEncodingVersion": "v1"},
    })
}

impl World {
    /// A cluster with these API servers, and a StorageVersion with these entries.
    async fn of_servers(live: &[&str], entries: &[(&str, &str)]) -> Self {
        let mut world = Self::bare().await;
        world
            .create(definition(
                "internal.apiserver.k8s.io",
                "StorageVersion",
                &["v1alpha1"],
                "Cluster",
            ))
            .await;
        for name in live {
            world.create(lease(name, "kube-apiserver")).await;
        }
        world.cluster.load(version(entries)).unwrap();
        world.restart(&[DESCRIPTOR]).await;
        world
    }

    async fn delete_lease(&self, name: &str) {
        let path = self.cluster.path("leases", "kube-system", name);
        self.cluster.delete(&path).await.unwrap();
    }

    /// The status of the StorageVersion after all retries; `None` if it is gone.
    async fn stored(&self) -> Option<Value> {
        self.a_minute().await;
        let mut versions = self.cluster.objects(VERSIONS);
        versions.pop().map(|version| version["status"].clone())
    }
}

fn servers(status: &Value) -> Vec<&str> {
    let entries = status["storageVersions"].as_array().unwrap();
    entries
        .iter()
        .map(|entry| entry["apiServerID"].as_str().unwrap())
        .collect()
}

/// Upstream: `Test_StorageVersionUpdatedWithAllEncodingVersionsEqualOnLeaseDeletion` and
/// `Test_StorageVersionUpdatedWithDifferentEncodingVersionsOnLeaseDeletion`.
#[tokio::test(start_paused = true)]
async fn entries_of_a_deleted_lease_are_removed() {
    // (encoding versions, common version, condition)
    let cases = [
        (["v1", "v1", "v2"], json!("v1"), "True"),
        (["v1", "v3", "v2"], Value::Null, "False"),
    ];
    for ([a, b, c], common, condition) in cases {
        let entries = [("a", a), ("b", b), ("c", c)];
        let world = World::of_servers(&["a", "b", "c"], &entries).await;
        world.delete_lease("c").await;
        let status = world.stored().await.unwrap();
        assert_eq!(servers(&status), ["a", "b"]);
        assert_eq!(
            status["storageVersions"][0]["decodableVersions"],
            json!([a])
        );
        assert_eq!(status["commonEncodingVersion"], common);
        let [found] = &status["conditions"].as_array().unwrap()[..] else {
            panic!("{status:#}")
        };
        assert_eq!(found["type"], "AllEncodingVersionsEqual");
        assert_eq!(found["status"], condition, "{found}");
        let reason = match condition {
            "True" => "CommonEncodingVersionSet",
            _ => "CommonEncodingVersionUnset",
        };
        assert_eq!(found["reason"], reason);
    }
}

/// Upstream: `Test_StorageVersionContainsInvalidLeaseID`.
#[tokio::test(start_paused = true)]
async fn entries_without_a_lease_are_removed() {
    let entries = [("a", "v1"), ("gone", "v2"), ("other", "v3")];
    let world = World::of_servers(&["a"], &entries).await;
    world
        .create(lease("other", "kube-controller-manager"))
        .await;
    let status = world.stored().await.unwrap();
    assert_eq!(servers(&status), ["a"]);
    assert_eq!(status["commonEncodingVersion"], "v1");
}

/// Upstream: `Test_StorageVersionDeletedOnLeaseDeletion`.
#[tokio::test(start_paused = true)]
async fn a_version_without_entries_is_deleted() {
    let world = World::of_servers(&["a"], &[("a", "v1")]).await;
    assert!(world.stored().await.is_some());
    world.delete_lease("a").await;
    assert_eq!(world.stored().await, None);
}

/// Upstream removes the entry in this case.
#[tokio::test(start_paused = true)]
async fn an_unreadable_lease_keeps_its_entry() {
    let world = World::of_servers(&["a", "b"], &[("a", "v1")]).await;
    world.cluster.faults().reject(
        Matcher {
            name: Some("b".to_owned()),
            ..Matcher::new("get", "leases")
        },
        internal_error(),
        Some(2),
    );
    let path = world.cluster.path(VERSIONS, "", "k8s.test.resources");
    let status = version(&[("a", "v1"), ("b", "v1"), ("gone", "v1")])["status"].clone();
    world
        .cluster
        .patch(&(path + "/status"), json!({"status": status}))
        .await
        .unwrap();
    let status = world.stored().await.unwrap();
    assert_eq!(servers(&status), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn versions_at_rest_cause_no_writes() {
    let world = World::of_servers(&["a", "b"], &[("a", "v1"), ("b", "v1")]).await;
    world.a_minute().await;
    // The first list of StorageVersions may precede that of Leases.
    let requests = world.requests_of(DESCRIPTOR.identity);
    let is_read = |line: &String| line.starts_with("get ");
    assert!(requests.iter().all(is_read), "{requests:#?}");
}
