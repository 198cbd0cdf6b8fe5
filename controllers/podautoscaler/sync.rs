//! One sync of one autoscaler: read the size of the target, decide, write the size and the status.
//!
//! The order of upstream's `reconcileAutoscaler`: target, then limits or metrics, then the size, then the
//! status. Each failure writes the status that is known so far, and ends the sync.
//!
//! `evaluate.rs`, `limits.rs` and `behavior.rs` decide. This file reads, writes, and sets the conditions in
//! upstream's order, since later ones replace earlier ones of the same type.

use std::error::Error;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use steersman_client::scale::Scale;
use steersman_client::writes::{OnFailure, write_status};
use steersman_client::{ApiClient, ApiError, Category, Target};
use steersman_objects::{
    AutoscalerStatus, HorizontalPodAutoscaler, Identity, ObjectKey, ObjectReference,
};
use steersman_runtime::consistency::TrackedCache;
use steersman_runtime::events::{EventRecorder, EventType};
use steersman_runtime::keyed::ObjectSyncer;
use steersman_runtime::workers::{Requeue, Retry};
use steersman_values::clock::Clock;
use tokio::time::Instant;

use super::config::Config;
use super::error::{ComputeError, InvalidMetrics, SyncError};
use super::evaluate::{Evaluated, Sources, Subject};
use super::history::Histories;
use super::invariants;
use super::limits::{self, Sizes};
use super::metrics::{Action, AutoscalerMetrics, Origin};
use super::rescale::{Scaled, TargetError};
use super::selectors::Selectors;
use super::{behavior, status};

/// Syncs autoscalers. The cache of autoscalers waits for the status of the last sync, so a sync never starts
/// from an older one.
pub(super) struct Autoscalers {
    reconciler: Reconciler,
    cache: TrackedCache,
}

impl Autoscalers {
    pub(super) fn new(reconciler: Reconciler, cache: TrackedCache) -> Self {
        Self { reconciler, cache }
    }
}

impl ObjectSyncer for Autoscalers {
    type Object = HorizontalPodAutoscaler;
    type Error = SyncError;

    async fn sync(
        &self,
        key: &ObjectKey,
        hpa: Arc<HorizontalPodAutoscaler>,
    ) -> Result<Requeue, SyncError> {
        let Reconciled { version, result } = self.reconciler.reconcile(key, &hpa).await;
        if let Some(version) = version {
            self.cache.wrote_at(key, version);
        }
        result?;
        Ok(Requeue::After(self.reconciler.config.period))
    }

    fn retry(&self, error: &SyncError, request: Option<&ApiError>, _failures: u32) -> Retry {
        match error {
            SyncError::Rescale { .. } | SyncError::Status { .. } => Retry::after_request(request),
            // Missing targets and metrics concern users.
            _ => Retry::BackOff,
        }
    }
}

/// Reads, decides and writes, for one autoscaler at a time.
pub(super) struct Reconciler {
    pub(super) sources: Sources,
    /// Writes the status.
    pub(super) client: ApiClient,
    /// Has a throttle of its own, as upstream's client for sizes.
    pub(super) scale_client: ApiClient,
    pub(super) recorder: EventRecorder,
    pub(super) clock: Clock,
    pub(super) config: Config,
    pub(super) histories: Arc<Histories>,
    pub(super) selectors: Arc<Selectors>,
    pub(super) metrics: AutoscalerMetrics,
}

/// The end of a sync. A status may have been written in a sync that failed.
pub(super) struct Reconciled {
    /// Resource version of the written status. `None` if the status needed no write, or its write failed.
    pub(super) version: Option<u64>,
    pub(super) result: Result<(), SyncError>,
}

/// The state of a sync. It has one time for all decisions, so that windows and transition times agree.
struct Pass<'a> {
    key: &'a ObjectKey,
    hpa: &'a HorizontalPodAutoscaler,
    /// The status to write. It starts as the cached status; conditions replace one another until the write.
    status: AutoscalerStatus,
    now: Timestamp,
    /// Of the written status, for the cache.
    version: Option<u64>,
    /// For the metrics of the controller; a failed write leaves `None`.
    action: Action,
}

impl Pass<'_> {
    /// `kind/namespace/name` of the target.
    fn reference(&self) -> String {
        let target = &self.hpa.spec.scale_target_ref;
        format!(
            "{}/{}/{}",
            target.kind, self.hpa.meta.namespace, target.name
        )
    }

    /// The default is that of the API.
    fn min(&self) -> i32 {
        self.hpa.spec.min_replicas.unwrap_or(1)
    }

    fn set(&mut self, kind: &str, is_true: bool, reason: &str, message: impl Into<Box<str>>) {
        status::set(&mut self.status, kind, is_true, reason, message, self.now);
    }

    /// The metrics that can bring a target back from zero. Metrics of pods need a pod, and metrics of
    /// resources do, too. Without pods they ask for no size.
    fn has_object_or_external_metrics(&self) -> bool {
        let mut metrics = self.hpa.spec.metrics.iter();
        metrics.any(|metric| matches!(&*metric.kind, "Object" | "External"))
    }
}

/// The next size of a target.
///
/// The default stands for a target at zero that stays there.
#[derive(Default)]
struct Plan {
    /// The wanted size; the current one for no change.
    desired: i32,
    /// Reason for a change of the size. Empty if only the stabilization changes it.
    reason: String,
    /// The entries of the status; `None` if no metrics were read.
    metrics: Option<Vec<Value>>,
    /// Metrics that could not be used.
    invalid: Option<InvalidMetrics>,
}

/// The way to the next size.
///
/// Upstream: the branches of `reconcileAutoscaler` on `currentReplicas`.
enum Path {
    /// The target stays at zero until a user changes it. With the gate `HPAScaleToZero` this is a size of
    /// zero that another client has set.
    Disabled,
    /// The size is outside its limits. A target outside of its limits is moved to the nearest one without a
    /// look at metrics, rates or windows.
    Limit(i32, &'static str),
    /// The metrics decide.
    Metrics,
}

// Upstream's words, with the names of the fields in Go.
const BELOW_MIN: &str = "Current number of replicas below Spec.MinReplicas";
const ABOVE_MAX: &str = "Current number of replicas above Spec.MaxReplicas";

impl Reconciler {
    /// Brings the target of `hpa` a step closer to its metrics. Writes the status also after most
    /// failures.
    pub(super) async fn reconcile(
        &self,
        key: &ObjectKey,
        hpa: &HorizontalPodAutoscaler,
    ) -> Reconciled {
        let began = Instant::now();
        let mut pass = Pass {
            key,
            hpa,
            status: hpa.status.clone(),
            now: self.clock.now(),
            version: None,
            action: Action::None,
        };
        let result = self.run(&mut pass).await;
        let Pass {
            version, action, ..
        } = pass;
        let origin = match &result {
            Ok(()) => Origin::None,
            Err(error) if error.is_of_spec(self.config.wraps_errors) => Origin::Spec,
            Err(_) => Origin::Internal,
        };
        self.metrics.reconciled(action, origin, began.elapsed());
        Reconciled { version, result }
    }

    /// The steps after the size of the target is known. A later failure never takes back a written size.
    async fn run(&self, pass: &mut Pass<'_>) -> Result<(), SyncError> {
        let mapper = &self.sources.mapper;
        let target = match Scaled::read(&self.scale_client, mapper, pass.hpa).await {
            Ok(target) => target,
            Err(error) => return Err(self.no_target(pass, error).await),
        };
        let message = "the HPA controller was able to get the target's current scale";
        pass.set(status::ABLE_TO_SCALE, true, "SucceededGetScale", message);
        // The wanted size, rather than the observed one: pods that start count as present.
        let current = target.scale.replicas;
        let now = pass.now;
        // Before the first proposal, so that the present size is the oldest recommendation.
        self.histories
            .of(pass.key, |history| history.begin(current, now));
        let plan = match self.path(pass, current) {
            Path::Disabled => {
                let message = "scaling is disabled since the replica count of the target is zero";
                pass.set(status::SCALING_ACTIVE, false, "ScalingDisabled", message);
                if self.config.guards_zero && !self.config.scales_to_zero {
                    status::set_scaled_to_zero(&mut pass.status, None, now);
                }
                Plan::default()
            }
            // Conditions about metrics and limits stay as they were, as upstream. `AbleToScale` alone is new.
            Path::Limit(desired, reason) => Plan {
                desired,
                reason: reason.to_owned(),
                ..Plan::default()
            },
            Path::Metrics => match self.plan(pass, &target.scale).await {
                Ok(plan) => plan,
                Err((error, metrics)) => {
                    return Err(self.no_plan(pass, current, error, metrics).await);
                }
            },
        };
        let Plan {
            desired,
            reason,
            metrics,
            invalid,
        } = plan;
        if desired != current {
            self.rescale(pass, target, desired, &reason, &metrics)
                .await?;
        } else {
            tracing::debug!(desired, "size stays");
        }
        self.replace_status(pass, current, desired, metrics);
        // After `replace`, which keeps the time of the last change.
        if desired != current {
            status::resized(&mut pass.status, now);
        }
        // As upstream, only complete syncs set the gauge. A failed one leaves the last size.
        let meta = &pass.hpa.meta;
        self.metrics.desires(&meta.namespace, &meta.name, desired);
        self.write(pass).await?;
        // The size is written, and the error of the other metrics ends the sync afterwards.
        match invalid {
            Some(invalid) => Err(SyncError::Metrics(invalid)),
            None => Ok(()),
        }
    }

    /// The way to the next size of a target with `current` replicas. Upstream:
    /// `shouldComputeMetricsForZeroReplicas` and its caller. The limits are checked in this order, so
    /// `maxReplicas` wins if an invalid object has them the wrong way round.
    fn path(&self, pass: &Pass<'_>, current: i32) -> Path {
        let min = pass.min();
        let max = pass.hpa.spec.max_replicas;
        // Zero has its own rules, even if `minReplicas` is larger: users stop an autoscaler by this size.
        if current == 0 && (self.config.guards_zero || min != 0) {
            // Only a target that this controller brought to zero may leave it again.
            let was_scaled = self.config.scales_to_zero && status::is_scaled_to_zero(&pass.status);
            let returns = min != 0 || pass.has_object_or_external_metrics();
            if was_scaled && returns {
                Path::Metrics
            } else {
                Path::Disabled
            }
        } else if current > max {
            Path::Limit(max, ABOVE_MAX)
        } else if current < min {
            Path::Limit(min, BELOW_MIN)
        } else {
            Path::Metrics
        }
    }

    /// The next size by the metrics. The error comes with the entries of the status.
    ///
    /// Upstream: the part of `reconcileAutoscaler` after `computeReplicasForMetrics`. `None` for the entries
    /// means that no metric was read.
    async fn plan(
        &self,
        pass: &mut Pass<'_>,
        scale: &Scale,
    ) -> Result<Plan, (ComputeError, Option<Vec<Value>>)> {
        if let Err(error) = self.check_selector(pass, scale) {
            return Err((error, None));
        }
        let current = scale.replicas;
        let now = pass.now;
        let Proposed {
            proposal,
            name,
            metrics,
            invalid,
        } = self
            .propose(pass, scale)
            .await
            .map_err(|(error, metrics)| (ComputeError::from(error), Some(metrics)))?;
        // Upstream starts from a size of zero and takes the larger one, so a negative proposal counts as
        // zero.
        let proposed = proposal.max(0);
        // Words of Events. They compare the proposal, before stabilization and limits change it.
        let mut reason = match Action::between(current, proposed) {
            Action::Up => format!("{name} above target"),
            Action::Down => "All metrics below target".to_owned(),
            Action::None => String::new(),
        };
        let min = pass.min();
        let max = pass.hpa.spec.max_replicas;
        let sizes = Sizes {
            current,
            proposed,
            min,
            max,
        };
        let window = self.config.downscale_window;
        let normalized = self
            .histories
            .of(pass.key, |history| match &pass.hpa.spec.behavior {
                None => limits::normalize(history, sizes, window, now),
                Some(rules) => behavior::normalize(history, sizes, rules, window, now),
            });
        status::set_normalized(&mut pass.status, &normalized, now);
        // Limits do not apply to this way up: upstream raises the size after normalization.
        let mut desired = normalized.replicas;
        if current == 0 && desired < min {
            // The lower limit was raised while the target was at zero.
            desired = min;
            if reason.is_empty() {
                reason = BELOW_MIN.to_owned();
            }
        }
        Ok(Plan {
            desired,
            reason,
            metrics: Some(metrics),
            invalid,
        })
    }

    /// Without the gate `HPAGeneration`, the field is absent in the status that is written.
    fn replace_status(
        &self,
        pass: &mut Pass<'_>,
        current: i32,
        desired: i32,
        metrics: Option<Vec<Value>>,
    ) {
        let generation = pass.hpa.meta.generation;
        let observed = self.config.has_generations.then_some(generation);
        status::replace(&mut pass.status, current, desired, metrics, observed);
    }

    /// An error if no pods can be selected, or if another autoscaler selects them too.
    ///
    /// Upstream: `validateAndParseSelector`. Two autoscalers of one target would each write their own size in
    /// turn, so none of them scales.
    fn check_selector(&self, pass: &mut Pass<'_>, scale: &Scale) -> Result<(), ComputeError> {
        let selector = &scale.selector;
        // An absent selector is read as one for everything, which would take all pods of the namespace.
        if selector.is_everything() {
            // The Event and the condition have different words and reasons, as upstream.
            let error = ComputeError::no_selector();
            self.warn(pass, "SelectorRequired", &error);
            let message = "the HPA target's scale is missing a selector";
            pass.set(status::SCALING_ACTIVE, false, "InvalidSelector", message);
            return Err(error);
        }
        let pods = &self.sources.pods;
        let pods = pods.matching(&pass.key.namespace, selector);
        // The own selector is stored first, so that the other autoscaler meets it in its next sync.
        let selecting = self.selectors.selecting(pass.key, selector, &pods);
        if selecting.len() <= 1 {
            return Ok(());
        }
        let are_examples = self.config.names_two_autoscalers;
        let shown = if are_examples { 2 } else { selecting.len() };
        let names: Vec<String> = selecting
            .iter()
            .take(shown)
            .map(ToString::to_string)
            .collect();
        let error = ComputeError::ambiguous(selector.to_string(), names.join(" "), are_examples);
        self.warn(pass, "AmbiguousSelector", &error);
        let message = error.to_string();
        pass.set(status::SCALING_ACTIVE, false, "AmbiguousSelector", message);
        Err(error)
    }

    /// The largest proposal of all metrics. An error if none can be used, or if the others would
    /// make the target smaller.
    ///
    /// Upstream: `computeReplicasForMetrics`. Without a proposal for each metric, a smaller size is unsafe:
    /// the failed metric might need the present one. A larger size is safe.
    async fn propose(
        &self,
        pass: &mut Pass<'_>,
        scale: &Scale,
    ) -> Result<Proposed, (InvalidMetrics, Vec<Value>)> {
        let hpa = pass.hpa;
        let subject = Subject {
            sources: &self.sources,
            config: &self.config,
            hpa,
            current: scale.replicas,
            observed: scale.status_replicas,
            selector: &scale.selector,
            now: pass.now,
        };
        let all = hpa.spec.metrics.len();
        let mut best = (0, String::new());
        // An entry per metric, in the order of the spec, also for failed ones.
        let mut metrics = Vec::with_capacity(all);
        let mut errors = Vec::new();
        for metric in &hpa.spec.metrics {
            let began = Instant::now();
            let evaluated = subject.evaluate(metric).await;
            // Upstream compares with the size in the status here, which is that of the last sync.
            let (action, origin) = match &evaluated {
                Ok(found) => {
                    let before = hpa.status.current_replicas;
                    (Action::between(before, found.replicas), Origin::None)
                }
                Err(error) if error.is_of_spec() => (Action::None, Origin::Spec),
                Err(_) => (Action::None, Origin::Internal),
            };
            self.metrics
                .computed(action, origin, &metric.kind, began.elapsed());
            match evaluated {
                Ok(Evaluated {
                    replicas,
                    name,
                    status,
                }) => {
                    metrics.push(status);
                    // A first proposal of zero gives way to any later one, so with equal zeros the last
                    // metric is named.
                    if best.0 == 0 || replicas > best.0 {
                        best = (replicas, name);
                    }
                }
                Err(error) => {
                    // Each failed metric has its own Event, but the condition shows the first one only.
                    self.warn(pass, error.reason, &error.cause);
                    metrics.push(status::no_metric());
                    errors.push(error);
                }
            }
        }
        let bad = errors.len();
        let (proposal, name) = best;
        // An autoscaler without metrics has 0 of 0 failures, and this counts as a failure.
        if bad == all || (bad > 0 && proposal < scale.replicas) {
            let first = errors.into_iter().next().map(Box::new);
            if let Some(first) = &first {
                let message = format!(
                    "the HPA was unable to compute the replica count: {}",
                    first.cause
                );
                pass.set(status::SCALING_ACTIVE, false, first.reason, message);
            }
            return Err((InvalidMetrics { bad, all, first }, metrics));
        }
        let message =
            format!("the HPA was able to successfully calculate a replica count from {name}");
        pass.set(status::SCALING_ACTIVE, true, "ValidMetricFound", message);
        let first = errors.into_iter().next().map(Box::new);
        let invalid = first.map(|first| InvalidMetrics {
            bad,
            all,
            first: Some(first),
        });
        Ok(Proposed {
            proposal,
            name,
            metrics,
            invalid,
        })
    }

    /// Writes the size `desired`, and sets the conditions about it. A failed write is reported in the status,
    /// with the old `desiredReplicas`. The history records successful writes only.
    async fn rescale(
        &self,
        pass: &mut Pass<'_>,
        target: Scaled,
        desired: i32,
        reason: &str,
        metrics: &Option<Vec<Value>>,
    ) -> Result<(), SyncError> {
        let current = target.scale.replicas;
        let hpa = pass.hpa;
        let object = ObjectReference::of(hpa);
        let size = format!("New size: {desired}; reason: {reason}");
        // The check is independent of the decision. A violation is refused like a request that failed.
        let checked = invariants::stays_within_limits(hpa, desired);
        let about = Target::of::<HorizontalPodAutoscaler>(&hpa.meta);
        let resized = match self.scale_client.permit(about, checked) {
            Ok(()) => target.resize(&self.scale_client, hpa, desired).await,
            Err(refused) => Err(refused),
        };
        if let Err(source) = resized {
            let reference = pass.reference();
            // Another leader writes now. An Event or a status by this process would contradict it.
            if source.is_fenced() {
                return Err(SyncError::Rescale { reference, source });
            }
            let message = format!("{size}; error: {source}");
            self.recorder
                .event(object, EventType::Warning, "FailedRescale", message);
            let message =
                format!("the HPA controller was unable to update the target scale: {source}");
            pass.set(status::ABLE_TO_SCALE, false, "FailedUpdateScale", message);
            let before = hpa.status.desired_replicas;
            self.replace_status(pass, current, before, metrics.clone());
            self.write_after_failure(pass).await;
            return Err(SyncError::Rescale { reference, source });
        }
        let message =
            format!("the HPA controller was able to update the target scale to {desired}");
        pass.set(status::ABLE_TO_SCALE, true, "SucceededRescale", message);
        self.recorder
            .event(object, EventType::Normal, "SuccessfulRescale", size);
        let now = pass.now;
        self.histories.of(pass.key, |history| {
            history.resized(hpa.spec.behavior.as_ref(), current, desired, now);
        });
        tracing::info!(current, desired, reason, "rescaled");
        // Set with each resize, so that the condition is never older than the size.
        let is_at_zero = current > 0 && desired == 0 && pass.min() == 0;
        let scaled = self
            .config
            .scales_to_zero
            .then(|| is_at_zero && pass.has_object_or_external_metrics());
        if self.config.guards_zero {
            status::set_scaled_to_zero(&mut pass.status, scaled, now);
        }
        pass.action = Action::between(current, desired);
        Ok(())
    }

    /// Reports a target without a readable size. Only conditions change. The sizes and metrics of the last
    /// sync stay, as upstream.
    async fn no_target(&self, pass: &mut Pass<'_>, error: TargetError) -> SyncError {
        self.warn(pass, "FailedGetScale", &error);
        let message =
            format!("the HPA controller was unable to get the target's current scale: {error}");
        pass.set(status::ABLE_TO_SCALE, false, "FailedGetScale", message);
        self.write_after_failure(pass).await;
        match error {
            TargetError::ApiVersion(_) => SyncError::ApiVersion(error),
            TargetError::Kind(_) => SyncError::Kind(error),
            TargetError::Unrecognized | TargetError::Scale(_) => SyncError::Scale {
                reference: pass.reference(),
                source: error,
            },
        }
    }

    /// Reports metrics that propose no size. The status is written before the Event, as upstream.
    /// `desiredReplicas` keeps its old value, since there is no new one.
    async fn no_plan(
        &self,
        pass: &mut Pass<'_>,
        current: i32,
        source: ComputeError,
        metrics: Option<Vec<Value>>,
    ) -> SyncError {
        let before = pass.hpa.status.desired_replicas;
        self.replace_status(pass, current, before, metrics);
        self.write_after_failure(pass).await;
        self.warn(pass, "FailedComputeMetricsReplicas", &source);
        SyncError::Compute {
            reference: pass.reference(),
            source,
        }
    }

    /// Records a failure as an Event. The end of leadership is none. After the end of leadership, requests
    /// fail because this process stopped them. Users need no Event of that.
    fn warn(&self, pass: &Pass<'_>, reason: &'static str, error: &(dyn Error + 'static)) {
        if ApiError::within(error).is_some_and(ApiError::is_fenced) {
            return;
        }
        let object = ObjectReference::of(pass.hpa);
        self.recorder
            .event(object, EventType::Warning, reason, error.to_string());
    }

    /// Writes the status after a failure, which is the result of the sync in any case. A race with another
    /// writer is normal, so it is logged only for debugging.
    async fn write_after_failure(&self, pass: &mut Pass<'_>) {
        match self.write(pass).await {
            Ok(()) => {}
            Err(error) if ApiError::within(&error).is_some_and(is_race) => {
                tracing::debug!(%error, "status not written");
            }
            Err(error) => {
                let category = Category::of(&error).as_str();
                tracing::error!(category, %error, "status not written");
            }
        }
    }

    /// Writes the status if it differs from the cached one.
    ///
    /// An equal status is no write, so a steady autoscaler causes no load and wakes no watcher. The write
    /// carries the resource version of the cached object.
    async fn write(&self, pass: &mut Pass<'_>) -> Result<(), SyncError> {
        let hpa = pass.hpa;
        if status::is_equal(&hpa.status, &pass.status) {
            return Ok(());
        }
        let written = write_status::<HorizontalPodAutoscaler>(
            &self.client,
            &hpa.meta,
            &hpa.document,
            &pass.status,
            OnFailure::Return,
        );
        // A conflict is a failure here: the next sync decides on the newer object.
        let answer = match written.await {
            Ok(answer) => answer,
            Err(source) => {
                self.warn(pass, "FailedUpdateStatus", &source);
                let name = Arc::clone(&hpa.meta.name);
                return Err(SyncError::Status { name, source });
            }
        };
        // The answer has the version that the cache must reach before the next sync.
        let written = Identity::decode(&answer).map_err(SyncError::Answer)?;
        pass.version = Some(written.resource_version);
        Ok(())
    }
}

/// Someone else was faster: a newer object, another leader, or a deletion.
fn is_race(error: &ApiError) -> bool {
    error.is_conflict() || error.is_fenced() || error.is_object_not_found()
}

/// The proposal of all usable metrics together. `invalid` has the others.
struct Proposed {
    /// The largest one.
    proposal: i32,
    /// The metric with the proposal.
    name: String,
    /// The entries of the status.
    metrics: Vec<Value>,
    /// Metrics that could not be used.
    invalid: Option<InvalidMetrics>,
}
