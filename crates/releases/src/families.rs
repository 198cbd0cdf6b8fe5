//! Families of metrics that differ between releases: newer ones, and those that became BETA.

use super::release::Release;

/// Families that upstream's manager has since a minor release.
///
/// Upstream: `k8s.io/client-go/tools/cache`, `k8s.io/client-go/transport`, and `metrics.go` of the controllers.
const SINCE: [(&str, u64); 8] = [
    ("daemonset_controller_stale_sync_skips_total", 36),
    (
        "horizontal_pod_autoscaler_controller_num_horizontal_pod_autoscalers",
        35,
    ),
    ("informer_processing_latency_seconds", 36),
    ("informer_queued_items", 36),
    ("job_controller_stale_sync_skips_total", 36),
    ("replicaset_controller_stale_sync_skips_total", 36),
    ("rest_client_transport_cert_rotation_gc_calls_total", 36),
    ("statefulset_controller_stale_sync_skips_total", 37),
];

/// Families that were ALPHA before 1.36.
///
/// Upstream: the same places, `k8s.io/component-base/metrics/prometheus` and `k8s.io/endpointslice/metrics`.
const BETA_SINCE_1_36: [&str; 21] = [
    "endpoint_slice_controller_desired_endpoint_slices",
    "endpoint_slice_controller_endpoints_added_per_sync",
    "endpoint_slice_controller_endpoints_desired",
    "endpoint_slice_controller_endpoints_removed_per_sync",
    "endpoint_slice_controller_num_endpoint_slices",
    "endpoint_slice_controller_services_count_by_traffic_distribution",
    "horizontal_pod_autoscaler_controller_metric_computation_duration_seconds",
    "horizontal_pod_autoscaler_controller_metric_computation_total",
    "horizontal_pod_autoscaler_controller_reconciliation_duration_seconds",
    "horizontal_pod_autoscaler_controller_reconciliations_total",
    "job_controller_pod_failures_handled_by_failure_policy_total",
    "job_controller_terminated_pods_tracking_finalizer_total",
    "kubernetes_build_info",
    "running_managed_controllers",
    "workqueue_adds_total",
    "workqueue_depth",
    "workqueue_longest_running_processor_seconds",
    "workqueue_queue_duration_seconds",
    "workqueue_retries_total",
    "workqueue_unfinished_work_seconds",
    "workqueue_work_duration_seconds",
];

impl Release {
    /// Whether upstream's manager of this release has the family of metrics called `family`, as far as a later one
    /// has it.
    pub fn has_metric(self, family: &str) -> bool {
        let newer = SINCE.iter().find(|(name, _)| *name == family);
        newer.is_none_or(|(_, since)| self.minor() >= *since)
    }

    /// Whether the family is ALPHA in this release, and BETA since 1.36.
    pub fn has_metric_in_alpha(self, family: &str) -> bool {
        self < Self::of_minor(36) && BETA_SINCE_1_36.contains(&family)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_follow_the_release() {
        // (family, minor release, present, ALPHA)
        let cases = [
            ("workqueue_depth", 34, true, true),
            ("workqueue_depth", 35, true, true),
            ("workqueue_depth", 36, true, false),
            ("informer_queued_items", 35, false, false),
            ("informer_queued_items", 36, true, false),
            (SINCE[1].0, 34, false, false),
            (SINCE[1].0, 35, true, false),
            ("steersman_build_info", 33, true, false),
        ];
        for (family, minor, present, alpha) in cases {
            let release = Release::of_minor(minor);
            assert_eq!(release.has_metric(family), present, "{family} in 1.{minor}");
            assert_eq!(
                release.has_metric_in_alpha(family),
                alpha,
                "{family} in 1.{minor}"
            );
        }
    }
}
