//! The decisions of the health monitor, as a state without IO.
//!
//! A pass over the cluster calls, in this order:
//!
//! 1. [`Monitor::register`] with the listed nodes: nodes that are new or gone,
//! 2. [`Monitor::examine`] for each node: whether its status has to become `Unknown`,
//! 3. [`Monitor::unknown_written`] for each status that was written,
//! 4. [`Monitor::finish`] with the `Ready` conditions of all nodes: zones, rates, waiting nodes, and
//!    [`Work`] for nodes that need writes,
//! 5. [`Monitor::pods_marked`] for each node with marked pods.
//!
//! Step 4 comes before the writes to pods. So the rates of zones already fit the disruption when
//! the first node of a pass gets its taint. Upstream adapts the rates at the end of a pass, which
//! takes minutes if many nodes fail.
//!
//! A `Ready` condition from before this leadership term may be that of a silent node. So no node gets a
//! taint at the rate of its zone before some ready node has shown a sign of life. If all nodes are
//! silent, they are `Unknown` after the grace period, and step 4 sees a full disruption.
//!
//! A pass costs a few hash look-ups for a healthy node, and no allocation that grows with its pods. The zone of a node
//! is remembered until its labels change.
//!
//! Upstream: `monitorNodeHealth`, `classifyNodes` and `processTaintBaseEviction` in
//! `node_lifecycle_controller.go`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use steersman_objects::{Lease, Node, Uid};
use steersman_values::labels::Labels;
use steersman_why::Reason;
use tokio::time::Instant;

use super::config::Config;
use super::health::{Health, Moment, Ready, SeenReady};
use super::recall::{Around, recall};
use super::taints::{self, Premise, TaintId};
use super::zones::{Count, Disruption, ZoneKey, ZoneState, Zones};

/// A node with this label, with any value, does not count for the state of its zone. It still gets
/// taints. Upstream: `isNodeExcludedFromDisruptionChecks`.
const EXCLUDED: &str = "node.kubernetes.io/exclude-disruption";

/// The state of the monitor.
#[derive(Debug)]
pub(super) struct Monitor {
    pub(super) config: Config,
    /// The resource version at which this leadership term began. Statuses and Leases of lower
    /// versions may be from the previous leader's time.
    term_start_rv: u64,
    nodes: HashMap<Arc<str>, Record>,
    zones: Zones,
    /// Whether the disruption of the last pass is certain: a ready node has shown a sign of life in
    /// this leadership term, or no node is ready.
    is_certain: bool,
}

/// The memory of one node.
#[derive(Debug)]
struct Record {
    /// Tells a recreated node of the same name apart.
    uid: Uid,
    place: Place,
    /// `None` until the first look at the node.
    health: Option<Health>,
    /// Whether its kubelet has shown a sign of life in this leadership term.
    is_live: bool,
    /// Whether its pods still have to be marked as not ready. Upstream: `nodesToRetry`.
    needs_marking: bool,
    /// Whether the node may still have the NoExecute taints with which it was registered. Upstream
    /// removes these taints of each added node in `markNodeAsReachable`.
    is_new: bool,
}

impl Record {
    fn new(node: &Node) -> Self {
        Self {
            uid: node.meta.uid.clone(),
            place: Place::of(node),
            health: None,
            is_live: false,
            needs_marking: false,
            is_new: true,
        }
    }
}

/// What the labels of a node tell about its zone.
#[derive(Debug, Clone)]
struct Place {
    labels: Labels,
    zone: ZoneKey,
    /// Whether the node counts for its zone.
    counts: bool,
}

impl Place {
    fn of(node: &Node) -> Self {
        let labels = node.meta.labels.clone();
        Self {
            zone: ZoneKey::of(node),
            counts: labels.get(EXCLUDED).is_none(),
            labels,
        }
    }
}

/// New and deleted nodes, by name and UID.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Registration {
    pub(super) added: Vec<(Arc<str>, Uid)>,
    pub(super) removed: Vec<(Arc<str>, Uid)>,
}

/// The result of a look at one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sight {
    /// The `Ready` condition as read.
    pub(super) ready: Option<Ready>,
    /// Whether the conditions of the kubelet have to become `Unknown`. False if they are `Unknown`
    /// already.
    pub(super) is_lost: bool,
}

/// One node after its status was written, if it had to be.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    /// The node as read, or as written.
    pub(super) node: Arc<Node>,
    /// The `Ready` condition as read. It differs from `ready` if this pass has written the
    /// condition.
    pub(super) before: Option<Ready>,
    /// The `Ready` condition now.
    pub(super) ready: Option<Ready>,
    /// The time that the look and the write took.
    pub(super) spent: Duration,
}

/// The writes that one node needs.
#[derive(Debug, Clone)]
pub(super) struct Work {
    pub(super) node: Arc<Node>,
    pub(super) taints: TaintStep,
    /// Whether this controller has just set a ready node to `Unknown`.
    pub(super) was_lost: bool,
    /// Whether its pods have to be marked as not ready.
    pub(super) marks_pods: bool,
    /// The time that the node has taken in this pass so far.
    pub(super) spent: Duration,
}

/// Changes of NoExecute taints without a rate limit. Upstream: `processTaintBaseEviction`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TaintStep {
    None,
    /// Replace one taint by the other. The pods are about to be evicted anyway.
    Swap {
        /// The status that the node must still have.
        ready: Ready,
        add: TaintId,
        remove: TaintId,
    },
    /// Remove both taints. The node is ready, or new without a condition, or all zones are in full
    /// disruption.
    Remove(Premise),
}

impl TaintStep {
    /// The step that leaves `node` without both taints.
    fn remove_from(node: &Node, premise: Premise) -> Self {
        if taints::has_no_execute(node) {
            Self::Remove(premise)
        } else {
            Self::None
        }
    }
}

/// The end of a pass.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) disruption: Disruption,
    pub(super) work: Vec<Work>,
    /// Zones without nodes.
    pub(super) gone: Vec<ZoneKey>,
}

/// The record of `node`; `None` if the last pass listed no node with its name and UID.
fn record_of<'a>(nodes: &'a mut HashMap<Arc<str>, Record>, node: &Node) -> Option<&'a mut Record> {
    let record = nodes.get_mut(&node.meta.name)?;
    (record.uid == node.meta.uid).then_some(record)
}

impl Monitor {
    /// A monitor without nodes. `term_start_rv` is the resource version at which this leadership
    /// term began, 0 without leader election.
    pub(super) fn new(config: Config, term_start_rv: u64) -> Self {
        Self {
            config,
            term_start_rv,
            nodes: HashMap::new(),
            zones: Zones::default(),
            is_certain: false,
        }
    }

    /// Takes over the names of `nodes`, the list of all nodes.
    ///
    /// A node that was recreated under its name starts with a new record. Upstream keeps the old
    /// one, so a node without status may count as silent at once. Upstream: `classifyNodes`, which
    /// also finds new zones. Here a zone is made by its first use.
    pub(super) fn register(&mut self, nodes: &[Arc<Node>]) -> Registration {
        let mut registration = Registration::default();
        for node in nodes {
            let name = &node.meta.name;
            let uid = &node.meta.uid;
            match self.nodes.get_mut(name) {
                Some(known) if known.uid == *uid => {
                    if known.place.labels != node.meta.labels {
                        known.place = Place::of(node);
                    }
                }
                Some(known) => *known = Record::new(node),
                None => {
                    self.nodes.insert(Arc::clone(name), Record::new(node));
                    registration.added.push((Arc::clone(name), uid.clone()));
                }
            }
        }
        if self.nodes.len() != nodes.len() {
            let listed: HashSet<&str> = nodes.iter().map(|node| &*node.meta.name).collect();
            let gone = self.nodes.extract_if(|name, _| !listed.contains(&**name));
            registration.removed = gone.map(|(name, record)| (name, record.uid)).collect();
        }
        registration
    }

    /// Looks at a node and its Lease. A node that is not registered is not judged: it appeared
    /// after the list of this pass.
    pub(super) fn examine(&mut self, node: &Node, lease: Option<&Lease>, now: Moment) -> Sight {
        let ready = Ready::of(node);
        let Some(record) = record_of(&mut self.nodes, node) else {
            return Sight {
                ready,
                is_lost: false,
            };
        };
        // Another process, or a write without an answer, set the condition. The pods may still be
        // ready then (kubernetes/kubernetes#135205).
        let known = record.health.as_ref().and_then(|health| health.ready);
        let was_unknown = known.is_some_and(|known| known.status == Ready::Unknown);
        record.needs_marking |= ready == Some(Ready::Unknown) && !was_unknown;
        let health = Health::observe(record.health.as_ref(), node, lease, now);
        if let Some(before) = &record.health {
            let is_of_term = |version: u64| version >= self.term_start_rv;
            let has_status =
                health.has_other_heartbeat(before) && is_of_term(node.meta.resource_version);
            let has_lease = lease.is_some_and(|lease| is_of_term(lease.meta.resource_version))
                && health.is_renewed(before);
            record.is_live |= has_status || has_lease;
        }
        let is_silent = health.is_silent(&self.config, now.at);
        record.health = Some(health);
        Sight {
            ready,
            is_lost: is_silent && ready != Some(Ready::Unknown),
        }
    }

    /// Takes over that the conditions of a node were written as `Unknown`. `written` is the node
    /// with these conditions. The next pass then sees the heartbeat unchanged, and the written
    /// condition is no sign of life.
    pub(super) fn unknown_written(&mut self, written: &Node, lease: Option<&Lease>) {
        let record = record_of(&mut self.nodes, written);
        if let Some(health) = record.and_then(|record| record.health.as_mut()) {
            health.ready = SeenReady::of(written);
            health.renewed = lease.map(|lease| lease.spec.renew_time.0);
        }
    }

    /// The last seen `Ready` condition of the node; `None` before the first look or without the
    /// condition.
    pub(super) fn ready(&self, node: &str) -> Option<Ready> {
        Some(self.nodes.get(node)?.health.as_ref()?.ready?.status)
    }

    /// Takes over the conditions of all nodes and decides. `listed` are all nodes; `seen` lacks
    /// the nodes with a failed status write.
    ///
    /// The order matters: counts, then disruption and rates, then taints. So no node gets its taint
    /// at a rate from before a disruption. Upstream: `handleDisruption`, and the second half of
    /// `updateNodeFunc`.
    pub(super) fn finish(&mut self, listed: &[Arc<Node>], seen: &[Seen], now: Moment) -> Outcome {
        let mut counts: HashMap<ZoneKey, Count> = HashMap::new();
        let mut skipped = Vec::new();
        if seen.len() < listed.len() {
            let seen: HashSet<&str> = seen.iter().map(|seen| &*seen.node.meta.name).collect();
            let is_skipped = |node: &&Arc<Node>| !seen.contains(&*node.meta.name);
            skipped.extend(listed.iter().filter(is_skipped));
        }
        for node in &skipped {
            // Its zone has nodes, and keeps its queue.
            counts.entry(self.place(node).zone).or_default();
        }
        let places: Vec<Place> = seen.iter().map(|seen| self.place(&seen.node)).collect();
        for (seen, place) in seen.iter().zip(&places) {
            let count = counts.entry(place.zone.clone()).or_default();
            if place.counts {
                count.add(seen.ready);
            }
        }
        let is_live = |seen: &Seen| {
            let record = self.nodes.get(&seen.node.meta.name);
            seen.ready == Some(Ready::True) && record.is_some_and(|record| record.is_live)
        };
        let counts_ready_nodes = counts.values().any(|count| count.ready > 0);
        self.is_certain = !counts_ready_nodes || seen.iter().any(is_live);
        let (disruption, gone) = self.zones.update(&counts, &self.config, now.at);
        match disruption {
            // All nodes were silent while the network was down. Their kubelets get a whole grace
            // period to report.
            Disruption::Ends => {
                let health = self.nodes.values_mut().flat_map(|node| &mut node.health);
                health.for_each(|health| health.live_at(now.at));
            }
            // `taint_step` adds the nodes again when the disruption has ended.
            Disruption::Begins => self.zones.clear_waiting(),
            Disruption::None | Disruption::Continues => {}
        }
        // A removal that failed is tried again in the stopped zones, which have counted nodes.
        // Upstream tries it once, and pods of an unreachable cluster are evicted after it has failed.
        let removes_taints = |zone: &ZoneKey| match disruption {
            Disruption::Begins => true,
            Disruption::Continues => counts.get(zone).is_some_and(|count| count.size() > 0),
            Disruption::None | Disruption::Ends => false,
        };
        let mut work = Vec::new();
        for (seen, place) in seen.iter().zip(places) {
            let taints = if removes_taints(&place.zone) {
                TaintStep::remove_from(&seen.node, Premise::Always)
            } else {
                self.taint_step(seen, place.zone, now.at)
            };
            work.extend(self.work(seen, taints));
        }
        for node in skipped {
            let taints = TaintStep::remove_from(node, Premise::Always);
            if removes_taints(&self.place(node).zone) && taints != TaintStep::None {
                work.push(Work {
                    node: Arc::clone(node),
                    taints,
                    was_lost: false,
                    marks_pods: false,
                    spent: Duration::ZERO,
                });
            }
        }
        Outcome {
            disruption,
            work,
            gone,
        }
    }

    /// The place of a node; from its own labels if the last pass listed another node of its name.
    fn place(&self, node: &Node) -> Place {
        let known = self.nodes.get(&node.meta.name);
        let known = known.filter(|record| record.uid == node.meta.uid);
        known.map_or_else(|| Place::of(node), |record| record.place.clone())
    }

    /// Adds the node to the waiting nodes of its zone or removes it, and returns the change of
    /// taints that needs no token. The state of a node without the condition is open, so only
    /// taints of its registration go.
    fn taint_step(&mut self, seen: &Seen, zone: ZoneKey, now: Instant) -> TaintStep {
        let Seen { node, ready, .. } = seen;
        let Some(ready) = *ready else {
            let is_new = record_of(&mut self.nodes, node).is_some_and(|record| record.is_new);
            return if is_new {
                TaintStep::remove_from(node, Premise::Ready(None))
            } else {
                TaintStep::None
            };
        };
        let queue = &mut self.zones.zone(zone, &self.config, now).queue;
        let Some((add, remove)) = taints::no_execute(ready) else {
            return match ready {
                Ready::True => {
                    queue.remove(&node.meta.name);
                    TaintStep::remove_from(node, Premise::Ready(Some(ready)))
                }
                _ => TaintStep::None,
            };
        };
        // The pods are being evicted already, so the other taint needs no rate limit.
        if remove.is_on(node) {
            return TaintStep::Swap { ready, add, remove };
        }
        if !add.is_on(node) {
            queue.add(&node.meta.name);
        }
        TaintStep::None
    }

    /// The writes for a node; `None` if there are none.
    fn work(&mut self, seen: &Seen, taints: TaintStep) -> Option<Work> {
        let Seen {
            node,
            before,
            ready,
            spent,
        } = seen;
        let before = *before;
        let ready = *ready;
        let mut was_lost = false;
        let mut marks_pods = false;
        if let Some(record) = record_of(&mut self.nodes, node) {
            record.is_new &= ready.is_none() && taints::has_no_execute(node);
            // Upstream marks no pods of a node that was `False` before
            // (kubernetes/kubernetes#112733).
            let turns_unknown = ready == Some(Ready::Unknown)
                && before.is_some_and(|before| before != Ready::Unknown);
            was_lost = turns_unknown && before == Some(Ready::True);
            marks_pods = turns_unknown
                || (record.needs_marking && ready.is_some() && before != Some(Ready::True));
            // Stays set until `pods_marked`, so a failure leads to another try in the next pass.
            record.needs_marking = marks_pods;
        }
        let is_idle = taints == TaintStep::None && !marks_pods;
        (!is_idle).then(|| Work {
            node: Arc::clone(node),
            taints,
            was_lost,
            marks_pods,
            spent: *spent,
        })
    }

    /// Takes over that all pods of the node were marked.
    pub(super) fn pods_marked(&mut self, node: &Node) {
        if let Some(record) = record_of(&mut self.nodes, node) {
            record.needs_marking = false;
        }
    }

    /// The time until a waiting node may get its taint; `None` if that takes another pass. An
    /// uncertain disruption holds back all zones.
    pub(super) fn next_token(&mut self, now: Instant) -> Option<Duration> {
        self.is_certain.then(|| self.zones.next_token(now))?
    }

    /// The reason why `node` has no NoExecute taint, if its zone is that reason.
    pub(super) fn recall(&self, node: &Node) -> Option<Reason> {
        if self.ready(&node.meta.name)? == Ready::True {
            return None;
        }
        let key = ZoneKey::of(node);
        let mut counted = self.zones.iter().filter(|(_, zone)| zone.count.size() > 0);
        let around = if counted.all(|(_, zone)| zone.state == ZoneState::FullDisruption) {
            Around::Everywhere
        } else if self.is_certain {
            Around::Here
        } else {
            Around::Unknown
        };
        let (_, zone) = self.zones.iter().find(|(found, _)| **found == key)?;
        recall(&node.meta.name, &key.to_string(), zone, around)
    }

    /// The zones with nodes that may get their taint; none while the disruption is uncertain.
    pub(super) fn zones_waiting(&self) -> Vec<ZoneKey> {
        if !self.is_certain {
            return Vec::new();
        }
        let zones = self.zones.iter();
        let waiting = zones.filter(|(_, zone)| zone.queue.first().is_some());
        waiting.map(|(key, _)| key.clone()).collect()
    }

    /// The node that waits first in the zone.
    pub(super) fn first_waiting(&mut self, zone: &ZoneKey) -> Option<Arc<str>> {
        self.zones.get_mut(zone)?.queue.first().cloned()
    }

    /// Takes a token of the zone, if there is one.
    pub(super) fn try_take(&mut self, zone: &ZoneKey, now: Instant) -> bool {
        let zone = self.zones.get_mut(zone);
        zone.is_some_and(|zone| zone.queue.try_take(now))
    }

    /// Removes a waiting node.
    pub(super) fn stop_waiting(&mut self, zone: &ZoneKey, node: &str) {
        if let Some(zone) = self.zones.get_mut(zone) {
            zone.queue.remove(node);
        }
    }

    /// Moves a waiting node to the end, after a failed attempt.
    pub(super) fn wait_again(&mut self, zone: &ZoneKey, node: &Arc<str>) {
        if let Some(zone) = self.zones.get_mut(zone) {
            zone.queue.move_to_end(node);
        }
    }

    /// Each zone with its state and the count of its last pass.
    pub(super) fn zones(&self) -> impl Iterator<Item = (&ZoneKey, ZoneState, Count)> {
        let zones = self.zones.iter();
        zones.map(|(key, zone)| (key, zone.state, zone.count))
    }
}
