//! Probes and lifecycle handlers of containers.
//!
//! Upstream: `validateProbe`, `validateHandler` and `validateLifecycle`.

use serde_json::Value;

use super::context::Pod;
use super::ports::{port_number, port_number_or_name};
use super::{Errors, Path, formats, list, number, text};

/// Checks the probes of a container.
pub(super) fn of_container(path: &Path<'_>, container: &Value, pod: &Pod<'_>, errors: &mut Errors) {
    for field in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe = &container[field];
        if probe.is_null() {
            continue;
        }
        let path = path.child(field);
        check(&path, probe, pod, errors);
        if field == "readinessProbe" {
            let seconds = &probe["terminationGracePeriodSeconds"];
            if !seconds.is_null() {
                errors.invalid(
                    path.child("terminationGracePeriodSeconds"),
                    seconds.clone(),
                    "must not be set for readinessProbes",
                );
            }
        } else if number(probe, "successThreshold") != 1 {
            errors.invalid(
                path.child("successThreshold"),
                number(probe, "successThreshold"),
                "must be 1",
            );
        }
    }
}

fn check(path: &Path<'_>, probe: &Value, pod: &Pod<'_>, errors: &mut Errors) {
    const HANDLERS: &[&str] = &["exec", "httpGet", "tcpSocket", "grpc"];
    handler(path, probe, HANDLERS, pod, errors);
    for field in [
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ] {
        let value = number(probe, field);
        if value < 0 {
            errors.invalid(
                path.child(field),
                value,
                "must be greater than or equal to 0",
            );
        }
    }
    let grace = probe["terminationGracePeriodSeconds"].as_i64();
    if let Some(seconds) = grace.filter(|seconds| *seconds <= 0) {
        errors.invalid(
            path.child("terminationGracePeriodSeconds"),
            seconds,
            "must be greater than 0",
        );
    }
}

/// Checks the handlers at start and end of a container. Stop signals are behind a gate that is off.
pub(super) fn lifecycle(path: &Path<'_>, lifecycle: &Value, pod: &Pod<'_>, errors: &mut Errors) {
    const HANDLERS: &[&str] = &["exec", "httpGet", "tcpSocket", "sleep"];
    for field in ["postStart", "preStop"] {
        let given = &lifecycle[field];
        if !given.is_null() {
            handler(&path.child(field), given, HANDLERS, pod, errors);
        }
    }
}

/// Checks that `handler` has one of `kinds`, and checks that one.
fn handler(path: &Path<'_>, handler: &Value, kinds: &[&str], pod: &Pod<'_>, errors: &mut Errors) {
    let mut found = false;
    for kind in kinds {
        let action = &handler[*kind];
        if action.is_null() {
            continue;
        }
        let path = path.child(kind);
        if found {
            errors.forbidden(path, "may not specify more than 1 handler type");
            continue;
        }
        found = true;
        match *kind {
            "exec" => {
                if list(action, "command").is_empty() {
                    errors.required(path.child("command"), "");
                }
            }
            "httpGet" => http_get(&path, action, errors),
            "tcpSocket" => port_number_or_name(&path.child("port"), &action["port"], errors),
            "grpc" => port_number(path.child("port"), number(action, "port"), errors),
            _ => sleep(&path, number(action, "seconds"), pod, errors),
        }
    }
    if !found {
        errors.required(path, "must specify a handler type");
    }
}

fn http_get(path: &Path<'_>, action: &Value, errors: &mut Errors) {
    if text(action, "path").is_empty() {
        errors.required(path.child("path"), "");
    }
    port_number_or_name(&path.child("port"), &action["port"], errors);
    errors.one_of(
        path.child("scheme"),
        text(action, "scheme"),
        &["HTTP", "HTTPS"],
    );
    for header in list(action, "httpHeaders") {
        let name = text(header, "name");
        errors.complaints(path.child("httpHeaders"), name, formats::http_header(name));
    }
}

fn sleep(path: &Path<'_>, seconds: i64, pod: &Pod<'_>, errors: &mut Errors) {
    if let Some(grace) = pod.grace_seconds
        && !(0..=grace).contains(&seconds)
    {
        let detail =
            format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
        errors.invalid(path, seconds, detail);
    }
}
