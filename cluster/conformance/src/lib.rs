//! The contract of a Kubernetes API server towards its clients, as checks for any server: this one
//! or a real one.
//!
//! Every [`Check`] is one promise. It uses its own namespace and only the API, reports violations
//! of the promise, and deletes its objects. Checks run in any order and in parallel. Controllers,
//! schedulers, nodes and admission plugins of the cluster do not disturb them. The client needs all
//! permissions.
//!
//! | part of the contract | module |
//! |---|---|
//! | transport: media types, headers, paths, limits | `transport` |
//! | metadata of objects, generations | `metadata` |
//! | get and list: versions, pages, tokens | `reading` |
//! | watch: frames, bookmarks, streamed lists | `watching` |
//! | create, update, names | `writing` |
//! | patches: JSON, merge | `patching` |
//! | strategic merge patches, keys of lists | `strategic` |
//! | server-side apply, managed fields | `applying` |
//! | subresources: status, scale, binding, ephemeral containers, resize, finalize | `parts` |
//! | evictions and budgets | `evicting` |
//! | deletion of one object and of collections | `deletion` |
//! | dry runs, field validation, warnings | `trying` |
//! | defaults | `defaulting` |
//! | validation: messages and causes of refusals | `validation` |
//! | label and field selectors | `selecting` |
//! | discovery, version, OpenAPI, health | `discovery` |
//! | tables | `tables` |
//! | users, permissions, tokens, reviews | `access` |
//! | admission: namespaces, quotas, limits, priorities, accounts | `admission` |
//! | Services, autoscalers, CertificateSigningRequests | `kinds` |
//! | custom resources | `custom` |
//!
//! The tests in `tests/kubectl.rs` of the manager use kubectl itself. A client with credentials
//! cannot test invalid ones; `tests/users.rs` of this crate does.
//!
//! The server in memory is useful as far as it answers like a real one. One list of checks runs on
//! both, so that a difference fails a test.
//!
//! Upstream: `test/e2e/apimachinery` and `test/integration/apiserver`.
//!
//! ```
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use steersman_devcluster::DevCluster;
//!
//! let cluster = DevCluster::builder().start().await?;
//! let check = steersman_conformance::checks()
//!     .find(|check| check.name == "creation_sets_server_metadata")
//!     .expect("it is there");
//! steersman_conformance::run(check, &cluster.client()).await?;
//! # Ok(())
//! # }
//! # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(example()).unwrap();
//! ```

#![cfg_attr(test, allow(clippy::unwrap_used))]

use std::future::Future;
use std::pin::Pin;

mod access;
mod admission;
mod applying;
mod custom;
mod defaulting;
mod deletion;
mod discovery;
mod evicting;
mod kinds;
mod metadata;
mod parts;
mod patching;
mod reading;
mod selecting;
mod strategic;
mod tables;
mod transport;
mod trying;
mod validation;
mod watching;
mod world;
mod writing;

use world::{Outcome, World};

/// A violation of a promise, with the request and the unexpected answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Broken(String);

type Running<'a> = Pin<Box<dyn Future<Output = Outcome> + 'a>>;

/// One check.
#[derive(Debug, Clone, Copy)]
pub struct Check {
    /// The promise, as a sentence.
    pub name: &'static str,
    /// The part of the API.
    pub area: &'static str,
    run: for<'a> fn(&'a World) -> Running<'a>,
}

/// Declares the checks of one area. The names of the functions are the promises.
macro_rules! promises {
    ($area:literal: $($name:ident),* $(,)?) => {
        pub(super) const CHECKS: &[super::Check] =
            &[$(super::Check { name: stringify!($name), area: $area, run: |world| Box::pin($name(world)) }),*];
    };
}
use promises;

/// All checks, by area.
pub fn checks() -> impl Iterator<Item = &'static Check> {
    let areas = [
        transport::CHECKS,
        metadata::CHECKS,
        reading::CHECKS,
        watching::CHECKS,
        writing::CHECKS,
        patching::CHECKS,
        strategic::CHECKS,
        applying::CHECKS,
        parts::CHECKS,
        evicting::CHECKS,
        deletion::CHECKS,
        trying::CHECKS,
        defaulting::CHECKS,
        validation::CHECKS,
        selecting::CHECKS,
        discovery::CHECKS,
        tables::CHECKS,
        access::CHECKS,
        admission::CHECKS,
        kinds::CHECKS,
        custom::CHECKS,
    ];
    areas.into_iter().flatten()
}

/// Runs one check on the server of `client`, which needs all permissions. Deletes the created
/// objects even if the check fails.
pub async fn run(check: &Check, client: &kube::Client) -> Result<(), Broken> {
    let world = World::begin(client).await?;
    let outcome = (check.run)(&world).await;
    let end = world.end().await;
    outcome.and(end)
}
