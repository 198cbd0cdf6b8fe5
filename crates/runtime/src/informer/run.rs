//! An informer at work: it follows the server, and reports everything anew from time to time.

use std::sync::Arc;
use std::time::Duration;

use tokio::time;
use tracing::error;

use super::reflector;
use super::shared::SharedInformer;
use super::source::ListWatch;
use crate::object::Object;
use crate::panics;
use crate::tasks::CancellationToken;

/// Pause before an informer that panicked starts over.
const RESTART_PAUSE: Duration = Duration::from_secs(1);

impl<T: Object> SharedInformer<T> {
    /// Follows `source` until `stop`. Every `resync`, unless zero, all objects are reported as
    /// updates to themselves.
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
                time::sleep(resync).await;
                self.shared.resync();
            }
        };
        let follow = async {
            // A panic here is a bug. A cache that nobody feeds any more would be a worse one, so it
            // starts over from a full list.
            while let Err(panic) = panics::catch(reflector::run(&*source, &self.shared)).await {
                error!(resource = %self.shared.resource, %panic, "informer panicked, starting over");
                time::sleep(RESTART_PAUSE).await;
            }
        };
        self.shared.contact.began();
        // One task for all of it, so that nothing here runs at the same time as something else.
        tokio::select! {
            () = stop.cancelled() => {}
            () = follow => {}
            () = repeat => {}
        }
        self.shared.contact.ended();
    }
}
