//! Counts the objects of each namespace for its ResourceQuotas, and writes the usage to their status.
//!
//! events -> handlers -> two queues of quotas -> sync -> (usage, status) -> PUT status
//! discovery -> monitors -> number of objects per type and namespace
//!
//! The API server raises the usage when it admits an object. This controller computes the first
//! usage, lowers it, and repairs it.
//!
//! Guarantees:
//!
//! - A write carries the resource version of the quota from which the usage was computed, so a
//!   concurrent raise by the API server is never overwritten.
//! - A resource whose objects cannot be counted keeps its last usage.
//!
//! Upstream: `pkg/controller/resourcequota`. Differences:
//!
//! - Types without rules of their own are counted by their metadata, in the watches of the garbage
//!   collector.
//! - A type that cannot be listed blocks only its own resources, and discovery never pauses the
//!   workers.
//! - Quotas that name a new type are counted as soon as its objects are known, and not at the next
//!   full resync.
//! - A quota is counted again one second after an object was added, and half a minute after its usage
//!   has changed. A sync between the watch events of both leaves a wrong usage, and upstream repairs it
//!   after minutes.
//! - Updates of claims that change no usage cause no sync.

mod handlers;
mod monitors;
mod priority;
mod releases;
mod status;
mod sync;
#[cfg(test)]
mod tests;
mod types;
mod usage;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use steersman_helpers::quota::ClaimCounting;
use steersman_objects::{
    DeviceClass, ObjectKey, PersistentVolumeClaim, Pod, ResourceClaim, ResourceQuota, Service,
};
use steersman_options::features;
use steersman_runtime::controller::{Controller, ControllerContext, Descriptor, InitError};
use steersman_runtime::keyed::{Keyed, Runner};
use steersman_runtime::rbac::Rule;
use steersman_runtime::reads::Read;
use steersman_runtime::tasks::CancellationToken;
use steersman_runtime::workers::run_workers;
use steersman_runtime::workqueue::WorkQueue;

use self::handlers::Replenisher;
use self::monitors::Monitors;
use self::releases::Releases;
use self::sync::Quotas;
use self::types::{Devices, Types};
use self::usage::Usage;

/// The resource quota controller.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: NAME,
    aliases: &["resourcequota"],
    enabled_by_default: true,
    summary: "Counts the objects of each namespace for its resource quotas",
    identity: NAME,
    reads: &[
        Read::of::<ResourceQuota>(),
        Read::of::<Pod>(),
        Read::of::<Service>(),
        Read::of::<PersistentVolumeClaim>(),
        Read::of::<ResourceClaim>(),
        Read::of::<DeviceClass>(),
    ],
    rules: &[
        // Monitors follow every countable type of discovery.
        Rule::new(&["*"], &["*"], &["list", "watch"]),
        Rule::new(&[""], &["resourcequotas/status"], &["update"]),
    ],
    init,
};

const NAME: &str = "resourcequota-controller";

fn init(ctx: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    // Both names are upstream's, for the metrics. The queue of missing usage has its own workers,
    // so a full resync does not delay new quotas.
    let primary = WorkQueue::new("resourcequota_primary", &ctx.queue_metrics);
    let priority = WorkQueue::new("resourcequota_priority", &ctx.queue_metrics);
    let mut keyed = Keyed::<ResourceQuota>::over(ctx, NAME, primary.clone());
    let quotas = keyed.objects().clone();
    let is_on = |gate| ctx.features.is_on(gate);
    let devices = if !is_on(features::DYNAMIC_RESOURCE_ALLOCATION) {
        Devices::Number
    } else if is_on(features::DRA_EXTENDED_RESOURCE) {
        Devices::Extended(ctx.informers.shared::<DeviceClass>().store())
    } else {
        Devices::Classes
    };
    let types = Arc::new(Types::new(devices));
    let usage = Usage {
        types: Arc::clone(&types),
        pods: ctx.informers.shared(),
        services: ctx.informers.shared(),
        claims: ctx.informers.shared(),
        device_claims: ctx.informers.shared(),
        clock: ctx.clock.clone(),
        claim_counting: ClaimCounting {
            allocated_storage: is_on(features::RECOVER_VOLUME_EXPANSION_FAILURE),
            attributes_classes: is_on(features::VOLUME_ATTRIBUTES_CLASS),
        },
        pod_level_resources: is_on(features::POD_LEVEL_RESOURCES),
        status_resources: is_on(features::IN_PLACE_POD_VERTICAL_SCALING),
    };
    let releases = Arc::new(Releases::default());
    let replenisher = Arc::new(Replenisher {
        releases: releases.clone(),
        quotas: quotas.store(),
        types: Arc::clone(&types),
        primary: primary.clone(),
        priority: priority.clone(),
        changes: ctx
            .queue_metrics
            .immediate("resource_quota_controller_resource_changes"),
    });
    handlers::register(&replenisher, &quotas, &usage);
    let client = ctx.client(NAME);
    let monitors = Monitors::new(
        ctx.informers.clone(),
        client.clone(),
        types,
        Arc::clone(&replenisher),
    );
    let cache = keyed.tracked(&quotas);
    Ok(Box::new(QuotaController {
        replenisher,
        runner: keyed.runner(Quotas {
            usage,
            client,
            cache,
            releases,
        }),
        monitors,
        primary,
        priority,
        workers: ctx.options.workers("concurrent-resource-quota-syncs"),
        resync: ctx.options.time("resource-quota-sync-period"),
    }))
}

struct QuotaController {
    replenisher: Arc<Replenisher>,
    runner: Arc<Runner<Quotas>>,
    monitors: Monitors,
    primary: WorkQueue<ObjectKey>,
    priority: WorkQueue<ObjectKey>,
    /// Number of workers of each queue.
    workers: usize,
    /// Period of [`handlers::resync`]. Zero disables it. Flag `--resource-quota-sync-period`.
    resync: Duration,
}

impl Controller for QuotaController {
    fn run(self: Box<Self>, stop: CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let Self {
            replenisher,
            runner,
            mut monitors,
            primary,
            priority,
            workers,
            resync,
        } = *self;
        Box::pin(async move {
            // It has a time limit: a type that cannot be listed must not stop the count of others.
            monitors.sync(&stop).await;
            // Workers and resync start after the wait, so that the first count sees most types.
            let resync = handlers::resync(replenisher, resync);
            let work = |queue| run_workers(NAME, queue, workers, Arc::clone(&runner), stop.clone());
            let all = async { tokio::join!(work(primary), work(priority), monitors.follow(&stop)) };
            tokio::select! {
                _ended = all => {}
                () = resync => {}
            }
        })
    }
}
