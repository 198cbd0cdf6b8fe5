//! The two queues: nodes with changed NoExecute taints, and pods that were bound or changed.
//!
//! Both read the caches, decide and set timers under one lock. So the later of two
//! syncs decides by the newer caches, in any order of the queues. A sync performs no IO.
//!
//! Upstream: `handleNodeUpdate` and `handlePodUpdate` in `taint_eviction.go`.

use std::convert::Infallible;
use std::sync::Arc;

use steersman_objects::{Node, Object, ObjectKey, ObjectReference, Pod};
use steersman_runtime::events::EventType;
use steersman_runtime::workers::{Requeue, Syncer};
use tokio::time::Instant;

use super::evict::CAUSE;
use super::timers::Timers;
use super::tolerance::{self, no_execute};
use super::{EVENT_REASON, Shared};

/// Syncs nodes.
pub(super) struct Nodes(pub(super) Arc<Shared>);

impl Syncer for Nodes {
    /// A sync sends no request, so it always succeeds.
    type Error = Infallible;

    async fn sync(&self, key: &ObjectKey) -> Result<Requeue, Infallible> {
        self.0.sync_node(key);
        Ok(Requeue::Never)
    }
}

/// Syncs pods.
pub(super) struct Pods(pub(super) Arc<Shared>);

impl Syncer for Pods {
    type Error = Infallible;

    async fn sync(&self, key: &ObjectKey) -> Result<Requeue, Infallible> {
        self.0.sync_pod(key);
        Ok(Requeue::Never)
    }
}

impl Shared {
    /// Sets or cancels the timers of all pods of a node. A deleted node leaves them as they are,
    /// as upstream: other controllers delete its pods.
    fn sync_node(&self, key: &ObjectKey) {
        let mut timers = self.timers.lock();
        // The pod garbage collector deletes pods of nodes that are gone.
        let Some(node) = self.nodes.get(key) else {
            return;
        };
        let is_tainted = no_execute(&node.spec.taints).next().is_some();
        if !is_tainted && timers.is_empty() {
            return;
        }
        let now = Instant::now();
        for pod in self.pods_by_node.bound_to(&node.meta.name) {
            if is_tainted {
                self.decide(&mut timers, &node, &pod, now);
            } else if timers.cancel(&pod.key()) {
                self.report_cancelled(&pod.key());
            }
        }
        self.changed.notify_one();
    }

    /// Sets or cancels the timer of a pod. A pod on a node without NoExecute taints keeps its
    /// timer, as upstream: the sync of the node cancels it.
    fn sync_pod(&self, key: &ObjectKey) {
        let mut timers = self.timers.lock();
        let Some(pod) = self.pods.get(key) else {
            if timers.cancel(key) {
                self.report_cancelled(key);
            }
            return;
        };
        let node = pod.node.as_ref();
        let node = node.and_then(|name| self.nodes.get(&ObjectKey::new("", name)));
        let Some(node) = node else { return };
        if no_execute(&node.spec.taints).next().is_some() {
            self.decide(&mut timers, &node, &pod, Instant::now());
            self.changed.notify_one();
        }
    }

    /// Decides about one pod on a tainted node. Phase, owner and priority have no influence.
    /// Upstream: `processPodOnNode`.
    fn decide(&self, timers: &mut Timers, node: &Node, pod: &Pod, now: Instant) {
        // The pod was evicted and terminates. Another eviction would change nothing.
        if pod.meta.is_terminating() && CAUSE.is_set_on(pod) {
            return;
        }
        let tolerance =
            tolerance::of_pod(&node.spec.taints, &pod.spec.tolerations, self.comparisons);
        let key = pod.key();
        if timers.update(&key, &pod.meta.uid, tolerance, now) {
            self.report_cancelled(&key);
        }
    }

    fn report_cancelled(&self, pod: &ObjectKey) {
        self.report(pod, format!("Cancelling deletion of Pod {pod}"));
    }

    /// Records an Event about a pod. As upstream, it has no UID: the pod may be gone.
    pub(super) fn report(&self, pod: &ObjectKey, message: String) {
        let reference = ObjectReference {
            api_version: Pod::RESOURCE.api_version().into_owned(),
            kind: Pod::RESOURCE.kind.clone().into_owned(),
            namespace: pod.namespace.to_string(),
            name: pod.name.to_string(),
            uid: String::new(),
            resource_version: String::new(),
        };
        self.recorder
            .event(reference, EventType::Normal, EVENT_REASON, message);
    }
}
