//! Evicts pods from nodes with NoExecute taints, unless the pods tolerate them.
//!
//! events of nodes and pods -> queues -> sync -> ([`tolerance`], [`timers`]) -> at the deadline:
//! condition `DisruptionTarget`, then deletion
//!
//! The time of a toleration runs from the moment at which this process saw the taint, as upstream.
//! So it starts again after a restart.
//!
//! Upstream: `pkg/controller/tainteviction`. Differences:
//!
//! - A failed eviction is repeated with back-off.
//! - A deletion carries the UID of the pod, so that a new pod of the same name survives.
//! - A pod that tolerates the taints at the moment of its eviction stays.
//! - A pod that was evicted and terminates is not evicted once more, for example by a new leader.

mod evict;
pub(crate) mod explain;
mod handlers;
mod invariants;
mod sync;
#[cfg(test)]
mod tests;
mod timers;
mod tolerance;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use parking_lot::Mutex;

use steersman_client::writes::ObservedGeneration;
use steersman_helpers::evictions::{EvictionMetrics, Evictor};
use steersman_helpers::scheduling::{Comparisons, PodsByNode};
use steersman_metrics::Histogram;
use steersman_objects::{Node, ObjectKey, Pod};
use steersman_options::features;
use steersman_runtime::consistency::{ConsistencyStore, TrackedCache};
use steersman_runtime::controller::{Controller, ControllerContext, Descriptor, InitError};
use steersman_runtime::events::EventRecorder;
use steersman_runtime::informer::Store;
use steersman_runtime::rbac::Rule;
use steersman_runtime::reads::Read;
use steersman_runtime::tasks::CancellationToken;
use steersman_runtime::workers::run_workers;
use steersman_runtime::workqueue::WorkQueue;
use tokio::sync::Notify;

use self::evict::CAUSE;
use self::sync::{Nodes, Pods};
use self::timers::Timers;

/// The taint eviction controller.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: NAME,
    aliases: &[],
    enabled_by_default: true,
    summary: "Evicts pods from nodes with NoExecute taints that they do not tolerate",
    identity: IDENTITY,
    reads: &[Read::of::<Pod>(), Read::of::<Node>()],
    rules: &[
        Rule::new(&[""], &["pods"], &["get", "delete"]),
        Rule::new(&[""], &["pods/status"], &["patch"]),
        Rule::new(&[""], &["nodes"], &["get"]),
        Rule::EVENTS,
    ],
    init,
};

/// Name of the controller, and source of its Events.
const NAME: &str = "taint-eviction-controller";

/// Name of its client and of its service account, which it shares with the node lifecycle
/// controller.
const IDENTITY: &str = "node-controller";

/// Reason of its Events.
const EVENT_REASON: &str = "TaintManagerEviction";

/// Workers of each queue. A sync takes microseconds and holds the lock of the timers, so more
/// workers would only wait for each other.
const WORKERS: usize = 1;

fn init(ctx: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    let pods = ctx.informers.shared::<Pod>();
    let nodes = ctx.informers.shared::<Node>();
    let node_queue = WorkQueue::new("noexec_taint_node", &ctx.queue_metrics);
    let pod_queue = WorkQueue::new("noexec_taint_pod", &ctx.queue_metrics);
    handlers::register(&pods, &pod_queue, &nodes, &node_queue);
    let comparisons = Comparisons::of(&ctx.features);
    // Upstream observes other durations by mistake: nanoseconds times 10^9.
    let metrics = EvictionMetrics::register(
        &ctx.registry,
        "taint_eviction_controller",
        Histogram::with_opts,
        "Total number of Pods deleted by TaintEvictionController since its start.",
        "Latency, in seconds, between the time when a taint effect has been activated for the Pod and its deletion via TaintEvictionController.",
    );
    let metrics = metrics.map_err(|source| InitError {
        controller: NAME,
        source: Box::new(source),
    })?;
    let tracks_generation = ctx
        .features
        .is_on(features::POD_OBSERVED_GENERATION_TRACKING);
    let client = ctx.client(IDENTITY);
    client.counts_violations_of(&[invariants::TOLERATING_POD]);
    let shared = Shared {
        pods: pods.store(),
        pods_by_node: PodsByNode::of(&pods.store()),
        nodes: nodes.store(),
        nodes_cache: ConsistencyStore::new(ctx.term_start_rv).track(nodes.versioned()),
        timers: Mutex::default(),
        changed: Notify::new(),
        recorder: ctx.recorder(NAME, client.clone()),
        evictor: Evictor {
            client,
            clock: ctx.clock.clone(),
            cause: CAUSE,
            generation: ObservedGeneration::tracked(tracks_generation),
        },
        comparisons,
        metrics,
    };
    Ok(Box::new(TaintEviction {
        shared: Arc::new(shared),
        node_queue,
        pod_queue,
    }))
}

/// The state that queues and evictions share.
struct Shared {
    pods: Store<Pod>,
    pods_by_node: PodsByNode,
    nodes: Store<Node>,
    /// Tells whether the cache of nodes is older than this leadership term.
    nodes_cache: TrackedCache,
    timers: Mutex<Timers>,
    /// Notified after each change of the timers.
    changed: Notify,
    evictor: Evictor,
    recorder: EventRecorder,
    comparisons: Comparisons,
    metrics: EvictionMetrics,
}

/// The queues and the evictions.
struct TaintEviction {
    shared: Arc<Shared>,
    node_queue: WorkQueue<ObjectKey>,
    pod_queue: WorkQueue<ObjectKey>,
}

impl Controller for TaintEviction {
    fn run(self: Box<Self>, stop: CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let Self {
            shared,
            node_queue,
            pod_queue,
        } = *self;
        let nodes = Arc::new(Nodes(Arc::clone(&shared)));
        let pods = Arc::new(Pods(Arc::clone(&shared)));
        Box::pin(async move {
            tokio::join!(
                run_workers(NAME, node_queue, WORKERS, nodes, stop.clone()),
                run_workers(NAME, pod_queue, WORKERS, pods, stop.clone()),
                shared.evict_due_pods(&stop),
            );
        })
    }
}
