//! Rolls out templates: each Deployment gets a ReplicaSet per template, and its pods move from the
//! old ones to the new one.
//!
//! events -> handlers -> queue of keys -> sync -> (revision, scaling, rolling, recreate, cleanup,
//! status, progress) -> writes
//!
//! What users may rely on: a rolling update never has more pods than surge allows, nor takes an
//! available one away while fewer than the wanted number less the unavailable ones would be left;
//! nothing is decided on a cache older than this process's own writes for the same Deployment; a
//! Deployment at rest costs not one write.
//!
//! Upstream: `pkg/controller/deployment`. Differences:
//!
//! * An object that was written is carried on as the server returned it, where upstream goes on
//!   with its old copy and meets a conflict of its own making.
//! * Old ReplicaSets are deleted only as they were seen (UID and version are preconditions).
//! * A failed resize of an old ReplicaSet is retried; upstream waits for another event.
//! * A scaling event that asks for no change does not hold up a rollout (upstream: one ReplicaSet
//!   of the right size with a stale `desired-replicas` does, for ever).
//! * A new leader whose caches may be older than its term asks the API server before it writes
//!   ReplicaSets.
//! * A ReplicaSet counts as we wrote it last, also where a watch left that out.
//! * The last pod of a Recreate Deployment is found in the cache, and a missed deadline is awaited
//!   without polling.

mod annotations;
mod cleanup;
mod conditions;
mod document;
mod error;
mod handlers;
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

use std::sync::Arc;

use steersman_runtime::controller::{Controller, ControllerContext, Descriptor, InitError};
use steersman_runtime::expectations::Expectations;
use steersman_runtime::keyed::Keyed;
use steersman_runtime::object::{Deployment, Pod, ReplicaSet};
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

/// Also the name of its client and the source of its Events.
const NAME: &str = "deployment-controller";

const RULES: &[Rule] = &[
    Rule::new(&["apps"], &["deployments"], &["get", "update"]),
    Rule::new(&["apps"], &["deployments/status"], &["update"]),
    // Owner references that block deletion need it where OwnerReferencesPermissionEnforcement is
    // on.
    Rule::new(&["apps"], &["deployments/finalizers"], &["update"]),
    Rule::new(
        &["apps"],
        &["replicasets"],
        &["create", "delete", "get", "patch", "update"],
    ),
    Rule::EVENTS,
];

/// What a Deployment says of its surge and unavailability, in pods; for the fuzzer.
#[doc(hidden)]
pub fn limits_of(deployment: &Deployment) -> (i32, i32) {
    (
        limits::max_surge(deployment),
        limits::max_unavailable(deployment),
    )
}

fn init(ctx: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    let mut keyed = Keyed::<Deployment>::new(ctx, NAME, "deployment");
    let deployments = keyed.objects().clone();
    let replica_sets = ctx.informers.shared::<ReplicaSet>();
    let pods = ctx.informers.shared::<Pod>();
    let (queue, client) = (keyed.queue(), ctx.client(NAME));
    let (deleting, written) = (Arc::<Expectations>::default(), Arc::default());
    keyed.remembers(Arc::clone(&deleting) as Arc<_>);
    keyed.remembers(Arc::clone(&written) as Arc<_>);
    let syncer = DeploymentController {
        caches: handlers::register(&deployments, &replica_sets, &pods, &queue, &deleting),
        queue,
        deployments_written: keyed.writes_to(&deployments),
        replica_sets_written: keyed.writes_to(&replica_sets),
        written,
        deleting,
        recorder: ctx.recorder(NAME, client.clone()),
        writer: Writer::new(client),
        clock: ctx.clock.clone(),
        features: ctx.features.clone(),
    };
    let workers = ctx.options.workers("concurrent-deployment-syncs");
    Ok(keyed.boxed(workers, syncer))
}
