//! The tasks of a cluster: simulated nodes, controllers and programs of the user, and their
//! shutdown.
//!
//! The API server itself needs no task. Tasks stop in the reverse order of their start, so that a
//! controller's last writes still find its informers and nodes.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use prometheus::Registry;
use steersman_client::{ApiClient, ClientMetrics, ClientSettings, user_agent};
use steersman_nodes::{self as nodes, NodesConfig};
use steersman_options::features::FeatureGates;
use steersman_runtime::controller::{ClientFactory, ContextParts, ControllerContext, Descriptor};
use steersman_runtime::informer::InformerFactory;
use steersman_runtime::tasks::{CancellationToken, Tasks};
use steersman_runtime::workqueue::QueueMetrics;

use super::DevCluster;
use super::error::StartError;

/// Time for one attempt of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Period of the log line that names the tasks that have not stopped yet.
const REPORT: Duration = Duration::from_secs(5);

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A program of the user that works through its own client.
pub(super) struct Program {
    pub(super) name: String,
    pub(super) start: Box<dyn FnOnce(kube::Client) -> Work + Send>,
}

/// A group of tasks and the token that stops them.
#[derive(Debug)]
struct Part {
    tasks: Arc<Tasks>,
    stop: CancellationToken,
}

impl Part {
    fn new() -> Self {
        Self {
            tasks: Arc::default(),
            stop: CancellationToken::new(),
        }
    }

    async fn end(&self) {
        self.stop.cancel();
        self.tasks.join(REPORT).await;
    }
}

/// All tasks of a cluster. Dropping it cancels all of them without waiting.
#[derive(Debug)]
pub(super) struct Running {
    /// Controllers and programs.
    work: Part,
    /// Tasks that controllers depend on: informers, event recorders, nodes.
    base: Part,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.work.stop.cancel();
        self.base.stop.cancel();
    }
}

impl Running {
    /// Starts nodes, then controllers, then programs.
    pub(super) async fn start(
        cluster: &DevCluster,
        nodes: NodesConfig,
        controllers: &[Descriptor],
        programs: Vec<Program>,
    ) -> Result<Self, StartError> {
        let running = Self {
            work: Part::new(),
            base: Part::new(),
        };
        let clients = clients(cluster)?;
        let Part { tasks, stop } = &running.base;
        if nodes.count > 0 {
            nodes::start(
                nodes,
                clients("simulated-nodes"),
                cluster.clock().clone(),
                tasks,
                stop,
            )
            .await?;
        }
        if !controllers.is_empty() {
            running.control(cluster, &clients, controllers).await?;
        }
        for Program { name, start } in programs {
            let stop = running.work.stop.clone();
            let program = start(cluster.client());
            running.work.tasks.spawn(name, async move {
                // A program may end before it is stopped.
                let _ = stop.run_until_cancelled(program).await;
            });
        }
        Ok(running)
    }

    /// Starts controllers as a manager does: watches, construction, synced caches, run.
    async fn control(
        &self,
        cluster: &DevCluster,
        clients: &ClientFactory,
        table: &[Descriptor],
    ) -> Result<(), StartError> {
        let registry = Registry::new();
        let informers =
            InformerFactory::new(clients("shared-informers"), Duration::ZERO, &registry)?;
        let mut context = ControllerContext::new(ContextParts {
            informers: informers.clone(),
            clients: Arc::clone(clients),
            clock: cluster.clock().clone(),
            queue_metrics: QueueMetrics::register(&registry)?,
            registry,
        });
        context.tasks = Arc::clone(&self.base.tasks);
        context.stop = self.base.stop.clone();
        context.credentials = cluster.credentials();
        context.release = cluster.release();
        context.features = FeatureGates::new(|gate| context.release.enables(gate));
        for descriptor in table {
            descriptor.watch(&informers, &context.features, context.release);
        }
        let mut built = Vec::new();
        for descriptor in table {
            built.push((descriptor.name, (descriptor.init)(&context)?));
        }
        informers.start(&self.base.tasks, &self.base.stop);
        informers.wait_synced(&self.base.stop).await;
        for (name, controller) in built {
            self.work
                .tasks
                .spawn(name, controller.run(self.work.stop.clone()));
        }
        Ok(())
    }

    /// Runs a task of the cluster itself until all controllers and programs have ended.
    pub(super) fn beside(&self, name: &str, work: impl Future<Output = ()> + Send + 'static) {
        let stop = self.base.stop.clone();
        self.base.tasks.spawn(name, async move {
            // The task may end before it is stopped.
            let _ = stop.run_until_cancelled(work).await;
        });
    }

    /// Stops controllers and programs, then the base tasks, and waits for each group.
    pub(super) async fn stop(&self) {
        self.work.end().await;
        self.base.end().await;
    }
}

/// A factory of clients without a throttle. They share one set of metrics.
fn clients(cluster: &DevCluster) -> Result<ClientFactory, prometheus::Error> {
    let base = cluster.client();
    let metrics = ClientMetrics::register(&Registry::new())?;
    Ok(Arc::new(move |identity: &str| {
        let settings = ClientSettings {
            user_agent: user_agent(identity),
            qps: 0.0,
            burst: 0,
            timeout: REQUEST_TIMEOUT,
        };
        ApiClient::new(base.clone(), settings, metrics.clone())
    }))
}
