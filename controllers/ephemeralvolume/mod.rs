//! Creates the PersistentVolumeClaims of `ephemeral` volumes.
//!
//! Pod and claim events -> [`handlers`] -> queue of pods -> sync -> POST of each missing claim
//!
//! The pod controls its claims, so the garbage collector deletes them after the pod.
//!
//! Upstream: `pkg/controller/volume/ephemeral`. Differences:
//!
//! - A sync waits until the cache shows the claims that it created. Upstream creates them again, and
//!   reports that they exist.
//! - A claim that exists, but not in the cache yet, is no Event: the next sync tells whether it
//!   belongs to the pod.
//! - A pod that replaces another one of its name during a gap of the watch gets its claims, and so
//!   does a pod whose claim was deleted during the gap.

mod handlers;
mod metrics;
mod sync;
#[cfg(test)]
mod tests;

use steersman_helpers::pods_by_claim::PodsByClaim;
use steersman_objects::{PersistentVolumeClaim, Pod};
use steersman_runtime::controller::{
    Controller, ControllerContext, Descriptor, INFORMERS, InitError,
};
use steersman_runtime::keyed::Keyed;
use steersman_runtime::rbac::Rule;
use steersman_runtime::reads::Read;

use self::metrics::EphemeralVolumeMetrics;
use self::sync::EphemeralVolumes;

/// The ephemeral volume controller.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: NAME,
    aliases: &["ephemeral-volume"],
    enabled_by_default: true,
    summary: "Creates the PersistentVolumeClaims of ephemeral volumes of pods",
    identity: NAME,
    reads: &[Read::of::<Pod>(), Read::of::<PersistentVolumeClaim>()],
    rules: &[
        Rule::new(&[""], &["persistentvolumeclaims"], &["create"]),
        // An owner reference with `blockOwnerDeletion` needs this right under the admission plugin
        // `OwnerReferencesPermissionEnforcement`.
        Rule::new(&[""], &["pods/finalizers"], &["update"]),
        Rule::EVENTS,
    ],
    init,
};

const NAME: &str = "ephemeral-volume-controller";

/// The component of its Events, and the name of its queue.
const COMPONENT: &str = "ephemeral_volume";

fn init(ctx: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    let metrics = EphemeralVolumeMetrics::register(&ctx.registry).map_err(|error| InitError {
        controller: NAME,
        source: error.into(),
    })?;
    let mut keyed = Keyed::<Pod>::new(ctx, NAME, COMPONENT);
    let pods = keyed.objects().clone();
    let claims = ctx.informers.shared::<PersistentVolumeClaim>();
    let by_claim = PodsByClaim::of(&pods.store());
    handlers::register(&pods, &claims, by_claim, &keyed.queue());
    let client = ctx.client(DESCRIPTOR.identity);
    let syncer = EphemeralVolumes {
        claims: claims.store(),
        cache: keyed.tracked(&claims),
        pods_cache: keyed.tracked(&pods),
        recorder: ctx.recorder(COMPONENT, client.clone()),
        client,
        lists: ctx.client(INFORMERS),
        metrics,
    };
    let workers = ctx.options.workers("concurrent-ephemeralvolume-syncs");
    Ok(keyed.boxed(workers, syncer))
}
