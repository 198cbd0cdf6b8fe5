//! The live list of nodes before the first allocation.
//!
//! A new leader's cache may lack the last blocks that the previous leader gave. So the controller
//! lists all nodes from the API server, and holds their blocks until its cache is as new as the
//! list. As upstream, `podCIDRs` that do not fit the flags end the process.
//!
//! Upstream: `listNodes` of the package `ipam`.

use std::time::Duration;

use serde_json::value::RawValue;
use steersman_client::live::{PageError, Pages};
use steersman_client::{ApiClient, Category};
use steersman_objects::{DecodeError, Node, Object};
use steersman_runtime::tasks::CancellationToken;
use tokio::time::Instant;

/// Time between two attempts. Upstream: `nodePollInterval`.
const INTERVAL: Duration = Duration::from_secs(10);
/// Time limit for all attempts. Upstream: `apiserverStartupGracePeriod`.
const LIMIT: Duration = Duration::from_secs(600);

/// The nodes at one resource version.
pub(super) struct LiveNodes {
    /// All nodes.
    pub(super) nodes: Vec<Node>,
    /// The resource version of the list.
    pub(super) version: u64,
}

/// Nodes could not be listed.
#[derive(Debug, thiserror::Error)]
enum ListError {
    /// A request failed.
    #[error("{0}")]
    Page(#[from] PageError),
    /// An item is no node.
    #[error("{0}")]
    Node(#[from] DecodeError),
}

/// Nodes could not be listed within the time limit.
#[derive(Debug, thiserror::Error)]
#[error("failed to list all nodes in 10m0s, cannot proceed without updating CIDR map")]
pub(super) struct NoNodes;

/// Lists all nodes, and repeats failed attempts. `None` if `stop` ends the wait.
pub(super) async fn list_nodes(
    client: &ApiClient,
    stop: &CancellationToken,
) -> Option<Result<LiveNodes, NoNodes>> {
    let end = Instant::now() + LIMIT;
    loop {
        let listed = tokio::select! {
            () = stop.cancelled() => return None,
            listed = list(client) => listed,
        };
        match listed {
            Ok(live) => return Some(Ok(live)),
            Err(error) => {
                let category = Category::of(&error).as_str();
                tracing::error!(category, %error, "Failed to list all nodes");
            }
        }
        if Instant::now() + INTERVAL > end {
            return Some(Err(NoNodes));
        }
        tokio::select! {
            () = stop.cancelled() => return None,
            () = tokio::time::sleep(INTERVAL) => {}
        }
    }
}

/// The version is that of the list, with which the cache has to catch up.
async fn list(client: &ApiClient) -> Result<LiveNodes, ListError> {
    let mut pages = Pages::new(client, Node::RESOURCE, None);
    let mut nodes = Vec::new();
    while let Some(items) = pages.next::<Box<RawValue>>().await? {
        for item in items {
            nodes.push(Node::decode(item.get().as_bytes())?);
        }
    }
    Ok(LiveNodes {
        nodes,
        version: pages.version(),
    })
}
