//! Definitions of custom kinds, also in place of kinds that the embedded API server lacks.

use serde_json::{Value, json};

/// A definition of a cluster-scoped kind with any fields and a status. Its plural is the lower-case
/// kind with an `s`.
pub(crate) fn definition(group: &str, version: &str, kind: &str) -> Value {
    let singular = kind.to_lowercase();
    let plural = format!("{singular}s");
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{plural}.{group}"),
            // Groups of Kubernetes need an approval.
            "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes/enhancements"},
        },
        "spec": {
            "group": group, "scope": "Cluster",
            "names": {
                "kind": kind, "plural": plural, "singular": singular, "listKind": format!("{kind}List"),
            },
            "versions": [{
                "name": version, "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}},
            }],
        },
    })
}
