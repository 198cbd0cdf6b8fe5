//! The eviction of pods at their deadlines: condition `DisruptionTarget`, then deletion.
//!
//! timers -> [`Shared::evict_due_pods`] -> live read of the pod -> patch of its status -> delete
//!
//! The deletion carries the UID for which the timer was set. The live pod must not tolerate the
//! taints of its node meanwhile. Until the cache of nodes has reached the current leadership term,
//! the node is read live too.
//!
//! Upstream: `deletePodHandler` and `addConditionAndDeletePod` in `taint_eviction.go`.

use std::sync::PoisonError;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use serde_json::json;
use steersman_runtime::client::{ApiError, Category, PatchKind, Target};
use steersman_runtime::object::{DecodeError, Meta, Node, Object, ObjectKey, Pod};
use steersman_runtime::tasks::CancellationToken;
use steersman_runtime::writes::{Delete, DisruptionCause, disruption_target};
use tokio::time::Instant;

use super::Shared;
use super::timers::Due;
use super::tolerance::{self, Tolerance, no_execute};

/// Tries of one eviction, as upstream.
const TRIES: u32 = 5;

/// Pause after a failed try, as upstream.
const PAUSE: Duration = Duration::from_millis(10);

/// Evictions at the same time. The throttle of the client limits their rate, so more would only
/// take memory.
const AT_ONCE: usize = 100;

/// The cause that the condition `DisruptionTarget` tells.
pub(super) const CAUSE: DisruptionCause = DisruptionCause {
    reason: "DeletionByTaintManager",
    message: "Taint manager: deleting due to NoExecute taint",
};

/// One try of an eviction failed.
#[derive(Debug, thiserror::Error)]
enum EvictError {
    /// The API server refused a request, or did not answer.
    #[error("{0}")]
    Request(#[source] ApiError),
    /// The answer is not a pod or a node.
    #[error("{0}")]
    Decode(#[source] DecodeError),
}

/// The end of an eviction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Deleted,
    /// There was nothing to delete: the pod is gone or terminates, or it tolerates the taints now.
    Needless,
}

impl Shared {
    /// Evicts pods until `stop`, then waits for the evictions in flight.
    pub(super) async fn evict_due_pods(&self, stop: &CancellationToken) {
        let mut running = FuturesUnordered::new();
        loop {
            let free = AT_ONCE - running.len();
            let (due, next) = {
                let mut timers = self.timers.lock().unwrap_or_else(PoisonError::into_inner);
                (timers.take_due(Instant::now(), free), timers.next())
            };
            running.extend(due.into_iter().map(|due| self.evict(due)));
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

    /// Evicts one pod, with upstream's number of tries.
    async fn evict(&self, due: Due) {
        tracing::info!(pod = %due.pod, "Deleting pod");
        self.report(&due.pod, format!("Marking for deletion Pod {}", due.pod));
        let mut tries = 0;
        let result = loop {
            tries += 1;
            match self.try_evict(&due).await {
                Err(EvictError::Request(error)) if error.is_fenced() => {
                    return tracing::debug!(pod = %due.pod, "pod is left to the next leader");
                }
                Err(_) if tries < TRIES => tokio::time::sleep(PAUSE).await,
                result => break result,
            }
        };
        let mut timers = self.timers.lock().unwrap_or_else(PoisonError::into_inner);
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

    async fn try_evict(&self, due: &Due) -> Result<End, EvictError> {
        let target = Target {
            resource: Pod::RESOURCE,
            namespace: Some(&due.pod.namespace),
            name: Some(&due.pod.name),
            subresource: None,
        };
        let pod = match self.client.get(target).await {
            Ok(live) => Pod::decode(&live).map_err(EvictError::Decode)?,
            Err(error) if error.is_object_not_found() => return Ok(End::Needless),
            Err(error) => return Err(EvictError::Request(error)),
        };
        if pod.meta.uid != due.uid || !self.has_to_go(&pod).await? {
            return Ok(End::Needless);
        }
        let change = disruption_target(&pod, CAUSE, self.tracks_generation, self.clock.now());
        if let Some(status) = change {
            // Another pod of this name has another UID, which the API server refuses to change.
            let patch = json!({"metadata": {"uid": pod.meta.uid.to_string()}, "status": status});
            let kind = PatchKind::Strategic;
            let patched = self.client.patch(target.status(), kind, &patch).await;
            patched.map_err(EvictError::Request)?;
        }
        if pod.meta.is_terminating() {
            return Ok(End::Needless);
        }
        self.delete(&pod.meta).await
    }

    async fn delete(&self, pod: &Meta) -> Result<End, EvictError> {
        let options = Delete::exactly(pod);
        match self.client.delete(Target::of::<Pod>(pod), &options).await {
            Ok(_) => Ok(End::Deleted),
            Err(error) if error.is_object_not_found() => Ok(End::Needless),
            Err(error) => Err(EvictError::Request(error)),
        }
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
        let taints = if self.nodes_written.predates_term() {
            match self.client.get(Target::of::<Node>(&node.meta)).await {
                Ok(live) => Node::decode(&live).map_err(EvictError::Decode)?.spec.taints,
                Err(error) if error.is_object_not_found() => return Ok(true),
                Err(error) => return Err(EvictError::Request(error)),
            }
        } else {
            node.spec.taints.clone()
        };
        let tolerance = tolerance::of_pod(&taints, &pod.spec.tolerations, self.comparisons);
        Ok(no_execute(&taints).next().is_some() && tolerance != Tolerance::Forever)
    }
}
