//! Sizes by single metrics: every case that upstream's packages computed, and every case of
//! `replica_calculator_test.go`.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use steersman_values::label_selector::LabelSelector;

use super::computed::int;
use super::fake::{Fake, autoscaler, cases, now, unit_cases};
use crate::podautoscaler::config::{Config, Readiness};
use crate::podautoscaler::evaluate::Subject;
use crate::podautoscaler::pods::{Groups, requests};
use crate::podautoscaler::status;

/// The metric of a case of the calculator, and the answers of its server.
fn metric(case: &Value) -> (Value, Value) {
    let input = &case["input"];
    let resource = &input["resource"];
    let name = &input["metric"];
    let utilization =
        json!({"type": "Utilization", "averageUtilization": input["targetAverageUtilization"]});
    let average = json!({"type": "AverageValue", "averageValue": input["targetAverageValue"]});
    let value = json!({"type": "Value", "value": input["targetValue"]});
    let named = |selector: Value| json!({"name": name, "selector": selector});
    let labels = || {
        let text = input["metricSelector"].as_str().unwrap();
        let pairs = text.split_once('=').map(|(key, value)| json!({key: value}));
        json!({"matchLabels": pairs.unwrap_or(json!({}))})
    };
    let object = |target: Value| {
        let (kind, object) = input["object"].as_str().unwrap().split_once(' ').unwrap();
        let version = input["objectApiVersion"].as_str().unwrap_or("v1");
        let described = json!({"kind": kind, "name": object, "apiVersion": version});
        let source =
            json!({"describedObject": described, "metric": named(Value::Null), "target": target});
        let value = Some(&input["metricValue"]).filter(|value| **value != "");
        let metrics = value.map(|value| json!({name.as_str().unwrap(): value}));
        (
            json!({"type": "Object", "object": source}),
            json!({ "objectMetrics": metrics.unwrap_or_default() }),
        )
    };
    let external = |target: Value| {
        let source = json!({"metric": named(labels()), "target": target});
        let values = json!({name.as_str().unwrap(): input["metricValues"]});
        (
            json!({"type": "External", "external": source}),
            json!({ "externalMetrics": values }),
        )
    };
    let samples = json!({
        "resourceMetrics": case["metrics"], "resourceMetricsHTTPStatus": input["metricsHTTPStatus"],
    });
    match case["function"].as_str().unwrap() {
        "resourceUtilization" if input["container"] == "" => (
            json!({"type": "Resource", "resource": {"name": resource, "target": utilization}}),
            samples,
        ),
        "resourceUtilization" => {
            let source =
                json!({"name": resource, "container": input["container"], "target": utilization});
            (
                json!({"type": "ContainerResource", "containerResource": source}),
                samples,
            )
        }
        "resourceAverageValue" => (
            json!({"type": "Resource", "resource": {"name": resource, "target": average}}),
            samples,
        ),
        "podsMetric" => {
            let source = json!({"metric": named(Value::Null), "target": average});
            let values = json!({name.as_str().unwrap(): case["metrics"]});
            (
                json!({"type": "Pods", "pods": source}),
                json!({ "podsMetrics": values }),
            )
        }
        "objectValue" => object(value),
        "objectAverageValue" => object(average),
        "externalValue" => external(value),
        "externalAverageValue" => external(average),
        other => panic!("unknown function {other}"),
    }
}

/// The current value in the entry of a status.
fn current(entry: &Value) -> &Value {
    let parts = [
        "resource",
        "containerResource",
        "pods",
        "object",
        "external",
    ];
    let mut members = parts.iter().map(|part| &entry[part]);
    &members.find(|member| !member.is_null()).unwrap()["current"]
}

/// Compares the groups of pods with those of upstream, if the case has them.
async fn check_groups(subject: &Subject<'_>, case: &Value) {
    let name = &case["name"];
    let input = &case["input"];
    let expected = &case["expect"]["groups"];
    if expected.is_null() || case["pods"].is_null() {
        return;
    }
    let text = |field: &str| input[field].as_str().unwrap_or_default();
    let api = &subject.sources.api;
    let selector = subject.selector.to_string();
    let samples = if text("metric").is_empty() {
        let resource = text("resource");
        let container = text("container");
        api.resource("ns", &selector, resource, container).await
    } else {
        api.of_pods("ns", &selector, text("metric"), "").await
    };
    let pods = subject.sources.pods.matching("ns", subject.selector);
    let samples = samples.unwrap_or_default();
    let readiness = subject.config.readiness;
    let found = Groups::of(&pods, &samples, text("resource"), readiness, now()).unwrap();
    let names = |set: &std::collections::BTreeSet<Arc<str>>| -> Value {
        set.iter().map(|name| name.to_string()).collect()
    };
    let found = json!({
        "readyCount": found.ready, "unready": names(&found.unready),
        "missing": names(&found.missing), "ignored": names(&found.ignored),
    });
    assert_eq!(found, *expected, "{name}");
}

/// The wanted size. Cases of average values have only the observed one, which is the wanted one then.
fn current_size(input: &Value) -> &Value {
    match &input["currentReplicas"] {
        Value::Null => &input["statusReplicas"],
        current => current,
    }
}

/// Compares the size by one metric with that of upstream.
pub(super) async fn check_size(case: &Value) {
    let name = &case["name"];
    let input = &case["input"];
    let expected = &case["expect"];
    let (spec, server) = metric(case);
    let fake = Fake::new(&Value::Null, &server);
    let sources = fake.sources(&case["pods"]);
    let mut config = fake.config();
    config.has_own_tolerances = true;
    if let Some(seconds) = input["cpuInitializationSeconds"].as_u64() {
        config.readiness = Readiness {
            cpu_initialization: Duration::from_secs(seconds),
            initial_delay: Duration::from_secs(input["initialDelaySeconds"].as_u64().unwrap()),
        };
    }
    let tolerance = |field: &str| json!({"tolerance": input[field].to_string()});
    let rules =
        json!({"scaleUp": tolerance("toleranceUp"), "scaleDown": tolerance("toleranceDown")});
    let hpa = autoscaler(&json!({"spec": {"metrics": [spec], "behavior": rules}}));
    let selector = LabelSelector::parse("app=web").unwrap();
    let subject = Subject {
        sources: &sources,
        config: &config,
        hpa: &hpa,
        current: int(current_size(input)),
        observed: int(&input["statusReplicas"]),
        selector: &selector,
        now: now(),
    };
    check_groups(&subject, case).await;
    match subject.evaluate(&hpa.spec.metrics[0]).await {
        Ok(found) => {
            assert_eq!(Value::Null, expected["error"], "{name}");
            assert_eq!(found.replicas, int(&expected["replicas"]), "{name}");
            let shown = current(&found.status);
            let resource = input["resource"].as_str().unwrap_or_default();
            let milli = |field: &str| expected[field].as_i64();
            let wanted = match milli("averageValueMilli").or(milli("statusValueMilli")) {
                Some(milli) => status::of_resource(resource, milli, true)["averageValue"].clone(),
                None => Value::Null,
            };
            let value = [&shown["averageValue"], &shown["value"]];
            assert!(value.contains(&&wanted), "{name}: {shown} is {wanted}");
            let percent = &expected["averageUtilization"];
            assert_eq!(&shown["averageUtilization"], percent, "{name}");
        }
        Err(error) => {
            let found = error.cause.to_string();
            let wanted = expected["error"].as_str();
            let wanted = wanted.unwrap_or_else(|| panic!("{name}: {found}"));
            assert!(found.contains(wanted), "{name}: {found} contains {wanted}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_without_the_container_of_a_metric_requests_nothing_up_to_1_34() {
    let fake = Fake::new(&Value::Null, &Value::Null);
    let pod = |name: &str, container: &str| json!({"name": name, "phase": "Running", "containers": [{"name": container, "requests": {"cpu": "1"}}]});
    let pods = json!([pod("p0", "main"), pod("p1", "old")]);
    let sources = fake.sources(&pods);
    let selector = LabelSelector::parse("app=web").unwrap();
    let pods = sources.pods.matching("ns", &selector);
    // (whether the release requires the container, container, requests or error)
    let cases = [
        (false, "main", "p0=1000 p1=0"),
        (false, "ghost", "p0=0 p1=0"),
        (true, "main", "container main not found in Pod p1"),
    ];
    for (requires_containers, container, expected) in cases {
        let config = Config {
            requires_containers,
            ..fake.config()
        };
        let found = match requests(&pods, container, "cpu", &config) {
            Ok(found) => {
                let all = found.iter().map(|(pod, milli)| format!("{pod}={milli}"));
                all.collect::<Vec<_>>().join(" ")
            }
            Err(error) => error.to_string(),
        };
        assert_eq!(found, expected, "{container}");
    }
}

#[tokio::test(start_paused = true)]
async fn sizes_by_single_metrics_are_upstreams() {
    for case in cases("calculator") {
        check_size(&case).await;
    }
}

/// Upstream: `TestReplicaCalc*` and relatives.
#[tokio::test(start_paused = true)]
async fn cases_of_upstreams_calculator() {
    for case in unit_cases("calculator") {
        check_size(&case).await;
    }
}
