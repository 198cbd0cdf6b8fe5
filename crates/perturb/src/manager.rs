//! One process of the manager, as far as controllers can tell: it stands by with warm caches,
//! leads, loses its Lease, crashes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use prometheus::Registry;
use steersman_devcluster::DevCluster;
use steersman_runtime::client::{ApiClient, ClientMetrics, ClientSettings, WriteGate};
use steersman_runtime::controller::{ClientFactory, ContextParts, ControllerContext};
use steersman_runtime::informer::InformerFactory;
use steersman_runtime::tasks::{CancellationToken, Tasks};
use steersman_runtime::workqueue::QueueMetrics;
use tokio::sync::watch;

use crate::scenario::Scenario;

/// A part of the `User-Agent` of every manager, and of nobody else.
pub(crate) const AGENT: &str = "(instance-";

/// Time for one attempt of a request.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// What leadership lets through.
#[derive(Default)]
struct Lease {
    lost: AtomicBool,
}

impl WriteGate for Lease {
    fn is_open(&self) -> bool {
        !self.lost.load(Ordering::Relaxed)
    }
}

/// A manager that stands by until [`Manager::lead`].
pub struct Manager {
    context: ControllerContext,
    scenario: &'static Scenario,
    lease: Arc<Lease>,
    /// The controllers.
    work: Tasks,
    stop: CancellationToken,
    /// The controller that ended though nobody stopped it.
    ended: watch::Sender<Option<&'static str>>,
}

impl Manager {
    /// A process that fills its caches and waits. `number` tells its requests from those of others.
    pub fn standby(cluster: &DevCluster, scenario: &'static Scenario, number: usize) -> Self {
        let lease = Arc::new(Lease::default());
        let registry = Registry::new();
        let reads = clients(cluster, number);
        let (writes, gate) = (Arc::clone(&reads), Arc::clone(&lease));
        let fenced: ClientFactory = Arc::new(move |identity| {
            writes(identity).fenced(Arc::clone(&gate) as Arc<dyn WriteGate>)
        });
        let informers = InformerFactory::new(reads("shared-informers"), Duration::ZERO, &registry);
        let context = ControllerContext::new(ContextParts {
            informers: informers.expect("the registry is new"),
            clients: fenced,
            clock: cluster.clock().clone(),
            queue_metrics: QueueMetrics::register(&registry).expect("the registry is new"),
            registry,
        });
        for controller in scenario.controllers {
            controller.watch(&context.informers);
        }
        context.informers.start(&context.tasks, &context.stop);
        let (stop, ended) = (CancellationToken::new(), watch::Sender::new(None));
        Self {
            context: (scenario.configure)(context),
            scenario,
            lease,
            work: Tasks::default(),
            stop,
            ended,
        }
    }

    /// Builds and runs the controllers; returns when they work. `since` is the revision the
    /// leadership began with.
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
            let (run, stop, ended) = (
                controller.run(self.stop.clone()),
                self.stop.clone(),
                self.ended.clone(),
            );
            self.work.spawn(name, async move {
                run.await;
                if !stop.is_cancelled() {
                    ended.send_replace(Some(name));
                }
            });
        }
    }

    /// Waits until a controller has ended by itself, upon which the process ends, too, and says
    /// which.
    pub async fn ended(&self) -> &'static str {
        let mut ended = self.ended.subscribe();
        loop {
            let name = *ended.borrow_and_update();
            match name {
                Some(name) => return name,
                // The sender is ours, so there is no other end.
                None => drop(ended.changed().await),
            }
        }
    }

    /// From now on somebody else may lead: no write gets out any more.
    pub fn lose_lease(&self) {
        self.lease.lost.store(true, Ordering::Relaxed);
    }

    /// Ends the process where it is. Returns how many of its tasks and syncs had panicked.
    pub async fn crash(self) -> usize {
        self.lose_lease();
        // Before any of it is waited for: everything ends at the same instant, as far as it can.
        let tasks = [&self.work, &*self.context.tasks];
        tasks.iter().for_each(|tasks| tasks.abort());
        for tasks in tasks {
            tasks.join(Duration::from_secs(60)).await;
        }
        self.panics()
    }

    /// Ends the process in order. Returns how many of its tasks and syncs had panicked.
    pub async fn stop(self) -> usize {
        self.stop.cancel();
        self.work.join(Duration::from_secs(60)).await;
        self.context.stop.cancel();
        self.context.tasks.join(Duration::from_secs(60)).await;
        self.panics()
    }

    fn panics(&self) -> usize {
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

fn clients(cluster: &DevCluster, number: usize) -> ClientFactory {
    let base = cluster.client();
    let metrics = ClientMetrics::register(&Registry::new()).expect("the registry is new");
    Arc::new(move |identity: &str| {
        let user_agent = format!(
            "kube-controller-manager/v1.36.2 {AGENT}{number}) kubernetes/0000000/{identity}"
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
