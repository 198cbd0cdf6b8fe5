//! The address of a webhook: a URL or a Service.
//!
//! Upstream: `k8s.io/apiserver/pkg/util/webhook/validation.go`.

use serde_json::Value;

use super::errors::{Errors, at, text};
use super::formats;

/// The form of a webhook's URL, at the end of complaints about it.
const URL_FORM: &str = "; desired format: https://host[/path]";

/// Appends the errors of the `clientConfig` at `field`.
pub(crate) fn check(field: &str, config: &Value, errors: &mut Errors) {
    let url = at(config, "url").as_str();
    let service = at(config, "service");
    match (url, service.is_null()) {
        (Some(url), true) => self::url(&format!("{field}.url"), url, errors),
        (None, false) => self::service(&format!("{field}.service"), service, errors),
        _ => errors.required(field, "exactly one of url or service is required"),
    }
}

fn url(field: &str, url: &str, errors: &mut Errors) {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = if scheme.is_empty() {
        ""
    } else {
        rest.split('/').next().unwrap_or("")
    };
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    if scheme != "https" {
        let why = format!("'https' is the only allowed URL scheme{URL_FORM}");
        errors.invalid(field, scheme, why);
    }
    if host.is_empty() {
        errors.invalid(field, "", format!("host must be specified{URL_FORM}"));
    }
    for (part, why) in [
        (user, "user information is not permitted in the URL"),
        (fragment, "fragments are not permitted in the URL"),
        (query, "query parameters are not permitted in the URL"),
    ] {
        if !part.is_empty() {
            errors.invalid(field, part, why);
        }
    }
}

/// The Service of a webhook. Upstream swaps the names of the two required fields.
fn service(field: &str, service: &Value, errors: &mut Errors) {
    for (name, reported) in [("namespace", "name"), ("name", "namespace")] {
        if text(service, name).is_empty() {
            errors.required(format!("{field}.{reported}"), "");
        }
    }
    let port = at(service, "port").as_i64().unwrap_or(0);
    if !(1..=65535).contains(&port) {
        let why = "port is not valid: must be between 1 and 65535, inclusive";
        errors.invalid(format!("{field}.port"), port, why);
    }
    service_path(&format!("{field}.path"), text(service, "path"), errors);
}

fn service_path(field: &str, path: &str, errors: &mut Errors) {
    match path {
        "" | "/" => return,
        "//" => return errors.invalid(field, path, "segment[0] may not be empty"),
        _ => {}
    }
    if !path.starts_with('/') {
        errors.invalid(field, path, "must start with a '/'");
    }
    let steps = path.get(1..).unwrap_or("");
    for (index, step) in steps
        .strip_suffix('/')
        .unwrap_or(steps)
        .split('/')
        .enumerate()
    {
        if step.is_empty() {
            let why = format!("segment[{index}] may not be empty");
            errors.invalid(field, path, why);
            continue;
        }
        for complaint in formats::subdomain(step) {
            errors.invalid(field, path, format!("segment[{index}]: {complaint}"));
        }
    }
}
