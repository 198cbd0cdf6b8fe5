//! Keeps each PersistentVolumeClaim while a pod on a node uses it.
//!
//! Claim and pod events -> [`handlers`] -> queue of claims -> sync -> cached pods, then live pods
//! ([`live_pods`]) -> PUT
//!
//! With the feature gate `PersistentVolumeClaimUnusedSinceTime`, claims also have the condition
//! `Unused` ([`unused`]), since 1.37 once they are bound.
//!
//! Upstream: `pkg/controller/volume/pvcprotection`. Differences:
//!
//! - Upstream groups the queued claims by namespace, so that they share one live list of pods. Here
//!   queued claims share a list if it is younger than their deletion; see [`live_pods`].
//! - After the write of the condition, the claim returns to the queue. Upstream continues with the
//!   older object, whose next write conflicts.

pub(crate) mod explain;
mod handlers;
mod live_pods;
mod sync;
mod unused;
mod usage;

use steersman_helpers::pods_by_claim::PodsByClaim;
use steersman_objects::{Document, PersistentVolumeClaim, Pod};
use steersman_runtime::controller::{Controller, ControllerContext, Descriptor, InitError};
use steersman_runtime::keyed::Keyed;
use steersman_runtime::rbac::Rule;
use steersman_runtime::reads::Read;

use self::live_pods::LivePods;
use self::sync::Claims;
use self::unused::Tracked;
use super::{Finalizers, Protected, WORKERS};

/// The protection of claims.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: NAME,
    aliases: &["pvc-protection"],
    enabled_by_default: true,
    summary: "Keeps each PersistentVolumeClaim while a pod on a node uses it",
    identity: "pvc-protection-controller",
    reads: &[Read::of::<PersistentVolumeClaim>(), Read::of::<Pod>()],
    rules: &[
        Rule::new(
            &[""],
            &["persistentvolumeclaims", "persistentvolumeclaims/status"],
            &["update"],
        ),
        Rule::new(&[""], &["pods"], &["list"]),
    ],
    init,
};

const NAME: &str = "persistentvolumeclaim-protection-controller";

impl Protected for PersistentVolumeClaim {
    const FINALIZER: &'static str = "kubernetes.io/pvc-protection";

    fn document(&self) -> &Document {
        &self.document
    }
}

fn init(ctx: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    let tracked = Tracked::of(&ctx.features, ctx.release);
    let mut keyed = Keyed::<PersistentVolumeClaim>::new(ctx, NAME, "pvcprotection");
    let claims = keyed.objects().clone();
    let pods = ctx.informers.shared::<Pod>();
    let queue = keyed.queue();
    handlers::register(&claims, &pods, &queue, tracked);
    let client = ctx.client(DESCRIPTOR.identity);
    let syncer = Claims {
        pods: PodsByClaim::of(&pods.store()),
        live: LivePods::new(client.clone()),
        finalizers: Finalizers::new(client.clone(), keyed.tracked(&claims)),
        queue,
        client,
        tracked,
        clock: ctx.clock.clone(),
    };
    Ok(keyed.boxed(WORKERS, syncer))
}
