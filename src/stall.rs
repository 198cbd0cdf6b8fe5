//! Notices that the manager makes no progress although there is work.
//!
//! requests (`Activity`), queues (`QueueMetrics`) -> a reason -> the health check, and later the
//! end of the leadership
//!
//! Losing the Lease covers an API server that is gone. This covers the rest: the Lease is renewed
//! over a connection of its own, while nothing else gets through, so that no standby would ever
//! take over.

use std::sync::Arc;
use std::time::Duration;

use steersman_runtime::client::Activity;
use steersman_runtime::workqueue::QueueMetrics;
use tokio::time::sleep;

use crate::health::{Check, Finding};

/// Looks at the work of one manager. Cheap to clone.
#[derive(Clone)]
pub(crate) struct StallDetector {
    activity: Activity,
    queues: QueueMetrics,
    /// `--stall-timeout`; `None` looks away.
    limit: Option<Duration>,
}

impl StallDetector {
    pub(crate) fn new(activity: &Activity, queues: &QueueMetrics, limit: Option<Duration>) -> Self {
        Self {
            activity: activity.clone(),
            queues: queues.clone(),
            limit,
        }
    }

    /// Why the work stands still now, if it does; one sentence.
    pub(crate) fn stalled(&self) -> Option<String> {
        self.stalled_for(self.limit?)
    }

    fn stalled_for(&self, limit: Duration) -> Option<String> {
        let syncs = || {
            let (controller, still) = self.queues.stalled()?;
            // A long sync that sends requests makes progress with each answer.
            let is_stalled = still >= limit && self.activity.last_answer().elapsed() >= limit;
            is_stalled.then(|| {
                format!(
                    "{controller} has had work and made no progress for {}s",
                    still.as_secs()
                )
            })
        };
        self.activity.stalled(limit).or_else(syncs)
    }

    /// Reports a stall, and fails readiness.
    pub(crate) fn check(&self) -> Check {
        let detector = self.clone();
        Arc::new(move || {
            detector
                .stalled()
                .map_or(Ok(()), |reason| Err(Finding::Unready(reason)))
        })
    }

    /// Comes with the reason when the work has stood still for twice the limit.
    pub(crate) async fn stalled_for_too_long(&self) -> String {
        let Some(limit) = self.limit else {
            return std::future::pending().await;
        };
        loop {
            sleep(limit / 4).await;
            if let Some(reason) = self.stalled_for(limit * 2) {
                return reason;
            }
        }
    }
}
