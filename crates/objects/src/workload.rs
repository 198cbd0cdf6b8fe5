//! The cached view of a Workload.
//!
//! Upstream: `k8s.io/api/scheduling` in the versions `v1alpha2` (1.36), `v1alpha3` and `v1beta1` (1.37). The type
//! exists with the feature gate `GenericWorkload`.

use serde::Deserialize;
use serde_json::{Map, Value};
use steersman_values::intern::Sym;
use steersman_values::resource::WORKLOADS;

use crate::view;

view! {
    /// The groups of pods that one controller makes: their templates.
    pub struct Workload: WORKLOADS {
        /// `spec`.
        pub spec: WorkloadSpec,
    }

    /// `spec` of a Workload.
    pub struct WorkloadSpec {
        /// The object that the Workload belongs to.
        pub controller_ref: WorkloadControllerRef,
        /// Templates of PodGroups.
        pub pod_group_templates: Vec<PodGroupTemplate>,
    }

    /// `spec.controllerRef` of a Workload. The texts are empty if it is unset.
    pub struct WorkloadControllerRef {
        /// Group of the object.
        pub api_group: Sym,
        /// Kind of the object.
        pub kind: Sym,
        /// Name of the object, in the namespace of the Workload.
        pub name: Sym,
    }
}

/// An item of `spec.podGroupTemplates` of a Workload.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodGroupTemplate {
    /// Its name, unique within the Workload.
    #[serde(deserialize_with = "view::nullable")]
    pub name: Sym,
    /// The scheduling policy as served, for a copy in a PodGroup.
    #[serde(deserialize_with = "view::nullable")]
    pub scheduling_policy: Value,
    /// All other fields as served.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Object, PodGroup};

    #[test]
    fn a_workload_keeps_the_policies_of_its_templates() {
        let policy = json!({"gang": {"minCount": 2}, "fromTheFuture": {"x": [1]}});
        let json = json!({
            "metadata": {"name": "w"},
            "spec": {
                "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "web"},
                "podGroupTemplates": [{"name": "t", "schedulingPolicy": policy}],
            },
        });
        let spec = Workload::decode(json.to_string().as_bytes()).unwrap().spec;
        assert_eq!(spec.controller_ref.api_group, *"batch");
        assert_eq!(spec.controller_ref.kind, *"Job");
        assert_eq!(spec.controller_ref.name, *"web");
        let [template] = &*spec.pod_group_templates else {
            panic!("there is one template");
        };
        assert_eq!(template.name, *"t");
        assert_eq!(template.scheduling_policy, policy);
    }

    #[test]
    fn a_pod_group_names_its_workload() {
        for (spec, expected) in [
            (json!({}), ""),
            (json!({"podGroupTemplateRef": null}), ""),
            (
                json!({"podGroupTemplateRef": {"workload": {"workloadName": "w"}}}),
                "w",
            ),
            (json!({"workloadRef": {"workloadName": "w"}}), "w"),
        ] {
            let json = json!({"metadata": {"name": "g"}, "spec": spec});
            let group = PodGroup::decode(json.to_string().as_bytes()).unwrap();
            assert_eq!(group.workload_name(), expected, "{json}");
        }
    }
}
