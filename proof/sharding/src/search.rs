//! A breadth-first search through all states of a world.

use std::collections::HashMap;
use std::fmt;

use crate::action::Action;
use crate::state::State;
use crate::step::{Violation, actions, apply, check, is_served};
use crate::world::World;

/// The end of a search without a violation.
#[derive(Debug)]
pub struct Explored {
    /// The number of states.
    pub states: usize,
    /// The number of actions in all states.
    pub transitions: usize,
    /// The length of the longest of the shortest ways to a state.
    pub depth: usize,
    /// The way to a state with a running replica and without any way to a holder of each range. Only ways without
    /// further action from outside count. That every fair run takes such a way is not checked.
    pub stuck: Option<String>,
}

/// The shortest way to a violation.
#[derive(Debug)]
pub struct Counterexample {
    /// The rule that does not hold.
    pub violation: Violation,
    /// The actions, one a line.
    pub way: String,
    /// The number of states that the search had found.
    pub states: usize,
}

impl fmt::Display for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}", self.violation, self.way)
    }
}

/// How the search first reached a state.
struct Origin {
    parent: usize,
    action: Action,
}

/// The states so far, in the order in which the search found them.
struct Search<'a> {
    world: &'a World,
    states: Vec<State>,
    origins: Vec<Option<Origin>>,
    numbers: HashMap<State, usize>,
    /// For each state, the states that lead to it without an action from outside.
    before: Vec<Vec<u32>>,
    transitions: usize,
}

/// Visits all states of `world`.
///
/// # Errors
///
/// The first violation, with the shortest way to it.
pub fn explore(world: &World) -> Result<Explored, Box<Counterexample>> {
    let mut search = Search::new(world);
    let mut next = 0;
    while next < search.states.len() {
        search.expand(next)?;
        next += 1;
    }
    Ok(Explored {
        states: search.states.len(),
        transitions: search.transitions,
        depth: search.path(search.states.len() - 1).len(),
        stuck: search.stuck().map(|state| search.way(state, None)),
    })
}

impl<'a> Search<'a> {
    fn new(world: &'a World) -> Self {
        Self {
            world,
            states: vec![State::START],
            origins: vec![None],
            numbers: HashMap::from([(State::START, 0)]),
            before: vec![Vec::new()],
            transitions: 0,
        }
    }

    /// Applies all actions of the state `number`.
    fn expand(&mut self, number: usize) -> Result<(), Box<Counterexample>> {
        let state = self.states[number];
        for action in actions(self.world, &state) {
            self.transitions += 1;
            let next = apply(self.world, &state, action);
            let checked = next.and_then(|next| check(self.world, &next).map(|()| next));
            let next =
                checked.map_err(|violation| self.counterexample(violation, number, action))?;
            let found = self.number_of(next, number, action);
            if !action.is_from_outside() {
                self.before[found].push(number as u32);
            }
        }
        Ok(())
    }

    /// The number of `state`, which is a new one if the search has not seen the state.
    fn number_of(&mut self, state: State, parent: usize, action: Action) -> usize {
        let new = self.states.len();
        let number = *self.numbers.entry(state).or_insert(new);
        if number == new {
            self.states.push(state);
            self.origins.push(Some(Origin { parent, action }));
            self.before.push(Vec::new());
        }
        number
    }

    fn counterexample(
        &self,
        violation: Violation,
        number: usize,
        action: Action,
    ) -> Box<Counterexample> {
        Box::new(Counterexample {
            violation,
            way: self.way(number, Some(action)),
            states: self.states.len(),
        })
    }

    /// The actions that lead to the state `number`.
    fn path(&self, number: usize) -> Vec<Action> {
        let mut actions = Vec::new();
        let mut origin = self.origins[number].as_ref();
        while let Some(found) = origin {
            actions.push(found.action);
            origin = self.origins[found.parent].as_ref();
        }
        actions.reverse();
        actions
    }

    /// The same in words, with `last` at the end.
    fn way(&self, number: usize, last: Option<Action>) -> String {
        let mut actions = self.path(number);
        actions.extend(last);
        let line = |(index, action): (usize, &Action)| {
            format!("{:3}. {}\n", index + 1, action.describe(self.world))
        };
        actions.iter().enumerate().map(line).collect()
    }

    /// A state with a running replica, from which actions of the protocol alone reach no state with a holder of each
    /// range.
    fn stuck(&self) -> Option<usize> {
        let mut reaches = vec![false; self.states.len()];
        let is_goal = |number: &usize| is_served(self.world, &self.states[*number]);
        let mut pending: Vec<usize> = (0..self.states.len()).filter(is_goal).collect();
        while let Some(number) = pending.pop() {
            if !std::mem::replace(&mut reaches[number], true) {
                pending.extend(self.before[number].iter().map(|before| *before as usize));
            }
        }
        let has_replica = |number: &usize| self.states[*number].running_replicas(self.world) > 0;
        (0..self.states.len())
            .filter(has_replica)
            .find(|number| !reaches[*number])
    }
}
