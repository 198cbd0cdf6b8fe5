//! The new ReplicaSet: builds the object to create, and the update of an existing one.
//!
//! The name ends with the hash of the pod template, so a repeated creation meets its own object
//! (409 AlreadyExists) and creates no second one. Upstream: `getNewReplicaSet` in `sync.go`.
//!
//! The API server's defaults are in the template of the Deployment, so the stored ReplicaSet has the same
//! template.

use serde_json::{Map, Value, json};
use steersman_objects::{Deployment, Object, ReplicaSet};

use super::annotations;
use super::document::{entry, set_annotations};
use super::limits::LimitError;
use super::replica_sets::{ReplicaSets, sum};
use super::revision;
use super::rolling;

/// Label that separates the pods of one ReplicaSet from those of the Deployment's other ones. Upstream:
/// `DefaultDeploymentUniqueLabelKey`.
pub(super) const POD_TEMPLATE_HASH: &str = "pod-template-hash";

/// Longest name of an object, in bytes (a DNS subdomain). Upstream: `DNS1123SubdomainMaxLength`.
const NAME_LIMIT: usize = 253;

/// A ReplicaSet to create.
#[derive(Debug)]
pub(super) struct NewReplicaSet {
    /// `metadata.name`.
    pub(super) name: String,
    /// `spec.replicas`. It may be less than that of the Deployment: old pods may take up the surge already.
    pub(super) size: i32,
    /// The revision in its annotation.
    pub(super) revision: i64,
    /// The body of the POST.
    pub(super) object: Map<String, Value>,
}

/// The ReplicaSet to create for `d` beside the old ones in `sets`. `hash` computes the pod template
/// hash.
///
/// Upstream: the second half of `getNewReplicaSet`. The size comes from the sizes in the cache, so
/// `Work::check` confirms them before.
pub(super) fn build(
    d: &Deployment,
    sets: &ReplicaSets,
    hash: impl FnOnce(&Value) -> String,
) -> Result<NewReplicaSet, LimitError> {
    let revision = revision::next(&sets.old);
    let size = rolling::new_size(d, 0, sum(&sets.old, |rs| rs.spec.replicas))?;

    // The served document, so that fields unknown to this program reach the ReplicaSet.
    let mut document = d.document.to_object();
    let spec = entry(&mut document, "spec");
    let mut template = spec.remove("template").unwrap_or_else(|| json!({}));
    let mut selector = spec.remove("selector").unwrap_or_else(|| json!({}));
    let hash = hash(&template);
    let name = name(&d.meta.name, &hash);
    let labels = add_label(&mut template, &["metadata", "labels"], &hash);
    add_label(&mut selector, &["matchLabels"], &hash);

    // The ReplicaSet has the labels of its pods, and not those of the Deployment. Selector, labels
    // and template all contain the hash, so ReplicaSets of one Deployment select disjoint pods.
    let mut wanted = revision::annotations(d, &Default::default(), revision).annotations;
    wanted.extend(annotations::sizes(d).map(|(key, value)| (key.to_owned(), value)));
    let mut object = json!({
        "apiVersion": ReplicaSet::RESOURCE.api_version(),
        "kind": ReplicaSet::RESOURCE.kind,
        "metadata": {
            "name": name,
            "namespace": d.meta.namespace.as_str(),
            "labels": labels,
            "annotations": wanted,
            "ownerReferences": [{
                "apiVersion": Deployment::RESOURCE.api_version(),
                "kind": Deployment::RESOURCE.kind,
                "name": *d.meta.name,
                "uid": d.meta.uid.to_string(),
                "controller": true,
                "blockOwnerDeletion": true,
            }],
        },
        "spec": {"replicas": size, "selector": selector, "template": template},
    });
    let object = std::mem::take(object.as_object_mut().expect("the literal is an object"));
    let mut new = NewReplicaSet {
        name,
        size,
        revision,
        object,
    };
    set_min_ready_seconds(&mut new.object, d.spec.min_ready_seconds);
    Ok(new)
}

/// The updated existing new ReplicaSet, or `None` if it is up to date. It gets the annotations and
/// `minReadySeconds` of `d`, and a revision above those of the old ReplicaSets.
///
/// Upstream: the first half of `getNewReplicaSet`. The size is left alone here; `resize.rs` changes it.
pub(super) fn update(d: &Deployment, sets: &ReplicaSets) -> Option<Map<String, Value>> {
    let rs = sets.new.as_ref()?;
    let wanted = revision::annotations(d, &rs.annotations, revision::next(&sets.old));
    if !wanted.changed && rs.spec.min_ready_seconds == d.spec.min_ready_seconds {
        return None;
    }
    let mut object = rs.document.to_object();
    set_annotations(&mut object, wanted.annotations);
    set_min_ready_seconds(&mut object, d.spec.min_ready_seconds);
    Some(object)
}

/// `{deployment}-{hash}`, with `deployment` cut to fit [`NAME_LIMIT`]. If the hash alone exceeds
/// the limit, nothing is cut (upstream's `generateReplicaSetName`) and the API server rejects the
/// name.
fn name(deployment: &str, hash: &str) -> String {
    let room = NAME_LIMIT.saturating_sub(hash.len() + 1);
    let kept = if room > 0 && deployment.len() > room {
        deployment.get(..room).unwrap_or(deployment)
    } else {
        deployment
    };
    format!("{kept}-{hash}")
}

/// Adds the hash to the labels at `path`, and returns those labels. Upstream: `CloneAndAddLabel` and
/// `CloneSelectorAndAddLabel`.
fn add_label(object: &mut Value, path: &[&str], hash: &str) -> Value {
    if !object.is_object() {
        *object = json!({});
    }
    let mut labels = object
        .as_object_mut()
        .expect("the lines above made it an object");
    for field in path {
        labels = entry(labels, field);
    }
    labels.insert(POD_TEMPLATE_HASH.to_owned(), hash.into());
    Value::Object(labels.clone())
}

/// Sets `spec.minReadySeconds`. Zero removes the field, as the API server's encoder omits it.
fn set_min_ready_seconds(object: &mut Map<String, Value>, seconds: i32) {
    let spec = entry(object, "spec");
    if seconds == 0 {
        spec.remove("minReadySeconds");
    } else {
        spec.insert("minReadySeconds".to_owned(), seconds.into());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::deployment::annotations::{
        DESIRED_REPLICAS, MAX_REPLICAS, REVISION, REVISION_HISTORY,
    };
    use crate::testing::{deployment, replica_set};

    #[test]
    fn test_generate_replica_set_name() {
        let a = "a".repeat(242);
        let b = "b".repeat(250);
        let d = "d".repeat(252);
        let h = "h".repeat(252);
        // (name, deployment, hash, expected)
        let cases = [
            (
                "short name",
                "my-deployment",
                "abcde12345",
                "my-deployment-abcde12345".to_owned(),
            ),
            (
                "maximum length without truncating",
                &a,
                "abcde12345",
                format!("{a}-abcde12345"),
            ),
            (
                "very long deployment name is truncated",
                &b,
                "abcde12345",
                format!("{}-abcde12345", &b[..242]),
            ),
            (
                "very long hash is not truncated",
                &d,
                &h,
                format!("{d}-{h}"),
            ),
        ];
        for (why, deployment, hash, expected) in cases {
            assert_eq!(name(deployment, hash), expected, "{why}");
        }
    }

    #[test]
    fn a_new_replica_set_has_all_its_fields() {
        let d = deployment("web")
            .replicas(10)
            .rolling(3, 0)
            .spec("minReadySeconds", 5)
            .spec("selector", json!({"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "app", "operator": "Exists"}]}))
            .metadata("labels", json!({"of": "the deployment"}))
            .annotation("team", "a")
            .annotation(REVISION, "2")
            .build();
        let old = replica_set("web-old")
            .image("old")
            .replicas(11)
            .annotation(REVISION, "2")
            .build();
        let sets = ReplicaSets {
            new: None,
            old: vec![Arc::new(old)],
        };
        let new = build(&d, &sets, |_| "7d9".to_owned()).unwrap();
        assert_eq!(
            (new.name.as_str(), new.size, new.revision),
            ("web-7d9", 2, 3)
        );
        let labels = json!({"app": "web", "pod-template-hash": "7d9"});
        let expected = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {
                "name": "web-7d9", "namespace": "default", "labels": labels,
                "annotations": {"team": "a", REVISION: "3", DESIRED_REPLICAS: "10", MAX_REPLICAS: "13"},
                "ownerReferences": [{
                    "apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "uid-of-web",
                    "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "spec": {
                "replicas": 2, "minReadySeconds": 5,
                "selector": {"matchLabels": labels, "matchExpressions": [{"key": "app", "operator": "Exists"}]},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "main", "image": "nginx"}]},
                },
            },
        });
        assert_eq!(Value::Object(new.object), expected);
    }

    #[test]
    fn with_recreate_a_new_replica_set_starts_at_full_size() {
        let d = deployment("web").replicas(4).recreate().build();
        let new = build(&d, &ReplicaSets::default(), |_| "7d9".to_owned()).unwrap();
        assert_eq!((new.size, new.revision), (4, 1));
        assert_eq!(new.object["metadata"]["annotations"][MAX_REPLICAS], "4");
        assert!(new.object["spec"].get("minReadySeconds").is_none());
    }

    #[test]
    fn an_existing_new_replica_set_is_updated_when_a_field_differs() {
        let set = || {
            replica_set("web-1")
                .replicas(1)
                .annotation(REVISION, "2")
                .annotation("team", "a")
        };
        let old = Arc::new(
            replica_set("web-0")
                .image("old")
                .annotation(REVISION, "1")
                .build(),
        );
        let newer = Arc::new(
            replica_set("web-0")
                .image("old")
                .annotation(REVISION, "5")
                .build(),
        );
        // (why, deployment, new, old, written annotations and minReadySeconds)
        let web = || deployment("web").annotation("team", "a");
        let cases = [
            ("up to date", web(), set(), &old, None),
            (
                "an annotation of the ReplicaSet alone stays",
                web(),
                set().annotation("own", "x"),
                &old,
                None,
            ),
            (
                "size annotations are not compared",
                web().replicas(9),
                set().annotation(DESIRED_REPLICAS, "1"),
                &old,
                None,
            ),
            (
                "annotation",
                web().annotation("x", "y"),
                set(),
                &old,
                Some((json!({"team": "a", "x": "y", REVISION: "2"}), Value::Null)),
            ),
            (
                "minReadySeconds",
                web().spec("minReadySeconds", 7),
                set(),
                &old,
                Some((json!({"team": "a", REVISION: "2"}), json!(7))),
            ),
            (
                "minReadySeconds removed",
                web(),
                set().spec("minReadySeconds", 7),
                &old,
                Some((json!({"team": "a", REVISION: "2"}), Value::Null)),
            ),
            (
                "a rollback raises the revision",
                web(),
                set(),
                &newer,
                Some((
                    json!({"team": "a", REVISION: "6", REVISION_HISTORY: "2"}),
                    Value::Null,
                )),
            ),
        ];
        for (why, d, new, old, expected) in cases {
            let sets = ReplicaSets {
                new: Some(Arc::new(new.build())),
                old: vec![Arc::clone(old)],
            };
            let object = update(&d.build(), &sets);
            let found = object.map(|object| {
                let seconds = object["spec"]
                    .get("minReadySeconds")
                    .cloned()
                    .unwrap_or_default();
                (object["metadata"]["annotations"].clone(), seconds)
            });
            assert_eq!(found, expected, "{why}");
        }
    }
}
