//! Replica counters in the status of Deployments, ReplicaSets, ReplicationControllers and
//! StatefulSets.

use serde_json::Value;

use super::errors::{Errors, at};

fn count(object: &Value, field: &str) -> i64 {
    at(object, &format!("status.{field}")).as_i64().unwrap_or(0)
}

/// Requires that a counter is not greater than another one.
fn at_most(object: &Value, field: &str, limit: &str, limit_text: &str, errors: &mut Errors) {
    let value = count(object, field);
    if value > count(object, limit) {
        errors.invalid(
            format!("status.{field}"),
            value,
            format!("cannot be greater than {limit_text}"),
        );
    }
}

pub(super) fn non_negative(object: &Value, fields: &[&str], errors: &mut Errors) {
    for field in fields {
        errors.non_negative(object, &format!("status.{field}"));
    }
}

pub(super) fn deployment_status(new: &Value, old: &Value, errors: &mut Errors) {
    let counters = [
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    ];
    non_negative(new, &counters, errors);
    for part in ["updatedReplicas", "readyReplicas", "availableReplicas"] {
        at_most(new, part, "replicas", "status.replicas", errors);
    }
    at_most(
        new,
        "availableReplicas",
        "readyReplicas",
        "readyReplicas",
        errors,
    );
    collisions(new, old, errors);
}

/// Requires that the count of hash collisions does not fall, once it is set.
pub(super) fn collisions(new: &Value, old: &Value, errors: &mut Errors) {
    if at(old, "status.collisionCount").is_null() {
        return;
    }
    if count(new, "collisionCount") < count(old, "collisionCount") {
        errors.invalid(
            "status.collisionCount",
            count(new, "collisionCount"),
            "cannot be decremented",
        );
    }
}

pub(super) fn stateful_set_status(new: &Value, old: &Value, errors: &mut Errors) {
    let parts = [
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
    ];
    non_negative(new, &["replicas"], errors);
    non_negative(new, &parts, errors);
    non_negative(new, &["observedGeneration", "collisionCount"], errors);
    for part in parts {
        at_most(new, part, "replicas", "status.replicas", errors);
    }
    at_most(
        new,
        "availableReplicas",
        "readyReplicas",
        "status.readyReplicas",
        errors,
    );
    collisions(new, old, errors);
}

pub(super) fn replica_set_status(new: &Value, errors: &mut Errors) {
    let parts = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
    non_negative(new, &["replicas"], errors);
    non_negative(new, &parts, errors);
    non_negative(new, &["observedGeneration", "terminatingReplicas"], errors);
    for part in parts {
        at_most(new, part, "replicas", "status.replicas", errors);
    }
    at_most(
        new,
        "availableReplicas",
        "readyReplicas",
        "readyReplicas",
        errors,
    );
}
