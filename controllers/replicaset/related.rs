//! The pods that crowd a node together with the pods of a ReplicaSet.
//!
//! Upstream counts all pods that the selectors of related ReplicaSets match, and reads every pod
//! of the namespace for it. A namespace with thousands of Deployments makes that expensive. Tools
//! that create ReplicaSets give each one a label for the hash of its template, and the selector
//! requires that label. So an index over these labels finds the same pods.
//!
//! Upstream: `getIndirectlyRelatedPods` in `pkg/controller/replicaset`.

use std::collections::HashSet;
use std::sync::Arc;

use steersman_objects::Pod;
use steersman_runtime::informer::{Index, IndexKey, Store};
use steersman_values::labels::Selector;

/// The end of label keys that hold the hash of a template: `pod-template-hash` of Deployments, and
/// `rollouts-pod-template-hash` of Argo Rollouts.
const HASH_LABEL: &str = "pod-template-hash";

/// Finds pods by label selector.
///
/// It is shared by all owners of one kind, and the index by all of the process.
pub(super) struct SelectedPods {
    by_hash: Index<Pod>,
}

impl SelectedPods {
    /// Adds the index over hashes to `pods` and reads from it.
    pub(super) fn of(pods: &Store<Pod>) -> Self {
        let has_same_labels = |a: &Pod, b: &Pod| a.meta.labels == b.meta.labels;
        Self {
            by_hash: pods.add_index_over("template-hash", has_same_labels, hashes),
        }
    }

    /// The pods of `namespace` that at least one of `selectors` matches, each pod once.
    ///
    /// A pod may match several selectors, for example when a user wrote overlapping ones. The order of the
    /// result has no meaning.
    pub(super) fn of_any<'a>(
        &self,
        namespace: &str,
        selectors: impl IntoIterator<Item = &'a Selector>,
    ) -> Vec<Arc<Pod>> {
        let mut seen = HashSet::new();
        let mut found = Vec::new();
        // Read for the first selector without a hash, and shared by all further ones.
        let mut of_namespace = None;
        for selector in selectors {
            let hash = selector
                .required_pairs()
                .find(|(key, _)| key.ends_with(HASH_LABEL));
            let of_hash = hash.map(|(_, hash)| self.by_hash.get(&index_key(namespace, hash)));
            let pods: &[Arc<Pod>] = match &of_hash {
                Some(pods) => pods,
                None => {
                    of_namespace.get_or_insert_with(|| self.by_hash.store().in_namespace(namespace))
                }
            };
            let is_new = |pod: &&Arc<Pod>| {
                pod.meta.namespace == *namespace
                    && selector.matches(&pod.meta.labels)
                    && seen.insert(Arc::as_ptr(*pod))
            };
            found.extend(pods.iter().filter(is_new).cloned());
        }
        found
    }
}

/// The values of the index for `pod`.
fn hashes(pod: &Pod) -> Vec<IndexKey> {
    let labels = pod.meta.labels.iter();
    labels
        .filter(|(key, _)| key.ends_with(HASH_LABEL))
        .map(|(_, hash)| index_key(&pod.meta.namespace, hash))
        .collect()
}

/// The namespace is part of the value, so equal hashes of two namespaces stay apart.
fn index_key(namespace: &str, hash: &str) -> IndexKey {
    IndexKey::new(&format!("{namespace}/{hash}"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use steersman_objects::Object;

    use super::*;

    fn pods() -> SelectedPods {
        // (namespace, name, labels)
        let pods = [
            ("a", "old", json!({"app": "web", "pod-template-hash": "1"})),
            ("a", "new", json!({"app": "web", "pod-template-hash": "2"})),
            (
                "a",
                "argo",
                json!({"app": "web", "rollouts-pod-template-hash": "3"}),
            ),
            ("a", "db", json!({"app": "db", "pod-template-hash": "1"})),
            ("a", "bare", json!({"app": "web"})),
            ("b", "old", json!({"app": "web", "pod-template-hash": "1"})),
        ];
        let pods = pods.map(|(namespace, name, labels)| {
            let metadata = json!({"namespace": namespace, "name": name, "labels": labels});
            let pod = json!({ "metadata": metadata }).to_string();
            Arc::new(Pod::decode(pod.as_bytes()).unwrap())
        });
        SelectedPods::of(&pods.into_iter().collect())
    }

    fn selector(labels: &Value) -> Selector {
        let wire = serde_json::from_value(json!({ "matchLabels": labels })).unwrap();
        Selector::parse(Some(&wire)).unwrap()
    }

    #[test]
    fn selectors_find_the_same_pods_with_and_without_a_hash() {
        let web = |key: &str, hash: &str| json!({"app": "web", key: hash});
        // (why, selectors, names of the pods)
        let cases = [
            ("one", vec![web("pod-template-hash", "1")], vec!["old"]),
            (
                "two hashes",
                vec![web("pod-template-hash", "1"), web("pod-template-hash", "2")],
                vec!["new", "old"],
            ),
            (
                "Argo",
                vec![web("rollouts-pod-template-hash", "3")],
                vec!["argo"],
            ),
            (
                "a hash under another key",
                vec![web("rollouts-pod-template-hash", "1")],
                vec![],
            ),
            (
                "no hash",
                vec![json!({"app": "web"})],
                vec!["argo", "bare", "new", "old"],
            ),
            (
                "a pod that two selectors match",
                vec![json!({"app": "web"}), web("pod-template-hash", "1")],
                vec!["argo", "bare", "new", "old"],
            ),
        ];
        for (why, selectors, expected) in cases {
            let selectors: Vec<Selector> = selectors.iter().map(selector).collect();
            let found = pods().of_any("a", &selectors);
            let mut names: Vec<&str> = found.iter().map(|pod| &*pod.meta.name).collect();
            names.sort_unstable();
            assert_eq!(names, expected, "{why}");
        }
    }
}
