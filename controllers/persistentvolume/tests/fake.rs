//! An API server of fixed objects for one sync. It records all requests, and all Events.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Response};
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use steersman_client::{ApiClient, ClientMetrics, ClientSettings};
use steersman_helpers::pods_by_claim::PodsByClaim;
use steersman_objects::{
    Node, Object, ObjectKey, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass,
};
use steersman_options::features::FeatureGates;
use steersman_runtime::controller::{ContextParts, ControllerContext};
use steersman_runtime::events::EventRecorder;
use steersman_runtime::informer::{InformerFactory, Store};
use steersman_runtime::metrics::Registry;
use steersman_runtime::tasks::{CancellationToken, Tasks};
use steersman_runtime::workers::Syncer;
use steersman_runtime::workqueue::{QueueMetrics, WorkQueue};
use steersman_values::clock::Clock;

use crate::persistentvolume::COMPONENT;
use crate::persistentvolume::config::Config;
use crate::persistentvolume::known::Caches;
use crate::persistentvolume::metrics::{BinderMetrics, Timers};
use crate::persistentvolume::new_leader::CurrentCheck;
use crate::persistentvolume::operations::Operations;
use crate::persistentvolume::sync::{Binder, Claims, Volumes};
use crate::persistentvolume::writes::Objects;
use crate::storage_metrics::StorageMetrics;
use crate::testing::world::begin;

/// The server's objects by path, and its records.
#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<String, Value>,
    options: Value,
    calls: Vec<Value>,
    events: Vec<Value>,
}

/// The server, and a binder that talks to it.
pub(super) struct Fake {
    state: Arc<Mutex<State>>,
    pub(super) binder: Arc<Binder>,
    pub(super) registry: Registry,
    tasks: Tasks,
    stop: CancellationToken,
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or("")
}

/// The key of an object in the file of cases: `name` or `namespace/name`.
fn key(object: &Value) -> String {
    let namespace = text(object, "/metadata/namespace");
    let name = text(object, "/metadata/name");
    ObjectKey::new(namespace, name).to_string()
}

fn decoded<T: Object>(
    objects: &[Value],
    kind: &str,
    is_kept: impl Fn(&str) -> bool,
) -> Vec<Arc<T>> {
    objects
        .iter()
        .filter(|object| object["kind"] == kind && is_kept(&key(object)))
        .map(|object| Arc::new(T::decode(object.to_string().as_bytes()).unwrap()))
        .collect()
}

impl Fake {
    /// A server with these objects and options of the file of cases. The caches have all objects
    /// that the options do not exclude.
    pub(super) fn new(objects: &[Value], options: &Value) -> Self {
        let is_listed = |option: &str, key: &str| {
            let list = options[option].as_array();
            list.is_some_and(|list| list.iter().any(|listed| listed == key))
        };
        let in_api = |key: &str| !is_listed("onlyInControllerCache", key);
        let in_store = |key: &str| in_api(key) && !is_listed("onlyInAPI", key);
        let known = |key: &str| !is_listed("onlyInAPI", key);
        let served = objects.iter().filter(|object| in_api(&key(object)));
        let state = Arc::new(Mutex::new(State {
            objects: served
                .map(|object| (path(object), object.clone()))
                .collect(),
            options: options.clone(),
            ..State::default()
        }));
        let registry = Registry::new();
        let context = context(&state, &registry, options);
        let client = context.client("persistent-volume-binder");
        let tasks = Tasks::default();
        let stop = CancellationToken::new();
        let caches = Arc::<Caches>::default();
        for claim in decoded(objects, "PersistentVolumeClaim", known) {
            caches.claims().store(&claim);
        }
        for volume in decoded(objects, "PersistentVolume", known) {
            caches.volumes().store(&volume);
        }
        let metrics = BinderMetrics::register(&registry).unwrap();
        metrics.count(Arc::clone(&caches));
        let queue = |name: &str| WorkQueue::new(name, &context.queue_metrics);
        let pods: Store<Pod> = decoded(objects, "Pod", in_store).into_iter().collect();
        let recorder = EventRecorder::start(
            COMPONENT,
            client.clone(),
            context.clock.clone(),
            &tasks,
            &stop,
        );
        let claims = decoded::<PersistentVolumeClaim>(objects, "PersistentVolumeClaim", in_store);
        let volumes = decoded::<PersistentVolume>(objects, "PersistentVolume", in_store);
        let classes = decoded::<StorageClass>(objects, "StorageClass", in_store);
        let nodes = decoded::<Node>(objects, "Node", in_store);
        let binder = Arc::new(Binder {
            current: CurrentCheck::of(&context),
            stored_claims: claims.into_iter().collect(),
            stored_volumes: volumes.into_iter().collect(),
            classes: classes.into_iter().collect(),
            nodes: nodes.into_iter().collect(),
            pods: PodsByClaim::of(&pods),
            claim_queue: queue("claims"),
            volume_queue: queue("volumes"),
            recorder,
            config: Config::of(&context.options, &context.features).unwrap(),
            operations: Operations::new(),
            timers: Timers::new(metrics.clone()),
            metrics,
            storage_metrics: StorageMetrics::register(&registry).unwrap(),
            objects: Objects { client, caches },
            turn: tokio::sync::Mutex::default(),
        });
        Self {
            state,
            binder,
            registry,
            tasks,
            stop,
        }
    }

    /// Syncs the object with this key, and waits for the operations that this starts. Returns the
    /// error.
    pub(super) async fn sync(&self, kind: &str, key: &str) -> Option<String> {
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        let binder = Arc::clone(&self.binder);
        let key = ObjectKey::new(namespace, name);
        let result = match kind {
            "claim" => Claims(binder).sync(&key).await,
            _ => Volumes(binder).sync(&key).await,
        };
        self.binder.operations.join().await;
        result.err().map(|error| error.to_string())
    }

    /// Ends the sender of Events, after it has sent all.
    pub(super) async fn finish(&self) {
        self.stop.cancel();
        self.tasks.join(Duration::from_secs(60)).await;
    }

    /// The requests so far, in the form of the file of cases.
    pub(super) fn calls(&self) -> Vec<Value> {
        self.state.lock().calls.clone()
    }

    /// The Events so far, in the form of the file of cases.
    pub(super) fn events(&self) -> Vec<Value> {
        self.state.lock().events.clone()
    }

    /// The object at this path.
    pub(super) fn object(&self, path: &str) -> Value {
        let state = self.state.lock();
        state.objects.get(path).cloned().unwrap_or_default()
    }
}

/// The keys in `queue`.
pub(super) async fn queued(queue: &WorkQueue<ObjectKey>) -> Vec<String> {
    let mut keys = Vec::new();
    while !queue.is_empty() {
        keys.push(queue.get().await.unwrap().key.to_string());
    }
    keys
}

/// The path of an object.
fn path(object: &Value) -> String {
    let plural = match text(object, "/kind") {
        "PersistentVolumeClaim" => "persistentvolumeclaims",
        "PersistentVolume" => "persistentvolumes",
        "Pod" => "pods",
        "Node" => "nodes",
        _ => "storageclasses",
    };
    format!("{plural}/{}", key(object))
}

fn context(state: &Arc<Mutex<State>>, registry: &Registry, options: &Value) -> ControllerContext {
    let shared = Arc::clone(state);
    let service = tower::service_fn(move |request: Request<Body>| {
        let shared = Arc::clone(&shared);
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect_bytes().await?;
            let body = serde_json::from_slice(&body).unwrap_or_default();
            let query = parts.uri.query().unwrap_or_default().to_owned();
            let mut state = shared.lock();
            let (code, answer) = state.answer(&parts.method, parts.uri.path(), &query, body);
            let response = Response::builder().status(code);
            // An event of a watch is a line.
            let body = Body::from(format!("{answer}\n").into_bytes());
            Ok::<_, kube::Error>(response.body(body).unwrap())
        }
    });
    let settings = ClientSettings {
        user_agent: "test/agent".to_owned(),
        qps: 0.0,
        burst: 0,
        timeout: Duration::from_secs(5),
    };
    let metrics = ClientMetrics::register(registry).unwrap();
    let client = ApiClient::new(kube::Client::new(service, "ns"), settings, metrics);
    let for_all = client.clone();
    let mut context = ControllerContext::new(ContextParts {
        informers: InformerFactory::new(client, Duration::ZERO, registry).unwrap(),
        clients: Arc::new(move |_| for_all.clone()),
        clock: Clock::runtime(begin()),
        queue_metrics: QueueMetrics::register(registry).unwrap(),
        registry: registry.clone(),
    });
    if let Some(off) = options["gateOff"].as_str() {
        context.features = FeatureGates::new(|name| name != off);
    }
    if options["disableDynamicProvisioning"] == true {
        context = context.with_flag("enable-dynamic-provisioning", "false");
    }
    if options["enableHostPathProvisioning"] == true {
        context = context.with_flag("enable-hostpath-provisioner", "true");
    }
    context
}

impl State {
    fn answer(&mut self, method: &Method, path: &str, query: &str, body: Value) -> (u16, Value) {
        let parts: Vec<&str> = path.trim_start_matches("/api/v1/").split('/').collect();
        let (namespace, parts) = match &parts[..] {
            ["namespaces", namespace, rest @ ..] => (*namespace, rest),
            parts => ("", parts),
        };
        let plural = parts[0];
        let name = parts.get(1).copied().unwrap_or("");
        if plural == "events" && query.is_empty() {
            self.record(&body);
            return (201, body);
        }
        let subresource = parts.get(2).copied().unwrap_or("");
        let at = format!("{plural}/{}", ObjectKey::new(namespace, name));
        let verb = match *method {
            Method::GET if query.contains("watch=true") => "watch",
            Method::GET => "get",
            Method::PUT => "update",
            Method::POST => "create",
            _ => "delete",
        };
        let mut call = json!({"verb": verb, "resource": plural});
        let name = match verb {
            "create" => text(&body, "/metadata/name"),
            _ => name,
        };
        let fields = [
            ("namespace", namespace),
            ("name", name),
            ("subresource", subresource),
        ];
        for (field, value) in fields {
            if !value.is_empty() {
                call[field] = json!(value);
            }
        }
        match verb {
            "watch" => {
                let selector = query.rsplit("fieldSelector=").next().unwrap_or("");
                call["fieldSelector"] = json!(selector.replace("%3D", "="));
            }
            "update" | "create" => call["body"] = body.clone(),
            _ => {}
        }
        self.calls.push(call);
        match verb {
            "watch" => (200, self.watched(plural)),
            "get" => self.read(&at, plural, name),
            "update" => self.update(&at, plural, subresource, body),
            "create" if plural == "pods" && self.options["recyclerPodExists"] == true => {
                let message = format!("pods {name:?} already exists");
                (409, failure(409, "AlreadyExists", &message, name))
            }
            "create" => (201, body),
            _ => {
                self.objects.remove(&at);
                (200, json!({"kind": "Status", "status": "Success"}))
            }
        }
    }

    fn record(&mut self, event: &Value) {
        let of = &event["involvedObject"];
        let mut record = json!({
            "kind": of["kind"], "name": of["name"], "reason": event["reason"],
            "message": event["message"], "type": event["type"],
        });
        if !text(of, "/namespace").is_empty() {
            record["namespace"] = of["namespace"].clone();
        }
        self.events.push(record);
    }

    /// The event of the watch of recycler pods.
    fn watched(&self, plural: &str) -> Value {
        let phase = &self.options["recyclerPodPhase"];
        if plural != "pods" || phase.is_null() {
            return json!({"type": "BOOKMARK", "object": {}});
        }
        let message = &self.options["recyclerPodMessage"];
        json!({"type": "MODIFIED", "object": {"status": {"phase": phase, "message": message}}})
    }

    fn read(&self, at: &str, plural: &str, name: &str) -> (u16, Value) {
        let live = &self.options["liveOverride"];
        if plural == "persistentvolumeclaims" && !live.is_null() {
            return (200, live.clone());
        }
        match self.objects.get(at) {
            Some(object) => (200, object.clone()),
            None => {
                let message = format!("{plural} {name:?} not found");
                (404, failure(404, "NotFound", &message, name))
            }
        }
    }

    fn update(&mut self, at: &str, plural: &str, part: &str, mut body: Value) -> (u16, Value) {
        let endpoint = format!("{plural}/{part}");
        if self.options["fail"]["on"] == endpoint.trim_end_matches('/') {
            let name = at.rsplit('/').next().unwrap_or_default();
            let message = format!(
                "Operation cannot be fulfilled on {plural} {name:?}: the object has been modified; please apply your changes to the latest version and try again"
            );
            return (409, failure(409, "Conflict", &message, name));
        }
        let version: u64 = text(&body, "/metadata/resourceVersion").parse().unwrap();
        body["metadata"]["resourceVersion"] = json!((version + 1).to_string());
        self.objects.insert(at.to_owned(), body.clone());
        (200, body)
    }
}

fn failure(code: u16, reason: &str, message: &str, name: &str) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
        "message": message, "details": {"name": name},
    })
}
