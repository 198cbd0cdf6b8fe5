//! Restarts of single containers.
//!
//! Upstream: `validateContainerRestartPolicy`.

use serde_json::Value;

use super::{Errors, Path, list, text};

const MISSING: &str = "must specify restartPolicy when restart rules are used";

/// Checks policy and rules of a container.
pub(super) fn check(path: &Path<'_>, container: &Value, errors: &mut Errors) {
    let policy = &container["restartPolicy"];
    let rules = list(container, "restartPolicyRules");
    match policy.as_str() {
        None if rules.is_empty() => return,
        None => errors.required(path.child("restartPolicy"), MISSING),
        Some(policy) => errors.one_of(
            path.child("restartPolicy"),
            policy,
            &["Always", "Never", "OnFailure"],
        ),
    }
    let path = path.child("restartPolicyRules");
    if rules.len() > 20 {
        errors.too_many(path, rules.len(), 20);
    }
    let release = errors.release();
    let actions: &[&str] = if release.enables("RestartAllContainersOnContainerExits") {
        &["Restart", "RestartAllContainers"]
    } else {
        &["Restart"]
    };
    for (index, rule) in rules.iter().enumerate() {
        let path = path.index(index);
        errors.one_of(path.child("action"), text(rule, "action"), actions);
        let codes_path = path.child("exitCodes");
        let codes = &rule["exitCodes"];
        if codes.is_null() {
            errors.required(codes_path, "must be specified");
            continue;
        }
        errors.one_of(
            codes_path.child("operator"),
            text(codes, "operator"),
            &["In", "NotIn"],
        );
        let values = list(codes, "values").len();
        if values > 255 {
            errors.too_many(codes_path.child("values"), values, 255);
        }
    }
}

/// Checks policy and rules of an init container. Rules without a policy are not checked further.
pub(super) fn check_init(path: &Path<'_>, container: &Value, errors: &mut Errors) {
    if !container["restartPolicy"].is_null() {
        check(path, container, errors);
    } else if !list(container, "restartPolicyRules").is_empty() {
        errors.required(path.child("restartPolicy"), MISSING);
    }
}

/// Whether an init container runs as long as the pod.
pub(super) fn is_sidecar(container: &Value) -> bool {
    container["restartPolicy"] == "Always"
}

/// Whether some rule of the pod can restart all its containers.
pub(super) fn all_can_restart(spec: &Value) -> bool {
    ["initContainers", "containers"].iter().any(|name| {
        list(spec, name).iter().any(|container| {
            list(container, "restartPolicyRules")
                .iter()
                .any(|rule| rule["action"] == "RestartAllContainers")
        })
    })
}

/// Whether a container that ended with `exit_code` starts again.
pub(super) fn restarts(container: &Value, spec: &Value, exit_code: i64) -> bool {
    let own = container["restartPolicy"].as_str();
    let matching = list(container, "restartPolicyRules").iter().find(|rule| {
        let codes = &rule["exitCodes"];
        let listed = list(codes, "values").iter().any(|code| *code == exit_code);
        match text(codes, "operator") {
            "In" => listed,
            "NotIn" => !listed,
            _ => false,
        }
    });
    if own.is_some() && matching.is_some() {
        return true;
    }
    match own.unwrap_or_else(|| text(spec, "restartPolicy")) {
        "Never" => false,
        "OnFailure" => exit_code != 0,
        _ => true,
    }
}
