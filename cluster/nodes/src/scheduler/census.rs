//! The pods on the nodes, counted for the rules that ask for them.
//!
//! A rule of affinity or spread asks for the number of matching pods per node. Pods of one template
//! have equal rules, so a count is kept for every different rule, and each pod that comes or goes
//! changes the counts. No placement looks at all pods, except the first one of a new rule.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use steersman_helpers::scheduling::amounts::{Amounts, requests};
use steersman_objects::{Object, ObjectKey, PodSpec, Time, Uid};
use steersman_values::intern::Sym;
use steersman_values::labels::Labels;

use crate::pod::SimPod;
use crate::rules::{PodSelection, Rules, Term};

/// Rules with a count. Counts of further rules replace all of them.
const RULES: usize = 256;

/// Numbers of pods by node.
pub(super) type Counts = HashMap<Arc<str>, u32>;

/// A pod, as the rules of other pods see it.
#[derive(Debug, Clone)]
pub(super) struct Subject {
    pub(super) key: ObjectKey,
    pub(super) labels: Labels,
    pub(super) is_terminating: bool,
    /// Whether a scheduler has pre-empted it.
    pub(super) is_preempted: bool,
    /// The time at which it started, if it has.
    pub(super) since: Option<Time>,
    spec: Arc<PodSpec>,
    pub(super) requests: Amounts,
    pub(super) rules: Option<Arc<Rules>>,
    /// Its claims, without those of ephemeral volumes.
    claims: Box<[ObjectKey]>,
}

impl Subject {
    pub(super) fn of(pod: &SimPod) -> Self {
        let meta = pod.meta();
        Self {
            key: pod.key(),
            labels: meta.labels.clone(),
            is_terminating: meta.is_terminating(),
            is_preempted: pod.is_preempted,
            since: pod.pod.start_time,
            spec: Arc::clone(&pod.pod.spec),
            requests: requests(&pod.pod.spec),
            rules: pod.rules.clone(),
            claims: pod
                .claims()
                .filter(|used| !used.is_ephemeral)
                .map(|used| ObjectKey::new(&meta.namespace, &used.name))
                .collect(),
        }
    }

    pub(super) fn priority(&self) -> i32 {
        self.rules.as_ref().map_or(0, |rules| rules.priority)
    }

    /// Whether the pod still counts in the same way.
    fn is_current(&self, pod: &SimPod) -> bool {
        Arc::ptr_eq(&self.spec, &pod.pod.spec)
            && self.is_terminating == pod.meta().is_terminating()
            && self.labels == pod.meta().labels
    }
}

/// A pod on its node.
#[derive(Debug, Clone)]
pub(super) struct Placed {
    pub(super) node: Arc<str>,
    pub(super) subject: Subject,
}

impl Placed {
    pub(super) fn of(pod: &SimPod, node: &str) -> Self {
        Self {
            node: node.into(),
            subject: Subject::of(pod),
        }
    }

    /// Whether this is still true of the pod, which is on `node`.
    pub(super) fn is_current(&self, node: &str, pod: &SimPod) -> bool {
        *self.node == *node && self.subject.is_current(pod)
    }
}

/// The pods that one rule asks for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Question {
    /// The pods match all of these.
    pub(super) all: Box<[PodSelection]>,
    /// Whether pods count that are being deleted.
    pub(super) with_terminating: bool,
}

#[derive(Debug, Default)]
pub(super) struct Census {
    pods: HashMap<Uid, Placed>,
    answers: HashMap<Question, Counts>,
    /// Pods with a term of anti-affinity, by term.
    repellers: HashMap<Term, Counts>,
    /// Numbers of pods by claim.
    users: HashMap<ObjectKey, u32>,
    namespaces: HashMap<Sym, Labels>,
    /// Numbers of pods by priority.
    priorities: BTreeMap<i32, u32>,
}

impl Census {
    /// Adds a pod that is not counted yet.
    pub(super) fn add(&mut self, uid: Uid, placed: Placed) {
        self.count(&placed, true);
        self.pods.insert(uid, placed);
    }

    pub(super) fn remove(&mut self, uid: &Uid) -> Option<Placed> {
        let placed = self.pods.remove(uid)?;
        self.count(&placed, false);
        Some(placed)
    }

    pub(super) fn get(&self, uid: &Uid) -> Option<&Placed> {
        self.pods.get(uid)
    }

    /// Records the parts of a pod's status that change no count.
    pub(super) fn note_status(&mut self, uid: &Uid, pod: &SimPod) {
        if let Some(Placed { subject, .. }) = self.pods.get_mut(uid) {
            subject.is_preempted = pod.is_preempted;
            subject.since = pod.pod.start_time;
        }
    }

    /// The pods of a node.
    pub(super) fn on<'a>(&'a self, node: &'a str) -> impl Iterator<Item = &'a Subject> {
        let here = self.pods.values().filter(move |pod| *pod.node == *node);
        here.map(|pod| &pod.subject)
    }

    /// The pods of a lower priority, by node.
    pub(super) fn below(&self, priority: i32) -> HashMap<Arc<str>, Vec<Uid>> {
        let mut below: HashMap<Arc<str>, Vec<Uid>> = HashMap::new();
        if self.priorities.range(..priority).next().is_none() {
            return below;
        }
        let lower = |(_, pod): &(&Uid, &Placed)| pod.subject.priority() < priority;
        for (uid, Placed { node, .. }) in self.pods.iter().filter(lower) {
            below.entry(Arc::clone(node)).or_default().push(uid.clone());
        }
        below
    }

    fn count(&mut self, Placed { node, subject }: &Placed, is_new: bool) {
        let change = |counts: &mut Counts| {
            if is_new {
                *counts.entry(Arc::clone(node)).or_default() += 1;
            } else if let Some(count) = counts.get_mut(node) {
                *count -= 1;
                if *count == 0 {
                    counts.remove(node);
                }
            }
        };
        for (question, counts) in &mut self.answers {
            if is_meant(question, subject, &self.namespaces) {
                change(counts);
            }
        }
        for claim in &subject.claims {
            let users = self.users.entry(claim.clone()).or_default();
            *users = if is_new { *users + 1 } else { *users - 1 };
            if *users == 0 {
                self.users.remove(claim);
            }
        }
        let priority = subject.priority();
        let equals = self.priorities.entry(priority).or_default();
        *equals = if is_new { *equals + 1 } else { *equals - 1 };
        if *equals == 0 {
            self.priorities.remove(&priority);
        }
        for term in subject.rules.iter().flat_map(|rules| &rules.anti_affinity) {
            let counts = self.repellers.entry(term.clone()).or_default();
            change(counts);
            if counts.is_empty() {
                self.repellers.remove(term);
            }
        }
    }

    /// The number of pods on each node that the question is about.
    pub(super) fn answer(&mut self, question: &Question) -> &Counts {
        if !self.answers.contains_key(question) {
            if self.answers.len() == RULES {
                self.answers.clear();
            }
            let mut counts = Counts::new();
            for Placed { node, subject } in self.pods.values() {
                if is_meant(question, subject, &self.namespaces) {
                    *counts.entry(Arc::clone(node)).or_default() += 1;
                }
            }
            self.answers.insert(question.clone(), counts);
        }
        &self.answers[question]
    }

    /// The terms of anti-affinity of placed pods that a pod does not meet, with the nodes of these
    /// pods.
    pub(super) fn repelling<'a>(
        &'a self,
        subject: &'a Subject,
    ) -> impl Iterator<Item = (&'a Term, &'a Counts)> {
        let terms = self.repellers.iter();
        terms.filter(|(term, _)| self.meets(&term.pods, subject))
    }

    /// Whether a placed pod uses the claim.
    pub(super) fn is_used(&self, claim: &ObjectKey) -> bool {
        self.users.contains_key(claim)
    }

    /// Whether the pod is one that `pods` selects.
    pub(super) fn meets(&self, pods: &PodSelection, subject: &Subject) -> bool {
        meets(pods, subject, &self.namespaces)
    }

    /// Records the labels of a namespace, or that it is gone.
    pub(super) fn note_namespace(&mut self, name: &str, labels: Option<&Labels>) {
        let name = Sym::new(name);
        if self.namespaces.get(&name) == labels {
            return;
        }
        match labels {
            Some(labels) => drop(self.namespaces.insert(name, labels.clone())),
            None => drop(self.namespaces.remove(&name)),
        }
        self.answers
            .retain(|question, _| !question.all.iter().any(PodSelection::selects_namespaces));
    }
}

fn is_meant(question: &Question, subject: &Subject, namespaces: &HashMap<Sym, Labels>) -> bool {
    (question.with_terminating || !subject.is_terminating)
        && question
            .all
            .iter()
            .all(|pods| meets(pods, subject, namespaces))
}

fn meets(pods: &PodSelection, subject: &Subject, namespaces: &HashMap<Sym, Labels>) -> bool {
    let labels_of = || {
        namespaces
            .get(&subject.key.namespace)
            .cloned()
            .unwrap_or_default()
    };
    pods.matches(&subject.key.namespace, labels_of, &subject.labels)
}
