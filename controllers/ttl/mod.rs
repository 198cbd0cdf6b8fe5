//! Tells kubelets for how long they may cache Secrets and ConfigMaps: an annotation on each node,
//! after the size of the cluster.
//!
//! node events -> count of nodes -> [`Step`]; nodes added or updated -> queue of names -> sync ->
//! patch of the annotation
//!
//! A change of the step enqueues no node: each gets the new value with its own next update, at the
//! latest when its kubelet renews its status. Upstream: `pkg/controller/ttl`. Difference: workers
//! begin when all initial nodes are counted, so that a restart never writes the value of a smaller
//! cluster first.

mod steps;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::json;
use steersman_runtime::client::{ApiClient, ApiError, PatchKind, Target};
use steersman_runtime::controller::{Controller, ControllerContext, Descriptor, InitError};
use steersman_runtime::informer::{Change, Store};
use steersman_runtime::object::{Node, Object, ObjectKey, TTL_ANNOTATION};
use steersman_runtime::rbac::Rule;
use steersman_runtime::reads::Read;
use steersman_runtime::resource::NODES;
use steersman_runtime::workers::{Keyed, Requeue, Syncer};
use steersman_runtime::workqueue::WorkQueue;

use self::steps::Steps;

/// The TTL controller.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: NAME,
    aliases: &["ttl"],
    enabled_by_default: true,
    summary: "Tells kubelets how long they may cache Secrets and ConfigMaps, by the size of the cluster",
    identity: NAME,
    reads: &[Read::of::<Node>()],
    rules: &[Rule::new(&[""], &["nodes"], &["patch"])],
    init,
};

/// Also the name of its client.
const NAME: &str = "ttl-controller";

/// Upstream has no flag for it.
const WORKERS: usize = 5;

fn init(ctx: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    let nodes = ctx.informers.shared::<Node>();
    let queue = WorkQueue::new("ttlcontroller", &ctx.queue_metrics);
    let steps = Arc::new(Mutex::new(Steps::default()));
    let (counted, keys) = (Arc::clone(&steps), queue.clone());
    nodes.add_handler(move |change| {
        let mut steps = counted.lock().unwrap_or_else(PoisonError::into_inner);
        match change {
            Change::Added { object, .. } => {
                steps.node_added();
                keys.add(object.key());
            }
            Change::Updated { new, .. } => keys.add(new.key()),
            Change::Deleted { .. } => steps.node_deleted(),
        }
    });
    let syncer = TtlController {
        nodes: nodes.store(),
        client: ctx.client(NAME),
        steps,
    };
    Ok(Keyed::boxed(NAME, queue, WORKERS, Arc::new(syncer)))
}

struct TtlController {
    nodes: Store<Node>,
    client: ApiClient,
    steps: Arc<Mutex<Steps>>,
}

impl Syncer for TtlController {
    type Error = ApiError;

    async fn sync(&self, key: &ObjectKey) -> Result<Requeue, ApiError> {
        let Some(node) = self.nodes.get(key) else {
            return Ok(Requeue::Never);
        };
        let wanted = self
            .steps
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .seconds();
        if node.ttl != Some(wanted) {
            tracing::debug!(node = %key.name, from = node.ttl, to = wanted, "Changed ttl annotation for node");
            let target = Target {
                resource: &NODES,
                namespace: None,
                name: Some(&key.name),
                subresource: None,
            };
            // The value is right for every node of the name, so that no precondition is needed.
            let annotations =
                json!({"metadata": {"annotations": {TTL_ANNOTATION: wanted.to_string()}}});
            self.client
                .patch(target, PatchKind::Strategic, &annotations)
                .await?;
        }
        Ok(Requeue::Never)
    }
}
