//! The reclaim policies of volumes whose claim is gone.
//!
//! Upstream: `reclaimVolume`, `recycleVolumeOperation` and `deleteVolumeOperation`.

use std::convert::Infallible;
use std::sync::Arc;

use steersman_client::live::LiveError;
use steersman_client::writes::Delete;
use steersman_client::{ApiError, Target};
use steersman_objects::PersistentVolume;
use tokio::time::Instant;

use super::body::Body;
use super::host_path::{self, HostPathError};
use super::invariants;
use super::known::claim_of;
use super::migration::IN_TREE_FINALIZER;
use super::notice::Notice;
use super::plugins::{self, HOST_PATH};
use super::recycler::{self, Recycling};
use super::sync::Binder;
use super::volume;
use super::writes::{Part, WriteError};
use crate::storage_metrics::Finished;

/// A volume was not deleted.
#[derive(Debug, thiserror::Error)]
pub(super) enum DeleteError {
    /// The claim of the volume lives: an invariant.
    ///
    /// It should never occur, and is counted.
    #[error("{0}")]
    Refused(#[source] ApiError),
    /// The folder could not be deleted.
    #[error("{0}")]
    Folder(#[from] HostPathError),
    /// The volume could not be read after the deletion of its folder.
    ///
    /// The finalizer stays, and with it the volume. The next try finds no folder, and goes on here.
    #[error("{0}")]
    Read(#[from] LiveError),
    /// The finalizer could not be removed.
    #[error("persistent volume controller can't update finalizer: {0}")]
    Finalizer(#[source] WriteError),
    /// The phase `Failed` could not be written.
    #[error("{0}")]
    Phase(#[source] WriteError),
}

impl Binder {
    /// Follows the reclaim policy of a volume whose claim is gone.
    ///
    /// Upstream: `reclaimVolume`. A migrated volume is left to its external provisioner under any
    /// policy.
    pub(super) async fn reclaim(
        self: &Arc<Self>,
        volume: &Arc<PersistentVolume>,
    ) -> Result<(), WriteError> {
        let migrated_to = volume.annotations.migrated_to.as_ref();
        if migrated_to.is_some_and(|driver| !driver.is_empty()) {
            return Ok(());
        }
        let id = format!("{}[{}]", volume.meta.name, volume.meta.uid);
        let binder = Arc::clone(self);
        let volume = Arc::clone(volume);
        match volume.spec.persistent_volume_reclaim_policy.as_str() {
            "Retain" => {}
            // It never fails as an operation: a failure is the phase `Failed`, and the next sync tries
            // again.
            "Recycle" => self.operations.start(format!("recycle-{id}"), async move {
                binder.recycle(&volume).await;
                Ok::<(), Infallible>(())
            }),
            "Delete" => {
                // The time runs until the volume is gone, also if an external component deletes it.
                let deleter = || plugins::name_of_deleter(&volume, &self.classes);
                self.timers.start(&volume.meta.name, deleter, "delete");
                self.operations.start(format!("delete-{id}"), async move {
                    let deleted = binder.delete(&volume).await;
                    if deleted.is_err() {
                        binder.timers.failed(&volume.meta.name);
                    }
                    deleted
                });
            }
            _ => {
                let message = "Volume has unrecognized PersistentVolumeReclaimPolicy";
                let notice = Notice::warning("VolumeUnknownReclaimPolicy", message);
                self.fail(&volume, notice).await?;
            }
        }
        Ok(())
    }

    /// The volume as the API server has it, if it is still to be reclaimed.
    ///
    /// The operation may have waited, and an earlier one may have ended. `None` as well if another
    /// volume has the name.
    async fn released(
        &self,
        volume: &PersistentVolume,
    ) -> Result<Option<Arc<PersistentVolume>>, LiveError> {
        let live = self.objects.live_volume(&volume.meta.name).await?;
        Ok(live.filter(|live| {
            let claim = claim_of(live).and_then(|key| self.objects.caches.claims().get(&key));
            live.meta.uid == volume.meta.uid && volume::may_be_reclaimed(live, claim.as_deref())
        }))
    }

    /// Empties a volume and makes it available. A failure is retried by the next sync, without rest.
    ///
    /// Upstream: `recycleVolumeOperation`. The users are checked before the pod: an emptied volume
    /// cannot be filled again.
    async fn recycle(&self, cached: &PersistentVolume) {
        let volume = match self.released(cached).await {
            Ok(Some(volume)) => volume,
            Ok(None) => return,
            Err(error) => {
                return tracing::debug!(volume = &*cached.meta.name, %error, "volume is not read");
            }
        };
        // No phase changes: the pods may end soon, and the next sync looks again.
        if let Some(users) = self.users(&volume) {
            let message = format!("Volume is used by pods: {users}");
            let notice = Notice::normal("VolumeFailedRecycle", message);
            return notice.record(&self.recorder, cached);
        }
        let name = recycler::pod_name(&volume.meta.name);
        let failure = match self.config.recycler_pod(&volume, &name) {
            // As upstream, the volume is `Failed` now, and is tried again in each sync.
            None => "No recycler plugin found for the volume!".to_owned(),
            Some(pod) => {
                let recycling = Recycling {
                    client: &self.objects.client,
                    recorder: &self.recorder,
                    volume: &volume,
                };
                let stop = self.operations.stopped();
                match stop.run_until_cancelled(recycling.run(&pod)).await {
                    // The controller stops. The pod stays, and the next leader finds it by its name.
                    None => return,
                    Some(Err(error))
                        if ApiError::within(&error).is_some_and(ApiError::is_fenced) =>
                    {
                        return;
                    }
                    Some(Err(error)) => format!("Recycle failed: {error}"),
                    Some(Ok(())) => return self.recycled(&volume).await,
                }
            }
        };
        let notice = Notice::warning("VolumeFailedRecycle", failure);
        if let Err(error) = self.fail(&volume, notice).await {
            tracing::debug!(volume = &*volume.meta.name, %error, "volume is not marked as failed");
        }
    }

    /// If the write fails, the volume is emptied once more, which is harmless.
    async fn recycled(&self, volume: &PersistentVolume) {
        Notice::normal("VolumeRecycled", "Volume recycled").record(&self.recorder, volume);
        if let Err(error) = self.unbind(volume).await {
            tracing::debug!(volume = &*volume.meta.name, %error, "volume is to be recycled again");
        }
    }

    /// The pods that still use the claim of `volume`, unless there is a new claim of that name: its
    /// pods use another volume.
    ///
    /// Upstream: `isVolumeUsed`, and the check of the claim's name in `recycleVolumeOperation`.
    fn users(&self, volume: &PersistentVolume) -> Option<String> {
        let claim = claim_of(volume)?;
        if self.objects.caches.claims().get(&claim).is_some() {
            return None;
        }
        let pods = self.pods.using(&claim);
        let pods = pods.iter().filter(|pod| !pod.is_terminated());
        let names: Vec<String> = pods
            .map(|pod| format!("{}/{}", pod.meta.namespace, pod.meta.name))
            .collect();
        (!names.is_empty()).then(|| names.join(","))
    }

    /// Deletes a volume that no external component deletes.
    ///
    /// Upstream: `deleteVolumeOperation`. The order: no external component deletes the volume, a live
    /// read shows it released, the invariant holds, the lease holds. Then the folder goes, the
    /// finalizer, and last the object.
    async fn delete(&self, cached: &Arc<PersistentVolume>) -> Result<(), DeleteError> {
        let failed = |error: String| Notice::warning("VolumeFailedDelete", error);
        match plugins::is_deleted_here(cached) {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            // No plugin at all: the phase `Failed` tells the administrator.
            Err(error) => {
                let notice = failed(error.to_string());
                return self.fail(cached, notice).await.map_err(DeleteError::Phase);
            }
        }
        let volume = match self.released(cached).await {
            Ok(Some(volume)) => volume,
            Ok(None) => return Ok(()),
            Err(error) => {
                tracing::debug!(volume = &*cached.meta.name, %error, "volume is not read");
                return Ok(());
            }
        };
        let target = Target::of::<PersistentVolume>(&volume.meta);
        let claim = claim_of(&volume).and_then(|key| self.objects.caches.claims().get(&key));
        let checked = invariants::lost_its_claim(&volume, claim.as_deref());
        let permitted = self.objects.client.permit(target, checked);
        permitted.map_err(DeleteError::Refused)?;
        // No write gate guards the folder.
        if !self.objects.client.may_write() {
            return Ok(());
        }
        // The phase is visible, and the operation rests before the next try.
        if let Err(error) = self.delete_folder(&volume).await {
            let notice = failed(error.to_string());
            self.fail(cached, notice)
                .await
                .map_err(DeleteError::Phase)?;
            return Err(error);
        }
        let options = Delete::exactly(&volume.meta);
        match self.objects.client.delete(target, &options).await {
            // The storage is gone, so the next sync finds nothing to delete but the object. It is no
            // failure.
            Err(error) if !ApiError::is_object_not_found(&error) => {
                tracing::debug!(volume = &*volume.meta.name, %error, "volume is not deleted yet");
            }
            _ => {}
        }
        Ok(())
    }

    /// Deletes the folder of `volume`, then its finalizer. Upstream: `doDeleteVolume`.
    ///
    /// The finalizer goes after the storage: an object without it could vanish before its data.
    async fn delete_folder(&self, volume: &PersistentVolume) -> Result<(), DeleteError> {
        let source = volume.spec.host_path.as_ref();
        let name = || HostPathError::Source(volume.meta.name.to_string());
        let folder = &source.ok_or_else(name)?.path;
        let started = Instant::now();
        let deleted = host_path::delete(folder).await;
        self.storage_metrics.finished(&Finished {
            plugin: HOST_PATH,
            operation: "volume_delete",
            succeeded: deleted.is_ok(),
            is_migrated: false,
            took: started.elapsed(),
        });
        deleted?;
        // The deletion may have taken long, and the version for the PUT has to be the present one.
        let live = self.objects.live_volume(&volume.meta.name).await?;
        let Some(volume) = live.filter(|live| live.meta.uid == volume.meta.uid) else {
            return Ok(());
        };
        let mut finalizers = volume.document.finalizers();
        let served = finalizers.len();
        finalizers.retain(|name| name != IN_TREE_FINALIZER);
        if finalizers.len() < served {
            let mut body = Body::of(&*volume);
            body.set_finalizers(finalizers);
            let written = self.objects.put_volume(&volume, Part::Main, &body).await;
            written.map_err(DeleteError::Finalizer)?;
        }
        Ok(())
    }
}
