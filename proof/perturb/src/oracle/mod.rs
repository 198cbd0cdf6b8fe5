//! Oracles: they check a finished run against the reference run, the rules and the log.
//!
//! They read the server's own records: its history of changes, its log of requests and the log
//! errors of the managers. A log error must have a reason: the scenario expects it, or the fault of
//! the plan causes it. Reasons are data: category, source and number ([`AllowedError`]). Numbers
//! are limited, so an endless loop of errors fails the run.

use std::collections::BTreeSet;

use steersman_client::Category;
use steersman_client::discovery;
use steersman_devcluster::faults::EVERY_GROUP;
use steersman_devcluster::requests::RequestRecord;

use crate::history::{Counts, History, State, is_write};
use crate::logs::LoggedError;
use crate::manager::AGENT;
use crate::plan::{Answer, Plan};
use crate::scenario::{AllowedError, Churn, EVENT_SENDER, Scenario};

/// Resources with more or fewer creations or deletions than the scenario allows.
pub(crate) fn churn(scenario: &Scenario, expected: &Counts, found: &Counts) -> Vec<String> {
    let resources: BTreeSet<&String> = expected.keys().chain(found.keys()).collect();
    let mut violations = Vec::new();
    for resource in resources {
        let of = |counts: &Counts| counts.get(resource).copied().unwrap_or_default();
        let expected = of(expected);
        let found = of(found);
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

/// A violation if the gauges of the reference run, the first ones, differ from those of this run.
pub(crate) fn other_gauges([expected, found]: [&Vec<String>; 2]) -> Option<String> {
    (expected != found).then(|| {
        format!(
            "gauges: {}, in the reference {}",
            found.join(" "),
            expected.join(" ")
        )
    })
}

/// Violations of the scenario's rules, checked after each change.
pub fn broken_rules(scenario: &Scenario, history: &History) -> Vec<String> {
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

/// Violations of the scenario's rules about the final state.
pub fn broken_in_the_end(scenario: &Scenario, end: &State) -> Vec<String> {
    let mut violations = Vec::new();
    for rule in scenario.final_rules {
        if let Err(why) = (rule.check)(end) {
            violations.push(format!("{} in the final state: {why}", rule.name));
        }
    }
    violations
}

/// Writes of a manager after the first write of its successor. Events are excepted, because
/// upstream also sends them after the loss of the Lease.
pub fn two_leaders(requests: &[RequestRecord]) -> Vec<String> {
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
const NEEDS_DISCOVERY: &str = NAMESPACES;

/// Most starts of a process while discovery is hidden.
const STARTS: usize = 5;

/// A violation if a controller ended by itself, unless failed discovery explains its end.
pub(crate) fn ended<Name: AsRef<str>>(
    plan: &Plan,
    hit: &[String],
    controllers: &[Name],
) -> Option<String> {
    let controllers: Vec<&str> = controllers.iter().map(AsRef::as_ref).collect();
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

/// The category of a request with a faulty answer.
fn category_of(answer: Answer) -> Category {
    match answer {
        Answer::Conflict => Category::Conflict,
        Answer::Expired => Category::Status,
        Answer::Throttled => Category::TooManyRequests,
        Answer::Internal => Category::Server,
        Answer::Lost | Answer::Reset => Category::Transport,
        Answer::Timeout | Answer::LateTimeout => Category::Timeout,
    }
}

const GARBAGE_COLLECTOR: &str = "garbage-collector-controller";
const NAMESPACES: &str = "namespace-controller";
const AUTOSCALERS: &str = "horizontal-pod-autoscaler-controller";
const QUOTAS: &str = "resourcequota-controller";
const MIGRATOR: &str = "storage-version-migrator-controller";
const POLICIES: &str = "validatingadmissionpolicy-status-controller";
const PODGC: &str = "pod-garbage-collector-controller";

/// A list without an answer delays the first sync of the garbage collector's graph. Upstream logs
/// the same.
const GRAPH_NOT_SYNCED: &str = "timed out waiting for dependency graph builder sync during GC sync";

/// The same for the types that quotas count.
const TYPES_NOT_SYNCED: &str = "Timed out waiting for quota monitor sync";

/// Writes that the closed write gate refused. After a crash, tasks end one after another, and a task
/// that still runs may log one error. After a failover, the former leader lives for 20 s: it retries
/// each of at most two namespaces 13 times, and logs the refused status.
const WITHOUT_LEADERSHIP: AllowedError = AllowedError::of(Category::Fenced, 32);

/// A restarted podgc deletes a pod again that only its stale view shows. Upstream's `gcTerminated`
/// and similar functions also treat "not found" as an error and count it; all other controllers
/// treat it as success. No scenario has more than three such pods, and each is deleted once.
const POD_GONE: AllowedError = AllowedError::of(Category::NotFound, 3).from(PODGC);

/// A delayed Event, and the Events queued behind it, may arrive after the end of their namespace.
/// `recordEvent` logs that as an error. No scenario has more than three such Events.
const LATE_EVENT: AllowedError = AllowedError::of(Category::NotFound, 3).from(EVENT_SENDER);

/// A namespace may be gone when the controller gives up a `deletecollection` in it. Upstream's
/// namespace controller logs the same.
const NAMESPACE_GONE: AllowedError = AllowedError::of(Category::NotFound, 1).from(NAMESPACES);

/// Upstream's namespace controller logs the same and ends the process.
const NO_RESOURCES: &str = "unable to get any supported resources from server";

/// Its error at each of so many starts.
const fn no_resources(starts: usize) -> AllowedError {
    AllowedError::with_message(NO_RESOURCES, starts).from(NAMESPACES)
}

/// A hidden group blocks the deletion of namespaces. Each namespace retries after 5 ms, 10 ms and
/// so on, 14 times in 40 s, and no scenario deletes more than two.
const HIDDEN_GROUP: AllowedError =
    AllowedError::of(Category::Named(discovery::INCOMPLETE), 32).from(NAMESPACES);

/// An autoscaler cannot map the kind of its target, also for the 30 s in which the found kinds are
/// kept after the group is back. In these 70 s it has five syncs, and no scenario has more than two
/// autoscalers.
const HIDDEN_TARGET: AllowedError =
    AllowedError::of(Category::Named(discovery::INCOMPLETE), 10).from(AUTOSCALERS);

/// The quota controller reads discovery every 30 s, and at each start. Upstream logs the same.
const HIDDEN_TYPES: AllowedError =
    AllowedError::of(Category::Named(discovery::INCOMPLETE), 3).from(QUOTAS);

/// The migrator does not find the resource of a migration. The back-off of a migration begins
/// with 5 ms, and no scenario has more than three at once.
const HIDDEN_RESOURCE: AllowedError =
    AllowedError::of(Category::Named(discovery::INCOMPLETE), 3 * 14).from(MIGRATOR);

/// With all groups hidden, syncs fail as often, and a process that starts logs two errors and ends.
const HIDDEN_DISCOVERY: &[AllowedError] = &[
    AllowedError::of(Category::Server, 32 + STARTS).from(NAMESPACES),
    AllowedError::of(Category::Server, 10).from(AUTOSCALERS),
    AllowedError::of(Category::Server, 3).from(QUOTAS),
    // It needs the schemas of the types; its back-off begins with 5 ms. No scenario has more than two
    // policies.
    AllowedError::of(Category::Server, 2 * 14).from(POLICIES),
    AllowedError::of(Category::Server, 3 * 14).from(MIGRATOR),
    no_resources(STARTS),
];

/// The log errors that the fault of the plan explains. `hit` are the requests and events that it
/// hit.
fn explained(plan: &Plan, hit: &[String]) -> Vec<AllowedError> {
    match plan {
        Plan::Answer(point, answer) => {
            let category = category_of(*answer);
            let is_late = category == Category::Timeout;
            // The fault happens once, so it explains one error. An error that the controller then
            // causes itself is a violation.
            let mut errors = vec![AllowedError::of(category, 1)];
            if is_late {
                let graph = AllowedError::with_message(GRAPH_NOT_SYNCED, 1);
                let types = AllowedError::with_message(TYPES_NOT_SYNCED, 1);
                errors.extend([graph.from(GARBAGE_COLLECTOR), types.from(QUOTAS)]);
            }
            if hit.iter().any(|hit| is_discovery(hit)) {
                errors.push(no_resources(1));
            } else if is_late {
                errors.extend([LATE_EVENT, NAMESPACE_GONE]);
            } else if point.is_of("events") {
                errors.push(LATE_EVENT);
            }
            errors
        }
        Plan::Hidden(group, _) if group.0 == EVERY_GROUP => HIDDEN_DISCOVERY.to_vec(),
        Plan::Hidden(..) => vec![HIDDEN_GROUP, HIDDEN_TARGET, HIDDEN_TYPES, HIDDEN_RESOURCE],
        Plan::Crash(_) | Plan::Failover(..) => vec![WITHOUT_LEADERSHIP],
        Plan::Stale(..) | Plan::StaleOf(..) | Plan::StaleEvent(..) => {
            vec![WITHOUT_LEADERSHIP, POD_GONE]
        }
        Plan::Nothing | Plan::Event(..) | Plan::Shuffle(_) => Vec::new(),
    }
}

/// Log errors without a reason in the scenario or the plan. `hit` are the requests and events that
/// the faults of the plan hit.
pub(crate) fn unexpected(
    scenario: &Scenario,
    plan: &Plan,
    hit: &[String],
    mut errors: Vec<LoggedError>,
) -> Vec<String> {
    for allowed in scenario.errors.iter().chain(&explained(plan, hit)) {
        let mut left = allowed.most;
        errors.retain(|error| {
            let is_allowed = left > 0 && allowed.allows(error);
            left -= usize::from(is_allowed);
            !is_allowed
        });
    }
    errors
        .into_iter()
        .map(|error| format!("error in the log: {error}"))
        .collect()
}

#[cfg(test)]
mod tests;
