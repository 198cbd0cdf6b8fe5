//! Whether a pod has the current template of its DaemonSet.
//!
//! Upstream: `IsPodUpdated` in `util/daemonset_util.go`.
//!
//! A pod is never compared with the template itself: defaults and admission change pods.

use steersman_helpers::history::REVISION_LABEL;
use steersman_objects::{DaemonSet, Pod};

/// The label of a pod with the generation of its template. It recognises pods that were created
/// before revisions existed.
pub(super) const TEMPLATE_GENERATION_LABEL: &str = "pod-template-generation";

/// The current revision of a DaemonSet, as the labels of its pods name it.
///
/// Both labels are kept as text, as pods have them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Current {
    /// The label [`REVISION_LABEL`] of the current revision; empty if it has none.
    pub(super) hash: String,
    /// The annotation with the generation of the template, as its label has it.
    pub(super) generation: Option<String>,
}

impl Current {
    /// A malformed annotation is like none, as upstream.
    pub(super) fn new(ds: &DaemonSet, hash: String) -> Self {
        Self {
            hash,
            generation: ds.template_generation().map(|number| number.to_string()),
        }
    }

    /// Whether the revision label of `pod` is that of the current revision.
    ///
    /// A pod without the label has an empty one, as in Go.
    pub(super) fn has_hash(&self, pod: &Pod) -> bool {
        let label = pod.meta.labels.get(REVISION_LABEL);
        label.map_or("", |label| label) == self.hash
    }

    /// Whether `pod` has the current template, by one of its two labels.
    ///
    /// Either label suffices. Pods of an old cluster have the generation alone.
    pub(super) fn is_updated(&self, pod: &Pod) -> bool {
        let label = pod.meta.labels.get(TEMPLATE_GENERATION_LABEL);
        let generation = self.generation.as_deref();
        let has_generation = generation.is_some() && label.map(|label| &**label) == generation;
        has_generation || (!self.hash.is_empty() && self.has_hash(pod))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::pods::pod;

    #[test]
    fn is_pod_updated() {
        let both = json!({REVISION_LABEL: "55555", TEMPLATE_GENERATION_LABEL: "12345"});
        let no_hash = json!({TEMPLATE_GENERATION_LABEL: "12345"});
        let none = json!({});
        // (test, generation, labels, hash, updated)
        let cases = [
            (
                "templateGeneration and hash both match",
                12345,
                &both,
                "55555",
                true,
            ),
            (
                "templateGeneration matches, hash doesn't",
                12345,
                &both,
                "55555123",
                true,
            ),
            (
                "templateGeneration matches, no hash label, has hash",
                12345,
                &no_hash,
                "55555",
                true,
            ),
            (
                "templateGeneration matches, no hash label, no hash",
                12345,
                &no_hash,
                "",
                true,
            ),
            (
                "templateGeneration matches, has hash label, no hash",
                12345,
                &both,
                "",
                true,
            ),
            (
                "templateGeneration doesn't match, hash does",
                12350,
                &both,
                "55555",
                true,
            ),
            (
                "templateGeneration and hash don't match",
                12350,
                &both,
                "55555123",
                false,
            ),
            ("empty labels, no hash", 12345, &none, "", false),
            ("empty labels", 12345, &none, "55555", false),
            ("no labels", 12345, &serde_json::Value::Null, "55555", false),
        ];
        for (test, generation, labels, hash, expected) in cases {
            let current = Current {
                hash: hash.to_owned(),
                generation: Some(generation.to_string()),
            };
            let pod = pod("pod1").labels(labels.clone()).build();
            assert_eq!(current.is_updated(&pod), expected, "{test}");
        }
    }
}
