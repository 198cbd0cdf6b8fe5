//! The reconciliations that upstream 1.36.2 computed: `cases.json` describes inputs and results.
//!
//! A server that only answers and records replaces the API server, so that the bodies are compared
//! as they were sent.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Response};
use kube::client::Body;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use steersman_client::{ApiClient, ClientMetrics, ClientSettings, HttpService};
use steersman_helpers::endpointslice::{
    AddressType, PodsByLabel, PortOrder, SliceTotals, SliceWriter, SlicesByService, TriggerTimes,
    WrittenSlices,
};
use steersman_objects::{EndpointSlice, Node, Object, ObjectReference, Pod, Service};
use steersman_runtime::controller::ControllerContext;
use steersman_runtime::events::{EventRecorder, EventType};
use steersman_runtime::keyed::Keyed;
use steersman_values::intern::Sym;

use super::super::desired::Nodes;
use super::super::metrics::{SliceMetrics, TrafficDistributions};
use super::super::sync::{Slices, Synced};
use super::super::topology::Topology;
use crate::testing::world::World;

#[derive(Deserialize)]
struct Data {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Case {
    name: String,
    max_endpoints_per_slice: usize,
    trigger_time: String,
    topology_cache_loaded_from_nodes: bool,
    #[serde(default)]
    prior_topology_hints: BTreeMap<String, BTreeMap<String, i64>>,
    #[serde(default)]
    injected_failure: String,
    service: Value,
    pods: Vec<Value>,
    nodes: Vec<Value>,
    existing_slices: Vec<Value>,
    determinism: String,
    outcomes: Vec<Outcome>,
}

/// The calls and the result of a reconciliation.
#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Outcome {
    calls: Vec<Call>,
    events: Vec<String>,
    error: String,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Call {
    verb: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    object: Value,
}

/// The last Event of a case. Once it was sent, all Events of the case were sent.
const LAST: &str = "Last";

fn decode<T: Object>(json: &Value) -> Arc<T> {
    Arc::new(T::decode(json.to_string().as_bytes()).unwrap())
}

/// Verb of a method.
fn verb(method: &Method) -> &'static str {
    match *method {
        Method::POST => "create",
        Method::PUT => "update",
        Method::DELETE => "delete",
        _ => "other",
    }
}

/// Records the calls, and answers each with the object that was sent.
#[derive(Clone, Default)]
struct Server {
    calls: Arc<Mutex<Vec<Call>>>,
    events: Arc<Mutex<Vec<Value>>>,
}

impl Server {
    /// A client of this server. `failure` is the injected failure of a case.
    fn client(&self, failure: &str) -> ApiClient {
        let server = self.clone();
        let failure = failure.to_owned();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            let failure = failure.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect_bytes().await.unwrap();
                let body: Value = serde_json::from_slice(&body).unwrap_or_default();
                let (code, answer) = server.answer(&parts.method, parts.uri.path(), body, &failure);
                let answer = Response::builder()
                    .status(code)
                    .header("content-type", "application/json")
                    .body(Body::from(answer.to_string().into_bytes()));
                Ok::<_, Infallible>(answer.unwrap())
            }
        });
        let settings = ClientSettings {
            user_agent: "test".to_owned(),
            qps: 0.0,
            burst: 0,
            timeout: Duration::from_secs(30),
        };
        let metrics = ClientMetrics::register(&prometheus::Registry::new()).unwrap();
        ApiClient::new(HttpService::new(service), settings, metrics)
    }

    fn answer(&self, method: &Method, path: &str, mut body: Value, failure: &str) -> (u16, Value) {
        if path.contains("/events") {
            self.events.lock().push(body.clone());
            return (201, body);
        }
        let verb = verb(method);
        let name = match verb {
            "create" => String::new(),
            _ => path.rsplit('/').next().unwrap().to_owned(),
        };
        let mut object = body.take();
        if verb == "delete" {
            object = Value::Null;
        } else {
            for (field, value) in [
                ("apiVersion", "discovery.k8s.io/v1"),
                ("kind", "EndpointSlice"),
            ] {
                assert_eq!(
                    object.as_object_mut().unwrap().remove(field),
                    Some(json!(value))
                );
            }
        }
        self.calls.lock().push(Call {
            verb: verb.to_owned(),
            name: name.clone(),
            object,
        });
        if let Some(answer) = injected(failure, verb, &name) {
            return answer;
        }
        let metadata = json!({"name": "written", "uid": "written", "resourceVersion": "200"});
        (200, json!({ "metadata": metadata }))
    }
}

/// The answer of the API server to calls of `verb`, if the failure is about this verb.
fn injected(failure: &str, verb: &str, name: &str) -> Option<(u16, Value)> {
    let reason = failure.strip_prefix(verb)?.strip_prefix(": ")?;
    let status = |code: u16, reason: &str, message: String, causes: Value| {
        let details = json!({"name": name, "group": "discovery.k8s.io", "kind": "endpointslices", "causes": causes});
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
            "message": message, "details": details,
        });
        Some((code, status))
    };
    match reason {
        "403 Forbidden with cause NamespaceTerminating" => {
            let causes = json!([{"reason": "NamespaceTerminating"}]);
            status(
                403,
                "Forbidden",
                "namespace ns is being terminated".to_owned(),
                causes,
            )
        }
        "403 Forbidden (quota)" => {
            let message =
                "endpointslices.discovery.k8s.io \"svc-abcde\" is forbidden: exceeded quota: q";
            status(403, "Forbidden", message.to_owned(), json!([]))
        }
        "409 Conflict" => {
            let message = format!(
                "Operation cannot be fulfilled on endpointslices.discovery.k8s.io {name:?}: the object has been modified; \
                 please apply your changes to the latest version and try again"
            );
            status(409, "Conflict", message, json!([]))
        }
        other => panic!("unknown failure {other:?}"),
    }
}

/// Reconciles the input of `case`.
async fn reconcile(case: &Case, context: &ControllerContext) -> Outcome {
    let server = Server::default();
    let client = server.client(&case.injected_failure);
    let recorder = EventRecorder::start(
        "test",
        client.clone(),
        context.clock.clone(),
        &context.tasks,
        &context.stop,
    );
    let service = decode::<Service>(&case.service);
    let key = service.key();
    let nodes: Vec<Arc<Node>> = case.nodes.iter().map(decode).collect();
    let topology = Topology::default();
    if case.topology_cache_loaded_from_nodes {
        topology.set_nodes(&nodes);
    }
    for (family, zones) in &case.prior_topology_hints {
        assert_eq!(family, "IPv4");
        let counts = zones.iter().map(|(zone, count)| (Sym::new(zone), *count));
        topology.set_hints(&key, AddressType::IPv4, counts.collect());
    }
    let metrics = SliceMetrics::register(&prometheus::Registry::new()).unwrap();
    let [endpoints, slices, desired] = metrics.totals();
    let mut keyed = Keyed::<Service>::new(context, "test", "test");
    let syncer = Slices {
        prefers_same: true,
        pods: PodsByLabel::of(&std::iter::empty().collect()),
        slices: SlicesByService::of(&std::iter::empty().collect()),
        nodes: nodes.into_iter().collect(),
        max: case.max_endpoints_per_slice,
        order: PortOrder::default(),
        topology: Arc::new(topology),
        missing_nodes: Arc::default(),
        services_cache: keyed.tracked(&context.informers.shared::<Service>()),
        nodes_cache: keyed.tracked(&context.informers.shared::<Node>()),
        pods_cache: keyed.tracked(&context.informers.shared::<Pod>()),
        writer: SliceWriter {
            owner_kind: "Service",
            client: client.clone(),
            cache: keyed.tracked(&context.informers.shared::<EndpointSlice>()),
            written: Arc::new(WrittenSlices::default()),
            changes: metrics.changes(),
        },
        times: Arc::new(TriggerTimes::default()),
        totals: Arc::new(SliceTotals::new(endpoints, slices, desired)),
        distributions: Arc::new(TrafficDistributions::new(&metrics)),
        metrics,
        client,
        recorder: recorder.clone(),
    };
    let pods: Vec<Arc<Pod>> = case.pods.iter().map(decode).collect();
    let existing: Vec<Arc<EndpointSlice>> = case.existing_slices.iter().map(decode).collect();
    let synced = Synced {
        key: &key,
        service: &service,
        pods: &pods,
        slices: &existing,
    };
    let plans = syncer.plan(&synced, &mut Nodes::new(&syncer.nodes));
    let trigger_time = case.trigger_time.parse().ok();
    let written = syncer.write(&synced, plans, trigger_time).await;
    let last = ObjectReference::of(&*service);
    recorder.event(last, EventType::Normal, LAST, String::new());
    let is_last = |event: &Value| event["reason"] == LAST;
    while !server.events.lock().iter().any(is_last) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let string = |value: &Value| value.as_str().unwrap().to_owned();
    let events = server.events.lock().clone();
    let events = events.iter().filter(|event| !is_last(event)).map(|event| {
        assert_eq!(
            event["involvedObject"]["name"],
            case.service["metadata"]["name"]
        );
        let parts = ["type", "reason", "message"].map(|field| string(&event[field]));
        parts.join(" ")
    });
    let calls = server.calls.lock().clone();
    Outcome {
        calls,
        events: events.collect(),
        error: written
            .err()
            .map_or_else(String::new, |error| error.to_string()),
    }
}

/// An unset list equals an empty one.
fn normal(mut outcome: Outcome) -> Outcome {
    for call in &mut outcome.calls {
        for field in ["endpoints", "ports"] {
            if call.object.get(field).is_some_and(Value::is_null) {
                call.object[field] = json!([]);
            }
        }
    }
    outcome
}

/// The text of `value` with sorted members, so that equal values have equal texts.
fn text(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let members: BTreeMap<&String, String> = members
                .iter()
                .map(|(name, value)| (name, text(value)))
                .collect();
            format!("{members:?}")
        }
        Value::Array(items) => format!("{:?}", items.iter().map(text).collect::<Vec<_>>()),
        value => value.to_string(),
    }
}

/// The outcome with endpoints, calls of one verb, and Events sorted.
fn sorted(outcome: Outcome) -> Outcome {
    let mut outcome = normal(outcome);
    for call in &mut outcome.calls {
        if let Some(endpoints) = call.object["endpoints"].as_array_mut() {
            endpoints.sort_by_key(text);
        }
    }
    outcome
        .calls
        .sort_by_key(|call| format!("{} {} {}", call.verb, call.name, text(&call.object)));
    outcome.events.sort();
    outcome
}

/// The parts of an outcome that no free choice affects: calls with their number of endpoints, all
/// endpoints, and the number of hints by zone.
fn fixed(outcome: &Outcome) -> Value {
    let mut outcome = normal(outcome.clone());
    let mut endpoints = Vec::new();
    let mut hints = Vec::new();
    let mut calls = Vec::new();
    for call in &mut outcome.calls {
        let list = call.object["endpoints"].take();
        let list = list.as_array().cloned().unwrap_or_default();
        if let Some(metadata) = call.object["metadata"].as_object_mut() {
            metadata.remove("name");
            metadata.remove("uid");
        }
        calls.push(format!(
            "{} {} {}",
            call.verb,
            text(&call.object),
            list.len()
        ));
        for mut endpoint in list {
            hints.push(text(&endpoint["hints"].take()));
            endpoints.push(text(&endpoint));
        }
    }
    outcome.events.sort();
    [&mut endpoints, &mut hints, &mut calls]
        .into_iter()
        .for_each(|list| list.sort());
    json!({"endpoints": endpoints, "hints": hints, "calls": calls, "events": outcome.events, "error": outcome.error})
}

#[tokio::test(start_paused = true)]
async fn slices_are_reconciled_like_upstream() {
    let data: Data = serde_json::from_str(include_str!("cases.json")).unwrap();
    assert_eq!(data.cases.len(), 91);
    let context = World::bare().await.context();
    for case in data.cases {
        let found = reconcile(&case, &context).await;
        let expected = &case.outcomes;
        let equals = match case.determinism.split([':', ' ']).next().unwrap() {
            "exact" => normal(found.clone()) == normal(expected[0].clone()),
            "up" => sorted(found.clone()) == sorted(expected[0].clone()),
            "free" => expected
                .iter()
                .any(|outcome| fixed(outcome) == fixed(&found)),
            other => panic!("unknown determinism {other:?}"),
        };
        assert!(equals, "{}: {found:#?}\nis not {expected:#?}", case.name);
    }
}
