//! The simulated scheduler binds pods to nodes in turn.

use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use steersman_runtime::object::Object;

use super::pod::SimPod;

/// Round robin over the usable nodes. It ignores resources and affinity: simulated pods need none.
/// Clones share the nodes.
#[derive(Debug, Clone, Default)]
pub(super) struct Scheduler(Arc<Mutex<Nodes>>);

#[derive(Debug, Default)]
struct Nodes {
    usable: BTreeSet<Arc<str>>,
    /// The node that got the latest pod.
    last: Option<Arc<str>>,
}

impl Scheduler {
    /// Records whether a node can take pods.
    pub(super) fn note(&self, node: &str, usable: bool) {
        let mut nodes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if usable {
            nodes.usable.insert(node.into());
        } else {
            nodes.usable.remove(node);
        }
    }

    /// Name of the next node in turn, in the order of names; `None` without usable nodes.
    pub(super) fn pick(&self) -> Option<Arc<str>> {
        let mut nodes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let after = |last: &str| {
            nodes
                .usable
                .range::<str, _>((Excluded(last), Unbounded))
                .next()
        };
        let picked = nodes
            .last
            .as_deref()
            .and_then(after)
            .or_else(|| nodes.usable.first())
            .cloned();
        nodes.last.clone_from(&picked);
        picked
    }
}

/// Body of `POST pods/<name>/binding`.
pub(super) fn binding(pod: &SimPod, node: &str) -> Value {
    let meta = pod.meta();
    json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": { "name": &*meta.name, "namespace": meta.namespace.as_str(), "uid": meta.uid.to_string() },
        "target": { "apiVersion": "v1", "kind": "Node", "name": node }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usable_nodes_take_turns() {
        let scheduler = Scheduler::default();
        assert_eq!(scheduler.pick(), None);
        for node in ["b", "a", "c"] {
            scheduler.note(node, true);
        }
        let picks = |count: usize| {
            (0..count)
                .filter_map(|_| scheduler.pick())
                .collect::<Vec<_>>()
                .concat()
        };
        assert_eq!(picks(4), "abca");
        scheduler.note("b", false);
        assert_eq!(picks(3), "cac");
    }
}
