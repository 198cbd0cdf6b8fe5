//! What is wrong with a run, told from what the server wrote down.

use std::collections::{BTreeMap, HashSet};

use steersman_devcluster::requests::RequestRecord;

use crate::film::{Film, Happened, State, is_write};
use crate::manager::AGENT;
use crate::plan::{Answer, EventPlan, Plan};
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
    let left_out = match plan {
        Plan::Event(plural, _, EventPlan::Drop) => Some(plural),
        _ => None,
    };
    let mut state = State::default();
    let mut wrong = Vec::new();
    for frame in &film.frames {
        state.apply(frame);
        for rule in scenario.rules.iter().filter(|rule| left_out.is_none_or(|plural| rule.asked_by != plural)) {
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

/// Parts that an error line has, all of them.
type Words = &'static [&'static str];

/// What an answer is called in errors. Upstream logs a sync that meets one just so.
fn words_of(answer: Answer) -> &'static [Words] {
    match answer {
        Answer::Conflict => &[&["Operation cannot be fulfilled"]],
        Answer::Expired => &[&["resource version is too old"]],
        Answer::Throttled => &[&["too many requests"]],
        Answer::Internal => &[&["etcdserver: leader changed"]],
        Answer::Lost | Answer::Reset => &[&["reset by a fault"]],
        // A list that is never answered holds up the first look of the garbage collector; upstream logs the second text, too.
        Answer::Timeout | Answer::LateTimeout => {
            &[&["no answer within"], &["timed out waiting for dependency graph builder sync"]]
        }
    }
}

/// The last words of a process that may not write any more. One that crashes has them because its tasks end one after the other: whoever
/// was about to go on does so once more, and is refused.
const LAST_WORDS: &[Words] = &[&["not sent, leadership has ended"], &["leadership ended before the answer came"]];

/// A pod that an old view still shows is gone, and who removed it has no memory of that. Upstream's `gcTerminated` and its likes hand
/// that to the error handler, too, and count it; all other controllers take it for success.
const GONE: &[Words] = &[&["pod not removed", "not found"]];

/// Error lines that neither the story nor the plan explains.
pub(crate) fn unexpected(scenario: &Scenario, plan: &Plan, lines: Vec<String>) -> Vec<String> {
    let explanations: &[&[Words]] = match plan {
        Plan::Answer(_, answer) => &[words_of(*answer)],
        Plan::Crash(_) | Plan::Failover(..) => &[LAST_WORDS],
        Plan::Stale(..) | Plan::StaleEvent(..) => &[LAST_WORDS, GONE],
        Plan::Nothing | Plan::Event(..) | Plan::Shuffle(_) => &[],
    };
    let explained = |line: &String| {
        let has_all = |words: &Words| words.iter().all(|part| line.contains(part));
        scenario.errors.iter().any(|part| line.contains(part)) || explanations.iter().copied().flatten().any(has_all)
    };
    let unexplained = lines.into_iter().filter(|line| !explained(line));
    unexplained.map(|line| format!("error in the log: {line}")).collect()
}

#[cfg(test)]
mod tests;
