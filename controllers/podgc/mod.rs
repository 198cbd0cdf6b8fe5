//! Removes pods that have no kubelet or controller to remove them:
//!
//! - finished pods beyond a threshold,
//! - terminating pods on nodes with the out-of-service taint,
//! - pods of nodes that are gone,
//! - terminating pods that were never bound to a node.
//!
//! every 20 s: caches -> (terminated, out_of_service, orphaned, unscheduled) -> patch of the status
//! -> delete
//!
//! Upstream: `pkg/controller/podgc`. Differences:
//!
//! - A deletion has the UID of the pod as precondition, so that a new pod of the same name
//!   survives. A failed precondition counts as an error in the metrics, like a pod that is not
//!   found.
//! - Further cycles ignore a removed pod until the cache shows the removal.
//! - A failed pod that only waits for its finalizers is neither deleted again nor counted as a pod
//!   beyond the threshold (kubernetes/kubernetes#141190).

mod metrics;
mod orphaned;
mod out_of_service;
mod patch;
mod terminated;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, stream};
use steersman_client::writes::Delete;
use steersman_client::{ApiClient, ApiError, Category, PatchKind, Target};
use steersman_objects::{Identity, Node, Object, Phase, Pod, Uid};
use steersman_options::features;
use steersman_runtime::consistency::{ConsistencyStore, TrackedCache};
use steersman_runtime::controller::{Controller, ControllerContext, Descriptor, InitError};
use steersman_runtime::informer::Store;
use steersman_runtime::rbac::Rule;
use steersman_runtime::reads::Read;
use steersman_runtime::tasks::CancellationToken;
use steersman_runtime::workqueue::WorkQueue;
use steersman_values::clock::Clock;
use steersman_values::intern::Sym;

use self::metrics::PodGcMetrics;

/// The pod garbage collector.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: NAME,
    aliases: &["podgc"],
    enabled_by_default: true,
    summary: "Removes finished pods beyond a threshold and pods whose node is gone or out of service",
    identity: IDENTITY,
    reads: &[Read::of::<Pod>(), Read::of::<Node>()],
    rules: RULES,
    init,
};

const NAME: &str = "pod-garbage-collector-controller";

/// Name of its client and its service account.
const IDENTITY: &str = "pod-garbage-collector";

const RULES: &[Rule] = &[
    Rule::new(&[""], &["pods"], &["delete"]),
    Rule::new(&[""], &["pods/status"], &["patch"]),
    Rule::new(&[""], &["nodes"], &["get"]),
];

/// Pause between the end of one cycle and the start of the next. Upstream: `gcCheckPeriod`.
const PAUSE: Duration = Duration::from_secs(20);

/// Time for which a node must be missing before its pods count as orphans. Upstream:
/// `quarantineTime`.
const QUARANTINE: Duration = Duration::from_secs(40);

/// Concurrent removals, for reasons that upstream also removes concurrently. The throttle of the
/// client limits their rate.
const REMOVALS_AT_ONCE: usize = 200;

fn init(ctx: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    let pods = ctx.informers.shared::<Pod>();
    let removed = ConsistencyStore::new(ctx.term_start_rv);
    let metrics = PodGcMetrics::register(&ctx.registry).map_err(|source| InitError {
        controller: NAME,
        source: Box::new(source),
    })?;
    Ok(Box::new(PodGc {
        pods: pods.store(),
        nodes: ctx.informers.shared::<Node>().store(),
        client: ctx.client(IDENTITY),
        clock: ctx.clock.clone(),
        quarantine: WorkQueue::new("orphaned_pods_nodes", &ctx.queue_metrics),
        threshold: ctx.options.int("terminated-pod-gc-threshold"),
        cache: removed.track(pods.versioned()),
        removed,
        tracks_generation: ctx
            .features
            .is_on(features::POD_OBSERVED_GENERATION_TRACKING),
        metrics,
    }))
}

/// The nodes of one cycle, by name.
type Nodes = HashMap<Sym, Arc<Node>>;

fn by_name(nodes: Vec<Arc<Node>>) -> Nodes {
    nodes
        .into_iter()
        .map(|node| (Sym::new(&node.meta.name), node))
        .collect()
}

/// The reason for a removal. The texts are label values of the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    Terminated,
    OutOfService,
    Orphaned,
    Unscheduled,
}

impl Reason {
    fn as_str(self) -> &'static str {
        match self {
            Self::Terminated => "terminated",
            Self::OutOfService => "out-of-service",
            Self::Orphaned => "orphaned",
            Self::Unscheduled => "unscheduled",
        }
    }
}

struct PodGc {
    /// Write `observedGeneration` into the status (gate `PodObservedGenerationTracking`).
    tracks_generation: bool,
    pods: Store<Pod>,
    nodes: Store<Node>,
    client: ApiClient,
    clock: Clock,
    quarantine: WorkQueue<Sym>,
    threshold: i64,
    /// Removed pods by UID, until the cache shows their removal.
    removed: ConsistencyStore<Uid>,
    cache: TrackedCache<Uid>,
    metrics: PodGcMetrics,
}

impl Controller for PodGc {
    fn run(self: Box<Self>, stop: CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            while !stop.is_cancelled() {
                self.cycle(&stop).await;
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = tokio::time::sleep(PAUSE) => {}
                }
            }
            self.quarantine.shut_down();
        })
    }
}

impl PodGc {
    /// Checks all pods once. All steps use the same list of pods, and ignore pods that an earlier
    /// step removed. No removal starts after `stop`.
    async fn cycle(&self, stop: &CancellationToken) {
        // Comes before the list of pods, so that the list shows every removal that is forgotten
        // here.
        self.removed.clear_seen();
        let all = self.pods.list();
        let mut pods = all.clone();
        pods.retain(|pod| !awaits_finalizers(pod));
        let nodes = by_name(self.nodes.list());

        let terminated = terminated::surplus(&pods, self.threshold);
        self.remove_all(&terminated, Reason::Terminated, REMOVALS_AT_ONCE, stop)
            .await;

        let terminating = out_of_service::terminating_pods(&pods, &nodes);
        self.remove_all(&terminating, Reason::OutOfService, REMOVALS_AT_ONCE, stop)
            .await;

        orphaned::quarantine_unknown_nodes(&pods, &nodes, &self.quarantine);
        let deleted = orphaned::deleted_nodes(&nodes, &self.quarantine, &self.client).await;
        self.remove_all(
            &orphaned::orphans(&pods, &deleted),
            Reason::Orphaned,
            1,
            stop,
        )
        .await;

        // The deletion of a pod without a node has no grace period from the start, so this step takes
        // them all, as upstream.
        let unscheduled: Vec<Arc<Pod>> = all
            .iter()
            .filter(|pod| is_unscheduled(pod))
            .cloned()
            .collect();
        self.remove_all(&unscheduled, Reason::Unscheduled, 1, stop)
            .await;
    }

    async fn remove_all(
        &self,
        pods: &[Arc<Pod>],
        reason: Reason,
        at_once: usize,
        stop: &CancellationToken,
    ) {
        if pods.is_empty() {
            return;
        }
        tracing::debug!(
            reason = reason.as_str(),
            numPods = pods.len(),
            "Garbage collecting pods"
        );
        let remove = |pod: &Arc<Pod>| {
            let pod = Arc::clone(pod);
            async move {
                if !stop.is_cancelled() && !self.removed.has_written(&pod.meta.uid) {
                    self.remove(&pod, reason).await;
                }
            }
        };
        stream::iter(pods)
            .for_each_concurrent(at_once, remove)
            .await;
    }

    /// Sets the phase `Failed` unless the pod is finished, then deletes it with a grace period of
    /// zero. After an error, the next cycle tries again.
    async fn remove(&self, pod: &Pod, reason: Reason) {
        let labels = [&*pod.meta.namespace, reason.as_str()];
        let removed = self.fail_and_delete(pod, reason).await;
        if removed.as_ref().is_err_and(ApiError::is_fenced) {
            return tracing::debug!(pod = %pod.key(), reason = reason.as_str(), "pod is left to the next leader");
        }
        self.metrics.deletions.with_label_values(&labels).inc();
        if removed.is_ok() {
            tracing::debug!(pod = %pod.key(), reason = reason.as_str(), "Deletion of pod succeeded");
        }
        if let Err(error) = removed {
            self.metrics.errors.with_label_values(&labels).inc();
            let category = Category::of(&error).as_str();
            tracing::error!(pod = %pod.key(), reason = reason.as_str(), category, %error, "pod not removed");
        }
    }

    async fn fail_and_delete(&self, pod: &Pod, reason: Reason) -> Result<(), ApiError> {
        let target = Target::of::<Pod>(&pod.meta);
        if let Some(patch) = patch::failure(
            pod,
            reason == Reason::Orphaned,
            self.tracks_generation,
            self.clock.now(),
        ) {
            self.client
                .patch(target.status(), PatchKind::Strategic, &patch)
                .await?;
        }
        let options = Delete::exactly(&pod.meta).immediately();
        let answer = self.client.delete(target, &options).await?;
        // A Status in place of the pod has no version. The next cycle may then try again.
        if let Ok(Identity {
            resource_version: version @ 1..,
            ..
        }) = Identity::decode(&answer)
        {
            self.cache.wrote_at(&pod.meta.uid, version);
        }
        Ok(())
    }
}

/// Whether all of the collector's work on the pod is done: it has finished, and its deletion has no
/// grace period left. The API server keeps such a pod only for its finalizers.
fn awaits_finalizers(pod: &Pod) -> bool {
    pod.meta.is_terminating()
        && pod.details().deletion_grace_period_seconds == Some(0)
        && matches!(pod.phase, Phase::Succeeded | Phase::Failed)
}

/// True for a terminating pod without a node. No kubelet ends such a pod.
fn is_unscheduled(pod: &Pod) -> bool {
    pod.meta.is_terminating() && pod.node.is_none()
}
