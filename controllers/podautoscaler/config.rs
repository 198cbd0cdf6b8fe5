//! The flags of the controller, and its feature gates.
//!
//! Names and defaults are upstream's: `cmd/kube-controller-manager/app/options/hpacontroller.go`. The gates
//! are of the release of the API server, so a field that it drops is ignored here, too.

use std::time::Duration;

use steersman_options::duration::GoDuration;
use steersman_options::features;
use steersman_runtime::controller::ControllerContext;

/// The settings of the controller.
#[derive(Debug, Clone)]
pub(super) struct Config {
    /// Time between two syncs of one autoscaler. Flag `--horizontal-pod-autoscaler-sync-period`, by default
    /// 15 s. It is the delay after failures, too.
    pub(super) period: Duration,
    /// Time for which a recommendation prevents a smaller size. Flag
    /// `--horizontal-pod-autoscaler-downscale-stabilization`, by default 5 minutes.
    /// `behavior.scaleDown.stabilizationWindowSeconds` of an autoscaler has precedence.
    pub(super) downscale_window: Duration,
    /// Deviation of the metric ratio from 1.0 that causes no change. Flag
    /// `--horizontal-pod-autoscaler-tolerance`, by default 0.1, which is 10 % in both directions.
    pub(super) tolerance: f64,
    /// When samples of starting pods count.
    pub(super) readiness: Readiness,
    /// Gate `HPAConfigurableTolerance`. With it, `tolerance` of a direction in `spec.behavior` has precedence
    /// over the flag.
    pub(super) has_own_tolerances: bool,
    /// Whether a new autoscaler is synced at once. Older releases wait for one period.
    pub(super) syncs_new_ones_at_once: bool,
    /// Whether the error about several autoscalers of one target names two of them. Older releases name all.
    pub(super) names_two_autoscalers: bool,
    /// Whether errors wrap their causes. The error about the metric of an object names the object first, and an unknown
    /// type of metric counts as a fault of the spec. Older releases put the cause at the end of a mixed-up text.
    pub(super) wraps_errors: bool,
    /// Gate `HPAGeneration`. With it, the status has `observedGeneration`, and a change of the spec is synced
    /// at once.
    pub(super) has_generations: bool,
    /// Gate `HPAScaleToZero`. With it, the condition `ScaledToZero` tells a target that the controller scaled
    /// to zero from one that a user stopped.
    pub(super) scales_to_zero: bool,
    /// Whether a target at zero stays there without that condition. Older releases look at `minReplicas` alone.
    pub(super) guards_zero: bool,
    /// Gate `PodLevelResources`. With it, the requests of a pod as a whole count in place of those of its
    /// containers.
    pub(super) has_pod_level_resources: bool,
    /// Whether a pod without the container of a metric is an error. Older releases count a request of zero for it.
    pub(super) requires_containers: bool,
    /// Whether the use of memory has binary suffixes. Older releases write decimal ones.
    pub(super) has_binary_suffixes: bool,
}

/// When CPU samples of starting pods count. Other resources have no such rule: a starting pod uses its normal
/// memory, but much more CPU than later.
#[derive(Debug, Clone, Copy)]
pub(super) struct Readiness {
    /// Time after the start of a pod in which samples from before its readiness are skipped. Flag
    /// `--horizontal-pod-autoscaler-cpu-initialization-period`, by default 5 minutes.
    pub(super) cpu_initialization: Duration,
    /// Time after the start of a pod in which a change to unready counts as the initial state. Flag
    /// `--horizontal-pod-autoscaler-initial-readiness-delay`, by default 30 s.
    pub(super) initial_delay: Duration,
}

/// Without time between syncs, each autoscaler would be synced without a pause. Upstream panics.
#[derive(Debug, thiserror::Error)]
#[error("horizontal-pod-autoscaler-sync-period must be greater than 0, but got {0}")]
pub(super) struct InvalidPeriod(GoDuration);

impl Config {
    /// # Errors
    ///
    /// If the sync period is not positive.
    pub(super) fn of(ctx: &ControllerContext) -> Result<Self, InvalidPeriod> {
        // A negative time counts as zero in `time`, so the error shows the flag as it was given.
        let time = |name: &str| {
            let flag = format!("horizontal-pod-autoscaler-{name}");
            ctx.options.time(&flag)
        };
        let period = time("sync-period");
        if period.is_zero() {
            let period = ctx
                .options
                .duration("horizontal-pod-autoscaler-sync-period");
            return Err(InvalidPeriod(period));
        }
        Ok(Self {
            period,
            downscale_window: time("downscale-stabilization"),
            tolerance: ctx.options.float("horizontal-pod-autoscaler-tolerance"),
            readiness: Readiness {
                cpu_initialization: time("cpu-initialization-period"),
                initial_delay: time("initial-readiness-delay"),
            },
            has_own_tolerances: ctx.features.is_on(features::HPA_CONFIGURABLE_TOLERANCE),
            syncs_new_ones_at_once: ctx.release.syncs_new_autoscalers_at_once(),
            names_two_autoscalers: ctx.release.names_two_ambiguous_autoscalers(),
            wraps_errors: ctx.release.wraps_errors_of_autoscalers(),
            has_generations: ctx.features.is_on(features::HPA_GENERATION),
            scales_to_zero: ctx.release.guards_targets_at_zero()
                && ctx.features.is_on(features::HPA_SCALE_TO_ZERO),
            guards_zero: ctx.release.guards_targets_at_zero(),
            has_pod_level_resources: ctx.features.is_on(features::POD_LEVEL_RESOURCES),
            requires_containers: ctx.release.requires_containers_of_metrics(),
            has_binary_suffixes: ctx.release.reports_memory_with_binary_suffixes(),
        })
    }
}
