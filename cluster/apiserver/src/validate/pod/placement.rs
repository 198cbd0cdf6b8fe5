//! Tolerations, topology spread, gates, and the taints of nodes.
//!
//! Upstream: `ValidateTolerations`, `validateTopologySpreadConstraints`, `validateSchedulingGates`
//! and `validateNodeTaints`.

use std::collections::HashSet;

use serde_json::Value;
use steersman_releases::Release;

use super::{Errors, Path, affinity, formats, list, number, selector, text};
use crate::schema::internal;

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Checks the gates of a pod: those of its scheduling, and those of its readiness.
pub(super) fn gates(path: &Path<'_>, spec: &Value, errors: &mut Errors) {
    let readiness = path.child("readinessGates");
    for (index, gate) in list(spec, "readinessGates").iter().enumerate() {
        let condition = text(gate, "conditionType");
        errors.complaints(
            readiness.index(index).child("conditionType"),
            condition,
            formats::qualified_name(condition),
        );
    }
    let scheduling = path.child("schedulingGates");
    let mut seen = HashSet::new();
    for (index, gate) in list(spec, "schedulingGates").iter().enumerate() {
        let name = text(gate, "name");
        errors.complaints(scheduling.index(index), name, formats::qualified_name(name));
        if !seen.insert(name) {
            errors.duplicate(scheduling.index(index), name);
        }
    }
}

/// Checks how pods are spread over the nodes.
pub(super) fn spread(path: &Path<'_>, spec: &Value, errors: &mut Errors) {
    let constraints = list(spec, "topologySpreadConstraints");
    for (index, constraint) in constraints.iter().enumerate() {
        let path = path.index(index);
        let key = text(constraint, "topologyKey");
        let action = text(constraint, "whenUnsatisfiable");
        let positive = |field: &str, value: i64, errors: &mut Errors| {
            if value <= 0 {
                errors.invalid(path.child(field), value, "must be greater than zero");
            }
        };
        positive("maxSkew", number(constraint, "maxSkew"), errors);
        if key.is_empty() {
            errors.required(path.child("topologyKey"), "can not be empty");
        }
        errors.one_of(
            path.child("whenUnsatisfiable"),
            action,
            &["DoNotSchedule", "ScheduleAnyway"],
        );
        let repeats = constraints[index + 1..].iter().any(|other| {
            text(other, "topologyKey") == key && text(other, "whenUnsatisfiable") == action
        });
        if repeats {
            errors.duplicate(
                path.child("{topologyKey, whenUnsatisfiable}"),
                format!("{{{key}, {action}}}"),
            );
        }
        if let Some(domains) = constraint["minDomains"].as_i64() {
            positive("minDomains", domains, errors);
            if action != "DoNotSchedule" {
                let detail = format!(
                    "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
                );
                errors.invalid(path.child("minDomains"), domains, detail);
            }
        }
        for field in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            if let Some(policy) = constraint[field].as_str() {
                errors.one_of(path.child(field), policy, &["Honor", "Ignore"]);
            }
        }
        affinity::label_keys(&path, constraint, errors);
        let wanted = &constraint["labelSelector"];
        if !wanted.is_null() {
            selector::check(&path.child("labelSelector").to_string(), wanted, errors);
        }
    }
}

/// Checks the tolerations of a pod. Operators that compare numbers are behind a gate that is off.
pub(in super::super) fn tolerations(path: &Path<'_>, tolerations: &[Value], errors: &mut Errors) {
    for (index, toleration) in tolerations.iter().enumerate() {
        let path = path.index(index);
        let key = text(toleration, "key");
        let operator = text(toleration, "operator");
        let effect = text(toleration, "effect");
        if !key.is_empty() {
            errors.complaints(path.child("key"), key, formats::qualified_name(key));
        } else if operator != "Exists" {
            errors.invalid(
                path.child("operator"),
                operator,
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
            );
        }
        if !toleration["tolerationSeconds"].is_null() && effect != "NoExecute" {
            errors.invalid(
                path.child("effect"),
                effect,
                "effect must be 'NoExecute' when `tolerationSeconds` is set",
            );
        }
        let value = text(toleration, "value");
        match operator {
            "" | "Equal" => {
                let complaints = formats::label_value(value);
                if !complaints.is_empty() {
                    errors.invalid(path.child("operator"), value, complaints.join(";"));
                }
            }
            "Exists" if !value.is_empty() => errors.invalid(
                path.child("operator"),
                value,
                "value must be empty when `operator` is 'Exists'",
            ),
            "Exists" => {}
            // Known since 1.35, and behind a gate that is off.
            "Lt" | "Gt" if errors.release() >= Release::of_minor(35) => errors.not_supported(
                path.child("operator"),
                operator,
                &["Equal", "Exists", "Lt", "Gt"],
            ),
            other => errors.not_supported(path.child("operator"), other, &["Equal", "Exists"]),
        }
        if !effect.is_empty() {
            errors.one_of(path.child("effect"), effect, &EFFECTS);
        }
    }
}

/// Taints of a node. The caller passes upstream's path.
pub(in super::super) fn taints(field: &str, taints: &[Value], errors: &mut Errors) {
    let mut seen = HashSet::new();
    let path = Path::new(field);
    for (index, taint) in taints.iter().enumerate() {
        let path = path.index(index);
        let key = text(taint, "key");
        let effect = text(taint, "effect");
        errors.complaints(path.child("key"), key, formats::qualified_name(key));
        let value = text(taint, "value");
        errors.complaints(path.child("value"), value, formats::label_value(value));
        errors.choice(path.child("effect"), effect, &EFFECTS);
        if !seen.insert((key, effect)) {
            let why = "taints must be unique by key and effect pair";
            errors.duplicate_because(path, internal::form("core.Taint", taint), why);
        }
    }
}
