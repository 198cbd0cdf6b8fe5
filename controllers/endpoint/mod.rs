//! Keeps the Endpoints object of each Service with a selector: the addresses and ports of its pods.
//!
//! Service, pod and Endpoints events -> [`handlers`] -> queue of Services -> sync -> [`subsets`] ->
//! [`capacity`] -> POST or PUT
//!
//! An address is in `addresses` while its pod is ready, else in `notReadyAddresses`. At the start,
//! every Endpoints object is enqueued, and objects without a Service are deleted.
//!
//! Upstream: `pkg/controller/endpoint`. Differences:
//!
//! - A sync waits until the cache shows the last write. Upstream compares resource versions of
//!   updates, and repeats creations.
//! - Before the deletion of an Endpoints object, a live read confirms that its Service is gone. The
//!   deletion carries the UID. An object that the cache lacks causes no request.
//! - While the caches of a new leader are older than its term, it compares them with the API server
//!   before a write, and looks for Endpoints of deleted Services there.
//! - An Endpoints object of this controller that comes into the cache after its Service is gone is
//!   deleted. Upstream deletes it at the next start.
//! - A pod that finishes without having been ready counts as a change, too.

mod capacity;
mod handlers;
mod subsets;
mod sync;
#[cfg(test)]
mod tests;
mod write;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use steersman_helpers::endpointslice::{PodsByLabel, PortOrder, TriggerTimes};
use steersman_objects::{Endpoints, Object, ObjectKey, Pod, Service};
use steersman_runtime::consistency::Memory;
use steersman_runtime::controller::{Controller, ControllerContext, Descriptor, InitError};
use steersman_runtime::informer::Store;
use steersman_runtime::keyed::{Keyed, Runner};
use steersman_runtime::rbac::Rule;
use steersman_runtime::reads::Read;
use steersman_runtime::tasks::CancellationToken;
use steersman_runtime::workers::run_workers;
use steersman_runtime::workqueue::WorkQueue;

use self::sync::EndpointsSyncer;

/// The Endpoints controller.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: NAME,
    aliases: &["endpoint"],
    enabled_by_default: true,
    summary: "Keeps the addresses of the pods of each Service in its Endpoints object",
    identity: COMPONENT,
    reads: &[
        Read::of::<Service>(),
        Read::of::<Pod>(),
        Read::of::<Endpoints>(),
    ],
    rules: RULES,
    init,
};

/// Name in `--controllers`, in logs and metrics.
const NAME: &str = "endpoints-controller";

/// Name of the client, and source of its Events. Also the value of the label that marks its
/// objects.
const COMPONENT: &str = "endpoint-controller";

const RULES: &[Rule] = &[
    Rule::new(&[""], &["services"], &["get"]),
    Rule::new(
        &[""],
        &["endpoints"],
        &["get", "create", "update", "delete"],
    ),
    // OpenShift refuses addresses in the ranges of pods and Services without it.
    Rule::new(&[""], &["endpoints/restricted"], &["create"]),
    Rule::EVENTS,
];

/// Annotation of an Endpoints object that old releases used as a lock for leader election. Without
/// this exception, the start of a manager would delete the locks of others.
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";

fn init(ctx: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    let client = ctx.client(COMPONENT);
    let mut keyed = Keyed::<Service>::new(ctx, NAME, "endpoint");
    let endpoints = ctx.informers.shared::<Endpoints>();
    let pods = ctx.informers.shared::<Pod>();
    let queue = keyed.queue();
    let batch_period = ctx.options.time("endpoint-updates-batch-period");
    handlers::register(&ctx.informers, &queue, batch_period);
    let triggers: Arc<TriggerTimes> = Arc::default();
    let services = keyed.objects().clone();
    keyed.remembers(Arc::clone(&triggers) as Arc<dyn Memory>);
    let syncer = EndpointsSyncer {
        pods: PodsByLabel::of(&pods.store()),
        endpoints: endpoints.store(),
        services_cache: keyed.tracked(&services),
        pods_cache: keyed.tracked(&pods),
        cache: keyed.tracked(&endpoints),
        queue: queue.clone(),
        triggers,
        order: PortOrder::of(ctx.release),
        recorder: ctx.recorder(COMPONENT, client.clone()),
        client,
    };
    Ok(Box::new(EndpointsController {
        runner: keyed.runner(syncer),
        workers: ctx.options.workers("concurrent-endpoint-syncs"),
        endpoints: endpoints.store(),
        queue,
    }))
}

struct EndpointsController {
    runner: Arc<Runner<EndpointsSyncer>>,
    workers: usize,
    endpoints: Store<Endpoints>,
    queue: WorkQueue<ObjectKey>,
}

impl Controller for EndpointsController {
    fn run(self: Box<Self>, stop: CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            // Before the workers start, and after the caches are filled.
            self.enqueue_leftovers();
            run_workers(NAME, self.queue, self.workers, self.runner, stop).await;
        })
    }
}

impl EndpointsController {
    /// Enqueues every Endpoints object, because its Service may have been deleted while no manager
    /// ran. Locks have no Service and stay. Upstream: `checkLeftoverEndpoints`.
    fn enqueue_leftovers(&self) {
        let all = self.endpoints.list();
        let others = all
            .iter()
            .filter(|one| one.annotations.get(LEADER).is_none());
        others.for_each(|one| self.queue.add(one.key()));
    }
}
