//! Watches the health of nodes, and taints the unhealthy ones:
//!
//! - conditions of a silent node become `Unknown`, and its pods are marked as not ready,
//! - conditions of a node become NoSchedule taints at once,
//! - a node that is not ready gets a NoExecute taint, at a limited rate per zone.
//!
//! The taint eviction controller evicts the pods of nodes with NoExecute taints.
//!
//! - every 5 s: caches of nodes and Leases -> [`monitor`] -> patches of statuses, taints, pods
//! - at the rate of each zone: waiting nodes -> NoExecute taint
//! - node events -> queue of nodes -> (taints, labels) -> patch
//! - pods bound to a node in this leadership term -> queue of pods -> patch of the status
//!
//! Upstream: `pkg/controller/nodelifecycle`. Differences:
//!
//! - A new leader keeps the NoExecute taints that nodes have. Upstream removes them and adds them
//!   again, so the pods get their whole toleration time once more.
//! - A NoExecute taint is added only if the live node still has the condition of the decision.
//! - Disruption is known before the first NoExecute taint of a pass; see [`monitor`].
//! - A silent node and its pods are marked by patches of conditions with the resource version.
//! - A node that recovers while the controller is busy with other nodes keeps its status, and its
//!   pods are not marked.
//! - A failed taint or label is retried.
//! - A NoExecute taint waits until some node has shown a sign of life in this leadership term. So a
//!   new leader evicts no pod while all kubelets are silent.
//! - Pods of a node that turns `Unknown` are always marked: also after a change of leader, and if
//!   the node was `False` before.

mod config;
mod health;
mod labels;
mod lease;
mod metrics;
mod monitor;
mod no_execute;
mod pass;
mod pods;
mod recall;
mod sync;
mod taints;
#[cfg(test)]
pub(crate) mod tests;
mod unknown;
mod writes;
mod zone_queue;
mod zones;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use steersman_helpers::scheduling::PodsByNode;
use steersman_objects::{Lease, Node, Object, ObjectKey, Pod};
use steersman_options::features;
use steersman_runtime::consistency::{ConsistencyStore, TrackedCache};
use steersman_runtime::controller::{Controller, ControllerContext, Descriptor, InitError};
use steersman_runtime::informer::{Change, Store};
use steersman_runtime::keyed::{Keyed, Runner};
use steersman_runtime::rbac::Rule;
use steersman_runtime::reads::Read;
use steersman_runtime::tasks::CancellationToken;
use steersman_runtime::workers::run_workers;
use steersman_runtime::workqueue::WorkQueue;
use steersman_values::clock::Clock;
use tokio::sync::Notify;

use self::config::Config;
use self::lease::LeaseBreaker;
use self::metrics::NodeMetrics;
use self::monitor::Monitor;
use self::sync::{Nodes, Pods};
use self::writes::Writer;

/// The node lifecycle controller.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: NAME,
    aliases: &["nodelifecycle"],
    enabled_by_default: true,
    summary: "Watches the health of nodes, and taints those that are not ready",
    identity: IDENTITY,
    reads: &[Read::of::<Node>(), Read::of::<Pod>(), Read::of::<Lease>()],
    rules: &[
        Rule::new(&[""], &["nodes"], &["get", "patch"]),
        Rule::new(&[""], &["nodes/status"], &["patch"]),
        Rule::new(&[""], &["pods/status"], &["patch"]),
        Rule::new(&["coordination.k8s.io"], &["leases"], &["get"])
            .with_gate(features::NODE_CONTROLLER_LEASE_CIRCUIT_BREAKER),
        Rule::EVENTS,
    ],
    init,
};

/// Name in `--controllers`, in logs and metrics.
const NAME: &str = "node-lifecycle-controller";

/// Name of its client and of its service account, and source of its Events.
const IDENTITY: &str = "node-controller";

/// Workers of the queue of nodes, as upstream. Upstream: `nodeUpdateWorkerSize`.
const NODE_WORKERS: usize = 8;

/// Workers of the queue of pods, as upstream. The monitor marks most pods, so few are left for this
/// queue. Upstream: `podUpdateWorkerSize`.
const POD_WORKERS: usize = 4;

fn init(ctx: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    let mut nodes = Keyed::<Node>::new(ctx, NAME, "node_lifecycle_controller");
    let mut pods = Keyed::<Pod>::new(ctx, NAME, "node_lifecycle_controller_pods");
    let node_queue = nodes.queue();
    let pod_queue = pods.queue();
    let queue = node_queue.clone();
    nodes.objects().add_handler(move |change| match change {
        Change::Added { object: node, .. } | Change::Updated { new: node, .. } => {
            queue.add(node.key());
        }
        Change::Deleted { .. } => {}
    });
    let queue = pod_queue.clone();
    let pod_informer = pods.objects().clone();
    pod_informer.add_handler(move |change| {
        let (before, pod) = match change {
            // The kubelet of a node that is `False` still answers for its pods, and the first pass
            // marks the pods of a silent node. Upstream gets all pods here too, and drops them:
            // `processPod` knows no node before the first pass.
            Change::Added { initial: true, .. } => return,
            Change::Added { object, .. } => (None, object),
            Change::Updated { old, new } => (old.node.as_ref(), new),
            Change::Deleted { .. } => return,
        };
        // Other changes of a pod do not bring it to another node. Upstream: `podUpdated`.
        if pod.node.is_some() && pod.node.as_ref() != before {
            queue.add(pod.key());
        }
    });

    let client = ctx.client(IDENTITY);
    let metrics = NodeMetrics::register(&ctx.registry).map_err(|source| InitError {
        controller: NAME,
        source: Box::new(source),
    })?;
    let config = Config::new(&ctx.options);
    let informer = nodes.objects().clone();
    let pods_cache = pods.tracked(&pod_informer);
    let shared = Arc::new(Shared {
        nodes: informer.store(),
        pods_by_node: PodsByNode::of(&pod_informer.store()),
        leases: ctx.informers.shared::<Lease>().store(),
        monitor: Mutex::new(Monitor::new(config, ctx.term_start_rv)),
        waiting: Notify::new(),
        consistency: nodes.consistency(),
        pods_cache,
        breaker: LeaseBreaker::new(
            client.clone(),
            ctx.features
                .is_on(features::NODE_CONTROLLER_LEASE_CIRCUIT_BREAKER),
        ),
        writer: Writer {
            recorder: ctx.recorder(IDENTITY, client.clone()),
            client,
            clock: ctx.clock.clone(),
            cache: nodes.tracked(&informer),
        },
        clock: ctx.clock.clone(),
        metrics,
    });
    let memory = Arc::clone(&shared);
    // The key is the name of a node.
    let recall = move |node: &str, _| {
        let node = memory.nodes.get(&ObjectKey::new("", node));
        let reason = node.and_then(|node| memory.monitor().recall(&node));
        reason.into_iter().collect()
    };
    ctx.debug.set_memory(NAME, Arc::new(recall));
    Ok(Box::new(NodeLifecycle {
        period: config.monitor_period,
        nodes: nodes.runner(Nodes(Arc::clone(&shared))),
        pods: pods.runner(Pods(Arc::clone(&shared))),
        shared,
        node_queue,
        pod_queue,
    }))
}

/// The state that all loops share.
struct Shared {
    nodes: Store<Node>,
    pods_by_node: PodsByNode,
    leases: Store<Lease>,
    monitor: Mutex<Monitor>,
    /// Notified after each pass, since nodes may wait for a NoExecute taint.
    waiting: Notify,
    consistency: ConsistencyStore,
    /// Tells whether the cache of pods is older than this leadership term.
    pods_cache: TrackedCache,
    breaker: LeaseBreaker,
    writer: Writer,
    clock: Clock,
    metrics: NodeMetrics,
}

impl Shared {
    /// The monitor. Its methods perform no IO, so the lock is held for a short time.
    fn monitor(&self) -> MutexGuard<'_, Monitor> {
        self.monitor.lock()
    }
}

/// The loops of the controller.
struct NodeLifecycle {
    period: Duration,
    shared: Arc<Shared>,
    nodes: Arc<Runner<Nodes>>,
    pods: Arc<Runner<Pods>>,
    node_queue: WorkQueue<ObjectKey>,
    pod_queue: WorkQueue<ObjectKey>,
}

impl Controller for NodeLifecycle {
    fn run(self: Box<Self>, stop: CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let Self {
            period,
            shared,
            nodes,
            pods,
            node_queue,
            pod_queue,
        } = *self;
        Box::pin(async move {
            // The pause follows the pass, so slow passes do not overlap. Upstream:
            // `wait.UntilWithContext`.
            let monitor = async {
                while !stop.is_cancelled() {
                    shared.pass(&stop).await;
                    tokio::select! {
                        () = stop.cancelled() => {}
                        () = tokio::time::sleep(period) => {}
                    }
                }
            };
            tokio::join!(
                run_workers(NAME, node_queue, NODE_WORKERS, nodes, stop.clone()),
                run_workers(NAME, pod_queue, POD_WORKERS, pods, stop.clone()),
                shared.taint_waiting_nodes(&stop),
                monitor,
            );
        })
    }
}
