//! The pods that a Service or another selector selects, by an index over labels.
//!
//! Upstream reads all pods of a namespace for each sync. Here an index finds the pods with one pair
//! of key and value, and the selector is compared with these pods only.

use std::sync::Arc;

use steersman_objects::Pod;
use steersman_runtime::informer::{Index, IndexKey, Store};
use steersman_values::intern::Sym;
use steersman_values::label_selector::LabelSelector;
use steersman_values::labels::Labels;

/// The ends of label keys that selectors of Services rarely have: their values are hashes, UIDs,
/// numbers or names of Jobs. Such labels would make the index large and are left out. A selector with
/// no other key reads all pods of its namespace, as upstream always does.
const SKIPPED: [&str; 7] = [
    "pod-template-hash",
    "controller-revision-hash",
    "pod-template-generation",
    "controller-uid",
    "job-name",
    "job-completion-index",
    "pod-index",
];

/// Finds pods by labels. Cheap to clone.
#[derive(Clone)]
pub struct PodsByLabel {
    index: Index<Pod>,
}

impl PodsByLabel {
    /// Adds the index to `pods` and reads from it.
    pub fn of(pods: &Store<Pod>) -> Self {
        Self {
            index: pods.add_index_over("label", |a, b| a.meta.labels == b.meta.labels, values),
        }
    }

    /// The pods of `namespace` with all labels of `selector`, sorted by name.
    pub fn selected(&self, namespace: &str, selector: &Labels) -> Vec<Arc<Pod>> {
        let pairs = selector.iter();
        let pairs = pairs.map(|(key, value)| (key.as_str(), value.as_str()));
        self.filtered(namespace, pairs, |labels| labels.contains_all(selector))
    }

    /// The pods of `namespace` that `selector` matches, sorted by name.
    pub fn matching(&self, namespace: &str, selector: &LabelSelector) -> Vec<Arc<Pod>> {
        self.filtered(namespace, selector.required_pairs(), |labels| {
            selector.matches(|key| labels.get(key).map(Sym::as_str))
        })
    }

    /// The pods whose labels pass `is_selected`. `pairs` are labels that all of these pods have.
    fn filtered<'a>(
        &self,
        namespace: &str,
        pairs: impl Iterator<Item = (&'a str, &'a str)>,
        is_selected: impl Fn(&Labels) -> bool,
    ) -> Vec<Arc<Pod>> {
        let smallest = pairs
            .filter(|(key, _)| is_indexed(key))
            .map(|(key, value)| pair(namespace, key, value))
            .min_by_key(|pair| self.index.count(pair));
        let mut pods = match smallest {
            Some(pair) => self.index.get(&pair),
            None => self.index.store().in_namespace(namespace),
        };
        // A text that is a key here may be two other labels elsewhere, so namespaces are compared.
        pods.retain(|pod| pod.meta.namespace == *namespace && is_selected(&pod.meta.labels));
        pods.sort_unstable_by(|a, b| a.meta.name.cmp(&b.meta.name));
        pods
    }
}

/// The text of a pair of key and value in `namespace`.
fn pair(namespace: &str, key: &str, value: &str) -> String {
    format!("{namespace}/{key}={value}")
}

fn is_indexed(key: &str) -> bool {
    !SKIPPED.iter().any(|skipped| key.ends_with(skipped))
}

fn values(pod: &Pod) -> Vec<IndexKey> {
    let labels = pod.meta.labels.iter();
    labels
        .filter(|(key, _)| is_indexed(key))
        .map(|(key, value)| IndexKey::new(&pair(&pod.meta.namespace, key, value)))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use steersman_objects::Object;

    use super::*;

    fn pods() -> PodsByLabel {
        // (namespace, name, labels)
        let pods = [
            (
                "ns",
                "b",
                json!({"app": "web", "tier": "front", "pod-template-hash": "1"}),
            ),
            (
                "ns",
                "a",
                json!({"app": "web", "tier": "back", "pod-template-hash": "2"}),
            ),
            ("ns", "db", json!({"app": "db", "job-name": "import"})),
            ("other", "a", json!({"app": "web", "tier": "front"})),
        ];
        let pods = pods.map(|(namespace, name, labels)| {
            let metadata = json!({"namespace": namespace, "name": name, "labels": labels});
            let pod = json!({ "metadata": metadata }).to_string();
            Arc::new(Pod::decode(pod.as_bytes()).unwrap())
        });
        PodsByLabel::of(&pods.into_iter().collect())
    }

    #[test]
    fn labels_that_name_one_owner_are_not_indexed() {
        let labels = json!({
            "app": "web", "pod-template-hash": "1", "controller-uid": "u", "job-name": "j",
            "batch.kubernetes.io/job-name": "j", "batch.kubernetes.io/job-completion-index": "0",
        });
        let pod = json!({"metadata": {"namespace": "ns", "name": "a", "labels": labels}});
        let pod = Pod::decode(pod.to_string().as_bytes()).unwrap();
        assert_eq!(values(&pod), ["ns/app=web"]);
    }

    #[test]
    fn pods_with_all_labels_of_a_selector_are_found() {
        // (selector, names)
        let cases: [(Value, &[&str]); 7] = [
            (json!({"app": "web"}), &["a", "b"]),
            (json!({"app": "web", "tier": "front"}), &["b"]),
            (json!({"pod-template-hash": "2"}), &["a"]),
            (json!({"job-name": "import"}), &["db"]),
            (json!({"app": "web", "pod-template-hash": "1"}), &["b"]),
            (json!({"app": "none"}), &[]),
            (json!({"app": "db", "tier": "front"}), &[]),
        ];
        for (selector, expected) in cases {
            let labels: Labels = serde_json::from_value(selector.clone()).unwrap();
            let found = pods().selected("ns", &labels);
            let names: Vec<&str> = found.iter().map(|pod| &*pod.meta.name).collect();
            assert_eq!(names, expected, "{selector}");
        }
        // (selector text, names)
        let cases: [(&str, &[&str]); 4] = [
            ("app=web,tier!=back", &["b"]),
            ("app in (web,db)", &["a", "b", "db"]),
            ("pod-template-hash", &["a", "b"]),
            ("app=none", &[]),
        ];
        for (selector, expected) in cases {
            let found = pods().matching("ns", &LabelSelector::parse(selector).unwrap());
            let names: Vec<&str> = found.iter().map(|pod| &*pod.meta.name).collect();
            assert_eq!(names, expected, "{selector}");
        }
    }
}
