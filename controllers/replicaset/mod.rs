//! Keeps as many pods running as each ReplicaSet asks for.
//!
//! events -> handlers -> queue of keys -> sync -> (claim, scale, ranking, status) -> writes
//!
//! Guarantees, both kept by [`PodControl`]:
//!
//! - A sync creates and deletes pods only after the cache shows all earlier writes for the same
//!   ReplicaSet.
//! - Deletions and adoptions carry the UID of the pod, so that a new pod of the same name survives.
//!
//! The controller is generic over [`PodOwner`], because ReplicationControllers need the same code.
//!
//! Upstream: `pkg/controller/replicaset`. Differences, besides those of [`PodControl`]:
//!
//! - If a cache lacks an own write, the sync waits for that cache. Upstream backs off.
//! - Expired expectations enqueue their owner. Upstream waits for the next event.

pub(crate) mod explain;
mod handlers;
mod invariants;
mod metrics;
mod owner;
mod ranking;
mod related;
mod scale;
mod status;
mod sync;
#[cfg(test)]
mod tests;

use steersman_objects::{Pod, ReplicaSet};
use steersman_runtime::controller::{Controller, ControllerContext, Descriptor, InitError};
use steersman_runtime::keyed::Keyed;
use steersman_runtime::owner::ByController;
use steersman_runtime::pod_control::PodControl;
use steersman_runtime::rbac::Rule;
use steersman_runtime::reads::Read;

use self::metrics::ReplicaSetMetrics;
pub(crate) use self::owner::PodOwner;
use self::related::SelectedPods;
use self::sync::ReplicaController;

/// The ReplicaSet controller.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: NAME,
    aliases: &["replicaset"],
    enabled_by_default: true,
    summary: "Keeps as many pods running as each ReplicaSet asks for",
    identity: NAME,
    reads: &[
        Read::by_controller::<ReplicaSet>(),
        Read::by_controller::<Pod>(),
    ],
    rules: RULES,
    init,
};

const NAME: &str = "replicaset-controller";

const RULES: &[Rule] = &[
    Rule::new(&["apps"], &["replicasets"], &["get"]),
    Rule::new(&["apps"], &["replicasets/status"], &["update"]),
    // The admission plugin OwnerReferencesPermissionEnforcement requires this right for owner
    // references with `blockOwnerDeletion`.
    Rule::new(&["apps"], &["replicasets/finalizers"], &["update"]),
    Rule::new(&[""], &["pods"], &["create", "delete", "patch"]),
    Rule::EVENTS,
];

/// The visible names of a controller that runs this code.
pub(crate) struct Names {
    /// Canonical name of the controller.
    pub(crate) controller: &'static str,
    /// Name of its client, and source of its Events.
    pub(crate) component: &'static str,
    /// Name of its queue in metrics.
    pub(crate) queue: &'static str,
}

fn init(ctx: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    let names = Names {
        controller: NAME,
        component: NAME,
        queue: "replicaset",
    };
    build::<ReplicaSet>(
        ctx,
        &names,
        ctx.options.workers("concurrent-replicaset-syncs"),
    )
}

/// Builds the controller of kind `O` with `workers` workers, and registers its handlers.
pub(crate) fn build<O: PodOwner>(
    ctx: &ControllerContext,
    names: &Names,
    workers: usize,
) -> Result<Box<dyn Controller>, InitError> {
    let (keyed, syncer) = assemble::<O>(ctx, names)?;
    Ok(keyed.boxed(workers, syncer))
}

/// The parts of the controller of kind `O`.
fn assemble<O: PodOwner>(
    ctx: &ControllerContext,
    names: &Names,
) -> Result<(Keyed<O>, ReplicaController<O>), InitError> {
    let Names {
        controller,
        component,
        queue,
    } = *names;
    let metrics = ctx
        .metrics(ReplicaSetMetrics::register)
        .map_err(|source| InitError {
            controller,
            source: Box::new(source),
        })?;
    let mut keyed = Keyed::<O>::new(ctx, controller, queue);
    let owners = keyed.objects().clone();
    let pods = ctx.informers.shared::<Pod>();
    let client = ctx.client(component);
    client.counts_violations_of(invariants::NAMES);
    let recorder = ctx.recorder(component, client.clone());
    let control = PodControl::new(&mut keyed, &pods, client.clone(), recorder);
    let queue = keyed.queue();
    handlers::register(&owners, &pods, &queue, &control);
    if O::COUNTS_STALE_SYNCS {
        let skips = metrics.stale_sync_skips.clone();
        keyed.on_stale_cache(move |behind| {
            let labels = [&*behind.group, &*behind.resource];
            skips.with_label_values(&labels).inc();
        });
    }
    let syncer = ReplicaController {
        siblings: ByController::of(&owners.store()),
        cache: keyed.tracked(&owners),
        owners: owners.store(),
        selected: SelectedPods::of(&pods.store()),
        control,
        client,
        clock: ctx.clock.clone(),
        metrics,
        features: ctx.features.clone(),
    };
    Ok((keyed, syncer))
}
