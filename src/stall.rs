//! Detects that the manager has work but makes no progress.
//!
//! requests (`Activity`), queues (`QueueMetrics`) -> reason -> health check, later the end of the
//! leadership
//!
//! Leader election notices an unreachable API server, because renewals fail. It does not notice a
//! stall of the other connections: renewals use their own connection and still succeed. Without
//! this detector, such a leader would keep the Lease for ever. `--stall-timeout` sets the limit;
//! upstream has nothing like it.

use std::sync::Arc;
use std::time::Duration;

use steersman_client::Activity;
use steersman_runtime::workqueue::QueueMetrics;
use tokio::time::sleep;

use crate::health::{Check, Finding};

/// Observes requests and queues of one manager. Cloning is cheap.
#[derive(Clone)]
pub(crate) struct StallDetector {
    activity: Activity,
    queues: QueueMetrics,
    /// `--stall-timeout`; `None` disables the detector.
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

    /// The reason, as one sentence, if the work stands still now.
    pub(crate) fn stalled(&self) -> Option<String> {
        self.stalled_for(self.limit?)
    }

    /// The reason, if requests or syncs have made no progress for `limit`.
    fn stalled_for(&self, limit: Duration) -> Option<String> {
        let syncs = || {
            let (controller, still) = self.queues.stalled()?;
            // A long sync with requests makes progress with each answer.
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

    /// A health check that fails readiness during a stall.
    pub(crate) fn check(&self) -> Check {
        let detector = self.clone();
        Arc::new(move || {
            detector
                .stalled()
                .map_or(Ok(()), |reason| Err(Finding::Unready(reason)))
        })
    }

    /// Waits until a stall has lasted for twice the limit, and returns the reason.
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
