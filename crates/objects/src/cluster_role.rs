//! ClusterRoles, with the rules that the aggregation copies. Upstream: `k8s.io/api/rbac/v1`.

use serde::{Deserialize, Serialize};

use steersman_values::intern::Sym;
use steersman_values::labels::{Selector, SelectorError, WireSelector};
use steersman_values::resource::CLUSTER_ROLES;

use super::wire::nullable;
use crate::view;

view! {
    /// A ClusterRole.
    pub struct ClusterRole: CLUSTER_ROLES {
        /// Selects the roles whose rules this role gets; `None` for a role with rules of its own.
        pub aggregation_rule: Option<AggregationRule>,
        /// Rules.
        pub rules: Vec<PolicyRule>,
    }
}

/// `aggregationRule` of a ClusterRole.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "AggregationWire")]
pub struct AggregationRule {
    /// The parsed `clusterRoleSelectors`, or the error of the first invalid one.
    pub selectors: Result<Vec<Selector>, SelectorError>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AggregationWire {
    #[serde(deserialize_with = "nullable")]
    cluster_role_selectors: Vec<WireSelector>,
}

impl From<AggregationWire> for AggregationRule {
    fn from(wire: AggregationWire) -> Self {
        let selectors = wire.cluster_role_selectors.iter();
        Self {
            selectors: selectors.map(|one| Selector::parse(Some(one))).collect(),
        }
    }
}

/// A rule of a role. Absent and empty lists are equal; the order of a list matters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyRule {
    /// Verbs.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub verbs: Vec<Sym>,
    /// API groups.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub api_groups: Vec<Sym>,
    /// Resources and subresources.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<Sym>,
    /// Names of objects; empty for all.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<Sym>,
    /// Paths without a resource.
    #[serde(
        rename = "nonResourceURLs",
        deserialize_with = "nullable",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub non_resource_urls: Vec<Sym>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Object;

    #[test]
    fn a_cluster_role_is_decoded() {
        let decode = |json: &str| ClusterRole::decode(json.as_bytes()).unwrap();
        let role = decode(r#"{"metadata": {"name": "a"}, "rules": null}"#);
        assert!(role.aggregation_rule.is_none() && role.rules.is_empty());
        let role = decode(
            r#"{"metadata": {"name": "a"},
                "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}, {}]},
                "rules": [{"nonResourceURLs": ["/x"], "verbs": null, "apiGroups": [""],
                           "resourceNames": []}]}"#,
        );
        let selectors = role.aggregation_rule.unwrap().selectors.unwrap();
        assert_eq!(selectors.len(), 2);
        assert!(
            selectors[1].matches(&role.meta.labels) && !selectors[0].matches(&role.meta.labels)
        );
        let written = serde_json::to_string(&role.rules).unwrap();
        assert_eq!(written, r#"[{"apiGroups":[""],"nonResourceURLs":["/x"]}]"#);
        for (rule, selectors) in [("{}", 0), (r#"{"clusterRoleSelectors": null}"#, 0)] {
            let json = format!(r#"{{"metadata": {{"name": "a"}}, "aggregationRule": {rule}}}"#);
            let found = decode(&json).aggregation_rule.unwrap().selectors;
            assert_eq!(found.unwrap().len(), selectors, "{rule}");
        }
        let invalid = r#"{"metadata": {"name": "a"}, "aggregationRule": {"clusterRoleSelectors":
            [{"matchExpressions": [{"key": "a", "operator": "Like"}]}]}}"#;
        let error = decode(invalid).aggregation_rule.unwrap().selectors;
        assert_eq!(error, Err(SelectorError::Operator("Like".to_owned())));
    }
}
