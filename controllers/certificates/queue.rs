//! The queue of names that the approving and the signing controller have.
//!
//! Upstream: `certificate_controller.go`.

use std::time::Duration;

use steersman_objects::{CertificateSigningRequest, Object};
use steersman_runtime::controller::ControllerContext;
use steersman_runtime::keyed::Keyed;
use steersman_runtime::workqueue::WorkQueue;

/// The back-off of one name: the first one and the longest one. Upstream's other queues begin with
/// 5 ms. A requester's missing right is retried for long.
const BACKOFF: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(1000)];

/// The builder of `controller`, with a queue that every change of a request fills.
pub(super) fn keyed(
    ctx: &ControllerContext,
    controller: &'static str,
) -> Keyed<CertificateSigningRequest> {
    let [first, longest] = BACKOFF;
    let queue = WorkQueue::with_backoff_between("certificate", &ctx.queue_metrics, first, longest);
    let keyed = Keyed::<CertificateSigningRequest>::over(ctx, controller, queue.clone());
    keyed
        .objects()
        // Deletions are queued too, as in upstream. Their sync finds no object.
        .add_handler(move |change| queue.add(change.object().key()));
    keyed
}
