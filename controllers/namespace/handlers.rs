//! Which namespaces a change wakes up: the terminating ones, a while later.

use std::time::Duration;

use steersman_runtime::informer::{Change, SharedInformer, Store};
use steersman_runtime::object::{Namespace, Object, ObjectKey};
use steersman_runtime::workqueue::WorkQueue;

/// How long deletion waits, so that every API server has seen the namespace end and last-minute
/// creations have landed.
const GRACE: Duration = Duration::from_secs(5);

/// Makes changes enqueue keys.
pub(super) fn register(namespaces: &SharedInformer<Namespace>, queue: &WorkQueue<ObjectKey>) {
    let queue = queue.clone();
    namespaces.add_handler(move |change| match change {
        Change::Added { object, .. } | Change::Updated { new: object, .. } => {
            enqueue(&queue, object)
        }
        Change::Deleted { .. } => {}
    });
}

fn enqueue(queue: &WorkQueue<ObjectKey>, namespace: &Namespace) {
    if namespace.meta.is_terminating() {
        queue.add_after(namespace.key(), GRACE);
    }
}

/// Every `period` (never when it is zero) enqueues all terminating namespaces, as upstream's resync
/// does. Does not return.
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
