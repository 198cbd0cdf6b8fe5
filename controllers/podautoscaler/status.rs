//! The status of an autoscaler: its conditions, and the values of its metrics.
//!
//! Conditions keep their order, and their transition times change with the status only. Upstream:
//! `setConditionInList` and `setStatus` in `horizontal.go`.
//!
//! `sync.rs` collects changes in one copy of the status and writes it once at the end of a sync. Entries of
//! metrics are JSON values: the controller writes them, and reads none of their fields.

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_objects::conditions::{self, FALSE, TRUE};
use steersman_objects::{AutoscalerStatus, Condition, CrossVersionReference, MetricIdentifier};
use steersman_values::clock::whole_seconds;
use steersman_values::quantity::Quantity;

use super::limits::Normalized;
use super::replicas::Utilization;

/// Whether the controller can read and write the size of the target.
pub(super) const ABLE_TO_SCALE: &str = "AbleToScale";
/// Whether the controller computes sizes from metrics.
pub(super) const SCALING_ACTIVE: &str = "ScalingActive";
/// Whether a limit changed the computed size.
pub(super) const SCALING_LIMITED: &str = "ScalingLimited";
/// Whether the controller scaled the target to zero.
const SCALED_TO_ZERO: &str = "ScaledToZero";

/// Sets a condition. Fields that other clients wrote stay: upstream's manager knows `observedGeneration` of 1.37, and
/// leaves it alone.
pub(super) fn set(
    status: &mut AutoscalerStatus,
    kind: &str,
    is_true: bool,
    reason: &str,
    message: impl Into<Box<str>>,
    now: Timestamp,
) {
    let new = conditions::new(
        kind,
        if is_true { TRUE } else { FALSE },
        reason,
        message,
        now,
    );
    let mut all = status.conditions.iter_mut();
    match all.find(|known| known.kind == *kind) {
        None => status.conditions.push(new),
        Some(known) => {
            let last_transition_time = if known.status == new.status {
                known.last_transition_time
            } else {
                new.last_transition_time
            };
            *known = Condition {
                last_transition_time,
                extra: std::mem::take(&mut known.extra),
                ..new
            };
        }
    }
}

/// Sets the conditions of a normalized size. `AbleToScale` replaces the reason
/// `SucceededGetScale` of the same sync.
pub(super) fn set_normalized(status: &mut AutoscalerStatus, to: &Normalized, now: Timestamp) {
    set(
        status,
        ABLE_TO_SCALE,
        true,
        to.able.reason,
        to.able.message,
        now,
    );
    set(
        status,
        SCALING_LIMITED,
        to.is_limited,
        to.limit.reason,
        to.limit.message,
        now,
    );
}

/// Whether the controller scaled the target to zero. The condition is the memory of the controller: a size of
/// zero alone may also be the decision of a user.
pub(super) fn is_scaled_to_zero(status: &AutoscalerStatus) -> bool {
    conditions::find(&status.conditions, SCALED_TO_ZERO)
        .is_some_and(|condition| condition.status == *TRUE)
}

/// Sets the condition about a target that was scaled to zero; `None` removes it. Without the gate the
/// condition must vanish. A later start with the gate would otherwise believe an old one.
pub(super) fn set_scaled_to_zero(
    status: &mut AutoscalerStatus,
    scaled: Option<bool>,
    now: Timestamp,
) {
    let (is_true, reason, message) = match scaled {
        None => return conditions::remove(&mut status.conditions, SCALED_TO_ZERO),
        Some(true) => (
            true,
            "ScaledToZero",
            "the HPA controller scaled the workload to zero",
        ),
        Some(false) => (
            false,
            "NotScaledToZero",
            "the HPA controller did not scale the workload to zero",
        ),
    };
    set(status, SCALED_TO_ZERO, is_true, reason, message, now);
}

/// Replaces sizes and metrics. As upstream, `observedGeneration` is dropped without the gate `HPAGeneration`.
/// `None` for `metrics` removes the list.
pub(super) fn replace(
    status: &mut AutoscalerStatus,
    current: i32,
    desired: i32,
    metrics: Option<Vec<Value>>,
    generation: Option<i64>,
) {
    status.observed_generation = generation;
    status.current_replicas = current;
    status.desired_replicas = desired;
    status.current_metrics = metrics;
}

/// Whether both have the same meaning: no list of metrics equals an empty one. Upstream:
/// `updateStatusIfNeeded`, which compares by `equality.Semantic`. Without it, an autoscaler without metrics
/// would be written in each sync.
pub(super) fn is_equal(a: &AutoscalerStatus, b: &AutoscalerStatus) -> bool {
    let metrics = |status: &AutoscalerStatus| status.current_metrics.clone().unwrap_or_default();
    let others = |status: &AutoscalerStatus| AutoscalerStatus {
        current_metrics: None,
        ..status.clone()
    };
    metrics(a) == metrics(b) && others(a) == others(b)
}

/// Sets the time of a change of the size. In whole seconds, as `metav1.Time` is written.
pub(super) fn resized(status: &mut AutoscalerStatus, now: Timestamp) {
    status.last_scale_time = Some(whole_seconds(now));
}

/// The entry of a metric without a value. Its place in the list is that of the metric in the spec. Upstream
/// leaves the zero value there.
pub(super) fn no_metric() -> Value {
    json!({"type": ""})
}

/// The current value of a resource. With `is_binary`, memory has binary suffixes, as in metrics-server. `average` is in
/// thousandths. Upstream: `buildQuantity`.
pub(super) fn of_resource(resource: &str, average: i64, is_binary: bool) -> Value {
    let quantity = if is_binary && resource == "memory" {
        Quantity::milli_binary(average)
    } else {
        Quantity::milli(average)
    };
    json!({"averageValue": quantity.canonical()})
}

/// The current use of a resource. The percentage is that of the requests.
pub(super) fn of_utilization(resource: &str, used: Utilization, is_binary: bool) -> Value {
    let mut value = of_resource(resource, used.average, is_binary);
    value["averageUtilization"] = used.percent.into();
    value
}

/// The entry of a resource of pods.
pub(super) fn resource(name: &str, current: Value) -> Value {
    json!({"type": "Resource", "resource": {"name": name, "current": current}})
}

/// The entry of a resource of a container.
pub(super) fn container_resource(name: &str, container: &str, current: Value) -> Value {
    json!({
        "type": "ContainerResource",
        "containerResource": {"name": name, "container": container, "current": current},
    })
}

/// A value of a metric other than a resource; `field` is `value` or `averageValue`.
pub(super) fn current(field: &str, milli: i64) -> Value {
    json!({field: Quantity::milli(milli).canonical()})
}

/// The entry of a metric of pods.
pub(super) fn pods(metric: &MetricIdentifier, current: Value) -> Value {
    json!({"type": "Pods", "pods": {"metric": metric, "current": current}})
}

/// The entry of a metric of an object.
pub(super) fn object(
    described: &CrossVersionReference,
    metric: &MetricIdentifier,
    current: Value,
) -> Value {
    json!({
        "type": "Object",
        "object": {"metric": metric, "current": current, "describedObject": described},
    })
}

/// The entry of an external metric.
pub(super) fn external(metric: &MetricIdentifier, current: Value) -> Value {
    json!({"type": "External", "external": {"metric": metric, "current": current}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transition_time_changes_with_the_status() {
        let time = |second| Timestamp::from_second(second).unwrap();
        let mut status = AutoscalerStatus::default();
        // (type, is true, reason, second; conditions: type, status, reason, second of the transition)
        let steps = [
            ("A", true, "R", 1, "A True R 1"),
            ("B", false, "S", 2, "A True R 1, B False S 2"),
            ("A", true, "T", 3, "A True T 1, B False S 2"),
            ("A", false, "T", 4, "A False T 4, B False S 2"),
        ];
        for (kind, is_true, reason, second, expected) in steps {
            set(&mut status, kind, is_true, reason, "m", time(second));
            let all: Vec<String> = status
                .conditions
                .iter()
                .map(|c| {
                    let since = c.last_transition_time.unwrap().as_second();
                    format!("{} {} {} {since}", c.kind, c.status, c.reason)
                })
                .collect();
            assert_eq!(all.join(", "), expected);
        }
    }

    #[test]
    fn memory_has_binary_suffixes_since_1_34() {
        let mebibytes = 10 * 1024 * 1024 * 1000;
        // (resource, thousandths, decimal, binary)
        let cases = [
            ("memory", mebibytes, "10485760", "10Mi"),
            ("memory", 3_000_000, "3k", "3000"),
            ("cpu", 250, "250m", "250m"),
        ];
        for (resource, average, decimal, binary) in cases {
            for (is_binary, expected) in [(false, decimal), (true, binary)] {
                let value = of_resource(resource, average, is_binary);
                assert_eq!(value["averageValue"], expected, "{resource} {average}");
            }
        }
    }

    #[test]
    fn fields_of_other_clients_stay_in_a_condition() {
        let now = Timestamp::from_second(1).unwrap();
        let observed = json!({"type": "A", "status": "True", "observedGeneration": 3});
        let mut status = AutoscalerStatus {
            conditions: vec![serde_json::from_value(observed).unwrap()],
            ..AutoscalerStatus::default()
        };
        set(&mut status, "A", false, "R", "m", now);
        set(&mut status, "B", true, "R", "m", now);
        let written = serde_json::to_value(&status.conditions).unwrap();
        assert_eq!(
            (&written[0]["status"], &written[0]["observedGeneration"]),
            (&json!("False"), &json!(3))
        );
        assert_eq!(written[1].get("observedGeneration"), None);
    }

    #[test]
    fn a_missing_list_of_metrics_equals_an_empty_one() {
        let with = |metrics| AutoscalerStatus {
            current_metrics: metrics,
            ..AutoscalerStatus::default()
        };
        assert!(is_equal(&with(None), &with(Some(Vec::new()))));
        assert!(!is_equal(&with(None), &with(Some(vec![no_metric()]))));
        let mut observed = with(None);
        observed.observed_generation = Some(1);
        assert!(!is_equal(&with(None), &observed));
        replace(&mut observed, 0, 0, None, None);
        assert!(is_equal(&with(None), &observed));
    }
}
