//! Tables about zones, NoExecute taints, and pods that have to be marked.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use steersman_objects::Node;

use super::super::monitor::{Monitor, Registration, TaintStep};
use super::super::taints::{NOT_READY, Premise, UNREACHABLE};
use super::super::zones::Disruption;
use super::super::zones::ZoneState::{self, FullDisruption, Normal, PartialDisruption};
use super::model::{Model, lease_at, ready};
use super::{at, condition, config, decode, node, taint};

const NOW: &str = "2015-01-01T12:00:00Z";
const HOUR_LATER: &str = "2015-01-01T13:00:00Z";
const MINUTE: Duration = Duration::from_secs(60);

/// A node in a zone with this status of its `Ready` condition; `-` means none.
fn in_zone(name: &str, zone: &str, status: &str) -> Value {
    let mut node = node(name, zone, NOW);
    if status != "-" {
        node["status"]["conditions"] = json!([condition("Ready", status, NOW)]);
    }
    node
}

fn names<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
    names.map(str::to_owned).into()
}

/// Upstream: `TestMonitorNodeHealth`, `Test_isNodeExcludedFromDisruptionChecks`.
#[test]
fn monitor_node_health() {
    type States<'a> = &'a [(&'a str, ZoneState)];
    const ZONE1: &str = "region1:zone1";
    const ZONE2: &str = "region1:zone2";
    let one = "region1::zone1";
    let two = "region1::zone2";
    // (case, zone, status and status an hour later of each node, states, states an hour later)
    let cases: [(&str, &[(&str, &str, &str)], States, States); 9] = [
        (
            "No Disruption: Node created recently without failure domain labels",
            &[("", "True", "True")],
            &[("", Normal)],
            &[("", Normal)],
        ),
        (
            "No Disruption: Initially both zones down, one comes back",
            &[(ZONE1, "Unknown", "Unknown"), (ZONE2, "Unknown", "True")],
            &[(one, FullDisruption), (two, FullDisruption)],
            &[(one, FullDisruption), (two, Normal)],
        ),
        (
            "Partial Disruption: Nodes created recently without status conditions",
            &[
                (ZONE1, "-", "Unknown"),
                (ZONE1, "-", "Unknown"),
                (ZONE1, "-", "Unknown"),
                (ZONE1, "-", "True"),
            ],
            &[(one, FullDisruption)],
            &[(one, PartialDisruption)],
        ),
        (
            "Partial Disruption: one Node failed",
            &[
                (ZONE1, "Unknown", "Unknown"),
                (ZONE1, "Unknown", "Unknown"),
                (ZONE1, "True", "Unknown"),
                (ZONE1, "True", "True"),
                (ZONE1, "True", "True"),
            ],
            &[(one, Normal)],
            &[(one, PartialDisruption)],
        ),
        (
            "Full Disruption: the zone has less than 2 Nodes down, the last healthy Node has failed",
            &[
                (ZONE1, "Unknown", "Unknown"),
                (ZONE1, "Unknown", "Unknown"),
                (ZONE1, "True", "Unknown"),
            ],
            &[(one, Normal)],
            &[(one, FullDisruption)],
        ),
        (
            "Full Disruption: all the Nodes in one zone are down",
            &[(ZONE1, "Unknown", "Unknown"), (ZONE2, "True", "True")],
            &[(one, FullDisruption), (two, Normal)],
            &[(one, FullDisruption), (two, Normal)],
        ),
        (
            "Full Disruption: all the Nodes in both the zones are down",
            &[
                (ZONE1, "Unknown", "Unknown"),
                ("region2:zone2", "Unknown", "Unknown"),
            ],
            &[(one, FullDisruption), ("region2::zone2", FullDisruption)],
            &[(one, FullDisruption), ("region2::zone2", FullDisruption)],
        ),
        (
            "Full Disruption: Ready condition removed from the Node",
            &[(ZONE1, "True", "-")],
            &[(one, Normal)],
            &[(one, FullDisruption)],
        ),
        (
            "Full Disruption: the only available Node has the exclude-disruption label",
            &[(ZONE1, "Unknown", "Unknown"), ("excluded", "True", "True")],
            &[(one, FullDisruption)],
            &[(one, FullDisruption)],
        ),
    ];
    for (case, rows, initial, following) in cases {
        let build = |(index, (zone, status, _)): (usize, &(&str, &str, &str))| {
            let zone = if *zone == "excluded" { ZONE1 } else { zone };
            let mut node = in_zone(&format!("node{index}"), zone, status);
            if rows[index].0 == "excluded" {
                node["metadata"]["labels"]["node.kubernetes.io/exclude-disruption"] = json!("");
            }
            node
        };
        let nodes: Vec<Value> = rows.iter().enumerate().map(build).collect();
        let mut model = Model::new(config(), at(NOW), &nodes);
        let owned = |states: States| -> Vec<(String, ZoneState)> {
            states
                .iter()
                .map(|(zone, state)| ((*zone).to_owned(), *state))
                .collect()
        };
        model.pass();
        assert_eq!(model.states(), owned(initial), "{case}: first pass");
        model.advance(Duration::from_secs(3600));
        for (index, (_, _, status)) in rows.iter().enumerate() {
            let conditions = match *status {
                "-" => json!([]),
                "True" => json!([condition("Ready", "True", HOUR_LATER)]),
                status => json!([condition("Ready", status, NOW)]),
            };
            model.set_conditions(index, conditions);
        }
        model.pass();
        assert_eq!(model.states(), owned(following), "{case}: second pass");
    }
}

/// The examples of the reference, and the borders of the rule.
#[test]
fn the_state_of_a_zone_follows_the_share_of_its_nodes() {
    // (ready, not ready, state)
    let cases = [
        (1, 0, Normal),
        (0, 1, FullDisruption),
        (1, 2, Normal),
        (1, 3, PartialDisruption),
        (5, 5, Normal),
        (9, 11, PartialDisruption),
        (46, 54, Normal),
        (45, 55, PartialDisruption),
    ];
    for (ready, not_ready, state) in cases {
        let node = |index| {
            in_zone(
                &format!("n{index}"),
                "r:z",
                if index < ready { "True" } else { "False" },
            )
        };
        let nodes: Vec<Value> = (0..ready + not_ready).map(node).collect();
        let mut model = Model::new(config(), at(NOW), &nodes);
        model.pass();
        assert_eq!(
            model.states()[0].1,
            state,
            "{ready} ready, {not_ready} not ready"
        );
    }
}

#[test]
fn a_node_counts_where_its_labels_are_now() {
    let mut model = Model::new(
        config(),
        at(NOW),
        &["n0", "n1"].map(|name| in_zone(name, "r:one", "True")),
    );
    let relabel = |model: &mut Model, key: &str, value: &str| {
        model.change(1, |node| node["metadata"]["labels"][key] = json!(value));
        model.pass();
        model.sizes()
    };
    model.pass();
    assert_eq!(model.sizes(), [("r::one".to_owned(), 2)]);
    assert_eq!(
        relabel(&mut model, "failure-domain.beta.kubernetes.io/zone", "two"),
        [("r::one".to_owned(), 1), ("r::two".to_owned(), 1)]
    );
    assert_eq!(
        relabel(&mut model, "node.kubernetes.io/exclude-disruption", ""),
        [("r::one".to_owned(), 1)]
    );
}

#[test]
fn zone_keys_are_those_of_upstream() {
    // (labels, text)
    let cases = [
        (json!({}), ""),
        (json!({"topology.kubernetes.io/zone": ""}), ""),
        (json!({"topology.kubernetes.io/zone": "z"}), ":\0:z"),
        (
            json!({"topology.kubernetes.io/region": "r", "topology.kubernetes.io/zone": "z"}),
            "r:\0:z",
        ),
        (
            json!({"topology.kubernetes.io/zone": "new", "failure-domain.beta.kubernetes.io/zone": "old"}),
            ":\0:old",
        ),
        (
            json!({"topology.kubernetes.io/zone": "new", "failure-domain.beta.kubernetes.io/zone": ""}),
            "",
        ),
    ];
    for (labels, text) in cases {
        let mut node = node("n", "", NOW);
        node["metadata"]["labels"] = labels.clone();
        let key = super::super::zones::ZoneKey::of(&decode(&node));
        assert_eq!(key.to_string(), text, "{labels}");
    }
}

/// Upstream: `TestApplyNoExecuteTaints`.
#[test]
fn apply_no_execute_taints() {
    let zone = "region1:zone1";
    let mut other_taint = in_zone("node1", zone, "True");
    other_taint["spec"]["taints"] = json!([taint("out-of-disk", "NoSchedule")]);
    let nodes = [
        in_zone("node0", zone, "Unknown"),
        other_taint,
        in_zone("node2", zone, "False"),
        in_zone("node3", zone, "True"),
    ];
    let mut fast = config();
    fast.eviction_rate = 100_000.0;
    let mut model = Model::new(fast, at(NOW), &nodes);
    model.pass();
    model.taint_waiting();
    assert_eq!(model.tainted, [], "no node has shown a sign of life");
    model.set_conditions(1, ready("True", at(HOUR_LATER)));
    model.pass();
    model.taint_waiting();
    model.advance(Duration::from_millis(100));
    model.taint_waiting();
    assert_eq!(model.with_taint(UNREACHABLE), names(["node0"]));
    assert_eq!(model.with_taint(NOT_READY), names(["node2"]));

    model.set_conditions(2, ready("True", at(HOUR_LATER)));
    model.pass();
    model.taint_waiting();
    assert!(
        model.nodes[2].spec.taints.is_empty(),
        "the ready node has no taint"
    );

    model.set_conditions(3, ready("False", at(HOUR_LATER)));
    model.pass();
    let override_ready = json!([condition("MemoryPressure", "Unknown", NOW)]);
    model.set_conditions(3, override_ready);
    model.advance(MINUTE);
    model.taint_waiting();
    assert!(
        model.nodes[3].spec.taints.is_empty(),
        "without the condition there is no taint"
    );
}

/// Upstream: `TestApplyNoExecuteTaintsToUnreachableNode`,
/// `TestApplyNoExecuteTaintsToNodesEnqueueTwice`.
#[test]
fn a_node_waits_once_and_is_tainted_again_after_it_recovered() {
    let nodes = [
        in_zone("node0", "r:z", "True"),
        in_zone("node1", "r:z", "True"),
    ];
    let mut model = Model::new(config(), at(NOW), &nodes);
    let alive = |model: &mut Model, index, status| {
        let now = model.now.wall;
        model.set_conditions(index, ready(status, now));
    };
    model.pass();
    for _ in 0..12 {
        model.advance(Duration::from_secs(5));
        alive(&mut model, 1, "True");
        model.pass();
    }
    assert_eq!(model.lost, ["node0"]);
    let waiting = |model: &mut Model| {
        let zones = model.monitor.zones_waiting();
        zones
            .first()
            .and_then(|zone| model.monitor.first_waiting(zone))
    };
    assert_eq!(waiting(&mut model).as_deref(), Some("node0"));
    model.taint_waiting();
    assert_eq!(model.with_taint(UNREACHABLE), names(["node0"]));
    model.pass();
    assert_eq!(waiting(&mut model), None, "a tainted node does not wait");

    model.advance(MINUTE);
    for index in [0, 1] {
        alive(&mut model, index, "True");
    }
    model.pass();
    assert_eq!(model.with_taint(UNREACHABLE), names([]));
    alive(&mut model, 0, "False");
    model.pass();
    model.pass();
    model.taint_waiting();
    assert_eq!(model.with_taint(NOT_READY), names(["node0"]));
    assert_eq!(model.tainted.len(), 2);
}

/// Upstream: `TestSwapUnreachableNotReadyTaints`.
#[test]
fn swap_unreachable_not_ready_taints() {
    // (status, its taint before, expected taint)
    let cases = [
        ("False", "unreachable", NOT_READY),
        ("Unknown", "not-ready", UNREACHABLE),
    ];
    for (status, before, expected) in cases {
        let mut tainted = in_zone("node0", "r:z", status);
        tainted["spec"]["taints"] =
            json!([taint(before, "NoExecute"), taint(before, "NoSchedule")]);
        let mut model = Model::new(
            config(),
            at(NOW),
            &[tainted, in_zone("node1", "r:z", "True")],
        );
        model.pass();
        let keys = |effect: &str| -> Vec<String> {
            let taints = model.nodes[0].spec.taints.iter();
            let found = taints.filter(|taint| taint.effect == *effect);
            found.map(|taint| taint.key.to_string()).collect()
        };
        assert_eq!(keys("NoExecute"), [expected.key], "{status}");
        assert_eq!(keys("NoSchedule").len(), 1, "{status}: other effects stay");
        assert_eq!(model.tainted, [], "{status}: a swap needs no token");
    }
}

/// Upstream: `TestMonitorNodeHealthMarkPodsNotReadyRetry`.
#[test]
fn pods_are_marked_until_it_succeeds() {
    for fails in [false, true] {
        let mut model = Model::new(config(), at(NOW), &[in_zone("node0", "", "True")]);
        model.pass();
        model.advance(MINUTE);
        let outcome = model.pass();
        let [work] = &outcome.work[..] else {
            panic!("{:?}", outcome.work)
        };
        assert!(work.was_lost && work.marks_pods);
        if !fails {
            model.monitor.pods_marked(&work.node);
        }
        let outcome = model.pass();
        let marks: Vec<_> = outcome.work.iter().filter(|work| work.marks_pods).collect();
        assert_eq!(
            marks.len(),
            usize::from(fails),
            "pods are marked again after a failure"
        );
        assert!(
            marks.iter().all(|work| !work.was_lost),
            "the Event is not repeated"
        );
        model.monitor.pods_marked(&model.nodes[0]);

        let now = model.now.wall;
        model.set_conditions(0, ready("False", now));
        model.pass();
        let marked = model.marked.len();
        assert_eq!(
            marked,
            1 + usize::from(fails),
            "a kubelet that reports False marks its pods"
        );
    }
}

/// kubernetes/kubernetes#135205
#[test]
fn pods_of_a_node_that_was_unknown_already_are_marked_once() {
    let mut model = Model::new(config(), at(NOW), &[in_zone("node0", "", "Unknown")]);
    let outcome = model.pass();
    assert!(outcome.work[0].marks_pods && !outcome.work[0].was_lost);
    model.monitor.pods_marked(&model.nodes[0]);
    assert!(model.pass().work.is_empty());
}

#[test]
fn nodes_are_registered_and_removed_once() {
    let nodes = [in_zone("a", "", "True"), in_zone("b", "", "True")];
    let mut model = Model::new(config(), at(NOW), &nodes);
    let names = |list: &[(std::sync::Arc<str>, _)]| -> Vec<String> {
        list.iter().map(|(name, _)| name.to_string()).collect()
    };
    let nodes = model.nodes.clone();
    let first = model.monitor.register(&nodes);
    assert_eq!(names(&first.added), ["a", "b"]);
    assert_eq!(model.monitor.register(&nodes), Registration::default());
    let third = model.monitor.register(&nodes[1..]);
    assert_eq!(
        (third.added, names(&third.removed)),
        (vec![], vec!["a".to_owned()])
    );
}

#[test]
fn no_node_is_tainted_while_all_nodes_are_lost() {
    let nodes = [in_zone("a", "r:one", "True"), in_zone("b", "r:two", "True")];
    let mut model = Model::new(config(), at(NOW), &nodes);
    model.pass();
    model.advance(MINUTE);
    let outcome = model.pass();
    assert_eq!(outcome.disruption, Disruption::Begins);
    assert!(model.monitor.zones_waiting().is_empty());
    for _ in 0..100 {
        model.advance(Duration::from_secs(5));
        assert_eq!(model.pass().disruption, Disruption::Continues);
        model.taint_waiting();
    }
    assert_eq!(model.tainted, []);

    // One zone is back: the other node gets a new grace period, and then its taint.
    let now = model.now.wall;
    model.set_conditions(0, ready("True", now));
    assert_eq!(model.pass().disruption, Disruption::Ends);
    model.taint_waiting();
    assert_eq!(
        model.tainted,
        [],
        "the zone was stopped, so it has no token"
    );
    model.advance(Duration::from_secs(10));
    model.taint_waiting();
    assert_eq!(model.with_taint(UNREACHABLE), names(["b"]));
}

/// The former leader wrote the status of `a` only, and all nodes are silent.
#[test]
fn a_new_leader_taints_no_node_while_all_nodes_are_silent() {
    let nodes = [in_zone("a", "r:z", "Unknown"), in_zone("b", "r:z", "True")];
    let mut model = Model::new(config(), at(NOW), &nodes);
    model.run(MINUTE, |_, _| None);
    assert_eq!((model.tainted, model.lost), (vec![], vec!["b".to_owned()]));
}

#[test]
fn a_sign_of_life_from_before_the_term_does_not_count() {
    // (case, resource version of the second status and Lease, whether the Lease or the status is
    // new, whether `a` is tainted)
    let cases = [
        ("status of this term", 12, false, true),
        ("Lease of this term", 12, true, true),
        ("status of another term", 9, false, false),
        ("Lease of another term", 9, true, false),
    ];
    for (case, version, by_lease, tainted) in cases {
        let nodes = [in_zone("a", "r:z", "Unknown"), in_zone("b", "r:z", "True")];
        let mut model = Model::new(config(), at(NOW), &nodes);
        model.monitor = Monitor::new(config(), 10);
        let lease = |time, version| {
            move |_: &Model, node: &Node| {
                let mut lease = lease_at(time);
                lease.meta.resource_version = version;
                (&*node.meta.name == "b").then(|| Arc::new(lease))
            }
        };
        model.pass_with(lease(at(NOW), 5));
        model.advance(Duration::from_secs(5));
        let renewed = if by_lease {
            model.now.wall
        } else {
            model.set_conditions(1, ready("True", model.now.wall));
            let version = version.to_string();
            model.change(1, |node| {
                node["metadata"]["resourceVersion"] = version.into()
            });
            at(NOW)
        };
        model.pass_with(lease(renewed, version));
        model.taint_waiting();
        assert_eq!(model.tainted.len(), usize::from(tainted), "{case}");
    }
}

#[test]
fn full_disruption_removes_taints_of_all_nodes() {
    let mut tainted = in_zone("a", "r:one", "Unknown");
    tainted["spec"]["taints"] = json!([taint("unreachable", "NoExecute"), taint("x", "NoExecute")]);
    let nodes = [tainted, in_zone("b", "r:two", "True")];
    let mut model = Model::new(config(), at(NOW), &nodes);
    let outcome = model.pass();
    assert!(
        outcome
            .work
            .iter()
            .all(|work| work.taints == TaintStep::None),
        "a new leader keeps taints"
    );
    model.advance(MINUTE);
    model.pass();
    assert_eq!(model.with_taint(UNREACHABLE), names([]));
    assert_eq!(model.nodes[0].spec.taints.len(), 1, "taints of others stay");
}

/// The write of its status failed, so the pass knows its taints from the cache only.
#[test]
fn full_disruption_removes_taints_of_nodes_that_could_not_be_written() {
    let mut tainted = in_zone("a", "r:one", "False");
    tainted["spec"]["taints"] = json!([taint("not-ready", "NoExecute")]);
    let nodes = [tainted, in_zone("b", "r:two", "Unknown")];
    let mut model = Model::new(config(), at(NOW), &nodes);
    let listed = model.nodes.clone();
    model.monitor.register(&listed);
    let seen = model.look(1);
    let outcome = model.monitor.finish(&listed, &[seen], model.now);
    assert_eq!(outcome.disruption, Disruption::Begins);
    let work: Vec<_> = outcome
        .work
        .iter()
        .map(|work| (&*work.node.meta.name, work.taints))
        .collect();
    assert!(
        work.contains(&("a", TaintStep::Remove(Premise::Always))),
        "{work:?}"
    );
}

#[test]
fn a_new_node_without_conditions_loses_the_taints_of_its_registration() {
    let tainted = |conditions: &str| {
        let mut node = in_zone("a", "", conditions);
        node["spec"]["taints"] = json!([taint("not-ready", "NoExecute")]);
        node
    };
    // (status, the taint stays)
    for (status, stays) in [("-", false), ("False", true)] {
        let nodes = [tainted(status), in_zone("b", "", "True")];
        let mut model = Model::new(config(), at(NOW), &nodes);
        model.pass();
        let found = !model.with_taint(NOT_READY).is_empty();
        assert_eq!(found, stays, "{status}");
    }

    let nodes = [in_zone("a", "", "False"), in_zone("b", "", "True")];
    let mut model = Model::new(config(), at(NOW), &nodes);
    model.pass();
    model.set(0, tainted("-"));
    model.pass();
    assert_eq!(
        model.with_taint(NOT_READY),
        names(["a"]),
        "a node that lost its condition keeps its taint"
    );
}

/// The zones had no time to report yet, so their rates stay zero.
#[test]
fn a_ready_node_of_a_new_zone_starts_no_evictions_in_lost_zones() {
    let nodes = [in_zone("a", "r:one", "True"), in_zone("b", "r:two", "True")];
    let mut model = Model::new(config(), at(NOW), &nodes);
    model.pass();
    model.advance(MINUTE);
    assert_eq!(model.pass().disruption, Disruption::Begins);
    model.add(in_zone("c", "r:three", "True"));
    let alive = |model: &Model, node: &Node| {
        let is_alive = &*node.meta.name == "c";
        is_alive.then(|| Arc::new(lease_at(model.now.wall)))
    };
    assert_eq!(model.pass_with(alive).disruption, Disruption::None);
    model.run(10 * MINUTE, alive);
    assert_eq!(model.tainted, []);

    let now = model.now.wall;
    model.set_conditions(0, ready("True", now));
    model.run(MINUTE, |model, node| {
        (&*node.meta.name != "b").then(|| Arc::new(lease_at(model.now.wall)))
    });
    assert_eq!(model.tainted, [], "zone two has no ready node still");
}

#[test]
fn the_rate_of_a_zone_changes_with_its_state_only() {
    let status = |index: usize| if index < 3 { "True" } else { "False" };
    let node = |index: usize| in_zone(&format!("n{index:02}"), "r:z", status(index));
    let nodes: Vec<Value> = (0..10).map(node).collect();
    let mut model = Model::new(config(), at(NOW), &nodes);
    let alive = |model: &Model, _: &Node| Some(Arc::new(lease_at(model.now.wall)));
    model.run(MINUTE, alive);
    assert_eq!(model.states()[0].1, PartialDisruption);
    // The zone is large now, but in the same state as before.
    (10..60).for_each(|index| model.add(node(index)));
    model.run(10 * MINUTE, alive);
    assert_eq!(model.tainted, [], "a small zone was stopped");
}

/// Upstream: a full disruption stops only zones with counted nodes.
#[test]
fn nodes_of_a_zone_without_counted_nodes_are_tainted_while_all_others_are_lost() {
    let mut excluded = in_zone("excluded", "r:two", "False");
    excluded["metadata"]["labels"]["node.kubernetes.io/exclude-disruption"] = json!("true");
    for nodes in [
        vec![excluded.clone()],
        vec![in_zone("lost", "r:one", "Unknown"), excluded.clone()],
    ] {
        let mut model = Model::new(config(), at(NOW), &nodes);
        model.run(Duration::from_secs(60), |model, _| {
            Some(lease_at(model.now.wall).into())
        });
        assert_eq!(model.tainted.len(), 1, "{:?}", model.tainted);
        assert_eq!(model.with_taint(NOT_READY), names(["excluded"]));
    }
}

#[test]
fn a_zone_of_excluded_nodes_has_one_queue() {
    let mut nodes = vec![in_zone("ready", "r:one", "True")];
    for index in 0..5 {
        let mut node = in_zone(&format!("n{index}"), "r:two", "False");
        node["metadata"]["labels"]["node.kubernetes.io/exclude-disruption"] = json!("true");
        nodes.push(node);
    }
    let mut model = Model::new(config(), at(NOW), &nodes);
    model.run(Duration::from_secs(40), |model, _| {
        Some(lease_at(model.now.wall).into())
    });
    assert_eq!(model.tainted.len(), 4, "one per 10 s: {:?}", model.tainted);
}
