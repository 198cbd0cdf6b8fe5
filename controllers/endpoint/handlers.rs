//! The Services that a change enqueues.
//!
//! Every change of a Service enqueues it. A change of a pod enqueues the Services that select it,
//! after the batch period. The deletion of an Endpoints object enqueues the Service of its name, and so
//! does a new one of this controller whose Service is gone. As upstream, other changes of Endpoints
//! enqueue nothing, so edits of users stay until the next sync.

use std::time::Duration;

use steersman_helpers::endpointslice::ServicesByPod;
use steersman_objects::{Endpoints, Object, ObjectKey, Pod, Service};
use steersman_runtime::informer::{Change, InformerFactory};
use steersman_runtime::workqueue::WorkQueue;

use super::write::has_mark;

/// Registers the handlers of Services, pods and Endpoints.
pub(super) fn register(
    informers: &InformerFactory,
    queue: &WorkQueue<ObjectKey>,
    batch_period: Duration,
) {
    let services = informers.shared::<Service>();
    let by_pod = ServicesByPod::of(&services);
    let keys = queue.clone();
    services.add_handler(move |change| keys.add(change.object().key()));
    let keys = queue.clone();
    informers.shared::<Pod>().add_handler(move |change| {
        for key in by_pod.affected(&change) {
            // `--endpoint-updates-batch-period`, zero by default.
            keys.add_after(key, batch_period);
        }
    });
    let keys = queue.clone();
    let known = services.store();
    informers.shared::<Endpoints>().add_handler(move |change| {
        let needs_sync = match &change {
            // The cache of Endpoints was behind when the Service went.
            Change::Added { object, .. } => {
                has_mark(&object.meta.labels) && known.get(&object.key()).is_none()
            }
            Change::Updated { .. } => false,
            // Also after our own deletion: the sync then finds nothing to do.
            Change::Deleted { .. } => true,
        };
        if needs_sync {
            keys.add(change.object().key());
        }
    });
}
