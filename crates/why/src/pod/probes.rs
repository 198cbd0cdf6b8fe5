//! The probe behind a message of the kubelet: a failure by its status names neither path nor port.

use serde_json::Value;

use crate::Doc;

/// The first word of a message about a probe, and the field of the probe.
const KINDS: [(&str, &str); 3] = [
    ("Liveness", "livenessProbe"),
    ("Readiness", "readinessProbe"),
    ("Startup", "startupProbe"),
];

/// Parts of messages that name the address themselves.
const TOLD: [&str; 3] = ["://", "dial tcp", "connect service"];

/// `; the readinessProbe of container api is GET /health on port http`, for `Readiness probe failed: ...` about the container
/// `name`, or the only one with such a probe. Empty if it is unknown.
pub(super) fn told(doc: &Doc, name: Option<&str>, message: &str) -> String {
    words(doc, name, message).unwrap_or_default()
}

fn words(doc: &Doc, name: Option<&str>, message: &str) -> Option<String> {
    if TOLD.iter().any(|part| message.contains(part)) {
        return None;
    }
    let is_kind = |(word, _): &&(&str, &str)| message.starts_with(&format!("{word} probe "));
    let (_, field) = KINDS.iter().find(is_kind)?;
    let lists = ["/spec/containers", "/spec/initContainers"].into_iter();
    let all = lists.flat_map(|list| doc.items(list));
    let is_meant = |one: &&Value| name.is_none_or(|name| one["name"] == *name);
    let mut probed = all.filter(is_meant).filter(|one| one[field].is_object());
    let only = probed.next().filter(|_| probed.next().is_none())?;
    let container = only["name"].as_str()?;
    let target = target(&only[field])?;
    Some(format!(
        "; the {field} of container {container} is {target}"
    ))
}

/// `GET /health on port http`. `None` for a command.
fn target(probe: &Value) -> Option<String> {
    let port = |action: &Value| match &action["port"] {
        Value::String(name) => Some(name.clone()),
        port => port.as_i64().map(|port| port.to_string()),
    };
    let http = &probe["httpGet"];
    if let Some(port) = port(http) {
        let path = http["path"].as_str().unwrap_or("/");
        let scheme = match http["scheme"].as_str() {
            Some("HTTPS") => "HTTPS ",
            _ => "",
        };
        return Some(format!("{scheme}GET {path} on port {port}"));
    }
    let others = [
        ("tcpSocket", "a connection to"),
        ("grpc", "a call of gRPC to"),
    ];
    others
        .iter()
        .find_map(|(field, words)| Some(format!("{words} port {}", port(&probe[field])?)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_probe_of_a_message_is_told() {
        let pod = Doc::new(json!({"spec": {"containers": [
            {"name": "api", "readinessProbe": {"httpGet": {"path": "/health", "port": "http"}}, "livenessProbe": {"grpc": {"port": 9000}}},
            {"name": "log", "livenessProbe": {"tcpSocket": {"port": 24224}}, "startupProbe": {"exec": {"command": ["true"]}}},
        ]}}));
        let cases = [
            (
                None,
                "Readiness probe failed: HTTP probe failed with statuscode: 401",
                "; the readinessProbe of container api is GET /health on port http",
            ),
            (
                Some("log"),
                "Liveness probe failed: timeout",
                "; the livenessProbe of container log is a connection to port 24224",
            ),
            (
                Some("log"),
                "Liveness probe failed: dial tcp 10.0.0.1:24224: connection refused",
                "",
            ),
            (
                Some("api"),
                "Liveness probe failed: timeout",
                "; the livenessProbe of container api is a call of gRPC to port 9000",
            ),
            // Two containers have such a probe, a command has no port, and other messages.
            (None, "Liveness probe failed: timeout", ""),
            (None, "Startup probe failed: ", ""),
            (None, "Error: no command", ""),
        ];
        for (name, message, expected) in cases {
            assert_eq!(told(&pod, name, message), expected, "{message}");
        }
    }
}
