//! What clients of a Kubernetes API server rely on, as checks that any server can be asked to pass: this one and a real one.
//!
//! Every [`Check`] is one promise. It works in a namespace of its own, through the API alone, and says what is not as promised.
//!
//! ```
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use steersman_devcluster::{DevCluster, conformance};
//!
//! let cluster = DevCluster::builder().start().await?;
//! let check = conformance::checks().find(|check| check.name == "creations_are_completed_by_the_server").expect("it is there");
//! conformance::run(check, &cluster.client()).await?;
//! # Ok(())
//! # }
//! # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(example()).unwrap();
//! ```

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use http::{HeaderMap, Request};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::time::Instant;

mod access;
mod deletion;
mod objects;
mod parts;
mod patching;
mod reading;
mod serving;
mod watching;

/// What is not as promised.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Broken(String);

type Outcome = Result<(), Broken>;
type Running<'a> = Pin<Box<dyn Future<Output = Outcome> + 'a>>;

/// One promise.
#[derive(Debug, Clone, Copy)]
pub struct Check {
    /// The promise, as a sentence.
    pub name: &'static str,
    /// What part of the API it is about.
    pub area: &'static str,
    run: for<'a> fn(&'a World) -> Running<'a>,
}

/// The checks of one area: functions whose names are the promises.
macro_rules! promises {
    ($area:literal: $($name:ident),* $(,)?) => {
        pub(super) const CHECKS: &[super::Check] =
            &[$(super::Check { name: stringify!($name), area: $area, run: |world| Box::pin($name(world)) }),*];
    };
}
use promises;

/// All of them, by area.
pub fn checks() -> impl Iterator<Item = &'static Check> {
    let areas = [
        serving::CHECKS,
        objects::CHECKS,
        reading::CHECKS,
        watching::CHECKS,
        patching::CHECKS,
        parts::CHECKS,
        deletion::CHECKS,
        access::CHECKS,
    ];
    areas.into_iter().flatten()
}

/// How long controllers and caches of a real server may take for what follows from a write.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(100);

/// Tries one on the server of a client who may do everything. What it makes is deleted afterwards, whatever the outcome.
pub async fn run(check: &Check, client: &kube::Client) -> Outcome {
    let made = World { client: client.clone(), namespace: String::new() };
    let namespace = json!({"metadata": {"generateName": "conformance-"}});
    let made = made.post("/api/v1/namespaces", &namespace).await?;
    let namespace = made.created()?["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let world = World { client: client.clone(), namespace };
    let outcome = (check.run)(&world).await;
    world.delete(&format!("/api/v1/namespaces/{}", world.namespace)).await?.is(200, "")?;
    outcome
}

/// Where a check works.
struct World {
    client: kube::Client,
    namespace: String,
}

/// One answer.
#[derive(Debug)]
struct Answer {
    asked: String,
    code: u16,
    headers: HeaderMap,
    text: String,
    body: Value,
}

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

impl World {
    /// The collection of core resources of that name in the namespace, or an object in it (`pods/a`).
    fn core(&self, what: &str) -> String {
        format!("/api/v1/namespaces/{}/{what}", self.namespace)
    }

    /// The same for another group: `apps/v1`.
    fn group(&self, group_version: &str, what: &str) -> String {
        format!("/apis/{group_version}/namespaces/{}/{what}", self.namespace)
    }

    async fn send(&self, request: http::request::Builder, body: Vec<u8>) -> Result<Answer, Broken> {
        let request = request.body(kube::client::Body::from(body)).map_err(|error| Broken(error.to_string()))?;
        let asked = format!("{} {}", request.method(), request.uri());
        let failed = |error: &dyn std::fmt::Display| Broken(format!("{asked}: {error}"));
        let (head, body) = self.client.send(request).await.map_err(|error| failed(&error))?.into_parts();
        let bytes = body.collect().await.map_err(|error| failed(&error))?.to_bytes();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        Ok(Answer { asked, code: head.status.as_u16(), headers: head.headers, text, body })
    }

    async fn ask(&self, method: &str, path: &str, content_type: &str, body: &Value) -> Result<Answer, Broken> {
        let request = Request::builder().method(method).uri(path).header("content-type", content_type);
        self.send(request, if body.is_null() { Vec::new() } else { body.to_string().into_bytes() }).await
    }

    async fn get(&self, path: &str) -> Result<Answer, Broken> {
        self.ask("GET", path, JSON, &Value::Null).await
    }

    async fn get_as(&self, path: &str, accept: &str) -> Result<Answer, Broken> {
        self.send(Request::builder().uri(path).header("accept", accept), Vec::new()).await
    }

    async fn post(&self, path: &str, body: &Value) -> Result<Answer, Broken> {
        self.ask("POST", path, JSON, body).await
    }

    async fn put(&self, path: &str, body: &Value) -> Result<Answer, Broken> {
        self.ask("PUT", path, JSON, body).await
    }

    async fn patch(&self, path: &str, kind: &str, body: &Value) -> Result<Answer, Broken> {
        self.ask("PATCH", path, kind, body).await
    }

    async fn delete(&self, path: &str) -> Result<Answer, Broken> {
        self.ask("DELETE", path, JSON, &Value::Null).await
    }

    async fn delete_with(&self, path: &str, options: &Value) -> Result<Answer, Broken> {
        self.ask("DELETE", path, JSON, options).await
    }

    /// A new ConfigMap.
    async fn map(&self, name: &str, metadata: Value, data: Value) -> Result<Value, Broken> {
        let mut map = json!({"metadata": metadata, "data": data});
        map["metadata"]["name"] = json!(name);
        self.post(&self.core("configmaps"), &map).await?.created().cloned()
    }

    /// A new pod that nobody schedules. Its namespace may have to wait for the account that pods need.
    async fn pod(&self, name: &str, metadata: Value) -> Result<Value, Broken> {
        let mut pod = pod_template(metadata);
        pod["metadata"]["name"] = json!(name);
        pod["spec"]["schedulerName"] = json!("nobody");
        let until = Instant::now() + PATIENCE;
        loop {
            let answer = self.post(&self.core("pods"), &pod).await?;
            let waits = answer.code == 403 && answer.message().contains("service account");
            if !waits || Instant::now() > until {
                return answer.created().cloned();
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// A new Deployment without pods.
    async fn deployment(&self, name: &str) -> Result<Value, Broken> {
        let path = self.group("apps/v1", "deployments");
        self.post(&path, &deployment(name)).await?.created().cloned()
    }

    /// What a watch says that ends after a second.
    async fn frames(&self, path: &str, query: &str) -> Result<Vec<Value>, Broken> {
        let answer = self.get(&format!("{path}?watch=1&timeoutSeconds=1&{query}")).await?;
        if answer.code != 200 {
            return Err(answer.broken("200"));
        }
        Ok(answer.text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }
}

fn pod_template(metadata: Value) -> Value {
    json!({"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "registry.k8s.io/pause:3.10"}]}})
}

fn deployment(name: &str) -> Value {
    let labels = json!({"app": name});
    let template = pod_template(json!({"labels": labels}));
    json!({"metadata": {"name": name}, "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}})
}

impl Answer {
    fn broken(&self, expected: &str) -> Broken {
        Broken(format!("{}: expected {expected}, got {} {}", self.asked, self.code, self.text))
    }

    fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }

    /// The body, if code and reason (none for a success) are these.
    fn is(&self, code: u16, reason: &str) -> Result<&Value, Broken> {
        let given = if self.body["kind"] == "Status" { self.body["reason"].as_str().unwrap_or_default() } else { "" };
        if (self.code, given) == (code, reason) { Ok(&self.body) } else { Err(self.broken(&format!("{code} {reason}"))) }
    }

    fn ok(&self) -> Result<&Value, Broken> {
        self.is(200, "")
    }

    fn created(&self) -> Result<&Value, Broken> {
        self.is(201, "")
    }

    /// A refusal whose message has `part`.
    fn refuses(&self, code: u16, reason: &str, part: &str) -> Outcome {
        let body = self.is(code, reason)?;
        let whole = body["kind"] == "Status" && body["apiVersion"] == "v1" && body["status"] == "Failure" && body["code"] == code;
        if whole && self.message().contains(part) { Ok(()) } else { Err(self.broken(&format!("a Status saying {part:?}"))) }
    }

    /// The value at `pointer` is `expected`.
    fn has(&self, pointer: &str, expected: Value) -> Outcome {
        at(&self.body, pointer, expected)
    }
}

/// The value at `pointer` is `expected`; null where there must be none.
fn at(object: &Value, pointer: &str, expected: Value) -> Outcome {
    let found = object.pointer(pointer).unwrap_or(&Value::Null);
    equal(pointer, found, &expected)
}

fn equal(what: &str, found: &Value, expected: &Value) -> Outcome {
    if found == expected { Ok(()) } else { Err(Broken(format!("{what}: expected {expected}, found {found}"))) }
}

fn holds(what: &str, is_so: bool) -> Outcome {
    if is_so { Ok(()) } else { Err(Broken(format!("not so: {what}"))) }
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn version(object: &Value) -> &str {
    text(object, "/metadata/resourceVersion")
}

/// Names of the items of a list.
fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().into_iter().flatten().map(|item| text(item, "/metadata/name")).collect()
}
