//! Families of metrics that differ between releases: newer and dropped ones, and those that became BETA.

use super::release::Release;

/// A family of metrics that some known releases lack, or have as ALPHA.
#[derive(Debug, Clone, Copy)]
pub struct FamilySpan {
    /// The name, as `/metrics` shows it.
    pub name: &'static str,
    /// Minor version of the first release with the family; 0 if all known releases have it.
    since: u64,
    /// Minor version of the first release without it again.
    until: Option<u64>,
    /// Minor version of the first release in which it is BETA. `None` if no known release changes its stage.
    beta: Option<u64>,
    /// The pull request of upstream.
    pub change: &'static str,
}

impl FamilySpan {
    const fn all(name: &'static str, change: &'static str) -> Self {
        Self {
            name,
            since: 0,
            until: None,
            beta: None,
            change,
        }
    }

    /// Whether the release has the family, and as ALPHA if it is BETA later.
    fn at(&self, release: Release) -> Option<bool> {
        let minor = release.minor();
        let is_there = minor >= self.since && self.until.is_none_or(|until| minor < until);
        is_there.then(|| self.beta.is_some_and(|beta| minor < beta))
    }

    /// The cell of a table: `yes`, or the stage if it changes between the known releases; `-` without the family.
    pub fn text(&self, release: Release) -> &'static str {
        match (self.at(release), self.beta) {
            (None, _) => "-",
            (Some(true), _) => "ALPHA",
            (Some(false), Some(_)) => "BETA",
            (Some(false), None) => "yes",
        }
    }
}

const fn since(minor: u64, name: &'static str, change: &'static str) -> FamilySpan {
    FamilySpan {
        since: minor,
        ..FamilySpan::all(name, change)
    }
}

const fn until(minor: u64, name: &'static str, change: &'static str) -> FamilySpan {
    FamilySpan {
        until: Some(minor),
        ..FamilySpan::all(name, change)
    }
}

const fn beta(minor: u64, name: &'static str, change: &'static str) -> FamilySpan {
    FamilySpan {
        beta: Some(minor),
        ..FamilySpan::all(name, change)
    }
}

/// The families that differ between the known releases, sorted by name. All others are in each of them, in one stage.
///
/// Upstream: `metrics.go` of the controllers, `k8s.io/client-go/tools/cache`, `k8s.io/client-go/transport`,
/// `k8s.io/component-base/metrics/prometheus` and `k8s.io/endpointslice/metrics`.
// One line per family keeps this readable as a table.
#[rustfmt::skip]
pub const FAMILIES: &[FamilySpan] = &[
    since(36, "daemonset_controller_stale_sync_skips_total", "#134937"),
    since(37, "dynamic_resource_allocation_resource_claims", "#138542"),
    since(37, "dynamic_resource_allocation_resourceclaim_creates_total", "#138542"),
    beta(36, "endpoint_slice_controller_desired_endpoint_slices", "#136368"),
    beta(36, "endpoint_slice_controller_endpoints_added_per_sync", "#136368"),
    beta(36, "endpoint_slice_controller_endpoints_desired", "#136368"),
    beta(36, "endpoint_slice_controller_endpoints_removed_per_sync", "#136368"),
    beta(36, "endpoint_slice_controller_num_endpoint_slices", "#136368"),
    beta(36, "endpoint_slice_controller_services_count_by_traffic_distribution", "#136368"),
    since(35, "horizontal_pod_autoscaler_controller_desired_replicas", "#134295"),
    beta(36, "horizontal_pod_autoscaler_controller_metric_computation_duration_seconds", "#136178"),
    beta(36, "horizontal_pod_autoscaler_controller_metric_computation_total", "#136178"),
    since(35, "horizontal_pod_autoscaler_controller_num_horizontal_pod_autoscalers", "#134140"),
    beta(36, "horizontal_pod_autoscaler_controller_reconciliation_duration_seconds", "#136178"),
    beta(36, "horizontal_pod_autoscaler_controller_reconciliations_total", "#136178"),
    since(36, "informer_processing_latency_seconds", "#137101"),
    since(36, "informer_queued_items", "#135782"),
    beta(36, "job_controller_pod_failures_handled_by_failure_policy_total", "#136367"),
    since(36, "job_controller_stale_sync_skips_total", "#137210"),
    beta(36, "job_controller_terminated_pods_tracking_finalizer_total", "#136367"),
    beta(36, "kubernetes_build_info", "#136154"),
    since(36, "replicaset_controller_stale_sync_skips_total", "#137212"),
    until(37, "resourceclaim_controller_creates_total", "#138542"),
    until(37, "resourceclaim_controller_resource_claims", "#138542"),
    since(36, "rest_client_transport_ca_reload_total", "#132922"),
    since(36, "rest_client_transport_cert_rotation_gc_calls_total", "#136355"),
    beta(36, "running_managed_controllers", "#136154"),
    since(37, "statefulset_controller_stale_sync_skips_total", "#138451"),
    since(35, "statefulset_controller_statefulset_max_unavailable", "#130951"),
    since(35, "statefulset_controller_statefulset_unavailable_replicas", "#130951"),
    beta(37, "storage_operation_duration_seconds", "#136189"),
    since(34, "version_info", "#131842"),
    since(36, "volume_operation_errors_total", "#136399"),
    until(36, "volume_operation_total_errors", "#136399"),
    beta(37, "volume_operation_total_seconds", "#136189"),
    beta(36, "workqueue_adds_total", "#135522"),
    beta(36, "workqueue_depth", "#135522"),
    beta(36, "workqueue_longest_running_processor_seconds", "#135522"),
    beta(36, "workqueue_queue_duration_seconds", "#135522"),
    beta(36, "workqueue_retries_total", "#135522"),
    beta(36, "workqueue_unfinished_work_seconds", "#135522"),
    beta(36, "workqueue_work_duration_seconds", "#135522"),
];

impl Release {
    fn span_of(family: &str) -> Option<&'static FamilySpan> {
        let found = FAMILIES.binary_search_by_key(&family, |span| span.name);
        found.ok().map(|index| &FAMILIES[index])
    }

    /// Whether upstream's manager of this release has the family of metrics called `family`, as far as a known release
    /// has it.
    pub fn has_metric(self, family: &str) -> bool {
        Self::span_of(family).is_none_or(|span| span.at(self).is_some())
    }

    /// Whether the family is ALPHA in this release, and BETA in a later one.
    pub fn has_metric_in_alpha(self, family: &str) -> bool {
        Self::span_of(family).is_some_and(|span| span.at(self) == Some(true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_follow_the_release() {
        assert!(FAMILIES.is_sorted_by(|a, b| a.name < b.name));
        let autoscalers = "horizontal_pod_autoscaler_controller_num_horizontal_pod_autoscalers";
        // (family, cells from 1.33 to 1.37)
        let cases = [
            ("workqueue_depth", "ALPHA ALPHA ALPHA BETA BETA"),
            (
                "storage_operation_duration_seconds",
                "ALPHA ALPHA ALPHA ALPHA BETA",
            ),
            ("informer_queued_items", "- - - yes yes"),
            ("version_info", "- yes yes yes yes"),
            (
                "statefulset_controller_statefulset_max_unavailable",
                "- - yes yes yes",
            ),
            (autoscalers, "- - yes yes yes"),
            (
                "resourceclaim_controller_resource_claims",
                "yes yes yes yes -",
            ),
        ];
        for (family, expected) in cases {
            let span = Release::span_of(family).unwrap();
            let releases = || Release::known().rev();
            let cells: Vec<_> = releases().map(|release| span.text(release)).collect();
            assert_eq!(cells.join(" "), expected, "{family}");
            for (release, cell) in releases().zip(cells) {
                assert_eq!(release.has_metric(family), cell != "-", "{family}");
                assert_eq!(
                    release.has_metric_in_alpha(family),
                    cell == "ALPHA",
                    "{family}"
                );
            }
        }
        assert!(Release::OLDEST.has_metric("steersman_build_info"));
        assert!(!Release::OLDEST.has_metric_in_alpha("steersman_build_info"));
    }
}
