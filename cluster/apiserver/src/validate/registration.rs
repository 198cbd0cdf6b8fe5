//! APIServices.
//!
//! Upstream is `kube-aggregator/pkg/apis/apiregistration/validation`.

use serde_json::Value;

use super::errors::{Errors, at, text};
use super::formats;

/// Highest priorities of a group and of a version.
const GROUP_PRIORITY: i64 = 20_000;
const VERSION_PRIORITY: i64 = 1_000;

pub(super) fn check(object: &Value, errors: &mut Errors) {
    let spec = at(object, "spec");
    let group = text(spec, "group");
    let version = text(spec, "version");
    if group.is_empty() {
        if version != "v1" {
            let why = "only v1 may have an empty group and it better be legacy kube";
            errors.required("spec.group", why);
        }
    } else {
        errors.complaints("spec.group", group, formats::subdomain(group));
    }
    errors.complaints("spec.version", version, formats::dns_label(version));
    let priorities = [
        ("groupPriorityMinimum", GROUP_PRIORITY),
        ("versionPriority", VERSION_PRIORITY),
    ];
    for (name, highest) in priorities {
        let priority = at(spec, name).as_i64().unwrap_or(0);
        if !(1..=highest).contains(&priority) {
            errors.invalid(
                format!("spec.{name}"),
                priority,
                format!("must be positive and less than {highest}"),
            );
        }
    }
    let has_bundle = !text(spec, "caBundle").is_empty();
    let is_insecure = at(spec, "insecureSkipTLSVerify") == &Value::Bool(true);
    let service = at(spec, "service");
    if service.is_null() {
        if has_bundle {
            let bytes = text(spec, "caBundle").trim_end_matches('=').len() * 3 / 4;
            let why = "local APIServices may not have a caBundle";
            errors.invalid("spec.caBundle", format!("{bytes} bytes"), why);
        }
        if is_insecure {
            let why = "local APIServices may not have insecureSkipTLSVerify";
            errors.invalid("spec.insecureSkipTLSVerify", true, why);
        }
        return;
    }
    for name in ["namespace", "name"] {
        if text(service, name).is_empty() {
            errors.required(format!("spec.service.{name}"), "");
        }
    }
    let port = at(service, "port").as_i64().unwrap_or(0);
    if !(1..=65535).contains(&port) {
        let why = "port is not valid: must be between 1 and 65535, inclusive";
        errors.invalid("spec.service.port", port, why);
    }
    if is_insecure && has_bundle {
        let why = "may not be true if caBundle is present";
        errors.invalid("spec.insecureSkipTLSVerify", true, why);
    }
}
