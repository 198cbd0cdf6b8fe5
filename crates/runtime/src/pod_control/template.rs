//! Pods from the template of an owner.
//!
//! Labels, annotations, finalizers and spec are the bytes of the template, so that fields unknown
//! to this program reach the pod. Upstream: `GetPodFromTemplate` in `controller_utils.go`.

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use steersman_objects::{Document, Meta, Object};
use steersman_values::labels::Labels;

use crate::owner::ControllerReference;

/// The longest `generateName` that the API server accepts. Upstream: `ValidatePodName`, whose limit
/// is that of DNS subdomains.
const LONGEST_PREFIX: usize = 253;

/// A pod template is unusable.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// The template has no labels, so its pods would match no selector. Upstream: `createPods`.
    #[error("unable to create pods, no labels")]
    NoLabels,
    /// The document has no usable template.
    #[error("unable to create pods: {0}")]
    Malformed(#[source] serde_json::Error),
}

// The part of an owner's document that becomes a pod. Raw values keep the bytes of the template.

#[derive(Deserialize)]
struct Served<'a> {
    #[serde(borrow)]
    spec: ServedSpec<'a>,
}

#[derive(Deserialize)]
struct ServedSpec<'a> {
    #[serde(borrow)]
    template: Template<'a>,
}

#[derive(Deserialize)]
struct Template<'a> {
    #[serde(borrow, default)]
    metadata: TemplateMeta<'a>,
    /// Without it, the API server refuses the pod.
    #[serde(borrow)]
    spec: Option<&'a RawValue>,
}

/// The metadata of a template that pods take over.
#[derive(Deserialize, Serialize, Default)]
struct TemplateMeta<'a> {
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    labels: Option<&'a RawValue>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    annotations: Option<&'a RawValue>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    finalizers: Option<&'a RawValue>,
}

/// The body of the POST.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    kind: &'static str,
    api_version: &'static str,
    metadata: BodyMeta<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    spec: Option<&'a RawValue>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BodyMeta<'a> {
    /// The API server appends five random characters.
    generate_name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    labels: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    annotations: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    finalizers: Option<&'a RawValue>,
    owner_references: [ControllerReference<'a>; 1],
}

/// The body of a new pod for the owner of type `O` with the metadata `owner`, from `spec.template`
/// of its `document`. `labels` are the decoded labels of the template. Other metadata of the
/// template is ignored.
///
/// Callers may change the result: an indexed Job adds the index of the pod.
pub fn from_template<O: Object>(
    owner: &Meta,
    labels: &Labels,
    document: &Document,
) -> Result<Box<RawValue>, TemplateError> {
    if labels.is_empty() {
        return Err(TemplateError::NoLabels);
    }
    let served = document.text();
    let Served {
        spec: ServedSpec { template },
    } = serde_json::from_str(&served).map_err(TemplateError::Malformed)?;
    let TemplateMeta {
        labels,
        annotations,
        finalizers,
    } = template.metadata;
    let metadata = BodyMeta {
        generate_name: &name_prefix(&owner.name),
        labels,
        annotations,
        finalizers,
        owner_references: [ControllerReference::to::<O>(owner)],
    };
    to_raw_value(&Body {
        kind: "Pod",
        api_version: "v1",
        metadata,
        spec: template.spec,
    })
    .map_err(TemplateError::Malformed)
}

/// The `generateName` for pods of `owner`. The dash is left out if it makes the prefix too long.
/// Upstream: `getPodsPrefix`.
fn name_prefix(owner: &str) -> String {
    if owner.len() < LONGEST_PREFIX {
        format!("{owner}-")
    } else {
        owner.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use steersman_objects::ReplicaSet;

    use super::*;

    fn body(template: Value) -> Result<Box<RawValue>, TemplateError> {
        let json = json!({
            "metadata": {"name": "web", "namespace": "default", "uid": "uid-of-web"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template},
        });
        let rs = ReplicaSet::decode(json.to_string().as_bytes()).unwrap();
        from_template::<ReplicaSet>(&rs.meta, rs.spec.template.labels(), &rs.document)
    }

    #[test]
    fn a_pod_is_made_of_the_template_byte_for_byte() {
        let template = json!({
            "metadata": {
                "labels": {"app": "web"}, "annotations": {"a": "b"}, "finalizers": ["example.com/f"],
                "name": "ignored", "creationTimestamp": null, "ownerReferences": [],
            },
            "spec": {"containers": [{"name": "main", "image": "nginx", "fromTheFuture": {"x": [1]}}], "alsoNew": true},
        });
        let pod: Value = serde_json::from_str(body(template).unwrap().get()).unwrap();
        let expected = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "generateName": "web-", "labels": {"app": "web"}, "annotations": {"a": "b"}, "finalizers": ["example.com/f"],
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "uid-of-web",
                    "controller": true, "blockOwnerDeletion": true}],
            },
            "spec": {"containers": [{"name": "main", "image": "nginx", "fromTheFuture": {"x": [1]}}], "alsoNew": true},
        });
        assert_eq!(pod, expected);
    }

    #[test]
    fn template_without_labels_is_an_error() {
        let template = json!({"metadata": {"annotations": {"a": "b"}}, "spec": {"containers": []}});
        let error = body(template).unwrap_err();
        assert_eq!(error.to_string(), "unable to create pods, no labels");
    }

    #[test]
    fn prefix_of_the_longest_owner_name_has_no_dash() {
        assert_eq!(name_prefix("web"), "web-");
        assert_eq!(name_prefix(&"w".repeat(252)).len(), 253);
        assert_eq!(name_prefix(&"w".repeat(253)).len(), 253);
    }
}
