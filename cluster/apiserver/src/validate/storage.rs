//! CSIDrivers, CSINodes, CSIStorageCapacities, VolumeAttachments and VolumeAttributesClasses.
//!
//! Upstream is `pkg/apis/storage/validation`.

use std::collections::HashSet;

use serde_json::Value;

use super::errors::{Errors, at, list, text};
use super::{formats, selector};
use crate::schema::internal;
use crate::schema::quantity::Quantity;

/// Longest name of a CSI driver.
const DRIVER: usize = 63;
/// Longest identifier of a node in a CSI driver.
const NODE_ID: usize = 256;
/// Most parameters of a class.
const PARAMETERS: usize = 512;
/// Most bytes of the parameters of a class, and of the metadata of an attachment.
const PARAMETER_BYTES: usize = 256 * 1024;
/// Longest message of an error of a volume.
const ERROR_MESSAGE: usize = 1024;
/// Shortest and longest lifetime of a token, in seconds.
const TOKEN_SECONDS: std::ops::RangeInclusive<i64> = 600..=1 << 32;

pub(super) fn csi_driver(object: &Value, errors: &mut Errors) {
    let spec = at(object, "spec");
    let required = [
        ("attachRequired", "spec.attachedRequired"),
        ("podInfoOnMount", "spec.podInfoOnMount"),
        ("storageCapacity", "spec.storageCapacity"),
    ];
    for (name, field) in required {
        if at(spec, name).is_null() {
            errors.required(field, "");
        }
    }
    if let Some(policy) = at(spec, "fsGroupPolicy").as_str() {
        let known = ["File", "None", "ReadWriteOnceWithFSType"];
        errors.one_of("spec.fsGroupPolicy", policy, &known);
    }
    let requests = list(spec, "tokenRequests");
    token_requests(requests, errors);
    for mode in list(spec, "volumeLifecycleModes") {
        let mode = mode.as_str().unwrap_or("");
        let known = ["Persistent", "Ephemeral"];
        errors.one_of("spec.volumeLifecycleModes", mode, &known);
    }
    if at(spec, "seLinuxMount").is_null() {
        errors.required("spec.seLinuxMount", "");
    }
    let period = at(spec, "nodeAllocatableUpdatePeriodSeconds").as_i64();
    if let Some(period) = period.filter(|period| *period < 10) {
        errors.invalid(
            "spec.nodeAllocatableUpdatePeriodSeconds",
            period,
            "must be greater than or equal to 10 seconds",
        );
    }
    let in_secrets = at(spec, "serviceAccountTokenInSecrets");
    if !in_secrets.is_null() && requests.is_empty() {
        errors.invalid(
            "spec.serviceAccountTokenInSecrets",
            in_secrets.clone(),
            "serviceAccountTokenInSecrets is set but no tokenRequests are specified",
        );
    }
}

fn token_requests(requests: &[Value], errors: &mut Errors) {
    let mut audiences = HashSet::new();
    for (index, request) in requests.iter().enumerate() {
        let field = |name: &str| format!("spec.tokenRequests[{index}].{name}");
        let audience = text(request, "audience");
        if !audiences.insert(audience) {
            errors.duplicate(field("audience"), audience);
            continue;
        }
        let Some(seconds) = at(request, "expirationSeconds").as_i64() else {
            continue;
        };
        let why = if seconds < *TOKEN_SECONDS.start() {
            "may not specify a duration less than 10 minutes"
        } else if seconds > *TOKEN_SECONDS.end() {
            "may not specify a duration larger than 2^32 seconds"
        } else {
            continue;
        };
        errors.invalid(field("expirationSeconds"), seconds, why);
    }
}

/// The fields of a driver that cannot change, with upstream's names of the fields.
pub(super) fn csi_driver_update(new: &Value, old: &Value, errors: &mut Errors) {
    let fields = [
        ("spec.attachRequired", "spec.attachedRequired"),
        ("spec.volumeLifecycleModes", "spec.volumeLifecycleModes"),
    ];
    for (path, field) in fields {
        if at(new, path) != at(old, path) {
            errors.invalid(field, at(new, path).clone(), "field is immutable");
        }
    }
}

pub(super) fn csi_node(object: &Value, errors: &mut Errors) {
    let mut names = HashSet::new();
    for (index, driver) in list(object, "spec.drivers").iter().enumerate() {
        let field = format!("spec.drivers[{index}]");
        let name = text(driver, "name");
        driver_name(&format!("{field}.name"), name, errors);
        let node = text(driver, "nodeID");
        if node.is_empty() {
            errors.required(format!("{field}.nodeID"), "");
        } else if node.len() > NODE_ID {
            let why = format!("must be {NODE_ID} characters or less");
            errors.invalid(format!("{field}.nodeID"), node, why);
        }
        if let Some(count) = at(driver, "allocatable.count").as_i64().filter(|n| *n < 0) {
            errors.invalid(
                format!("{field}.allocatable.count"),
                count,
                "must be greater than or equal to 0",
            );
        }
        if !names.insert(name) {
            errors.duplicate(format!("{field}.name"), name);
        }
        let mut keys = HashSet::new();
        for key in list(driver, "topologyKeys") {
            let key = key.as_str().unwrap_or("");
            if key.is_empty() {
                errors.required(&field, "");
            }
            if !keys.insert(key) {
                errors.duplicate(field.as_str(), key);
            }
            errors.complaints(&field, key, formats::qualified_name(key));
        }
    }
}

/// A driver of a node keeps its values, except the number of volumes.
pub(super) fn csi_node_update(new: &Value, old: &Value, errors: &mut Errors) {
    const FIELDS: [&str; 2] = ["nodeID", "topologyKeys"];
    for before in list(old, "spec.drivers") {
        let same = |driver: &&Value| text(driver, "name") == text(before, "name");
        for driver in list(new, "spec.drivers").iter().filter(same) {
            if FIELDS
                .iter()
                .any(|name| at(driver, name) != at(before, name))
            {
                let mut shown = internal::form("storage.CSINodeDriver", driver);
                shown["Allocatable"] = Value::Null;
                errors.invalid("spec.drivers", shown, "field is immutable");
            }
        }
    }
}

/// The name of a CSI driver, or of a driver of devices.
pub(super) fn driver_name(field: &str, name: &str, errors: &mut Errors) {
    if name.is_empty() {
        return errors.required(field, "");
    }
    if name.len() > DRIVER {
        errors.too_long(field, DRIVER);
    }
    errors.complaints(field, name, formats::subdomain(&name.to_lowercase()));
}

pub(super) fn storage_capacity(object: &Value, errors: &mut Errors) {
    selector::check("nodeTopology", at(object, "nodeTopology"), errors);
    let class = text(object, "storageClassName");
    errors.complaints("storageClassName", class, formats::subdomain(class));
    let capacity = text(object, "capacity");
    if Quantity::parse(capacity).is_some_and(|capacity| capacity.is_negative()) {
        errors.invalid("capacity", capacity, "must be greater than or equal to 0");
    }
}

pub(super) fn volume_attachment(object: &Value, errors: &mut Errors) {
    const SOURCE: &str = "spec.source";
    const ONE: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    driver_name("spec.attacher", text(object, "spec.attacher"), errors);
    let source = at(object, SOURCE);
    let volume = at(source, "persistentVolumeName").as_str();
    match (at(source, "inlineVolumeSpec").is_null(), volume) {
        (true, None) => errors.required(SOURCE, ONE),
        (false, Some(_)) => errors.forbidden(SOURCE, ONE),
        (true, Some("")) => errors.required(
            "spec.source.persistentVolumeName",
            "must specify non empty persistentVolumeName",
        ),
        _ => {}
    }
    let node = text(object, "spec.nodeName");
    errors.complaints("spec.nodeName", node, formats::subdomain(node));
    attachment_status(object, errors);
    if let Some(volume) = volume {
        let complaints = formats::subdomain(volume);
        errors.complaints("spec.source.persistentVolumeName", volume, complaints);
    }
}

fn attachment_status(object: &Value, errors: &mut Errors) {
    let metadata = at(object, "status.attachmentMetadata");
    if bytes_of(metadata) > PARAMETER_BYTES {
        errors.too_long("status.attachmentMetadata", PARAMETER_BYTES);
    }
    for name in ["attachError", "detachError"] {
        let error = at(object, "status").get(name).unwrap_or(&Value::Null);
        if text(error, "message").len() > ERROR_MESSAGE {
            errors.too_long(format!("status.{name}.message"), PARAMETER_BYTES);
        }
        if let Some(code) = at(error, "errorCode").as_i64().filter(|code| *code < 0) {
            errors.invalid(
                format!("status.{name}.errorCode"),
                code,
                format!("must be between 0 and {}, inclusive", i32::MAX),
            );
        }
    }
}

/// Bytes of all keys and values.
fn bytes_of(map: &Value) -> usize {
    let entries = map.as_object().into_iter().flatten();
    entries
        .map(|(key, value)| key.len() + value.as_str().map_or(0, str::len))
        .sum()
}

pub(super) fn attributes_class(object: &Value, errors: &mut Errors) {
    let driver = text(object, "driverName");
    if driver.is_empty() {
        errors.required("driverName", "");
    } else {
        let driver = driver.to_lowercase();
        errors.complaints("driverName", &driver, formats::qualified_name(&driver));
    }
    let parameters = at(object, "parameters");
    let count = parameters.as_object().map_or(0, |entries| entries.len());
    if count > PARAMETERS {
        return errors.too_long("parameters", PARAMETERS);
    }
    if parameters.get("").is_some() {
        errors.invalid("parameters", "", "field can not be empty.");
    }
    if bytes_of(parameters) > PARAMETER_BYTES {
        errors.too_long("parameters", PARAMETER_BYTES);
    }
    if count == 0 {
        errors.required("parameters", "must contain at least one key/value pair");
    }
}

pub(super) fn attributes_class_update(new: &Value, old: &Value, errors: &mut Errors) {
    for field in ["driverName", "parameters"] {
        if at(new, field) != at(old, field) {
            errors.forbidden(field, format!("updates to {field} are forbidden."));
        }
    }
}
