//! What holds at every instant, for the controllers there are.

use serde_json::Value;

use crate::film::{Frame, Happened, State};
use crate::scenario::Rule;

/// Nobody has more pods than it asks for.
pub const NO_SURPLUS: Rule = Rule {
    name: "no surplus pod is created",
    check: no_surplus,
};
/// No pod goes that its owner still needs.
pub const NO_SHORTAGE: Rule = Rule {
    name: "no needed pod is deleted",
    check: no_shortage,
};
/// A Deployment grows no further than its surge.
pub const SURGE: Rule = Rule {
    name: "a rollout stays below its surge",
    check: surge,
};
/// A Deployment has as many ready pods as it promises.
pub const AVAILABLE: Rule = Rule {
    name: "a rollout keeps its pods available",
    check: available,
};
/// Old pods, ready or not, are there for the new ones that are not available yet: a template that
/// works no better than the last one does not replace it.
pub const HELD_BACK: Rule = Rule {
    name: "a rollout counts on available new pods only",
    check: held_back,
};
/// Pods of a new template come after the last old one has gone.
pub const RECREATE: Rule = Rule {
    name: "old pods go before new ones come",
    check: recreate,
};
/// What has an owner that lives is not collected.
pub const OWNED: Rule = Rule {
    name: "nothing with a live owner is collected",
    check: owned,
};
/// What is deleted in the foreground goes after what it owns.
pub const WAITED_FOR: Rule = Rule {
    name: "an owner waits for its dependents",
    check: waited_for,
};
/// A namespace goes last.
pub const EMPTY: Rule = Rule {
    name: "a namespace is empty when it goes",
    check: empty,
};
/// The pods of a node that works are left alone.
pub const HOSTED: Rule = Rule {
    name: "running pods of nodes that are there stay",
    check: hosted,
};

/// The kinds that own pods, with their resources and identities.
const OWNERS: &[(&str, &str, &str)] = &[
    ("ReplicaSet", "replicasets", "replicaset-controller"),
    (
        "ReplicationController",
        "replicationcontrollers",
        "replication-controller",
    ),
];

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

/// Whether it is marked for deletion.
pub fn is_terminating(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

/// Whether a pod counts: neither finished nor going.
pub fn is_active(pod: &Value) -> bool {
    !is_terminating(pod)
        && !matches!(
            pod["status"]["phase"].as_str(),
            Some("Failed" | "Succeeded")
        )
}

/// Whether a pod says it is ready.
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

/// The fewest and the most pods that the owner of pods has asked for lately.
fn wanted(state: &State, owner: &Value) -> (usize, usize) {
    let sizes = || {
        OWNERS
            .iter()
            .flat_map(|(_, plural, _)| state.lately(plural, owner))
            .map(replicas)
    };
    (sizes().min().unwrap_or(0), sizes().max().unwrap_or(0))
}

fn is_by_pod_owner(frame: &Frame) -> bool {
    OWNERS.iter().any(|(_, _, identity)| frame.is_by(identity))
}

fn no_surplus(state: &State, frame: &Frame) -> Result<(), String> {
    if &*frame.plural != "pods" || frame.happened != Happened::Created || !is_by_pod_owner(frame) {
        return Ok(());
    }
    let Some(owner) = owner_of(state, &frame.object) else {
        return Ok(());
    };
    let (there, (_, wanted)) = (active_pods(state, owner), wanted(state, owner));
    if there <= wanted {
        Ok(())
    } else {
        Err(format!("{} is number {there} of {wanted}", frame.key))
    }
}

fn no_shortage(state: &State, frame: &Frame) -> Result<(), String> {
    let was_active = frame.before.as_deref().is_some_and(is_active);
    if &*frame.plural != "pods"
        || !was_active
        || !frame.begins_deletion()
        || !is_by_pod_owner(frame)
    {
        return Ok(());
    }
    let Some(owner) = owner_of(state, &frame.object).filter(|owner| !is_terminating(owner)) else {
        return Ok(());
    };
    let (left, (wanted, _)) = (active_pods(state, owner), wanted(state, owner));
    if left >= wanted {
        Ok(())
    } else {
        Err(format!("{} went, {left} of {wanted} are left", frame.key))
    }
}

/// A limit of the rolling strategy, as a number of so many pods.
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

/// How many of so many pods stay available; a surge of zero lets one go at least, as the controller
/// does.
fn promised(deployment: &Value, of: usize) -> usize {
    let missing = limit(deployment, "maxUnavailable", of, false);
    let missing = if missing == 0 && limit(deployment, "maxSurge", of, true) == 0 {
        1
    } else {
        missing
    };
    of.saturating_sub(missing)
}

/// The size of the Deployment for which the set was sized last.
fn sized_for(set: &Value, deployment: &Value) -> usize {
    let noted =
        set["metadata"]["annotations"]["deployment.kubernetes.io/desired-replicas"].as_str();
    noted
        .and_then(|noted| noted.parse().ok())
        .unwrap_or_else(|| replicas(deployment))
}

fn is_rolling(deployment: &Value) -> bool {
    deployment["spec"]["strategy"]["type"] == "RollingUpdate"
}

fn surge(state: &State, frame: &Frame) -> Result<(), String> {
    if &*frame.plural != "replicasets"
        || !frame.is_by("deployment-controller")
        || frame.happened == Happened::Deleted
    {
        return Ok(());
    }
    let before = frame.before.as_deref().map_or(0, replicas);
    let Some(deployment) = owner_of(state, &frame.object).filter(|d| is_rolling(d)) else {
        return Ok(());
    };
    if replicas(&frame.object) <= before {
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
            frame.key
        ))
    }
}

fn available(state: &State, frame: &Frame) -> Result<(), String> {
    let was_ready = frame
        .before
        .as_deref()
        .is_some_and(|pod| is_ready(pod) && is_active(pod));
    if &*frame.plural != "pods"
        || !was_ready
        || !frame.begins_deletion()
        || !frame.is_by("replicaset-controller")
    {
        return Ok(());
    }
    let Some(set) = owner_of(state, &frame.object) else {
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
    // A user who asks for more is heard a moment later: what is promised is what the set was sized
    // for lately.
    let sized_for = state
        .lately("replicasets", set)
        .map(|set| sized_for(set, deployment))
        .min();
    let promised = promised(
        deployment,
        sized_for.map_or(0, |size| size.min(replicas(deployment))),
    );
    if ready >= promised {
        Ok(())
    } else {
        Err(format!(
            "{} went, {ready} of {promised} are left",
            frame.key
        ))
    }
}

fn held_back(state: &State, frame: &Frame) -> Result<(), String> {
    if &*frame.plural != "replicasets"
        || frame.happened != Happened::Changed
        || !frame.is_by("deployment-controller")
    {
        return Ok(());
    }
    let Some(deployment) =
        owner_of(state, &frame.object).filter(|d| is_rolling(d) && !is_terminating(d))
    else {
        return Ok(());
    };
    let Some(before) = frame.before.as_deref() else {
        return Ok(());
    };
    let size = sized_for(&frame.object, deployment);
    // Another size of the whole is shared out; that is no step of a rollout.
    if replicas(&frame.object) >= replicas(before) || size != sized_for(before, deployment) {
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
    if newest["metadata"]["uid"] == frame.object["metadata"]["uid"] {
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
    let promised = promised(deployment, size.min(replicas(deployment)));
    if old + new >= promised {
        return Ok(());
    }
    Err(format!(
        "{} leaves {old} old and {new} new pods of {promised}",
        frame.key
    ))
}

/// The number of the roll-out that a set belongs to.
fn revision(set: &Value) -> u64 {
    let noted = set["metadata"]["annotations"]["deployment.kubernetes.io/revision"].as_str();
    noted.and_then(|noted| noted.parse().ok()).unwrap_or(0)
}

fn recreate(state: &State, frame: &Frame) -> Result<(), String> {
    if &*frame.plural != "pods" || frame.happened != Happened::Created {
        return Ok(());
    }
    let Some(set) = owner_of(state, &frame.object) else {
        return Ok(());
    };
    let Some(deployment) =
        owner_of(state, set).filter(|d| d["spec"]["strategy"]["type"] == "Recreate")
    else {
        return Ok(());
    };
    let hash = |object: &Value| object["metadata"]["labels"]["pod-template-hash"].clone();
    let is_old =
        |set: &&Value| is_controlled_by(set, deployment) && hash(set) != hash(&frame.object);
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
            "{} came while {} was there",
            frame.key, left["metadata"]["name"]
        )),
    }
}

fn owned(state: &State, frame: &Frame) -> Result<(), String> {
    if !frame.begins_deletion() || !frame.is_by("generic-garbage-collector") {
        return Ok(());
    }
    let owners = frame.object["metadata"]["ownerReferences"]
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
            frame.plural, frame.key, owner["name"]
        )),
    }
}

fn waited_for(state: &State, frame: &Frame) -> Result<(), String> {
    let waits = |object: &Value| {
        let finalizers = object["metadata"]["finalizers"].as_array();
        is_terminating(object)
            && finalizers.is_some_and(|all| {
                all.iter()
                    .any(|finalizer| finalizer == "foregroundDeletion")
            })
    };
    let stopped = frame.happened == Happened::Deleted || !waits(&frame.object);
    if !frame.before.as_deref().is_some_and(waits)
        || !stopped
        || !frame.is_by("generic-garbage-collector")
    {
        return Ok(());
    }
    let blocks = |reference: &Value| {
        reference["uid"] == frame.object["metadata"]["uid"]
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
            "{} went before {plural} {}",
            frame.key, object["metadata"]["name"]
        )),
    }
}

fn empty(state: &State, frame: &Frame) -> Result<(), String> {
    if &*frame.plural != "namespaces" || frame.happened != Happened::Deleted {
        return Ok(());
    }
    let left = state
        .iter()
        .find(|(_, object)| object["metadata"]["namespace"] == *frame.key);
    match left {
        None => Ok(()),
        Some((plural, object)) => Err(format!(
            "{} went before {plural} {}",
            frame.key, object["metadata"]["name"]
        )),
    }
}

fn hosted(state: &State, frame: &Frame) -> Result<(), String> {
    // Its end begins when it is told to have failed, which comes before the deletion.
    let ends = frame.begins_deletion() || !is_active(&frame.object);
    if &*frame.plural != "pods" || !ends || !frame.is_by("pod-garbage-collector") {
        return Ok(());
    }
    let Some(before) = frame.before.as_deref().filter(|pod| is_active(pod)) else {
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
    Err(format!("{} ran on {}", frame.key, node["metadata"]["name"]))
}

#[cfg(test)]
mod tests;
