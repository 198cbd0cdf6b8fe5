//! The check of a new leader that its caches have the writes of the previous leader.
//!
//! The caches of a standby can be older than the last writes of the previous leader. Live reads
//! compare the caches with the API server before the first write, until the caches are newer than
//! the leadership term. Without them,
//!
//! - an ordered set would create or delete a pod out of order,
//! - the status would show the pods of an earlier time,
//! - two revisions would get the same number,
//! - a new pod would mount a claim that the garbage collector is about to delete,
//! - the claim of a condemned pod would not belong to the pod, and remain after its deletion.
//!
//! Upstream has no such check. Its new leader acts on caches that may be seconds old.

use std::sync::Arc;

use steersman_client::ApiClient;
use steersman_client::live::{self, Live, LiveError};
use steersman_objects::{
    ControllerRevision, Meta, Object, ObjectKey, PersistentVolumeClaim, Pod, Retention, StatefulSet,
};
use steersman_runtime::consistency::TrackedCache;
use steersman_runtime::owner::{self, Claim};
use steersman_runtime::workqueue::WorkQueue;
use steersman_values::labels::Selector;

use super::claims;
use super::identity::is_member;
use super::writes::Of;

/// Compares the caches of a new leader with the API server.
///
/// After the caches have passed the term, all checks answer at once, without a request.
pub(super) struct CurrentCheck {
    pub(super) client: ApiClient,
    pub(super) queue: WorkQueue<ObjectKey>,
    pub(super) sets_cache: TrackedCache,
    pub(super) pods_cache: TrackedCache,
    pub(super) claims_cache: TrackedCache,
    pub(super) revisions_cache: TrackedCache,
}

impl CurrentCheck {
    /// True if the caches have the set, its `pods` and its `revisions` as the API server has them.
    /// If not, the key returns to the queue when the cache has caught up.
    ///
    /// The order saves requests: a set that is old makes the rest useless.
    pub(super) async fn holds(
        &self,
        of: Of<'_>,
        selector: &Selector,
        pods: &[Arc<Pod>],
        revisions: &[Arc<ControllerRevision>],
    ) -> Result<bool, LiveError> {
        let set = &of.set.meta;
        let age = self.sets_cache.age();
        if !age.shows::<StatefulSet>(&self.client, set).await? {
            // The missing event enqueues the key.
            return Ok(false);
        }
        let belongs = |pod: &Meta| is_claimed(set, selector, pod);
        let cache = &self.pods_cache;
        if !self.agrees(cache, of, selector, pods, belongs).await? {
            return Ok(false);
        }
        // Orphans count as well, since the sync adopts them.
        let belongs = |revision: &Meta| {
            let controller = revision.controller();
            controller.is_none_or(|owner| owner.uid == set.uid)
        };
        self.agrees(&self.revisions_cache, of, selector, revisions, belongs)
            .await
    }

    /// True if `cached` are the live objects of the type `T` that `selector` matches and that
    /// belong to the set.
    async fn agrees<T: Object>(
        &self,
        cache: &TrackedCache,
        of: Of<'_>,
        selector: &Selector,
        cached: &[Arc<T>],
        belongs: impl Fn(&Meta) -> bool,
    ) -> Result<bool, LiveError> {
        if !cache.predates_term() {
            return Ok(true);
        }
        let Live { objects, .. } =
            live::matching::<T>(&self.client, &of.key.namespace, selector).await?;
        let live = objects.iter().map(Object::meta);
        let live = live.filter(|meta| belongs(meta));
        let cached = cached.iter().map(|object| object.meta());
        Ok(cache.agrees(of.key, &self.queue, live, cached))
    }

    /// True if `cached` finds the claims of the pod with this ordinal as the API server has them.
    /// If not, the key returns to the queue when the cache has caught up.
    ///
    /// A claim can belong to a pod only by the policy `whenScaled`.
    ///
    /// Claims are read one by one: a list of the namespace would contain those of all sets.
    pub(super) async fn claims_hold(
        &self,
        of: Of<'_>,
        ordinal: i64,
        cached: impl Fn(&str) -> Option<Arc<PersistentVolumeClaim>>,
    ) -> Result<bool, LiveError> {
        let when_scaled = of.set.spec.claim_retention.when_scaled;
        if when_scaled == Retention::Retain || !self.claims_cache.predates_term() {
            return Ok(true);
        }
        for name in claims::names(of.set, ordinal) {
            let client = &self.client;
            let namespace = &of.key.namespace;
            let live = live::version::<PersistentVolumeClaim>(client, namespace, &name).await?;
            let shown = cached(&name).map(|claim| claim.meta.resource_version);
            match live {
                Some(live) if shown.is_none_or(|shown| shown < live) => {
                    self.claims_cache.await_version(of.key, live, &self.queue);
                    return Ok(false);
                }
                // The missing event enqueues the key.
                None if shown.is_some() => return Ok(false),
                _ => {}
            }
        }
        Ok(true)
    }

    /// True if the cache of claims is older than the leadership term, and claims may need owners. The
    /// key then returns to the queue once the cache is new enough: an older one may lack claims with
    /// wrong owners, and their events enqueue no set. A set that retains all claims gives them no owners, so
    /// their state plays no part.
    pub(super) fn revisits_claims(&self, of: Of<'_>) -> bool {
        !of.set.spec.claim_retention.retains_all()
            && self.claims_cache.revisit_in_term(of.key, &self.queue)
    }
}

/// Whether a claim of the pods of `set` keeps or adopts `pod`. Other orphans never become pods of the
/// set, so waiting for them would not end.
fn is_claimed(set: &Meta, selector: &Selector, pod: &Meta) -> bool {
    let claim = owner::decide(set, selector, pod);
    let is_ours = matches!(claim, Claim::Keep { ours: true } | Claim::Adopt);
    is_ours && is_member(&set.name, &pod.name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::pods::pod;
    use crate::testing::{stateful_set, time};

    #[test]
    fn pods_that_the_set_may_claim_are_compared() {
        let set = || stateful_set("web");
        let owner = |uid: &str| json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": uid, "controller": true}]);
        let of = |uid: &str| pod("web-0").metadata("ownerReferences", owner(uid));
        // (why, set, pod, whether it is compared)
        let cases = [
            ("own", set(), of("uid-of-web"), true),
            ("own, terminating", set(), of("uid-of-web").deleted(1), true),
            ("of another set", set(), of("other"), false),
            ("an orphan", set(), pod("web-0"), true),
            (
                "a terminating orphan",
                set(),
                pod("web-0").deleted(1),
                false,
            ),
            ("an orphan of another name", set(), pod("db-0"), false),
            (
                "an orphan, the set is terminating",
                set().metadata("deletionTimestamp", time(1)),
                pod("web-0"),
                false,
            ),
        ];
        for (why, set, pod, expected) in cases {
            let set = set.build();
            let pod = pod.build();
            let selector = set.spec.selector.as_ref().unwrap();
            assert_eq!(
                is_claimed(&set.meta, selector, &pod.meta),
                expected,
                "{why}"
            );
        }
    }
}
