//! New pods, and the repair of existing ones.
//!
//! A new pod has the template of a revision, and the identity of its ordinal. Host name and
//! subdomain are set only then, because the API server refuses to change them. Upstream:
//! `newStatefulSetPod`, `updateIdentity` and `updateStorage` in `stateful_set_utils.go`.
//!
//! Bodies are JSON, so that fields of later releases in the template survive.

use serde_json::{Map, Value, json};
use steersman_helpers::history::REVISION_LABEL;
use steersman_objects::{ControllerRevision, StatefulSet};
use steersman_runtime::owner::ControllerReference;

use super::error::PodError;
use super::identity::{POD_INDEX_LABEL, POD_NAME_LABEL, claim_name, pod_name};

/// The body of the POST for the pod with this ordinal, from the template in `revision`.
///
/// Data without a template would leave the template of the set as it is, so that one is used. The
/// API server does not check the data, so its parts can have any type.
///
/// Upstream: `ApplyRevision` and `newStatefulSetPod`. Only labels, annotations and finalizers of the
/// template's metadata reach the pod, as `GetPodFromTemplate` has it.
pub(super) fn new_pod(
    set: &StatefulSet,
    revision: &ControllerRevision,
    ordinal: i64,
) -> Result<Value, PodError> {
    // Data that is no JSON counts as empty, and the template of the set applies.
    let data: Value = serde_json::from_str(&revision.data()).unwrap_or_default();
    let template = match data.pointer("/spec/template") {
        Some(template) => template.clone(),
        None => set.template(),
    };
    // Indexing below would panic at a text or a number in place of an object.
    for part in ["", "/metadata", "/metadata/labels", "/spec"] {
        let found = template.pointer(part);
        if found.is_some_and(|value| !value.is_object() && !value.is_null()) {
            return Err(PodError::Revision {
                revision: revision.meta.name.to_string(),
                part: format!("/spec/template{part}"),
            });
        }
    }
    // The name wins. `generateName` is only there because upstream's pods have it.
    let name = pod_name(&set.meta.name, ordinal);
    let mut metadata = json!({
        "name": name,
        "generateName": format!("{}-", set.meta.name),
        "namespace": *set.meta.namespace,
        "ownerReferences": [ControllerReference::to::<StatefulSet>(&set.meta)],
    });
    for field in ["labels", "annotations", "finalizers"] {
        if let Some(value) = template.pointer(&format!("/metadata/{field}")) {
            metadata[field] = value.clone();
        }
    }
    label(&mut metadata, &name, ordinal);
    // The label decides later whether the pod is outdated.
    metadata["labels"][REVISION_LABEL] = json!(*revision.meta.name);
    let mut spec = template.get("spec").cloned().unwrap_or_else(|| json!({}));
    spec["hostname"] = json!(name);
    spec["subdomain"] = json!(*set.spec.service_name);
    if let Some(fields) = spec.as_object_mut() {
        // Go omits an empty text.
        if set.spec.service_name.is_empty() {
            fields.remove("subdomain");
        }
        mount(set, ordinal, fields);
    }
    Ok(json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}))
}

/// `pod` with the name and labels of this ordinal. Upstream: `updateIdentity`. Host name and subdomain are
/// immutable, so a repair leaves them.
pub(super) fn with_identity(set: &StatefulSet, ordinal: i64, pod: &mut Map<String, Value>) {
    let name = pod_name(&set.meta.name, ordinal);
    let metadata = &mut pod["metadata"];
    metadata["name"] = json!(name);
    metadata["namespace"] = json!(*set.meta.namespace);
    label(metadata, &name, ordinal);
}

/// `pod` with a volume for each claim of this ordinal. Upstream: `updateStorage`. The API server refuses a
/// change of volumes, and that failure is the Event that users see.
pub(super) fn with_storage(set: &StatefulSet, ordinal: i64, pod: &mut Map<String, Value>) {
    if let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) {
        mount(set, ordinal, spec);
    }
}

fn label(metadata: &mut Value, name: &str, ordinal: i64) {
    metadata["labels"][POD_NAME_LABEL] = json!(name);
    metadata["labels"][POD_INDEX_LABEL] = json!(ordinal.to_string());
}

/// Puts the claims in front of the other volumes, and replaces volumes of the same names.
///
/// The order of claims is that of the templates; upstream's order is random.
fn mount(set: &StatefulSet, ordinal: i64, spec: &mut Map<String, Value>) {
    let templates = &set.spec.claim_templates;
    let claim = |template: &str| {
        let name = claim_name(&set.meta.name, template, ordinal);
        json!({"name": template, "persistentVolumeClaim": {"claimName": name}})
    };
    let mut volumes: Vec<Value> = templates.iter().map(|template| claim(template)).collect();
    if let Some(Value::Array(others)) = spec.remove("volumes") {
        let is_claim = |volume: &Value| templates.iter().any(|name| volume["name"] == **name);
        volumes.extend(others.into_iter().filter(|volume| !is_claim(volume)));
    }
    if !volumes.is_empty() {
        spec.insert("volumes".to_owned(), Value::Array(volumes));
    }
}

#[cfg(test)]
mod tests {
    use steersman_objects::Object;

    use super::*;
    use crate::testing::stateful_set;

    fn revision(template: &Value) -> ControllerRevision {
        let json = json!({"metadata": {"name": "web-5f67ff59cf"}, "data": {"spec": {"template": template}}});
        ControllerRevision::decode(json.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn a_new_pod_has_the_template_of_the_revision_and_its_own_identity() {
        let set = stateful_set("web")
            .claims(&["data"])
            .spec("serviceName", "svc")
            .build();
        let template = json!({
            "$patch": "replace",
            "metadata": {"labels": {"app": "web"}, "annotations": {"a": "b"}, "finalizers": ["example.com/f"], "name": "x"},
            "spec": {"containers": [{"name": "c", "fromTheFuture": 1}], "hostname": "h", "subdomain": "s",
                "volumes": [{"name": "tmp", "emptyDir": {}}, {"name": "data", "emptyDir": {}}]},
        });
        let expected = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "web-1", "generateName": "web-", "namespace": "default",
                "labels": {"app": "web", "apps.kubernetes.io/pod-index": "1",
                    "statefulset.kubernetes.io/pod-name": "web-1", "controller-revision-hash": "web-5f67ff59cf"},
                "annotations": {"a": "b"}, "finalizers": ["example.com/f"],
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "uid-of-web",
                    "controller": true, "blockOwnerDeletion": true}],
            },
            "spec": {"containers": [{"name": "c", "fromTheFuture": 1}], "hostname": "web-1", "subdomain": "svc",
                "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data-web-1"}}, {"name": "tmp", "emptyDir": {}}]},
        });
        assert_eq!(new_pod(&set, &revision(&template), 1).unwrap(), expected);
    }

    #[test]
    fn an_empty_service_name_removes_the_subdomain() {
        let set = stateful_set("web").spec("serviceName", "").build();
        let template = json!({"spec": {"containers": [], "subdomain": "s"}});
        let pod = new_pod(&set, &revision(&template), 0).unwrap();
        assert_eq!(pod["spec"], json!({"containers": [], "hostname": "web-0"}));
        let without = new_pod(&set, &revision(&Value::Null), 0).unwrap();
        assert_eq!(without["spec"]["hostname"], "web-0");
    }

    #[test]
    fn malformed_revisions_are_named() {
        let set = stateful_set("web").build();
        // (template, the part that is no object)
        let cases = [
            (json!("x"), "/spec/template"),
            (json!({"metadata": 1}), "/spec/template/metadata"),
            (
                json!({"metadata": {"labels": ["app"]}}),
                "/spec/template/metadata/labels",
            ),
            (json!({"spec": "x"}), "/spec/template/spec"),
        ];
        for (template, part) in cases {
            let error = new_pod(&set, &revision(&template), 0).unwrap_err();
            let expected =
                format!("revision web-5f67ff59cf is malformed: {part} is no JSON object");
            assert_eq!(error.to_string(), expected);
        }
        let nulls = json!({"metadata": {"labels": null}, "spec": null});
        assert!(new_pod(&set, &revision(&nulls), 0).is_ok());
    }

    #[test]
    fn repairs_change_identity_and_claims_only() {
        let set = stateful_set("web").claims(&["data"]).build();
        let pod = json!({"metadata": {"name": "web-01", "labels": {"x": "y"}}, "spec": {"hostname": "h",
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "other"}}, {"name": "tmp"}]}});
        let mut repaired = pod.as_object().unwrap().clone();
        with_identity(&set, 1, &mut repaired);
        let metadata = json!({"name": "web-1", "namespace": "default", "labels": {"x": "y",
            "apps.kubernetes.io/pod-index": "1", "statefulset.kubernetes.io/pod-name": "web-1"}});
        assert_eq!(repaired["metadata"], metadata);
        assert_eq!(repaired["spec"], pod["spec"]);
        with_storage(&set, 1, &mut repaired);
        let volumes = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data-web-1"}}, {"name": "tmp"}]);
        assert_eq!(
            repaired["spec"],
            json!({"hostname": "h", "volumes": volumes})
        );
    }
}
