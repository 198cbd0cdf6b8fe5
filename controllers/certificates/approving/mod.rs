//! Approves requests of kubelets for client certificates.
//!
//! request event -> queue of names -> sync -> [`Recognizer`] -> SubjectAccessReview -> PUT of the
//! approval
//!
//! The API server decides: the requester needs the right to create the subresource `nodeclient` of
//! CertificateSigningRequests, or `selfnodeclient` for a certificate in the requester's own name. A
//! request that is recognized and not allowed is tried again with growing delay, because the right
//! may come later. Requests for other signers are left to users.
//!
//! Upstream: `pkg/controller/certificates/approver`. Difference: a sync waits until the cache shows
//! its last write, so a slow cache causes no second review.

mod recognizer;
mod sync;
#[cfg(test)]
mod tests;

use steersman_objects::CertificateSigningRequest;
use steersman_runtime::controller::{Controller, ControllerContext, Descriptor, InitError};
use steersman_runtime::rbac::Rule;
use steersman_runtime::reads::Read;

use self::sync::Approver;
use super::{GROUP, IDENTITY, queue};

/// The approving controller.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: NAME,
    aliases: &["csrapproving"],
    enabled_by_default: true,
    summary: "Approves requests of kubelets for client certificates",
    identity: IDENTITY,
    reads: &[Read::of::<CertificateSigningRequest>()],
    rules: &[
        Rule::new(
            &[GROUP],
            &["certificatesigningrequests/approval"],
            &["update"],
        ),
        // The API server demands this right on each write of an approval.
        Rule::new(&[GROUP], &["signers"], &["approve"]).named(&[recognizer::SIGNER]),
        Rule::new(
            &["authorization.k8s.io"],
            &["subjectaccessreviews"],
            &["create"],
        ),
    ],
    init,
};

const NAME: &str = "certificatesigningrequest-approving-controller";

/// Number of workers, as upstream, which has no flag for it.
const WORKERS: usize = 5;

fn init(ctx: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    let mut keyed = queue::keyed(ctx, NAME);
    let requests = keyed.objects().clone();
    let approver = Approver {
        client: ctx.client(IDENTITY),
        cache: keyed.tracked(&requests),
    };
    Ok(keyed.boxed(WORKERS, approver))
}
