//! Adds NoExecute taints to waiting nodes, at the rate of their zones.
//!
//! The loop runs when a zone with waiting nodes has a token, every 100 ms at most. Upstream:
//! `doNoExecuteTaintingPass` in `node_lifecycle_controller.go`, which always runs every 100 ms.

use std::sync::Arc;
use std::time::Duration;

use steersman_client::Category;
use steersman_objects::{Node, ObjectKey};
use steersman_runtime::tasks::CancellationToken;
use tokio::time::Instant;

use super::Shared;
use super::health::Ready;
use super::taints::{self, Premise, TaintId};
use super::writes::NodeError;
use super::zones::ZoneKey;

/// Pause between two rounds, which bounds the requests of a zone with a high rate. Upstream:
/// `NodeEvictionPeriod`.
const PAUSE: Duration = Duration::from_millis(100);

impl Shared {
    /// Runs until `stop`. Without waiting nodes, the loop sleeps until the next pass.
    pub(super) async fn taint_waiting_nodes(&self, stop: &CancellationToken) {
        let mut earliest = Instant::now() + PAUSE;
        loop {
            let now = Instant::now();
            let token = self.monitor().next_token(now);
            let next = token.map(|wait| earliest.max(now + wait));
            tokio::select! {
                () = stop.cancelled() => return,
                // A pass may have changed the waiting nodes and the rates.
                () = self.waiting.notified() => {
                    if next.is_none() {
                        // The NoSchedule taints of these nodes are being written; two patches at
                        // the same time would conflict.
                        earliest = Instant::now() + PAUSE;
                    }
                    continue;
                }
                () = tokio::time::sleep_until(next.unwrap_or(now)), if next.is_some() => {}
            }
            let zones = self.monitor().zones_waiting();
            for zone in zones {
                self.taint_zone(&zone, stop).await;
            }
            earliest = Instant::now() + PAUSE;
        }
    }

    /// Taints the waiting nodes of a zone while it has tokens. Only a request costs a token;
    /// upstream also pays for nodes that need no taint any more. The condition in the cache decides
    /// once more, since the node may have waited for long.
    async fn taint_zone(&self, zone: &ZoneKey, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            let Some(name) = self.monitor().first_waiting(zone) else {
                return;
            };
            let key = ObjectKey {
                namespace: "".into(),
                name: Arc::clone(&name),
            };
            if self.consistency.ensure_ready(&key).is_err() {
                // The cache may still show the node as ready.
                return;
            }
            let node = self.nodes.get(&key);
            let needed = node.and_then(|node| {
                let ready = Ready::of(&node)?;
                let (add, remove) = taints::no_execute(ready)?;
                let is_done = add.is_on(&node) && !remove.is_on(&node);
                (!is_done).then_some((node, ready, add, remove))
            });
            let Some((node, ready, add, remove)) = needed else {
                self.monitor().stop_waiting(zone, &name);
                continue;
            };
            if !self.monitor().try_take(zone, Instant::now()) {
                return;
            }
            match self.taint(&node, ready, add, remove).await {
                Ok(()) => self.monitor().stop_waiting(zone, &name),
                Err(error) if error.is_fenced() => return,
                // The live node has another condition. A later round or pass decides by the new
                // one.
                Err(error) if error.is_race() => {
                    self.monitor().wait_again(zone, &name);
                    tracing::debug!(node = &*name, %error, "Node changed since the decision about its taint");
                }
                Err(error) => {
                    self.monitor().wait_again(zone, &name);
                    let category = Category::of(&error).as_str();
                    tracing::error!(node = &*name, category, %error, "unable to taint unresponsive Node");
                }
            }
        }
    }
    /// Replaces the NoExecute taint `remove` by `add`, and counts the node if it lacked `add`. The
    /// count includes a node whose other taint could not be removed.
    async fn taint(
        &self,
        node: &Node,
        ready: Ready,
        add: TaintId,
        remove: TaintId,
    ) -> Result<(), NodeError> {
        let premise = Premise::Ready(Some(ready));
        let added = self.writer.add_taints(node, &[add], premise).await?;
        if added.is_some() {
            let zone = ZoneKey::of(node).to_string();
            let evictions = self.metrics.evictions.with_label_values(&[&zone]);
            evictions.inc();
        }
        self.writer
            .remove_taints(node, &[remove], premise, added)
            .await
    }
}
