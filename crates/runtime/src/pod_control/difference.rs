//! The difference between the cached pods of an owner and a live list of them.

use std::collections::HashMap;
use std::sync::Arc;

use steersman_client::live::Lag;
use steersman_objects::{Meta, Pod, Uid};
use steersman_values::labels::Selector;

/// The difference between the pods of an owner in a live list and in the cache.
pub(super) struct Difference {
    /// Resource versions of the pods that the cache lacks, or has in another state.
    missing: Vec<u64>,
    /// True if the cache shows pods that are gone or belong to another owner.
    surplus: bool,
}

impl Difference {
    /// Compares the pods of `owner` in `live`, a list by `selector`, with `cached`. Pods without a
    /// `state` do not count.
    pub(super) fn between<S: PartialEq>(
        owner: &Meta,
        selector: &Selector,
        live: Vec<Pod>,
        cached: &[Arc<Pod>],
        state: impl Fn(&Pod) -> Option<S>,
    ) -> Self {
        // An orphan counts if a later sync adopts it, after the cache shows it. Without adoption,
        // it would be missing for ever.
        let may_be_ours = |pod: &Pod| match pod.meta.controller() {
            Some(controller) => controller.uid == owner.uid,
            None => !owner.is_terminating() && !pod.meta.is_terminating(),
        };
        let ours = live.into_iter().filter_map(|pod| {
            let counts = selector.matches(&pod.meta.labels) && may_be_ours(&pod);
            Some((
                pod.meta.uid.clone(),
                (state(&pod).filter(|_| counts)?, pod.meta),
            ))
        });
        let mut missing: HashMap<Uid, (S, Meta)> = ours.collect();
        // The cached copies of pods that this sync adopted lack the reference; the live ones have
        // it.
        let mut surplus = false;
        for pod in cached {
            let Some(shown) = state(pod) else { continue };
            match missing.get(&pod.meta.uid) {
                Some((live, meta)) if meta.is_controlled_by(&owner.uid) => {
                    if *live == shown {
                        missing.remove(&pod.meta.uid);
                    }
                }
                // The live pod is an orphan: it was released after the cached state.
                Some(_) => {
                    missing.remove(&pod.meta.uid);
                    surplus = true;
                }
                None => surplus = true,
            }
        }
        Self {
            missing: missing
                .into_values()
                .map(|(_, meta)| meta.resource_version)
                .collect(),
            surplus,
        }
    }

    /// The changes that the cache lacks. `None` without a difference. Upstream has no such
    /// comparison.
    pub(super) fn lag(&self) -> Option<Lag> {
        if self.surplus {
            Some(Lag::Deletion)
        } else {
            self.missing.iter().copied().max().map(Lag::Until)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use steersman_objects::Object;

    use super::*;

    const DELETED: &str = "2026-01-01T00:00:00Z";

    /// The metadata of the owner, with these changes.
    fn owner(changes: &Value) -> Meta {
        let metadata = json!({"name": "web", "namespace": "default", "uid": "web"});
        decoded(metadata, changes).meta
    }

    /// A pod of the owner, at version 5, with these changes of its metadata.
    fn pod(changes: &Value) -> Pod {
        let reference = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web", "controller": true});
        let metadata = json!({
            "name": "p", "namespace": "default", "uid": "p", "resourceVersion": "5",
            "labels": {"app": "web"}, "ownerReferences": [reference],
        });
        decoded(metadata, changes)
    }

    fn decoded(mut metadata: Value, changes: &Value) -> Pod {
        for (field, value) in changes.as_object().unwrap() {
            metadata[field] = value.clone();
        }
        let json = json!({"metadata": metadata, "spec": {"containers": []}});
        Pod::decode(json.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn cache_waits_only_for_pods_that_a_sync_will_count() {
        let here = json!({});
        let orphan = json!({"ownerReferences": []});
        let other = json!({"ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "old", "controller": true}]});
        let leaving = json!({"deletionTimestamp": DELETED});
        let leaving_orphan = json!({"deletionTimestamp": DELETED, "ownerReferences": []});
        let unmatched = json!({"labels": {"app": "db"}});
        let at_the_pod = Some(Lag::Until(5));
        // (why, the owner, live pod, cached pod, what the cache lacks)
        let cases = [
            ("no pods", &here, None, None, None),
            ("equal", &here, Some(&here), Some(&here), None),
            (
                "the cache lacks a pod",
                &here,
                Some(&here),
                None,
                at_the_pod,
            ),
            (
                "the pod is gone",
                &here,
                None,
                Some(&here),
                Some(Lag::Deletion),
            ),
            (
                "another state",
                &here,
                Some(&leaving),
                Some(&here),
                at_the_pod,
            ),
            ("another owner", &here, Some(&other), None, None),
            ("other labels", &here, Some(&unmatched), None, None),
            ("an orphan to adopt", &here, Some(&orphan), None, at_the_pod),
            (
                "a terminating orphan",
                &here,
                Some(&leaving_orphan),
                None,
                None,
            ),
            (
                "an orphan, terminating owner",
                &leaving,
                Some(&orphan),
                None,
                None,
            ),
            (
                "a pod, terminating owner",
                &leaving,
                Some(&here),
                None,
                at_the_pod,
            ),
            (
                "lost its owner",
                &here,
                Some(&orphan),
                Some(&here),
                Some(Lag::Deletion),
            ),
            (
                "lost its owner, terminating",
                &here,
                Some(&leaving_orphan),
                Some(&here),
                Some(Lag::Deletion),
            ),
        ];
        let wire = serde_json::from_value(json!({"matchLabels": {"app": "web"}})).unwrap();
        let selector = Selector::parse(Some(&wire)).unwrap();
        for (why, of, live, cached, expected) in cases {
            let live = live.into_iter().map(pod);
            let cached = cached.into_iter().map(|changes| Arc::new(pod(changes)));
            let live: Vec<_> = live.collect();
            let cached: Vec<_> = cached.collect();
            let state = |pod: &Pod| Some(pod.meta.is_terminating());
            let owner = owner(of);
            let difference = Difference::between(&owner, &selector, live, &cached, state);
            assert_eq!(difference.lag(), expected, "{why}");
        }
    }
}
