//! Bootstrap tokens.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

/// The Secret of a bootstrap token, with `data` as texts.
pub(crate) fn bootstrap_token(name: &str, data: &[(&str, &str)]) -> Value {
    let encoded = |(key, value): &(&str, &str)| ((*key).to_owned(), STANDARD.encode(value).into());
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
        "metadata": {"name": name, "namespace": "kube-system"},
        "data": data.iter().map(encoded).collect::<Map<String, Value>>(),
    })
}

/// The Secret of a valid token `id` that signs, with this expiration unless it is empty.
pub(crate) fn signing_token(id: &str, expiration: &str) -> Value {
    let data = [
        ("token-id", id),
        ("token-secret", "0123456789abcdef"),
        ("usage-bootstrap-signing", "true"),
        ("expiration", expiration),
    ];
    bootstrap_token(&format!("bootstrap-token-{id}"), &data)
}
