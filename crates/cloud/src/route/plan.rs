//! Decides which routes to delete and to create.
//!
//! Upstream: the first half of `reconcile`, and `getRouteAction`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, NodeAddress};

use super::ranges::Ranges;
use crate::provider::Route;

/// The changes of one pass.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Plan {
    /// Routes to delete, with the reason.
    pub(super) deletions: Vec<(Route, Unneeded)>,
    /// Routes to create.
    pub(super) creations: Vec<Creation>,
    /// Whether creations wait for the deletions, which may be about the same addresses.
    pub(super) deletions_first: bool,
    /// Whether all routes of the node exist already, by name. Nodes without ranges and routes are
    /// absent.
    pub(super) complete: HashMap<String, bool>,
}

/// A route to create.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Creation {
    pub(super) route: Route,
    /// UID of the node.
    pub(super) node_uid: String,
}

/// The reason for a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unneeded {
    /// The machine is gone.
    Blackhole,
    /// The addresses of the node changed; a new route follows.
    Replaced,
    /// The cache has no node with this name and range. It may lack one, so a live read confirms.
    NoSuchNode,
}

/// The routes to delete and to create for `nodes`, if the cloud has `routes`.
pub(super) fn plan(nodes: &[Arc<Node>], routes: &[Route], ranges: &Ranges) -> Plan {
    let mut plan = Plan {
        deletions_first: routes
            .first()
            .is_some_and(|route| route.enable_node_addresses),
        ..Plan::default()
    };
    let mut by_node: HashMap<&str, Vec<&Route>> = HashMap::new();
    for route in routes.iter().filter(|route| !route.target_node.is_empty()) {
        by_node.entry(&route.target_node).or_default().push(route);
    }
    let mut kept: HashSet<(&str, &str)> = HashSet::new();
    let mut replaced: HashSet<(&str, &str)> = HashSet::new();
    let mut created: HashSet<(&str, &str)> = HashSet::new();
    for node in nodes {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        let existing = by_node.get(name).map(Vec::as_slice).unwrap_or_default();
        let addresses = addresses(node);
        let ranges = pod_cidrs(node);
        if ranges.is_empty() {
            if !existing.is_empty() {
                plan.complete.insert(name.to_owned(), false);
            }
            continue;
        }
        let mut complete = true;
        for range in ranges {
            let found = existing
                .iter()
                .find(|route| route.destination_cidr == *range);
            match found {
                Some(route)
                    if !route.enable_node_addresses
                        || are_same(addresses, &route.target_node_addresses) =>
                {
                    kept.insert((name, range));
                    continue;
                }
                Some(_) => {
                    replaced.insert((name, range));
                }
                None => {}
            }
            complete = false;
            if !created.insert((name, range)) {
                continue;
            }
            plan.creations.push(Creation {
                route: Route {
                    target_node: name.to_owned(),
                    target_node_addresses: addresses.to_vec(),
                    destination_cidr: range.clone(),
                    ..Route::default()
                },
                node_uid: node.metadata.uid.clone().unwrap_or_default(),
            });
        }
        plan.complete.insert(name.to_owned(), complete);
    }
    for route in routes {
        let place = (&*route.target_node, &*route.destination_cidr);
        let reason = if route.blackhole {
            Unneeded::Blackhole
        } else if replaced.contains(&place) {
            Unneeded::Replaced
        } else if !kept.contains(&place) {
            Unneeded::NoSuchNode
        } else {
            continue;
        };
        if ranges.are_responsible_for(&route.destination_cidr) {
            plan.deletions.push((route.clone(), reason));
        }
    }
    plan
}

/// The ranges of pod addresses of the node.
pub(super) fn pod_cidrs(node: &Node) -> &[String] {
    let cidrs = node
        .spec
        .as_ref()
        .and_then(|spec| spec.pod_cidrs.as_deref());
    cidrs.unwrap_or_default()
}

fn addresses(node: &Node) -> &[NodeAddress] {
    let addresses = node
        .status
        .as_ref()
        .and_then(|status| status.addresses.as_deref());
    addresses.unwrap_or_default()
}

fn are_same(one: &[NodeAddress], other: &[NodeAddress]) -> bool {
    one.len() == other.len() && one.iter().all(|address| other.contains(address))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(name: &str, ranges: &[&str], address: &str) -> Arc<Node> {
        let json = json!({
            "metadata": {"name": name, "uid": format!("uid-of-{name}")},
            "spec": {"podCIDRs": ranges},
            "status": {"addresses": [{"type": "InternalIP", "address": address}]},
        });
        Arc::new(serde_json::from_value(json).unwrap())
    }

    /// `node range address`, with `*` at the end if the route depends on addresses, and `!` for a
    /// blackhole. `-` stands for no node.
    fn route(text: &str) -> Route {
        let words: Vec<&str> = text.trim_end_matches(['*', '!']).split(' ').collect();
        let address = |address: &&str| NodeAddress {
            address: (*address).to_owned(),
            type_: "InternalIP".to_owned(),
        };
        Route {
            name: text.to_owned(),
            target_node: words[0].trim_matches('-').to_owned(),
            destination_cidr: words[1].to_owned(),
            target_node_addresses: words.get(2).iter().map(|word| address(word)).collect(),
            enable_node_addresses: text.ends_with('*'),
            blackhole: text.ends_with('!'),
        }
    }

    /// Upstream: `TestReconcile`.
    #[test]
    fn routes_follow_the_ranges_of_nodes() {
        let [one, two] = [("a", "10.120.0.0/24", "1"), ("b", "10.120.1.0/24", "2")]
            .map(|(name, range, address)| node(name, &[range], address));
        let three = node("c", &["10.120.0.0/24", "a00:100::/24"], "3");
        let four = node("d", &["10.120.1.0/24", "a00:200::/24"], "4");
        let no_range = node("b", &[], "5");
        let twice = node("d", &["10.120.1.0/24", "10.120.1.0/24"], "4");
        let dual = vec![three, four];
        let single = vec![one.clone(), two];
        let all_dual = [
            "c 10.120.0.0/24",
            "d 10.120.1.0/24",
            "c a00:100::/24",
            "d a00:200::/24",
        ];
        // (why, nodes, routes, deleted, created, nodes with all routes)
        let cases: [(&str, &[Arc<Node>], &[&str], &[usize], &[&str], &[&str]); 17] = [
            (
                "routes without addresses are replaced",
                &dual,
                &[
                    "c 10.120.0.0/24*",
                    "d 10.120.1.0/24*",
                    "c a00:100::/24*",
                    "d a00:200::/24*",
                ],
                &[0, 1, 2, 3],
                &[
                    "c 10.120.0.0/24",
                    "c a00:100::/24",
                    "d 10.120.1.0/24",
                    "d a00:200::/24",
                ],
                &[],
            ),
            (
                "routes with old addresses are replaced",
                &dual,
                &[
                    "c 10.120.0.0/24 13*",
                    "d 10.120.1.0/24 4*",
                    "c a00:100::/24 3*",
                    "d a00:200::/24 14*",
                ],
                &[0, 3],
                &["c 10.120.0.0/24", "d a00:200::/24"],
                &[],
            ),
            (
                "no routes",
                &dual,
                &[],
                &[],
                &[
                    "c 10.120.0.0/24",
                    "c a00:100::/24",
                    "d 10.120.1.0/24",
                    "d a00:200::/24",
                ],
                &[],
            ),
            ("all routes", &dual, &all_dual, &[], &[], &["c", "d"]),
            (
                "routes of the other node",
                &dual,
                &[
                    "c 10.120.1.0/24",
                    "d 10.120.0.0/24",
                    "c a00:200::/24",
                    "d a00:100::/24",
                ],
                &[0, 1, 2, 3],
                &[
                    "c 10.120.0.0/24",
                    "c a00:100::/24",
                    "d 10.120.1.0/24",
                    "d a00:200::/24",
                ],
                &[],
            ),
            (
                "some routes",
                &dual,
                &["c 10.120.0.0/24", "d a00:200::/24"],
                &[],
                &["c a00:100::/24", "d 10.120.1.0/24"],
                &[],
            ),
            (
                "routes of unknown nodes",
                &dual,
                &[
                    "c 10.120.0.0/24",
                    "d 10.120.1.0/24",
                    "x 10.120.2.0/24",
                    "c a00:100::/24",
                    "d a00:200::/24",
                    "y a00:300::/24",
                ],
                &[2, 5],
                &[],
                &["c", "d"],
            ),
            (
                "one family",
                &single,
                &["a 10.120.0.0/24", "b 10.120.1.0/24"],
                &[],
                &[],
                &["a", "b"],
            ),
            (
                "new addresses",
                &single,
                &["a 10.120.0.0/24 9*", "b 10.120.1.0/24 8*"],
                &[0, 1],
                &["a 10.120.0.0/24", "b 10.120.1.0/24"],
                &[],
            ),
            (
                "one route",
                &single,
                &["a 10.120.0.0/24"],
                &[],
                &["b 10.120.1.0/24"],
                &["a"],
            ),
            (
                "none",
                &single,
                &[],
                &[],
                &["a 10.120.0.0/24", "b 10.120.1.0/24"],
                &[],
            ),
            (
                "too many",
                &single,
                &[
                    "a 10.120.0.0/24",
                    "b 10.120.1.0/24",
                    "c 10.120.2.0/24",
                    "d 10.120.3.0/24",
                ],
                &[2, 3],
                &[],
                &["a", "b"],
            ),
            (
                "one wrong",
                &single,
                &["a 10.120.0.0/24", "c 10.120.2.0/24"],
                &[1],
                &["b 10.120.1.0/24"],
                &["a"],
            ),
            (
                "a node without range",
                &[one.clone(), no_range.clone()],
                &[],
                &[],
                &["a 10.120.0.0/24"],
                &[],
            ),
            (
                "a blackhole in the range",
                &single,
                &["a 10.120.0.0/24", "b 10.120.1.0/24", "- 10.120.2.0/24!"],
                &[2],
                &[],
                &["a", "b"],
            ),
            (
                "a blackhole elsewhere",
                &single,
                &["a 10.120.0.0/24", "b 10.120.1.0/24", "- 10.1.2.0/24!"],
                &[],
                &[],
                &["a", "b"],
            ),
            (
                "one range twice",
                &[twice],
                &[],
                &[],
                &["d 10.120.1.0/24"],
                &[],
            ),
        ];
        let ranges = Ranges::parse("10.120.0.0/16,a00::/8").unwrap();
        for (why, nodes, routes, deleted, created, complete) in cases {
            let routes: Vec<Route> = routes.iter().map(|text| route(text)).collect();
            let plan = plan(nodes, &routes, &ranges);
            let deletions: Vec<&Route> = plan.deletions.iter().map(|(route, _)| route).collect();
            let expected: Vec<&Route> = deleted.iter().map(|at| &routes[*at]).collect();
            assert_eq!(deletions, expected, "{why}");
            let place = |creation: &Creation| {
                let route = &creation.route;
                assert_eq!(creation.node_uid, format!("uid-of-{}", route.target_node));
                assert_eq!(route.target_node_addresses.len(), 1, "{why}");
                format!("{} {}", route.target_node, route.destination_cidr)
            };
            let creations: Vec<String> = plan.creations.iter().map(place).collect();
            assert_eq!(creations, created, "{why}");
            let mut found: Vec<&str> = plan
                .complete
                .iter()
                .filter(|(_, all)| **all)
                .map(|(name, _)| &**name)
                .collect();
            found.sort_unstable();
            assert_eq!(found, complete, "{why}");
            let waits = routes
                .first()
                .is_some_and(|route| route.enable_node_addresses);
            assert_eq!(plan.deletions_first, waits, "{why}");
        }
        let stray = plan(&[one, no_range], &[route("b 10.120.9.0/24")], &ranges);
        assert_eq!(
            stray.complete.get("b"),
            Some(&false),
            "a route without a range"
        );
        let empty = plan(&[node("b", &[], "5")], &[], &ranges);
        assert!(empty.complete.is_empty(), "neither a route nor a range");
    }
}
