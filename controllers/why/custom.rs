//! Custom resources among all objects that stand still. A cluster has many types of them, so types and objects have a
//! bound, and other objects are read first.

use jiff::{SignedDuration, Timestamp};
use steersman_values::resource::{CUSTOM_RESOURCE_DEFINITIONS, ResourceType};
use steersman_why::{Doc, Explanation, Program, World, conditions};

use super::operation;

/// Types whose objects one list reads. Those of known programs come first.
const TYPES: usize = 30;
/// Objects that one list looks into.
const SHOWN: usize = 20;
/// Time after which a deletion or a failure is worth a look.
const PATIENCE: SignedDuration = SignedDuration::from_secs(60);

/// The answers about custom resources of `namespace` that stand still in their deletion, or that are not ready. An
/// empty namespace means the whole cluster.
pub(super) fn stuck(world: &World, namespace: &str) -> Vec<Explanation> {
    if world.awaits_reads() {
        return Vec::new();
    }
    let types = types(world, namespace);
    let objects = types.iter().flat_map(|of| {
        let all = world.first(of, namespace).unwrap_or_default().iter();
        let meant = all.filter(move |doc| {
            is_meant(world, doc) || operation::started(of, doc).is_some_and(|at| is_old(world, at))
        });
        meant.map(move |doc| (of, doc))
    });
    let about = objects.take(SHOWN).map(|(of, doc)| world.explain(of, doc));
    about.filter(Explanation::is_stuck).collect()
}

/// The types of custom resources whose objects may be in `namespace`.
fn types(world: &World, namespace: &str) -> Vec<ResourceType> {
    let all = world.list(&CUSTOM_RESOURCE_DEFINITIONS, "");
    let all = all.unwrap_or_default().iter();
    let mut defined: Vec<&Doc> = all
        .filter(|one| namespace.is_empty() || one.text("/spec/scope") == "Namespaced")
        .collect();
    defined.sort_by_key(|one| Program::of_domain(one.text("/spec/group")).is_none());
    let types = defined.iter().take(TYPES).filter_map(|one| {
        let plural = one.text("/spec/names/plural");
        world.resource(one.text("/spec/group"), plural).found()
    });
    types.collect()
}

fn is_old(world: &World, since: Timestamp) -> bool {
    world.now.duration_since(since) >= PATIENCE
}

/// Whether `doc` has been in deletion, or not ready, for some time.
fn is_meant(world: &World, doc: &Doc) -> bool {
    match doc.deleted_since() {
        Some(since) => is_old(world, since),
        None => conditions::all(doc).iter().any(|one| {
            let since = one.since();
            one.is_unready() && since.is_some_and(|since| is_old(world, since))
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn old_deletions_and_failing_conditions_named_ready_are_meant() {
        let none = |_: &World, of: &ResourceType, doc: &Doc| Explanation::new(doc.subject(of), "");
        let world = World::new("2026-11-28T12:00:00Z".parse().unwrap(), None, none);
        let with = |kind: &str, status: &str, at: &str| json!({"status": {"conditions": [{"type": kind, "status": status, "lastTransitionTime": at}]}});
        let deleted = |at: &str| json!({"metadata": {"deletionTimestamp": at}});
        let old = "2026-11-28T11:59:00Z";
        let new = "2026-11-28T11:59:01Z";
        let cases: [(Value, bool); 8] = [
            (with("Ready", "False", old), true),
            (with("Ready", "False", new), false),
            (with("Ready", "True", old), false),
            (with("Ready", "Unknown", old), false),
            (with("Synced", "False", old), false),
            (deleted(old), true),
            (deleted(new), false),
            (json!({}), false),
        ];
        for (doc, expected) in cases {
            assert_eq!(is_meant(&world, &Doc::new(doc.clone())), expected, "{doc}");
        }
    }
}
