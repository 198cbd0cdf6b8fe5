//! New pods. Updates are in `pod_update`.

use serde_json::Value;

use super::errors::{Errors, at, list, text};
use super::pod_spec;

pub(super) fn pod(pod: &Value, errors: &mut Errors) {
    pod_spec::spec("spec", at(pod, "spec"), errors);
    if text(pod, "spec.serviceAccountName").is_empty() {
        for (volume, source, _) in pod_spec::account_tokens(list(pod, "spec.volumes")) {
            let field =
                format!("spec.volumes[{volume}].projected.sources[{source}].serviceAccountToken");
            errors.forbidden(
                &field,
                "must not be specified when serviceAccountName is not set",
            );
        }
    }
    if !list(pod, "spec.ephemeralContainers").is_empty() {
        errors.forbidden("spec.ephemeralContainers", "cannot be set on create");
    }
}
