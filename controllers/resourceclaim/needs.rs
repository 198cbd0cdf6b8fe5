//! The decisions about pods: whether they still need their claims, and whether there is work for
//! them. Upstream: `podNeedsClaims`, `podNeedsWork` and `isPodDone`.
//!
//! Handlers use them to keep most events out of the queue; syncs check again.

use std::sync::Arc;

use steersman_objects::{Pod, PodClaimName, PodResourceClaim, ResourceClaim};
use steersman_values::intern::Sym;

use super::groups::{GroupOf, bound_to};
use super::holder::Holder;

/// Whether no container of `pod` runs or will ever run. No pod leaves this state.
///
/// A terminating pod with a node is not done: its containers use the devices until they end.
pub(super) fn is_done(pod: &Pod) -> bool {
    pod.is_finished() || (pod.meta.is_terminating() && pod.node.is_none())
}

/// Whether a sync of `pod` may have something to do. `group` is its PodGroup, and `claim` finds a
/// cached ResourceClaim of its namespace. `pod_groups` is the feature gate
/// `DRAWorkloadResourceClaims`.
///
/// Unsupported claims count as work, so that the user gets an Event. A claim that only a user can make
/// is no work: its event queues the pod.
pub(super) fn has_work(
    pod: &Pod,
    group: &GroupOf,
    pod_groups: bool,
    claim: impl Fn(&Sym) -> Option<Arc<ResourceClaim>>,
) -> bool {
    if pod.meta.is_terminating() || pod.is_finished() {
        return false;
    }
    let mut claims = pod.spec.resource_claims.iter();
    claims.any(|one| match pod.claim_name(one) {
        PodClaimName::NotCreated | PodClaimName::Unsupported => true,
        PodClaimName::NotNeeded => false,
        PodClaimName::Named(name) => {
            claim(name).is_some_and(|claim| lacks_reservation(pod, &claim, pod_groups))
        }
        PodClaimName::Generated(name) => match claim(name) {
            None => must_be_made(pod, group, one),
            Some(claim) => {
                claim.is_for_pod(pod, pod_groups) && lacks_reservation(pod, &claim, pod_groups)
            }
        },
    })
}

/// Whether a missing claim has to be made for `pod`. The claims of a PodGroup are made for the group.
///
/// While the PodGroup is unknown, the answer is yes: the sync fails and repeats until it is known. An
/// error about the PodGroup is no work, as upstream.
fn must_be_made(pod: &Pod, group: &GroupOf, claim: &PodResourceClaim) -> bool {
    match group {
        GroupOf::None | GroupOf::Missing => true,
        GroupOf::Known(group) => matches!(bound_to(pod, Some(group), claim), Ok(Holder::Pod(_))),
    }
}

/// Whether `claim` must be reserved for `pod` or its PodGroup. The pod was bound without a scheduler.
/// `pod_groups` is the feature gate `DRAWorkloadResourceClaims`.
///
/// Upstream: the last check of `podNeedsWork`, with `IsReservedForPod` and `CanBeReserved`. A pod
/// without a node waits for its scheduler, which reserves by itself. An unallocated claim cannot be
/// reserved.
pub(super) fn lacks_reservation(pod: &Pod, claim: &ResourceClaim, pod_groups: bool) -> bool {
    let may_use = pod.node.is_some() && !pod.is_finished();
    // API servers refuse new reservations of a claim that is being deleted.
    let can_be_reserved = claim.status.allocation.is_some() && !claim.meta.is_terminating();
    may_use && can_be_reserved && !claim.is_reserved_for_pod(pod, pod_groups)
}
