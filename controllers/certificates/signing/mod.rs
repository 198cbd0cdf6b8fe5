//! Signs approved requests with the keys of the cluster's authorities.
//!
//! request event -> queue of names -> sync -> rules of the [`Signer`] -> [`validity`], [`usages`] ->
//! signature of the [`Authority`](authority::Authority) -> PUT of the status
//!
//! Guarantees:
//!
//! - Only approved requests are signed, and only by the signer that they name.
//! - A request that breaks the rules of its signer gets the condition `Failed`, and no certificate.
//! - Of the requested extensions, only alternative names are taken over. A certificate never is that
//!   of an authority.
//! - The files of an authority are read again after they change. A pair that does not fit together
//!   leaves the previous pair in effect.
//!
//! Upstream: `pkg/controller/certificates/{signer,authority}`. Differences:
//!
//! - The signers share one queue and one read of each pair of files.
//! - Files are read again when a certificate is signed, at most once a second. Upstream watches them.
//! - A sync waits until the cache shows its last write, so a slow cache causes no second
//!   certificate.

mod authority;
mod signer;
mod sync;
#[cfg(test)]
mod tests;
mod usages;
mod validity;

use steersman_objects::CertificateSigningRequest;
use steersman_runtime::controller::{
    Controller, ControllerContext, Descriptor, InitError, switched_off,
};
use steersman_runtime::rbac::Rule;
use steersman_runtime::reads::Read;

use self::signer::Signer;
use self::sync::Signing;
use super::{GROUP, IDENTITY, queue};

/// The signing controller.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: NAME,
    aliases: &["csrsigning"],
    enabled_by_default: true,
    summary: "Signs approved CertificateSigningRequests, with --cluster-signing-cert-file",
    identity: IDENTITY,
    reads: &[Read::of::<CertificateSigningRequest>()],
    rules: &[
        Rule::new(
            &[GROUP],
            &["certificatesigningrequests/status"],
            &["update"],
        ),
        Rule::new(&[GROUP], &["signers"], &["sign"]).named(&Signer::NAMES),
    ],
    init,
};

const NAME: &str = "certificatesigningrequest-signing-controller";

/// The signers whose requests this controller signs.
pub(super) const SIGNERS: [&str; 4] = Signer::NAMES;

/// Number of workers for each signer, as upstream, which has no flag for it. The signers share one
/// queue, so their numbers add up.
const WORKERS: usize = 5;

fn init(ctx: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    let authorities = authority::of_signers(&ctx.options).map_err(|error| InitError {
        controller: NAME,
        source: Box::new(error),
    })?;
    if authorities.is_empty() {
        return Ok(switched_off());
    }
    // Upstream reloads the files by a queue with these metrics. Dashboards find the series of this
    // queue, though there is none.
    ctx.queue_metrics
        .immediate("DynamicCABundle-csr-controller");
    let workers = WORKERS * authorities.len();
    let mut keyed = queue::keyed(ctx, NAME);
    let requests = keyed.objects().clone();
    let signing = Signing {
        authorities,
        longest: ctx.options.time("cluster-signing-duration"),
        client: ctx.client(IDENTITY),
        clock: ctx.clock.clone(),
        cache: keyed.tracked(&requests),
    };
    Ok(keyed.boxed(workers, signing))
}
