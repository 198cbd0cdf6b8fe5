//! The requests that the controller approves, and the rights that their requesters need.
//!
//! Upstream: `recognizers` in `sarapprove.go`.

use serde_json::{Value, json};
use steersman_objects::SigningRequest;
use steersman_pki::x509::CertificateRequest;

use super::GROUP;
use crate::certificates::kubelet;

/// The signer of the client certificates of kubelets.
pub(super) const SIGNER: &str = "kubernetes.io/kube-apiserver-client-kubelet";

/// A kind of request, with the right that its requester needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Recognizer {
    /// A kubelet renews its own certificate. Upstream: `isSelfNodeClientCert`.
    SelfNodeClient,
    /// A client asks for the certificate of a kubelet. A bootstrap token is the usual requester.
    /// Upstream: `isNodeClientCert`.
    NodeClient,
}

impl Recognizer {
    /// The kinds of a request for the signer `signer`, in the order in which they are tried.
    ///
    /// A request in the requester's own name has both kinds, with the narrower right first. A
    /// request that breaks a rule for kubelets has none, so it waits for a user.
    pub(super) fn of(
        signer: &str,
        content: &SigningRequest,
        request: &CertificateRequest,
    ) -> &'static [Self] {
        if signer != SIGNER || kubelet::check_client(request, &content.usages).is_err() {
            &[]
        } else if content.username == request.subject.common_name() {
            &[Self::SelfNodeClient, Self::NodeClient]
        } else {
            &[Self::NodeClient]
        }
    }

    /// The subresource that the requester must be allowed to create.
    pub(super) fn subresource(self) -> &'static str {
        match self {
            Self::SelfNodeClient => "selfnodeclient",
            Self::NodeClient => "nodeclient",
        }
    }

    /// The message of the condition `Approved`.
    pub(super) fn message(self) -> &'static str {
        match self {
            Self::SelfNodeClient => {
                "Auto approving self kubelet client certificate after SubjectAccessReview."
            }
            Self::NodeClient => {
                "Auto approving kubelet client certificate after SubjectAccessReview."
            }
        }
    }

    /// The SubjectAccessReview of the requester. It asks about the user that the API server
    /// recorded in the spec, never about the subject of the certificate. Empty fields are left out,
    /// as Go's encoder does. Upstream: `authorize`.
    pub(super) fn review(self, content: &SigningRequest) -> Value {
        let mut spec = json!({
            "resourceAttributes": {
                "verb": "create", "group": GROUP, "version": "*",
                "resource": "certificatesigningrequests", "subresource": self.subresource(),
            },
        });
        let SigningRequest {
            username,
            uid,
            groups,
            extra,
            ..
        } = content;
        for (field, is_set, value) in [
            ("user", !username.is_empty(), json!(username)),
            ("uid", !uid.is_empty(), json!(uid)),
            ("groups", !groups.is_empty(), json!(groups)),
            ("extra", !extra.is_empty(), json!(extra)),
        ] {
            if is_set {
                spec[field] = value;
            }
        }
        json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec})
    }
}
