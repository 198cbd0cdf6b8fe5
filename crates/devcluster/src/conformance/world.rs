//! Where a check works: one namespace of its own, requests as they are, answers that say what is
//! wrong with them.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::{HeaderMap, Request};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::Broken;

pub(super) type Outcome = Result<(), Broken>;

/// How long controllers and caches of a real server may take for what follows from a write.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(100);

pub(super) const JSON: &str = "application/json";
pub(super) const MERGE: &str = "application/merge-patch+json";
pub(super) const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub(super) const JSON_PATCH: &str = "application/json-patch+json";
pub(super) const APPLY: &str = "application/apply-patch+yaml";
pub(super) const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";

/// A finalizer nobody acts on.
pub(super) const KEEP: &str = "conformance.example.com/keep";
/// A node there is not.
pub(super) const NO_NODE: &str = "conformance-no-such-node";

/// Where a check works.
pub(super) struct World {
    client: kube::Client,
    pub(super) namespace: String,
    /// Paths of objects that would outlive the namespace, or keep it.
    left: Mutex<Vec<Left>>,
}

#[derive(Clone)]
enum Left {
    /// Outside of the namespace.
    Behind(String),
    /// Kept by a finalizer.
    Kept(String),
}

/// One answer.
#[derive(Debug)]
pub(super) struct Answer {
    asked: String,
    pub(super) code: u16,
    pub(super) headers: HeaderMap,
    pub(super) text: String,
    pub(super) body: Value,
}

impl World {
    /// With a new namespace.
    pub(super) async fn begin(client: &kube::Client) -> Result<Self, Broken> {
        let mut world = Self {
            client: client.clone(),
            namespace: String::new(),
            left: Mutex::default(),
        };
        let made = world
            .post(
                "/api/v1/namespaces",
                &json!({"metadata": {"generateName": "conformance-"}}),
            )
            .await?;
        text(made.created()?, "/metadata/name").clone_into(&mut world.namespace);
        Ok(world)
    }

    /// Deletes everything that was made, as far as it goes; what did not go is told.
    pub(super) async fn end(self) -> Outcome {
        let left = self
            .left
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let mut ends = Vec::new();
        for one in left {
            ends.push(match one {
                Left::Behind(path) => self.delete(&path).await,
                Left::Kept(path) => {
                    self.merge(&path, &json!({"metadata": {"finalizers": null}}))
                        .await
                }
            });
        }
        // Some are bound to a node that is not there, and nobody else would end these soon.
        ends.push(
            self.delete_with(&self.core("pods"), &json!({"gracePeriodSeconds": 0}))
                .await,
        );
        ends.push(
            self.delete(&format!("/api/v1/namespaces/{}", self.namespace))
                .await,
        );
        ends.into_iter().try_for_each(|end| {
            end.and_then(|end| {
                if matches!(end.code, 200 | 404) {
                    Ok(())
                } else {
                    Err(end.broken("200 or 404"))
                }
            })
        })
    }

    /// Has an object outside of the namespace deleted at the end.
    pub(super) fn leaves_behind(&self, path: impl Into<String>) {
        self.left
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Left::Behind(path.into()));
    }

    /// Has the finalizers of an object removed at the end.
    pub(super) fn keeps(&self, path: impl Into<String>) {
        self.left
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Left::Kept(path.into()));
    }

    /// The collection of core resources of that name in the namespace, or an object in it
    /// (`pods/a`).
    pub(super) fn core(&self, what: &str) -> String {
        format!("/api/v1/namespaces/{}/{what}", self.namespace)
    }

    /// The same for another group: `apps/v1`.
    pub(super) fn group(&self, group_version: &str, what: &str) -> String {
        format!("/apis/{group_version}/namespaces/{}/{what}", self.namespace)
    }

    /// The same for Deployments, ReplicaSets and the like.
    pub(super) fn apps(&self, what: &str) -> String {
        self.group("apps/v1", what)
    }

    pub(super) async fn send(
        &self,
        request: http::request::Builder,
        body: Vec<u8>,
    ) -> Result<Answer, Broken> {
        let request = request
            .body(kube::client::Body::from(body))
            .map_err(|error| Broken(error.to_string()))?;
        let asked = format!("{} {}", request.method(), request.uri());
        let failed = |error: &dyn std::fmt::Display| Broken(format!("{asked}: {error}"));
        let (head, body) = self
            .client
            .send(request)
            .await
            .map_err(|error| failed(&error))?
            .into_parts();
        let bytes = body
            .collect()
            .await
            .map_err(|error| failed(&error))?
            .to_bytes();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        Ok(Answer {
            asked,
            code: head.status.as_u16(),
            headers: head.headers,
            text,
            body,
        })
    }

    pub(super) async fn ask(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        body: &Value,
    ) -> Result<Answer, Broken> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", content_type);
        self.send(request, bytes_of(body)).await
    }

    /// As somebody else.
    pub(super) async fn ask_as(
        &self,
        user: &str,
        method: &str,
        path: &str,
        body: &Value,
    ) -> Result<Answer, Broken> {
        let content_type = if method == "PATCH" { APPLY } else { JSON };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("impersonate-user", user);
        self.send(request.header("content-type", content_type), bytes_of(body))
            .await
    }

    pub(super) async fn get(&self, path: &str) -> Result<Answer, Broken> {
        self.ask("GET", path, JSON, &Value::Null).await
    }

    pub(super) async fn get_as(&self, path: &str, accept: &str) -> Result<Answer, Broken> {
        self.send(
            Request::builder().uri(path).header("accept", accept),
            Vec::new(),
        )
        .await
    }

    pub(super) async fn post(&self, path: &str, body: &Value) -> Result<Answer, Broken> {
        self.ask("POST", path, JSON, body).await
    }

    pub(super) async fn put(&self, path: &str, body: &Value) -> Result<Answer, Broken> {
        self.ask("PUT", path, JSON, body).await
    }

    pub(super) async fn patch(
        &self,
        path: &str,
        kind: &str,
        body: &Value,
    ) -> Result<Answer, Broken> {
        self.ask("PATCH", path, kind, body).await
    }

    pub(super) async fn merge(&self, path: &str, body: &Value) -> Result<Answer, Broken> {
        self.patch(path, MERGE, body).await
    }

    pub(super) async fn delete(&self, path: &str) -> Result<Answer, Broken> {
        self.ask("DELETE", path, JSON, &Value::Null).await
    }

    pub(super) async fn delete_with(&self, path: &str, options: &Value) -> Result<Answer, Broken> {
        self.ask("DELETE", path, JSON, options).await
    }

    /// Asks again until the answer has that code: a real server's caches may be behind.
    pub(super) async fn until(
        &self,
        code: u16,
        ask: impl AsyncFn() -> Result<Answer, Broken>,
    ) -> Result<Answer, Broken> {
        self.until_so(&code.to_string(), |answer| answer.code == code, ask)
            .await
    }

    /// The same until the answer is as expected.
    pub(super) async fn until_so(
        &self,
        expected: &str,
        is_so: impl Fn(&Answer) -> bool,
        ask: impl AsyncFn() -> Result<Answer, Broken>,
    ) -> Result<Answer, Broken> {
        let until = Instant::now() + PATIENCE;
        loop {
            let answer = ask().await?;
            if is_so(&answer) {
                return Ok(answer);
            }
            if Instant::now() > until {
                return Err(answer.broken(expected));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// A new ConfigMap.
    pub(super) async fn map(
        &self,
        name: &str,
        metadata: Value,
        data: Value,
    ) -> Result<Value, Broken> {
        let mut map = json!({"metadata": metadata, "data": data});
        map["metadata"]["name"] = json!(name);
        if map["metadata"].get("finalizers").is_some() {
            self.keeps(self.core(&format!("configmaps/{name}")));
        }
        self.post(&self.core("configmaps"), &map)
            .await?
            .created()
            .cloned()
    }

    /// A new pod that nobody schedules. Its namespace may have to wait for the account that pods
    /// need.
    pub(super) async fn pod(&self, name: &str, metadata: Value) -> Result<Value, Broken> {
        self.pod_of(name, metadata, json!({})).await
    }

    /// The same, whose spec has these fields, too.
    pub(super) async fn pod_of(
        &self,
        name: &str,
        metadata: Value,
        spec: Value,
    ) -> Result<Value, Broken> {
        let mut pod = pod_template(metadata);
        pod["metadata"]["name"] = json!(name);
        json_patch::merge(&mut pod["spec"], &spec);
        if pod["metadata"].get("finalizers").is_some() {
            self.keeps(self.core(&format!("pods/{name}")));
        }
        self.post_pod(&self.core("pods"), &pod)
            .await?
            .created()
            .cloned()
    }

    /// Posts something with pods in it, again while its namespace waits for the account that pods
    /// need.
    pub(super) async fn post_pod(&self, path: &str, body: &Value) -> Result<Answer, Broken> {
        let waits =
            |answer: &Answer| answer.code == 403 && answer.message().contains("service account");
        self.until_so(
            "an account for pods",
            |answer| !waits(answer),
            async || self.post(path, body).await,
        )
        .await
    }

    /// Gives a pod of nobody a node that is not there.
    pub(super) async fn bind(&self, pod: &str) -> Outcome {
        let binding =
            json!({"metadata": {"name": pod}, "target": {"kind": "Node", "name": NO_NODE}});
        self.post(&self.core(&format!("pods/{pod}/binding")), &binding)
            .await?
            .created()
            .map(|_| ())
    }

    /// A new Deployment without pods.
    pub(super) async fn deployment(&self, name: &str) -> Result<Value, Broken> {
        self.post(&self.apps("deployments"), &deployment(name))
            .await?
            .created()
            .cloned()
    }

    /// What a watch says that ends after a second.
    pub(super) async fn frames(&self, path: &str, query: &str) -> Result<Vec<Value>, Broken> {
        self.get(&format!("{path}?watch=1&timeoutSeconds=1&{query}"))
            .await?
            .frames()
    }
}

fn bytes_of(body: &Value) -> Vec<u8> {
    if body.is_null() {
        Vec::new()
    } else {
        body.to_string().into_bytes()
    }
}

/// Of pods that no scheduler takes.
pub(super) fn pod_template(metadata: Value) -> Value {
    let containers = json!([{"name": "c", "image": "registry.k8s.io/pause:3.10"}]);
    json!({"metadata": metadata, "spec": {"schedulerName": "nobody", "containers": containers}})
}

pub(super) fn deployment(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": workload_spec(name)})
}

/// Without replicas: a selector and the template that fits it.
pub(super) fn workload_spec(app: &str) -> Value {
    let labels = json!({"app": app});
    json!({"replicas": 0, "selector": {"matchLabels": labels}, "template": pod_template(json!({"labels": labels}))})
}

impl Answer {
    pub(super) fn broken(&self, expected: &str) -> Broken {
        Broken(format!(
            "{}: expected {expected}, got {} {}",
            self.asked, self.code, self.text
        ))
    }

    pub(super) fn message(&self) -> &str {
        text(&self.body, "/message")
    }

    /// The body, if code and reason (none for a success) are these.
    pub(super) fn is(&self, code: u16, reason: &str) -> Result<&Value, Broken> {
        let given = if self.body["kind"] == "Status" {
            text(&self.body, "/reason")
        } else {
            ""
        };
        if (self.code, given) == (code, reason) {
            Ok(&self.body)
        } else {
            Err(self.broken(&format!("{code} {reason}")))
        }
    }

    pub(super) fn ok(&self) -> Result<&Value, Broken> {
        self.is(200, "")
    }

    pub(super) fn created(&self) -> Result<&Value, Broken> {
        self.is(201, "")
    }

    /// A refusal whose message has `part`.
    pub(super) fn refuses(&self, code: u16, reason: &str, part: &str) -> Outcome {
        let body = self.is(code, reason)?;
        let whole = body["kind"] == "Status"
            && body["apiVersion"] == "v1"
            && body["status"] == "Failure"
            && body["code"] == code;
        if whole && self.message().contains(part) {
            Ok(())
        } else {
            Err(self.broken(&format!("a Status saying {part:?}")))
        }
    }

    /// A refusal of the object, or of the options, with `part` in its message.
    pub(super) fn invalid(&self, part: &str) -> Outcome {
        self.refuses(422, "Invalid", part)
    }

    /// The value at `pointer` is `expected`.
    pub(super) fn has(&self, pointer: &str, expected: Value) -> Outcome {
        at(&self.body, pointer, expected).map_err(|why| Broken(format!("{}: {why}", self.asked)))
    }

    pub(super) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }

    /// The texts of its warnings.
    pub(super) fn warnings(&self) -> Vec<String> {
        let texts = self
            .headers
            .get_all("warning")
            .iter()
            .filter_map(|value| std::str::from_utf8(value.as_bytes()).ok());
        let text = |text: &str| {
            text.strip_prefix("299 - \"")?
                .strip_suffix('"')
                .map(|text| text.replace("\\\"", "\""))
        };
        texts
            .map(|given| text(given).unwrap_or_else(|| format!("of another form: {given}")))
            .collect()
    }

    /// What a watch said: one document per line.
    pub(super) fn frames(&self) -> Result<Vec<Value>, Broken> {
        if self.code != 200 {
            return Err(self.broken("200"));
        }
        let frame = |line| {
            let frame: Value = serde_json::from_str(line)
                .map_err(|error| Broken(format!("{}: {error} in {line}", self.asked)))?;
            if frame["type"].is_string() {
                Ok(frame)
            } else {
                Err(self.broken("frames"))
            }
        };
        self.text.lines().map(frame).collect()
    }
}

/// Type and name of each frame.
pub(super) fn told(frames: &[Value]) -> Value {
    frames
        .iter()
        .map(|frame| json!([frame["type"], frame["object"]["metadata"]["name"]]))
        .collect()
}

/// The value at `pointer` is `expected`; null where there must be none.
pub(super) fn at(object: &Value, pointer: &str, expected: Value) -> Outcome {
    let found = object.pointer(pointer).unwrap_or(&Value::Null);
    equal(pointer, found, &expected)
}

pub(super) fn equal(what: &str, found: &Value, expected: &Value) -> Outcome {
    if found == expected {
        Ok(())
    } else {
        Err(Broken(format!(
            "{what}: expected {expected}, found {found}"
        )))
    }
}

pub(super) fn holds(what: &str, is_so: bool) -> Outcome {
    if is_so {
        Ok(())
    } else {
        Err(Broken(format!("not so: {what}")))
    }
}

/// Everything in `expected` is in `found`: fields of maps, and elements of lists of the same
/// length.
pub(super) fn includes(what: &str, found: &Value, expected: &Value) -> Outcome {
    match expected {
        Value::Object(fields) => fields
            .iter()
            .try_for_each(|(key, value)| includes(&format!("{what}.{key}"), &found[key], value)),
        Value::Array(list)
            if found
                .as_array()
                .is_some_and(|found| found.len() == list.len()) =>
        {
            list.iter().enumerate().try_for_each(|(index, value)| {
                includes(&format!("{what}[{index}]"), &found[index], value)
            })
        }
        _ => equal(what, found, expected),
    }
}

pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

pub(super) fn version(object: &Value) -> &str {
    text(object, "/metadata/resourceVersion")
}

/// The same as a number; 0 for none.
pub(super) fn revision(object: &Value) -> u64 {
    version(object).parse().unwrap_or_default()
}

/// Names of the items of a list.
pub(super) fn names(list: &Value) -> Vec<&str> {
    list["items"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|item| text(item, "/metadata/name"))
        .collect()
}

/// For the value of a parameter.
pub(super) fn escaped(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}
