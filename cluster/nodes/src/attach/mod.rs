//! Attached volumes: the part of the kubelets, and a stand-in for the attacher of CSI drivers.
//!
//! - pods (informer) -> [`Mounts`] -> `status.volumesInUse` of nodes
//! - nodes (informer) -> `status.volumesAttached` -> pods that wait for their volumes
//! - VolumeAttachments (informer) -> [`attacher`] -> their status
//!
//! Upstream: `pkg/kubelet/volumemanager`, and the external-attacher of CSI drivers.

mod attacher;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::json;
use steersman_client::{ApiClient, ApiError, PatchKind, Target};
use steersman_helpers::volume::{Plugin, VolumeResolver};
use steersman_objects::{
    CsiDriver, Node, Object, ObjectKey, PersistentVolume, PersistentVolumeClaim,
};
use steersman_runtime::informer::{Change, Index, InformerFactory, SharedInformer, Store};
use steersman_runtime::tasks::CancellationToken;
use steersman_runtime::workers::{Requeue, Syncer, run_workers};
use steersman_runtime::workqueue::{QueueMetrics, WorkQueue};
use steersman_values::clock::Clock;
use steersman_values::intern::Sym;

use super::behaviour::Behaviours;
use super::pod::SimPod;
use super::pods_by_node;
use super::register::SimNode;

/// Nodes, and VolumeAttachments, with a request in flight at once.
const WORKERS: usize = 16;

/// Everything about attached volumes, before it starts.
pub(super) struct Attach {
    pub(super) mounts: Arc<Mounts>,
    mounts_queue: WorkQueue<ObjectKey>,
    driver: Arc<attacher::Driver>,
    driver_queue: WorkQueue<ObjectKey>,
}

impl Attach {
    /// Requests the caches. `wake` gets the name of each node whose list of attached volumes
    /// changes. `is_ours` tells which nodes are simulated: other kubelets report for themselves.
    pub(super) fn new(
        of: &Cluster<'_>,
        behaviours: Behaviours,
        metrics: &QueueMetrics,
        wake: impl Fn(&str) + Send + Sync + 'static,
        is_ours: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Self {
        let mounts_queue = WorkQueue::new("simulated_mounts", metrics);
        let driver_queue = WorkQueue::new("simulated_attachments", metrics);
        Self {
            mounts: Arc::new(Mounts::new(of, behaviours, &mounts_queue, wake, is_ours)),
            driver: Arc::new(attacher::Driver::new(of, &driver_queue)),
            mounts_queue,
            driver_queue,
        }
    }

    /// Runs until `stop`.
    pub(super) async fn run(self, stop: CancellationToken) {
        let Self {
            mounts,
            mounts_queue,
            driver,
            driver_queue,
        } = self;
        tokio::join!(
            run_workers(
                "simulated-mounts",
                mounts_queue,
                WORKERS,
                mounts,
                stop.clone()
            ),
            run_workers("simulated-attachments", driver_queue, WORKERS, driver, stop),
        );
    }
}

/// The parts of a cluster that the simulation reads and writes.
pub(super) struct Cluster<'a> {
    pub(super) client: &'a ApiClient,
    pub(super) clock: &'a Clock,
    pub(super) informers: &'a InformerFactory,
    pub(super) pods: &'a SharedInformer<SimPod>,
    pub(super) nodes: &'a SharedInformer<SimNode>,
}

/// The volumes of pods that nodes wait for and report.
pub(super) struct Mounts {
    client: ApiClient,
    resolver: VolumeResolver,
    drivers: Store<CsiDriver>,
    nodes: Store<SimNode>,
    by_node: Index<SimPod>,
    behaviours: Behaviours,
    is_ours: Box<dyn Fn(&str) -> bool + Send + Sync>,
}

/// The answer of a node about the volumes of a pod.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Mounted {
    /// All are attached.
    Yes,
    /// The status of the node lacks one.
    No,
    /// The caches lack a claim or its volume.
    Unknown,
}

impl Mounts {
    /// Requests the caches, and queues nodes whose pods change.
    fn new(
        of: &Cluster<'_>,
        behaviours: Behaviours,
        queue: &WorkQueue<ObjectKey>,
        wake: impl Fn(&str) + Send + Sync + 'static,
        is_ours: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Self {
        let Cluster {
            client,
            informers,
            pods,
            nodes,
            ..
        } = of;
        let claims = informers.shared::<PersistentVolumeClaim>();
        let volumes = informers.shared::<PersistentVolume>();
        let queued = queue.clone();
        pods.add_handler(move |change| {
            let pod = &change.object().pod;
            if let Some(node) = &pod.node
                && !pod.volumes.is_empty()
            {
                queued.add(ObjectKey::new("", node));
            }
        });
        let queued = queue.clone();
        nodes.add_handler(move |change| {
            let (old, node) = match change {
                Change::Added { object, .. } => (None, object),
                Change::Updated { old, new } => (Some(old), new),
                Change::Deleted { .. } => return,
            };
            let attached = |node: &SimNode| node.node().status.volumes_attached.clone();
            let used = |node: &SimNode| node.node().status.volumes_in_use.clone();
            if old.is_none_or(|old| attached(old) != attached(node)) {
                queued.add(node.key());
                wake(&node.meta().name);
            } else if old.is_some_and(|old| used(old) != used(node)) {
                // A report that was compared with an older node may be wrong.
                queued.add(node.key());
            }
        });
        Self {
            client: ApiClient::clone(client),
            resolver: VolumeResolver::new(claims.store(), volumes.store()),
            drivers: informers.shared::<CsiDriver>().store(),
            nodes: nodes.store(),
            by_node: pods_by_node(&pods.store()),
            behaviours,
            is_ours: Box::new(is_ours),
        }
    }

    /// Whether the volumes of a pod are attached to its node.
    pub(super) fn of(&self, pod: &SimPod) -> Mounted {
        let Some(node) = &pod.pod.node else {
            return Mounted::No;
        };
        let Some(wanted) = self.wanted(pod) else {
            return Mounted::Unknown;
        };
        let node = self.nodes.get(&ObjectKey::new("", node));
        let is_attached = |name: &Sym| {
            let attached = node
                .iter()
                .flat_map(|node| &node.node().status.volumes_attached);
            let mut attached = attached.filter(|volume| volume.name == *name);
            attached.next().is_some()
        };
        if wanted.iter().all(is_attached) {
            Mounted::Yes
        } else {
            Mounted::No
        }
    }

    /// The unique names of the volumes that have to be attached for a pod. `None` while a claim or
    /// its volume is unknown.
    fn wanted(&self, pod: &SimPod) -> Option<BTreeSet<Sym>> {
        let mut names = BTreeSet::new();
        for volume in pod.pod.volumes.iter() {
            let found = self.resolver.resolve(pod.meta(), volume).ok()?;
            names.extend(
                found
                    .filter(|volume| self.needs_attach(&volume.plugin))
                    .map(|volume| volume.unique_name),
            );
        }
        Some(names)
    }

    fn needs_attach(&self, plugin: &Plugin) -> bool {
        let Plugin::Csi(csi) = plugin else {
            return true;
        };
        let driver = self.drivers.get(&ObjectKey::new("", &csi.driver));
        driver.is_none_or(|driver| !driver.skips_attach())
    }

    /// Reports the volumes that the pods of a node use until they have ended.
    async fn report(&self, node: &SimNode) -> Result<(), ApiError> {
        let pods = self.by_node.get(&node.meta().name);
        let alive = pods.iter().filter(|pod| !pod.pod.is_finished());
        let used = alive.filter_map(|pod| self.wanted(pod)).flatten();
        let used: BTreeSet<Sym> = used.collect();
        let reported: BTreeSet<Sym> = node.node().status.volumes_in_use.iter().cloned().collect();
        if used == reported {
            return Ok(());
        }
        let target = Target::of::<Node>(node.meta()).status();
        let body = json!({
            "metadata": {"uid": node.meta().uid.to_string()}, "status": {"volumesInUse": used},
        });
        match self.client.patch(target, PatchKind::Merge, &body).await {
            // The node was deleted, maybe also created again.
            Err(error) if !error.is_not_found() && !error.is_conflict() => Err(error),
            _ => Ok(()),
        }
    }
}

impl Syncer for Mounts {
    type Error = ApiError;

    async fn sync(&self, key: &ObjectKey) -> Result<Requeue, ApiError> {
        let node: Option<Arc<SimNode>> = self.nodes.get(key);
        // The kubelet of a dead node reports nothing. When it is back, its pods change.
        let reports = |name: &str| (self.is_ours)(name) && !self.behaviours.is_dead(name);
        if let Some(node) = node.filter(|node| reports(&node.meta().name)) {
            self.report(&node).await?;
        }
        Ok(Requeue::Never)
    }
}
