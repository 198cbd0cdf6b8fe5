//! [`World`]: the environment of a check. It has its own namespace, sends plain requests, and
//! describes unexpected answers.

use std::time::Duration;

use http::{HeaderMap, Request};
use http_body_util::BodyExt;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::Broken;

pub(super) type Outcome = Result<(), Broken>;

/// Time limit for controllers and caches of a real server to follow a write.
const TIME_LIMIT: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(100);

pub(super) const JSON: &str = "application/json";
pub(super) const MERGE: &str = "application/merge-patch+json";
pub(super) const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub(super) const JSON_PATCH: &str = "application/json-patch+json";
pub(super) const APPLY: &str = "application/apply-patch+yaml";
pub(super) const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";

/// A finalizer that no controller removes.
pub(super) const KEEP: &str = "conformance.example.com/keep";
/// The name of a node that does not exist.
pub(super) const NO_NODE: &str = "conformance-no-such-node";

/// The environment of a check.
pub(super) struct World {
    client: kube::Client,
    pub(super) namespace: String,
    /// Objects that outlive the namespace or block its deletion.
    left: Mutex<Vec<Leftover>>,
}

#[derive(Clone)]
enum Leftover {
    /// An object outside of the namespace.
    Outside(String),
    /// A CustomResourceDefinition, which a server deletes after its answer.
    Definition(String),
    /// An object with a finalizer.
    Finalized(String),
}

/// An answer, with its request for messages.
#[derive(Debug)]
pub(super) struct Answer {
    request_line: String,
    pub(super) code: u16,
    pub(super) headers: HeaderMap,
    pub(super) text: String,
    pub(super) body: Value,
}

impl World {
    /// Creates a new namespace.
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

    /// Deletes everything that the check created. The error names an object that could not be
    /// deleted.
    pub(super) async fn end(self) -> Outcome {
        let left = self.left.lock().clone();
        let mut ends = Vec::new();
        for one in left {
            match one {
                Leftover::Outside(path) => ends.push(self.delete(&path).await),
                Leftover::Definition(path) => {
                    ends.push(self.delete(&path).await);
                    ends.push(self.until(404, async || self.get(&path).await).await);
                }
                Leftover::Finalized(path) => ends.push(
                    self.merge(&path, &json!({"metadata": {"finalizers": null}}))
                        .await,
                ),
            }
        }
        // Some pods are bound to a missing node, so no kubelet ends them soon.
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

    /// Deletes an object outside of the namespace at the end.
    pub(super) fn delete_at_end(&self, path: impl Into<String>) {
        self.left.lock().push(Leftover::Outside(path.into()));
    }

    /// Deletes a CustomResourceDefinition at the end, and waits for its end: it follows the answer.
    pub(super) fn delete_definition_at_end(&self, path: impl Into<String>) {
        self.left.lock().push(Leftover::Definition(path.into()));
    }

    /// Removes the finalizers of an object at the end.
    pub(super) fn remove_finalizers_at_end(&self, path: impl Into<String>) {
        self.left.lock().push(Leftover::Finalized(path.into()));
    }

    /// Path of a core resource in the namespace, or of an object in it (`pods/a`).
    pub(super) fn core(&self, resource: &str) -> String {
        format!("/api/v1/namespaces/{}/{resource}", self.namespace)
    }

    /// Path of a resource in another group version, such as `apps/v1`.
    pub(super) fn group(&self, group_version: &str, resource: &str) -> String {
        format!(
            "/apis/{group_version}/namespaces/{}/{resource}",
            self.namespace
        )
    }

    /// Path of a resource in `apps/v1`.
    pub(super) fn apps(&self, resource: &str) -> String {
        self.group("apps/v1", resource)
    }

    pub(super) async fn send(
        &self,
        request: http::request::Builder,
        body: Vec<u8>,
    ) -> Result<Answer, Broken> {
        let request = request
            .body(kube::client::Body::from(body))
            .map_err(|error| Broken(error.to_string()))?;
        let request_line = format!("{} {}", request.method(), request.uri());
        let failed = |error: &dyn std::fmt::Display| Broken(format!("{request_line}: {error}"));
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
            request_line,
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

    /// Sends a request with impersonation of `user`.
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

    /// The minor release of the server, such as 36. Some promises came with a release.
    pub(super) async fn minor(&self) -> Result<u32, Broken> {
        let answer = self.get("/version").await?;
        let minor = text(answer.ok()?, "/minor").trim_end_matches('+');
        let number = minor.parse();
        number.map_err(|_| answer.broken("the number of a minor release"))
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

    /// Repeats a request until the answer has this code. Caches of a real server may lag.
    pub(super) async fn until(
        &self,
        code: u16,
        ask: impl AsyncFn() -> Result<Answer, Broken>,
    ) -> Result<Answer, Broken> {
        self.until_so(&code.to_string(), |answer| answer.code == code, ask)
            .await
    }

    /// Repeats a request until `is_so` is true for the answer.
    pub(super) async fn until_so(
        &self,
        expected: &str,
        is_so: impl Fn(&Answer) -> bool,
        ask: impl AsyncFn() -> Result<Answer, Broken>,
    ) -> Result<Answer, Broken> {
        let until = Instant::now() + TIME_LIMIT;
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

    /// Creates a ConfigMap.
    pub(super) async fn map(
        &self,
        name: &str,
        metadata: Value,
        data: Value,
    ) -> Result<Value, Broken> {
        let mut map = json!({"metadata": metadata, "data": data});
        map["metadata"]["name"] = json!(name);
        if map["metadata"].get("finalizers").is_some() {
            self.remove_finalizers_at_end(self.core(&format!("configmaps/{name}")));
        }
        self.post(&self.core("configmaps"), &map)
            .await?
            .created()
            .cloned()
    }

    /// Creates a pod that no scheduler binds. In a new namespace, it first waits for the
    /// ServiceAccount.
    pub(super) async fn pod(&self, name: &str, metadata: Value) -> Result<Value, Broken> {
        self.pod_of(name, metadata, json!({})).await
    }

    /// Creates such a pod with additional fields in its spec.
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
            self.remove_finalizers_at_end(self.core(&format!("pods/{name}")));
        }
        self.post_pod(&self.core("pods"), &pod)
            .await?
            .created()
            .cloned()
    }

    /// Posts an object with pods in it. Repeats while the namespace lacks the ServiceAccount.
    pub(super) async fn post_pod(&self, path: &str, body: &Value) -> Result<Answer, Broken> {
        let waits =
            |answer: &Answer| answer.code == 403 && answer.message().contains("service account");
        self.until_so(
            "a ServiceAccount for pods",
            |answer| !waits(answer),
            async || self.post(path, body).await,
        )
        .await
    }

    /// Binds a pod to a node that does not exist.
    pub(super) async fn bind(&self, pod: &str) -> Outcome {
        let binding =
            json!({"metadata": {"name": pod}, "target": {"kind": "Node", "name": NO_NODE}});
        self.post(&self.core(&format!("pods/{pod}/binding")), &binding)
            .await?
            .created()
            .map(|_| ())
    }

    /// Creates a Deployment without replicas.
    pub(super) async fn deployment(&self, name: &str) -> Result<Value, Broken> {
        self.post(&self.apps("deployments"), &deployment(name))
            .await?
            .created()
            .cloned()
    }

    /// The events of a watch that ends after one second.
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

/// The template of pods that no scheduler binds.
pub(super) fn pod_template(metadata: Value) -> Value {
    let containers = json!([{"name": "c", "image": "registry.k8s.io/pause:3.10"}]);
    json!({"metadata": metadata, "spec": {"schedulerName": "nobody", "containers": containers}})
}

pub(super) fn deployment(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": workload_spec(name)})
}

/// A spec without replicas: a selector, and a template with its labels.
pub(super) fn workload_spec(app: &str) -> Value {
    let labels = json!({"app": app});
    json!({"replicas": 0, "selector": {"matchLabels": labels}, "template": pod_template(json!({"labels": labels}))})
}

impl Answer {
    pub(super) fn broken(&self, expected: &str) -> Broken {
        Broken(format!(
            "{}: expected {expected}, got {} {}",
            self.request_line, self.code, self.text
        ))
    }

    pub(super) fn message(&self) -> &str {
        text(&self.body, "/message")
    }

    /// The body, if the answer has this code and reason (empty for success).
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

    /// Expects an error Status with this code and reason, and `part` in its message.
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

    /// Expects a 422 for the object or its options, with `part` in the message.
    pub(super) fn invalid(&self, part: &str) -> Outcome {
        self.refuses(422, "Invalid", part)
    }

    /// Expects `expected` at `pointer`.
    pub(super) fn has(&self, pointer: &str, expected: Value) -> Outcome {
        at(&self.body, pointer, expected)
            .map_err(|why| Broken(format!("{}: {why}", self.request_line)))
    }

    pub(super) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }

    /// The texts of all warnings.
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

    /// The events of a watch: one JSON document per line.
    pub(super) fn frames(&self) -> Result<Vec<Value>, Broken> {
        if self.code != 200 {
            return Err(self.broken("200"));
        }
        let frame = |line| {
            let frame: Value = serde_json::from_str(line)
                .map_err(|error| Broken(format!("{}: {error} in {line}", self.request_line)))?;
            if frame["type"].is_string() {
                Ok(frame)
            } else {
                Err(self.broken("frames"))
            }
        };
        self.text.lines().map(frame).collect()
    }
}

/// Type and object name of each event.
pub(super) fn types_and_names(frames: &[Value]) -> Value {
    frames
        .iter()
        .map(|frame| json!([frame["type"], frame["object"]["metadata"]["name"]]))
        .collect()
}

/// Expects `expected` at `pointer`; null means that the field must be absent.
pub(super) fn at(object: &Value, pointer: &str, expected: Value) -> Outcome {
    let found = object.pointer(pointer).unwrap_or(&Value::Null);
    equal(pointer, found, &expected)
}

/// Expects equal values. `subject` names the value in the error.
pub(super) fn equal(subject: &str, found: &Value, expected: &Value) -> Outcome {
    if found == expected {
        Ok(())
    } else {
        Err(Broken(format!(
            "{subject}: expected {expected}, found {found}"
        )))
    }
}

/// Expects that a statement is true. `subject` is the statement.
pub(super) fn holds(subject: &str, is_so: bool) -> Outcome {
    if is_so {
        Ok(())
    } else {
        Err(Broken(format!("expected that {subject}")))
    }
}

/// Expects that `found` includes `expected`: all fields of maps, and lists of the same length.
pub(super) fn includes(subject: &str, found: &Value, expected: &Value) -> Outcome {
    match expected {
        Value::Object(fields) => fields
            .iter()
            .try_for_each(|(key, value)| includes(&format!("{subject}.{key}"), &found[key], value)),
        Value::Array(list)
            if found
                .as_array()
                .is_some_and(|found| found.len() == list.len()) =>
        {
            list.iter().enumerate().try_for_each(|(index, value)| {
                includes(&format!("{subject}[{index}]"), &found[index], value)
            })
        }
        _ => equal(subject, found, expected),
    }
}

pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The resourceVersion as text; empty if there is none.
pub(super) fn version(object: &Value) -> &str {
    text(object, "/metadata/resourceVersion")
}

/// The resourceVersion as a number; 0 if there is none.
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

/// Encodes the value of a query parameter.
pub(super) fn escaped(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}
