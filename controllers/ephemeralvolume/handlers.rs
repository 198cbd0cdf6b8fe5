//! The pods that a change enqueues: new ones, and those of a deleted claim.

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
    let keys = queue.clone();
    pods.add_handler(move |change| match change {
        Change::Added { object: pod, .. } => add(pod, &keys),
        Change::Updated { old, new: pod } if old.meta.uid != pod.meta.uid => add(pod, &keys),
        Change::Updated { .. } | Change::Deleted { .. } => {}
    });
    let keys = queue.clone();
    claims.add_handler(move |change| {
        if let Change::Deleted { object: claim, .. } = change {
            let pods = by_claim.using(&claim.key());
            pods.iter().for_each(|pod| add(pod, &keys));
        }
    });
}

/// Queues a pod that needs claims.
fn add(pod: &Pod, queue: &WorkQueue<ObjectKey>) {
    let mut sources = pod.volumes.iter().map(|volume| &volume.source);
    let has_ephemeral = sources.any(|source| matches!(source, VolumeSource::Ephemeral(_)));
    if has_ephemeral && !pod.meta.is_terminating() {
        queue.add(pod.key());
    }
}
