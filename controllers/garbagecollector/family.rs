//! The part of the graph around one object, for the page and other readers.

use std::collections::{HashSet, VecDeque};

use steersman_objects::{Owners, Uid};
use steersman_why::Relative;

use super::graph::{Graph, NodeView};

/// The objects that owner references connect to the object `uid`, nearest first, at most `limit`.
/// With an empty `uid`: the objects that are being deleted or that no informer has shown.
pub(super) fn of(graph: &Graph, uid: &str, limit: usize) -> Vec<Relative> {
    if uid.is_empty() {
        let all = graph.iter();
        let ending = all.filter(|(node, ..)| node.being_deleted || node.is_virtual);
        return ending
            .take(limit)
            .map(|(node, owners, _)| relative(node, owners))
            .collect();
    }
    let mut seen = HashSet::new();
    let mut open = VecDeque::from([Uid::new(uid)]);
    let mut found = Vec::new();
    while let Some(uid) = open.pop_front() {
        // References may form cycles, and each object is visited once.
        if found.len() >= limit || !seen.insert(uid.clone()) {
            continue;
        }
        let Some((node, owners, dependents)) = graph.around(&uid) else {
            continue;
        };
        open.extend(owners.iter().map(|owner| owner.uid.clone()));
        open.extend(dependents);
        found.push(relative(node, owners));
    }
    found
}

fn relative(node: NodeView, owners: &Owners) -> Relative {
    let coordinates = node.coordinates;
    Relative {
        uid: coordinates.uid.to_string(),
        api_version: coordinates.api_version.to_string(),
        kind: coordinates.kind.to_string(),
        namespace: coordinates.namespace.to_string(),
        name: coordinates.name.to_string(),
        owners: owners.iter().map(|owner| owner.uid.to_string()).collect(),
        is_virtual: node.is_virtual,
        being_deleted: node.being_deleted,
        waits_for_dependents: node.deleting_dependents,
    }
}
