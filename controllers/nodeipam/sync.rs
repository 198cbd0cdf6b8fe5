//! One sync of one node: reserve a block of each cluster CIDR, and PATCH `podCIDRs`.
//!
//! Upstream: `AllocateOrOccupyCIDR` and `updateCIDRsAllocation` of the range allocator.

use std::sync::Arc;

use serde_json::{Value, json};
use steersman_client::{ApiClient, ApiError, PatchKind, Target};
use steersman_objects::{DecodeError, Identity, Node, ObjectKey, ObjectReference};
use steersman_runtime::consistency::TrackedCache;
use steersman_runtime::events::{EventRecorder, EventType};
use steersman_runtime::informer::SharedInformer;
use steersman_runtime::keyed::ObjectSyncer;
use steersman_runtime::workers::Requeue;
use steersman_values::cidr::Cidr;

use super::allocations::{Exhausted, OccupyError};
use super::pool::Pool;

/// Attempts of one PATCH in one sync, without a pause. Upstream: `cidrUpdateRetries`. The key
/// returns with its back-off after the last one.
const ATTEMPTS: usize = 3;

/// The operation of a sync that failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum SyncError {
    /// The `podCIDRs` of the node do not fit the flags.
    #[error("{0}")]
    Occupy(#[from] OccupyError),
    /// No block is free.
    #[error("{0}")]
    Exhausted(#[from] Exhausted),
    /// The API server did not accept the block.
    #[error("{0}")]
    Patch(#[source] ApiError),
    /// The answer to the PATCH is no node.
    #[error("{0}")]
    Answer(#[source] DecodeError),
}

/// Gives blocks to nodes.
pub(super) struct NodeIpam {
    pub(super) pool: Pool,
    pub(super) nodes: SharedInformer<Node>,
    pub(super) cache: TrackedCache,
    pub(super) client: ApiClient,
    pub(super) recorder: EventRecorder,
}

impl ObjectSyncer for NodeIpam {
    type Object = Node;
    type Error = SyncError;

    /// A terminating node gets no block, and a node with blocks is only checked. The `podCIDRs` of
    /// a node never change, so this is all.
    async fn sync(&self, key: &ObjectKey, node: Arc<Node>) -> Result<Requeue, SyncError> {
        if node.meta.is_terminating() {
            self.pool.with(|allocations| allocations.stop_waiting(key));
            return Ok(Requeue::Never);
        }
        if !node.spec.pod_cidrs.is_empty() {
            self.pool.with(|allocations| allocations.check(&node))?;
            return Ok(Requeue::Never);
        }
        let reserved = self.pool.with(|allocations| {
            if allocations.is_outdated(&node) {
                return Ok(None);
            }
            allocations.reserve(key, &node.meta.uid)
        });
        let reserved = reserved.inspect_err(|_| self.report(&node, "CIDRNotAvailable"))?;
        if let Some(cidrs) = reserved {
            self.assign(key, &node, &cidrs).await?;
        }
        Ok(Requeue::Never)
    }

    async fn clean_up(&self, key: &ObjectKey) -> Result<Requeue, SyncError> {
        self.pool.with(|allocations| allocations.abandon(key));
        Ok(Requeue::Never)
    }
}

impl NodeIpam {
    /// Sends the reserved blocks, in up to [`ATTEMPTS`] requests.
    async fn assign(&self, key: &ObjectKey, node: &Node, cidrs: &[Cidr]) -> Result<(), SyncError> {
        let cidrs: Vec<String> = cidrs.iter().map(ToString::to_string).collect();
        let mut patch = patch_of(&cidrs);
        // Another node of this name has another UID, which the API server refuses to change.
        patch["metadata"] = json!({"uid": node.meta.uid.to_string()});
        let mut attempt = 1;
        let error = loop {
            let target = Target::of::<Node>(&node.meta);
            match self
                .client
                .patch(target, PatchKind::Strategic, &patch)
                .await
            {
                Ok(answer) => return self.accepted(key, &answer),
                Err(error) if error.is_fenced() => break error,
                // The node is gone, and no PATCH for it takes effect any more. Its namesake is in the
                // queue when the cache shows it.
                Err(error) if error.is_about_another_uid() => {
                    self.pool.with(|allocations| allocations.abandon(key));
                    return Ok(());
                }
                Err(error) => {
                    if may_have_taken_effect(&error) {
                        self.pool.with(|allocations| allocations.doubted(key));
                    }
                    if attempt == ATTEMPTS {
                        self.report(node, "CIDRAssignmentFailed");
                        break error;
                    }
                    attempt += 1;
                }
            }
        };
        self.pool.with(|allocations| allocations.refused(key));
        Err(SyncError::Patch(error))
    }

    /// The reservation ends when the cache shows the write.
    fn accepted(&self, key: &ObjectKey, answer: &[u8]) -> Result<(), SyncError> {
        let written = Identity::decode(answer).map_err(|error| {
            self.pool.with(|allocations| allocations.doubted(key));
            SyncError::Answer(error)
        })?;
        let version = written.resource_version;
        self.pool.with(|allocations| allocations.confirmed(key));
        self.cache.wrote_at(key, version);
        let pool = self.pool.clone();
        let nodes = self.nodes.store();
        let key = key.clone();
        self.nodes.when_seen(version, move || {
            let cached = nodes.get(&key);
            pool.with(|allocations| allocations.settled(&key, cached.as_deref()));
        });
        Ok(())
    }

    /// Records an Event about the node. As upstream, it is of type Normal and has the UID of the
    /// node, but no resource version.
    fn report(&self, node: &Node, reason: &'static str) {
        let object = ObjectReference {
            resource_version: String::new(),
            ..ObjectReference::of(node)
        };
        let message = format!("Node {} status is now: {reason}", node.meta.name);
        self.recorder
            .event(object, EventType::Normal, reason, message);
    }
}

/// The body of the PATCH: `podCIDR` is the first range. Upstream: `PatchNodeCIDRs`.
pub(super) fn patch_of(cidrs: &[String]) -> Value {
    json!({"spec": {"podCIDR": cidrs.first(), "podCIDRs": cidrs}})
}

/// False if the API server refused the request, so that it cannot take effect later. An error
/// within the API server may follow a write to etcd.
fn may_have_taken_effect(error: &ApiError) -> bool {
    match error {
        ApiError::Status { code, .. } => *code >= 500,
        ApiError::Fenced { .. } | ApiError::Refused(_) | ApiError::Path(_) => false,
        ApiError::Transport { .. } | ApiError::Timeout { .. } | ApiError::Decode { .. } => true,
    }
}
