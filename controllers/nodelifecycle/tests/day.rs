//! A virtual day of 5,000 nodes with both controllers and the in-memory API server: a zone of 2,000
//! nodes is lost, loses its pods at the rate of its zone, and comes back in two parts.
//!
//! Heartbeats, grace period and passes of the monitor have longer periods than by default, so that
//! a day needs fewer writes. The rates of taints and the times of tolerations are the default ones.
//! No Event is sent: these would be half of all requests, and prove nothing here.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use steersman_client::WriteGate;
use steersman_options::Options;

use super::super::DESCRIPTOR;
use super::{condition, taint};
use crate::tainteviction;
use crate::testing::world::World;

/// The zones and their nodes, in the order of their numbers.
const ZONES: [(&str, usize); 3] = [("a", 2000), ("b", 1500), ("c", 1500)];

/// One of so many nodes has a pod.
const PODS: usize = 10;

const BEGIN: &str = "2023-01-01T00:00:00Z";

const HOUR: Duration = Duration::from_secs(3600);

/// Hours between two heartbeats of a node.
const HEARTBEAT: u32 = 13;

/// The flags of the node lifecycle controller.
const FLAGS: [(&str, &str); 2] = [
    ("node-monitor-period", "100m"),
    ("node-monitor-grace-period", "15h"),
];

/// Lets no Event through.
struct Closed;

impl WriteGate for Closed {
    fn is_open(&self) -> bool {
        false
    }
}

struct Day {
    world: World,
    /// The zone of each node, and whether it has heartbeats.
    nodes: Vec<(&'static str, bool)>,
    /// Hours since the begin.
    hours: u32,
}

fn name(index: usize) -> String {
    format!("n{index:04}")
}

impl Day {
    async fn begin() -> Self {
        let zones = ZONES.iter();
        let nodes = zones.flat_map(|(zone, count)| std::iter::repeat_n((*zone, true), *count));
        let mut day = Self {
            world: World::bare().await,
            nodes: nodes.collect(),
            hours: 0,
        };
        let now = day.world.clock.now_seconds().to_string();
        for (index, (zone, _)) in day.nodes.iter().enumerate() {
            day.load(node(index, zone, &now, json!([])));
            if index.is_multiple_of(PODS) {
                day.load(pod(index, &now));
            }
        }
        day.beat(0..day.nodes.len()).await;
        day.world
            .restart_with(&[DESCRIPTOR, tainteviction::DESCRIPTOR], |mut context| {
                let mut options = Options::default();
                for (flag, value) in FLAGS {
                    options.set(flag, value).unwrap();
                }
                context.options = options.into();
                context.event_gate = Some(Arc::new(Closed));
                context
            })
            .await;
        day
    }

    fn load(&self, object: Value) {
        self.world.cluster.load(object).unwrap();
    }

    /// Renews the Leases of these nodes, as far as they live.
    async fn beat(&self, nodes: Range<usize>) {
        let now = format!("{:.6}", self.world.clock.now());
        for index in nodes.filter(|index| self.nodes[*index].1) {
            self.load(json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {
                    "name": name(index), "namespace": "kube-node-lease", "uid": format!("lease-{index}"),
                },
                "spec": {"renewTime": now},
            }));
            if index.is_multiple_of(100) {
                // Lets the informers follow.
                tokio::task::yield_now().await;
            }
        }
    }

    /// The kubelets of these nodes fall silent.
    fn lose(&mut self, nodes: Range<usize>) {
        self.nodes[nodes].iter_mut().for_each(|node| node.1 = false);
    }

    /// The kubelets of these nodes live again, and post their status. The nodes keep their NoExecute
    /// taint if they are `tainted`. Their NoSchedule taints go at the same time, which saves
    /// requests.
    async fn restore(&mut self, nodes: Range<usize>, tainted: &HashSet<usize>) {
        let now = self.world.clock.now_seconds().to_string();
        for index in nodes.clone() {
            let taints = if tainted.contains(&index) {
                json!([taint("unreachable", "NoExecute")])
            } else {
                json!([])
            };
            self.load(node(index, self.nodes[index].0, &now, taints));
        }
        let back = self.nodes[nodes.clone()].iter_mut();
        back.for_each(|node| node.1 = true);
        self.beat(nodes).await;
    }

    /// Lets hours pass. Returns the nodes that were tainted in that time, and the evicted pods.
    async fn pass(&mut self, hours: u32) -> (u64, u64) {
        let before = self.evictions();
        for _ in 0..hours {
            tokio::time::sleep(HOUR).await;
            self.hours += 1;
            if self.hours.is_multiple_of(HEARTBEAT) {
                self.beat(0..self.nodes.len()).await;
            }
        }
        let after = self.evictions();
        (after.0 - before.0, after.1 - before.1)
    }

    /// Taints at the rate of the zones, and evicted pods, by the metrics.
    fn evictions(&self) -> (u64, u64) {
        let families = self.world.registry.gather();
        let sum = |name: &str| -> u64 {
            let found = families.iter().filter(|family| family.name() == name);
            let metrics = found.flat_map(|family| family.get_metric());
            metrics
                .map(|metric| metric.get_counter().get_value() as u64)
                .sum()
        };
        (
            sum("node_collector_evictions_total"),
            sum("taint_eviction_controller_pod_deletions_total"),
        )
    }

    /// Numbers of the nodes with a NoExecute taint. A living node has none, the others have one at
    /// most.
    fn tainted(&self) -> HashSet<usize> {
        let mut tainted = HashSet::new();
        for node in self.world.cluster.objects("nodes") {
            let index = index_of(&node["metadata"]["name"]);
            let taints = node["spec"]["taints"].as_array().into_iter().flatten();
            let found = taints
                .filter(|taint| taint["effect"] == "NoExecute")
                .count();
            assert!(found <= usize::from(!self.nodes[index].1), "{node:#}");
            if found > 0 {
                tainted.insert(index);
            }
        }
        tainted
    }

    /// Numbers of the nodes with a pod.
    fn with_pods(&self) -> HashSet<usize> {
        let pods = self.world.cluster.objects("pods");
        pods.iter()
            .map(|pod| index_of(&pod["spec"]["nodeName"]))
            .collect()
    }
}

/// The number in the name of a node.
fn index_of(name: &Value) -> usize {
    name.as_str().unwrap()[1..].parse().unwrap()
}

/// A healthy node that posted its status `now`.
fn node(index: usize, zone: &str, now: &str, taints: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": name(index), "uid": format!("node-{index}"), "creationTimestamp": BEGIN,
            "labels": {"topology.kubernetes.io/zone": zone},
        },
        "spec": {"taints": taints},
        "status": {"conditions": [condition("Ready", "True", now)]},
    })
}

/// A ready pod with the default toleration.
fn pod(index: usize, now: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name(index), "namespace": "default", "uid": format!("pod-{index}")},
        "spec": {
            "nodeName": name(index), "containers": [{"name": "c", "image": "i"}],
            "terminationGracePeriodSeconds": 0,
            "tolerations": [{
                "key": "node.kubernetes.io/unreachable", "operator": "Exists",
                "effect": "NoExecute", "tolerationSeconds": 300,
            }],
        },
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": now}],
        },
    })
}

#[tokio::test(start_paused = true)]
async fn a_zone_of_two_thousand_nodes_is_lost_and_comes_back_within_a_day() {
    let mut day = Day::begin().await;
    let lost = 0..ZONES[0].1;
    let all = day.with_pods();

    day.lose(lost.clone());
    assert_eq!(day.pass(16).await, (0, 0), "within the grace period");
    let (tainted, _) = day.pass(1).await;
    assert!((119..=122).contains(&tainted), "from 16:40 on, {tainted}");
    let (tainted, evicted) = day.pass(1).await;
    assert!((359..=361).contains(&tainted), "0.1/s, not {tainted}");
    assert!(evicted > 0);
    let tainted = day.tainted();
    let left = day.with_pods();
    let gone: HashSet<usize> = all.difference(&left).copied().collect();
    assert!(gone.is_subset(&tainted), "healthy nodes keep their pods");
    let tolerating = tainted.intersection(&left).count();
    assert!(tolerating <= 31, "pods stay for 300 s, not {tolerating}");

    // Sixty percent of the zone stay away: a partial disruption.
    day.restore(0..800, &tainted).await;
    day.pass(1).await;
    let before = day.tainted();
    let (tainted, _) = day.pass(2).await;
    assert!((71..=73).contains(&tainted), "0.01/s, not {tainted}");
    let after = day.tainted();
    assert!(after.is_superset(&before) && after.len() - before.len() == tainted as usize);

    day.restore(800..lost.end, &after).await;
    day.pass(1).await;
    assert_eq!(day.tainted().len(), 0, "all nodes are back");
    let pods = day.with_pods();
    let revision = day.world.cluster.revision();
    let elsewhere = |pods: &HashSet<usize>| pods.iter().filter(|i| !lost.contains(i)).count();
    assert_eq!(elsewhere(&pods), elsewhere(&all));
    let rest = 24 - day.hours;
    assert_eq!(day.pass(rest).await, (0, 0));
    let written = day.world.cluster.revision() - revision;
    assert_eq!(written, 0, "a healthy cluster needs no write");
    assert_eq!(day.with_pods(), pods);
}
