//! Requests to the embedded API server, and its answers.

#![allow(
    clippy::unwrap_used,
    reason = "a failed `unwrap` shows the place in the test"
)]

mod admission;
mod admission_policies;
mod admission_webhooks;
mod aggregation;
mod bad_connections;
mod bad_input;
mod compaction;
mod consistency;
mod conversion;
mod custom;
mod custom_rules;
mod deletion_versions;
mod doors;
mod event_ttl;
mod faults;
mod identity;
mod kinds;
mod logs;
mod managed_fields;
mod managed_fields_opt_out;
mod manifests;
mod mutating_policies;
mod openapi;
mod recordings;
mod refusals;
mod releases;
mod replay;
mod resize;
mod support;
mod users;
mod writes;
