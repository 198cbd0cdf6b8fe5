//! Orphaned pods: pods on nodes that no longer exist.
//!
//! A node missing from the cache may be new, so it stays in quarantine for [`QUARANTINE`]. After
//! that, a live read decides. Upstream: `discoverDeletedNodes` and `gcOrphaned`.

use std::collections::HashSet;
use std::sync::Arc;

use steersman_client::{ApiClient, Category, Target};
use steersman_objects::{Node, Pod};
use steersman_runtime::workqueue::WorkQueue;
use steersman_values::intern::Sym;

use super::{Nodes, QUARANTINE};

/// Puts nodes of `pods` into quarantine if the cache lacks them. A node that is in quarantine
/// already keeps its end time.
pub(super) fn quarantine_unknown_nodes(
    pods: &[Arc<Pod>],
    nodes: &Nodes,
    quarantine: &WorkQueue<Sym>,
) {
    let unknown: HashSet<&Sym> = pods
        .iter()
        .filter_map(|pod| pod.node.as_ref())
        .filter(|n| !nodes.contains_key(*n))
        .collect();
    for name in unknown {
        quarantine.add_after(name.clone(), QUARANTINE);
    }
}

/// The nodes after their quarantine that do not exist according to the API server.
pub(super) async fn deleted_nodes(
    nodes: &Nodes,
    quarantine: &WorkQueue<Sym>,
    client: &ApiClient,
) -> HashSet<Sym> {
    let mut deleted = HashSet::new();
    // The queue holds a name back until its quarantine ends, so this loop does not wait.
    while !quarantine.is_empty() {
        let Some(item) = quarantine.get().await else {
            break;
        };
        let name = item.key.clone();
        if nodes.contains_key(&name) {
            continue;
        }
        // The cache may still lack a new node. A node without an answer returns to quarantine in
        // the next cycle.
        match client.get(Target::named::<Node>("", &name)).await {
            Ok(_) => {}
            Err(error) if error.is_object_not_found() => {
                deleted.insert(name);
            }
            Err(error) if error.is_fenced() => {
                tracing::debug!(node = &*name, %error, "node not looked up")
            }
            Err(error) => {
                let category = Category::of(&error).as_str();
                tracing::error!(node = &*name, category, %error, "cannot tell whether a node exists")
            }
        }
    }
    deleted
}

/// The pods on one of the `deleted` nodes.
pub(super) fn orphans(pods: &[Arc<Pod>], deleted: &HashSet<Sym>) -> Vec<Arc<Pod>> {
    if deleted.is_empty() {
        return Vec::new();
    }
    pods.iter()
        .filter(|pod| pod.node.as_ref().is_some_and(|node| deleted.contains(node)))
        .cloned()
        .collect()
}
