//! The machinery every controller of Steersman stands on.
//!
//! One [`informer::InformerFactory`] watches each resource type once for the whole process and
//! keeps it in memory as a lean view ([`object`]). Handlers turn changes into keys of a
//! [`workqueue::WorkQueue`]; a controller's `sync` reads the stores, decides, and writes through an
//! [`client::ApiClient`]. [`leader`] says which process may write at all.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod client;
pub mod clock;
pub mod conditions;
pub mod controller;
pub mod discovery;
pub mod events;
pub mod expectations;
pub mod features;
#[doc(hidden)]
pub mod fuzzing;
pub mod informer;
pub mod intern;
pub mod keyed;
pub mod labels;
pub mod leader;
pub mod live;
pub mod metrics;
pub mod object;
pub mod own_writes;
pub mod owner;
pub mod panics;
pub mod pod_control;
pub mod rate;
pub mod rbac;
pub mod reads;
pub mod reload;
pub mod resource;
mod sync;
pub mod tasks;
pub mod template;
pub mod workers;
pub mod workqueue;
pub mod writes;
pub mod x509;
