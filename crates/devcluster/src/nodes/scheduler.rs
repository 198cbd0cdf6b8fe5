//! Binds pods to nodes in turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use steersman_runtime::object::Object;

use super::pod::SimPod;
use super::register::SimNode;

/// Round robin over the usable nodes; resources and affinity do not count in a simulation.
#[derive(Debug, Default)]
pub(super) struct Scheduler {
    turn: AtomicUsize,
}

impl Scheduler {
    /// Name of the node whose turn it is.
    pub(super) fn pick(&self, nodes: &[Arc<SimNode>]) -> Option<String> {
        let mut usable: Vec<&str> = nodes.iter().filter(|node| node.is_usable()).map(|node| &*node.meta().name).collect();
        usable.sort_unstable();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        usable.get(turn.checked_rem(usable.len())?).map(|&name| name.to_owned())
    }
}

/// The body of `POST pods/<name>/binding`.
pub(super) fn binding(pod: &SimPod, node: &str) -> Value {
    let meta = pod.meta();
    json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": { "name": &*meta.name, "namespace": meta.namespace.as_str(), "uid": meta.uid.to_string() },
        "target": { "apiVersion": "v1", "kind": "Node", "name": node }
    })
}
