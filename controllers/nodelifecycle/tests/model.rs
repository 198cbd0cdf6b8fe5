//! A cluster without an API server: the monitor decides, and the model applies its writes.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_objects::{Lease, Node, Object, Parsed};
use tokio::time::Instant;

use super::super::config::Config;
use super::super::health::{Moment, Ready};
use super::super::monitor::{Monitor, Outcome, Seen, TaintStep};
use super::super::taints::{self, Edit, LiveNode, NOT_READY, TaintId, UNREACHABLE};
use super::super::unknown;
use super::super::zones::ZoneState;
use super::decode;

pub(super) struct Model {
    pub(super) monitor: Monitor,
    pub(super) nodes: Vec<Arc<Node>>,
    /// The served JSON of each node.
    pub(super) objects: Vec<Value>,
    /// The position of each name in `nodes`.
    indexes: HashMap<Arc<str>, usize>,
    /// Renewal times of Leases by node.
    pub(super) leases: HashMap<String, Timestamp>,
    pub(super) now: Moment,
    /// Names of nodes that became `Unknown`, in order.
    pub(super) lost: Vec<String>,
    /// Nodes with pods to mark, with repetitions.
    pub(super) marked: Vec<String>,
    /// Moments and names of nodes that got a NoExecute taint at the rate of their zone.
    pub(super) tainted: Vec<(Instant, String)>,
}

impl Model {
    pub(super) fn new(config: Config, now: Timestamp, objects: &[Value]) -> Self {
        let nodes: Vec<Arc<Node>> = objects.iter().map(|node| Arc::new(decode(node))).collect();
        let names = nodes.iter().map(|node| Arc::clone(&node.meta.name));
        Self {
            monitor: Monitor::new(config, 0),
            indexes: names.zip(0..).collect(),
            nodes,
            objects: objects.to_vec(),
            leases: HashMap::new(),
            now: Moment {
                wall: now,
                at: Instant::now(),
            },
            lost: Vec::new(),
            marked: Vec::new(),
            tainted: Vec::new(),
        }
    }

    pub(super) fn advance(&mut self, time: Duration) {
        self.now.wall += time;
        self.now.at += time;
    }

    /// Changes the served JSON of a node.
    pub(super) fn change(&mut self, index: usize, change: impl FnOnce(&mut Value)) {
        let object = &mut self.objects[index];
        change(object);
        self.nodes[index] = Arc::new(decode(object));
    }

    /// Adds a node.
    pub(super) fn add(&mut self, object: Value) {
        let node = Arc::new(decode(&object));
        self.indexes
            .insert(Arc::clone(&node.meta.name), self.nodes.len());
        self.nodes.push(node);
        self.objects.push(object);
    }

    /// A node with an unchanged status, after a look at it.
    pub(super) fn look(&mut self, index: usize) -> Seen {
        let node = Arc::clone(&self.nodes[index]);
        let ready = self.monitor.examine(&node, None, self.now).ready;
        Seen {
            node,
            before: ready,
            ready,
            spent: Duration::ZERO,
        }
    }

    /// Replaces a node.
    pub(super) fn set(&mut self, index: usize, object: Value) {
        self.change(index, |node| *node = object);
    }

    pub(super) fn set_conditions(&mut self, index: usize, conditions: Value) {
        self.change(index, |node| node["status"]["conditions"] = conditions);
    }

    fn lease(&self, node: &Node) -> Option<Arc<Lease>> {
        let renewed = self.leases.get(&*node.meta.name)?;
        Some(Arc::new(lease_at(*renewed)))
    }

    /// One pass of the monitor, with successful writes of statuses and taints.
    pub(super) fn pass(&mut self) -> Outcome {
        self.pass_with(|model, node| model.lease(node))
    }

    /// The same with these Leases.
    pub(super) fn pass_with(
        &mut self,
        lease: impl Fn(&Self, &Node) -> Option<Arc<Lease>>,
    ) -> Outcome {
        let listed = self.nodes.clone();
        self.monitor.register(&listed);
        let mut seen = Vec::with_capacity(listed.len());
        for (index, node) in listed.iter().enumerate() {
            let lease = lease(self, node);
            let sight = self.monitor.examine(node, lease.as_deref(), self.now);
            let mut ready = sight.ready;
            if sight.is_lost {
                let patch = unknown::patch(node, self.now.wall);
                self.change(index, |node| merge_conditions(node, &patch));
                self.monitor
                    .unknown_written(&self.nodes[index], lease.as_deref());
                self.lost.push(node.meta.name.to_string());
                ready = Some(Ready::Unknown);
            }
            seen.push(Seen {
                node: Arc::clone(&self.nodes[index]),
                before: sight.ready,
                ready,
                spent: Duration::ZERO,
            });
        }
        let outcome = self.monitor.finish(&listed, &seen, self.now);
        for work in &outcome.work {
            match work.taints {
                TaintStep::None => {}
                TaintStep::Swap { add, remove, .. } => {
                    self.edit(&work.node.meta.name, Edit::Add(&[add]));
                    self.edit(&work.node.meta.name, Edit::Remove(&[remove]));
                }
                TaintStep::Remove(_) => {
                    let both = [UNREACHABLE, NOT_READY];
                    self.edit(&work.node.meta.name, Edit::Remove(&both));
                }
            }
            if work.marks_pods {
                self.marked.push(work.node.meta.name.to_string());
            }
        }
        outcome
    }

    pub(super) fn edit(&mut self, name: &str, edit: Edit<'_>) {
        let index = self.index(name);
        let live: LiveNode = serde_json::from_value(self.objects[index].clone()).unwrap();
        let now = self.now.wall;
        if let Some(patch) = live.patch(edit, now) {
            self.change(index, |node| {
                node["spec"]["taints"] = patch["spec"]["taints"].clone()
            });
        }
    }

    fn index(&self, name: &str) -> usize {
        self.indexes[name]
    }

    /// One round of the loop that taints waiting nodes.
    pub(super) fn taint_waiting(&mut self) {
        for zone in self.monitor.zones_waiting() {
            while let Some(name) = self.monitor.first_waiting(&zone) {
                let node = Arc::clone(&self.nodes[self.index(&name)]);
                let needed = Ready::of(&node).and_then(taints::no_execute);
                let Some((add, _)) = needed.filter(|(add, _)| !add.is_on(&node)) else {
                    self.monitor.stop_waiting(&zone, &name);
                    continue;
                };
                if !self.monitor.try_take(&zone, self.now.at) {
                    break;
                }
                self.edit(&name, Edit::Add(&[add]));
                self.monitor.stop_waiting(&zone, &name);
                self.tainted.push((self.now.at, name.to_string()));
            }
        }
    }

    /// Passes and rounds in their periods, for this time.
    pub(super) fn run(
        &mut self,
        time: Duration,
        lease: impl Fn(&Self, &Node) -> Option<Arc<Lease>>,
    ) {
        let end = self.now.at + time;
        while self.now.at < end {
            self.pass_with(&lease);
            for _ in 0..50 {
                if !self.monitor.zones_waiting().is_empty() {
                    self.taint_waiting();
                }
                self.advance(Duration::from_millis(100));
            }
        }
    }

    /// Text and state of each zone with counted nodes, sorted.
    pub(super) fn states(&self) -> Vec<(String, ZoneState)> {
        self.of_zones(|state, _| state)
    }

    /// Text of each zone with counted nodes and the number of these, sorted.
    pub(super) fn sizes(&self) -> Vec<(String, usize)> {
        self.of_zones(|_, size| size)
    }

    fn of_zones<T>(&self, of: impl Fn(ZoneState, usize) -> T) -> Vec<(String, T)> {
        let zones = self.monitor.zones();
        let counted = zones.filter(|(_, _, count)| count.size() > 0);
        let mut zones: Vec<_> = counted
            .map(|(key, state, count)| (key.to_string().replace('\0', ""), of(state, count.size())))
            .collect();
        zones.sort_by(|a, b| a.0.cmp(&b.0));
        zones
    }

    /// Names of the nodes with this taint.
    pub(super) fn with_taint(&self, taint: TaintId) -> BTreeSet<String> {
        let nodes = self.nodes.iter().filter(|node| taint.is_on(node));
        nodes.map(|node| node.meta.name.to_string()).collect()
    }

    /// The conditions of a node, as served.
    pub(super) fn conditions(&self, index: usize) -> Value {
        self.objects[index]["status"]["conditions"].clone()
    }
}

/// Applies a patch of the status as the API server does: conditions are merged by type.
fn merge_conditions(node: &mut Value, patch: &Value) {
    let conditions = &mut node["status"]["conditions"];
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let conditions = conditions.as_array_mut().unwrap();
    for change in patch["status"]["conditions"].as_array().unwrap() {
        let mut known = conditions.iter_mut();
        match known.find(|known| known["type"] == change["type"]) {
            Some(known) => {
                for (field, value) in change.as_object().unwrap() {
                    known[field] = value.clone();
                }
            }
            None => conditions.push(change.clone()),
        }
    }
}

/// A Lease that was renewed at `time`.
pub(super) fn lease_at(time: Timestamp) -> Lease {
    let mut lease = Lease::decode(br#"{"metadata": {"name": "n"}}"#).unwrap();
    lease.spec.renew_time = Parsed(Some(time));
    lease
}

/// The `Ready` condition of a kubelet that is alive.
pub(super) fn ready(status: &str, now: Timestamp) -> Value {
    json!([{"type": "Ready", "status": status, "lastHeartbeatTime": now.to_string(),
        "lastTransitionTime": now.to_string()}])
}
