//! The simulated scheduler binds pods to the nodes that they fit, in turn.
//!
//! nodes, pods, namespaces (informers) -> [`Census`], loads of nodes -> [`Scheduler::pick`] ->
//! binding, or the reason why no node fits
//!
//! A pick assumes that the pod is on its node until the informer shows it, so that concurrent picks
//! never use the same room twice. Pods that fit nowhere wait until a change may help them. Then
//! those of the highest priority are first, after the back-off of upstream's queue. If pods of lower
//! priority are in the way, some of them end, and their room is kept for the waiting pod.
//!
//! Upstream: `pkg/scheduler`. Scores are absent.

mod budgets;
mod census;
mod events;
mod fit;
mod node;
mod preempt;
#[cfg(test)]
mod tests;
mod volumes;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use steersman_helpers::scheduling::NodeSelector;
pub(super) use steersman_helpers::scheduling::amounts::Amounts;
use steersman_objects::{Object, ObjectKey, PodDisruptionBudget, Uid};
use steersman_values::intern::Sym;
use steersman_values::labels::Labels;
use tokio::time::Instant;

use super::claims::VolumeDemand;
use super::pod::SimPod;
use super::rules::{PodSelection, Rules, Spread, Term};
use budgets::Budgets;
use census::{Census, Counts, Placed, Question, Subject};
pub(super) use events::Recorder;
pub(super) use fit::PreFilter;
use fit::{
    Demand, Domains, LastResort, Load, NoPreemption, Refusals, SpreadDemand, has_untolerated_taint,
    refusal,
};
pub(super) use node::NodeFacts;
use node::Refusal;
use preempt::Preemption;

/// Reason of nodes that the affinity of a pod excludes by name.
const OTHER_NAME: &str = "node(s) didn't satisfy plugin(s) [NodeAffinity]";

/// Wait of a pod after its first failed attempt; it doubles with each further one. Upstream:
/// `DefaultPodInitialBackoffDuration`.
const FIRST_BACK_OFF: Duration = Duration::from_secs(1);
/// Longest wait. Upstream: `DefaultPodMaxBackoffDuration`.
const LONGEST_BACK_OFF: Duration = Duration::from_secs(10);

/// Round robin over the nodes that fit a pod. Clones share the nodes.
#[derive(Debug, Clone, Default)]
pub(super) struct Scheduler(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// The known nodes, and nodes that pods name.
    places: BTreeMap<Arc<str>, Place>,
    /// The node that got the latest pod.
    last: Option<Arc<str>>,
    census: Census,
    budgets: Budgets,
    waiting: HashMap<ObjectKey, Waiting>,
    /// Pods that wait until others have ended on a node. Their room is kept against pods of lower
    /// priority.
    nominated: HashMap<Uid, Placed>,
}

#[derive(Debug, Default)]
struct Place {
    /// `None` for a node that is unknown or gone.
    facts: Option<NodeFacts>,
    load: Load,
}

/// A pod that fits nowhere.
#[derive(Debug)]
struct Waiting {
    attempts: u32,
    /// Time of the last attempt; `None` after the pod has been released for a further one.
    since: Option<Instant>,
    priority: i32,
    depends_on_pods: bool,
}

/// A pod that is to be placed.
struct Attempt<'a> {
    pod: &'a SimPod,
    subject: Subject,
    volumes: &'a VolumeDemand,
    has_devices: Option<&'a dyn Fn(&str) -> bool>,
    /// Nominated pods that the pod must leave their room. They count as placed.
    ahead: Vec<(Uid, Placed)>,
}

impl Attempt<'_> {
    fn uid(&self) -> &Uid {
        &self.pod.meta().uid
    }

    fn never_preempts(&self) -> bool {
        never_preempts(self.pod)
    }

    /// The refusal of a node, which must fit all of these demands.
    fn refusal(&self, demands: &[Demand<'_>], facts: &NodeFacts, load: &Load) -> Option<Refusal> {
        let mut refusals = demands
            .iter()
            .filter_map(|demand| refusal(demand, facts, load));
        refusals.next().or_else(|| {
            let name = &*facts.node.meta.name;
            let fits = self.has_devices.is_none_or(|fits| fits(name));
            (!fits).then(Refusal::of_devices)
        })
    }
}

fn never_preempts(pod: &SimPod) -> bool {
    pod.rules.as_ref().is_some_and(|rules| rules.never_preempts)
}

/// The answer about a pod that fits no node now.
#[derive(Debug)]
pub(super) struct Unfit {
    /// The message of its condition.
    pub(super) message: String,
    /// The node where other pods are making room for it.
    pub(super) nominated: Option<Arc<str>>,
    /// The pods that begin to make room now.
    pub(super) preemption: Preemption,
}

/// The waiting pods that a change may help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// More room, or other facts of a node: any pod.
    Room,
    /// A pod came to a node: pods with rules about other pods.
    Pod,
}

impl Scheduler {
    /// Records a node, or removes it if `facts` is `None`.
    pub(super) fn note(&self, node: &str, facts: Option<NodeFacts>) {
        let mut state = self.state();
        let place = state.places.entry(node.into()).or_default();
        place.facts = facts;
        if place.facts.is_none() && place.load.pods == 0 {
            state.places.remove(node);
        }
    }

    /// Records the labels of a namespace, or that it is gone.
    pub(super) fn note_namespace(&self, name: &str, labels: Option<&Labels>) {
        self.state().census.note_namespace(name, labels);
    }

    pub(super) fn note_budget(&self, budget: &Arc<PodDisruptionBudget>) {
        self.state().budgets.note(budget);
    }

    pub(super) fn forget_budget(&self, budget: &PodDisruptionBudget) {
        self.state().budgets.forget(budget);
    }

    /// The message of a pod that no node can take, for a reason that no node gives.
    pub(super) fn unresolvable(&self, pod: &SimPod, why: &str, stage: PreFilter) -> Unfit {
        let state = self.state();
        let preemption = if never_preempts(pod) {
            NoPreemption::Never
        } else {
            NoPreemption::Helpless(Refusals::default())
        };
        let last_resort = LastResort {
            preemption,
            has_devices: false,
        };
        Unfit {
            message: fit::unresolvable(state.nodes(), why, stage, &last_resort),
            nominated: state.nomination(&pod.meta().uid),
            preemption: Preemption::default(),
        }
    }

    /// Records the state of a pod, as the informer shows it. Returns the changes for other pods.
    pub(super) fn observe(&self, pod: &SimPod) -> Option<Change> {
        let uid = &pod.meta().uid;
        let node = pod.pod.node.as_deref();
        let Some(node) = node.filter(|_| !pod.pod.is_finished()) else {
            if pod.pod.is_finished() {
                return self.forget(pod);
            }
            // An unbound pod may be assumed on a node already.
            if let Some(node) = &pod.nominated {
                self.state().note_nomination(pod, node);
            }
            return None;
        };
        let mut state = self.state();
        state.waiting.remove(&pod.key());
        state.nominated.remove(uid);
        match state.census.get(uid) {
            Some(placed) if placed.is_current(node, pod) => {
                state.census.note_status(uid, pod);
                return None;
            }
            _ => {}
        }
        state.release(uid);
        state.place(uid.clone(), Placed::of(pod, node));
        Some(Change::Pod)
    }

    /// Removes a pod that is gone, or whose binding failed.
    pub(super) fn forget(&self, pod: &SimPod) -> Option<Change> {
        let mut state = self.state();
        state.waiting.remove(&pod.key());
        let waited = state.nominated.remove(&pod.meta().uid).is_some();
        let left = state.release(&pod.meta().uid).is_some();
        (waited || left).then_some(Change::Room)
    }

    /// The next node in turn that fits the pod, in the order of names. The pod counts as placed
    /// there. `has_devices` tells whether a node has devices for the pod's ResourceClaims; it is
    /// `None` for a pod without any.
    pub(super) fn pick(
        &self,
        pod: &SimPod,
        volumes: &VolumeDemand,
        has_devices: Option<&dyn Fn(&str) -> bool>,
    ) -> Result<Arc<str>, Unfit> {
        let mut state = self.state();
        let uid = pod.meta().uid.clone();
        state.release(&uid);
        let subject = Subject::of(pod);
        let attempt = Attempt {
            pod,
            volumes,
            has_devices,
            ahead: state.ahead(&uid, subject.priority()),
            subject,
        };
        state.count_nominated(&attempt.ahead);
        let picked = state.pick(&attempt);
        let picked = picked.map_err(|refusals| state.last_resort(&attempt, refusals));
        for (uid, _) in &attempt.ahead {
            state.release(uid);
        }
        match picked {
            Ok(node) => {
                state.waiting.remove(&pod.key());
                state.nominated.remove(&uid);
                state.last = Some(Arc::clone(&node));
                let placed = Placed {
                    node: Arc::clone(&node),
                    subject: attempt.subject,
                };
                state.place(uid, placed);
                Ok(node)
            }
            Err(unfit) => {
                state.keep(pod);
                Err(unfit)
            }
        }
    }

    /// The waiting pods that a change may help, with the highest priority first, and the rest of
    /// their back-off. They wait no longer, until their next attempt fails. Nominated pods have no back-off:
    /// an idle kube-scheduler ends it early, and others have made room for them.
    pub(super) fn release_waiting(&self, change: Change) -> Vec<(ObjectKey, Duration)> {
        let mut state = self.state();
        let now = Instant::now();
        let State {
            waiting, nominated, ..
        } = &mut *state;
        let nominated: HashSet<&ObjectKey> =
            nominated.values().map(|pod| &pod.subject.key).collect();
        let mut released: Vec<(i32, ObjectKey, Duration)> = Vec::new();
        for (key, waiting) in waiting {
            if change == Change::Pod && !waiting.depends_on_pods {
                continue;
            }
            if let Some(since) = waiting.since.take() {
                let back_off = if nominated.contains(key) {
                    Duration::ZERO
                } else {
                    back_off(waiting.attempts)
                };
                let rest = (since + back_off).saturating_duration_since(now);
                released.push((waiting.priority, key.clone(), rest));
            }
        }
        released.sort_by(|(a, x, _), (b, y, _)| b.cmp(a).then_with(|| x.cmp(y)));
        released
            .into_iter()
            .map(|(_, key, rest)| (key, rest))
            .collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }
}

/// The wait after this number of failed attempts.
fn back_off(attempts: u32) -> Duration {
    let doublings = attempts.saturating_sub(1).min(4);
    (FIRST_BACK_OFF * 2_u32.pow(doublings)).min(LONGEST_BACK_OFF)
}

impl State {
    fn nodes(&self) -> usize {
        let places = self.places.values();
        places.filter(|place| place.facts.is_some()).count()
    }

    /// Keeps a pod until a change may help it.
    fn keep(&mut self, pod: &SimPod) {
        let rules = pod.rules.as_deref();
        let waiting = self.waiting.entry(pod.key()).or_insert(Waiting {
            attempts: 0,
            since: None,
            priority: rules.map_or(0, |rules| rules.priority),
            depends_on_pods: rules.is_some_and(Rules::depend_on_pods),
        });
        waiting.attempts += 1;
        waiting.since = Some(Instant::now());
    }

    /// The node that a waiting pod is nominated for.
    fn nomination(&self, uid: &Uid) -> Option<Arc<str>> {
        let nomination = self.nominated.get(uid)?;
        Some(Arc::clone(&nomination.node))
    }

    /// Records the nomination of a pod that an earlier scheduler has left. Later ones are known.
    fn note_nomination(&mut self, pod: &SimPod, node: &str) {
        let uid = &pod.meta().uid;
        if !self.waiting.contains_key(&pod.key()) && self.census.get(uid).is_none() {
            self.nominated.insert(uid.clone(), Placed::of(pod, node));
        }
    }

    /// The nominated pods that a pod of this priority must leave their room. Upstream:
    /// `addGENominatedPods`.
    fn ahead(&self, uid: &Uid, priority: i32) -> Vec<(Uid, Placed)> {
        let is_ahead = |(other, placed): &(&Uid, &Placed)| {
            *other != uid && placed.subject.priority() >= priority
        };
        let ahead = self.nominated.iter().filter(is_ahead);
        ahead
            .map(|(uid, placed)| (uid.clone(), placed.clone()))
            .collect()
    }

    fn count_nominated(&mut self, pods: &[(Uid, Placed)]) {
        for (uid, placed) in pods {
            self.place(uid.clone(), placed.clone());
        }
    }

    fn place(&mut self, uid: Uid, placed: Placed) {
        let Placed { node, subject } = &placed;
        let load = &mut self.places.entry(Arc::clone(node)).or_default().load;
        load.pods += 1;
        load.requested.add(&subject.requests);
        for port in subject.rules.iter().flat_map(|rules| &rules.ports) {
            *load.ports.entry(port.clone()).or_default() += 1;
        }
        self.census.add(uid, placed);
    }

    /// Removes a pod from its node; `None` if it is on none.
    fn release(&mut self, uid: &Uid) -> Option<Placed> {
        let placed = self.census.remove(uid)?;
        let Placed { node, subject } = &placed;
        if let Some(place) = self.places.get_mut(node) {
            let load = &mut place.load;
            load.pods -= 1;
            load.requested.subtract(&subject.requests);
            for port in subject.rules.iter().flat_map(|rules| &rules.ports) {
                if let Some(count) = load.ports.get_mut(port) {
                    *count -= 1;
                }
            }
            load.ports.retain(|_, count| *count > 0);
            if place.facts.is_none() && place.load.pods == 0 {
                self.places.remove(node);
            }
        }
        Some(placed)
    }

    fn pick(&mut self, attempt: &Attempt<'_>) -> Result<Arc<str>, Refusals> {
        let demands = self.demands(attempt);
        let mut refusals = Refusals::default();
        let mut fits = |name: &Arc<str>, place: &Place| {
            let Some(facts) = &place.facts else {
                return false;
            };
            let refusal = attempt.refusal(&demands, facts, &place.load);
            let fits = refusal.is_none();
            refusal
                .into_iter()
                .for_each(|refusal| refusals.add(name, refusal));
            fits
        };
        let affinity = attempt.pod.constraints.required_affinity.as_ref();
        let nominated = self.nominated.get(attempt.uid());
        let nominated = nominated.and_then(|pod| self.places.get_key_value(&pod.node));
        if let Some((name, place)) = nominated
            && let Some(facts) = &place.facts
            && attempt.refusal(&demands, facts, &place.load).is_none()
        {
            return Ok(Arc::clone(name));
        }
        if let Some(names) = affinity.and_then(NodeSelector::node_names) {
            // A pod of a DaemonSet looks at one node, however many there are.
            let names: HashSet<&str> = names.into_iter().collect();
            let mut looked_at = 0;
            for name in names {
                if let Some((name, place)) = self.places.get_key_value(name) {
                    looked_at += usize::from(place.facts.is_some());
                    if fits(name, place) {
                        return Ok(Arc::clone(name));
                    }
                }
            }
            refusals.add_unseen(self.nodes() - looked_at, OTHER_NAME);
        } else {
            let last: &str = self.last.as_deref().unwrap_or_default();
            let after = self.places.range::<str, _>((Excluded(last), Unbounded));
            let until = self.places.range::<str, _>((Unbounded, Included(last)));
            for (name, place) in after.chain(until) {
                if fits(name, place) {
                    return Ok(Arc::clone(name));
                }
            }
        }
        Err(refusals)
    }

    /// The answer about a pod that all nodes refuse, after the search for pods that make room.
    fn last_resort(&mut self, attempt: &Attempt<'_>, mut refusals: Refusals) -> Unfit {
        let due_to_pods = std::mem::take(&mut refusals.due_to_pods);
        let (preemption, last_resort) = match self.preempt(attempt, due_to_pods) {
            Ok(preemption) => (preemption, None),
            Err(preemption) => {
                let last_resort = LastResort {
                    preemption,
                    has_devices: attempt.has_devices.is_some(),
                };
                (Preemption::default(), Some(last_resort))
            }
        };
        Unfit {
            message: refusals.message(self.nodes(), last_resort.as_ref()),
            nominated: self.nomination(attempt.uid()),
            preemption,
        }
    }

    /// The refusal of a node in the present state.
    fn refusal_of(&mut self, attempt: &Attempt<'_>, node: &str) -> Option<Refusal> {
        let demands = self.demands(attempt);
        let place = self.places.get(node)?;
        attempt.refusal(&demands, place.facts.as_ref()?, &place.load)
    }

    /// The demands of a pod. It must also fit without the nominated pods, which may never come.
    fn demands<'a>(&mut self, attempt: &'a Attempt<'_>) -> Vec<Demand<'a>> {
        let mut demands = vec![self.demand(attempt.pod, &attempt.subject, attempt.volumes)];
        if !attempt.ahead.is_empty() {
            for (uid, _) in &attempt.ahead {
                self.release(uid);
            }
            demands.push(self.demand(attempt.pod, &attempt.subject, attempt.volumes));
            self.count_nominated(&attempt.ahead);
        }
        demands
    }

    /// The demands of a pod. Its rules about other pods are resolved by the counts of these.
    fn demand<'a>(
        &mut self,
        pod: &'a SimPod,
        subject: &'a Subject,
        volumes: &'a VolumeDemand,
    ) -> Demand<'a> {
        let rules = subject.rules.as_deref();
        let terms = |terms: fn(&Rules) -> &[Term]| rules.map_or(&[][..], terms);
        let affinity = terms(|r| &r.affinity);
        let anti = terms(|r| &r.anti_affinity);
        let repelled = self.census.repelling(subject);
        let repelled = repelled.map(|(term, counts)| domains(&self.places, term, counts));
        let repelled: Vec<Domains> = repelled.collect();
        // A pod is near others only if these match all of its terms.
        let all: Box<[PodSelection]> = affinity.iter().map(|term| term.pods.clone()).collect();
        let meets_itself = all.iter().all(|pods| self.census.meets(pods, subject));
        let mut near = Vec::new();
        if !affinity.is_empty() {
            let counts = self.census.answer(&Question {
                all,
                with_terminating: true,
            });
            let found = affinity
                .iter()
                .map(|term| domains(&self.places, term, counts));
            near.extend(found);
        }
        let mut apart = Vec::new();
        for term in anti {
            let counts = self.census.answer(&Question {
                all: [term.pods.clone()].into(),
                with_terminating: true,
            });
            apart.push(domains(&self.places, term, counts));
        }
        let spread = rules.map_or(&[][..], |rules| &rules.spread);
        Demand {
            constraints: &pod.constraints,
            requests: &subject.requests,
            ports: rules.map_or(&[][..], |rules| &rules.ports),
            volumes,
            has_claim_in_use: volumes
                .exclusive
                .iter()
                .any(|claim| self.census.is_used(claim)),
            spread: self.spread(pod, subject, spread),
            may_be_first: meets_itself && near.iter().all(|term: &Domains| term.values.is_empty()),
            affinity: near,
            anti_affinity: apart,
            repelled,
        }
    }

    /// Counts the matching pods per domain, on the nodes that count for the pod.
    fn spread(&mut self, pod: &SimPod, subject: &Subject, all: &[Spread]) -> Vec<SpreadDemand> {
        let mut demands = Vec::new();
        for spread in all {
            let counts = self.census.answer(&Question {
                all: [spread.pods.clone()].into(),
                with_terminating: false,
            });
            let mut by_domain: HashMap<Sym, i64> = HashMap::new();
            for (name, place) in &self.places {
                let Some(facts) = &place.facts else { continue };
                let labels = &facts.node.meta.labels;
                let has_keys = all
                    .iter()
                    .all(|one| labels.get(&one.topology_key).is_some());
                let is_selected = !spread.honors_affinity || pod.constraints.selects(&facts.node);
                let is_open =
                    !spread.honors_taints || !has_untolerated_taint(&pod.constraints, &facts.node);
                if has_keys
                    && is_selected
                    && is_open
                    && let Some(value) = labels.get(&spread.topology_key)
                {
                    // Upstream counts no pods for an empty selector.
                    let counted = (!spread.pods.is_every_pod())
                        .then(|| counts.get(name))
                        .flatten();
                    let pods = counted.copied().unwrap_or_default();
                    *by_domain.entry(value.clone()).or_default() += i64::from(pods);
                }
            }
            let least = by_domain.values().copied().min();
            demands.push(SpreadDemand {
                key: spread.topology_key.clone(),
                max_skew: spread.max_skew,
                own: i64::from(self.census.meets(&spread.pods, subject)),
                least: match least {
                    _ if by_domain.len() < spread.min_domains => 0,
                    // Without a domain, no number of pods is too large.
                    None => i64::from(i32::MAX),
                    Some(least) => least,
                },
                counts: by_domain,
            });
        }
        demands
    }
}

/// The domains of a term on the nodes with these pods.
fn domains(places: &BTreeMap<Arc<str>, Place>, term: &Term, counts: &Counts) -> Domains {
    let facts = |node: &Arc<str>| places.get(node)?.facts.as_ref();
    let value = |node| {
        facts(node)?
            .node
            .meta
            .labels
            .get(&term.topology_key)
            .cloned()
    };
    Domains {
        key: term.topology_key.clone(),
        values: counts.keys().filter_map(value).collect(),
    }
}

/// Body of `POST pods/<name>/binding`.
pub(super) fn binding(pod: &SimPod, node: &str) -> Value {
    let meta = pod.meta();
    json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": { "name": &*meta.name, "namespace": meta.namespace.as_str(), "uid": meta.uid.to_string() },
        "target": { "apiVersion": "v1", "kind": "Node", "name": node }
    })
}
