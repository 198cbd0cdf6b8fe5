//! Deletes nodes whose instance was deleted in the cloud, and taints those whose instance is shut
//! down.
//!
//! every 5 s: cache of nodes -> [`sync`]: provider, then DELETE of the node or patch of its taints
//!
//! Only nodes that are not ready are looked up. A ready node loses the taint.
//!
//! Upstream: `staging/src/k8s.io/cloud-provider/controllers/nodelifecycle`. Differences:
//!
//! - The loop waits for the cache of nodes, because the manager starts controllers after it.
//! - A node is deleted only if a live read finds it not ready, and the deletion names the UID and
//!   the version of that read.

mod sync;
mod taint;
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

use crate::provider::CloudProvider;
use crate::served::Served;
use crate::shared::{Off, provider};
use sync::Pass;

const NAME: &str = "cloud-node-lifecycle-controller";
/// Name of its client and of its service account.
const IDENTITY: &str = "node-controller";

const READS: &[Read] = &[Read::of::<Served<Node>>()];
const RULES: &[Rule] = &[
    Rule::new(&[""], &["nodes"], &["get", "patch", "delete"]),
    Rule::EVENTS,
];

/// The cloud node lifecycle controller over the provider `P`.
pub const fn descriptor<P: CloudProvider>() -> Descriptor {
    Descriptor {
        name: NAME,
        aliases: &["cloud-node-lifecycle"],
        enabled_by_default: true,
        summary: "Deletes nodes whose instance was deleted, and taints those whose instance is shut down",
        identity: IDENTITY,
        reads: READS,
        rules: RULES,
        init: init::<P>,
    }
}

fn init<P: CloudProvider>(ctx: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    let Some(instances) = provider::<P>(ctx, NAME)?.instances() else {
        tracing::warn!(
            "failed to start cloud node lifecycle controller: cloud provider does not support instances"
        );
        return Ok(Box::new(Off));
    };
    let client = ctx.client(IDENTITY);
    Ok(Box::new(LifecycleController {
        period: ctx.options.time("node-monitor-period"),
        pass: Pass {
            instances,
            recorder: ctx.recorder(NAME, client.clone()),
            client,
            nodes: ctx.informers.shared::<Served<Node>>().store(),
        },
    }))
}

struct LifecycleController {
    period: Duration,
    pass: Pass,
}

impl Controller for LifecycleController {
    fn run(self: Box<Self>, stop: CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let Self { period, pass } = *self;
        Box::pin(async move {
            while !stop.is_cancelled() {
                pass.run(&stop).await;
                // The period counts from the end of the pass, as upstream.
                let pause = tokio::time::sleep(period);
                if stop.run_until_cancelled(pause).await.is_none() {
                    return;
                }
            }
        })
    }
}
