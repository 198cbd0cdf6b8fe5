//! What is wrong with a run, told from what the server wrote down.

use std::collections::BTreeSet;

use steersman_devcluster::faults::EVERY_GROUP;
use steersman_devcluster::requests::RequestRecord;

use crate::film::{Counts, Film, State, is_write};
use crate::manager::AGENT;
use crate::plan::{Answer, Plan};
use crate::scenario::{Churn, Scenario};

/// More or less was created or deleted than the story needs.
pub(crate) fn churn(scenario: &Scenario, expected: &Counts, found: &Counts) -> Vec<String> {
    let resources: BTreeSet<&String> = expected.keys().chain(found.keys()).collect();
    let mut wrong = Vec::new();
    for resource in resources {
        let of = |counts: &Counts| counts.get(resource).copied().unwrap_or_default();
        let (expected, found) = (of(expected), of(found));
        let allowed = match scenario.churn {
            Churn::None => None,
            Churn::Within(allowed) => allowed
                .iter()
                .find(|(of, _)| of == resource)
                .map(|(_, range)| range),
        };
        let fits =
            |difference: i32| allowed.map_or(difference == 0, |range| range.contains(&difference));
        if !fits(found.0 - expected.0) || !fits(found.1 - expected.1) {
            wrong.push(format!(
                "churn: {resource} created {} times and deleted {} times, in the reference {} and {} times",
                found.0, found.1, expected.0, expected.1
            ));
        }
    }
    wrong
}

/// What the rules of the scenario say about every instant.
pub(crate) fn unsafe_instants(scenario: &Scenario, film: &Film) -> Vec<String> {
    let mut state = State::default();
    let mut wrong = Vec::new();
    for frame in &film.frames {
        state.apply(frame);
        for rule in scenario.rules {
            if let Err(why) = (rule.check)(&state, frame) {
                wrong.push(format!(
                    "{} at revision {}: {why}",
                    rule.name, frame.revision
                ));
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
    for request in requests.iter().filter(|request| {
        is_write(request) && !aside(request) && request.user_agent.contains(AGENT)
    }) {
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

/// The one controller that may end the process, as upstream's does, and where: it finds no
/// resources at its start.
const NEEDS_RESOURCES: &str = "namespace-controller";

/// How often a process starts while nothing can be discovered.
const STARTS: usize = 5;

/// Controllers that ended by themselves though they could find resources, or need none.
pub(crate) fn ended(plan: &Plan, hit: &[String], controllers: &[&str]) -> Option<String> {
    let allowed = match plan {
        Plan::Answer(..) if hit.iter().any(|hit| is_look(hit)) => 1,
        Plan::Hidden(group, _) if group.0 == EVERY_GROUP => STARTS,
        _ => 0,
    };
    let is_expected =
        controllers.len() <= allowed && controllers.iter().all(|name| *name == NEEDS_RESOURCES);
    (!is_expected && !controllers.is_empty())
        .then(|| format!("ended by themselves: {}", controllers.join(", ")))
}

/// Whether a request is one for discovery.
pub(crate) fn is_look(hit: &str) -> bool {
    hit.starts_with("get /api")
}

fn instance_of(user_agent: &str) -> usize {
    let number = user_agent
        .split_once(AGENT)
        .and_then(|(_, rest)| rest.split_once(')'));
    number
        .and_then(|(number, _)| number.parse().ok())
        .unwrap_or(0)
}

/// Parts that an error line has, all of them, and how many such lines one fault explains.
type Words = (&'static [&'static str], usize);

/// What an answer is called in errors. Upstream logs a sync that meets one just so. The fault
/// happens once, and is logged by whoever met it and by nobody later: a controller that goes on
/// running into the same of its own making is not excused.
fn words_of(answer: Answer) -> &'static [Words] {
    match answer {
        Answer::Conflict => &[(&["Operation cannot be fulfilled"], 1)],
        Answer::Expired => &[(&["resource version is too old"], 1)],
        Answer::Throttled => &[(&["too many requests"], 1)],
        Answer::Internal => &[(&["etcdserver: leader changed"], 1)],
        Answer::Lost | Answer::Reset => &[(&["reset by a fault"], 1)],
        // A list that is never answered holds up the first look of the garbage collector; upstream
        // logs the second text, too.
        Answer::Timeout | Answer::LateTimeout => &[
            (&["no answer within"], 1),
            (&["timed out waiting for dependency graph builder sync"], 1),
        ],
    }
}

/// The last words of a process that may not write any more, of each of its tasks. One that crashes
/// has them because its tasks end one after the other: whoever was about to go on does so once
/// more, and is refused.
const LAST_WORDS: &[Words] = &[
    (&["not sent, leadership has ended"], usize::MAX),
    (&["leadership ended before the answer came"], usize::MAX),
];

/// A pod that an old view still shows is gone, and who removed it has no memory of that. Upstream's
/// `gcTerminated` and its likes hand that to the error handler, too, and count it; all other
/// controllers take it for success. No story has more than three such pods, and each is removed
/// once.
const GONE: &[Words] = &[(&["pod not removed", "not found"], 3)];

/// An Event that is held up, or what it tells of, and those queued behind it, may find their
/// namespace gone; `recordEvent` calls that an error. No story has more than three that it can
/// happen to.
const TOO_LATE: Words = (
    &["server rejected event", "error=namespaces", "not found"],
    3,
);

/// A namespace may be gone when the deletion of a collection in it is given up. Upstream's
/// namespace controller says so, too.
const GONE_MEANWHILE: Words = (
    &[
        "couldn't update status condition for namespace",
        "not found",
    ],
    1,
);

/// Upstream's namespace controller says so, too, and ends the process.
const NOTHING_SERVED: Words = (&["unable to get any supported resources from server"], 1);

/// What cannot be discovered holds up namespaces that end. Each is tried again after 5 ms, 10 ms
/// and so on, which is 14 times in 40 s; no story has more than two.
const UNDISCOVERED: &[Words] = &[(&["unable to retrieve the complete list of server APIs"], 32)];

/// Where nothing can be, a process that starts says two things and ends.
const NOTHING_DISCOVERED: &[Words] = &[
    (&["sync failed", "error=service unavailable"], 32),
    (
        &[
            "not everything that is served could be discovered",
            "service unavailable",
        ],
        STARTS,
    ),
    (
        &["unable to get any supported resources from server"],
        STARTS,
    ),
];

/// Error lines that neither the story nor the plan, which did `hit` this, explains.
pub(crate) fn unexpected(
    scenario: &Scenario,
    plan: &Plan,
    hit: &[String],
    mut lines: Vec<String>,
) -> Vec<String> {
    let explanations: &[&[Words]] = match plan {
        Plan::Answer(_, answer) if hit.iter().any(|hit| is_look(hit)) => {
            &[words_of(*answer), &[NOTHING_SERVED]]
        }
        Plan::Answer(_, answer @ (Answer::Timeout | Answer::LateTimeout)) => {
            &[words_of(*answer), &[TOO_LATE, GONE_MEANWHILE]]
        }
        Plan::Answer(point, answer) if point.is_of("events") => &[words_of(*answer), &[TOO_LATE]],
        Plan::Answer(_, answer) => &[words_of(*answer)],
        Plan::Hidden(group, _) if group.0 == EVERY_GROUP => &[NOTHING_DISCOVERED],
        Plan::Hidden(..) => &[UNDISCOVERED],
        Plan::Crash(_) | Plan::Failover(..) => &[LAST_WORDS],
        Plan::Stale(..) | Plan::StaleOf(..) | Plan::StaleEvent(..) => &[LAST_WORDS, GONE],
        Plan::Nothing | Plan::Event(..) | Plan::Shuffle(_) => &[],
    };
    lines.retain(|line| !scenario.errors.iter().any(|part| line.contains(part)));
    for (words, most) in explanations.iter().copied().flatten() {
        let mut left = *most;
        lines.retain(|line| {
            let is_explained = left > 0 && words.iter().all(|part| line.contains(part));
            left -= usize::from(is_explained);
            !is_explained
        });
    }
    lines
        .into_iter()
        .map(|line| format!("error in the log: {line}"))
        .collect()
}

#[cfg(test)]
mod tests;
