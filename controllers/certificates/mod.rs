//! The controllers of requests for certificates.
//!
//! CertificateSigningRequest -> [`approving`] -> [`signing`] -> [`cleaning::requests`];
//! PodCertificateRequest -> [`cleaning::pods`]
//!
//! Upstream: `pkg/controller/certificates`.

pub mod approving;
pub mod cleaning;
pub(crate) mod explain;
mod kubelet;
mod queue;
pub mod signing;
#[cfg(test)]
pub(crate) mod testing;

/// Name of the client of the controllers of CertificateSigningRequests. Upstream's approver,
/// signers and cleaner share the service account of this name too, so the existing rules of RBAC
/// fit.
const IDENTITY: &str = "certificate-controller";

/// API group of the requests.
const GROUP: &str = "certificates.k8s.io";
