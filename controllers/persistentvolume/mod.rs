//! Binds claims to volumes, asks provisioners for new volumes, and reclaims volumes after their
//! claims.
//!
//! claim events -> queue of claims -> [`sync`] -> ([`claim`], [`matching`], [`classes`]) -> PUT
//! volume events -> queue of volumes -> [`sync`] -> [`volume`] -> PUT, [`reclaim`]
//! every sync period: all claims and volumes -> both queues
//!
//! Guarantees:
//!
//! - A volume points at its claim before the claim points at the volume, and each write carries the
//!   resource version that the decision saw. So a volume is never bound to two claims.
//! - A volume is released only after the API server has confirmed that its claim is gone.
//! - Volumes of CSI drivers are created and deleted by external provisioners. This manager deletes
//!   only folders below `/tmp`, and empties `hostPath` and NFS volumes by pods.
//!
//! Upstream: `pkg/controller/volume/persistentvolume`. Differences:
//!
//! - Syncs of claims and volumes take turns, so their writes do not conflict.
//! - Deletions carry the UID, and a live read confirms the UID before a volume is reclaimed.
//! - A live read of the volume confirms that a claim has lost it.
//! - While the caches of a new leader are older than its term, it reads a claim before it binds a
//!   volume to it, and once the versions of all volumes before it chooses one.
//! - The state of a volume is known before its key leaves the queue.
//! - The folder of a provisioned volume has the name of the volume, and not a random one.
//! - Each recycler pod is made from the template, which upstream's recyclers share and change.

mod body;
mod claim;
mod classes;
mod config;
mod edits;
mod enlarged;
mod error;
pub(crate) mod explain;
mod host_path;
mod invariants;
mod known;
mod matching;
mod metrics;
mod migration;
mod new_leader;
mod notice;
mod operations;
mod plugins;
mod provision;
mod reclaim;
mod recycler;
mod source;
mod sync;
#[cfg(test)]
mod tests;
mod unclassified;
mod volume;
mod writes;

use std::pin::Pin;
use std::sync::Arc;

use steersman_helpers::pods_by_claim::PodsByClaim;
use steersman_objects::{
    Node, ObjectKey, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass,
};
use steersman_runtime::controller::{Controller, ControllerContext, Descriptor, InitError};
use steersman_runtime::informer::{Change, SharedInformer};
use steersman_runtime::rbac::Rule;
use steersman_runtime::reads::Read;
use steersman_runtime::tasks::CancellationToken;
use steersman_runtime::workers::run_workers;
use steersman_runtime::workqueue::WorkQueue;

use self::config::Config;
use self::known::{Caches, KnownType};
use self::metrics::{BinderMetrics, Timers};
use self::new_leader::CurrentCheck;
use self::operations::Operations;
use self::sync::{Binder, Claims, Volumes};
use self::writes::Objects;
use crate::storage_metrics::StorageMetrics;

/// The PersistentVolume binder.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: NAME,
    aliases: &["persistentvolume-binder"],
    enabled_by_default: true,
    summary: "Binds claims to volumes, asks provisioners for volumes, and reclaims volumes",
    identity: "persistent-volume-binder",
    reads: &[
        Read::of::<PersistentVolumeClaim>(),
        Read::of::<PersistentVolume>(),
        Read::of::<StorageClass>(),
        Read::of::<Pod>(),
        Read::of::<Node>(),
    ],
    // Claims and volumes are read before a loss or a deletion is believed. Recycler pods are created
    // and deleted, and their Events are watched.
    rules: &[
        Rule::new(&[""], &["persistentvolumeclaims"], &["get", "update"]),
        Rule::new(
            &[""],
            &["persistentvolumes"],
            &["get", "create", "update", "delete"],
        ),
        Rule::new(
            &[""],
            &["persistentvolumeclaims/status", "persistentvolumes/status"],
            &["update"],
        ),
        Rule::new(&[""], &["pods"], &["create", "delete"]),
        Rule::new(&[""], &["events"], &["watch"]),
        Rule::EVENTS,
    ],
    init,
};

const NAME: &str = "persistentvolume-binder-controller";

/// Source of its Events.
///
/// Upstream's name, which differs from that of the client.
const COMPONENT: &str = "persistentvolume-controller";

fn init(ctx: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    let binder = binder(ctx).map_err(|source| InitError {
        controller: NAME,
        source,
    })?;
    Ok(Box::new(Binding { binder }))
}

/// Builds the shared state. An error is one of the flags or of the registry.
fn binder(
    ctx: &ControllerContext,
) -> Result<Arc<Binder>, Box<dyn std::error::Error + Send + Sync>> {
    let config = Config::of(&ctx.options, &ctx.features)?;
    let metrics = ctx.metrics(BinderMetrics::register)?;
    let storage_metrics = ctx.metrics(StorageMetrics::register)?;
    let claims = ctx.informers.shared::<PersistentVolumeClaim>();
    let volumes = ctx.informers.shared::<PersistentVolume>();
    // Upstream's queues have these names in metrics.
    let claim_queue = WorkQueue::new("claims", &ctx.queue_metrics);
    let volume_queue = WorkQueue::new("volumes", &ctx.queue_metrics);
    let caches = Arc::<Caches>::default();
    follow(&claims, &claim_queue, &caches);
    follow(&volumes, &volume_queue, &caches);
    let client = ctx.client(DESCRIPTOR.identity);
    client.counts_violations_of(&[invariants::BOUND_VOLUME]);
    Ok(Arc::new(Binder {
        current: CurrentCheck::of(ctx),
        stored_claims: claims.store(),
        stored_volumes: volumes.store(),
        classes: ctx.informers.shared::<StorageClass>().store(),
        nodes: ctx.informers.shared::<Node>().store(),
        pods: PodsByClaim::of(&ctx.informers.shared::<Pod>().store()),
        claim_queue,
        volume_queue,
        recorder: ctx.recorder(COMPONENT, client.clone()),
        config,
        operations: Operations::new(),
        timers: Timers::new(metrics.clone()),
        metrics,
        storage_metrics,
        objects: Objects { client, caches },
        turn: tokio::sync::Mutex::default(),
    }))
}

/// Takes in each object that changes, and enqueues it.
///
/// The state is known before the key leaves its queue, so a claim finds a volume that waits behind
/// thousands of others. When resource versions go back, the old states would count as later ones.
fn follow<T: KnownType>(
    informer: &SharedInformer<T>,
    queue: &WorkQueue<ObjectKey>,
    caches: &Arc<Caches>,
) {
    // The informer outlives the controller and must not keep its states alive.
    let queue = queue.clone();
    let known = Arc::downgrade(caches);
    informer.add_handler(move |change| {
        // A deletion is taken in by the sync, which needs the last state of the object.
        if !matches!(change, Change::Deleted { .. })
            && let Some(caches) = known.upgrade()
        {
            T::store(&caches, change.object());
        }
        queue.add(change.object().key());
    });
    let store = informer.store();
    let known = Arc::downgrade(caches);
    informer.on_rewind(move || {
        if let Some(caches) = known.upgrade() {
            T::replace(&caches, &store.list());
        }
    });
}

/// The controller: one worker for claims, one for volumes, and the timer of both.
struct Binding {
    binder: Arc<Binder>,
}

impl Drop for Binding {
    /// Operations share the binder with the controller, so they would outlive an aborted controller.
    fn drop(&mut self) {
        self.binder.operations.abort();
    }
}

impl Controller for Binding {
    fn run(self: Box<Self>, stop: CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            let binder = &self.binder;
            binder.metrics.count(Arc::clone(&binder.objects.caches));
            let claims = Arc::new(Claims(Arc::clone(binder)));
            let volumes = Arc::new(Volumes(Arc::clone(binder)));
            let claim_queue = binder.claim_queue.clone();
            let volume_queue = binder.volume_queue.clone();
            let resync = async {
                loop {
                    // As upstream, the first resync comes at once.
                    binder.resync();
                    let pause = tokio::time::sleep(binder.config.sync_period);
                    if stop.run_until_cancelled(pause).await.is_none() {
                        return;
                    }
                }
            };
            tokio::join!(
                // One worker each, as upstream: two claims must not choose the same volume.
                run_workers(NAME, claim_queue, 1, claims, stop.clone()),
                run_workers(NAME, volume_queue, 1, volumes, stop.clone()),
                resync,
            );
            binder.operations.finish().await;
        })
    }
}
