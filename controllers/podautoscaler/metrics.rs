//! Metrics of the controller, under upstream's names (`pkg/controller/podautoscaler/monitor`).
//!
//! Durations are in seconds. Buckets and help texts are upstream's, and `tests/metrics` compares the names.

use std::time::Duration;

use prometheus::{
    GaugeVec, HistogramOpts, IntCounterVec, IntGauge, Opts, Registry, exponential_buckets,
};
use steersman_metrics::HistogramVec;

/// The change that a sync or a metric leads to: label `action`. Upstream: `ActionLabel` in
/// `monitor/monitor.go`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// The new size is larger.
    Up,
    /// The new size is smaller.
    Down,
    /// The size stays, or the sync failed before a decision.
    None,
}

impl Action {
    /// The change from one size to another.
    pub(super) fn between(from: i32, to: i32) -> Self {
        match to.cmp(&from) {
            std::cmp::Ordering::Greater => Self::Up,
            std::cmp::Ordering::Less => Self::Down,
            std::cmp::Ordering::Equal => Self::None,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Up => "scale_up",
            Self::Down => "scale_down",
            Self::None => "none",
        }
    }
}

/// The origin of a failure: label `error`. Upstream: `ErrorLabel` in `monitor/monitor.go`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// The spec of the autoscaler.
    Spec,
    /// A computation or a request.
    Internal,
    /// No failure.
    None,
}

impl Origin {
    fn as_str(self) -> &'static str {
        match self {
            Self::Spec => "spec",
            Self::Internal => "internal",
            Self::None => "none",
        }
    }
}

/// The metric families.
#[derive(Debug, Clone)]
pub(super) struct AutoscalerMetrics {
    /// Syncs by `action` and `error`.
    reconciliations: IntCounterVec,
    /// Duration of syncs, with all requests of them.
    reconciliation_duration: HistogramVec,
    /// Evaluations of single metrics by `action`, `error` and `metric_type`.
    computations: IntCounterVec,
    /// Duration of these evaluations, with the request to a metrics API.
    computation_duration: HistogramVec,
    /// Number of autoscalers. Those that wait for their first sync count, too.
    pub(super) autoscalers: IntGauge,
    /// The size after limits, by namespace and autoscaler.
    desired_replicas: GaugeVec,
}

const LABELS: &str = "The label 'action' should be either 'scale_down', 'scale_up', or 'none'. Also, the label 'error' should be either 'spec', 'internal', or 'none'.";

impl AutoscalerMetrics {
    /// Registers all families.
    pub(super) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let name = |name: &str| format!("horizontal_pod_autoscaler_controller_{name}");
        let opts = |of: &str, help: &str| Opts::new(name(of), help);
        let seconds = |of: &str, help: &str| {
            // From 1 ms to 16.4 s.
            let buckets = exponential_buckets(0.001, 2.0, 15)?;
            Ok::<_, prometheus::Error>(HistogramOpts::new(name(of), help).buckets(buckets))
        };
        // The text is upstream's. If the write of the status fails after a bad metric, the later error is the
        // label.
        let first = "Note that if both spec and internal errors happen during a reconciliation, the first one to occur is reported in `error` label.";
        // Upstream's text lacks the word here only.
        let labels = LABELS.replace("Also, the label 'error'", "The label 'error'");
        let kind = "The label 'metric_type' corresponds to HPA.spec.metrics[*].type";
        let metrics = Self {
            reconciliations: IntCounterVec::new(
                opts(
                    "reconciliations_total",
                    &format!(
                        "[BETA] Number of reconciliations of HPA controller. {LABELS} {first}"
                    ),
                ),
                &["action", "error"],
            )?,
            reconciliation_duration: HistogramVec::new(
                seconds(
                    "reconciliation_duration_seconds",
                    &format!(
                        "[BETA] The time(seconds) that the HPA controller takes to reconcile once. {LABELS} {first}"
                    ),
                )?,
                &["action", "error"],
            )?,
            computations: IntCounterVec::new(
                opts(
                    "metric_computation_total",
                    &format!("[BETA] Number of metric computations. {LABELS} {kind}"),
                ),
                &["action", "error", "metric_type"],
            )?,
            computation_duration: HistogramVec::new(
                seconds(
                    "metric_computation_duration_seconds",
                    &format!(
                        "[BETA] The time(seconds) that the HPA controller takes to calculate one metric. {labels} {kind}"
                    ),
                )?,
                &["action", "error", "metric_type"],
            )?,
            autoscalers: IntGauge::with_opts(opts(
                "num_horizontal_pod_autoscalers",
                "[ALPHA] Current number of controlled HPA objects.",
            ))?,
            desired_replicas: GaugeVec::new(
                opts(
                    "desired_replicas",
                    "[ALPHA] Current desired replica count for HPA objects.",
                ),
                &["namespace", "hpa_name"],
            )?,
        };
        registry.register(Box::new(metrics.reconciliations.clone()))?;
        registry.register(Box::new(metrics.reconciliation_duration.clone()))?;
        registry.register(Box::new(metrics.computations.clone()))?;
        registry.register(Box::new(metrics.computation_duration.clone()))?;
        registry.register(Box::new(metrics.autoscalers.clone()))?;
        registry.register(Box::new(metrics.desired_replicas.clone()))?;
        Ok(metrics)
    }

    /// Counts a sync.
    pub(super) fn reconciled(&self, action: Action, origin: Origin, took: Duration) {
        let labels = [action.as_str(), origin.as_str()];
        self.reconciliations.with_label_values(&labels).inc();
        self.reconciliation_duration
            .with_label_values(&labels)
            .observe(took.as_secs_f64());
    }

    /// Counts the computation of one metric of type `kind`.
    pub(super) fn computed(&self, action: Action, origin: Origin, kind: &str, took: Duration) {
        let labels = [action.as_str(), origin.as_str(), kind];
        self.computations.with_label_values(&labels).inc();
        self.computation_duration
            .with_label_values(&labels)
            .observe(took.as_secs_f64());
    }

    /// Shows the size that an autoscaler wants. As upstream, it stays after a deletion.
    pub(super) fn desires(&self, namespace: &str, name: &str, replicas: i32) {
        self.desired_replicas
            .with_label_values(&[namespace, name])
            .set(replicas.into());
    }
}

#[cfg(test)]
impl AutoscalerMetrics {
    /// Whether a sync with these labels was counted.
    pub(super) fn has_reconciled(&self, labels: &[String; 2]) -> bool {
        let labels = labels.each_ref().map(String::as_str);
        self.reconciliations.with_label_values(&labels).get() > 0
    }

    /// Whether a metric with these labels was counted.
    pub(super) fn has_computed(&self, labels: &[String; 3]) -> bool {
        let labels = labels.each_ref().map(String::as_str);
        self.computations.with_label_values(&labels).get() > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_of_the_computation_is_that_of_upstream() {
        let registry = Registry::new();
        let metrics = AutoscalerMetrics::register(&registry).unwrap();
        metrics
            .computation_duration
            .with_label_values(&["none", "none", "Pods"])
            .observe(1.0);
        let families = registry.gather();
        let name = "horizontal_pod_autoscaler_controller_metric_computation_duration_seconds";
        let family = families.iter().find(|family| family.name() == name);
        let expected = "[BETA] The time(seconds) that the HPA controller takes to calculate one metric. The label 'action' should be either 'scale_down', 'scale_up', or 'none'. The label 'error' should be either 'spec', 'internal', or 'none'. The label 'metric_type' corresponds to HPA.spec.metrics[*].type";
        assert_eq!(family.unwrap().help(), expected);
    }
}
