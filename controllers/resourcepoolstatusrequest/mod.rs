//! Answers questions about pools of devices (ResourcePoolStatusRequests), each once, and deletes old
//! ones.
//!
//! events of requests -> queue -> slices, claims and DeviceTaintRules in the caches -> [`pools`], [`views`] -> PUT of
//! the status; every ten minutes: DELETE of requests whose time is over
//!
//! The controller runs only with the feature gate `DRAResourcePoolStatus`, which is off by default.
//! Upstream: `pkg/controller/resourcepoolstatusrequest`. Differences:
//!
//! - A sync waits until the cache shows its last write.
//! - Deletions carry the resource version of the request, beside its UID.
//!
//! Users create a request, read its status, and forget it. So an answer is written once, and changes of
//! slices or claims queue nothing.

mod metrics;
mod pools;
mod sync;
#[cfg(test)]
mod tests;
mod views;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use steersman_helpers::cleaner::Cleaner;
use steersman_objects::{
    DeviceTaintRule, Object, ObjectKey, PoolSlice, ResourceClaim, ResourcePoolStatusRequest,
};
use steersman_options::features;
use steersman_runtime::controller::{Controller, ControllerContext, Descriptor, InitError};
use steersman_runtime::informer::{Change, SharedInformer};
use steersman_runtime::keyed::{Keyed, Runner};
use steersman_runtime::rbac::Rule;
use steersman_runtime::reads::Read;
use steersman_runtime::tasks::CancellationToken;
use steersman_runtime::workers::run_workers;
use steersman_runtime::workqueue::WorkQueue;
use steersman_values::clock::saturating_since;

use self::metrics::RequestMetrics;
use self::sync::PoolReporter;

/// The ResourcePoolStatusRequest controller.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: NAME,
    aliases: &[],
    enabled_by_default: true,
    summary: "Answers ResourcePoolStatusRequests, with the feature gate DRAResourcePoolStatus",
    identity: NAME,
    reads: &[
        Read::of::<ResourcePoolStatusRequest>(),
        Read::of::<PoolSlice>(),
        Read::of::<ResourceClaim>(),
        // Since 1.37.
        Read::of::<DeviceTaintRule>().with_gate(features::DRA_DEVICE_TAINT_RULES),
    ],
    rules: &[
        Rule::new(&[GROUP], &["resourcepoolstatusrequests"], &["delete"]),
        Rule::new(
            &[GROUP],
            &["resourcepoolstatusrequests/status"],
            &["update"],
        ),
    ],
    init,
};

const NAME: &str = "resourcepoolstatusrequest-controller";

/// API group of the requests.
const GROUP: &str = "resource.k8s.io";

/// Number of workers.
///
/// Upstream starts one too.
const WORKERS: usize = 1;

/// Pause between two passes over old requests. Upstream: `cleanupPollingInterval`.
const PAUSE: Duration = Duration::from_secs(10 * 60);

/// Time for which an answer stays. Upstream: `completedRequestTTL`.
const ANSWERED: Duration = Duration::from_secs(3600);

/// Time for which a request without an answer stays. Upstream: `pendingRequestTTL`.
///
/// A pool that stays incomplete leaves its requests without an answer, so they need an end of their
/// own.
const PENDING: Duration = Duration::from_secs(24 * 3600);

fn init(ctx: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    let metrics = RequestMetrics::register(&ctx.registry);
    let metrics = metrics.map_err(|source| InitError {
        controller: NAME,
        source: Box::new(source),
    })?;
    let mut keyed = Keyed::<ResourcePoolStatusRequest>::new(ctx, NAME, NAME);
    let queue = keyed.queue();
    let requests = keyed.objects().clone();
    let pending = queue.clone();
    // Upstream: `enqueueRequest`. An answered request never comes back, so retries of a dropped one
    // need a change of that request by its user.
    requests.add_handler(move |change| {
        let is_there = !matches!(change, Change::Deleted { .. });
        let request = change.object();
        if is_there && request.status.is_none() {
            pending.add(request.key());
        }
    });
    let slices = ctx.informers.shared::<PoolSlice>();
    let claims = ctx.informers.shared::<ResourceClaim>();
    let counts_devices = ctx.release.counts_devices_of_pools_once();
    let has_rules = counts_devices && ctx.features.is_on(features::DRA_DEVICE_TAINT_RULES);
    let rules = has_rules.then(|| ctx.informers.shared::<DeviceTaintRule>());
    let reporter = PoolReporter {
        client: ctx.client(NAME),
        slices: slices.store(),
        claims: claims.store(),
        counts_devices,
        rules: rules.as_ref().map(SharedInformer::store),
        cache: keyed.tracked(&requests),
        clock: ctx.clock.clone(),
        metrics,
    };
    Ok(Box::new(PoolStatusController {
        cleaner: Cleaner::new(ctx, NAME, PAUSE, due),
        runner: keyed.runner(reporter),
        queue,
        requests,
        slices,
        claims,
        rules,
    }))
}

/// The reason to delete `request` at `now`. Upstream: `shouldDeleteRequest`.
///
/// The end of an answer is the transition time of `Complete` or `Failed`; upstream writes both. An
/// answer without these conditions, by another client, counts from its creation. A request without
/// creation time stays.
fn due(request: &ResourcePoolStatusRequest, now: Timestamp) -> Option<&'static str> {
    let created = request.meta.created.map(Timestamp::from);
    let (since, limit) = match &request.status {
        None => (created, PENDING),
        Some(status) => {
            let mut conditions = status.conditions.iter();
            let end = conditions.find(|one| matches!(&*one.kind, "Complete" | "Failed"));
            (
                end.map_or(created, |end| end.last_transition_time.0),
                ANSWERED,
            )
        }
    };
    let is_over = since.is_some_and(|since| saturating_since(now, since) > limit);
    is_over.then_some("expired")
}

/// The queue with its worker, and the cleaner.
struct PoolStatusController {
    cleaner: Cleaner<ResourcePoolStatusRequest>,
    runner: Arc<Runner<PoolReporter>>,
    queue: WorkQueue<ObjectKey>,
    requests: SharedInformer<ResourcePoolStatusRequest>,
    slices: SharedInformer<PoolSlice>,
    claims: SharedInformer<ResourceClaim>,
    rules: Option<SharedInformer<DeviceTaintRule>>,
}

impl Controller for PoolStatusController {
    fn run(self: Box<Self>, stop: CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            // An API server may lack these types. Then this controller alone waits.
            // An answer from an incomplete cache would miss pools, and it is never corrected.
            let synced = async {
                self.requests.wait_synced().await;
                self.slices.wait_synced().await;
                self.claims.wait_synced().await;
                if let Some(rules) = &self.rules {
                    rules.wait_synced().await;
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = synced => {}
            }
            let workers = run_workers(NAME, self.queue, WORKERS, self.runner, stop.clone());
            tokio::join!(workers, self.cleaner.clean(&stop));
        })
    }
}
