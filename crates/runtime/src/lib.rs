//! The machinery that all controllers of Steersman share.
//!
//! One [`informer::InformerFactory`] watches each resource type once for the whole process and
//! caches its objects as lean views ([`steersman_objects`]). Handlers map changes to keys of a
//! [`workqueue::WorkQueue`]. A controller's `sync` reads the stores, decides, and writes through
//! an [`steersman_client::ApiClient`]. [`leader`] elects the one process that may write.
//!
//! The upstream counterparts are the packages of k8s.io/client-go and `pkg/controller`.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::type_complexity))]

pub mod consistency;
pub mod controller;
pub mod events;
#[doc(hidden)]
pub mod fuzzing;
pub mod informer;
pub mod keyed;
pub mod leader;
pub mod metrics;
pub mod owner;
pub mod panics;
pub mod pod_control;
pub mod process;
pub mod rbac;
pub mod reads;
pub mod tasks;
pub mod workers;
pub mod workqueue;
