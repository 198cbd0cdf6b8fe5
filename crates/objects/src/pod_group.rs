//! The cached view of a PodGroup.
//!
//! Upstream: `k8s.io/api/scheduling/v1alpha2`. The type exists with the feature gate
//! `GenericWorkload`.

use steersman_values::intern::Sym;
use steersman_values::resource::POD_GROUPS;

use crate::view;
use crate::{PodClaimName, PodResourceClaim, PodResourceClaimStatus};

view! {
    /// A group of pods that are scheduled together: its template and its claims, and the document
    /// for its writes.
    pub struct PodGroup: POD_GROUPS, keeps document {
        /// `spec`.
        pub spec: PodGroupSpec,
        /// `status`.
        pub status: PodGroupStatus,
    }

    /// `spec` of a PodGroup.
    pub struct PodGroupSpec {
        /// The template that the PodGroup was made of. The field is part of `v1alpha2` only.
        pub pod_group_template_ref: PodGroupTemplateRef,
        /// The claims that the pods of the group share, with the feature gate
        /// `DRAWorkloadResourceClaims`.
        pub resource_claims: Vec<PodResourceClaim>,
    }

    /// `spec.podGroupTemplateRef` of a PodGroup.
    pub struct PodGroupTemplateRef {
        /// The template of a Workload.
        pub workload: TemplateOfWorkload,
    }

    /// `spec.podGroupTemplateRef.workload` of a PodGroup.
    pub struct TemplateOfWorkload {
        /// Name of the Workload; empty if unset.
        pub workload_name: Sym,
    }

    /// `status` of a PodGroup.
    pub struct PodGroupStatus {
        /// The ResourceClaims that were made from templates.
        pub resource_claim_statuses: Vec<PodResourceClaimStatus>,
    }
}

impl PodGroup {
    /// The ResourceClaim of `claim`, one of `spec.resourceClaims`.
    pub fn claim_name<'a>(&'a self, claim: &'a PodResourceClaim) -> PodClaimName<'a> {
        PodClaimName::of(claim, &self.status.resource_claim_statuses)
    }
}
