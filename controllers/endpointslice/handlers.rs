//! The Services that a change enqueues.
//!
//! Changes of a Service count at once. Changes of pods wait for the batch period, so that a roll-out
//! leads to few writes. Foreign changes of slices wait for at least a second.
//!
//! Upstream has three queues: of Services, of pods and of the topology. Here an index of selectors makes
//! the queue of pods needless, and a `Notify` replaces the queue of the topology, which has one key.

use std::sync::Arc;
use std::time::Duration;

use steersman_helpers::endpointslice::{ServicesByPod, SliceChanges, WrittenSlices};
use steersman_objects::{EndpointSlice, Node, Object, ObjectKey, Pod, Service};
use steersman_runtime::informer::{Change, InformerFactory};
use steersman_runtime::workqueue::WorkQueue;
use tokio::sync::Notify;

use super::MANAGER;
use super::desired::ZONE;
use super::missing_nodes::MissingNodes;

/// Shortest delay of a sync after a change of a slice. Upstream: `endpointSliceChangeMinSyncDelay`.
/// A longer batch period takes its place.
const SLICE_DELAY: Duration = Duration::from_secs(1);

/// The parts that handlers need.
pub(super) struct Handlers {
    pub(super) queue: WorkQueue<ObjectKey>,
    /// `--endpointslice-updates-batch-period`; zero by default.
    pub(super) batch_period: Duration,
    /// Tells own writes from foreign ones, which alone enqueue a Service.
    pub(super) written: Arc<WrittenSlices>,
    /// Notified when the CPU of zones may have changed.
    pub(super) nodes_changed: Arc<Notify>,
    pub(super) missing_nodes: Arc<MissingNodes>,
}

/// Registers the handlers.
pub(super) fn register(informers: &InformerFactory, handlers: Handlers) {
    let Handlers {
        queue,
        batch_period,
        written,
        nodes_changed,
        missing_nodes,
    } = handlers;
    let services = informers.shared::<Service>();
    let by_pod = ServicesByPod::of(&services);
    let of_services = queue.clone();
    // Deletions are enqueued too: the worker then lets the memories forget the Service.
    services.add_handler(move |change| of_services.add(change.object().key()));
    let of_pods = queue.clone();
    informers.shared::<Pod>().add_handler(move |change| {
        for key in by_pod.affected(&change) {
            of_pods.add_after(key, batch_period);
        }
    });
    let changes = SliceChanges::new(MANAGER, written);
    let delay = batch_period.max(SLICE_DELAY);
    let of_slices = queue.clone();
    informers
        .shared::<EndpointSlice>()
        .add_handler(move |change| {
            for service in changes.affected(&change) {
                of_slices.add_after(service, delay);
            }
        });
    informers.shared::<Node>().add_handler(move |change| {
        if changes_topology(&change) {
            nodes_changed.notify_one();
        }
        // A record is taken once. A sync that misses the node again records its Service again.
        if let Change::Added { object, .. } = change {
            let services = missing_nodes.take(&object.meta.name);
            services.into_iter().for_each(|service| queue.add(service));
        }
    });
}

/// Whether `change` may change the CPU of a zone. Upstream also ignores a changed amount of CPU.
/// The zone may come later than the node, from a cloud controller manager. Upstream: `updateNode`.
fn changes_topology(change: &Change<'_, Node>) -> bool {
    let state = |node: &Node| (node.is_ready(), node.meta.labels.get(ZONE).cloned());
    match change {
        Change::Added { .. } | Change::Deleted { .. } => true,
        Change::Updated { old, new } => state(old) != state(new),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Upstream: `TestUpdateNode`.
    #[test]
    fn readiness_and_zone_of_nodes_change_the_topology() {
        let node = |zone: &str, ready: &str, taints: Value| {
            let json = json!({
                "metadata": {"name": "n", "labels": {ZONE: zone}}, "spec": {"taints": taints},
                "status": {"conditions": [{"type": "Ready", "status": ready}]},
            });
            Arc::new(Node::decode(json.to_string().as_bytes()).unwrap())
        };
        let old = node("a", "True", json!([]));
        // (new, changed)
        let cases = [
            (node("a", "True", json!([])), false),
            (
                node("a", "True", json!([{"key": "k", "effect": "NoSchedule"}])),
                false,
            ),
            (node("b", "True", json!([])), true),
            (node("a", "False", json!([])), true),
        ];
        for (new, expected) in cases {
            let change = Change::Updated {
                old: &old,
                new: &new,
            };
            assert_eq!(changes_topology(&change), expected, "{new:?}");
        }
        let added = Change::Added {
            object: &old,
            initial: false,
        };
        let deleted = Change::Deleted {
            object: &old,
            final_state_unknown: true,
        };
        assert!(changes_topology(&added) && changes_topology(&deleted));
    }
}
