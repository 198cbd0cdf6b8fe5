//! Deletes objects without existing owners. For foreground and orphaning deletion, deletes or
//! orphans dependents before their owner is removed.
//!
//! discovery -> monitors -> handlers -> graph -> queues -> sync (live reads -> decision -> writes)
//!
//! Guarantees:
//!
//! - An object is deleted only after live reads of all its owners. Each owner with the UID of the
//!   reference must be absent, or must wait for its dependents.
//! - The deletion carries the UID that was read, so that a new object of the same name survives.
//! - If a live read gives no answer about an owner, the object stays. Examples are a type that is
//!   not served, and an aggregated API server that is down.
//!
//! Upstream: `pkg/controller/garbagecollector`. Differences:
//!
//! - Handlers update the graph directly, so that it is complete when informers are synced.
//! - Only a 404 about the object itself proves its absence, not a 404 about its type.
//! - A virtual node is removed with the last reference to it.
//! - If a resource is served again, its new list is compared with the former objects.
//! - The removal of a finalizer checks the UID of the object.
//! - A new leader lists dependents that its caches may lack, before it removes the finalizer of an
//!   owner ([`unseen`]).

mod absent;
mod attempt_to_delete;
mod coordinates;
mod dependents;
mod dump;
mod error;
pub(crate) mod explain;
mod family;
mod foreground;
mod graph;
#[cfg(test)]
mod graph_tests;
mod handlers;
mod invariants;
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

use steersman_objects::Uid;
use steersman_runtime::controller::{
    Controller, ControllerContext, DebugAnswer, DebugPage, Descriptor, InitError,
};
use steersman_runtime::rbac::Rule;
use steersman_runtime::tasks::CancellationToken;
use steersman_runtime::workers::run_workers;
use steersman_runtime::workqueue::WorkQueue;
use steersman_why::Dependent;

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
    // Monitors follow every deletable type of discovery, so there is no fixed list.
    reads: &[],
    rules: RULES,
    init,
};

const NAME: &str = "garbage-collector-controller";

const RULES: &[Rule] = &[
    Rule::new(&["*"], &["*"], &["delete", "get", "list", "patch", "watch"]),
    Rule::EVENTS,
];

/// Name of its client and, in upstream's audit logs, of its service account.
const IDENTITY: &str = "generic-garbage-collector";

/// Burst of the discovery client, as a multiple of the configured burst. Discovery sends one
/// request per group at once. Upstream's discovery clients have a burst of 200, for the same
/// reason.
const DISCOVERY_BURST: u32 = 7;

fn init(ctx: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    if !ctx.options.bool("enable-garbage-collector") {
        // The controller is known but off, so `--controllers` still accepts its name.
        return Ok(Box::new(Disabled));
    }
    let errors = ctx
        .metrics(metrics::sync_errors)
        .map_err(|source| InitError {
            controller: NAME,
            source: Box::new(source),
        })?;
    let collector = Arc::new(collector(ctx));
    // The pages may outlive the collector, and must not keep its graph.
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
    let asked = Arc::downgrade(&collector);
    ctx.debug.set_dependents(Arc::new(move |uid| {
        let collector = asked.upgrade();
        let blockers = collector.map(|collector| collector.graph().blockers(&Uid::new(uid)));
        let blockers = blockers.unwrap_or_default().into_iter();
        let dependents = blockers.map(|found| Dependent {
            api_version: found.api_version.to_string(),
            kind: found.kind.to_string(),
            namespace: found.namespace.to_string(),
            name: found.name.to_string(),
        });
        dependents.collect()
    }));
    let asked = Arc::downgrade(&collector);
    ctx.debug.set_family(Arc::new(move |uid, limit| {
        let collector = asked.upgrade();
        let found = collector.map(|collector| family::of(&collector.graph(), uid, limit));
        found.unwrap_or_default()
    }));
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

/// A collector with an empty graph.
fn collector(ctx: &ControllerContext) -> Collector {
    let base = ctx.client(IDENTITY);
    // Upstream doubles the QPS of this client too: each object costs a read and a write.
    let client = base.rethrottled(2.0, 1);
    client.counts_violations_of(&[invariants::LIVING_OWNER]);
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
            // The first sync has a time limit, since one broken type must not stop collection of
            // all others.
            monitors.sync(&stop).await;
            let to_delete = collector.to_delete.clone();
            let to_orphan = collector.to_orphan.clone();
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
                // Types come and go while the workers run.
                monitors.follow(stop),
            );
        })
    }
}

/// Replaces the collector under `--enable-garbage-collector=false`. The list of running controllers
/// and the health checks lack it.
struct Disabled;

impl Controller for Disabled {
    fn run(self: Box<Self>, stop: CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move { stop.cancelled().await })
    }

    fn is_switched_off(&self) -> bool {
        true
    }
}
