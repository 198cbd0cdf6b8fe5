//! Checks the types in the expressions of ValidatingAdmissionPolicies, and writes warnings to their
//! status.
//!
//! policy -> queue of names -> sync -> kinds of its rules ([`kinds`]) -> types of these kinds
//! ([`schemas`]) -> warnings ([`check`]) -> server-side apply of the status
//!
//! A policy is checked once per generation. Admission does not depend on the result.
//!
//! Upstream: `pkg/controller/validatingadmissionpolicystatus`, and the `TypeChecker` of
//! `k8s.io/apiserver/pkg/admission/plugin/policy/validating`. Differences:
//!
//! - All schemas come from the API server. Upstream's manager contains those of built-in kinds.
//! - Failed reads of discovery or schemas are repeated. Upstream skips the kinds that they concern.
//! - The applied configuration has the UID, so that no other policy gets the result.
//! - The names of object types in warnings are kinds. Upstream appends random digits.

mod check;
mod kinds;
mod openapi;
mod schemas;
mod sync;
#[cfg(test)]
mod tests;

use steersman_client::discovery::RestMapper;
use steersman_objects::ValidatingAdmissionPolicy;
use steersman_runtime::controller::{Controller, ControllerContext, Descriptor, InitError};
use steersman_runtime::keyed::Keyed;
use steersman_runtime::rbac::Rule;
use steersman_runtime::reads::Read;

use self::schemas::Schemas;
use self::sync::PolicyStatus;

/// The controller of the status of ValidatingAdmissionPolicies.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: NAME,
    aliases: &[],
    enabled_by_default: true,
    summary: "Checks the types in expressions of ValidatingAdmissionPolicies",
    identity: NAME,
    reads: &[Read::of::<ValidatingAdmissionPolicy>()],
    rules: &[Rule::new(
        &["admissionregistration.k8s.io"],
        &["validatingadmissionpolicies/status"],
        &["patch"],
    )],
    init,
};

const NAME: &str = "validatingadmissionpolicy-status-controller";

/// Name of the work queue, and the field manager. Upstream: `ControllerName`. The API server
/// records the owner of fields by this name, so a change of manager causes no conflict.
const MANAGER: &str = "validatingadmissionpolicy-status";

fn init(ctx: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    let workers = ctx
        .options
        .workers("concurrent-validating-admission-policy-status-syncs");
    let mut keyed = Keyed::<ValidatingAdmissionPolicy>::new(ctx, NAME, MANAGER);
    let policies = keyed.objects().clone();
    sync::enqueue_policies(&policies, &keyed.queue());
    let client = ctx.client(DESCRIPTOR.identity);
    let syncer = PolicyStatus {
        mapper: RestMapper::new(client.clone()),
        schemas: Schemas::new(client.clone()),
        declares_params_without_schema: ctx.release.declares_params_without_schema(),
        client,
        cache: keyed.tracked(&policies),
    };
    Ok(keyed.boxed(workers, syncer))
}
