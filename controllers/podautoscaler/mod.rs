//! Scales workloads by metrics: keeps the use of resources, or other values, near their targets.
//!
//! timers -> queue of autoscalers -> sync -> (evaluate, limits, behavior) -> PUT scale, PUT status
//!
//! Guarantees:
//!
//! - The size of a target that this controller writes is within `minReplicas` and `maxReplicas`.
//! - A write of a size carries the resource version that was read in the same sync. After a conflict
//!   it is repeated with a new one, five times at most.
//! - Each autoscaler is synced once per period, also after failures.
//!
//! Upstream: `pkg/controller/podautoscaler`. Differences:
//!
//! - The size is read and written as served, without a look at the discovery of the subresource.
//! - After the last failed write of a size, the size is not read again.
//! - The versions of the custom metrics API come from the discovery of that group only.
//! - Autoscalers that share pods are named in alphabetical order; upstream's order is random.
//!
//! The controller never reads the target itself. It knows the subresource `scale`, so any kind with that
//! subresource works, custom resources included. It changes neither `spec` nor metadata of an autoscaler.
//!
//! Modules: `evaluate.rs` reads one metric, and `replicas.rs` computes its proposal. `limits.rs` and
//! `behavior.rs` turn the largest proposal into the next size. `sync.rs` does the IO, and `status.rs` builds
//! the conditions. `explain.rs`, `held.rs`, `rates.rs`, `shared.rs` and `recall.rs` only tell users the reasons.
//! `history.rs` and `selectors.rs` have the only state beside the caches; a new leader starts without it.

mod behavior;
mod config;
mod containers;
mod cores;
mod error;
mod evaluate;
pub(crate) mod explain;
mod handlers;
mod held;
mod history;
mod invariants;
mod limits;
mod metrics;
mod metrics_api;
mod pods;
mod problem;
mod rates;
mod recall;
mod replicas;
mod rescale;
mod selectors;
mod shared;
mod status;
mod sync;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use steersman_client::discovery::RestMapper;
use steersman_helpers::endpointslice::PodsByLabel;
use steersman_objects::{HorizontalPodAutoscaler, ObjectKey, Pod};
use steersman_runtime::controller::{Controller, ControllerContext, Descriptor, InitError};
use steersman_runtime::keyed::Keyed;
use steersman_runtime::rbac::Rule;
use steersman_runtime::reads::Read;
use steersman_runtime::workqueue::WorkQueue;

use self::config::Config;
use self::evaluate::Sources;
use self::history::Histories;
use self::metrics::AutoscalerMetrics;
use self::metrics_api::MetricsApi;
use self::selectors::Selectors;
use self::sync::{Autoscalers, Reconciler};

/// The horizontal pod autoscaler controller.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: NAME,
    aliases: &["horizontalpodautoscaling"],
    enabled_by_default: true,
    summary: "Scales workloads by the use of resources and by other metrics",
    identity: IDENTITY,
    // Pods are read from the cache: their readiness, requests and labels decide, and a request per sync is
    // saved.
    reads: &[Read::of::<HorizontalPodAutoscaler>(), Read::of::<Pod>()],
    rules: &[
        Rule::new(
            &["autoscaling"],
            &["horizontalpodautoscalers/status"],
            &["update"],
        ),
        // A target may be any custom resource.
        Rule::new(&["*"], &["*/scale"], &["get", "update"]),
        // The verbs of the three metrics APIs are those of upstream's clients: external metrics are lists,
        // and custom metrics are single reads.
        Rule::new(&["metrics.k8s.io"], &["pods"], &["list"]),
        Rule::new(&["custom.metrics.k8s.io"], &["*"], &["get"]),
        Rule::new(&["external.metrics.k8s.io"], &["*"], &["list"]),
        Rule::EVENTS,
    ],
    init,
};

const NAME: &str = "horizontal-pod-autoscaler-controller";

/// Name of its clients, and source of its Events.
const IDENTITY: &str = "horizontal-pod-autoscaler";

fn init(ctx: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    let config = Config::of(ctx).map_err(|source| InitError {
        controller: NAME,
        source: Box::new(source),
    })?;
    let metrics = ctx
        .metrics(AutoscalerMetrics::register)
        .map_err(|source| InitError {
            controller: NAME,
            source: Box::new(source),
        })?;
    // As upstream's `FixedItemIntervalRateLimiter` in `rate_limiters.go`: the delay never grows, so a target
    // that comes back is scaled within one period.
    let period = config.period;
    // The delay after a failed sync is the period too.
    let queue = WorkQueue::with_backoff_of_keys(
        "horizontalpodautoscaler",
        &ctx.queue_metrics,
        period,
        period,
    );
    let mut keyed = Keyed::<HorizontalPodAutoscaler>::over(ctx, NAME, queue.clone());
    let autoscalers = keyed.objects().clone();
    let histories = Arc::<Histories>::default();
    let selectors = Arc::<Selectors>::default();
    // A deleted autoscaler leaves its memory, so another one of the same name starts afresh.
    keyed.remembers(Arc::clone(&histories) as Arc<_>);
    handlers::register(
        &autoscalers,
        queue,
        Arc::clone(&selectors),
        metrics.autoscalers.clone(),
        &config,
    );
    // `/debug/why` shows the recommendations, which no API object has.
    let memory = Arc::clone(&histories);
    let known = autoscalers.store();
    let window = config.downscale_window;
    let recall = move |key: &str, now| {
        let key = ObjectKey::of_text(key);
        let hpa = known.get(&key);
        let reason = hpa.and_then(|hpa| {
            let history = memory.get(&key, |history| recall::recall(history, &hpa, window, now));
            history.flatten()
        });
        reason.into_iter().collect()
    };
    ctx.debug.set_memory(NAME, Arc::new(recall));
    let client = ctx.client(IDENTITY);
    client.counts_violations_of(&[invariants::LIMITS]);
    let reconciler = Reconciler {
        sources: Sources {
            api: MetricsApi::new(ctx, period),
            mapper: RestMapper::new(client.clone()),
            pods: PodsByLabel::of(&ctx.informers.shared::<Pod>().store()),
        },
        recorder: ctx.recorder(IDENTITY, client.clone()),
        client,
        // A client of its own means a throttle of its own, so slow metrics never delay a write of a size.
        scale_client: ctx.client(IDENTITY),
        clock: ctx.clock.clone(),
        config,
        histories,
        selectors,
        metrics,
    };
    let cache = keyed.tracked(&autoscalers);
    let workers = ctx
        .options
        .workers("concurrent-horizontal-pod-autoscaler-syncs");
    Ok(keyed.boxed(workers, Autoscalers::new(reconciler, cache)))
}
