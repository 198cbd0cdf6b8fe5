//! Deletes CertificateSigningRequests that are old or have no further use.
//!
//! Upstream: `cleaner.go`.

use std::time::Duration;

use jiff::Timestamp;
use steersman_helpers::cleaner::Cleaner;
use steersman_objects::CertificateSigningRequest;
use steersman_pki::x509::{Certificate, certificates_in_pem};
use steersman_runtime::controller::{Controller, ControllerContext, Descriptor, InitError};
use steersman_runtime::rbac::Rule;
use steersman_runtime::reads::Read;
use steersman_values::clock::saturating_since;

use crate::certificates::{GROUP, IDENTITY};

/// The cleaner of CertificateSigningRequests.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "certificatesigningrequest-cleaner-controller",
    aliases: &["csrcleaner"],
    enabled_by_default: true,
    summary: "Deletes CertificateSigningRequests that are old or have no further use",
    identity: IDENTITY,
    reads: &[Read::of::<CertificateSigningRequest>()],
    rules: &[Rule::new(
        &[GROUP],
        &["certificatesigningrequests"],
        &["delete"],
    )],
    init,
};

/// Pause between two passes. Upstream: `pollingInterval`.
const PAUSE: Duration = Duration::from_secs(3600);

/// Age of a decided request. Upstream: `approvedExpiration` and `deniedExpiration`.
const DECIDED: Duration = Duration::from_secs(3600);

/// Age of a request that waits for its approval or its certificate. Upstream: `pendingExpiration`.
const WAITING: Duration = Duration::from_secs(24 * 3600);

/// The reason that is the last one to be looked for, so that another one has precedence.
const NOT_ISSUED: &str = "approved and not issued";

fn init(ctx: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    let due = if ctx.release.cleans_approved_requests_without_certificate() {
        due
    } else {
        due_until_1_34
    };
    Ok(Box::new(Cleaner::<CertificateSigningRequest>::new(
        ctx, IDENTITY, PAUSE, due,
    )))
}

/// The same as [`due`], apart from approved requests without a certificate, which stay.
fn due_until_1_34(csr: &CertificateSigningRequest, now: Timestamp) -> Option<&'static str> {
    due(csr, now).filter(|reason| *reason != NOT_ISSUED)
}

/// The reason to delete `csr` at `now`.
///
/// The order of the rules decides only which reason the log has. Conditions count by their type
/// alone. Upstream: `handle`.
fn due(csr: &CertificateSigningRequest, now: Timestamp) -> Option<&'static str> {
    // A missing time never is old. Upstream: `isOlderThan`.
    let is_older =
        |time: Option<Timestamp>, age| time.is_some_and(|time| saturating_since(now, time) > age);
    // The age is that of the last update of the condition, so a late approval starts a new period.
    let has = |kind: &str, age| {
        let mut conditions = csr.status.conditions.iter();
        conditions
            .any(|condition| condition.kind == *kind && is_older(condition.last_update_time.0, age))
    };
    let is_issued = csr.status.certificate.0;
    if is_issued && has("Approved", DECIDED) {
        // Upstream: `isIssuedPastDeadline`. The client has had time to read its certificate.
        Some("approved and issued")
    } else if has("Denied", DECIDED) {
        // Upstream: `isDeniedPastDeadline`.
        Some("denied")
    } else if has("Failed", DECIDED) {
        // Upstream: `isFailedPastDeadline`, which has no period of its own.
        Some("failed")
    } else if csr.status.conditions.is_empty()
        && is_older(csr.meta.created.map(Timestamp::from), WAITING)
    {
        // Upstream: `isPendingPastDeadline`. The age counts from the creation, for lack of a
        // condition.
        Some("not decided")
    } else if is_issued && csr.condition("Approved").is_some() && has_expired(csr, now) {
        // Upstream: `isIssuedExpired`. It covers approvals without a time.
        Some("certificate expired")
    } else if !is_issued && has("Approved", WAITING) {
        // Upstream: `isApprovedUnissuedPastDeadline`. The signer may be off or unknown.
        Some(NOT_ISSUED)
    } else {
        None
    }
}

/// Whether the first certificate has ended. One that cannot be read has not. Upstream: `isExpired`.
fn has_expired(csr: &CertificateSigningRequest, now: Timestamp) -> bool {
    let certificates = certificates_in_pem(&csr.content().certificate);
    let first = certificates.first().map(|der| Certificate::read(der));
    matches!(first, Some(Ok(first)) if now.as_second() > first.not_after)
}
