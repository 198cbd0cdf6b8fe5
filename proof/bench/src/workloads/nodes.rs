//! The load `nodes`: nodes that get ranges of pod addresses, send heartbeats, and are deleted. They
//! run in this process.

use std::time::Duration;

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::json;
use steersman_client::{ApiError, Target};
use steersman_devcluster::nodes::{self, NodesConfig, Pods};
use steersman_objects::Node;
use steersman_runtime::tasks::{CancellationToken, Tasks};
use steersman_values::clock::Clock;
use steersman_values::resource::{LEASES, NODES};

use super::Workloads;
use crate::run::{Bench, idle};

/// Prefix of the names of the nodes.
const NODE_PREFIX: &str = "bench-node-";
/// Namespace of the Leases of nodes.
const LEASE_NAMESPACE: &str = "kube-node-lease";
/// Deletions in flight at once.
const AT_ONCE: usize = 16;

impl Workloads {
    pub(super) async fn nodes(
        &self,
        nodes: usize,
        seconds: usize,
        bench: &mut Bench<'_>,
    ) -> Result<()> {
        let tasks = Tasks::default();
        let stop = CancellationToken::new();
        let config = NodesConfig {
            count: nodes,
            prefix: NODE_PREFIX.to_owned(),
            pods: Pods::OfOwnNodes,
            ..NodesConfig::default()
        };
        let store = self.nodes.store();
        let count = |holds: fn(&Node) -> bool| {
            let all = store.list();
            let ours = all
                .iter()
                .filter(|node| node.meta.name.starts_with(NODE_PREFIX));
            ours.filter(|node| holds(node)).count()
        };
        let with_range = || count(|node| !node.spec.pod_cidrs.is_empty());
        bench
            .phase("create", 0, async {
                nodes::start(config, self.client.clone(), Clock::system(), &tasks, &stop).await?;
                self.wait(|| with_range() == nodes)
                    .await
                    .with_context(|| format!("{} of {nodes} nodes have a range", with_range()))
            })
            .await?;
        bench.phase("heartbeats", 0, idle(seconds)).await?;
        stop.cancel();
        tasks.join(Duration::from_secs(5)).await;
        bench
            .phase("delete", 0, async {
                let deleted = (0..nodes).map(|index| self.delete_node(index));
                stream::iter(deleted)
                    .buffer_unordered(AT_ONCE)
                    .try_collect::<()>()
                    .await
                    .context("delete the nodes")?;
                self.wait(|| count(|_| true) == 0)
                    .await
                    .context("nodes are left")
            })
            .await
    }

    /// Deletes a node of the load and its Lease.
    async fn delete_node(&self, index: usize) -> Result<(), ApiError> {
        let name = format!("{NODE_PREFIX}{index}");
        let options = json!({"propagationPolicy": "Background"});
        for (resource, namespace) in [(&NODES, None), (&LEASES, Some(LEASE_NAMESPACE))] {
            let target = Target {
                resource,
                namespace,
                name: Some(&name),
                subresource: None,
            };
            match self.client.delete(target, &options).await {
                Err(error) if !error.is_not_found() => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}
