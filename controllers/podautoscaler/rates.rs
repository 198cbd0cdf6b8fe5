//! The rule of an autoscaler that limits a change of its size, in words.
//!
//! `limits.rs` and `behavior.rs` decide; this module reads the condition `ScalingLimited` that they left, and
//! the rules of the spec. A rule that changed after the last sync may thus not match the condition.

use jiff::{SignedDuration, Timestamp};
use steersman_objects::{HorizontalPodAutoscaler, ScalingPolicy, ScalingRules};
use steersman_why::{Code, Doc, Reason, count};

use super::NAME;
use super::limits::Reason as Limit;

/// The reason for `limited`, the condition `ScalingLimited` of `hpa`. The metrics have the `values`. Only the
/// two rates depend on rules. All other reasons are about the size itself.
pub(super) fn limited(
    hpa: &HorizontalPodAutoscaler,
    limited: &Doc,
    values: &[String],
    now: Timestamp,
) -> Reason {
    let why = limited.text("/reason");
    let said = format!("{why}: {}", limited.text("/message"));
    let behavior = hpa.spec.behavior.as_ref();
    let (field, rules) = if why == Limit::DOWN_LIMIT.reason {
        ("scaleDown", behavior.map(|all| &all.scale_down))
    } else if why == Limit::UP_LIMIT.reason {
        ("scaleUp", behavior.map(|all| &all.scale_up))
    } else {
        return by_size(why, said, values);
    };
    let who = |rest: &str| format!("owner of the autoscaler (spec.behavior{rest})");
    // The text has the numbers of `UP_FACTOR` and `UP_MINIMUM` in `limits.rs`. Only growth has a rate here.
    let Some(rules) = rules else {
        let message = format!(
            "{said}: without spec.behavior, one sync makes a target at most twice as large, or 4"
        );
        return Reason::new(Code::ScalingLimited, NAME, message).who(who(""));
    };
    // Upstream reports a disabled direction as a rate, so waiting seems to help. It never does.
    if rules.select_policy == "Disabled" {
        return disabled(field, values).who(who(&format!(".{field}.selectPolicy")));
    }
    let message = format!("{said}{}", allowed(field, rules));
    Reason::new(Code::ScalingLimited, NAME, message)
        .who(who(&format!(".{field}")))
        // A step in the past says nothing: the next sync may already have taken it.
        .next(next_step(hpa, rules).filter(|at| *at > now))
}

/// The reason for the limits of the size itself. An unknown reason, such as that of a later release, names
/// both fields.
fn by_size(why: &str, said: String, values: &[String]) -> Reason {
    let field = if why == Limit::TOO_FEW.reason {
        "minReplicas"
    } else if why == Limit::TOO_MANY.reason {
        "maxReplicas"
    } else {
        "minReplicas, maxReplicas"
    };
    let who = format!("owner of the autoscaler ({field})");
    let message = [std::slice::from_ref(&said), values].concat().join("; ");
    Reason::new(Code::ScalingLimited, NAME, message).who(who)
}

/// The reason for a direction that the rules switch off. Upstream reports it like a rate.
fn disabled(field: &str, values: &[String]) -> Reason {
    let direction = if field == "scaleDown" { "down" } else { "up" };
    let asked = match values {
        [] => String::new(),
        values => format!(" ({})", values.join(", ")),
    };
    let message = format!(
        "spec.behavior.{field}.selectPolicy is Disabled, so the autoscaler never scales {direction}, although its \
         metrics ask for it{asked}; this is no rate, and waiting does not help"
    );
    Reason::new(Code::DirectionDisabled, NAME, message)
}

/// The changes that the policies of `rules` allow.
fn allowed(field: &str, rules: &ScalingRules) -> String {
    let text = |policy: &ScalingPolicy| {
        // An unknown type counts as a number of pods, like in `behavior.rs`.
        let amount = match policy.kind.as_str() {
            "Percent" => format!("{}%", policy.value),
            _ => count(usize::try_from(policy.value).unwrap_or(0), "pod"),
        };
        format!("{amount} in {} s", policy.period_seconds)
    };
    let policies: Vec<String> = rules.policies.iter().map(text).collect();
    let choice = match (policies.len(), rules.select_policy.as_str()) {
        // The API server fills in absent policies, so this case needs no words.
        (0, _) => return String::new(),
        (1, _) => "",
        (_, "Min") => ", whichever is less",
        _ => ", whichever is more",
    };
    format!(
        "; spec.behavior.{field} allows {}{choice}",
        policies.join(" or ")
    )
}

/// The time of the next step at the latest. No change is in a period that began after the last one, and a
/// policy allows at least one pod then. Each policy looks back over its own period. "Min" needs room in all
/// policies, and "Max" in one of them.
fn next_step(hpa: &HorizontalPodAutoscaler, rules: &ScalingRules) -> Option<Timestamp> {
    let periods = rules.policies.iter().map(|policy| policy.period_seconds);
    let seconds = match rules.select_policy.as_str() {
        "Min" => periods.max(),
        _ => periods.min(),
    };
    let last = hpa.status.last_scale_time?;
    last.checked_add(SignedDuration::from_secs(seconds?.into()))
        .ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use steersman_objects::Object;

    use super::*;

    fn told(behavior: &Value, why: Limit) -> (Code, String, Option<Timestamp>, String) {
        let served = json!({
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"maxReplicas": 9, "scaleTargetRef": {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"},
                "behavior": behavior},
            "status": {"currentReplicas": 6, "desiredReplicas": 6, "lastScaleTime": "2026-11-28T12:00:00Z"},
        });
        let hpa = HorizontalPodAutoscaler::decode(served.to_string().as_bytes()).unwrap();
        let condition = Doc::new(json!({"reason": why.reason, "message": why.message}));
        let now = "2026-11-28T12:00:30Z".parse().unwrap();
        let values = ["cpu 10% beside a target of 60%".to_owned()];
        let reason = limited(&hpa, &condition, &values, now);
        (reason.code, reason.message, reason.next_try, reason.who)
    }

    #[test]
    fn the_rule_of_a_limit_is_told_with_its_next_step() {
        let policy = |kind: &str, value: i32, seconds: i32| json!({"type": kind, "value": value, "periodSeconds": seconds});
        let both = [policy("Pods", 1, 600), policy("Percent", 10, 60)];
        let down = |select: &str, policies: &[Value]| json!({"scaleDown": {"selectPolicy": select, "policies": policies}});
        let at = |text: &str| text.parse().ok();
        // (behavior, limit, code, part of the message, next step, part of the one that can act)
        let cases = [
            (
                down("Disabled", &both),
                Limit::DOWN_LIMIT,
                Code::DirectionDisabled,
                "never scales down, although its metrics ask for it (cpu 10% beside a target of 60%)",
                None,
                "spec.behavior.scaleDown.selectPolicy",
            ),
            (
                down("Max", &both),
                Limit::DOWN_LIMIT,
                Code::ScalingLimited,
                "scaleDown allows 1 pod in 600 s or 10% in 60 s, whichever is more",
                at("2026-11-28T12:01:00Z"),
                "(spec.behavior.scaleDown)",
            ),
            (
                down("Min", &both),
                Limit::DOWN_LIMIT,
                Code::ScalingLimited,
                "whichever is less",
                at("2026-11-28T12:10:00Z"),
                "(spec.behavior.scaleDown)",
            ),
            (
                down("Max", &[policy("Pods", 2, 15)]),
                Limit::DOWN_LIMIT,
                Code::ScalingLimited,
                "scaleDown allows 2 pods in 15 s",
                None,
                "(spec.behavior.scaleDown)",
            ),
            (
                json!({"scaleUp": {"selectPolicy": "Disabled"}}),
                Limit::UP_LIMIT,
                Code::DirectionDisabled,
                "never scales up",
                None,
                "spec.behavior.scaleUp.selectPolicy",
            ),
            (
                Value::Null,
                Limit::UP_LIMIT,
                Code::ScalingLimited,
                "at most twice as large",
                None,
                "(spec.behavior)",
            ),
            // The size itself is the limit, with any rules.
            (
                down("Disabled", &both),
                Limit::TOO_FEW,
                Code::ScalingLimited,
                "TooFewReplicas: the desired replica count is less than the minimum replica count; cpu 10% beside a target of 60%",
                None,
                "(minReplicas)",
            ),
            (
                Value::Null,
                Limit::TOO_MANY,
                Code::ScalingLimited,
                "TooManyReplicas",
                None,
                "(maxReplicas)",
            ),
        ];
        for (behavior, why, code, message, next, who) in cases {
            let told = told(&behavior, why);
            assert_eq!((told.0, told.2), (code, next), "{behavior}");
            assert!(told.1.contains(message), "{behavior}: {}", told.1);
            assert!(told.3.contains(who), "{behavior}: {}", told.3);
        }
    }
}
