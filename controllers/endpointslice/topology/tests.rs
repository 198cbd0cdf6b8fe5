//! Upstream's tables of the topology cache.

use serde_json::{Value, json};
use steersman_objects::{EndpointSlice, Object};

use super::allocation::{Allocation, Transfers};
use super::*;

fn counts(pairs: &[(&str, i64)]) -> Counts {
    pairs
        .iter()
        .map(|(zone, count)| (Sym::new(zone), *count))
        .collect()
}

fn allocations(zones: &[(&str, f64, i64)]) -> Allocations {
    let allocation = |(zone, desired, maximum): &(&str, f64, i64)| {
        let allocation = Allocation {
            minimum: 0,
            maximum: *maximum,
            desired: *desired,
        };
        (Sym::new(zone), allocation)
    };
    Allocations(zones.iter().map(allocation).collect())
}

/// Upstream: `TestSetNodes`.
#[test]
fn ratios_follow_the_cpu_of_ready_nodes() {
    let plain = |zone: &'static str, cpu: &'static str| (zone, cpu, "True", "");
    let unready = |zone: &'static str| (zone, "1000m", "False", "");
    let control_plane = |zone: &'static str| (zone, "1000m", "True", EXCLUDED[0]);
    // (upstream's case, nodes as zone, CPU, readiness and role; ratios)
    let cases: Vec<(
        &str,
        Vec<(&str, &str, &str, &str)>,
        Option<Vec<(&str, f64)>>,
    )> = vec![
        ("empty", vec![], None),
        ("single node", vec![plain("a", "1000m")], None),
        (
            "single zone",
            vec![plain("a", "1000m"), plain("a", "1000m")],
            None,
        ),
        (
            "2 zones",
            vec![plain("a", "1000m"), plain("b", "1000m")],
            Some(vec![("a", 0.5), ("b", 0.5)]),
        ),
        (
            "2 zones, unready node in 1, ready node in 1",
            vec![unready("a"), plain("b", "1000m")],
            None,
        ),
        (
            "2 zones, control plane node in 1, ready node in 1",
            vec![plain("a", "1000m"), control_plane("b")],
            None,
        ),
        (
            "2 zones, unready node in 1, ready node in 2",
            vec![plain("a", "1000m"), plain("b", "1000m"), unready("b")],
            Some(vec![("a", 0.5), ("b", 0.5)]),
        ),
        (
            "2 zones, control plane node in 1, ready node in 2",
            vec![plain("a", "1000m"), plain("b", "1000m"), control_plane("b")],
            Some(vec![("a", 0.5), ("b", 0.5)]),
        ),
        (
            "3 zones, 4 nodes in 1, 2 nodes in 1, 1 node in 1",
            vec![
                plain("a", "1000m"),
                plain("a", "1000m"),
                plain("a", "1000m"),
                plain("a", "2000m"),
                plain("b", "3000m"),
                plain("b", "1500m"),
                plain("c", "500m"),
            ],
            Some(vec![("a", 0.5), ("b", 0.45), ("c", 0.05)]),
        ),
        (
            "a node without a zone",
            vec![plain("a", "1"), plain("b", "1"), plain("", "1")],
            None,
        ),
        (
            "a node without CPU",
            vec![plain("a", "1"), plain("b", "1"), plain("b", "0")],
            None,
        ),
    ];
    for (case, nodes, expected) in cases {
        let node = |(zone, cpu, ready, role): &(&str, &str, &str, &str)| {
            let mut labels = json!({ ZONE: zone });
            if !role.is_empty() {
                labels[*role] = json!("");
            }
            let json = json!({
                "metadata": {"name": "n", "labels": labels},
                "status": {"allocatable": {"cpu": cpu}, "conditions": [{"type": "Ready", "status": ready}]},
            });
            Arc::new(Node::decode(json.to_string().as_bytes()).unwrap())
        };
        let nodes: Vec<Arc<Node>> = nodes.iter().map(node).collect();
        let expected = match expected {
            None => Ratios::Insufficient,
            Some(zones) => Ratios::Zones(
                zones
                    .iter()
                    .map(|(zone, ratio)| (Sym::new(zone), *ratio))
                    .collect(),
            ),
        };
        assert_eq!(ratios(&nodes), expected, "{case}");
    }
}

/// Upstream: `Test_getGivingAndReceivingZones`.
#[test]
fn zones_with_a_surplus_give_to_zones_with_a_shortage() {
    // (upstream's case, desired numbers, counts, giving, receiving)
    type Zones<'a, N> = &'a [(&'a str, N)];
    let cases: [(
        &str,
        Zones<'_, f64>,
        Zones<'_, i64>,
        Zones<'_, i64>,
        Zones<'_, i64>,
    ); 9] = [
        ("empty", &[], &[], &[], &[]),
        (
            "simple allocation with no need for rebalancing",
            &[("a", 1.2), ("b", 1.1), ("c", 1.0)],
            &[("a", 1), ("b", 1), ("c", 1)],
            &[],
            &[],
        ),
        (
            "preference for same zone even when giving an extra endpoint would result in slightly better distribution",
            &[("a", 5.1), ("b", 5.1), ("c", 5.8)],
            &[("a", 16)],
            &[("a", 10)],
            &[("b", 5), ("c", 5)],
        ),
        (
            "when 2 zones need < 1 endpoint, give to zone that needs endpoint most",
            &[("a", 5.0), ("b", 5.6), ("c", 5.4)],
            &[("a", 16)],
            &[("a", 11)],
            &[("b", 6), ("c", 5)],
        ),
        (
            "when 2 zones have extra endpoints, give from zone with most extra",
            &[("a", 5.0), ("b", 5.6), ("c", 5.4)],
            &[("b", 8), ("c", 8)],
            &[("b", 2), ("c", 3)],
            &[("a", 5)],
        ),
        (
            "more allocated than allocations",
            &[("a", 5.0), ("b", 5.0), ("c", 5.0)],
            &[("a", 6), ("b", 6), ("c", 6)],
            &[],
            &[],
        ),
        (
            "negative allocations",
            &[("a", -5.0), ("b", -5.0), ("c", -5.0)],
            &[("a", 6), ("b", 6), ("c", 6)],
            &[],
            &[],
        ),
        (
            "negative allocated",
            &[("a", 5.0), ("b", 5.0), ("c", 5.0)],
            &[("a", -4), ("b", -3), ("c", -2)],
            &[],
            &[],
        ),
        (
            "negative for 1 zone",
            &[("a", 5.0), ("b", 5.0), ("c", 5.0)],
            &[("a", -40), ("b", 20), ("c", 20)],
            &[("b", 15), ("c", 15)],
            &[("a", 30)],
        ),
    ];
    for (case, desired, counted, giving, receiving) in cases {
        let zones: Vec<(&str, f64, i64)> = desired
            .iter()
            .map(|(zone, number)| (*zone, *number, 0))
            .collect();
        let found = allocations(&zones).transfers(&counts(counted));
        let expected = Transfers {
            giving: counts(giving),
            receiving: counts(receiving),
        };
        assert_eq!(found, expected, "{case}");
    }
}

/// Upstream: `Test_redistributeHints`.
#[test]
fn endpoints_are_given_in_order() {
    // (upstream's case, giving, receiving, zones of endpoints, zones to which they are hinted)
    type Zones<'a> = &'a [(&'a str, i64)];
    let cases: [(&str, Zones<'_>, Zones<'_>, &[&str], &[Option<&str>]); 4] = [
        ("empty", &[], &[], &[], &[]),
        (
            "single endpoint",
            &[("a", 1)],
            &[("b", 1)],
            &["a"],
            &[Some("b")],
        ),
        (
            "endpoints from 1 zone redistributed to 2 other zones",
            &[("a", 2)],
            &[("b", 1), ("c", 1)],
            &["a", "a", "a"],
            &[Some("b"), Some("c"), None],
        ),
        ("no receiving zone", &[("a", 1)], &[], &["a"], &[None]),
    ];
    for (case, giving, receiving, zones, expected) in cases {
        let mut transfers = Transfers {
            giving: counts(giving),
            receiving: counts(receiving),
        };
        let found: Vec<Option<Sym>> = zones
            .iter()
            .map(|zone| transfers.next(&Sym::new(zone)))
            .collect();
        let expected: Vec<Option<Sym>> = expected.iter().map(|zone| zone.map(Sym::new)).collect();
        assert_eq!(found, expected, "{case}");
    }
}

/// Upstream: `Test_getHintsByZone`.
#[test]
fn hints_of_a_slice_count_unless_the_slice_must_change() {
    let hinted = |zone: &str| json!({"conditions": {"ready": true}, "hints": {"forZones": [{"name": zone}]}});
    let unready = json!({"conditions": {"ready": false}, "hints": {"forZones": [{"name": "a"}]}});
    let unknown = json!({"hints": {"forZones": [{"name": "a"}]}});
    let ready = |hints: Value| json!({"conditions": {"ready": true}, "hints": hints});
    type Zones<'a> = &'a [(&'a str, i64)];
    // (upstream's case, endpoints, maximums, counts, hints by zone)
    let cases: Vec<(&str, Vec<Value>, Zones<'_>, Zones<'_>, Option<Zones<'_>>)> = vec![
        ("empty", vec![], &[], &[], Some(&[])),
        (
            "single zone hint",
            vec![hinted("a")],
            &[("a", 3)],
            &[("a", 1)],
            Some(&[("a", 1)]),
        ),
        (
            "single zone hint with 1 unready endpoint and 1 unknown endpoint",
            vec![hinted("a"), unready, unknown],
            &[("a", 3)],
            &[("a", 1)],
            Some(&[("a", 1)]),
        ),
        (
            "multiple zone hints",
            vec![hinted("a"), hinted("b"), hinted("b")],
            &[("a", 3), ("b", 3), ("c", 3)],
            &[("a", 1), ("b", 1), ("c", 1)],
            Some(&[("a", 1), ("b", 2)]),
        ),
        (
            "invalid by zones that no longer requires any allocations",
            vec![hinted("non-existent")],
            &[("a", 3)],
            &[("a", 1), ("b", 1), ("c", 1)],
            None,
        ),
        (
            "invalid by endpoints with nil hints",
            vec![ready(Value::Null)],
            &[("a", 3)],
            &[],
            None,
        ),
        (
            "invalid by endpoint with no hints",
            vec![ready(json!({"forZones": []}))],
            &[("a", 3)],
            &[],
            None,
        ),
        (
            "invalid by hints that would make minimum allocations impossible",
            vec![hinted("a"), hinted("a")],
            &[("a", 2)],
            &[("a", 1)],
            None,
        ),
    ];
    for (case, endpoints, maximums, counted, expected) in cases {
        let zones: Vec<(&str, f64, i64)> = maximums
            .iter()
            .map(|(zone, maximum)| (*zone, 0.0, *maximum))
            .collect();
        let json = json!({"metadata": {"name": "web"}, "endpoints": endpoints});
        let slice = EndpointSlice::decode(json.to_string().as_bytes()).unwrap();
        let found = allocations(&zones).hints_of(&slice, &counts(counted));
        assert_eq!(found, expected.map(counts), "{case}");
    }
}

#[test]
fn services_with_too_few_endpoints_in_a_zone_are_overloaded() {
    let halves = Ratios::Zones(
        [("a", 0.5), ("b", 0.5)]
            .map(|(zone, ratio)| (Sym::new(zone), ratio))
            .into(),
    );
    // (why, ratios, counts, overloaded)
    let cases: [(&str, &Ratios, &[(&str, i64)], bool); 6] = [
        ("no hints", &halves, &[], false),
        ("no ratios", &Ratios::Insufficient, &[("a", 1)], true),
        ("balanced", &halves, &[("a", 2), ("b", 2)], false),
        (
            "within the threshold",
            &halves,
            &[("a", 6), ("b", 5)],
            false,
        ),
        ("too few", &halves, &[("a", 3), ("b", 1)], true),
        ("none in a zone", &halves, &[("a", 3)], true),
    ];
    for (why, ratios, counted, expected) in cases {
        assert_eq!(is_overloaded(&counts(counted), ratios), expected, "{why}");
    }
}
