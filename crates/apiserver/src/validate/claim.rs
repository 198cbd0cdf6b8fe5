//! PersistentVolumeClaims.
//!
//! Upstream is `ValidatePersistentVolumeClaim` in `pkg/apis/core/validation`.

use serde_json::{Value, json};

use super::errors::{Errors, at, list, text};
use super::pod_update::difference;
use super::{formats, selector};
use crate::schema::quantity::Quantity;

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
    let modes: Vec<&str> = modes.iter().filter_map(Value::as_str).collect();
    for mode in &modes {
        errors.one_of(&modes_field, mode, &MODES);
    }
    let shares = |mode: &&str| *mode != "ReadWriteOncePod" && MODES.contains(mode);
    if modes.contains(&"ReadWriteOncePod") && modes.iter().any(shares) {
        errors.forbidden(
            modes_field,
            "may not use ReadWriteOncePod with other access modes",
        );
    }
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
        errors.complaints(&field, class, formats::subdomain(class));
    }
    let mode = at(spec, "volumeMode");
    if !mode.is_null() {
        errors.one_of(
            format!("{field}.volumeMode"),
            mode.as_str().unwrap_or_default(),
            &["Block", "Filesystem"],
        );
    }
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
    // A claim without a class may get one later; a claim with one keeps it.
    if at(old, "spec.storageClassName").is_null() {
        take(&["storageClassName"]);
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
    let (grown, granted) = (size(new, SIZE), size(new, "status.capacity.storage"));
    if grown < size(old, SIZE) && grown <= granted {
        errors.forbidden(SIZE, "field can not be less than status.capacity");
    }
    if at(new, "spec.volumeMode") != at(old, "spec.volumeMode") {
        let mode = json!(at(new, "spec.volumeMode"));
        errors.invalid("volumeMode", mode, "field is immutable");
    }
}
