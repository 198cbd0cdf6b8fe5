//! The look at the live Lease before a silent node is lost.
//!
//! The cache of Leases may be behind, and then living nodes look silent. With the gate
//! `NodeControllerLeaseCircuitBreaker` (since 1.37) no node is lost by a Lease that is older than
//! the live one.
//!
//! Upstream: the circuit breaker of `tryUpdateNodeHealth` in `node_lifecycle_controller.go`
//! (kubernetes/kubernetes#138698). It reads the Lease of each silent node in each pass. Here the read
//! comes before the write of `Unknown`, so a node that stays silent costs one.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use steersman_client::live::{self, LiveError};
use steersman_client::{ApiClient, Category};
use steersman_objects::Lease;

/// Namespace of the Leases of nodes.
pub(super) const NAMESPACE: &str = "kube-node-lease";

/// Compares cached Leases with live ones.
pub(super) struct LeaseBreaker {
    client: ApiClient,
    is_on: bool,
    /// Whether the cache was behind in this pass. No further node is lost then, and no further
    /// Lease is read. One late Lease makes the whole cache suspect.
    is_behind: AtomicBool,
}

impl LeaseBreaker {
    /// A breaker that does nothing unless `is_on`.
    pub(super) fn new(client: ApiClient, is_on: bool) -> Self {
        Self {
            client,
            is_on,
            is_behind: AtomicBool::new(false),
        }
    }

    /// Begins a pass: the cache may have caught up.
    pub(super) fn reset(&self) {
        self.is_behind.store(false, Relaxed);
    }

    /// Whether `cached`, the Lease of `node`, may decide that the node is lost: the live Lease has the same
    /// version, or there is none.
    ///
    /// The role of an API server before 1.37 refuses the read. Then the cached Lease decides, as before 1.37;
    /// upstream would lose no node at all.
    ///
    /// A failed read loses no node: without a proof, the node keeps its conditions and its pods.
    pub(super) async fn permits(&self, node: &str, cached: Option<&Lease>) -> bool {
        if !self.is_on {
            return true;
        }
        if self.is_behind.load(Relaxed) {
            return false;
        }
        let live = match live::version::<Lease>(&self.client, NAMESPACE, node).await {
            Ok(live) => live,
            Err(LiveError::Request(error)) if error.is_forbidden() => return true,
            Err(error) => {
                let category = Category::of(&error).as_str();
                tracing::error!(node, category, %error, "Update health of Node from Controller error, Skipping - no pods will be evicted");
                return false;
            }
        };
        let is_same = live.is_none() || live == cached.map(|lease| lease.meta.resource_version);
        if !is_same {
            self.is_behind.store(true, Relaxed);
            tracing::info!(
                node,
                "The cache of Leases is behind. The next pass decides about silent nodes"
            );
        }
        is_same
    }
}
