//! One pass over all nodes, one node after the other.
//!
//! Upstream: `MonitorNodes`.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use rand::Rng;
use steersman_client::writes::Delete;
use steersman_client::{ApiClient, ApiError, Category, PatchKind, Target};
use steersman_objects::{DecodeError, Object, ObjectReference};
use steersman_runtime::events::{EventRecorder, EventType};
use steersman_runtime::informer::Store;
use steersman_runtime::tasks::CancellationToken;

use super::taint::{self, Edit, LiveNode};
use crate::provider::{CloudError, Instances};
use crate::served::Served;

/// Tries of one edit of taints. Upstream: `updateTaintBackoff`.
const TRIES: u32 = 5;
/// The shortest pause between tries; the longest is twice as long.
const PAUSE: Duration = Duration::from_millis(100);

pub(super) struct Pass {
    pub(super) instances: Arc<dyn Instances>,
    pub(super) client: ApiClient,
    pub(super) recorder: EventRecorder,
    pub(super) nodes: Store<Served<Node>>,
}

/// A node was left as it is.
#[derive(Debug, thiserror::Error)]
enum NodeError {
    #[error("error checking if node exists: {0}")]
    Exists(#[source] CloudError),
    #[error("error checking if node is shutdown: {0}")]
    ShutDown(#[source] CloudError),
    #[error("error patching node taints: {0}")]
    Taint(#[source] ApiError),
    #[error("unable to delete node: {0}")]
    Delete(#[source] ApiError),
    #[error("cannot read the node: {0}")]
    Read(#[source] ApiError),
    #[error("cannot read the node: {0}")]
    Answer(#[source] DecodeError),
    #[error("cannot read the taints of the node: {0}")]
    Taints(#[source] serde_json::Error),
    /// The node changed since the decision, which the next pass repeats.
    #[error("the node has changed")]
    Changed,
}

impl NodeError {
    fn is_race(&self) -> bool {
        match self {
            Self::Changed => true,
            Self::Taint(error) | Self::Delete(error) | Self::Read(error) => {
                error.is_fenced() || error.is_conflict() || error.is_object_not_found()
            }
            Self::Exists(_) | Self::ShutDown(_) | Self::Answer(_) | Self::Taints(_) => false,
        }
    }
}

impl Pass {
    /// Looks at all nodes, until `stop`.
    pub(super) async fn run(&self, stop: &CancellationToken) {
        for node in self.nodes.list() {
            if stop.is_cancelled() {
                return;
            }
            let name = &*node.meta.name;
            match self.look_at(&node).await {
                Ok(()) => {}
                Err(error) if error.is_race() => {
                    tracing::debug!(node = name, %error, "the next pass decides again");
                }
                Err(error) => {
                    let category = Category::of(&error).as_str();
                    tracing::error!(node = name, category, %error, "node left as it is");
                }
            }
        }
    }

    async fn look_at(&self, node: &Served<Node>) -> Result<(), NodeError> {
        if is_ready(&node.object) {
            return if taint::is_on(&node.object) {
                self.edit(node, Edit::Remove).await
            } else {
                Ok(())
            };
        }
        let exists = self.instances.exists(&node.object).await;
        if !exists.map_err(NodeError::Exists)? {
            return self.delete(node).await;
        }
        let is_shut_down = self.instances.is_shut_down(&node.object).await;
        if is_shut_down.map_err(NodeError::ShutDown)? {
            self.edit(node, Edit::Add).await?;
        }
        Ok(())
    }

    async fn delete(&self, node: &Served<Node>) -> Result<(), NodeError> {
        let target = Target::of::<Served<Node>>(&node.meta);
        let live = self.client.get(target).await.map_err(NodeError::Read)?;
        let live = Served::<Node>::decode(&live).map_err(NodeError::Answer)?;
        if live.meta.uid != node.meta.uid || is_ready(&live.object) {
            return Err(NodeError::Changed);
        }
        let name = &*node.meta.name;
        tracing::debug!(
            node = name,
            "deleting node since it is no longer present in cloud provider"
        );
        self.event(
            node,
            EventType::Normal,
            "DeletingNode",
            format!("Deleting node {name} because it does not exist in the cloud provider"),
        );
        let exactly = Delete::exactly(&live.meta).unchanged_since(live.meta.resource_version);
        let Err(error) = self.client.delete(target, &exactly).await else {
            return Ok(());
        };
        // After a conflict the next pass looks at the node again.
        if !error.is_fenced() && !error.is_conflict() {
            let text = format!("Failed deleting node {name}: {error}");
            self.event(node, EventType::Warning, "DeletingNodeFailed", text);
        }
        Err(NodeError::Delete(error))
    }

    /// Makes one edit of the live list of taints. As upstream, the first read may come from the
    /// watch cache of the API server; the version in the patch detects an old one.
    async fn edit(&self, node: &Served<Node>, edit: Edit) -> Result<(), NodeError> {
        let target = Target::of::<Served<Node>>(&node.meta);
        let mut tries = 0;
        loop {
            let answer = if tries == 0 {
                self.client.get_cached(target).await
            } else {
                self.client.get(target).await
            };
            tries += 1;
            let live: LiveNode = serde_json::from_slice(&answer.map_err(NodeError::Read)?)
                .map_err(NodeError::Taints)?;
            if live.uid() != node.meta.uid.to_string() {
                return Err(NodeError::Changed);
            }
            let Some(body) = live.patch(edit) else {
                return Ok(());
            };
            match self.client.patch(target, PatchKind::Strategic, &body).await {
                Err(error) if error.is_conflict() && tries < TRIES => {
                    let factor = 1.0 + rand::rng().random::<f64>();
                    tokio::time::sleep(PAUSE.mul_f64(factor)).await;
                }
                patched => return patched.map(drop).map_err(NodeError::Taint),
            }
        }
    }

    fn event(&self, node: &Served<Node>, kind: EventType, reason: &'static str, text: String) {
        let node = ObjectReference {
            resource_version: String::new(),
            ..ObjectReference::of(node)
        };
        self.recorder.event(node, kind, reason, text);
    }
}

/// Whether the `Ready` condition is `True`.
fn is_ready(node: &Node) -> bool {
    let mut conditions = node
        .status
        .iter()
        .flat_map(|s| s.conditions.iter().flatten());
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
