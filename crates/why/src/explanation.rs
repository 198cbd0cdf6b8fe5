//! The answer about one object: its state, the reasons, and the answers about the objects that it
//! waits for.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use steersman_values::resource::ResourceType;

use crate::{Code, Reason, Role};

/// The object of an explanation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Subject {
    /// API version, such as `apps/v1`.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Namespace; empty for cluster-scoped objects.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl Subject {
    /// The object `namespace/name` of type `of`.
    pub fn new(of: &ResourceType, namespace: &str, name: &str) -> Self {
        Self {
            api_version: of.api_version().into_owned(),
            kind: of.kind.clone().into_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    /// `deployment web`, without the namespace.
    pub fn short(&self) -> String {
        format!("{} {}", self.kind.to_lowercase(), self.name)
    }

    /// `deployment default/web`.
    pub fn long(&self) -> String {
        let kind = self.kind.to_lowercase();
        match &*self.namespace {
            "" => format!("{kind} {}", self.name),
            namespace => format!("{kind} {namespace}/{}", self.name),
        }
    }
}

/// The answer about one object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The object.
    pub object: Subject,
    /// Its state in a few words, such as `does not progress (2 of 3 new pods available)`.
    pub state: String,
    /// Start of the state, if the API tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Whether the API server has no such object.
    #[serde(skip)]
    pub is_absent: bool,
    /// The reasons, causes first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<Reason>,
    /// The answers about the objects that this object waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits_for: Vec<Self>,
}

impl Explanation {
    /// An answer without reasons.
    pub fn new(object: Subject, state: impl Into<String>) -> Self {
        Self {
            object,
            state: state.into(),
            since: None,
            is_absent: false,
            reasons: Vec::new(),
            waits_for: Vec::new(),
        }
    }

    /// Adds a reason.
    pub fn add(&mut self, reason: Reason) {
        self.reasons.push(reason);
    }

    /// Adds a reason that names the failure of a sync better than its error does. The error leaves
    /// only its times.
    pub fn name_failure(&mut self, mut reason: Reason) {
        let is_vague = |known: &Reason| {
            let is_general = matches!(
                known.code,
                Code::SyncFailed | Code::RequestFailed | Code::RetryScheduled
            );
            known.by == reason.by && (is_general || known.code == reason.code)
        };
        if let Some(at) = self.reasons.iter().position(is_vague) {
            let vague = self.reasons.remove(at);
            reason.last_try = vague.last_try;
            reason.attempts = vague.attempts;
            reason.next_try = vague.next_try;
        }
        self.reasons.push(reason);
    }

    /// Whether a cause is known, other than the mere lack of a reaction.
    pub fn knows_cause(&self) -> bool {
        self.causes()
            .any(|(_, reason)| reason.code != Code::NotObserved)
    }

    /// Adds the answer about an object that this object waits for, unless it has no reason.
    pub fn follow(&mut self, other: Self) {
        if !other.reasons.is_empty() || !other.waits_for.is_empty() {
            self.waits_for.push(other);
        }
    }

    /// Whether the object, or an object that it waits for, stands still.
    pub fn is_stuck(&self) -> bool {
        self.causes().next().is_some()
    }

    /// All causes with their objects, in the order of the text.
    pub fn causes(&self) -> Box<dyn Iterator<Item = (&Subject, &Reason)> + '_> {
        let own = self.reasons.iter().map(|reason| (&self.object, reason));
        let own = own.filter(|(_, reason)| reason.code.role() == Role::Cause);
        let others = self.waits_for.iter().flat_map(Self::causes);
        Box::new(own.chain(others))
    }

    /// The cause with its object to which the others lead: the first one of the deepest answer with a
    /// cause. A deadlock of a rollout explains the pod below it, and evicted pods the pressure on their node.
    pub fn root_cause(&self) -> Option<(&Subject, &Reason)> {
        let (_, subject, cause) = self.deepest(0)?;
        let is_pressure = cause.code == Code::NodePressure;
        let explains = |code: Code| {
            code == Code::RolloutDeadlock || (is_pressure && code == Code::PodsEvicted)
        };
        let above = self.causes().find(|(_, cause)| explains(cause.code));
        above.or(Some((subject, cause)))
    }

    /// Changes the reasons of this answer and of all answers below.
    pub fn change(&mut self, change: &impl Fn(&mut Reason)) {
        self.reasons.iter_mut().for_each(change);
        for other in &mut self.waits_for {
            other.change(change);
        }
    }

    /// The objects of all answers below.
    pub fn followed(&self) -> Vec<&Subject> {
        let below = self.waits_for.iter();
        below
            .flat_map(|other| std::iter::once(&other.object).chain(other.followed()))
            .collect()
    }

    fn deepest(&self, depth: usize) -> Option<(usize, &Subject, &Reason)> {
        let mut own = self.reasons.iter();
        let own = own.find(|reason| reason.code.role() == Role::Cause);
        let own = own.map(|reason| (depth, &self.object, reason));
        let below = self
            .waits_for
            .iter()
            .filter_map(|other| other.deepest(depth + 1));
        own.into_iter().chain(below).reduce(
            |best, other| {
                if other.0 > best.0 { other } else { best }
            },
        )
    }

    /// Whether one of the reasons has this code.
    pub fn has(&self, code: Code) -> bool {
        self.reasons.iter().any(|reason| reason.code == code)
            || self.waits_for.iter().any(|other| other.has(code))
    }

    /// The start of the oldest cause, else of the state, else of the state of an object that this one
    /// waits for.
    pub fn oldest(&self) -> Option<Timestamp> {
        let causes = self.causes().filter_map(|(_, reason)| reason.since);
        let known = causes.chain(self.since).min();
        known.or_else(|| self.waits_for.iter().filter_map(Self::oldest).min())
    }

    /// Puts causes before waits and facts, here and in all answers below, and drops repetitions.
    #[must_use]
    pub fn sorted(mut self) -> Self {
        let knows_cause = self.knows_cause();
        let waits = !self.waits_for.is_empty();
        let others = self
            .reasons
            .iter()
            .filter(|reason| reason.code != Code::RetryScheduled)
            .count();
        self.reasons.retain(|reason| match reason.code {
            Code::NotObserved => !knows_cause,
            Code::RetryScheduled => (others == 0 && !waits) || reason.attempts > 0,
            _ => true,
        });
        let mut seen = Vec::new();
        self.reasons.retain(|reason| {
            let key = (reason.code, reason.message.clone());
            let is_new = !seen.contains(&key);
            seen.push(key);
            is_new
        });
        self.reasons.sort_by_key(|reason| match reason.code.role() {
            Role::Cause => 0,
            Role::Wait => 1,
            Role::Fact => 2,
        });
        self.waits_for = self.waits_for.into_iter().map(Self::sorted).collect();
        // The answers below and the other causes name their actors.
        let names_actor = |reason: &Reason| {
            let is_cause = reason.code.role() == Role::Cause;
            is_cause && !reason.who.is_empty() && !reason.is_pointer()
        };
        let is_named = self.reasons.iter().any(names_actor);
        if is_named || self.waits_for.iter().any(Self::is_stuck) {
            let pointers = self.reasons.iter_mut().filter(|reason| reason.is_pointer());
            pointers.for_each(|reason| reason.who.clear());
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_failure_replaces_the_error_of_its_sync() {
        let subject = Subject::new(&steersman_values::resource::STATEFUL_SETS, "shop", "cache");
        let named = || {
            Reason::new(
                Code::NameTaken,
                "statefulset-controller",
                "pod cache-0 exists",
            )
        };
        // (code of the error, its controller, reasons)
        let cases = [
            (Code::SyncFailed, "statefulset-controller", 1),
            (Code::NameTaken, "statefulset-controller", 1),
            (Code::NameTaken, "other-controller", 2),
            (Code::OrdinalBlocks, "statefulset-controller", 2),
        ];
        for (code, by, reasons) in cases {
            let mut answer = Explanation::new(subject.clone(), "");
            let mut error = Reason::new(code, by, "pods \"cache-0\" already exists");
            error.attempts = 9;
            answer.add(error);
            answer.name_failure(named());
            let last = answer.reasons.last().unwrap();
            let attempts = if reasons == 1 { 9 } else { named().attempts };
            assert_eq!(
                (answer.reasons.len(), last.attempts),
                (reasons, attempts),
                "{code:?} {by}"
            );
            assert_eq!(last.message, "pod cache-0 exists");
        }
    }

    #[test]
    fn a_pointer_to_other_answers_is_dropped_above_the_answer_itself() {
        let subject = Subject::new(&steersman_values::resource::PODS, "shop", "web");
        let with = |below: Option<Reason>| {
            let mut answer = Explanation::new(subject.clone(), "");
            let reason = Reason::new(Code::PodUnscheduled, "", "no node");
            answer.add(reason.who(Reason::see("the claim")));
            let mut other = Explanation::new(subject.clone(), "");
            other.reasons.extend(below);
            answer.follow(other);
            answer.sorted().reasons.remove(0).who
        };
        let cause = Reason::new(Code::VolumeLost, "", "it is gone");
        let wait = Reason::new(Code::GracePeriod, "", "it ends");
        assert_eq!(with(Some(cause)), "");
        assert_eq!(with(Some(wait)), "see the claim");
        assert_eq!(with(None), "see the claim");
    }

    #[test]
    fn the_age_is_that_of_the_oldest_cause_else_of_the_state_else_of_what_it_waits_for() {
        let at = |second: i64| Some(Timestamp::from_second(second).unwrap());
        let answer = |since: Option<Timestamp>| Explanation {
            since,
            ..Explanation::new(
                Subject {
                    api_version: "v1".to_owned(),
                    kind: "Pod".to_owned(),
                    namespace: "shop".to_owned(),
                    name: "web".to_owned(),
                },
                "is Pending",
            )
        };
        let cause = |since| Reason::new(Code::PodFailed, "kubelet", "it failed").since(since);
        let mut below = answer(at(30));
        below.add(cause(None));
        let mut above = answer(None);
        above.follow(below.clone());
        assert_eq!(above.oldest(), at(30));
        above.since = at(40);
        assert_eq!(above.oldest(), at(40));
        assert_eq!(above.root_cause().unwrap().1.message, "it failed");
        above.add(Reason::new(Code::PodFailed, "kubelet", "it is above").since(at(20)));
        assert_eq!(above.oldest(), at(20));
        assert_eq!(above.root_cause().unwrap().1.message, "it failed");
        let deadlock = Reason::new(Code::RolloutDeadlock, "deployment-controller", "no node");
        let mut rollout = above.clone();
        rollout.add(deadlock);
        assert_eq!(rollout.root_cause().unwrap().1.message, "no node");
        above.waits_for.clear();
        assert_eq!(above.root_cause().unwrap().1.message, "it is above");
    }

    #[test]
    fn evicted_pods_explain_the_pressure_on_their_node() {
        let subject = Subject::new(&steersman_values::resource::PODS, "shop", "web");
        let with = |below: Code| {
            let mut node = Explanation::new(subject.clone(), "");
            node.add(Reason::new(below, "", "below"));
            let mut set = Explanation::new(subject.clone(), "");
            set.follow(node);
            set.add(Reason::new(Code::PodsEvicted, "", "evicted"));
            set.root_cause().unwrap().1.message.clone()
        };
        assert_eq!(with(Code::NodePressure), "evicted");
        assert_eq!(with(Code::ImagePull), "below");
    }
}
