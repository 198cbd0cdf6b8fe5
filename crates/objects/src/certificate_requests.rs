//! The cached views of requests for certificates.
//!
//! A cluster may have many CertificateSigningRequests that wait for an approval, so their view
//! is small. A sync reads the request itself from the document ([`SigningRequest`]). Of a
//! PodCertificateRequest, metadata is sufficient. Upstream: `k8s.io/api/certificates`.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

use steersman_values::intern::Sym;
use steersman_values::resource::{CERTIFICATE_SIGNING_REQUESTS, POD_CERTIFICATE_REQUESTS};

use super::wire::{Text, nullable};
use super::{Object as _, Parsed};
use crate::view;

view! {
    /// A request to sign a certificate.
    pub struct CertificateSigningRequest: CERTIFICATE_SIGNING_REQUESTS, keeps document {
        /// `spec`.
        pub spec: CertificateSigningRequestSpec,
        /// `status`.
        pub status: CertificateSigningRequestStatus,
    }

    /// `spec` of a CertificateSigningRequest.
    pub struct CertificateSigningRequestSpec {
        /// The signer that is asked, such as `kubernetes.io/kubelet-serving`.
        pub signer_name: Sym,
    }

    /// `status` of a CertificateSigningRequest.
    pub struct CertificateSigningRequestStatus {
        /// Conditions.
        pub conditions: Vec<CertificateSigningRequestCondition>,
        /// Whether there is a certificate.
        pub certificate: IsSet,
    }

    /// A condition of a CertificateSigningRequest.
    pub struct CertificateSigningRequestCondition {
        /// `Approved`, `Denied`, `Failed`, or a type of another signer.
        #[serde(rename = "type")]
        pub kind: Sym,
        /// `True`, `False` or `Unknown`; empty when unset.
        pub status: Sym,
        /// Time of the last change; unset when missing or malformed.
        pub last_update_time: Parsed<Timestamp>,
    }
}

view! {
    /// A request of a kubelet for the certificate of a pod.
    pub struct PodCertificateRequest: POD_CERTIFICATE_REQUESTS {
    }
}

/// Whether a string is not empty. The view does not keep the string.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IsSet(pub bool);

impl<'de> Deserialize<'de> for IsSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(!Text::deserialize(deserializer)?.is_empty()))
    }
}

/// The parts of a CertificateSigningRequest that only its sync reads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SigningRequest {
    /// The request of the client, a text in PEM. The API server has checked its signature.
    pub request: Vec<u8>,
    /// The certificate in PEM; empty if there is none.
    pub certificate: Vec<u8>,
    /// Requested usages.
    pub usages: Vec<String>,
    /// Requested lifetime.
    pub expiration_seconds: Option<i32>,
    /// User name of the client that created the object. The API server has set this and the
    /// following fields.
    pub username: String,
    /// UID of the client.
    pub uid: String,
    /// Groups of the client.
    pub groups: Vec<String>,
    /// Other properties of the client.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl CertificateSigningRequest {
    /// The condition of this type.
    pub fn condition(&self, kind: &str) -> Option<&CertificateSigningRequestCondition> {
        let mut conditions = self.status.conditions.iter();
        conditions.find(|condition| condition.kind == *kind)
    }

    /// Whether the request is approved and not denied, whatever the status of these conditions.
    /// Upstream: `IsCertificateRequestApproved`.
    pub fn is_approved(&self) -> bool {
        self.condition("Approved").is_some() && self.condition("Denied").is_none()
    }

    /// The content of the request.
    pub fn content(&self) -> SigningRequest {
        #[derive(Deserialize)]
        struct Wire {
            #[serde(default, deserialize_with = "nullable")]
            spec: Spec,
            #[serde(default, deserialize_with = "nullable")]
            status: Status,
        }
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct Spec {
            #[serde(deserialize_with = "nullable")]
            request: String,
            #[serde(deserialize_with = "nullable")]
            usages: Vec<String>,
            expiration_seconds: Option<i32>,
            #[serde(deserialize_with = "nullable")]
            username: String,
            #[serde(deserialize_with = "nullable")]
            uid: String,
            #[serde(deserialize_with = "nullable")]
            groups: Vec<String>,
            #[serde(deserialize_with = "nullable")]
            extra: BTreeMap<String, Vec<String>>,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Status {
            #[serde(deserialize_with = "nullable")]
            certificate: String,
        }
        // The API server sends base64. Bytes of another kind are no PEM, as nothing is.
        let decode = |text: String| STANDARD.decode(text).unwrap_or_default();
        let object: Option<Wire> = serde_json::from_str(&self.document.text()).ok();
        let Some(Wire { spec, status }) = object else {
            return SigningRequest::default();
        };
        SigningRequest {
            request: decode(spec.request),
            certificate: decode(status.certificate),
            usages: spec.usages,
            expiration_seconds: spec.expiration_seconds,
            username: spec.username,
            uid: spec.uid,
            groups: spec.groups,
            extra: spec.extra,
        }
    }

    /// The whole object for a PUT, with one condition more.
    pub fn with_condition(&self, condition: Value) -> Value {
        self.with_status(|status| {
            let conditions = status.entry("conditions").or_insert(Value::Null);
            match conditions {
                Value::Array(conditions) => conditions.push(condition),
                other => *other = json!([condition]),
            }
        })
    }

    /// The whole object for a PUT, with this certificate in PEM.
    pub fn with_certificate(&self, pem: &str) -> Value {
        self.with_status(|status| {
            status.insert("certificate".to_owned(), json!(STANDARD.encode(pem)));
        })
    }

    fn with_status(&self, change: impl FnOnce(&mut Map<String, Value>)) -> Value {
        let mut object = self.document.to_object();
        // Objects in a list lack these two fields.
        object.insert("apiVersion".to_owned(), json!(Self::RESOURCE.api_version()));
        object.insert("kind".to_owned(), json!(Self::RESOURCE.kind));
        let status = object.entry("status").or_insert(Value::Null);
        if status.is_null() {
            *status = json!({});
        }
        if let Value::Object(status) = status {
            change(status);
        }
        Value::Object(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(json: &Value) -> CertificateSigningRequest {
        CertificateSigningRequest::decode(json.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn a_request_is_decoded() {
        let approved = json!({"type": "Approved", "status": "True", "reason": "r",
            "lastUpdateTime": "2026-01-02T03:04:05Z"});
        let csr = decode(&json!({
            "metadata": {"name": "c"},
            "spec": {
                "request": "cGVt", "signerName": "example.com/s", "expirationSeconds": 600,
                "usages": ["client auth"], "username": "jane", "uid": "u", "groups": ["g"],
                "extra": {"key": ["value"]},
            },
            "status": {"certificate": "Y2VydA==", "conditions": [approved, {"type": "Failed"}]},
        }));
        assert_eq!(csr.spec.signer_name, *"example.com/s");
        assert!(csr.status.certificate.0 && csr.is_approved());
        let time = |kind| {
            csr.condition(kind)
                .map(|condition| condition.last_update_time.0)
        };
        let approval = Some(Some("2026-01-02T03:04:05Z".parse().unwrap()));
        assert_eq!(
            [time("Approved"), time("Failed"), time("Denied")],
            [approval, Some(None), None]
        );
        let expected = SigningRequest {
            request: b"pem".to_vec(),
            certificate: b"cert".to_vec(),
            usages: vec!["client auth".to_owned()],
            expiration_seconds: Some(600),
            username: "jane".to_owned(),
            uid: "u".to_owned(),
            groups: vec!["g".to_owned()],
            extra: BTreeMap::from([("key".to_owned(), vec!["value".to_owned()])]),
        };
        assert_eq!(csr.content(), expected);

        let bare =
            json!({"metadata": {"name": "c"}, "spec": null, "status": {"certificate": null}});
        let bare = decode(&bare);
        assert!(!bare.status.certificate.0 && bare.status.conditions.is_empty());
        assert_eq!(bare.content(), SigningRequest::default());
        let odd = json!({"metadata": {"name": "c"}, "spec": {"request": "?"}});
        assert_eq!(decode(&odd).content(), SigningRequest::default());
    }

    /// Upstream: `TestIsCertificateRequestApproved`.
    #[test]
    fn is_certificate_request_approved() {
        // (types of the conditions, approved)
        let cases: [(&[&str], bool); 4] = [
            (&[], false),
            (&["Approved"], true),
            (&["Denied"], false),
            (&["Approved", "Denied"], false),
        ];
        for (kinds, expected) in cases {
            let conditions: Vec<Value> = kinds.iter().map(|kind| json!({"type": kind})).collect();
            let csr = json!({"metadata": {"name": "c"}, "status": {"conditions": conditions}});
            assert_eq!(decode(&csr).is_approved(), expected, "{kinds:?}");
        }
    }

    #[test]
    fn writes_keep_unknown_fields() {
        let known = json!({
            "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
            "metadata": {"name": "c", "resourceVersion": "7"}, "spec": {"x": 1},
            "status": {"conditions": [{"type": "A"}], "y": 2},
        });
        let mut expected = known.clone();
        expected["status"]["conditions"] = json!([{"type": "A"}, {"type": "B"}]);
        assert_eq!(
            decode(&known).with_condition(json!({"type": "B"})),
            expected
        );
        expected = known.clone();
        expected["status"]["certificate"] = json!("cGVt");
        assert_eq!(decode(&known).with_certificate("pem"), expected);
        let bare = decode(&json!({"metadata": {"name": "c"}}));
        let found = bare.with_condition(json!({"type": "B"}));
        assert_eq!(found["status"], json!({"conditions": [{"type": "B"}]}));
        assert_eq!(found["kind"], "CertificateSigningRequest");
    }
}
