//! Why an object of a kind without a controller here does not move, in the words of its own program: the
//! conditions of its status, also deeper ones, and the last Warning.

use jiff::SignedDuration;
use steersman_values::resource::ResourceType;
use steersman_why::{Code, Doc, Explanation, Reason, World, conditions, count, warning};

use super::{grants, issued};

/// Conditions of unknown meaning in one answer.
const SHOWN: usize = 4;

/// Time for which a program may be at work on a new or changed object.
const PATIENCE: SignedDuration = SignedDuration::from_secs(30);

/// States of objects without conditions that tell of a failure.
const FAILED: [&str; 7] = [
    "degraded", "error", "errored", "expired", "failed", "failing", "invalid",
];

/// Adds the conditions of `doc`, and the answers about the objects that it waits for.
pub(super) fn explain(world: &World, of: &ResourceType, doc: &Doc, answer: &mut Explanation) {
    let found = conditions::all(doc);
    // A deletion has reasons of its own.
    let is_new = |one: &conditions::Found<'_>| {
        let since = one.since();
        since.is_some_and(|at| world.now.duration_since(at) < PATIENCE)
    };
    let is_bad =
        |one: &&conditions::Found<'_>| one.is_bad() && !is_new(one) && doc.deleted().is_none();
    let bad: Vec<_> = found.iter().filter(is_bad).collect();
    let mut reasons: Vec<Reason> = bad.iter().map(|one| failed(of, doc, one)).collect();
    reasons.extend(failed_state(of, doc).filter(|_| bad.is_empty()));
    let is_stuck = !reasons.is_empty();
    if is_stuck {
        answer.state = format!("does not work, by {} of its status", told(&reasons, &bad));
        issued::follow(world, of, doc, &mut reasons, answer);
    }
    for (reason, one) in reasons.iter_mut().zip(&bad) {
        grants::name_missing(world, of, doc, one, reason);
    }
    answer.reasons.extend(reasons);
    let open = found.iter().filter(|one| one.is_open() && !is_bad(one));
    let open = open.take(SHOWN).map(|one| {
        let reason = Reason::new(Code::ConditionOpen, program(doc, one), one.words());
        reason.since(one.since())
    });
    answer.reasons.extend(open);
    answer.reasons.extend(reported(world, doc));
}

fn told(reasons: &[Reason], bad: &[&conditions::Found<'_>]) -> String {
    match bad {
        [] => "the state".to_owned(),
        _ => count(reasons.len(), "condition"),
    }
}

/// The reason of a condition that tells of a failure.
fn failed(of: &ResourceType, doc: &Doc, one: &conditions::Found<'_>) -> Reason {
    let by = program(doc, one);
    let who = format!(
        "owner of {}, by these words; or operator of {}",
        doc.subject(of).long(),
        operated(&by)
    );
    let generation = doc.number("/metadata/generation");
    let is_old = one.observed().is_some_and(|observed| observed < generation);
    let mut message = one.words();
    if is_old {
        message.push_str("; it is about an older generation of the spec");
    }
    Reason::new(Code::ConditionBad, by, message)
        .who(who)
        .since(one.since())
        .field("place", one.place.as_str())
}

fn operated(by: &str) -> &str {
    match by {
        "" => "the program that sets the status",
        by => by,
    }
}

/// The program that wrote a condition: the one that the status names, else the field manager of the status.
fn program(doc: &Doc, one: &conditions::Found<'_>) -> String {
    match one.controller() {
        "" => doc.status_manager().unwrap_or_default().to_owned(),
        name => name.to_owned(),
    }
}

/// The reason of a state that tells of a failure. Orders and Challenges of cert-manager have no conditions, and tell
/// in `reason` what a pending one waits for.
fn failed_state(of: &ResourceType, doc: &Doc) -> Option<Reason> {
    let first = |fields: [&str; 2]| {
        let texts = fields.map(|field| doc.text(field));
        texts.into_iter().find(|text| !text.is_empty())
    };
    let state = first(["/status/state", "/status/phase"])?;
    let said = first(["/status/reason", "/status/message"]);
    let is_failed = FAILED.contains(&&*state.to_lowercase());
    let waits = of.group == issued::ACME && state == "pending" && said.is_some();
    if doc.deleted().is_some() || !(is_failed || waits) {
        return None;
    }
    let message = match said {
        Some(said) => format!("the state is {state}: {}", said.trim()),
        None => format!("the state is {state}"),
    };
    let by = doc.status_manager().unwrap_or_default();
    let who = format!(
        "owner of {}, by these words; or operator of {}",
        doc.subject(of).long(),
        operated(by)
    );
    let since = doc.time("/metadata/creationTimestamp");
    let reason = Reason::new(Code::ConditionBad, by, message).who(who);
    Some(reason.since(since))
}

/// The last Warning about an object of a kind that no controller of this manager handles.
fn reported(world: &World, doc: &Doc) -> Option<Reason> {
    let event = warning(world, doc, &[])?;
    let message = format!("{}: {}", event.reason, event.message.trim());
    let mut reason = Reason::new(Code::ReportedElsewhere, event.from, message).since(event.first);
    reason.last_try = event.at;
    reason.attempts = event.count;
    Some(reason)
}
