//! Certificates of new nodes: a kubelet requests its own with a bootstrap token.
//!
//! key -> CertificateSigningRequest -> approved and signed by the controllers (informer) ->
//! [`Credential`]
//!
//! Upstream: `pkg/kubelet/certificate/bootstrap`.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use prometheus::Registry;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use serde::Deserialize;
use serde_json::{Value, json};
use steersman_client::{ApiClient, ApiError, Target};
use steersman_objects::{DecodeError, Meta, Object, ObjectKey, ObjectMetadata};
use steersman_runtime::informer::{Change, InformerFactory, SharedInformer};
use steersman_runtime::tasks::{CancellationToken, Tasks};
use steersman_values::resource::ResourceType;
use tokio::sync::oneshot;

/// The signer of client certificates of kubelets.
const SIGNER: &str = "kubernetes.io/kube-apiserver-client-kubelet";

const REQUESTS: ResourceType = ResourceType {
    group: Cow::Borrowed("certificates.k8s.io"),
    version: Cow::Borrowed("v1"),
    kind: Cow::Borrowed("CertificateSigningRequest"),
    plural: Cow::Borrowed("certificatesigningrequests"),
    namespaced: false,
};

/// The certificate and key of a kubelet, as PEM.
pub struct Credential {
    /// The certificate.
    pub certificate_pem: String,
    /// Its private key.
    pub key_pem: String,
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credential")
            .field("certificate_pem", &self.certificate_pem)
            .finish_non_exhaustive()
    }
}

/// A node has no certificate.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The key or the request could not be made.
    #[error("make a certificate request: {0}")]
    Request(#[from] rcgen::Error),
    /// The request could not be created.
    #[error("create a certificate request: {0}")]
    Create(#[from] ApiError),
    /// The answer of the API server is not a request.
    #[error("read the created certificate request: {0}")]
    Decode(#[from] DecodeError),
    /// The informer could not be set up.
    #[error("watch certificate requests: {0}")]
    Watch(#[from] prometheus::Error),
    /// The request was denied, has failed or was deleted.
    #[error("certificate request {0} is {1}")]
    Ended(String, &'static str),
    /// The nodes stopped before the certificate was issued.
    #[error("stopped before the certificate was issued")]
    Stopped,
}

/// The state of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    Pending,
    Issued(String),
    Ended(&'static str),
}

/// A CertificateSigningRequest with the fields that a kubelet reads.
#[derive(Debug)]
struct Request {
    meta: Meta,
    outcome: Outcome,
}

impl Object for Request {
    const RESOURCE: &'static ResourceType = &REQUESTS;

    fn decode(json: &[u8]) -> Result<Self, DecodeError> {
        #[derive(Deserialize)]
        struct Wire {
            #[serde(default)]
            status: Status,
        }
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Status {
            certificate: String,
            conditions: Vec<Condition>,
        }
        #[derive(Deserialize)]
        struct Condition {
            #[serde(rename = "type")]
            kind: String,
        }
        let wire: Wire = serde_json::from_slice(json).map_err(|source| DecodeError::Json {
            kind: "CertificateSigningRequest",
            source,
        })?;
        let has = |kind: &str| wire.status.conditions.iter().any(|one| one.kind == kind);
        let certificate = STANDARD.decode(&wire.status.certificate).ok();
        let certificate = certificate.and_then(|pem| String::from_utf8(pem).ok());
        let outcome = match certificate.filter(|pem| !pem.is_empty()) {
            _ if has("Denied") => Outcome::Ended("denied"),
            _ if has("Failed") => Outcome::Ended("failed"),
            Some(pem) => Outcome::Issued(pem),
            None => Outcome::Pending,
        };
        Ok(Self {
            meta: ObjectMetadata::decode(json)?.meta,
            outcome,
        })
    }

    fn meta(&self) -> &Meta {
        &self.meta
    }
}

/// The requests that a kubelet waits for, by name.
#[derive(Clone, Default)]
struct Waiting(Arc<Mutex<HashMap<Box<str>, oneshot::Sender<Outcome>>>>);

impl Waiting {
    /// Tells the kubelets about the ends of their requests.
    fn follow(&self, requests: &SharedInformer<Request>) {
        let waiting = self.clone();
        requests.add_handler(move |change| {
            let outcome = match &change {
                Change::Deleted { .. } => Outcome::Ended("deleted"),
                change => change.object().outcome.clone(),
            };
            waiting.settle(&change.object().meta.name, outcome);
        });
    }

    fn settle(&self, name: &str, outcome: Outcome) {
        if outcome == Outcome::Pending {
            return;
        }
        let mut waiting = self.0.lock();
        if let Some(kubelet) = waiting.remove(name) {
            // A kubelet that has stopped needs no answer.
            let _ = kubelet.send(outcome);
        }
    }

    /// Waits for the end of a request. An end that the informer has already shown counts, too.
    async fn end_of(&self, name: &str, requests: &SharedInformer<Request>) -> Option<Outcome> {
        let (kubelet, ended) = oneshot::channel();
        {
            let mut waiting = self.0.lock();
            waiting.insert(name.into(), kubelet);
        }
        if let Some(known) = requests.store().get(&ObjectKey::new("", name)) {
            self.settle(name, known.outcome.clone());
        }
        ended.await.ok()
    }
}

/// The kubelets of new nodes, as users of a bootstrap token.
pub struct Joining {
    client: ApiClient,
    requests: SharedInformer<Request>,
    waiting: Waiting,
}

impl Joining {
    /// Watches certificate requests with the client of a bootstrap token, as tasks of `tasks` until
    /// `stop`.
    pub async fn start(
        client: ApiClient,
        tasks: &Tasks,
        stop: &CancellationToken,
    ) -> Result<Self, JoinError> {
        let informers = InformerFactory::new(client.clone(), Duration::ZERO, &Registry::new())?;
        let requests = informers.shared::<Request>();
        let waiting = Waiting::default();
        waiting.follow(&requests);
        informers.start(tasks, stop);
        if !informers.wait_synced(stop).await {
            return Err(JoinError::Stopped);
        }
        Ok(Self {
            client,
            requests,
            waiting,
        })
    }

    /// Requests the client certificate of a node, and waits until it is issued or refused.
    pub async fn certificate(&self, node: &str) -> Result<Credential, JoinError> {
        let key = KeyPair::generate()?;
        let target = Target {
            resource: &REQUESTS,
            namespace: None,
            name: None,
            subresource: None,
        };
        let created = self.client.create(target, &request(node, &key)?).await?;
        let name = Request::decode(&created)?.meta.name.to_string();
        match self.waiting.end_of(&name, &self.requests).await {
            Some(Outcome::Issued(certificate_pem)) => Ok(Credential {
                certificate_pem,
                key_pem: key.serialize_pem(),
            }),
            Some(Outcome::Ended(why)) => Err(JoinError::Ended(name, why)),
            Some(Outcome::Pending) | None => Err(JoinError::Stopped),
        }
    }
}

/// The request of a kubelet for the client certificate of its node.
fn request(node: &str, key: &KeyPair) -> Result<Value, rcgen::Error> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    let subject = &mut params.distinguished_name;
    subject.push(DnType::OrganizationName, "system:nodes");
    subject.push(DnType::CommonName, format!("system:node:{node}"));
    let pem = params.serialize_request(key)?.pem()?;
    Ok(json!({
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"generateName": "csr-"},
        "spec": {
            "request": STANDARD.encode(pem),
            "signerName": SIGNER,
            "usages": ["digital signature", "client auth"],
        },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_end_with_a_certificate_or_a_condition() {
        let outcome = |status: Value| {
            let object = json!({"metadata": {"name": "csr-1"}, "status": status});
            Request::decode(object.to_string().as_bytes())
                .unwrap()
                .outcome
        };
        let with = |kind: &str| json!({"conditions": [{"type": kind}], "certificate": "UEVN"});
        // (status, outcome)
        let cases = [
            (json!({}), Outcome::Pending),
            (
                json!({"conditions": [{"type": "Approved"}]}),
                Outcome::Pending,
            ),
            (with("Approved"), Outcome::Issued("PEM".to_owned())),
            (with("Denied"), Outcome::Ended("denied")),
            (with("Failed"), Outcome::Ended("failed")),
        ];
        for (status, expected) in cases {
            assert_eq!(outcome(status.clone()), expected, "{status}");
        }
    }

    #[test]
    fn keys_are_not_shown() {
        let credential = Credential {
            certificate_pem: "public".to_owned(),
            key_pem: "private".to_owned(),
        };
        let shown = format!("{credential:?}");
        assert!(shown.contains("public") && !shown.contains("private"));
    }
}
