//! Pods and pod templates.
//!
//! Pods that an API server of an older release stored may break rules that are newer than they are.
//! Upstream tolerates some of those on update. All objects of this server are of one release, so
//! such exceptions are left out.
//!
//! Upstream is `pkg/apis/core/validation` with the feature gates that are on by default.

use serde_json::Value;

use super::errors::{Errors, at, list, text};
use super::{formats, meta, selector};
use crate::apimachinery::addresses;
use crate::apimachinery::path::Path;

mod affinity;
mod annotations;
mod containers;
mod context;
mod env;
mod ephemeral;
mod mounts;
mod network;
mod placement;
mod ports;
mod probes;
mod projected;
mod resize;
pub(super) mod resources;
mod restart;
mod security;
mod spec;
mod status;
mod templates;
mod update;
pub(super) mod volume_sources;
mod volumes;
pub(super) mod warnings;
mod windows;

pub(super) use affinity::node_selector;
pub(super) use mounts::no_backsteps;
pub(super) use placement::{taints, tolerations};
pub(super) use ports::{PROTOCOLS, port_number, port_number_or_name};
pub(super) use resize::update as resized;
pub(super) use status::update as status_update;
pub(super) use templates::{template, template_metadata};
pub(super) use update::update;
pub(super) use volumes::claim_metadata;

static SPEC: Path<'static> = Path::new("spec");
const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// Checks a new pod without its metadata. Upstream: `ValidatePodCreate`.
pub(super) fn create(pod: &Value, errors: &mut Errors) {
    whole(pod, errors);
    let spec = &pod["spec"];
    if !list(spec, "ephemeralContainers").is_empty() {
        errors.forbidden("spec.ephemeralContainers", "cannot be set on create");
    }
    if !text(spec, "nodeName").is_empty() && !list(spec, "schedulingGates").is_empty() {
        errors.forbidden(
            "spec.nodeName",
            "cannot be set until all schedulingGates have been cleared",
        );
    }
    annotations::agreement(&SPEC, spec, at(pod, "metadata.annotations"), errors);
}

/// Checks annotations and spec. Upstream: `validatePodMetadataAndSpec`.
fn whole(pod: &Value, errors: &mut Errors) {
    let spec = &pod["spec"];
    annotations::check(
        &Path::new("metadata.annotations"),
        at(pod, "metadata.annotations"),
        spec,
        errors,
    );
    spec::check(&SPEC, spec, Some(&pod["metadata"]), errors);
    if text(spec, "serviceAccountName").is_empty() {
        projected::no_account_tokens(&SPEC.child("volumes"), list(spec, "volumes"), errors);
    }
    for name in ["containers", "initContainers"] {
        for (index, container) in list(spec, name).iter().enumerate() {
            containers::unpadded_image(&SPEC.child(name).index(index), container, errors);
        }
    }
}

/// Checks a change of the ephemeral containers.
pub(super) fn ephemeral_update(new: &Value, old: &Value, errors: &mut Errors) {
    ephemeral::update(new, old, errors);
}

/// Calls `visit` for each container of `spec`, in upstream's order.
fn each_container<'a>(
    path: &Path<'_>,
    spec: &'a Value,
    mut visit: impl FnMut(&Path<'_>, &'a Value),
) {
    for name in CONTAINERS {
        let path = path.child(name);
        for (index, container) in list(spec, name).iter().enumerate() {
            visit(&path.index(index), container);
        }
    }
}

/// A number of a field, or zero.
fn number(object: &Value, field: &str) -> i64 {
    object[field].as_i64().unwrap_or(0)
}

/// Whether a field is true.
fn is_true(object: &Value, field: &str) -> bool {
    object[field] == true
}
