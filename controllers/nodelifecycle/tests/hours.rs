//! Virtual hours of 5,000 nodes: a zone of 2,000 is lost, comes back, and is lost in part.
//!
//! The model decides as the controller does, without an API server. The test checks the rate of
//! NoExecute taints in each phase, and that no ready node has one.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use steersman_objects::Lease;

use super::super::health::Ready;
use super::super::taints::{NOT_READY, UNREACHABLE};
use super::super::zones::Disruption;
use super::model::{Model, lease_at, ready};
use super::{at, condition, config, node};

const BEGIN: &str = "2026-01-01T00:00:00Z";
const NODES: usize = 5000;

/// Nodes of the first zone; the others are in two further zones.
const IN_FIRST_ZONE: usize = 2000;

const MINUTE: Duration = Duration::from_secs(60);

struct Cluster {
    model: Model,
    /// Whether the kubelet of each node is alive.
    alive: Vec<bool>,
}

impl Cluster {
    fn new() -> Self {
        let build = |index: usize| {
            let zone = match index {
                0..IN_FIRST_ZONE => "r:a",
                IN_FIRST_ZONE..3500 => "r:b",
                _ => "r:c",
            };
            let mut node = node(&format!("n{index:04}"), zone, BEGIN);
            node["status"]["conditions"] = [condition("Ready", "True", BEGIN)].into();
            node
        };
        let nodes: Vec<Value> = (0..NODES).map(build).collect();
        Self {
            model: Model::new(config(), at(BEGIN), &nodes),
            alive: vec![true; NODES],
        }
    }

    /// Stops the kubelets of these nodes, without a word.
    fn lose(&mut self, nodes: std::ops::Range<usize>) {
        nodes.for_each(|index| self.alive[index] = false);
    }

    /// Starts the kubelets of these nodes. They post that they are ready.
    fn restore(&mut self, nodes: std::ops::Range<usize>) {
        let now = self.model.now.wall;
        for index in nodes {
            self.alive[index] = true;
            self.model.set_conditions(index, ready("True", now));
        }
    }

    /// Lets time pass in passes of `period`, and returns the number of nodes that got a taint at
    /// the rate of a zone.
    fn run(&mut self, time: Duration, period: Duration) -> usize {
        let before = self.model.tainted.len();
        let end = self.model.now.at + time;
        while self.model.now.at < end {
            let fresh: Arc<Lease> = lease_at(self.model.now.wall).into();
            let alive = &self.alive;
            let of_node = |name: &str| alive[name[1..].parse::<usize>().unwrap()];
            self.model.pass_with(|_, node| {
                // A dead kubelet leaves its Lease behind; `None` has the same effect.
                of_node(&node.meta.name).then(|| Arc::clone(&fresh))
            });
            let next = self.model.now.at + period;
            while self.model.now.at < next {
                self.model.taint_waiting();
                self.model.advance(Duration::from_millis(100));
            }
        }
        self.check();
        self.model.tainted.len() - before
    }

    /// A node has one of the taints at most, and a ready node has none.
    fn check(&self) {
        for node in &self.model.nodes {
            let taints = [UNREACHABLE.is_on(node), NOT_READY.is_on(node)];
            let ready = Ready::of(node) == Some(Ready::True);
            let name = &node.meta.name;
            assert!(
                taints != [true, true] && !(ready && taints != [false; 2]),
                "{name}"
            );
        }
    }
}

#[test]
fn five_thousand_nodes_lose_a_zone_and_get_it_back() {
    let often = Duration::from_secs(5);
    // Long phases have fewer passes than by default; the rates do not depend on their number.
    let seldom = 2 * MINUTE;
    let mut cluster = Cluster::new();
    assert_eq!(cluster.run(MINUTE, often), 0, "all is well");

    cluster.lose(0..IN_FIRST_ZONE);
    assert_eq!(
        cluster.run(Duration::from_secs(50), often),
        0,
        "within the grace period"
    );
    assert_eq!(cluster.model.lost.len(), 0);
    let tainted = cluster.run(20 * MINUTE, seldom);
    assert_eq!(cluster.model.lost.len(), IN_FIRST_ZONE);
    assert_eq!(tainted, 120, "a lost zone is tainted at the rate of 0.1/s");

    cluster.restore(0..IN_FIRST_ZONE);
    assert_eq!(cluster.run(10 * MINUTE, seldom), 0, "all nodes are back");
    assert_eq!(cluster.model.with_taint(UNREACHABLE).len(), 0);

    cluster.lose(0..1200);
    let tainted = cluster.run(62 * MINUTE, seldom);
    assert_eq!(cluster.model.lost.len(), IN_FIRST_ZONE + 1200);
    assert!(
        (36..=38).contains(&tainted),
        "partial disruption: 0.01/s, not {tainted}"
    );
    cluster.restore(0..1200);
    cluster.run(MINUTE, often);

    cluster.lose(0..NODES);
    assert_eq!(cluster.run(30 * MINUTE, seldom), 0, "all zones are lost");
    assert_eq!(cluster.model.with_taint(UNREACHABLE).len(), 0);
    cluster.restore(0..NODES);
    assert_eq!(cluster.model.pass().disruption, Disruption::Ends);
    assert_eq!(cluster.run(MINUTE, often), 0, "all is well again");
}
