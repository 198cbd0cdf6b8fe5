//! The cached view of a PodGroup.
//!
//! Upstream: `k8s.io/api/scheduling/v1alpha2`. The type exists with the feature gate
//! `GenericWorkload`.

use steersman_values::intern::Sym;
use steersman_values::resource::POD_GROUPS;

use crate::view;

view! {
    /// A group of pods that are scheduled together: its template, and the document for its writes.
    pub struct PodGroup: POD_GROUPS, keeps document {
        /// `spec`.
        pub spec: PodGroupSpec,
    }

    /// `spec` of a PodGroup.
    pub struct PodGroupSpec {
        /// The template that the PodGroup was made of. The field is part of `v1alpha2` only.
        pub pod_group_template_ref: PodGroupTemplateRef,
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
}
