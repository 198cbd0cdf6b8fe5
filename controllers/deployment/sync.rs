//! One sync of one Deployment: reads the caches, calls the decision functions, sends their writes.
//!
//! claim -> new ReplicaSet -> rollback | scaling | rolling | recreate -> cleanup -> status
//!
//! A rolling update makes at most one step per sync. The change of a ReplicaSet or of its status
//! then enqueues the key for the next step. Upstream: `syncDeployment` and `sync.go`.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use steersman_client::{ApiError, Target, Violation};
use steersman_objects::template;
use steersman_objects::{
    Deployment, DeploymentStatus, Object, ObjectKey, ObjectReference, Pod, ReplicaSet, Strategy,
};
use steersman_options::features::{self, FeatureGates};
use steersman_runtime::consistency::{ConsistencyStore, TrackedCache, Unconfirmed, confirmed};
use steersman_runtime::events::{EventRecorder, EventType};
use steersman_runtime::keyed::ObjectSyncer;
use steersman_runtime::owner;
use steersman_runtime::workers::{Requeue, Retry};
use steersman_values::clock::Clock;

use super::annotations::REVISION;
use super::conditions::{self, PROGRESSING, reason};
use super::error::SyncError;
use super::handlers::Caches;
use super::new_replica_set::{self, NewReplicaSet};
use super::replica_sets::ReplicaSets;
use super::resize::Resize;
use super::rollback::{self, Rollback};
use super::writes::Writer;
use super::{cleanup, invariants, pause, progress, recreate, rolling, scaling, status};

/// Syncs Deployments.
pub(super) struct DeploymentController {
    pub(super) caches: Caches,
    /// The cache of Deployments.
    pub(super) deployments_cache: TrackedCache,
    /// The cache of ReplicaSets.
    pub(super) replica_sets_cache: TrackedCache,
    /// Keeps written ReplicaSets, and expects deletions. The answer to a deletion may lack a resource
    /// version.
    pub(super) consistency: ConsistencyStore,
    pub(super) recorder: EventRecorder,
    pub(super) writer: Writer,
    pub(super) clock: Clock,
    pub(super) features: FeatureGates,
}

impl ObjectSyncer for DeploymentController {
    type Object = Deployment;
    type Error = SyncError;

    async fn sync(&self, key: &ObjectKey, d: Arc<Deployment>) -> Result<Requeue, SyncError> {
        match self.work(key, d).run().await {
            // A stale cache and a terminating namespace are no failures.
            Err(SyncError::Check(Unconfirmed::Stale)) => Ok(Requeue::Never),
            Err(error) if error.is_namespace_terminating() || error.is_gone() => Ok(Requeue::Never),
            outcome => outcome,
        }
    }

    fn retry(&self, error: &SyncError, _request: Option<&ApiError>, failures: u32) -> Retry {
        error.retry(failures)
    }
}

impl DeploymentController {
    /// The beginning of a sync of `d`.
    pub(super) fn work<'a>(&'a self, key: &'a ObjectKey, d: Arc<Deployment>) -> Work<'a> {
        Work {
            controller: self,
            key,
            deployment: d,
            sets: ReplicaSets::default(),
            checked: false,
        }
    }
}

/// The state of one sync.
pub(super) struct Work<'a> {
    controller: &'a DeploymentController,
    key: &'a ObjectKey,
    /// The Deployment as cached, or as the last write of this sync returned it.
    deployment: Arc<Deployment>,
    /// The ReplicaSets as cached. The new one is replaced after its creation or update.
    ///
    /// Resizes do not change it: as upstream's, the status has the reported sizes of ReplicaSets,
    /// not the sizes that this sync has just requested.
    pub(super) sets: ReplicaSets,
    /// True after a live read has confirmed both.
    checked: bool,
}

impl Work<'_> {
    /// The order of cases is upstream's: deletion, pause, rollback, scaling, rollout.
    async fn run(mut self) -> Result<Requeue, SyncError> {
        if self
            .deployment
            .spec
            .selector
            .as_ref()
            .is_ok_and(|selector| selector.is_everything())
        {
            return Ok(self.refuse().await);
        }
        if self.claim().await? == Claimed::Adopted {
            // The cached copies lack the adoption, so a write of them would be a conflict.
            return Ok(Requeue::AtOnce);
        }
        // A terminating Deployment still reports its pods, and its rollout stops.
        if self.deployment.meta.is_terminating() {
            self.sync_new().await?;
            return self.write_plain_status().await;
        }
        // Before the pause is obeyed, so that its time does not count against the deadline.
        if let Some(status) = pause::status(&self.deployment, self.now()) {
            self.write_status(status, None).await?;
        }
        let rollback = rollback::requested(&self.deployment);
        if self.deployment.spec.paused {
            self.sync_new().await?;
            self.resize_all(&scaling::resizes(&self.deployment, &self.sets))
                .await?;
            // A rollback may need the old ReplicaSets, so they stay until it is done.
            if rollback.is_none() {
                self.clean_history().await?;
            }
            return self.write_plain_status().await;
        }
        if let Some(revision) = rollback {
            self.sync_or_create_new().await?;
            return self.roll_back(revision).await;
        }
        self.sync_new().await?;
        // Upstream ends the sync with any scaling event. Without a resize, the rollout goes on here.
        if scaling::is_scaling_event(&self.deployment, &self.sets) {
            let resizes = scaling::resizes(&self.deployment, &self.sets);
            if !resizes.is_empty() {
                self.resize_all(&resizes).await?;
                return self.write_plain_status().await;
            }
        }
        match &self.deployment.spec.strategy {
            Strategy::RollingUpdate { .. } => self.roll().await,
            Strategy::Recreate => self.recreate().await,
            Strategy::Other(kind) => Err(SyncError::Strategy(kind.clone())),
        }
    }

    fn now(&self) -> Timestamp {
        self.controller.clock.now()
    }

    fn event(&self, kind: EventType, reason: &'static str, message: String) {
        self.controller.recorder.event(
            ObjectReference::of(&*self.deployment),
            kind,
            reason,
            message,
        );
    }

    /// Reports a Deployment with an empty selector, and updates only its observed generation. Such
    /// a selector matches all pods of the namespace.
    ///
    /// Upstream: the first check of `syncDeployment`. A failed write is only logged, as there.
    async fn refuse(&mut self) -> Requeue {
        let message = "This deployment is selecting all pods. A non-empty selector is required.";
        self.event(EventType::Warning, "SelectingAll", message.to_owned());
        let mut status = self.deployment.status.clone();
        status.observed_generation = status
            .observed_generation
            .max(self.deployment.meta.generation);
        if let Err(error) = self.write_status(status, None).await {
            tracing::debug!(%error, "observed generation was not written");
        }
        Requeue::Never
    }

    /// Finds the ReplicaSets that belong to the Deployment.
    ///
    /// Upstream: `getReplicaSetsForDeployment`. Own writes that the cache lacks come from `consistency`.
    async fn claim(&mut self) -> Result<Claimed, SyncError> {
        let controller = self.controller;
        let d = &*self.deployment;
        let invalid = |source: &_| SyncError::Selector {
            key: self.key.clone(),
            source: Clone::clone(source),
        };
        let selector = d.spec.selector.as_ref().map_err(invalid)?;
        let candidates = controller
            .caches
            .replica_sets
            .candidates::<Deployment>(&d.meta);
        let claimed = owner::claim(controller.writer.client(), d, selector, candidates).await?;
        if claimed.written.is_empty() {
            self.sets =
                ReplicaSets::of(d, controller.consistency.newest(self.key, claimed.objects));
            return Ok(Claimed::All);
        }
        for version in claimed.written {
            controller.replica_sets_cache.wrote_at(self.key, version);
        }
        Ok(Claimed::Adopted)
    }

    /// Updates the new ReplicaSet, if there is one, with annotations and settings of the
    /// Deployment. Then sets the revision of the Deployment.
    ///
    /// Upstream: the first half of `getNewReplicaSet`. Without a new ReplicaSet there is nothing to do: only
    /// a rollout creates one.
    async fn sync_new(&mut self) -> Result<(), SyncError> {
        if let Some(object) = new_replica_set::update(&self.deployment, &self.sets)
            && let Some(rs) = self.sets.new.clone()
        {
            self.sets.new = Some(self.put_replica_set(&rs, &object).await?);
        }
        let Some(rs) = &self.sets.new else {
            return Ok(());
        };
        let revision = rs.annotations.get(REVISION).map(str::to_owned);
        let status = progress::found_new(&self.deployment, &rs.meta.name, self.now());
        self.write_status(status, revision.as_deref()).await
    }

    /// Updates the new ReplicaSet ([`Work::sync_new`]), or creates it.
    async fn sync_or_create_new(&mut self) -> Result<(), SyncError> {
        if self.sets.new.is_some() {
            self.sync_new().await
        } else {
            self.create_new().await
        }
    }

    /// Creates the new ReplicaSet, and writes its revision to the Deployment.
    ///
    /// Upstream: the second half of `getNewReplicaSet`. The name depends on the template, so a creation that
    /// is repeated after a lost answer meets its own ReplicaSet.
    async fn create_new(&mut self) -> Result<(), SyncError> {
        self.check().await?;
        let writer = &self.controller.writer;
        let d = Arc::clone(&self.deployment);
        let hash = |template: &_| template::hash(template, d.status.collision_count);
        let new = new_replica_set::build(&d, &self.sets, hash)?;
        self.permit(invariants::stays_within_surge(&d, &self.sets, new.size))?;
        let rs = match writer
            .create_replica_set(&d.meta.namespace, &new.object)
            .await
        {
            Ok(rs) => rs,
            Err(error) if error.is_already_exists() => {
                return self.resolve_taken_name(new, error).await;
            }
            Err(error) => return Err(self.creation_failed(new.name, error).await),
        };
        let rs = Arc::new(rs);
        self.controller.replica_sets_cache.wrote(self.key, &rs);
        let name = &*rs.meta.name;
        let revision = new.revision;
        let replicas = new.size;
        tracing::debug!(
            replicaSet = name,
            revision,
            replicas,
            "Created new replica set"
        );
        if new.size > 0 {
            let message = format!(
                "Scaled up replica set {} from 0 to {}",
                rs.meta.name, new.size
            );
            self.event(EventType::Normal, "ScalingReplicaSet", message);
        }
        let created = Deployment {
            status: progress::created_new(&d, &rs.meta.name, self.now()),
            ..Deployment::clone(&d)
        };
        self.sets.new = Some(rs);
        // The first write after the creation: the progress deadline starts here, even if this
        // process ends now. It has the counts too, so the end of the sync needs no second write.
        let status = progress::rollout_status(&created, &self.sets, self.now());
        self.write_status(self.reported(status), Some(&new.revision.to_string()))
            .await
    }

    /// Handles a creation that failed because another ReplicaSet has the name.
    ///
    /// If that is the Deployment's own new ReplicaSet, which the cache shows by now, the sync
    /// uses it. Otherwise the hash collided: the collision count changes the hash of the next sync.
    ///
    /// The cache is asked, and not the API server: a ReplicaSet that it does not show yet leads to a retry.
    async fn resolve_taken_name(
        &mut self,
        new: NewReplicaSet,
        error: ApiError,
    ) -> Result<(), SyncError> {
        let d = Arc::clone(&self.deployment);
        let failure = SyncError::Create {
            name: new.name.clone(),
            source: error,
        };
        let Some(rs) = self
            .controller
            .caches
            .replica_sets
            .store()
            .get(&ObjectKey::new(&d.meta.namespace, &new.name))
        else {
            return Err(failure);
        };
        if rs.meta.is_controlled_by(&d.meta.uid)
            && rs.spec.template.equal_ignoring_hash(&d.spec.template)
        {
            self.sets.new = Some(rs);
            return self
                .write_status(d.status.clone(), Some(&new.revision.to_string()))
                .await;
        }
        let mut status = d.status.clone();
        let collisions = status.collision_count.unwrap_or(0).saturating_add(1);
        status.collision_count = Some(collisions);
        match self.write_status(status, None).await {
            Ok(()) => tracing::debug!(
                replicaSet = new.name,
                newCollisionCount = collisions,
                "Found a hash collision for deployment - bumping collisionCount to resolve it"
            ),
            Err(error) => tracing::debug!(%error, "collision count was not written"),
        }
        Err(failure)
    }

    /// Reports a failed creation of the new ReplicaSet in the status and as an Event.
    ///
    /// The Event names the same reason as the condition. A terminating namespace needs neither.
    async fn creation_failed(&mut self, name: String, error: ApiError) -> SyncError {
        let message = format!("Failed to create new replica set {name:?}: {error}");
        let failure = SyncError::Create {
            name,
            source: error,
        };
        if failure.is_fenced() || failure.is_namespace_terminating() {
            return failure;
        }
        let status = progress::creation_failed(&self.deployment, &message, self.now());
        if let Err(error) = self.write_status(status, None).await {
            tracing::debug!(%error, "failed creation was not written to the status");
        }
        self.event(
            EventType::Warning,
            reason::REPLICA_SET_CREATE_ERROR,
            message,
        );
        failure
    }

    /// One step of a rolling update: resizes the new ReplicaSet, or else scales the old ones down.
    /// The next step follows after the status of a ReplicaSet shows the effect of this one.
    ///
    /// Upstream: `rolloutRolling`. Growth comes first, as it costs no availability.
    async fn roll(mut self) -> Result<Requeue, SyncError> {
        if self.sets.new.is_none() {
            self.create_new().await?;
        }
        if let Some(resize) = rolling::resize_new(&self.deployment, &self.sets)? {
            self.resize_new(&resize).await?;
            return self.write_rollout_status().await;
        }
        let down = rolling::scale_down_old(&self.deployment, &self.sets);
        let scaled = self.scale_down_old(&down.resizes).await;
        // Only the end of leadership leaves out the status. After other failures it is written, since some
        // resizes may have succeeded.
        if scaled.as_ref().is_err_and(SyncError::is_fenced) {
            return scaled.map(|()| Requeue::Never);
        }
        if scaled.is_err() || !down.stale && !down.resizes.is_empty() {
            let requeue = self.write_rollout_status().await?;
            return scaled.map(|()| requeue);
        }
        self.finish().await
    }

    /// One step of a Recreate rollout: scales the old ReplicaSets to zero, waits until their pods
    /// are gone, then creates the new ReplicaSet in full size.
    ///
    /// Upstream: `rolloutRecreate`.
    async fn recreate(mut self) -> Result<Requeue, SyncError> {
        let emptied = recreate::empty_old(&self.sets);
        self.resize_all(&emptied).await?;
        if !emptied.is_empty() || recreate::old_pods_running(&self.sets, &self.old_pods()) {
            return self.write_rollout_status().await;
        }
        self.start_alone().await?;
        self.finish().await
    }

    /// Starts the new pods of a Recreate rollout.
    pub(super) async fn start_alone(&mut self) -> Result<(), SyncError> {
        self.permit(invariants::starts_alone(&self.sets))?;
        if self.sets.new.is_none() {
            self.create_new().await?;
        }
        if let Some(resize) = recreate::resize_new(&self.deployment, &self.sets) {
            self.resize_new(&resize).await?;
        }
        Ok(())
    }

    /// Refuses the next write if `checked` is a violation.
    fn permit(&self, checked: Result<(), Violation>) -> Result<(), SyncError> {
        let target = Target::of::<Deployment>(&self.deployment.meta);
        let client = self.controller.writer.client();
        client.permit(target, checked).map_err(SyncError::Refused)
    }

    /// Resizes the new ReplicaSet in a step of a roll-out.
    pub(super) async fn resize_new(&mut self, resize: &Resize) -> Result<(), SyncError> {
        let checked = invariants::stays_within_surge(&self.deployment, &self.sets, resize.to);
        self.permit(checked)?;
        self.resize(resize).await.map(drop)
    }

    /// Scales the old ReplicaSets down in a step of a rolling update.
    pub(super) async fn scale_down_old(&mut self, resizes: &[Resize]) -> Result<(), SyncError> {
        let checked = invariants::keeps_available(&self.deployment, &self.sets, resizes);
        self.permit(checked)?;
        self.resize_all(resizes).await
    }

    fn old_pods(&self) -> Vec<Arc<Pod>> {
        let pods = &self.controller.caches.pods;
        self.sets
            .old
            .iter()
            .flat_map(|rs| pods.controlled_by::<ReplicaSet>(&rs.meta))
            .collect()
    }

    /// Ends a sync in which no ReplicaSet needs a resize. The served status decides about completeness, as
    /// upstream, so old ReplicaSets go one sync later.
    async fn finish(mut self) -> Result<Requeue, SyncError> {
        if progress::is_complete(&self.deployment, &self.deployment.status) {
            self.clean_history().await?;
        }
        self.write_rollout_status().await
    }

    /// Handles the deprecated rollback annotation: writes the template of `revision` into the
    /// Deployment, removes the annotation, and sends an Event. The key returns with the new spec.
    async fn roll_back(&mut self, revision: i64) -> Result<Requeue, SyncError> {
        self.check().await?;
        let (kind, reason, message, template) = match rollback::decide(
            &self.deployment,
            &self.sets,
            revision,
        ) {
            Rollback::NotFound(why) => (
                EventType::Warning,
                "DeploymentRollbackRevisionNotFound",
                why.to_owned(),
                None,
            ),
            Rollback::Unchanged => {
                let name = &*self.deployment.meta.name;
                let message = format!(
                    "The rollback revision contains the same template as current deployment {name:?}"
                );
                (
                    EventType::Warning,
                    "DeploymentRollbackTemplateUnchanged",
                    message,
                    None,
                )
            }
            Rollback::To { set, revision } => {
                let message = format!(
                    "Rolled back deployment {:?} to revision {revision}",
                    &*self.deployment.meta.name
                );
                (EventType::Normal, "DeploymentRollback", message, Some(set))
            }
        };
        let object = rollback::object(&self.deployment, template.as_deref());
        let d = self
            .controller
            .writer
            .put_deployment(&self.deployment, &object)
            .await
            .map_err(SyncError::Rollback)?;
        self.wrote_deployment(d);
        tracing::debug!(
            revision,
            reason,
            "Rollback requested by annotation was handled"
        );
        self.event(kind, reason, message);
        Ok(Requeue::Never)
    }

    /// Deletes the old ReplicaSets beyond the history limit.
    ///
    /// Upstream: `cleanupDeployment`. The first failure ends it, since the API server may be overloaded.
    async fn clean_history(&mut self) -> Result<(), SyncError> {
        let superfluous = cleanup::superfluous(&self.deployment, &self.sets.old);
        self.delete_all(superfluous).await
    }

    /// Deletes these ReplicaSets, up to the first failure.
    pub(super) async fn delete_all(
        &mut self,
        superfluous: Vec<Arc<ReplicaSet>>,
    ) -> Result<(), SyncError> {
        let checked = invariants::keeps_history(&self.deployment, &self.sets, &superfluous);
        self.permit(checked)?;
        if !superfluous.is_empty() {
            self.check().await?;
        }
        // Deletions of an earlier sync are not visible yet, and the same ReplicaSets would be chosen again.
        let consistency = &self.controller.consistency;
        if superfluous.is_empty() || !consistency.satisfied(self.key) {
            return Ok(());
        }
        let deleted = superfluous.iter().map(|rs| rs.key()).collect();
        consistency.expect_deletions(self.key, deleted);
        let cache = &self.controller.replica_sets_cache;
        let mut outcome = Ok(());
        for rs in superfluous {
            if outcome.is_ok() {
                tracing::debug!(
                    replicaSet = &*rs.meta.name,
                    "Trying to cleanup replica set for deployment"
                );
                let writer = &self.controller.writer;
                match writer.delete_replica_set(self.key, &rs, cache).await {
                    // A known version replaces the expectation.
                    Ok(true) => {}
                    Ok(false) => continue,
                    Err(error) if error.is_object_not_found() => {}
                    Err(source) => {
                        outcome = Err(SyncError::Delete {
                            name: rs.meta.name.to_string(),
                            source,
                        })
                    }
                }
            }
            consistency.deletion_observed(self.key, &rs.key());
        }
        outcome
    }

    /// Resizes in order, up to the first failure. `resizes` may have one ReplicaSet several times:
    /// each write then uses the version of the one before.
    ///
    /// Later resizes are computed before the first write, so only the resource version changes between them.
    async fn resize_all(&mut self, resizes: &[Resize]) -> Result<(), SyncError> {
        let mut written = HashMap::new();
        for resize in resizes {
            let uid = &resize.set.meta.uid;
            let set = written.get(uid).unwrap_or(&resize.set);
            let rs = self
                .resize(&Resize {
                    set: Arc::clone(set),
                    ..*resize
                })
                .await?;
            written.insert(uid, rs);
        }
        Ok(())
    }

    /// Writes one resize. Returns the ReplicaSet as stored.
    async fn resize(&mut self, resize: &Resize) -> Result<Arc<ReplicaSet>, SyncError> {
        let rs = self
            .put_replica_set(&resize.set, &resize.object(&self.deployment))
            .await?;
        let name = &*rs.meta.name;
        let from = resize.set.spec.replicas;
        let to = resize.to;
        match to.cmp(&from) {
            Ordering::Equal => {}
            Ordering::Greater => {
                tracing::debug!(replicaSet = name, from, to, "Scaled up replica set")
            }
            Ordering::Less => {
                tracing::debug!(replicaSet = name, from, to, "Scaled down replica set")
            }
        }
        if let Some(message) = resize.message() {
            self.event(EventType::Normal, "ScalingReplicaSet", message);
        }
        Ok(rs)
    }

    /// Writes a ReplicaSet, and records the write for later syncs.
    ///
    /// The version is recorded, so that the next sync waits for the cache or takes the written object.
    async fn put_replica_set(
        &mut self,
        rs: &ReplicaSet,
        object: &serde_json::Map<String, serde_json::Value>,
    ) -> Result<Arc<ReplicaSet>, SyncError> {
        self.check().await?;
        let failed = |source| SyncError::UpdateReplicaSet {
            name: rs.meta.name.to_string(),
            source,
        };
        let rs = self
            .controller
            .writer
            .put_replica_set(rs, object)
            .await
            .map_err(failed)?;
        let rs = Arc::new(rs);
        self.controller.replica_sets_cache.wrote(self.key, &rs);
        Ok(rs)
    }

    /// Checks caches from before this leadership term with live reads, before the first write of a
    /// ReplicaSet. Fails if they lack writes of the previous leader.
    ///
    /// The resource versions in our writes detect all other effects of a stale cache. But a missing
    /// ReplicaSet lowers the sum of pods, and the rollout would exceed its surge.
    async fn check(&mut self) -> Result<(), SyncError> {
        let controller = self.controller;
        let is_old = controller.deployments_cache.predates_term()
            || controller.replica_sets_cache.predates_term();
        if self.checked || !is_old {
            return Ok(());
        }
        let writer = &controller.writer;
        let is_current = writer.is_current(&self.deployment, &self.sets).await;
        confirmed(is_current).map_err(SyncError::Check)?;
        self.checked = true;
        Ok(())
    }

    /// `status` without the fields of disabled feature gates. Upstream leaves the field out when the gate is
    /// off, so an old value vanishes.
    fn reported(&self, status: DeploymentStatus) -> DeploymentStatus {
        let is_on = self
            .controller
            .features
            .is_on(features::DEPLOYMENT_REPLICA_SET_TERMINATING_REPLICAS);
        DeploymentStatus {
            terminating_replicas: status.terminating_replicas.filter(|_| is_on),
            ..status
        }
    }

    /// Writes the status without a check of the rollout's progress.
    ///
    /// Upstream: `syncDeploymentStatus`. Pauses and scaling are no progress and no lack of it.
    async fn write_plain_status(&mut self) -> Result<Requeue, SyncError> {
        let status = self.reported(status::compute(&self.deployment, &self.sets, self.now()));
        self.write_status(status, None).await?;
        Ok(Requeue::Never)
    }

    /// Writes the status with the `Progressing` condition. If the status is current, requeues for
    /// the progress deadline.
    ///
    /// Upstream: the end of `syncRolloutStatus`.
    async fn write_rollout_status(&mut self) -> Result<Requeue, SyncError> {
        let now = self.now();
        let status = self.reported(progress::rollout_status(&self.deployment, &self.sets, now));
        if status == self.deployment.status {
            let check = progress::next_check(&self.deployment, &status, now);
            return Ok(check.map_or(Requeue::Never, Requeue::After));
        }
        let before = self.deployment.meta.resource_version;
        self.write_status(status, None).await?;
        if self.deployment.meta.resource_version != before {
            // The watch event about this write enqueues the key.
            return Ok(Requeue::Never);
        }
        // An older server may drop all changed fields. The object then keeps its version, and
        // no event comes.
        let check = progress::next_check(&self.deployment, &self.deployment.status, now);
        Ok(check.map_or(Requeue::Never, Requeue::After))
    }

    /// Writes status and revision, if one of them differs from the current value.
    ///
    /// One request serves both. An equal status is no write, so a complete Deployment stays silent.
    async fn write_status(
        &mut self,
        status: DeploymentStatus,
        revision: Option<&str>,
    ) -> Result<(), SyncError> {
        let current = self
            .deployment
            .annotations
            .get(REVISION)
            .unwrap_or_default();
        let revision = revision.filter(|revision| *revision != current);
        if revision.is_none() && status == self.deployment.status {
            return Ok(());
        }
        let written = self
            .controller
            .writer
            .put_status(&self.deployment, &status, revision)
            .await;
        let before = Arc::clone(&self.deployment);
        self.wrote_deployment(written.map_err(SyncError::Status)?);
        self.log_progress(&before.status);
        Ok(())
    }

    /// Logs the success or the missed deadline of a rollout, for operators without access to its
    /// conditions.
    fn log_progress(&self, before: &DeploymentStatus) {
        let is_new = |reason| {
            let has = |status: &DeploymentStatus| {
                conditions::has_reason(&status.conditions, PROGRESSING, reason)
            };
            has(&self.deployment.status) && !has(before)
        };
        if is_new(reason::NEW_REPLICA_SET_AVAILABLE) {
            let replicas = self.deployment.status.replicas;
            tracing::debug!(replicas, "Finished rolling out deployment");
        } else if is_new(reason::PROGRESS_DEADLINE_EXCEEDED) {
            tracing::debug!("Deployment timed out from last progress check");
        }
    }

    /// Continues with the Deployment as the server stored it. Its resource version is the one that
    /// the next write needs.
    fn wrote_deployment(&mut self, d: Deployment) {
        self.controller
            .deployments_cache
            .wrote_at(self.key, d.meta.resource_version);
        self.deployment = Arc::new(d);
    }
}

/// The result of a claim.
#[derive(PartialEq)]
enum Claimed {
    /// The cached ReplicaSets of the Deployment are complete.
    All,
    /// The controller adopted some, and their cached copies are outdated.
    Adopted,
}
