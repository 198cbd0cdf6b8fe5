//! Requests of the cases to either cluster.

use std::time::Duration;

use http::Request;
use http::StatusCode;
use kube::Client;
use serde_json::{Value, json};
use steersman_devcluster::nodes::BEHAVIOUR;

use super::answer::Answer;

/// Time between two looks at a pod.
const POLL: Duration = Duration::from_millis(50);
/// The longest wait for an attempt.
const LIMIT: Duration = Duration::from_secs(60);

/// Time in which the scheduler learns of a change, and writes its answer.
const SETTLE: Duration = Duration::from_millis(300);

pub(crate) struct Cluster(Client);

/// Prefix of the paths of a group, and plural of a kind.
fn resource(kind: &str) -> (&'static str, &'static str) {
    match kind {
        "CSINode" => ("/apis/storage.k8s.io/v1", "csinodes"),
        "DeviceClass" => ("/apis/resource.k8s.io/v1", "deviceclasses"),
        "Namespace" => ("/api/v1", "namespaces"),
        "Node" => ("/api/v1", "nodes"),
        "PersistentVolume" => ("/api/v1", "persistentvolumes"),
        "PersistentVolumeClaim" => ("/api/v1", "persistentvolumeclaims"),
        "Pod" => ("/api/v1", "pods"),
        "ResourceClaim" => ("/apis/resource.k8s.io/v1", "resourceclaims"),
        "RuntimeClass" => ("/apis/node.k8s.io/v1", "runtimeclasses"),
        "StorageClass" => ("/apis/storage.k8s.io/v1", "storageclasses"),
        other => panic!("{other} has no path"),
    }
}

/// The path of the collection of an object, whose default namespace is `namespace`.
fn collection(namespace: &str, object: &Value) -> String {
    let kind = object["kind"].as_str().unwrap();
    let (prefix, plural) = resource(kind);
    if matches!(kind, "Pod" | "PersistentVolumeClaim" | "ResourceClaim") {
        let namespace = object["metadata"]["namespace"]
            .as_str()
            .unwrap_or(namespace);
        format!("{prefix}/namespaces/{namespace}/{plural}")
    } else {
        format!("{prefix}/{plural}")
    }
}

fn path(namespace: &str, object: &Value) -> String {
    let name = object["metadata"]["name"].as_str().unwrap();
    format!("{}/{name}", collection(namespace, object))
}

impl Cluster {
    pub(crate) fn new(client: Client) -> Self {
        Self(client)
    }

    /// Waits until the scheduler knows of all changes, which it does not acknowledge.
    pub(crate) async fn settle(&self) {
        tokio::time::sleep(SETTLE).await;
    }

    async fn send(&self, method: &str, path: &str, body: &Value) -> Result<Value, StatusCode> {
        let content_type = match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", content_type)
            .body(body.to_string().into_bytes())
            .unwrap();
        match self.0.request(request).await {
            Ok(answer) => Ok(answer),
            Err(kube::Error::Api(status)) => Err(StatusCode::from_u16(status.code)
                .inspect(|code| {
                    let is_expected = *code == StatusCode::NOT_FOUND;
                    assert!(is_expected, "{method} {path}: {}", status.message);
                })
                .unwrap()),
            Err(error) => panic!("{method} {path}: {error}"),
        }
    }

    /// Creates an object with its status. `deleted` objects are deleted at once.
    pub(crate) async fn create(&self, namespace: &str, mut object: Value) {
        let (prefix, _) = resource(object["kind"].as_str().unwrap());
        let version = prefix
            .trim_start_matches("/apis/")
            .trim_start_matches("/api/");
        object["apiVersion"] = json!(version);
        let is_deleted = object.as_object_mut().unwrap().remove("deleted").is_some();
        if object["kind"] == "Pod" {
            let containers = &mut object["spec"]["containers"];
            if containers.is_null() {
                *containers = json!([{"name": "c", "image": "i"}]);
            }
            object["spec"]["terminationGracePeriodSeconds"] = json!(0);
        }
        let mut status = object["status"].take();
        if object["kind"] == "Node" {
            if status.is_null() {
                status = json!({});
            }
            status["conditions"] = json!([{"type": "Ready", "status": "True"}]);
            // The recorded cluster has no kubelets.
            object["metadata"]["annotations"] = json!({BEHAVIOUR: "dead"});
        }
        if object["kind"] == "PersistentVolume" {
            status = json!({"phase": "Bound"});
        }
        let collection = collection(namespace, &object);
        self.send("POST", &collection, &object).await.unwrap();
        let path = path(namespace, &object);
        if !status.is_null() {
            let status_path = format!("{path}/status");
            let patch = json!({ "status": status });
            self.send("PATCH", &status_path, &patch).await.unwrap();
        }
        if is_deleted {
            self.send("DELETE", &path, &json!({})).await.unwrap();
        }
    }

    /// Changes an object, or creates it.
    pub(crate) async fn change(&self, namespace: &str, object: Value) {
        let changed = self.send("PATCH", &path(namespace, &object), &object).await;
        if changed.is_err() {
            self.create(namespace, object).await;
        }
    }

    /// Deletes a pod, or another object of one case.
    pub(crate) async fn remove(&self, namespace: &str, object: &Value) {
        let is_of_world = |name: &str| matches!(name, "small" | "large" | "cordoned" | "tainted");
        let name = object["metadata"]["name"].as_str().unwrap();
        if object["kind"] == "Node" && is_of_world(name) || object["kind"] == "Namespace" {
            return;
        }
        let path = path(namespace, object);
        if object["metadata"]["finalizers"].is_array() {
            let patch = json!({"metadata": {"finalizers": null}});
            self.send("PATCH", &path, &patch).await.unwrap();
        }
        // An object without its last finalizer, and a pod after its preemption, are gone.
        let options = json!({"gracePeriodSeconds": 0});
        let _ = self.send("DELETE", &path, &options).await;
    }

    /// The number of attempts that the Events of a pod tell.
    pub(crate) async fn attempts(&self, namespace: &str, pod: &str) -> u64 {
        let events = self.events(namespace, pod).await;
        let count = |event: &Value| event["series"]["count"].as_u64().unwrap_or(1);
        events.iter().map(count).sum()
    }

    /// Waits for more than this number of attempts, and for the condition or the node.
    pub(crate) async fn attempted(&self, namespace: &str, pod: &str, before: u64) {
        let waited = tokio::time::timeout(LIMIT, async {
            loop {
                if self.attempts(namespace, pod).await > before
                    && self.answer(namespace, pod).await.is_complete()
                {
                    return;
                }
                tokio::time::sleep(POLL).await;
            }
        });
        if waited.await.is_err() {
            let answer = self.answer(namespace, pod).await;
            panic!("{namespace}/{pod} has no attempt after {before}: {answer:?}");
        }
    }

    pub(crate) async fn answer(&self, namespace: &str, pod: &str) -> Answer {
        let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}");
        let found = self.send("GET", &path, &Value::Null).await.unwrap();
        Answer::new(&found, &self.events(namespace, pod).await)
    }

    /// The Events about a pod that its scheduler wrote, from the oldest one.
    async fn events(&self, namespace: &str, pod: &str) -> Vec<Value> {
        let path = format!("/api/v1/namespaces/{namespace}/events");
        let list = self.send("GET", &path, &Value::Null).await.unwrap();
        let events = list["items"].as_array().unwrap().iter();
        let is_meant = |event: &&Value| {
            event["involvedObject"]["name"] == pod && event["source"]["component"] != "kubelet"
        };
        let mut events: Vec<Value> = events.filter(is_meant).cloned().collect();
        events.sort_by_key(|event| event["eventTime"].as_str().map(str::to_owned));
        events
    }
}
