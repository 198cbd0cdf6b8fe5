//! The pods that a change enqueues: new ones, and those of a deleted claim.
//!
//! Upstream: `enqueuePod` and `onPVCDelete` in `volume/ephemeral/controller.go`.

use steersman_helpers::pods_by_claim::PodsByClaim;
use steersman_objects::{Object, ObjectKey, PersistentVolumeClaim, Pod, VolumeSource};
use steersman_runtime::informer::{Change, SharedInformer};
use steersman_runtime::workqueue::WorkQueue;

/// Registers the handlers of pods and claims.
pub(super) fn register(
    pods: &SharedInformer<Pod>,
    claims: &SharedInformer<PersistentVolumeClaim>,
    by_claim: PodsByClaim,
    queue: &WorkQueue<ObjectKey>,
) {
    // Volumes of a pod are immutable, so an update of the same pod needs no new claim.
    let keys = queue.clone();
    pods.add_handler(move |change| match change {
        Change::Added { object: pod, .. } => add(pod, &keys),
        Change::Updated { old, new: pod } if old.meta.uid != pod.meta.uid => add(pod, &keys),
        Change::Updated { .. } | Change::Deleted { .. } => {}
    });
    // A user may delete the claim of a pod by mistake. The pod waits for it, so it is created again.
    let keys = queue.clone();
    claims.add_handler(move |change| {
        if let Change::Deleted { object: claim, .. } = change {
            let pods = by_claim.using(&claim.key());
            pods.iter().for_each(|pod| add(pod, &keys));
        }
    });
}

/// Queues a pod that needs claims.
///
/// A terminating pod needs none: its claims would only have to be collected again.
fn add(pod: &Pod, queue: &WorkQueue<ObjectKey>) {
    let mut sources = pod.volumes.iter().map(|volume| &volume.source);
    let has_ephemeral = sources.any(|source| matches!(source, VolumeSource::Ephemeral(_)));
    if has_ephemeral && !pod.meta.is_terminating() {
        queue.add(pod.key());
    }
}
