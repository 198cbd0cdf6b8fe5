//! Rules of volumes: finalizers that protect used objects, and claims of ephemeral volumes.

use serde_json::Value;

use crate::history::{Change, ChangeKind, State, key_of};
use crate::scenario::Rule;

/// A protecting finalizer is removed only if nothing uses the object. A user counts if it used the
/// object for the last 2.5 s. The API server itself accepts users between a check and a write.
pub const PROTECTED: Rule = Rule {
    name: "a protecting finalizer stays while its object is used",
    check: protected,
};
/// A claim that the ephemeral volume controller creates belongs to a pod with such a volume.
pub const OWN_CLAIM: Rule = Rule {
    name: "a claim of an ephemeral volume belongs to its pod",
    check: own_claim,
};

/// Whether an object of a type uses the object with the key.
type Uses = fn(&Value, &str) -> bool;

/// Types of users.
type Users = &'static [(&'static str, Uses)];

/// Protected types with their finalizers, and the types of their users.
const PROTECTIONS: [(&str, &str, Users); 4] = [
    (
        "persistentvolumeclaims",
        "kubernetes.io/pvc-protection",
        &[("pods", holds_claim)],
    ),
    (
        "persistentvolumes",
        "kubernetes.io/pv-protection",
        &[("persistentvolumes", is_bound)],
    ),
    (
        "volumeattributesclasses",
        "kubernetes.io/vac-protection",
        &[
            ("persistentvolumeclaims", has_class),
            ("persistentvolumes", has_class),
        ],
    ),
    (
        "podgroups",
        "scheduling.k8s.io/podgroup-protection",
        &[("pods", is_unfinished_member)],
    ),
];

fn protected(state: &State, change: &Change) -> Result<(), String> {
    let known = PROTECTIONS
        .iter()
        .find(|(plural, ..)| *plural == &*change.plural);
    let Some((_, finalizer, users)) = known else {
        return Ok(());
    };
    let Some(before) = change.before.as_deref() else {
        return Ok(());
    };
    let has = |object: &Value| {
        let finalizers = object["metadata"]["finalizers"].as_array();
        finalizers.is_some_and(|all| all.iter().any(|name| name == finalizer))
    };
    let is_kept = change.kind != ChangeKind::Deleted && has(&change.object);
    if !has(before) || is_kept {
        return Ok(());
    }
    for (plural, uses) in *users {
        // A removed volume is no longer in the state.
        let own = (*plural == &*change.plural).then_some(before);
        let mut all = state.all(plural).chain(own);
        let used = |user: &&Value| {
            let mut versions = state.recent_versions(plural, user);
            versions.all(|user| uses(user, &change.key))
        };
        if let Some(user) = all.find(used) {
            return Err(format!("{} is used by {}", change.key, key_of(user)));
        }
    }
    Ok(())
}

/// A pod on a node that has the claim as a volume.
fn holds_claim(pod: &Value, key: &str) -> bool {
    let is_on_node = pod["spec"]["nodeName"]
        .as_str()
        .is_some_and(|node| !node.is_empty());
    let metadata = &pod["metadata"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let is_claim = |name: String| format!("{}/{name}", text(&metadata["namespace"])) == key;
    let mut volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    is_on_node
        && volumes.any(|volume| {
            if volume["ephemeral"].is_object() {
                let is_shut_down = metadata["deletionGracePeriodSeconds"] == 0;
                let name = format!("{}-{}", text(&metadata["name"]), text(&volume["name"]));
                !is_shut_down && is_claim(name)
            } else {
                is_claim(text(&volume["persistentVolumeClaim"]["claimName"]))
            }
        })
}

/// The volume itself, in the phase of a claim.
fn is_bound(volume: &Value, key: &str) -> bool {
    key_of(volume) == key && volume["status"]["phase"] == "Bound"
}

/// A claim or volume that names the class.
fn has_class(user: &Value, class: &str) -> bool {
    let status = &user["status"];
    let names = [
        &user["spec"]["volumeAttributesClassName"],
        &status["currentVolumeAttributesClassName"],
        &status["modifyVolumeStatus"]["targetVolumeAttributesClassName"],
    ];
    names.into_iter().any(|name| name == class)
}

/// An unfinished pod of the PodGroup.
fn is_unfinished_member(pod: &Value, group: &str) -> bool {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let namespace = text(&pod["metadata"]["namespace"]);
    let name = text(&pod["spec"]["schedulingGroup"]["podGroupName"]);
    let is_finished = matches!(
        pod["status"]["phase"].as_str(),
        Some("Succeeded" | "Failed")
    );
    !is_finished && format!("{namespace}/{name}") == group
}

fn own_claim(state: &State, change: &Change) -> Result<(), String> {
    let is_creation = &*change.plural == "persistentvolumeclaims"
        && change.kind == ChangeKind::Created
        && change.is_by("ephemeral-volume-controller");
    if !is_creation {
        return Ok(());
    }
    let owner = &change.object["metadata"]["ownerReferences"][0];
    let is_owner = |pod: &&Value| pod["metadata"]["uid"] == owner["uid"];
    match state.recent("pods").find(is_owner) {
        Some(pod) if has_ephemeral(pod, &change.key) => Ok(()),
        Some(pod) => Err(format!("{} has no volume of {}", key_of(pod), change.key)),
        None => Err(format!("{} has no pod", change.key)),
    }
}

/// Whether the pod has an ephemeral volume with this claim.
fn has_ephemeral(pod: &Value, claim: &str) -> bool {
    let mut volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    volumes.any(|volume| {
        let name = volume["name"].as_str().unwrap_or_default();
        volume["ephemeral"].is_object() && format!("{}-{name}", key_of(pod)) == claim
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{check, object};
    use super::*;

    fn with_finalizer(mut object: Value, finalizer: &str) -> Value {
        object["metadata"]["finalizers"] = json!([finalizer]);
        object
    }

    #[test]
    fn a_finalizer_that_goes_too_early_breaks_the_rule() {
        let claim = || with_finalizer(object("a", json!({})), PROTECTIONS[0].1);
        let volume = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "a"}}]);
        let pod = |node: &str| object("p", json!({"nodeName": node, "volumes": volume}));
        let ephemeral = json!([{"name": "a", "ephemeral": {}}]);
        let scratch = object("p", json!({"nodeName": "n", "volumes": ephemeral}));
        let case = |why, user: Value, key: &str, kind, breaks| {
            let mut after = claim();
            after["metadata"]["name"] = json!(key);
            let before = after.clone();
            after["metadata"]["finalizers"] = json!([]);
            let world = vec![("pods", user), ("persistentvolumeclaims", before)];
            let plural = "persistentvolumeclaims";
            (
                why,
                world,
                "pvc-protection-controller",
                plural,
                kind,
                after,
                breaks,
            )
        };
        check(
            PROTECTED,
            [
                case("used", pod("n"), "a", ChangeKind::Deleted, true),
                case(
                    "finalizer of a used claim",
                    pod("n"),
                    "a",
                    ChangeKind::Updated,
                    true,
                ),
                case(
                    "pod without a node",
                    pod(""),
                    "a",
                    ChangeKind::Deleted,
                    false,
                ),
                case("another claim", pod("n"), "b", ChangeKind::Deleted, false),
                case(
                    "ephemeral volume",
                    scratch,
                    "p-a",
                    ChangeKind::Deleted,
                    true,
                ),
            ],
        );
    }

    #[test]
    fn a_pod_group_that_goes_before_its_pods_breaks_the_rule() {
        let pod = |group: &str, phase: &str| {
            let mut pod = object("p", json!({"schedulingGroup": {"podGroupName": group}}));
            pod["status"] = json!({"phase": phase});
            pod
        };
        let case = |why, user: Value, breaks| {
            let group = with_finalizer(object("g", json!({})), PROTECTIONS[3].1);
            let world = vec![("pods", user), ("podgroups", group.clone())];
            let by = "podgroup-protection-controller";
            let kind = ChangeKind::Deleted;
            (why, world, by, "podgroups", kind, group, breaks)
        };
        check(
            PROTECTED,
            [
                case("running pod", pod("g", "Running"), true),
                case("finished pod", pod("g", "Failed"), false),
                case("pod of another group", pod("h", "Running"), false),
            ],
        );
    }

    #[test]
    fn a_claim_without_its_pod_breaks_the_rule() {
        let claim = |uid: &str, name: &str| {
            let mut claim = object(name, json!({}));
            claim["metadata"]["ownerReferences"] = json!([{"kind": "Pod", "uid": uid}]);
            claim
        };
        let mut pod = object("p", json!({"volumes": [{"name": "v", "ephemeral": {}}]}));
        pod["metadata"]["uid"] = json!("u");
        let case = |why, uid: &str, name: &str, breaks| {
            (
                why,
                vec![("pods", pod.clone())],
                "ephemeral-volume-controller",
                "persistentvolumeclaims",
                ChangeKind::Created,
                claim(uid, name),
                breaks,
            )
        };
        check(
            OWN_CLAIM,
            [
                case("its claim", "u", "p-v", false),
                case("another volume", "u", "p-w", true),
                case("another pod", "x", "p-v", true),
            ],
        );
    }
}
