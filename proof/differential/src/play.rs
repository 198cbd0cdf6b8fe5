//! Plays a sequence on two servers and compares the answers.

use anyhow::{Context, Result};
use http::Request;
use http_body_util::BodyExt;
use serde_json::{Map, Value, json};

use crate::sequence::{Sequence, Step};

/// The answer to one request, without the parts that differ from server to server.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: Value,
}

/// The first step whose answers differ.
#[derive(Debug, Clone)]
pub(crate) struct Difference {
    pub(crate) at: usize,
    pub(crate) real: Answer,
    pub(crate) embedded: Answer,
}

/// Both servers.
#[derive(Clone)]
pub(crate) struct Servers {
    pub(crate) real: kube::Client,
    pub(crate) embedded: kube::Client,
}

impl Servers {
    /// Plays `sequence` with an object of this name on both servers.
    pub(crate) async fn play(&self, sequence: &Sequence, name: &str) -> Result<Option<Difference>> {
        let mut last_real = Value::Null;
        let mut last_embedded = Value::Null;
        for (at, step) in sequence.steps.iter().enumerate() {
            let real = ask(&self.real, step, name, &mut last_real).await?;
            let embedded = ask(&self.embedded, step, name, &mut last_embedded).await?;
            if real != embedded {
                return Ok(Some(Difference { at, real, embedded }));
            }
        }
        Ok(None)
    }
}

/// Sends one step. `last` is the object that the server answered last.
async fn ask(client: &kube::Client, step: &Step, name: &str, last: &mut Value) -> Result<Answer> {
    let mut body = step.body.clone();
    if step.onto_last {
        let mut whole = last.clone();
        merge(&mut whole, &body);
        body = whole;
    }
    let body = body.to_string().replace("NAME", name);
    let (code, answer) = send(
        client,
        step.method,
        &step.path.replace("NAME", name),
        step.content_type,
        body,
    )
    .await?;
    if code < 300 {
        *last = answer.clone();
    }
    Ok(Answer {
        code,
        body: masked(answer),
    })
}

/// Sends one request. The body of the answer is null if it is no JSON.
pub(crate) async fn send(
    client: &kube::Client,
    method: &str,
    path: &str,
    content_type: &str,
    body: String,
) -> Result<(u16, Value)> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", content_type)
        .body(body.into_bytes().into())?;
    let answer = client
        .send(request)
        .await
        .with_context(|| format!("{method} {path}"))?;
    let code = answer.status().as_u16();
    let bytes = answer.into_body().collect().await?.to_bytes();
    Ok((code, serde_json::from_slice(&bytes).unwrap_or_default()))
}

/// Merges `patch` into `value`; lists are replaced.
fn merge(value: &mut Value, patch: &Value) {
    match (value, patch) {
        (Value::Object(fields), Value::Object(patch)) => {
            for (key, patch) in patch {
                merge(fields.entry(key.clone()).or_insert(Value::Null), patch);
            }
        }
        (value, patch) => *value = patch.clone(),
    }
}

/// A body without UIDs, versions, times and random addresses. Managers and the lines of errors have an
/// order.
fn masked(mut body: Value) -> Value {
    if body["kind"] == "Status" {
        let message = masked_text(body["message"].as_str().unwrap_or_default());
        if message.contains(STOPS_AT_RANDOM) {
            return json!({"reason": body["reason"], "message": STOPS_AT_RANDOM});
        }
        let message = if message.contains(IN_RANDOM_ORDER) {
            in_order(&message)
        } else {
            message
        };
        let mut lines: Vec<&str> = message.lines().collect();
        lines.sort_unstable();
        let mut causes: Vec<String> = body["details"]["causes"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|cause| masked_text(&cause.to_string()))
            .collect();
        causes.sort_unstable();
        return json!({"reason": body["reason"], "message": lines, "causes": causes});
    }
    if body["kind"] == "Service" {
        mask_addresses(&mut body["spec"]);
    }
    if let Some(metadata) = body["metadata"].as_object_mut() {
        for field in ["uid", "resourceVersion", "creationTimestamp"] {
            metadata.remove(field);
        }
        if metadata.contains_key("deletionTimestamp") {
            metadata["deletionTimestamp"] = json!("TIME");
        }
        let managers = metadata
            .get_mut("managedFields")
            .and_then(Value::as_array_mut);
        if let Some(managers) = managers {
            for time in managers
                .iter_mut()
                .filter_map(|entry| entry.get_mut("time"))
            {
                *time = json!("TIME");
            }
            managers.sort_by_key(|entry| {
                let text = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
                ["manager", "operation", "apiVersion", "subresource"].map(text)
            });
        }
    }
    body
}

/// An error of upstream's typed values. The check of a map stops there, and goes through its fields in
/// random order, so that other errors appear or not.
const STOPS_AT_RANDOM: &str = "field not declared in schema";

/// A part of the errors of custom objects, which upstream finds in random order.
const IN_RANDOM_ORDER: &str = " in body ";

/// A message with its errors in order.
fn in_order(message: &str) -> String {
    let (head, errors) = message.split_once(": [").unwrap_or(("", message));
    let mut errors: Vec<&str> = errors.trim_end_matches(']').split(", ").collect();
    errors.sort_unstable();
    format!("{head}: {}", errors.join(", "))
}

/// The first bytes of all addresses of Services. `ControlPlane` configures them.
const SERVICE_NETWORK: &str = "10.96.";

/// Masks the addresses and ports of a Service's spec that a server assigns at random.
fn mask_addresses(spec: &mut Value) {
    let mask = |value: &mut Value| {
        if value
            .as_str()
            .is_some_and(|address| address.starts_with(SERVICE_NETWORK))
        {
            *value = json!("ADDRESS");
        }
    };
    let Some(fields) = spec.as_object_mut() else {
        return;
    };
    if let Some(address) = fields.get_mut("clusterIP") {
        mask(address);
    }
    if let Some(addresses) = fields.get_mut("clusterIPs").and_then(Value::as_array_mut) {
        addresses.iter_mut().for_each(mask);
    }
    if let Some(port) = fields.get_mut("healthCheckNodePort") {
        *port = json!("PORT");
    }
    let ports = fields.get_mut("ports").and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten() {
        if let Some(port) = port.get_mut("nodePort") {
            *port = json!("PORT");
        }
    }
}

/// A text without random addresses, and without the UIDs, times and versions of an object that it shows.
fn masked_text(text: &str) -> String {
    let text = without_addresses(text);
    if !text.contains("resourceVersion\\") {
        return text;
    }
    let is_random = |field: &&str| {
        ["uid\\", "resourceVersion\\", "Timestamp\\", "time\\"]
            .iter()
            .any(|name| field.contains(name))
    };
    let fields: Vec<&str> = text.split(',').filter(|field| !is_random(field)).collect();
    fields.join(",")
}

/// A text with a mark in place of each address of a Service.
fn without_addresses(text: &str) -> String {
    let mut parts = text.split(SERVICE_NETWORK);
    let mut masked = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        masked.push_str("ADDRESS");
        masked.push_str(
            part.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.'),
        );
    }
    masked
}

/// The places at which two values differ.
pub(crate) fn differences(real: &Value, embedded: &Value) -> Vec<String> {
    let mut found = Vec::new();
    walk("", real, embedded, &mut found);
    found
}

fn walk(path: &str, real: &Value, embedded: &Value, found: &mut Vec<String>) {
    let null = Value::Null;
    match (real, embedded) {
        (a, b) if a == b => {}
        (Value::Object(a), Value::Object(b)) => {
            let keys: Map<String, Value> = a
                .keys()
                .chain(b.keys())
                .map(|key| (key.clone(), Value::Null))
                .collect();
            for (key, _) in keys {
                let a = a.get(&key);
                let b = b.get(&key);
                match (a, b) {
                    (None, Some(b)) => found.push(format!("{path}.{key}: real none, embedded {b}")),
                    (Some(a), None) => found.push(format!("{path}.{key}: real {a}, embedded none")),
                    _ => walk(
                        &format!("{path}.{key}"),
                        a.unwrap_or(&null),
                        b.unwrap_or(&null),
                        found,
                    ),
                }
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                walk(&format!("{path}[{index}]"), a, b, found);
            }
        }
        (a, b) => found.push(format!("{path}: real {a}, embedded {b}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_addresses_of_services_are_equal() {
        let service = |address: &str, port: u16| {
            let spec = json!({
                "clusterIP": address, "clusterIPs": [address, "fd00::1"], "healthCheckNodePort": port,
                "ports": [{"port": 80, "nodePort": port}, {"port": 81}],
            });
            json!({"kind": "Service", "metadata": {"name": "s"}, "spec": spec})
        };
        let one = masked(service("10.96.1.2", 30_001));
        assert_eq!(one, masked(service("10.96.200.31", 30_999)));
        assert_ne!(one, masked(service("None", 30_001)));
        let mut fewer = service("10.96.1.2", 30_001);
        fewer["spec"]["clusterIPs"] = json!(["10.96.1.2"]);
        assert_ne!(one, masked(fewer));
    }

    #[test]
    fn random_addresses_in_errors_are_equal() {
        let status = |address: &str| {
            let message =
                format!("spec.clusterIPs: Invalid value: [\"{address}\"]: may not change once set");
            json!({"kind": "Status", "message": message, "details": {"causes": [{"message": message}]}})
        };
        assert_eq!(masked(status("10.96.1.2")), masked(status("10.96.200.31")));
        assert_ne!(masked(status("10.96.1.2")), masked(status("None")));
    }
}
