//! Pod templates of workloads.
//!
//! Upstream: `ValidatePodTemplateSpec`.

use serde_json::Value;

use super::{Errors, Path, annotations, at, list, meta, spec};

/// A pod template at `field`.
pub(in super::super) fn template(field: &str, template: &Value, errors: &mut Errors) {
    template_metadata(field, template, errors);
    let path = Path::new(field);
    let spec_path = path.child("spec");
    let spec = &template["spec"];
    let given = at(template, "metadata.annotations");
    annotations::check(&path.child("annotations"), given, spec, errors);
    spec::check(&spec_path, spec, None, errors);
    annotations::agreement(&spec_path, spec, given, errors);
    if !list(spec, "ephemeralContainers").is_empty() {
        errors.forbidden(
            spec_path.child("ephemeralContainers"),
            "ephemeral containers not allowed in pod template",
        );
    }
}

/// Labels and annotations of a pod template at `field`.
pub(in super::super) fn template_metadata(field: &str, template: &Value, errors: &mut Errors) {
    // Upstream's paths of these two fields lack `metadata`.
    let path = Path::new(field);
    meta::labels(
        path.child("labels"),
        at(template, "metadata.labels"),
        errors,
    );
    let annotations = at(template, "metadata.annotations");
    meta::annotations(path.child("annotations"), annotations, errors);
}
