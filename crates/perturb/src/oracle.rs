//! What is wrong with a run, told from what the server wrote down.

use std::collections::{BTreeMap, HashSet};

use steersman_devcluster::requests::RequestRecord;

use crate::film::{Film, Happened, State, is_write};
use crate::manager::AGENT;
use crate::plan::{EventPlan, Plan};
use crate::scenario::{Churn, Scenario};

/// How many objects of each resource were created and deleted.
pub(crate) type Counts = BTreeMap<String, (usize, usize)>;

pub(crate) fn counts(film: &Film) -> Counts {
    let mut counts = Counts::new();
    for frame in &film.frames {
        let (created, deleted) = match frame.happened {
            Happened::Created => (1, 0),
            Happened::Deleted => (0, 1),
            Happened::Changed => continue,
        };
        let count = counts.entry(frame.plural.to_string()).or_default();
        *count = (count.0 + created, count.1 + deleted);
    }
    counts
}

/// More was created or deleted than the story needs.
pub(crate) fn churn(scenario: &Scenario, expected: &Counts, found: &Counts) -> Vec<String> {
    let resources: HashSet<&String> = expected.keys().chain(found.keys()).collect();
    let mut wrong = Vec::new();
    for resource in resources {
        let of = |counts: &Counts| counts.get(resource).copied().unwrap_or_default();
        let (expected, found) = (of(expected), of(found));
        let fits = match scenario.churn {
            Churn::None => found == expected,
            // Less is fine, too: what was not observed in time need not be undone.
            Churn::UpTo(more) => found.0 <= expected.0 + more && found.1 <= expected.1 + more,
        };
        if !fits {
            wrong.push(format!(
                "churn: {resource} created {} times and deleted {} times, in the reference {} and {} times",
                found.0, found.1, expected.0, expected.1
            ));
        }
    }
    wrong
}

/// What the rules of the scenario say about every instant.
pub(crate) fn unsafe_instants(scenario: &Scenario, plan: &Plan, film: &Film) -> Vec<String> {
    let leaves_out = matches!(plan, Plan::Event(_, _, EventPlan::Drop));
    let mut state = State::default();
    let mut wrong = Vec::new();
    for frame in &film.frames {
        state.apply(frame);
        for rule in scenario.rules.iter().filter(|rule| rule.unobserved || !leaves_out) {
            if let Err(why) = (rule.check)(&state, frame) {
                wrong.push(format!("{} at revision {}: {why}", rule.name, frame.revision));
            }
        }
    }
    wrong
}

/// A manager wrote after the next one had begun to.
pub(crate) fn two_leaders(requests: &[RequestRecord]) -> Vec<String> {
    let mut latest = 0;
    let mut wrong = Vec::new();
    let aside = |request: &RequestRecord| request.resource.starts_with("events");
    for request in requests.iter().filter(|request| is_write(request) && !aside(request) && request.user_agent.contains(AGENT)) {
        let instance = instance_of(&request.user_agent);
        if instance < latest {
            wrong.push(format!(
                "two leaders: instance {instance} wrote after instance {latest}: {} {}",
                request.verb, request.path
            ));
        }
        latest = latest.max(instance);
    }
    wrong
}

fn instance_of(user_agent: &str) -> usize {
    let number = user_agent.split_once(AGENT).and_then(|(_, rest)| rest.split_once(')'));
    number.and_then(|(number, _)| number.parse().ok()).unwrap_or(0)
}

/// What the faults of [`Plan::Answer`] are called in errors.
const FAULTS: &[&str] = &[
    "reset by a fault",
    "etcdserver: leader changed",
    "resource version is too old",
    "Operation cannot be fulfilled",
    "too many requests",
    "no answer within",
    // A request for a list that is never answered holds up the first look of the garbage collector; upstream says so with these words.
    "timed out waiting for dependency graph builder sync",
];

/// The last words of a process that may not write any more.
const LAST_WORDS: &[&str] = &["not sent, leadership has ended", "leadership ended before the answer came"];

/// What a lagging cache shows may be gone.
const GONE: &[&str] = &["not found"];

/// Error lines that neither the story nor the plan explains.
pub(crate) fn unexpected(scenario: &Scenario, plan: &Plan, lines: Vec<String>) -> Vec<String> {
    let explanations: &[&[&str]] = match plan {
        Plan::Answer(..) => &[FAULTS],
        Plan::Crash(_) | Plan::Failover(..) => &[LAST_WORDS],
        Plan::Stale(..) | Plan::StaleEvent(..) => &[LAST_WORDS, GONE],
        Plan::Event(..) => &[GONE],
        Plan::Nothing | Plan::Shuffle(_) => &[],
    };
    let explanations = || explanations.iter().copied().flatten();
    let explained = |line: &String| scenario.errors.iter().chain(explanations()).any(|part| line.contains(part));
    let unexplained = lines.into_iter().filter(|line| !explained(line));
    unexplained.map(|line| format!("error in the log: {line}")).collect()
}
