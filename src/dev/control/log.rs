//! The request log as JSON.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};
use steersman_devcluster::DevCluster;
use steersman_devcluster::requests::RequestRecord;

/// The body of `POST /requests`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Change {
    /// Whether records of further requests have the bodies of request and answer.
    bodies: bool,
}

impl Change {
    pub(super) fn apply(&self, cluster: &DevCluster) {
        if self.bodies {
            cluster.keep_contents();
        } else {
            cluster.drop_contents();
        }
    }
}

/// A record; `body` and `answer` are absent unless the log keeps them.
pub(super) fn shown(request: &RequestRecord) -> Value {
    let mut shown = json!({
        "verb": request.verb, "resource": request.resource, "path": request.path,
        "userAgent": request.user_agent, "user": request.user, "status": request.status,
        "revision": request.revision,
    });
    if let Some(content) = &request.content {
        shown["contentType"] = content.content_type.as_str().into();
        shown["body"] = body(&content.body);
        shown["answer"] = body(&content.answer);
    }
    shown
}

/// A body: its JSON, else its text, else `{"base64": "..."}` such as for protobuf; null if it is empty.
fn body(bytes: &[u8]) -> Value {
    if bytes.is_empty() {
        return Value::Null;
    }
    let json = serde_json::from_slice(bytes).ok();
    let text = || std::str::from_utf8(bytes).ok().map(Value::from);
    json.or_else(text)
        .unwrap_or_else(|| json!({"base64": STANDARD.encode(bytes)}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_json_or_text_or_base64() {
        // (body, shown)
        let cases: [(&[u8], Value); 4] = [
            (b"", Value::Null),
            (br#"{"a": 1}"#, json!({"a": 1})),
            (b"a: 1\n", json!("a: 1\n")),
            (b"k8s\0\xff", json!({"base64": "azhzAP8="})),
        ];
        for (bytes, expected) in cases {
            assert_eq!(body(bytes), expected);
        }
    }
}
