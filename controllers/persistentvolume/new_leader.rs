//! Whether the caches show claims and volumes as the API server has them.
//!
//! The caches of a new leader may lack changes from before its term. A volume that it bound by them
//! would be lost to a claim that is gone.

use std::sync::atomic::{AtomicBool, Ordering};

use steersman_client::ApiClient;
use steersman_client::live::{self, LiveError};
use steersman_objects::{ObjectKey, PersistentVolume, PersistentVolumeClaim};
use steersman_runtime::consistency::{ConsistencyStore, TrackedCache};
use steersman_runtime::controller::{ControllerContext, INFORMERS};
use steersman_runtime::informer::Store;
use steersman_values::labels::Labels;

/// Compares the caches with the API server, while they are older than the leadership term.
pub(super) struct Seen {
    claims: TrackedCache,
    volumes: TrackedCache,
    /// Whether the cache of volumes was once as new as the API server in this term.
    volumes_confirmed: AtomicBool,
    /// Reads in place of caches, with the rights of the informers.
    lists: ApiClient,
}

impl Seen {
    pub(super) fn of(ctx: &ControllerContext) -> Self {
        let consistency = ConsistencyStore::<ObjectKey>::new(ctx.term_start_rv);
        let claims = ctx.informers.shared::<PersistentVolumeClaim>();
        let volumes = ctx.informers.shared::<PersistentVolume>();
        Self {
            claims: consistency.track(claims.versioned()),
            volumes: consistency.track(volumes.versioned()),
            volumes_confirmed: AtomicBool::new(false),
            lists: ctx.client(INFORMERS),
        }
    }

    /// Whether the API server has this version of `claim`. `client` may read claims.
    pub(super) async fn has_claim(
        &self,
        client: &ApiClient,
        claim: &PersistentVolumeClaim,
    ) -> Result<bool, LiveError> {
        if !self.claims.predates_term() {
            return Ok(true);
        }
        live::is_current::<PersistentVolumeClaim>(client, &claim.meta).await
    }

    /// Whether no volume is missing in `cached`. Asks the API server until the answer is yes once.
    pub(super) async fn has_volumes(
        &self,
        cached: &Store<PersistentVolume>,
    ) -> Result<bool, LiveError> {
        let is_confirmed = || self.volumes_confirmed.load(Ordering::Relaxed);
        if !self.volumes.predates_term() || is_confirmed() {
            return Ok(true);
        }
        let are_current =
            live::are_current(&self.lists, "", &Labels::default(), &cached.list()).await?;
        self.volumes_confirmed.store(are_current, Ordering::Relaxed);
        Ok(are_current)
    }
}
