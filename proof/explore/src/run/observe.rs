//! The look at a run: its possible actions, its canonical state and its violations.

use std::collections::BTreeSet;

use serde_json::Value;
use steersman_perturb::{Change, InProcess, Step, broken_in_the_end, broken_rules, masked};

use super::{Observed, Run};
use crate::action::{Action, Lag};
use crate::canonical::{Coloured, Picture, hash, keys};
use crate::world::Act;

impl Run {
    pub(super) fn observe(mut self) -> Observed {
        let coloured = self.coloured();
        let mut kinds = BTreeSet::new();
        let mut enabled = self.enabled();
        enabled.retain(|action| kinds.insert(coloured.fold(&action.to_string())));
        self.history.attribute(&self.cluster.requests());
        let mut violations = std::mem::take(&mut self.violations);
        violations.extend(broken_rules(&self.setup.world.scenario, &self.history));
        let leader = self.leader.as_ref().map_or(0, InProcess::panics);
        let panics = self.panics + leader + self.former.as_ref().map_or(0, InProcess::panics);
        violations.extend((panics > 0).then(|| format!("{panics} panics")));
        let is_end = enabled
            .iter()
            .all(|action| action.is_fault() || *action == Action::Wait);
        let end = is_end.then(|| masked(&self.history.state));
        let with_origin = |action: Action| {
            let origin = self.origin(&action);
            (action, origin)
        };
        Observed {
            id: coloured.id(),
            enabled: enabled.into_iter().map(with_origin).collect(),
            choices: hash(&kinds),
            violations,
            end,
            final_violations: self.final_violations(),
        }
    }

    /// All possible actions.
    pub(super) fn enabled(&self) -> Vec<Action> {
        let mut actions = self.of_wire();
        let acts: Vec<Act> = (self.setup.world.acts)(&self.history.state);
        actions.extend(acts.into_iter().map(|act| Action::Act(act.name)));
        actions.extend(self.next_step().map(Action::User));
        if self.is_quiet() || self.has_delayed_keys() {
            actions.push(Action::Wait);
        }
        if self.faults < self.setup.faults {
            actions.extend(self.restarts());
        }
        actions
    }

    fn of_wire(&self) -> Vec<Action> {
        let state = self.wire.state();
        let pending = state
            .watches
            .iter()
            .filter(|(_, watch)| !watch.pending.is_empty());
        let mut actions: Vec<Action> = pending
            .map(|(name, _)| Action::Deliver(name.clone()))
            .collect();
        let has_late_answer = state.requests.iter().any(|held| held.handled.is_some());
        for held in &state.requests {
            let label = held.asked.label();
            if held.handled.is_some() {
                actions.push(Action::Return(label));
                continue;
            }
            actions.push(Action::Answer(label.clone()));
            if self.setup.world.late_answers && held.asked.is_write() && !has_late_answer {
                actions.push(Action::Handle(label.clone()));
            }
            if self.faults < self.setup.faults && held.asked.is_write() {
                actions.push(Action::Lose(label));
            }
        }
        actions
    }

    /// A crash and a hand-over, with the caches of the next leader complete, or with one of them
    /// old: by one change after a crash, by two after a hand-over.
    fn restarts(&self) -> Vec<Action> {
        let crashes = self.lags(1).map(Action::Crash);
        let hand_overs = self.lags(2).map(Action::HandOver);
        crashes.chain(hand_overs).collect()
    }

    /// No lag, and a lag of each resource that has changed often enough.
    fn lags(&self, changes: usize) -> impl Iterator<Item = Option<Lag>> {
        let has_changed = move |resource: &&&str| {
            let all = self.history.changes.iter();
            let of = all.filter(|change| *change.plural == ***resource);
            of.filter(|change| change.revision > self.begin).count() >= changes
        };
        let lag = move |resource: &&str| Lag {
            resource: (*resource).to_owned(),
            changes,
        };
        let resources = self.setup.world.lags.iter().filter(has_changed);
        std::iter::once(None).chain(resources.map(lag).map(Some))
    }

    fn has_delayed_keys(&self) -> bool {
        let Some(leader) = &self.leader else {
            return false;
        };
        let keys = keys(&self.history.state, &self.wire.state());
        keys.iter().any(|key| {
            leader
                .key_states(key)
                .iter()
                .any(|state| state.delayed.is_some())
        })
    }

    pub(super) fn coloured(&self) -> Coloured {
        let mut picture = Picture::new(self.setup.world.folds_nodes);
        let wire = self.wire.state();
        picture.take(&self.history.state, &wire);
        for key in keys(&self.history.state, &wire) {
            let states = self.leader.as_ref().map(|leader| leader.key_states(&key));
            picture.take_key(&key, &states.unwrap_or_default());
        }
        picture.take_text(format!("next {} faults {}", self.next, self.faults));
        picture.coloured()
    }

    /// The number of all that the state after a restart follows from: the objects, those of the old
    /// cache, and the requests that a former leader still waits for.
    fn origin(&self, action: &Action) -> Option<u128> {
        let lag = match action {
            Action::Crash(lag) | Action::HandOver(lag) => lag.as_ref(),
            _ => return None,
        };
        let mut picture = Picture::new(self.setup.world.folds_nodes);
        let hidden = lag.map_or_else(Vec::new, |lag| self.latest(lag));
        let former: Vec<&Value> = hidden
            .iter()
            .filter_map(|change| change.before.as_deref())
            .collect();
        picture.take_server(&self.history.state, &former);
        let created = hidden.iter().filter(|change| change.before.is_none());
        created.for_each(|change| picture.take_text(format!("created {}", change.key)));
        if matches!(action, Action::HandOver(_)) {
            let wire = self.wire.state();
            let labels = wire.requests.iter().map(|held| held.asked.label());
            labels.for_each(|label| picture.take_text(label));
        }
        picture.take_text(format!(
            "{action} next {} faults {}",
            self.next, self.faults
        ));
        Some(picture.coloured().id())
    }

    /// The changes that an old cache lacks.
    fn latest(&self, lag: &Lag) -> Vec<&Change> {
        let changes = self.history.changes.iter().rev();
        let of = changes.filter(|change| *change.plural == lag.resource);
        of.take(lag.changes).collect()
    }

    /// Violations if nothing more happens.
    fn final_violations(&self) -> Vec<String> {
        let mut violations = broken_in_the_end(&self.setup.world.scenario, &self.history.state);
        let steps = self.steps.iter().skip(self.next);
        let waits = steps.filter_map(|step| match step {
            Step::Until(name, holds) if !holds(&self.history.state) => Some(*name),
            _ => None,
        });
        let first = waits.take(1);
        violations
            .extend(first.map(|name| format!("progress: the user waits for the state {name:?}")));
        violations
    }
}
