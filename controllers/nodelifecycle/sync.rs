//! The two queues: nodes get NoSchedule taints and labels, pods of silent nodes are marked.
//!
//! Upstream: `doNodeProcessingPassWorker` and `processPod` in `node_lifecycle_controller.go`.

use std::sync::Arc;

use steersman_client::ApiError;
use steersman_objects::{Node, ObjectKey, Pod};
use steersman_runtime::keyed::ObjectSyncer;
use steersman_runtime::workers::{Requeue, Retry};

use super::health::Ready;
use super::taints::Premise;
use super::writes::NodeError;
use super::{Shared, taints};

/// Syncs nodes.
pub(super) struct Nodes(pub(super) Arc<Shared>);

impl ObjectSyncer for Nodes {
    type Object = Node;
    type Error = NodeError;

    /// A failure is retried. Upstream waits for the next update of the node.
    async fn sync(&self, _key: &ObjectKey, node: Arc<Node>) -> Result<Requeue, NodeError> {
        let writer = &self.0.writer;
        let tainted = self.0.taint_by_conditions(&node).await;
        // Labels are independent of taints, so they do not wait for a retry.
        let labelled = writer.copy_labels(&node).await;
        tainted?;
        labelled?;
        Ok(Requeue::Never)
    }

    fn retry(&self, error: &NodeError, request: Option<&ApiError>, _failures: u32) -> Retry {
        if error.is_race() {
            Retry::Quietly
        } else {
            Retry::after_request(request)
        }
    }
}

impl Shared {
    /// Gives the node the NoSchedule taints of its conditions. Upstream:
    /// `doNoScheduleTaintingPass`.
    async fn taint_by_conditions(&self, node: &Node) -> Result<(), NodeError> {
        let (add, remove) = taints::no_schedule(node);
        if add.is_empty() && remove.is_empty() {
            return Ok(());
        }
        let writer = &self.writer;
        if !writer.cache.predates_term() {
            return writer
                .swap_taints(node, &add, &remove, Premise::Always)
                .await;
        }
        // The conditions in the cache of a new leader may be outdated.
        let live = writer.read(node).await?;
        let (add, remove) = taints::no_schedule(&live);
        writer
            .swap_taints(&live, &add, &remove, Premise::Always)
            .await
    }
}

/// Syncs pods that were bound to a node after the monitor marked the pods of that node.
pub(super) struct Pods(pub(super) Arc<Shared>);

/// A pod could not be marked.
#[derive(Debug, thiserror::Error)]
pub(super) enum PodError {
    /// The cache lacks the node.
    #[error("node {0} does not exist")]
    NoNode(Arc<str>),
    /// The node could not be read.
    #[error("read the node of the pod: {0}")]
    Read(#[source] NodeError),
    /// The request failed.
    #[error("mark pod as not ready: {0}")]
    Mark(#[source] ApiError),
}

impl ObjectSyncer for Pods {
    type Object = Pod;
    type Error = PodError;

    /// A node that the monitor has not seen yet is left to its next pass. Upstream: `processPod`.
    async fn sync(&self, _key: &ObjectKey, pod: Arc<Pod>) -> Result<Requeue, PodError> {
        let Some(node) = &pod.node else {
            return Ok(Requeue::Never);
        };
        let ready = self.0.monitor().ready(node);
        if ready.is_none_or(|ready| ready == Ready::True) {
            return Ok(Requeue::Never);
        }
        let Some(cached) = self.0.nodes.get(&ObjectKey::new("", node)) else {
            return Err(PodError::NoNode(node.to_arc()));
        };
        let is_lost = self.0.is_not_ready(&cached).await;
        if is_lost.map_err(PodError::Read)? {
            let marked = self.0.writer.mark_not_ready(&pod).await;
            marked.map_err(PodError::Mark)?;
        }
        Ok(Requeue::Never)
    }

    fn retry(&self, error: &PodError, request: Option<&ApiError>, _failures: u32) -> Retry {
        match error {
            // The deletion of the pod is on its way, by podgc.
            PodError::NoNode(_) => Retry::Quietly,
            PodError::Read(error) if error.is_race() => Retry::Quietly,
            PodError::Read(_) | PodError::Mark(_) => Retry::after_request(request),
        }
    }
}
