//! Limits and whole syncs in the file of cases that upstream's own packages computed.

use serde_json::{Value, json};
use steersman_objects::{AutoscalerBehavior, ObjectKey};
use steersman_values::label_selector::LabelSelector;

use super::fake::{Call, Fake, ago, autoscaler, cases, now};
use crate::podautoscaler::behavior;
use crate::podautoscaler::history::{History, Timed};
use crate::podautoscaler::limits::{self, Sizes};
use crate::podautoscaler::status;

pub(super) fn int(value: &Value) -> i32 {
    value.as_i64().unwrap_or_default().try_into().unwrap()
}

/// A list of numbers with ages.
pub(super) fn timed(list: &Value) -> Vec<Timed> {
    let list = list.as_array().into_iter().flatten();
    list.map(|entry| Timed {
        replicas: int(&entry["replicas"]),
        at: ago(entry["ageSeconds"].as_i64().unwrap()).parse().unwrap(),
    })
    .collect()
}

/// The numbers of a list. The file has `null` for some empty lists.
pub(super) fn numbers(list: &[Timed]) -> Vec<i32> {
    list.iter().map(|entry| entry.replicas).collect()
}

pub(super) fn expected_numbers(list: &Value) -> Vec<i32> {
    list.as_array().into_iter().flatten().map(int).collect()
}

fn history(case: &Value) -> History {
    History {
        recommendations: timed(&case["recommendations"]),
        ups: timed(&case["scaleUpEvents"]),
        downs: timed(&case["scaleDownEvents"]),
    }
}

fn assert_recommendations(history: &History, expected: &Value, name: &Value) {
    let wanted = expected_numbers(&expected["recommendationsAfter"]);
    assert_eq!(numbers(&history.recommendations), wanted, "{name}");
}

/// Checks the changes after a resize. The file has no list for other cases.
fn assert_changes(history: &History, expected: &Value, name: &Value) {
    let lists = [
        ("scaleUpEventsAfter", &history.ups),
        ("scaleDownEventsAfter", &history.downs),
    ];
    for (field, list) in lists {
        assert_eq!(numbers(list), expected_numbers(&expected[field]), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn limits_of_sizes_are_upstreams() {
    let window = Fake::new(&Value::Null, &Value::Null)
        .config()
        .downscale_window;
    for case in cases("behavior") {
        let name = &case["name"];
        let expected = &case["expect"];
        let rules = case.get("behavior").cloned();
        let rules: Option<AutoscalerBehavior> = rules.map(|it| serde_json::from_value(it).unwrap());
        let sizes = Sizes {
            current: int(&case["currentReplicas"]),
            proposed: int(&case["metricReplicas"]),
            min: int(&case["minReplicas"]),
            max: int(&case["maxReplicas"]),
        };
        let mut history = history(&case);
        let found = match &rules {
            None => limits::normalize(&mut history, sizes, window, now()),
            Some(rules) => behavior::normalize(&mut history, sizes, rules, window, now()),
        };
        assert_eq!(found.replicas, int(&expected["desiredReplicas"]), "{name}");
        let mut status = autoscaler(&Value::Null).status;
        status::set_normalized(&mut status, &found, now());
        let mut conditions = serde_json::to_value(&status.conditions).unwrap();
        for condition in conditions.as_array_mut().unwrap() {
            condition
                .as_object_mut()
                .unwrap()
                .remove("lastTransitionTime");
        }
        assert_eq!(conditions, expected["conditions"], "{name}");
        assert_recommendations(&history, expected, name);
        if found.replicas != sizes.current {
            history.resized(rules.as_ref(), sizes.current, found.replicas, now());
            assert_changes(&history, expected, name);
        }
    }
}

/// The requests of a sync that both sides make: without discovery, and without the read after the
/// last failed write of a size.
fn common(calls: impl Iterator<Item = Call>) -> Vec<Call> {
    let is_discovery = |line: &str| {
        let path = line.strip_prefix("GET ").unwrap_or_default();
        let known = [
            "/api",
            "/apis",
            "/apis/apps/v1",
            "/apis/custom.metrics.k8s.io",
        ];
        known.contains(&path)
    };
    let mut calls: Vec<Call> = calls
        .filter(|call| !is_discovery(&call.line) && !call.line.contains("/events"))
        .collect();
    let is_scale =
        |call: &Call, verb: &str| call.line.starts_with(verb) && call.line.ends_with("/scale");
    let puts = calls.iter().filter(|call| is_scale(call, "PUT")).count();
    if puts == 5
        && let Some(place) = calls.iter().rposition(|call| is_scale(call, "GET"))
        && calls[place + 1..].iter().all(|call| !is_scale(call, "PUT"))
    {
        calls.remove(place);
    }
    calls
}

/// All times become `<now>`, as in the file.
fn without_times(status: &mut Value) {
    let conditions = status["conditions"].as_array_mut().into_iter().flatten();
    conditions.for_each(|condition| condition["lastTransitionTime"] = json!("<now>"));
    if let Some(time) = status.get_mut("lastScaleTime") {
        *time = json!("<now>");
    }
}

/// Upstream names autoscalers with common pods in any order.
fn sorted_names(text: &str) -> String {
    text.replace("[ns/web ns/other]", "[ns/other ns/web]")
}

#[tokio::test(start_paused = true)]
async fn whole_syncs_are_upstreams() {
    for case in cases("reconcile") {
        let name = &case["name"];
        let expected = &case["expect"];
        let fake = Fake::new(&case["scale"], &case["server"]);
        let reconciler = fake.reconciler(&case["pods"]);
        let hpa = autoscaler(&case["hpa"]);
        let key = ObjectKey::new("ns", "web");
        let recorded = timed(&case["recommendations"]);
        reconciler
            .histories
            .of(&key, |history| history.recommendations = recorded);
        reconciler.selectors.register(&key);
        for other in case["others"].as_array().into_iter().flatten() {
            let other = ObjectKey::new("ns", other.as_str().unwrap());
            let selector = LabelSelector::parse("app=web").unwrap();
            reconciler.selectors.register(&other);
            reconciler.selectors.selecting(&other, &selector, &[]);
        }
        let done = reconciler.reconcile(&key, &hpa).await;
        fake.finish().await;

        let error = done.result.err().map(|error| error.to_string());
        let wanted = expected["error"].as_str().map(sorted_names);
        assert_eq!(error, wanted, "{name}");
        reconciler.histories.of(&key, |history| {
            assert_recommendations(history, expected, name);
            assert_changes(history, expected, name);
        });

        let calls = fake.calls();
        let wanted = expected["calls"]
            .as_array()
            .unwrap()
            .iter()
            .map(|call| Call {
                line: call["call"].as_str().unwrap().to_owned(),
                query: call["query"].as_str().unwrap_or_default().to_owned(),
                body: call["body"].clone(),
            });
        let is_status = |call: &Call| call.line.ends_with("/status");
        let bare = |mut call: Call| {
            if is_status(&call) {
                call.body = Value::Null;
            }
            call
        };
        let wanted: Vec<Call> = common(wanted).into_iter().map(bare).collect();
        let found: Vec<Call> = common(calls.iter().cloned())
            .into_iter()
            .map(bare)
            .collect();
        assert_eq!(found, wanted, "{name}");

        let written = calls.iter().find(|call| is_status(call));
        let mut written = written.map_or(Value::Null, |call| call.body["status"].clone());
        if !written.is_null() {
            without_times(&mut written);
        }
        let wanted = sorted_names(&expected["statusWritten"].to_string());
        let wanted: Value = serde_json::from_str(&wanted).unwrap();
        assert_eq!(written, wanted, "{name}");

        let events = calls.iter().filter(|call| call.line.contains("/events"));
        let events: Vec<String> = events
            .map(|call| {
                let text = |field: &str| call.body[field].as_str().unwrap().to_owned();
                format!("{} {} {}", text("type"), text("reason"), text("message"))
            })
            .collect();
        let wanted = expected["events"].as_array().unwrap().iter();
        let wanted: Vec<String> = wanted
            .map(|text| sorted_names(text.as_str().unwrap()))
            .collect();
        assert_eq!(events, wanted, "{name}");
    }
}
