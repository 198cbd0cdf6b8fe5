//! Warnings about objects that are valid: fields that have no effect any more, names that cause
//! trouble. Warnings about pods are in the modules of pods.
//!
//! Upstream: `WarningsOnCreate` and `WarningsOnUpdate` of the strategies in `pkg/registry`, and
//! `pkg/api/*/warnings.go`.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::apimachinery::errors::{at, list, text};
use crate::apimachinery::formats::{label, qualified_name};

/// Completions of an Indexed Job above which a high parallelism causes a warning.
const COMPLETIONS_LIMIT: u64 = 100_000;
/// Parallelism above which such a Job causes the warning.
const PARALLELISM_LIMIT: u64 = 10_000;

/// Suffix of the names of static admission configurations.
const STATIC_SUFFIX: &str = ".static.k8s.io";

/// Formats of strings that validation knows, without hyphens.
const STRING_FORMATS: [&str; 26] = [
    "bsonobjectid",
    "byte",
    "cidr",
    "creditcard",
    "date",
    "datetime",
    "duration",
    "email",
    "hexcolor",
    "hostname",
    "ipv4",
    "ipv6",
    "isbn",
    "isbn10",
    "isbn13",
    "k8slongname",
    "k8sshortname",
    "mac",
    "password",
    "rgbcolor",
    "ssn",
    "uri",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
];

/// Warnings about a new object of a built-in kind, or about its update from `old`.
pub(super) fn of_object(kind: &str, object: &Value, old: Option<&Value>) -> Vec<String> {
    match kind {
        "CSIDriver" => token_requests(object, old),
        "CronJob" => cron_job(object, old),
        "CustomResourceDefinition" => unknown_formats(object, old),
        "Deployment" | "ReplicaSet" | "ReplicationController" => pod_names(object, old),
        "Ingress" => ingress_class(object, old),
        "Job" => {
            let mut warnings = pod_names(object, old);
            warnings.extend(many_indexes("spec", object));
            warnings
        }
        "MutatingAdmissionPolicy"
        | "MutatingAdmissionPolicyBinding"
        | "MutatingWebhookConfiguration"
        | "ValidatingAdmissionPolicy"
        | "ValidatingAdmissionPolicyBinding"
        | "ValidatingWebhookConfiguration" => static_name(object),
        "Node" => removed_node_fields(object),
        "ResourceSlice" => driver_name(object),
        "ServiceAccount" => mountable_secrets(object, old),
        "StatefulSet" => all_revisions(object),
        _ => Vec::new(),
    }
}

/// Warnings about finalizers that a write adds to a custom resource. They belong to many writers,
/// so their names need a domain.
pub(crate) fn of_custom(object: &Value, old: Option<&Value>) -> Vec<String> {
    const STANDARD: [&str; 3] = ["orphan", "foregroundDeletion", "kubernetes"];
    const FIELD: &str = "metadata.finalizers";
    const CONFLICTS: &str = "to avoid accidental conflicts with other finalizer writers";
    let names = |object: &'_ Value| -> BTreeSet<String> {
        let names = list(object, FIELD).iter();
        names
            .filter_map(|name| name.as_str().map(str::to_owned))
            .collect()
    };
    let known = old.map(names).unwrap_or_default();
    let mut warnings = Vec::new();
    for name in names(object).difference(&known) {
        let problems = qualified_name(name);
        warnings.extend(
            problems
                .iter()
                .map(|why| format!("{FIELD}: {name:?}: {why}")),
        );
        if !name.contains('/') && !STANDARD.contains(&name.as_str()) {
            let path = if name.contains('.') {
                " including a path (/)"
            } else {
                ""
            };
            warnings.push(format!(
                "{FIELD}: {name:?}: prefer a domain-qualified finalizer name{path} {CONFLICTS}"
            ));
        }
    }
    warnings
}

/// Names of workloads are part of the names of their pods, which become host names.
fn pod_names(object: &Value, old: Option<&Value>) -> Vec<String> {
    let name = text(object, "metadata.name");
    if old.is_some() || name.is_empty() {
        return Vec::new();
    }
    let problems = label(name);
    if problems.is_empty() {
        return Vec::new();
    }
    vec![format!(
        "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is \
         recommended: [{}]",
        problems.join(" ")
    )]
}

fn many_indexes(field: &str, object: &Value) -> Option<String> {
    let spec = at(object, field);
    let number = |name| at(spec, name).as_u64().unwrap_or(0);
    let is_large = text(spec, "completionMode") == "Indexed"
        && number("completions") > COMPLETIONS_LIMIT
        && number("parallelism") > PARALLELISM_LIMIT;
    is_large.then(|| {
        format!(
            "{field}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes \
             might not be able to track completedIndexes when a big number of indexes fail"
        )
    })
}

/// A new CronJob with a time zone in its schedule is invalid, so only updates of old ones warn.
fn cron_job(object: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = pod_names(object, old);
    warnings.extend(many_indexes("spec.jobTemplate.spec", object));
    if old.is_some() && text(object, "spec.schedule").contains("TZ") {
        warnings.push(
            "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see \
             https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
                .to_owned(),
        );
    }
    warnings
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

fn mountable_secrets(object: &Value, old: Option<&Value>) -> Vec<String> {
    const ANNOTATION: &str = "kubernetes.io/enforce-mountable-secrets";
    let has = |object: &Value| at(object, "metadata.annotations").get(ANNOTATION).is_some();
    if has(object) && !old.is_some_and(has) {
        vec![format!(
            "metadata.annotations[{ANNOTATION}]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
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

fn all_revisions(object: &Value) -> Vec<String> {
    let limit = at(object, "spec.revisionHistoryLimit").as_i64();
    if limit.is_some_and(|limit| limit < 0) {
        vec![
            "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"
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
    let is_known = match text(schema, "type") {
        "" | "string" => STRING_FORMATS.contains(&format.replace('-', "").as_str()),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    };
    if !format.is_empty() && !is_known {
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
                "Deployment",
                json!({"metadata": {"name": "a.b"}}),
                "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: [must not contain dots]",
            ),
            (
                "Job",
                json!({"spec": {"completionMode": "Indexed", "completions": 100_001, "parallelism": 10_001}}),
                "spec: In Indexed Jobs with a number",
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
                "ServiceAccount",
                json!({"metadata": {"annotations": {"kubernetes.io/enforce-mountable-secrets": "true"}}}),
                "metadata.annotations[kubernetes.io/enforce-mountable-secrets]: deprecated",
            ),
            (
                "CSIDriver",
                json!({"spec": {"tokenRequests": [{"audience": "a"}]}}),
                "spec.serviceAccountTokenInSecrets is unset",
            ),
            (
                "StatefulSet",
                json!({"spec": {"revisionHistoryLimit": -1}}),
                "spec.revisionHistoryLimit: a negative value",
            ),
        ];
        for (kind, object, start) in cases {
            let found = of_object(kind, &object, None);
            assert!(
                found.len() == 1 && found[0].starts_with(start),
                "{kind}: {found:?}"
            );
        }
    }

    #[test]
    fn unchanged_fields_cause_no_warnings() {
        let cases = [
            ("Deployment", json!({"metadata": {"name": "a.b"}})),
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
            assert!(of_object(kind, &object, Some(&object)).is_empty(), "{kind}");
        }
        let cron_job = json!({"spec": {"schedule": "TZ=UTC @daily"}});
        assert_eq!(of_object("CronJob", &cron_job, Some(&cron_job)).len(), 1);
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
            of_object("CustomResourceDefinition", &old, None),
            ["unrecognized format \"odd\""]
        );
        assert_eq!(
            of_object("CustomResourceDefinition", &new, Some(&old)),
            [
                "unrecognized format \"int32\"",
                "unrecognized format \"uint8\""
            ]
        );
    }

    #[test]
    fn new_finalizers_without_a_domain_cause_warnings() {
        let object = |names: &[&str]| json!({"metadata": {"finalizers": names}});
        let old = object(&["old"]);
        let new = object(&["old", "new", "example.com", "example.com/x", "orphan"]);
        assert_eq!(
            of_custom(&new, Some(&old)),
            [
                "metadata.finalizers: \"example.com\": prefer a domain-qualified finalizer name including a path (/) to avoid accidental \
                 conflicts with other finalizer writers",
                "metadata.finalizers: \"new\": prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer \
                 writers",
            ]
        );
    }
}
