//! Removes terminating namespaces: deletes all their objects, pods first, and then removes the
//! finalizer `kubernetes` of the namespace.
//!
//! events -> handlers -> queue of names (5 s later) -> sync -> (discovery, removal, content,
//! conditions) -> finalize
//!
//! Guarantees:
//!
//! - A namespace is finalized only in a pass that found it empty, for all types of discovery.
//! - A type that could not be listed, or a group without discovery, blocks the namespace. Its
//!   conditions report the failure.
//!
//! Upstream: `pkg/controller/namespace`. Differences, all invisible to clients:
//!
//! - Lists come in pages.
//! - Each pass discovers the verbs of types again.
//! - The finalize call carries the version of our own status update. Upstream's first call always
//!   fails with a conflict.

mod conditions;
mod content;
mod discovery;
pub(crate) mod explain;
mod handlers;
mod removal;
mod sync;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use steersman_client::discovery::discover;
use steersman_client::{ApiClient, Category};
use steersman_objects::{Namespace, ObjectKey};
use steersman_options::features;
use steersman_runtime::controller::{Controller, ControllerContext, Descriptor, InitError};
use steersman_runtime::informer::Store;
use steersman_runtime::keyed::{Keyed, Runner};
use steersman_runtime::rbac::Rule;
use steersman_runtime::reads::Read;
use steersman_runtime::tasks::CancellationToken;
use steersman_runtime::workers::run_workers;
use steersman_runtime::workqueue::WorkQueue;

use self::discovery::Types;
pub use self::removal::CONTENT_REMAINS;
use self::sync::Terminator;

/// The namespace controller.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: NAME,
    aliases: &["namespace"],
    enabled_by_default: true,
    summary: "Deletes everything in a namespace that is being deleted, then the namespace",
    identity: NAME,
    reads: &[Read::of::<Namespace>()],
    rules: RULES,
    init,
};

const NAME: &str = "namespace-controller";

const RULES: &[Rule] = &[
    Rule::new(&[""], &["namespaces"], &["get"]),
    Rule::new(
        &[""],
        &["namespaces/finalize", "namespaces/status"],
        &["update"],
    ),
    Rule::new(&["*"], &["*"], &["delete", "deletecollection", "list"]),
];

/// The maximum back-off of one namespace, as upstream. Objects may go at any time, and no event
/// tells it. Upstream: `nsControllerRateLimiter`.
const MAX_BACKOFF: Duration = Duration::from_secs(60);

/// Limits of its client, as multiples of the configured ones, as upstream. A pass sends two or more
/// requests per type. A namespace with hundreds of types would take minutes otherwise.
const QPS_FACTOR: f32 = 20.0;
const BURST_FACTOR: u32 = 100;

fn init(ctx: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    let queue = WorkQueue::with_max_backoff("namespace", &ctx.queue_metrics, MAX_BACKOFF);
    let keyed = Keyed::<Namespace>::over(ctx, NAME, queue.clone());
    let namespaces = keyed.objects().store();
    handlers::register(keyed.objects(), &queue);
    let client = ctx.client(NAME).rethrottled(QPS_FACTOR, BURST_FACTOR);
    let terminator = Terminator {
        // Names and finalizers suffice, and objects may be large.
        metadata: client.rethrottled(1.0, 1).metadata_only(),
        client: client.clone(),
        clock: ctx.clock.clone(),
        pods_first: ctx.features.is_on(features::ORDERED_NAMESPACE_DELETION),
    };
    let workers = ctx.options.workers("concurrent-namespace-syncs");
    let resync = ctx.options.time("namespace-sync-period");
    Ok(Box::new(NamespaceController {
        runner: keyed.runner(terminator),
        client,
        namespaces,
        queue,
        workers,
        resync,
    }))
}

struct NamespaceController {
    runner: Arc<Runner<Terminator>>,
    client: ApiClient,
    namespaces: Store<Namespace>,
    queue: WorkQueue<ObjectKey>,
    workers: usize,
    /// Period of [`handlers::resync`]. Zero disables it.
    resync: Duration,
}

impl Controller for NamespaceController {
    fn run(self: Box<Self>, stop: CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            let serves_anything = tokio::select! {
                () = stop.cancelled() => return,
                serves_anything = self.check() => serves_anything,
            };
            if !serves_anything {
                // The manager exits if a controller returns by itself. Upstream exits here too.
                tracing::error!("unable to get any supported resources from server");
                return;
            }
            let resync = handlers::resync(self.namespaces, self.queue.clone(), self.resync);
            let work = run_workers(NAME, self.queue, self.workers, self.runner, stop);
            tokio::select! {
                () = work => {}
                () = resync => {}
            }
        })
    }
}

impl NamespaceController {
    /// True if the API server serves a deletable type. Without any type, each pass would find its
    /// namespace empty and finalize it. Upstream: `initOpCache`, which ends the process then.
    async fn check(&self) -> bool {
        let types = Types::new(discover(&self.client).await);
        if let Some(failure) = &types.failure {
            tracing::error!(
                category = Category::of(failure).as_str(),
                error = failure.to_string(),
                "not everything that is served could be discovered"
            );
        }
        !types.is_empty()
    }
}
