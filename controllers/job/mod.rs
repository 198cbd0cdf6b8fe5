//! Runs pods until the work of a Job is done, and counts their ends.
//!
//! events -> handlers -> queue of keys -> sync -> (snapshot, end_state, manage, tracking) -> writes
//!
//! Guarantees:
//!
//! - Each finished pod is counted exactly once, also after a crash between any two writes. The
//!   tracking finalizer keeps a pod until the status counts it ([`tracking`]).
//! - A sync creates and deletes pods only after the cache shows all earlier writes for the same
//!   Job ([`PodControl`]).
//! - A Job never leaves its end again: a sync ignores a cached status that is older than its own.
//! - With the feature gate `WorkloadWithJob`, the pods of an Indexed Job start together ([`gang`]). Since 1.37, the spec
//!   of a Job tells if they do.
//!
//! Upstream: `pkg/controller/job`. Differences, besides those of [`PodControl`]:
//!
//! - A Job that waits for its back-off keeps its number of active pods. Upstream 1.36 reports 0,
//!   which the API server refuses if pods are ready (kubernetes/kubernetes#139428).
//! - A failed removal of a finalizer from an orphan is retried (kubernetes/kubernetes#141346).
//! - The patch that removes the finalizer carries the UID of the pod.
//! - A pod that lost the finalizer for its deletion, and is wanted again, gets it back. Upstream counts no
//!   success of such a pod.
//! - Without the API of PodGroups, only Jobs of the shape of a gang wait. Upstream runs no Job then.
//!
//! Modules by question: `snapshot.rs` counts pods, `end_state/` decides whether the Job ends, and `manage/`
//! which pods it lacks. `tracking.rs` counts the ends. `pod_failure_policy/`, `success_policy/`, `per_index/`
//! and `backoff/` are the rules that these ask. `sync/` does the IO of Jobs, and `orphans/` that of pods
//! without a Job.
//!
//! The Job itself is never deleted here: the controller of `ttlSecondsAfterFinished` does that, and users do.

mod backoff;
mod conditions;
mod end_state;
pub(crate) mod explain;
mod finalizers;
mod gang;
mod gates;
mod handlers;
mod indexes;
mod invariants;
mod manage;
mod memory;
mod metrics;
mod orphans;
mod per_index;
mod pod_failure_policy;
mod pods;
mod snapshot;
mod success_policy;
mod sync;
mod template;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod tracking;
mod victims;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use steersman_objects::{JOB_TRACKING, Job, ObjectKey, Pod, PodGroup, Workload};
use steersman_options::features;
use steersman_runtime::controller::{Controller, ControllerContext, Descriptor, InitError};
use steersman_runtime::keyed::{Keyed, Runner};
use steersman_runtime::owner::ByController;
use steersman_runtime::pod_control::PodControl;
use steersman_runtime::rbac::Rule;
use steersman_runtime::reads::Read;
use steersman_runtime::tasks::CancellationToken;
use steersman_runtime::workers::run_workers;
use steersman_runtime::workqueue::WorkQueue;

pub use self::backoff::back_off_ends;
use self::gang::{Gangs, Rules};
use self::gates::JobGates;
use self::handlers::Handlers;
use self::memory::JobMemory;
use self::metrics::JobMetrics;
use self::orphans::{OrphanKey, OrphanSyncer};
use self::sync::{GangCaches, JobSyncer};

/// The Job controller.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: NAME,
    aliases: &["job"],
    enabled_by_default: true,
    summary: "Runs the pods of each Job until its work is done, and counts their ends",
    identity: NAME,
    reads: &[
        Read::of::<Job>(),
        Read::by_controller::<Pod>(),
        Read::of::<Workload>().with_gate(features::WORKLOAD_WITH_JOB),
        Read::of::<PodGroup>().with_gate(features::WORKLOAD_WITH_JOB),
    ],
    rules: RULES,
    init,
};

const NAME: &str = "job-controller";

const RULES: &[Rule] = &[
    // For live reads: before an adoption, and while the cache is older than this term.
    Rule::new(&["batch"], &["jobs"], &["get"]),
    Rule::new(&["batch"], &["jobs/status"], &["update"]),
    // The admission plugin OwnerReferencesPermissionEnforcement requires this right for owner
    // references with `blockOwnerDeletion`.
    Rule::new(&["batch"], &["jobs/finalizers"], &["update"]),
    Rule::new(&[""], &["pods"], &["create", "delete", "patch"]),
    // Workloads are read as well: a new leader asks for the one of a Job that its cache lacks.
    Rule::new(&["scheduling.k8s.io"], &["workloads"], &["get", "create"])
        .with_gate(features::WORKLOAD_WITH_JOB),
    Rule::new(&["scheduling.k8s.io"], &["podgroups"], &["create"])
        .with_gate(features::WORKLOAD_WITH_JOB),
    Rule::EVENTS,
];

/// The back-off of a key of both queues. Upstream: `DefaultJobApiBackOff` and `MaxJobApiBackOff`. It concerns
/// failed requests; `backoff/` has the other back-off, that after failed pods.
const FIRST_BACKOFF: Duration = Duration::from_secs(1);
/// Upstream: `MaxJobApiBackOff`.
const MAX_BACKOFF: Duration = Duration::from_secs(60);

fn init(ctx: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    let Parts {
        keyed,
        syncer,
        orphans,
        orphan_syncer,
    } = parts(ctx)?;
    Ok(Box::new(JobController {
        queue: keyed.queue(),
        runner: keyed.runner(syncer),
        orphans,
        orphan_syncer: Arc::new(orphan_syncer),
        workers: ctx.options.workers("concurrent-job-syncs"),
    }))
}

/// The parts of the controller. Tests run single syncs with them. A single sync needs no workers and no queue
/// of orphans.
struct Parts {
    keyed: Keyed<Job>,
    syncer: JobSyncer,
    orphans: WorkQueue<OrphanKey>,
    orphan_syncer: OrphanSyncer,
}

/// Builds the parts of the controller, and registers its handlers. Handlers come last, since they use each of
/// the other parts.
fn parts(ctx: &ControllerContext) -> Result<Parts, InitError> {
    let metrics = ctx
        .metrics(JobMetrics::register)
        .map_err(|source| InitError {
            controller: NAME,
            source: Box::new(source),
        })?;
    // Two queues, as upstream: a pod without a Job has no key of a Job.
    let orphans = queue(ctx, "job_orphan_pod");
    let queue = queue(ctx, "job");
    let mut keyed = Keyed::<Job>::over(ctx, NAME, queue.clone());
    let jobs = keyed.objects().clone();
    let pods = ctx.informers.shared::<Pod>();
    let client = ctx.client(NAME);
    client.counts_violations_of(invariants::NAMES);
    let recorder = ctx.recorder(NAME, client.clone());
    // The finalizer goes into the patch of an adoption, so an adopted pod is counted from its first moment.
    let control = PodControl::new(&mut keyed, &pods, client.clone(), recorder.clone())
        .with_finalizer(JOB_TRACKING);
    let memory = Arc::<JobMemory>::default();
    // Both records are dropped when the Job is gone, or when an etcd restore takes writes back.
    keyed.remembers(Arc::clone(&memory) as Arc<_>);
    let skips = metrics.stale_sync_skips.clone();
    keyed.on_stale_cache(move |behind| {
        let labels = [&*behind.group, &*behind.resource];
        skips.with_label_values(&labels).inc();
    });
    // Own writes of a status delay the next sync until this cache shows them.
    let cache = keyed.tracked(&jobs);
    let gates = JobGates::of(&ctx.features);
    let handlers = Handlers {
        gates,
        jobs: jobs.store(),
        queue: queue.clone(),
        orphans: orphans.clone(),
        control: control.clone(),
        memory: Arc::clone(&memory),
        metrics: metrics.clone(),
        clock: ctx.clock.clone(),
    };
    handlers.register(&jobs, &pods);
    let orphan_syncer = OrphanSyncer {
        gates,
        jobs: jobs.store(),
        pods: ByController::of(&pods.store()),
        jobs_cache: cache.clone(),
        client: client.clone(),
    };
    // With the gate, a suspended Job counts as not started, so that its scheduling directives are mutable.
    let gate = features::MUTABLE_SCHEDULING_DIRECTIVES_FOR_SUSPENDED_JOBS;
    let gangs = gang_caches(ctx, &mut keyed);
    let syncer = JobSyncer {
        gangs,
        gates,
        jobs: jobs.store(),
        control,
        recorder,
        client,
        queue,
        cache,
        memory,
        clock: ctx.clock.clone(),
        metrics,
        clears_start_time: ctx.features.is_on(gate),
    };
    Ok(Parts {
        keyed,
        syncer,
        orphans,
        orphan_syncer,
    })
}

/// The caches of Workloads and PodGroups, if the feature gate is on. `None` costs nothing: without the gate,
/// no watch of either type is started.
fn gang_caches(ctx: &ControllerContext, keyed: &mut Keyed<Job>) -> Option<GangCaches> {
    if !ctx.features.is_on(features::WORKLOAD_WITH_JOB) {
        return None;
    }
    let workloads = ctx.informers.shared::<Workload>();
    let groups = ctx.informers.shared::<PodGroup>();
    Some(GangCaches {
        gangs: Gangs::new(&workloads, &groups, Rules::of(ctx.release)),
        workloads_cache: keyed.tracked(&workloads),
        groups_cache: keyed.tracked(&groups),
    })
}

fn queue<K>(ctx: &ControllerContext, name: &str) -> WorkQueue<K>
where
    K: Clone + Eq + std::hash::Hash + Send + Sync + 'static,
{
    WorkQueue::with_backoff_of_keys(name, &ctx.queue_metrics, FIRST_BACKOFF, MAX_BACKOFF)
}

/// Both queues of the controller, each with `workers` workers. Upstream starts as many `orphanWorker`s as
/// `worker`s.
struct JobController {
    queue: WorkQueue<ObjectKey>,
    runner: Arc<Runner<JobSyncer>>,
    orphans: WorkQueue<OrphanKey>,
    orphan_syncer: Arc<OrphanSyncer>,
    workers: usize,
}

impl Controller for JobController {
    fn run(self: Box<Self>, stop: CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let Self {
            queue,
            runner,
            orphans,
            orphan_syncer,
            workers,
        } = *self;
        Box::pin(async move {
            let jobs = run_workers(NAME, queue, workers, runner, stop.clone());
            let orphans = run_workers(NAME, orphans, workers, orphan_syncer, stop);
            tokio::join!(jobs, orphans);
        })
    }
}
