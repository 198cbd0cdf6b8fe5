//! Makes the cloud route the pod addresses of each node to its machine, and reports the result in
//! the condition `NetworkUnavailable`.
//!
//! every 10 s: routes of the cloud, cache of nodes -> [`plan`] -> [`sync`]: deletions, creations,
//! conditions
//!
//! Upstream: `staging/src/k8s.io/cloud-provider/controllers/route`. Differences:
//!
//! - A route of an unknown node is deleted only after a live read of that node, because the cache
//!   of a new leader may lack it.
//! - The gate `CloudControllerManagerWatchBasedRoutesReconciliation`, alpha and off, is absent.

mod condition;
mod metrics;
mod plan;
mod ranges;
mod sync;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use steersman_runtime::controller::{Controller, ControllerContext, Descriptor, InitError};
use steersman_runtime::rbac::Rule;
use steersman_runtime::reads::Read;
use steersman_runtime::tasks::CancellationToken;
use tokio::time::Instant;

use crate::provider::CloudProvider;
use crate::served::Served;
use crate::shared::{Off, provider};
use metrics::RouteMetrics;
use ranges::Ranges;
use sync::Pass;

const NAME: &str = "node-route-controller";
/// Name of its client and of its service account.
const IDENTITY: &str = "route-controller";
/// Source of its Events.
const COMPONENT: &str = "route_controller";

const READS: &[Read] = &[Read::of::<Served<Node>>()];
const RULES: &[Rule] = &[
    Rule::new(&[""], &["nodes"], &["get"]),
    Rule::new(&[""], &["nodes/status"], &["patch"]),
    Rule::EVENTS,
];

/// The route controller over the provider `P`.
pub const fn descriptor<P: CloudProvider>() -> Descriptor {
    Descriptor {
        name: NAME,
        aliases: &["route"],
        enabled_by_default: true,
        summary: "Makes the cloud route the pod addresses of each node to its machine",
        identity: IDENTITY,
        reads: READS,
        rules: RULES,
        init: init::<P>,
    }
}

fn init<P: CloudProvider>(ctx: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    if !ctx.options.bool("configure-cloud-routes") {
        tracing::info!("Will not configure cloud provider routes, --configure-cloud-routes: false");
        return Ok(Box::new(Off));
    }
    let Some(routes) = provider::<P>(ctx, NAME)?.routes() else {
        tracing::warn!(
            "--configure-cloud-routes is set, but cloud provider does not support routes. Will not configure cloud provider routes."
        );
        return Ok(Box::new(Off));
    };
    let ranges = Ranges::parse(&ctx.options.text("cluster-cidr")).map_err(|source| InitError {
        controller: NAME,
        source: Box::new(source),
    })?;
    let metrics = RouteMetrics::register(&ctx.registry).map_err(|source| InitError {
        controller: NAME,
        source: Box::new(source),
    })?;
    let client = ctx.client(IDENTITY);
    Ok(Box::new(RouteController {
        period: ctx.options.time("route-reconciliation-period"),
        pass: Pass {
            routes,
            recorder: ctx.recorder(COMPONENT, client.clone()),
            client,
            clock: ctx.clock.clone(),
            nodes: ctx.informers.shared::<Served<Node>>().store(),
            ranges,
            metrics,
        },
    }))
}

struct RouteController {
    period: Duration,
    pass: Pass,
}

impl Controller for RouteController {
    fn run(self: Box<Self>, stop: CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let Self { period, pass } = *self;
        Box::pin(async move {
            while !stop.is_cancelled() {
                // The period counts from start to start, as upstream.
                let next = Instant::now() + period;
                if let Err(error) = pass.run().await {
                    tracing::error!(%error, "Couldn't reconcile node routes: error listing routes");
                }
                let pause = tokio::time::sleep_until(next);
                if stop.run_until_cancelled(pause).await.is_none() {
                    return;
                }
            }
        })
    }
}
