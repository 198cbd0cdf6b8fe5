//! The controllers of this project in this process: they stand by with filled caches, lead, lose
//! their Lease, and crash.
//!
//! The run decides when it leads, in place of a Lease object and an elector. So a takeover happens
//! exactly at the write of the plan. Writes pass the same gate check as in the real process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use prometheus::Registry;
use steersman_client::{ApiClient, ClientMetrics, ClientSettings, HttpService, WriteGate};
use steersman_devcluster::DevCluster;
use steersman_runtime::controller::{ClientFactory, ContextParts, ControllerContext};
use steersman_runtime::informer::InformerFactory;
use steersman_runtime::tasks::{CancellationToken, Tasks};
use steersman_runtime::workqueue::QueueMetrics;
use steersman_values::clock::Clock;
use steersman_values::version::GIT_VERSION;
use steersman_why::KeyState;
use tokio::sync::watch;
use tracing::Instrument;

use super::{AGENT, REQUEST_TIMEOUT};
use crate::scenario::Scenario;

/// The write gate: open until the Lease is lost.
#[derive(Default)]
struct Lease {
    lost: AtomicBool,
}

impl WriteGate for Lease {
    fn is_open(&self) -> bool {
        !self.lost.load(Ordering::Relaxed)
    }
}

/// A manager that stands by until [`InProcess::lead`].
pub struct InProcess {
    context: ControllerContext,
    scenario: &'static Scenario,
    lease: Arc<Lease>,
    /// One task per controller.
    work: Tasks,
    stop: CancellationToken,
    /// Name of the controller that returned before `stop`.
    ended: watch::Sender<Option<&'static str>>,
}

impl InProcess {
    /// Starts a process that fills its caches and waits. `number` marks its requests in the log.
    pub fn standby(cluster: &DevCluster, scenario: &'static Scenario, number: usize) -> Self {
        Self::standby_over(cluster.client().into(), cluster.clock(), scenario, number)
    }

    /// The same with requests through `server`.
    pub fn standby_over(
        server: HttpService,
        clock: &Clock,
        scenario: &'static Scenario,
        number: usize,
    ) -> Self {
        let lease = Arc::new(Lease::default());
        let registry = Registry::new();
        let reads = clients(server, number);
        let writes = Arc::clone(&reads);
        let gate = Arc::clone(&lease);
        let fenced: ClientFactory = Arc::new(move |identity| {
            writes(identity).fenced(Arc::clone(&gate) as Arc<dyn WriteGate>)
        });
        let informers = InformerFactory::new(reads("shared-informers"), Duration::ZERO, &registry);
        let context = ControllerContext::new(ContextParts {
            informers: informers.expect("the registry is new"),
            clients: fenced,
            clock: clock.clone(),
            queue_metrics: QueueMetrics::register(&registry).expect("the registry is new"),
            registry,
        });
        let context = (scenario.configure)(context);
        for controller in scenario.controllers {
            controller.watch(&context.informers, &context.features, context.release);
        }
        context.informers.start(&context.tasks, &context.stop);
        let stop = CancellationToken::new();
        let ended = watch::Sender::new(None);
        Self {
            context,
            scenario,
            lease,
            work: Tasks::default(),
            stop,
            ended,
        }
    }

    /// Builds the controllers, waits for their caches, and runs them. Returns when they run.
    /// `since` is the resource version at which this leadership term began.
    pub async fn lead(&mut self, since: u64) {
        let context = &mut self.context;
        context.term_start_rv = since;
        let built = self.scenario.controllers.iter().map(|controller| {
            let made = (controller.init)(context);
            (
                controller.name,
                made.unwrap_or_else(|error| panic!("{error}")),
            )
        });
        let built: Vec<_> = built.collect();
        context.informers.start(&context.tasks, &context.stop);
        context.informers.wait_synced(&context.stop).await;
        for (name, controller) in built {
            let run = controller.run(self.stop.clone());
            let stop = self.stop.clone();
            let ended = self.ended.clone();
            // Controllers that run no queue log outside the spans of syncs.
            let span = tracing::info_span!("controller", controller = name);
            let run = async move {
                run.await;
                if !stop.is_cancelled() {
                    ended.send_replace(Some(name));
                }
            };
            self.work.spawn(name, run.instrument(span));
        }
    }

    /// Waits until a controller returns before it is stopped, and returns its name. The real
    /// manager process would exit here.
    pub async fn ended(&self) -> &'static str {
        let mut ended = self.ended.subscribe();
        loop {
            let name = *ended.borrow_and_update();
            match name {
                Some(name) => return name,
                // The sender is a field of `self`, so the channel cannot be closed.
                None => drop(ended.changed().await),
            }
        }
    }

    /// Closes the write gate: another process may lead from now on.
    pub fn lose_lease(&self) {
        self.lease.lost.store(true, Ordering::Relaxed);
    }

    /// Aborts all tasks at once, as a crash does. Returns the number of panics in tasks and syncs.
    pub async fn crash(self) -> usize {
        self.lose_lease();
        // All tasks are aborted before the first join, so that they end at the same instant.
        let tasks = [&self.work, &*self.context.tasks];
        tasks.iter().for_each(|tasks| tasks.abort());
        for tasks in tasks {
            tasks.join(Duration::from_secs(60)).await;
        }
        self.panics()
    }

    /// Stops the controllers, then the caches. Returns the number of panics in tasks and syncs.
    pub async fn stop(self) -> usize {
        self.stop.cancel();
        self.work.join(Duration::from_secs(60)).await;
        self.context.stop.cancel();
        self.context.tasks.join(Duration::from_secs(60)).await;
        self.panics()
    }

    /// The present samples of these families of metrics, sorted.
    pub(super) fn samples(&self, families: &[&str]) -> Vec<String> {
        let gathered = self.context.registry.gather();
        let chosen = gathered
            .iter()
            .filter(|family| families.contains(&family.name()));
        let mut samples = Vec::new();
        for family in chosen {
            for metric in family.get_metric() {
                let labels = metric.get_label().iter();
                let labels: Vec<String> = labels
                    .map(|label| format!("{}={:?}", label.name(), label.value()))
                    .collect();
                samples.push(format!(
                    "{}{{{}}} {}",
                    family.name(),
                    labels.join(","),
                    metric.get_gauge().get_value()
                ));
            }
        }
        samples.sort_unstable();
        samples
    }

    /// The state of `key` in the queues and records of all controllers.
    pub fn key_states(&self, key: &str) -> Vec<KeyState> {
        let controllers = self.scenario.controllers.iter();
        controllers
            .flat_map(|controller| self.context.queue_metrics.keys(controller.name, key))
            .collect()
    }

    /// The number of panics in tasks and syncs so far.
    pub fn panics(&self) -> usize {
        let of_tasks = self.work.panics().get() + self.context.tasks.panics().get();
        let families = self.context.registry.gather();
        let of_syncs = families
            .iter()
            .filter(|family| family.name() == "steersman_sync_panics_total");
        let of_syncs: f64 = of_syncs
            .flat_map(|family| family.get_metric())
            .map(|metric| metric.get_counter().get_value())
            .sum();
        usize::try_from(of_tasks).unwrap_or(usize::MAX) + of_syncs as usize
    }
}

/// Makes clients of `base`, with the mark of the instance `number`.
pub(super) fn clients(base: HttpService, number: usize) -> ClientFactory {
    let metrics = ClientMetrics::register(&Registry::new()).expect("the registry is new");
    Arc::new(move |identity: &str| {
        let user_agent = format!(
            "kube-controller-manager/{GIT_VERSION} {AGENT}{number}) kubernetes/0000000/{identity}"
        );
        let settings = ClientSettings {
            user_agent,
            qps: 0.0,
            burst: 0,
            timeout: REQUEST_TIMEOUT,
        };
        ApiClient::new(base.clone(), settings, metrics.clone())
    })
}
