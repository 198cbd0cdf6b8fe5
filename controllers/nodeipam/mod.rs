//! Gives each node a range of pod addresses (`spec.podCIDRs`): one block of each cluster CIDR.
//!
//! node events -> [`pool`] -> queue of names -> sync -> reserve blocks ([`allocations`]) -> PATCH
//!
//! No block is given to two nodes. Three rules ensure this:
//!
//! - Before the first allocation, a live list shows the blocks of all nodes ([`start`]). A node that
//!   has blocks in this list gets no others, even if the cache still shows it without.
//! - A chosen block stays reserved until the cache shows it or the deletion of its node, or until the
//!   API server refuses it. A lost answer therefore does not free the block.
//! - A block that several nodes have is free after the last one is gone.
//!
//! The controller runs only with `--allocate-node-cidrs`. Upstream: `pkg/controller/nodeipam`.
//! Differences:
//!
//! - Upstream releases a block after three failed requests, even if one of them may have taken
//!   effect. It releases a block that two nodes have with the first of them.
//! - If one of two cluster CIDRs is exhausted, the block of the other one is given back. Upstream
//!   loses it until the restart.
//! - A freed block is given to a waiting node at once. Upstream waits for the node's next update or
//!   retry, up to 1000 seconds.
//! - A new leader waits for its cache if the live list shows that a cached node is outdated. Upstream
//!   sends a PATCH that the API server refuses.
//! - The live list follows the construction of all controllers, so it delays only this one.

mod allocations;
mod cidr_set;
mod config;
mod metrics;
mod pool;
mod start;
mod sync;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use steersman_client::ApiClient;
use steersman_objects::{Node, ObjectKey};
use steersman_runtime::controller::{
    Controller, ControllerContext, Descriptor, InitError, switched_off,
};
use steersman_runtime::informer::SharedInformer;
use steersman_runtime::keyed::{Keyed, Runner};
use steersman_runtime::rbac::Rule;
use steersman_runtime::reads::Read;
use steersman_runtime::tasks::CancellationToken;
use steersman_runtime::workers::run_workers;
use steersman_runtime::workqueue::WorkQueue;

use self::allocations::Allocations;
use self::config::Ranges;
use self::metrics::IpamMetrics;
use self::pool::Pool;
use self::sync::NodeIpam;

/// The node IPAM controller.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: NAME,
    aliases: &["nodeipam"],
    enabled_by_default: true,
    summary: "Gives each node a range of pod addresses, with --allocate-node-cidrs",
    identity: "node-controller",
    reads: &[Read::of::<Node>()],
    rules: &[
        Rule::new(&[""], &["nodes"], &["list", "patch"]),
        Rule::EVENTS,
    ],
    init,
};

/// Name in `--controllers`, in logs and metrics.
const NAME: &str = "node-ipam-controller";

/// Source of its Events.
const COMPONENT: &str = "cidrAllocator";

/// Number of workers. Upstream: `cidrUpdateWorkers`.
const WORKERS: usize = 30;

fn init(ctx: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    let failed = |source| InitError {
        controller: NAME,
        source,
    };
    let ranges = Ranges::from_flags(&ctx.options).map_err(|error| failed(error.into()))?;
    let Some(ranges) = ranges else {
        return Ok(switched_off());
    };
    let metrics = ctx
        .metrics(IpamMetrics::register)
        .map_err(|error| failed(error.into()))?;
    let client = ctx.client(DESCRIPTOR.identity);
    let recorder = ctx.recorder(COMPONENT, client.clone());
    let mut keyed = Keyed::<Node>::new(ctx, NAME, "cidrallocator_node");
    let queue = keyed.queue();
    let nodes = keyed.objects().clone();
    let pool = Pool::new(Allocations::new(&ranges, &metrics), queue.clone());
    pool.follow(&nodes);
    let cache = keyed.tracked(&nodes);
    let syncer = NodeIpam {
        pool: pool.clone(),
        nodes: nodes.clone(),
        cache,
        client: client.clone(),
        recorder,
    };
    Ok(Box::new(NodeIpamController {
        runner: keyed.runner(syncer),
        queue,
        pool,
        nodes,
        client,
        metrics,
    }))
}

struct NodeIpamController {
    runner: Arc<Runner<NodeIpam>>,
    queue: WorkQueue<ObjectKey>,
    pool: Pool,
    nodes: SharedInformer<Node>,
    client: ApiClient,
    metrics: IpamMetrics,
}

impl Controller for NodeIpamController {
    fn run(self: Box<Self>, stop: CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            self.metrics.running(true);
            if self.hold_live_nodes(&stop).await {
                run_workers(NAME, self.queue, WORKERS, self.runner, stop).await;
            }
            self.metrics.running(false);
        })
    }
}

impl NodeIpamController {
    /// Holds the blocks of all nodes as the API server has them. False if the controller has to
    /// end: after `stop`, or after an error that the next start would meet again. Upstream: `New`
    /// of the package `ipam`, and the start of `NewCIDRRangeAllocator`.
    async fn hold_live_nodes(&self, stop: &CancellationToken) -> bool {
        let Some(live) = start::list_nodes(&self.client, stop).await else {
            return false;
        };
        let held: Result<u64, Box<dyn std::error::Error>> =
            live.map_err(Into::into).and_then(|live| {
                self.pool
                    .with(|allocations| allocations.hold_listed(&live.nodes, live.version))?;
                Ok(live.version)
            });
        match held {
            Ok(version) => {
                let pool = self.pool.clone();
                self.nodes.when_seen(version, move || {
                    pool.with(Allocations::forget_listed);
                });
                true
            }
            Err(error) => {
                tracing::error!(controller = NAME, %error, "Error initializing a controller");
                false
            }
        }
    }
}
