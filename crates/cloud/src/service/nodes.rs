//! Decides which nodes are behind load balancers.
//!
//! Upstream: `stableNodeSetPredicates`, `shouldSyncUpdatedNode`, `nodesSufficientlyEqual` and
//! `loggableNodeNames`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use steersman_options::go_bool;
use steersman_runtime::informer::Store;

use crate::served::Served;

const EXCLUDED: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

/// The key of the taint that Cluster Autoscaler sets before it removes a node.
const TO_BE_DELETED: &str = "ToBeDeletedByClusterAutoscaler";

/// Names of nodes in one Event.
const SHOWN: usize = 20;

/// Message of the Event of a load balancer without nodes.
pub(super) const NONE: &str = "There are no available nodes for LoadBalancer";

/// The cached nodes that load balancers lead to.
pub(super) fn targets(nodes: &Store<Served<Node>>) -> Vec<Arc<Node>> {
    let nodes = nodes
        .list()
        .into_iter()
        .map(|node| Arc::clone(&node.object));
    nodes.filter(|node| is_target(node)).collect()
}

/// Whether load balancers lead to the node.
pub(super) fn is_target(node: &Node) -> bool {
    let taints = node
        .spec
        .iter()
        .flat_map(|spec| spec.taints.iter().flatten());
    node.metadata.deletion_timestamp.is_none()
        && is_included(node)
        && taints.into_iter().all(|taint| taint.key != TO_BE_DELETED)
}

/// Whether the label lets the node in: absent, or a value of Go's `ParseBool` for false.
fn is_included(node: &Node) -> bool {
    let labels = node.metadata.labels.as_ref();
    labels
        .and_then(|labels| labels.get(EXCLUDED))
        .is_none_or(|text| go_bool(text) == Ok(false))
}

/// Whether the update of a node matters for load balancers.
pub(super) fn changed(old: &Node, new: &Node) -> bool {
    is_included(old) != is_included(new) || provider_id(old) != provider_id(new)
}

/// Whether load balancers treat both lists alike: the same names with the same provider IDs.
pub(super) fn are_equal(old: &[Arc<Node>], new: &[Arc<Node>]) -> bool {
    let ids = |nodes: &[Arc<Node>]| -> BTreeMap<String, String> {
        let pair = |node: &Arc<Node>| (name(node).to_owned(), provider_id(node).to_owned());
        nodes.iter().map(pair).collect()
    };
    old.len() == new.len() && ids(old) == ids(new)
}

/// The names of the first 20 nodes, sorted, in Go's form of a list.
pub(super) fn shown_names(nodes: &[Arc<Node>]) -> String {
    let names: BTreeSet<&str> = nodes.iter().take(SHOWN).map(|node| name(node)).collect();
    let mut names: Vec<String> = names.into_iter().map(str::to_owned).collect();
    if let Some(more @ 1..) = nodes.len().checked_sub(SHOWN) {
        names.push(format!("<{more} more>"));
    }
    format!("[{}]", names.join(" "))
}

fn name(node: &Node) -> &str {
    node.metadata.name.as_deref().unwrap_or_default()
}

fn provider_id(node: &Node) -> &str {
    let id = node
        .spec
        .as_ref()
        .and_then(|spec| spec.provider_id.as_deref());
    id.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn node(json: Value) -> Node {
        serde_json::from_value(json).unwrap()
    }

    fn with(label: Option<&str>, taint: Option<&str>, id: &str, ready: &str) -> Node {
        let labels = label.map(|value| json!({EXCLUDED: value}));
        let taints = taint.map(|key| json!([{"key": key, "effect": "NoSchedule"}]));
        node(json!({
            "metadata": {"name": "n", "labels": labels},
            "spec": {"taints": taints, "providerID": id},
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        }))
    }

    /// Upstream: `TestListWithPredicate`.
    #[test]
    fn nodes_that_end_or_are_excluded_are_no_targets() {
        let deleted = node(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
        // (node, target)
        let cases = [
            (with(None, None, "", "True"), true),
            (with(None, None, "", "False"), true),
            (with(None, Some("other"), "", "True"), true),
            (with(None, Some(TO_BE_DELETED), "", "True"), false),
            (deleted, false),
            (with(Some("false"), None, "", "True"), true),
            (with(Some("0"), None, "", "True"), true),
            (with(Some("F"), None, "", "True"), true),
            (with(Some("true"), None, "", "True"), false),
            (with(Some(""), None, "", "True"), false),
            (with(Some("no"), None, "", "True"), false),
        ];
        for (node, expected) in cases {
            assert_eq!(is_target(&node), expected, "{node:?}");
        }
    }

    /// Upstream: `Test_shouldSyncUpdatedNode_individualPredicates` and
    /// `Test_shouldSyncUpdatedNode_compoundedPredicates`: inclusion and provider ID decide, and
    /// taints and readiness never do.
    #[test]
    fn inclusion_and_provider_id_decide_about_updates() {
        let all = |of: &[Option<&'static str>]| of.to_vec();
        let mut nodes = Vec::new();
        for label in all(&[None, Some("true"), Some("false")]) {
            for taint in all(&[None, Some(TO_BE_DELETED)]) {
                for id in ["", "p-1", "p-2"] {
                    for ready in ["True", "False", "Unknown"] {
                        let included = label != Some("true");
                        nodes.push((with(label, taint, id, ready), (included, id)));
                    }
                }
            }
        }
        for (old, before) in &nodes {
            for (new, after) in &nodes {
                assert_eq!(changed(old, new), before != after, "{old:?} -> {new:?}");
            }
        }
    }

    /// Upstream: `TestNodesNotEqual`.
    #[test]
    fn lists_are_equal_with_the_same_names_and_provider_ids() {
        let nodes = |list: &[(&str, &str)]| -> Vec<Arc<Node>> {
            let node = |(name, id): &(&str, &str)| {
                Arc::new(node(
                    json!({"metadata": {"name": name}, "spec": {"providerID": id}}),
                ))
            };
            list.iter().map(node).collect()
        };
        // (old, new, equal)
        let cases: [(&[(&str, &str)], &[(&str, &str)], bool); 6] = [
            (&[], &[], true),
            (&[("a", "1"), ("b", "2")], &[("b", "2"), ("a", "1")], true),
            (&[("a", "1")], &[("a", "2")], false),
            (&[("a", "1")], &[("b", "1")], false),
            (&[("a", "1")], &[("a", "1"), ("b", "2")], false),
            (&[("a", "")], &[("a", "1")], false),
        ];
        for (old, new, expected) in cases {
            assert_eq!(
                are_equal(&nodes(old), &nodes(new)),
                expected,
                "{old:?} -> {new:?}"
            );
        }
        let many: Vec<(String, &str)> = (0..23).rev().map(|n| (format!("n{n:02}"), "")).collect();
        let many: Vec<(&str, &str)> = many.iter().map(|(name, id)| (&**name, *id)).collect();
        assert_eq!(shown_names(&nodes(&many[..2])), "[n21 n22]");
        let twenty = shown_names(&nodes(&many[..20]));
        assert!(
            twenty.starts_with("[n03 n04 ") && twenty.ends_with(" n22]"),
            "{twenty}"
        );
        assert!(shown_names(&nodes(&many)).ends_with(" n22 <3 more>]"));
    }
}
