//! The task of one informer: it runs the reflector and the periodic resync.
//!
//! Both run on one task, so all handlers of a type are called one after the other.

use std::sync::Arc;
use std::time::Duration;

use tokio::time;
use tracing::error;

use steersman_objects::Object;

use super::reflector;
use super::shared::SharedInformer;
use super::source::ListWatch;
use crate::panics;
use crate::tasks::CancellationToken;

/// Pause before an informer restarts after a panic. It bounds the log lines and requests of a panic
/// that repeats itself.
const RESTART_PAUSE: Duration = Duration::from_secs(1);

impl<T: Object> SharedInformer<T> {
    /// Lists and watches `source` until `stop` is cancelled. Every `resync`, handlers get each
    /// object as an update without a change. Zero disables this.
    pub(super) async fn run(
        self,
        source: Arc<dyn ListWatch>,
        resync: Duration,
        stop: CancellationToken,
    ) {
        let repeat = async {
            loop {
                if resync.is_zero() {
                    std::future::pending::<()>().await;
                }
                // The manager has drawn the period from one to two times the flag
                // `--min-resync-period`.
                time::sleep(resync).await;
                self.shared.resync();
            }
        };
        let follow = async {
            // A panic here is a bug. But without its reflector the cache would stay stale for good,
            // so the reflector starts again with a full list.
            while let Err(panic) = panics::catch(reflector::run(&*source, &self.shared)).await {
                error!(resource = %self.shared.resource, %panic, "informer panicked, restarting it");
                time::sleep(RESTART_PAUSE).await;
            }
        };
        self.shared.contact.started();
        // One task for all of it, so that a resync and a watch event never run at the same time.
        tokio::select! {
            () = stop.cancelled() => {}
            () = follow => {}
            () = repeat => {}
        }
        self.shared.contact.stopped();
    }
}
