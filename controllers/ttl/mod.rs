//! Sets the TTL annotation of nodes: the time for which kubelets may cache Secrets and ConfigMaps.
//! It depends on the number of nodes, and limits the load on the API server.
//!
//! node events -> count of nodes -> [`Steps`]; nodes added or updated -> queue of names -> sync ->
//! patch of the annotation
//!
//! A change of the step enqueues no nodes. Each node gets the new value at its next update, at the
//! latest when its kubelet renews its status.
//!
//! Upstream: `pkg/controller/ttl`. Difference: workers start after all initial nodes are counted.
//! So a restart does not write the value of a smaller cluster first.

mod steps;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::json;
use steersman_client::{ApiClient, ApiError, PatchKind, Target};
use steersman_objects::{Node, Object, ObjectKey, TTL_ANNOTATION};
use steersman_runtime::controller::{Controller, ControllerContext, Descriptor, InitError};
use steersman_runtime::informer::Change;
use steersman_runtime::keyed::{Keyed, ObjectSyncer};
use steersman_runtime::rbac::Rule;
use steersman_runtime::reads::Read;
use steersman_runtime::workers::Requeue;

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

/// Name of the controller and of its client.
const NAME: &str = "ttl-controller";

/// Number of workers, as upstream, which has no flag for it.
const WORKERS: usize = 5;

fn init(ctx: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    let keyed = Keyed::<Node>::new(ctx, NAME, "ttlcontroller");
    let steps = Arc::new(Mutex::new(Steps::default()));
    let counted = Arc::clone(&steps);
    let queue = keyed.queue();
    keyed.objects().add_handler(move |change| {
        let mut steps = counted.lock();
        match change {
            Change::Added { object, .. } => {
                steps.node_added();
                queue.add(object.key());
            }
            Change::Updated { new, .. } => queue.add(new.key()),
            Change::Deleted { .. } => steps.node_deleted(),
        }
    });
    let client = ctx.client(NAME);
    Ok(keyed.boxed(WORKERS, TtlController { client, steps }))
}

struct TtlController {
    client: ApiClient,
    steps: Arc<Mutex<Steps>>,
}

impl ObjectSyncer for TtlController {
    type Object = Node;
    type Error = ApiError;

    async fn sync(&self, _key: &ObjectKey, node: Arc<Node>) -> Result<Requeue, ApiError> {
        let wanted = self.steps.lock().seconds();
        let known = node.annotations.ttl.0;
        if known != Some(wanted) {
            let name = &*node.meta.name;
            tracing::debug!(
                node = name,
                from = known,
                to = wanted,
                "Changed ttl annotation for node"
            );
            // The value is the same for every node, so a new node of this name may get it too. The
            // patch needs no precondition.
            let annotations =
                json!({"metadata": {"annotations": {TTL_ANNOTATION: wanted.to_string()}}});
            self.client
                .patch(
                    Target::of::<Node>(&node.meta),
                    PatchKind::Strategic,
                    &annotations,
                )
                .await?;
        }
        Ok(Requeue::Never)
    }
}
