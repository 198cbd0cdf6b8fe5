//! The requests about revisions: finds or creates the current one, and deletes superfluous ones.
//!
//! Upstream: `constructHistory`, `snapshot` and `cleanupHistory` in `update.go`.

use std::sync::Arc;

use serde_json::json;
use steersman_client::writes::{OnFailure, write_status};
use steersman_client::{ApiClient, ApiError, Target};
use steersman_helpers::history::{History, Proposal, REVISION_LABEL, Style};
use steersman_objects::{ControllerRevision, DaemonSet, Meta, Object, ObjectKey};
use steersman_runtime::consistency::TrackedCache;
use steersman_runtime::owner::claim;
use steersman_runtime::pod_control::{Owner, PodControl};

use super::error::HistoryError;
use super::history::{Matched, label};

/// The revisions of all DaemonSets.
pub(super) struct Revisions {
    pub(super) history: History,
    pub(super) client: ApiClient,
    /// The cache of revisions.
    pub(super) cache: TrackedCache,
    /// The cache of DaemonSets.
    pub(super) owners_cache: TrackedCache,
}

/// The revisions of a DaemonSet, after the current one was found or created.
pub(super) struct Constructed {
    /// The label of the current revision and of its pods.
    pub(super) hash: String,
    /// The other revisions, with the lowest number first.
    pub(super) old: Vec<Arc<ControllerRevision>>,
}

impl Revisions {
    /// Finds the current revision of `owner`, or creates it. Merges duplicates of it, and gives it
    /// the highest number.
    ///
    /// `None` if the caches are stale: the DaemonSet is old after a change of leader, or pods were
    /// relabelled. The missing event enqueues the key.
    pub(super) async fn construct(
        &self,
        owner: Owner<'_, DaemonSet>,
        control: &PodControl,
    ) -> Result<Option<Constructed>, HistoryError> {
        let Owner {
            key, object: ds, ..
        } = owner;
        let revisions = self.labelled(key, self.claimed(owner).await?).await?;
        let template = ds.template();
        let count = ds.status.collision_count;
        let propose = |number| {
            let meta = &ds.meta;
            let document = &ds.document;
            Proposal::new::<DaemonSet>(Style::DaemonSet, meta, document, &template, count, number)
        };
        let matched = Matched::new(revisions, &propose(0));
        let number = matched.number();
        let is_settled = |current: &Arc<ControllerRevision>| {
            current.revision >= number && matched.duplicates.is_empty()
        };
        if !matched.current.as_ref().is_some_and(is_settled) && !self.is_current(&ds.meta).await? {
            return Ok(None);
        }
        let current = match &matched.current {
            Some(current) => {
                if self.merge(owner, control, &matched, current).await? {
                    return Ok(None);
                }
                if current.revision < number {
                    let renumbered = self.history.renumber(current, number).await;
                    self.record(key, &renumbered.map_err(HistoryError::Request)?);
                }
                Arc::clone(current)
            }
            None => Arc::new(self.create(owner, &propose(number)).await?),
        };
        Ok(Some(Constructed {
            hash: label(&current).map_or_else(String::new, ToString::to_string),
            old: matched.old,
        }))
    }

    /// Deletes `revisions` one by one. The first failure ends it.
    ///
    /// A revision that is gone already is no failure.
    pub(super) async fn delete(
        &self,
        revisions: Vec<&Arc<ControllerRevision>>,
    ) -> Result<(), ApiError> {
        for revision in revisions {
            self.history.delete(revision).await?;
        }
        Ok(())
    }

    /// True if the cached DaemonSet with the metadata `ds` is not older than this leadership term,
    /// or equals the live one.
    pub(super) async fn is_current(&self, ds: &Meta) -> Result<bool, HistoryError> {
        let age = self.owners_cache.age();
        let is_current = age.shows::<DaemonSet>(&self.client, ds).await;
        is_current.map_err(HistoryError::Check)
    }

    /// The cached revisions of `owner`, after adoption and release.
    ///
    /// Upstream: `controlledHistories`.
    async fn claimed(
        &self,
        owner: Owner<'_, DaemonSet>,
    ) -> Result<Vec<Arc<ControllerRevision>>, HistoryError> {
        let Owner {
            key,
            object,
            selector,
        } = owner;
        let candidates = self.history.candidates::<DaemonSet>(&object.meta);
        let claimed = claim(&self.client, object, selector, candidates).await;
        let claimed = claimed.map_err(HistoryError::Claim)?;
        for version in claimed.written {
            self.cache.wrote_at(key, version);
        }
        Ok(claimed.objects)
    }

    /// Gives each revision without a label its own name as label, as upstream does.
    ///
    /// Such revisions are from before the label existed. The name needs no hash, so no collision is possible.
    async fn labelled(
        &self,
        key: &ObjectKey,
        mut revisions: Vec<Arc<ControllerRevision>>,
    ) -> Result<Vec<Arc<ControllerRevision>>, HistoryError> {
        for revision in &mut revisions {
            if label(revision).is_none() {
                let name = &revision.meta.name;
                let written = self.history.label(revision, REVISION_LABEL, name).await;
                let written = written.map_err(HistoryError::Request)?;
                self.record(key, &written);
                *revision = Arc::new(written);
            }
        }
        Ok(revisions)
    }

    /// Deletes the duplicates of `current`, after their pods got its label. True if pods got it.
    ///
    /// Upstream: `dedupCurHistories`. Pods come first: a pod with the label of a deleted revision would look
    /// old.
    async fn merge(
        &self,
        owner: Owner<'_, DaemonSet>,
        control: &PodControl,
        matched: &Matched,
        current: &ControllerRevision,
    ) -> Result<bool, HistoryError> {
        if matched.duplicates.is_empty() {
            return Ok(false);
        }
        let pods = control.claim(owner, control.candidates(owner)).await;
        let pods = pods.map_err(HistoryError::Claim)?;
        let relabelled = matched.of_duplicates(&pods);
        let hash = label(current).map_or("", |label| label);
        for pod in &relabelled {
            let labels = json!({ REVISION_LABEL: hash });
            let patch = json!({"metadata": {"uid": pod.meta.uid.to_string(), "labels": labels}});
            let patched = control.patch(owner.key, &pod.meta, &patch).await;
            patched.map_err(HistoryError::Request)?;
        }
        let duplicates = matched.duplicates.iter().collect();
        let deleted = self.delete(duplicates).await;
        deleted.map_err(HistoryError::Request)?;
        Ok(!relabelled.is_empty())
    }

    /// Creates the revision `proposal`. If a different revision has its name, increases the
    /// collision count and returns the error, so that the next sync uses another name.
    ///
    /// Upstream: `snapshot`. An equal revision of that name is the result of an earlier attempt, and is used.
    async fn create(
        &self,
        owner: Owner<'_, DaemonSet>,
        proposal: &Proposal<'_>,
    ) -> Result<ControllerRevision, HistoryError> {
        let Owner {
            key, object: ds, ..
        } = owner;
        let name = proposal.name(ds.status.collision_count);
        let namespace = &ds.meta.namespace;
        match self.history.create_as(namespace, proposal, &name).await {
            Ok(created) => {
                self.record(key, &created);
                Ok(created)
            }
            Err(taken) if taken.is_already_exists() => {
                let stored = self.history.get(namespace, &name).await;
                let stored = stored.map_err(HistoryError::Request)?;
                if proposal.equals(&stored) {
                    return Ok(stored);
                }
                self.count_collision(key, ds).await?;
                Err(HistoryError::Request(taken))
            }
            Err(error) => Err(HistoryError::Request(error)),
        }
    }

    /// Increases `status.collisionCount`, unless the cached count is stale.
    ///
    /// Upstream compares the counts in `snapshot` too. A stale count would be raised twice for one collision.
    async fn count_collision(&self, key: &ObjectKey, ds: &DaemonSet) -> Result<(), HistoryError> {
        let answer = self.client.get(Target::of::<DaemonSet>(&ds.meta)).await;
        let answer = answer.map_err(HistoryError::Request)?;
        let live = DaemonSet::decode(&answer).map_err(HistoryError::Answer)?;
        if live.meta.uid != ds.meta.uid {
            return Err(HistoryError::Replaced(live.meta.uid));
        }
        if live.status.collision_count != ds.status.collision_count {
            return Err(HistoryError::StaleCollisionCount {
                name: ds.meta.name.to_string(),
                cached: ds.status.collision_count,
                live: live.status.collision_count,
            });
        }
        let mut status = live.status.clone();
        let count = status.collision_count.unwrap_or(0).saturating_add(1);
        status.collision_count = Some(count);
        let meta = &live.meta;
        let document = &live.document;
        let return_it = OnFailure::Return;
        let written =
            write_status::<DaemonSet>(&self.client, meta, document, &status, return_it).await;
        let answer = written.map_err(HistoryError::Status)?;
        let written = DaemonSet::decode(&answer).map_err(HistoryError::Answer)?;
        self.owners_cache
            .wrote_at(key, written.meta.resource_version);
        tracing::debug!(
            collisionCount = count,
            "Found a hash collision for DaemonSet - bumping collisionCount to resolve it"
        );
        Ok(())
    }

    /// Records a written revision, so that the next sync waits for the cache to show it.
    fn record(&self, key: &ObjectKey, revision: &ControllerRevision) {
        self.cache.wrote_at(key, revision.meta.resource_version);
    }
}
