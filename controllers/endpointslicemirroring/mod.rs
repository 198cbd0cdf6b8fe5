//! Copies Endpoints that users write by hand into EndpointSlices.
//!
//! Endpoints, Services, slices -> handlers -> queue of keys -> sync -> (desired, plan) -> POST, PUT,
//! DELETE
//!
//! Endpoints are mirrored if their Service exists and has no selector. Labels, annotations and
//! addresses of a slice follow the Endpoints. Other Endpoints have no mirrored slices, and slices
//! of an earlier state are deleted.
//!
//! Upstream: `pkg/controller/endpointslicemirroring`. Differences:
//!
//! - A new slice takes over the name of a deleted one of its address type. Upstream can mix up both
//!   types, and then tries to create a slice that exists.
//! - Ports with equal `appProtocol` are one port. Upstream may list such a port twice, which the API
//!   server refuses.
//! - A sync waits until the cache shows earlier writes. Upstream fails and backs off.
//! - A foreign deletion of a slice enqueues its Endpoints even after a restart.

mod desired;
mod error;
mod handlers;
mod metrics;
mod plan;
mod sync;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use steersman_helpers::endpointslice::{
    PortOrder, SliceTotals, SliceWriter, SlicesByService, WrittenSlices,
};
use steersman_objects::{EndpointSlice, Endpoints, Service};
use steersman_runtime::controller::{Controller, ControllerContext, Descriptor, InitError};
use steersman_runtime::keyed::Keyed;
use steersman_runtime::rbac::Rule;
use steersman_runtime::reads::Read;
use steersman_runtime::workqueue::WorkQueue;

use self::metrics::MirroringMetrics;
use self::sync::Mirroring;

/// The EndpointSlice mirroring controller.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: NAME,
    aliases: &["endpointslicemirroring"],
    enabled_by_default: true,
    summary: "Copies Endpoints of Services without a selector into EndpointSlices",
    identity: IDENTITY,
    reads: &[
        Read::of::<Endpoints>(),
        Read::of::<EndpointSlice>(),
        Read::of::<Service>(),
    ],
    rules: RULES,
    init,
};

/// Name in `--controllers`, in logs and metrics.
const NAME: &str = "endpointslice-mirroring-controller";

/// Name of its client and of its service account. Upstream's bootstrap policy knows the controller
/// by this name.
const IDENTITY: &str = "endpointslicemirroring-controller";

/// Source of its Events.
const COMPONENT: &str = "endpoint-slice-mirroring-controller";

/// Value of the label `endpointslice.kubernetes.io/managed-by`. Slices with another value are left
/// alone. Upstream: `ControllerName`.
const MANAGER: &str = "endpointslicemirroring-controller.k8s.io";

const RULES: &[Rule] = &[
    Rule::new(
        &["discovery.k8s.io"],
        &["endpointslices"],
        &["create", "update", "delete"],
    ),
    // Live reads of a new leader.
    Rule::new(&[""], &["endpoints", "services"], &["get"]),
    // The admission plugin OwnerReferencesPermissionEnforcement requires this right for owner
    // references with `blockOwnerDeletion`.
    Rule::new(&[""], &["endpoints/finalizers"], &["update"]),
    Rule::EVENTS,
];

/// The back-off of a key after a failed sync: first and longest. The first delay is longer than
/// usual, because a sync may send large writes. Upstream: `defaultSyncBackOff` and
/// `maxSyncBackOff`.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(100));

fn init(ctx: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    let metrics = ctx
        .metrics(MirroringMetrics::register)
        .map_err(|source| InitError {
            controller: NAME,
            source: Box::new(source),
        })?;
    let queue = WorkQueue::with_backoff_between(
        "endpoint_slice_mirroring",
        &ctx.queue_metrics,
        BACKOFF.0,
        BACKOFF.1,
    );
    let mut keyed = Keyed::<Endpoints>::over(ctx, NAME, queue.clone());
    let slices = ctx.informers.shared::<EndpointSlice>();
    let services = ctx.informers.shared::<Service>();
    let endpoints = keyed.objects().clone();
    let client = ctx.client(IDENTITY);
    let recorder = ctx.recorder(COMPONENT, client.clone());
    let [desired, actual, perfect] = metrics.totals();
    let written = Arc::new(WrittenSlices::default());
    let totals = Arc::new(SliceTotals::new(desired, actual, perfect));
    keyed.remembers(written.clone());
    keyed.remembers(totals.clone());

    // Only changes of slices wait for this period. Endpoints and Services are enqueued at once.
    let period = ctx
        .options
        .time("mirroring-endpointslice-updates-batch-period");
    handlers::register(&ctx.informers, &queue, period, written.clone());
    let syncer = Mirroring {
        services: services.store(),
        endpoints_cache: keyed.tracked(&endpoints),
        services_cache: keyed.tracked(&services),
        slices: SlicesByService::of(&slices.store()),
        // The configuration allows 1 to 1000.
        max: usize::try_from(ctx.options.int("mirroring-max-endpoints-per-subset")).unwrap_or(1),
        order: PortOrder::of(ctx.release),
        writer: SliceWriter {
            owner_kind: "Endpoints",
            client: client.clone(),
            cache: keyed.tracked(&slices),
            written,
            changes: metrics.changes(),
        },
        totals,
        metrics,
        client,
        recorder,
    };
    let workers = ctx
        .options
        .workers("mirroring-concurrent-service-endpoint-syncs");
    Ok(keyed.boxed(workers, syncer))
}
