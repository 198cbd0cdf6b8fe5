//! Why an object of a kind without a controller here does not move, in the words of its own program: the
//! conditions of its status, also deeper ones, its state, and the last Warning.
//!
//! An object that works on another one tells less than that one, so its chain is followed to the last object that does
//! not work.

use std::collections::BTreeSet;

use jiff::SignedDuration;
use steersman_values::resource::{CUSTOM_RESOURCE_DEFINITIONS, ResourceType};
use steersman_why::{
    Code, Doc, Explanation, Program, Reason, World, conditions, count, existing, is_tool, origin,
    refusal, warning,
};

use super::linked::Absent;
use super::{grants, issued, linked, listeners, operation, triggers};

/// Conditions of unknown meaning in one answer.
const SHOWN: usize = 4;

/// Time for which a program may be at work on a new or changed object.
const PATIENCE: SignedDuration = SignedDuration::from_secs(30);

/// Fields with the state of an object, each with the fields that explain it. Argo CD has the last two.
const STATES: [(&str, [&str; 2]); 4] = [
    ("/status/state", ["/status/reason", "/status/message"]),
    ("/status/phase", ["/status/reason", "/status/message"]),
    (
        "/status/operationState/phase",
        ["/status/operationState/message", ""],
    ),
    ("/status/health/status", ["/status/health/message", ""]),
];

/// States that tell of a failure.
const FAILED: [&str; 9] = [
    "degraded",
    "error",
    "errored",
    "expired",
    "failed",
    "failing",
    "invalid",
    "missing",
    "unhealthy",
];

/// States of an object that waits for another one.
const PENDING: [&str; 4] = ["notready", "pending", "unknown", "waiting"];

/// Words of a server that does not accept credentials.
const REFUSALS: [&str; 6] = [
    "authenticat",
    "authoriz",
    "credential",
    "denied",
    "forbidden",
    "password",
];

/// Adds the conditions of `doc`, and the answers about the objects that it waits for.
pub(super) fn explain(world: &World, of: &ResourceType, doc: &Doc, answer: &mut Explanation) {
    let found = conditions::all(doc);
    // A deletion has reasons of its own.
    let is_bad = |one: &&conditions::Found<'_>| {
        one.is_bad() && !is_new(world, one) && doc.deleted().is_none()
    };
    // Programs repeat a message in several conditions.
    let mut told = BTreeSet::new();
    let bad = found.iter().filter(is_bad);
    let bad: Vec<_> = bad
        .filter(|one| one.message().is_empty() || told.insert(one.message()))
        .collect();
    let mut reasons: Vec<Reason> = bad.iter().map(|one| failed(world, of, doc, one)).collect();
    let operation = operation::running(world, of, doc, program(of, doc, None), answer);
    // An operation that moves is a fact, and no cause lies below it.
    let (moves, waiting): (Vec<Reason>, Vec<Reason>) = operation
        .into_iter()
        .partition(|one| one.code == Code::ConditionOpen);
    let state = failed_state(world, of, doc);
    reasons.extend(state.filter(|_| bad.is_empty() && !answer.is_stuck()));
    reasons.extend(waiting);
    let waits = reasons.is_empty() && waits(world, doc, &found);
    if !reasons.is_empty() {
        answer.state = match &bad[..] {
            [] => "does not work, by the state of its status".to_owned(),
            _ => format!(
                "does not work, by {} of its status",
                count(bad.len(), "condition")
            ),
        };
    } else if waits {
        answer.state = "waits, by its status".to_owned();
    }
    if !reasons.is_empty() || waits {
        chain(world, of, doc, &mut reasons, answer);
    }
    for (reason, one) in reasons.iter_mut().zip(&bad) {
        grants::name_missing(world, of, doc, one, reason);
        listeners::name_rules(world, of, doc, one, reason);
    }
    // The trigger tells the cause of the condition.
    let trigger = triggers::failed(world, of, doc).filter(|_| !reasons.is_empty());
    answer.reasons.extend(trigger);
    answer.reasons.extend(reasons);
    if waits && !answer.is_stuck() {
        answer.reasons.extend(unclaimed(world, of, doc, &found));
    }
    if let Some((reason, program)) = program_down(world, of, doc) {
        answer.add(reason);
        answer.waits_for.extend(program);
    }
    let open = found
        .iter()
        .filter(|one| one.is_open() && !is_bad(one) && !one.is_unclaimed());
    let open = open.take(SHOWN).map(|one| {
        let reason = Reason::new(
            Code::ConditionOpen,
            program(of, doc, Some(one)),
            one.words(),
        );
        reason.since(one.since())
    });
    answer.reasons.extend(open);
    answer.reasons.extend(moves);
    let reported = reported(world, doc);
    let is_told = |event: &Reason| {
        let mut known = answer.reasons.iter();
        known.any(|reason| {
            event.message.ends_with(&reason.message) || reason.message.contains(said(event))
        })
    };
    let reported = reported.filter(|event| !is_told(event));
    answer.reasons.extend(reported);
}

/// The message of an Event behind its reason.
fn said(event: &Reason) -> &str {
    event.message.split_once(": ").map_or("", |(_, said)| said)
}

fn is_new(world: &World, one: &conditions::Found<'_>) -> bool {
    let since = one.since();
    since.is_some_and(|at| world.now.duration_since(at) < PATIENCE)
}

/// Whether `doc` is not done, by a condition or by its state, and has had some time.
fn waits(world: &World, doc: &Doc, found: &[conditions::Found<'_>]) -> bool {
    let created = doc.time("/metadata/creationTimestamp");
    if doc.deleted().is_some() || created.is_some_and(|at| world.now.duration_since(at) < PATIENCE)
    {
        return false;
    }
    let is_pending = |(field, _): &(&str, [&str; 2])| is_one_of(&PENDING, doc.text(field));
    let is_awaited = |one: &conditions::Found<'_>| one.is_awaited() && !is_new(world, one);
    STATES.iter().any(is_pending) || found.iter().any(is_awaited)
}

fn is_one_of(states: &[&str], state: &str) -> bool {
    states.contains(&&*state.to_lowercase())
}

/// Follows the objects that `doc` waits for, and names a missing one in `reasons`.
fn chain(
    world: &World,
    of: &ResourceType,
    doc: &Doc,
    reasons: &mut Vec<Reason>,
    answer: &mut Explanation,
) {
    let mut missing = issued::follow(world, of, doc, answer);
    if missing.is_none() && !answer.is_stuck() {
        let texts: Vec<String> = reasons
            .iter()
            .map(|reason| reason.message.clone())
            .collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let absent = linked::follow(world, of, doc, &texts, answer);
        // A condition may have another cause than a reference without an object.
        let is_told = |absent: &Absent| {
            texts.is_empty() || texts.iter().any(|text| text.contains(&absent.name))
        };
        let absent = absent.filter(|absent| is_told(absent) && !answer.is_stuck());
        missing = absent.map(|absent| no_object(world, of, doc, &absent));
    }
    if let Some((text, who)) = &missing
        && reasons.is_empty()
    {
        let by = program(of, doc, None);
        let reason = Reason::new(Code::ReferenceMissing, by, text.as_str()).who(who.as_str());
        reasons.push(reason.since(doc.time("/metadata/creationTimestamp")));
        return;
    }
    let below = answer.waits_for.iter().find(|other| other.is_stuck());
    let below = below.map(|other| other.object.long());
    for reason in reasons {
        if let Some((missing, who)) = &missing {
            reason.message = format!("{}; {missing}", reason.message.trim_end_matches('.'));
            reason.who.clone_from(who);
        } else if let Some(below) = &below {
            reason.who = Reason::see(below);
        }
    }
}

/// An object that `doc` names and that does not exist, in words, with the people that can act.
fn no_object(world: &World, of: &ResourceType, doc: &Doc, absent: &Absent) -> (String, String) {
    let Absent {
        kind,
        namespace,
        name,
        ..
    } = absent;
    let others = world.list(&absent.of, namespace).unwrap_or_default();
    let others = existing(others.iter().map(Doc::name));
    let place = match &**namespace {
        "" => name.clone(),
        namespace => format!("{namespace}/{name}"),
    };
    let message = format!("it names {kind} {place}, which does not exist ({others})");
    let who = format!(
        "owner of {}, or creator of {kind} {place}",
        origin(world, of, doc)
    );
    (message, who)
}

/// The reason of a condition that tells of a failure.
fn failed(world: &World, of: &ResourceType, doc: &Doc, one: &conditions::Found<'_>) -> Reason {
    let by = program(of, doc, Some(one));
    let mut message = one.words();
    let who = actor(world, of, doc, &by, &mut message);
    let generation = doc.number("/metadata/generation");
    let is_old = one.observed().is_some_and(|observed| observed < generation);
    if is_old {
        message.push_str("; it is about an older generation of the spec");
    }
    Reason::new(Code::ConditionBad, by, message)
        .who(who)
        .since(one.since())
        .field("place", one.place.as_str())
}

/// The people that can act about the failure `message` of `doc`, which gets the Secrets with the credentials that a
/// server refuses.
fn actor(world: &World, of: &ResourceType, doc: &Doc, by: &str, message: &mut String) -> String {
    let refused = refusal(message, doc.namespace(), by);
    let is_vague = matches!(
        refused.code,
        Code::RequestFailed | Code::ObjectInvalid | Code::NameTaken
    );
    if !is_vague {
        return refused.who;
    }
    let origin = origin(world, of, doc);
    if let Some(host) = unknown_host(message) {
        return format!(
            "owner of the DNS record of {host}, which is missing; or owner of {origin}"
        );
    }
    let said = message.to_lowercase();
    let secrets = linked::secrets(doc).join(", ");
    let mut words = said.split(|c: char| !c.is_ascii_alphanumeric());
    let is_refused = words.any(|word| matches!(word, "401" | "403"))
        || REFUSALS.iter().any(|part| said.contains(part));
    if is_refused && !secrets.is_empty() {
        *message = format!(
            "{}; its credentials are those of {secrets}",
            message.trim_end_matches('.')
        );
        return format!("owner of {secrets} or of {origin}, or of the accounts of the server");
    }
    format!("owner of {origin}, by these words; or operator of {by}")
}

/// The host in `lookup shop.acme.io on 10.96.0.10:53: no such host`.
fn unknown_host(message: &str) -> Option<&str> {
    let (start, _) = message.rsplit_once(": no such host")?;
    let (_, rest) = start.rsplit_once("lookup ")?;
    rest.split([' ', ':'])
        .next()
        .filter(|host| !host.is_empty())
}

/// The program that wrote a condition: the one that the status names, else the field manager of the status, else the
/// known one of the type. A tool of a person is none of them.
fn program(of: &ResourceType, doc: &Doc, one: Option<&conditions::Found<'_>>) -> String {
    let named = one
        .map(conditions::Found::controller)
        .filter(|name| !name.is_empty());
    let manager = doc.status_manager().filter(|name| !is_tool(name));
    match named.or(manager) {
        Some(name) => name.to_owned(),
        None => Program::of_type(of).map_or_else(
            || format!("the controller of {}", of.kind),
            |program| program.name.to_owned(),
        ),
    }
}

/// The reason of a state that tells of a failure, or that has waited for long with its reason. Orders and Challenges of
/// cert-manager have no conditions, and tell in `reason` the event for which a pending one waits.
fn failed_state(world: &World, of: &ResourceType, doc: &Doc) -> Option<Reason> {
    if doc.deleted().is_some() {
        return None;
    }
    let since = doc.time("/metadata/creationTimestamp");
    let is_old = since.is_none_or(|at| world.now.duration_since(at) >= PATIENCE);
    // Argo CD keeps the last operation, also after the application is in sync by another way.
    let is_synced = doc.text("/status/sync/status") == "Synced";
    let is_past = |field: &str| is_synced && field.starts_with("/status/operationState/");
    // An application lacks its objects until its first operation ends.
    let is_expected = |state: &str| {
        state.eq_ignore_ascii_case("missing") && operation::started(of, doc).is_some()
    };
    let current = STATES.iter().filter(|(field, _)| !is_past(field));
    let (state, said) = current.into_iter().find_map(|(field, fields)| {
        let state = doc.text(field);
        let said = fields.iter().map(|field| doc.text(field).trim());
        let said = said.into_iter().find(|text| !text.is_empty());
        let waits = is_one_of(&PENDING, state) && said.is_some() && is_old;
        let fails = is_one_of(&FAILED, state) && !is_expected(state);
        (fails || waits).then_some((state, said))
    })?;
    let mut message = match said {
        Some(said) => format!("the state is {state}: {said}"),
        None => format!("the state is {state}"),
    };
    let by = program(of, doc, None);
    let who = actor(world, of, doc, &by, &mut message);
    Some(
        Reason::new(Code::ConditionBad, by, message)
            .who(who)
            .since(since),
    )
}

/// The reason of an object that no controller has looked at, by the default condition of its type.
fn unclaimed(
    world: &World,
    of: &ResourceType,
    doc: &Doc,
    found: &[conditions::Found<'_>],
) -> Option<Reason> {
    let one = found.iter().find(|one| one.is_unclaimed())?;
    let controller = doc.text("/spec/controllerName");
    let known = Program::of_domain(controller.split('/').next().unwrap_or_default());
    let name = known.map_or(controller, |program| program.name);
    let mut message = format!("no controller has looked at it: {}", one.words());
    if !controller.is_empty() {
        message = format!("{message}; spec.controllerName is {controller}");
    }
    if let Some((trouble, _)) = known.and_then(|program| program.trouble(world)) {
        message = format!("{message}; {trouble}");
    }
    let who = match name {
        "" => format!("operator of the controller of {}", of.kind),
        name => format!("operator of {name}, or owner of {}", doc.subject(of).long()),
    };
    let reason = Reason::new(Code::ConditionBad, name, message).who(who);
    // The default has no real time.
    Some(reason.since(doc.time("/metadata/creationTimestamp")))
}

/// The reason if `doc` has no status, its type has one, and its program does not run; and the answer about that program.
fn program_down(
    world: &World,
    of: &ResourceType,
    doc: &Doc,
) -> Option<(Reason, Option<Explanation>)> {
    let created = doc.time("/metadata/creationTimestamp");
    let is_new = created.is_some_and(|at| world.now.duration_since(at) < PATIENCE);
    let has_status = doc.at("/status").and_then(|status| status.as_object());
    let has_status = has_status.is_some_and(|status| !status.is_empty());
    let program = Program::of_type(of).filter(Program::has_workload)?;
    if is_new || has_status || doc.deleted().is_some() || !reports(world, of) {
        return None;
    }
    let (trouble, about) = program.trouble(world)?;
    let message = format!(
        "it has no status, which {} would set; {trouble}",
        program.name
    );
    let who = format!("operator of {}", program.name);
    let reason = Reason::new(Code::ProgramDown, program.name, message).who(who);
    Some((reason.since(created), about))
}

/// Whether objects of the custom type `of` have a status of their program.
fn reports(world: &World, of: &ResourceType) -> bool {
    let name = format!("{}.{}", of.plural, of.group);
    let found = world.get(&CUSTOM_RESOURCE_DEFINITIONS, "", &name).found();
    let Some(definition) = found else {
        return false;
    };
    let mut versions = definition.items("/spec/versions").iter();
    versions.any(|version| version["subresources"]["status"].is_object())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unknown_host_is_read_from_the_words_of_a_client() {
        let cases = [
            (
                "Get \"http://a.acme.io/x\": dial tcp: lookup a.acme.io on 10.96.0.10:53: no such host",
                Some("a.acme.io"),
            ),
            (
                "dial tcp: lookup db.shop.svc: no such host",
                Some("db.shop.svc"),
            ),
            ("no such host", None),
            ("dial tcp 10.0.0.1:443: connect: connection refused", None),
        ];
        for (message, host) in cases {
            assert_eq!(unknown_host(message), host, "{message}");
        }
    }
}
