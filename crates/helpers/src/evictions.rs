//! The requests of controllers that evict single pods, and their metrics.
//!
//! live read of the pod -> condition `DisruptionTarget` -> deletion
//!
//! Each request is about the pod with one UID: another pod of its name is neither marked nor
//! deleted. Upstream repeats this in `pkg/controller/tainteviction` and
//! `pkg/controller/devicetainteviction`.

use prometheus::{HistogramOpts, IntCounter, Registry};
use serde_json::json;
use steersman_metrics::Histogram;

use steersman_client::live::{self, LiveError};
use steersman_client::writes::{Delete, DisruptionCause, ObservedGeneration, disruption_target};
use steersman_client::{ApiClient, ApiError, PatchKind, Target};
use steersman_objects::{Meta, ObjectKey, Pod, Uid};
use steersman_values::clock::Clock;

/// A try to evict a pod failed.
#[derive(Debug, thiserror::Error)]
pub enum EvictError {
    /// The pod, or an object that decides about it, could not be read.
    #[error("{0}")]
    Read(#[source] LiveError),
    /// The condition could not be written.
    #[error("{0}")]
    Mark(#[source] ApiError),
    /// The API server refused the deletion, or did not answer.
    #[error("{0}")]
    Delete(#[source] ApiError),
}

/// Evicts pods for one cause.
pub struct Evictor {
    /// Sends the requests.
    pub client: ApiClient,
    /// The time of conditions.
    pub clock: Clock,
    /// The cause that the condition tells.
    pub cause: DisruptionCause,
    /// The field `observedGeneration` of the condition.
    pub generation: ObservedGeneration,
}

impl Evictor {
    /// The pod as the API server has it. `None` if it is gone; another pod of its name does not
    /// count.
    pub async fn live(&self, pod: &ObjectKey, uid: &Uid) -> Result<Option<Pod>, EvictError> {
        let live = live::object::<Pod>(&self.client, &pod.namespace, &pod.name).await;
        Ok(live
            .map_err(EvictError::Read)?
            .filter(|live| live.meta.uid == *uid))
    }

    /// Sets the condition of the live `pod`, unless it is set for this cause.
    pub async fn mark(&self, pod: &Pod) -> Result<(), EvictError> {
        // Upstream does not patch the generation of a condition alone.
        if self.cause.is_set_on(pod) {
            return Ok(());
        }
        let now = self.clock.now();
        if let Some(status) = disruption_target(pod, self.cause, self.generation, now) {
            // Another pod of this name has another UID, which the API server refuses to change.
            let patch = json!({"metadata": {"uid": pod.meta.uid.to_string()}, "status": status});
            let target = Target::of::<Pod>(&pod.meta).status();
            let patched = self
                .client
                .patch(target, PatchKind::Strategic, &patch)
                .await;
            patched.map_err(EvictError::Mark)?;
        }
        Ok(())
    }

    /// Deletes the pod with its own grace period. False if it was gone.
    pub async fn delete(&self, pod: &Meta) -> Result<bool, EvictError> {
        let options = Delete::exactly(pod);
        match self.client.delete(Target::of::<Pod>(pod), &options).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_object_not_found() => Ok(false),
            Err(error) => Err(EvictError::Delete(error)),
        }
    }
}

/// The metrics of evictions, under upstream's names.
#[derive(Debug, Clone)]
pub struct EvictionMetrics {
    /// Deleted pods.
    pub deletions: IntCounter,
    /// Seconds from the deadline of a pod to its deletion.
    pub duration: Histogram,
}

impl EvictionMetrics {
    /// Registers both families. Their names begin with `subsystem`. `histogram` makes the histogram
    /// of the durations, with native buckets or without.
    pub fn register(
        registry: &Registry,
        subsystem: &str,
        histogram: fn(HistogramOpts) -> Result<Histogram, prometheus::Error>,
        help_of_deletions: &str,
        help_of_duration: &str,
    ) -> Result<Self, prometheus::Error> {
        let name = format!("{subsystem}_pod_deletions_total");
        let deletions = IntCounter::new(name, format!("[ALPHA] {help_of_deletions}"))?;
        let name = format!("{subsystem}_pod_deletion_duration_seconds");
        let duration = HistogramOpts::new(name, format!("[ALPHA] {help_of_duration}"));
        let bounds = [
            0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0, 120.0, 180.0, 240.0,
        ];
        let duration = histogram(duration.buckets(bounds.to_vec()))?;
        registry.register(Box::new(deletions.clone()))?;
        registry.register(Box::new(duration.clone()))?;
        Ok(Self {
            deletions,
            duration,
        })
    }
}
