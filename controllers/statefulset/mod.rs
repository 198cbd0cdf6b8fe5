//! Keeps the pods of each StatefulSet, with stable names and claims.
//!
//! events -> handlers -> queue of keys -> sync -> (revisions, slots, plan, status) -> writes
//!
//! Guarantees:
//!
//! - There are never two pods of one ordinal at once: the name of a pod is its ordinal.
//! - An ordered set has at most one creation or deletion of its own under way. It waits until the
//!   caches show its earlier writes, and those of the previous leader.
//! - A new leader compares its caches with the API server before its first write, which can be a
//!   status.
//! - Deletions carry the UID of the pod, so that a new pod of the same name survives.
//! - Claims are never deleted here. Their owner references let the garbage collector do that.
//!
//! Upstream: `pkg/controller/statefulset`. Differences, besides those of [`handlers`] and
//! [`writes`]:
//!
//! - If a cache lacks an own write, the sync waits for that cache. Upstream backs off. The cache of
//!   revisions counts too.
//! - `currentReplicas` never becomes negative.
//!
//! Modules: `slots.rs` puts the pods in order, `plan/` decides about each of them, `retention/` about the
//! owners of claims. `recreate.rs` tells the steps of an update without old pods beside new ones. `revisions.rs` chooses the revision, and `status.rs` counts. `sync.rs` runs these in
//! upstream's order, and `writes.rs` sends the requests.

mod batches;
mod claims;
mod error;
pub(crate) mod explain;
mod handlers;
mod identity;
mod invariants;
mod metrics;
mod new_leader;
mod plan;
mod pods;
mod recreate;
mod retention;
mod revisions;
mod slots;
mod status;
mod sync;
#[cfg(test)]
mod tests;
mod writes;

use std::sync::Arc;

use steersman_helpers::history::History;
use steersman_objects::{ControllerRevision, PersistentVolumeClaim, Pod, StatefulSet};
use steersman_runtime::controller::{Controller, ControllerContext, Descriptor, InitError};
use steersman_runtime::keyed::Keyed;
use steersman_runtime::owner::ByController;
use steersman_runtime::pod_control::FOREIGN_POD;
use steersman_runtime::rbac::Rule;
use steersman_runtime::reads::Read;

use self::metrics::StatefulSetMetrics;
use self::new_leader::CurrentCheck;
use self::revisions::KnownEqual;
use self::sync::StatefulSetController;
use self::writes::Writer;

/// The StatefulSet controller.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: NAME,
    aliases: &["statefulset"],
    enabled_by_default: true,
    summary: "Keeps the pods of each StatefulSet, with stable names and claims",
    identity: NAME,
    reads: &[
        Read::of::<StatefulSet>(),
        Read::by_controller::<Pod>(),
        Read::of::<PersistentVolumeClaim>(),
        Read::by_controller::<ControllerRevision>(),
    ],
    rules: RULES,
    init,
};

const NAME: &str = "statefulset-controller";

const RULES: &[Rule] = &[
    // For live reads: before an adoption, and while the cache is older than this term.
    Rule::new(&["apps"], &["statefulsets"], &["get"]),
    Rule::new(&["apps"], &["statefulsets/status"], &["update"]),
    // The admission plugin OwnerReferencesPermissionEnforcement requires these rights for owner
    // references with `blockOwnerDeletion`. Claims can belong to pods.
    Rule::new(&["apps"], &["statefulsets/finalizers"], &["update"]),
    Rule::new(&[""], &["pods/finalizers"], &["update"]),
    Rule::new(
        &[""],
        // A repaired pod is read before its PUT, since the cache has only a part of it.
        &["pods"],
        &["create", "delete", "get", "patch", "update"],
    ),
    Rule::new(
        &[""],
        // No deletion: owner references let the garbage collector do it.
        &["persistentvolumeclaims"],
        &["create", "get", "update"],
    ),
    Rule::new(
        &["apps"],
        // A rollback renumbers a revision by an update, and surplus ones are deleted.
        &["controllerrevisions"],
        &["create", "delete", "get", "patch", "update"],
    ),
    Rule::EVENTS,
];

fn init(ctx: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    let metrics = ctx
        .metrics(StatefulSetMetrics::register)
        .map_err(|source| InitError {
            controller: NAME,
            source: Box::new(source),
        })?;
    let mut keyed = Keyed::<StatefulSet>::new(ctx, NAME, "statefulset");
    let sets = keyed.objects().clone();
    let pods = ctx.informers.shared::<Pod>();
    let claims = ctx.informers.shared::<PersistentVolumeClaim>();
    let revisions = ctx.informers.shared::<ControllerRevision>();
    let client = ctx.client(NAME);
    client.counts_violations_of(&[invariants::WANTED, FOREIGN_POD]);
    handlers::register(&sets, &pods, &claims, &keyed.queue());
    let skips = metrics.stale_sync_skips.clone();
    keyed.on_stale_cache(move |behind| {
        let labels = [&*behind.group, &*behind.resource];
        skips.with_label_values(&labels).inc();
    });
    // Comparisons by meaning are expensive, and their answers outlive a sync.
    let known_equal = Arc::<KnownEqual>::default();
    keyed.remembers(Arc::clone(&known_equal) as Arc<_>);
    let sets_cache = keyed.tracked(&sets);
    let pods_cache = keyed.tracked(&pods);
    let claims_cache = keyed.tracked(&claims);
    let revisions_cache = keyed.tracked(&revisions);
    let syncer = StatefulSetController {
        sets: sets.store(),
        pods: ByController::of(&pods.store()),
        history: History::new(ByController::of(&revisions.store()), client.clone()),
        known_equal,
        revisions_cache: revisions_cache.clone(),
        writer: Writer {
            client: client.clone(),
            recorder: ctx.recorder(NAME, client.clone()),
            pods: pods.store(),
            claims: claims.store(),
            pods_cache: pods_cache.clone(),
            claims_cache: claims_cache.clone(),
            has_capitals: ctx.release.capitalizes_events_of_stateful_sets(),
        },
        current: CurrentCheck {
            client: client.clone(),
            queue: keyed.queue(),
            sets_cache: sets_cache.clone(),
            pods_cache,
            claims_cache,
            revisions_cache,
        },
        sets_cache,
        client,
        clock: ctx.clock.clone(),
        metrics,
        features: ctx.features.clone(),
        release: ctx.release,
    };
    let workers = ctx.options.workers("concurrent-statefulset-syncs");
    Ok(keyed.boxed(workers, syncer))
}
