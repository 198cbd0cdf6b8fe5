//! Rules of devices: the evictions from tainted ones.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::history::{Change, State};
use crate::scenario::{FinalRule, Rule};

/// A pod leaves its devices when the time is over for which its claims tolerate their taints.
pub const DEVICE_TOLERATED: Rule = Rule {
    name: "no pod is evicted while its claims tolerate the taints of its devices",
    check: tolerated,
};
/// No pod stays on a device with a taint that its claim does not tolerate at all.
pub const DEVICE_LEFT: FinalRule = FinalRule {
    name: "all pods have left the devices that their claims do not tolerate",
    check: left,
};

/// The client of the device taint eviction controller.
const CONTROLLER: &str = "device-taint-eviction-controller";

fn list<'a>(object: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    let list = object.pointer(pointer).and_then(Value::as_array);
    list.into_iter().flatten()
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object[field].as_str().unwrap_or_default()
}

/// The claims of `pod` that are reserved for it.
fn claims<'a>(state: &'a State, pod: &'a Value) -> impl Iterator<Item = &'a Value> {
    let references = list(pod, "/spec/resourceClaims");
    let namespace = text(&pod["metadata"], "namespace");
    references.filter_map(move |reference| {
        let key = format!("{namespace}/{}", text(reference, "resourceClaimName"));
        state.get("resourceclaims", &key)
    })
}

fn is_reserved(claim: &Value, pod: &Value) -> bool {
    let uid = &pod["metadata"]["uid"];
    list(claim, "/status/reservedFor").any(|consumer| consumer["uid"] == *uid)
}

/// The NoExecute taints of an allocated device in a version of a slice.
fn taints<'a>(slice: &'a Value, allocated: &'a Value) -> impl Iterator<Item = &'a Value> {
    let is_of_pool = slice["spec"]["driver"] == allocated["driver"]
        && slice["spec"]["pool"]["name"] == allocated["pool"];
    let devices = list(slice, "/spec/devices");
    let device = devices.filter(move |device| is_of_pool && device["name"] == allocated["device"]);
    let taints = device.flat_map(|device| list(device, "/taints"));
    taints.filter(|taint| taint["effect"] == "NoExecute")
}

/// The seconds for which an allocated device tolerates `taint`. `None` means for ever.
fn tolerance(allocated: &Value, taint: &Value) -> Option<i64> {
    let matches = |toleration: &&Value| {
        let key = text(toleration, "key");
        let is_equal = text(toleration, "value") == text(taint, "value");
        text(toleration, "effect") == "NoExecute"
            && (key.is_empty() || key == text(taint, "key"))
            && (text(toleration, "operator") == "Exists" || is_equal)
    };
    let tolerations = list(allocated, "/tolerations").filter(matches);
    let seconds: Option<Vec<i64>> = tolerations
        .map(|toleration| toleration["tolerationSeconds"].as_i64())
        .collect();
    Some(seconds?.into_iter().min().unwrap_or(0))
}

/// Whether a taint of `slice` evicts the pods of `claim` at `now`.
fn evicts(slice: &Value, claim: &Value, now: Timestamp) -> bool {
    let is_due = |allocated: &Value, taint: &Value| {
        let added: Option<Timestamp> = text(taint, "timeAdded").parse().ok();
        let until = tolerance(allocated, taint).map(SignedDuration::from_secs);
        added
            .zip(until)
            .is_some_and(|(added, until)| added + until <= now)
    };
    let mut devices = list(claim, "/status/allocation/devices/results");
    devices.any(|allocated| taints(slice, allocated).any(|taint| is_due(allocated, taint)))
}

fn tolerated(state: &State, change: &Change) -> Result<(), String> {
    let is_eviction = &*change.plural == "pods" && change.begins_deletion();
    let before = change.before.as_deref();
    let Some(pod) = before.filter(|_| is_eviction && change.is_by(CONTROLLER)) else {
        return Ok(());
    };
    let versions = |claim| state.recent_versions("resourceclaims", claim);
    let mut used = claims(state, pod)
        .flat_map(versions)
        .filter(|claim| is_reserved(claim, pod));
    let is_evicted = used.any(|claim| {
        let slices = state.all("resourceslices");
        let mut slices = slices.flat_map(|slice| state.recent_versions("resourceslices", slice));
        slices.any(|slice| evicts(slice, claim, change.at))
    });
    if is_evicted {
        return Ok(());
    }
    Err(format!(
        "{} tolerates the taints of its devices",
        change.key
    ))
}

fn left(state: &State) -> Result<(), String> {
    let is_intolerant = |claim: &Value| {
        let devices = || list(claim, "/status/allocation/devices/results");
        let untolerated = |slice: &Value| {
            devices().any(|device| {
                taints(slice, device).any(|taint| tolerance(device, taint) == Some(0))
            })
        };
        newest(state).any(untolerated)
    };
    let stays = |pod: &&Value| {
        let is_bound = !text(&pod["spec"], "nodeName").is_empty();
        let mut claims = claims(state, pod).filter(|claim| is_reserved(claim, pod));
        is_bound && claims.any(is_intolerant)
    };
    match state.all("pods").find(stays) {
        Some(pod) => Err(format!("{} is still there", pod["metadata"]["name"])),
        None => Ok(()),
    }
}

/// The slices of the newest generation of each pool.
fn newest(state: &State) -> impl Iterator<Item = &Value> {
    let generation = |slice: &Value| slice["spec"]["pool"]["generation"].as_i64();
    let is_same_pool = |one: &Value, other: &Value| {
        one["spec"]["driver"] == other["spec"]["driver"]
            && one["spec"]["pool"]["name"] == other["spec"]["pool"]["name"]
    };
    state.all("resourceslices").filter(move |slice| {
        let mut others = state.all("resourceslices");
        !others.any(|other| is_same_pool(slice, other) && generation(other) > generation(slice))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{check, object, put};
    use super::*;
    use crate::history::ChangeKind;

    fn slice(taints: Value) -> Value {
        let mut slice = object(
            "s",
            json!({
                "driver": "d", "pool": {"name": "p", "generation": 1},
                "devices": [{"name": "x", "taints": taints}],
            }),
        );
        slice["metadata"]["namespace"] = json!("");
        slice
    }

    fn claim(pod: &Value, tolerations: Value) -> Value {
        let device = json!({"driver": "d", "pool": "p", "device": "x", "tolerations": tolerations});
        let mut claim = object("c", json!({}));
        claim["status"] = json!({
            "allocation": {"devices": {"results": [device]}},
            "reservedFor": [{"resource": "pods", "uid": pod["metadata"]["uid"]}],
        });
        claim
    }

    fn pod() -> Value {
        object(
            "p",
            json!({"nodeName": "n", "resourceClaims": [{"name": "c", "resourceClaimName": "c"}]}),
        )
    }

    fn taint(effect: &str) -> Value {
        json!([{"key": "k", "effect": effect, "timeAdded": "1970-01-01T00:00:00Z"}])
    }

    fn exists(seconds: Value) -> Value {
        json!([{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}])
    }

    #[test]
    fn pods_whose_claims_tolerate_the_device_stay() {
        let case = |why, taints, tolerations, by, breaks| {
            let world = vec![
                ("resourceslices", slice(taints)),
                ("resourceclaims", claim(&pod(), tolerations)),
                ("pods", pod()),
            ];
            (why, world, by, "pods", ChangeKind::Deleted, pod(), breaks)
        };
        let tainted = || taint("NoExecute");
        check(
            DEVICE_TOLERATED,
            [
                case("tolerates nothing", tainted(), json!([]), CONTROLLER, false),
                case(
                    "tolerates all",
                    tainted(),
                    exists(json!(null)),
                    CONTROLLER,
                    true,
                ),
                case(
                    "tolerates a year",
                    tainted(),
                    exists(json!(31_536_000)),
                    CONTROLLER,
                    true,
                ),
                case(
                    "another effect",
                    taint("NoSchedule"),
                    json!([]),
                    CONTROLLER,
                    true,
                ),
                case("without taints", json!([]), json!([]), CONTROLLER, true),
                case("by a user", json!([]), json!([]), "kubectl", false),
            ],
        );
    }

    #[test]
    fn pods_that_do_not_tolerate_the_device_leave() {
        // (why, taints, tolerations, breaks)
        let cases = [
            ("tolerates nothing", taint("NoExecute"), json!([]), true),
            (
                "tolerates some time",
                taint("NoExecute"),
                exists(json!(60)),
                false,
            ),
            (
                "tolerates all",
                taint("NoExecute"),
                exists(json!(null)),
                false,
            ),
            ("another effect", taint("None"), json!([]), false),
        ];
        for (why, taints, tolerations, breaks) in cases {
            let mut state = State::default();
            let objects = [
                ("resourceslices", slice(taints)),
                ("resourceclaims", claim(&pod(), tolerations)),
                ("pods", pod()),
            ];
            for (plural, object) in objects {
                put(&mut state, plural, ChangeKind::Created, object, "");
            }
            assert_eq!((DEVICE_LEFT.check)(&state).is_err(), breaks, "{why}");
        }
    }
}
