//! Shows that nodes are alive: renews their Leases, and posts their status.
//!
//! node (informer), its [`Behaviours`] -> queue of nodes, every 10 s -> Lease, status
//!
//! The first renewals are spread over a period, so that thousands of nodes make an even load. A
//! node without a Lease is silent: it posts no status either. A node that comes back to life acts
//! on its pods again.
//!
//! Upstream: `pkg/kubelet/kubelet_node_status.go` and `k8s.io/component-helpers/apimachinery/lease`.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use steersman_client::{ApiClient, ApiError};
use steersman_objects::{Object, ObjectKey, ObjectReference};
use steersman_runtime::events::{EventRecorder, EventType};
use steersman_runtime::informer::{Change, SharedInformer, Store};
use steersman_runtime::workers::{Requeue, Retry, Syncer};
use steersman_runtime::workqueue::WorkQueue;
use steersman_values::clock::Clock;

use super::BEHAVIOUR;
use super::behaviour::{Behaviour, Behaviours};
use super::register::{self, SimNode};

/// Period of the renewal of a Lease: a quarter of its duration.
const RENEWAL: Duration = Duration::from_secs(10);

/// Period of the reports of an unchanged status. Upstream: `nodeStatusReportFrequency`.
const REPORT: SignedDuration = SignedDuration::from_mins(5);

/// The heartbeats of simulated nodes.
pub(super) struct Heartbeats {
    pub(super) client: ApiClient,
    pub(super) clock: Clock,
    pub(super) nodes: Store<SimNode>,
    /// The nodes with heartbeats.
    pub(super) own: HashSet<Box<str>>,
    pub(super) behaviours: Behaviours,
    /// Acts on the pods of a node that is back.
    pub(super) wake: Box<dyn Fn(&str) + Send + Sync>,
}

/// Notes the behaviours of nodes, and queues nodes that are new or behave in another way. `is_ours`
/// tells which nodes are simulated, and `own` contains those with heartbeats, in order.
pub(super) fn follow(
    nodes: &SharedInformer<SimNode>,
    queue: &WorkQueue<ObjectKey>,
    own: &[String],
    behaviours: &Behaviours,
    recorder: EventRecorder,
    is_ours: impl Fn(&str) -> bool + Send + Sync + 'static,
) {
    let queue = queue.clone();
    let behaviours = behaviours.clone();
    let count = u32::try_from(own.len()).unwrap_or(u32::MAX).max(1);
    let delays: HashMap<Box<str>, Duration> = own
        .iter()
        .zip(0..)
        .map(|(name, index)| (name.as_str().into(), RENEWAL * index / count))
        .collect();
    nodes.add_handler(move |change| {
        let (node, before) = match change {
            Change::Added { object, .. } => (object, None),
            Change::Updated { old, new } => (new, Some(old)),
            Change::Deleted { object, .. } => {
                behaviours.forget(&object.meta().name);
                return;
            }
        };
        let name = &*node.meta().name;
        if !is_ours(name) {
            return;
        }
        let text = node.behaviour();
        let known = text.and_then(Behaviour::parse);
        // A kubelet stops with its machine.
        let behaviour = if node.is_running() {
            known
        } else {
            Some(Behaviour::Dead)
        };
        if behaviours.note(name, behaviour) {
            queue.add(node.key());
        } else if before.is_none()
            && let Some(delay) = delays.get(name)
        {
            queue.add_after(node.key(), *delay);
        }
        if let Some(text) = text
            && known.is_none()
            && before.and_then(|before| before.behaviour()) != Some(text)
        {
            let known = Behaviour::VALUES.map(|(name, _)| name).join(", ");
            let message = format!("annotation {BEHAVIOUR}: {text:?} is none of {known}");
            tracing::warn!(node = name, "{message}");
            let object = ObjectReference::of(&**node);
            recorder.event(object, EventType::Warning, "UnknownBehaviour", message);
        }
    });
}

impl Heartbeats {
    /// Renews the Lease and posts a status that is due. Upstream waits for neither.
    async fn beat(&self, node: &SimNode, posts_status: bool) -> Result<(), ApiError> {
        let renewed = register::renew(&self.client, node, self.clock.now()).await;
        match renewed {
            Err(error) if error.is_not_found() => return Ok(()),
            renewed => renewed?,
        }
        let now = self.clock.now_seconds();
        if posts_status && is_due(node, now) {
            match register::post(&self.client, node, now).await {
                // The node was deleted, maybe also created again.
                Err(error) if error.is_not_found() || error.is_conflict() => {}
                posted => posted?,
            }
        }
        Ok(())
    }
}

/// Whether the kubelet of the node would post its status: it is old, or another one.
fn is_due(node: &SimNode, now: Timestamp) -> bool {
    let conditions = &node.node().status.conditions;
    let is_old = |heartbeat: Timestamp| now.duration_since(heartbeat) >= REPORT;
    !register::is_posted(conditions) || conditions.ready_heartbeat.is_none_or(is_old)
}

impl Syncer<ObjectKey> for Heartbeats {
    type Error = ApiError;

    async fn sync(&self, key: &ObjectKey) -> Result<Requeue, ApiError> {
        let name = &key.name;
        let Some(node) = self.nodes.get(key) else {
            return Ok(Requeue::Never);
        };
        let (condition, is_back) = self.behaviours.look(name);
        let change = condition.changes_in;
        if is_back {
            (self.wake)(name);
        }
        if condition.is_dead || !self.own.contains(&**name) {
            return Ok(change.map_or(Requeue::Never, Requeue::After));
        }
        self.beat(&node, condition.posts_status).await?;
        Ok(Requeue::After(
            change.map_or(RENEWAL, |change| change.min(RENEWAL)),
        ))
    }

    fn retry(&self, _error: &ApiError, failures: u32) -> Retry {
        match failures {
            0..10 => Retry::Quietly,
            _ => Retry::BackOff,
        }
    }
}
