//! The claims that a change enqueues.
//!
//! Upstream: `pvcAddedUpdated`, `podAddedDeletedUpdated` and `enqueuePVCs` in
//! `volume/pvcprotection/pvc_protection_controller.go`.

use steersman_helpers::pods_by_claim::claims_of;
use steersman_objects::{Object, ObjectKey, PersistentVolumeClaim, Pod};
use steersman_runtime::informer::{Change, SharedInformer};
use steersman_runtime::workqueue::WorkQueue;

use super::super::watch_finalizers;
use super::unused::{self, Tracked};

/// Registers the handlers of claims and pods. The claims in `tracked` have the condition `Unused`.
pub(super) fn register(
    claims: &SharedInformer<PersistentVolumeClaim>,
    pods: &SharedInformer<Pod>,
    queue: &WorkQueue<ObjectKey>,
    tracked: Tracked,
) {
    let tracks_use = tracked != Tracked::None;
    watch_finalizers(claims, queue);
    if tracks_use {
        let keys = queue.clone();
        claims.add_handler(move |change| {
            let (claim, was_tracked) = match change {
                Change::Added { object, .. } => (object, true),
                Change::Updated { old, new } => (new, tracked.includes(old)),
                Change::Deleted { .. } => return,
            };
            // Later changes of the condition come from pods. Syncs before the binding left it alone.
            let is_due = !was_tracked || unused::status(claim).is_none();
            if tracked.includes(claim) && is_due {
                keys.add(claim.key());
            }
        });
    }
    let keys = queue.clone();
    pods.add_handler(move |change| {
        let add = |pod: &Pod| {
            claims_of(pod).for_each(|claim| keys.add(ObjectKey::new(&pod.meta.namespace, &claim)));
        };
        // With the gate, the arrival of a pod changes the condition, so all pods count.
        // A pod that runs on its node cannot free a claim.
        let may_free = |pod: &Pod| tracks_use || pod.is_terminated() || pod.node.is_none();
        match change {
            Change::Added { object: pod, .. } | Change::Updated { new: pod, .. }
                if may_free(pod) =>
            {
                add(pod);
            }
            Change::Deleted { object: pod, .. } => add(pod),
            Change::Added { .. } | Change::Updated { .. } => {}
        }
        // Another pod of this name hides the deletion of the old one.
        if let Change::Updated { old, new } = change
            && old.meta.uid != new.meta.uid
        {
            add(old);
        }
    });
}
