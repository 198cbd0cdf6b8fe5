//! Usage of quotas: the amounts that each object counts for, by resource name.
//!
//! object -> usage, if the quota's [`Scopes`] select it -> sum ([`Amounts`])
//!
//! The quota controller sums the usage of cached objects. The API server of the development cluster
//! charges new objects by the same rules.
//!
//! Upstream: `pkg/quota/v1/evaluator/core` and `apiserver/pkg/quota/v1`.

mod amounts;
mod claims;
mod counted;
mod devices;
mod names;
mod pods;
#[cfg(test)]
mod recorded;
mod scopes;
mod services;
mod tally;

pub use amounts::Amounts;
pub use claims::{ClaimCounting, claim_usage, is_claim_replenished};
pub use counted::{Counted, object_count};
pub use devices::{
    DeviceCounting, ExtendedResources, device_usage, is_extended_resource_claim_of,
    pod_of_extended_resources,
};
pub use pods::{
    PodCounting, Side, amounts_of_containers, is_pod_replenished, is_terminating_scope, pod_usage,
};
pub use scopes::{ScopeError, Scoped, Scopes};
pub use services::{is_service_replenished, service_usage};
pub use tally::Tally;
