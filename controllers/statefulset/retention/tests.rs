//! The owners of claims: the cases of upstream's tests in `stateful_set_utils_test.go`.

use steersman_objects::Uid;

use super::*;
use crate::testing::{StatefulSetBuilder, stateful_set};

const DELETE: &str = "Delete";
const RETAIN: &str = "Retain";

/// A set with this name and UID, and a retention policy (when scaled, when deleted).
fn set(name: &str, uid: &str, replicas: i32, (scaled, deleted): (&str, &str)) -> StatefulSet {
    let set: StatefulSetBuilder = stateful_set(name).metadata("uid", uid).replicas(replicas);
    set.retention(deleted, scaled).build()
}

fn pod<'a>(name: &'a str, uid: &str) -> PodIdentity<'a> {
    PodIdentity {
        name,
        uid: Uid::new(uid),
    }
}

fn claim(references: &[Value]) -> PersistentVolumeClaim {
    let metadata = json!({"name": "target-claim", "uid": "c", "ownerReferences": references});
    let json = json!({"metadata": metadata, "spec": {"fromTheFuture": 1}});
    PersistentVolumeClaim::decode(json.to_string().as_bytes()).unwrap()
}

/// A reference `apiVersion kind name uid`. A controller has an asterisk at the end.
fn reference(text: &str) -> Value {
    let (text, controller) = match text.strip_suffix('*') {
        Some(text) => (text, true),
        None => (text, false),
    };
    let [api_version, kind, name, uid] = text.splitn(4, ' ').collect::<Vec<_>>()[..] else {
        panic!("{text}: four words")
    };
    let mut reference = json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": uid});
    if controller {
        reference["controller"] = json!(true);
    }
    reference
}

fn references(texts: &[&str]) -> Vec<Value> {
    texts.iter().map(|text| reference(text)).collect()
}

/// The corrected claim that had these references.
fn corrected(owners: &Owners<'_>, references: &[Value]) -> Value {
    serde_json::from_str(owners.corrected(&claim(references)).get()).unwrap()
}

/// The references of a claim in the form of [`reference`].
fn texts(object: &Value) -> Vec<String> {
    let references = object["metadata"]["ownerReferences"].as_array();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let reference = |owner: &Value| {
        let fields = ["apiVersion", "kind", "name", "uid"].map(|field| text(&owner[field]));
        let mark = if owner["controller"] == true { "*" } else { "" };
        format!("{}{mark}", fields.join(" "))
    };
    references.into_iter().flatten().map(reference).collect()
}

#[test]
fn is_claim_owner_up_to_date() {
    // (name, when scaled and when deleted, replicas, ordinal, needs pod, needs set)
    let cases = [
        ("retain", (RETAIN, RETAIN), 0, 0, false, false),
        ("on SS delete", (RETAIN, DELETE), 0, 0, false, true),
        (
            "on scaledown only, condemned",
            (DELETE, RETAIN),
            2,
            2,
            true,
            false,
        ),
        (
            "on scaledown only, remains",
            (DELETE, RETAIN),
            2,
            1,
            false,
            false,
        ),
        ("on both, condemned", (DELETE, DELETE), 2, 2, true, false),
        ("on both, remains", (DELETE, DELETE), 2, 1, false, true),
        ("an unknown policy", ("Keep", DELETE), 2, 2, false, false),
    ];
    for (name, policy, replicas, ordinal, needs_pod, needs_set) in cases {
        let set = set("stateful-set", "ss-456", replicas, policy);
        let pod_name = format!("pod-{ordinal}");
        let owners = Owners::new(&set, pod(&pod_name, "pod-123"));
        for variation in 0..8 {
            let [others, has_pod, has_set] = [1, 2, 4].map(|bit| variation & bit != 0);
            let mut found = Vec::new();
            if has_pod {
                found.push(reference(&format!("v1 Pod {pod_name} pod-123*")));
            }
            if has_set {
                found.push(reference("apps/v1 StatefulSet stateful-set ss-456*"));
            }
            if others {
                found.extend(references(&[
                    "v1 Pod rand1 rand1-uid",
                    "v1 Pod rand2 rand2-uid",
                ]));
            }
            let expected = (has_pod, has_set) == (needs_pod, needs_set);
            assert_eq!(
                owners.are_right(&claim(&found)),
                expected,
                "{name}: {found:?}"
            );
        }
    }
}

#[test]
fn claim_owner_up_to_date_edge_cases() {
    let on_both = (DELETE, DELETE);
    let on_delete = (RETAIN, DELETE);
    // (name, references, policy, right)
    let cases: [(&str, &[&str], _, bool); 8] = [
        (
            "normal controller, pod",
            &["v1 Pod pod-1 pod-123*"],
            on_both,
            true,
        ),
        (
            "non-controller causes policy mismatch, pod",
            &["v1 Pod pod-1 pod-123"],
            on_both,
            false,
        ),
        (
            "stale controller does not affect policy, pod",
            &["v1 Pod pod-1 pod-stale*"],
            on_both,
            true,
        ),
        (
            "unexpected controller causes policy mismatch, pod",
            &["v1 Pod pod-1 pod-123*", "v1 Pod Random random*"],
            on_both,
            false,
        ),
        (
            "normal controller, set",
            &["apps/v1 StatefulSet stateful-set ss-456*"],
            on_delete,
            true,
        ),
        (
            "non-controller causes policy mismatch, set",
            &["appsv1 StatefulSet stateful-set ss-456"],
            on_delete,
            false,
        ),
        (
            "stale controller ignored, set",
            &["apps/v1 StatefulSet stateful-set set-stale*"],
            on_delete,
            true,
        ),
        (
            "unexpected controller causes policy mismatch, set",
            &[
                "apps/v1 StatefulSet stateful-set ss-456*",
                "apps/v1 StatefulSet Random random*",
            ],
            on_delete,
            false,
        ),
    ];
    for (name, found, policy, expected) in cases {
        let set = set("stateful-set", "ss-456", 1, policy);
        let owners = Owners::new(&set, pod("pod-1", "pod-123"));
        assert_eq!(
            owners.are_right(&claim(&references(found))),
            expected,
            "{name}"
        );
    }
}

#[test]
fn update_claim_owner_ref_for_set_and_pod() {
    // (name, when scaled and when deleted, condemned, owner)
    let cases = [
        ("retain", (RETAIN, RETAIN), false, ""),
        ("delete with set", (RETAIN, DELETE), false, "set"),
        (
            "delete with scaledown, not condemned",
            (DELETE, RETAIN),
            false,
            "",
        ),
        (
            "delete on scaledown, condemned",
            (DELETE, RETAIN),
            true,
            "pod",
        ),
        (
            "delete on both, not condemned",
            (DELETE, DELETE),
            false,
            "set",
        ),
        ("delete on both, condemned", (DELETE, DELETE), true, "pod"),
        ("unexpected controller", (DELETE, DELETE), true, ""),
    ];
    for (name, policy, condemned, owner) in cases {
        let set = set("ss", "ss-123", 5, policy);
        let pod_name = if condemned { "pod-8" } else { "pod-1" };
        let of_pod = format!("v1 Pod {pod_name} pod-456*");
        let of_set = "apps/v1 StatefulSet ss ss-123*";
        let unexpected = "custom/v1 Unknown unknown xyz*";
        let extra = "custom/v1 random random abc";
        let owners = Owners::new(&set, pod(pod_name, "pod-456"));
        for variation in 0..8 {
            let mut before = Vec::new();
            let mut after = Vec::new();
            for (bit, text) in [(1, &*of_pod), (2, of_set)] {
                if variation & bit != 0 {
                    before.push(text);
                }
            }
            if variation & 4 != 0 {
                before.push(extra);
                after.push(extra);
            }
            if name == "unexpected controller" {
                before.push(unexpected);
                after.push(unexpected);
            }
            match owner {
                "pod" => after.push(&of_pod),
                "set" => after.push(of_set),
                _ => {}
            }
            let corrected = corrected(&owners, &references(&before));
            assert_eq!(texts(&corrected), after, "{name}: {before:?}");
            assert_eq!(corrected["spec"], json!({"fromTheFuture": 1}), "{name}");
            let references = &corrected["metadata"].get("ownerReferences");
            assert_eq!(
                references.is_some(),
                !after.is_empty(),
                "{name}: no empty list"
            );
        }
    }
}

#[test]
fn update_claim_controller_ref() {
    let ours = "apps/v1 StatefulSet sts 123*";
    // (name, before, after)
    let cases: [(&str, &[&str], &[&str]); 6] = [
        (
            "set correctly",
            &[ours, "someone Else foo "],
            &["someone Else foo ", ours],
        ),
        (
            "missing controller",
            &["apps/v1 StatefulSet sts 123"],
            &[ours],
        ),
        (
            "matching name but missing",
            &["someone else sts 456"],
            &["someone else sts 456", ours],
        ),
        ("not present", &[], &[ours]),
        (
            "controller, but no UID",
            &["apps/v1 StatefulSet sts *"],
            &[],
        ),
        (
            "neither controller nor UID",
            &["apps/v1 StatefulSet sts "],
            &[],
        ),
    ];
    for (name, before, after) in cases {
        let set = set("sts", "123", 1, (DELETE, DELETE));
        let owners = Owners::new(&set, pod("pod-0", "456"));
        let corrected = corrected(&owners, &references(before));
        assert_eq!(texts(&corrected), after, "{name}");
    }
}

#[test]
fn a_corrected_claim_is_right() {
    for policy in [
        (RETAIN, RETAIN),
        (RETAIN, DELETE),
        (DELETE, RETAIN),
        (DELETE, DELETE),
    ] {
        for name in ["pod-0", "pod-7"] {
            let of_pod = format!("v1 Pod {name} 456");
            let before = [
                &*of_pod,
                "apps/v1 StatefulSet sts 123",
                "custom/v1 random random abc",
            ];
            let set = set("sts", "123", 1, policy);
            let owners = Owners::new(&set, pod(name, "456"));
            let corrected = corrected(&owners, &references(&before));
            let again = PersistentVolumeClaim::decode(corrected.to_string().as_bytes()).unwrap();
            assert!(owners.are_right(&again), "{policy:?} {name}: {corrected}");
        }
    }
}

#[test]
fn has_unexpected_controller() {
    let custom = "chipmunks/v1 CustomController simon other-uid";
    let custom_controller = "chipmunks/v1 CustomController simon other-uid*";
    // (name, references, unexpected)
    let cases: [(&str, &[&str], bool); 10] = [
        ("custom controller", &[custom_controller], true),
        ("custom non-controller", &[custom], false),
        ("other pod controller", &["v1 Pod simon other-uid*"], true),
        (
            "other set controller",
            &["apps/v1 Set simon other-uid*"],
            true,
        ),
        (
            "own set controller",
            &["apps/v1 StatefulSet set set-uid*"],
            false,
        ),
        (
            "own set controller, stale uid",
            &["apps/v1 StatefulSet set stale-uid*"],
            true,
        ),
        ("own pod controller", &["v1 Pod pod pod-uid*"], false),
        (
            "own pod controller, stale uid",
            &["v1 Pod pod stale-uid*"],
            true,
        ),
        (
            "own controller and another",
            &["v1 Pod pod pod-uid*", custom_controller],
            true,
        ),
        (
            "own controller and a non-controller",
            &["v1 Pod pod pod-uid*", custom],
            false,
        ),
    ];
    for (name, found, expected) in cases {
        let claim = claim(&references(found));
        for policy in [
            (RETAIN, RETAIN),
            (DELETE, RETAIN),
            (RETAIN, DELETE),
            (DELETE, DELETE),
        ] {
            let set = set("set", "set-uid", 1, policy);
            let owners = Owners::new(&set, pod("pod", "pod-uid"));
            let found = owners.has_unexpected_controller(&claim);
            assert_eq!(
                found,
                expected && policy != (RETAIN, RETAIN),
                "{name}: {policy:?}"
            );
        }
    }
}

#[test]
fn non_controller() {
    // (name, references, whether one of ours is no controller)
    let cases: [(&str, &[&str], bool); 9] = [
        (
            "set and pod controller",
            &["v1 Pod pod pod*", "apps/v1 Set set set*"],
            false,
        ),
        (
            "set controller, pod noncontroller",
            &["v1 Pod pod pod", "apps/v1 Set set set*"],
            true,
        ),
        (
            "set noncontroller, pod controller",
            &["v1 Pod pod pod*", "apps/v1 Set set set"],
            true,
        ),
        ("set controller", &["apps/v1 Set set set*"], false),
        ("pod controller", &["v1 Pod pod pod*"], false),
        ("nothing", &[], false),
        ("set noncontroller", &["apps/v1 Set set set"], true),
        ("pod noncontroller", &["v1 pod pod pod"], true),
        ("other noncontroller", &["v1 pod pod not-matching"], false),
    ];
    for (name, found, expected) in cases {
        let set = set("set", "set", 1, (RETAIN, RETAIN));
        let owners = Owners::new(&set, pod("pod", "pod"));
        let claim = claim(&references(found));
        assert_eq!(
            owners.has_non_controller(&claim.meta.owners),
            expected,
            "{name}"
        );
    }
}

#[test]
fn has_stale_owner_ref() {
    let claim = claim(&references(&["v1 Pod bob 123", "v1 Pod shirley 456"]));
    let set = set("set", "set", 1, (DELETE, RETAIN));
    for (name, uid, expected) in [
        ("bob", "123", false),
        ("shirley", "789", true),
        ("yvonne", "345", false),
    ] {
        let owners = Owners::new(&set, pod(name, uid));
        assert_eq!(owners.has_stale_pod(&claim.meta.owners), expected, "{name}");
    }
}

#[test]
fn matches_ref() {
    let set = set("fred", "abc", 1, (DELETE, DELETE));
    let owners = Owners::new(&set, pod("fred", "abc"));
    // (reference, is the set, is the pod)
    let cases = [
        ("v1 Pod fred abc", false, true),
        ("v1 Pod barney abc", false, false),
        ("v2 Pod fred abc", false, false),
        ("v1 MyPod fred abc", false, false),
        ("apps/v1 StatefulSet fred x", true, false),
    ];
    for (text, is_set, is_pod) in cases {
        let claim = claim(&[reference(text)]);
        let owner = &claim.meta.owners[0];
        assert_eq!(
            (owners.is_set(owner), owners.is_pod(owner)),
            (is_set, is_pod),
            "{text}"
        );
    }
}

#[test]
fn claims_of_earlier_pods_are_stale() {
    // (name, when scaled, references, stale), for a pod that does not exist yet
    let cases: [(&str, &str, &[&str], bool); 5] = [
        ("missing owner", DELETE, &[], false),
        ("retained", RETAIN, &["v1 Pod web-0 old*"], false),
        ("earlier pod", DELETE, &["v1 Pod web-0 old*"], true),
        (
            "earlier pod, no controller",
            DELETE,
            &["v1 Pod web-0 old"],
            true,
        ),
        ("another pod", DELETE, &["v1 Pod web-1 old*"], false),
    ];
    for (name, scaled, found, expected) in cases {
        let set = set("web", "set", 1, (scaled, RETAIN));
        let owners = Owners::new(&set, PodIdentity::new("web-0"));
        assert_eq!(
            owners.is_stale(&claim(&references(found))),
            expected,
            "{name}"
        );
    }
}
