//! The requests of the node lifecycle controller about single nodes and their pods.
//!
//! Upstream: `SwapNodeControllerTaint` and `MarkPodsNotReady` in `pkg/controller/util/node`,
//! `AddOrUpdateTaintOnNode`, `RemoveTaintOffNode` and `AddOrUpdateLabelsOnNode` in
//! `pkg/controller/controller_utils.go`.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use steersman_runtime::client::{ApiClient, ApiError, PatchKind, Target};
use steersman_runtime::clock::Clock;
use steersman_runtime::events::{EventRecorder, EventType};
use steersman_runtime::object::{
    DecodeError, Identity, Meta, Node, Object, ObjectKey, ObjectReference, Pod, Uid,
};
use steersman_runtime::own_writes::WritesTo;
use steersman_runtime::writes::{OnFailure, StatusError, write_status};

use super::health::Ready;
use super::labels;
use super::pods;
use super::taints::{Edit, LiveNode, TaintId};
use super::unknown;

/// Tries of one edit of taints. Upstream: `UpdateTaintBackoff`.
const TRIES: u32 = 5;

/// Pause after a conflict. Upstream adds a random part, because its writers share the pause.
const PAUSE: Duration = Duration::from_millis(100);

/// A write about a node failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum NodeError {
    /// The API server refused a request, or did not answer.
    #[error("{0}")]
    Request(#[source] ApiError),
    /// The answer of the API server is not a node.
    #[error("decode live node: {0}")]
    Live(#[source] serde_json::Error),
    /// The answer to a write has no metadata.
    #[error("{0}")]
    Answer(#[source] DecodeError),
    /// The `Ready` condition changed since the decision.
    #[error("the Ready condition of the node is {0:?} now")]
    Recovered(Option<Ready>),
}

impl NodeError {
    /// Whether the node changed or was deleted since the decision. The next pass decides again.
    pub(super) fn is_race(&self) -> bool {
        match self {
            Self::Request(error) => error.is_conflict() || error.is_object_not_found(),
            Self::Recovered(_) => true,
            Self::Live(_) | Self::Answer(_) => false,
        }
    }

    /// Whether the write gate refused the write: leadership has ended.
    pub(super) fn is_fenced(&self) -> bool {
        matches!(self, Self::Request(error) if error.is_fenced())
    }
}

/// Writes nodes and pods.
pub(super) struct Writer {
    pub(super) client: ApiClient,
    pub(super) clock: Clock,
    pub(super) recorder: EventRecorder,
    /// Own writes of nodes.
    pub(super) written: WritesTo,
}

impl Writer {
    /// Adds and removes taints, one edit after the other. Returns whether the node lacked one of
    /// `add`. With `ready`, a node with another `Ready` condition gets no taint.
    pub(super) async fn swap_taints(
        &self,
        node: &Node,
        add: &[TaintId],
        remove: &[TaintId],
        ready: Option<Ready>,
    ) -> Result<bool, NodeError> {
        let added = !add.is_empty() && self.edit_taints(node, Edit::Add(add), ready).await?;
        // Upstream asks the given node and not the live one, which saves requests.
        if remove.iter().any(|taint| taint.is_on(node)) {
            self.edit_taints(node, Edit::Remove(remove), None).await?;
        }
        Ok(added)
    }

    /// Makes one edit of the live list of taints. Returns whether it changed the list.
    ///
    /// The first read may come from the watch cache of the API server, as upstream. A node that is
    /// older there than in our cache is read again.
    async fn edit_taints(
        &self,
        node: &Node,
        edit: Edit<'_>,
        ready: Option<Ready>,
    ) -> Result<bool, NodeError> {
        let target = Target::of::<Node>(&node.meta);
        let mut failures = 0;
        let mut is_cached = !self.written.predates_term();
        loop {
            let answer = if is_cached {
                self.client.get_cached(target).await
            } else {
                self.client.get(target).await
            };
            let answer = answer.map_err(NodeError::Request)?;
            let live: LiveNode = serde_json::from_slice(&answer).map_err(NodeError::Live)?;
            if std::mem::take(&mut is_cached) && live.version() < node.meta.resource_version {
                continue;
            }
            if ready.is_some() && live.ready() != ready {
                return Err(NodeError::Recovered(live.ready()));
            }
            let Some(patch) = live.patch(edit, self.clock.now()) else {
                return Ok(false);
            };
            match self.patch_node(&node.meta, &patch).await {
                Err(NodeError::Request(error)) if error.is_conflict() && failures + 1 < TRIES => {
                    failures += 1;
                    tokio::time::sleep(PAUSE).await;
                }
                result => return result.map(|()| true),
            }
        }
    }

    /// Sets the beta labels that the node lacks.
    pub(super) async fn copy_labels(&self, node: &Node) -> Result<(), NodeError> {
        if labels::missing(&node.meta.labels).is_empty() {
            return Ok(());
        }
        let live = self.client.get_cached(Target::of::<Node>(&node.meta)).await;
        let live = Node::decode(&live.map_err(NodeError::Request)?).map_err(NodeError::Answer)?;
        let missing = labels::missing(&live.meta.labels);
        if missing.is_empty() {
            return Ok(());
        }
        let pairs = missing.into_iter();
        let labels: Map<String, Value> = pairs
            .map(|(key, value)| (key.to_owned(), json!(&*value)))
            .collect();
        self.patch_node(&node.meta, &json!({"metadata": {"labels": labels}}))
            .await
    }

    async fn patch_node(&self, node: &Meta, patch: &Value) -> Result<(), NodeError> {
        let target = Target::of::<Node>(node);
        let patched = self.client.patch(target, PatchKind::Strategic, patch).await;
        let patched = Identity::decode(&patched.map_err(NodeError::Request)?);
        self.wrote(node, &patched.map_err(NodeError::Answer)?);
        Ok(())
    }

    fn wrote(&self, node: &Meta, answer: &Identity) {
        let key = ObjectKey {
            namespace: node.namespace.clone(),
            name: Arc::clone(&node.name),
        };
        self.written.record(&key, answer.resource_version);
    }

    /// PUTs the status of `node` with the conditions of the kubelet `Unknown`.
    pub(super) async fn write_unknown(&self, node: &Node) -> Result<(), StatusError> {
        let status = unknown::status(node, self.clock.now());
        let put = OnFailure::Return;
        let answer =
            write_status::<Node>(&self.client, &node.meta, &node.document, &status, put).await?;
        let answer = Identity::decode(&answer).map_err(StatusError::Answer)?;
        self.wrote(&node.meta, &answer);
        Ok(())
    }

    /// The node as the API server has it.
    pub(super) async fn read(&self, node: &Node) -> Result<Node, NodeError> {
        let live = self.client.get(Target::of::<Node>(&node.meta)).await;
        Node::decode(&live.map_err(NodeError::Request)?).map_err(NodeError::Answer)
    }

    /// Marks these pods as not ready, one after the other. Goes on after a failure, and returns
    /// the first one.
    pub(super) async fn mark_not_ready(&self, pods: &[Arc<Pod>]) -> Result<(), ApiError> {
        let mut result = Ok(());
        for pod in pods {
            let Some(patch) = pods::not_ready(pod, self.clock.now()) else {
                continue;
            };
            tracing::debug!(pod = %pod.key(), "Updating ready status of pod to false");
            let target = Target::of::<Pod>(&pod.meta).status();
            match self
                .client
                .patch(target, PatchKind::Strategic, &patch)
                .await
            {
                Ok(_) => {}
                Err(error) if error.is_fenced() => return Err(error),
                Err(error) if error.is_object_not_found() => continue,
                Err(error) => {
                    tracing::info!(pod = %pod.key(), %error, "Failed to update status for pod");
                    result = result.and(Err(error));
                }
            }
            self.recorder.event(
                ObjectReference::of(&**pod),
                EventType::Warning,
                "NodeNotReady",
                "Node is not ready".to_owned(),
            );
        }
        result
    }

    /// Records an Event about a node.
    pub(super) fn node_event(&self, name: &str, uid: &Uid, reason: &'static str, text: &str) {
        let node = ObjectReference {
            api_version: Node::RESOURCE.api_version().into_owned(),
            kind: Node::RESOURCE.kind.clone().into_owned(),
            namespace: String::new(),
            name: name.to_owned(),
            uid: uid.to_string(),
            resource_version: String::new(),
        };
        let message = format!("Node {name} {text}");
        self.recorder
            .event(node, EventType::Normal, reason, message);
    }
}
