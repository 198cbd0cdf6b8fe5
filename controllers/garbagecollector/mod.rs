//! Deletes what nobody owns any more, and deletes or orphans dependents before their owner goes.
//!
//! discovery -> monitors -> handlers -> graph -> queues -> sync (live reads -> decision -> writes)
//!
//! What users may rely on: an object is deleted only after the API server itself has said, for each
//! of its owner references, that the owner with that UID does not exist or waits for its
//! dependents, and only if it still is the object that was looked at. An answer that says nothing
//! about the owner (its type is not served, its group does not answer) leaves the object alone.
//!
//! Upstream: `pkg/controller/garbagecollector`. Differences: changes reach the graph the moment
//! they are told, so that no owner's dependents are overlooked at a start; a 404 that is not about
//! the object proves nothing; virtual nodes go with the last reference to them; a type that comes
//! back is compared with what was known of it; finalizers are taken only from the UID they were put
//! on; and a new leader looks for dependents that its caches may lack before it lets an owner go
//! ([`unseen`]).

mod absent;
mod attempt_to_delete;
mod coordinates;
mod dependents;
mod dump;
mod error;
mod foreground;
mod graph;
#[cfg(test)]
mod graph_tests;
mod handlers;
mod kinds;
mod live;
mod metrics;
mod monitors;
mod sync;
#[cfg(test)]
mod tests;
mod unseen;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use steersman_runtime::controller::{
    Controller, ControllerContext, DebugAnswer, DebugPage, Descriptor, InitError,
};
use steersman_runtime::rbac::Rule;
use steersman_runtime::tasks::CancellationToken;
use steersman_runtime::workers::run_workers;
use steersman_runtime::workqueue::WorkQueue;

use self::monitors::Monitors;
use self::sync::{Collector, Deleting, Orphaning};
use self::unseen::Watched;

/// The garbage collector.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: NAME,
    aliases: &["garbagecollector"],
    enabled_by_default: true,
    summary: "Deletes objects whose owners are gone, and handles foreground and orphaning deletion",
    identity: IDENTITY,
    // Monitors ask for every type that the API server names.
    reads: &[],
    rules: RULES,
    init,
};

const NAME: &str = "garbage-collector-controller";

const RULES: &[Rule] = &[
    Rule::new(&["*"], &["*"], &["delete", "get", "list", "patch", "watch"]),
    Rule::EVENTS,
];

/// Client and, in upstream's audit logs, service account.
const IDENTITY: &str = "generic-garbage-collector";

/// Requests that discovery may send at once, as a multiple of the usual.
const DISCOVERY_BURST: u32 = 7;

fn init(ctx: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    if !ctx.options.bool("enable-garbage-collector") {
        return Ok(Box::new(Disabled));
    }
    let errors = ctx
        .metrics(metrics::sync_errors)
        .map_err(|source| InitError {
            controller: NAME,
            source: Box::new(source),
        })?;
    let collector = Arc::new(collector(ctx));
    let shown = Arc::downgrade(&collector);
    let page: DebugPage = Arc::new(move |query| {
        let picture = shown
            .upgrade()
            .map(|collector| dump::Picture::of(&collector.graph(), &dump::asked_for(query)));
        DebugAnswer {
            content_type: "text/vnd.graphviz",
            body: picture
                .map(|picture| picture.to_string())
                .unwrap_or_default(),
        }
    });
    ctx.debug.add(format!("{NAME}/graph"), page);
    let discovery = ctx.client(IDENTITY).rethrottled(1.0, DISCOVERY_BURST);
    let monitors = Monitors::new(
        ctx.informers.clone(),
        discovery,
        Arc::clone(&collector),
        errors,
    );
    Ok(Box::new(GarbageCollector {
        collector,
        monitors,
        workers: ctx.options.workers("concurrent-gc-syncs"),
    }))
}

/// A collector that knows of nothing yet.
fn collector(ctx: &ControllerContext) -> Collector {
    let base = ctx.client(IDENTITY);
    let client = base.rethrottled(2.0, 1);
    Collector {
        graph: Default::default(),
        kinds: Default::default(),
        to_delete: WorkQueue::new("garbage_collector_attempt_to_delete", &ctx.queue_metrics),
        to_orphan: WorkQueue::new("garbage_collector_attempt_to_orphan", &ctx.queue_metrics),
        changes: ctx
            .queue_metrics
            .immediate("garbage_collector_graph_changes"),
        metadata: client.metadata_only(),
        client,
        recorder: ctx.recorder(NAME, base),
        watched: Watched::new(ctx.term_start_rv),
    }
}

struct GarbageCollector {
    collector: Arc<Collector>,
    monitors: Monitors,
    workers: usize,
}

impl Controller for GarbageCollector {
    fn run(self: Box<Self>, stop: CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let Self {
            collector,
            mut monitors,
            workers,
        } = *self;
        Box::pin(async move {
            // One broken type must not stop collection: whatever is not synced within the limit is
            // left behind.
            monitors.sync(&stop).await;
            let (to_delete, to_orphan) = (collector.to_delete.clone(), collector.to_orphan.clone());
            tokio::join!(
                run_workers(
                    NAME,
                    to_delete,
                    workers,
                    Arc::new(Deleting(Arc::clone(&collector))),
                    stop.clone()
                ),
                run_workers(
                    NAME,
                    to_orphan,
                    workers,
                    Arc::new(Orphaning(collector)),
                    stop.clone()
                ),
                monitors.follow(stop),
            );
        })
    }
}

/// In the place of a collector that `--enable-garbage-collector=false` switches off.
struct Disabled;

impl Controller for Disabled {
    fn run(self: Box<Self>, stop: CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move { stop.cancelled().await })
    }

    fn is_switched_off(&self) -> bool {
        true
    }
}
