//! The selectors of all autoscalers, to find pods that several of them would scale.
//!
//! Two autoscalers over the same pods fight: each takes the other's replicas for load. An autoscaler
//! takes part once it has been synced.
//!
//! Upstream: `hpaSelectors` in `horizontal.go`.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use steersman_objects::{ObjectKey, Pod};
use steersman_values::intern::Sym;
use steersman_values::label_selector::LabelSelector;
use steersman_values::labels::Labels;

/// Selectors by autoscaler; `None` until its first sync. A range over the sorted keys finds the autoscalers
/// of one namespace.
#[derive(Debug, Default)]
pub(super) struct Selectors(Mutex<BTreeMap<ObjectKey, Option<LabelSelector>>>);

impl Selectors {
    /// Registers an autoscaler. Returns whether it is new. Upstream: `enqueueHPA`, which registers a selector
    /// for nothing.
    pub(super) fn register(&self, key: &ObjectKey) -> bool {
        let mut all = self.all();
        let is_new = !all.contains_key(key);
        if is_new {
            all.insert(key.clone(), None);
        }
        is_new
    }

    /// Removes an autoscaler. Returns whether it was registered.
    pub(super) fn remove(&self, key: &ObjectKey) -> bool {
        self.all().remove(key).is_some()
    }

    /// The registered autoscalers of the namespace that select one of `pods`, sorted by name. `own`
    /// gets the selector `selector` first, if it is still registered. Upstream:
    /// `hpasControllingPodsUnderSelector`. Pods decide, rather than selectors: two selectors that share no
    /// pod at present do not conflict.
    pub(super) fn selecting(
        &self,
        own: &ObjectKey,
        selector: &LabelSelector,
        pods: &[Arc<Pod>],
    ) -> Vec<ObjectKey> {
        // Pods of one template share their labels, so few sets are different.
        let labels: HashSet<&Labels> = pods.iter().map(|pod| &pod.meta.labels).collect();
        let mut all = self.all();
        // A deletion during the sync has removed the autoscaler already. It must not come back.
        if let Some(known) = all.get_mut(own) {
            *known = Some(selector.clone());
        }
        let first = ObjectKey {
            namespace: own.namespace.clone(),
            name: Arc::from(""),
        };
        all.range(first..)
            .take_while(|(key, _)| key.namespace == own.namespace)
            .filter(|(_, selector)| {
                let selects = |selector: &LabelSelector| {
                    let selected =
                        |labels: &&Labels| selector.matches(|key| labels.get(key).map(Sym::as_str));
                    labels.iter().any(selected)
                };
                selector.as_ref().is_some_and(selects)
            })
            .map(|(key, _)| key.clone())
            .collect()
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, Option<LabelSelector>>> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use steersman_objects::Object;

    use super::*;

    #[test]
    fn autoscalers_of_one_namespace_share_pods() {
        let key = |namespace: &str, name: &str| ObjectKey::new(namespace, name);
        let selector = |text: &str| LabelSelector::parse(text).unwrap();
        let pod = |name: &str| {
            let meta = json!({"namespace": "ns", "name": name, "labels": {"app": "web"}});
            Arc::new(Pod::decode(json!({ "metadata": meta }).to_string().as_bytes()).unwrap())
        };
        let pods = [pod("a"), pod("b")];
        let all = Selectors::default();
        for (namespace, name) in [("ns", "b"), ("ns", "a"), ("ns", "new"), ("other", "a")] {
            assert!(all.register(&key(namespace, name)));
            assert!(!all.register(&key(namespace, name)), "registered already");
        }
        let selecting = |namespace: &str, name: &str, text: &str, pods: &[Arc<Pod>]| {
            let found = all.selecting(&key(namespace, name), &selector(text), pods);
            let names: Vec<String> = found.iter().map(ToString::to_string).collect();
            names.join(" ")
        };
        // (why, namespace, name, selector, pods, autoscalers)
        let steps: [(&str, &str, &str, &str, &[Arc<Pod>], &str); 6] = [
            ("alone", "ns", "a", "app=web", &pods, "ns/a"),
            ("no pods", "ns", "b", "app=web", &[], ""),
            ("both", "ns", "b", "app in (web)", &pods, "ns/a ns/b"),
            (
                "another namespace",
                "other",
                "a",
                "app=web",
                &pods,
                "other/a",
            ),
            ("changed", "ns", "b", "app=db", &pods, "ns/a"),
            ("unregistered", "ns", "gone", "app=web", &pods, "ns/a"),
        ];
        for (why, namespace, name, text, pods, expected) in steps {
            assert_eq!(selecting(namespace, name, text, pods), expected, "{why}");
        }
        assert!(all.remove(&key("ns", "a")) && !all.remove(&key("ns", "a")));
    }
}
