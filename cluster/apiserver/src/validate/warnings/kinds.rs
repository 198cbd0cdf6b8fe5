//! Warnings about kinds without pods or volumes.
//!
//! Upstream: `WarningsOnCreate` and `WarningsOnUpdate` of the strategies in `pkg/registry`.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::apimachinery::errors::{at, list, text};
use crate::apimachinery::schema_formats;

/// Suffix of the names of static admission configurations.
const STATIC_SUFFIX: &str = ".static.k8s.io";

/// Warnings about a new object, or about its update from `old`.
pub(super) fn of(kind: &str, object: &Value, old: Option<&Value>) -> Vec<String> {
    match kind {
        "CSIDriver" => token_requests(object, old),
        "CustomResourceDefinition" => unknown_formats(object, old),
        "Ingress" => ingress_class(object, old),
        "MutatingAdmissionPolicy"
        | "MutatingAdmissionPolicyBinding"
        | "MutatingWebhookConfiguration"
        | "ValidatingAdmissionPolicy"
        | "ValidatingAdmissionPolicyBinding"
        | "ValidatingWebhookConfiguration" => static_name(object),
        "Node" => removed_node_fields(object),
        "ResourceSlice" => driver_name(object),
        _ => Vec::new(),
    }
}

fn ingress_class(object: &Value, old: Option<&Value>) -> Vec<String> {
    const ANNOTATION: &str = "kubernetes.io/ingress.class";
    let has_annotation = at(object, "metadata.annotations").get(ANNOTATION).is_some();
    if old.is_none() && has_annotation && at(object, "spec.ingressClassName").is_null() {
        vec![format!(
            "annotation {ANNOTATION:?} is deprecated, please use 'spec.ingressClassName' instead"
        )]
    } else {
        Vec::new()
    }
}

fn static_name(object: &Value) -> Vec<String> {
    if text(object, "metadata.name").ends_with(STATIC_SUFFIX) {
        vec![format!(
            "metadata.name: names ending with {STATIC_SUFFIX:?} are reserved for static manifest-based configurations and cannot be \
             managed via the API"
        )]
    } else {
        Vec::new()
    }
}

fn removed_node_fields(object: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    if !at(object, "spec.configSource").is_null() {
        warnings.push("spec.configSource: the feature is removed".to_owned());
    }
    if !text(object, "spec.externalID").is_empty() {
        warnings.push(
            "spec.externalID: this field is deprecated, and is unused by Kubernetes".to_owned(),
        );
    }
    warnings
}

fn driver_name(object: &Value) -> Vec<String> {
    let driver = text(object, "spec.driver");
    if driver.chars().any(char::is_uppercase) {
        vec![format!(
            "spec.driver: driver names should be lowercase; {driver:?} contains uppercase characters"
        )]
    } else {
        Vec::new()
    }
}

fn token_requests(object: &Value, old: Option<&Value>) -> Vec<String> {
    const FIELD: &str = "spec.tokenRequests";
    let is_new = old.is_none_or(|old| at(old, FIELD) != at(object, FIELD));
    if is_new
        && !list(object, FIELD).is_empty()
        && at(object, "spec.serviceAccountTokenInSecrets").is_null()
    {
        vec![
            "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of \
             tokens in volume attributes"
                .to_owned(),
        ]
    } else {
        Vec::new()
    }
}

/// Formats that validation does not know have no effect. An update warns about new ones only.
fn unknown_formats(object: &Value, old: Option<&Value>) -> Vec<String> {
    if old.is_some_and(|old| at(old, "spec.versions") == at(object, "spec.versions")) {
        return Vec::new();
    }
    let formats = |object: &Value| {
        let mut found = BTreeSet::new();
        for version in list(object, "spec.versions") {
            collect_unknown_formats(at(version, "schema.openAPIV3Schema"), &mut found);
        }
        found
    };
    let known = old.map(formats).unwrap_or_default();
    formats(object)
        .difference(&known)
        .map(|format| format!("unrecognized format {format:?}"))
        .collect()
}

fn collect_unknown_formats(schema: &Value, found: &mut BTreeSet<String>) {
    if !schema.is_object() {
        return;
    }
    let format = text(schema, "format");
    if !format.is_empty() && !schema_formats::is_known(text(schema, "type"), format) {
        found.insert(format.to_owned());
    }
    for part in ["allOf", "anyOf", "oneOf"] {
        for schema in list(schema, part) {
            collect_unknown_formats(schema, found);
        }
    }
    for part in ["not", "items", "additionalProperties", "additionalItems"] {
        collect_unknown_formats(at(schema, part), found);
    }
    for part in ["properties", "patternProperties", "definitions"] {
        for schema in at(schema, part)
            .as_object()
            .into_iter()
            .flat_map(|named| named.values())
        {
            collect_unknown_formats(schema, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn new_objects_cause_warnings() {
        // (kind, object, start of the warning)
        let cases = [
            (
                "Ingress",
                json!({"metadata": {"annotations": {"kubernetes.io/ingress.class": "x"}}}),
                "annotation \"kubernetes.io/ingress.class\" is deprecated",
            ),
            (
                "ValidatingWebhookConfiguration",
                json!({"metadata": {"name": "a.static.k8s.io"}}),
                "metadata.name: names ending with \".static.k8s.io\"",
            ),
            (
                "Node",
                json!({"spec": {"externalID": "x"}}),
                "spec.externalID: this field is deprecated",
            ),
            (
                "ResourceSlice",
                json!({"spec": {"driver": "A.b"}}),
                "spec.driver: driver names should be lowercase; \"A.b\"",
            ),
            (
                "CSIDriver",
                json!({"spec": {"tokenRequests": [{"audience": "a"}]}}),
                "spec.serviceAccountTokenInSecrets is unset",
            ),
        ];
        for (kind, object, start) in cases {
            let found = of(kind, &object, None);
            assert!(
                found.len() == 1 && found[0].starts_with(start),
                "{kind}: {found:?}"
            );
        }
    }

    #[test]
    fn unchanged_fields_cause_no_warnings() {
        let cases = [
            (
                "Ingress",
                json!({"metadata": {"annotations": {"kubernetes.io/ingress.class": "x"}}}),
            ),
            (
                "CSIDriver",
                json!({"spec": {"tokenRequests": [{"audience": "a"}]}}),
            ),
        ];
        for (kind, object) in cases {
            assert!(of(kind, &object, Some(&object)).is_empty(), "{kind}");
        }
    }

    #[test]
    fn formats_that_validation_ignores_cause_warnings_once() {
        let definition = |formats: &[(&str, &str)]| {
            let fields: serde_json::Map<String, Value> = formats
                .iter()
                .map(|(kind, format)| {
                    (
                        format!("{kind}{format}"),
                        json!({"type": kind, "format": format}),
                    )
                })
                .collect();
            json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": {"type": "object", "properties": fields}}}]}})
        };
        let old = definition(&[
            ("string", "date-time"),
            ("string", "odd"),
            ("integer", "int64"),
        ]);
        let new = definition(&[("string", "odd"), ("integer", "uint8"), ("number", "int32")]);
        assert_eq!(
            of("CustomResourceDefinition", &old, None),
            ["unrecognized format \"odd\""]
        );
        assert_eq!(
            of("CustomResourceDefinition", &new, Some(&old)),
            [
                "unrecognized format \"int32\"",
                "unrecognized format \"uint8\""
            ]
        );
    }
}
