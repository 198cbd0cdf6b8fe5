//! Pre-emption: pods of lower priority end, so that a pod fits their node.
//!
//! The simulation takes pods from their node in the state itself, and gives all of them back. Pods that
//! PodDisruptionBudgets protect end only if no others make enough room.
//!
//! Upstream: `pkg/scheduler/framework/preemption` and the plugin DefaultPreemption.

use std::cmp::Reverse;
use std::sync::Arc;

use jiff::Timestamp;
use steersman_objects::{ObjectKey, Uid};

use super::census::{Placed, Subject};
use super::fit::{NoPreemption, Refusals};
use super::node::Refusal;
use super::{Attempt, State};

/// The search ends after this number of nodes, or a tenth of the nodes if that is more. Upstream:
/// `calculateNumCandidates`.
const CANDIDATES: usize = 100;

/// The pods that make room for another one.
#[derive(Debug, Default)]
pub(crate) struct Preemption {
    /// Pods to delete.
    pub(crate) victims: Vec<(ObjectKey, Uid)>,
    /// Waiting pods of lower priority, which lose their nomination for the same node.
    pub(crate) outranked: Vec<ObjectKey>,
}

/// A pod that would make room.
#[derive(Debug)]
pub(super) struct Victim {
    pub(super) key: ObjectKey,
    pub(super) uid: Uid,
    pub(super) priority: i32,
    /// The time at which it started. Pods that have not started are the youngest.
    pub(super) since: Timestamp,
    /// Whether its end breaks a PodDisruptionBudget.
    breaks_budget: bool,
    is_terminating: bool,
}

impl Victim {
    fn of(uid: &Uid, subject: &Subject, breaks_budget: bool) -> Self {
        Self {
            key: subject.key.clone(),
            uid: uid.clone(),
            priority: subject.priority(),
            since: since(subject),
            breaks_budget,
            is_terminating: subject.is_terminating,
        }
    }
}

fn since(subject: &Subject) -> Timestamp {
    subject.since.map_or(Timestamp::MAX, Timestamp::from)
}

/// The index of the node whose victims are missed least; the first one of equals. Upstream:
/// `pickOneNodeForPreemption`.
pub(super) fn choose<'a>(nodes: impl Iterator<Item = &'a [Victim]>) -> Option<usize> {
    let loss = |victims: &[Victim]| {
        let highest = victims.iter().map(|victim| victim.priority).max();
        // As upstream, each victim counts, even if its priority is negative.
        let count = |victim: &Victim| i64::from(victim.priority) - i64::from(i32::MIN);
        let sum: i64 = victims.iter().map(count).sum();
        let top = victims
            .iter()
            .filter(|victim| Some(victim.priority) == highest);
        let earliest = top.map(|victim| victim.since).min();
        let broken = victims.iter().filter(|victim| victim.breaks_budget).count();
        (broken, highest, sum, victims.len(), Reverse(earliest))
    };
    let best = nodes.enumerate().min_by_key(|(_, victims)| loss(victims))?;
    Some(best.0)
}

impl State {
    /// Nominates the pod for a node where others make room for it.
    pub(super) fn preempt(
        &mut self,
        attempt: &Attempt<'_>,
        mut nodes: Vec<Arc<str>>,
    ) -> Result<Preemption, NoPreemption> {
        if attempt.never_preempts() {
            return Err(NoPreemption::Never);
        }
        let priority = attempt.subject.priority();
        if self.is_underway(attempt, &nodes) {
            return Err(NoPreemption::Underway);
        }
        nodes.sort_unstable();
        let enough = CANDIDATES.max(nodes.len() / 10);
        let mut below = self.census.below(priority);
        let mut answers = Refusals::default();
        let mut candidates = Vec::new();
        let mut spares_budgets = false;
        for node in nodes {
            let pods = below.remove(&node).unwrap_or_default();
            match self.victims(attempt, &node, pods) {
                Ok(victims) => {
                    spares_budgets |= !victims.iter().any(|victim| victim.breaks_budget);
                    candidates.push((node, victims));
                }
                Err(refusal) => answers.add(&node, refusal),
            }
            if spares_budgets && candidates.len() >= enough {
                break;
            }
        }
        let Some(best) = choose(candidates.iter().map(|(_, victims)| &**victims)) else {
            self.nominated.remove(attempt.uid());
            return Err(NoPreemption::Helpless(answers));
        };
        let (node, victims) = candidates.swap_remove(best);
        let outranked = self
            .nominated
            .extract_if(|_, waiting| waiting.node == node && waiting.subject.priority() < priority);
        let outranked = outranked.map(|(_, waiting)| waiting.subject.key).collect();
        let subject = attempt.subject.clone();
        let nomination = Placed { node, subject };
        self.nominated.insert(attempt.uid().clone(), nomination);
        let living = victims.into_iter().filter(|victim| !victim.is_terminating);
        Ok(Preemption {
            victims: living.map(|victim| (victim.key, victim.uid)).collect(),
            outranked,
        })
    }

    /// Whether pods are still ending on the nominated node of the pod, and their room will help.
    /// Upstream: `PodEligibleToPreemptOthers`.
    fn is_underway(&self, attempt: &Attempt<'_>, nodes: &[Arc<str>]) -> bool {
        let Some(Placed { node, .. }) = self.nominated.get(attempt.uid()) else {
            return false;
        };
        let priority = attempt.subject.priority();
        let makes_room =
            |pod: &Subject| pod.is_terminating && pod.is_preempted && pod.priority() < priority;
        nodes.contains(node) && self.census.on(node).any(makes_room)
    }

    /// The pods without which the pod fits the node, from those of lower priority, the most important
    /// one first. As few as possible end: each one is given back if the pod still fits, first those whose
    /// end breaks a PodDisruptionBudget, then from the most important one. Upstream:
    /// `SelectVictimsOnNode`.
    fn victims(
        &mut self,
        attempt: &Attempt<'_>,
        node: &str,
        lower: Vec<Uid>,
    ) -> Result<Vec<Victim>, Refusal> {
        if lower.is_empty() {
            return Err(Refusal::of_lack_of_victims());
        }
        let take = |uid: Uid| self.release(&uid).map(|placed| (uid, placed));
        let mut taken: Vec<(Uid, Placed)> = lower.into_iter().filter_map(take).collect();
        taken.sort_by_cached_key(|(_, Placed { subject, .. })| {
            let priority = Reverse(subject.priority());
            (priority, since(subject), subject.key.clone())
        });
        let broken = self
            .budgets
            .broken_by(taken.iter().map(|(_, pod)| &pod.subject));
        let refusal = self.refusal_of(attempt, node);
        let mut victims = Vec::new();
        let mut gone = Vec::new();
        let mut ranked: Vec<_> = taken.into_iter().zip(broken).enumerate().collect();
        ranked.sort_by_key(|(_, (_, breaks_budget))| Reverse(*breaks_budget));
        for (rank, ((uid, placed), breaks_budget)) in ranked {
            let victim = Victim::of(&uid, &placed.subject, breaks_budget);
            self.place(uid.clone(), placed);
            if refusal.is_none()
                && self.refusal_of(attempt, node).is_some()
                && let Some(placed) = self.release(&uid)
            {
                victims.push((rank, victim));
                gone.push((uid, placed));
            }
        }
        for (uid, placed) in gone {
            self.place(uid, placed);
        }
        victims.sort_unstable_by_key(|(rank, _)| *rank);
        let victims = victims.into_iter().map(|(_, victim)| victim).collect();
        refusal.map_or(Ok(victims), Err)
    }
}
