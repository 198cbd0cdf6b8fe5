//! Warnings about labels of nodes that have newer names.
//!
//! Upstream is `pkg/api/node/util.go`.

use serde_json::Value;

use super::{Path, formats, list, text};

const OLD_LABELS: [(&str, &str); 8] = [
    (
        "beta.kubernetes.io/arch",
        "deprecated since v1.14; use \"kubernetes.io/arch\" instead",
    ),
    (
        "beta.kubernetes.io/os",
        "deprecated since v1.14; use \"kubernetes.io/os\" instead",
    ),
    (
        "failure-domain.beta.kubernetes.io/region",
        "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead",
    ),
    (
        "failure-domain.beta.kubernetes.io/zone",
        "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead",
    ),
    (
        "beta.kubernetes.io/instance-type",
        "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead",
    ),
    ("app.kubernetes.io/created-by", "deprecated since v1.9"),
    (
        "scheduler.alpha.kubernetes.io/preferAvoidPods",
        "deprecated since v1.22; use Taints and Tolerations instead",
    ),
    (
        "node-role.kubernetes.io/master",
        "use \"node-role.kubernetes.io/control-plane\" instead",
    ),
];

/// The message about a label of nodes that has a newer name.
pub(in super::super::super) fn deprecated_label(key: &str) -> Option<&'static str> {
    let found = OLD_LABELS.iter().find(|(old, _)| *old == key);
    found.map(|(_, message)| *message)
}

/// Warnings about the choice of nodes in a spec.
pub(super) fn collect(path: &Path<'_>, spec: &Value, warnings: &mut Vec<String>) {
    let selector = path.child("nodeSelector");
    for key in spec["nodeSelector"]
        .as_object()
        .into_iter()
        .flat_map(|labels| labels.keys())
    {
        if let Some(message) = deprecated_label(key) {
            warnings.push(format!("{}: {message}", selector.key(key)));
        }
    }
    let affinity = &spec["affinity"]["nodeAffinity"];
    if !affinity.is_null() {
        let path = path.child("affinity.nodeAffinity");
        let required = path.child("requiredDuringSchedulingIgnoredDuringExecution");
        let terms = &affinity["requiredDuringSchedulingIgnoredDuringExecution"];
        selector_terms(&required, terms, warnings);
        let path = path.child("preferredDuringSchedulingIgnoredDuringExecution");
        let preferred = list(affinity, "preferredDuringSchedulingIgnoredDuringExecution");
        for (index, term) in preferred.iter().enumerate() {
            let path = path.index(index);
            selector_term(
                &path.child("preference"),
                &term["preference"],
                true,
                warnings,
            );
        }
    }
    let path = path.child("topologySpreadConstraints");
    for (index, constraint) in list(spec, "topologySpreadConstraints").iter().enumerate() {
        let path = path.index(index);
        let key = text(constraint, "topologyKey");
        if let Some(message) = deprecated_label(key) {
            warnings.push(format!("{}: {key} is {message}", path.child("topologyKey")));
        }
        if constraint["labelSelector"].is_null() {
            warnings.push(format!(
                "{}: a null labelSelector results in matching no pod",
                path.child("labelSelector")
            ));
        }
    }
}

/// Warnings about a selector of nodes.
pub(in super::super::super) fn selector_terms(
    path: &Path<'_>,
    selector: &Value,
    warnings: &mut Vec<String>,
) {
    let path = path.child("nodeSelectorTerms");
    for (index, term) in list(selector, "nodeSelectorTerms").iter().enumerate() {
        selector_term(&path.index(index), term, false, warnings);
    }
}

fn selector_term(path: &Path<'_>, term: &Value, checks: bool, warnings: &mut Vec<String>) {
    let path = path.child("matchExpressions");
    for (index, expression) in list(term, "matchExpressions").iter().enumerate() {
        let path = path.index(index);
        let key = text(expression, "key");
        if let Some(message) = deprecated_label(key) {
            warnings.push(format!("{}: {key} is {message}", path.child("key")));
        }
        if !checks {
            continue;
        }
        let path = path.child("values");
        for (index, value) in list(expression, "values").iter().enumerate() {
            let value = value.as_str().unwrap_or_default();
            for problem in formats::label_value(value) {
                warnings.push(format!(
                    "{}: {value} is invalid, {problem}",
                    path.index(index)
                ));
            }
        }
    }
}
