//! DaemonSets.
//!
//! Upstream is `pkg/apis/apps/validation`.

use serde_json::Value;

use super::errors::{Errors, at, text};
use super::workload::{at_most_all, int_or_percent, long_running, magnitude};
use super::{pod, replicas, selector};
use crate::schema::internal;

pub(super) fn check(object: &Value, errors: &mut Errors) {
    const SELECTOR: &str = "spec.selector";
    let wanted = at(object, SELECTOR);
    let labels = at(object, "spec.template.metadata.labels");
    let is_valid = wanted.is_null() || selector::check(SELECTOR, wanted, errors);
    if is_valid && !selector::matches(wanted, labels) {
        errors.invalid(
            "spec.template.metadata.labels",
            labels.clone(),
            "`selector` does not match template `labels`",
        );
    }
    if !wanted.is_null() && selector::is_empty(wanted) {
        errors.invalid(
            SELECTOR,
            selector::shown(wanted),
            "empty selector is invalid for daemonset",
        );
    }
    pod::template("spec.template", at(object, "spec.template"), errors);
    long_running(object, "DaemonSet", errors);
    errors.non_negative(object, "spec.minReadySeconds");
    strategy(at(object, "spec.updateStrategy"), errors);
    errors.non_negative(object, "spec.revisionHistoryLimit");
}

fn strategy(strategy: &Value, errors: &mut Errors) {
    const FIELD: &str = "spec.updateStrategy";
    let rolling = at(strategy, "rollingUpdate");
    match text(strategy, "type") {
        "OnDelete" => {}
        "RollingUpdate" if rolling.is_null() => {
            errors.required(format!("{FIELD}.rollingUpdate"), "");
        }
        "RollingUpdate" => rolling_update(rolling, errors),
        _ => errors.not_supported(
            FIELD,
            internal::form("apps.DaemonSetUpdateStrategy", strategy),
            &["RollingUpdate", "OnDelete"],
        ),
    }
}

/// Either surge or unavailability must be above 0, and only one of them.
fn rolling_update(rolling: &Value, errors: &mut Errors) {
    let field = |name: &str| format!("spec.updateStrategy.rollingUpdate.{name}");
    let names = ["maxUnavailable", "maxSurge"];
    for name in names {
        int_or_percent(&field(name), at(rolling, name), errors);
    }
    for name in names {
        at_most_all(&field(name), at(rolling, name), errors);
    }
    let surge = at(rolling, "maxSurge");
    match names.map(|name| magnitude(at(rolling, name)) != 0) {
        [true, true] => errors.invalid(
            field("maxSurge"),
            surge.clone(),
            "may not be set when maxUnavailable is non-zero",
        ),
        [false, false] => {
            errors.required(field("maxUnavailable"), "cannot be 0 when maxSurge is 0")
        }
        _ => {}
    }
}

pub(super) fn status(new: &Value, old: &Value, errors: &mut Errors) {
    let counters = [
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    ];
    replicas::non_negative(new, &counters, errors);
    replicas::collisions(new, old, errors);
}
