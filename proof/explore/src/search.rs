//! Breadth first: layer by layer, every action of every new state.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use steersman_perturb::{Masked, difference, in_parallel};

use crate::action::Action;
use crate::graph::{Node, ends, way_to};
use crate::run::{Diverged, Observed, Setup, drain, replay};
use crate::world::World;

/// The limits of an exploration.
#[derive(Debug, Clone)]
pub struct Bounds {
    /// Most actions on one way.
    pub depth: usize,
    /// Most states.
    pub states: usize,
    /// Longest time.
    pub time: Duration,
    /// Most crashes, hand-overs and lost answers on one way.
    pub faults: usize,
    /// Runs at the same time.
    pub threads: usize,
}

/// Most states at a bound from which a fair continuation is tried, spread over the last layer.
const CONTINUED: usize = 100;
/// Most actions of a fair continuation.
const FAIR: usize = 600;
/// States whose ways are repeated, with more turns of the scheduler.
const REPEATED: usize = 24;
const MORE_TURNS: usize = 4;
/// Violations after which an exploration ends.
const ENOUGH: usize = 3;

/// The result of an exploration.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// `controller/name`.
    pub world: String,
    /// Different states.
    pub states: usize,
    /// Explored actions.
    pub transitions: usize,
    /// Length of the longest shortest way to a state.
    pub depth: usize,
    /// Whether no state has an unexplored action.
    pub is_complete: bool,
    /// Layers that are explored completely.
    pub complete_depth: usize,
    /// States in which nothing but time or a fault changes anything.
    pub ends: usize,
    /// Most faults on one way.
    pub faults: usize,
    /// Time on the wall clock.
    pub time: Duration,
    /// Violations, each with the way to it.
    pub violations: Vec<String>,
    /// Runs that did not repeat.
    pub diverged: Vec<String>,
}

/// A new state with its actions.
type Found = (usize, Vec<(Action, Option<u128>)>);

struct Search {
    world: &'static World,
    bounds: Bounds,
    nodes: Vec<Node>,
    known: HashMap<u128, usize>,
    /// Restarts that have been explored from another state with the same result.
    restarts: HashSet<u128>,
    /// The final state of the first way that ended, and the state in which it did.
    end: Option<Masked>,
    /// Final states, each with its objects and violations, until they are known to be final.
    settled: HashMap<usize, (Masked, Vec<String>)>,
    report: Report,
}

/// Explores `world` within `bounds`.
pub fn explore(world: &'static World, bounds: &Bounds) -> Report {
    let begun = Instant::now();
    let mut search = Search {
        world,
        bounds: bounds.clone(),
        nodes: Vec::new(),
        known: HashMap::new(),
        restarts: HashSet::new(),
        end: None,
        settled: HashMap::new(),
        report: Report {
            world: world.scenario.id(),
            faults: bounds.faults,
            ..Report::default()
        },
    };
    search.layers(begun);
    search.repeat();
    search.judge_ends();
    search.continue_from_bound();
    search.report.time = begun.elapsed();
    search.report.states = search.nodes.len();
    search.report.depth = search
        .nodes
        .iter()
        .map(|node| node.depth)
        .max()
        .unwrap_or(0);
    search.report
}

impl Search {
    fn layers(&mut self, begun: Instant) {
        let first = match replay(self.setup(), &[], None, None) {
            Ok(first) => first,
            Err(diverged) => return self.report.diverged.push(diverged.0),
        };
        let mut layer = Vec::new();
        self.meet(None, first, &mut layer);
        let mut depth = 0;
        while !layer.is_empty() && self.may_go_on(depth, begun) {
            let deadline = begun + self.bounds.time;
            let tasks = self.tasks(&layer);
            let observed = self.run_all(&tasks, deadline);
            let is_whole = observed.iter().all(Option::is_some);
            let expanded: Vec<usize> = layer.iter().map(|(state, _)| *state).collect();
            layer.clear();
            for ((state, action), observed) in tasks.into_iter().zip(observed) {
                match observed {
                    None => {}
                    Some(Err(Diverged(action))) => {
                        self.report.diverged.push(self.told(state, &action));
                    }
                    Some(Ok(observed)) => {
                        self.report.transitions += 1;
                        self.meet(Some((state, action)), observed, &mut layer);
                    }
                }
            }
            if !is_whole {
                return;
            }
            expanded
                .iter()
                .for_each(|state| self.nodes[*state].is_expanded = true);
            depth += 1;
            self.report.complete_depth = depth;
        }
        self.report.is_complete = layer.is_empty() && self.report.violations.len() < ENOUGH;
    }

    /// The actions of a layer, without the restarts whose results are known.
    fn tasks(&mut self, layer: &[Found]) -> Vec<(usize, Action)> {
        let mut tasks = Vec::new();
        for (state, actions) in layer {
            for (action, origin) in actions {
                if origin.is_some_and(|origin| !self.restarts.insert(origin)) {
                    self.report.transitions += 1;
                    continue;
                }
                tasks.push((*state, action.clone()));
            }
        }
        tasks
    }

    fn setup(&self) -> Setup {
        Setup {
            world: self.world,
            faults: self.bounds.faults,
            turns: 1,
        }
    }

    fn may_go_on(&self, depth: usize, begun: Instant) -> bool {
        depth < self.bounds.depth
            && self.nodes.len() < self.bounds.states
            && begun.elapsed() < self.bounds.time
            && self.report.violations.len() < ENOUGH
    }

    /// Runs all tasks, in threads. A task that would begin after the deadline has no result.
    fn run_all(
        &self,
        tasks: &[(usize, Action)],
        deadline: Instant,
    ) -> Vec<Option<Result<Observed, Diverged>>> {
        let run = |(state, action): &(usize, Action)| {
            if Instant::now() > deadline {
                return None;
            }
            let way = way_to(&self.nodes, *state);
            let known = Some(self.nodes[*state].id);
            Some(replay(self.setup(), &way, known, Some(action)))
        };
        in_parallel(tasks, self.bounds.threads, run)
    }

    /// Adds a state, or an action that leads to a known one.
    fn meet(&mut self, by: Option<(usize, Action)>, observed: Observed, layer: &mut Vec<Found>) {
        let known = self.known.get(&observed.id).copied();
        let state = known.unwrap_or(self.nodes.len());
        if let Some((before, _)) = by.as_ref().filter(|(_, action)| !action.is_fault()) {
            self.nodes[*before].next.push(state);
        }
        if known.is_some() {
            // Equal states have equal futures, beginning with the next actions.
            if self.nodes[state].choices != observed.choices {
                let told = self.told(state, "an equal state has other actions");
                self.report.diverged.push(told);
            }
            return;
        }
        self.known.insert(observed.id, state);
        let depth = by
            .as_ref()
            .map_or(0, |(before, _)| self.nodes[*before].depth + 1);
        self.nodes.push(Node {
            id: observed.id,
            found_by: by,
            choices: observed.choices,
            depth,
            next: Vec::new(),
            is_expanded: false,
            is_settled: observed.end.is_some(),
        });
        for violation in observed.violations {
            let told = self.told(state, &violation);
            self.report.violations.push(told);
        }
        if let Some(end) = observed.end {
            self.settled.insert(state, (end, observed.final_violations));
        }
        layer.push((state, observed.enabled));
    }

    /// A violation with the way to its state.
    fn told(&self, state: usize, violation: &str) -> String {
        let way = way_to(&self.nodes, state);
        let way: Vec<String> = way.iter().map(|action| format!("    {action}\n")).collect();
        format!("{violation}\n{}", way.concat())
    }

    /// Checks the ends of all fair ways: each is one settled state, and all have the same objects.
    fn judge_ends(&mut self) {
        for end in ends(&self.nodes) {
            let Some(state) = end
                .iter()
                .copied()
                .min_by_key(|state| self.nodes[*state].depth)
            else {
                continue;
            };
            let is_one = end.len() == 1 && self.nodes[state].is_settled;
            if !is_one {
                let cycle = format!("liveness: {} states without an end", end.len());
                let told = self.told(state, &cycle);
                self.report.violations.push(told);
                continue;
            }
            self.report.ends += 1;
            if let Some((objects, violations)) = self.settled.remove(&state) {
                self.judge_end(state, objects, violations);
            }
        }
    }

    fn judge_end(&mut self, state: usize, objects: Masked, violations: Vec<String>) {
        let mut all = violations;
        match &self.end {
            None => self.end = Some(objects),
            Some(end) if self.world.same_end && *end != objects => {
                all.push(format!("another end\n{}", difference(end, &objects)));
            }
            Some(_) => {}
        }
        for violation in all {
            let told = self.told(state, &violation);
            self.report.violations.push(told);
        }
    }

    /// Repeats the ways to some states with more turns of the scheduler: they lead to the same states.
    fn repeat(&mut self) {
        let step = self.nodes.len().div_ceil(REPEATED).max(1);
        let chosen: Vec<usize> = (0..self.nodes.len()).step_by(step).collect();
        let setup = Setup {
            turns: MORE_TURNS,
            ..self.setup()
        };
        let run = |state: &usize| {
            let known = Some(self.nodes[*state].id);
            replay(setup, &way_to(&self.nodes, *state), known, None)
        };
        let observed = in_parallel(&chosen, self.bounds.threads, run);
        for (state, observed) in chosen.into_iter().zip(observed) {
            if observed.is_ok() {
                continue;
            }
            let told = self.told(state, "another state at the end of the same way");
            self.report.diverged.push(told);
        }
    }

    /// Lets everything happen, without further faults, from states whose actions are not explored.
    fn continue_from_bound(&mut self) {
        let open = (0..self.nodes.len()).filter(|state| !self.nodes[*state].is_expanded);
        let open: Vec<usize> = open.collect();
        let step = open.len().div_ceil(CONTINUED).max(1);
        let chosen: Vec<usize> = open.into_iter().step_by(step).collect();
        let run = |state: &usize| drain(self.setup(), &way_to(&self.nodes, *state), FAIR);
        let observed = in_parallel(&chosen, self.bounds.threads, run);
        for (state, observed) in chosen.into_iter().zip(observed) {
            match observed {
                Err(Diverged(action)) => {
                    let told = self.told(state, &action);
                    self.report.diverged.push(told);
                }
                Ok(observed) => {
                    let mut violations = observed.violations;
                    violations.extend(observed.final_violations);
                    let end = observed.end.unwrap_or_default();
                    self.judge_end(state, end, violations);
                }
            }
        }
    }
}
