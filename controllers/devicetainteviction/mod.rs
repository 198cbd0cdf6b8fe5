//! Evicts pods that use devices with NoExecute taints, unless their claims tolerate them.
//!
//! events of pods, claims, slices and rules -> [`tracker`] ([`pools`], [`rules`], [`claims`],
//! [`evictions`]) -> queue -> at the deadline: condition `DisruptionTarget`, then deletion
//!
//! With the feature gate `DRADeviceTaintRules`, DeviceTaintRules taint devices as well. The condition
//! `EvictionInProgress` of a rule tells how many pods it evicts. In 1.33 and 1.34, rules taint the devices of slices
//! ([`patches`]) and have no condition.
//!
//! The deadline of a pod is absolute: the time of the taint, and the time for which the claim
//! tolerates it. So a restart does not move it.
//!
//! A pod that uses devices only through extended resources is not evicted, as upstream
//! (kubernetes/kubernetes#141290).
//!
//! Upstream: `pkg/controller/devicetainteviction`. Differences:
//!
//! - An eviction is announced by one Event, however often it fails.
//! - An eviction that has ended is not reported as cancelled.
//! - A claim that was allocated again between two events gets a new deadline.
//! - A new leader with older caches reads claims, slices and rules before it evicts a pod. So does a
//!   leader after an etcd restore.

mod claims;
mod evictions;
mod handlers;
mod patches;
mod pools;
mod rules;
mod sync;
#[cfg(test)]
mod tests;
mod tracker;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::{Mutex, MutexGuard};

use steersman_client::writes::{DisruptionCause, ObservedGeneration};
use steersman_helpers::evictions::{EvictionMetrics, Evictor};
use steersman_metrics::Histogram;
use steersman_objects::{
    DeviceClass, DeviceTaintRule, Object, ObjectReference, Pod, PublishedSlice, ResourceClaim,
    ResourceSlice,
};
use steersman_options::features::{self, FeatureGates};
use steersman_releases::Release;
use steersman_runtime::consistency::{ConsistencyStore, TrackedCache};
use steersman_runtime::controller::{Controller, ControllerContext, Descriptor, InitError};
use steersman_runtime::events::{EventRecorder, EventType};
use steersman_runtime::informer::SharedInformer;
use steersman_runtime::rbac::Rule;
use steersman_runtime::reads::Read;
use steersman_runtime::tasks::CancellationToken;
use steersman_runtime::workers::run_workers;
use steersman_runtime::workqueue::WorkQueue;
use steersman_values::clock::Clock;

use self::evictions::PodRef;
use self::rules::RuleRef;
use self::tracker::{Pods, Tracker};

/// The device taint eviction controller.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: NAME,
    aliases: &[],
    enabled_by_default: true,
    summary: "Evicts pods from devices with NoExecute taints that their claims do not tolerate",
    identity: NAME,
    reads: &[
        Read::of::<Pod>(),
        Read::of::<ResourceClaim>(),
        // Rules that taint slices need the attributes of devices.
        Read::of::<ResourceSlice>().or::<PublishedSlice>(rules_taint_slices),
        // Only 1.33 and 1.34 read it. Upstream waits for it in later releases, too.
        Read::of::<DeviceClass>(),
        Read::of::<DeviceTaintRule>().with_gate(features::DRA_DEVICE_TAINT_RULES),
    ],
    rules: &[
        Rule::new(&[""], &["pods"], &["get", "delete"]),
        Rule::new(&[""], &["pods/status"], &["patch"]),
        Rule::new(&["resource.k8s.io"], &["resourceclaims"], &["get"]),
        Rule::new(&["resource.k8s.io"], &["devicetaintrules"], &["get"])
            .with_gate(features::DRA_DEVICE_TAINT_RULES),
        Rule::new(
            &["resource.k8s.io"],
            &["devicetaintrules/status"],
            &["patch"],
        )
        .with_gate(features::DRA_DEVICE_TAINT_RULES),
        Rule::EVENTS,
    ],
    init,
};

/// Name of the controller, of its client, of its queue, and source of its Events.
const NAME: &str = "device-taint-eviction-controller";

/// Reason of its Events.
///
/// Both Events have it: `Marking for deletion` and `Cancelling deletion`.
const EVENT_REASON: &str = "DeviceTaintManagerEviction";

/// Source and reason of Events about rules whose expressions fail, in 1.33 and 1.34.
const TRACKER: &str = "resource_slice_tracker";
const FAILED_EXPRESSION: &str = "CELRuntimeError";

/// The cause that the condition `DisruptionTarget` tells.
const CAUSE: DisruptionCause = DisruptionCause {
    reason: "DeletionByDeviceTaintManager",
    message: "Device Taint manager: deleting due to NoExecute taint",
};

/// Whether DeviceTaintRules taint the devices of slices, as in 1.33 and 1.34.
fn rules_taint_slices(features: &FeatureGates, release: Release) -> bool {
    features.is_on(features::DRA_DEVICE_TAINT_RULES)
        && release.applies_device_taint_rules_to_slices()
}

fn init(ctx: &ControllerContext) -> Result<Box<dyn Controller>, InitError> {
    let pod_groups = ctx.features.is_on(features::DRA_WORKLOAD_RESOURCE_CLAIMS);
    let metrics = EvictionMetrics::register(
        &ctx.registry,
        "device_taint_eviction_controller",
        // Upstream makes this histogram when its package loads, before the gate is read.
        Histogram::classic,
        "Total number of Pods deleted by DeviceTaintEvictionController since its start.",
        "Latency, in seconds, between the time when a device taint effect has been activated and a Pod's deletion via DeviceTaintEvictionController.",
    );
    let metrics = metrics.map_err(|source| InitError {
        controller: NAME,
        source: Box::new(source),
    })?;
    let client = ctx.client(NAME);
    let consistency = ConsistencyStore::new(ctx.term_start_rv);
    let caches = Caches::of(ctx);
    let Caches { rules, .. } = &caches;
    let (slices, are_patched) = match &caches.slices {
        Slices::Patched(slices) => (slices.versioned(), true),
        Slices::Plain(slices) => (slices.versioned(), false),
    };
    let shared = Arc::new(Shared {
        pods: Pods::new(caches.pods.store(), pod_groups),
        tracker: Mutex::new(Tracker::new(pod_groups)),
        rules_cache: rules
            .as_ref()
            .map(|rules| consistency.track(rules.versioned())),
        rules: rules.clone().filter(|_| !are_patched),
        of_tracker: are_patched.then(|| OfTracker {
            classes_cache: consistency.track(caches.classes.versioned()),
            recorder: ctx.recorder(TRACKER, client.clone()),
        }),
        queue: WorkQueue::new(NAME, &ctx.queue_metrics),
        is_started: AtomicBool::new(false),
        is_rewound: AtomicBool::new(false),
        pod_groups,
        claims_cache: consistency.track(caches.claims.versioned()),
        slices_cache: consistency.track(slices),
        consistency,
        recorder: ctx.recorder(NAME, client.clone()),
        clock: ctx.clock.clone(),
        evictor: Evictor {
            client,
            clock: ctx.clock.clone(),
            cause: CAUSE,
            generation: ObservedGeneration::Unset,
        },
        metrics,
    });
    handlers::register(&shared, &caches);
    Ok(Box::new(DeviceTaintEviction {
        shared,
        caches,
        workers: ctx
            .options
            .workers("concurrent-device-taint-eviction-syncs"),
    }))
}

/// An item of the queue.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Work {
    /// The eviction of a pod.
    Evict(PodRef),
    /// The condition of a rule.
    ///
    /// Upstream has both in one struct, `workItem`.
    Report(RuleRef),
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Evict(pod) => pod.fmt(f),
            Self::Report(rule) => rule.fmt(f),
        }
    }
}

/// The state that handlers and workers share.
struct Shared {
    pods: Pods,
    tracker: Mutex<Tracker>,
    queue: WorkQueue<Work>,
    /// Whether the workers run. Before, the caches may be incomplete.
    is_started: AtomicBool,
    /// Whether the history of the API server went back, for example after an etcd restore.
    is_rewound: AtomicBool,
    /// The feature gate `DRAWorkloadResourceClaims`.
    pod_groups: bool,
    /// Tells whether the cache of claims is older than this leadership term.
    claims_cache: TrackedCache<RuleRef>,
    /// The same about slices.
    slices_cache: TrackedCache<RuleRef>,
    /// The rules with conditions. Only with the feature gate `DRADeviceTaintRules`, since 1.35.
    rules: Option<SharedInformer<DeviceTaintRule>>,
    /// Only if rules taint slices, as in 1.33 and 1.34.
    of_tracker: Option<OfTracker>,
    /// Own writes of conditions by rule.
    consistency: ConsistencyStore<RuleRef>,
    /// Those in the cache of rules.
    rules_cache: Option<TrackedCache<RuleRef>>,
    recorder: EventRecorder,
    clock: Clock,
    evictor: Evictor,
    metrics: EvictionMetrics,
}

/// The parts for rules that taint slices.
struct OfTracker {
    /// Tells whether the cache of classes is older than this leadership term.
    classes_cache: TrackedCache<RuleRef>,
    /// For Events about rules.
    recorder: EventRecorder,
}

impl Shared {
    // No IO happens under this lock.
    fn tracker(&self) -> MutexGuard<'_, Tracker> {
        self.tracker.lock()
    }

    /// Records an Event about a pod.
    ///
    /// The reference has the UID and no version: the pod may be gone already.
    fn report(&self, pod: &PodRef, message: &str) {
        let reference = ObjectReference {
            api_version: Pod::RESOURCE.api_version().into_owned(),
            kind: Pod::RESOURCE.kind.clone().into_owned(),
            namespace: pod.key.namespace.to_string(),
            name: pod.key.name.to_string(),
            uid: pod.uid.to_string(),
            resource_version: String::new(),
        };
        let message = message.to_owned();
        self.recorder
            .event(reference, EventType::Normal, EVENT_REASON, message);
    }
}

/// The queue and its workers.
struct DeviceTaintEviction {
    shared: Arc<Shared>,
    caches: Caches,
    workers: usize,
}

/// The informers.
struct Caches {
    pods: SharedInformer<Pod>,
    claims: SharedInformer<ResourceClaim>,
    slices: Slices,
    /// Only with the feature gate `DRADeviceTaintRules`.
    rules: Option<SharedInformer<DeviceTaintRule>>,
    classes: SharedInformer<DeviceClass>,
}

/// The cache of slices.
enum Slices {
    Plain(SharedInformer<ResourceSlice>),
    /// With the attributes of devices, if rules taint slices.
    Patched(SharedInformer<PublishedSlice>),
}

impl Caches {
    fn of(ctx: &ControllerContext) -> Self {
        let has_rules = ctx.features.is_on(features::DRA_DEVICE_TAINT_RULES);
        Self {
            pods: ctx.informers.shared(),
            claims: ctx.informers.shared(),
            slices: if rules_taint_slices(&ctx.features, ctx.release) {
                Slices::Patched(ctx.informers.shared())
            } else {
                Slices::Plain(ctx.informers.shared())
            },
            rules: has_rules.then(|| ctx.informers.shared()),
            classes: ctx.informers.shared(),
        }
    }

    async fn wait_synced(&self) {
        self.claims.wait_synced().await;
        match &self.slices {
            Slices::Plain(slices) => slices.wait_synced().await,
            Slices::Patched(slices) => slices.wait_synced().await,
        }
        self.classes.wait_synced().await;
        if let Some(rules) = &self.rules {
            rules.wait_synced().await;
        }
    }
}

impl Controller for DeviceTaintEviction {
    fn run(self: Box<Self>, stop: CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            // An API server may lack these types. Then this controller alone waits.
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.caches.wait_synced() => {}
            }
            let shared = self.shared;
            shared.start();
            run_workers(NAME, shared.queue.clone(), self.workers, shared, stop).await;
        })
    }
}
