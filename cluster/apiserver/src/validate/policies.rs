//! Admission policies and their bindings: rules, expressions, references.
//!
//! Upstream is `pkg/apis/admissionregistration/validation`.

use std::collections::HashSet;

use serde_json::Value;

use super::errors::{Errors, at, list, text};
use super::webhooks::{self, FAILURE_POLICIES, MATCH_POLICIES, REINVOCATION_POLICIES};
use super::{formats, selector};
use crate::cel::declarations::{configuration, json_patch};
use crate::cel::policy::Expressions;
use crate::cel::types::Type;

/// Most audit annotations of a policy.
const AUDIT_ANNOTATIONS: usize = 20;

/// Most bytes of the expression of an audit annotation.
const ANNOTATION_BYTES: usize = 5 * 1024;

/// Operations that a mutating policy can match.
const MUTATING_OPERATIONS: [&str; 4] = ["*", "CONNECT", "CREATE", "UPDATE"];

pub(super) fn validating(object: &Value, errors: &mut Errors) {
    let spec = at(object, "spec");
    common(spec, errors);
    let expressions = conditions(spec, errors);
    let validations = list(spec, "validations");
    let annotations = list(spec, "auditAnnotations");
    if validations.is_empty() && annotations.is_empty() {
        let why = "validations or auditAnnotations must contain at least one item";
        errors.required("spec.validations", why);
        errors.required("spec.auditAnnotations", why);
        return;
    }
    for (index, validation) in validations.iter().enumerate() {
        let field = format!("spec.validations[{index}]");
        self::validation(&field, validation, &expressions, errors);
    }
    if annotations.len() > AUDIT_ANNOTATIONS {
        errors.invalid(
            "spec.auditAnnotations",
            annotations.to_vec(),
            format!("must not have more than {AUDIT_ANNOTATIONS} auditAnnotations"),
        );
    }
    let mut keys = HashSet::new();
    for (index, annotation) in annotations.iter().enumerate() {
        let field = |name: &str| format!("spec.auditAnnotations[{index}].{name}");
        let key = text(annotation, "key");
        match text(object, "metadata.name") {
            "" => errors.invalid(field("key"), key, "requires metadata.name be non-empty"),
            name => {
                let whole = format!("{name}/{key}");
                errors.complaints(field("key"), &whole, formats::qualified_name(&whole));
            }
        }
        let source = text(annotation, "valueExpression");
        if source.trim().is_empty() {
            errors.required(field("valueExpression"), "valueExpression is not specified");
        } else if source.trim().len() > ANNOTATION_BYTES {
            let why = format!("must not exceed {ANNOTATION_BYTES} bytes in length");
            errors.required(field("valueExpression"), &why);
        } else {
            let wanted = [Type::Text, Type::Null];
            let compiled = expressions.compile(source.trim(), &wanted, true);
            if let Err(why) = compiled.program {
                errors.invalid(field("valueExpression"), source, why);
            }
        }
        if !keys.insert(key) {
            errors.duplicate(field("key"), key);
        }
    }
}

pub(super) fn mutating(object: &Value, errors: &mut Errors) {
    let spec = at(object, "spec");
    common(spec, errors);
    mutable_operations(
        "spec.matchConstraints",
        at(spec, "matchConstraints"),
        errors,
    );
    let expressions = conditions(spec, errors);
    let mutations = list(spec, "mutations");
    if mutations.is_empty() {
        errors.required("spec.mutations", "mutations must contain at least one item");
    }
    for (index, mutation) in mutations.iter().enumerate() {
        let field = format!("spec.mutations[{index}]");
        self::mutation(&field, mutation, &expressions, errors);
    }
    if text(spec, "reinvocationPolicy").is_empty() {
        errors.required("spec.reinvocationPolicy", "");
    } else {
        webhooks::one_of(
            "spec",
            spec,
            "reinvocationPolicy",
            &REINVOCATION_POLICIES,
            errors,
        );
    }
}

/// Failure policy, parameters and constraints of both kinds of policies.
fn common(spec: &Value, errors: &mut Errors) {
    webhooks::one_of("spec", spec, "failurePolicy", &FAILURE_POLICIES, errors);
    let parameters = at(spec, "paramKind");
    if !parameters.is_null() {
        param_kind("spec.paramKind", parameters, errors);
    }
    let constraints = at(spec, "matchConstraints");
    if constraints.is_null() {
        errors.required("spec.matchConstraints", "");
        return;
    }
    match_resources("spec.matchConstraints", constraints, errors);
    if list(constraints, "resourceRules").is_empty() {
        errors.required("spec.matchConstraints.resourceRules", "");
    }
}

/// Match conditions and variables of both kinds of policies. Returns the environment of the other
/// expressions.
fn conditions(spec: &Value, errors: &mut Errors) -> Expressions {
    let has_params = !at(spec, "paramKind").is_null();
    let conditions = list(spec, "matchConditions");
    webhooks::match_conditions("spec.matchConditions", conditions, has_params, errors);
    let mut expressions = Expressions::new(has_params);
    for (index, variable) in list(spec, "variables").iter().enumerate() {
        let field = |name: &str| format!("spec.variables[{index}].{name}");
        let name = text(variable, "name");
        if name.trim().is_empty() {
            errors.required(field("name"), "name is not specified");
        } else if !is_identifier(name) {
            errors.invalid(field("name"), name, "must be a valid CEL identifier");
        }
        let source = text(variable, "expression");
        if source.trim().is_empty() {
            errors.required(field("expression"), "expression is not specified");
        } else if let Err(why) = expressions.variable(name, source).program {
            errors.invalid(field("expression"), source, why);
        }
    }
    expressions
}

fn is_identifier(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && crate::cel::types::escape(name).is_some_and(|escaped| escaped == name)
}

fn param_kind(field: &str, kind: &Value, errors: &mut Errors) {
    let at_version = format!("{field}.apiVersion");
    let group_version = text(kind, "apiVersion");
    match group_version.matches('/').count() {
        _ if group_version.is_empty() => errors.required(at_version, ""),
        0 | 1 => {
            let (group, version) = group_version.split_once('/').unwrap_or(("", group_version));
            if !group.is_empty() {
                joined(&at_version, group, "", formats::subdomain(group), errors);
            }
            if version.is_empty() {
                errors.invalid(at_version, group_version, "version must be specified");
            } else {
                joined(
                    &at_version,
                    version,
                    "",
                    formats::dns_label(version),
                    errors,
                );
            }
        }
        _ => errors.invalid(
            at_version,
            group_version,
            format!("unexpected GroupVersion string: {group_version}"),
        ),
    }
    match text(kind, "kind") {
        "" => errors.required(format!("{field}.kind"), ""),
        name => joined(
            &format!("{field}.kind"),
            name,
            "may have mixed case, but should otherwise match: ",
            formats::dns_label(&name.to_lowercase()),
            errors,
        ),
    }
}

/// Adds all complaints as one error.
fn joined(field: &str, value: &str, intro: &str, complaints: Vec<String>, errors: &mut Errors) {
    if !complaints.is_empty() {
        errors.invalid(field, value, format!("{intro}{}", complaints.join(",")));
    }
}

fn match_resources(field: &str, resources: &Value, errors: &mut Errors) {
    webhooks::one_of(field, resources, "matchPolicy", &MATCH_POLICIES, errors);
    for name in ["namespaceSelector", "objectSelector"] {
        selector::check(&format!("{field}.{name}"), at(resources, name), errors);
    }
    for rules in ["resourceRules", "excludeResourceRules"] {
        for (index, rule) in list(resources, rules).iter().enumerate() {
            let field = format!("{field}.{rules}[{index}]");
            let mut names = HashSet::new();
            for (index, name) in list(rule, "resourceNames").iter().enumerate() {
                let name = name.as_str().unwrap_or("");
                let field = format!("{field}.resourceNames[{index}]");
                errors.complaints(&field, name, formats::path_segment(name));
                if !names.insert(name) {
                    errors.duplicate(field, name);
                }
            }
            webhooks::rule(&field, rule, errors);
        }
    }
}

/// A mutating policy cannot match deletions.
fn mutable_operations(field: &str, resources: &Value, errors: &mut Errors) {
    for rule in list(resources, "resourceRules") {
        for operation in list(rule, "operations") {
            let operation = operation.as_str().unwrap_or("");
            let field = format!("{field}.resourceRules.operations");
            errors.one_of(field, operation, &MUTATING_OPERATIONS);
        }
    }
}

fn validation(field: &str, validation: &Value, expressions: &Expressions, errors: &mut Errors) {
    const BREAKS: [char; 2] = ['\n', '\r'];
    let expression = text(validation, "expression").trim();
    let message = text(validation, "message");
    let parts = [
        ("expression", Type::Bool, true),
        ("messageExpression", Type::Text, false),
    ];
    for (name, wanted, authorizer) in parts {
        let source = text(validation, name);
        if source.trim().is_empty() {
            continue;
        }
        if let Err(why) = expressions.compile(source, &[wanted], authorizer).program {
            errors.invalid(format!("{field}.{name}"), source, why);
        }
    }
    if expression.is_empty() {
        errors.required(format!("{field}.expression"), "expression is not specified");
    }
    let of_message = text(validation, "messageExpression");
    if !of_message.is_empty() && of_message.trim().is_empty() {
        errors.invalid(
            format!("{field}.messageExpression"),
            of_message,
            "must be non-empty if specified",
        );
    }
    let at_message = format!("{field}.message");
    if !message.is_empty() && message.trim().is_empty() {
        errors.invalid(at_message, message, "must be non-empty if specified");
    } else if message.trim().contains(BREAKS) {
        // An expression with line breaks needs no message: upstream's check for it never holds.
        errors.invalid(at_message, message, "must not contain line breaks");
    }
    let reasons = ["Forbidden", "Invalid", "RequestEntityTooLarge"];
    webhooks::one_of(field, validation, "reason", &reasons, errors);
}

/// The patch types of mutations, and the field with the patch of each type.
const PATCHES: [(&str, &str); 2] = [
    ("ApplyConfiguration", "applyConfiguration"),
    ("JSONPatch", "jsonPatch"),
];

fn mutation(field: &str, mutation: &Value, expressions: &Expressions, errors: &mut Errors) {
    let kind = text(mutation, "patchType");
    let at_type = format!("{field}.patchType");
    if kind.is_empty() {
        return errors.required(at_type, "");
    }
    if !PATCHES.iter().any(|(known, _)| *known == kind) {
        return errors.not_supported(at_type, kind, &PATCHES.map(|(known, _)| known));
    }
    let (own, others): (Vec<_>, Vec<_>) = PATCHES.iter().partition(|(known, _)| *known == kind);
    for (_, name) in own {
        let patch = at(mutation, name);
        let at_expression = format!("{field}.{name}.expression");
        let wanted = match name {
            "jsonPatch" => json_patch(),
            _ => configuration(),
        };
        match text(patch, "expression").trim() {
            _ if patch.is_null() => {
                let why = format!("must be specified when patchType is {kind}");
                errors.required(format!("{field}.{name}"), &why);
            }
            "" => errors.required(at_expression, ""),
            source => {
                if let Err(why) = expressions.mutation(source, wanted).program {
                    errors.invalid(at_expression, source, why);
                }
            }
        }
    }
    for (_, name) in others {
        if !at(mutation, name).is_null() {
            errors.invalid(
                format!("{field}.{name}"),
                format!("{{{name}}}"),
                format!("must not be specified when patchType is {kind}"),
            );
        }
    }
}

/// A binding of a policy. Only a ValidatingAdmissionPolicyBinding has actions.
pub(super) fn binding(kind: &str, object: &Value, errors: &mut Errors) {
    let spec = at(object, "spec");
    let name = text(spec, "policyName");
    errors.required_format("spec.policyName".to_owned(), name, formats::subdomain);
    param_ref("spec.paramRef", at(spec, "paramRef"), errors);
    let resources = at(spec, "matchResources");
    match_resources("spec.matchResources", resources, errors);
    if kind == "ValidatingAdmissionPolicyBinding" {
        actions(list(spec, "validationActions"), errors);
    } else {
        mutable_operations("spec.matchResources", resources, errors);
    }
}

fn actions(actions: &[Value], errors: &mut Errors) {
    const FIELD: &str = "spec.validationActions";
    let mut seen = HashSet::new();
    for (index, action) in actions.iter().enumerate() {
        let action = action.as_str().unwrap_or("");
        let field = format!("{FIELD}[{index}]");
        errors.one_of(field.as_str(), action, &["Audit", "Deny", "Warn"]);
        if !seen.insert(action) {
            errors.duplicate(field, action);
        }
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        errors.invalid(
            FIELD,
            actions.to_vec(),
            "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)",
        );
    }
    if seen.is_empty() {
        errors.required(FIELD, "at least one validation action is required");
    }
}

fn param_ref(field: &str, reference: &Value, errors: &mut Errors) {
    if reference.is_null() {
        return;
    }
    let exclusive = "name and selector are mutually exclusive";
    let name = text(reference, "name");
    let selector = at(reference, "selector");
    let has_both = !name.is_empty() && !selector.is_null();
    let at_name = format!("{field}.name");
    errors.complaints(&at_name, name, formats::path_segment(name));
    if has_both {
        errors.forbidden(at_name, exclusive);
    }
    let at_selector = format!("{field}.selector");
    selector::check(&at_selector, selector, errors);
    if has_both {
        errors.forbidden(at_selector, exclusive);
    }
    if name.is_empty() && selector.is_null() {
        errors.required(field, "one of name or selector must be specified");
    }
    let at_action = format!("{field}.parameterNotFoundAction");
    match text(reference, "parameterNotFoundAction") {
        "" => errors.required(at_action, ""),
        action => errors.one_of(at_action, action, &["Deny", "Allow"]),
    }
}
