//! Whether a pod uses a claim, for two purposes.

use steersman_helpers::pods_by_claim::claim_of;
use steersman_objects::{PersistentVolumeClaim, Pod, VolumeSource};

/// A purpose for which pods use claims.
///
/// Upstream: `podUsageCheckFunc`.
pub(super) type Usage = fn(&Pod, &PersistentVolumeClaim) -> bool;

/// Whether `pod` holds a deleted claim. Pods without a node hold none, because no node starts a pod
/// with a deleted claim. Upstream: `podUsesPVCForDeletion`.
///
/// A finished pod on a node holds its claim as well, until it is deleted.
pub(super) fn holds(pod: &Pod, claim: &PersistentVolumeClaim) -> bool {
    pod.node.is_some() && has_volume_of(pod, claim, !is_shut_down(pod))
}

/// Whether `pod` refers to the claim and may still use it, with or without a node. Upstream:
/// `podUsesPVCForUnusedSince`.
///
/// A pod without a node counts here, because it may still be scheduled. In `holds`, such a pod is
/// ignored.
pub(super) fn refers(pod: &Pod, claim: &PersistentVolumeClaim) -> bool {
    !pod.is_terminated() && has_volume_of(pod, claim, true)
}

/// Whether `pod` has a volume of the claim. An `ephemeral` volume counts if `with_ephemeral` is set
/// and the pod controls the claim.
///
/// The check of the controller matters for `ephemeral`: the claim of that name may be a foreign one.
/// The pod then never starts with it.
fn has_volume_of(pod: &Pod, claim: &PersistentVolumeClaim, with_ephemeral: bool) -> bool {
    pod.volumes.iter().any(|volume| {
        claim_of(pod, volume).is_some_and(|name| *name == *claim.meta.name)
            && match volume.source {
                VolumeSource::Ephemeral(_) => {
                    with_ephemeral && claim.meta.is_controlled_by(&pod.meta.uid)
                }
                VolumeSource::Claim(_)
                | VolumeSource::InlineCsi(_)
                | VolumeSource::Inline { .. } => true,
            }
    })
}

/// Whether only finalizers hold the pod. If one of them waits for the claim of the pod, the claim
/// must go first. Upstream: `podIsShutDown`.
///
/// The kubelet sets the period to zero after it has unmounted the volumes, and so does a forced
/// deletion.
fn is_shut_down(pod: &Pod) -> bool {
    pod.meta.is_terminating() && pod.details().deletion_grace_period_seconds == Some(0)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use steersman_objects::Object;

    use super::*;

    fn claim(controller: Option<&str>) -> PersistentVolumeClaim {
        let owner = controller.map(|uid| {
            json!({"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": uid, "controller": true})
        });
        let owners: Vec<Value> = owner.into_iter().collect();
        let metadata = json!({"name": "a-b", "namespace": "n", "ownerReferences": owners});
        let json = json!({ "metadata": metadata });
        PersistentVolumeClaim::decode(json.to_string().as_bytes()).unwrap()
    }

    fn pod(volume: &Value, fields: Value) -> Pod {
        let mut pod = json!({
            "metadata": {"name": "a", "namespace": "n", "uid": "u"},
            "spec": {"nodeName": "node", "volumes": [volume]}, "status": {"phase": "Running"},
        });
        for (part, fields) in fields.as_object().unwrap() {
            for (field, value) in fields.as_object().unwrap() {
                pod[part][field] = value.clone();
            }
        }
        Pod::decode(pod.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn a_claim_is_used_by_its_pods() {
        let by_name = json!({"name": "v", "persistentVolumeClaim": {"claimName": "a-b"}});
        let ephemeral = json!({"name": "b", "ephemeral": {"volumeClaimTemplate": {}}});
        let other = json!({"name": "b", "persistentVolumeClaim": {"claimName": "b"}});
        let at = "2026-01-02T03:04:05Z";
        let deleted = |seconds: i64| json!({"metadata": {"deletionTimestamp": at, "deletionGracePeriodSeconds": seconds}});
        let unbound = json!({"spec": {"nodeName": ""}});
        let finished = json!({"status": {"phase": "Failed"}});
        // (case, volume, fields of the pod, controller of the claim, held, referred to)
        let cases = [
            ("by name", &by_name, json!({}), None, true, true),
            ("another name", &other, json!({}), None, false, false),
            ("without a node", &by_name, unbound, None, false, true),
            ("finished", &by_name, finished, None, true, false),
            ("forced", &by_name, deleted(0), None, true, false),
            ("ephemeral", &ephemeral, json!({}), Some("u"), true, true),
            (
                "owned by another",
                &ephemeral,
                json!({}),
                Some("x"),
                false,
                false,
            ),
            (
                "without an owner",
                &ephemeral,
                json!({}),
                None,
                false,
                false,
            ),
            (
                "ephemeral, ending",
                &ephemeral,
                deleted(30),
                Some("u"),
                true,
                false,
            ),
            (
                "ephemeral, shut down",
                &ephemeral,
                deleted(0),
                Some("u"),
                false,
                false,
            ),
        ];
        for (case, volume, fields, controller, is_held, is_referred_to) in cases {
            let pod = pod(volume, fields);
            let claim = claim(controller);
            let found = (holds(&pod, &claim), refers(&pod, &claim));
            assert_eq!(found, (is_held, is_referred_to), "{case}");
        }
    }
}
