//! Pod specs, of pods and of pod templates.
//!
//! Upstream is `ValidatePodSpec` in `pkg/apis/core/validation`.

use std::collections::HashSet;

use serde_json::Value;

use super::errors::{Errors, at, list, text};
use super::{formats, meta};
use crate::schema::quantity::Quantity;

/// Shortest and longest expiry of projected ServiceAccount tokens.
const MIN_TOKEN_SECONDS: i64 = 600;
const MAX_TOKEN_SECONDS: i64 = 1 << 32;

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// A pod template at `field`.
pub(super) fn template(field: &str, template: &Value, errors: &mut Errors) {
    template_metadata(field, template, errors);
    spec(&format!("{field}.spec"), at(template, "spec"), errors);
}

/// Labels and annotations of a pod template at `field`.
pub(super) fn template_metadata(field: &str, template: &Value, errors: &mut Errors) {
    // Upstream's paths of these two fields lack `metadata`.
    meta::labels(
        &format!("{field}.labels"),
        at(template, "metadata.labels"),
        errors,
    );
    meta::annotations(
        &format!("{field}.annotations"),
        at(template, "metadata.annotations"),
        errors,
    );
}

/// A pod spec at `field`.
pub(super) fn spec(field: &str, spec: &Value, errors: &mut Errors) {
    let volumes = volumes(&format!("{field}.volumes"), list(spec, "volumes"), errors);
    check_account_tokens(&format!("{field}.volumes"), list(spec, "volumes"), errors);
    let regular = format!("{field}.containers");
    if list(spec, "containers").is_empty() {
        errors.required(&regular, "");
    }
    let mut names = HashSet::new();
    for (list_field, list_name) in [
        (regular, "containers"),
        (format!("{field}.initContainers"), "initContainers"),
    ] {
        for (index, container) in list(spec, list_name).iter().enumerate() {
            let field = format!("{list_field}[{index}]");
            self::container(&field, container, &volumes, errors);
            let name = text(container, "name");
            if !name.is_empty() && !names.insert(name) {
                errors.duplicate(format!("{field}.name"), name);
            }
        }
    }
    let restart = text(spec, "restartPolicy");
    errors.one_of(
        format!("{field}.restartPolicy"),
        restart,
        &["Always", "OnFailure", "Never"],
    );
    let dns = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    errors.one_of(format!("{field}.dnsPolicy"), text(spec, "dnsPolicy"), &dns);
    meta::labels(
        &format!("{field}.nodeSelector"),
        at(spec, "nodeSelector"),
        errors,
    );
    for name in ["serviceAccountName", "nodeName"] {
        let value = text(spec, name);
        if !value.is_empty() {
            errors.complaints(&format!("{field}.{name}"), value, formats::subdomain(value));
        }
    }
    active_deadline(
        &format!("{field}.activeDeadlineSeconds"),
        at(spec, "activeDeadlineSeconds"),
        errors,
    );
    for name in ["hostname", "subdomain"] {
        let value = text(spec, name);
        if !value.is_empty() {
            errors.complaints(&format!("{field}.{name}"), value, formats::label(value));
        }
    }
    tolerations(
        &format!("{field}.tolerations"),
        list(spec, "tolerations"),
        errors,
    );
}

/// Warnings about duplicate variables and ports in the containers of the spec at `field`.
pub(super) fn warnings(field: &str, spec: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    for list_name in ["initContainers", "containers"] {
        for (index, container) in list(spec, list_name).iter().enumerate() {
            let field = format!("{field}.{list_name}[{index}]");
            let (variables, ports) = (list(container, "env"), list(container, "ports"));
            for (index, variable) in variables.iter().enumerate() {
                let name = text(variable, "name");
                if variables[..index]
                    .iter()
                    .any(|earlier| text(earlier, "name") == name)
                {
                    warnings.push(format!(
                        "{field}.env[{index}]: hides previous definition of {name:?}, which may be dropped when using apply"
                    ));
                }
            }
            let same = |a: &Value, b: &Value| {
                ["containerPort", "hostPort", "protocol", "hostIP"]
                    .iter()
                    .all(|f| at(a, f) == at(b, f))
            };
            for (index, port) in ports.iter().enumerate() {
                if let Some(first) = ports[..index]
                    .iter()
                    .position(|earlier| same(earlier, port))
                {
                    warnings.push(format!("{field}.ports[{index}]: duplicate port definition with {field}.ports[{first}]"));
                }
            }
        }
    }
    warnings
}

pub(super) fn active_deadline(field: &str, deadline: &Value, errors: &mut Errors) {
    if let Some(seconds) = deadline
        .as_i64()
        .filter(|seconds| !(1..=i64::from(i32::MAX)).contains(seconds))
    {
        errors.invalid(
            field,
            seconds,
            format!("must be between 1 and {}, inclusive", i32::MAX),
        );
    }
}

/// The projected ServiceAccount tokens of `volumes`, with the indexes of volume and source.
pub(super) fn account_tokens(volumes: &[Value]) -> impl Iterator<Item = (usize, usize, &Value)> {
    volumes
        .iter()
        .enumerate()
        .flat_map(|(volume, of)| {
            let sources = list(of, "projected.sources").iter().enumerate();
            sources.map(move |(source, of)| (volume, source, at(of, "serviceAccountToken")))
        })
        .filter(|(.., token)| !token.is_null())
}

/// Checks paths and expiry of projected tokens.
fn check_account_tokens(field: &str, volumes: &[Value], errors: &mut Errors) {
    for (volume, source, token) in account_tokens(volumes) {
        let seconds = at(token, "expirationSeconds")
            .as_i64()
            .unwrap_or(MIN_TOKEN_SECONDS);
        let expiration = format!(
            "{field}[{volume}].projected.sources[{source}].serviceAccountToken.expirationSeconds"
        );
        if seconds < MIN_TOKEN_SECONDS {
            errors.invalid(
                expiration,
                seconds,
                "may not specify a duration less than 10 minutes",
            );
        } else if seconds > MAX_TOKEN_SECONDS {
            errors.invalid(
                expiration,
                seconds,
                "may not specify a duration larger than 2^32 seconds",
            );
        }
        let (field, path) = (
            format!("{field}[{volume}].projected.path"),
            text(token, "path"),
        );
        if path.is_empty() {
            errors.required(field, "");
        } else if path.starts_with('/') {
            errors.invalid(field, path, "must be a relative path");
        } else if path.split('/').any(|part| part == "..") {
            errors.invalid(field, path, "must not contain '..'");
        }
    }
}

/// Checks the volumes, and returns their names.
fn volumes<'a>(field: &str, volumes: &'a [Value], errors: &mut Errors) -> HashSet<&'a str> {
    let mut names = HashSet::new();
    for (index, volume) in volumes.iter().enumerate() {
        let field = format!("{field}[{index}].name");
        let name = text(volume, "name");
        if name.is_empty() {
            errors.required(field, "");
            continue;
        }
        let complaints = formats::label(name);
        if complaints.is_empty() && !names.insert(name) {
            errors.duplicate(&field, name);
        }
        errors.complaints(&field, name, complaints);
    }
    names
}

/// Checks a container. `volumes` are the names that its mounts can use.
fn container(field: &str, container: &Value, volumes: &HashSet<&str>, errors: &mut Errors) {
    match text(container, "name") {
        "" => errors.required(format!("{field}.name"), ""),
        name => errors.complaints(&format!("{field}.name"), name, formats::label(name)),
    }
    if text(container, "image").is_empty() {
        errors.required(format!("{field}.image"), "");
    }
    ports(&format!("{field}.ports"), list(container, "ports"), errors);
    for (index, variable) in list(container, "env").iter().enumerate() {
        if text(variable, "name").is_empty() {
            errors.required(format!("{field}.env[{index}].name"), "");
        }
    }
    mounts(
        &format!("{field}.volumeMounts"),
        list(container, "volumeMounts"),
        volumes,
        errors,
    );
    let pull = ["Always", "IfNotPresent", "Never"];
    errors.one_of(
        format!("{field}.imagePullPolicy"),
        text(container, "imagePullPolicy"),
        &pull,
    );
    resources(
        &format!("{field}.resources"),
        at(container, "resources"),
        errors,
    );
}

fn ports(field: &str, ports: &[Value], errors: &mut Errors) {
    let mut names = HashSet::new();
    for (index, port) in ports.iter().enumerate() {
        let field = format!("{field}[{index}]");
        let name = text(port, "name");
        if !name.is_empty() {
            let complaints = formats::port_name(name);
            if complaints.is_empty() && !names.insert(name) {
                errors.duplicate(format!("{field}.name"), name);
            }
            errors.complaints(&format!("{field}.name"), name, complaints);
        }
        match at(port, "containerPort").as_i64().unwrap_or(0) {
            0 => errors.required(format!("{field}.containerPort"), ""),
            number => port_number(format!("{field}.containerPort"), number, errors),
        }
        if let Some(number) = at(port, "hostPort").as_i64().filter(|number| *number != 0) {
            port_number(format!("{field}.hostPort"), number, errors);
        }
        errors.one_of(
            format!("{field}.protocol"),
            text(port, "protocol"),
            &["SCTP", "TCP", "UDP"],
        );
    }
}

pub(super) fn port_number(field: String, number: i64, errors: &mut Errors) {
    if !(1..=65535).contains(&number) {
        errors.invalid(field, number, "must be between 1 and 65535, inclusive");
    }
}

fn mounts(field: &str, mounts: &[Value], volumes: &HashSet<&str>, errors: &mut Errors) {
    let mut paths = HashSet::new();
    for (index, mount) in mounts.iter().enumerate() {
        let field = format!("{field}[{index}]");
        match text(mount, "name") {
            "" => errors.required(format!("{field}.name"), ""),
            name if !volumes.contains(name) => errors.not_found(format!("{field}.name"), name),
            _ => {}
        }
        match text(mount, "mountPath") {
            "" => errors.required(format!("{field}.mountPath"), ""),
            path if !paths.insert(path) => {
                errors.invalid(format!("{field}.mountPath"), path, "must be unique")
            }
            _ => {}
        }
    }
}

/// Checks that amounts are at least zero, and that requests are within limits.
fn resources(field: &str, resources: &Value, errors: &mut Errors) {
    let amounts = |side: &str| -> Vec<(String, String, Option<Quantity>)> {
        let entries = at(resources, side).as_object().into_iter().flatten();
        entries
            .map(|(name, value)| {
                let value = value.as_str().unwrap_or("");
                (name.clone(), value.to_owned(), Quantity::parse(value))
            })
            .collect()
    };
    let limits = amounts("limits");
    for (side, entries) in [("limits", &limits), ("requests", &amounts("requests"))] {
        for (name, value, quantity) in entries {
            if quantity.is_some_and(|quantity| quantity.is_negative()) {
                errors.invalid(
                    format!("{field}.{side}[{name}]"),
                    value.as_str(),
                    "must be greater than or equal to 0",
                );
            }
            let limit = limits.iter().find(|(limited, ..)| limited == name);
            if side == "requests"
                && let Some((_, limit_text, limit)) = limit
                && *quantity > *limit
            {
                let detail = format!("must be less than or equal to {name} limit of {limit_text}");
                errors.invalid(format!("{field}.requests"), value.as_str(), detail);
            }
        }
    }
}

fn tolerations(field: &str, tolerations: &[Value], errors: &mut Errors) {
    for (index, toleration) in tolerations.iter().enumerate() {
        let field = format!("{field}[{index}]");
        let (key, operator, effect) = (
            text(toleration, "key"),
            text(toleration, "operator"),
            text(toleration, "effect"),
        );
        if !key.is_empty() {
            errors.complaints(&format!("{field}.key"), key, formats::qualified_name(key));
        } else if operator != "Exists" {
            let detail = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.invalid(format!("{field}.operator"), operator, detail);
        }
        if !at(toleration, "tolerationSeconds").is_null() && effect != "NoExecute" {
            errors.invalid(
                format!("{field}.effect"),
                effect,
                "effect must be 'NoExecute' when `tolerationSeconds` is set",
            );
        }
        match operator {
            "" | "Equal" => {
                let value = text(toleration, "value");
                errors.complaints(
                    &format!("{field}.operator"),
                    value,
                    formats::label_value(value),
                );
            }
            "Exists" if !text(toleration, "value").is_empty() => {
                errors.invalid(
                    format!("{field}.operator"),
                    toleration.clone(),
                    "value must be empty when `operator` is 'Exists'",
                );
            }
            "Exists" => {}
            other => errors.not_supported(format!("{field}.operator"), other, &["Equal", "Exists"]),
        }
        if !effect.is_empty() {
            errors.one_of(format!("{field}.effect"), effect, &EFFECTS);
        }
    }
}

/// Taints of a node. The caller passes upstream's path.
pub(super) fn taints(field: &str, taints: &[Value], errors: &mut Errors) {
    let mut seen = HashSet::new();
    for (index, taint) in taints.iter().enumerate() {
        let field = format!("{field}[{index}]");
        let (key, effect) = (text(taint, "key"), text(taint, "effect"));
        errors.complaints(&format!("{field}.key"), key, formats::qualified_name(key));
        let value = text(taint, "value");
        errors.complaints(
            &format!("{field}.value"),
            value,
            formats::label_value(value),
        );
        if effect.is_empty() {
            errors.required(format!("{field}.effect"), "");
        } else {
            errors.one_of(format!("{field}.effect"), effect, &EFFECTS);
        }
        if !seen.insert((key, effect)) {
            errors.duplicate(field, taint.clone());
        }
    }
}
