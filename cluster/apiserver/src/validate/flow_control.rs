//! FlowSchemas and PriorityLevelConfigurations.
//!
//! Upstream is `pkg/apis/flowcontrol/validation`. The objects that every cluster has are not
//! protected against changes here, because flow control has no effect.

use serde_json::Value;

use super::errors::{Errors, at, list, text};
use super::formats;
use crate::schema::internal;

/// Lowest precedence of a FlowSchema.
const PRECEDENCE: i64 = 10_000;
/// Most queues of a priority level.
const QUEUES: i64 = 10_000_000;
/// Bits of the hash that chooses the queues of a flow.
const HASH_BITS: i64 = 60;
/// The level and the schema for requests without limits.
const EXEMPT: &str = "exempt";

const VERBS: [&str; 9] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "proxy",
    "update",
    "watch",
];

/// The kinds of subjects, and the field with the subject of each kind.
const SUBJECTS: [(&str, &str); 3] = [
    ("ServiceAccount", "serviceAccount"),
    ("User", "user"),
    ("Group", "group"),
];

pub(super) fn schema(object: &Value, errors: &mut Errors) {
    let spec = at(object, "spec");
    let precedence = at(spec, "matchingPrecedence").as_i64().unwrap_or(0);
    let mut wrong_precedence = |why: String| {
        errors.invalid("spec.matchingPrecedence", precedence, why);
    };
    if precedence <= 0 {
        wrong_precedence("must be a positive value".to_owned());
    }
    if precedence > PRECEDENCE {
        wrong_precedence(format!("must not be greater than {PRECEDENCE}"));
    }
    if precedence == 1 && text(object, "metadata.name") != EXEMPT {
        wrong_precedence("only the schema named 'exempt' may have matchingPrecedence 1".to_owned());
    }
    let method = at(spec, "distinguisherMethod");
    if !method.is_null() && !["ByNamespace", "ByUser"].contains(&text(method, "type")) {
        errors.not_supported(
            "spec.distinguisherMethod.type",
            internal::form("flowcontrol.FlowDistinguisherMethod", method),
            &["ByNamespace", "ByUser"],
        );
    }
    match text(spec, "priorityLevelConfiguration.name") {
        "" => errors.required(
            "spec.priorityLevelConfiguration.name",
            "must reference a priority level",
        ),
        name => errors.complaints(
            "spec.priorityLevelConfiguration.name",
            name,
            formats::subdomain(name),
        ),
    }
    for (index, rule) in list(spec, "rules").iter().enumerate() {
        self::rule(&format!("spec.rules[{index}]"), rule, errors);
    }
}

fn rule(field: &str, rule: &Value, errors: &mut Errors) {
    let subjects = list(rule, "subjects");
    if subjects.is_empty() {
        let why = "subjects must contain at least one value";
        errors.required(format!("{field}.subjects"), why);
    }
    for (index, subject) in subjects.iter().enumerate() {
        self::subject(&format!("{field}.subjects[{index}]"), subject, errors);
    }
    let resources = list(rule, "resourceRules");
    let others = list(rule, "nonResourceRules");
    if resources.is_empty() && others.is_empty() {
        let why = "at least one of resourceRules and nonResourceRules has to be non-empty";
        errors.required(field, why);
    }
    for (index, rule) in resources.iter().enumerate() {
        resource_rule(&format!("{field}.resourceRules[{index}]"), rule, errors);
    }
    for (index, rule) in others.iter().enumerate() {
        url_rule(&format!("{field}.nonResourceRules[{index}]"), rule, errors);
    }
}

fn subject(field: &str, subject: &Value, errors: &mut Errors) {
    let kind = text(subject, "kind");
    let Some((_, own)) = SUBJECTS.iter().find(|(known, _)| *known == kind) else {
        let known = ["Group", "ServiceAccount", "User"];
        return errors.not_supported(format!("{field}.kind"), kind, &known);
    };
    let at_own = format!("{field}.{own}");
    let value = at(subject, own);
    if value.is_null() {
        let why = format!("{own} is required when subject kind is '{kind}'");
        errors.required(at_own, &why);
    } else {
        let name = text(value, "name");
        if name.is_empty() {
            errors.required(format!("{at_own}.name"), "");
        } else if kind == "ServiceAccount" && name != "*" {
            let complaints = formats::subdomain(name);
            errors.complaints(format!("{at_own}.name"), name, complaints);
        }
        if kind == "ServiceAccount" {
            let at_namespace = format!("{at_own}.namespace");
            match text(value, "namespace") {
                "" => errors.required(at_namespace, "must specify namespace for service account"),
                name => errors.complaints(&at_namespace, name, formats::label(name)),
            }
        }
    }
    // Upstream's order of the other fields depends on the kind.
    let others: [&str; 2] = match kind {
        "ServiceAccount" => ["user", "group"],
        "User" => ["serviceAccount", "group"],
        _ => ["serviceAccount", "user"],
    };
    for other in others {
        if !at(subject, other).is_null() {
            let owner = SUBJECTS.iter().find(|(_, field)| *field == other);
            let owner = owner.map_or("", |(kind, _)| kind);
            errors.forbidden(
                format!("{field}.{other}"),
                format!("{other} is forbidden when subject kind is not '{owner}'"),
            );
        }
    }
}

/// Requires values, of which `*` excludes others. Returns whether each value needs a check.
fn values(
    field: &str,
    rule: &Value,
    name: &str,
    (missing, noun): (&str, &str),
    errors: &mut Errors,
) -> bool {
    let values = list(rule, name);
    let has_wildcard = values.iter().any(|value| value == "*");
    if values.is_empty() {
        errors.required(format!("{field}.{name}"), missing);
    } else if has_wildcard && values.len() > 1 {
        errors.invalid(
            format!("{field}.{name}"),
            values.to_vec(),
            format!("if '*' is present, must not specify other {noun}"),
        );
    }
    !values.is_empty() && !has_wildcard
}

fn verbs(field: &str, rule: &Value, errors: &mut Errors) {
    let words = ("verbs must contain at least one value", "verbs");
    let is_known = |verb: &Value| verb.as_str().is_some_and(|verb| VERBS.contains(&verb));
    if values(field, rule, "verbs", words, errors) && !list(rule, "verbs").iter().all(is_known) {
        let verbs = list(rule, "verbs").to_vec();
        errors.not_supported(format!("{field}.verbs"), verbs, &VERBS);
    }
}

fn resource_rule(field: &str, rule: &Value, errors: &mut Errors) {
    verbs(field, rule, errors);
    let groups = (
        "resource rules must supply at least one api group",
        "api groups",
    );
    values(field, rule, "apiGroups", groups, errors);
    let resources = (
        "resource rules must supply at least one resource",
        "resources",
    );
    values(field, rule, "resources", resources, errors);
    let namespaces = list(rule, "namespaces");
    if namespaces.is_empty() && at(rule, "clusterScope") == &Value::Bool(true) {
        return;
    }
    let words = (
        "resource rules that are not cluster scoped must supply at least one namespace",
        "namespaces",
    );
    if values(field, rule, "namespaces", words, errors) {
        for (index, namespace) in namespaces.iter().enumerate() {
            let namespace = namespace.as_str().unwrap_or("");
            let intro = "each member of this list must be '*' or a DNS-1123 label; ";
            let complaints = formats::label(namespace).into_iter();
            let complaints = complaints.map(|why| format!("{intro}{why}")).collect();
            errors.complaints(
                format!("{field}.namespaces[{index}]"),
                namespace,
                complaints,
            );
        }
    }
}

fn url_rule(field: &str, rule: &Value, errors: &mut Errors) {
    verbs(field, rule, errors);
    let words = (
        "nonResourceURLs must contain at least one value",
        "non-resource URLs",
    );
    if values(field, rule, "nonResourceURLs", words, errors) {
        for (index, url) in list(rule, "nonResourceURLs").iter().enumerate() {
            let url = url.as_str().unwrap_or("");
            if let Some(why) = url_complaint(url) {
                errors.invalid(format!("{field}.nonResourceURLs[{index}]"), url, why);
            }
        }
    }
}

fn url_complaint(url: &str) -> Option<&'static str> {
    let wildcards = url.matches('*').count();
    match url {
        "" => Some("must not be empty"),
        "/" => None,
        _ if !url.starts_with('/') => Some("must start with slash"),
        _ if url.contains(' ') => Some("must not contain white-space"),
        _ if url.contains("//") => Some("must not contain double slash"),
        _ if wildcards > 1 || (wildcards == 1 && !url.ends_with("/*")) => {
            Some("wildcard can only do suffix matching")
        }
        _ => None,
    }
}

pub(super) fn priority_level(object: &Value, errors: &mut Errors) {
    let spec = at(object, "spec");
    let kind = text(spec, "type");
    if (text(object, "metadata.name") == EXEMPT) != (kind == "Exempt") {
        let why = "must be 'Exempt' if and only if `name` is 'exempt'";
        errors.invalid("spec.type", kind, why);
    }
    let limited = at(spec, "limited");
    let exempt = at(spec, "exempt");
    match kind {
        "Exempt" => {
            if !limited.is_null() {
                errors.forbidden("spec.limited", "must be nil if the type is not Limited");
            }
            shares("spec.exempt", exempt, errors);
            lendable("spec.exempt", exempt, errors);
        }
        "Limited" => {
            if !exempt.is_null() {
                errors.forbidden("spec.exempt", "must be nil if the type is Limited");
            }
            if limited.is_null() {
                errors.required("spec.limited", "must not be empty when type is Limited");
            } else {
                limited_level("spec.limited", limited, errors);
            }
        }
        other => errors.not_supported("spec.type", other, &["Exempt", "Limited"]),
    }
}

fn shares(field: &str, level: &Value, errors: &mut Errors) {
    let shares = at(level, "nominalConcurrencyShares").as_i64();
    if let Some(shares) = shares.filter(|shares| *shares < 0) {
        errors.invalid(
            format!("{field}.nominalConcurrencyShares"),
            shares,
            "must be a non-negative integer",
        );
    }
}

fn lendable(field: &str, level: &Value, errors: &mut Errors) {
    let percent = at(level, "lendablePercent").as_i64();
    if let Some(percent) = percent.filter(|percent| !(0..=100).contains(percent)) {
        errors.invalid(
            format!("{field}.lendablePercent"),
            percent,
            "must be between 0 and 100, inclusive",
        );
    }
}

fn limited_level(field: &str, level: &Value, errors: &mut Errors) {
    shares(field, level, errors);
    let response = at(level, "limitResponse");
    let queuing = at(response, "queuing");
    let at_queuing = format!("{field}.limitResponse.queuing");
    match (text(response, "type"), queuing.is_null()) {
        ("Reject", true) => {}
        ("Reject", false) => errors.forbidden(
            at_queuing,
            "must be nil if limited.limitResponse.type is not Limited",
        ),
        ("Queue", true) => errors.required(
            at_queuing,
            "must not be empty if limited.limitResponse.type is Limited",
        ),
        ("Queue", false) => self::queuing(&at_queuing, queuing, errors),
        (other, _) => errors.not_supported(
            format!("{field}.limitResponse.type"),
            other,
            &["Queue", "Reject"],
        ),
    }
    lendable(field, level, errors);
    let limit = at(level, "borrowingLimitPercent").as_i64();
    if let Some(limit) = limit.filter(|limit| *limit < 0) {
        errors.invalid(
            format!("{field}.borrowingLimitPercent"),
            limit,
            "if specified, must be a non-negative integer",
        );
    }
}

fn queuing(field: &str, queuing: &Value, errors: &mut Errors) {
    let number = |name: &str| at(queuing, name).as_i64().unwrap_or(0);
    let limit = number("queueLengthLimit");
    let queues = number("queues");
    let hand = number("handSize");
    if limit <= 0 {
        errors.invalid(
            format!("{field}.queueLengthLimit"),
            limit,
            "must be positive",
        );
    }
    let at_queues = format!("{field}.queues");
    if queues <= 0 {
        errors.invalid(at_queues, queues, "must be positive");
    } else if queues > QUEUES {
        let why = format!("must not be greater than {QUEUES}");
        errors.invalid(at_queues, queues, why);
    }
    let at_hand = format!("{field}.handSize");
    if hand <= 0 {
        errors.invalid(at_hand, hand, "must be positive");
    } else if hand > queues {
        let why = format!("should not be greater than queues ({queues})");
        errors.invalid(at_hand, hand, why);
    } else if entropy_bits(queues, hand) > HASH_BITS {
        let why = format!(
            "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {HASH_BITS}"
        );
        errors.invalid(at_hand, hand, why);
    }
}

/// Bits of a hash that the choice of `hand` out of `queues` queues uses, rounded up.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "both numbers are small"
)]
fn entropy_bits(queues: i64, hand: i64) -> i64 {
    ((queues as f64).log2() * hand as f64).ceil() as i64
}
