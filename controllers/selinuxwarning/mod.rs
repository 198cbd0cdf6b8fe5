//! Warns of pods that use one volume with different SELinux labels or policies. If they land on one
//! node, only one of them can use the volume. The controller writes Events and a metric only.
//!
//! pods, claims, volumes, CSI drivers -> queue of pods -> ([`labels`], [`conflicts`]) -> Events
//!
//! Without the feature gate `SELinuxMountReadWriteOncePod`, no volume is mounted with a label, and so nothing conflicts.
//!
//! Upstream: `pkg/controller/volume/selinuxwarning`. Differences:
//!
//! - Volumes without a plugin that attaches them, such as `hostPath`, are left out. Upstream knows two
//!   more plugins, whose volumes never conflict.
//! - An inline `csi` volume is left out; upstream fails and retries the pod for ever.

mod conflicts;
mod handlers;
mod labels;
mod metrics;
mod sync;
#[cfg(test)]
pub(crate) mod tests;

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use steersman_helpers::pods_by_claim::PodsByClaim;
use steersman_helpers::volume::VolumeResolver;
use steersman_objects::{CsiDriver, PersistentVolume, PersistentVolumeClaim, Pod, SelinuxPod};
use steersman_options::features::SELINUX_MOUNT_READ_WRITE_ONCE_POD;
use steersman_runtime::controller::{Controller, ControllerContext, Descriptor, InitError};
use steersman_runtime::events::EventRecorder;
use steersman_runtime::informer::Store;
use steersman_runtime::keyed::Keyed;
use steersman_runtime::rbac::Rule;
use steersman_runtime::reads::Read;

use self::conflicts::UsedVolumes;
use self::sync::SelinuxWarning;

/// The SELinux warning controller.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: NAME,
    aliases: &[],
    enabled_by_default: false,
    summary: "Warns of pods that use one volume with different SELinux labels",
    identity: NAME,
    // SelinuxPod is a second watch of pods with the fields that only this controller reads. The common
    // watch of pods gives the index by claim.
    reads: &[
        Read::of::<SelinuxPod>(),
        Read::of::<Pod>(),
        Read::of::<PersistentVolumeClaim>(),
        Read::of::<PersistentVolume>(),
        Read::of::<CsiDriver>(),
    ],
    rules: &[Rule::EVENTS],
    init,
};

/// Name of the controller, and of its client.
const NAME: &str = "selinux-warning-controller";

/// Source of its Events, and name of its queue.
const COMPONENT: &str = "selinux_warning";

/// Workers, as upstream.
const WORKERS: usize = 1;

fn init(ctx: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    let keyed = Keyed::<SelinuxPod>::new(ctx, NAME, COMPONENT);
    let claims = ctx.informers.shared::<PersistentVolumeClaim>();
    let volumes = ctx.informers.shared::<PersistentVolume>();
    let drivers = ctx.informers.shared::<CsiDriver>();
    let pods = ctx.informers.shared::<Pod>();
    let shared = Arc::new(Shared {
        used: Mutex::default(),
        pods: keyed.objects().store(),
        pods_by_claim: PodsByClaim::of(&pods.store()),
        resolver: VolumeResolver::new(claims.store(), volumes.store()),
        drivers: drivers.store(),
        mounts_labels: ctx.features.is_on(SELINUX_MOUNT_READ_WRITE_ONCE_POD),
        recorder: ctx.recorder(COMPONENT, ctx.client(NAME)),
    });
    metrics::show_conflicts(&ctx.registry, &shared).map_err(|source| InitError {
        controller: NAME,
        source: Box::new(source),
    })?;
    let queue = keyed.queue();
    handlers::register_pods(keyed.objects(), &queue);
    handlers::register_claims(&shared, &claims, &volumes, &queue);
    handlers::register_drivers(&shared, &drivers, &queue);
    Ok(keyed.boxed(WORKERS, SelinuxWarning(shared)))
}

/// The state that handlers and the worker share.
///
/// Upstream: `Controller`, without its plugins.
struct Shared {
    /// The handler of drivers reads it, the worker writes it.
    used: Mutex<UsedVolumes>,
    /// For the Events about other pods.
    pods: Store<SelinuxPod>,
    pods_by_claim: PodsByClaim,
    resolver: VolumeResolver,
    drivers: Store<CsiDriver>,
    /// Whether volumes are mounted with labels at all.
    mounts_labels: bool,
    recorder: EventRecorder,
}

impl Shared {
    /// The lock is never held across an `await`.
    fn used(&self) -> MutexGuard<'_, UsedVolumes> {
        self.used.lock()
    }
}
