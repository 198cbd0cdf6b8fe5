//! Tests of whole managers, in-process and as a program.
#![allow(
    clippy::unwrap_used,
    reason = "a failed `unwrap` shows the place in the test"
)]

mod accounts;
mod apiserver;
mod assets;
mod beside;
mod chart;
mod cli;
mod cloud;
mod commands;
mod conformance;
mod connections;
mod containers;
mod control;
mod custom;
mod dev;
mod devices;
mod docs;
mod election;
mod failover;
mod follow;
mod foreign;
mod harness;
mod health;
mod hostile;
mod image;
mod join;
mod keys;
mod kubectl;
mod kubectl_access;
mod kubectl_protection;
mod library;
mod lifecycle;
mod metrics;
mod nodes;
mod page;
mod parity;
mod program;
mod release;
mod releases;
mod replicas;
mod scenes;
mod service_accounts;
mod stall;
mod structure;
mod support;
mod takeover;
mod tls;
mod traces;
mod types;
mod zone;
