//! An API server of fixed answers: the size of one target, metrics, and the status of one autoscaler.
//! It records all requests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Response};
use jiff::{SignedDuration, Timestamp};
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use steersman_client::discovery::RestMapper;
use steersman_client::{ApiClient, ClientMetrics, ClientSettings};
use steersman_helpers::endpointslice::PodsByLabel;
use steersman_objects::{HorizontalPodAutoscaler, Object, Pod};
use steersman_runtime::controller::{ContextParts, ControllerContext};
use steersman_runtime::informer::InformerFactory;
use steersman_runtime::metrics::Registry;
use steersman_runtime::tasks::{CancellationToken, Tasks};
use steersman_runtime::workqueue::QueueMetrics;
use steersman_values::clock::Clock;

use crate::podautoscaler::IDENTITY;
use crate::podautoscaler::config::Config;
use crate::podautoscaler::evaluate::Sources;
use crate::podautoscaler::history::Histories;
use crate::podautoscaler::metrics::AutoscalerMetrics;
use crate::podautoscaler::metrics_api::MetricsApi;
use crate::podautoscaler::selectors::Selectors;
use crate::podautoscaler::sync::Reconciler;
use crate::testing::world::begin;

/// A request: verb and path, query, and body.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Call {
    pub(super) line: String,
    pub(super) query: String,
    pub(super) body: Value,
}

/// The answers of the server.
#[derive(Debug, Default)]
struct Answers {
    /// `spec` and `status` of the `Scale`.
    scale: Value,
    /// Failures and metrics, as in the file of cases.
    server: Value,
    conflicts: u64,
    calls: Vec<Call>,
}

/// The server, and the parts of a controller that talks to it.
pub(super) struct Fake {
    answers: Arc<Mutex<Answers>>,
    context: ControllerContext,
    tasks: Tasks,
    stop: CancellationToken,
}

/// RFC 3339 text of the time `age` seconds ago.
pub(super) fn ago(age: i64) -> String {
    (begin() - SignedDuration::from_secs(age)).to_string()
}

impl Fake {
    /// A server with this `Scale`, and metrics and failures of the file of cases.
    pub(super) fn new(scale: &Value, server: &Value) -> Self {
        let answers = Answers {
            scale: scale.clone(),
            server: server.clone(),
            conflicts: server["scalePutConflicts"].as_u64().unwrap_or(0),
            calls: Vec::new(),
        };
        let answers = Arc::new(Mutex::new(answers));
        let shared = Arc::clone(&answers);
        let service = tower::service_fn(move |request: Request<Body>| {
            let shared = Arc::clone(&shared);
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect_bytes().await?;
                let call = Call {
                    line: format!("{} {}", parts.method, parts.uri.path()),
                    query: parts.uri.query().unwrap_or_default().to_owned(),
                    body: serde_json::from_slice(&body).unwrap_or_default(),
                };
                let mut answers = shared.lock();
                answers.calls.push(call.clone());
                let (code, answer) = answers.answer(&parts.method, parts.uri.path(), &call.body);
                let answer = if answer.is_null() {
                    String::new()
                } else {
                    answer.to_string()
                };
                let response = Response::builder().status(code);
                Ok::<_, kube::Error>(response.body(Body::from(answer.into_bytes())).unwrap())
            }
        });
        let registry = Registry::new();
        let settings = ClientSettings {
            user_agent: "test/agent".to_owned(),
            qps: 0.0,
            burst: 0,
            timeout: Duration::from_secs(5),
        };
        let metrics = ClientMetrics::register(&registry).unwrap();
        let client = ApiClient::new(kube::Client::new(service, "ns"), settings, metrics);
        let for_all = client.clone();
        let context = ControllerContext::new(ContextParts {
            informers: InformerFactory::new(client, Duration::ZERO, &registry).unwrap(),
            clients: Arc::new(move |_| for_all.clone()),
            clock: Clock::runtime(begin()),
            queue_metrics: QueueMetrics::register(&registry).unwrap(),
            registry,
        });
        Self {
            answers,
            context,
            tasks: Tasks::default(),
            stop: CancellationToken::new(),
        }
    }

    pub(super) fn config(&self) -> Config {
        Config::of(&self.context).unwrap()
    }

    /// The sources of metrics, with these pods of the file of cases.
    pub(super) fn sources(&self, pods: &Value) -> Sources {
        let pods = pods.as_array().into_iter().flatten().map(pod);
        Sources {
            api: MetricsApi::new(&self.context, Duration::from_secs(15)),
            mapper: RestMapper::new(self.context.client(IDENTITY)),
            pods: PodsByLabel::of(&pods.collect()),
        }
    }

    /// A reconciler with these pods of the file of cases.
    pub(super) fn reconciler(&self, pods: &Value) -> Reconciler {
        let client = self.context.client(IDENTITY);
        let recorder = steersman_runtime::events::EventRecorder::start(
            IDENTITY,
            client.clone(),
            self.context.clock.clone(),
            &self.tasks,
            &self.stop,
        );
        Reconciler {
            sources: self.sources(pods),
            client,
            scale_client: self.context.client(IDENTITY),
            recorder,
            clock: self.context.clock.clone(),
            config: self.config(),
            histories: Arc::<Histories>::default(),
            selectors: Arc::<Selectors>::default(),
            metrics: AutoscalerMetrics::register(&Registry::new()).unwrap(),
        }
    }

    /// Ends the sender of Events, after it has sent all.
    pub(super) async fn finish(&self) {
        self.stop.cancel();
        self.tasks.join(Duration::from_secs(60)).await;
    }

    /// The requests so far.
    pub(super) fn calls(&self) -> Vec<Call> {
        self.answers.lock().calls.clone()
    }
}

/// An autoscaler `ns/web` with these `spec` and `status`.
pub(super) fn autoscaler(hpa: &Value) -> HorizontalPodAutoscaler {
    let object = json!({
        "kind": "HorizontalPodAutoscaler", "apiVersion": "autoscaling/v2",
        "metadata": {"name": "web", "namespace": "ns", "uid": "h1", "resourceVersion": "7"},
        "spec": hpa["spec"], "status": hpa["status"],
    });
    HorizontalPodAutoscaler::decode(object.to_string().as_bytes()).unwrap()
}

/// A pod of the file of cases.
fn pod(case: &Value) -> Arc<Pod> {
    let container =
        |case: &Value| json!({"name": case["name"], "resources": {"requests": case["requests"]}});
    let containers = |list: &str| -> Vec<Value> {
        let list = case[list].as_array().into_iter().flatten();
        list.map(container).collect()
    };
    let mut sidecars = containers("restartableInitContainers");
    for sidecar in &mut sidecars {
        sidecar["restartPolicy"] = json!("Always");
    }
    let mut object = json!({
        "metadata": {"name": case["name"], "namespace": "ns", "labels": {"app": "web"}},
        "spec": {"containers": containers("containers"), "initContainers": sidecars},
        "status": {"phase": case["phase"]},
    });
    if !case["podLevelRequests"].is_null() {
        object["spec"]["resources"] = json!({"requests": case["podLevelRequests"]});
    }
    if case["deleting"] == true {
        object["metadata"]["deletionTimestamp"] = json!(ago(5));
    }
    if let Some(age) = case["startTimeAgeSeconds"].as_i64() {
        object["status"]["startTime"] = json!(ago(age));
    }
    if let Some(ready) = case["ready"].as_str().filter(|ready| !ready.is_empty()) {
        let since = ago(case["readyTransitionAgeSeconds"].as_i64().unwrap());
        object["status"]["conditions"] =
            json!([{"type": "Ready", "status": ready, "lastTransitionTime": since}]);
    }
    Arc::new(Pod::decode(object.to_string().as_bytes()).unwrap())
}

const CUSTOM: &str = "/apis/custom.metrics.k8s.io/v1beta1/namespaces/ns/";

impl Answers {
    fn answer(&mut self, method: &Method, path: &str, body: &Value) -> (u16, Value) {
        let server = &self.server;
        let code = |field: &str| server[field].as_u64().map(|code| code as u16);
        match (method.as_str(), path) {
            ("GET", "/api") => (200, groups(&[("", "v1", "services", "Service")])),
            ("GET", "/apis") => {
                let mut answer = groups(&[
                    ("apps", "v1", "deployments", "Deployment"),
                    ("networking.k8s.io", "v1", "ingresses", "Ingress"),
                ]);
                if let Some(freshness) = server["customMetricsFreshness"].as_str() {
                    let version = json!({"version": "v1beta1", "freshness": freshness});
                    let group = json!({"metadata": {"name": "custom.metrics.k8s.io"}, "versions": [version]});
                    answer["items"].as_array_mut().unwrap().push(group);
                }
                (200, answer)
            }
            ("GET", "/apis/custom.metrics.k8s.io") if server["customMetricsAPI"] == "absent" => (
                404,
                failure(
                    404,
                    "NotFound",
                    "the server could not find the requested resource",
                ),
            ),
            ("GET", "/apis/custom.metrics.k8s.io") => {
                let version =
                    json!({"groupVersion": "custom.metrics.k8s.io/v1beta1", "version": "v1beta1"});
                (
                    200,
                    json!({"kind": "APIGroup", "preferredVersion": version, "versions": [version]}),
                )
            }
            ("GET", "/apis/apps/v1/namespaces/ns/deployments/web/scale") => {
                match code("scaleGetHTTPStatus") {
                    Some(404) => (
                        404,
                        failure(404, "NotFound", "deployments.apps \"web\" not found"),
                    ),
                    _ => (200, self.scale()),
                }
            }
            ("PUT", "/apis/apps/v1/namespaces/ns/deployments/web/scale") if self.conflicts > 0 => {
                self.conflicts -= 1;
                (409, conflict("deployments.apps"))
            }
            ("PUT", "/apis/autoscaling/v2/namespaces/ns/horizontalpodautoscalers/web/status")
                if code("statusPutHTTPStatus") == Some(409) =>
            {
                (409, conflict("horizontalpodautoscalers.autoscaling"))
            }
            ("GET", "/apis/metrics.k8s.io/v1beta1/namespaces/ns/pods") => {
                match code("resourceMetricsHTTPStatus").filter(|code| *code != 0) {
                    Some(code) => (code, Value::Null),
                    None if !server["answer"].is_null() => (200, server["answer"].clone()),
                    None => (200, pod_metrics(&server["resourceMetrics"])),
                }
            }
            ("GET", path) if path.starts_with("/apis/external.metrics.k8s.io/") => {
                let metric = path.rsplit('/').next().unwrap_or_default();
                let values = server["externalMetrics"][metric].as_array();
                let item = |value: &Value| json!({"metricName": metric, "timestamp": ago(0), "value": value});
                (200, items(values.into_iter().flatten().map(item).collect()))
            }
            ("GET", path) if path.starts_with(CUSTOM) && server["customMetricsAPI"] == "down" => (
                503,
                failure(503, "ServiceUnavailable", "service unavailable"),
            ),
            ("GET", path) if path.starts_with(CUSTOM) => {
                let parts: Vec<&str> = path[CUSTOM.len()..].split('/').collect();
                custom(server, &parts)
            }
            ("PUT" | "POST" | "PATCH", _) => (200, body.clone()),
            _ => panic!("no answer for {method} {path}"),
        }
    }

    fn scale(&self) -> Value {
        json!({
            "kind": "Scale", "apiVersion": "autoscaling/v1",
            "metadata": {
                "name": "web", "namespace": "ns", "uid": "d1", "resourceVersion": "100",
                "creationTimestamp": "2026-01-02T03:04:05Z",
            },
            "spec": self.scale["spec"], "status": self.scale["status"],
        })
    }
}

/// The aggregated discovery of resources: group, version, plural name, kind.
fn groups(resources: &[(&str, &str, &str, &str)]) -> Value {
    let group = |(group, version, plural, kind): &(&str, &str, &str, &str)| {
        let resource = json!({
            "resource": plural, "responseKind": {"kind": kind}, "scope": "Namespaced", "verbs": ["get"],
        });
        json!({"metadata": {"name": group}, "versions": [{"version": version, "resources": [resource]}]})
    };
    let items: Vec<Value> = resources.iter().map(group).collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": items})
}

fn items(items: Vec<Value>) -> Value {
    json!({ "items": items })
}

/// An answer of the custom metrics API.
fn values(values: Vec<Value>) -> Value {
    let mut list = items(values);
    list["kind"] = json!("MetricValueList");
    list["apiVersion"] = json!("custom.metrics.k8s.io/v1beta1");
    list
}

fn pod_metrics(samples: &Value) -> Value {
    let sample = |sample: &Value| {
        let containers = sample["containers"].as_object().into_iter().flatten();
        let containers: Vec<Value> = containers
            .map(|(name, usage)| json!({"name": name, "usage": usage}))
            .collect();
        json!({
            "metadata": {"name": sample["pod"], "namespace": "ns"},
            "timestamp": ago(sample["ageSeconds"].as_i64().unwrap()),
            "window": sample["window"].as_str().unwrap_or("1m0s"), "containers": containers,
        })
    };
    items(
        samples
            .as_array()
            .into_iter()
            .flatten()
            .map(sample)
            .collect(),
    )
}

fn custom(server: &Value, parts: &[&str]) -> (u16, Value) {
    match parts {
        ["pods", "*", metric] => {
            let samples = server["podsMetrics"][metric].as_array();
            let item = |sample: &Value| {
                json!({
                    "describedObject": {"kind": "Pod", "name": sample["pod"]},
                    "timestamp": ago(sample["ageSeconds"].as_i64().unwrap()), "value": sample["value"],
                })
            };
            (
                200,
                values(samples.into_iter().flatten().map(item).collect()),
            )
        }
        ["metrics", metric] | [_, _, metric] => match &server["objectMetrics"][metric] {
            Value::Null => {
                let text = format!(
                    "the server could not find the metric {metric} for {}",
                    parts[0]
                );
                (404, failure(404, "NotFound", &text))
            }
            value => (
                200,
                values(vec![
                    json!({"describedObject": {"name": "x"}, "value": value}),
                ]),
            ),
        },
        _ => panic!("no custom metric at {parts:?}"),
    }
}

fn failure(code: u16, reason: &str, message: &str) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
        "message": message,
    })
}

fn conflict(resource: &str) -> Value {
    let message = format!(
        "Operation cannot be fulfilled on {resource} \"web\": the object has been modified; please apply your changes to the latest version and try again"
    );
    failure(409, "Conflict", &message)
}

/// The file of cases: upstream's results, computed with its own packages.
pub(super) fn cases(part: &str) -> Vec<Value> {
    part_of(include_str!("../testdata/hpa-cases.json"), part)
}

/// The values of upstream's unit tests, by table.
pub(super) fn unit_cases(part: &str) -> Vec<Value> {
    part_of(include_str!("../testdata/unit-cases.json"), part)
}

fn part_of(file: &str, part: &str) -> Vec<Value> {
    let mut file: BTreeMap<String, Value> = serde_json::from_str(file).unwrap();
    let part = file.remove(part).unwrap();
    part.as_array().unwrap().clone()
}

/// The time of a case.
pub(super) fn now() -> Timestamp {
    begin()
}
