//! Rules of ResourceClaims: their use by pods, and their number.

use std::collections::HashSet;

use serde_json::Value;

use crate::history::{Change, ChangeKind, State};
use crate::scenario::Rule;

/// A pod keeps its reservations, and with them the allocation, until none of its containers will
/// run.
pub const CLAIM_IN_USE: Rule = Rule {
    name: "no claim is freed while a pod that uses it may run",
    check: in_use,
};
/// A pod has one claim for each template that it names.
pub const ONE_CLAIM: Rule = Rule {
    name: "a pod gets one claim per template",
    check: one_claim,
};

/// The client of the ResourceClaim controller.
const CONTROLLER: &str = "resource-claim-controller";

/// The annotation with the name of the claim within the pod.
const POD_CLAIM: &str = "resource.kubernetes.io/pod-claim-name";

fn is_claim_of_controller(change: &Change) -> bool {
    &*change.plural == "resourceclaims" && change.is_by(CONTROLLER)
}

fn list<'a>(object: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    let list = object.pointer(pointer).and_then(Value::as_array);
    list.into_iter().flatten()
}

/// UIDs of the pods for which a claim is reserved.
fn consumers(claim: &Value) -> HashSet<&str> {
    let uids = list(claim, "/status/reservedFor").map(|consumer| &consumer["uid"]);
    uids.filter_map(Value::as_str).collect()
}

/// UID of the pod for which a claim was made.
fn owner(claim: &Value) -> Option<&str> {
    let mut owners = list(claim, "/metadata/ownerReferences");
    let owner = owners.find(|owner| owner["controller"] == true && owner["kind"] == "Pod")?;
    owner["uid"].as_str()
}

fn may_run(pod: &Value) -> bool {
    let is_finished = matches!(
        pod["status"]["phase"].as_str(),
        Some("Succeeded" | "Failed")
    );
    let is_unbound = pod["spec"]["nodeName"]
        .as_str()
        .unwrap_or_default()
        .is_empty();
    let is_terminating = !pod["metadata"]["deletionTimestamp"].is_null();
    !(is_finished || (is_unbound && is_terminating))
}

fn in_use(state: &State, change: &Change) -> Result<(), String> {
    let Some(before) = change
        .before
        .as_deref()
        .filter(|_| is_claim_of_controller(change))
    else {
        return Ok(());
    };
    let after = &*change.object;
    let mut left = consumers(before);
    let is_deallocated =
        before["status"]["allocation"].is_object() && after["status"]["allocation"].is_null();
    if change.begins_deletion() {
        left.extend(owner(before));
    } else if !is_deallocated {
        let kept = consumers(after);
        left.retain(|uid| !kept.contains(uid));
    }
    let mut pods = state.all("pods");
    let user = pods.find(|pod| {
        let uid = pod["metadata"]["uid"].as_str();
        may_run(pod) && uid.is_some_and(|uid| left.contains(uid))
    });
    match user {
        Some(pod) => Err(format!("{} uses {}", pod["metadata"]["name"], change.key)),
        None => Ok(()),
    }
}

fn one_claim(state: &State, change: &Change) -> Result<(), String> {
    if change.kind != ChangeKind::Created || !is_claim_of_controller(change) {
        return Ok(());
    }
    let made = |claim: &Value| {
        (
            owner(claim).map(str::to_owned),
            claim["metadata"]["annotations"][POD_CLAIM].clone(),
        )
    };
    let new = made(&change.object);
    let is_terminating = |claim: &Value| !claim["metadata"]["deletionTimestamp"].is_null();
    let all = state.all("resourceclaims");
    let same = all.filter(|claim| made(claim) == new && !is_terminating(claim));
    match same.count() {
        0 | 1 => Ok(()),
        count => Err(format!("{count} claims like {}", change.key)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{check, object, with};
    use super::*;

    fn pod(phase: &str) -> Value {
        let pod = object("p", json!({"nodeName": "n"}));
        with(pod, "/status", json!({ "phase": phase }))
    }

    fn claim(name: &str, consumers: Value) -> Value {
        let mut claim = object(name, json!({}));
        let owner = json!({"kind": "Pod", "name": "p", "uid": "p", "controller": true});
        claim["metadata"]["ownerReferences"] = json!([owner]);
        claim["metadata"]["annotations"] = json!({POD_CLAIM: "gpu"});
        claim["status"] = json!({"allocation": {}, "reservedFor": consumers});
        claim
    }

    fn used() -> Value {
        claim("c", json!([{"resource": "pods", "name": "p", "uid": "p"}]))
    }

    #[test]
    fn claims_stay_until_their_pods_are_done() {
        let freed = || with(claim("c", json!([])), "/status", json!({}));
        let unbound = || {
            let pod = object("p", json!({}));
            with(
                pod,
                "/metadata/deletionTimestamp",
                json!("2026-01-01T00:00:00Z"),
            )
        };
        let case = |why, pod: Option<Value>, by, kind, after, breaks| {
            let mut world = vec![("resourceclaims", used())];
            world.extend(pod.map(|pod| ("pods", pod)));
            (why, world, by, "resourceclaims", kind, after, breaks)
        };
        use ChangeKind::{Deleted, Updated};
        check(
            CLAIM_IN_USE,
            [
                case(
                    "freed",
                    Some(pod("Running")),
                    CONTROLLER,
                    Updated,
                    freed(),
                    true,
                ),
                case(
                    "kept",
                    Some(pod("Running")),
                    CONTROLLER,
                    Updated,
                    used(),
                    false,
                ),
                case(
                    "finished",
                    Some(pod("Failed")),
                    CONTROLLER,
                    Updated,
                    freed(),
                    false,
                ),
                case(
                    "never bound",
                    Some(unbound()),
                    CONTROLLER,
                    Updated,
                    freed(),
                    false,
                ),
                case("gone", None, CONTROLLER, Updated, freed(), false),
                case(
                    "deleted",
                    Some(pod("Pending")),
                    CONTROLLER,
                    Deleted,
                    used(),
                    true,
                ),
                case(
                    "deleted by a user",
                    Some(pod("Pending")),
                    "kubectl",
                    Deleted,
                    used(),
                    false,
                ),
            ],
        );
    }

    #[test]
    fn a_second_claim_breaks_the_rule() {
        let other = with(
            claim("d", json!([])),
            "/metadata/annotations",
            json!({POD_CLAIM: "disk"}),
        );
        let leaving = with(
            used(),
            "/metadata/deletionTimestamp",
            json!("2026-01-01T00:00:00Z"),
        );
        let second = || claim("e", json!([]));
        let case = |why, known, by, breaks| {
            let world = vec![("resourceclaims", known)];
            (
                why,
                world,
                by,
                "resourceclaims",
                ChangeKind::Created,
                second(),
                breaks,
            )
        };
        check(
            ONE_CLAIM,
            [
                case("second", used(), CONTROLLER, true),
                case("of another claim of the pod", other, CONTROLLER, false),
                case("the first one is being deleted", leaving, CONTROLLER, false),
                case("by a user", used(), "kubectl", false),
            ],
        );
    }
}
