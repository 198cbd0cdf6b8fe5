//! Roles, ClusterRoles and their bindings.
//!
//! Upstream is `pkg/apis/rbac/validation`.

use serde_json::Value;

use super::errors::{Errors, at, list, text};
use super::{formats, selector};
use crate::schema::internal;

const SELECTORS: &str = "aggregationRule.clusterRoleSelectors";
const GROUP: &str = "rbac.authorization.k8s.io";

/// A Role, or a ClusterRole.
pub(super) fn role(kind: &str, object: &Value, errors: &mut Errors) {
    for (index, rule) in list(object, "rules").iter().enumerate() {
        self::rule(&format!("rules[{index}]"), rule, kind == "Role", errors);
    }
    if at(object, "aggregationRule").is_object() {
        aggregation(list(object, SELECTORS), errors);
    }
}

/// The selectors of an aggregated ClusterRole. Upstream adds an error about the whole selector.
fn aggregation(selectors: &[Value], errors: &mut Errors) {
    if selectors.is_empty() {
        let why = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        errors.required(SELECTORS, why);
    }
    for (index, selector) in selectors.iter().enumerate() {
        let field = format!("{SELECTORS}[{index}]");
        selector::check(&field, selector, errors);
        if !selector::is_valid(selector) {
            errors.invalid(field, Value::Null, "invalid label selector.");
        }
    }
}

/// A rule is for resources or for URLs, and URLs need a cluster-scoped role.
fn rule(path: &str, rule: &Value, namespaced: bool, errors: &mut Errors) {
    let has = |field: &str| !list(rule, field).is_empty();
    if !has("verbs") {
        errors.required(
            format!("{path}.verbs"),
            "verbs must contain at least one value",
        );
    }
    if has("nonResourceURLs") {
        let mut invalid = |why: &str| {
            errors.invalid(
                format!("{path}.nonResourceURLs"),
                at(rule, "nonResourceURLs").clone(),
                why,
            )
        };
        if namespaced {
            invalid("namespaced rules cannot apply to non-resource URLs");
        }
        if has("apiGroups") || has("resources") || has("resourceNames") {
            invalid("rules cannot apply to both regular resources and non-resource URLs");
        }
        return;
    }
    if !has("apiGroups") {
        errors.required(
            format!("{path}.apiGroups"),
            "resource rules must supply at least one api group",
        );
    }
    if !has("resources") {
        errors.required(
            format!("{path}.resources"),
            "resource rules must supply at least one resource",
        );
    }
}

/// A RoleBinding, or a ClusterRoleBinding.
pub(super) fn binding(kind: &str, object: &Value, errors: &mut Errors) {
    let namespaced = kind == "RoleBinding";
    errors.one_of(
        "roleRef.apiGroup",
        text(object, "roleRef.apiGroup"),
        &[GROUP],
    );
    let roles: &[&str] = if namespaced {
        &["Role", "ClusterRole"]
    } else {
        &["ClusterRole"]
    };
    errors.one_of("roleRef.kind", text(object, "roleRef.kind"), roles);
    match text(object, "roleRef.name") {
        "" => errors.required("roleRef.name", ""),
        name => errors.complaints("roleRef.name", name, formats::path_segment(name)),
    }
    for (index, subject) in list(object, "subjects").iter().enumerate() {
        self::subject(&format!("subjects[{index}]"), subject, namespaced, errors);
    }
}

/// A subject: ServiceAccounts belong to the core group, users and groups to the RBAC group.
fn subject(path: &str, subject: &Value, namespaced: bool, errors: &mut Errors) {
    let name = text(subject, "name");
    if name.is_empty() {
        errors.required(format!("{path}.name"), "");
    }
    let group = text(subject, "apiGroup");
    match text(subject, "kind") {
        "ServiceAccount" => {
            if !name.is_empty() {
                errors.complaints(format!("{path}.name"), name, formats::subdomain(name));
            }
            errors.one_of(format!("{path}.apiGroup"), group, &[""]);
            if !namespaced && text(subject, "namespace").is_empty() {
                errors.required(format!("{path}.namespace"), "");
            }
        }
        "User" | "Group" => errors.one_of(format!("{path}.apiGroup"), group, &[GROUP]),
        kind => errors.not_supported(
            format!("{path}.kind"),
            kind,
            &["ServiceAccount", "User", "Group"],
        ),
    }
}

/// The role of a binding cannot change.
pub(super) fn role_unchanged(new: &Value, old: &Value, errors: &mut Errors) {
    if at(new, "roleRef") != at(old, "roleRef") {
        let shown = internal::form("rbac.RoleRef", at(new, "roleRef"));
        errors.invalid("roleRef", shown, "cannot change roleRef");
    }
}
