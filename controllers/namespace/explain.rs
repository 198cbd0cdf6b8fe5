//! Why a namespace is still being deleted.

use std::collections::BTreeMap;

use steersman_values::resource::{PERSISTENT_VOLUME_CLAIMS, SERVICES};
use steersman_why::{Code, Doc, Explanation, Reason, World, refusal};

use super::NAME;
use super::conditions::{CONTENT, DISCOVERY, FINALIZERS, PARSING, REMAINING};

/// Types of left objects that one answer looks into, and objects of each. More would cost a list
/// each, and hide the first cause.
const TYPES: usize = 4;
const OBJECTS: usize = 3;

/// Adds the reasons about `doc`, and the answers about objects that are left in it.
pub(crate) fn explain(world: &World, doc: &Doc, answer: &mut Explanation) {
    let phase = doc.text("/status/phase");
    answer.state = format!("is {phase}");
    let Some(deleted) = doc.deleted() else {
        return;
    };
    answer.since = Some(deleted);
    // The controller counts each pass that leaves content as a failure; the content is the cause.
    for reason in &mut answer.reasons {
        if reason.code == Code::SyncFailed {
            reason.code = Code::RetryScheduled;
            reason.who.clear();
        }
    }
    // Conditions stay with `False` after a failure has ended.
    let failing = |kind: &str| {
        let condition = doc.condition(kind);
        condition.filter(|condition| condition.text("/status") == "True")
    };
    for kind in [DISCOVERY, PARSING] {
        let Some(condition) = failing(kind) else {
            continue;
        };
        let message = condition.text("/message");
        let who = match &*unavailable(world, message) {
            [] => "owner of the APIService that these groups belong to (kubectl get apiservice)"
                .into(),
            found => format!("owner of {}", found.join(", ")),
        };
        let reason = Reason::new(Code::DiscoveryFailed, NAME, message).who(who);
        answer.add(reason.since(condition.time("/lastTransitionTime")));
    }
    // The message tells whether pods go first, or which request was refused.
    let content_failure = failing(CONTENT);
    let mut first = None;
    if let Some(condition) = &content_failure {
        let message = condition.text("/message");
        first = ordered(message);
        let refused = refusal(message, doc.name(), NAME);
        // The queue has the same failure, with its next try.
        if first.is_none() && !answer.has(refused.code) {
            answer.add(refused.since(condition.time("/lastTransitionTime")));
        }
    }
    if let Some((group, plural)) = first {
        pods_first(world, doc, (group, plural), answer);
    }
    let left = failing(REMAINING)
        .map(|condition| types(condition.text("/message")))
        .unwrap_or_default();
    for (group, plural, count) in left.iter().take(TYPES) {
        content(world, doc, group, plural, *count, answer);
    }
    // Both conditions are about the same objects, so the second one is shown only without the
    // first.
    if left.is_empty()
        && let Some(condition) = failing(FINALIZERS)
    {
        let reason = Reason::new(Code::ContentRemains, NAME, condition.text("/message"));
        answer.add(
            reason
                .who("owner of these finalizers")
                .since(condition.time("/lastTransitionTime")),
        );
    }
    let finalizers = doc.texts("/spec/finalizers");
    // The entry `kubernetes` is the one of this controller.
    let foreign: Vec<&str> = finalizers
        .iter()
        .copied()
        .filter(|name| *name != "kubernetes")
        .collect();
    if !foreign.is_empty() {
        let message = format!("spec.finalizers has {}", foreign.join(", "));
        let who = format!("operator of {}", foreign.join(", "));
        answer.add(
            Reason::new(Code::NamespaceFinalizer, NAME, message)
                .who(who)
                .since(Some(deleted)),
        );
    }
    // The conditions tell nothing before the end of the first pass.
    if answer.reasons.is_empty() {
        // The first pass starts 5 s after the deletion, and is over within a minute in a healthy
        // cluster.
        let late = world.now.duration_since(deleted).as_secs() > 60;
        let code = if late {
            Code::NotObserved
        } else {
            Code::SyncQueued
        };
        let who = "operator of the controller manager: it does not run, lacks rights, or is behind";
        answer.add(
            Reason::new(code, NAME, "the controller has not removed the content yet")
                .who(who)
                .since(Some(deleted)),
        );
    }
}

/// Group and plural of the type that ordered deletion waits for, from the message of the condition.
/// Upstream: `deleteAllContent` in `namespaced_resources_deleter.go`.
fn ordered(message: &str) -> Option<(&str, &str)> {
    let (_, rest) = message.split_once("unexpected items still remain in namespace: ")?;
    let (_, rest) = rest.split_once("gvr: ")?;
    let (version, rest) = rest.split_once(", Resource=")?;
    let group = version.split_once('/').map_or("", |(group, _)| group);
    let plural = rest.split([',', ' ', ']']).next().unwrap_or_default();
    Some((group, plural))
}

/// Adds what is left of the type that goes first, and the objects of other types that hold the namespace
/// after it. The conditions name them only then.
fn pods_first(world: &World, doc: &Doc, first: (&str, &str), answer: &mut Explanation) {
    let of = world.resource(first.0, first.1).found();
    let left = of.and_then(|of| Some(world.list(&of, doc.name())?.len()));
    let count = u64::try_from(left.unwrap_or_default()).unwrap_or(u64::MAX);
    content(world, doc, first.0, first.1, count, answer);
    for of in [&SERVICES, &PERSISTENT_VOLUME_CLAIMS] {
        let objects = world.list(of, doc.name()).unwrap_or_default().iter();
        let held = objects.filter(|object| object.deleted().is_some());
        for object in held.take(OBJECTS) {
            answer.follow(world.explain(of, object));
        }
    }
}

/// The APIServices of the groups in `message` that are not available, each with its own message.
/// The message of the condition names the groups only by their text.
fn unavailable(world: &World, message: &str) -> Vec<String> {
    let of = world
        .resource("apiregistration.k8s.io", "APIService")
        .found();
    let all = of.and_then(|of| world.list(&of, "")).unwrap_or_default();
    let broken = all.iter().filter_map(|service| {
        let group = service.text("/spec/group");
        let available = service.condition("Available")?;
        let is_broken = available.text("/status") == "False" && !group.is_empty();
        (is_broken && message.contains(group)).then(|| {
            let said = available.text("/message");
            format!("APIService {} ({said})", service.name())
        })
    });
    broken.collect()
}

/// The types in the message of the condition: `pods. has 1 resource instances, x.group has 2 ...`.
/// The messages have a fixed form, which `Report::remains` writes. Other texts give no type.
fn types(message: &str) -> Vec<(String, String, u64)> {
    let list = message.split_once(": ").map_or(message, |(_, list)| list);
    let parse = |entry: &str| {
        let (name, rest) = entry.trim().split_once(" has ")?;
        let (plural, group) = name.split_once('.')?;
        let count = rest.split(' ').next()?.parse().ok()?;
        Some((group.to_owned(), plural.to_owned(), count))
    };
    list.split(", ").filter_map(parse).collect()
}

/// The objects of one type that are left. The objects with a deletion timestamp are explained,
/// since something holds them.
fn content(
    world: &World,
    doc: &Doc,
    group: &str,
    plural: &str,
    count: u64,
    answer: &mut Explanation,
) {
    let of = world.resource(group, plural).found();
    let objects = of.as_ref().and_then(|of| world.list(of, doc.name()));
    let objects = objects.unwrap_or_default();
    let mut finalizers: BTreeMap<&str, usize> = BTreeMap::new();
    for name in objects
        .iter()
        .flat_map(|object| object.texts("/metadata/finalizers"))
    {
        *finalizers.entry(name).or_default() += 1;
    }
    let names: Vec<&str> = objects.iter().take(OBJECTS).map(Doc::name).collect();
    let named = if names.is_empty() {
        String::new()
    } else {
        format!(" ({})", names.join(", "))
    };
    let full = if group.is_empty() {
        plural.to_owned()
    } else {
        format!("{plural}.{group}")
    };
    let mut message = format!("{count} {full} left{named}");
    if !finalizers.is_empty() {
        let held: Vec<String> = finalizers
            .iter()
            .map(|(name, count)| format!("{name} in {count}"))
            .collect();
        message = format!("{message}, with finalizers {}", held.join(", "));
    }
    let reason = Reason::new(Code::ContentRemains, NAME, message)
        .who(Reason::see("these objects"))
        .field("resource", full)
        .field("count", count);
    answer.add(reason.since(doc.deleted()));
    if let Some(of) = of {
        for object in objects
            .iter()
            .filter(|object| object.deleted().is_some())
            .take(OBJECTS)
        {
            answer.follow(world.explain(&of, object));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_that_goes_first_is_read_from_the_condition() {
        let message = |gvr: &str| {
            format!(
                "Failed to delete all resource types, 1 remaining: unexpected items still remain in namespace: a for gvr: {gvr}"
            )
        };
        let cases = [
            (message("/v1, Resource=pods"), Some(("", "pods"))),
            (
                message("apps/v1, Resource=deployments"),
                Some(("apps", "deployments")),
            ),
            (
                "Failed to delete all resource types, 1 remaining: denied".to_owned(),
                None,
            ),
        ];
        for (message, expected) in cases {
            assert_eq!(ordered(&message), expected, "{message}");
        }
    }

    #[test]
    fn types_are_read_from_the_condition() {
        let message = "Some resources are remaining: pods. has 1 resource instances, widgets.example.com has 2 resource instances";
        let expected = [
            (String::new(), "pods".to_owned(), 1),
            ("example.com".to_owned(), "widgets".to_owned(), 2),
        ];
        assert_eq!(types(message), expected);
    }
}
