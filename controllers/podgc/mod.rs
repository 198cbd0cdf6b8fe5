//! Removes pods that nobody else will: finished ones beyond a threshold, terminating ones on nodes
//! out of service or bound to no node, and those whose node is gone.
//!
//! every 20 s: caches -> (terminated, out_of_service, orphaned, unscheduled) -> patch of the status
//! -> delete
//!
//! Upstream: `pkg/controller/podgc`. Differences: deletions carry the pod's UID as precondition, so
//! that a pod which took the name meanwhile stays; the refusal counts as an error, as a pod not
//! found does. A pod that was removed is left alone until the cache shows what became of it.

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
use steersman_runtime::client::{ApiClient, ApiError, PatchKind, Target};
use steersman_runtime::clock::Clock;
use steersman_runtime::controller::{Controller, ControllerContext, Descriptor, InitError};
use steersman_runtime::features;
use steersman_runtime::informer::Store;
use steersman_runtime::intern::Sym;
use steersman_runtime::object::{Identity, Node, Object, Pod, Uid};
use steersman_runtime::own_writes::{OwnWrites, WritesTo};
use steersman_runtime::rbac::Rule;
use steersman_runtime::reads::Read;
use steersman_runtime::tasks::CancellationToken;
use steersman_runtime::workqueue::WorkQueue;
use steersman_runtime::writes::Delete;

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

/// Its client and its service account.
const IDENTITY: &str = "pod-garbage-collector";

const RULES: &[Rule] = &[
    Rule::new(&[""], &["pods"], &["delete"]),
    Rule::new(&[""], &["pods/status"], &["patch"]),
    Rule::new(&[""], &["nodes"], &["get"]),
];

/// Between the end of one cycle and the start of the next.
const PAUSE: Duration = Duration::from_secs(20);

/// How long a node must be missed before its pods are orphans.
const QUARANTINE: Duration = Duration::from_secs(40);

/// Removals in flight where they run side by side; the client's throttle is what bounds their rate.
const REMOVALS_AT_ONCE: usize = 200;

fn init(ctx: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    let pods = ctx.informers.shared::<Pod>();
    let removed = OwnWrites::new(ctx.term_start_rv);
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
        written: removed.to(pods.versioned()),
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

/// Why a pod goes; the texts are label values of the metrics.
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
    /// Whether the status of a pod says which generation it is about.
    tracks_generation: bool,
    pods: Store<Pod>,
    nodes: Store<Node>,
    client: ApiClient,
    clock: Clock,
    quarantine: WorkQueue<Sym>,
    threshold: i64,
    /// Removals by pod, and their versions in the cache of pods.
    removed: OwnWrites<Uid>,
    written: WritesTo<Uid>,
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
    /// Looks at all pods once. The steps see the same pods; a pod that one of them removed is
    /// nothing to the next. No removal starts after `stop`.
    async fn cycle(&self, stop: &CancellationToken) {
        // Before the pods are listed, so that the list shows all that is forgotten here.
        self.removed.forget_seen();
        let (pods, nodes) = (self.pods.list(), by_name(self.nodes.list()));

        let terminated = terminated::surplus(&pods, self.threshold);
        self.remove_all(&terminated, Reason::Terminated, REMOVALS_AT_ONCE, stop)
            .await;

        let doomed = out_of_service::doomed(&pods, &nodes);
        self.remove_all(&doomed, Reason::OutOfService, REMOVALS_AT_ONCE, stop)
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

        let unscheduled: Vec<Arc<Pod>> = pods
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
                if !stop.is_cancelled() && !self.removed.has(&pod.meta.uid) {
                    self.remove(&pod, reason).await;
                }
            }
        };
        stream::iter(pods)
            .for_each_concurrent(at_once, remove)
            .await;
    }

    /// Fails the pod unless it is finished, then deletes it at once. A pod that cannot be failed is
    /// left for the next cycle.
    async fn remove(&self, pod: &Pod, reason: Reason) {
        let labels = [&*pod.meta.namespace, reason.as_str()];
        let removed = self.fail_and_delete(pod, reason).await;
        if removed.as_ref().is_err_and(ApiError::is_fenced) {
            return tracing::debug!(pod = %pod.key(), reason = reason.as_str(), "pod left to whoever leads next");
        }
        self.metrics.deletions.with_label_values(&labels).inc();
        if removed.is_ok() {
            tracing::debug!(pod = %pod.key(), reason = reason.as_str(), "Deletion of pod succeeded");
        }
        if let Err(error) = removed {
            self.metrics.errors.with_label_values(&labels).inc();
            tracing::error!(pod = %pod.key(), reason = reason.as_str(), %error, "pod not removed");
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
        // A Status in place of the pod has no version; then the next cycle finds out.
        if let Ok(Identity {
            resource_version: version @ 1..,
            ..
        }) = Identity::decode(&answer)
        {
            self.written.record(&pod.meta.uid, version);
        }
        Ok(())
    }
}

/// Being deleted, and no kubelet was ever asked to run it, so none will end it.
fn is_unscheduled(pod: &Pod) -> bool {
    pod.meta.is_terminating() && pod.node.is_none()
}
