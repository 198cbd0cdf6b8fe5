//! The owners of claims, which follow from the retention policy of the set.
//!
//! A claim that belongs to the set is deleted with the set. A claim that belongs to its pod is
//! deleted after a scale-down has removed the pod. The garbage collector does both, so the
//! controller only writes owner references.
//!
//! A claim with references of an earlier set or pod, or of another controller, is left alone.
//! Upstream: `isClaimOwnerUpToDate` and `updateClaimOwnerRefForSetAndPod` in
//! `stateful_set_utils.go`.
//!
//! The table of owners, by `whenScaled` and `whenDeleted`:
//!
//! - both `Retain`: none
//! - `Retain`, `Delete`: the set
//! - `Delete`, `Retain`: the pod, once it is outside of `spec.replicas`
//! - both `Delete`: the set, or the pod once it is outside of `spec.replicas`

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use steersman_client::writes::with_member;
use steersman_objects::{
    ClaimRetention, Meta, Object, OwnerReference, PersistentVolumeClaim, Pod, Retention,
    StatefulSet, Uid,
};
use steersman_runtime::owner::ControllerReference;

use super::identity::{ordinal, ordinals};

/// The possible owners of a claim, and the rule that chooses one. It borrows the set, and lasts for one pod
/// of one sync.
#[derive(Debug, Clone)]
pub(super) struct Owners<'a> {
    set: &'a Meta,
    pod: PodIdentity<'a>,
    policy: ClaimRetention,
    scaled_down: bool,
}

/// Name and UID of a pod.
#[derive(Debug, Clone)]
pub(super) struct PodIdentity<'a> {
    /// Name.
    pub(super) name: &'a str,
    /// UID; empty for a pod before its creation. References always have a UID. So an empty UID equals none of
    /// them.
    pub(super) uid: Uid,
}

impl<'a> PodIdentity<'a> {
    /// The identity of an existing pod.
    pub(super) fn of(pod: &'a Pod) -> Self {
        Self {
            name: &pod.meta.name,
            uid: pod.meta.uid.clone(),
        }
    }

    /// The identity of a pod that does not exist yet. Any reference to a pod of this name is stale then.
    pub(super) fn new(name: &'a str) -> Self {
        Self {
            name,
            uid: Uid::new(""),
        }
    }
}

/// The owner that a claim should have. Never both at once, although comments of upstream speak of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    Set,
    Pod,
    Neither,
}

impl<'a> Owners<'a> {
    /// The possible owners of the claims of `pod`, a pod of `set`. A pod without an ordinal counts as scaled
    /// down, as upstream.
    pub(super) fn new(set: &'a StatefulSet, pod: PodIdentity<'a>) -> Self {
        let is_inside = ordinal(pod.name).is_some_and(|n| ordinals(set).contains(&n));
        Self {
            set: &set.meta,
            policy: set.spec.claim_retention,
            scaled_down: !is_inside,
            pod,
        }
    }

    /// Whether the references of `claim` follow the policy, or must not be touched.
    ///
    /// Upstream: `isClaimOwnerUpToDate`. The order matters: a stale reference stops all, since the garbage
    /// collector may be about to delete the claim.
    pub(super) fn are_right(&self, claim: &PersistentVolumeClaim) -> bool {
        let references = &claim.meta.owners;
        if self.has_stale_set(references) || self.has_stale_pod(references) {
            return true;
        }
        let refers = |uid: &Uid| references.iter().any(|owner| owner.uid == *uid);
        let to_set = refers(&self.set.uid);
        let to_pod = refers(&self.pod.uid);
        // With a foreign controller, only references of set and pod have to go.
        if self.has_unexpected_controller(claim) {
            return !(to_set || to_pod);
        }
        // An owner without `controller` is a leftover of older releases. It is written anew.
        if self.has_non_controller(references) {
            return false;
        }
        let wanted = self.wanted();
        to_set == (wanted == Owner::Set) && to_pod == (wanted == Owner::Pod)
    }

    /// Whether the set has a policy, and something else than the set and the pod controls `claim`.
    /// A set or pod of the same name with another UID counts.
    ///
    /// Upstream: `hasUnexpectedController`. Without a policy, other controllers may own claims as they like.
    pub(super) fn has_unexpected_controller(&self, claim: &PersistentVolumeClaim) -> bool {
        let is_unexpected = |owner: &OwnerReference| {
            if self.is_set(owner) {
                owner.uid != self.set.uid
            } else if self.is_pod(owner) {
                owner.uid != self.pod.uid
            } else {
                owner.controller
            }
        };
        !self.policy.retains_all() && claim.meta.owners.iter().any(is_unexpected)
    }

    /// The body of a PUT: `claim` with the references that the policy asks for.
    ///
    /// Upstream: `updateClaimOwnerRefForSetAndPod`. References of other owners stay as they are.
    pub(super) fn corrected(&self, claim: &PersistentVolumeClaim) -> Box<RawValue> {
        let mut metadata = match claim.document.to_object().remove("metadata") {
            Some(Value::Object(metadata)) => metadata,
            _ => Map::new(),
        };
        let mut references = match metadata.remove("ownerReferences") {
            Some(Value::Array(references)) => references,
            _ => Vec::new(),
        };
        // By name, and not by UID: references of earlier sets and pods of these names go, too.
        references.retain(|owner| {
            let is = |api_version: &str, kind: &str, name: &str| {
                owner["apiVersion"] == api_version && owner["kind"] == kind && owner["name"] == name
            };
            let set = StatefulSet::RESOURCE;
            let pod = Pod::RESOURCE;
            !is(&set.api_version(), &set.kind, &self.set.name)
                && !is(&pod.api_version(), &pod.kind, self.pod.name)
        });
        if !self.has_unexpected_controller(claim) {
            let (uid, reference) = match self.wanted() {
                Owner::Set => {
                    let reference = ControllerReference::to::<StatefulSet>(self.set);
                    (self.set.uid.to_string(), json!(reference))
                }
                Owner::Pod => {
                    let uid = self.pod.uid.to_string();
                    let reference = json!({
                        "apiVersion": "v1", "kind": "Pod", "name": self.pod.name, "uid": uid,
                        "controller": true, "blockOwnerDeletion": true,
                    });
                    (uid, reference)
                }
                Owner::Neither => (String::new(), Value::Null),
            };
            // `is_there` is for a reference of another name with our UID, which the filter has left.
            let is_there = references.iter().any(|owner| owner["uid"] == uid);
            if !reference.is_null() && !is_there {
                references.push(reference);
            }
        }
        // No empty list is written, as Go omits it.
        if !references.is_empty() {
            metadata.insert("ownerReferences".to_owned(), Value::Array(references));
        }
        with_member::<PersistentVolumeClaim>(&claim.document, "metadata", &metadata)
    }

    /// Whether `claim` remains from an earlier pod of this name, so that a new pod must wait for
    /// its deletion. Upstream: `PodClaimIsStale`.
    pub(super) fn is_stale(&self, claim: &PersistentVolumeClaim) -> bool {
        self.policy.when_scaled != Retention::Retain && self.has_stale_pod(&claim.meta.owners)
    }

    /// The owner that the policy asks for. An unknown policy retains claims. A pod that is wanted never owns
    /// its claims: a rolling update deletes pods, and would take the data with them.
    fn wanted(&self) -> Owner {
        let ClaimRetention {
            when_deleted,
            when_scaled,
        } = self.policy;
        match (when_scaled, when_deleted, self.scaled_down) {
            (Retention::Retain, Retention::Delete, _)
            | (Retention::Delete, Retention::Delete, false) => Owner::Set,
            (Retention::Delete, Retention::Retain | Retention::Delete, true) => Owner::Pod,
            _ => Owner::Neither,
        }
    }

    fn is_set(&self, owner: &OwnerReference) -> bool {
        is_reference::<StatefulSet>(owner, &self.set.name)
    }

    fn is_pod(&self, owner: &OwnerReference) -> bool {
        is_reference::<Pod>(owner, self.pod.name)
    }

    /// Only the first reference to a set of this name counts. Upstream: `hasStaleOwnerRef`.
    fn has_stale_set(&self, references: &[OwnerReference]) -> bool {
        let first = references.iter().find(|owner| self.is_set(owner));
        first.is_some_and(|owner| owner.uid != self.set.uid)
    }

    /// Only the first reference to a pod of this name counts. As `has_stale_set`.
    fn has_stale_pod(&self, references: &[OwnerReference]) -> bool {
        let first = references.iter().find(|owner| self.is_pod(owner));
        first.is_some_and(|owner| owner.uid != self.pod.uid)
    }

    /// Whether the set or the pod is an owner without being the controller. Upstream:
    /// `hasNonControllerOwner`.
    fn has_non_controller(&self, references: &[OwnerReference]) -> bool {
        let is_ours =
            |owner: &OwnerReference| owner.uid == self.set.uid || owner.uid == self.pod.uid;
        references
            .iter()
            .any(|owner| is_ours(owner) && !owner.controller)
    }
}

/// Whether `owner` has the type `O` and this name. Upstream: `matchesRef`. The UID is compared by the caller.
fn is_reference<O: Object>(owner: &OwnerReference, name: &str) -> bool {
    *owner.api_version == *O::RESOURCE.api_version()
        && *owner.kind == *O::RESOURCE.kind
        && *owner.name == *name
}

#[cfg(test)]
mod tests;
