//! Rollback on request of the annotation `deprecated.deployment.rollback.to`.
//!
//! Only clients that still send `rollbackTo` of `extensions/v1beta1` set it. `kubectl rollout undo`
//! patches the template itself. Upstream: `rollback.go`.
//!
//! A rollback only changes the template. The next sync rolls it out like any other change, with a new
//! revision number.

use std::sync::Arc;

use serde_json::{Map, Value};
use steersman_objects::{Deployment, ReplicaSet};

use super::annotations::{self, ROLLBACK_TO};
use super::document::entry;
use super::new_replica_set::POD_TEMPLATE_HASH;
use super::replica_sets::ReplicaSets;
use super::revision;

/// The outcome of a rollback request. In every case the controller removes the annotation. Else the request
/// would be repeated in each sync.
#[derive(Debug)]
pub(super) enum Rollback {
    /// The revision does not exist; the text is the message of the Event.
    NotFound(&'static str),
    /// The revision has the same template as the Deployment.
    Unchanged,
    /// The Deployment gets the template of this ReplicaSet.
    To {
        /// The ReplicaSet with the template.
        set: Arc<ReplicaSet>,
        /// Its revision.
        revision: i64,
    },
}

/// The requested revision of `d`; 0 means the previous one. Unreadable requests count as absent. Upstream:
/// `getRollbackTo`. An unreadable annotation stays on the Deployment.
pub(super) fn requested(d: &Deployment) -> Option<i64> {
    d.annotations.get(ROLLBACK_TO)?.parse().ok()
}

/// Decides on a rollback of `d` to `revision`.
///
/// Upstream: `rollback`. The first match counts, old ReplicaSets first. The new ReplicaSet may be the match,
/// and then nothing changes.
pub(super) fn decide(d: &Deployment, sets: &ReplicaSets, revision: i64) -> Rollback {
    let revision = if revision == 0 {
        revision::last(sets.all())
    } else {
        revision
    };
    if revision == 0 {
        return Rollback::NotFound("Unable to find last revision.");
    }
    match sets
        .all()
        .find(|rs| revision::revision(rs) == Some(revision))
    {
        None => Rollback::NotFound("Unable to find the revision to rollback to."),
        Some(set) if set.spec.template.equal_ignoring_hash(&d.spec.template) => Rollback::Unchanged,
        Some(set) => Rollback::To {
            set: Arc::clone(set),
            revision,
        },
    }
}

/// `d` without the request, and with template and annotations of `to` if it is given.
///
/// The annotations belong to the template, such as `kubernetes.io/change-cause`. All other
/// annotations that users set on `d` are lost, as in upstream's `setDeploymentAnnotationsTo`.
///
/// Upstream: `updateDeploymentAndClearRollbackTo`.
pub(super) fn object(d: &Deployment, to: Option<&ReplicaSet>) -> Map<String, Value> {
    let mut object = d.document.to_object();
    let mut wanted = std::mem::take(entry(entry(&mut object, "metadata"), "annotations"));
    if let Some(rs) = to {
        wanted.retain(|key, _| !annotations::is_copied(key));
        wanted.extend(
            rs.annotations
                .iter()
                .filter(|(key, _)| annotations::is_copied(key))
                .map(|(key, value)| (key.to_owned(), Value::from(value))),
        );
        let mut source = rs.document.to_object();
        let template = entry(entry(&mut source, "spec"), "template");
        entry(entry(template, "metadata"), "labels").remove(POD_TEMPLATE_HASH);
        object["spec"]["template"] = Value::Object(std::mem::take(template));
    }
    wanted.remove(ROLLBACK_TO);
    object["metadata"]["annotations"] = Value::Object(wanted);
    object
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::deployment::annotations::REVISION;
    use crate::testing::{deployment, replica_set};

    fn sets(new: i64, old: &[i64]) -> ReplicaSets {
        let set = |image: &str, revision: &i64| {
            Arc::new(
                replica_set(&format!("rs-{revision}"))
                    .image(image)
                    .annotation(REVISION, &revision.to_string())
                    .build(),
            )
        };
        ReplicaSets {
            new: Some(set("nginx", &new)),
            old: old.iter().map(|revision| set("old", revision)).collect(),
        }
    }

    #[test]
    fn a_request_is_a_whole_number() {
        for (text, expected) in [
            (None, None),
            (Some(""), None),
            (Some("x"), None),
            (Some("0"), Some(0)),
            (Some("7"), Some(7)),
        ] {
            let d = text
                .into_iter()
                .fold(deployment("web"), |d, text| d.annotation(ROLLBACK_TO, text))
                .build();
            assert_eq!(requested(&d), expected, "{text:?}");
        }
    }

    #[test]
    fn the_requested_revision_selects_the_replica_set() {
        let d = deployment("web").build();
        let last = "Unable to find last revision.";
        let any = "Unable to find the revision to rollback to.";
        // (why, new, old, requested, outcome)
        let cases: [(&str, i64, &[i64], i64, Result<&str, &str>); 7] = [
            ("previous of one", 1, &[], 0, Err(last)),
            ("previous of two", 2, &[1], 0, Ok("rs-1")),
            ("previous is second highest", 5, &[1, 4], 0, Ok("rs-4")),
            ("by number", 5, &[1, 4], 1, Ok("rs-1")),
            ("current", 5, &[1, 4], 5, Err("unchanged")),
            ("unknown", 5, &[1, 4], 3, Err(any)),
            ("negative", 5, &[1, 4], -1, Err(any)),
        ];
        for (why, new, old, requested, expected) in cases {
            let outcome = match decide(&d, &sets(new, old), requested) {
                Rollback::NotFound(message) => Err(message.to_owned()),
                Rollback::Unchanged => Err("unchanged".to_owned()),
                Rollback::To { set, .. } => Ok(set.meta.name.to_string()),
            };
            assert_eq!(
                outcome.as_deref().map_err(String::as_str),
                expected,
                "{why}"
            );
        }
    }

    #[test]
    fn template_and_annotations_come_from_the_replica_set() {
        let d = deployment("web")
            .annotation(ROLLBACK_TO, "1")
            .annotation(REVISION, "2")
            .annotation("change-cause", "edit")
            .annotation("lost", "x")
            .metadata("unknownField", "kept")
            .build();
        let rs = replica_set("web-1")
            .image("old")
            .annotation(REVISION, "1")
            .annotation("change-cause", "create");
        let mut rs = rs;
        rs.0["spec"]["template"]["metadata"] =
            json!({"labels": {"app": "web", "pod-template-hash": "x"}, "annotations": {"a": "b"}});
        let object = object(&d, Some(&rs.build()));
        assert_eq!(
            object["metadata"]["annotations"],
            json!({REVISION: "2", "change-cause": "create"})
        );
        assert_eq!(object["metadata"]["unknownField"], "kept");
        assert_eq!(
            object["spec"]["template"]["metadata"],
            json!({"labels": {"app": "web"}, "annotations": {"a": "b"}})
        );
        assert_eq!(
            object["spec"]["template"]["spec"]["containers"][0]["image"],
            "old"
        );
    }

    #[test]
    fn a_request_without_effect_only_loses_its_annotation() {
        let d = deployment("web")
            .annotation(ROLLBACK_TO, "9")
            .annotation("team", "a")
            .build();
        let mut expected = d.document.to_object();
        expected["metadata"]["annotations"] = json!({"team": "a"});
        assert_eq!(object(&d, None), expected);
    }
}
