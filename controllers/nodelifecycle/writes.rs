//! The requests of the node lifecycle controller about single nodes and their pods.
//!
//! Upstream: `SwapNodeControllerTaint` and `MarkPodsNotReady` in `pkg/controller/util/node`,
//! `AddOrUpdateTaintOnNode`, `RemoveTaintOffNode` and `AddOrUpdateLabelsOnNode` in
//! `pkg/controller/controller_utils.go`.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use steersman_client::{ApiClient, ApiError, PatchKind, Target};
use steersman_objects::{
    DecodeError, Identity, Meta, Node, Object, ObjectKey, ObjectReference, Pod, Uid,
};
use steersman_runtime::consistency::TrackedCache;
use steersman_runtime::events::{EventRecorder, EventType};
use steersman_values::clock::Clock;

use super::health::Ready;
use super::labels;
use super::pods;
use super::taints::{Edit, LiveNode, Premise, TaintId};
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
    Changed(Option<Ready>),
    /// The node was deleted, and another one has its name.
    #[error("another node has the name now")]
    Replaced,
}

impl NodeError {
    /// Whether the node changed or was deleted since the decision. The next pass decides again.
    pub(super) fn is_race(&self) -> bool {
        match self {
            Self::Request(error) => error.is_conflict() || error.is_object_not_found(),
            Self::Changed(_) | Self::Replaced => true,
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
    /// The cache of nodes.
    pub(super) cache: TrackedCache,
}

impl Writer {
    /// Adds and removes taints, one edit after the other. The new taint comes first, so that the
    /// node always has one. Upstream: `SwapNodeControllerTaint`.
    pub(super) async fn swap_taints(
        &self,
        node: &Node,
        add: &[TaintId],
        remove: &[TaintId],
        premise: Premise,
    ) -> Result<(), NodeError> {
        let added = self.add_taints(node, add, premise).await?;
        self.remove_taints(node, remove, premise, added).await
    }

    /// Adds taints. Returns the resource version of the write, if the node lacked one of them.
    pub(super) async fn add_taints(
        &self,
        node: &Node,
        taints: &[TaintId],
        premise: Premise,
    ) -> Result<Option<u64>, NodeError> {
        if taints.is_empty() {
            return Ok(None);
        }
        let seen = node.meta.resource_version;
        self.edit_taints(node, Edit::Add(taints), premise, seen)
            .await
    }

    /// Removes taints, if `node` has one of them. Upstream asks the given node too, and not the
    /// live one, which saves requests. `written` is the version of an earlier write.
    pub(super) async fn remove_taints(
        &self,
        node: &Node,
        taints: &[TaintId],
        premise: Premise,
        written: Option<u64>,
    ) -> Result<(), NodeError> {
        if taints.iter().any(|taint| taint.is_on(node)) {
            let seen = written.unwrap_or(node.meta.resource_version);
            self.edit_taints(node, Edit::Remove(taints), premise, seen)
                .await?;
        }
        Ok(())
    }

    /// Makes one edit of the live list of taints, while the premise holds. Returns the resource
    /// version of the write, if the list needed one.
    ///
    /// The first read may come from the watch cache of the API server, as upstream. A node that is
    /// older there than the version `seen` is read again.
    async fn edit_taints(
        &self,
        node: &Node,
        edit: Edit<'_>,
        premise: Premise,
        seen: u64,
    ) -> Result<Option<u64>, NodeError> {
        let target = Target::of::<Node>(&node.meta);
        let mut failures = 0;
        let mut is_cached = !self.cache.predates_term();
        loop {
            let answer = if is_cached {
                self.client.get_cached(target).await
            } else {
                self.client.get(target).await
            };
            let answer = answer.map_err(NodeError::Request)?;
            let live: LiveNode = serde_json::from_slice(&answer).map_err(NodeError::Live)?;
            if std::mem::take(&mut is_cached) && live.version() < seen {
                continue;
            }
            if live.uid() != node.meta.uid.to_string() {
                return Err(NodeError::Replaced);
            }
            if let Premise::Ready(ready) = premise
                && live.ready() != ready
            {
                return Err(NodeError::Changed(live.ready()));
            }
            let Some(patch) = live.patch(edit, self.clock.now()) else {
                return Ok(None);
            };
            match self.patch_node(&node.meta, &patch).await {
                Err(NodeError::Request(error)) if error.is_conflict() && failures + 1 < TRIES => {
                    failures += 1;
                    tokio::time::sleep(PAUSE).await;
                }
                written => return written.map(Some),
            }
        }
    }

    /// Sets the beta labels that the node lacks. Upstream: `AddOrUpdateLabelsOnNode`, which reads
    /// the node as well.
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
            .await?;
        Ok(())
    }

    /// Patches a node. Returns the resource version of the write.
    async fn patch_node(&self, node: &Meta, patch: &Value) -> Result<u64, NodeError> {
        let target = Target::of::<Node>(node);
        let patched = self.client.patch(target, PatchKind::Strategic, patch).await;
        let patched = Identity::decode(&patched.map_err(NodeError::Request)?);
        let version = patched.map_err(NodeError::Answer)?.resource_version;
        self.wrote(node, version);
        Ok(version)
    }

    /// Lets the next look at the node wait until the cache shows this write.
    fn wrote(&self, node: &Meta, version: u64) {
        let key = ObjectKey {
            namespace: node.namespace.clone(),
            name: Arc::clone(&node.name),
        };
        self.cache.wrote_at(&key, version);
    }

    /// Makes the conditions of the kubelet of `node` `Unknown`. Returns the node as written.
    pub(super) async fn write_unknown(&self, node: &Node) -> Result<Node, NodeError> {
        let target = Target::of::<Node>(&node.meta).status();
        let patch = unknown::patch(node, self.clock.now());
        let answer = self
            .client
            .patch(target, PatchKind::Strategic, &patch)
            .await;
        let written = Node::decode(&answer.map_err(NodeError::Request)?);
        let written = written.map_err(NodeError::Answer)?;
        self.wrote(&written.meta, written.meta.resource_version);
        Ok(written)
    }

    /// The node as the API server has it, if it still has the UID of `node`. From etcd, not from
    /// the watch cache of the API server, since a decision rests on it.
    pub(super) async fn read(&self, node: &Node) -> Result<Node, NodeError> {
        let live = self.client.get(Target::of::<Node>(&node.meta)).await;
        let live = Node::decode(&live.map_err(NodeError::Request)?).map_err(NodeError::Answer)?;
        if live.meta.uid != node.meta.uid {
            return Err(NodeError::Replaced);
        }
        Ok(live)
    }

    /// Marks a pod as not ready. As upstream, the Event tells of it also after a failure, unless the
    /// pod is gone.
    pub(super) async fn mark_not_ready(&self, pod: &Pod) -> Result<(), ApiError> {
        let Some(patch) = pods::not_ready(pod, self.clock.now()) else {
            return Ok(());
        };
        tracing::debug!(pod = %pod.key(), "Updating ready status of pod to false");
        let target = Target::of::<Pod>(&pod.meta).status();
        let kind = PatchKind::Strategic;
        let marked = self.client.patch(target, kind, &patch).await.map(drop);
        match &marked {
            Ok(()) => {}
            Err(error) if error.is_fenced() => return marked,
            Err(error) if error.is_object_not_found() => return Ok(()),
            Err(error) => {
                tracing::info!(pod = %pod.key(), %error, "Failed to update status for pod");
            }
        }
        self.recorder.event(
            ObjectReference::of(pod),
            EventType::Warning,
            "NodeNotReady",
            "Node is not ready".to_owned(),
        );
        marked
    }

    /// Records an Event about a node. Upstream: `RecordNodeEvent`.
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
