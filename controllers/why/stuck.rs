//! All objects of a namespace or cluster that stand still.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;
use steersman_runtime::leader::DEFAULT_LEASE;
use steersman_values::resource::{
    CERTIFICATE_SIGNING_REQUESTS, CRON_JOBS, CUSTOM_RESOURCE_DEFINITIONS, DAEMON_SETS, DEPLOYMENTS,
    HORIZONTAL_POD_AUTOSCALERS, INGRESSES, JOBS, LEASES, NAMESPACES, NODES,
    PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, POD_DISRUPTION_BUDGETS, PODS, REPLICA_SETS,
    REPLICATION_CONTROLLERS, ResourceType, SERVICES, STATEFUL_SETS,
};
use steersman_why::{Code, Doc, Explanation, Subject, World};

use super::{about, custom, without_leader};

/// The kinds whose objects are searched. Objects that another one of them owns are left out, because
/// the answer about the owner follows them.
pub const KINDS: [&ResourceType; 18] = [
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
    &POD_DISRUPTION_BUDGETS,
    &NODES,
    &CUSTOM_RESOURCE_DEFINITIONS,
    &CERTIFICATE_SIGNING_REQUESTS,
    // Each reads its Secrets. The limit of reads shall cut these first.
    &INGRESSES,
];

/// The answers about all objects of `namespace` that stand still, oldest first. An empty namespace
/// means the whole cluster. A namespace's list has the namespace itself, and no other cluster-scoped
/// object. A namespace that does not exist is the only answer then.
pub fn stuck(world: &World, namespace: &str) -> Vec<Explanation> {
    if !namespace.is_empty() && world.get(&NAMESPACES, "", namespace).is_absent() {
        return about(world, &NAMESPACES, "", namespace)
            .into_iter()
            .collect();
    }
    let mut found = Vec::new();
    for of in KINDS {
        let itself;
        let objects = if of.namespaced || namespace.is_empty() {
            world.list(of, namespace).unwrap_or_default()
        } else if of == &NAMESPACES {
            itself = world.get(of, "", namespace).found();
            itself.as_slice()
        } else {
            continue;
        };
        let roots = objects.iter().filter(|doc| is_root(doc));
        found.extend(
            roots
                .map(|doc| world.explain(of, doc))
                .filter(|answer| answer.is_stuck() && !is_deliberate(answer)),
        );
    }
    found.extend(custom::stuck(world, namespace));
    found.extend(lease(world));
    let followed: BTreeSet<Subject> = found.iter().flat_map(covered).cloned().collect();
    found.retain(|answer| !followed.contains(&answer.object));
    found.sort_by_key(|answer| answer.oldest().unwrap_or(Timestamp::MAX));
    found
}

/// The objects that need no entry beside `answer`. People look for a workload by its own name, also if it is the reason of
/// a Service.
fn covered(answer: &Explanation) -> Vec<&Subject> {
    let is_way = matches!(&*answer.object.kind, "Service" | "Ingress");
    let mut followed = answer.followed();
    followed.retain(|other| !is_way || other.kind == "Service");
    followed
}

/// The answer about the Lease if no controller manager holds it. Then nothing moves.
fn lease(world: &World) -> Option<Explanation> {
    if world.inside.is_some() {
        return None;
    }
    let reason = without_leader(world)?;
    let (namespace, name) = DEFAULT_LEASE;
    let mut answer = Explanation::new(Subject::new(&LEASES, namespace, name), "has no holder");
    answer.add(reason);
    Some(answer)
}

/// Whether a person stopped the object by its spec, or a budget only counts. Entries of their own tell about
/// its unhealthy pods.
fn is_deliberate(answer: &Explanation) -> bool {
    let mut own = answer.reasons.iter();
    let is_count = own.any(|reason| reason.code == Code::DisruptionBlocked);
    let expected = if is_count {
        Code::DisruptionBlocked
    } else {
        Code::Suspended
    };
    let mut causes = answer.causes();
    causes.all(|(subject, cause)| cause.code == expected || is_count && *subject != answer.object)
}

/// Whether no answer about another object covers this one. An object that is being deleted may wait for itself alone.
/// Owners of other types are not searched, and the answer about a node leaves its static pods out.
fn is_root(doc: &Doc) -> bool {
    let is_owner = |of: &ResourceType, owner: &Value| {
        let version = owner["apiVersion"].as_str().unwrap_or_default();
        let group = version.split_once('/').map_or("", |(group, _)| group);
        owner["kind"] == *of.kind && group == &*of.group
    };
    let is_searched = |owner: &Value| {
        let mut kinds = KINDS.iter().filter(|of| ***of != NODES);
        kinds.any(|of| is_owner(of, owner))
    };
    let mut owners = doc.items("/metadata/ownerReferences").iter();
    let is_owned = owners.any(|owner| owner["controller"] == true && is_searched(owner));
    !is_owned || doc.deleted().is_some()
}
