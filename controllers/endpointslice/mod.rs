//! Keeps the EndpointSlices of each Service with a selector: one endpoint per pod and IP family.
//!
//! - Services, pods, slices -> handlers -> queue of Services -> sync -> (desired, packing, hints)
//!   -> POST, PUT, DELETE
//! - nodes -> CPU of zones -> queue of Services with too few endpoints in a zone
//! - new nodes -> queue of Services that missed them
//!
//! A slice has endpoints with equal ports and at most `--max-endpoints-per-slice` of them. A change
//! rewrites as few slices as possible, because each write reaches every node of the cluster.
//! Endpoints stay in their slice, and slices are never rebalanced.
//!
//! A Service without endpoints has one empty slice per family, the placeholder. The slices of a
//! deleted Service are left to the garbage collector. A Service that loses its selector keeps them.
//!
//! Upstream: `pkg/controller/endpointslice` and `k8s.io/endpointslice`. Differences:
//!
//! - The placement of endpoints is deterministic: by name of pods and slices. Upstream's is random.
//! - A sync waits until the cache shows earlier writes. Upstream fails and backs off.
//! - The CPU of zones is known before the first sync, so a restart does not remove hints.
//! - A foreign deletion of a slice enqueues its Service even after a restart.
//! - A new leader reads the nodes that its cache lacks from the API server.
//! - The arrival of a node enqueues the Services whose pods on it were left out.
//! - A pod that has finished is removed even if it was not ready.
//! - Metrics count all address types of a Service.

mod address_types;
mod desired;
mod error;
pub(crate) mod explain;
mod handlers;
mod hints;
mod labels;
mod metrics;
mod missing_nodes;
mod packing;
mod plan;
mod sync;
#[cfg(test)]
mod tests;
mod topology;
mod unselected;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use steersman_helpers::endpointslice::{
    PodsByLabel, PortOrder, SliceTotals, SliceWriter, SlicesByService, TriggerTimes, WrittenSlices,
};
use steersman_objects::{EndpointSlice, Node, ObjectKey, Pod, Service};
use steersman_options::features;
use steersman_runtime::controller::{Controller, ControllerContext, Descriptor, InitError};
use steersman_runtime::informer::Store;
use steersman_runtime::keyed::{Keyed, Runner};
use steersman_runtime::rbac::Rule;
use steersman_runtime::reads::Read;
use steersman_runtime::tasks::CancellationToken;
use steersman_runtime::workers::run_workers;
use steersman_runtime::workqueue::WorkQueue;
use tokio::sync::Notify;

use self::metrics::{SliceMetrics, TrafficDistributions};
use self::missing_nodes::MissingNodes;
use self::sync::Slices;
use self::topology::Topology;

/// The EndpointSlice controller.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: NAME,
    aliases: &["endpointslice"],
    enabled_by_default: true,
    summary: "Keeps the EndpointSlices of Services with a selector",
    identity: NAME,
    reads: &[
        Read::of::<Service>(),
        Read::of::<Pod>(),
        Read::of::<Node>(),
        Read::of::<EndpointSlice>(),
    ],
    rules: RULES,
    init,
};

/// Name in `--controllers`, in logs and metrics, and of its service account.
const NAME: &str = "endpointslice-controller";

/// Source of its Events.
const COMPONENT: &str = "endpoint-slice-controller";

/// Value of the label `endpointslice.kubernetes.io/managed-by`. Slices with another value belong to
/// another writer, such as a user or the mirroring controller, and are left alone. Upstream:
/// `ControllerName`.
const MANAGER: &str = "endpointslice-controller.k8s.io";

const RULES: &[Rule] = &[
    // A new leader compares its caches with the API server.
    Rule::new(&[""], &["services", "nodes"], &["get"]),
    Rule::new(
        &["discovery.k8s.io"],
        &["endpointslices"],
        &["create", "update", "delete"],
    ),
    // The admission plugin OwnerReferencesPermissionEnforcement requires this right for owner
    // references with `blockOwnerDeletion`.
    Rule::new(&[""], &["services/finalizers"], &["update"]),
    Rule::EVENTS,
];

/// The back-off of a Service after a failed sync: first and longest. The first delay is much longer
/// than the 5 ms of other controllers, because a sync may send large writes. Upstream:
/// `defaultSyncBackOff` and `maxSyncBackOff`.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(1000));

fn init(ctx: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    let metrics = ctx
        .metrics(SliceMetrics::register)
        .map_err(|source| InitError {
            controller: NAME,
            source: Box::new(source),
        })?;
    let queue =
        WorkQueue::with_backoff_between("endpoint_slice", &ctx.queue_metrics, BACKOFF.0, BACKOFF.1);
    let mut keyed = Keyed::<Service>::over(ctx, NAME, queue.clone());
    let informers = &ctx.informers;
    let nodes = informers.shared::<Node>();
    let pods = informers.shared::<Pod>();
    let slices = informers.shared::<EndpointSlice>();
    let services = keyed.objects().clone();
    let client = ctx.client(NAME);
    let recorder = ctx.recorder(COMPONENT, client.clone());
    let [added, actual, perfect] = metrics.totals();

    let topology = Arc::new(Topology::default());
    let written = Arc::new(WrittenSlices::default());
    let times = Arc::new(TriggerTimes::default());
    let totals = Arc::new(SliceTotals::new(added, actual, perfect));
    let distributions = Arc::new(TrafficDistributions::new(&metrics));
    let missing_nodes = Arc::new(MissingNodes::default());
    // Each of these forgets a Service whose deletion the cache shows.
    keyed.remembers(topology.clone());
    keyed.remembers(missing_nodes.clone());
    keyed.remembers(written.clone());
    keyed.remembers(times.clone());
    keyed.remembers(totals.clone());
    keyed.remembers(distributions.clone());
    // Here a sync on a stale cache does not even start. Upstream counts it as a sync with this
    // result.
    let stale = metrics.clone();
    keyed.on_stale_cache(move |_| stale.synced("stale"));

    let nodes_changed = Arc::new(Notify::new());
    handlers::register(
        informers,
        handlers::Handlers {
            queue: queue.clone(),
            batch_period: ctx.options.time("endpointslice-updates-batch-period"),
            written: written.clone(),
            nodes_changed: nodes_changed.clone(),
            missing_nodes: missing_nodes.clone(),
        },
    );
    let syncer = Slices {
        pods: PodsByLabel::of(&pods.store()),
        slices: SlicesByService::of(&slices.store()),
        nodes: nodes.store(),
        // The configuration allows 1 to 1000.
        max: usize::try_from(ctx.options.int("max-endpoints-per-slice")).unwrap_or(1),
        order: PortOrder::of(ctx.release),
        topology: topology.clone(),
        missing_nodes,
        pods_cache: keyed.tracked(&pods),
        nodes_cache: keyed.tracked(&nodes),
        services_cache: keyed.tracked(&services),
        writer: SliceWriter {
            owner_kind: "Service",
            client: client.clone(),
            cache: keyed.tracked(&slices),
            written,
            changes: metrics.changes(),
        },
        times,
        totals,
        distributions,
        prefers_same: ctx
            .features
            .is_on(features::PREFER_SAME_TRAFFIC_DISTRIBUTION),
        metrics,
        client,
        recorder,
    };
    Ok(Box::new(SliceController {
        runner: keyed.runner(syncer),
        workers: ctx.options.workers("concurrent-service-endpoint-syncs"),
        queue,
        nodes: nodes.store(),
        nodes_changed,
        topology,
    }))
}

/// The queue of Services with its workers, and the task that follows the nodes.
struct SliceController {
    runner: Arc<Runner<Slices>>,
    workers: usize,
    queue: WorkQueue<ObjectKey>,
    nodes: Store<Node>,
    nodes_changed: Arc<Notify>,
    topology: Arc<Topology>,
}

impl Controller for SliceController {
    fn run(self: Box<Self>, stop: CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let Self {
            runner,
            workers,
            queue,
            nodes,
            nodes_changed,
            topology,
        } = *self;
        // Without the CPU of zones, the first syncs would remove the hints of all Services.
        topology.set_nodes(&nodes.list());
        let services = queue.clone();
        let ended = stop.clone();
        let follow_nodes = async move {
            loop {
                tokio::select! {
                    biased;
                    () = ended.cancelled() => return,
                    () = nodes_changed.notified() => {}
                }
                // Notifications during this step become one, so many changed nodes cost few rounds.
                topology.set_nodes(&nodes.list());
                topology
                    .overloaded()
                    .into_iter()
                    .for_each(|service| services.add(service));
            }
        };
        Box::pin(async move {
            tokio::join!(
                run_workers(NAME, queue, workers, runner, stop),
                follow_nodes
            );
        })
    }
}
