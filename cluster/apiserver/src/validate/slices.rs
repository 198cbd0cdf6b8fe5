//! ResourceSlices: the devices of a driver.
//!
//! Upstream is `pkg/apis/resource/validation`.

use std::collections::HashSet;

use serde_json::Value;

use super::devices::{attribute_name, set, taint};
use super::errors::{Errors, at, list, text};
use super::{formats, pod, storage};
use crate::apimachinery::path::Path;
use crate::schema::internal;

const DEVICES: usize = 128;
/// Most devices, if one of them has taints, counters or lists.
const COMPLEX_DEVICES: usize = 64;
const COUNTER_SETS: usize = 8;
const COUNTERS: usize = 32;
const CONSUMED_SETS: usize = 2;
const TAINTS: usize = 16;
const CONDITIONS: usize = 4;
/// Most attributes and capacities of a device, and most values of its attributes.
const PROPERTIES: usize = 32;
const ATTRIBUTE_VALUES: usize = 48;
/// Longest text of an attribute, and longest name of a pool, in bytes.
const ATTRIBUTE: usize = 64;
const POOL: usize = 253;

const LISTS: [&str; 4] = ["bools", "ints", "strings", "versions"];

pub(super) fn check(object: &Value, old: Option<&Value>, errors: &mut Errors) {
    let spec = at(object, "spec");
    storage::driver_name("spec.driver", text(spec, "driver"), errors);
    pool(at(spec, "pool"), errors);
    if let Some(old) = old {
        errors.immutable(object, old, "spec.pool.name");
        errors.immutable(object, old, "spec.driver");
        errors.immutable_pointer(object, old, "spec.nodeName");
    }
    nodes(spec, errors);
    if !at(spec, "sharedCounters").is_null() && !at(spec, "devices").is_null() {
        let why = "only one of `sharedCounters` or `devices` is allowed";
        errors.invalid("spec", "", why);
    }
    let devices = list(spec, "devices");
    let per_device = at(spec, "perDeviceNodeSelection") == &Value::Bool(true);
    let most = if devices.iter().any(is_complex) {
        COMPLEX_DEVICES
    } else {
        DEVICES
    };
    set(
        "spec.devices",
        devices,
        most,
        |device| text(device, "name"),
        |field, device, errors| self::device(field, device, per_device, errors),
        errors,
    );
    set(
        "spec.sharedCounters",
        list(spec, "sharedCounters"),
        COUNTER_SETS,
        |counters| text(counters, "name"),
        |field, counters, errors| self::counters(field, "name", counters, errors),
        errors,
    );
}

fn is_complex(device: &Value) -> bool {
    let attributes = at(device, "attributes").as_object().into_iter().flatten();
    !list(device, "taints").is_empty()
        || !list(device, "consumesCounters").is_empty()
        || attributes
            .into_iter()
            .any(|(_, value)| LISTS.iter().any(|name| value.get(*name).is_some()))
}

fn pool(pool: &Value, errors: &mut Errors) {
    let name = text(pool, "name");
    if name.is_empty() {
        errors.required("spec.pool.name", "");
    } else {
        if name.len() > POOL {
            errors.too_long("spec.pool.name", POOL);
        }
        for part in name.split('/') {
            errors.complaints("spec.pool.name", part, formats::subdomain(part));
        }
    }
    let number = |name: &str| at(pool, name).as_i64().unwrap_or(0);
    let slices = number("resourceSliceCount");
    if slices <= 0 {
        let why = "must be greater than zero";
        errors.invalid("spec.pool.resourceSliceCount", slices, why);
    }
    let generation = number("generation");
    if generation < 0 {
        let why = "must be greater than or equal to zero";
        errors.invalid("spec.pool.generation", generation, why);
    }
}

/// The nodes that reach the devices.
fn nodes(spec: &Value, errors: &mut Errors) {
    const ONE: &str = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    let mut chosen = Vec::new();
    match at(spec, "nodeName").as_str() {
        None => {}
        Some("") => {
            let why = "must be either unset or set to a non-empty string";
            errors.invalid("spec.nodeName", "", why);
        }
        Some(name) => {
            chosen.push("`nodeName`");
            errors.complaints("spec.nodeName", name, formats::subdomain(name));
        }
    }
    let selector = at(spec, "nodeSelector");
    if !selector.is_null() {
        chosen.push("`nodeSelector`");
        pod::node_selector(&Path::new("spec.nodeSelector"), selector, errors);
        let terms = at(selector, "nodeSelectorTerms");
        if terms.as_array().is_none_or(|terms| terms.len() != 1) {
            let why = "must have exactly one node selector term";
            let shown = internal::form("core.NodeSelectorTerm", terms);
            errors.invalid("spec.nodeSelector.nodeSelectorTerms", shown, why);
        }
    }
    for (name, shown) in [
        ("allNodes", "`allNodes`"),
        ("perDeviceNodeSelection", "`perDeviceNodeSelection`"),
    ] {
        match at(spec, name).as_bool() {
            Some(true) => chosen.push(shown),
            Some(false) => {
                let why = "must be either unset or set to true";
                errors.invalid(format!("spec.{name}"), false, why);
            }
            None => {}
        }
    }
    match chosen.len() {
        0 => errors.required("spec", ONE),
        1 => {}
        _ => errors.invalid(
            "spec",
            format!("{{{}}}", chosen.join(", ")),
            format!("{ONE}, but multiple fields are set"),
        ),
    }
}

fn device(field: &str, device: &Value, per_device: bool, errors: &mut Errors) {
    let name = text(device, "name");
    errors.complaints(format!("{field}.name"), name, formats::label(name));
    let entries = |name: &str| at(device, name).as_object().into_iter().flatten();
    let properties = entries("attributes").count() + entries("capacity").count();
    if properties > PROPERTIES {
        let why =
            format!("the total number of attributes and capacities must not exceed {PROPERTIES}");
        errors.invalid(field, properties, why);
    }
    let values: usize = entries("attributes")
        .map(|(_, value)| values_of(value))
        .sum();
    if values > ATTRIBUTE_VALUES {
        let why =
            format!("the total number of attribute values must not exceed {ATTRIBUTE_VALUES}");
        errors.invalid(field, values, why);
    }
    for (name, value) in entries("attributes") {
        attribute_name(&format!("{field}.attributes"), name, errors);
        attribute(&format!("{field}.attributes[{name}]"), value, errors);
    }
    let shared = at(device, "allowMultipleAllocations") == &Value::Bool(true);
    for (name, value) in entries("capacity") {
        attribute_name(&format!("{field}.capacity"), name, errors);
        if !shared && value.get("requestPolicy").is_some() {
            let why = "allowMultipleAllocations must be true";
            errors.forbidden(format!("{field}.capacity[{name}].requestPolicy"), why);
        }
    }
    let taints = list(device, "taints");
    if taints.len() > TAINTS {
        errors.too_many(format!("{field}.taints"), taints.len(), TAINTS);
    } else {
        for (index, item) in taints.iter().enumerate() {
            taint(&format!("{field}.taints[{index}]"), item, errors);
        }
    }
    set(
        &format!("{field}.consumesCounters"),
        list(device, "consumesCounters"),
        CONSUMED_SETS,
        |counters| text(counters, "counterSet"),
        |field, counters, errors| self::counters(field, "counterSet", counters, errors),
        errors,
    );
    device_nodes(field, device, per_device, errors);
    bindings(field, device, errors);
}

/// Number of values of an attribute; a list counts with each item.
fn values_of(attribute: &Value) -> usize {
    match LISTS
        .iter()
        .map(|name| list(attribute, name).len())
        .sum::<usize>()
    {
        0 => 1,
        items => items,
    }
}

fn attribute(field: &str, attribute: &Value, errors: &mut Errors) {
    const ONE: &str = "exactly one value must be specified";
    let mut values = ["bool", "int"]
        .iter()
        .filter(|name| attribute.get(**name).is_some())
        .count();
    for name in ["string", "version"] {
        if let Some(value) = at(attribute, name).as_str() {
            values += 1;
            attribute_text(&format!("{field}.{name}"), name, value, errors);
        }
    }
    for name in LISTS {
        let Some(items) = at(attribute, name).as_array() else {
            continue;
        };
        values += 1;
        if items.is_empty() {
            let why = "must not be empty if specified";
            errors.invalid(format!("{field}.{name}"), Vec::<Value>::new(), why);
        }
        for (index, item) in items.iter().enumerate() {
            if let Some(item) = item.as_str() {
                let kind = name.trim_end_matches('s');
                attribute_text(&format!("{field}.{name}[{index}]"), kind, item, errors);
            }
        }
    }
    match values {
        0 => errors.invalid(field, "", ONE),
        1 => {}
        _ => {
            let shown = internal::form("resource.DeviceAttribute", attribute);
            errors.invalid(field, shown, ONE);
        }
    }
}

fn attribute_text(field: &str, kind: &str, value: &str, errors: &mut Errors) {
    if kind == "version" && !is_semantic_version(value) {
        let why = "must be a string compatible with semver.org spec 2.0.0";
        errors.invalid(field, value, why);
    }
    if value.len() > ATTRIBUTE {
        errors.too_long(field, ATTRIBUTE);
    }
}

fn is_semantic_version(text: &str) -> bool {
    let (text, build) = text
        .split_once('+')
        .map_or((text, None), |(a, b)| (a, Some(b)));
    let (core, release) = text
        .split_once('-')
        .map_or((text, None), |(a, b)| (a, Some(b)));
    let is_word = |part: &str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let is_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let is_number =
        |part: &str| !part.is_empty() && is_digits(part) && (part == "0" || !part.starts_with('0'));
    core.split('.').count() == 3
        && core.split('.').all(is_number)
        && release.is_none_or(|release| {
            let mut parts = release.split('.');
            parts.all(|part| is_word(part) && (!is_digits(part) || is_number(part)))
        })
        && build.is_none_or(|build| build.split('.').all(is_word))
}

/// Counters under the name in the field `key`.
fn counters(field: &str, key: &str, counters: &Value, errors: &mut Errors) {
    let name = text(counters, key);
    errors.required_format(format!("{field}.{key}"), name, formats::label);
    let at_counters = format!("{field}.counters");
    let Some(entries) = at(counters, "counters")
        .as_object()
        .filter(|map| !map.is_empty())
    else {
        return errors.required(at_counters, "");
    };
    if entries.len() > COUNTERS {
        return errors.too_many(at_counters, entries.len(), COUNTERS);
    }
    for name in entries.keys() {
        errors.complaints(&at_counters, name, formats::label(name));
    }
}

/// The nodes of a single device, if the slice leaves the choice to its devices.
fn device_nodes(field: &str, device: &Value, per_device: bool, errors: &mut Errors) {
    const ONE: &str = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
    let names = ["nodeName", "nodeSelector", "allNodes"];
    if !per_device {
        if names.iter().any(|name| device.get(*name).is_some()) {
            let why = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
            errors.invalid(field, Value::Null, why);
        }
        return;
    }
    let mut chosen = Vec::new();
    match at(device, "nodeName").as_str() {
        None => {}
        Some("") => errors.invalid(format!("{field}.nodeName"), "", "must not be empty"),
        Some(name) => {
            chosen.push("`nodeName`");
            let complaints = formats::subdomain(name);
            errors.complaints(format!("{field}.nodeName"), name, complaints);
        }
    }
    if !at(device, "nodeSelector").is_null() {
        chosen.push("`nodeSelector`");
    }
    match at(device, "allNodes").as_bool() {
        Some(true) => chosen.push("`allNodes`"),
        Some(false) => {
            let why = "must be either unset or set to true";
            errors.invalid(format!("{field}.allNodes"), false, why);
        }
        None => {}
    }
    match chosen.len() {
        0 => errors.required(field, ONE),
        1 => {}
        _ => errors.invalid(field, format!("{{{}}}", chosen.join(", ")), ONE),
    }
}

/// Conditions that a pod waits for before it is bound to the device's node.
fn bindings(field: &str, device: &Value, errors: &mut Errors) {
    let ready = "bindingConditions";
    let failed = "bindingFailureConditions";
    for name in [ready, failed] {
        let field = format!("{field}.{name}");
        let conditions = list(device, name);
        if conditions.len() > CONDITIONS {
            errors.too_many(field, conditions.len(), CONDITIONS);
            continue;
        }
        for (index, condition) in conditions.iter().enumerate() {
            let condition = condition.as_str().unwrap_or("");
            let complaints = formats::qualified_name(condition);
            errors.complaints(format!("{field}[{index}]"), condition, complaints);
        }
    }
    for name in [ready, failed] {
        let mut seen = HashSet::new();
        for (index, condition) in list(device, name).iter().enumerate() {
            let field = format!("{field}.{name}[{index}]");
            let condition = condition.as_str().unwrap_or("");
            if !seen.insert(condition) {
                errors.duplicate(field.as_str(), condition);
            }
            if name == failed && list(device, ready).iter().any(|other| other == condition) {
                let why = "bindingFailureConditions must not overlap with bindingConditions";
                errors.invalid(field, condition, why);
            }
        }
    }
    let has_ready = !list(device, ready).is_empty();
    let has_failed = !list(device, failed).is_empty();
    for (missing, other, is_wrong) in [
        (ready, failed, !has_ready && has_failed),
        (failed, ready, !has_failed && has_ready),
    ] {
        if is_wrong {
            let why = format!("{missing} are required to use {other}");
            errors.invalid(
                format!("{field}.{missing}"),
                at(device, missing).clone(),
                why,
            );
        }
    }
}
