//! Admission of CertificateSigningRequests: records the requester, and checks approvers and
//! signers.
//!
//! Upstream: `plugin/pkg/admission/certificates` (`approval`, `signing`, `subjectrestriction`) and
//! the strategy of the resource.

use serde_json::Value;

use super::attributes::{Attributes, ResourceRequest};
use super::user::{MASTERS, User};
use crate::Server;
use crate::route::Target;
use crate::status::Status;
use crate::validate;

const GROUP: &str = "certificates.k8s.io";
/// The signer of client certificates that the API server trusts.
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";

impl Server {
    /// Writes the requester into a new request, and checks changes of an old one.
    ///
    /// 403 if `user` lacks the permission to approve or sign for the signer. A new request for a
    /// client certificate in `system:masters` is also refused with 403.
    pub(super) fn check_signing(
        &self,
        user: &User,
        target: &Target,
        old: Option<&Value>,
        new: &mut Value,
    ) -> Result<(), Status> {
        if target.resource().group != GROUP {
            return Ok(());
        }
        let refused =
            |why: String| Status::forbidden(target.resource().named(), &target.name, &why);
        let Some(old) = old else {
            set_requester(user, new);
            let is_for_clients = new["spec"]["signerName"] == CLIENT_SIGNER;
            let groups = if is_for_clients {
                validate::organizations(new).unwrap_or_default()
            } else {
                Vec::new()
            };
            if groups.iter().any(|group| group == MASTERS) {
                let name = new["metadata"]["name"].as_str().unwrap_or_default();
                let why =
                    format!("use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed");
                return Err(Status::forbidden(target.resource().named(), name, &why));
            }
            return Ok(());
        };
        let signer = old["spec"]["signerName"].as_str().unwrap_or_default();
        let part = target.subresource.map(|part| part.name);
        let changes = |field: &str| old["status"].get(field) != new["status"].get(field);
        match part {
            Some("approval") if !self.may_sign(user, "approve", signer) => Err(refused(format!(
                "user not permitted to approve requests with signerName {signer:?}"
            ))),
            Some("status")
                if (changes("certificate") || changes("conditions"))
                    && !self.may_sign(user, "sign", signer) =>
            {
                Err(refused(format!(
                    "user not permitted to sign requests with signerName {signer:?}"
                )))
            }
            _ => Ok(()),
        }
    }

    /// Whether `user` has the verb on the signer, or on all signers of its domain.
    fn may_sign(&self, user: &User, verb: &str, signer: &str) -> bool {
        let domain = signer.split('/').next().unwrap_or_default();
        [signer.to_owned(), format!("{domain}/*")]
            .into_iter()
            .any(|name| {
                let signers = ResourceRequest {
                    group: GROUP.to_owned(),
                    resource: "signers".to_owned(),
                    name,
                    ..Default::default()
                };
                user.is_master()
                    || self
                        .decide(user, &Attributes::resource(verb, signers))
                        .allowed
            })
    }
}

/// Replaces the requester fields, because a client cannot choose them.
fn set_requester(user: &User, request: &mut Value) {
    let Some(spec) = request["spec"].as_object_mut() else {
        return;
    };
    for field in ["username", "uid", "groups", "extra"] {
        spec.remove(field);
    }
    if let Value::Object(info) = user.to_value() {
        spec.extend(info);
    }
}
