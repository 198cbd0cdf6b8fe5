//! Pods bound to nodes that no longer exist.

use std::collections::HashSet;
use std::sync::Arc;

use steersman_runtime::client::{ApiClient, Target};
use steersman_runtime::intern::Sym;
use steersman_runtime::object::Pod;
use steersman_runtime::resource;
use steersman_runtime::workqueue::WorkQueue;

use super::{Nodes, QUARANTINE};

/// Puts the nodes that `pods` name and the cache does not know in quarantine; a node in quarantine
/// keeps its time.
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

/// Of the nodes whose quarantine is over, those that the API server says do not exist.
pub(super) async fn deleted_nodes(
    nodes: &Nodes,
    quarantine: &WorkQueue<Sym>,
    client: &ApiClient,
) -> HashSet<Sym> {
    let mut deleted = HashSet::new();
    while !quarantine.is_empty() {
        let Some(item) = quarantine.get().await else {
            break;
        };
        let name = item.key.clone();
        if nodes.contains_key(&name) {
            continue;
        }
        // The cache may lack a new node; the quarantine was long enough for an old one to be missed
        // for good.
        let target = Target {
            resource: &resource::NODES,
            namespace: None,
            name: Some(&name),
            subresource: None,
        };
        match client.get(target).await {
            Ok(_) => {}
            Err(error) if error.is_not_found() => {
                deleted.insert(name);
            }
            Err(error) if error.is_fenced() => {
                tracing::debug!(node = &*name, %error, "node not looked up")
            }
            Err(error) => {
                tracing::error!(node = &*name, %error, "cannot tell whether a node exists")
            }
        }
    }
    deleted
}

/// The pods of `pods` on one of `deleted`.
pub(super) fn orphans(pods: &[Arc<Pod>], deleted: &HashSet<Sym>) -> Vec<Arc<Pod>> {
    if deleted.is_empty() {
        return Vec::new();
    }
    pods.iter()
        .filter(|pod| pod.node.as_ref().is_some_and(|node| deleted.contains(node)))
        .cloned()
        .collect()
}
