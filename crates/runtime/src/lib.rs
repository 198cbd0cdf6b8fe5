//! The machinery that all controllers of Steersman share.
//!
//! One [`informer::InformerFactory`] watches each resource type once for the whole process and
//! caches its objects as lean views ([`object`]). Handlers map changes to keys of a
//! [`workqueue::WorkQueue`]. A controller's `sync` reads the stores, decides, and writes through
//! an [`client::ApiClient`]. [`leader`] elects the one process that may write.
//!
//! The upstream counterparts are the packages of k8s.io/client-go and `pkg/controller`.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::type_complexity))]

mod asn1;
pub mod capacity;
pub mod cidr;
pub mod cleaner;
pub mod client;
pub mod clock;
pub mod conditions;
pub mod controller;
pub mod cron;
pub mod csi_migration;
pub mod discovery;
pub mod endpointslice;
pub mod events;
pub mod evictions;
pub mod expectations;
pub mod features;
pub mod files;
#[doc(hidden)]
pub mod fuzzing;
pub mod gotime;
pub mod history;
pub mod informer;
pub mod intern;
pub mod jws;
pub mod keyed;
pub mod keys;
pub mod label_selector;
pub mod labels;
pub mod leader;
pub mod live;
pub mod lru;
pub mod metrics;
pub mod object;
pub mod own_writes;
pub mod owner;
pub mod panics;
pub mod pod_control;
pub mod pods_by_claim;
pub mod process;
pub mod quantity;
pub mod quota;
pub mod rate;
pub mod rbac;
pub mod reads;
pub mod reload;
pub mod resource;
pub mod root_ca;
pub mod scale;
pub mod scheduling;
mod sync;
pub mod tasks;
pub mod template;
pub mod validation;
pub mod volume;
pub mod workers;
pub mod workqueue;
pub mod writes;
pub mod x509;
