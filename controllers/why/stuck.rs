//! All objects of a namespace or cluster that stand still.

use jiff::Timestamp;
use steersman_values::resource::{
    CRON_JOBS, CUSTOM_RESOURCE_DEFINITIONS, DAEMON_SETS, DEPLOYMENTS, HORIZONTAL_POD_AUTOSCALERS,
    JOBS, NAMESPACES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, REPLICA_SETS,
    REPLICATION_CONTROLLERS, ResourceType, SERVICES, STATEFUL_SETS,
};
use steersman_why::{Code, Doc, Explanation, World};

/// The kinds whose objects are searched. Objects that another one of them owns are left out, because
/// the answer about the owner follows them.
pub const KINDS: [&ResourceType; 14] = [
    &NAMESPACES,
    &DEPLOYMENTS,
    &STATEFUL_SETS,
    &DAEMON_SETS,
    &REPLICA_SETS,
    &REPLICATION_CONTROLLERS,
    &CRON_JOBS,
    &JOBS,
    &PODS,
    &PERSISTENT_VOLUME_CLAIMS,
    &PERSISTENT_VOLUMES,
    &SERVICES,
    &HORIZONTAL_POD_AUTOSCALERS,
    &CUSTOM_RESOURCE_DEFINITIONS,
];

/// The answers about all objects of `namespace` that stand still, oldest first. An empty namespace
/// means the whole cluster.
pub fn stuck(world: &World, namespace: &str) -> Vec<Explanation> {
    let mut found = Vec::new();
    for of in KINDS {
        if !of.namespaced && !namespace.is_empty() {
            continue;
        }
        let Some(objects) = world.list(of, namespace) else {
            continue;
        };
        let roots = objects.iter().filter(|doc| is_root(doc));
        found.extend(
            roots
                .map(|doc| world.explain(of, doc))
                .filter(|answer| answer.is_stuck() && !is_deliberate(answer)),
        );
    }
    found.sort_by_key(|answer| answer.oldest().unwrap_or(Timestamp::MAX));
    found
}

/// Whether a person stopped the object by its spec, and nothing else holds it.
fn is_deliberate(answer: &Explanation) -> bool {
    answer
        .causes()
        .all(|(_, cause)| cause.code == Code::Suspended)
}

/// Whether no answer about another kind covers the object. An object that is being deleted may wait
/// for itself alone.
fn is_root(doc: &Doc) -> bool {
    let owners = doc.items("/metadata/ownerReferences").iter();
    let is_owned = owners.into_iter().any(|owner| owner["controller"] == true);
    !is_owned || doc.deleted().is_some()
}
