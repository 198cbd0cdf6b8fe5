//! What clients of a Kubernetes API server rely on, as checks that any server can be asked to pass:
//! this one and a real one.
//!
//! Every [`Check`] is one promise. It works in a namespace of its own, through the API alone, says
//! what is not as promised, and leaves nothing behind. Checks need no order, may run at the same
//! time, and mind neither controllers, schedulers and nodes nor admission plugins that a cluster
//! may have. They need a client who may do everything.
//!
//! | part of the contract | where |
//! |---|---|
//! | transport: media types, headers, paths, limits | `transport` |
//! | metadata of objects, generations | `metadata` |
//! | get and list: versions, pages, tokens | `reading` |
//! | watch: frames, bookmarks, streamed lists | `watching` |
//! | create, update, names | `writing` |
//! | patches: JSON, merge | `patching` |
//! | strategic merge patches, keys of lists | `strategic` |
//! | server-side apply, managed fields | `applying` |
//! | subresources: status, scale, binding, parts of pods, finalize | `parts` |
//! | evictions and budgets | `evicting` |
//! | deletion of one object and of collections | `deletion` |
//! | dry runs, validation of fields, warnings | `trying` |
//! | defaults | `defaulting` |
//! | validation; the words of refusals and their causes | `validation` |
//! | selectors of labels and fields | `selecting` |
//! | discovery, version, OpenAPI, health | `discovery` |
//! | tables | `tables` |
//! | users, rights, tokens, reviews | `access` |
//! | admission: namespaces, quotas, limits, priorities, accounts | `admission` |
//! | services, autoscalers, requests for certificates | `kinds` |
//! | custom resources, in all of this | `custom` |
//!
//! What kubectl makes of it is tested with kubectl itself (`tests/kubectl.rs` of the manager). Who
//! shows wrong credentials cannot be tried through a client who has others; `tests/users.rs` of
//! this crate does.
//!
//! ```
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use steersman_devcluster::{DevCluster, conformance};
//!
//! let cluster = DevCluster::builder().start().await?;
//! let check = conformance::checks().find(|check| check.name == "creation_sets_server_metadata").expect("it is there");
//! conformance::run(check, &cluster.client()).await?;
//! # Ok(())
//! # }
//! # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(example()).unwrap();
//! ```

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

/// What is not as promised.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Broken(String);

type Running<'a> = Pin<Box<dyn Future<Output = Outcome> + 'a>>;

/// One promise.
#[derive(Debug, Clone, Copy)]
pub struct Check {
    /// The promise, as a sentence.
    pub name: &'static str,
    /// What part of the API it is about.
    pub area: &'static str,
    run: for<'a> fn(&'a World) -> Running<'a>,
}

/// The checks of one area: functions whose names are the promises.
macro_rules! promises {
    ($area:literal: $($name:ident),* $(,)?) => {
        pub(super) const CHECKS: &[super::Check] =
            &[$(super::Check { name: stringify!($name), area: $area, run: |world| Box::pin($name(world)) }),*];
    };
}
use promises;

/// All of them, by area.
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

/// Tries one on the server of a client who may do everything. What it makes is deleted afterwards,
/// whatever the outcome.
pub async fn run(check: &Check, client: &kube::Client) -> Result<(), Broken> {
    let world = World::begin(client).await?;
    let outcome = (check.run)(&world).await;
    let end = world.end().await;
    outcome.and(end)
}
