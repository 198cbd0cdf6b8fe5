//! Computes the status of each PodDisruptionBudget: how many of its pods the API server may evict.
//!
//! - events -> handlers -> queue of budgets -> sync -> (expected, disrupted, status) -> PUT status
//! - a pending eviction -> queue `disruption_recheck` -> queue of budgets, two minutes later
//! - pods with a condition `DisruptionTarget` -> queue of pods -> stale -> PUT status of the pod
//!
//! The API server accepts an eviction while `status.disruptionsAllowed` is positive, and takes one
//! from it with the resource version of the budget. A status write here also carries the resource
//! version of the cached budget and is never repeated blindly. So it keeps the effect of an eviction
//! that happened since. A sync that fails sets `disruptionsAllowed` to 0.
//!
//! Upstream: `pkg/controller/disruption`. Differences:
//!
//! - A change of a pod refreshes all budgets that select the pod, and the budgets that selected it
//!   before its labels changed. Upstream refreshes one arbitrary budget of the new labels.
//! - A change of the size of a workload refreshes the budgets that count by size. Upstream waits for
//!   the next change of a pod.
//! - A sync is repeated after a failed request, or if a workload is not in the cache yet. Upstream
//!   waits for the next change of the budget or of a pod.

mod disrupted;
mod events;
mod expected;
pub(crate) mod explain;
mod handlers;
mod scales;
mod stale;
mod status;
mod sync;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use steersman_objects::{
    Deployment, ObjectKey, Pod, PodDisruptionBudget, ReplicaSet, ReplicationController, StatefulSet,
};
use steersman_options::features;
use steersman_runtime::controller::{Controller, ControllerContext, Descriptor, InitError};
use steersman_runtime::keyed::{Keyed, Runner};
use steersman_runtime::rbac::Rule;
use steersman_runtime::reads::Read;
use steersman_runtime::tasks::CancellationToken;
use steersman_runtime::workers::{Requeue, Syncer, run_workers};
use steersman_runtime::workqueue::WorkQueue;

use self::scales::Scales;
use self::stale::StaleConditions;
use self::sync::Budgets;

/// The disruption controller.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: NAME,
    aliases: &["disruption"],
    enabled_by_default: true,
    summary: "Computes how many pods of each PodDisruptionBudget may be evicted",
    identity: NAME,
    reads: &[
        Read::of::<PodDisruptionBudget>(),
        Read::of::<Pod>(),
        Read::of::<ReplicationController>(),
        Read::of::<ReplicaSet>(),
        Read::of::<Deployment>(),
        Read::of::<StatefulSet>(),
    ],
    rules: RULES,
    init,
};

const NAME: &str = "disruption-controller";

/// Source of its Events.
const COMPONENT: &str = "controllermanager";

const RULES: &[Rule] = &[
    Rule::new(&["policy"], &["poddisruptionbudgets/status"], &["update"]),
    Rule::new(&[""], &["pods/status"], &["update"]),
    // Any custom resource may control pods.
    Rule::new(&["*"], &["*/scale"], &["get"]),
    Rule::EVENTS,
];

/// Workers of the other two queues, as upstream.
const WORKERS: usize = 1;

fn init(ctx: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    let client = ctx.client(NAME);
    let recorder = ctx.recorder(COMPONENT, client.clone());
    let pods = ctx.informers.shared::<Pod>();
    let mut keyed = Keyed::<PodDisruptionBudget>::new(ctx, NAME, "disruption");
    let stale_queue = WorkQueue::new("stale_pod_disruption", &ctx.queue_metrics);
    let mut stale = Keyed::<Pod>::over(ctx, NAME, stale_queue.clone());
    let queue = keyed.queue();
    let budgets = keyed.objects().clone();
    let recheck = WorkQueue::new("disruption_recheck", &ctx.queue_metrics);

    handlers::register(
        &ctx.informers,
        handlers::Handlers {
            budgets: budgets.store(),
            pods: pods.store(),
            queue: queue.clone(),
            stale: stale_queue.clone(),
            recorder: recorder.clone(),
            clock: ctx.clock.clone(),
        },
    );
    let syncer = Budgets {
        pods: pods.store(),
        scales: Scales::new(ctx, client.clone()),
        recheck: recheck.clone(),
        cache: keyed.tracked(&budgets),
        pods_cache: keyed.tracked(&pods),
        queue: queue.clone(),
        client: client.clone(),
        recorder,
        clock: ctx.clock.clone(),
    };
    let conditions = StaleConditions {
        cache: stale.tracked(&pods),
        queue: stale_queue.clone(),
        client,
        clock: ctx.clock.clone(),
        tracks_generation: ctx
            .features
            .is_on(features::POD_OBSERVED_GENERATION_TRACKING),
    };
    Ok(Box::new(DisruptionController {
        budgets: keyed.runner(syncer),
        conditions: stale.runner(conditions),
        queue,
        recheck,
        stale_queue,
        workers: ctx.options.workers("concurrent-disruption-syncs"),
    }))
}

/// The three queues with their workers.
struct DisruptionController {
    budgets: Arc<Runner<Budgets>>,
    conditions: Arc<Runner<StaleConditions>>,
    queue: WorkQueue<ObjectKey>,
    recheck: WorkQueue<ObjectKey>,
    stale_queue: WorkQueue<ObjectKey>,
    workers: usize,
}

impl Controller for DisruptionController {
    fn run(self: Box<Self>, stop: CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let Self {
            budgets,
            conditions,
            queue,
            recheck,
            stale_queue,
            workers,
        } = *self;
        let rechecks = Arc::new(Rechecks(queue.clone()));
        Box::pin(async move {
            tokio::join!(
                run_workers(NAME, queue, workers, budgets, stop.clone()),
                run_workers(NAME, recheck, WORKERS, rechecks, stop.clone()),
                run_workers(NAME, stale_queue, WORKERS, conditions, stop),
            );
        })
    }
}

/// Moves due keys from the queue of rechecks to the queue of budgets. Upstream has the queue for
/// this delay too, and its metrics show it.
struct Rechecks(WorkQueue<ObjectKey>);

impl Syncer for Rechecks {
    type Error = Infallible;

    async fn sync(&self, key: &ObjectKey) -> Result<Requeue, Infallible> {
        self.0.add_rate_limited(key.clone());
        Ok(Requeue::Never)
    }
}
