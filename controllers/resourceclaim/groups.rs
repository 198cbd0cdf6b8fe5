//! PodGroups, whose pods may share claims. Only with the feature gate `DRAWorkloadResourceClaims`.
//!
//! A claim of a pod is one of its PodGroup if both have the same name and source. Then the claim is
//! made for the PodGroup, and reserved for it.
//!
//! Upstream: `syncPodGroup`, `getPodGroup`, `podGroupNeedsWork` in `controller.go`, and `BindTo` of
//! `k8s.io/dynamic-resource-allocation/resourceclaim`.

use std::sync::Arc;

use steersman_client::live;
use steersman_objects::{
    ClaimConsumer, Object, ObjectKey, Pod, PodClaimName, PodGroup, PodResourceClaim, ResourceClaim,
};
use steersman_runtime::consistency::{ConsistencyStore, TrackedCache};
use steersman_runtime::informer::{Index, IndexKey, SharedInformer, Store};
use steersman_values::intern::Sym;

use super::Shared;
use super::error::{ClaimError, SyncError};
use super::holder::Holder;
use super::key::{Key, index_key, index_keys};

/// The caches of PodGroups and their members.
pub(super) struct Groups {
    pub(super) store: Store<PodGroup>,
    /// PodGroups by namespace and name of the ResourceClaims that they use.
    pub(super) by_claim: Index<PodGroup>,
    /// PodGroups by namespace and name of the templates that they name.
    pub(super) by_template: Index<PodGroup>,
    /// Pods by namespace and name of their PodGroup.
    pub(super) members: Index<Pod>,
    /// Tells whether the cache of PodGroups may lack changes from before the leadership term.
    pub(super) cache: TrackedCache<Key>,
}

impl Groups {
    pub(super) fn new(
        groups: &SharedInformer<PodGroup>,
        pods: &Store<Pod>,
        consistency: &ConsistencyStore<Key>,
    ) -> Self {
        let store = groups.store();
        Self {
            by_claim: store.add_index("podGroupResourceClaim", claims_of),
            by_template: store.add_index("podGroupResourceClaimTemplate", templates_of),
            members: pods.add_index("podGroupMembers", group_of),
            store,
            cache: consistency.track(groups.versioned()),
        }
    }
}

/// The keys of the ResourceClaims that `group` uses by now. Upstream: `podGroupResourceClaimIndexFunc`.
fn claims_of(group: &PodGroup) -> Vec<IndexKey> {
    let claims = group.spec.resource_claims.iter();
    let names = claims.filter_map(|claim| group.claim_name(claim).known());
    index_keys(&group.meta, names)
}

/// Upstream: `podGroupResourceClaimTemplateIndexFunc`.
fn templates_of(group: &PodGroup) -> Vec<IndexKey> {
    let claims = group.spec.resource_claims.iter();
    let names = claims.filter_map(|claim| claim.resource_claim_template_name.as_ref());
    index_keys(&group.meta, names)
}

/// Upstream: `podGroupMemberIndexFunc`.
fn group_of(pod: &Pod) -> Vec<IndexKey> {
    let name = pod.spec.scheduling_group.pod_group_name.iter();
    name.map(|name| index_key(&pod.meta.namespace, name))
        .collect()
}

/// The PodGroup of a pod.
pub(super) enum GroupOf {
    /// The pod has none, or the feature gate is off.
    None,
    /// The cache lacks the PodGroup.
    ///
    /// A sync then fails and comes again, since it cannot tell the pod's own claims from shared ones.
    Missing,
    /// The PodGroup.
    Known(Arc<PodGroup>),
}

impl GroupOf {
    /// The PodGroup, if it is known.
    pub(super) fn known(&self) -> Option<&PodGroup> {
        match self {
            Self::Known(group) => Some(group),
            Self::None | Self::Missing => None,
        }
    }
}

/// The pod or its PodGroup: the one that `claim`, one of the claims of `pod`, belongs to.
///
/// Upstream: `BindTo`. An unknown source in any claim of the PodGroup is an error, if it comes before
/// the match: it might be the shared one.
pub(super) fn bound_to<'a>(
    pod: &'a Pod,
    group: Option<&'a PodGroup>,
    claim: &PodResourceClaim,
) -> Result<Holder<'a>, ClaimError> {
    let Some(group) = group else {
        return Ok(Holder::Pod(pod));
    };
    for shared in &group.spec.resource_claims {
        if let PodClaimName::Unsupported = group.claim_name(shared) {
            return Err(ClaimError::UnsupportedInGroup {
                group: group.key(),
                claim: shared.name.clone(),
            });
        }
        // Name and source have to be equal. A pod claim of the same name with another template is the
        // pod's own.
        if shared == claim {
            return Ok(Holder::Group(group));
        }
    }
    Ok(Holder::Pod(pod))
}

/// Whether a sync of `group` may have something to do. `claim` finds a cached ResourceClaim of its
/// namespace.
///
/// Upstream: `podGroupNeedsWork`. A generated claim that belongs to another owner is no work: the sync
/// has to wait until that claim is gone.
pub(super) fn has_work(
    group: &PodGroup,
    claim: impl Fn(&Sym) -> Option<Arc<ResourceClaim>>,
) -> bool {
    if group.meta.is_terminating() {
        return false;
    }
    let claims = group.spec.resource_claims.iter();
    let mut names = claims.map(|one| group.claim_name(one));
    names.any(|name| match name {
        PodClaimName::NotCreated | PodClaimName::Unsupported => true,
        // The user has to make a claim that the PodGroup names.
        PodClaimName::NotNeeded | PodClaimName::Named(_) => false,
        PodClaimName::Generated(name) => claim(name).is_none(),
    })
}

impl Shared {
    /// The PodGroup of `pod`.
    ///
    /// Upstream: `getPodGroup`.
    pub(super) fn group_of(&self, pod: &Pod) -> GroupOf {
        let name = pod.spec.scheduling_group.pod_group_name.as_ref();
        let Some((groups, name)) = self.groups.as_ref().zip(name) else {
            return GroupOf::None;
        };
        let group = groups.store.get(&ObjectKey::new(&pod.meta.namespace, name));
        group.map_or(GroupOf::Missing, GroupOf::Known)
    }

    /// Makes the missing claims of a PodGroup, and names them in its status. Upstream: `syncPodGroup`.
    pub(super) async fn sync_group(&self, key: &ObjectKey) -> Result<(), SyncError> {
        let cached = self.groups.as_ref().and_then(|of| of.store.get(key));
        let Some(group) = cached.filter(|group| !group.meta.is_terminating()) else {
            self.forget(&Key::Group(key.clone()));
            return Ok(());
        };
        let holder = Holder::Group(&group);
        let found = self.claims_for(holder, None).await?;
        if found.is_empty() {
            return Ok(());
        }
        // The change of the status queues the pods, which may then name the claims as well.
        self.write_status(holder, &found).await
    }

    /// Whether a PodGroup may use a claim that is reserved for it.
    ///
    /// Upstream: the branch of PodGroups in `syncClaim`. A PodGroup never counts as done: only its
    /// deletion ends the reservation. The reservation of a consumer without UID goes, since nothing can
    /// confirm it.
    pub(super) async fn group_may_use(
        &self,
        groups: &Groups,
        namespace: &str,
        consumer: &ClaimConsumer,
    ) -> Result<bool, SyncError> {
        let Some(uid) = &consumer.uid else {
            return Ok(false);
        };
        // Cheap checks come first: memory, cache, GET.
        if self.deleted.contains(uid) {
            return Ok(false);
        }
        let cached = groups.store.get(&ObjectKey::new(namespace, &consumer.name));
        if cached.is_some_and(|group| group.meta.uid == *uid) {
            return Ok(true);
        }
        // The cache may lack the PodGroup by now, and the scheduler may be about to start its pods.
        let live = live::object::<PodGroup>(&self.client, namespace, &consumer.name).await;
        let live = live.map_err(SyncError::Read)?;
        Ok(live.is_some_and(|group| group.meta.uid == *uid))
    }
}
