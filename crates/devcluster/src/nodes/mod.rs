//! Simulated nodes: they schedule, start, probe and end pods as kubelets would, without running anything.
//!
//! pods, nodes (informers) -> stage of each pod -> queue, after the stage's latency -> one write
//!
//! Works over any API server, through a client like everybody else's. What a pod does is decided by the annotation
//! [`BEHAVIOUR`]; see [`stages::Behaviour`].

mod pod;
mod register;
mod scheduler;
mod stages;
mod status;

use std::sync::Arc;
use std::time::Duration;

use prometheus::Registry;
use steersman_runtime::client::{ApiClient, ApiError, PatchKind, Target};
use steersman_runtime::clock::Clock;
use steersman_runtime::informer::{Change, InformerFactory, SharedInformer, Store};
use steersman_runtime::object::{Object, ObjectKey};
use steersman_runtime::resource::PODS;
use steersman_runtime::tasks::{CancellationToken, Tasks};
use steersman_runtime::workers::{Requeue, Retry, Syncer, run_workers};
use steersman_runtime::workqueue::{QueueMetrics, WorkQueue};

use pod::SimPod;
pub use register::SimNode;
use stages::{Action, Stage};
pub use stages::{Behaviour, Latency};

/// Annotation on a pod (or pod template) that says what its simulated containers do.
pub const BEHAVIOUR: &str = "simulate.steersman.dev/behaviour";

/// Pod writes in flight at once.
const WORKERS: usize = 64;

/// How many nodes there are and how fast things happen on them.
#[derive(Debug, Clone)]
pub struct NodesConfig {
    /// Number of nodes.
    pub count: usize,
    /// First part of their names: `node-0`, `node-1`, ...
    pub prefix: String,
    /// How long each stage of a pod's life takes.
    pub latency: Latency,
}

impl Default for NodesConfig {
    fn default() -> Self {
        Self { count: 3, prefix: "node-".to_owned(), latency: Latency::default() }
    }
}

/// The nodes could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum NodesError {
    /// A Node or its Lease could not be created.
    #[error("register node {node}: {source}")]
    Register {
        /// Its name.
        node: String,
        /// Why.
        #[source]
        source: ApiError,
    },
    /// The machinery could not be set up.
    #[error("set up simulated nodes: {0}")]
    Metrics(#[from] prometheus::Error),
}

/// Registers the nodes and runs them, as tasks of `tasks`, until `stop`. Returns once they are registered.
pub async fn start(
    config: NodesConfig,
    client: ApiClient,
    clock: Clock,
    tasks: &Tasks,
    stop: &CancellationToken,
) -> Result<(), NodesError> {
    for index in 0..config.count {
        let node = format!("{}{index}", config.prefix);
        register::register(&client, &node, index, &clock).await.map_err(|source| NodesError::Register { node, source })?;
    }

    let registry = Registry::new();
    let queue = WorkQueue::new("simulated_pods", &QueueMetrics::register(&registry)?);
    let informers = InformerFactory::new(client.clone(), Duration::ZERO, &registry)?;
    let pods = informers.shared::<SimPod>();
    let nodes = informers.shared::<SimNode>();
    let kubelet = Arc::new(Kubelet {
        client: client.clone(),
        clock: clock.clone(),
        pods: pods.store(),
        nodes: nodes.store(),
        scheduler: scheduler::Scheduler::default(),
        addresses: status::Addresses::default(),
    });
    enqueue_on_new_stages(&pods, &queue, &config.latency);
    enqueue_unscheduled_on_new_nodes(&nodes, &pods.store(), &queue);

    informers.start(tasks, stop);
    tasks.spawn("simulated nodes", run_workers("simulated-nodes", queue, WORKERS, kubelet, stop.clone()));
    tasks.spawn("node leases", register::renew_leases(client, clock, nodes.store(), config.prefix, stop.clone()));
    Ok(())
}

/// A pod that entered a stage is due after that stage's latency.
fn enqueue_on_new_stages(pods: &SharedInformer<SimPod>, queue: &WorkQueue<ObjectKey>, latency: &Latency) {
    let (queue, latency) = (queue.clone(), latency.clone());
    pods.add_handler(move |change| {
        let (pod, before) = match change {
            Change::Added { object, .. } => (object, None),
            Change::Updated { old, new } if old.meta().uid == new.meta().uid => (new, Some(Stage::of(old))),
            Change::Updated { new, .. } => (new, None),
            Change::Deleted { .. } => return,
        };
        let stage = Stage::of(pod);
        if Some(stage) != before
            && let Some(delay) = latency.of(stage)
        {
            queue.add_after(pod.key(), delay);
        }
    });
}

/// Pods wait for a node only until one can take them.
fn enqueue_unscheduled_on_new_nodes(nodes: &SharedInformer<SimNode>, pods: &Store<SimPod>, queue: &WorkQueue<ObjectKey>) {
    let (pods, queue) = (Store::clone(pods), queue.clone());
    nodes.add_handler(move |change| {
        let usable = match change {
            Change::Added { object, .. } => object.is_usable(),
            Change::Updated { old, new } => new.is_usable() && !old.is_usable(),
            Change::Deleted { .. } => false,
        };
        if usable {
            pods.list().iter().filter(|pod| Stage::of(pod) == Stage::Unscheduled).for_each(|pod| queue.add(pod.key()));
        }
    });
}

/// Does what a pod's stage calls for.
struct Kubelet {
    client: ApiClient,
    clock: Clock,
    pods: Store<SimPod>,
    nodes: Store<SimNode>,
    scheduler: scheduler::Scheduler,
    addresses: status::Addresses,
}

impl Syncer for Kubelet {
    type Error = ApiError;

    async fn sync(&self, key: &ObjectKey) -> Result<Requeue, ApiError> {
        let Some(pod) = self.pods.get(key) else { return Ok(Requeue::Never) };
        let target = Target { resource: &PODS, namespace: Some(&key.namespace), name: Some(&key.name), subresource: None };
        let result = match stages::next(&pod) {
            Action::Nothing => return Ok(Requeue::Never),
            Action::Bind => {
                let Some(node) = self.scheduler.pick(&self.nodes.list()) else { return Ok(Requeue::Never) };
                let at = Target { subresource: Some("binding"), ..target };
                self.client.create(at, &scheduler::binding(&pod, &node)).await
            }
            Action::Report(health) => {
                let body = status::report(&pod, health, &self.addresses, self.clock.now_seconds());
                self.client.patch(Target { subresource: Some("status"), ..target }, PatchKind::Strategic, &body).await
            }
            Action::Remove => self.client.delete(target, &stages::remove_options(&pod)).await,
        };
        match result {
            Ok(_) => Ok(Requeue::Never),
            // Somebody else was faster; the next event tells what is left to do.
            Err(error) if error.is_not_found() || error.is_conflict() || error.is_invalid() => Ok(Requeue::Never),
            Err(error) => Err(error),
        }
    }

    fn retry(&self, _error: &ApiError, failures: u32) -> Retry {
        if failures < 10 { Retry::Quietly } else { Retry::BackOff }
    }
}
