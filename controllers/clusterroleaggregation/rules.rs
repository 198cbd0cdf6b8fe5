//! The rules of an aggregated role.
//!
//! Upstream: `syncClusterRole` in `clusterroleaggregation_controller.go`.

use std::collections::HashSet;
use std::sync::Arc;

use steersman_objects::{ClusterRole, PolicyRule};
use steersman_values::labels::Selector;

/// The rules of the role `name` with these selectors: for each selector in order, the rules of the
/// matching roles by name. Equal rules occur once. The role's own rules do not count.
pub(super) fn aggregated(
    name: &str,
    selectors: &[Selector],
    roles: &[Arc<ClusterRole>],
) -> Vec<PolicyRule> {
    let mut sorted: Vec<&Arc<ClusterRole>> = roles
        .iter()
        .filter(|role| *role.meta.name != *name)
        .collect();
    sorted.sort_unstable_by(|a, b| a.meta.name.cmp(&b.meta.name));
    let mut seen = HashSet::new();
    let matching = selectors.iter().flat_map(|selector| {
        let matches = |role: &&&Arc<ClusterRole>| selector.matches(&role.meta.labels);
        sorted.iter().filter(matches)
    });
    matching
        .flat_map(|role| &role.rules)
        .filter(|rule| seen.insert(*rule))
        .cloned()
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use steersman_objects::Object;

    use super::*;

    fn role(name: &str, label: &str, rules: &Value) -> Arc<ClusterRole> {
        let json = json!({"metadata": {"name": name, "labels": {"foo": label}}, "rules": rules});
        Arc::new(ClusterRole::decode(json.to_string().as_bytes()).unwrap())
    }

    /// The role `combined`, which selects the roles with these values of the label `foo`.
    fn combined(values: &[&str], rules: &Value) -> Arc<ClusterRole> {
        let selector = |value: &&str| json!({"matchLabels": {"foo": value}});
        let selectors: Vec<_> = values.iter().map(selector).collect();
        let json = json!({
            "metadata": {"name": "combined"}, "rules": rules,
            "aggregationRule": {"clusterRoleSelectors": selectors},
        });
        Arc::new(ClusterRole::decode(json.to_string().as_bytes()).unwrap())
    }

    fn of(role: &ClusterRole, roles: &[Arc<ClusterRole>]) -> Value {
        let rule = role.aggregation_rule.as_ref().unwrap();
        let selectors = rule.selectors.as_ref().unwrap();
        json!(aggregated(&role.meta.name, selectors, roles))
    }

    fn joined(rules: &[&Value]) -> Value {
        rules
            .iter()
            .flat_map(|rules| rules.as_array().unwrap().clone())
            .collect()
    }

    /// Upstream: `TestSyncClusterRole`.
    #[test]
    fn rules_of_selected_roles_are_joined() {
        let hammer = json!([
            {"verbs": ["hammer"], "resources": ["nails"]},
            {"verbs": ["hammer"], "resources": ["wedges"]},
        ]);
        let chisel = json!([{"verbs": ["chisel"], "resources": ["mortises"]}]);
        let saw = json!([{"verbs": ["saw"], "resources": ["boards"]}]);
        let none = json!([]);
        let tools = [
            role("hammer", "bar", &hammer),
            role("chisel", "bar", &chisel),
            role("saw", "not-bar", &saw),
        ];
        let two_saws = [
            role("hammer", "bar", &hammer),
            role("chisel", "bar", &chisel),
            role("saw", "bar", &saw),
            role("other-saw", "not-bar", &saw),
        ];
        let one = ["bar"].as_slice();
        let both = ["bar", "not-bar"].as_slice();
        let other = [role("hammer", "not-bar", &hammer)];
        // (case, other roles, the role, expected rules)
        let cases: [(&str, &[Arc<ClusterRole>], Arc<ClusterRole>, Value); 9] = [
            (
                "remove dead rules",
                &tools[..1],
                combined(one, &saw),
                hammer.clone(),
            ),
            ("strip rules", &other, combined(one, &hammer), none.clone()),
            (
                "select properly and put in order",
                &tools,
                combined(one, &none),
                joined(&[&chisel, &hammer]),
            ),
            (
                "select properly with multiple selectors",
                &tools,
                combined(both, &none),
                joined(&[&chisel, &hammer, &saw]),
            ),
            (
                "select properly remove duplicates",
                &two_saws,
                combined(both, &none),
                joined(&[&chisel, &hammer, &saw]),
            ),
            (
                "no diff skip",
                &tools[..1],
                combined(one, &hammer),
                hammer.clone(),
            ),
            (
                "selectors in the other order",
                &tools,
                combined(&["not-bar", "bar"], &none),
                joined(&[&saw, &chisel, &hammer]),
            ),
            (
                "the same selector twice",
                &tools[..1],
                combined(&["bar", "bar"], &none),
                hammer.clone(),
            ),
            ("no selectors", &tools, combined(&[], &saw), none),
        ];
        for (case, roles, combined, expected) in cases {
            let roles: Vec<_> = roles
                .iter()
                .cloned()
                .chain([Arc::clone(&combined)])
                .collect();
            assert_eq!(of(&combined, &roles), expected, "{case}");
            let is_equal = json!(combined.rules) == expected;
            assert_eq!(is_equal, case == "no diff skip", "{case}");
        }
    }

    #[test]
    fn a_role_never_selects_itself() {
        let own = json!([{"verbs": ["x"], "resources": ["y"]}]);
        let json = json!({
            "metadata": {"name": "combined", "labels": {"foo": "bar"}}, "rules": own,
            "aggregationRule": {"clusterRoleSelectors": [{}]},
        });
        let all = ClusterRole::decode(json.to_string().as_bytes()).unwrap();
        let rest = role(
            "a",
            "z",
            &json!([{"nonResourceURLs": ["/a"], "verbs": ["get"]}]),
        );
        let roles = [Arc::new(all.clone()), Arc::clone(&rest)];
        assert_eq!(of(&all, &roles), json!(rest.rules));
    }

    #[test]
    fn rules_that_differ_in_order_are_different() {
        let one = json!([{"verbs": ["a", "b"], "resources": ["r"]}]);
        let other = json!([{"verbs": ["b", "a"], "resources": ["r"], "resourceNames": []}]);
        let roles = [role("one", "bar", &one), role("other", "bar", &other)];
        let expected = json!([
            {"verbs": ["a", "b"], "resources": ["r"]}, {"verbs": ["b", "a"], "resources": ["r"]},
        ]);
        assert_eq!(of(&combined(&["bar"], &json!([])), &roles), expected);
    }
}
