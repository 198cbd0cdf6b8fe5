//! Ephemeral containers.
//!
//! Upstream: `validateEphemeralContainers` and `ValidatePodEphemeralContainersUpdate`.

use std::collections::HashSet;

use serde_json::Value;

use super::context::Pod;
use super::update::fixed_annotations;
use super::{Errors, Path, annotations, at, containers, list, text, whole};
use crate::validate::difference::difference;

/// Fields that only other containers have, in upstream's order.
const NOT_ALLOWED: [&str; 9] = [
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
];
const WHY: &str = "cannot be set for an Ephemeral Container";

/// Checks the ephemeral containers of a spec.
pub(super) fn check(path: &Path<'_>, pod: &Pod<'_>, errors: &mut Errors) {
    let given = list(pod.spec, "ephemeralContainers");
    if given.is_empty() {
        return;
    }
    let others: HashSet<&str> = ["containers", "initContainers"]
        .iter()
        .flat_map(|name| list(pod.spec, name))
        .map(|container| text(container, "name"))
        .collect();
    let mut names = others.clone();
    for (index, container) in given.iter().enumerate() {
        let path = path.index(index);
        containers::common(&path, container, pod, errors);
        containers::unpadded_image(&path, container, errors);
        let name = text(container, "name");
        if !names.insert(name) {
            errors.duplicate(path.child("name"), name);
        }
        let target = text(container, "targetContainerName");
        if !target.is_empty() && !others.contains(target) {
            errors.not_found(path.child("targetContainerName"), target);
        }
        for field in NOT_ALLOWED
            .iter()
            .filter(|field| is_set(&container[**field]))
        {
            errors.forbidden(path.child(field), WHY);
        }
        let mounts = path.child("volumeMounts");
        for (index, mount) in list(container, "volumeMounts").iter().enumerate() {
            for field in ["subPath", "subPathExpr"] {
                if !text(mount, field).is_empty() {
                    errors.forbidden(mounts.index(index).child(field), WHY);
                }
            }
        }
    }
}

/// Whether a field has more than the value that it starts with.
fn is_set(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Array(list) => !list.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    }
}

/// Checks a change through the subresource: containers can be added, and nothing else.
pub(super) fn update(new: &Value, old: &Value, errors: &mut Errors) {
    const FIELD: &str = "spec.ephemeralContainers";
    whole(new, errors);
    fixed_annotations(new, old, errors);
    if !annotations::mirror(at(old, "metadata.annotations")).is_null() {
        errors.clear();
        return errors.forbidden("", "static pods do not support ephemeral containers");
    }
    let given = list(new, FIELD);
    for before in list(old, FIELD) {
        let name = text(before, "name");
        let now = given
            .iter()
            .rfind(|container| text(container, "name") == name);
        match now {
            None => errors.forbidden(
                FIELD,
                format!("existing ephemeral containers {name:?} may not be removed\n"),
            ),
            Some(now) if now != before => {
                let difference = difference(before, now);
                let why = format!("existing ephemeral containers {name:?} may not be changed");
                errors.forbidden(FIELD, format!("{why}\n{difference}"));
            }
            Some(_) => {}
        }
    }
}
