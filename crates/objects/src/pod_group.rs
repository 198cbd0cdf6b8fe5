//! The cached view of a PodGroup.
//!
//! Upstream: `k8s.io/api/scheduling` in the versions `v1alpha2` (1.36), `v1alpha3` and `v1beta1` (1.37). The type
//! exists with the feature gate `GenericWorkload`.

use serde_json::{Value, json};
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
        /// The template that the PodGroup was made of, in `v1alpha2`.
        pub pod_group_template_ref: PodGroupTemplateRef,
        /// The template that the PodGroup was made of, in later versions.
        pub workload_ref: TemplateOfWorkload,
        /// The claims that the pods of the group share, with the feature gate
        /// `DRAWorkloadResourceClaims`.
        pub resource_claims: Vec<PodResourceClaim>,
    }

    /// `spec.podGroupTemplateRef` of a PodGroup.
    pub struct PodGroupTemplateRef {
        /// The template of a Workload.
        pub workload: TemplateOfWorkload,
    }

    /// `spec.podGroupTemplateRef.workload` of a PodGroup, or its `spec.workloadRef`.
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
    /// Name of the Workload whose template the PodGroup was made of; empty if it names none.
    pub fn workload_name(&self) -> &str {
        let older = &self.spec.pod_group_template_ref.workload.workload_name;
        let newer = &self.spec.workload_ref.workload_name;
        if newer.is_empty() { older } else { newer }
    }

    /// The field of `spec` with the reference to `template` of `workload`, and its value, in this version of the API.
    pub fn template_reference(
        version: &str,
        workload: &str,
        template: &str,
    ) -> (&'static str, Value) {
        if version == POD_GROUPS.version {
            let reference = json!({"workloadName": workload, "podGroupTemplateName": template});
            ("podGroupTemplateRef", json!({"workload": reference}))
        } else {
            let reference = json!({"workloadName": workload, "templateName": template});
            ("workloadRef", reference)
        }
    }

    /// The ResourceClaim of `claim`, one of `spec.resourceClaims`.
    pub fn claim_name<'a>(&'a self, claim: &'a PodResourceClaim) -> PodClaimName<'a> {
        PodClaimName::of(claim, &self.status.resource_claim_statuses)
    }
}
