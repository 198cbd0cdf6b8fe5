//! The cached view of a PodGroup.
//!
//! Upstream: `k8s.io/api/scheduling/v1alpha2`. The type exists with the feature gate
//! `GenericWorkload`.

use steersman_values::resource::POD_GROUPS;

use crate::view;

view! {
    /// A group of pods that are scheduled together: its metadata, and the document for its writes.
    pub struct PodGroup: POD_GROUPS, keeps document {
    }
}
