//! Code that a few controllers share, above the machinery that all of them share.
//!
//! Upstream has most of it in packages beside its controllers, such as `pkg/controller/history`
//! and `k8s.io/endpointslice`.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::type_complexity))]

pub mod cleaner;
pub mod cron;
pub mod csi_migration;
pub mod endpointslice;
pub mod evictions;
pub mod history;
pub mod pods_by_claim;
pub mod quota;
pub mod root_ca;
pub mod scheduling;
pub mod volume;
