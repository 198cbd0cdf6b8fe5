//! Simulated nodes: they bind, start, probe and end pods as a scheduler and kubelets would, without
//! containers, and provision the volumes of claims.
//!
//! pods, nodes (informers) -> stage of each pod -> queue, after the stage's latency -> one write
//! nodes -> queue, every 10 s -> Lease, status
//! claims, classes, volumes (informers) -> queue -> provisioner
//! ConfigMaps, Secrets, ServiceAccounts (informers) -> pods that cannot start without them
//!
//! The nodes use an API client and informers, so they work with any API server. A table of
//! [`Stages`] decides each pod's next step; its built-in rows read the annotation [`BEHAVIOUR`]. A
//! table, as in the kwok project, lets tests add behaviours without code.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::type_complexity))]

mod addresses;
mod attach;
mod behaviour;
mod claims;
mod csi;
mod devices;
mod ending;
mod heartbeat;
mod join;
mod journal;
mod kubelet;
mod machine;
mod needs;
mod pod;
mod pod_level;
mod register;
mod resize;
mod restarts;
mod rules;
mod scheduler;
mod stages;
mod status;
mod volumes;

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus::Registry;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use steersman_client::{ApiClient, ApiError};
use steersman_objects::{Namespace, Object, ObjectKey, PodDisruptionBudget, Uid};
use steersman_runtime::events::EventRecorder;
use steersman_runtime::informer::{Change, Index, InformerFactory, SharedInformer, Store};
use steersman_runtime::tasks::{CancellationToken, Tasks};
use steersman_runtime::workers::run_workers;
use steersman_runtime::workqueue::{QueueMetrics, WorkQueue};
use steersman_values::clock::Clock;
use steersman_values::intern::Sym;

use addresses::Addresses;
use attach::Attach;
use behaviour::Behaviours;
pub use claims::{DEFAULT_CLASS, PROVISIONER};
use csi::Driver;
use devices::Devices;
pub use ending::{EXIT_CODE, FAILURES, RUN_TIME};
use heartbeat::Heartbeats;
pub use join::{Credential, JoinError, Joining};
use journal::Journal;
use kubelet::{Kubelet, Unconfigured};
pub use machine::{MACHINE, Machine};
use needs::{Configuration, Keyed, KeyedKind};
use pod::SimPod;
use register::SimNode;
use scheduler::Scheduler;
pub use stages::{Latency, Stages, StagesError};
use volumes::Volumes;

/// Annotation on a pod (or pod template) that selects the behaviour of its simulated containers, and
/// on a node that selects that of its simulated kubelet: `dead`, `flapping` or `no-status`.
pub const BEHAVIOUR: &str = "simulate.steersman.dev/behaviour";

/// Name of the PersistentVolume binder. Where it runs, [`NodesConfig::binds_claims`] is to be false.
pub const BINDER: &str = "persistentvolume-binder-controller";
/// Name of the attach-detach controller. Where it runs, [`NodesConfig::attaches_volumes`] is to be
/// true.
pub const ATTACH_DETACH: &str = "persistentvolume-attach-detach-controller";

/// Pod writes in flight at once, so that one slow request delays few pods.
const WORKERS: usize = 64;

/// Source of the Events about nodes.
const COMPONENT: &str = "simulated-nodes";

/// Nodes with a heartbeat in flight at once.
const NODE_WORKERS: usize = 16;

/// Number, names and behaviour of the simulated nodes.
#[derive(Debug, Clone)]
pub struct NodesConfig {
    /// Number of nodes.
    pub count: usize,
    /// Prefix of their names: `node-0`, `node-1`, ...
    pub prefix: String,
    /// Number of zones, which are called `a`, `b`, `c`, ...; 26 at most. The nodes are in them in
    /// turn. With 0, the nodes have no zone.
    pub zones: u8,
    /// Whether another program, such as the node-ipam-controller, gives each node a range of pod
    /// addresses. Pods then start after their node has its range.
    pub pod_ranges: bool,
    /// Whether claims are bound to their volumes, in place of the PersistentVolume binder ([`BINDER`]).
    /// The default is true.
    pub binds_claims: bool,
    /// Whether the attach-detach controller ([`ATTACH_DETACH`]) attaches volumes. Pods then wait for
    /// their volumes, and VolumeAttachments of all drivers are answered. The default is false.
    pub attaches_volumes: bool,
    /// Durations of the built-in stages of a pod's life.
    pub latency: Latency,
    /// Table of the steps that pods take, and their delays.
    pub stages: Stages,
    /// The pods that these nodes act on.
    pub pods: Pods,
    /// Whether scheduler and kubelets write Events about pods, as real ones do. A start of a pod then
    /// takes eight writes in place of three. The default is false: tests of controllers read their
    /// own Events, and measurements of the API server should not depend on these.
    pub events: bool,
    /// Seed of the random part of delays; `None` draws a seed.
    pub seed: Option<u64>,
    /// The version that the kubelets report, such as `v1.34.8`; `None` is that of the default release.
    pub kubelet_version: Option<String>,
}

/// The pods that the simulated nodes act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pods {
    /// Pods on every Node of the cluster, for clusters with simulated nodes only. Unscheduled pods
    /// are bound to nodes that fit, and claims get volumes.
    All,
    /// Pods that are bound to these nodes. The cluster's scheduler binds pods, and other nodes have
    /// kubelets.
    OfOwnNodes,
    /// As `OfOwnNodes`, for a cluster without scheduler and provisioner: unscheduled pods are bound
    /// to these nodes, and claims get volumes.
    OfOwnNodesAndUnscheduled,
}

impl Default for NodesConfig {
    fn default() -> Self {
        let latency = Latency::default();
        let stages = Stages::default();
        Self {
            count: 3,
            prefix: "node-".to_owned(),
            zones: 0,
            pod_ranges: false,
            binds_claims: true,
            attaches_volumes: false,
            latency,
            stages,
            pods: Pods::All,
            events: false,
            seed: None,
            kubelet_version: None,
        }
    }
}

impl NodesConfig {
    /// The names of the nodes.
    pub fn names(&self) -> Vec<String> {
        let names = (0..self.count).map(|index| format!("{}{index}", self.prefix));
        names.collect()
    }
}

/// The simulated nodes could not start.
#[derive(Debug, thiserror::Error)]
pub enum NodesError {
    /// A Node or its Lease could not be created.
    #[error("register node {node}: {source}")]
    Register {
        /// Name of the Node.
        node: String,
        /// The failed request.
        #[source]
        source: ApiError,
    },
    /// The default StorageClass could not be created.
    #[error("create the default StorageClass: {0}")]
    Class(#[source] ApiError),
    /// A Node of this name exists without the label of simulated nodes.
    #[error("node {0} exists and is not simulated; choose another prefix")]
    Taken(String),
    /// The metrics of the informers or of the queue could not be registered.
    #[error("set up simulated nodes: {0}")]
    Metrics(#[from] prometheus::Error),
}

/// Registers the nodes and returns. Tasks of `tasks` then run the nodes until `stop` is cancelled.
pub async fn start(
    config: NodesConfig,
    client: ApiClient,
    clock: Clock,
    tasks: &Tasks,
    stop: &CancellationToken,
) -> Result<(), NodesError> {
    let names: Arc<[String]> = config.names().into();
    register::register_all(&client, &names, &config, &clock).await?;

    let registry = Registry::new();
    let metrics = QueueMetrics::register(&registry)?;
    let queue = WorkQueue::new("simulated_pods", &metrics);
    let informers = InformerFactory::new(client.clone(), Duration::ZERO, &registry)?;
    let pods = informers.shared::<SimPod>();
    let nodes = informers.shared::<SimNode>();
    let scheduler = Scheduler::default();
    let journal = config
        .events
        .then(|| Journal::start(&client, &clock, tasks, stop));
    let scope = match config.pods {
        Pods::All => NodeScope::All(nodes.store()),
        Pods::OfOwnNodes | Pods::OfOwnNodesAndUnscheduled => {
            NodeScope::Named(names.iter().map(|name| name.as_str().into()).collect())
        }
    };
    let behaviours = Behaviours::default();
    let duties = Arc::new(Duties {
        scope,
        behaviours: behaviours.clone(),
        pod_ranges: config.pod_ranges,
        binds: config.pods != Pods::OfOwnNodes,
        stages: config.stages,
        latency: config.latency,
        jitter: Mutex::new(StdRng::seed_from_u64(
            config.seed.unwrap_or_else(rand::random),
        )),
    });
    let addresses = Addresses::default();
    addresses.follow(&pods);
    if duties.binds {
        follow_pods(&pods, &queue, &scheduler, &duties);
        follow_namespaces(&informers.shared(), &scheduler);
        follow_budgets(&informers.shared(), &scheduler);
    }
    let unconfigured = Unconfigured::default();
    let configuration = Configuration {
        config_maps: follow_configuration(&informers, &pods, &queue, &unconfigured, &duties),
        secrets: follow_configuration(&informers, &pods, &queue, &unconfigured, &duties),
        accounts: follow_configuration(&informers, &pods, &queue, &unconfigured, &duties),
    };
    enqueue_on_new_stages(&pods, &queue, &duties);
    act_on_new_nodes(&nodes, &pods.store(), &queue, &scheduler, &duties);
    let retry = retry_pods_with_devices(&pods.store(), &queue, &duties);
    let devices = duties.binds.then(|| Devices::follow(&informers, retry));
    let volumes = if duties.binds {
        claims::create_default_class(&client)
            .await
            .map_err(NodesError::Class)?;
        let work = WorkQueue::new("simulated_volumes", &metrics);
        let retry = retry_pods_of_claim(&pods.store(), &queue, &duties);
        let sidecars = config.events.then(|| {
            let client = client.clone();
            let clock = clock.clone();
            EventRecorder::start(PROVISIONER, client, clock, tasks, stop)
        });
        let driver = Driver::new(sidecars);
        let binds = config.binds_claims;
        let volumes = Volumes::new(client.clone(), &informers, &work, driver, binds, retry);
        Some((work, Arc::new(volumes)))
    } else {
        None
    };
    let attach = config.attaches_volumes.then(|| {
        let wake = wake_pods_of_node(&pods.store(), &queue, &duties);
        let simulated = Arc::clone(&duties);
        let is_ours = move |node: &str| simulated.has_node(node);
        let cluster = attach::Cluster {
            client: &client,
            clock: &clock,
            informers: &informers,
            pods: &pods,
            nodes: &nodes,
        };
        Attach::new(&cluster, behaviours.clone(), &metrics, wake, is_ours)
    });
    let node_queue = WorkQueue::new("simulated_nodes", &metrics);
    let recorder = EventRecorder::start(COMPONENT, client.clone(), clock.clone(), tasks, stop);
    let simulated = Arc::clone(&duties);
    heartbeat::follow(
        &nodes,
        &node_queue,
        &names,
        &behaviours,
        recorder,
        move |node| simulated.has_node(node),
    );
    let heartbeats = Heartbeats {
        client: client.clone(),
        clock: clock.clone(),
        nodes: nodes.store(),
        own: names.iter().map(|name| name.as_str().into()).collect(),
        behaviours,
        wake: Box::new(wake_pods_of_node(&pods.store(), &queue, &duties)),
    };
    let kubelet = Kubelet {
        client,
        clock,
        pods: pods.store(),
        by_node: pods_by_node(&pods.store()),
        nodes: nodes.store(),
        queue: queue.clone(),
        scheduler,
        claims: volumes.as_ref().map(|(_, volumes)| volumes.claims()),
        devices,
        configuration,
        unconfigured,
        mounts: attach.as_ref().map(|attach| Arc::clone(&attach.mounts)),
        addresses,
        journal,
        duties,
    };

    informers.start(tasks, stop);
    let synced = informers.clone();
    let ended = stop.clone();
    tasks.spawn("simulated nodes", async move {
        // A pod is judged by its claims, so the claims have to be known first.
        if synced.wait_synced(&ended).await {
            let name = "simulated-nodes";
            run_workers(name, queue, WORKERS, Arc::new(kubelet), ended).await;
        }
    });
    let synced = informers.clone();
    let ended = stop.clone();
    tasks.spawn("heartbeats of simulated nodes", async move {
        if synced.wait_synced(&ended).await {
            let name = "simulated-heartbeats";
            let heartbeats = Arc::new(heartbeats);
            run_workers(name, node_queue, NODE_WORKERS, heartbeats, ended).await;
        }
    });
    if let Some(attach) = attach {
        let synced = informers.clone();
        let ended = stop.clone();
        tasks.spawn("simulated attachments", async move {
            if synced.wait_synced(&ended).await {
                attach.run(ended).await;
            }
        });
    }
    if let Some((work, volumes)) = volumes {
        let synced = informers;
        let ended = stop.clone();
        tasks.spawn("simulated volumes", async move {
            if synced.wait_synced(&ended).await {
                run_workers("simulated-volumes", work, WORKERS, volumes, ended).await;
            }
        });
    }
    Ok(())
}

/// A pod at the end of its time in a stage: the key of the queue.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Due {
    key: ObjectKey,
    uid: Uid,
    /// Position in the table. A pod that left the stage early has a different position now, so the
    /// older key has no effect.
    stage: usize,
    /// Restarts of its containers. A pod that returns to a stage after a restart is due again.
    restarts: i32,
    /// Steps of its init containers, all of which are one stage.
    initialization: i32,
}

impl fmt::Display for Due {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.key.fmt(f)
    }
}

/// The nodes with simulated pods. Pods of all other nodes stay unchanged.
enum NodeScope {
    Named(HashSet<Box<str>>),
    All(Store<SimNode>),
}

/// The rules of the simulation: its nodes, the table of stages and the delays.
struct Duties {
    scope: NodeScope,
    behaviours: Behaviours,
    /// Whether pods start only on nodes with a range of addresses.
    pod_ranges: bool,
    /// Whether unscheduled pods are bound.
    binds: bool,
    stages: Stages,
    latency: Latency,
    /// Source of random delays. With a seed, the same delays in every run.
    jitter: Mutex<StdRng>,
}

impl Duties {
    /// Delay of the stage, with a new random part on each call.
    fn delay(&self, due: &Due, pod: &SimPod) -> Duration {
        let fraction = self.jitter.lock().random();
        self.stages.delay(due.stage, pod, &self.latency, fraction)
    }

    fn has_node(&self, name: &str) -> bool {
        match &self.scope {
            NodeScope::Named(names) => names.contains(name),
            NodeScope::All(nodes) => nodes.get(&ObjectKey::new("", name)).is_some(),
        }
    }

    /// The stage that `pod` waits for. `None` if no row fits, or for pods of other or dead nodes.
    fn due(&self, pod: &SimPod) -> Option<Due> {
        let in_scope = pod.pod.node.as_deref().map_or(self.binds, |node| {
            self.has_node(node) && !self.behaviours.is_dead(node)
        });
        let stage = if in_scope {
            self.stages.find(pod)
        } else {
            None
        }?;
        Some(Due {
            key: pod.key(),
            uid: pod.meta().uid.clone(),
            stage,
            restarts: pod.pod.restarts,
            initialization: pod.initialization(),
        })
    }
}

/// Queues a pod that entered a stage, with the delay of that stage.
fn enqueue_on_new_stages(
    pods: &SharedInformer<SimPod>,
    queue: &WorkQueue<Due>,
    duties: &Arc<Duties>,
) {
    let queue = queue.clone();
    let duties = Arc::clone(duties);
    pods.add_handler(move |change| {
        let (pod, before) = match change {
            Change::Added { object, .. } => (object, None),
            // A pod with new names of claims may fit a node now.
            Change::Updated { old, new } if !has_same_claims(old, new) => (new, None),
            Change::Updated { old, new } => (new, duties.due(old)),
            Change::Deleted { .. } => return,
        };
        let due = duties.due(pod);
        // An update within the same stage keeps the delay that runs already.
        if due != before
            && let Some(due) = due
        {
            let delay = duties.delay(&due, pod);
            queue.add_after(due, delay);
        }
    });
}

fn has_same_claims(old: &SimPod, new: &SimPod) -> bool {
    let [old, new] = [old, new].map(|pod| &pod.pod.details().resource_claim_statuses);
    old == new
}

/// Keeps the scheduler's pods up to date, and queues waiting pods that a change may help.
fn follow_pods(
    pods: &SharedInformer<SimPod>,
    queue: &WorkQueue<Due>,
    scheduler: &Scheduler,
    duties: &Arc<Duties>,
) {
    let store = pods.store();
    let queue = queue.clone();
    let scheduler = scheduler.clone();
    let duties = Arc::clone(duties);
    pods.add_handler(move |change| {
        let helps = match change {
            Change::Added { object, .. } => scheduler.observe(object),
            Change::Updated { old, new } => {
                if old.meta().uid != new.meta().uid {
                    scheduler.forget(old);
                }
                scheduler.observe(new)
            }
            Change::Deleted { object, .. } => scheduler.forget(object),
        };
        if let Some(change) = helps {
            retry_waiting(&scheduler, change, &store, &queue, &duties);
        }
    });
}

/// Queues the waiting pods that a change may help, after the rest of their back-off.
fn retry_waiting(
    scheduler: &Scheduler,
    change: scheduler::Change,
    pods: &Store<SimPod>,
    queue: &WorkQueue<Due>,
    duties: &Duties,
) {
    for (key, delay) in scheduler.release_waiting(change) {
        let pod = pods.get(&key).filter(|pod| pod.pod.node.is_none());
        if let Some(due) = pod.and_then(|pod| duties.due(&pod)) {
            queue.add_after(due, delay);
        }
    }
}

/// Tells the scheduler the labels of namespaces, which affinity to pods can select.
fn follow_namespaces(namespaces: &SharedInformer<Namespace>, scheduler: &Scheduler) {
    let scheduler = scheduler.clone();
    namespaces.add_handler(move |change| {
        let meta = change.object().meta();
        let labels = match change {
            Change::Deleted { .. } => None,
            _ => Some(&meta.labels),
        };
        scheduler.note_namespace(&meta.name, labels);
    });
}

/// Tells the scheduler the PodDisruptionBudgets, which pre-emption spares.
fn follow_budgets(budgets: &SharedInformer<PodDisruptionBudget>, scheduler: &Scheduler) {
    let scheduler = scheduler.clone();
    budgets.add_handler(move |change| match change {
        Change::Deleted { object, .. } => scheduler.forget_budget(object),
        _ => scheduler.note_budget(change.object()),
    });
}

/// The cache of ConfigMaps, Secrets or ServiceAccounts. A change queues the pods of its namespace that wait for one.
fn follow_configuration<K: KeyedKind>(
    informers: &InformerFactory,
    pods: &SharedInformer<SimPod>,
    queue: &WorkQueue<Due>,
    unconfigured: &Unconfigured,
    duties: &Arc<Duties>,
) -> Store<Keyed<K>> {
    let informer = informers.shared::<Keyed<K>>();
    let pods = pods.store();
    let queue = queue.clone();
    let unconfigured = unconfigured.clone();
    let duties = Arc::clone(duties);
    informer.add_handler(move |change| {
        if matches!(change, Change::Deleted { .. }) {
            return;
        }
        for key in unconfigured.take(&change.object().meta().namespace) {
            if let Some(due) = pods.get(&key).and_then(|pod| duties.due(&pod)) {
                queue.add(due);
            }
        }
    });
    informer.store()
}

/// The function that queues the unscheduled pods of a changed claim.
fn retry_pods_of_claim(
    pods: &Store<SimPod>,
    queue: &WorkQueue<Due>,
    duties: &Arc<Duties>,
) -> impl Fn(&ObjectKey) + Send + Sync + 'static {
    let pods = Store::clone(pods);
    let queue = queue.clone();
    let duties = Arc::clone(duties);
    move |claim| {
        let waits = |pod: &&Arc<SimPod>| {
            pod.pod.node.is_none() && pod.claims().any(|used| *used.name == *claim.name)
        };
        let pods = pods.in_namespace(claim.namespace.as_str());
        pods.iter()
            .filter(waits)
            .filter_map(|pod| duties.due(pod))
            .for_each(|due| queue.add(due));
    }
}

/// The function that queues the unscheduled pods with ResourceClaims.
fn retry_pods_with_devices(
    pods: &Store<SimPod>,
    queue: &WorkQueue<Due>,
    duties: &Arc<Duties>,
) -> impl Fn() + Clone + Send + Sync + 'static {
    let waiting = pods.add_index("unscheduled with claims", |pod| {
        let waits = pod.pod.node.is_none() && !pod.pod.spec.resource_claims.is_empty();
        waits.then(|| Sym::new("")).into_iter().collect()
    });
    let queue = queue.clone();
    let duties = Arc::clone(duties);
    move || {
        let pods = waiting.get("");
        let dues = pods.iter().filter_map(|pod| duties.due(pod));
        dues.for_each(|due| queue.add(due));
    }
}

/// The function that queues the pods of a node that is back.
fn wake_pods_of_node(
    pods: &Store<SimPod>,
    queue: &WorkQueue<Due>,
    duties: &Arc<Duties>,
) -> impl Fn(&str) + Send + Sync + 'static {
    let by_node = pods_by_node(pods);
    let queue = queue.clone();
    let duties = Arc::clone(duties);
    move |node| {
        for pod in by_node.get(node) {
            if let Some(due) = duties.due(&pod) {
                let delay = duties.delay(&due, &pod);
                queue.add_after(due, delay);
            }
        }
    }
}

fn pods_by_node(pods: &Store<SimPod>) -> Index<SimPod> {
    pods.add_index("node", |pod| pod.pod.node.iter().cloned().collect())
}

/// Keeps the scheduler's nodes up to date. Queues unscheduled pods when a node may fit them now,
/// and bound pods when their Node, or its range of addresses, appears after them.
fn act_on_new_nodes(
    nodes: &SharedInformer<SimNode>,
    pods: &Store<SimPod>,
    queue: &WorkQueue<Due>,
    scheduler: &Scheduler,
    duties: &Arc<Duties>,
) {
    let by_node = pods_by_node(pods);
    let pods = Store::clone(pods);
    let queue = queue.clone();
    let scheduler = scheduler.clone();
    let duties = Arc::clone(duties);
    nodes.add_handler(move |change| {
        let (node, facts, before) = match change {
            Change::Added { object, .. } => (object, object.facts(), None),
            Change::Updated { old, new } => (new, new.facts(), old.facts()),
            Change::Deleted { object, .. } => (object, None, object.facts()),
        };
        let name = &*node.meta().name;
        let is_new = match change {
            Change::Added { .. } => true,
            Change::Updated { old, new } => old.ranges().is_empty() && !new.ranges().is_empty(),
            Change::Deleted { .. } => false,
        };
        // Other nodes have kubelets, or are not part of the simulation.
        if matches!(duties.scope, NodeScope::Named(_)) && !duties.has_node(name) {
            return;
        }
        let is_same = match (facts, before) {
            (Some(now), Some(before)) => now.takes_same_pods(before),
            (now, before) => now.is_none() && before.is_none(),
        };
        let takes_pods = duties.binds && facts.is_some() && !is_same;
        if duties.binds && !is_same {
            scheduler.note(name, facts.cloned());
        }
        if takes_pods {
            let room = scheduler::Change::Room;
            retry_waiting(&scheduler, room, &pods, &queue, &duties);
        }
        if is_new {
            for pod in by_node.get(name) {
                if let Some(due) = duties.due(&pod) {
                    let delay = duties.delay(&due, &pod);
                    queue.add_after(due, delay);
                }
            }
        }
    });
}
