//! Changes of autoscalers: each enqueues its autoscaler after one period.
//!
//! A change of the spec has no effect before the next period, as upstream. All other syncs follow
//! from the sync before.

use std::sync::Arc;
use std::time::Duration;

use prometheus::IntGauge;
use steersman_objects::{HorizontalPodAutoscaler, Object, ObjectKey};
use steersman_runtime::informer::{Change, SharedInformer};
use steersman_runtime::workqueue::WorkQueue;

use super::selectors::Selectors;

/// Registers the handler of autoscalers. `count` is the number of registered ones.
pub(super) fn register(
    autoscalers: &SharedInformer<HorizontalPodAutoscaler>,
    queue: WorkQueue<ObjectKey>,
    selectors: Arc<Selectors>,
    count: IntGauge,
    period: Duration,
) {
    // A process that leads again starts from zero.
    count.set(0);
    autoscalers.add_handler(move |change| {
        let key = change.object().key();
        if let Change::Deleted { .. } = change {
            if selectors.remove(&key) {
                count.dec();
            }
            // The next sync drops the memory of the autoscaler.
            return;
        }
        if selectors.register(&key) {
            count.inc();
        }
        queue.add_after(key, period);
    });
}
