//! Attaches volumes to the nodes whose pods want them, and detaches them afterwards.
//!
//! - pods, claims, volumes -> [`desired`]
//! - nodes, VolumeAttachments -> [`actual`]
//! - both -> [`world`] -> VolumeAttachments, `status.volumesAttached` of nodes, Events
//!
//! A volume leaves the status of its node before its VolumeAttachment is deleted, and enters the
//! status after the attacher has confirmed it. A volume that a kubelet uses is not detached, except
//! from an unhealthy node after six minutes, or from a node that is out of service.
//!
//! CSI, Fibre Channel and iSCSI volumes are attached. In-tree sources with a CSI driver are
//! translated; other sources are ignored, as upstream's binary ignores plugins that it lacks.
//!
//! Upstream: `pkg/controller/volume/attachdetach`. Differences:
//!
//! - Events wake volumes. Upstream looks at all volumes every 100 ms, and at VolumeAttachments at
//!   most every 500 ms.
//! - One PATCH of a node's status serves all volumes that leave it. A status that needs no change is
//!   not patched, and a PATCH names the UID of its node.
//! - A back-off ends early when the attacher has succeeded after all.
//! - A pod keeps its volumes in mind: they are detached after it, even if the claim vanished first.
//! - A volume whose handle contains `^` is detached; upstream's detacher refuses it.
//! - The check of attachments does not count a failed request as a lost attachment.
//! - FlexVolume drivers are not supported.
//! - A leader whose caches are older than its term reads nodes and VolumeAttachments from the API
//!   server at its start, the pods of a node before it detaches a volume from there, and the pods of
//!   a volume before it attaches that.
//! - A node counts as using a volume only after its attachment was confirmed.

mod actual;
mod attachment;
mod desired;
pub(crate) mod explain;
mod handlers;
mod messages;
mod metrics;
mod operations;
mod recall;
mod start;
mod sync;
#[cfg(test)]
mod tests;
mod verify;
mod world;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use steersman_client::ApiClient;
use steersman_helpers::pods_by_claim::PodsByClaim;
use steersman_helpers::scheduling::PodsByNode;
use steersman_helpers::volume::VolumeResolver;
use steersman_objects::{
    CsiDriver, Node, ObjectKey, PersistentVolume, PersistentVolumeClaim, Pod, VolumeAttachment,
};
use steersman_runtime::consistency::{ConsistencyStore, TrackedCache};
use steersman_runtime::controller::{
    Controller, ControllerContext, Descriptor, INFORMERS, InitError,
};
use steersman_runtime::events::EventRecorder;
use steersman_runtime::informer::Store;
use steersman_runtime::rbac::Rule;
use steersman_runtime::reads::Read;
use steersman_runtime::tasks::CancellationToken;
use steersman_runtime::workers::run_workers;
use steersman_runtime::workqueue::WorkQueue;
use steersman_values::intern::Sym;

use self::metrics::Metrics;
use self::world::World;

/// The attach-detach controller.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: NAME,
    aliases: &["attachdetach"],
    enabled_by_default: true,
    summary: "Attaches volumes to the nodes of their pods, and detaches them afterwards",
    identity: IDENTITY,
    reads: &[
        Read::of::<Pod>(),
        Read::of::<Node>(),
        Read::of::<PersistentVolumeClaim>(),
        Read::of::<PersistentVolume>(),
        Read::of::<CsiDriver>(),
        Read::of::<VolumeAttachment>(),
    ],
    // Live reads of nodes and VolumeAttachments precede a detach, and confirm the check of attachments.
    rules: &[
        Rule::new(&[""], &["nodes"], &["get"]),
        Rule::new(&[""], &["nodes/status"], &["patch"]),
        Rule::new(
            &["storage.k8s.io"],
            &["volumeattachments"],
            &["get", "create", "delete"],
        ),
        Rule::EVENTS,
    ],
    init,
};

const NAME: &str = "persistentvolume-attach-detach-controller";

/// Name of its client and of its service account, and source of its Events.
const IDENTITY: &str = "attachdetach-controller";

/// Workers. A step sends at most two requests, and waits for no attacher.
///
/// Upstream starts a goroutine for each operation, which waits for its attacher.
const WORKERS: usize = 10;

/// Longest delay between tries to patch a node, in place of upstream's fixed 100 ms.
///
/// An unreachable API server would otherwise get ten requests a second for each node.
const MAX_BACKOFF: Duration = Duration::from_secs(30);

fn init(ctx: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    let failed = |source| InitError {
        controller: NAME,
        source: Box::new(source),
    };
    let pods = ctx.informers.shared::<Pod>();
    let nodes = ctx.informers.shared::<Node>();
    let claims = ctx.informers.shared::<PersistentVolumeClaim>();
    let volumes = ctx.informers.shared::<PersistentVolume>();
    let drivers = ctx.informers.shared::<CsiDriver>();
    let attachments = ctx.informers.shared::<VolumeAttachment>();
    let client = ctx.client(IDENTITY);
    let consistency = ConsistencyStore::new(ctx.term_start_rv);
    let shared = Arc::new(Shared {
        world: Mutex::default(),
        is_rewound: AtomicBool::new(false),
        // The only queue that upstream has. Its keys are claims there.
        queue: WorkQueue::with_max_backoff("pvcs", &ctx.queue_metrics, MAX_BACKOFF),
        pods: pods.store(),
        pods_by_claim: PodsByClaim::of(&pods.store()),
        pods_by_node: PodsByNode::of(&pods.store()),
        nodes: nodes.store(),
        resolver: VolumeResolver::new(claims.store(), volumes.store()),
        volumes: volumes.store(),
        drivers: drivers.store(),
        attachments: attachments.store(),
        nodes_cache: consistency.track(nodes.versioned()),
        pods_cache: consistency.track(pods.versioned()),
        claims_cache: consistency.track(claims.versioned()),
        volumes_cache: consistency.track(volumes.versioned()),
        attachments_cache: consistency.track(attachments.versioned()),
        consistency,
        recorder: ctx.recorder(IDENTITY, client.clone()),
        client,
        lists: ctx.client(INFORMERS),
        metrics: Metrics::register(ctx).map_err(failed)?,
        forces_on_timeout: !ctx.options.bool("disable-force-detach-on-timeout"),
    });
    let memory = Arc::clone(&shared);
    // The key is the name of a node, and that of a VolumeAttachment.
    let recall = move |key: &str, now| memory.recall(key, now).into_iter().collect();
    ctx.debug.set_memory(NAME, Arc::new(recall));
    metrics::show_state(&ctx.registry, &shared).map_err(failed)?;
    handlers::register(&shared, &pods, &nodes, &attachments);
    handlers::register_claims(&shared, &claims, &volumes, &drivers);
    let options = &ctx.options;
    let verifies = !options.bool("disable-attach-detach-reconcile-sync");
    Ok(Box::new(AttachDetach {
        shared,
        verify_every: verifies.then(|| options.time("attach-detach-reconcile-sync-period")),
    }))
}

/// A key of the queue.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Work {
    /// A claim whose pods may want its volume now.
    ///
    /// Events of its PersistentVolume queue it, too.
    Claim(ObjectKey),
    /// A volume, by its unique name.
    ///
    /// The only kind that sends requests for attachments. One volume has one step at a time, on
    /// whichever nodes.
    Volume(Sym),
    /// A node whose status may need an update.
    ///
    /// All volumes of a node share its PATCH.
    Node(Sym),
    /// A CSI driver whose volumes may need attachments now, or no more.
    Driver(Sym),
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Claim(key) => key.fmt(f),
            Self::Volume(name) | Self::Node(name) | Self::Driver(name) => name.fmt(f),
        }
    }
}

/// The state that handlers and workers share.
struct Shared {
    /// One lock for everything keeps the desired state, the actual state and the operations consistent.
    world: Mutex<World>,
    /// Whether the history of the API server went back, for example after an etcd restore.
    ///
    /// Afterwards, VolumeAttachments may come back that this process has deleted.
    is_rewound: AtomicBool,
    queue: WorkQueue<Work>,
    pods: Store<Pod>,
    pods_by_claim: PodsByClaim,
    pods_by_node: PodsByNode,
    nodes: Store<Node>,
    resolver: VolumeResolver,
    volumes: Store<PersistentVolume>,
    drivers: Store<CsiDriver>,
    attachments: Store<VolumeAttachment>,
    /// Own writes by node.
    consistency: ConsistencyStore<Sym>,
    nodes_cache: TrackedCache<Sym>,
    /// Tell whether these caches may lack writes of the former leader.
    pods_cache: TrackedCache<Sym>,
    claims_cache: TrackedCache<Sym>,
    volumes_cache: TrackedCache<Sym>,
    attachments_cache: TrackedCache<Sym>,
    recorder: EventRecorder,
    client: ApiClient,
    /// Reads in place of caches, with the rights of the informers.
    lists: ApiClient,
    metrics: Metrics,
    /// `false` with `--disable-force-detach-on-timeout`. Then only the taint of a node out of service
    /// forces.
    forces_on_timeout: bool,
}

impl Shared {
    // No IO happens under this lock.
    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock()
    }

    fn enqueue_volumes(&self, names: impl IntoIterator<Item = Sym>) {
        names
            .into_iter()
            .for_each(|name| self.queue.add(Work::Volume(name)));
    }
}

/// The queue and the check of attachments.
struct AttachDetach {
    shared: Arc<Shared>,
    /// Period of the check; `None` without one.
    verify_every: Option<Duration>,
}

impl Controller for AttachDetach {
    fn run(self: Box<Self>, stop: CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let Self {
            shared,
            verify_every,
        } = *self;
        Box::pin(async move {
            // No work begins before the former leader's state is complete. A volume could be attached
            // to a second node otherwise.
            if stop.run_until_cancelled(shared.start()).await.is_none() {
                return;
            }
            let queue = shared.queue.clone();
            tokio::join!(
                run_workers(NAME, queue, WORKERS, Arc::clone(&shared), stop.clone()),
                shared.verify(verify_every, &stop),
            );
        })
    }
}
