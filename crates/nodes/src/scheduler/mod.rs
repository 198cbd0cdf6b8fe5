//! The simulated scheduler binds pods to the nodes that they fit, in turn.
//!
//! Upstream: `pkg/scheduler`.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use steersman_runtime::object::Object;
use steersman_runtime::scheduling::NodeSelector;

use super::placement::{NodeFacts, nowhere, obstacle};
use super::pod::SimPod;

/// Reason of nodes that the affinity of a pod excludes by name.
const OTHER_NAME: &str = "node(s) didn't satisfy plugin(s) [NodeAffinity]";

/// Round robin over the nodes that fit a pod. Clones share the nodes.
#[derive(Debug, Clone, Default)]
pub(super) struct Scheduler(Arc<Mutex<Nodes>>);

#[derive(Debug, Default)]
struct Nodes {
    known: BTreeMap<Arc<str>, NodeFacts>,
    /// The node that got the latest pod.
    last: Option<Arc<str>>,
}

impl Scheduler {
    /// Records a node, or removes it if `facts` is `None`.
    pub(super) fn note(&self, node: &str, facts: Option<NodeFacts>) {
        let mut nodes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match facts {
            Some(facts) => nodes.known.insert(node.into(), facts),
            None => nodes.known.remove(node),
        };
    }

    /// Number of known nodes.
    pub(super) fn nodes(&self) -> usize {
        let nodes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        nodes.known.len()
    }

    /// The next node in turn that fits the pod, in the order of names. The error is the message of
    /// the pod's condition.
    pub(super) fn pick(&self, pod: &SimPod) -> Result<Arc<str>, String> {
        let mut nodes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let picked = nodes.pick(pod)?;
        nodes.last = Some(Arc::clone(&picked));
        Ok(picked)
    }
}

impl Nodes {
    fn pick(&self, pod: &SimPod) -> Result<Arc<str>, String> {
        let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
        let mut fits = |facts: &NodeFacts| {
            let obstacle = obstacle(&pod.constraints, facts);
            if let Some(reason) = obstacle {
                *reasons.entry(reason).or_default() += 1;
            }
            obstacle.is_none()
        };
        let affinity = pod.constraints.required_affinity.as_ref();
        if let Some(names) = affinity.and_then(NodeSelector::node_names) {
            // A pod of a DaemonSet looks at one node, however many there are.
            let mut looked_at = 0;
            for name in names {
                if let Some((name, facts)) = self.known.get_key_value(name) {
                    looked_at += 1;
                    if fits(facts) {
                        return Ok(Arc::clone(name));
                    }
                }
            }
            if looked_at < self.known.len() {
                reasons.insert(OTHER_NAME, self.known.len() - looked_at);
            }
        } else {
            let last: &str = self.last.as_deref().unwrap_or_default();
            let after = self.known.range::<str, _>((Excluded(last), Unbounded));
            let until = self.known.range::<str, _>((Unbounded, Included(last)));
            for (name, facts) in after.chain(until) {
                if fits(facts) {
                    return Ok(Arc::clone(name));
                }
            }
        }
        Err(nowhere(self.known.len(), &reasons))
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
    use steersman_runtime::object::Node;

    use super::*;

    fn ready(name: &str) -> Option<NodeFacts> {
        let conditions = json!([{"type": "Ready", "status": "True"}]);
        let json = json!({"metadata": {"name": name}, "status": {"conditions": conditions}});
        Some(NodeFacts {
            node: Node::decode(json.to_string().as_bytes()).unwrap(),
            unschedulable: false,
        })
    }

    fn pod(spec: Value) -> SimPod {
        let json = json!({"metadata": {"name": "p", "namespace": "d", "uid": "u"}, "spec": spec});
        SimPod::decode(json.to_string().as_bytes()).unwrap()
    }

    fn pinned(node: &str) -> SimPod {
        let field = json!({"key": "metadata.name", "operator": "In", "values": [node]});
        let required = json!({"nodeSelectorTerms": [{"matchFields": [field]}]});
        pod(
            json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}),
        )
    }

    #[test]
    fn usable_nodes_take_turns() {
        let scheduler = Scheduler::default();
        assert!(scheduler.pick(&pod(json!({}))).is_err());
        for node in ["b", "a", "c"] {
            scheduler.note(node, ready(node));
        }
        let picks = |count: usize| {
            (0..count)
                .filter_map(|_| scheduler.pick(&pod(json!({}))).ok())
                .collect::<Vec<_>>()
                .concat()
        };
        assert_eq!(picks(4), "abca");
        scheduler.note("b", None);
        assert_eq!(picks(3), "cac");
    }

    #[test]
    fn a_pod_that_names_its_node_gets_that_node_only() {
        let scheduler = Scheduler::default();
        for node in ["a", "b", "c"] {
            scheduler.note(node, ready(node));
        }
        assert_eq!(scheduler.pick(&pinned("b")).as_deref(), Ok("b"));
        let cordoned = ready("b").map(|facts| NodeFacts {
            unschedulable: true,
            ..facts
        });
        scheduler.note("b", cordoned);
        // (node, part of the message)
        let cases = [
            (
                "b",
                "0/3 nodes are available: 1 node(s) were unschedulable, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]. no",
            ),
            (
                "z",
                "0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [NodeAffinity]. no new claims",
            ),
        ];
        for (node, expected) in cases {
            let message = scheduler.pick(&pinned(node)).unwrap_err();
            assert!(message.starts_with(expected), "{message}");
        }
    }
}
