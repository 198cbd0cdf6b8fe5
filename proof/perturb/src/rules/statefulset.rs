//! Safety rules of StatefulSets. The sets of the scenarios are called `web`.

use serde_json::Value;

use super::{is_ready, is_terminating};
use crate::history::{Change, ChangeKind, State};
use crate::scenario::Rule;

/// Two pods of one ordinal would write to the same claim.
pub const ONE_POD_PER_ORDINAL: Rule = Rule {
    name: "a set has one pod of each ordinal",
    check: one_pod_per_ordinal,
};
/// An ordered set creates a pod after all pods before it are ready.
pub const ORDERED_CREATION: Rule = Rule {
    name: "an ordered set creates pods in order",
    check: ordered_creation,
};
/// An ordered set deletes a pod while all its other pods are ready.
pub const ORDERED_DELETION: Rule = Rule {
    name: "an ordered set deletes one pod at a time",
    check: ordered_deletion,
};
/// Only the garbage collector deletes claims.
pub const CLAIMS_STAY: Rule = Rule {
    name: "the controller deletes no claim",
    check: claims_stay,
};

const CONTROLLER: &str = "statefulset-controller";

/// The set that controls a pod.
fn set_of<'a>(state: &'a State, pod: &Value) -> Option<&'a Value> {
    let owners = pod["metadata"]["ownerReferences"].as_array()?;
    let set = state.get("statefulsets", "default/web")?;
    let is_owner = |owner: &Value| owner["uid"] == set["metadata"]["uid"];
    owners.iter().any(is_owner).then_some(set)
}

fn is_ordered(set: &&Value) -> bool {
    set["spec"]["podManagementPolicy"] == "OrderedReady" && !is_terminating(set)
}

/// The ordinal in the name of a pod.
fn ordinal(pod: &Value) -> Option<u64> {
    pod["metadata"]["name"]
        .as_str()?
        .rsplit_once('-')?
        .1
        .parse()
        .ok()
}

/// The pods of `set` besides `pod`.
fn others<'a>(state: &'a State, set: &'a Value, pod: &'a Value) -> impl Iterator<Item = &'a Value> {
    state.all("pods").filter(move |other| {
        let is_same = other["metadata"]["uid"] == pod["metadata"]["uid"];
        !is_same && set_of(state, other).is_some_and(|of| of == set)
    })
}

/// The set behind a change of a pod, if the controller made the change.
fn set_behind<'a>(state: &'a State, change: &Change) -> Option<&'a Value> {
    let is_ours = &*change.plural == "pods" && change.is_by(CONTROLLER);
    set_of(state, &change.object).filter(|_| is_ours)
}

fn one_pod_per_ordinal(state: &State, change: &Change) -> Result<(), String> {
    let created = change.kind == ChangeKind::Created;
    let Some(set) = set_behind(state, change).filter(|_| created) else {
        return Ok(());
    };
    let mut others = others(state, set, &change.object);
    let same = others.find(|other| ordinal(other) == ordinal(&change.object));
    same.map_or(Ok(()), |other| {
        Err(format!(
            "{} exists beside {}",
            other["metadata"]["name"], change.key
        ))
    })
}

fn ordered_creation(state: &State, change: &Change) -> Result<(), String> {
    let created = change.kind == ChangeKind::Created;
    let set = set_behind(state, change).filter(|_| created);
    let Some(set) = set.filter(is_ordered) else {
        return Ok(());
    };
    let Some(last) = ordinal(&change.object) else {
        return Ok(());
    };
    let first = set["spec"]["ordinals"]["start"].as_u64().unwrap_or(0);
    for number in first..last {
        let mut before = others(state, set, &change.object);
        if !before.any(|pod| ordinal(pod) == Some(number) && is_ready(pod)) {
            return Err(format!(
                "{} is created before pod {number} is ready",
                change.key
            ));
        }
    }
    Ok(())
}

fn ordered_deletion(state: &State, change: &Change) -> Result<(), String> {
    let set = set_behind(state, change).filter(|_| change.begins_deletion());
    let Some(set) = set.filter(is_ordered) else {
        return Ok(());
    };
    let mut others = others(state, set, &change.object);
    let unready = others.find(|pod| !is_ready(pod) || is_terminating(pod));
    unready.map_or(Ok(()), |pod| {
        Err(format!(
            "{} is deleted while {} is not ready",
            change.key, pod["metadata"]["name"]
        ))
    })
}

fn claims_stay(_: &State, change: &Change) -> Result<(), String> {
    let is_claim = &*change.plural == "persistentvolumeclaims";
    if is_claim && change.begins_deletion() && change.is_by(CONTROLLER) {
        return Err(format!("{} is deleted", change.key));
    }
    Ok(())
}
