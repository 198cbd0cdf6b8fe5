//! One pass of the health monitor: reads the caches, asks [`Monitor`], writes.
//!
//! Upstream: `monitorNodeHealth` in `node_lifecycle_controller.go`.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, stream};
use steersman_runtime::client::{ApiError, Category};
use steersman_runtime::intern::Sym;
use steersman_runtime::object::{Lease, Node, Object, ObjectKey};
use steersman_runtime::tasks::CancellationToken;
use tokio::time::Instant;

use super::Shared;
use super::health::{Moment, Ready};
use super::monitor::{Registration, Seen, Sight, TaintStep, Work};
use super::taints::{NOT_READY, UNREACHABLE};
use super::zones::{Count, Disruption};

/// Nodes with requests at the same time. Upstream: `nodeUpdateWorkerSize`.
const NODES_AT_ONCE: usize = 8;

/// Pause between two tries of a status write. Upstream: `retrySleepTime`.
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// Time for all tries of a status write. Upstream: `retrySleepTime * NodeHealthUpdateRetry`.
const RETRY_TIME: Duration = Duration::from_millis(100);

/// Namespace of the Leases of nodes.
const LEASES: &str = "kube-node-lease";

impl Shared {
    /// Checks all nodes once. No request starts after `stop`.
    pub(super) async fn pass(&self, stop: &CancellationToken) {
        let began = Instant::now();
        let nodes = self.nodes.list();
        let registration = self.monitor().register(&nodes);
        self.announce(&registration);

        let (mut seen, lost) = self.examine(&nodes);
        let written = stream::iter(lost)
            .map(|(node, sight)| self.write_unknown(node, sight, stop))
            .buffer_unordered(NODES_AT_ONCE);
        seen.extend(written.collect::<Vec<_>>().await.into_iter().flatten());

        let outcome = {
            let mut monitor = self.monitor();
            let outcome = monitor.finish(&nodes, seen, Moment::now(&self.clock));
            for (zone, _, count) in monitor.zones() {
                self.metrics.show(zone, count);
            }
            outcome
        };
        for zone in &outcome.gone {
            self.metrics.show(zone, Count::default());
        }
        match outcome.disruption {
            Disruption::Begins => tracing::info!(
                "Controller detected that all Nodes are not-Ready. Entering master disruption mode"
            ),
            Disruption::Ends => tracing::info!(
                "Controller detected that some Nodes are Ready. Exiting master disruption mode"
            ),
            Disruption::None | Disruption::Continues => {}
        }
        self.waiting.notify_one();
        stream::iter(outcome.work)
            .for_each_concurrent(NODES_AT_ONCE, |work| self.work(work, stop))
            .await;
        self.metrics
            .pass_duration
            .observe(began.elapsed().as_secs_f64());
    }

    fn announce(&self, registration: &Registration) {
        for (name, uid) in &registration.added {
            tracing::debug!(node = &**name, "Controller observed a new Node");
            let text = format!("event: Registered Node {name} in Controller");
            self.writer.node_event(name, uid, "RegisteredNode", &text);
        }
        for (name, uid) in &registration.removed {
            tracing::debug!(node = &**name, "Controller observed a Node deletion");
            let text = format!("event: Removing Node {name} from Controller");
            self.writer.node_event(name, uid, "RemovingNode", &text);
        }
    }

    /// Looks at all nodes. The second list has the nodes that need a status write.
    fn examine(&self, nodes: &[Arc<Node>]) -> (Vec<Seen>, Vec<(Arc<Node>, Sight)>) {
        let now = Moment::now(&self.clock);
        let namespace = Sym::new(LEASES);
        let mut seen = Vec::with_capacity(nodes.len());
        let mut lost = Vec::new();
        let mut monitor = self.monitor();
        for node in nodes {
            let began = Instant::now();
            if self.own_writes.behind(&node.key()).is_some() {
                // The cache lacks our last write, so the node as cached says nothing new.
                let ready = monitor.ready(&node.meta.name).or_else(|| Ready::of(node));
                seen.push(Seen::unchanged(node, ready));
                continue;
            }
            let lease = self.lease(&namespace, node);
            let sight = monitor.examine(node, lease.as_deref(), now);
            if sight.is_lost {
                lost.push((Arc::clone(node), sight));
            } else {
                seen.push(Seen::unchanged(node, sight.ready));
                let duration = began.elapsed().as_secs_f64();
                self.metrics.node_duration.observe(duration);
            }
        }
        (seen, lost)
    }

    fn lease(&self, namespace: &Sym, node: &Node) -> Option<Arc<Lease>> {
        self.leases.get(&ObjectKey {
            namespace: namespace.clone(),
            name: Arc::clone(&node.meta.name),
        })
    }

    /// Writes the status of a silent node. After a failure it reads the node and decides again.
    /// `None` if all tries failed; the next pass tries again.
    async fn write_unknown(
        &self,
        mut node: Arc<Node>,
        first: Sight,
        stop: &CancellationToken,
    ) -> Option<Seen> {
        let began = Instant::now();
        let namespace = Sym::new(LEASES);
        let mut before = first.ready;
        loop {
            if stop.is_cancelled() {
                return None;
            }
            let is_last = began.elapsed() >= RETRY_TIME;
            let lease = self.lease(&namespace, &node);
            let name = &*node.meta.name;
            let error = match self.writer.write_unknown(&node).await {
                Ok(()) => {
                    self.monitor().unknown_written(&node, lease.as_deref());
                    self.metrics
                        .node_duration
                        .observe(began.elapsed().as_secs_f64());
                    return Some(Seen {
                        node,
                        before,
                        ready: Some(Ready::Unknown),
                    });
                }
                Err(error) => error,
            };
            tracing::debug!(node = name, %error, "Error updating node");
            if ApiError::within(&error).is_some_and(ApiError::is_fenced) {
                return None;
            }
            if is_last {
                let category = Category::of(&error).as_str();
                tracing::error!(node = name, category, %error, "Update health of Node from Controller error, Skipping - no pods will be evicted");
                return None;
            }
            let live = match self.writer.read(&node).await {
                Ok(live) => Arc::new(live),
                Err(error) => {
                    if error.is_race() {
                        tracing::debug!(node = name, %error, "Node was deleted");
                    } else if !error.is_fenced() {
                        let category = Category::of(&error).as_str();
                        tracing::error!(node = name, category, %error, "Failed while getting a Node to retry updating node health");
                    }
                    return None;
                }
            };
            tokio::time::sleep(RETRY_PAUSE).await;
            let sight = self
                .monitor()
                .examine(&live, lease.as_deref(), Moment::now(&self.clock));
            if !sight.is_lost {
                // The answer of our own write may be lost: then `Unknown` comes from us, and the
                // pods still have to be marked.
                if sight.ready != Some(Ready::Unknown) {
                    before = sight.ready;
                }
                return Some(Seen {
                    node: live,
                    before,
                    ready: sight.ready,
                });
            }
            (node, before) = (live, sight.ready);
        }
    }

    /// Makes the writes that one node needs.
    async fn work(&self, work: Work, stop: &CancellationToken) {
        if stop.is_cancelled() {
            return;
        }
        let node = &work.node;
        let name = &*node.meta.name;
        let changed = match work.taints {
            TaintStep::None => Ok(false),
            TaintStep::Swap { ready, add, remove } => {
                self.writer
                    .swap_taints(node, &[add], &[remove], Some(ready))
                    .await
            }
            TaintStep::Remove => {
                self.writer
                    .swap_taints(node, &[], &[UNREACHABLE, NOT_READY], None)
                    .await
            }
        };
        match changed {
            Ok(_) => {}
            Err(error) if error.is_fenced() => return,
            Err(error) if error.is_race() => {
                tracing::debug!(node = name, %error, "Node changed. The next pass decides about its taints");
            }
            // The next pass tries again.
            Err(error) => {
                let category = Category::of(&error).as_str();
                tracing::error!(node = name, category, %error, "Failed to change NoExecute taints of node. Will try again in the next cycle");
            }
        }
        if work.was_lost {
            let text = "status is now: NodeNotReady";
            self.writer
                .node_event(name, &node.meta.uid, "NodeNotReady", text);
        }
        if work.marks_pods {
            let pods = self.pods_by_node.bound_to(name);
            match self.writer.mark_not_ready(&pods).await {
                // Pods that were not ready in an older state are marked in a later pass.
                Ok(()) if self.pods_seen.predates_term() => {}
                Ok(()) => self.monitor().pods_marked(name),
                Err(error) if error.is_fenced() || error.is_conflict() => {
                    tracing::debug!(node = name, %error, "Pods of node are marked in the next pass");
                }
                Err(error) => {
                    let category = Category::of(&error).as_str();
                    tracing::error!(node = name, category, %error, "Unable to mark all pods NotReady on node; queuing for retry");
                }
            }
        }
    }
}

impl Seen {
    /// A node with an unchanged status.
    fn unchanged(node: &Arc<Node>, ready: Option<Ready>) -> Self {
        Self {
            node: Arc::clone(node),
            before: ready,
            ready,
        }
    }
}
