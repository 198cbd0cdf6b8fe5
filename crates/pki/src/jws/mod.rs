//! Detached JWS signatures with the secret of a bootstrap token (RFC 7515, appendix F).
//!
//! A new node computes the signature of `cluster-info` itself and compares the texts, so every byte
//! of the header counts. Upstream: `k8s.io/cluster-bootstrap/token/jws`.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac::{self, HMAC_SHA256};
use serde_json::Value;

/// The signature of `content` with the bootstrap token `id.secret`: `HEADER..MAC`, both in base64.
pub fn detached_signature(content: &[u8], id: &str, secret: &[u8]) -> String {
    let header = format!(r#"{{"alg":"HS256","kid":{}}}"#, Value::from(id));
    let header = URL_SAFE_NO_PAD.encode(header);
    let input = format!("{header}.{}", URL_SAFE_NO_PAD.encode(content));
    let mac = hmac::sign(&hmac::Key::new(HMAC_SHA256, secret), input.as_bytes());
    format!("{header}..{}", URL_SAFE_NO_PAD.encode(mac))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cases were computed with upstream's package.
    #[test]
    fn signatures_equal_upstreams() {
        let data: Value = serde_json::from_str(include_str!("bootstrap-jws.json")).unwrap();
        let cases = data["cases"].as_array().unwrap();
        assert_eq!(cases.len(), 8);
        for case in cases {
            let text = |field: &str| case[field].as_str().unwrap();
            let content = text("kubeconfig").as_bytes();
            let secret = text("tokenSecret").as_bytes();
            let found = detached_signature(content, text("tokenID"), secret);
            assert_eq!(found, text("signature"), "{}", text("name"));
        }
    }

    /// Upstream: `TestComputeDetachedSignature` and `TestDetachedTokenIsValid`.
    #[test]
    fn signatures_of_upstreams_tests() {
        const CONTENT: &str = "Hello from the other side. I must have called a thousand times.";
        // (content, secret, signature)
        let cases = [
            (
                CONTENT,
                "my voice is my passcode",
                "eyJhbGciOiJIUzI1NiIsImtpZCI6Impvc2h1YSJ9..VShe2taLd-YTrmWuRkcL_8QTNDHYxQIEBsAYYiIj1_8",
            ),
            (
                "",
                "my voice is my passcode",
                "eyJhbGciOiJIUzI1NiIsImtpZCI6Impvc2h1YSJ9..7Ui1ALizW4jXphVUB7xUqC9vLYLL9RZeOFfVLoB7Tgk",
            ),
            (
                CONTENT,
                "",
                "eyJhbGciOiJIUzI1NiIsImtpZCI6Impvc2h1YSJ9..UfkqvDGiIFxrMnFseDj9LYJOLNrvjW8aHhF71mvvAs8",
            ),
        ];
        for (content, secret, expected) in cases {
            let found = detached_signature(content.as_bytes(), "joshua", secret.as_bytes());
            assert_eq!(found, expected, "{content:?} with {secret:?}");
        }
    }
}
