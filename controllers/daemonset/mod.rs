//! Runs one pod of each DaemonSet on every node that fits.
//!
//! - events -> handlers -> queue of keys -> sync -> (history, layout, manage, rolling, status) ->
//!   writes
//! - nodes -> queue of nodes -> one evaluation per DaemonSet -> queue of keys
//!
//! Guarantees:
//!
//! - A sync creates and deletes pods only after the cache shows all earlier writes for the same
//!   DaemonSet ([`PodControl`]).
//! - Deletions carry the UID of the pod or revision, so that a new object of the same name
//!   survives.
//! - A new leader deletes pods only after its cache of nodes is as recent as its term. The previous
//!   leader may have created these pods for newer nodes.
//! - A change of a node costs one evaluation per DaemonSet, and a sync costs one evaluation per
//!   node. Neither depends on the number of pods of other owners.
//!
//! Upstream: `pkg/controller/daemon`. Differences, besides those in [`history`], [`manage`] and
//! [`rolling`]:
//!
//! - If a cache lacks an own write, the sync waits for that cache. Upstream backs off.
//! - One sync claims pods once. Upstream claims them for each step, and may adopt one pod three
//!   times.
//! - A failed pod is deleted when its back-off ends. Upstream counts the back-off from its last
//!   sync.
//! - Nodes are handled in the order of their names. Upstream's order is random.

mod changes;
mod error;
pub(crate) mod explain;
mod failed_pods;
mod handlers;
mod history;
mod invariants;
mod layout;
mod limits;
mod manage;
mod metrics;
mod nodes;
mod placement;
mod pod;
mod revisions;
mod rolling;
mod status;
mod sync;
#[cfg(test)]
mod tests;
mod tolerations;
mod updated;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use steersman_helpers::history::History;
use steersman_helpers::scheduling::{Comparisons, PodsByNode};
use steersman_objects::{ControllerRevision, DaemonSet, Node, ObjectKey, Pod};
use steersman_runtime::controller::{Controller, ControllerContext, Descriptor, InitError};
use steersman_runtime::keyed::{Keyed, Runner};
use steersman_runtime::owner::ByController;
use steersman_runtime::pod_control::PodControl;
use steersman_runtime::rbac::Rule;
use steersman_runtime::reads::Read;
use steersman_runtime::tasks::CancellationToken;
use steersman_runtime::workers::run_workers;
use steersman_runtime::workqueue::WorkQueue;
use tokio::time::Instant;

use self::failed_pods::FailedPods;
use self::handlers::Informers;
use self::metrics::DaemonSetMetrics;
use self::nodes::NodeSyncer;
use self::revisions::Revisions;
use self::sync::DaemonSetSyncer;

/// The DaemonSet controller.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: NAME,
    aliases: &["daemonset"],
    enabled_by_default: true,
    summary: "Runs one pod of each DaemonSet on every node that fits",
    identity: IDENTITY,
    reads: &[
        Read::of::<DaemonSet>(),
        Read::by_controller::<ControllerRevision>(),
        Read::by_controller::<Pod>(),
        Read::of::<Node>(),
    ],
    rules: RULES,
    init,
};

/// Its name, and the source of its Events.
const NAME: &str = "daemonset-controller";

/// Name of its client and its service account. Upstream's controller manager takes this name for the client,
/// and the other one for Events.
const IDENTITY: &str = "daemon-set-controller";

const RULES: &[Rule] = &[
    Rule::new(&["apps"], &["daemonsets"], &["get"]),
    Rule::new(&["apps"], &["daemonsets/status"], &["update"]),
    // The admission plugin OwnerReferencesPermissionEnforcement requires this right for owner
    // references with `blockOwnerDeletion`.
    Rule::new(&["apps"], &["daemonsets/finalizers"], &["update"]),
    Rule::new(
        &["apps"],
        &["controllerrevisions"],
        &["create", "delete", "get", "patch", "update"],
    ),
    Rule::new(&[""], &["pods"], &["create", "delete", "patch"]),
    Rule::EVENTS,
];

/// Assembles the controller: two syncers, one for DaemonSets and one for nodes, with a queue each.
fn init(ctx: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    let metrics = ctx
        .metrics(DaemonSetMetrics::register)
        .map_err(|source| InitError {
            controller: NAME,
            source: Box::new(source),
        })?;
    let mut keyed = Keyed::<DaemonSet>::new(ctx, NAME, "daemonset");
    let informers = Informers {
        daemon_sets: keyed.objects().clone(),
        revisions: ctx.informers.shared::<ControllerRevision>(),
        pods: ctx.informers.shared::<Pod>(),
        nodes: ctx.informers.shared::<Node>(),
    };
    let client = ctx.client(IDENTITY);
    client.counts_violations_of(&[invariants::AVAILABILITY]);
    let recorder = ctx.recorder(NAME, client.clone());
    let control = PodControl::new(
        &mut keyed,
        &informers.pods,
        client.clone(),
        recorder.clone(),
    );
    let node_queue = WorkQueue::new("daemonset-node-updates", &ctx.queue_metrics);
    handlers::register(&informers, &keyed.queue(), &node_queue, &control);
    let skips = metrics.stale_sync_skips;
    keyed.on_stale_cache(move |behind| {
        let labels = [&*behind.group, &*behind.resource];
        skips.with_label_values(&labels).inc();
    });
    let failed_pods = Arc::<FailedPods>::default();
    keyed.remembers(Arc::clone(&failed_pods) as Arc<_>);
    let memory = Arc::clone(&failed_pods);
    let known = informers.daemon_sets.store();
    // For the debug server: the back-offs that a DaemonSet has left.
    let recall = move |key: &str, now| {
        let ds = known.get(&ObjectKey::of_text(key));
        let reason = ds.and_then(|ds| memory.recall(&ds, Instant::now(), now));
        reason.into_iter().collect()
    };
    ctx.debug.set_memory(NAME, Arc::new(recall));
    let comparisons = Comparisons::of(&ctx.features);
    let daemon_sets = informers.daemon_sets.store();
    let nodes = informers.nodes.store();
    let node_syncer = NodeSyncer {
        nodes: nodes.clone(),
        daemon_sets: daemon_sets.clone(),
        pods: PodsByNode::of(&informers.pods.store()),
        queue: keyed.queue(),
        comparisons,
    };
    let cache = keyed.tracked(&informers.daemon_sets);
    let revisions = Revisions {
        history: History::new(
            ByController::of(&informers.revisions.store()),
            client.clone(),
        ),
        client: client.clone(),
        cache: keyed.tracked(&informers.revisions),
        owners_cache: cache.clone(),
    };
    let syncer = DaemonSetSyncer {
        daemon_sets,
        nodes,
        control,
        revisions,
        failed_pods,
        cache,
        nodes_cache: keyed.tracked(&informers.nodes),
        queue: keyed.queue(),
        client,
        recorder,
        clock: ctx.clock.clone(),
        comparisons,
    };
    Ok(Box::new(DaemonSetController {
        workers: ctx.options.workers("concurrent-daemonset-syncs"),
        queue: keyed.queue(),
        runner: keyed.runner(syncer),
        node_queue,
        node_syncer: Arc::new(node_syncer),
    }))
}

/// Both queues with their syncers.
struct DaemonSetController {
    /// Workers of each of the two queues.
    workers: usize,
    queue: WorkQueue<ObjectKey>,
    runner: Arc<Runner<DaemonSetSyncer>>,
    node_queue: WorkQueue<ObjectKey>,
    node_syncer: Arc<NodeSyncer>,
}

impl Controller for DaemonSetController {
    fn run(self: Box<Self>, stop: CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        // Both end with `stop`. Upstream also gives each queue the same number of workers.
        let Self {
            workers,
            queue,
            runner,
            node_queue,
            node_syncer,
        } = *self;
        Box::pin(async move {
            let daemon_sets = run_workers(NAME, queue, workers, runner, stop.clone());
            let nodes = run_workers(NAME, node_queue, workers, node_syncer, stop);
            tokio::join!(daemon_sets, nodes);
        })
    }
}
