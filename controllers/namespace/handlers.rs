//! The namespaces that a change enqueues: terminating ones, after a delay.

use std::time::Duration;

use steersman_objects::{Namespace, Object, ObjectKey};
use steersman_runtime::informer::{Change, SharedInformer, Store};
use steersman_runtime::workqueue::WorkQueue;

/// Delay before the deletion of content, as upstream's `namespaceDeletionGracePeriod`. In this time
/// all API servers observe the terminating namespace, and finish creations that they accepted. All
/// members of etcd observe these creations in it, too.
const GRACE: Duration = Duration::from_secs(5);

/// Registers the handler.
pub(super) fn register(namespaces: &SharedInformer<Namespace>, queue: &WorkQueue<ObjectKey>) {
    let queue = queue.clone();
    namespaces.add_handler(move |change| match change {
        Change::Added { object, .. } | Change::Updated { new: object, .. } => {
            enqueue(&queue, object)
        }
        Change::Deleted { .. } => {}
    });
}

/// Other namespaces need no sync at all.
fn enqueue(queue: &WorkQueue<ObjectKey>, namespace: &Namespace) {
    if namespace.meta.is_terminating() {
        queue.add_after(namespace.key(), GRACE);
    }
}

/// Enqueues all terminating namespaces every `period`, as upstream's resync does. Zero disables it.
/// Never returns. It finds namespaces whose last pass ended without a retry. The flag is
/// `--namespace-sync-period`.
pub(super) async fn resync(
    namespaces: Store<Namespace>,
    queue: WorkQueue<ObjectKey>,
    period: Duration,
) {
    if period.is_zero() {
        std::future::pending::<()>().await;
    }
    loop {
        tokio::time::sleep(period).await;
        for namespace in namespaces.list() {
            enqueue(&queue, &namespace);
        }
    }
}
