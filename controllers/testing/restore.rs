//! An etcd restore while controllers run.
//!
//! Afterwards resource versions are lower than before. Expectations and own writes refer to lost
//! writes, so controllers must drop them and not wait for them. See `SharedInformer::on_rewind`.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_devcluster::Snapshot;
use steersman_devcluster::faults::{Matcher, internal_error};
use steersman_runtime::controller::Descriptor;

use crate::testing::world::World;
use crate::{deployment, garbagecollector, persistentvolume, podgc, replicaset};

/// Less than the lifetime of expectations (five minutes), and enough for all other work.
const SOON: Duration = Duration::from_secs(150);

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": image}]}})
}

fn web(kind: &str) -> Value {
    let spec = json!({"replicas": 0, "selector": {"matchLabels": {"app": "web"}}, "template": template("one")});
    json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "web"}, "spec": spec})
}

fn names(world: &World, plural: &str) -> Vec<String> {
    let objects = world.cluster.objects(plural);
    objects
        .iter()
        .map(|object| object["metadata"]["name"].as_str().unwrap().to_owned())
        .collect()
}

async fn world(controller: Descriptor) -> World {
    let mut world = World::bare().await;
    world.restart(&[controller]).await;
    world
}

impl World {
    /// Adds writes, so that the revisions are far above the backup, and then restores it.
    async fn lose_everything_since(&mut self, backup: &Snapshot) {
        for number in 0..50 {
            let name = format!("later-{number}");
            self.create(
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}),
            )
            .await;
        }
        self.restore(backup);
    }
}

#[tokio::test(start_paused = true)]
async fn a_replica_set_does_not_wait_for_lost_writes() {
    let mut world = world(replicaset::DESCRIPTOR).await;
    world.create(web("ReplicaSet")).await;
    world.at_rest().await;
    let backup = world.cluster.snapshot();
    let grow = || json!({"spec": {"replicas": 2}});
    world.cluster.faults().stall_watches("pods");
    world.patch("replicasets", "web", grow()).await;
    world
        .until("two pods that the cache lacks", |state| {
            state.pods.len() == 2
        })
        .await;
    world.lose_everything_since(&backup).await;
    assert_eq!(world.state().pods.len(), 0);
    tokio::time::sleep(Duration::from_secs(30)).await;
    world.patch("replicasets", "web", grow()).await;
    tokio::time::sleep(SOON).await;
    assert_eq!(world.state().pods.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_deployment_does_not_wait_for_lost_writes() {
    let mut world = world(deployment::DESCRIPTOR).await;
    world.create(web("Deployment")).await;
    world.at_rest().await;
    let backup = world.cluster.snapshot();
    let roll = || json!({"spec": {"template": template("two")}});
    world.cluster.faults().stall_watches("replicasets");
    world.patch("deployments", "web", roll()).await;
    world
        .until("a ReplicaSet that the cache lacks", |state| {
            state.replica_sets.len() == 2
        })
        .await;
    world.lose_everything_since(&backup).await;
    assert_eq!(world.state().replica_sets.len(), 1);
    tokio::time::sleep(Duration::from_secs(30)).await;
    world.patch("deployments", "web", roll()).await;
    tokio::time::sleep(SOON).await;
    assert_eq!(world.state().replica_sets.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_restored_pod_is_removed_again() {
    let mut world = world(podgc::DESCRIPTOR).await;
    let mut pod = template("one");
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["metadata"]["name"] = json!("lost");
    pod["spec"]["nodeName"] = json!("gone");
    world.create(pod).await;
    let backup = world.cluster.snapshot();
    world.until("removed", |state| state.pods.is_empty()).await;
    world.lose_everything_since(&backup).await;
    assert_eq!(world.state().pods.len(), 1);
    tokio::time::sleep(SOON).await;
    assert_eq!(world.state().pods.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_restored_owner_does_not_count_as_absent() {
    let mut world = world(garbagecollector::DESCRIPTOR).await;
    let owner = world
        .create(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}}))
        .await;
    let reference =
        |uid: &Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid});
    let owned = reference(&owner["metadata"]["uid"]);
    world.create(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "owned", "ownerReferences": [owned]}})).await;
    tokio::time::sleep(SOON).await;
    let backup = world.cluster.snapshot();
    world.delete("configmaps", "owner").await;
    tokio::time::sleep(SOON).await;
    assert_eq!(
        names(&world, "secrets"),
        [""; 0],
        "it is deleted with its owner, which now counts as absent"
    );

    world.lose_everything_since(&backup).await;
    // The collector gets no event about the restored owner. It must discard the proof of absence
    // because of the rewind alone.
    for verb in ["list", "watch"] {
        let faults = world.cluster.faults();
        faults.reject(Matcher::new(verb, "configmaps"), internal_error(), None);
    }
    tokio::time::sleep(SOON).await;
    let owners = json!([owned, reference(&json!("unknown-uid"))]);
    world
        .patch(
            "secrets",
            "owned",
            json!({"metadata": {"ownerReferences": owners}}),
        )
        .await;
    tokio::time::sleep(SOON).await;
    assert_eq!(names(&world, "secrets"), ["owned"]);
    let left = &world.cluster.objects("secrets")[0]["metadata"]["ownerReferences"];
    assert_eq!(left, &json!([owned]), "the dangling reference is removed");
}

/// The binder ignores states that are older than its own writes.
#[tokio::test(start_paused = true)]
async fn restored_claims_and_volumes_are_bound_again() {
    let mut world = world(persistentvolume::DESCRIPTOR).await;
    let volume = |name: &str, size: &str| {
        json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
            "spec": {
                "accessModes": ["ReadWriteOnce"], "capacity": {"storage": size},
                "csi": {"driver": "csi.example.com", "volumeHandle": name},
            },
        })
    };
    let claim = |name: &str, size: &str| {
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}},
        })
    };
    let phase = |world: &World, plural: &str, name: &str| -> Value {
        world.find(plural, name).unwrap_or_default()["status"]["phase"].take()
    };
    let is_pending = |world: &World| {
        phase(world, "persistentvolumes", "small") == "Available"
            && phase(world, "persistentvolumeclaims", "waiting") == "Pending"
    };
    let are_bound = |world: &World| {
        ["waiting", "new"]
            .iter()
            .all(|name| phase(world, "persistentvolumeclaims", name) == "Bound")
    };
    world.create(volume("small", "1Gi")).await;
    world.create(claim("waiting", "2Gi")).await;
    world
        .until("a claim without a volume", |_| is_pending(&world))
        .await;
    let backup = world.cluster.snapshot();
    for _ in 0..2 {
        // One claim is in the backup, the volume of the other one too.
        world.create(volume("large", "2Gi")).await;
        world.create(claim("new", "1Gi")).await;
        world.until("two bound claims", |_| are_bound(&world)).await;
        world.lose_everything_since(&backup).await;
        assert!(is_pending(&world) && !are_bound(&world));
        tokio::time::sleep(SOON).await;
    }
}
