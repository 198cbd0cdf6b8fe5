//! The identity of a pod: its ordinal, its name, and the claims that it mounts.
//!
//! The identity of a pod stays when the pod is replaced. Upstream: `getParentNameAndOrdinal`,
//! `identityMatches` and `storageMatches` in `stateful_set_utils.go`.
//!
//! A name decides, and no label: labels may be wrong, and a name never changes.

use std::ops::Range;

use steersman_objects::{Pod, StatefulSet, VolumeSource};
use steersman_values::intern::Sym;

/// The label of a pod with its own name. A Service can select one pod by it. Upstream:
/// `StatefulSetPodNameLabel`.
pub(super) const POD_NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";
/// The label of a pod with its ordinal. Upstream: `PodIndexLabel`.
pub(super) const POD_INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";

/// The ordinal in the name of a pod. `None` if the name does not end in a dash and a 32-bit number.
///
/// Upstream: `getOrdinal`. A number beyond 32 bits gives none, although the pod is a member: `is_member`
/// decides with the text alone.
pub(super) fn ordinal(pod: &str) -> Option<i64> {
    let (_, digits) = parent_and_digits(pod)?;
    digits.parse::<i32>().ok().map(i64::from)
}

/// Whether `pod` is the name of a pod of the set `set`, with any number as ordinal. Upstream: `isMemberOf`.
/// Other pods that match the selector are not adopted.
pub(super) fn is_member(set: &str, pod: &str) -> bool {
    parent_and_digits(pod).is_some_and(|(parent, _)| parent == set)
}

/// `web` and `01` for `web-01`. Upstream: `statefulPodRegex`, which takes the last dash.
fn parent_and_digits(pod: &str) -> Option<(&str, &str)> {
    let (parent, digits) = pod.rsplit_once('-')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then_some((parent, digits))
}

/// The ordinals of the pods that the spec of `set` asks for. Upstream: `getStartOrdinal` and `getEndOrdinal`.
pub(super) fn ordinals(set: &StatefulSet) -> Range<i64> {
    let start = i64::from(set.spec.start_ordinal);
    start..start + i64::from(set.spec.replicas)
}

/// The name of the pod with this ordinal. Upstream: `getPodName`. It is the reason for "at most one pod per
/// ordinal": a second POST meets `AlreadyExists`.
pub(super) fn pod_name(set: &str, ordinal: i64) -> String {
    format!("{set}-{ordinal}")
}

/// The name of the claim that the pod with this ordinal has for the claim template `template`. Upstream:
/// `getPersistentVolumeClaimName`. Its `ChooseZoneForVolume` spreads volumes over zones by this form.
pub(super) fn claim_name(set: &str, template: &str, ordinal: i64) -> String {
    format!("{template}-{set}-{ordinal}")
}

/// Whether `pod` has the name of its ordinal, and the label with it.
///
/// A pod such as `web-01` has an ordinal and not its name, so it never matches.
pub(super) fn identity_matches(set: &StatefulSet, pod: &Pod) -> bool {
    let name = &*pod.meta.name;
    let label = pod.meta.labels.get(POD_NAME_LABEL).map(Sym::as_str);
    ordinal(name).is_some_and(|ordinal| name == pod_name(&set.meta.name, ordinal))
        && label == Some(name)
        && pod.meta.namespace == set.meta.namespace
}

/// Whether `pod` mounts the claim of each claim template, under the name of the template.
///
/// Additional volumes do not matter. Of volumes with one name the last counts, as in upstream's map.
pub(super) fn storage_matches(set: &StatefulSet, pod: &Pod) -> bool {
    let Some(ordinal) = ordinal(&pod.meta.name) else {
        return false;
    };
    set.spec.claim_templates.iter().all(|template| {
        let claim = claim_name(&set.meta.name, template, ordinal);
        let volume = pod.volumes.iter().rev().find(|v| v.name == *template);
        volume.is_some_and(|v| matches!(&v.source, VolumeSource::Claim(name) if **name == *claim))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::pods::{PodBuilder, pod};
    use crate::testing::stateful_set;

    #[test]
    fn get_parent_name_and_ordinal() {
        // (pod, name of the set, ordinal)
        let cases = [
            ("foo-3", Some("foo"), Some(3)),
            ("foo-bar-3", Some("foo-bar"), Some(3)),
            ("a-1-2", Some("a-1"), Some(2)),
            ("web-01", Some("web"), Some(1)),
            ("foo-2147483647", Some("foo"), Some(2_147_483_647)),
            ("foo-2147483648", Some("foo"), None),
            ("foo-", None, None),
            ("foo", None, None),
            ("foo-x", None, None),
            ("foo-+3", None, None),
            ("1", None, None),
            ("-1", Some(""), Some(1)),
        ];
        for (name, parent, expected) in cases {
            assert_eq!(ordinal(name), expected, "{name}");
            assert_eq!(parent_and_digits(name).map(|(p, _)| p), parent, "{name}");
            if let Some(parent) = parent {
                assert!(
                    is_member(parent, name) && !is_member("other", name),
                    "{name}"
                );
            }
        }
    }

    fn member() -> PodBuilder {
        pod("foo-1").labels(json!({POD_NAME_LABEL: "foo-1", POD_INDEX_LABEL: "1"}))
    }

    #[test]
    fn identity_matches_by_name_and_label() {
        let set = stateful_set("foo").replicas(3).build();
        let unlabelled = json!({"app": "web"});
        // (why, pod, matches)
        let cases = [
            ("newly created Pod", member(), true),
            (
                "name of another set",
                pod("bar-1").labels(json!({POD_NAME_LABEL: "bar-1"})),
                false,
            ),
            (
                "another namespace",
                member().metadata("namespace", "other"),
                false,
            ),
            ("without the label", member().labels(unlabelled), false),
            (
                "label of another pod",
                member().labels(json!({POD_NAME_LABEL: "foo-2"})),
                false,
            ),
            (
                "leading zero",
                pod("foo-01").labels(json!({POD_NAME_LABEL: "foo-01"})),
                false,
            ),
            (
                "no ordinal",
                pod("foo").labels(json!({POD_NAME_LABEL: "foo"})),
                false,
            ),
            (
                "without the index label",
                member().labels(json!({POD_NAME_LABEL: "foo-1"})),
                true,
            ),
        ];
        for (why, pod, expected) in cases {
            let pod = pod.build();
            let found = identity_matches(&set, &pod) && is_member("foo", &pod.meta.name);
            assert_eq!(found, expected, "{why}");
        }
    }

    #[test]
    fn storage_matches_by_volume_and_claim_name() {
        let set = stateful_set("foo").claims(&["datadir", "datadir2"]).build();
        let claim = |name: &str, claim: &str| json!({"name": name, "persistentVolumeClaim": {"claimName": claim}});
        let first = claim("datadir", "datadir-foo-1");
        let second = claim("datadir2", "datadir2-foo-1");
        // (why, volumes, matches)
        let cases = [
            ("newly created Pod", json!([first, second]), true),
            (
                "other volumes too",
                json!([{"name": "tmp", "emptyDir": {}}, second, first]),
                true,
            ),
            ("no volumes", json!([]), false),
            ("one volume is missing", json!([first]), false),
            (
                "another claim",
                json!([first, claim("datadir2", "datadir2-foo-2")]),
                false,
            ),
            (
                "another source",
                json!([first, {"name": "datadir2", "emptyDir": {}}]),
                false,
            ),
            (
                "swapped",
                json!([
                    claim("datadir", "datadir2-foo-1"),
                    claim("datadir2", "datadir-foo-1")
                ]),
                false,
            ),
        ];
        for (why, volumes, expected) in cases {
            let pod = member().spec("volumes", volumes).build();
            assert_eq!(storage_matches(&set, &pod), expected, "{why}");
        }
        let bare = stateful_set("foo").build();
        assert!(
            storage_matches(&bare, &member().build()),
            "no claim templates"
        );
        assert!(!storage_matches(&bare, &pod("foo").build()), "no ordinal");
    }
}
