//! The tables of `horizontal_test.go`: whole syncs, and the rules of `spec.behavior`.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_objects::{AutoscalerBehavior, ObjectKey};

use super::computed::{expected_numbers, int, numbers, timed};
use super::fake::{Call, Fake, autoscaler, now, unit_cases};
use crate::podautoscaler::behavior;
use crate::podautoscaler::config::Readiness;
use crate::podautoscaler::history::{History, Timed, before};
use crate::podautoscaler::limits::{self, Sizes};

/// The last body of a PUT to the path that ends in `part`.
fn put(calls: &[Call], part: &str) -> Option<Value> {
    let mut puts = calls
        .iter()
        .filter(|call| call.line.starts_with("PUT") && call.line.ends_with(part));
    puts.next_back().map(|call| call.body.clone())
}

/// Upstream: `TestScaleUp*`, `TestScaleDown*`, `TestTolerance*`, `TestCondition*` and others.
#[tokio::test(start_paused = true)]
async fn whole_syncs() {
    for case in unit_cases("syncs") {
        let name = case["name"].as_str().unwrap();
        let expected = &case["expect"];
        let fake = Fake::new(&case["scale"], &case["server"]);
        let mut reconciler = fake.reconciler(&case["pods"]);
        reconciler.config.readiness = Readiness {
            cpu_initialization: Duration::from_secs(120),
            initial_delay: Duration::from_secs(10),
        };
        reconciler.config.scales_to_zero = case["scalesToZero"] == true;
        reconciler.config.has_own_tolerances = case["noOwnTolerances"] != true;
        let hpa = autoscaler(&case["hpa"]);
        let key = ObjectKey::new("ns", "web");
        let mut recorded = timed(&case["recommendations"]);
        if recorded.is_empty() && case["recommendations"].is_array() {
            // Upstream's tests begin with an empty list, which a new autoscaler never has. An
            // outdated entry has no effect either.
            let replicas = 0;
            let at = before(now(), Duration::from_secs(3600));
            recorded.push(Timed { replicas, at });
        }
        reconciler
            .histories
            .of(&key, |history| history.recommendations = recorded);
        reconciler.selectors.register(&key);
        let metrics = reconciler.metrics.clone();
        reconciler.reconcile(&key, &hpa).await;
        fake.finish().await;
        let calls = fake.calls();

        let resized = put(&calls, "/scale").map(|body| body["spec"]["replicas"].clone());
        let old = &case["scale"]["spec"]["replicas"];
        let desired = &expected["desired"];
        let changes = old.as_i64().unwrap_or(0) != desired.as_i64().unwrap();
        if expected["resizeFails"] != true {
            assert_eq!(resized, changes.then(|| desired.clone()), "{name}");
        }
        let status = put(&calls, "/status").unwrap_or_else(|| panic!("{name} writes a status"));
        let status = &status["status"];
        assert_eq!(&status["desiredReplicas"], desired, "{name}");
        let conditions: Vec<Value> = status["conditions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|c| json!([c["type"], c["status"], c["reason"].as_str().unwrap_or("")]))
            .collect();
        assert_eq!(json!(conditions), expected["conditions"], "{name}");
        if let Some(percent) = expected["cpu"].as_i64() {
            let current = &status["currentMetrics"][0]["resource"]["current"];
            assert_eq!(current["averageUtilization"], percent, "{name}");
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let labels = [text(&expected["action"]), text(&expected["error"])];
        if labels != [""; 2] {
            assert!(metrics.has_reconciled(&labels), "{name}: {labels:?}");
        }
        for (kind, action) in expected["actions"].as_object().unwrap() {
            let labels = [text(action), text(&expected["errors"][kind]), kind.clone()];
            assert!(metrics.has_computed(&labels), "{name}: {labels:?}");
        }
    }
}

fn behavior_of(case: &Value) -> AutoscalerBehavior {
    serde_json::from_value(case["behavior"].clone()).unwrap()
}

/// Upstream: `TestScalingWithRules`, `TestCalculateScaleUpLimitWithScalingRules` and
/// `TestCalculateScaleDownLimitWithBehaviors`.
#[test]
fn scaling_with_rules() {
    for case in unit_cases("rates") {
        let history = History {
            ups: timed(&case["ups"]),
            downs: timed(&case["downs"]),
            ..History::default()
        };
        let wanted = int(&case["wanted"]);
        let sizes = Sizes {
            current: int(&case["current"]),
            proposed: wanted,
            min: int(&case["min"]),
            max: int(&case["max"]),
        };
        let rules = behavior_of(&case);
        let (replicas, reason) = behavior::limit(&history, sizes, wanted, &rules, now());
        let expected = (int(&case["replicas"]), case["reason"].as_str().unwrap());
        assert_eq!((replicas, reason.reason), expected, "{}", case["name"]);
    }
}

/// Upstream: `TestNormalizeDesiredReplicas` and `TestNormalizeDesiredReplicasWithBehavior`.
#[test]
fn normalize_desired_replicas() {
    let window = |case: &Value, field: &str| {
        before(now(), Duration::from_secs(case[field].as_u64().unwrap()))
    };
    for case in unit_cases("stabilization") {
        let name = &case["name"];
        let mut recommendations = timed(&case["recommendations"]);
        let proposed = int(&case["proposed"]);
        let replicas = if case["current"].is_null() {
            let five_minutes = Duration::from_secs(300);
            limits::stabilize(&mut recommendations, proposed, five_minutes, now())
        } else {
            let sizes = Sizes {
                current: int(&case["current"]),
                proposed,
                min: 0,
                max: i32::MAX,
            };
            let cutoffs = (window(&case, "up"), window(&case, "down"));
            behavior::stabilize(&mut recommendations, sizes, cutoffs, now())
        };
        assert_eq!(replicas, int(&case["replicas"]), "{name}");
        if let Some(length) = case["length"].as_u64() {
            assert_eq!(recommendations.len() as u64, length, "{name}");
        }
        if !case["after"].is_null() {
            let after = expected_numbers(&case["after"]);
            assert_eq!(numbers(&recommendations), after, "{name}");
        }
    }
}

/// Upstream: `TestStoreScaleEvents`, in both directions.
#[test]
fn store_scale_events() {
    for case in unit_cases("changes") {
        let name = &case["name"];
        let rules = Some(&case["rules"]).filter(|rules| !rules.is_null());
        let rules: Option<AutoscalerBehavior> = rules.map(|rules| {
            serde_json::from_value(json!({"scaleUp": rules, "scaleDown": rules})).unwrap()
        });
        let list = timed(&case["before"]);
        let change = int(&case["change"]);
        let mut history = History {
            ups: list.clone(),
            downs: list,
            ..History::default()
        };
        history.resized(rules.as_ref(), 10, 10 + change, now());
        history.resized(rules.as_ref(), 10, 10 - change, now());
        let after = expected_numbers(&case["after"]);
        assert_eq!(numbers(&history.ups), after, "{name}, up");
        assert_eq!(numbers(&history.downs), after, "{name}, down");
    }
}

/// Up to 1.36, upstream mixes up the error about the metric of an object, and forgets that an unknown type of metric is
/// a fault of the spec.
#[tokio::test(start_paused = true)]
async fn errors_wrap_their_causes_since_1_37() {
    let described = json!({"kind": "Service", "name": "front", "apiVersion": "v1"});
    let object = json!({
        "describedObject": described, "metric": {"name": "hits"},
        "target": {"type": "Value", "value": "20"},
    });
    let of_object = json!({"type": "Object", "object": object});
    let cause = "unable to fetch metrics from custom metrics API: the server could not find the metric hits for services";
    let old = format!("unable to get metric hits: Service on ns front/{cause}");
    let new = format!("unable to get metric hits on Service ns/front: {cause}");
    let unknown = r#"unknown metric source type "Odd""#;
    // (metric, since 1.37, end of the message, label of the metrics)
    let cases = [
        (&of_object, false, &*old, "internal"),
        (&of_object, true, &*new, "internal"),
        (&json!({"type": "Odd"}), false, unknown, "internal"),
        (&json!({"type": "Odd"}), true, unknown, "spec"),
    ];
    for (metric, wraps_errors, message, label) in cases {
        let scale =
            json!({"spec": {"replicas": 3}, "status": {"replicas": 3, "selector": "app=web"}});
        let fake = Fake::new(&scale, &json!({"metricValue": ""}));
        let mut reconciler = fake.reconciler(&json!([]));
        reconciler.config.wraps_errors = wraps_errors;
        let target = json!({"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"});
        let spec = json!({"scaleTargetRef": target, "maxReplicas": 10, "metrics": [metric]});
        let hpa = autoscaler(&json!({"spec": spec, "status": {"desiredReplicas": 0}}));
        let metrics = reconciler.metrics.clone();
        let key = ObjectKey::new("ns", "web");
        let error = reconciler.reconcile(&key, &hpa).await.result.unwrap_err();
        fake.finish().await;
        assert!(error.to_string().ends_with(message), "{error}");
        let status = put(&fake.calls(), "/status").unwrap();
        let shown = status["status"]["conditions"][1]["message"]
            .as_str()
            .unwrap();
        let expected = format!("the HPA was unable to compute the replica count: {message}");
        assert_eq!(shown, expected);
        let labels = ["none", label].map(str::to_owned);
        assert!(metrics.has_reconciled(&labels), "{message}: {labels:?}");
    }
}
