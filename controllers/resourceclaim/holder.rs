//! The objects that have claims: pods, and PodGroups with the feature gate
//! `DRAWorkloadResourceClaims`.
//!
//! Upstream repeats its functions for both, as `handleClaim` and `handlePodGroupClaim`. Here one code
//! serves both.

use std::borrow::Cow;
use std::fmt;

use serde_json::{Value, json};
use steersman_client::ApiClient;
use steersman_objects::{
    Meta, Object, ObjectReference, Pod, PodClaimName, PodGroup, PodResourceClaim,
    PodResourceClaimStatus, ResourceClaim,
};
use steersman_values::resource::ResourceType;

use super::key::Key;

/// A pod or a PodGroup.
#[derive(Clone, Copy)]
pub(super) enum Holder<'a> {
    /// Its claims are its own, or shared ones of its PodGroup.
    Pod(&'a Pod),
    /// Its claims are shared by its pods.
    Group(&'a PodGroup),
}

impl<'a> Holder<'a> {
    pub(super) fn meta(self) -> &'a Meta {
        match self {
            Self::Pod(pod) => &pod.meta,
            Self::Group(group) => &group.meta,
        }
    }

    pub(super) fn key(self) -> Key {
        match self {
            Self::Pod(pod) => Key::Pod(pod.key()),
            Self::Group(group) => Key::Group(group.key()),
        }
    }

    pub(super) fn resource(self) -> &'static ResourceType {
        match self {
            Self::Pod(_) => Pod::RESOURCE,
            Self::Group(_) => PodGroup::RESOURCE,
        }
    }

    /// `spec.resourceClaims`.
    pub(super) fn claims(self) -> &'a [PodResourceClaim] {
        match self {
            Self::Pod(pod) => &pod.spec.resource_claims,
            Self::Group(group) => &group.spec.resource_claims,
        }
    }

    /// `status.resourceClaimStatuses`.
    ///
    /// The names of generated claims, which this controller writes.
    pub(super) fn statuses(self) -> &'a [PodResourceClaimStatus] {
        match self {
            Self::Pod(pod) => &pod.details().resource_claim_statuses,
            Self::Group(group) => &group.status.resource_claim_statuses,
        }
    }

    /// The ResourceClaim of `claim`, one of its claims.
    pub(super) fn claim_name(self, claim: &'a PodResourceClaim) -> PodClaimName<'a> {
        match self {
            Self::Pod(pod) => pod.claim_name(claim),
            Self::Group(group) => group.claim_name(claim),
        }
    }

    /// Its type in the version that the API server has. A reference in another version leads nowhere.
    pub(super) fn served_by(self, client: &ApiClient) -> Cow<'static, ResourceType> {
        client.served(self.resource())
    }

    /// For Events. `api_version` is that of the type.
    pub(super) fn reference(self, api_version: &str) -> ObjectReference {
        let reference = match self {
            Self::Pod(pod) => ObjectReference::of(pod),
            Self::Group(group) => ObjectReference::of(group),
        };
        ObjectReference {
            api_version: api_version.to_owned(),
            ..reference
        }
    }

    /// Upstream's name for one of its claims.
    ///
    /// It is part of Events and errors.
    pub(super) fn claim_kind(self) -> &'static str {
        match self {
            Self::Pod(_) => "PodResourceClaim",
            Self::Group(_) => "PodGroupResourceClaim",
        }
    }

    /// The text of errors about a claim with a field that this version lacks. Upstream:
    /// `ErrAPIUnsupported`.
    pub(super) fn of_claim(self, claim: &PodResourceClaim) -> String {
        let Meta {
            namespace, name, ..
        } = self.meta();
        let claim = &claim.name;
        match self {
            Self::Pod(_) => format!("pod \"{namespace}/{name}\", spec.resourceClaim \"{claim}\""),
            Self::Group(_) => format!("PodGroup {namespace}/{name}, spec.resourceClaim {claim}"),
        }
    }

    /// The item of `status.reservedFor` with which it may use a claim.
    ///
    /// The group of pods is empty, and is left out as in Go's encoding.
    pub(super) fn consumer(self) -> Value {
        let meta = self.meta();
        let resource = self.resource();
        let mut consumer = json!({
            "resource": resource.plural, "name": meta.name, "uid": meta.uid,
        });
        if !resource.group.is_empty() {
            consumer["apiGroup"] = json!(resource.group);
        }
        consumer
    }

    /// Whether `claim` was made for its claim called `name`. Upstream: `findPodResourceClaim` and
    /// `findPodGroupResourceClaim`.
    ///
    /// Both marks are needed: a user may create a claim with the annotation, and a holder may have
    /// several claims. If several match, any of them serves, and the rest go with the holder.
    pub(super) fn made(self, claim: &ResourceClaim, name: &str) -> bool {
        claim.meta.is_controlled_by(&self.meta().uid)
            && claim.annotations.pod_claim_name.as_deref() == Some(name)
    }
}

/// The form of upstream's errors.
impl fmt::Display for Holder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self {
            Self::Pod(_) => "pod",
            Self::Group(_) => "PodGroup",
        };
        let Meta {
            namespace, name, ..
        } = self.meta();
        write!(f, "{kind} {namespace}/{name}")
    }
}
