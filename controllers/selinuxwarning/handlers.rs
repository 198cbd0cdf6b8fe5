//! Maps changes of objects to the pods whose labels may conflict now.
//!
//! Upstream: the handlers of `NewController` in `selinux_warning_controller.go`.

use std::sync::Arc;

use steersman_objects::{
    CsiDriver, Object, ObjectKey, PersistentVolume, PersistentVolumeClaim, SelinuxPod,
};
use steersman_runtime::informer::{Change, SharedInformer};
use steersman_runtime::workqueue::WorkQueue;

use super::Shared;

/// The relevant fields of a pod never change, so an update matters only at its end.
///
/// A finished pod releases its volumes. Upstream: `updatePod`. A pod with a new UID counts as another
/// pod.
pub(super) fn register_pods(pods: &SharedInformer<SelinuxPod>, queue: &WorkQueue<ObjectKey>) {
    let queue = queue.clone();
    pods.add_handler(move |change| {
        let is_same = match &change {
            Change::Updated { old, new } => {
                old.meta.uid == new.meta.uid && (old.is_finished() || !new.is_finished())
            }
            Change::Added { .. } | Change::Deleted { .. } => false,
        };
        if !is_same {
            queue.add(change.object().key());
        }
    });
}

/// Queues the pods of a claim that has just been bound. Either the claim or the volume completes a
/// binding, so both are watched. Upstream: `addPVC`, `updatePVC`, `addPV` and `updatePV`.
pub(super) fn register_claims(
    shared: &Arc<Shared>,
    claims: &SharedInformer<PersistentVolumeClaim>,
    volumes: &SharedInformer<PersistentVolume>,
    queue: &WorkQueue<ObjectKey>,
) {
    let of_claims = Arc::clone(shared);
    let queued = queue.clone();
    claims.add_handler(move |change| {
        let claim = change.object();
        let before = match &change {
            Change::Added { .. } => "",
            Change::Updated { old, .. } => &old.spec.volume_name,
            Change::Deleted { .. } => return,
        };
        if *before != *claim.spec.volume_name {
            of_claims.enqueue_pods(&claim.key(), &queued);
        }
    });
    let of_volumes = Arc::clone(shared);
    let queued = queue.clone();
    volumes.add_handler(move |change| {
        let before = match &change {
            Change::Added { .. } => None,
            Change::Updated { old, .. } => old.spec.claim_ref.as_ref(),
            Change::Deleted { .. } => return,
        };
        // Only a bound volume can be behind a pod.
        let Some(claim) = &change.object().spec.claim_ref else {
            return;
        };
        let is_bound = claim.uid().is_some();
        if is_bound && before.and_then(|before| before.uid()) != claim.uid() {
            let key = ObjectKey::new(&claim.namespace, &claim.name);
            of_volumes.enqueue_pods(&key, &queued);
        }
    });
}

/// Queues the pods with volumes of a driver whose support of labels has changed. A driver without an
/// object supports none. Upstream: `addCSIDriver`, `updateCSIDriver` and `deleteCSIDriver`.
pub(super) fn register_drivers(
    shared: &Arc<Shared>,
    drivers: &SharedInformer<CsiDriver>,
    queue: &WorkQueue<ObjectKey>,
) {
    let of_drivers = Arc::clone(shared);
    let queue = queue.clone();
    drivers.add_handler(move |change| {
        let mounts = |driver: &CsiDriver| driver.spec.se_linux_mount;
        let matters = match &change {
            // Upstream queues them also for a driver without support; their syncs then find nothing
            // new.
            Change::Added { .. } => true,
            Change::Updated { old, new } => mounts(old) != mounts(new),
            Change::Deleted { object, .. } => mounts(object),
        };
        if matters {
            let pods = of_drivers.used().pods_of_driver(&change.object().meta.name);
            pods.into_iter().for_each(|pod| queue.add(pod));
        }
    });
}

impl Shared {
    /// Queues the pods that name `claim`. Upstream: `enqueueAllPodsForPVC`.
    fn enqueue_pods(&self, claim: &ObjectKey, queue: &WorkQueue<ObjectKey>) {
        let pods = self.pods_by_claim.using(claim);
        pods.iter().for_each(|pod| queue.add(pod.key()));
    }
}
