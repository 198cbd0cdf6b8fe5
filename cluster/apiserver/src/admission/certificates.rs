//! The admission plugins for CertificateSigningRequests: approvers and signers need the permission
//! for the signer, and client certificates of `system:masters` are refused.
//!
//! Upstream: `plugin/pkg/admission/certificates` (`approval`, `signing`, `subjectrestriction`).

use serde_json::Value;

use super::request::{Operation, Request};
use crate::Server;
use crate::apimachinery::errors::{list, text};
use crate::auth::{Attributes, MASTERS, ResourceRequest, User};
use crate::status::Status;
use crate::validate;

const GROUP: &str = "certificates.k8s.io";
/// The signer of client certificates that the API server trusts.
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";

impl Server {
    /// 403 for an approval or a certificate that the user may not give, and for a request that asks
    /// for the group `system:masters`.
    pub(super) fn permit_signing(&self, request: &Request<'_>) -> Result<(), Status> {
        let resource = request.target.resource();
        if !resource.is("CertificateSigningRequest") {
            return Ok(());
        }
        let Some(new) = request.object else {
            return Ok(());
        };
        let refused = match (request.operation, request.subresource(), request.old) {
            (Operation::Create, "", _) => asks_for_masters(new),
            (Operation::Update, "approval", Some(old)) => {
                self.may_not(request.origin.user, "approve", old)
            }
            (Operation::Update, "status", Some(old)) => {
                let certificate = |request| text(request, "status.certificate");
                let conditions = |request| list(request, "status.conditions");
                let signs =
                    certificate(old) != certificate(new) || conditions(old) != conditions(new);
                signs
                    .then(|| self.may_not(request.origin.user, "sign", old))
                    .flatten()
            }
            _ => None,
        };
        refused.map_or(Ok(()), |why| Err(request.forbidden(&why)))
    }

    /// The reason to refuse, unless the user has the verb on the signer of `request`, or on all
    /// signers of its domain.
    fn may_not(&self, user: &User, verb: &str, request: &Value) -> Option<String> {
        let signer = request["spec"]["signerName"].as_str().unwrap_or_default();
        let domain = signer.split('/').next().unwrap_or_default();
        let may = |name: String| {
            let signers = ResourceRequest {
                group: GROUP.to_owned(),
                resource: "signers".to_owned(),
                name,
                ..ResourceRequest::default()
            };
            let wanted = Attributes::resource(verb, signers);
            self.decide(user, &wanted).allowed
        };
        let is_permitted = may(signer.to_owned()) || may(format!("{domain}/*"));
        (!is_permitted)
            .then(|| format!("user not permitted to {verb} requests with signerName {signer:?}"))
    }
}

/// The reason to refuse a request for a client certificate of `system:masters`.
fn asks_for_masters(request: &Value) -> Option<String> {
    if request["spec"]["signerName"] != CLIENT_SIGNER {
        return None;
    }
    match validate::certificate_subject(request) {
        Err(why) => Some(format!("failed to parse CSR: {why}")),
        Ok(subject) => {
            let mut groups = subject.organizations.iter();
            groups.any(|group| group == MASTERS).then(|| {
                format!("use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed")
            })
        }
    }
}
