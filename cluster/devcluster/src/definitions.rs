//! Definitions of custom types with any fields: for types of users, and in place of types of
//! Kubernetes that the API server lacks.

use serde_json::{Value, json};

/// A CustomResourceDefinition of `group`/`kind`, with the subresource `status`. `scope` is `Cluster`
/// or `Namespaced`. All `versions` are served, and the last one is stored. The plural is the
/// lower-case kind with an `s`.
///
/// ```
/// # use steersman_devcluster::definitions::definition;
/// let carts = definition("shop.io", "Cart", &["v1"], "Namespaced");
/// assert_eq!(carts["metadata"]["name"], "carts.shop.io");
/// ```
pub fn definition(group: &str, kind: &str, versions: &[&str], scope: &str) -> Value {
    let singular = kind.to_lowercase();
    let plural = format!("{singular}s");
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version = |name: &&str| {
        json!({
            "name": name, "served": true, "storage": versions.last() == Some(name),
            "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}},
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{plural}.{group}"),
            // Groups of Kubernetes need an approval.
            "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes/enhancements"},
        },
        "spec": {
            "group": group, "scope": scope,
            "names": {
                "kind": kind, "plural": plural, "singular": singular, "listKind": format!("{kind}List"),
            },
            "versions": versions.iter().map(version).collect::<Vec<_>>(),
        },
    })
}
