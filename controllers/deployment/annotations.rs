//! The annotations that keep revisions and sizes on a Deployment and its ReplicaSets.
//!
//! They are the only memory of the controller beside the status, so a new leader can continue a
//! rollout. Names and rules are those of upstream's `deployment/util/deployment_util.go`.
//!
//! `kubectl rollout history` and `kubectl rollout undo` read them too, so their form is part of the API.

use steersman_objects::{Annotations, Deployment, ReplicaSet};

use super::limits;

/// Number of the pod template: on a ReplicaSet its own, on the Deployment that of the new
/// ReplicaSet. Upstream: `RevisionAnnotation`.
pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
/// Earlier revisions of a ReplicaSet that became the new one again, comma separated. Upstream:
/// `RevisionHistoryAnnotation`.
pub(super) const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// `spec.replicas` of the Deployment when it last set the size of the ReplicaSet. A difference to the present
/// value is a scaling event. Upstream: `DesiredReplicasAnnotation`.
pub(super) const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
/// `spec.replicas` plus the surge, at the same time. Proportional scaling divides by it. Upstream:
/// `MaxReplicasAnnotation`.
pub(super) const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";
/// Requests a rollback to a revision. It replaces the field `spec.rollbackTo` of
/// `extensions/v1beta1`. Upstream: `DeprecatedRollbackTo` of `apps`.
pub(super) const ROLLBACK_TO: &str = "deprecated.deployment.rollback.to";

/// Annotations that a Deployment and its ReplicaSets do not share. Upstream: `annotationsToSkip`. The applied
/// configuration of `kubectl` describes the Deployment alone.
const NOT_COPIED: [&str; 6] = [
    Annotations::LAST_APPLIED,
    REVISION,
    REVISION_HISTORY,
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    ROLLBACK_TO,
];

/// Whether a Deployment copies this annotation to its new ReplicaSet, and a rollback copies it
/// back. Upstream: `skipCopyAnnotation`, negated.
pub(super) fn is_copied(key: &str) -> bool {
    !NOT_COPIED.contains(&key)
}

/// The annotations of `d` that `rs` lacks, or has with another value. The controller never removes
/// an annotation from a ReplicaSet. Upstream: `copyDeploymentAnnotationsToReplicaSet`. So an annotation that
/// a user removes from `d` stays on its ReplicaSets.
pub(super) fn missing<'a>(
    d: &'a Deployment,
    rs: &'a Annotations,
) -> impl Iterator<Item = (&'a str, &'a str)> {
    d.annotations
        .iter()
        .filter(|(key, value)| is_copied(key) && rs.get(key) != Some(*value))
}

/// The size annotations of a ReplicaSet of `d`. Upstream: `SetReplicasAnnotations`.
pub(super) fn sizes(d: &Deployment) -> [(&'static str, String); 2] {
    [
        (DESIRED_REPLICAS, d.spec.replicas.to_string()),
        (MAX_REPLICAS, limits::max_replicas(d).to_string()),
    ]
}

/// Whether the size annotations of `rs` are those of `d`. Upstream: `ReplicasAnnotationsNeedUpdate`. Texts
/// are compared, so `010` counts as outdated.
pub(super) fn sizes_are_current(d: &Deployment, rs: &ReplicaSet) -> bool {
    sizes(d)
        .iter()
        .all(|(key, value)| rs.annotations.get(key) == Some(value))
}

/// The annotation as a number from 0 to 2147483647; `None` for any other text and for a sign. Upstream:
/// `getNonNegativeInt32FromAnnotation`.
pub(super) fn non_negative(annotations: &Annotations, key: &str) -> Option<i32> {
    let text = annotations.get(key)?;
    // Rust's parser takes a leading plus, Go's ParseUint does not.
    if text.starts_with(['+', '-']) {
        None
    } else {
        text.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{deployment, replica_set};

    #[test]
    fn test_get_non_negative_int32_from_annotation() {
        // (name, value, expected)
        let cases = [
            ("invalid empty", None, None),
            ("invalid", Some("invalid"), None),
            ("invalid negative", Some("-1"), None),
            ("valid zero", Some("0"), Some(0)),
            ("valid", Some("13"), Some(13)),
            ("valid max", Some("2147483647"), Some(i32::MAX)),
            ("invalid max out of range", Some("2147483648"), None),
            ("invalid max out of range 2", Some("4294967296"), None),
            ("a sign", Some("+13"), None),
        ];
        for (name, value, expected) in cases {
            let pairs = [("foo", "2")];
            let annotations = Annotations::new(pairs.into_iter().chain(value.map(|v| ("test", v))));
            assert_eq!(non_negative(&annotations, "test"), expected, "{name}");
        }
    }

    #[test]
    fn test_replicas_annotations_need_update() {
        let d = deployment("web").replicas(10).rolling(10, 0).build();
        // (name, desired, max, needs update)
        let cases = [
            ("test Annotations nil", None, None, true),
            ("test desiredReplicas update", Some("8"), Some("20"), true),
            ("test maxReplicas update", Some("10"), Some("16"), true),
            ("test needn't update", Some("10"), Some("20"), false),
        ];
        for (name, desired, max, expected) in cases {
            let mut rs = replica_set("hello");
            for (key, value) in [(DESIRED_REPLICAS, desired), (MAX_REPLICAS, max)] {
                rs = value
                    .into_iter()
                    .fold(rs, |rs, value| rs.annotation(key, value));
            }
            assert_eq!(!sizes_are_current(&d, &rs.build()), expected, "{name}");
        }
    }

    #[test]
    fn only_annotations_of_users_are_copied() {
        let d = deployment("web")
            .annotation("team", "a")
            .annotation("same", "x")
            .annotation("new", "y");
        let d = NOT_COPIED
            .iter()
            .fold(d, |d, key| d.annotation(key, "1"))
            .build();
        let rs = replica_set("web-1")
            .annotation("team", "b")
            .annotation("same", "x")
            .annotation("own", "z")
            .build();
        let copied: Vec<_> = missing(&d, &rs.annotations).collect();
        assert_eq!(copied, [("new", "y"), ("team", "a")]);
    }
}
