//! One sync of a claim or a volume.
//!
//! Syncs of claims and volumes write the same objects, so only one of them runs at a time. Upstream
//! has a worker for each, and their conflicts delay a binding by up to the sync period.

use std::sync::Arc;

use steersman_client::{ApiError, is_path_name};
use steersman_helpers::pods_by_claim::PodsByClaim;
use steersman_objects::{
    Node, Object, ObjectKey, PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeClaimRef,
};
use steersman_runtime::consistency::{RECHECK, Unconfirmed};
use steersman_runtime::events::EventRecorder;
use steersman_runtime::informer::Store;
use steersman_runtime::workers::{Requeue, Retry, Syncer};
use steersman_runtime::workqueue::WorkQueue;
use tokio::sync::Mutex;

use super::claim;
use super::config::Config;
use super::edits;
use super::error::SyncError;
use super::known::claim_of;
use super::metrics::{BinderMetrics, Timers};
use super::migration;
use super::new_leader::CurrentCheck;
use super::notice::Notice;
use super::operations::Operations;
use super::volume;
use super::writes::{Objects, Part, WriteError};
use crate::storage_metrics::StorageMetrics;

/// The state that syncs and operations share.
pub(super) struct Binder {
    pub(super) objects: Objects,
    /// The caches of the informers. `objects` also knows the answers to own writes.
    pub(super) stored_claims: Store<PersistentVolumeClaim>,
    pub(super) stored_volumes: Store<PersistentVolume>,
    pub(super) classes: Store<StorageClass>,
    pub(super) nodes: Store<Node>,
    pub(super) pods: PodsByClaim,
    pub(super) claim_queue: WorkQueue<ObjectKey>,
    pub(super) volume_queue: WorkQueue<ObjectKey>,
    pub(super) recorder: EventRecorder,
    pub(super) config: Config,
    pub(super) operations: Operations,
    pub(super) timers: Timers,
    pub(super) metrics: BinderMetrics,
    pub(super) storage_metrics: StorageMetrics,
    /// Held during each sync.
    ///
    /// Operations do not hold it: they take long, and write with resource versions.
    pub(super) turn: Mutex<()>,
    pub(super) current: CurrentCheck,
}

/// Syncs claims.
pub(super) struct Claims(pub(super) Arc<Binder>);

/// Syncs volumes.
pub(super) struct Volumes(pub(super) Arc<Binder>);

impl Syncer for Claims {
    type Error = SyncError;

    async fn sync(&self, key: &ObjectKey) -> Result<Requeue, SyncError> {
        let _turn = self.0.turn.lock().await;
        self.0.sync_claim(key).await?;
        Ok(Requeue::Never)
    }

    fn retry(&self, error: &SyncError, _failures: u32) -> Retry {
        match error {
            // The cache catches up soon, and no back-off should follow a change of leader.
            SyncError::Check(Unconfirmed::Stale) => Retry::After(RECHECK),
            _ => Retry::after_request(ApiError::within(error)),
        }
    }
}

impl Syncer for Volumes {
    type Error = SyncError;

    async fn sync(&self, key: &ObjectKey) -> Result<Requeue, SyncError> {
        let _turn = self.0.turn.lock().await;
        self.0.sync_volume(key).await?;
        Ok(Requeue::Never)
    }
}

impl Binder {
    /// Enqueues everything. This retries Pending claims and failed operations, and repeats Events.
    ///
    /// Upstream: `resync`, every `--pvclaimbinder-sync-period`.
    pub(super) fn resync(&self) {
        for claim in self.stored_claims.list() {
            self.claim_queue.add(claim.key());
        }
        for volume in self.stored_volumes.list() {
            self.volume_queue.add(volume.key());
        }
        self.operations.forget_abandoned();
    }

    /// Upstream: `syncClaimByKey`, `updateClaim` and `syncClaim`.
    async fn sync_claim(self: &Arc<Self>, key: &ObjectKey) -> Result<(), SyncError> {
        let Some(claim) = self.stored_claims.get(key) else {
            self.claim_deleted(key);
            return Ok(());
        };
        // The answer to an own write is newer than this event. Its own event follows.
        if !self.objects.caches.claims().store(&claim) {
            return Ok(());
        }
        let claim = match migration::annealed_claim(&claim) {
            Some(body) => {
                let annealed = self.objects.put_claim(&claim, Part::Main, &body).await;
                annealed.map_err(SyncError::AnnealClaim)?
            }
            None => claim,
        };
        let users = || self.pods.using(key);
        // The lock ends with the decision. A volume that changes meanwhile has another version, and the
        // write of this one fails.
        let step = {
            let volumes = self.objects.caches.volumes();
            claim::step(
                &claim,
                &volumes,
                &self.classes,
                self.config.attributes,
                users,
            )?
        };
        let step = match step {
            // All other steps are repaired by a later sync; only this one frightens users.
            claim::Step::Lose(_) => self.confirmed_loss(&claim, step).await?,
            step => step,
        };
        match step {
            claim::Step::Bind(volume) => {
                self.current.confirm_volumes(&self.stored_volumes).await?;
                let bound = self.bind(&volume, &claim).await;
                let key = key.to_string();
                match &bound {
                    // The volume may have been provisioned for the claim. Otherwise, no time runs.
                    Ok(()) => self.timers.finished(&key),
                    // Nothing was tried.
                    Err(SyncError::Check(Unconfirmed::Stale)) => {}
                    Err(_) => self.timers.failed(&key),
                }
                bound
            }
            claim::Step::Complete(volume) => self.bind(&volume, &claim).await,
            claim::Step::Classify(class) => self.classify(&claim, &class).await,
            claim::Step::Provision => {
                self.provision(&claim);
                Ok(())
            }
            // The Event repeats in each sync period, as upstream, so that it outlives its time to live.
            claim::Step::Wait(notice) => {
                if let Some(notice) = notice {
                    notice.record(&self.recorder, &*claim);
                }
                if let Some(body) = edits::claim_without_volume(&claim, "Pending") {
                    self.objects.put_claim(&claim, Part::Status, &body).await?;
                }
                Ok(())
            }
            claim::Step::Lose(notice) => self.lose(&claim, notice).await,
            claim::Step::Refuse(notice, misbinding) => {
                notice.record(&self.recorder, &*claim);
                Err(misbinding.into())
            }
        }
    }

    /// Upstream: `deleteClaim`.
    fn claim_deleted(&self, key: &ObjectKey) {
        let Some(claim) = self.objects.caches.claims().remove(key) else {
            return;
        };
        self.timers.dropped(&key.to_string());
        // The volume enters its next phase now, not in the next sync period.
        if !claim.spec.volume_name.is_empty() {
            let volume = ObjectKey::new("", &claim.spec.volume_name);
            self.volume_queue.add(volume);
        }
    }

    /// Points both objects at each other, the volume first, and sets both phases.
    ///
    /// Upstream: `bind`. After a failure, the next sync continues with the writes that are missing:
    /// each of the four says so itself.
    async fn bind(
        &self,
        volume: &Arc<PersistentVolume>,
        claim: &Arc<PersistentVolumeClaim>,
    ) -> Result<(), SyncError> {
        let mut volume = Arc::clone(volume);
        let mut claim = Arc::clone(claim);
        if let Some(body) = edits::volume_of(&volume, &claim) {
            let client = &self.objects.client;
            // The claim's version is in no write of the volume, so only a read can confirm the claim.
            self.current.confirm_claim(client, &claim).await?;
            volume = self.objects.put_volume(&volume, Part::Main, &body).await?;
        }
        volume = self.enter(&volume, "Bound", "").await?;
        if let Some(body) = edits::claim_on(&claim, &volume) {
            claim = self.objects.put_claim(&claim, Part::Main, &body).await?;
        }
        if let Some(body) = edits::bound_claim(&claim, &volume, self.config.attributes)? {
            self.objects.put_claim(&claim, Part::Status, &body).await?;
        }
        Ok(())
    }

    /// Gives the claim the default class.
    async fn classify(&self, claim: &PersistentVolumeClaim, class: &str) -> Result<(), SyncError> {
        let body = edits::classified(claim, class);
        let classified = self.objects.put_claim(claim, Part::Main, &body).await;
        self.metrics.classified(classified.is_ok());
        // The event of this write causes the next sync.
        classified.map(drop).map_err(|source| SyncError::Classify {
            claim: claim.key().to_string(),
            source,
        })
    }

    /// The step of a claim that, by the caches, has lost its volume.
    ///
    /// The API server confirms the loss: the cache of volumes may be behind that of claims, and
    /// users read that their data is lost.
    async fn confirmed_loss(
        &self,
        claim: &PersistentVolumeClaim,
        step: claim::Step,
    ) -> Result<claim::Step, SyncError> {
        let volume = &claim.spec.volume_name;
        // A loss was confirmed before. An impossible name needs no read.
        if claim.status.phase == "Lost" || !is_path_name(volume) {
            return Ok(step);
        }
        Ok(claim::bound(claim, self.objects.live_volume(volume).await?))
    }

    /// Upstream: `updateClaimStatusWithEvent`. The Event follows the write, and does not repeat.
    async fn lose(&self, claim: &PersistentVolumeClaim, notice: Notice) -> Result<(), SyncError> {
        if claim.status.phase == "Lost" {
            return Ok(());
        }
        if let Some(body) = edits::claim_without_volume(claim, "Lost") {
            let lost = self.objects.put_claim(claim, Part::Status, &body).await?;
            notice.record(&self.recorder, &*lost);
        }
        Ok(())
    }

    /// Upstream: `syncVolumeByKey`, `updateVolume` and `syncVolume`.
    async fn sync_volume(self: &Arc<Self>, key: &ObjectKey) -> Result<(), SyncError> {
        let Some(volume) = self.stored_volumes.get(key) else {
            self.volume_deleted(key);
            return Ok(());
        };
        if !self.objects.caches.volumes().store(&volume) {
            return Ok(());
        }
        let volume = match migration::annealed_volume(&volume) {
            Some(body) => {
                let annealed = self.objects.put_volume(&volume, Part::Main, &body).await;
                annealed.map_err(SyncError::AnnealVolume)?
            }
            None => volume,
        };
        // Also a reserved volume is available; the sync of its claim binds it.
        if !volume::is_bound(&volume) {
            self.enter(&volume, "Available", "").await?;
            return Ok(());
        }
        let claim = self.bound_claim(&volume).await?;
        match volume::step(&volume, claim.as_deref()) {
            volume::Step::Enter(phase) => {
                self.enter(&volume, phase, "").await?;
            }
            volume::Step::Reclaim => {
                let released = if volume::is_released(&volume) {
                    // The phase `Failed` stays visible while the reclaim is tried again, as upstream.
                    volume
                } else {
                    self.enter(&volume, "Released", "").await?
                };
                self.reclaim(&released).await?;
            }
            // An external provisioner only creates the volume; its event thus binds the claim at once.
            volume::Step::WakeClaim(claim) => self.claim_queue.add(claim),
            volume::Step::Mismatch {
                volume: about_volume,
                claim: about_claim,
            } => {
                about_volume.record(&self.recorder, &*volume);
                if let Some(claim) = claim {
                    about_claim.record(&self.recorder, &*claim);
                }
            }
            volume::Step::Unbind => self.unbind(&volume).await?,
        }
        Ok(())
    }

    /// Upstream: `deleteVolume`.
    fn volume_deleted(&self, key: &ObjectKey) {
        let Some(volume) = self.objects.caches.volumes().remove(key) else {
            return;
        };
        self.timers.finished(&key.to_string());
        // The claim enters the phase `Lost` now, not in the next sync period.
        if let Some(claim) = claim_of(&volume) {
            self.claim_queue.add(claim);
        }
    }

    /// The claim that `volume` is bound to. `None` if it is gone.
    ///
    /// The API server confirms that it is gone, unless the volume was released before: a volume
    /// of a living claim must never be reclaimed.
    ///
    /// Upstream: the middle of `syncVolume`. Its second look is at the informer's cache, and its third
    /// at the API server. A claim with another UID counts as gone after a live read.
    async fn bound_claim(
        &self,
        volume: &PersistentVolume,
    ) -> Result<Option<Arc<PersistentVolumeClaim>>, SyncError> {
        let bound = volume.spec.claim_ref.as_ref();
        // The caller has checked both.
        let Some(key) = claim_of(volume) else {
            return Ok(None);
        };
        let Some(uid) = bound.and_then(VolumeClaimRef::uid) else {
            return Ok(None);
        };
        let known = self.objects.caches.claims().get(&key);
        let known = match known {
            None if !volume::is_released(volume) => self.stored_claims.get(&key),
            known => known,
        };
        let is_same = |claim: &Arc<PersistentVolumeClaim>| claim.meta.uid == *uid;
        match known {
            Some(claim) if is_same(&claim) => Ok(Some(claim)),
            None if volume::is_released(volume) => Ok(None),
            // Such a path would ask for another object.
            _ if !is_path_name(&key.name) || !is_path_name(&key.namespace) => {
                Err(SyncError::ClaimName(key.to_string()))
            }
            _ => Ok(self.objects.live_claim(&key).await?.filter(is_same)),
        }
    }

    /// Sets the phase of `volume`, and returns the volume as stored.
    ///
    /// Upstream: `updateVolumePhase`. No write if the volume is in the phase already.
    pub(super) async fn enter(
        &self,
        volume: &Arc<PersistentVolume>,
        phase: &str,
        message: &str,
    ) -> Result<Arc<PersistentVolume>, WriteError> {
        match edits::volume_in(volume, phase, message) {
            Some(body) => self.objects.put_volume(volume, Part::Status, &body).await,
            None => Ok(Arc::clone(volume)),
        }
    }

    /// Sets the phase `Failed`, with the Event if the volume was in another phase.
    ///
    /// Upstream: `updateVolumePhaseWithEvent`. A volume that fails again keeps its first message.
    pub(super) async fn fail(
        &self,
        volume: &Arc<PersistentVolume>,
        notice: Notice,
    ) -> Result<(), WriteError> {
        if volume.status.phase == "Failed" {
            return Ok(());
        }
        let failed = self.enter(volume, "Failed", &notice.message).await?;
        notice.record(&self.recorder, &*failed);
        Ok(())
    }

    /// Takes the claim from `volume`, which becomes available.
    ///
    /// Upstream: `unbindVolume`.
    pub(super) async fn unbind(&self, volume: &PersistentVolume) -> Result<(), WriteError> {
        let body = edits::unbound(volume);
        let volume = self.objects.put_volume(volume, Part::Main, &body).await?;
        self.enter(&volume, "Available", "").await?;
        Ok(())
    }
}
