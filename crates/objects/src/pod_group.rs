//! The cached views of a Workload and a PodGroup.
//!
//! Upstream: `k8s.io/api/scheduling/v1alpha2`. The types exist with the feature gate
//! `GenericWorkload`.

use steersman_values::intern::Sym;
use steersman_values::resource::{POD_GROUPS, WORKLOADS};

use crate::view;

view! {
    /// A group of pods that are scheduled together. The document is for its writes.
    pub struct PodGroup: POD_GROUPS, keeps document {
        /// `spec`.
        pub spec: PodGroupSpec,
    }

    /// `spec` of a PodGroup.
    pub struct PodGroupSpec {
        /// The template that the group was made from.
        pub pod_group_template_ref: PodGroupTemplateRef,
    }

    /// `spec.podGroupTemplateRef` of a PodGroup.
    pub struct PodGroupTemplateRef {
        /// The Workload with the template.
        pub workload: WorkloadTemplateRef,
    }

    /// `spec.podGroupTemplateRef.workload` of a PodGroup.
    pub struct WorkloadTemplateRef {
        /// Name of the Workload; empty without one.
        pub workload_name: Sym,
    }
}

view! {
    /// The groups of pods of one object, such as a Job. The document has their templates.
    pub struct Workload: WORKLOADS, keeps document {
        /// `spec`.
        pub spec: WorkloadSpec,
    }

    /// `spec` of a Workload.
    pub struct WorkloadSpec {
        /// The object whose pods are grouped.
        pub controller_ref: WorkloadController,
        /// The templates of its PodGroups.
        pub pod_group_templates: Vec<PodGroupTemplate>,
    }

    /// `spec.controllerRef` of a Workload.
    pub struct WorkloadController {
        /// API group; empty for core.
        pub api_group: Sym,
        /// Kind.
        pub kind: Sym,
        /// Name; empty without a reference.
        pub name: Sym,
    }

    /// One of `spec.podGroupTemplates` of a Workload.
    pub struct PodGroupTemplate {
        /// Name.
        pub name: Sym,
    }
}
