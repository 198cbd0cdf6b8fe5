//! The check that the caches show claims and volumes as the API server has them.
//!
//! The caches of a new leader may lack changes from before its term. A volume that it bound by them
//! would be lost to a claim that is gone.
//!
//! Upstream has no such check. Its new leader trusts its caches, and a conflict repairs only those
//! writes whose object has changed.

use std::sync::atomic::{AtomicBool, Ordering};

use steersman_client::ApiClient;
use steersman_objects::{ObjectKey, PersistentVolume, PersistentVolumeClaim};
use steersman_runtime::consistency::{ConsistencyStore, TrackedCache, Unconfirmed, confirmed};
use steersman_runtime::controller::{ControllerContext, INFORMERS};
use steersman_runtime::informer::Store;
use steersman_values::labels::Labels;

/// Compares the caches with the API server, while they are older than the leadership term.
pub(super) struct CurrentCheck {
    claims: TrackedCache,
    volumes: TrackedCache,
    /// Whether the cache of volumes was once as new as the API server in this term.
    ///
    /// One list is enough: the watch continues from there.
    volumes_confirmed: AtomicBool,
    /// Reads in place of caches, with the rights of the informers.
    lists: ApiClient,
}

impl CurrentCheck {
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

    /// Fails if the cache shows an old state of `claim`, which may be gone. `client` may read claims.
    ///
    /// A claim is confirmed only before the write that points a volume at it. All later writes carry
    /// the version of the claim itself.
    pub(super) async fn confirm_claim(
        &self,
        client: &ApiClient,
        claim: &PersistentVolumeClaim,
    ) -> Result<(), Unconfirmed> {
        let age = self.claims.age();
        confirmed(
            age.shows::<PersistentVolumeClaim>(client, &claim.meta)
                .await,
        )
    }

    /// Fails if `cached` may lack a volume that fits a claim better than those it shows. Asks the API
    /// server until the answer is yes once.
    ///
    /// A claim that chose its volume by an old cache would keep a worse one for ever.
    pub(super) async fn confirm_volumes(
        &self,
        cached: &Store<PersistentVolume>,
    ) -> Result<(), Unconfirmed> {
        let age = self.volumes.age();
        if !age.predates_term() || self.volumes_confirmed.load(Ordering::Relaxed) {
            return Ok(());
        }
        let all = Labels::default();
        confirmed(age.shows_all(&self.lists, "", &all, &cached.list()).await)?;
        self.volumes_confirmed.store(true, Ordering::Relaxed);
        Ok(())
    }
}
