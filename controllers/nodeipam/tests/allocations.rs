//! Cases of upstream's `range_allocator_test.go`, `controller_test.go` and the metrics tests of
//! `cidr_set_test.go`, on the allocations without requests.

use prometheus::Registry;
use serde_json::json;
use steersman_objects::{Node, Object, ObjectKey, Uid};
use steersman_values::cidr::Cidr;

use crate::nodeipam::allocations::Allocations;
use crate::nodeipam::config::Ranges;
use crate::nodeipam::metrics::IpamMetrics;

fn cidr(text: &str) -> Cidr {
    Cidr::parse(text).unwrap()
}

fn node(name: &str, cidrs: &[&str]) -> Node {
    let node = json!({"metadata": {"name": name}, "spec": {"podCIDRs": cidrs}});
    Node::decode(node.to_string().as_bytes()).unwrap()
}

/// A node with this UID.
fn without_block(uid: &str) -> Node {
    let mut node = node("a", &[]);
    node.meta.uid = Uid::new(uid);
    node
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("", name)
}

struct Stage {
    allocations: Allocations,
    registry: Registry,
}

impl Stage {
    fn new(clusters: &[(&str, u8)], services: &[&str]) -> Self {
        let registry = Registry::new();
        let metrics = IpamMetrics::register(&registry).unwrap();
        let ranges = Ranges {
            clusters: clusters.iter().map(|(text, _)| cidr(text)).collect(),
            node_masks: clusters.iter().map(|(_, mask)| *mask).collect(),
            services: services.iter().map(|text| cidr(text)).collect(),
        };
        let allocations = Allocations::new(&ranges, &metrics);
        Self {
            allocations,
            registry,
        }
    }

    fn reserve(&mut self, name: &str) -> Option<Vec<String>> {
        let blocks = self.allocations.reserve(&key(name), &Uid::new(name)).ok()?;
        Some(blocks.unwrap().iter().map(ToString::to_string).collect())
    }

    /// Usage, allocations, releases, sum of tries and number of blocks of a cluster CIDR.
    fn metrics(&self, cluster: &str) -> [f64; 5] {
        [
            "cidrset_usage_cidrs",
            "cidrset_cidrs_allocations_total",
            "cidrset_cidrs_releases_total",
            "cidrset_allocation_tries_per_request",
            "cirdset_max_cidrs",
        ]
        .map(|name| {
            let name = format!("node_ipam_controller_{name}");
            let families = self.registry.gather();
            let family = families
                .iter()
                .find(|family| family.name() == name)
                .unwrap();
            let of_cluster = family
                .get_metric()
                .iter()
                .find(|metric| metric.get_label()[0].value() == cluster);
            let metric = of_cluster.unwrap();
            metric.get_gauge().get_value()
                + metric.get_counter().get_value()
                + metric.get_histogram().get_sample_sum()
        })
    }
}

#[test]
fn occupy_pre_existing_cidr() {
    const V4: (&str, u8) = ("10.10.0.0/16", 24);
    const V6: (&str, u8) = ("ace:cab:deca::/8", 24);
    // (case, cluster CIDRs, blocks of the node, they fit)
    let cases: [(&str, &[(&str, u8)], &[&str], bool); 8] = [
        ("success, single stack no node allocation", &[V4], &[], true),
        (
            "success, dual stack no node allocation",
            &[V4, V6],
            &[],
            true,
        ),
        (
            "success, single stack correct node allocation",
            &[V4],
            &["10.10.0.1/24"],
            true,
        ),
        (
            "success, dual stack both allocated correctly",
            &[V4, V6],
            &["10.10.0.1/24", "a00::/86"],
            true,
        ),
        (
            "fail, single stack incorrect node allocation",
            &[V4],
            &["172.10.0.1/24"],
            false,
        ),
        (
            "fail, dualstack node allocating from non existing cidr",
            &[V4],
            &["10.10.0.1/24", "a00::/86"],
            false,
        ),
        (
            "fail, dualstack node allocating bad v4",
            &[V4, V6],
            &["172.10.0.1/24", "a00::/86"],
            false,
        ),
        (
            "fail, dualstack node allocating bad v6",
            &[V4, V6],
            &["10.10.0.1/24", "cdd::/86"],
            false,
        ),
    ];
    for (case, clusters, cidrs, fits) in cases {
        let mut stage = Stage::new(clusters, &[]);
        let held = stage.allocations.hold_listed(&[node("node0", cidrs)], 0);
        assert_eq!(held.is_ok(), fits, "{case}");
    }
}

#[test]
fn allocate_or_occupy_cidr() {
    const V4: (&str, u8) = ("127.123.234.0/8", 24);
    const V6: (&str, u8) = ("ace:cab:deca::/84", 98);
    const SMALL: (&str, u8) = ("127.123.234.0/24", 30);
    const SERVICE: &str = "127.123.234.0/26";
    // (case, cluster CIDRs, service ranges, blocks of other nodes, blocks of the new node)
    let cases: [(&str, &[(&str, u8)], &[&str], &[&str], &[&str]); 8] = [
        (
            "When there's no ServiceCIDR return first CIDR in range",
            &[SMALL],
            &[],
            &[],
            &["127.123.234.0/30"],
        ),
        (
            "Correctly filter out ServiceCIDR",
            &[SMALL],
            &[SERVICE],
            &[],
            &["127.123.234.64/30"],
        ),
        (
            "Correctly ignore already allocated CIDRs",
            &[SMALL],
            &[SERVICE],
            &[
                "127.123.234.64/30",
                "127.123.234.68/30",
                "127.123.234.72/30",
                "127.123.234.80/30",
            ],
            &["127.123.234.76/30"],
        ),
        (
            "Dualstack CIDRs v4,v6",
            &[V4, V6],
            &[SERVICE],
            &[],
            &["127.0.0.0/24", "ace:cab:deca::/98"],
        ),
        (
            "Dualstack CIDRs v6,v4",
            &[V6, V4],
            &[SERVICE],
            &[],
            &["ace:cab:deca::/98", "127.0.0.0/24"],
        ),
        (
            "Dualstack CIDRs, more than two",
            &[V4, V6, ("10.0.0.0/8", 24)],
            &[SERVICE],
            &[],
            &["127.0.0.0/24", "ace:cab:deca::/98", "10.0.0.0/24"],
        ),
        (
            "no double counting",
            &[("10.10.0.0/22", 24)],
            &[],
            &["10.10.0.0/24", "10.10.2.0/24"],
            &["10.10.1.0/24"],
        ),
        (
            "failure: all blocks are occupied",
            &[("127.123.234.0/28", 30)],
            &[],
            &[
                "127.123.234.0/30",
                "127.123.234.4/30",
                "127.123.234.8/30",
                "127.123.234.12/30",
            ],
            &[],
        ),
    ];
    for (case, clusters, services, others, expected) in cases {
        let mut stage = Stage::new(clusters, services);
        for (number, block) in others.iter().enumerate() {
            let other = node(&format!("other{number}"), &[block]);
            stage
                .allocations
                .hold_listed(std::slice::from_ref(&other), 0)
                .unwrap();
            stage.allocations.observe(&other);
        }
        stage.allocations.forget_listed();
        let found = stage.reserve("node0").unwrap_or_default();
        assert_eq!(found, expected, "{case}");
    }
}

#[test]
fn release_cidr_success() {
    const BLOCKS: [&str; 4] = [
        "127.123.234.0/30",
        "127.123.234.4/30",
        "127.123.234.8/30",
        "127.123.234.12/30",
    ];
    // (case, occupied blocks, first answer, released block)
    let cases: [(&str, &[&str], Option<&str>, &str); 2] = [
        (
            "Correctly release preallocated CIDR",
            &BLOCKS,
            None,
            BLOCKS[1],
        ),
        (
            "Correctly recycle CIDR",
            &BLOCKS[1..],
            Some(BLOCKS[0]),
            BLOCKS[0],
        ),
    ];
    for (case, occupied, first, released) in cases {
        let mut stage = Stage::new(&[("127.123.234.0/28", 30)], &[]);
        for block in occupied {
            stage.allocations.observe(&node(block, &[block]));
        }
        let found = stage.reserve("node0").map(|blocks| blocks[0].clone());
        assert_eq!(found.as_deref(), first, "{case}");
        if first.is_some() {
            stage.allocations.observe(&node(released, &[released]));
            stage.allocations.refused(&key("node0"));
        }
        stage.allocations.forget(&key(released));
        assert_eq!(stage.reserve("node0").unwrap(), [released], "{case}");
    }
}

#[test]
fn occupy_service_cidr() {
    let services = [
        "10.0.255.0/24",
        "10.1.0.0/24",
        "10.1.255.0/24",
        "10.2.0.0/24",
    ];
    for (service, free) in services.into_iter().zip([256, 255, 255, 256]) {
        let mut stage = Stage::new(&[("10.1.0.0/16", 24)], &[service]);
        let mut number = 0;
        while let Some(blocks) = stage.reserve(&format!("n{number}")) {
            assert!(!cidr(&blocks[0]).overlaps(&cidr(service)), "{service}");
            number += 1;
        }
        assert_eq!(number, free, "{service}");
    }
}

/// Upstream: `TestCidrSetMetrics`, `TestCidrSetMetricsHistogram`, `TestCidrSetMetricsDual`.
#[test]
fn cidr_set_metrics() {
    const V4: &str = "10.0.0.0/16";
    const V6: &str = "2001:db8::/48";
    let mut stage = Stage::new(&[(V4, 24)], &[]);
    assert_eq!(stage.metrics(V4), [0.0, 0.0, 0.0, 0.0, 256.0]);
    for number in 1..=256 {
        stage.reserve(&format!("n{number}")).unwrap();
        let used = f64::from(number);
        assert_eq!(stage.metrics(V4), [used / 256.0, used, 0.0, 0.0, 256.0]);
    }
    for number in 1..=256 {
        stage.allocations.refused(&key(&format!("n{number}")));
    }
    assert_eq!(stage.metrics(V4), [0.0, 256.0, 256.0, 0.0, 256.0]);
    stage.allocations.observe(&node("all", &[V4]));
    assert_eq!(stage.metrics(V4), [1.0, 512.0, 256.0, 0.0, 256.0]);

    let mut stage = Stage::new(&[(V4, 24)], &[]);
    stage.allocations.observe(&node("half", &["10.0.0.0/17"]));
    assert_eq!(stage.metrics(V4), [0.5, 128.0, 0.0, 0.0, 256.0]);
    stage.reserve("next").unwrap();
    assert_eq!(stage.metrics(V4), [129.0 / 256.0, 129.0, 0.0, 128.0, 256.0]);

    let mut stage = Stage::new(&[(V4, 24), (V6, 64)], &[]);
    stage.allocations.observe(&node("all", &[V4, V6]));
    assert_eq!(stage.metrics(V4), [1.0, 256.0, 0.0, 0.0, 256.0]);
    assert_eq!(stage.metrics(V6), [1.0, 65536.0, 0.0, 0.0, 65536.0]);
    stage.allocations.forget(&key("all"));
    assert_eq!(stage.metrics(V4), [0.0, 256.0, 256.0, 0.0, 256.0]);
    assert_eq!(stage.metrics(V6), [0.0, 65536.0, 65536.0, 0.0, 65536.0]);
}

/// A reservation ends only when the cache shows the node's blocks, or after a refusal.
#[test]
fn a_reserved_block_is_given_to_no_other_node() {
    let first = Some(vec!["10.0.0.0/24".to_owned()]);
    let second = Some(vec!["10.0.1.0/24".to_owned()]);
    type Change = fn(&mut Allocations);
    // (case, changes after the reservation of "a", the only other block goes to "b" as well)
    let cases: [(&str, &[Change], bool); 10] = [
        ("refused", &[|all| all.refused(&key("a"))], true),
        ("no answer", &[|all| all.doubted(&key("a"))], false),
        (
            "no answer, then refused",
            &[|all| all.doubted(&key("a")), |all| all.refused(&key("a"))],
            false,
        ),
        (
            "no answer, and the node is gone",
            &[|all| all.doubted(&key("a")), |all| all.forget(&key("a"))],
            true,
        ),
        ("accepted", &[|all| all.confirmed(&key("a"))], false),
        (
            "accepted and seen",
            &[
                |all| all.confirmed(&key("a")),
                |all| all.observe(&node("a", &["10.0.0.0/24"])),
                |all| all.settled(&key("a"), Some(&node("a", &["10.0.0.0/24"]))),
            ],
            false,
        ),
        (
            "accepted, and the cache has lost the event with the block",
            &[
                |all| all.confirmed(&key("a")),
                |all| all.settled(&key("a"), Some(&without_block("a"))),
            ],
            false,
        ),
        (
            "accepted, and the cache skipped to another node of the name",
            &[
                |all| all.confirmed(&key("a")),
                |all| all.settled(&key("a"), Some(&without_block("another"))),
            ],
            true,
        ),
        (
            "accepted, and the cache skipped to the deletion of the node",
            &[
                |all| all.confirmed(&key("a")),
                |all| all.forget(&key("a")),
                |all| all.settled(&key("a"), None),
            ],
            true,
        ),
        (
            "no answer, and the node has another block",
            &[
                |all| all.doubted(&key("a")),
                |all| all.observe(&node("a", &["10.0.1.0/24"])),
            ],
            true,
        ),
    ];
    for (case, changes, is_free) in cases {
        let mut stage = Stage::new(&[("10.0.0.0/23", 24)], &[]);
        assert_eq!(stage.reserve("a"), first, "{case}");
        changes
            .iter()
            .for_each(|change| change(&mut stage.allocations));
        let given = [stage.reserve("b"), stage.reserve("c")];
        let has = |block: &Option<Vec<String>>| given.contains(block);
        assert_eq!(has(&first), is_free, "{case}");
        assert_eq!(has(&second), !case.ends_with("another block"), "{case}");
    }
}

/// A late PATCH carries the UID of the deleted node, so it changes no other.
#[test]
fn a_recreated_node_does_not_keep_the_block_of_an_unanswered_patch() {
    let mut stage = Stage::new(&[("10.0.0.0/23", 24)], &[]);
    let old = stage.reserve("a");
    stage.allocations.doubted(&key("a"));
    let reserved = |stage: &mut Stage, uid: &str| {
        let blocks = stage.allocations.reserve(&key("a"), &Uid::new(uid));
        blocks.unwrap().map(|blocks| blocks[0].to_string())
    };
    assert_eq!(reserved(&mut stage, "a").as_deref(), Some("10.0.0.0/24"));
    assert_eq!(reserved(&mut stage, "new").as_deref(), Some("10.0.1.0/24"));
    assert_eq!(stage.reserve("b"), old);
}

#[test]
fn a_sync_that_outlives_its_node_leaves_no_reservation() {
    let mut stage = Stage::new(&[("10.0.0.0/24", 24)], &[]);
    stage.allocations.forget(&key("a"));
    let block = stage.reserve("a");
    stage.allocations.doubted(&key("a"));
    stage.allocations.refused(&key("a"));
    assert_eq!(stage.reserve("b"), None);
    stage.allocations.abandon(&key("a"));
    assert_eq!(stage.allocations.take_woken(), [key("b")]);
    assert_eq!(stage.reserve("b"), block);
}

#[test]
fn a_woken_node_that_needs_no_block_passes_the_turn_on() {
    type Change = fn(&mut Allocations);
    // (the end of the wait of "a", which is woken first)
    let cases: [(&str, Change); 3] = [
        ("terminates", |all| all.stop_waiting(&key("a"))),
        ("gone", |all| all.abandon(&key("a"))),
        ("has a block", |all| {
            all.observe(&node("a", &["10.0.0.0/24"]));
        }),
    ];
    for (case, change) in cases {
        let mut stage = Stage::new(&[("10.0.1.0/24", 24)], &[]);
        stage.allocations.observe(&node("old", &["10.0.1.0/24"]));
        for name in ["a", "b", "c"] {
            assert_eq!(stage.reserve(name), None);
        }
        stage.allocations.forget(&key("old"));
        assert_eq!(stage.allocations.take_woken(), [key("a")], "{case}");
        change(&mut stage.allocations);
        assert_eq!(stage.allocations.take_woken(), [key("b")], "{case}");
        change(&mut stage.allocations);
        assert_eq!(stage.allocations.take_woken(), [], "{case}: once");
    }
}

#[test]
fn a_freed_block_wakes_as_many_waiting_nodes() {
    let mut stage = Stage::new(&[("10.0.0.0/23", 24), ("fd00::/63", 64)], &[]);
    stage
        .allocations
        .observe(&node("a", &["10.0.0.0/24", "fd00::/64"]));
    stage.allocations.observe(&node("b", &["10.0.1.0/24"]));
    for name in ["x", "y"] {
        assert_eq!(stage.reserve(name), None);
    }
    assert_eq!(stage.allocations.take_woken(), []);
    stage.allocations.forget(&key("b"));
    assert_eq!(stage.allocations.take_woken(), [key("x")]);
    assert!(stage.reserve("x").is_some());
    stage.allocations.forget(&key("y"));
    stage.allocations.forget(&key("a"));
    assert_eq!(stage.allocations.take_woken(), []);
}

#[test]
fn a_node_without_a_free_block_of_each_family_holds_none_and_wakes_no_other() {
    let mut stage = Stage::new(&[("10.0.0.0/23", 24), ("fd00::/64", 64)], &[]);
    stage
        .allocations
        .observe(&node("a", &["10.0.0.0/24", "fd00::/64"]));
    for name in ["x", "y", "x", "y"] {
        assert_eq!(stage.reserve(name), None);
        assert_eq!(stage.allocations.take_woken(), []);
    }
    assert_eq!(stage.metrics("10.0.0.0/23")[0], 0.5);
}

/// A node as of a resource version.
fn node_at(version: u64, uid: &str, cidrs: &[&str]) -> Node {
    let metadata = json!({"name": "a", "uid": uid, "resourceVersion": version.to_string()});
    let node = json!({"metadata": metadata, "spec": {"podCIDRs": cidrs}});
    Node::decode(node.to_string().as_bytes()).unwrap()
}

#[test]
fn a_cached_node_without_blocks_waits_if_the_live_list_proves_it_outdated() {
    // (case, listed node, cached node, waits)
    let block: &[&str] = &["10.0.0.0/24"];
    let cases = [
        (
            "given since",
            Some(node_at(9, "1", block)),
            node_at(5, "1", &[]),
            true,
        ),
        (
            "changed otherwise",
            Some(node_at(9, "1", &[])),
            node_at(5, "1", &[]),
            false,
        ),
        ("deleted since", None, node_at(5, "1", &[]), true),
        (
            "recreated since",
            Some(node_at(9, "2", &[])),
            node_at(5, "1", &[]),
            true,
        ),
        ("newer", None, node_at(11, "3", &[]), false),
        (
            "recreated after the list",
            Some(node_at(9, "1", block)),
            node_at(11, "3", &[]),
            false,
        ),
    ];
    for (case, listed, cached, waits) in cases {
        let mut allocations = Stage::new(&[("10.0.0.0/22", 24)], &[]).allocations;
        allocations.hold_listed(listed.as_slice(), 10).unwrap();
        allocations.observe(&cached);
        assert_eq!(allocations.is_outdated(&cached), waits, "{case}");
        assert_eq!(allocations.take_woken(), [], "{case}");
        allocations.forget_listed();
        assert!(!allocations.is_outdated(&cached), "{case}");
        let woken = allocations.take_woken();
        assert_eq!(woken.len(), usize::from(waits), "{case}");
    }
}

#[test]
fn exhaustion_counts_once_the_cache_is_as_new_as_the_live_list() {
    let mut stage = Stage::new(&[("10.0.0.0/24", 24)], &[]);
    stage.allocations.observe(&node("gone", &["10.0.0.0/24"]));
    stage.allocations.hold_listed(&[], 10).unwrap();
    let a = key("a");
    let uid = Uid::new("a");
    let waits = stage.allocations.reserve(&a, &uid);
    assert_eq!(waits, Ok(None));
    stage.allocations.forget_listed();
    assert_eq!(stage.allocations.take_woken(), [key("a")]);
    assert!(stage.allocations.reserve(&a, &uid).is_err());
    stage.allocations.forget(&key("gone"));
    assert_eq!(stage.reserve("a").unwrap(), ["10.0.0.0/24"]);
}
