//! Answers of metrics servers that are malformed, extreme, or about something else.

use serde_json::{Value, json};
use steersman_objects::ObjectKey;

use super::fake::{Fake, ago, autoscaler, cases};

/// The answer of a metrics server about the pods p0 to p2, each with this use of CPU.
fn used(cpu: Value) -> Value {
    let item = |name: &str| {
        let containers = json!([{"name": "c", "usage": {"cpu": cpu}}]);
        json!({"metadata": {"name": name}, "timestamp": ago(30), "window": "30s", "containers": containers})
    };
    let items = ["p0", "p1", "p2"].map(item);
    json!({"kind": "PodMetricsList", "items": items})
}

#[tokio::test(start_paused = true)]
async fn odd_answers_change_no_size_beyond_the_limits() {
    const MALFORMED: &str =
        "unable to fetch metrics from resource metrics API: GET pods.metrics.k8s.io: ";
    const EMPTY: &str = "no metrics returned from resource metrics API";
    const UNUSABLE: &str = "did not receive metrics for targeted pods (pods might be unready)";
    let no_time =
        json!({"items": [{"metadata": {"name": "p0"}, "containers": null, "window": "soon"}]});
    // (answer, error or size)
    let cases: [(Value, Result<i32, &str>); 11] = [
        (json!("<html>"), Err(MALFORMED)),
        (json!({"items": 5}), Err(MALFORMED)),
        (json!({"items": [{}]}), Err(MALFORMED)),
        (used(json!("lots")), Err(MALFORMED)),
        (used(json!({})), Err(MALFORMED)),
        (json!({"kind": "PodList"}), Err(EMPTY)),
        (json!({"items": null}), Err(EMPTY)),
        (no_time, Err(UNUSABLE)),
        (used(json!("9999999999999999999999")), Ok(6)),
        (used(json!("-5")), Ok(3)),
        (used(json!(1)), Ok(6)),
    ];
    let hpa = autoscaler(&cases_of_one()["hpa"]);
    for (answer, expected) in cases {
        let case = cases_of_one();
        let fake = Fake::new(&case["scale"], &json!({ "answer": answer }));
        let reconciler = fake.reconciler(&case["pods"]);
        let key = ObjectKey::new("ns", "web");
        let result = reconciler.reconcile(&key, &hpa).await.result;
        fake.finish().await;
        let calls = fake.calls();
        let body = |part: &str| {
            let is_put = |line: &str| line.starts_with("PUT") && line.ends_with(part);
            let call = calls.iter().find(|call| is_put(&call.line));
            call.map_or(Value::Null, |call| call.body.clone())
        };
        let size = body("/scale");
        let status = body("/status");
        match expected {
            Err(text) => {
                let error = result.unwrap_err().to_string();
                assert!(error.contains(text), "{answer}: {error}");
                assert_eq!(size, Value::Null, "{answer}");
                let reason = &status["status"]["conditions"][1]["reason"];
                assert_eq!(reason, "FailedGetResourceMetric", "{answer}");
            }
            Ok(replicas) => {
                result.unwrap();
                assert_eq!(status["status"]["desiredReplicas"], replicas, "{answer}");
                let written = &size["spec"]["replicas"];
                assert!(
                    written.is_null() || *written == replicas,
                    "{answer}: {size}"
                );
            }
        }
    }
}

/// The first whole sync of the file: three pods, each with a request of one core.
fn cases_of_one() -> Value {
    cases("reconcile").swap_remove(0)
}

/// Names of metrics are text of a user. Without escapes, `q?z` would be the metric `q`.
#[tokio::test(start_paused = true)]
async fn the_name_of_a_metric_names_no_other_metric() {
    const EXTERNAL: &str = "GET /apis/external.metrics.k8s.io/v1beta1/namespaces/ns";
    // (name, request or error)
    let cases = [
        ("q?z", Ok("q%3Fz")),
        ("x#y", Ok("x%23y")),
        ("a b", Ok("a%20b")),
        ("q", Ok("q")),
        (
            "a/b",
            Err(r#"invalid resource "a/b": [may not contain '/']"#),
        ),
        ("..", Err(r#"invalid resource "..": [may not be '..']"#)),
        (
            "a%2Fb",
            Err(r#"invalid resource "a%2Fb": [may not contain '%']"#),
        ),
    ];
    for (name, expected) in cases {
        let fake = Fake::new(&Value::Null, &Value::Null);
        let sources = fake.sources(&json!([]));
        let answer = sources.api.external("ns", name, "a=b,c in (d&e)").await;
        let calls = fake.calls();
        match expected {
            Ok(escaped) => {
                assert_eq!(calls.len(), 1, "{name}");
                assert_eq!(calls[0].line, format!("{EXTERNAL}/{escaped}"), "{name}");
                let selector = "labelSelector=a%3Db%2Cc%20in%20%28d%26e%29";
                assert_eq!(calls[0].query, selector, "{name}");
            }
            Err(text) => {
                let error = answer.unwrap_err().to_string();
                assert!(error.ends_with(text), "{name}: {error}");
                assert_eq!(calls, [], "{name}");
            }
        }
        fake.finish().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_custom_metrics_api_whose_server_is_down_has_no_known_version() {
    // (freshness in the discovery of all groups, error)
    let cases = [
        ("Stale", "no known available metric versions found"),
        ("Current", "service unavailable"),
    ];
    for (freshness, expected) in cases {
        let server = json!({"customMetricsAPI": "down", "customMetricsFreshness": freshness});
        let fake = Fake::new(&Value::Null, &server);
        let sources = fake.sources(&Value::Null);
        for _ in 0..2 {
            let error = sources.api.of_pods("ns", "app=web", "qps", "").await;
            let error = error.unwrap_err().to_string();
            let begin = "unable to fetch metrics from custom metrics API: ";
            assert_eq!(error, format!("{begin}{expected}"));
        }
        fake.finish().await;
    }
}
