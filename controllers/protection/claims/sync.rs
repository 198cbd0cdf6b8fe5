//! One sync of one claim: its condition `Unused`, then its finalizer.
//!
//! Upstream: `processPVC`. The condition comes first there too, and only on claims that are not
//! deleted.

use std::sync::Arc;

use steersman_client::writes::with_member;
use steersman_client::{ApiClient, Target};
use steersman_helpers::pods_by_claim::PodsByClaim;
use steersman_objects::{ObjectKey, PersistentVolumeClaim};
use steersman_runtime::keyed::ObjectSyncer;
use steersman_runtime::workers::Requeue;
use steersman_runtime::workqueue::WorkQueue;
use steersman_values::clock::Clock;

use super::super::{Finalizers, SyncError, Use};
use super::live_pods::LivePods;
use super::unused::{self, Tracked};
use super::usage::{self, Usage};

/// Syncs claims.
pub(super) struct Claims {
    pub(super) pods: PodsByClaim,
    pub(super) live: LivePods,
    pub(super) finalizers: Finalizers<PersistentVolumeClaim>,
    /// Its emptiness ends the life of the shared lists.
    pub(super) queue: WorkQueue<ObjectKey>,
    pub(super) client: ApiClient,
    /// The claims with the condition `Unused`.
    pub(super) tracked: Tracked,
    pub(super) clock: Clock,
}

impl Claims {
    async fn settle(
        &self,
        key: &ObjectKey,
        claim: &PersistentVolumeClaim,
    ) -> Result<Requeue, SyncError> {
        let has_condition = self.tracked.includes(claim) && !claim.meta.is_terminating();
        if has_condition && self.note_use(key, claim).await? {
            // The event of the write returns a claim without finalizer to the queue.
            return Ok(Requeue::Never);
        }
        let users = self.users(key, claim, usage::holds);
        self.finalizers.settle(key, claim, users).await
    }

    /// The pods that use the claim. The cache may lack one, and the removal of a finalizer is final,
    /// so the API server is asked too.
    ///
    /// Upstream: `isBeingUsedWith`. The cache goes first, since a user in it spares the list of a
    /// namespace.
    async fn users(
        &self,
        key: &ObjectKey,
        claim: &PersistentVolumeClaim,
        usage: Usage,
    ) -> Result<Use, SyncError> {
        if self.pods.using(key).iter().any(|pod| usage(pod, claim)) {
            return Ok(Use::Cached);
        }
        let is_used = self.live.any(claim, usage).await?;
        Ok(if is_used { Use::Uncached } else { Use::None })
    }

    /// Writes the condition `Unused` if it is wrong. Whether it was.
    async fn note_use(
        &self,
        key: &ObjectKey,
        claim: &PersistentVolumeClaim,
    ) -> Result<bool, SyncError> {
        let is_used = self.users(key, claim, usage::refers).await? != Use::None;
        let Some(status) = unused::corrected(claim, is_used, self.clock.now()) else {
            return Ok(false);
        };
        // The PUT carries the resource version of the decision, so a conflict repeats the sync.
        let body = with_member::<PersistentVolumeClaim>(&claim.document, "status", &status);
        let target = Target::of::<PersistentVolumeClaim>(&claim.meta).status();
        let answer = self.client.replace(target, &body).await;
        self.finalizers.record(key, answer)?;
        Ok(true)
    }

    /// Drops the live lists after the last queued claim.
    fn forget_lists(&self) {
        if self.queue.is_empty() {
            self.live.forget();
        }
    }
}

impl ObjectSyncer for Claims {
    type Object = PersistentVolumeClaim;
    type Error = SyncError;

    async fn sync(
        &self,
        key: &ObjectKey,
        claim: Arc<PersistentVolumeClaim>,
    ) -> Result<Requeue, SyncError> {
        let settled = self.settle(key, &claim).await;
        self.forget_lists();
        settled
    }

    /// A deleted claim leaves the queue by this way, and may be the last one.
    async fn clean_up(&self, _key: &ObjectKey) -> Result<Requeue, SyncError> {
        self.forget_lists();
        Ok(Requeue::Never)
    }
}
