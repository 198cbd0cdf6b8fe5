//! Kinds with few rules: ConfigMap, ControllerRevision, Secret, Lease, Namespace, Node, Event,
//! Service.
//!
//! Upstream is `pkg/apis/core/validation` and the validation package of each group.

use std::collections::HashSet;

use serde_json::Value;

use super::errors::{Errors, at, list, text};
use super::{formats, meta, pod_spec};

/// Most bytes of all data of a ConfigMap or Secret.
const MAX_DATA_BYTES: usize = 1024 * 1024;

/// Keys must be unique over `data` and `binaryData`, and all data has one limit.
pub(super) fn config_map(object: &Value, errors: &mut Errors) {
    let mut bytes = 0;
    for field in ["data", "binaryData"] {
        for (key, value) in at(object, field).as_object().into_iter().flatten() {
            errors.complaints(&format!("{field}[{key}]"), key, formats::config_key(key));
            if field == "data"
                && !at(object, "binaryData")
                    .get(key)
                    .unwrap_or(&Value::Null)
                    .is_null()
            {
                errors.invalid(
                    format!("data[{key}]"),
                    key.as_str(),
                    "duplicate of key present in binaryData",
                );
            }
            bytes += value.as_str().map_or(0, |value| {
                if field == "data" {
                    value.len()
                } else {
                    decoded_length(value)
                }
            });
        }
    }
    if bytes > MAX_DATA_BYTES {
        errors.too_long("", MAX_DATA_BYTES);
    }
}

pub(super) fn revision(object: &Value, errors: &mut Errors) {
    errors.non_negative(object, "revision");
    match at(object, "data") {
        Value::Null => errors.required("data", "data is mandatory"),
        Value::Object(_) => {}
        _ => errors.required("data", "data must be a valid JSON object"),
    }
}

pub(super) fn secret(object: &Value, errors: &mut Errors) {
    let mut bytes = 0;
    for (key, value) in at(object, "data").as_object().into_iter().flatten() {
        errors.complaints(&format!("data[{key}]"), key, formats::config_key(key));
        bytes += value.as_str().map_or(0, decoded_length);
    }
    if bytes > MAX_DATA_BYTES {
        errors.too_long("data", MAX_DATA_BYTES);
    }
}

/// Number of bytes that a base64 text encodes.
fn decoded_length(text: &str) -> usize {
    text.trim_end_matches('=').len() * 3 / 4
}

/// `immutable: true` protects the data and itself from changes.
pub(super) fn immutable_data(new: &Value, old: &Value, errors: &mut Errors) {
    const DETAIL: &str = "field is immutable when `immutable` is set";
    let is_set = |object: &Value| at(object, "immutable") == &Value::Bool(true);
    if !is_set(old) {
        return;
    }
    if !is_set(new) {
        errors.forbidden("immutable", DETAIL);
    }
    for field in ["data", "binaryData"] {
        if at(new, field) != at(old, field) {
            errors.forbidden(field, DETAIL);
        }
    }
}

/// A slice stays with its driver, its pool and its node.
pub(super) fn resource_slice_update(new: &Value, old: &Value, errors: &mut Errors) {
    for field in ["spec.pool.name", "spec.driver", "spec.nodeName"] {
        errors.immutable(new, old, field);
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

/// The finalizers of the `finalize` endpoint, or the phase of the `status` endpoint.
pub(super) fn namespace_update(subresource: Option<&str>, new: &Value, errors: &mut Errors) {
    match subresource {
        Some("finalize") => meta::finalizers(
            "spec.finalizers",
            list(new, "spec.finalizers"),
            true,
            errors,
        ),
        Some(_) => {
            let (phase, terminating) = (
                text(new, "status.phase"),
                !at(new, "metadata.deletionTimestamp").is_null(),
            );
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
        None => {}
    }
}

pub(super) fn node(object: &Value, errors: &mut Errors) {
    pod_spec::taints("metadata.taints", list(object, "spec.taints"), errors);
}

/// Pod CIDRs and the provider ID of a node cannot change once they are set.
pub(super) fn node_update(new: &Value, old: &Value, errors: &mut Errors) {
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
}

/// A core Event must be in the namespace of its object. The newer group requires other fields.
pub(super) fn event(object: &Value, errors: &mut Errors) {
    if text(object, "apiVersion").starts_with("events.k8s.io/") {
        if at(object, "eventTime").is_null() {
            errors.required("eventTime", "");
        }
        let kind = text(object, "type");
        if !["Normal", "Warning"].contains(&kind) {
            errors.invalid("type", "", format!("has invalid value: {kind}"));
        }
        return;
    }
    let (own, involved) = (
        text(object, "metadata.namespace"),
        text(object, "involvedObject.namespace"),
    );
    // Events of cluster-scoped objects are in the namespace `default`.
    let agrees = if involved.is_empty() {
        own.is_empty() || own == "default"
    } else {
        involved == own
    };
    if !agrees {
        errors.invalid(
            "involvedObject.namespace",
            involved,
            "does not match event.namespace",
        );
    }
}

pub(super) fn service(object: &Value, errors: &mut Errors) {
    let ports = list(object, "spec.ports");
    let kind = text(object, "spec.type");
    let headless = text(object, "spec.clusterIP") == "None";
    if ports.is_empty() && !headless && kind != "ExternalName" {
        errors.required("spec.ports", "");
    }
    let mut names = HashSet::new();
    for (index, port) in ports.iter().enumerate() {
        let field = format!("spec.ports[{index}]");
        match text(port, "name") {
            "" if ports.len() > 1 => errors.required(format!("{field}.name"), ""),
            "" => {}
            name => {
                errors.complaints(&format!("{field}.name"), name, formats::label(name));
                if !names.insert(name) {
                    errors.duplicate(format!("{field}.name"), name);
                }
            }
        }
        pod_spec::port_number(
            format!("{field}.port"),
            at(port, "port").as_i64().unwrap_or(0),
            errors,
        );
        errors.one_of(
            format!("{field}.protocol"),
            text(port, "protocol"),
            &["SCTP", "TCP", "UDP"],
        );
        match at(port, "targetPort") {
            Value::Number(number) => {
                pod_spec::port_number(
                    format!("{field}.targetPort"),
                    number.as_i64().unwrap_or(0),
                    errors,
                );
            }
            Value::String(name) => errors.complaints(
                &format!("{field}.targetPort"),
                name,
                formats::port_name(name),
            ),
            _ => {}
        }
    }
    meta::labels("spec.selector", at(object, "spec.selector"), errors);
    errors.one_of(
        "spec.sessionAffinity",
        text(object, "spec.sessionAffinity"),
        &["ClientIP", "None"],
    );
    errors.one_of(
        "spec.type",
        kind,
        &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"],
    );
}

pub(super) fn cluster_ip_unchanged(new: &Value, old: &Value, errors: &mut Errors) {
    let before = text(old, "spec.clusterIP");
    if !before.is_empty()
        && text(new, "spec.type") != "ExternalName"
        && before != text(new, "spec.clusterIP")
    {
        errors.invalid(
            "spec.clusterIPs[0]",
            at(new, "spec.clusterIPs").clone(),
            "may not change once set",
        );
    }
}
