//! Updates of pods and of their status.
//!
//! Most of a pod's spec cannot change. Upstream is `ValidatePodUpdate` in
//! `pkg/apis/core/validation`.

use std::net::IpAddr;

use serde_json::{Map, Value};

use super::errors::{Errors, at, list, text};

const FIXED: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,\
                     `spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),\
                     `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Checks an update of a pod's spec. Images, tolerations and few other fields can change.
pub(super) fn pod_update(new: &Value, old: &Value, errors: &mut Errors) {
    for containers in ["containers", "initContainers"] {
        let field = format!("spec.{containers}");
        if list(new, &field).len() != list(old, &field).len() {
            let detail = if containers == "containers" {
                "containers"
            } else {
                "init containers"
            };
            errors.forbidden(
                &field,
                format!("pod updates may not add or remove {detail}"),
            );
            return;
        }
        for (index, container) in list(new, &field).iter().enumerate() {
            if text(container, "image").is_empty() {
                errors.required(format!("{field}[{index}].image"), "");
            }
        }
    }
    if !deadline_update(new, old, errors) {
        return;
    }
    scheduling_gates(new, old, errors);
    tolerations(new, old, errors);

    let (allowed, stored) = (with_mutable_parts(new, old), at(old, "spec"));
    if &allowed != stored {
        errors.forbidden("spec", format!("{FIXED}\n{}", difference(stored, &allowed)));
    }
}

/// Checks that the deadline does not grow. False if an error makes the further checks useless.
fn deadline_update(new: &Value, old: &Value, errors: &mut Errors) -> bool {
    const FIELD: &str = "spec.activeDeadlineSeconds";
    let before = errors.len();
    match (at(new, FIELD).as_i64(), at(old, FIELD).as_i64()) {
        (Some(new), _) if !(0..=i64::from(i32::MAX)).contains(&new) => {
            errors.invalid(
                FIELD,
                new,
                format!("must be between 0 and {}, inclusive", i32::MAX),
            );
        }
        (Some(new), Some(old)) if new > old => {
            errors.invalid(FIELD, new, "must be less than or equal to previous value")
        }
        (None, Some(_)) => errors.invalid(
            FIELD,
            Value::Null,
            "must not update from a positive integer to nil value",
        ),
        _ => {}
    }
    errors.len() == before
}

/// Gates can only be removed.
fn scheduling_gates(new: &Value, old: &Value, errors: &mut Errors) {
    let before = list(old, "spec.schedulingGates");
    for (index, gate) in list(new, "spec.schedulingGates").iter().enumerate() {
        if !before.contains(gate) {
            let name = text(gate, "name");
            let detail =
                format!("only deletion is allowed, but found new scheduling gate '{name}'");
            errors.forbidden(format!("spec.schedulingGates[{index}].name"), detail);
        }
    }
}

/// Existing tolerations must stay. Only their `tolerationSeconds` can change.
fn tolerations(new: &Value, old: &Value, errors: &mut Errors) {
    let without_seconds = |toleration: &Value| {
        let mut fields = toleration.as_object().cloned().unwrap_or_default();
        fields.remove("tolerationSeconds");
        fields
    };
    let kept: Vec<Map<String, Value>> = list(new, "spec.tolerations")
        .iter()
        .map(without_seconds)
        .collect();
    if list(old, "spec.tolerations")
        .iter()
        .any(|toleration| !kept.contains(&without_seconds(toleration)))
    {
        errors.forbidden(
            "spec.tolerations",
            "existing toleration can not be modified except its tolerationSeconds",
        );
    }
}

/// The new spec with the old values of its mutable fields. It equals the old spec if the update is
/// allowed.
fn with_mutable_parts(new: &Value, old: &Value) -> Value {
    let (mut spec, stored) = (at(new, "spec").clone(), at(old, "spec"));
    for containers in ["containers", "initContainers"] {
        let images = list(stored, containers)
            .iter()
            .map(|container| text(container, "image").to_owned());
        for (container, image) in spec
            .get_mut(containers)
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
            .zip(images)
        {
            container["image"] = Value::String(image);
        }
    }
    let mut mutable = vec!["activeDeadlineSeconds", "tolerations", "schedulingGates"];
    let grace = |spec: &Value| at(spec, "terminationGracePeriodSeconds").as_i64();
    if grace(stored).is_some_and(|seconds| seconds < 0) && grace(&spec) == Some(1) {
        mutable.push("terminationGracePeriodSeconds");
    }
    if !list(stored, "schedulingGates").is_empty() {
        // The placement of a gated pod can still be restricted further.
        mutable.extend(["nodeSelector", "affinity"]);
    }
    if let Some(fields) = spec.as_object_mut() {
        for name in mutable {
            match stored.get(name) {
                Some(value) => drop(fields.insert(name.to_owned(), value.clone())),
                None => drop(fields.remove(name)),
            }
        }
    }
    spec
}

/// The top-level fields that differ. Upstream shows a longer diff of the whole spec.
pub(super) fn difference(old: &Value, new: &Value) -> String {
    let names = |spec: &Value| {
        spec.as_object()
            .map(|fields| fields.keys().cloned().collect::<Vec<_>>())
            .unwrap_or_default()
    };
    let mut all = names(old);
    all.extend(names(new));
    all.sort_unstable();
    all.dedup();
    let changed = all.iter().filter(|name| at(old, name) != at(new, name));
    changed
        .map(|name| {
            format!(
                "- {name:?}: {}\n+ {name:?}: {}\n",
                at(old, name),
                at(new, name)
            )
        })
        .collect()
}

/// Checks an update of a pod's status.
pub(super) fn pod_status(new: &Value, old: &Value, errors: &mut Errors) {
    const NOMINATED: &str = "status.nominatedNodeName";
    let nominated = text(new, NOMINATED);
    if !nominated.is_empty()
        && nominated != text(old, NOMINATED)
        && !text(old, "spec.nodeName").is_empty()
    {
        errors.forbidden(
            NOMINATED,
            "may not be set on pods that are already bound to a node",
        );
    }
    for (list_name, field) in [("podIPs", "status.podIPs"), ("hostIPs", "status.hostIPs")] {
        for (index, entry) in list(at(new, "status"), list_name).iter().enumerate() {
            let ip = text(entry, "ip");
            if ip.parse::<IpAddr>().is_err() {
                errors.invalid(
                    format!("{field}[{index}]"),
                    ip,
                    "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
                );
            }
        }
    }
}
