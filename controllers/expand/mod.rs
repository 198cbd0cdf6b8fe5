//! Tells users which component expands their volume, and names the CSI driver on claims of in-tree
//! volumes.
//!
//! claim events -> queue of claims -> sync -> ([`decision`]) -> Event, patch of an annotation
//!
//! Volumes of CSI drivers are expanded by the external resizer of the driver. This controller expands
//! none itself.
//!
//! Upstream: `pkg/controller/volume/expand`. Difference: a FlexVolume is also left to an external
//! component; upstream marks it for its kubelet. FlexVolumes are deprecated.

mod decision;
mod sync;
#[cfg(test)]
mod tests;

use steersman_objects::{Object, PersistentVolumeClaim};
use steersman_runtime::controller::{Controller, ControllerContext, Descriptor, InitError};
use steersman_runtime::informer::Change;
use steersman_runtime::keyed::Keyed;
use steersman_runtime::rbac::Rule;
use steersman_runtime::reads::Read;

use self::sync::Expander;

/// The volume expander.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: NAME,
    aliases: &["persistentvolume-expander"],
    enabled_by_default: true,
    summary: "Tells which component expands a volume, for claims that ask for more",
    identity: IDENTITY,
    reads: &[Read::of::<PersistentVolumeClaim>()],
    rules: &[
        // Volumes are read one at a time, and no sync reads a cache of them. Upstream does so as well.
        Rule::new(&[""], &["persistentvolumes"], &["get"]),
        Rule::new(&[""], &["persistentvolumeclaims/status"], &["patch"]),
        Rule::EVENTS,
    ],
    init,
};

const NAME: &str = "persistentvolume-expander-controller";

/// Name of its client.
const IDENTITY: &str = "expand-controller";

/// Source of its Events, and the name of its queue in metrics.
const COMPONENT: &str = "volume_expand";

/// Number of workers, as upstream, which has no flag for it.
const WORKERS: usize = 10;

fn init(ctx: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    let keyed = Keyed::<PersistentVolumeClaim>::new(ctx, NAME, COMPONENT);
    // Upstream also queues a deleted claim, whose sync then finds nothing.
    let queue = keyed.queue();
    keyed.objects().add_handler(move |change| match change {
        Change::Added { object, .. } if decision::is_bound(object) => queue.add(object.key()),
        Change::Updated { old, new } if decision::has_grown(old, new) => queue.add(new.key()),
        Change::Added { .. } | Change::Updated { .. } | Change::Deleted { .. } => {}
    });
    let client = ctx.client(IDENTITY);
    let recorder = ctx.recorder(COMPONENT, client.clone());
    Ok(keyed.boxed(WORKERS, Expander { client, recorder }))
}
