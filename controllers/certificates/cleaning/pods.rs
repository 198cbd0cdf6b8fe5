//! Deletes PodCertificateRequests fifteen minutes after their creation, whatever their state.
//!
//! The controller runs only with the feature gate `PodCertificateRequest`. Upstream:
//! `pcrcleaner.go`.

use std::time::Duration;

use jiff::Timestamp;
use steersman_helpers::cleaner::Cleaner;
use steersman_objects::PodCertificateRequest;
use steersman_runtime::controller::{Controller, ControllerContext, Descriptor, InitError};
use steersman_runtime::rbac::Rule;
use steersman_runtime::reads::Read;
use steersman_values::clock::saturating_since;

use crate::certificates::GROUP;

/// The cleaner of PodCertificateRequests.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "podcertificaterequest-cleaner-controller",
    aliases: &[],
    enabled_by_default: true,
    summary: "Deletes old PodCertificateRequests, with the feature gate PodCertificateRequest",
    identity: IDENTITY,
    reads: &[Read::of::<PodCertificateRequest>()],
    rules: &[Rule::new(
        &[GROUP],
        &["podcertificaterequests"],
        &["delete"],
    )],
    init,
};

/// Name of its client.
const IDENTITY: &str = "podcertificaterequestcleaner";

/// Pause between two passes. Upstream sets both times in
/// `newPodCertificateRequestCleanerController`.
const PAUSE: Duration = Duration::from_secs(5 * 60);

/// The age from which a request is deleted.
const AGE: Duration = Duration::from_secs(15 * 60);

fn init(ctx: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    Ok(Box::new(Cleaner::<PodCertificateRequest>::new(
        ctx, IDENTITY, PAUSE, due,
    )))
}

/// A request of exactly this age is due, unlike in the other cleaner. Upstream: `handle`.
fn due(request: &PodCertificateRequest, now: Timestamp) -> Option<&'static str> {
    // Objects from the API server always have this time.
    let created = request.meta.created?;
    (saturating_since(now, created.into()) >= AGE).then_some("old")
}
