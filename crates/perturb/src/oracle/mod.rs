//! Oracles: they check a finished run against the reference run, the rules and the log.
//!
//! They read the server's own records: its history of changes, its log of requests and the log
//! lines of the managers. A log error must have a reason: the scenario expects it, or the fault of
//! the plan causes it. Each fault explains a limited number of lines, so an endless loop of errors
//! fails the run.

use std::collections::BTreeSet;

use steersman_devcluster::faults::EVERY_GROUP;
use steersman_devcluster::requests::RequestRecord;

use crate::history::{Counts, History, State, is_write};
use crate::manager::AGENT;
use crate::plan::{Answer, Plan};
use crate::scenario::{Churn, Scenario};

/// Resources with more or fewer creations or deletions than the scenario allows.
pub(crate) fn churn(scenario: &Scenario, expected: &Counts, found: &Counts) -> Vec<String> {
    let resources: BTreeSet<&String> = expected.keys().chain(found.keys()).collect();
    let mut violations = Vec::new();
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
            violations.push(format!(
                "churn: {resource} created {} times and deleted {} times, in the reference {} and {} times",
                found.0, found.1, expected.0, expected.1
            ));
        }
    }
    violations
}

/// Violations of the scenario's rules, checked after each change.
pub(crate) fn broken_rules(scenario: &Scenario, history: &History) -> Vec<String> {
    let mut state = State::default();
    let mut violations = Vec::new();
    for change in &history.changes {
        state.apply(change);
        for rule in scenario.rules {
            if let Err(why) = (rule.check)(&state, change) {
                violations.push(format!(
                    "{} at revision {}: {why}",
                    rule.name, change.revision
                ));
            }
        }
    }
    violations
}

/// Writes of a manager after the first write of its successor. Events are excepted, because
/// upstream also sends them after the loss of the Lease.
pub(crate) fn two_leaders(requests: &[RequestRecord]) -> Vec<String> {
    let mut latest = 0;
    let mut violations = Vec::new();
    let is_event = |request: &RequestRecord| request.resource.starts_with("events");
    for request in requests.iter().filter(|request| {
        is_write(request) && !is_event(request) && request.user_agent.contains(AGENT)
    }) {
        let instance = instance_of(&request.user_agent);
        if instance < latest {
            violations.push(format!(
                "two leaders: instance {instance} wrote after instance {latest}: {} {}",
                request.verb, request.path
            ));
        }
        latest = latest.max(instance);
    }
    violations
}

/// The one controller that may end the process: upstream's exits, too, if discovery fails at its
/// start.
const NEEDS_DISCOVERY: &str = "namespace-controller";

/// Most starts of a process while discovery is hidden.
const STARTS: usize = 5;

/// A violation if a controller ended by itself, unless failed discovery explains its end.
pub(crate) fn ended(plan: &Plan, hit: &[String], controllers: &[&str]) -> Option<String> {
    let allowed = match plan {
        Plan::Answer(..) if hit.iter().any(|hit| is_discovery(hit)) => 1,
        Plan::Hidden(group, _) if group.0 == EVERY_GROUP => STARTS,
        _ => 0,
    };
    let is_expected =
        controllers.len() <= allowed && controllers.iter().all(|name| *name == NEEDS_DISCOVERY);
    (!is_expected && !controllers.is_empty()).then(|| {
        format!(
            "controllers ended by themselves: {}",
            controllers.join(", ")
        )
    })
}

/// Whether the hit request, as text, is for discovery.
pub(crate) fn is_discovery(hit: &str) -> bool {
    hit.starts_with("get /api")
}

/// The instance number in the `User-Agent` of a manager.
fn instance_of(user_agent: &str) -> usize {
    let number = user_agent
        .split_once(AGENT)
        .and_then(|(_, rest)| rest.split_once(')'));
    number
        .and_then(|(number, _)| number.parse().ok())
        .unwrap_or(0)
}

/// An expected error: texts that its line has, all of them, and the most lines that one fault
/// explains.
type Expected = (&'static [&'static str], usize);

/// The error lines that a faulty answer causes. Upstream also logs the error of the sync. The fault
/// happens once, so it explains one line: an error that the controller then causes itself is a
/// violation.
fn errors_of(answer: Answer) -> &'static [Expected] {
    match answer {
        Answer::Conflict => &[(&["Operation cannot be fulfilled"], 1)],
        Answer::Expired => &[(&["resource version is too old"], 1)],
        Answer::Throttled => &[(&["too many requests"], 1)],
        Answer::Internal => &[(&["etcdserver: leader changed"], 1)],
        Answer::Lost | Answer::Reset => &[(&["reset by a fault"], 1)],
        // A list without an answer delays the first sync of the garbage collector's graph. Upstream
        // logs the second text, too.
        Answer::Timeout | Answer::LateTimeout => &[
            (&["no answer within"], 1),
            (&["timed out waiting for dependency graph builder sync"], 1),
        ],
    }
}

/// Errors of a process without leadership. After a failover, each task may log one. After a crash,
/// tasks end one after another, and a task that still runs meets the closed write gate.
const WITHOUT_LEADERSHIP: &[Expected] = &[
    (&["not sent, leadership has ended"], usize::MAX),
    (&["leadership ended before the answer came"], usize::MAX),
];

/// A restarted podgc deletes a pod again that only its stale view shows. Upstream's `gcTerminated`
/// and similar functions also treat "not found" as an error and count it; all other controllers
/// treat it as success. No scenario has more than three such pods, and each is deleted once.
const POD_GONE: &[Expected] = &[(&["pod not removed", "not found"], 3)];

/// A delayed Event, and the Events queued behind it, may arrive after the end of their namespace.
/// `recordEvent` logs that as an error. No scenario has more than three such Events.
const LATE_EVENT: Expected = (
    &["server rejected event", "error=namespaces", "not found"],
    3,
);

/// A namespace may be gone when the controller gives up a `deletecollection` in it. Upstream's
/// namespace controller logs the same.
const NAMESPACE_GONE: Expected = (
    &[
        "couldn't update status condition for namespace",
        "not found",
    ],
    1,
);

/// Upstream's namespace controller logs the same and ends the process.
const NO_RESOURCES: Expected = (&["unable to get any supported resources from server"], 1);

/// A hidden group blocks the deletion of namespaces. Each namespace retries after 5 ms, 10 ms and
/// so on, 14 times in 40 s, and no scenario deletes more than two.
const HIDDEN_GROUP: &[Expected] = &[(&["unable to retrieve the complete list of server APIs"], 32)];

/// With all groups hidden, a process that starts logs two lines and ends.
const HIDDEN_DISCOVERY: &[Expected] = &[
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

/// Error lines without a reason in the scenario or the plan. `hit` are the requests and events that
/// the faults of the plan hit.
pub(crate) fn unexpected(
    scenario: &Scenario,
    plan: &Plan,
    hit: &[String],
    mut lines: Vec<String>,
) -> Vec<String> {
    let explanations: &[&[Expected]] = match plan {
        Plan::Answer(_, answer) if hit.iter().any(|hit| is_discovery(hit)) => {
            &[errors_of(*answer), &[NO_RESOURCES]]
        }
        Plan::Answer(_, answer @ (Answer::Timeout | Answer::LateTimeout)) => {
            &[errors_of(*answer), &[LATE_EVENT, NAMESPACE_GONE]]
        }
        Plan::Answer(point, answer) if point.is_of("events") => {
            &[errors_of(*answer), &[LATE_EVENT]]
        }
        Plan::Answer(_, answer) => &[errors_of(*answer)],
        Plan::Hidden(group, _) if group.0 == EVERY_GROUP => &[HIDDEN_DISCOVERY],
        Plan::Hidden(..) => &[HIDDEN_GROUP],
        Plan::Crash(_) | Plan::Failover(..) => &[WITHOUT_LEADERSHIP],
        Plan::Stale(..) | Plan::StaleOf(..) | Plan::StaleEvent(..) => {
            &[WITHOUT_LEADERSHIP, POD_GONE]
        }
        Plan::Nothing | Plan::Event(..) | Plan::Shuffle(_) => &[],
    };
    lines.retain(|line| !scenario.errors.iter().any(|part| line.contains(part)));
    for (texts, most) in explanations.iter().copied().flatten() {
        let mut left = *most;
        lines.retain(|line| {
            let is_explained = left > 0 && texts.iter().all(|part| line.contains(part));
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
