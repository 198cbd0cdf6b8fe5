//! Requests for certificates, for tests.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};
use serde_json::{Value, json};
use steersman_objects::{CertificateSigningRequest, Object};

use crate::testing::world::{World, begin};

/// The signer of client certificates of kubelets.
pub(crate) const KUBELET_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
/// The signer of server certificates of kubelets.
pub(super) const KUBELET_SERVING: &str = "kubernetes.io/kubelet-serving";
/// The signer of other client certificates.
pub(super) const CLIENT: &str = "kubernetes.io/kube-apiserver-client";

/// The usages of a client with a key that does not encipher.
pub(crate) const CLIENT_USAGES: [&str; 2] = ["digital signature", "client auth"];

/// A request in PEM, signed with a new key.
pub(super) fn pem(organizations: &[&str], common_name: &str, names: Vec<SanType>) -> String {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    for (index, organization) in organizations.iter().enumerate() {
        // The library has one value of each type. This is another name of the same type.
        let kind = match index {
            0 => DnType::OrganizationName,
            _ => DnType::CustomDnType(vec![2, 5, 4, 10]),
        };
        params.distinguished_name.push(kind, *organization);
    }
    if !common_name.is_empty() {
        params
            .distinguished_name
            .push(DnType::CommonName, common_name);
    }
    params.subject_alt_names = names;
    let key = KeyPair::generate().unwrap();
    params.serialize_request(&key).unwrap().pem().unwrap()
}

pub(super) fn dns(name: &str) -> SanType {
    SanType::DnsName(name.try_into().unwrap())
}

/// The request of the kubelet on the node `n1` for a certificate as a client.
pub(crate) fn of_kubelet() -> String {
    pem(&["system:nodes"], "system:node:n1", Vec::new())
}

/// A CertificateSigningRequest that `system:node:n1` has made.
pub(crate) fn csr(name: &str, signer: &str, usages: &[&str], pem: &str) -> Value {
    json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {
            "name": name, "uid": format!("of-{name}"), "creationTimestamp": begin().to_string(),
        },
        "spec": {
            "request": STANDARD.encode(pem), "signerName": signer, "usages": usages,
            "username": "system:node:n1", "groups": ["system:nodes", "system:authenticated"],
        },
    })
}

/// A condition that was set when the test began.
pub(super) fn condition(kind: &str) -> Value {
    let now = begin().to_string();
    json!({"type": kind, "status": "True", "reason": "r", "message": "m",
        "lastUpdateTime": now, "lastTransitionTime": now})
}

/// The same request with these conditions.
pub(super) fn with_conditions(mut csr: Value, kinds: &[&str]) -> Value {
    csr["status"]["conditions"] = kinds.iter().map(|kind| condition(kind)).collect();
    csr
}

/// The view of a request.
pub(super) fn decode(csr: &Value) -> CertificateSigningRequest {
    CertificateSigningRequest::decode(csr.to_string().as_bytes()).unwrap()
}

impl World {
    /// The stored CertificateSigningRequest.
    pub(super) fn csr(&self, name: &str) -> Value {
        self.find("certificatesigningrequests", name).unwrap()
    }

    /// Verb, path and status of the requests about certificates and reviews, except reads.
    pub(super) fn certificate_writes(&self) -> Vec<String> {
        let requests = self.cluster.requests();
        let is_ours = |agent: &str| {
            agent.ends_with("/certificate-controller")
                || agent.ends_with("/podcertificaterequestcleaner")
        };
        let writes = requests.iter().filter(|request| {
            is_ours(&request.user_agent) && !matches!(&*request.verb, "get" | "list" | "watch")
        });
        let last = |path: &str| {
            let parts: Vec<_> = path.rsplit('/').take(2).collect();
            format!("{}/{}", parts[1], parts[0])
        };
        writes
            .map(|request| {
                format!(
                    "{} {} {}",
                    request.verb,
                    last(&request.path),
                    request.status
                )
            })
            .collect()
    }
}

/// The certificate in the status, in PEM; empty if there is none.
pub(super) fn certificate(csr: &Value) -> String {
    let base64 = csr["status"]["certificate"].as_str().unwrap_or_default();
    String::from_utf8(STANDARD.decode(base64).unwrap()).unwrap()
}

/// The condition of this type.
pub(super) fn found<'a>(csr: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = csr["status"]["conditions"].as_array()?;
    conditions
        .iter()
        .find(|condition| condition["type"] == kind)
}
