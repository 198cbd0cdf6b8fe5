//! StorageVersionMigrations.
//!
//! Upstream is `pkg/apis/storagemigration/validation`.

use serde_json::Value;

use super::errors::{Errors, at, list, text};
use super::{disruption, formats};

const RESOURCE_VERSION: &str = "status.resourceVersion";
const CONDITIONS: &str = "status.conditions";

pub(super) fn check(object: &Value, errors: &mut Errors) {
    const RESOURCE: &str = "spec.resource.resource";
    let resource = text(object, RESOURCE);
    if resource.is_empty() {
        errors.required(RESOURCE, "resource is required to be set");
    } else {
        let complaints = formats::dns_label(resource);
        if !complaints.is_empty() {
            errors.invalid(RESOURCE, resource, complaints.join(","));
        }
    }
    let group = text(object, "spec.resource.group");
    let complaints = formats::subdomain(group);
    if !group.is_empty() && !complaints.is_empty() {
        errors.invalid("spec.resource.group", group, complaints.join(","));
    }
}

/// A migration keeps its resource version and its outcome.
pub(super) fn status_update(new: &Value, old: &Value, errors: &mut Errors) {
    let version = text(new, RESOURCE_VERSION);
    let before = text(old, RESOURCE_VERSION);
    let is_number = !version.starts_with('0') && version.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number {
        let why = format!("resource version is not well formed: {version}");
        errors.invalid(RESOURCE_VERSION, version, why);
    }
    disruption::conditions(CONDITIONS, list(new, CONDITIONS), errors);
    if !before.is_empty() && before != version {
        errors.invalid(RESOURCE_VERSION, version, "field is immutable");
    }
    let mut refuse = |why: &str| errors.invalid(CONDITIONS, at(new, CONDITIONS).clone(), why);
    let [succeeded, failed] = ["Succeeded", "Failed"].map(|kind| is_true(new, kind));
    if succeeded && failed {
        refuse("Both success and failed conditions cannot be true at the same time");
    }
    if is_true(old, "Succeeded") && !succeeded {
        refuse("Success condition cannot be set to false once it is true");
    }
    if is_true(old, "Failed") && !failed {
        refuse("Failed condition cannot be set to false once it is true");
    }
}

fn is_true(object: &Value, kind: &str) -> bool {
    let mut conditions = list(object, CONDITIONS).iter();
    conditions
        .any(|condition| text(condition, "type") == kind && text(condition, "status") == "True")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_migration_names_a_resource() {
        let label = "a DNS-1035 label must consist of";
        let group = "a lowercase RFC 1123 subdomain must consist of";
        // (group, resource, beginning of the error)
        let cases = [
            ("", "pods", None),
            ("apps", "deployments", None),
            ("apps", "", Some("resource is required to be set")),
            ("", "Pods", Some(label)),
            ("A b", "pods", Some(group)),
        ];
        for (group, resource, expected) in cases {
            let object = json!({"spec": {"resource": {"group": group, "resource": resource}}});
            let mut errors = Errors::default();
            check(&object, &mut errors);
            let found = errors.into_list();
            let found: Vec<String> = found.iter().map(ToString::to_string).collect();
            assert_eq!(found.len(), usize::from(expected.is_some()), "{found:?}");
            assert!(found.concat().contains(expected.unwrap_or("")), "{found:?}");
        }
    }

    #[test]
    fn an_outcome_stays() {
        let status = |version: &str, kind: &str| {
            let condition = json!({
                "type": kind, "status": "True", "reason": "R", "message": "",
                "lastTransitionTime": "2026-01-02T03:04:05Z",
            });
            json!({"status": {"resourceVersion": version, "conditions": [condition]}})
        };
        let both = json!({"status": {"resourceVersion": "7", "conditions": [
            status("7", "Failed")["status"]["conditions"][0],
            status("7", "Succeeded")["status"]["conditions"][0],
        ]}});
        // (old, new, a part of each error)
        let cases: [(Value, Value, &[&str]); 7] = [
            (json!({}), status("7", "Running"), &[]),
            (
                json!({}),
                status("07", "Running"),
                &["resource version is not well formed: 07"],
            ),
            (
                status("7", "Running"),
                status("x", "Running"),
                &["not well formed: x", "field is immutable"],
            ),
            (status("7", "Running"), status("7", "Succeeded"), &[]),
            (
                status("7", "Running"),
                status("8", "Running"),
                &["field is immutable"],
            ),
            (
                status("7", "Succeeded"),
                status("7", "Running"),
                &["Success condition cannot"],
            ),
            (status("7", "Failed"), both, &["Both success and failed"]),
        ];
        for (old, new, expected) in cases {
            let mut errors = Errors::default();
            status_update(&new, &old, &mut errors);
            let found = errors.into_list();
            assert_eq!(found.len(), expected.len(), "{found:?}");
            for (error, part) in found.iter().zip(expected) {
                assert!(error.to_string().contains(part), "{error}");
            }
        }
    }
}
