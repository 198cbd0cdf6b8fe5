//! Rolls out the templates of Deployments. Each template of a Deployment has a ReplicaSet, and a
//! rollout moves the pods from the old ReplicaSets to the new one.
//!
//! events -> handlers -> queue of keys -> sync -> (revision, scaling, rolling, recreate, cleanup,
//! status, progress) -> writes
//!
//! Guarantees:
//!
//! - A rolling update has at most `replicas + maxSurge` active pods.
//! - It deletes an available pod only if at least `replicas - maxUnavailable` available pods
//!   remain.
//! - A sync waits until the caches show all earlier writes of this process for its Deployment.
//! - A complete Deployment causes no writes.
//!
//! Upstream: `pkg/controller/deployment`. Differences:
//!
//! - After a write, a sync continues with the object that the server returned. Upstream continues
//!   with its old copy, and causes a conflict with its own write.
//! - The deletion of an old ReplicaSet has UID and resource version as preconditions.
//! - A failed resize of an old ReplicaSet is retried. Upstream waits for another event.
//! - A scaling event that needs no resize lets a rollout continue. Upstream blocks for ever if
//!   one ReplicaSet of the right size has a stale `desired-replicas` annotation.
//! - A new leader with caches from before its term checks them with live reads before it writes
//!   ReplicaSets.
//! - If a watch omits one of our writes, the written ReplicaSet counts, not the cached one.
//! - The handler of deleted pods reads ReplicaSets from the cache, not from the API server.
//! - A requeue waits for a progress deadline exactly, without polling.
//!
//! Decisions about sizes: `limits.rs` resolves the limits, `rolling.rs` and `recreate.rs` are the strategies,
//! and `scaling.rs` handles changes of `spec.replicas`. `revision.rs`, `rollback.rs` and `cleanup.rs` are
//! about the history. Pods are the business of the ReplicaSet controller; this one only reads them for
//! Recreate.

mod annotations;
mod cleanup;
mod conditions;
mod deadlock;
mod document;
mod error;
pub(crate) mod explain;
mod handlers;
mod invariants;
mod limits;
mod new_replica_set;
mod pause;
mod progress;
mod recreate;
mod replica_sets;
mod resize;
mod revision;
mod rollback;
mod rolling;
mod scaling;
mod status;
mod sync;
#[cfg(test)]
mod tests;
mod writes;

use steersman_objects::{Deployment, Pod, ReplicaSet};
use steersman_runtime::controller::{Controller, ControllerContext, Descriptor, InitError};
use steersman_runtime::keyed::Keyed;
use steersman_runtime::rbac::Rule;
use steersman_runtime::reads::Read;

use self::sync::DeploymentController;
use self::writes::Writer;

/// The Deployment controller.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: NAME,
    aliases: &["deployment"],
    enabled_by_default: true,
    summary: "Rolls out the templates of Deployments by way of ReplicaSets",
    identity: NAME,
    reads: &[
        Read::of::<Deployment>(),
        Read::by_controller::<ReplicaSet>(),
        Read::by_controller::<Pod>(),
    ],
    rules: RULES,
    init,
};

/// Name of the controller, of its client, and of the source of its Events.
const NAME: &str = "deployment-controller";

const RULES: &[Rule] = &[
    // The update of a Deployment itself is for rollbacks by annotation only.
    Rule::new(&["apps"], &["deployments"], &["get", "update"]),
    Rule::new(&["apps"], &["deployments/status"], &["update"]),
    // The admission plugin OwnerReferencesPermissionEnforcement requires this right for owner
    // references with `blockOwnerDeletion`.
    Rule::new(&["apps"], &["deployments/finalizers"], &["update"]),
    Rule::new(
        &["apps"],
        &["replicasets"],
        &["create", "delete", "patch", "update"],
    ),
    Rule::EVENTS,
];

/// The surge and unavailability limits of a Deployment, in pods. Public for the fuzzer.
#[doc(hidden)]
pub fn limits_of(deployment: &Deployment) -> (i32, i32) {
    (
        limits::max_surge(deployment),
        limits::max_unavailable(deployment),
    )
}

fn init(ctx: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    let (keyed, syncer) = assemble(ctx);
    let workers = ctx.options.workers("concurrent-deployment-syncs");
    Ok(keyed.boxed(workers, syncer))
}

/// The parts of the controller.
fn assemble(ctx: &ControllerContext) -> (Keyed<Deployment>, DeploymentController) {
    let mut keyed = Keyed::<Deployment>::new(ctx, NAME, "deployment");
    let deployments = keyed.objects().clone();
    let replica_sets = ctx.informers.shared::<ReplicaSet>();
    let pods = ctx.informers.shared::<Pod>();
    let queue = keyed.queue();
    let client = ctx.client(NAME);
    client.counts_violations_of(invariants::NAMES);
    let consistency = keyed.consistency();
    let syncer = DeploymentController {
        caches: handlers::register(&deployments, &replica_sets, &pods, &queue, &consistency),
        deployments_cache: keyed.tracked(&deployments),
        replica_sets_cache: keyed.tracked(&replica_sets),
        consistency,
        recorder: ctx.recorder(NAME, client.clone()),
        writer: Writer::new(client),
        clock: ctx.clock.clone(),
        features: ctx.features.clone(),
    };
    (keyed, syncer)
}
