//! Updates of pods.
//!
//! Most of a pod's spec cannot change. Upstream is `ValidatePodUpdate` in
//! `pkg/apis/core/validation`.

use serde_json::{Map, Value};

use super::{Errors, Path, annotations, at, containers, list, placement, text, whole};
use crate::schema::internal;
use crate::validate::difference::difference;

const FIXED: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,\
                     `spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),\
                     `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Checks an update of a pod. Images, tolerations and few other fields can change.
pub(in super::super) fn update(new: &Value, old: &Value, errors: &mut Errors) {
    whole(new, errors);
    fixed_annotations(new, old, errors);
    for containers in ["containers", "initContainers"] {
        let field = format!("spec.{containers}");
        if list(new, &field).len() != list(old, &field).len() {
            return errors.forbidden(field, "pod updates may not add or remove containers");
        }
        let path = Path::new(&field);
        for (index, container) in list(new, &field).iter().enumerate() {
            let path = path.index(index);
            if text(container, "image").is_empty() {
                errors.required(path.child("image"), "");
            }
            containers::unpadded_image(&path, container, errors);
        }
    }
    if !deadline_update(new, old, errors) {
        return;
    }
    tolerations(new, old, errors);
    scheduling_gates(new, old, errors);
    if at(new, "spec") == at(old, "spec") {
        return;
    }
    let mut allowed = with_mutable_parts(new, old);
    let stored = at(old, "spec");
    if !list(stored, "schedulingGates").is_empty() {
        gated(&mut allowed, stored, errors);
    }
    if &allowed != stored {
        errors.forbidden("spec", format!("{FIXED}\n{}", difference(stored, &allowed)));
    }
}

/// Checks the annotations of an update.
pub(super) fn fixed_annotations(new: &Value, old: &Value, errors: &mut Errors) {
    const FIELD: &str = "metadata.annotations";
    let path = Path::new(FIELD);
    let given = at(new, FIELD);
    annotations::update(&path, given, at(old, FIELD), errors);
    annotations::check(&path, given, &new["spec"], errors);
}

/// Checks a change of the nodes that a gated pod can get, and undoes it in `spec`. The choice can
/// only become smaller.
fn gated(spec: &mut Value, stored: &Value, errors: &mut Errors) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
    let selector = &spec["nodeSelector"];
    let before = &stored["nodeSelector"];
    let mut wanted = before.as_object().into_iter().flatten();
    if !wanted.all(|(key, value)| selector.get(key) == Some(value)) {
        errors.invalid(
            "spec.nodeSelector",
            selector.clone(),
            "only additions to spec.nodeSelector are allowed (no mutations or deletions)",
        );
    }
    let affinity = |spec: &Value| spec["affinity"]["nodeAffinity"].clone();
    let new_affinity = affinity(spec);
    let old_affinity = affinity(stored);
    let terms = list(&new_affinity, REQUIRED);
    let old_terms = list(&old_affinity, REQUIRED);
    let field = format!("spec.affinity.nodeAffinity.{REQUIRED}");
    if !old_terms.is_empty() && terms.len() != old_terms.len() {
        let has_selector =
            new_affinity["requiredDuringSchedulingIgnoredDuringExecution"].is_object();
        let shown = if has_selector {
            Value::Array(terms.to_vec())
        } else {
            Value::Null
        };
        errors.invalid(
            field,
            internal::form("core.NodeSelectorTerm", &shown),
            "no additions/deletions to non-empty NodeSelectorTerms list are allowed",
        );
    } else {
        for (index, (term, before)) in terms.iter().zip(old_terms).enumerate() {
            if !has_only_additions(term, before) {
                errors.invalid(
                    format!("{field}[{index}]"),
                    internal::form("core.NodeSelectorTerm", term),
                    "only additions are allowed (no mutations or deletions)",
                );
            }
        }
    }
    restore(spec, stored, "nodeSelector");
    if new_affinity != old_affinity {
        restore_node_affinity(spec, stored);
    }
}

fn has_only_additions(term: &Value, before: &Value) -> bool {
    let parts = ["matchExpressions", "matchFields"];
    let was_empty = parts.iter().all(|part| list(before, part).is_empty());
    parts.iter().all(|part| {
        let now = list(term, part);
        let before = list(before, part);
        now.starts_with(before) && (!was_empty || now.is_empty())
    })
}

/// Gives `spec` the node affinity of `stored`, and keeps its affinity to pods.
fn restore_node_affinity(spec: &mut Value, stored: &Value) {
    let is_only_of_nodes = ["podAffinity", "podAntiAffinity"]
        .iter()
        .all(|kind| spec["affinity"][kind].is_null());
    if stored["affinity"].is_null() && is_only_of_nodes {
        return restore(spec, stored, "affinity");
    }
    if !spec["affinity"].is_object() {
        spec["affinity"] = Value::Object(Map::new());
    }
    restore(&mut spec["affinity"], &stored["affinity"], "nodeAffinity");
}

/// Gives `object` the field of `stored`.
fn restore(object: &mut Value, stored: &Value, name: &str) {
    if let Some(fields) = object.as_object_mut() {
        match stored.get(name) {
            Some(value) => drop(fields.insert(name.to_owned(), value.clone())),
            None => drop(fields.remove(name)),
        }
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
        (None, Some(_)) => {
            errors.invalid(
                FIELD,
                Value::Null,
                "must not update from a positive integer to nil value",
            );
            return true;
        }
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
        return errors.forbidden(
            "spec.tolerations",
            "existing toleration can not be modified except its tolerationSeconds",
        );
    }
    let given = list(new, "spec.tolerations");
    placement::tolerations(&Path::new("spec.tolerations"), given, errors);
}

/// The new spec with the old values of its mutable fields. It equals the old spec if the update is
/// allowed.
fn with_mutable_parts(new: &Value, old: &Value) -> Value {
    let mut spec = at(new, "spec").clone();
    let stored = at(old, "spec");
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
    for name in mutable {
        restore(&mut spec, stored, name);
    }
    spec
}
