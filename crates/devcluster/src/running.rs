//! What runs beside a cluster: simulated nodes, controllers, programs of the user's own; and their
//! end.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use prometheus::Registry;
use steersman_runtime::client::{ApiClient, ClientMetrics, ClientSettings, user_agent};
use steersman_runtime::controller::{ClientFactory, ContextParts, ControllerContext, Descriptor};
use steersman_runtime::informer::InformerFactory;
use steersman_runtime::tasks::{CancellationToken, Tasks};
use steersman_runtime::workqueue::QueueMetrics;

use crate::DevCluster;
use crate::builder::StartError;
use crate::nodes::{self, NodesConfig};

/// Time for one attempt of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// How often tasks that still run after being stopped are named in the log.
const REPORT: Duration = Duration::from_secs(5);

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Something that works through a client of its own.
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) start: Box<dyn FnOnce(kube::Client) -> Work + Send>,
}

/// Tasks and what ends them.
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

/// All of it. Dropping it ends everything at once.
#[derive(Debug)]
pub(crate) struct Running {
    /// Controllers and programs.
    work: Part,
    /// What they rest on: informers, senders of Events, nodes.
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
    pub(crate) async fn start(
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
            let (stop, program) = (running.work.stop.clone(), start(cluster.client()));
            running.work.tasks.spawn(name, async move {
                // Stopped or ended by itself: both are fine.
                let _ = stop.run_until_cancelled(program).await;
            });
        }
        Ok(running)
    }

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
        (context.tasks, context.stop) = (Arc::clone(&self.base.tasks), self.base.stop.clone());
        for descriptor in table {
            descriptor.watch(&informers);
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

    /// Goes on with something of the cluster's own until everything else has ended.
    pub(crate) fn beside(&self, name: &str, work: impl Future<Output = ()> + Send + 'static) {
        let stop = self.base.stop.clone();
        self.base.tasks.spawn(name, async move {
            // Stopped or ended by itself: both are fine.
            let _ = stop.run_until_cancelled(work).await;
        });
    }

    /// Ends the work, then what it rests on, and waits for both.
    pub(crate) async fn stop(&self) {
        self.work.end().await;
        self.base.end().await;
    }
}

/// Makes clients without a throttle, which all count as one program.
fn clients(cluster: &DevCluster) -> Result<ClientFactory, prometheus::Error> {
    let (base, metrics) = (cluster.client(), ClientMetrics::register(&Registry::new())?);
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
