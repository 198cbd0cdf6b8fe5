//! A Kubernetes API server in memory: the API of kube-apiserver 1.36 without etcd, for development
//! and tests.
//!
//! in-process client or HTTPS -> authentication -> `rest` -> admission, defaults, validation ->
//! `store` -> watches
//!
//! [`Server`] promises the answers of a real server, as far as `docs/devcluster.md` does not list a
//! gap: the checks of `steersman-conformance` and recorded answers of kube-apiserver compare them.
//! In one process, a test needs no installed binaries, can pause Tokio's time, and can inject
//! [`faults`] at any request. The facts about kinds are tables (`kinds`, `schema`, `defaults`,
//! `tables`), because forty kinds differ in data and not in code.
//!
//! Upstream: `k8s.io/apiserver`, `k8s.io/apiextensions-apiserver`, and `pkg/apis`, `pkg/registry`
//! and `plugin/pkg` of `k8s.io/kubernetes`.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod auth;
pub mod defaults;
pub mod faults;
pub mod fielderror;
pub mod https;
pub mod kinds;
pub mod patch;
pub mod requests;
pub mod rest;
pub mod schema;
pub mod selectors;
pub mod status;
pub mod store;
pub mod tables;
pub mod validate;

mod admission;
mod custom;
mod expiry;
mod fields;
mod in_process;
mod openapi;
mod random;

pub use admission::Admission;
pub use expiry::expire_events;
pub use in_process::InProcess;
pub use rest::Server;
