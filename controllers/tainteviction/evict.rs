//! The eviction of pods at their deadlines: condition `DisruptionTarget`, then deletion.
//!
//! timers -> [`Shared::evict_due_pods`] -> live read of the pod -> patch of its status -> delete
//!
//! The deletion carries the UID for which the timer was set. The live pod must not tolerate the
//! taints of its node meanwhile. Until the cache of nodes has reached the current leadership term,
//! the node is read live too.
//!
//! Upstream: `deletePodHandler` and `addConditionAndDeletePod` in `taint_eviction.go`.

use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use steersman_client::live;
use steersman_client::writes::DisruptionCause;
use steersman_client::{ApiError, Category, Target};
use steersman_helpers::evictions::EvictError;
use steersman_objects::{Node, ObjectKey, Pod};
use steersman_runtime::tasks::CancellationToken;
use tokio::time::Instant;

use super::Shared;
use super::invariants;
use super::timers::Due;
use super::tolerance::{self, Tolerance, no_execute};

/// Tries of one eviction, as upstream. Upstream: `retries`.
const TRIES: u32 = 5;

/// Pause after a failed try, as upstream.
const PAUSE: Duration = Duration::from_millis(10);

/// Evictions at the same time, to bound their memory. Upstream has no limit, so it is high: the
/// evictions of one namespace must not hold up all others, while a webhook refuses them slowly.
const AT_ONCE: usize = 5000;

/// The cause that the condition `DisruptionTarget` tells.
pub(super) const CAUSE: DisruptionCause = DisruptionCause {
    reason: "DeletionByTaintManager",
    message: "Taint manager: deleting due to NoExecute taint",
};

/// The end of an eviction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Deleted,
    /// There was nothing to delete: the pod is gone or terminates, or it tolerates the taints now.
    /// Such an end is counted in no metric.
    Needless,
}

impl Shared {
    /// Evicts pods until `stop`, then waits for the evictions in flight. Upstream runs one
    /// goroutine per timer.
    pub(super) async fn evict_due_pods(&self, stop: &CancellationToken) {
        let mut running = FuturesUnordered::new();
        loop {
            let free = AT_ONCE - running.len();
            let (due, next) = {
                let mut timers = self.timers.lock();
                (timers.take_due(Instant::now(), free), timers.next())
            };
            running.extend(due.into_iter().map(|due| self.evict(due)));
            // With no free place, only the end of an eviction can bring the next one forward.
            let deadline = next.filter(|_| running.len() < AT_ONCE);
            tokio::select! {
                () = stop.cancelled() => break,
                Some(()) = running.next() => {}
                () = self.changed.notified() => {}
                () = tokio::time::sleep_until(deadline.unwrap_or_else(Instant::now)),
                    if deadline.is_some() => {}
            }
        }
        while running.next().await.is_some() {}
    }

    /// Evicts one pod, with upstream's number of tries. The lock of the timers is taken after the
    /// last try, so it is never held over a request.
    async fn evict(&self, due: Due) {
        let mut is_reported = false;
        let mut tries = 0;
        let result = loop {
            tries += 1;
            match self.try_evict(&due, &mut is_reported).await {
                Err(error) if ApiError::within(&error).is_some_and(ApiError::is_fenced) => {
                    return tracing::debug!(pod = %due.pod, "pod is left to the next leader");
                }
                Err(_) if tries < TRIES => tokio::time::sleep(PAUSE).await,
                result => break result,
            }
        };
        let mut timers = self.timers.lock();
        match result {
            Ok(end) => {
                timers.finished(&due);
                if end == End::Deleted {
                    self.metrics.deletions.inc();
                    let late = due.fires_at.elapsed().as_secs_f64();
                    self.metrics.duration.observe(late);
                }
            }
            Err(error) => {
                timers.failed(&due, Instant::now());
                let category = Category::of(&error).as_str();
                tracing::error!(pod = %due.pod, category, %error, "TaintEvictionController: timed worker failed");
            }
        }
    }

    /// Reports the eviction once the live pod has to go. Upstream reports before it reads the pod,
    /// also if the pod is gone or another one has its name.
    async fn try_evict(&self, due: &Due, is_reported: &mut bool) -> Result<End, EvictError> {
        let Some(pod) = self.evictor.live(&due.pod, &due.uid).await? else {
            return Ok(End::Needless);
        };
        if !self.has_to_go(&pod).await? {
            return Ok(End::Needless);
        }
        if !std::mem::replace(is_reported, true) {
            tracing::info!(pod = %due.pod, "Deleting pod");
            self.report(&due.pod, format!("Marking for deletion Pod {}", due.pod));
        }
        // The condition comes before the deletion, so that a Job can tell this end from a failure
        // of the pod.
        self.evictor.mark(&pod).await?;
        if pod.meta.is_terminating() || !self.evictor.delete(&pod.meta).await? {
            return Ok(End::Needless);
        }
        Ok(End::Deleted)
    }

    /// Whether the taints of the node still evict the live `pod`. A node that is gone evicts it
    /// too, as upstream.
    async fn has_to_go(&self, pod: &Pod) -> Result<bool, EvictError> {
        let Some(name) = &pod.node else {
            return Ok(false);
        };
        let cached = self.nodes.get(&ObjectKey::new("", name));
        let Some(node) = cached else {
            return Ok(true);
        };
        let taints = if self.nodes_cache.predates_term() {
            let live = live::object::<Node>(&self.evictor.client, "", name).await;
            match live.map_err(EvictError::Read)? {
                Some(live) => live.spec.taints,
                None => return Ok(true),
            }
        } else {
            node.spec.taints.clone()
        };
        let tolerations = &pod.spec.tolerations;
        let tolerance = tolerance::of_pod(&taints, tolerations, self.comparisons);
        let has_to_go = no_execute(&taints).next().is_some() && tolerance != Tolerance::Forever;
        if has_to_go {
            let checked = invariants::may_be_evicted(&taints, tolerations);
            let target = Target::of::<Pod>(&pod.meta);
            let permitted = self.evictor.client.permit(target, checked);
            permitted.map_err(EvictError::Delete)?;
        }
        Ok(has_to_go)
    }
}
