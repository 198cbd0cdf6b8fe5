//! Changes of the resources of a running pod.
//!
//! Upstream: `ValidatePodResize`.

use serde_json::{Map, Value};
use steersman_releases::Release;

use super::restart::is_sidecar;
use super::{Errors, Path, SPEC, annotations, at, list, text, whole};
use crate::defaults::qos_class;

const RESIZABLE: [&str; 2] = ["cpu", "memory"];
/// The gate of resizes of init containers that are no sidecars.
const INIT_CONTAINERS: &str = "InPlacePodVerticalScalingInitContainers";
/// The refusal of pods with resources of their own in 1.35.
const UNSUPPORTED_AS_A_WHOLE: &str = "resize of pods with pod-level resources is forbidden when \
     InPlacePodLevelResourcesVerticalScalingEnabled feature gate is disabled";

/// Checks a change through the subresource. Only CPU and memory can change.
pub(in super::super) fn update(new: &Value, old: &Value, errors: &mut Errors) {
    whole(new, errors);
    let release = errors.release();
    let has_own = |spec: &Value| {
        ["requests", "limits"].iter().any(|side| {
            let amounts = spec["resources"][side].as_object();
            amounts.is_some_and(|amounts| !amounts.is_empty())
        })
    };
    let has_own = has_own(&new["spec"]) || has_own(&old["spec"]);
    let refusal = if has_own && release < Release::of_minor(35) {
        Some("pods with pod-level resources cannot be resized")
    } else if !annotations::mirror(at(old, "metadata.annotations")).is_null() {
        Some("static pods cannot be resized")
    } else if at(old, "spec.os.name") == "windows" {
        Some("windows pods cannot be resized")
    } else {
        None
    };
    if let Some(refusal) = refusal {
        errors.clear();
        return errors.forbidden("", refusal);
    }
    let spec = &new["spec"];
    let before = &old["spec"];
    let class = match text(old, "status.qosClass") {
        "" => qos_class(before),
        class => class,
    };
    if class != qos_class(spec) {
        errors.invalid(
            "spec",
            class,
            "Pod QOS Class may not change as a result of resizing",
        );
    }
    if !is_supported(old) {
        errors.forbidden("spec", "Pod running on node without support for resize");
    }
    let mut rest = spec.clone();
    if has_own {
        if !release.enables("InPlacePodLevelResourcesVerticalScaling") {
            return errors.forbidden("", UNSUPPORTED_AS_A_WHOLE);
        }
        of_pod(&mut rest, before, errors);
    }
    if !same_containers(spec, before, errors) {
        return;
    }
    let resizes_inits = release.enables(INIT_CONTAINERS);
    for name in ["initContainers", "containers"] {
        let path = SPEC.child(name);
        for (index, (now, before)) in list(spec, name).iter().zip(list(before, name)).enumerate() {
            if name == "initContainers" && !resizes_inits && !is_sidecar(before) {
                continue;
            }
            nothing_removed(
                &path.index(index).child("resources"),
                &now["resources"],
                &before["resources"],
                "resource ",
                errors,
            );
        }
    }
    containers(&mut rest, before, errors);
    if errors.len() == 0 && rest != *before {
        errors.forbidden("spec", "only cpu and memory resources are mutable");
    }
}

/// Whether the node of a running pod reports the resources of its containers.
fn is_supported(pod: &Value) -> bool {
    list(pod, "status.containerStatuses")
        .iter()
        .find(|status| !status["state"]["running"].is_null())
        .is_none_or(|status| !status["resources"].is_null())
}

/// Checks the resources of the whole pod, and undoes their change in `spec`.
fn of_pod(spec: &mut Value, before: &Value, errors: &mut Errors) {
    const FIELD: Path<'static> = Path::new("spec.resources");
    let old = &before["resources"];
    if !old.is_null() {
        if spec["resources"].is_null() {
            return errors.forbidden(FIELD, "pod-level resources cannot be removed");
        }
        nothing_removed(
            &FIELD,
            &spec["resources"],
            old,
            "pod-level resource ",
            errors,
        );
    }
    if spec["resources"].is_null() {
        return;
    }
    restore_amounts(&mut spec["resources"], old);
    let is_empty = spec["resources"].as_object().is_some_and(|fields| {
        fields
            .values()
            .all(|side| side.as_object().is_some_and(Map::is_empty))
    });
    if old.is_null()
        && is_empty
        && let Some(fields) = spec.as_object_mut()
    {
        fields.remove("resources");
    }
    if spec["resources"] != *old {
        errors.forbidden(
            "spec",
            "only cpu and memory resources are mutable at pod-level",
        );
    }
}

/// Gives `resources` the CPU and memory of `old`.
fn restore_amounts(resources: &mut Value, old: &Value) {
    for side in ["requests", "limits"] {
        let had_side = !old[side].is_null();
        let amounts = &mut resources[side];
        if amounts.is_null() {
            *amounts = Value::Object(Map::new());
        }
        if let Some(amounts) = amounts.as_object_mut() {
            for name in RESIZABLE {
                match old[side].get(name) {
                    Some(amount) => drop(amounts.insert(name.to_owned(), amount.clone())),
                    None => drop(amounts.shift_remove(name)),
                }
            }
        }
        if !had_side
            && resources[side].as_object().is_some_and(Map::is_empty)
            && let Some(fields) = resources.as_object_mut()
        {
            fields.shift_remove(side);
        }
    }
}

/// Checks that the same containers are there, in the same order.
fn same_containers(spec: &Value, before: &Value, errors: &mut Errors) -> bool {
    let count = errors.len();
    for name in ["containers", "initContainers"] {
        let path = SPEC.child(name);
        let now = list(spec, name);
        let before = list(before, name);
        if now.len() != before.len() {
            errors.forbidden(
                path,
                format!("{name} may not be added or removed on resize"),
            );
            continue;
        }
        for (index, (now, before)) in now.iter().zip(before).enumerate() {
            if now["name"] != before["name"] {
                errors.forbidden(
                    path.index(index).child("name"),
                    format!("{name} may not be renamed or reordered on resize"),
                );
            }
        }
    }
    errors.len() == count
}

fn nothing_removed(path: &Path<'_>, now: &Value, old: &Value, what: &str, errors: &mut Errors) {
    for side in ["requests", "limits"] {
        let mut before = old[side].as_object().into_iter().flatten();
        if before.any(|(name, _)| now[side].get(name).is_none()) {
            errors.forbidden(path.child(side), format!("{what}{side} cannot be removed"));
        }
    }
}

/// Checks that nothing but CPU and memory of containers changes, and undoes that in `spec`.
fn containers(spec: &mut Value, before: &Value, errors: &mut Errors) {
    let resizes_inits = errors.release().enables(INIT_CONTAINERS);
    for name in ["containers", "initContainers"] {
        let Some(now) = spec.get_mut(name).and_then(Value::as_array_mut) else {
            continue;
        };
        let path = SPEC.child(name);
        for (index, (container, before)) in now.iter_mut().zip(list(before, name)).enumerate() {
            let is_changed = container != before;
            if name == "initContainers" && !resizes_inits && !is_sidecar(container) {
                if is_changed {
                    errors.forbidden(
                        "spec",
                        "resources for non-sidecar init containers are immutable",
                    );
                }
                continue;
            }
            restore_amounts(&mut container["resources"], &before["resources"]);
            if name == "containers" {
                if container != before {
                    errors.forbidden("spec", "only cpu and memory resources are mutable");
                }
                continue;
            }
            if container != before {
                if resizes_inits {
                    errors.forbidden(
                        path.index(index),
                        "only cpu and memory resources for init or sidecar containers are mutable",
                    );
                } else {
                    errors.forbidden(
                        "spec",
                        "only cpu and memory resources for sidecar containers are mutable",
                    );
                }
            }
            if is_changed && !is_sidecar(container) {
                let restarts = list(container, "resizePolicy").iter();
                for _ in restarts.filter(|policy| policy["restartPolicy"] == "RestartContainer") {
                    errors.forbidden(
                        path.index(index),
                        "non-sidecar init containers with a resize policy of RestartContainer cannot be resized",
                    );
                }
            }
        }
    }
}
