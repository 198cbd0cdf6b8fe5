//! The answer to a request, without the parts that differ from server to server.

use anyhow::{Context, Result};
use http::Request;
use http_body_util::BodyExt;
use serde_json::{Map, Value, json};

/// The answer to one request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) warnings: Vec<String>,
    pub(crate) body: Value,
}

/// Sends one request. The body of the answer is null if it is no JSON.
pub(crate) async fn send(
    client: &kube::Client,
    method: &str,
    path: &str,
    content_type: &str,
    body: String,
) -> Result<Answer> {
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
    let warnings = answer.headers().get_all("warning").iter();
    let warnings = warnings
        .map(|warning| String::from_utf8_lossy(warning.as_bytes()).into_owned())
        .collect();
    let bytes = answer.into_body().collect().await?.to_bytes();
    Ok(Answer {
        code,
        warnings,
        body: serde_json::from_slice(&bytes).unwrap_or_default(),
    })
}

impl Answer {
    /// The answer without the parts that differ from server to server.
    pub(crate) fn masked(self) -> Self {
        Self {
            body: masked(self.body),
            ..self
        }
    }

    /// The places at which the embedded server answered otherwise than the real one, which is `self`.
    pub(crate) fn differences(&self, embedded: &Self) -> Vec<String> {
        if self.code != embedded.code {
            return vec![
                format!("code: real {}, embedded {}", self.code, embedded.code),
                format!("real: {}", self.body),
                format!("embedded: {}", embedded.body),
            ];
        }
        let mut found = Vec::new();
        if self.warnings != embedded.warnings {
            found.push(format!(
                "warnings: real {:?}, embedded {:?}",
                self.warnings, embedded.warnings
            ));
        }
        found.extend(differences(&self.body, &embedded.body));
        found
    }
}

/// A body without UIDs, versions, times and random addresses. Managers and the lines of errors have an
/// order.
pub(crate) fn masked(mut body: Value) -> Value {
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
    if body["kind"] == "CustomResourceDefinition" || body["kind"] == "APIService" {
        mask_conditions(&mut body["status"]);
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

/// Masks the times of conditions that the server sets, and orders the conditions: several controllers
/// write them at once.
fn mask_conditions(status: &mut Value) {
    let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut) else {
        return;
    };
    for condition in conditions.iter_mut() {
        if let Some(time) = condition.get_mut("lastTransitionTime") {
            *time = json!("TIME");
        }
    }
    conditions.sort_by_key(|condition| condition["type"].as_str().map(str::to_owned));
}

/// Masks texts in the answer to a document that a server generates: UIDs in labels of Jobs, and the
/// suffixes of names, of the volumes with tokens of accounts, and of names from `generated_from`.
pub(crate) fn mask_generated(body: &mut Value, generated_from: Option<&str>) {
    const TOKENS: &str = "kube-api-access-";
    let text = body.to_string();
    let mut masked = without_uids(&text);
    for prefix in [Some(TOKENS), generated_from].into_iter().flatten() {
        masked = without_suffixes(&masked, prefix);
    }
    if masked != text {
        *body = serde_json::from_str(&masked).unwrap_or_default();
    }
}

/// Drops the certificate that OpenShift's build of kube-apiserver adds to the volumes with tokens of
/// accounts.
pub(crate) fn drop_openshift_source(pod: &mut Value) {
    let volumes = pod
        .pointer_mut("/spec/volumes")
        .and_then(Value::as_array_mut);
    for volume in volumes.into_iter().flatten() {
        let sources = volume
            .pointer_mut("/projected/sources")
            .and_then(Value::as_array_mut);
        if let Some(sources) = sources {
            sources.retain(|source| source["configMap"]["name"] != "openshift-service-ca.crt");
        }
    }
}

/// A text with a mark in place of each five letters after `prefix`.
fn without_suffixes(text: &str, prefix: &str) -> String {
    let mut parts = text.split(prefix);
    let mut masked = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        masked.push_str(prefix);
        match part.split_at_checked(5) {
            Some((suffix, rest)) if suffix.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
                masked.push_str("RANDOM");
                masked.push_str(rest);
            }
            _ => masked.push_str(part),
        }
    }
    masked
}

/// A text without random addresses, and without the UIDs, times and versions of an object that it shows.
fn masked_text(text: &str) -> String {
    let text = without_uids(&without_addresses(text));
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

/// A text with a mark in place of each UID.
fn without_uids(text: &str) -> String {
    const LENGTH: usize = 36;
    let mut masked = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let uid = rest.get(..LENGTH).filter(|part| is_uid(part));
        let length = if uid.is_some() {
            masked.push_str("UID");
            LENGTH
        } else {
            masked.push(first);
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    masked
}

fn is_uid(text: &str) -> bool {
    text.bytes().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    })
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
    fn generated_names_are_equal() {
        let pod = |token: &str, name: &str| {
            let volume = json!({"name": format!("kube-api-access-{token}")});
            let mut pod = json!({"metadata": {"name": name}, "spec": {"volumes": [volume]}});
            mask_generated(&mut pod, Some("web-"));
            pod
        };
        assert_eq!(pod("b2c4d", "web-xz9bc"), pod("99999", "web-vvvvv"));
        assert_ne!(pod("b2c4d", "web-xz9bc"), pod("b2c4d", "other"));
        assert_ne!(pod("b2c4d", "web-xz9bc"), pod("no", "web-xz9bc"));
    }

    #[test]
    fn uids_in_labels_are_equal() {
        let job = |uid: &str| {
            let mut job = json!({"metadata": {"labels": {"controller-uid": uid}}});
            mask_generated(&mut job, None);
            job
        };
        let one = job("0b8ad21d-7ee5-4b2f-a2a1-0aa1fc9a5d1f");
        assert_eq!(one, job("ffffffff-7ee5-4b2f-a2a1-0aa1fc9a5d1f"));
        assert_ne!(one, job("other"));
    }

    #[test]
    fn the_certificate_of_openshift_is_dropped() {
        let pod = |names: &[&str]| {
            let source = |name: &&str| json!({"configMap": {"name": name}});
            let sources: Vec<Value> = names.iter().map(source).collect();
            json!({"spec": {"volumes": [{"projected": {"sources": sources}}, {"emptyDir": {}}]}})
        };
        let mut found = pod(&["kube-root-ca.crt", "openshift-service-ca.crt"]);
        drop_openshift_source(&mut found);
        assert_eq!(found, pod(&["kube-root-ca.crt"]));
    }

    #[test]
    fn uids_in_errors_are_equal() {
        let status = |uid: &str| json!({"kind": "Status", "message": format!("the UID is {uid}é")});
        let one = status("0b8ad21d-7ee5-4b2f-a2a1-0aa1fc9a5d1f");
        assert_eq!(
            masked(one.clone()),
            masked(status("ffffffff-7ee5-4b2f-a2a1-0aa1fc9a5d1f"))
        );
        assert_ne!(masked(one), masked(status("missing")));
    }

    #[test]
    fn conditions_of_definitions_have_no_order_and_no_times() {
        let condition = |kind: &str, value: &str, time: &str| json!({"type": kind, "status": value, "lastTransitionTime": time});
        let definition = |conditions: [Value; 2]| {
            masked(
                json!({"kind": "CustomResourceDefinition", "status": {"conditions": conditions}}),
            )
        };
        let named = |time| condition("NamesAccepted", "True", time);
        let established = |value| condition("Established", value, "t");
        let one = definition([named("t1"), established("True")]);
        assert_eq!(one, definition([established("True"), named("t2")]));
        assert_ne!(one, definition([named("t1"), established("False")]));
    }

    #[test]
    fn codes_warnings_and_bodies_differ() {
        let answer = |code, warning: &str, body| Answer {
            code,
            warnings: vec![warning.to_owned()],
            body,
        };
        let real = answer(201, "w", json!({"a": 1}));
        let lines = |embedded| real.differences(&embedded);
        assert_eq!(lines(real.clone()), [""; 0]);
        assert_eq!(
            lines(answer(200, "w", json!({"a": 1})))[0],
            "code: real 201, embedded 200"
        );
        assert_eq!(
            lines(answer(201, "v", json!({"a": 2}))),
            [
                r#"warnings: real ["w"], embedded ["v"]"#,
                ".a: real 1, embedded 2"
            ]
        );
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
