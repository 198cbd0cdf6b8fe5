//! Adds NoExecute taints to waiting nodes, at the rate of their zones.
//!
//! The loop runs every 100 ms while a node waits. Upstream: `doNoExecuteTaintingPass` in
//! `node_lifecycle_controller.go`, which also runs while no node waits.

use std::sync::Arc;
use std::time::Duration;

use steersman_runtime::client::Category;
use steersman_runtime::object::ObjectKey;
use steersman_runtime::tasks::CancellationToken;
use tokio::time::Instant;

use super::Shared;
use super::health::Ready;
use super::taints;
use super::zones::ZoneKey;

/// Pause between two rounds. Upstream: `NodeEvictionPeriod`.
const PAUSE: Duration = Duration::from_millis(100);

impl Shared {
    /// Runs until `stop`.
    pub(super) async fn taint_waiting_nodes(&self, stop: &CancellationToken) {
        loop {
            let is_idle = self.monitor().zones_waiting().is_empty();
            let next = async {
                if is_idle {
                    self.waiting.notified().await;
                }
                tokio::time::sleep(PAUSE).await;
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = next => {}
            }
            let zones = self.monitor().zones_waiting();
            for zone in zones {
                self.taint_zone(&zone, stop).await;
            }
        }
    }

    /// Taints the waiting nodes of a zone while it has tokens. Only a request costs a token;
    /// upstream also pays for nodes that need no taint any more.
    async fn taint_zone(&self, zone: &ZoneKey, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            let Some(name) = self.monitor().first_waiting(zone) else {
                return;
            };
            let node = self.nodes.get(&ObjectKey {
                namespace: "".into(),
                name: Arc::clone(&name),
            });
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
            let tainted = self
                .writer
                .swap_taints(&node, &[add], &[remove], Some(ready))
                .await;
            match tainted {
                Ok(added) => {
                    self.monitor().stop_waiting(zone, &name);
                    if added {
                        let zone = ZoneKey::of(&node).to_string();
                        let evictions = self.metrics.evictions.with_label_values(&[&zone]);
                        evictions.inc();
                    }
                }
                Err(error) if error.is_fenced() => return,
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
}
