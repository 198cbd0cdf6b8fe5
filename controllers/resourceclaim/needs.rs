//! The decisions about pods: whether they still need their claims, and whether there is work for
//! them. Upstream: `podNeedsClaims`, `podNeedsWork` and `isPodDone`.

use std::sync::Arc;

use steersman_objects::{Pod, PodClaimName, ResourceClaim};
use steersman_values::intern::Sym;

/// Whether no container of `pod` runs or will ever run. No pod leaves this state.
pub(super) fn is_done(pod: &Pod) -> bool {
    pod.is_finished() || (pod.meta.is_terminating() && pod.node.is_none())
}

/// Whether a sync of `pod` may have something to do. `claim` finds a cached ResourceClaim of the
/// pod's namespace.
pub(super) fn has_work(pod: &Pod, claim: impl Fn(&Sym) -> Option<Arc<ResourceClaim>>) -> bool {
    if pod.meta.is_terminating() || pod.is_finished() {
        return false;
    }
    let mut names = pod
        .spec
        .resource_claims
        .iter()
        .map(|one| pod.claim_name(one));
    names.any(|name| match name {
        PodClaimName::NotCreated | PodClaimName::Unsupported => true,
        PodClaimName::NotNeeded => false,
        PodClaimName::Named(name) => {
            claim(name).is_some_and(|claim| lacks_reservation(pod, &claim))
        }
        PodClaimName::Generated(name) => claim(name).is_none_or(|claim| {
            claim.meta.is_controlled_by(&pod.meta.uid) && lacks_reservation(pod, &claim)
        }),
    })
}

/// Whether `claim` must be reserved for `pod`, which was bound without a scheduler.
pub(super) fn lacks_reservation(pod: &Pod, claim: &ResourceClaim) -> bool {
    let may_use = pod.node.is_some() && !pod.is_finished();
    // API servers refuse new reservations of a claim that is being deleted.
    let can_be_reserved = claim.status.allocation.is_some() && !claim.meta.is_terminating();
    may_use && can_be_reserved && !claim.status.is_reserved_for(&pod.meta.uid)
}
