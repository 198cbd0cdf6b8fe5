//! Gives Services of type `LoadBalancer` a load balancer of the cloud, and writes its addresses
//! into the status.
//!
//! - Service events, every 30 s unfinished clean-ups -> queue -> [`sync`] -> provider, patches
//! - node events -> queue -> [`hosts`] -> provider: the targets of all load balancers
//!
//! A finalizer keeps the Service until its load balancer is deleted.
//!
//! Upstream: `staging/src/k8s.io/cloud-provider/controllers/service`. Differences:
//!
//! - A load balancer is deleted only after a live read of the Service, because the cache of a new
//!   leader may be old.
//! - Node events have one key, because one pass is about all nodes.
//! - Bodies of patches name the UID; see [`patch`].

mod changes;
mod hosts;
mod known;
mod metrics;
mod nodes;
mod patch;
mod sync;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Service};
use steersman_objects::{Object, ObjectKey};
use steersman_runtime::controller::{Controller, ControllerContext, Descriptor, InitError};
use steersman_runtime::informer::{Change, Store};
use steersman_runtime::keyed::{Keyed, Runner};
use steersman_runtime::rbac::Rule;
use steersman_runtime::reads::Read;
use steersman_runtime::tasks::CancellationToken;
use steersman_runtime::workers::run_workers;
use steersman_runtime::workqueue::WorkQueue;

use crate::provider::CloudProvider;
use crate::served::Served;
use crate::shared::{Off, provider};
use hosts::Hosts;
use known::Known;
use metrics::ServiceMetrics;
use sync::Balancing;

const NAME: &str = "service-lb-controller";
/// Name of its client and service account, and source of its Events.
const IDENTITY: &str = "service-controller";

const READS: &[Read] = &[Read::of::<Served<Service>>(), Read::of::<Served<Node>>()];
const RULES: &[Rule] = &[
    Rule::new(&[""], &["services"], &["get"]),
    Rule::new(&[""], &["services/status"], &["patch"]),
    Rule::EVENTS,
];

/// Back-off of a Service: the first, and the longest.
const BACK_OFF: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(300));
/// Period in which unfinished clean-ups are tried again. Upstream: `serviceSyncPeriod`.
const CLEANUP_PERIOD: Duration = Duration::from_secs(30);

/// The service controller over the provider `P`.
pub const fn descriptor<P: CloudProvider>() -> Descriptor {
    Descriptor {
        name: NAME,
        aliases: &["service"],
        enabled_by_default: true,
        summary: "Gives Services of type LoadBalancer a load balancer of the cloud",
        identity: IDENTITY,
        reads: READS,
        rules: RULES,
        init: init::<P>,
    }
}

fn init<P: CloudProvider>(ctx: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    let Some(balancers) = provider::<P>(ctx, NAME)?.load_balancers() else {
        tracing::error!(
            "Failed to start service controller: the cloud provider does not support external load balancers"
        );
        return Ok(Box::new(Off));
    };
    let metrics = ServiceMetrics::register(&ctx.registry).map_err(|source| InitError {
        controller: NAME,
        source: Box::new(source),
    })?;
    let (first, longest) = BACK_OFF;
    let queue = WorkQueue::with_backoff_of_keys("service", &ctx.queue_metrics, first, longest);
    let mut services = Keyed::<Served<Service>>::over(ctx, NAME, queue);
    let queue = services.queue();
    let informer = services.objects().clone();
    let changed = queue.clone();
    informer.add_handler(move |change| match change {
        Change::Added { object, .. } if is_ours(&object.object) => changed.add(object.key()),
        Change::Updated { old, new }
            if changes::changed(&old.object, &new.object)
                || changes::needs_cleanup(&new.object) =>
        {
            changed.add(new.key());
        }
        // A deletion begins with an update that sets its time.
        Change::Added { .. } | Change::Updated { .. } | Change::Deleted { .. } => {}
    });
    let node_queue = WorkQueue::with_backoff_of_keys("node", &ctx.queue_metrics, first, longest);
    let nodes = ctx.informers.shared::<Served<Node>>();
    let changed = node_queue.clone();
    nodes.add_handler(move |change| match change {
        Change::Updated { old, new } if !nodes::changed(&old.object, &new.object) => {}
        _ => changed.add(hosts::all_nodes()),
    });

    let workers = ctx.options.workers("concurrent-service-syncs");
    let client = ctx.client(IDENTITY);
    let recorder = ctx.recorder(IDENTITY, client.clone());
    let known = Arc::new(Known::default());
    let cache = services.tracked(&informer);
    let hosts = Arc::new(Hosts {
        balancers: Arc::clone(&balancers),
        recorder: recorder.clone(),
        nodes: nodes.store(),
        known: Arc::clone(&known),
        services: queue.clone(),
        metrics,
        at_once: workers.max(1),
    });
    let cached = informer.store();
    let runner = services.runner(Balancing {
        balancers,
        client,
        recorder,
        nodes: nodes.store(),
        known,
        cache,
    });
    Ok(Box::new(ServiceController {
        queue,
        workers,
        runner,
        cached,
        node_queue,
        hosts,
    }))
}

fn is_ours(service: &Service) -> bool {
    changes::wants(service) || changes::needs_cleanup(service)
}

struct ServiceController {
    queue: WorkQueue<ObjectKey>,
    workers: usize,
    runner: Arc<Runner<Balancing>>,
    cached: Store<Served<Service>>,
    node_queue: WorkQueue<ObjectKey>,
    hosts: Arc<Hosts>,
}

impl Controller for ServiceController {
    fn run(self: Box<Self>, stop: CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let Self {
            queue,
            workers,
            runner,
            cached,
            node_queue,
            hosts,
        } = *self;
        Box::pin(async move {
            tokio::join!(
                run_workers(NAME, queue.clone(), workers, runner, stop.clone()),
                run_workers(NAME, node_queue, 1, hosts, stop.clone()),
                repeat_cleanups(&cached, &queue, &stop),
            );
        })
    }
}

/// Queues the Services with an unfinished clean-up, again and again.
async fn repeat_cleanups(
    cached: &Store<Served<Service>>,
    queue: &WorkQueue<ObjectKey>,
    stop: &CancellationToken,
) {
    let pause = || stop.run_until_cancelled(tokio::time::sleep(CLEANUP_PERIOD));
    while pause().await.is_some() {
        let services = cached.list().into_iter();
        services
            .filter(|service| changes::needs_cleanup(&service.object))
            .for_each(|service| queue.add(service.key()));
    }
}
