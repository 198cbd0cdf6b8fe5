//! PersistentVolumeClaims.
//!
//! Upstream is `ValidatePersistentVolumeClaim` in `pkg/apis/core/validation`.

use serde_json::{Value, json};

use super::difference::difference;
use super::errors::{Errors, at, list, text};
use super::resource_names::is_native;
use super::{formats, fraction, selector};
use crate::apimachinery::path::Path;
use crate::schema::quantity::Quantity;

const OLD_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

const MODES: [&str; 4] = [
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOnce",
    "ReadWriteOncePod",
];

/// Checks the spec of a claim, or of a claim template.
pub(super) fn spec(field: &str, spec: &Value, errors: &mut Errors) {
    let modes = list(spec, "accessModes");
    let modes_field = format!("{field}.accessModes");
    if modes.is_empty() {
        errors.required(&modes_field, "at least 1 access mode is required");
    }
    let wanted = at(spec, "selector");
    if !wanted.is_null() {
        selector::check(&format!("{field}.selector"), wanted, errors);
    }
    access_modes(&modes_field, modes, errors);
    let size_field = format!("{field}.resources[storage]");
    match at(spec, "resources.requests.storage").as_str() {
        None => errors.required(size_field, ""),
        Some(size) => {
            let is_positive = size_of(size).is_some_and(|size| Quantity::parse("0") < Some(size));
            if !is_positive {
                errors.invalid(size_field, size, "must be greater than zero");
            }
        }
    }
    let class = text(spec, "storageClassName");
    if !class.is_empty() {
        let field = format!("{field}.storageClassName");
        errors.complaints(field, class, formats::subdomain(class));
    }
    let mode = at(spec, "volumeMode");
    if !mode.is_null() {
        errors.one_of(
            format!("{field}.volumeMode"),
            mode.as_str().unwrap_or_default(),
            &["Block", "Filesystem"],
        );
    }
    data_sources(&Path::new(field), spec, errors);
    let class = text(spec, "volumeAttributesClassName");
    if !class.is_empty() {
        let field = format!("{field}.volumeAttributesClassName");
        errors.complaints(field, class, formats::subdomain(class));
    }
}

/// Checks the ways in which a volume is mounted.
pub(super) fn access_modes(field: &str, modes: &[Value], errors: &mut Errors) {
    let modes: Vec<&str> = modes.iter().filter_map(Value::as_str).collect();
    for mode in &modes {
        errors.one_of(field, mode, &MODES);
    }
    let shares = |mode: &&str| *mode != "ReadWriteOncePod" && MODES.contains(mode);
    if modes.contains(&"ReadWriteOncePod") && modes.iter().any(shares) {
        errors.forbidden(
            field,
            "may not use ReadWriteOncePod with other access modes",
        );
    }
}

/// Checks where the content of a new volume comes from. Upstream: `validateDataSource`.
fn data_sources(path: &Path<'_>, spec: &Value, errors: &mut Errors) {
    for field in ["dataSource", "dataSourceRef"] {
        let source = &spec[field];
        if source.is_null() {
            continue;
        }
        let path = path.child(field);
        for field in ["name", "kind"] {
            if text(source, field).is_empty() {
                errors.required(path.child(field), "");
            }
        }
        let kind = text(source, "kind");
        let group = text(source, "apiGroup");
        if group.is_empty() {
            if kind != "PersistentVolumeClaim" {
                errors.invalid(
                    path,
                    kind,
                    "must be 'PersistentVolumeClaim' when referencing the default apiGroup",
                );
            }
        } else {
            errors.complaints(path.child("apiGroup"), group, formats::subdomain(group));
        }
    }
    let source = &spec["dataSource"];
    let reference = &spec["dataSourceRef"];
    let differs = ["apiGroup", "kind", "name"]
        .iter()
        .any(|field| source[field] != reference[field]);
    if !source.is_null() && !reference.is_null() && differs {
        // Upstream shows a value without exported fields here.
        errors.invalid(path, json!({}), "must match dataSourceRef");
    }
}

/// Warnings about fractions of bytes in the spec at `path`.
pub(super) fn warnings(path: &Path<'_>, spec: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    let resources = path.child("resources");
    for side in ["requests", "limits"] {
        let amount = &spec["resources"][side]["storage"];
        fraction::warn(&resources.child(side).key("storage"), amount, &mut warnings);
    }
    warnings
}

/// Warnings about a claim.
pub(super) fn warnings_of_claim(claim: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    if !at(claim, "metadata.annotations")[OLD_CLASS].is_null() {
        warnings.push(format!(
            "metadata.annotations[{OLD_CLASS}]: deprecated since v1.8; use \"storageClassName\" attribute instead"
        ));
    }
    warnings.extend(self::warnings(&Path::new("spec"), &claim["spec"]));
    warnings
}

/// Checks a change of the status. Upstream: `ValidatePersistentVolumeClaimStatusUpdate`.
pub(super) fn status_update(new: &Value, errors: &mut Errors) {
    const STATUSES: [&str; 5] = [
        "ControllerResizeInProgress",
        "ControllerResizeInfeasible",
        "NodeResizeInProgress",
        "NodeResizeInfeasible",
        "NodeResizePending",
    ];
    let status = &new["status"];
    for (name, amount) in status["capacity"].as_object().into_iter().flatten() {
        not_negative(&format!("status.capacity[{name}]"), amount, errors);
    }
    const RESIZES: &str = "status.allocatedResourceStatuses";
    for (name, state) in status["allocatedResourceStatuses"]
        .as_object()
        .into_iter()
        .flatten()
    {
        resource_key(RESIZES, name, errors);
        if !STATUSES.contains(&state.as_str().unwrap_or_default()) {
            errors.not_supported(RESIZES, name.as_str(), &STATUSES);
        }
    }
    const ALLOCATED: &str = "status.allocatedResources";
    for (name, amount) in status["allocatedResources"]
        .as_object()
        .into_iter()
        .flatten()
    {
        let before = errors.len();
        resource_key(ALLOCATED, name, errors);
        if errors.len() == before {
            not_negative(&format!("{ALLOCATED}[{name}]"), amount, errors);
        }
    }
}

fn not_negative(field: &str, amount: &Value, errors: &mut Errors) {
    let units = amount
        .as_str()
        .and_then(size_of)
        .map_or(0, |amount| amount.units());
    if units < 0 {
        let units = i64::try_from(units).unwrap_or(i64::MIN);
        errors.invalid(field, units, "must be a valid resource quantity");
    }
}

/// The resources of a claim are `storage`, and those of other domains.
fn resource_key(field: &str, name: &str, errors: &mut Errors) {
    let complaints = formats::qualified_name(name);
    if complaints.is_empty() && is_native(name) && name != "storage" {
        errors.not_supported(field, name, &["storage"]);
    }
    errors.complaints(field, name, complaints);
}

fn size_of(size: &str) -> Option<Quantity> {
    Quantity::parse(size)
}

/// Checks an update: the spec is immutable, except for the binding and for growth.
pub(super) fn update(new: &Value, old: &Value, errors: &mut Errors) {
    const SIZE: &str = "spec.resources.requests.storage";
    const FIXED: &str = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
    let mut before = at(old, "spec").clone();
    let mut take = |path: &[&str]| {
        let value = path.iter().fold(at(new, "spec"), |at, step| &at[*step]);
        let (last, parents) = path.split_last().expect("the paths are not empty");
        let mut place = &mut before;
        for step in parents {
            place = &mut place[*step];
        }
        match value {
            Value::Null => {
                if let Some(fields) = place.as_object_mut() {
                    fields.remove(*last);
                }
            }
            value => place[*last] = value.clone(),
        }
    };
    if text(old, "spec.volumeName").is_empty() {
        take(&["volumeName"]);
    }
    let annotated = |object: &Value| {
        let class = &at(object, "metadata.annotations")[OLD_CLASS];
        class.as_str().map(str::to_owned)
    };
    let annotation = annotated(old);
    let class = at(new, "spec.storageClassName").as_str();
    // A claim without a class may get one later; a claim with one keeps it. An old annotation is
    // a class, which may become the field.
    let is_unset = at(old, "spec.storageClassName").is_null();
    if is_unset && class.is_some() && annotation.as_deref().is_none_or(|of| Some(of) == class) {
        take(&["storageClassName"]);
    }
    let moved = is_unset && annotation.is_some() && annotation.as_deref() == class;
    if annotated(new) != annotation && !(moved && annotated(new).is_none()) {
        errors.invalid(
            format!("metadata.annotations.{OLD_CLASS}"),
            annotated(new).unwrap_or_default(),
            "field is immutable",
        );
    }
    if text(new, "status.phase") == "Bound" {
        take(&["resources", "requests", "storage"]);
        take(&["volumeAttributesClassName"]);
    }
    if *at(new, "spec") != before {
        let difference = difference(&before, at(new, "spec"));
        errors.forbidden("spec", format!("{FIXED}\n{difference}"));
    }
    let size = |object: &Value, path: &str| size_of(at(object, path).as_str().unwrap_or("0"));
    let grown = size(new, SIZE);
    let granted = size(old, "status.capacity.storage");
    if grown < size(old, SIZE) && grown <= granted {
        errors.forbidden(SIZE, "field can not be less than status.capacity");
    }
    if at(new, "spec.volumeMode") != at(old, "spec.volumeMode") {
        let mode = json!(at(new, "spec.volumeMode"));
        errors.invalid("volumeMode", mode, "field is immutable");
    }
    attributes_class_update(new, old, errors);
}

/// A claim whose volume has an attributes class keeps one.
fn attributes_class_update(new: &Value, old: &Value, errors: &mut Errors) {
    const CLASS: &str = "spec.volumeAttributesClassName";
    let now = at(new, CLASS);
    let before = at(old, CLASS);
    if now == before || at(old, "status.currentVolumeAttributesClassName").is_null() {
        return;
    }
    let update = match now.as_str() {
        None => "nil",
        Some("") => "empty string",
        Some(_) => return,
    };
    errors.forbidden(
        CLASS,
        format!("update to {update} is forbidden when status.currentVolumeAttributesClassName is not nil"),
    );
}
