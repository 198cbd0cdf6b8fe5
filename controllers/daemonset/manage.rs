//! The pods that the nodes lack, and the pods that they should not have.
//!
//! A node that should run a pod gets one. Failed and finished pods are deleted, and so are surplus
//! pods. A terminating pod blocks its node until it is gone, except for pods that may surge.
//!
//! Upstream: `manage` and `podsShouldBeOnNode` in `daemon_controller.go`. Differences:
//!
//! - While a failed pod waits for its back-off, a DaemonSet with surge gets no further pod on that
//!   node. Upstream creates one in each sync (kubernetes/kubernetes#124388).
//! - A terminating pod that waits for a missing node is deleted once. Upstream deletes it again in
//!   each sync, and its expectation then delays creations for five minutes.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use steersman_objects::{DaemonSet, Object, Phase, Pod};
use steersman_runtime::events::EventType;
use tokio::time::Instant;

use super::changes::Changes;
use super::failed_pods::Backoffs;
use super::layout::{Layout, OnNode};
use super::limits::allows_surge;
use super::placement::Placement;
use super::updated::Current;

/// The result of [`decide`].
///
/// Nothing of it has happened yet: Events, back-offs and requests follow in the sync.
#[derive(Default)]
pub(super) struct Managed {
    /// Creations and deletions.
    pub(super) changes: Changes,
    /// Finished pods among the deletions.
    pub(super) finished: Vec<Finished>,
    /// Nodes on which a failed pod is deleted.
    pub(super) backed_off: Vec<Arc<str>>,
    /// The time until the next failed pod may be deleted.
    pub(super) next_deletion: Option<Duration>,
}

/// A finished pod that is deleted.
pub(super) struct Finished {
    node: Arc<str>,
    pod: Arc<Pod>,
}

impl Finished {
    /// Type, reason and message of the Event.
    pub(super) fn event(&self) -> (EventType, &'static str, String) {
        let pod = self.pod.key();
        let node = &self.node;
        if self.pod.phase == Phase::Failed {
            let message =
                format!("Found failed daemon pod {pod} on node {node}, will try to kill it");
            (EventType::Warning, "FailedDaemonPod", message)
        } else {
            let message =
                format!("Found succeeded daemon pod {pod} on node {node}, will try to delete it");
            (EventType::Normal, "SucceededDaemonPod", message)
        }
    }
}

/// The decision for all nodes of `layout`. `now` and `instant` are the same time.
///
/// The sync caps the changes afterwards, so a node late in the order may wait for a later sync.
pub(super) fn decide(
    ds: &DaemonSet,
    layout: &Layout,
    current: &Current,
    backoffs: &Backoffs,
    now: Timestamp,
    instant: Instant,
) -> Managed {
    let mut decision = Decision {
        ds,
        current,
        backoffs,
        now,
        instant,
        managed: Managed::default(),
    };
    for node in layout.nodes() {
        match node.placement {
            Some(Placement::Run) if node.is_empty() => decision.create(&node),
            // Also when all pods of the node are terminating and may not surge: `prune` then does nothing.
            Some(placement) if placement.keeps() => decision.prune(&node),
            _ => decision
                .managed
                .changes
                .delete
                .extend(node.remaining_pods().cloned()),
        }
    }
    // Neither kubelets nor podgc remove a pod that waits for a missing node.
    for node in layout.missing_nodes() {
        let unbound = node.remaining_pods().filter(|pod| pod.node.is_none());
        decision.managed.changes.delete.extend(unbound.cloned());
    }
    decision.managed
}

/// A decision in the making.
struct Decision<'a> {
    ds: &'a DaemonSet,
    current: &'a Current,
    backoffs: &'a Backoffs,
    now: Timestamp,
    instant: Instant,
    managed: Managed,
}

impl Decision<'_> {
    /// Wants a pod on the node. At most one per node and sync.
    fn create(&mut self, node: &OnNode<'_>) {
        self.managed.changes.create.push(Arc::clone(node.name));
    }

    /// Wants the pod gone.
    fn delete(&mut self, pod: &Arc<Pod>) {
        self.managed.changes.delete.push(Arc::clone(pod));
    }

    /// Deletes the finished and surplus pods of a node that keeps its pods.
    ///
    /// Upstream: the case `shouldContinueRunning` of `podsShouldBeOnNode`. The failed pods of a node share
    /// one back-off, so only the first one is deleted at once.
    fn prune(&mut self, node: &OnNode<'_>) {
        let mut running = Vec::new();
        let mut is_waiting = false;
        let mut next_deletion = self.backoffs.remaining(node.name, self.instant);
        for pod in node.remaining_pods() {
            match pod.phase {
                Phase::Failed => match next_deletion {
                    Some(delay) => {
                        is_waiting = true;
                        self.wait(delay);
                    }
                    None => {
                        let delay = self.backoffs.delay_after_deletion(node.name, self.instant);
                        next_deletion = Some(delay);
                        self.managed.backed_off.push(Arc::clone(node.name));
                        self.end(node, pod);
                    }
                },
                Phase::Succeeded => self.end(node, pod),
                _ => running.push(pod),
            }
        }
        if !allows_surge(&self.ds.spec.update_strategy) {
            running.into_iter().skip(1).for_each(|pod| self.delete(pod));
        } else if running.len() > 1 {
            self.delete_surplus(&running);
        } else if running.is_empty() && node.placement == Some(Placement::Run) && !is_waiting {
            self.create(node);
        }
    }

    /// Deletes a finished pod, which users see as an Event.
    fn end(&mut self, node: &OnNode<'_>, pod: &Arc<Pod>) {
        self.delete(pod);
        self.managed.finished.push(Finished {
            node: Arc::clone(node.name),
            pod: Arc::clone(pod),
        });
    }

    /// Remembers the earliest end of a back-off, for the next sync.
    fn wait(&mut self, delay: Duration) {
        let earlier = self.managed.next_deletion.unwrap_or(delay);
        self.managed.next_deletion = Some(earlier.min(delay));
    }

    /// Deletes the surplus among the `running` pods of a node with surge, which are sorted.
    ///
    /// The oldest pod of the current revision stays, and so does the oldest other pod while it is
    /// ready. The other pod is deleted as soon as the current one is available.
    ///
    /// So one node has at most two pods: a current one and an old one.
    fn delete_surplus(&mut self, running: &[&Arc<Pod>]) {
        let mut new = None;
        let mut old = None;
        for pod in running {
            let first = if self.current.has_hash(pod) {
                &mut new
            } else {
                &mut old
            };
            match first {
                Some(_) => self.delete(pod),
                None => *first = Some(*pod),
            }
        }
        if let Some(new) = new
            && let Some(old) = old
        {
            let min_ready_seconds = self.ds.spec.min_ready_seconds;
            if !old.is_ready() || new.is_available(min_ready_seconds, self.now) {
                self.delete(old);
            }
        }
    }
}
