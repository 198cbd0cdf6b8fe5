//! Keeps as many pods running as each ReplicaSet asks for.
//!
//! events -> handlers -> queue of keys -> sync -> (claim, scale, ranking, status) -> writes
//!
//! What users may rely on: no pod is created or deleted on the strength of a cache that lacks an
//! earlier write of this process for the same ReplicaSet ([`guard`]); pods are deleted and adopted
//! by UID, so a namesake is never hit.
//!
//! The same machinery keeps the pods of every kind that is a [`PodOwner`].
//!
//! Upstream: `pkg/controller/replicaset`. Differences: deletions carry the pod's UID as
//! precondition; a sync that finds a cache behind its own writes waits for that cache instead of
//! backing off; expectations that expire unmet wake their owner; these, and writes that got no
//! answer, are followed by a live list of the pods before anything is created or deleted.

mod guard;
mod handlers;
mod metrics;
mod owner;
mod pods;
mod ranking;
mod scale;
mod status;
mod sync;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use steersman_runtime::controller::{Controller, ControllerContext, Descriptor, InitError};
use steersman_runtime::object::{Pod, ReplicaSet};
use steersman_runtime::rbac::Rule;
use steersman_runtime::reads::Read;
use steersman_runtime::workers::Keyed;
use steersman_runtime::workqueue::WorkQueue;

use self::guard::Guard;
use self::metrics::ReplicaSetMetrics;
pub(crate) use self::owner::PodOwner;
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
    // Owner references that block deletion need it where OwnerReferencesPermissionEnforcement is
    // on.
    Rule::new(&["apps"], &["replicasets/finalizers"], &["update"]),
    Rule::new(&[""], &["pods"], &["create", "delete", "patch"]),
    Rule::EVENTS,
];

/// Names that users see of a controller that runs on this machinery.
pub(crate) struct Names {
    /// Canonical name of the controller.
    pub(crate) controller: &'static str,
    /// Its client, and the source of its Events.
    pub(crate) component: &'static str,
    /// Its queue, in metrics.
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

/// A controller of kind `O` with so many workers, already listening.
pub(crate) fn build<O: PodOwner>(
    ctx: &ControllerContext,
    names: &Names,
    workers: usize,
) -> Result<Box<dyn Controller>, InitError> {
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
    let (owner_informer, pod_informer) =
        (ctx.informers.shared::<O>(), ctx.informers.shared::<Pod>());
    let queue = WorkQueue::new(queue, &ctx.queue_metrics);
    let guard = Arc::new(Guard::default());
    handlers::register(&owner_informer, &pod_informer, &queue, &guard);
    let client = ctx.client(component);
    let syncer = Arc::new(ReplicaController::<O> {
        owners: owner_informer.store(),
        pods: pod_informer.store(),
        owner_informer,
        pod_informer,
        queue,
        guard,
        recorder: ctx.recorder(component, client.clone()),
        client,
        clock: ctx.clock.clone(),
        since: ctx.since,
        metrics,
        features: ctx.features.clone(),
    });
    Ok(Keyed::boxed(
        controller,
        syncer.queue.clone(),
        workers,
        syncer,
    ))
}
