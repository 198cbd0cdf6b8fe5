//! VolumeAttributesClasses.

use serde_json::{Value, json};

use super::{Story, claim, deleted, protected, volume, with};
use crate::protection::classes::DESCRIPTOR;
use crate::testing::world::World;

const FINALIZER: &str = "kubernetes.io/vac-protection";
const CLASSES: &str = "volumeattributesclasses";
const UPDATE: &str = "update volumeattributesclasses/gold";
const LISTS: [&str; 2] = ["list persistentvolumeclaims", "list persistentvolumes"];

fn class(name: &str) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttributesClass",
        "metadata": {"name": name, "uid": format!("uid-of-{name}")},
        "driverName": "d", "parameters": {"iops": "1"},
    })
}

fn kept() -> Value {
    protected(class("gold"), FINALIZER)
}

fn gone() -> Value {
    deleted(kept())
}

fn volume_of(name: &str, class: &str) -> Value {
    with(
        volume(name, "Bound"),
        "/spec/volumeAttributesClassName",
        json!(class),
    )
}

fn claim_of(name: &str, class: &str) -> Value {
    with(claim(name), "/spec/volumeAttributesClassName", json!(class))
}

fn current(claim: Value) -> Value {
    with(
        claim,
        "/status/currentVolumeAttributesClassName",
        json!("gold"),
    )
}

fn target(claim: Value) -> Value {
    let status = json!({"targetVolumeAttributesClassName": "gold", "status": "InProgress"});
    with(claim, "/status/modifyVolumeStatus", status)
}

fn story(objects: impl IntoIterator<Item = Value>) -> Story {
    Story::of(DESCRIPTOR, objects)
}

impl World {
    async fn remove_object(&self, plural: &str, name: &str) {
        self.delete(plural, name).await;
        self.at_rest().await;
    }
}

/// Upstream: the cases of `TestVACProtectionController` about events of classes.
#[tokio::test(start_paused = true)]
async fn events_of_classes() {
    let failed = "update volumeattributesclasses/gold 500";
    let removed = vec![LISTS[0], LISTS[1], UPDATE];
    // (case, story, requests)
    let cases = [
        (
            "VAC without finalizer",
            story([class("gold")]),
            vec![UPDATE],
        ),
        ("VAC with finalizer", story([kept()]), vec![]),
        (
            "saving fails",
            story([class("gold")]).failing("update", CLASSES, 2),
            vec![UPDATE, failed, failed],
        ),
        ("deleted VAC", story([gone()]), removed),
        (
            "removal fails",
            story([gone()]).failing("update", CLASSES, 1),
            vec![LISTS[0], LISTS[0], LISTS[1], LISTS[1], UPDATE, failed],
        ),
        (
            "referenced by a PV",
            story([gone(), volume_of("pv", "gold")]),
            vec![],
        ),
        (
            "referenced by a PVC",
            story([gone(), claim_of("a", "gold")]),
            vec![],
        ),
        (
            "referenced by a status",
            story([gone(), current(claim_of("a", "new"))]),
            vec![],
        ),
        (
            "referenced by a target",
            story([gone(), target(claim_of("a", "new"))]),
            vec![],
        ),
    ];
    for (case, story, requests) in cases {
        let world = story.begin().await;
        assert_eq!(world.sent_by(DESCRIPTOR.identity), requests, "{case}");
    }
}

/// Upstream: the cases of `TestVACProtectionController` about events of volumes and claims.
#[tokio::test(start_paused = true)]
async fn events_of_users() {
    // (case, users, change: another state or a deletion, whether the class goes)
    type Change = Result<Value, (&'static str, &'static str)>;
    let cases: [(&str, Vec<Value>, Change, bool); 10] = [
        (
            "pv changes vac",
            vec![volume_of("pv", "gold")],
            Ok(volume_of("pv", "new")),
            true,
        ),
        (
            "pv is deleted",
            vec![volume_of("pv", "gold")],
            Err(("persistentvolumes", "pv")),
            true,
        ),
        (
            "other pv still holds it",
            vec![volume_of("pv", "gold"), volume_of("other", "gold")],
            Err(("persistentvolumes", "pv")),
            false,
        ),
        (
            "pvc still holds it",
            vec![volume_of("pv", "gold"), claim_of("a", "gold")],
            Err(("persistentvolumes", "pv")),
            false,
        ),
        (
            "pvc changes vac",
            vec![claim_of("a", "gold")],
            Ok(claim_of("a", "new")),
            true,
        ),
        (
            "status still holds it",
            vec![claim_of("a", "gold")],
            Ok(current(claim_of("a", "new"))),
            false,
        ),
        (
            "target still holds it",
            vec![claim_of("a", "gold")],
            Ok(target(claim_of("a", "new"))),
            false,
        ),
        (
            "pvc is deleted",
            vec![claim_of("a", "gold")],
            Err(("persistentvolumeclaims", "a")),
            true,
        ),
        (
            "other pvc still holds it",
            vec![claim_of("a", "gold"), claim_of("b", "gold")],
            Err(("persistentvolumeclaims", "a")),
            false,
        ),
        (
            "pv still holds it",
            vec![claim_of("a", "gold"), volume_of("pv", "gold")],
            Err(("persistentvolumeclaims", "a")),
            false,
        ),
    ];
    for (case, users, change, goes) in cases {
        let objects = users.into_iter().chain([gone()]);
        let world = story(objects).begin().await;
        assert!(world.find(CLASSES, "gold").is_some(), "{case}");
        match change {
            Ok(object) => world.store_and_rest(object).await,
            Err((plural, name)) => world.remove_object(plural, name).await,
        }
        assert_eq!(world.find(CLASSES, "gold").is_none(), goes, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn users_that_the_caches_lack_keep_their_class() {
    let users = [
        ("persistentvolumeclaims", claim_of("a", "gold")),
        ("persistentvolumes", volume_of("pv", "gold")),
    ];
    for (plural, user) in users {
        let world = story([gone()]).uncached(plural, [user]).begin().await;
        assert!(world.find(CLASSES, "gold").is_some(), "{plural}");
        assert_eq!(world.writes(), [""; 0], "{plural}");
    }
}
