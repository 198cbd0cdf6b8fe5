//! Safety rules: conditions that hold after every change of the cluster, under any fault.
//!
//! A rule compares a change with the state that the server stored, and not with a cache. A write
//! may answer an older spec: it is correct if it fits one of the owner's recent versions.
//! `docs/reliability.md` lists the rules and the places where upstream promises less.

mod accounts;
mod attachments;
mod autoscalers;
mod bootstrap;
mod bundles;
mod certificates;
mod claims;
mod cron;
mod daemonset;
mod devices;
mod endpoints;
mod jobs;
mod network;
mod nodes;
mod pools;
mod protection;
mod quotas;
mod roles;
mod statefulset;
mod storage_versions;
mod volumes;
mod warnings;

use std::collections::BTreeMap;

use serde_json::Value;

pub use self::accounts::{INVALID_FIRST, LIVING_ACCOUNT, ONE_TOKEN};
pub use self::attachments::{ONE_NODE, UNREPORTED, UNUSED};
pub use self::autoscalers::WITHIN_LIMITS;
pub use self::bootstrap::{NOT_BEFORE_EXPIRATION, SIGNED};
pub use self::bundles::{OLD_POD_REQUESTS, OWN_BUNDLES};
pub use self::certificates::{OLD_REQUESTS, ONLY_APPROVED, SIGNER_RULES};
pub use self::claims::{CLAIM_IN_USE, ONE_CLAIM};
pub use self::daemonset::{AVAILABLE_NODES, ONE_PER_NODE};
pub use self::devices::{DEVICE_LEFT, DEVICE_TOLERATED};
pub use self::endpoints::{EXACT_ENDPOINTS, NO_MISSING_ENDPOINT};
pub use self::jobs::{COUNTED_ONCE, JOB_PODS, TRACKED};
pub use self::nodes::{DISRUPTION, READY_NODE, TAINT_RATE, TOLERATED};
pub use self::pools::{OLD_ANSWERS, ONE_ANSWER};
pub use self::protection::{OWN_CLAIM, PROTECTED};
pub use self::quotas::EXACT_USAGE;
pub use self::statefulset::{CLAIMS_STAY, ONE_POD_PER_ORDINAL, ORDERED_CREATION, ORDERED_DELETION};
pub use self::storage_versions::{LIVE_SERVERS, ONE_MIGRATION};
pub use self::volumes::{BOUND_ONCE, KEPT_FOR_CLAIM, POINTERS_AGREE};
pub use self::warnings::TRUE_WARNINGS;
use crate::history::{Change, ChangeKind, State};
use crate::scenario::Rule;

pub use self::roles::GRANTED;

pub use self::network::{COVERED_ADDRESS, OWN_BLOCK, READY_STAYS};
pub use cron::{NOT_BEFORE_TTL, ONE_AT_A_TIME, ONE_RUN};

/// A controller creates no pod beyond the replicas of its owner.
pub const NO_SURPLUS: Rule = Rule {
    name: "no surplus pod is created",
    check: no_surplus,
};
/// A controller deletes no pod that its owner still needs.
pub const NO_SHORTAGE: Rule = Rule {
    name: "no needed pod is deleted",
    check: no_shortage,
};
/// A Deployment scales its ReplicaSets up to `replicas` plus `maxSurge` at most.
pub const SURGE: Rule = Rule {
    name: "a rollout stays within its surge",
    check: surge,
};
/// No ready pod of a Deployment is deleted below `replicas` minus `maxUnavailable` ready pods.
pub const MIN_AVAILABLE: Rule = Rule {
    name: "a rollout keeps its pods available",
    check: min_available,
};
/// Old pods, ready or not, stay until new pods are available in their place. So a broken template
/// never replaces the previous one.
pub const NEW_PODS_AVAILABLE: Rule = Rule {
    name: "a rollout counts only available new pods",
    check: new_pods_available,
};
/// With Recreate, no new pod is created while an old one exists.
pub const RECREATE: Rule = Rule {
    name: "old pods are gone before new ones are created",
    check: recreate,
};
/// The garbage collector deletes no object with a live owner.
pub const LIVE_OWNER: Rule = Rule {
    name: "no object with a live owner is collected",
    check: live_owner,
};
/// In foreground deletion, dependents with `blockOwnerDeletion` are removed before their owner.
pub const FOREGROUND: Rule = Rule {
    name: "an owner waits for its dependents",
    check: foreground,
};
/// A namespace is removed after all objects in it.
pub const EMPTY_NAMESPACE: Rule = Rule {
    name: "a namespace is empty when it is removed",
    check: empty_namespace,
};
/// podgc leaves active pods of existing nodes alone. The exception is a node with the taint
/// `node.kubernetes.io/out-of-service`.
pub const LIVE_NODE: Rule = Rule {
    name: "running pods of existing nodes stay",
    check: live_node,
};

/// The API server accepts an eviction only if enough other pods are healthy. The number follows from
/// the spec of the budget and the sizes of the workloads, and not from the status of the budget.
pub const BUDGET: Rule = Rule {
    name: "an eviction leaves as many healthy pods as the budget demands",
    check: budget,
};

/// The kinds that own pods, with their resource and the identity of their controller.
const OWNERS: &[(&str, &str, &str)] = &[
    ("ReplicaSet", "replicasets", "replicaset-controller"),
    (
        "ReplicationController",
        "replicationcontrollers",
        "replication-controller",
    ),
];

/// The controller of an object, if it exists with the UID of the reference.
fn owner_of<'a>(state: &'a State, object: &Value) -> Option<&'a Value> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    let reference = owners.iter().find(|owner| owner["controller"] == true)?;
    let plural = match reference["kind"].as_str()? {
        "Deployment" => "deployments",
        kind => OWNERS.iter().find(|(known, _, _)| *known == kind)?.1,
    };
    let key = format!(
        "{}/{}",
        object["metadata"]["namespace"].as_str()?,
        reference["name"].as_str()?
    );
    state
        .get(plural, &key)
        .filter(|owner| owner["metadata"]["uid"] == reference["uid"])
}

/// Whether the object has a deletion timestamp.
pub fn is_terminating(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

/// Whether the pod is neither finished nor terminating.
pub fn is_active(pod: &Value) -> bool {
    !is_terminating(pod)
        && !matches!(
            pod["status"]["phase"].as_str(),
            Some("Failed" | "Succeeded")
        )
}

/// Whether the pod's condition `Ready` is true.
pub fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    conditions.is_some_and(|all| {
        all.iter()
            .any(|c| c["type"] == "Ready" && c["status"] == "True")
    })
}

fn is_controlled_by(object: &Value, owner: &Value) -> bool {
    let owners = object["metadata"]["ownerReferences"].as_array();
    owners.is_some_and(|all| {
        all.iter()
            .any(|o| o["controller"] == true && o["uid"] == owner["metadata"]["uid"])
    })
}

fn active_pods(state: &State, owner: &Value) -> usize {
    state
        .all("pods")
        .filter(|pod| is_active(pod) && is_controlled_by(pod, owner))
        .count()
}

fn replicas(object: &Value) -> usize {
    object["spec"]["replicas"]
        .as_u64()
        .and_then(|n| usize::try_from(n).ok())
        .unwrap_or(1)
}

/// The smallest and the largest `replicas` among the owner's recent versions.
fn recent_replicas(state: &State, owner: &Value) -> (usize, usize) {
    let sizes = || {
        OWNERS
            .iter()
            .flat_map(|(_, plural, _)| state.recent_versions(plural, owner))
            .map(replicas)
    };
    (sizes().min().unwrap_or(0), sizes().max().unwrap_or(0))
}

fn is_by_pod_owner(change: &Change) -> bool {
    OWNERS.iter().any(|(_, _, identity)| change.is_by(identity))
}

// Each check returns early for changes that its rule does not cover. It sees the state after the
// change, so counts include a created pod and exclude a deleted one.

fn no_surplus(state: &State, change: &Change) -> Result<(), String> {
    if &*change.plural != "pods" || change.kind != ChangeKind::Created || !is_by_pod_owner(change) {
        return Ok(());
    }
    let Some(owner) = owner_of(state, &change.object) else {
        return Ok(());
    };
    let active = active_pods(state, owner);
    let (_, most) = recent_replicas(state, owner);
    if active <= most {
        Ok(())
    } else {
        Err(format!("{} is pod {active} of {most}", change.key))
    }
}

fn no_shortage(state: &State, change: &Change) -> Result<(), String> {
    let was_active = change.before.as_deref().is_some_and(is_active);
    if &*change.plural != "pods"
        || !was_active
        || !change.begins_deletion()
        || !is_by_pod_owner(change)
    {
        return Ok(());
    }
    // A terminating owner needs no pods.
    let Some(owner) = owner_of(state, &change.object).filter(|owner| !is_terminating(owner)) else {
        return Ok(());
    };
    let left = active_pods(state, owner);
    let (fewest, _) = recent_replicas(state, owner);
    if left >= fewest {
        Ok(())
    } else {
        Err(format!(
            "{} is deleted, {left} of {fewest} pods remain",
            change.key
        ))
    }
}

/// A limit of the rolling update, `maxSurge` or `maxUnavailable`, as a number of pods. A percentage
/// refers to `of` pods.
fn limit(deployment: &Value, field: &str, of: usize, round_up: bool) -> usize {
    let value = &deployment["spec"]["strategy"]["rollingUpdate"][field];
    if let Some(number) = value.as_u64() {
        return usize::try_from(number).unwrap_or(usize::MAX);
    }
    let percent: usize = value
        .as_str()
        .and_then(|text| text.strip_suffix('%'))
        .and_then(|text| text.parse().ok())
        .unwrap_or(0);
    let product = percent * of;
    if round_up {
        product.div_ceil(100)
    } else {
        product / 100
    }
}

/// The minimum of available pods for a Deployment of `of` pods. If both limits are zero, one pod
/// may be unavailable, as in upstream's `ResolveFenceposts`.
fn minimum(deployment: &Value, of: usize) -> usize {
    let unavailable = limit(deployment, "maxUnavailable", of, false);
    let unavailable = if unavailable == 0 && limit(deployment, "maxSurge", of, true) == 0 {
        1
    } else {
        unavailable
    };
    of.saturating_sub(unavailable)
}

/// The Deployment's `replicas` at the last resize of the ReplicaSet, from its annotation.
fn sized_for(set: &Value, deployment: &Value) -> usize {
    let annotation =
        set["metadata"]["annotations"]["deployment.kubernetes.io/desired-replicas"].as_str();
    annotation
        .and_then(|size| size.parse().ok())
        .unwrap_or_else(|| replicas(deployment))
}

fn is_rolling(deployment: &Value) -> bool {
    deployment["spec"]["strategy"]["type"] == "RollingUpdate"
}

fn surge(state: &State, change: &Change) -> Result<(), String> {
    if &*change.plural != "replicasets"
        || !change.is_by("deployment-controller")
        || change.kind == ChangeKind::Deleted
    {
        return Ok(());
    }
    let before = change.before.as_deref().map_or(0, replicas);
    let Some(deployment) = owner_of(state, &change.object).filter(|d| is_rolling(d)) else {
        return Ok(());
    };
    // Only growth can break the surge. After a user reduces `replicas`, the total may exceed it for
    // a while and shrinks step by step.
    if replicas(&change.object) <= before {
        return Ok(());
    }
    let total: usize = state
        .all("replicasets")
        .filter(|rs| is_controlled_by(rs, deployment))
        .map(replicas)
        .sum();
    let allowed = replicas(deployment) + limit(deployment, "maxSurge", replicas(deployment), true);
    if total <= allowed {
        Ok(())
    } else {
        Err(format!(
            "{} brings the total to {total} of {allowed}",
            change.key
        ))
    }
}

fn min_available(state: &State, change: &Change) -> Result<(), String> {
    let was_ready = change
        .before
        .as_deref()
        .is_some_and(|pod| is_ready(pod) && is_active(pod));
    if &*change.plural != "pods"
        || !was_ready
        || !change.begins_deletion()
        || !change.is_by("replicaset-controller")
    {
        return Ok(());
    }
    let Some(set) = owner_of(state, &change.object) else {
        return Ok(());
    };
    let Some(deployment) = owner_of(state, set).filter(|d| is_rolling(d) && !is_terminating(d))
    else {
        return Ok(());
    };
    let sets: Vec<&Value> = state
        .all("replicasets")
        .filter(|rs| is_controlled_by(rs, deployment))
        .collect();
    let of_sets = |pod: &&Value| sets.iter().any(|set| is_controlled_by(pod, set));
    let ready = state
        .all("pods")
        .filter(of_sets)
        .filter(|pod| is_ready(pod) && is_active(pod))
        .count();
    // A larger `replicas` reaches the controller a moment later. The minimum therefore follows the
    // size for which the ReplicaSet was resized recently.
    let sized_for = state
        .recent_versions("replicasets", set)
        .map(|set| sized_for(set, deployment))
        .min();
    let minimum = minimum(
        deployment,
        sized_for.map_or(0, |size| size.min(replicas(deployment))),
    );
    if ready >= minimum {
        Ok(())
    } else {
        Err(format!(
            "{} is deleted, {ready} of {minimum} ready pods remain",
            change.key
        ))
    }
}

fn new_pods_available(state: &State, change: &Change) -> Result<(), String> {
    if &*change.plural != "replicasets"
        || change.kind != ChangeKind::Updated
        || !change.is_by("deployment-controller")
    {
        return Ok(());
    }
    let Some(deployment) =
        owner_of(state, &change.object).filter(|d| is_rolling(d) && !is_terminating(d))
    else {
        return Ok(());
    };
    let Some(before) = change.before.as_deref() else {
        return Ok(());
    };
    let size = sized_for(&change.object, deployment);
    // A resized Deployment scales its ReplicaSets in proportion, which is no step of the rollout.
    if replicas(&change.object) >= replicas(before) || size != sized_for(before, deployment) {
        return Ok(());
    }
    let sets = || {
        state
            .all("replicasets")
            .filter(|set| is_controlled_by(set, deployment))
    };
    let Some(newest) = sets().max_by_key(|set| revision(set)) else {
        return Ok(());
    };
    // The rule covers only steps that shrink an old ReplicaSet.
    if newest["metadata"]["uid"] == change.object["metadata"]["uid"] {
        return Ok(());
    }
    let old: usize = sets()
        .filter(|set| set["metadata"]["uid"] != newest["metadata"]["uid"])
        .map(replicas)
        .sum();
    let new = state
        .all("pods")
        .filter(|pod| is_active(pod) && is_ready(pod) && is_controlled_by(pod, newest))
        .count();
    let minimum = minimum(deployment, size.min(replicas(deployment)));
    if old + new >= minimum {
        return Ok(());
    }
    Err(format!(
        "{} leaves {old} old and {new} available new pods of {minimum}",
        change.key
    ))
}

/// The revision of a ReplicaSet, from its annotation.
fn revision(set: &Value) -> u64 {
    let annotation = set["metadata"]["annotations"]["deployment.kubernetes.io/revision"].as_str();
    annotation.and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn recreate(state: &State, change: &Change) -> Result<(), String> {
    if &*change.plural != "pods" || change.kind != ChangeKind::Created {
        return Ok(());
    }
    let Some(set) = owner_of(state, &change.object) else {
        return Ok(());
    };
    let Some(deployment) =
        owner_of(state, set).filter(|d| d["spec"]["strategy"]["type"] == "Recreate")
    else {
        return Ok(());
    };
    let hash = |object: &Value| object["metadata"]["labels"]["pod-template-hash"].clone();
    // A ReplicaSet of another template is old, and so are its terminating pods.
    let is_old =
        |set: &&Value| is_controlled_by(set, deployment) && hash(set) != hash(&change.object);
    let old: Vec<&Value> = state.all("replicasets").filter(is_old).collect();
    let running = |pod: &&Value| {
        !matches!(
            pod["status"]["phase"].as_str(),
            Some("Failed" | "Succeeded")
        )
    };
    let left = state
        .all("pods")
        .filter(running)
        .find(|pod| old.iter().any(|set| is_controlled_by(pod, set)));
    match left {
        None => Ok(()),
        Some(left) => Err(format!(
            "{} was created while {} existed",
            change.key, left["metadata"]["name"]
        )),
    }
}

fn live_owner(state: &State, change: &Change) -> Result<(), String> {
    if !change.begins_deletion() || !change.is_by("generic-garbage-collector") {
        return Ok(());
    }
    let owners = change.object["metadata"]["ownerReferences"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let live = |reference: &&Value| {
        state.iter().any(|(_, object)| {
            object["metadata"]["uid"] == reference["uid"] && !is_terminating(object)
        })
    };
    match owners.iter().find(live) {
        None => Ok(()),
        Some(owner) => Err(format!(
            "{} {} is owned by {}",
            change.plural, change.key, owner["name"]
        )),
    }
}

fn foreground(state: &State, change: &Change) -> Result<(), String> {
    let waits = |object: &Value| {
        let finalizers = object["metadata"]["finalizers"].as_array();
        is_terminating(object)
            && finalizers.is_some_and(|all| {
                all.iter()
                    .any(|finalizer| finalizer == "foregroundDeletion")
            })
    };
    let stops = change.kind == ChangeKind::Deleted || !waits(&change.object);
    if !change.before.as_deref().is_some_and(waits)
        || !stops
        || !change.is_by("generic-garbage-collector")
    {
        return Ok(());
    }
    let blocks = |reference: &Value| {
        reference["uid"] == change.object["metadata"]["uid"]
            && reference["blockOwnerDeletion"] == true
    };
    let is_blocking = |object: &Value| {
        object["metadata"]["ownerReferences"]
            .as_array()
            .is_some_and(|owners| owners.iter().any(blocks))
    };
    match state.iter().find(|(_, object)| is_blocking(object)) {
        None => Ok(()),
        Some((plural, object)) => Err(format!(
            "{} does not wait for {plural} {}",
            change.key, object["metadata"]["name"]
        )),
    }
}

fn empty_namespace(state: &State, change: &Change) -> Result<(), String> {
    if &*change.plural != "namespaces" || change.kind != ChangeKind::Deleted {
        return Ok(());
    }
    let left = state
        .iter()
        .find(|(_, object)| object["metadata"]["namespace"] == *change.key);
    match left {
        None => Ok(()),
        Some((plural, object)) => Err(format!(
            "{} was removed before {plural} {}",
            change.key, object["metadata"]["name"]
        )),
    }
}

fn live_node(state: &State, change: &Change) -> Result<(), String> {
    // podgc sets the phase `Failed` before it deletes a pod, so the phase counts as the end.
    let ends = change.begins_deletion() || !is_active(&change.object);
    if &*change.plural != "pods" || !ends || !change.is_by("pod-garbage-collector") {
        return Ok(());
    }
    let Some(before) = change.before.as_deref().filter(|pod| is_active(pod)) else {
        return Ok(());
    };
    let node = before["spec"]["nodeName"].as_str().unwrap_or_default();
    let Some(node) = state.get("nodes", node) else {
        return Ok(());
    };
    let taints = node["spec"]["taints"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    if taints
        .iter()
        .any(|taint| taint["key"] == "node.kubernetes.io/out-of-service")
    {
        return Ok(());
    }
    Err(format!(
        "{} ran on {}",
        change.key, node["metadata"]["name"]
    ))
}

fn budget(state: &State, change: &Change) -> Result<(), String> {
    if &*change.plural != "poddisruptionbudgets" || change.kind != ChangeKind::Updated {
        return Ok(());
    }
    let evicted = |budget: &Value, pod: &str| budget["status"]["disruptedPods"].get(pod).is_some();
    let before = change.before.as_deref().unwrap_or(&Value::Null);
    let now = change.object["status"]["disruptedPods"].as_object();
    // Only an accepted eviction adds a pod.
    if !now.is_some_and(|pods| pods.keys().any(|pod| !evicted(before, pod))) {
        return Ok(());
    }
    let pods: Vec<&Value> = state
        .all("pods")
        .filter(|pod| selects(&change.object, pod))
        .collect();
    let name = |pod: &Value| {
        pod["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let healthy = pods
        .iter()
        .filter(|pod| is_ready(pod) && !is_terminating(pod) && !evicted(&change.object, &name(pod)))
        .count();
    let demanded = demanded(state, &change.object["spec"], &pods);
    if healthy >= demanded {
        Ok(())
    } else {
        Err(format!("{} keeps {healthy} of {demanded} pods", change.key))
    }
}

/// Whether the budget selects the pod. Budgets of scenarios have only `matchLabels`.
fn selects(budget: &Value, pod: &Value) -> bool {
    let labels = budget["spec"]["selector"]["matchLabels"].as_object();
    pod["metadata"]["namespace"] == budget["metadata"]["namespace"]
        && labels
            .into_iter()
            .flatten()
            .all(|(key, value)| pod["metadata"]["labels"][key] == *value)
}

/// The healthy pods that the `spec` of a budget demands of `pods`. A workload counts with its
/// smallest recent size, because a new size reaches the controller a moment later.
fn demanded(state: &State, spec: &Value, pods: &[&Value]) -> usize {
    let number = |value: &Value| value.as_u64().and_then(|n| usize::try_from(n).ok());
    if let Some(least) = number(&spec["minAvailable"]) {
        return least;
    }
    let workloads: BTreeMap<String, usize> = pods
        .iter()
        .filter_map(|pod| {
            let set = controller_of(state, pod)?;
            let workload = controller_of(state, set).unwrap_or(set);
            let uid = workload["metadata"]["uid"].as_str()?.to_owned();
            let plurals = ["deployments", "replicasets", "statefulsets"];
            let versions = plurals
                .iter()
                .flat_map(|plural| state.recent_versions(plural, workload));
            Some((uid, versions.map(replicas).min()?))
        })
        .collect();
    let expected: usize = workloads.values().sum();
    let part = |value: &Value| {
        let percent = value.as_str().and_then(|text| text.strip_suffix('%'));
        let percent: usize = percent.and_then(|text| text.parse().ok()).unwrap_or(0);
        number(value).unwrap_or_else(|| (percent * expected).div_ceil(100))
    };
    match (&spec["maxUnavailable"], &spec["minAvailable"]) {
        (Value::Null, least) => part(least),
        (most, _) => expected.saturating_sub(part(most)),
    }
}

/// The controller of an object, of any kind.
fn controller_of<'a>(state: &'a State, object: &Value) -> Option<&'a Value> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    let reference = owners.iter().find(|owner| owner["controller"] == true)?;
    let mut all = state.iter().map(|(_, object)| object);
    all.find(|object| object["metadata"]["uid"] == reference["uid"])
}

#[cfg(test)]
mod tests;
