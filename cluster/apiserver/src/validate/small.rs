//! Kinds with few rules: ControllerRevision, Lease, Namespace, Node.
//!
//! Upstream is `pkg/apis/core/validation` and the validation package of each group.

use serde_json::Value;

use super::errors::{Errors, at, list, text};
use super::{meta, pod};
use crate::apimachinery::addresses::{self, Network};

pub(super) fn revision(object: &Value, errors: &mut Errors) {
    errors.non_negative(object, "revision");
    match at(object, "data") {
        Value::Null => errors.required("data", "data is mandatory"),
        Value::Object(_) => {}
        _ => errors.required("data", "data must be a valid JSON object"),
    }
}

/// The devices of a claim may be released. They are never exchanged for others in one step.
pub(super) fn resource_claim_status(new: &Value, old: &Value, errors: &mut Errors) {
    const FIELD: &str = "status.allocation";
    if !at(new, FIELD).is_null() && !at(old, FIELD).is_null() {
        errors.immutable(new, old, FIELD);
    }
}

pub(super) fn lease(object: &Value, errors: &mut Errors) {
    if let Some(seconds) = at(object, "spec.leaseDurationSeconds")
        .as_i64()
        .filter(|seconds| *seconds <= 0)
    {
        errors.invalid(
            "spec.leaseDurationSeconds",
            seconds,
            "must be greater than 0",
        );
    }
    errors.non_negative(object, "spec.leaseTransitions");
}

pub(super) fn namespace(object: &Value, errors: &mut Errors) {
    for finalizer in list(object, "spec.finalizers") {
        let finalizer = finalizer.as_str().unwrap_or("");
        meta::namespace_finalizer("spec.finalizers", finalizer, errors);
    }
}

/// The finalizers of the `finalize` endpoint, or the phase of the `status` endpoint.
pub(super) fn namespace_update(subresource: &str, new: &Value, errors: &mut Errors) {
    match subresource {
        "finalize" => {
            for (index, finalizer) in list(new, "spec.finalizers").iter().enumerate() {
                let field = format!("spec.finalizers[{index}]");
                let finalizer = finalizer.as_str().unwrap_or("");
                meta::namespace_finalizer(&field, finalizer, errors);
            }
        }
        _ => {
            let phase = text(new, "status.phase");
            let terminating = !at(new, "metadata.deletionTimestamp").is_null();
            if terminating && phase != "Terminating" {
                errors.invalid(
                    "status.Phase",
                    phase,
                    "may only be 'Terminating' if `deletionTimestamp` is not empty",
                );
            } else if !terminating && phase != "Active" {
                errors.invalid(
                    "status.Phase",
                    phase,
                    "may only be 'Active' if `deletionTimestamp` is empty",
                );
            }
        }
    }
}

pub(super) fn node(object: &Value, errors: &mut Errors) {
    const CIDRS: &str = "spec.podCIDRs";
    taints(object, errors);
    let ranges = list(object, CIDRS);
    for (index, range) in ranges.iter().enumerate() {
        let range = range.as_str().unwrap_or("");
        addresses::check_network(format!("{CIDRS}[{index}]"), range, errors);
    }
    let families: Vec<bool> = ranges
        .iter()
        .filter_map(|range| Network::sloppy(range.as_str()?).map(Network::is_ipv4))
        .collect();
    if ranges.len() > 2 || matches!(families[..], [one, other] if one == other) {
        let why = "may specify no more than one CIDR for each IP family";
        errors.invalid(CIDRS, ranges.to_vec(), why);
    }
}

fn taints(node: &Value, errors: &mut Errors) {
    pod::taints("metadata.taints", list(node, "spec.taints"), errors);
}

/// Pod CIDRs and the provider ID of a node cannot change once they are set.
pub(super) fn node_update(new: &Value, old: &Value, errors: &mut Errors) {
    const EXTERNAL: &str = "spec.externalID";
    for (field, name) in [("podCIDRs", "podCIDR"), ("providerID", "providerID")] {
        let path = format!("spec.{field}");
        let before = at(old, &path);
        if !before.is_null() && before != at(new, &path) {
            errors.forbidden(
                path,
                format!("node updates may not change {name} except from \"\" to valid"),
            );
        }
    }
    taints(new, errors);
    if text(new, EXTERNAL) != text(old, EXTERNAL) {
        errors.forbidden(EXTERNAL, "may not be updated");
    }
}
