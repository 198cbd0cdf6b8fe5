//! Keeps each PersistentVolume until its phase is no longer `Bound`.
//!
//! Volume events -> queue of names -> sync -> PUT
//!
//! Only the phase decides, and the PUT carries the resource version of that phase. The binder sets
//! the phase `Released` after the claim is gone.
//!
//! Upstream: `pkg/controller/volume/pvprotection`.
//!
//! No list of claims is needed: the phase is on the volume itself, and a later binding changes the
//! resource version that the PUT names.

use std::future::ready;
use std::sync::Arc;

use steersman_objects::{Document, ObjectKey, PersistentVolume};
use steersman_runtime::controller::{Controller, ControllerContext, Descriptor, InitError};
use steersman_runtime::keyed::{Keyed, ObjectSyncer};
use steersman_runtime::rbac::Rule;
use steersman_runtime::reads::Read;
use steersman_runtime::workers::Requeue;

use super::{Finalizers, Protected, SyncError, Use, WORKERS, watch_finalizers};

/// The protection of volumes.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: NAME,
    aliases: &["pv-protection"],
    enabled_by_default: true,
    summary: "Keeps each PersistentVolume while it is bound",
    identity: "pv-protection-controller",
    reads: &[Read::of::<PersistentVolume>()],
    rules: &[Rule::new(&[""], &["persistentvolumes"], &["update"])],
    init,
};

const NAME: &str = "persistentvolume-protection-controller";

impl Protected for PersistentVolume {
    const FINALIZER: &'static str = "kubernetes.io/pv-protection";

    fn document(&self) -> &Document {
        &self.document
    }
}

fn init(ctx: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    let mut keyed = Keyed::<PersistentVolume>::new(ctx, NAME, "pvprotection");
    let volumes = keyed.objects().clone();
    watch_finalizers(&volumes, &keyed.queue());
    let client = ctx.client(DESCRIPTOR.identity);
    let cache = keyed.tracked(&volumes);
    Ok(keyed.boxed(WORKERS, Volumes(Finalizers::new(client, cache))))
}

struct Volumes(Finalizers<PersistentVolume>);

impl ObjectSyncer for Volumes {
    type Object = PersistentVolume;
    type Error = SyncError;

    async fn sync(
        &self,
        key: &ObjectKey,
        volume: Arc<PersistentVolume>,
    ) -> Result<Requeue, SyncError> {
        // Upstream: `isBeingUsed`. A `Released` volume counts as free here: other finalizers keep it
        // for the deletion of its storage.
        let users = if volume.status.phase == "Bound" {
            Use::Cached
        } else {
            Use::None
        };
        self.0.settle(key, &volume, ready(Ok(users))).await
    }
}
