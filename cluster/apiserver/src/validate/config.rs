//! ConfigMaps and Secrets.
//!
//! Upstream: `ValidateConfigMap` and `ValidateSecret` in `pkg/apis/core/validation`.

use base64::Engine as _;
use serde_json::Value;

use super::errors::{Errors, at, text};
use super::{formats, json};

/// Most bytes of all data of a ConfigMap or Secret.
const MAX_DATA_BYTES: usize = 1024 * 1024;

/// Keys must be unique over `data` and `binaryData`, and all data has one limit.
pub(super) fn config_map(object: &Value, errors: &mut Errors) {
    let mut bytes = 0;
    for field in ["data", "binaryData"] {
        for (key, value) in at(object, field).as_object().into_iter().flatten() {
            errors.complaints(format!("{field}[{key}]"), key, formats::config_key(key));
            if field == "data"
                && !at(object, "binaryData")
                    .get(key)
                    .unwrap_or(&Value::Null)
                    .is_null()
            {
                errors.invalid(
                    format!("data[{key}]"),
                    key.as_str(),
                    "duplicate of key present in binaryData",
                );
            }
            bytes += value.as_str().map_or(0, |value| {
                if field == "data" {
                    value.len()
                } else {
                    decoded_length(value)
                }
            });
        }
    }
    if bytes > MAX_DATA_BYTES {
        errors.too_long("", MAX_DATA_BYTES);
    }
}

pub(super) fn secret(object: &Value, errors: &mut Errors) {
    let mut bytes = 0;
    for (key, value) in at(object, "data").as_object().into_iter().flatten() {
        errors.complaints(format!("data[{key}]"), key, formats::config_key(key));
        bytes += value.as_str().map_or(0, decoded_length);
    }
    if bytes > MAX_DATA_BYTES {
        errors.too_long("data", MAX_DATA_BYTES);
    }
    content_of_type(object, errors);
}

/// Checks the entries that the type of a Secret promises.
fn content_of_type(secret: &Value, errors: &mut Errors) {
    const ACCOUNT: &str = "kubernetes.io/service-account.name";
    let data = at(secret, "data");
    let is_missing = |key: &str| data[key].is_null();
    match text(secret, "type") {
        "kubernetes.io/service-account-token" => {
            let account = &at(secret, "metadata.annotations")[ACCOUNT];
            if account.as_str().is_none_or(str::is_empty) {
                errors.required(format!("metadata.annotations[{ACCOUNT}]"), "");
            }
        }
        "kubernetes.io/dockercfg" => docker_config(data, ".dockercfg", errors),
        "kubernetes.io/dockerconfigjson" => docker_config(data, ".dockerconfigjson", errors),
        "kubernetes.io/basic-auth" => {
            let keys = ["username", "password"];
            if keys.iter().all(|key| is_missing(key)) {
                for key in keys {
                    errors.required(format!("data[{key}]"), "");
                }
            }
        }
        "kubernetes.io/ssh-auth" if data["ssh-privatekey"].as_str().is_none_or(str::is_empty) => {
            errors.required("data[ssh-privatekey]", "");
        }
        "kubernetes.io/tls" => {
            for key in ["tls.crt", "tls.key"].iter().filter(|key| is_missing(key)) {
                errors.required(format!("data[{key}]"), "");
            }
        }
        _ => {}
    }
}

/// Requires a JSON object under `key`.
fn docker_config(data: &Value, key: &str, errors: &mut Errors) {
    let Some(text) = data[key].as_str() else {
        return errors.required(format!("data[{key}]"), "");
    };
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(text)
        .unwrap_or_default();
    if let Some(problem) = json::object_problem(&bytes) {
        errors.invalid(
            format!("data[{key}]"),
            "<secret contents redacted>",
            problem,
        );
    }
}

/// Number of bytes that a base64 text encodes.
fn decoded_length(text: &str) -> usize {
    text.trim_end_matches('=').len() * 3 / 4
}

/// `immutable: true` protects the data and itself from changes.
pub(super) fn immutable_data(new: &Value, old: &Value, errors: &mut Errors) {
    const DETAIL: &str = "field is immutable when `immutable` is set";
    let is_set = |object: &Value| at(object, "immutable") == &Value::Bool(true);
    if !is_set(old) {
        return;
    }
    if !is_set(new) {
        errors.forbidden("immutable", DETAIL);
    }
    for field in ["data", "binaryData"] {
        if at(new, field) != at(old, field) {
            errors.forbidden(field, DETAIL);
        }
    }
}
