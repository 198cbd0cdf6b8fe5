//! One pass of the health monitor: reads the caches, asks [`Monitor`], writes.
//!
//! Upstream: `monitorNodeHealth` in `node_lifecycle_controller.go`.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, stream};
use steersman_client::Category;
use steersman_objects::{Lease, Node, Object, ObjectKey};
use steersman_runtime::tasks::CancellationToken;
use steersman_values::intern::Sym;
use tokio::time::Instant;

use super::Shared;
use super::health::{Moment, Ready};
use super::lease;
use super::monitor::{Registration, Seen, TaintStep, Work};
use super::taints::{NOT_READY, Premise, UNREACHABLE};
use super::writes::NodeError;
use super::zones::{Count, Disruption};

/// Nodes with requests at the same time. Upstream: `nodeUpdateWorkerSize`. Patches of pods take
/// most of the time of a pass, one after the other per node.
const NODES_AT_ONCE: usize = 8;

/// Nodes that a pass looks at before other tasks get the thread. A look takes about a microsecond.
const LOOKS_AT_ONCE: usize = 1000;

/// Pause between two tries of a status write. Upstream: `retrySleepTime`.
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// Time for all tries of a status write. Upstream: `retrySleepTime * NodeHealthUpdateRetry`.
const RETRY_TIME: Duration = Duration::from_millis(100);

impl Shared {
    /// Checks all nodes once. No request starts after `stop`.
    pub(super) async fn pass(&self, stop: &CancellationToken) {
        let began = Instant::now();
        let nodes = self.nodes.list();
        let registration = self.monitor().register(&nodes);
        self.announce(&registration);
        self.breaker.reset();

        // All nodes are judged by one time, before the first write.
        let (mut seen, lost) = self.examine(&nodes).await;
        let written = stream::iter(lost)
            .map(|node| self.write_unknown(node, stop))
            .buffer_unordered(NODES_AT_ONCE);
        seen.extend(written.collect::<Vec<_>>().await.into_iter().flatten());

        let outcome = {
            let mut monitor = self.monitor();
            let outcome = monitor.finish(&nodes, &seen, Moment::now(&self.clock));
            for (zone, _, count) in monitor.zones() {
                self.metrics.show(zone, count);
            }
            outcome
        };
        // The other nodes observe their time after their writes.
        let busy = outcome.work.iter().map(|work| &*work.node.meta.name);
        let busy: HashSet<&str> = busy.collect();
        let idle = seen.iter();
        idle.filter(|seen| !busy.contains(&*seen.node.meta.name))
            .for_each(|seen| self.metrics.node_took(seen.spent));
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
    async fn examine(&self, nodes: &[Arc<Node>]) -> (Vec<Seen>, Vec<Arc<Node>>) {
        let now = Moment::now(&self.clock);
        let mut sights = (Vec::with_capacity(nodes.len()), Vec::new());
        for some in nodes.chunks(LOOKS_AT_ONCE) {
            self.look(some, now, &mut sights);
            tokio::task::yield_now().await;
        }
        sights
    }

    /// Adds `nodes` to the two lists of [`Self::examine`]. The lock of the monitor is held for all of them at once.
    fn look(&self, nodes: &[Arc<Node>], now: Moment, sights: &mut (Vec<Seen>, Vec<Arc<Node>>)) {
        let (seen, lost) = sights;
        let namespace = Sym::new(lease::NAMESPACE);
        let mut monitor = self.monitor();
        let mut began = Instant::now();
        for node in nodes {
            let ready = if self.consistency.ensure_ready(&node.key()).is_err() {
                // The cached conditions are older than our last write, so the memory is newer. A
                // sign of life counts in the pass after the cache has caught up.
                monitor.ready(&node.meta.name).or_else(|| Ready::of(node))
            } else {
                let lease = self.lease(&namespace, node);
                let sight = monitor.examine(node, lease.as_deref(), now);
                if sight.is_lost {
                    lost.push(Arc::clone(node));
                    continue;
                }
                sight.ready
            };
            let ended = Instant::now();
            seen.push(Seen {
                node: Arc::clone(node),
                before: ready,
                ready,
                spent: ended - began,
            });
            began = ended;
        }
    }

    fn lease(&self, namespace: &Sym, node: &Node) -> Option<Arc<Lease>> {
        self.leases.get(&ObjectKey {
            namespace: namespace.clone(),
            name: Arc::clone(&node.meta.name),
        })
    }

    /// Writes the status of a silent node. Looks at the node and its Lease again before each try,
    /// because other writes may have taken minutes since the begin of the pass. After a failure it
    /// reads the node. `None` if the node is gone, or if all tries failed.
    async fn write_unknown(&self, listed: Arc<Node>, stop: &CancellationToken) -> Option<Seen> {
        let began = Instant::now();
        let namespace = Sym::new(lease::NAMESPACE);
        let name = &*listed.meta.name;
        let mut before = Ready::of(&listed);
        let mut node = self.nodes.get(&listed.key())?;
        loop {
            if stop.is_cancelled() || node.meta.uid != listed.meta.uid {
                return None;
            }
            let is_last = began.elapsed() >= RETRY_TIME;
            let lease = self.lease(&namespace, &node);
            let now = Moment::now(&self.clock);
            let sight = self.monitor().examine(&node, lease.as_deref(), now);
            // The answer of our own write may be lost: then `Unknown` comes from us, and the pods
            // still have to be marked.
            if sight.ready != Some(Ready::Unknown) {
                before = sight.ready;
            }
            let seen = |node, ready| Seen {
                node,
                before,
                ready,
                spent: began.elapsed(),
            };
            if !sight.is_lost {
                return Some(seen(node, sight.ready));
            }
            if !self.breaker.permits(name, lease.as_deref()).await {
                return None;
            }
            let error = match self.writer.write_unknown(&node).await {
                Ok(written) => {
                    self.monitor().unknown_written(&written, lease.as_deref());
                    return Some(seen(written.into(), Some(Ready::Unknown)));
                }
                Err(error) => error,
            };
            tracing::debug!(node = name, %error, "Error updating node");
            if error.is_fenced() {
                return None;
            }
            if is_last {
                let category = Category::of(&error).as_str();
                tracing::error!(node = name, category, %error, "Update health of Node from Controller error, Skipping - no pods will be evicted");
                return None;
            }
            tokio::time::sleep(RETRY_PAUSE).await;
            node = match self.writer.read(&listed).await {
                Ok(live) => live.into(),
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
        }
    }

    /// Makes the writes that one node needs. Taints come before the Event and the pods: they start
    /// the evictions, and pods take longest. Upstream: the end of `updateNodeFunc`.
    async fn work(&self, work: Work, stop: &CancellationToken) {
        if stop.is_cancelled() {
            return;
        }
        let began = Instant::now();
        let node = &work.node;
        let name = &*node.meta.name;
        let changed = match work.taints {
            TaintStep::None => Ok(()),
            TaintStep::Swap { ready, add, remove } => {
                let premise = Premise::Ready(Some(ready));
                self.writer
                    .swap_taints(node, &[add], &[remove], premise)
                    .await
            }
            TaintStep::Remove(premise) => {
                let both = [UNREACHABLE, NOT_READY];
                self.writer.remove_taints(node, &both, premise, None).await
            }
        };
        match changed {
            Ok(()) => {}
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
        // Upstream: `RecordNodeStatusChange`, only for a node that was ready.
        if work.was_lost {
            let text = "status is now: NodeNotReady";
            self.writer
                .node_event(name, &node.meta.uid, "NodeNotReady", text);
        }
        if work.marks_pods {
            self.mark_pods(node, stop).await;
        }
        self.metrics.node_took(work.spent + began.elapsed());
    }

    /// Marks the pods of a node that is not ready, as long as it is not. Each pod is checked
    /// against the node again, since hundreds of patches take time. All pods are tried.
    async fn mark_pods(&self, node: &Node, stop: &CancellationToken) {
        let name = &*node.meta.name;
        match self.is_not_ready(node).await {
            Ok(true) => {}
            Ok(false) => return tracing::debug!(node = name, "Node is ready again"),
            Err(error) if error.is_fenced() || error.is_race() => {
                return tracing::debug!(node = name, %error, "Node changed. The next pass decides about its pods");
            }
            Err(error) => {
                let category = Category::of(&error).as_str();
                return tracing::error!(node = name, category, %error, "Unable to read node; queuing for retry");
            }
        }
        let mut result = Ok(());
        for pod in self.pods_by_node.bound_to(name) {
            if stop.is_cancelled() || !self.shows_not_ready(node) {
                return;
            }
            match self.writer.mark_not_ready(&pod).await {
                Err(error) if error.is_fenced() => return,
                marked => result = result.and(marked),
            }
        }
        match result {
            // Pods that were not ready in an older state are marked in a later pass.
            Ok(()) if self.pods_cache.predates_term() => {}
            Ok(()) => self.monitor().pods_marked(node),
            Err(error) if error.is_conflict() => {
                tracing::debug!(node = name, %error, "Pods of node are marked in the next pass");
            }
            Err(error) => {
                let category = Category::of(&error).as_str();
                tracing::error!(node = name, category, %error, "Unable to mark all pods NotReady on node; queuing for retry");
            }
        }
    }

    /// Whether the node still has a `Ready` condition other than `True`. The cache of a new leader
    /// may show a node that has recovered since, so the API server decides until it has caught up.
    pub(super) async fn is_not_ready(&self, node: &Node) -> Result<bool, NodeError> {
        if self.writer.cache.predates_term() {
            let live = self.writer.read(node).await?;
            return Ok(reports_not_ready(&live));
        }
        Ok(self.shows_not_ready(node))
    }

    /// The same, as far as the cache shows. Without our last write, it shows an older state.
    fn shows_not_ready(&self, node: &Node) -> bool {
        let key = node.key();
        let cached = self.nodes.get(&key);
        self.consistency.ensure_ready(&key).is_err()
            || cached.is_some_and(|cached| {
                cached.meta.uid == node.meta.uid && reports_not_ready(&cached)
            })
    }
}

/// The state of a node without the condition is open.
fn reports_not_ready(node: &Node) -> bool {
    Ready::of(node).is_some_and(|ready| ready != Ready::True)
}
