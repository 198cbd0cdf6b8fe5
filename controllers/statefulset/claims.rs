//! The claims of a pod, made from the claim templates of the set.
//!
//! Claim templates always come from the current spec, since revisions do not contain them. An
//! existing claim is never compared with its template. Upstream: `getPersistentVolumeClaims` in
//! `stateful_set_utils.go`.
//!
//! The names are fixed by set, template and ordinal, so a pod that comes back finds its claims again.

use std::collections::HashMap;

use serde_json::{Map, Value, json};
use steersman_objects::StatefulSet;
use steersman_values::intern::Sym;

use super::identity::claim_name;

/// A claim to create.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct NewClaim {
    /// Name.
    pub(super) name: String,
    /// The body of the POST.
    pub(super) body: Map<String, Value>,
}

/// The claims for the pod with this ordinal, in the order of the templates. A claim has everything
/// that its template has, and the labels of the selector. Of several templates with one name, the
/// last one counts.
///
/// Upstream: `getPersistentVolumeClaims`. Labels of the selector replace equal ones of the template.
/// Expressions of the selector give no labels.
pub(super) fn from_templates(set: &StatefulSet, ordinal: i64) -> Vec<NewClaim> {
    // The served document, so that fields of later releases reach the claim.
    let object = Value::Object(set.document.to_object());
    let spec = &object["spec"];
    let labels = spec["selector"]["matchLabels"].as_object();
    let templates = spec["volumeClaimTemplates"].as_array();
    let template_name = |template: &Value| {
        let name = template["metadata"]["name"].as_str();
        name.unwrap_or_default().to_owned()
    };
    // The last template of a name counts.
    let templates: HashMap<String, &Value> = templates
        .into_iter()
        .flatten()
        .map(|template| (template_name(template), template))
        .collect();
    let claim = |(template_name, template): (&Sym, &&Value)| {
        let mut body = template.as_object().cloned().unwrap_or_default();
        let name = claim_name(&set.meta.name, template_name, ordinal);
        body.insert("apiVersion".to_owned(), json!("v1"));
        body.insert("kind".to_owned(), json!("PersistentVolumeClaim"));
        let metadata = body.entry("metadata").or_insert_with(|| json!({}));
        metadata["name"] = json!(name);
        metadata["namespace"] = json!(*set.meta.namespace);
        for (key, value) in labels.into_iter().flatten() {
            metadata["labels"][key] = value.clone();
        }
        NewClaim { name, body }
    };
    let names = set.spec.claim_templates.iter();
    let named = names.filter_map(|name| Some((name, templates.get(&**name)?)));
    named.map(claim).collect()
}

/// The names of the claims for the pod with this ordinal, in the order of the templates. Only names are
/// needed most of the time, so the document is not read here.
pub(super) fn names(set: &StatefulSet, ordinal: i64) -> impl Iterator<Item = String> + '_ {
    let templates = set.spec.claim_templates.iter();
    templates.map(move |template| claim_name(&set.meta.name, template, ordinal))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::stateful_set;

    #[test]
    fn get_persistent_volume_claims() {
        let claim = |metadata: Value| {
            json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata,
                "spec": {"accessModes": ["ReadWriteOnce"], "fromTheFuture": 1}, "status": {"phase": "Pending"}})
        };
        let set = |metadata: Value, selector: Value| {
            let mut template = claim(metadata);
            // Claims have a kind, even if their template has none.
            let fields = template.as_object_mut().unwrap();
            fields.retain(|name, _| name != "apiVersion" && name != "kind");
            let set = stateful_set("web").spec("selector", selector);
            set.spec("volumeClaimTemplates", json!([template])).build()
        };
        let labels = |labels: Value| json!({"matchLabels": labels});
        // (why, metadata of the template, selector, labels of the claim)
        let cases = [
            (
                "labels of the selector",
                json!({"name": "data", "annotations": {"a": "b"}}),
                labels(json!({"test": "test"})),
                json!({"test": "test"}),
            ),
            (
                "labels of both",
                json!({"name": "data", "annotations": {"a": "b"}, "labels": {"foo": "bar"}}),
                labels(json!({"test": "test"})),
                json!({"foo": "bar", "test": "test"}),
            ),
            (
                "the selector wins",
                json!({"name": "data", "annotations": {"a": "b"}, "labels": {"test": "x"}}),
                labels(json!({"test": "test"})),
                json!({"test": "test"}),
            ),
            (
                "expressions are no labels",
                json!({"name": "data", "annotations": {"a": "b"}}),
                json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]}),
                Value::Null,
            ),
        ];
        for (why, metadata, selector, labels) in cases {
            let set = set(metadata, selector);
            let mut expected =
                json!({"name": "data-web-3", "namespace": "default", "annotations": {"a": "b"}});
            if !labels.is_null() {
                expected["labels"] = labels;
            }
            let [NewClaim { name, body }] = &from_templates(&set, 3)[..] else {
                panic!("{why}: one claim")
            };
            assert_eq!(json!(body), claim(expected), "{why}");
            assert_eq!(
                names(&set, 3).collect::<Vec<_>>(),
                std::slice::from_ref(name),
                "{why}"
            );
        }
        assert!(from_templates(&stateful_set("web").build(), 0).is_empty());
    }
}
