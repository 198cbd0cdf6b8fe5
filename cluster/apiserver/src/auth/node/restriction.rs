//! The admission plugin NodeRestriction: nodes write their own Node and Lease, and request their own
//! certificates.
//!
//! Upstream: `plugin/pkg/admission/noderestriction`.

use serde_json::Value;

use super::super::User;
use super::{LEASES, OTHER_LEASE, PREFIX, node_of, other_namespace};
use crate::route::Target;
use crate::status::Status;
use crate::validate;

/// Signers of certificates of kubelets.
const KUBELET_SIGNERS: [&str; 2] = [
    "kubernetes.io/kubelet-serving",
    "kubernetes.io/kube-apiserver-client-kubelet",
];

/// 403 if `user` is a node and the write is about another one. `old` is absent for a creation.
pub(in crate::auth) fn restrict(
    user: &User,
    target: &Target,
    old: Option<&Value>,
    new: &Value,
) -> Result<(), Status> {
    let Some(node) = node_of(user) else {
        return Ok(());
    };
    let resource = target.resource();
    let name = match target.name.as_str() {
        "" => {
            let names = ["name", "generateName"].map(|field| new["metadata"][field].as_str());
            let mut names = names.into_iter().flatten().filter(|name| !name.is_empty());
            names.next().unwrap_or("Unknown")
        }
        name => name,
    };
    let refused = match &*resource.kind {
        _ if resource.custom.is_some() => None,
        "Node" if name != node => Some(format!(
            "node {node:?} is not allowed to modify node {name:?}"
        )),
        "Node" if old.is_some_and(|old| old["spec"]["taints"] != new["spec"]["taints"]) => {
            Some(format!("node {node:?} is not allowed to modify taints"))
        }
        "Lease" if target.namespace != LEASES => Some(other_namespace()),
        "Lease" if name != node => Some(OTHER_LEASE.to_owned()),
        "CertificateSigningRequest" if old.is_none() => foreign_certificate(node, new),
        _ => None,
    };
    match refused {
        Some(why) => Err(Status::forbidden(resource.named(), name, &why)),
        None => Ok(()),
    }
}

/// The reason to refuse a request for a certificate of another kubelet.
fn foreign_certificate(node: &str, request: &Value) -> Option<String> {
    let signer = request["spec"]["signerName"].as_str()?;
    if !KUBELET_SIGNERS.contains(&signer) {
        return None;
    }
    match validate::certificate_subject(request) {
        Err(why) => Some(format!("unable to parse csr: {why}")),
        Ok(subject) if subject.common_name != format!("{PREFIX}{node}") => {
            Some(format!("can only create a node CSR with CN={PREFIX}{node}"))
        }
        Ok(_) => None,
    }
}
