//! Why the garbage collector does not delete an object, or does not let an owner go.

use steersman_values::resource::{
    CONFIG_MAPS, DEPLOYMENTS, JOBS, PERSISTENT_VOLUME_CLAIMS, PODS, REPLICA_SETS, ResourceType,
    SECRETS, SERVICES, STATEFUL_SETS,
};
use steersman_why::{Code, Doc, Explanation, Reason, World, keys, warning};

use super::NAME;
use super::coordinates::split_api_version;

/// Dependents that one answer looks into. Each of them may cost further requests.
const SHOWN: usize = 4;

/// The types whose objects are searched for dependents if no manager can be asked. All other types
/// would cost one list each.
const COMMON: [&ResourceType; 9] = [
    &DEPLOYMENTS,
    &REPLICA_SETS,
    &STATEFUL_SETS,
    &PODS,
    &JOBS,
    &PERSISTENT_VOLUME_CLAIMS,
    &SERVICES,
    &CONFIG_MAPS,
    &SECRETS,
];

/// A dependent with its type, if the API server serves it.
struct Dependent {
    /// Kind and name, as messages name it.
    text: String,
    object: Option<(ResourceType, Doc)>,
}

/// Adds the dependents for which the foreground deletion of `doc` waits. The graph of the manager
/// has all of them. Outside of the manager, a search of common types stands in for it. Without a
/// usable answer, nothing is added.
pub(crate) fn foreground(world: &World, doc: &Doc, answer: &mut Explanation) {
    let found = match &world.inside {
        Some(_) => of_graph(world, doc),
        None => of_common_types(world, doc),
    };
    let Some(found) = found else {
        return;
    };
    let since = doc.deleted();
    answer
        .reasons
        .extend(keys::of_key(world, NAME, doc.uid(), doc.namespace()));
    if found.is_empty() {
        // Within a minute, the removal of the finalizer is on its way.
        let late = since.is_some_and(|at| world.now.duration_since(at).as_secs() > 60);
        let code = if late {
            Code::DependentsRemain
        } else {
            Code::OrphanPending
        };
        let message = if world.inside.is_some() {
            "foreground deletion: no dependent blocks it any more, and the finalizer is removed next"
        } else {
            "foreground deletion: waits for dependents, of which none is of a common type"
        };
        answer.add(
            Reason::new(code, NAME, message)
                .who("operator of the controller manager")
                .since(since),
        );
        return;
    }
    let names: Vec<&str> = found
        .iter()
        .take(SHOWN)
        .map(|dependent| &*dependent.text)
        .collect();
    let message = format!(
        "foreground deletion waits for {} dependents: {}",
        found.len(),
        names.join(", ")
    );
    let reason = Reason::new(Code::DependentsRemain, NAME, message)
        .who(Reason::see("these dependents"))
        .field("count", found.len());
    answer.add(reason.since(since));
    for (of, object) in found
        .iter()
        .filter_map(|dependent| dependent.object.as_ref())
        .take(SHOWN)
    {
        answer.follow(world.explain(of, object));
    }
}

/// The blocking dependents in the graph of the manager. An unserved type keeps its text, so that
/// the number stays right.
fn of_graph(world: &World, doc: &Doc) -> Option<Vec<Dependent>> {
    let dependents = world.inside.as_ref()?.blocking_dependents(doc.uid());
    let resolve = |dependent: &steersman_why::Dependent| {
        let (group, _) = split_api_version(&dependent.api_version);
        let of = world.resource(group, &dependent.kind).found()?;
        let object = world
            .get(&of, &dependent.namespace, &dependent.name)
            .found()?;
        Some((of, object))
    };
    let dependents = dependents.iter().map(|dependent| Dependent {
        text: format!("{} {}", dependent.kind.to_lowercase(), dependent.name),
        object: resolve(dependent),
    });
    Some(dependents.collect())
}

/// The blocking dependents among objects of common types. `None` if a list failed and no other one
/// had a blocking dependent.
fn of_common_types(world: &World, doc: &Doc) -> Option<Vec<Dependent>> {
    let mut found = Vec::new();
    let mut is_complete = true;
    for of in COMMON {
        let Some(objects) = world.list(of, doc.namespace()) else {
            is_complete = false;
            continue;
        };
        let blocks = |object: &&Doc| {
            let owners = object.items("/metadata/ownerReferences").iter();
            owners
                .into_iter()
                .any(|owner| owner["uid"] == doc.uid() && owner["blockOwnerDeletion"] == true)
        };
        found.extend(objects.iter().filter(blocks).map(|object| Dependent {
            text: object.subject(of).short(),
            object: Some((of.clone(), object.clone())),
        }));
    }
    // An incomplete search is a proof only with a result.
    (is_complete || !found.is_empty()).then_some(found)
}

/// Adds the state of the owners of `doc`, an object that is not being deleted. The rules are those
/// of the collector's `standing`: one living owner keeps the object, and an unreadable one as well.
/// So both end the explanation.
pub(crate) fn owners(world: &World, doc: &Doc, answer: &mut Explanation) {
    let owners = doc.items("/metadata/ownerReferences");
    if owners.is_empty() {
        return;
    }
    // The collector reports this case only by its Event.
    if let Some(event) = warning(world, doc, &["OwnerRefInvalidNamespace"]) {
        let who = "owner of the object: an owner must be in the same namespace, or cluster-scoped";
        answer.add(
            Reason::new(Code::OwnerElsewhere, NAME, event.message)
                .who(who)
                .since(event.first),
        );
        return;
    }
    let mut gone = Vec::new();
    for owner in owners {
        let text = |field: &str| owner[field].as_str().unwrap_or_default();
        let (group, version) = split_api_version(text("apiVersion"));
        let name = format!("{} {}", text("kind").to_lowercase(), text("name"));
        let of = world.resource(group, text("kind"));
        if of.is_absent() {
            let message = format!(
                "owner {name}: the API server serves no {} of {group}/{version}",
                text("kind")
            );
            let reason = Reason::new(Code::OwnerUnresolvable, NAME, message).who(
                "owner of the CustomResourceDefinition or APIService, or of the owner reference",
            );
            answer.add(reason);
            continue;
        }
        // Discovery gave no answer, so the owner may live.
        let Some(of) = of.found() else {
            return;
        };
        let namespace = if of.namespaced { doc.namespace() } else { "" };
        let found = world.get(&of, namespace, text("name"));
        if found.is_absent() {
            gone.push(name);
        } else if let Some(found) = found.found() {
            // One living owner is enough, so the object stays for good reason.
            if found.uid() == text("uid") {
                return;
            }
            gone.push(format!("{name} (replaced by another object of this name)"));
        } else {
            return;
        }
    }
    // An owner of an unknown type stops the collection: its state is open.
    if gone.len() == owners.len() {
        let causes = keys::of_key(world, NAME, doc.uid(), doc.namespace());
        answer.reasons.extend(causes);
        let message = format!(
            "all owners are gone: {}; the garbage collector deletes the object",
            gone.join(", ")
        );
        answer.add(Reason::new(Code::OwnersGone, NAME, message));
    }
}
