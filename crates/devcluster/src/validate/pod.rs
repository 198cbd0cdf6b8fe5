//! Pods on creation.

use serde_json::Value;

use super::errors::{Errors, at, list};
use super::pod_spec;

pub(super) fn pod(pod: &Value, errors: &mut Errors) {
    pod_spec::spec("spec", at(pod, "spec"), errors);
    if !list(pod, "spec.ephemeralContainers").is_empty() {
        errors.forbidden("spec.ephemeralContainers", "cannot be set on create");
    }
}
