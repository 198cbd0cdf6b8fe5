//! The snapshots that hold a claim. The snapshot-controller keeps the source of a snapshot until it is taken.
//!
//! Upstream: `checkandRemovePVCFinalizer` in external-snapshotter.

use steersman_why::{Code, Doc, Explanation, Known, Reason, World};

/// The finalizer of a claim that is the source of snapshots.
pub(super) const SOURCE: &str = "snapshot.storage.kubernetes.io/pvc-as-source-protection";

const GROUP: &str = "snapshot.storage.k8s.io";
const BY: &str = "snapshot-controller";
/// Snapshots in one answer.
const SHOWN: usize = 3;

/// Adds the snapshots for which `doc`, a claim that is being deleted, waits.
pub(super) fn explain(world: &World, doc: &Doc, answer: &mut Explanation) {
    let since = doc.deleted_since();
    let of = world.resource(GROUP, "VolumeSnapshot");
    let is_unserved = of.is_absent();
    let Known::Yes(of) = of else {
        let why = if is_unserved {
            "; the API server has no type VolumeSnapshot, so the snapshot-controller is gone"
        } else {
            ""
        };
        let message = format!("finalizer {SOURCE} is left{why}");
        answer.add(held(message, removal(BY)).since(since));
        return;
    };
    let Some(all) = world.list(&of, doc.namespace()) else {
        let message =
            format!("finalizer {SOURCE} is left until the VolumeSnapshots of the claim are ready");
        answer.add(held(message, removal(BY)).since(since));
        return;
    };
    let takes = |snapshot: &&Doc| {
        let source = snapshot.text("/spec/source/persistentVolumeClaimName");
        let is_ready = snapshot
            .at("/status/readyToUse")
            .is_some_and(|is| *is == true);
        source == doc.name() && !is_ready
    };
    let open: Vec<&Doc> = all.iter().filter(takes).take(SHOWN).collect();
    if open.is_empty() {
        let message = format!(
            "finalizer {SOURCE}: no VolumeSnapshot takes data from the claim any more, and the finalizer is left"
        );
        answer.add(held(message, removal(BY)).since(since));
        return;
    }
    let driver = doc.text("/metadata/annotations/volume.kubernetes.io~1storage-provisioner");
    let driver = match driver {
        "" => "the storage driver".to_owned(),
        driver => format!("storage driver {driver}"),
    };
    for snapshot in open {
        let name = format!("{}/{}", snapshot.namespace(), snapshot.name());
        let message = format!(
            "finalizer {SOURCE}: VolumeSnapshot {name} takes its data from the claim, and is not ready{}",
            state(snapshot)
        );
        let who = format!(
            "operator of the snapshot-controller and of the csi-snapshotter of {driver}, or owner of \
             VolumeSnapshot {name} (delete it)"
        );
        let reason = held(message, who).field("snapshot", name);
        answer.add(reason.since(since));
    }
}

fn held(message: String, who: String) -> Reason {
    Reason::new(Code::ForeignFinalizer, BY, message)
        .who(who)
        .field("finalizer", SOURCE)
}

fn removal(operator: &str) -> String {
    format!(
        "operator of the {operator}; if that program is gone, owner of the claim (remove the finalizer)"
    )
}

/// The progress of `snapshot` by its status.
fn state(snapshot: &Doc) -> String {
    match (
        snapshot.text("/status/error/message"),
        snapshot.text("/status/boundVolumeSnapshotContentName"),
    ) {
        ("", "") => " (it has no VolumeSnapshotContent yet)".to_owned(),
        ("", content) => {
            format!(
                " (the storage driver has not taken the snapshot of VolumeSnapshotContent {content})"
            )
        }
        (error, _) => format!(": {error}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use steersman_values::resource::{PERSISTENT_VOLUME_CLAIMS, ResourceType};
    use steersman_why::{Loaded, Need, Subject};

    use super::*;

    #[test]
    fn snapshots_that_are_not_ready_hold_their_source() {
        static SNAPSHOTS: ResourceType =
            ResourceType::new(GROUP, "v1", "VolumeSnapshot", "volumesnapshots", true);
        let none = |_: &World, of: &ResourceType, doc: &Doc| Explanation::new(doc.subject(of), "");
        let claim = Doc::new(json!({"metadata": {"namespace": "db", "name": "data",
            "annotations": {"volume.kubernetes.io/storage-provisioner": "ssd.example.com"}}}));
        let told = |of: Option<ResourceType>, snapshots: Loaded| {
            let mut world = World::new(jiff::Timestamp::UNIX_EPOCH, None, none);
            let typed = Need::Type {
                group: GROUP.to_owned(),
                name: "VolumeSnapshot".to_owned(),
            };
            world.load(typed, Loaded::Type(of));
            let all = Need::List {
                of: SNAPSHOTS.clone(),
                namespace: "db".to_owned(),
                fields: String::new(),
            };
            world.load(all, snapshots);
            let mut answer = Explanation::new(Subject::new(&PERSISTENT_VOLUME_CLAIMS, "", ""), "");
            explain(&world, &claim, &mut answer);
            let texts = answer.reasons.into_iter();
            texts
                .map(|reason| format!("{} | {}", reason.message, reason.who))
                .collect::<Vec<_>>()
        };
        let snapshot = |name: &str, source: &str, status: Value| {
            Doc::new(json!({"metadata": {"namespace": "db", "name": name},
                "spec": {"source": {"persistentVolumeClaimName": source}}, "status": status}))
        };
        let served = || Some(SNAPSHOTS.clone());
        let open = vec![
            snapshot("ready", "data", json!({"readyToUse": true})),
            snapshot("other", "log", json!({"readyToUse": false})),
            snapshot("new", "data", Value::Null),
            snapshot(
                "failed",
                "data",
                json!({"readyToUse": false, "error": {"message": "no space"}}),
            ),
            snapshot(
                "slow",
                "data",
                json!({"readyToUse": false, "boundVolumeSnapshotContentName": "c-1"}),
            ),
        ];
        let texts = told(served(), Loaded::Objects(open));
        let parts = [
            "VolumeSnapshot db/new takes its data from the claim, and is not ready (it has no",
            "VolumeSnapshot db/failed takes its data from the claim, and is not ready: no space",
            "has not taken the snapshot of VolumeSnapshotContent c-1)",
        ];
        assert_eq!(texts.len(), parts.len(), "{texts:?}");
        for (text, part) in texts.iter().zip(parts) {
            assert!(text.contains(part), "{text}");
            assert!(
                text.contains("csi-snapshotter of storage driver ssd.example.com"),
                "{text}"
            );
        }
        let cases = [
            (
                served(),
                Loaded::Objects(vec![]),
                "no VolumeSnapshot takes data",
            ),
            (served(), Loaded::Denied, "of the claim are ready"),
            (None, Loaded::Denied, "has no type VolumeSnapshot"),
        ];
        for (of, snapshots, part) in cases {
            let texts = told(of, snapshots);
            assert!(texts.len() == 1 && texts[0].contains(part), "{texts:?}");
        }
    }
}
