//! Metrics of the Job controller, under upstream's names.
//!
//! Help texts and buckets are upstream's: `job/metrics/metrics.go`. `tests/metrics` compares the names.

use std::time::Duration;

use prometheus::{HistogramOpts, IntCounterVec, Opts, Registry};
use steersman_metrics::HistogramVec;
use steersman_objects::{CompletionMode, Job, JobStatus, Pod};
use steersman_runtime::informer::Change;
use steersman_runtime::pod_control::Creations;

use super::end_state::Finish;
use super::gates::JobGates;
use super::indexes::Indexes;
use super::snapshot::Snapshot;

/// The label `action` of a sync. Upstream: `JobSyncActionReconciling` and the constants after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SyncAction {
    /// The number of pods was left alone, because earlier writes are in flight or the Job ends.
    Reconciling,
    /// The active pods are those that the Job wants.
    Tracking,
    /// Pods were created, or wait for the back-off.
    PodsCreated,
    /// Pods were deleted.
    PodsDeleted,
}

impl SyncAction {
    fn as_str(self) -> &'static str {
        match self {
            Self::Reconciling => "reconciling",
            Self::Tracking => "tracking",
            Self::PodsCreated => "pods_created",
            Self::PodsDeleted => "pods_deleted",
        }
    }
}

/// The metric families.
#[derive(Debug, Clone)]
pub(super) struct JobMetrics {
    /// Seconds per sync, by `completion_mode`, `result` and `action`.
    sync_duration: HistogramVec,
    /// Syncs, with the same labels.
    syncs: IntCounterVec,
    /// Ends of Jobs, by `completion_mode`, `result` and `reason`.
    finished_jobs: IntCounterVec,
    /// Pods that the counters of the status contain, by `completion_mode` and `result`.
    finished_pods: IntCounterVec,
    /// Ended indexes, by `status` and `backoffLimit`.
    finished_indexes: IntCounterVec,
    /// Attempts to create pods, by `reason` and `status`.
    created_pods: IntCounterVec,
    /// Failed pods, by the `action` of the matched rule.
    policy_actions: IntCounterVec,
    /// Pods that start or stop to wait for their count, by `event`.
    tracked_pods: IntCounterVec,
    /// Jobs of other managers, by `controller_name`.
    external_jobs: IntCounterVec,
    /// Syncs skipped because a cache lacks writes of this process, by `group` and `resource` of the
    /// cache.
    pub(super) stale_sync_skips: IntCounterVec,
}

impl JobMetrics {
    /// Registers all families.
    pub(super) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let counter = |name: &str, help: &str, labels: &[&str]| {
            let counter =
                IntCounterVec::new(Opts::new(format!("job_controller_{name}"), help), labels)?;
            registry.register(Box::new(counter.clone()))?;
            Ok::<_, prometheus::Error>(counter)
        };
        let duration = HistogramOpts::new(
            "job_controller_job_sync_duration_seconds",
            "[STABLE] The time it took to sync a job",
        );
        // From 4 ms to 65.5 s.
        let buckets = prometheus::exponential_buckets(0.004, 2.0, 15)?;
        let labels = ["completion_mode", "result", "action"];
        let sync_duration = HistogramVec::new(duration.buckets(buckets), &labels)?;
        registry.register(Box::new(sync_duration.clone()))?;
        Ok(Self {
            sync_duration,
            syncs: counter(
                "job_syncs_total",
                "[STABLE] The number of job syncs",
                &labels,
            )?,
            finished_jobs: counter(
                "jobs_finished_total",
                "[STABLE] The number of finished jobs",
                &["completion_mode", "result", "reason"],
            )?,
            finished_pods: counter(
                "job_pods_finished_total",
                "[STABLE] The number of finished Pods that are fully tracked",
                &["completion_mode", "result"],
            )?,
            finished_indexes: counter(
                "job_finished_indexes_total",
                "[ALPHA] The number of finished indexes. Possible values for the\n\t\t\tstatus label are: \"succeeded\", \
                 \"failed\". Possible values for the\n\t\t\tbackoffLimit label are: \"perIndex\" and \"global\"",
                &["status", "backoffLimit"],
            )?,
            created_pods: counter(
                "job_pods_creation_total",
                "[ALPHA] The number of Pods created by the Job controller labelled with a reason for the Pod creation.\n\
                 This metric also distinguishes between Pods created using different PodReplacementPolicy settings.\n\
                 Possible values of the \"reason\" label are:\n\"new\", \"recreate_terminating_or_failed\", \"recreate_failed\".\n\
                 Possible values of the \"status\" label are:\n\"succeeded\", \"failed\".",
                &["reason", "status"],
            )?,
            policy_actions: counter(
                "pod_failures_handled_by_failure_policy_total",
                "[BETA] The number of failed Pods handled by failure policy with\n\t\t\trespect to the failure policy action \
                 applied based on the matched\n\t\t\trule. Possible values of the action label correspond to the\n\t\t\tpossible \
                 values for the failure policy rule action, which are:\n\t\t\t\"FailJob\", \"Ignore\" and \"Count\".",
                &["action"],
            )?,
            tracked_pods: counter(
                "terminated_pods_tracking_finalizer_total",
                "[BETA] The number of terminated pods (phase=Failed|Succeeded)\nthat have the finalizer \
                 batch.kubernetes.io/job-tracking\nThe event label can be \"add\" or \"delete\".",
                &["event"],
            )?,
            external_jobs: counter(
                "jobs_by_external_controller_total",
                "[ALPHA] The number of Jobs managed by an external controller",
                &["controller_name"],
            )?,
            stale_sync_skips: counter(
                "stale_sync_skips_total",
                "[ALPHA] Total number of Job syncs skipped due to a stale watch cache.",
                &["group", "resource"],
            )?,
        })
    }

    /// Counts one sync of `job`.
    pub(super) fn synced(&self, job: &Job, is_ok: bool, action: SyncAction, duration: Duration) {
        let result = if is_ok { "success" } else { "error" };
        let labels = [mode(job), result, action.as_str()];
        self.sync_duration
            .with_label_values(&labels)
            .observe(duration.as_secs_f64());
        self.syncs.with_label_values(&labels).inc();
    }

    /// Counts a finished Job.
    pub(super) fn finished(&self, job: &Job, finish: &Finish) {
        let labels = [mode(job), result(finish.is_complete), &finish.reason];
        self.finished_jobs.with_label_values(&labels).inc();
    }

    /// Counts the pods and indexes that a write added to the counters: the difference between the
    /// status `before` and `after`.
    ///
    /// Upstream: `recordJobPodFinished`.
    pub(super) fn counted(&self, job: &Job, before: &JobStatus, after: &JobStatus) {
        let mut succeeded = i64::from(after.succeeded) - i64::from(before.succeeded);
        if job.spec.completion_mode == CompletionMode::Indexed {
            // The counter falls with the completions, so only indexes in range count.
            let completions = job.spec.completions.unwrap_or(0).into();
            let len = |text: &str| Indexes::parse(text, completions).len();
            succeeded = len(&after.completed_indexes) - len(&before.completed_indexes);
            let is_limited = job.spec.backoff_limit_per_index.is_some();
            let limit = if is_limited { "perIndex" } else { "global" };
            let add = |is_complete, count| {
                let labels = [result(is_complete), limit];
                add(&self.finished_indexes, &labels, count);
            };
            add(true, succeeded);
            if is_limited {
                let len = |text: &Option<String>| text.as_deref().map_or(0, len);
                add(
                    false,
                    len(&after.failed_indexes) - len(&before.failed_indexes),
                );
            }
        }
        let failed = i64::from(after.failed) - i64::from(before.failed);
        for (is_complete, count) in [(true, succeeded), (false, failed)] {
            add(
                &self.finished_pods,
                &[mode(job), result(is_complete)],
                count,
            );
        }
    }

    /// Counts the attempts to create pods.
    ///
    /// Upstream: `recordJobPodsCreationTotal`, which counts failures as successes, too.
    pub(super) fn created(&self, snapshot: &Snapshot<'_>, creations: &Creations, gates: JobGates) {
        use steersman_objects::PodReplacementPolicy::Failed;
        let replaces_failed = snapshot.job.spec.pod_replacement_policy == Failed;
        // Without the gate, upstream has no other reason.
        let reason = if !gates.replacement_policy {
            "new"
        } else if replaces_failed && snapshot.failed > 0 {
            "recreate_failed"
        } else if snapshot.failed > 0 || snapshot.terminating > 0 {
            "recreate_terminating_or_failed"
        } else {
            "new"
        };
        for (status, count) in [
            ("succeeded", creations.created),
            ("failed", creations.failed),
        ] {
            if count > 0 {
                let counter = self.created_pods.with_label_values(&[reason, status]);
                counter.inc_by(count as u64);
            }
        }
    }

    /// Counts failed pods that matched a rule with `action`. Without a matching rule, a pod has no action.
    pub(super) fn handled_by_policy(&self, action: &str, pods: u64) {
        self.policy_actions
            .with_label_values(&[action])
            .inc_by(pods);
    }

    /// Counts a pod that starts or stops to be finished with the tracking finalizer. Upstream:
    /// `recordFinishedPodWithTrackingFinalizer`.
    pub(super) fn pod_changed(&self, change: &Change<'_, Pod>) {
        let counts = |pod: &Pod| pod.is_finished() && pod.has_job_tracking;
        let (was, is) = match change {
            Change::Added { object, .. } => (false, counts(object)),
            Change::Updated { old, new } => (counts(old), counts(new)),
            // The last state before an unseen deletion may be old.
            Change::Deleted {
                final_state_unknown: true,
                ..
            } => return,
            Change::Deleted { object, .. } => (counts(object), false),
        };
        if was != is {
            let event = if is { "add" } else { "delete" };
            self.tracked_pods.with_label_values(&[event]).inc();
        }
    }

    /// Counts a Job that the controller `name` manages. Once per Job and leader.
    pub(super) fn external(&self, name: &str) {
        self.external_jobs.with_label_values(&[name]).inc();
    }
}

fn mode(job: &Job) -> &'static str {
    if job.spec.completion_mode == CompletionMode::Indexed {
        "Indexed"
    } else {
        "NonIndexed"
    }
}

// Upstream: `metrics.Succeeded` and `metrics.Failed`.
fn result(is_complete: bool) -> &'static str {
    if is_complete { "succeeded" } else { "failed" }
}

/// Adds `count` to a counter. The first use shows the counter, even if `count` is 0. Counters never
/// fall, so a negative count adds nothing.
fn add(counter: &IntCounterVec, labels: &[&str; 2], count: i64) {
    let count = u64::try_from(count).unwrap_or(0);
    counter.with_label_values(labels).inc_by(count);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::pods::pod;

    /// `TestRecordFinishedPodWithTrackingFinalizer` of upstream's unit tests.
    #[test]
    fn record_finished_pod_with_tracking_finalizer() {
        let state = |phase: &str, tracked: bool| {
            let finalizers: &[&str] = if tracked {
                &["batch.kubernetes.io/job-tracking"]
            } else {
                &[]
            };
            std::sync::Arc::new(
                pod("p")
                    .phase(phase)
                    .metadata("finalizers", finalizers)
                    .build(),
            )
        };
        // (upstream's case, before, after, added, deleted)
        let cases = [
            (
                "new non-finished Pod with finalizer",
                None,
                Some(("Pending", true)),
                0,
                0,
            ),
            (
                "pod finished with finalizer",
                Some(("Running", true)),
                Some(("Failed", true)),
                1,
                0,
            ),
            (
                "pod deleted with finalizer",
                Some(("Succeeded", true)),
                None,
                0,
                1,
            ),
            (
                "finalizer removed",
                Some(("Succeeded", true)),
                Some(("Succeeded", false)),
                0,
                1,
            ),
            (
                "pod finished without finalizer",
                Some(("Running", false)),
                Some(("Succeeded", false)),
                0,
                0,
            ),
        ];
        for (why, before, after, added, deleted) in cases {
            let metrics = JobMetrics::register(&Registry::new()).unwrap();
            let [before, after] =
                [before, after].map(|pod| pod.map(|(phase, tracked)| state(phase, tracked)));
            metrics.pod_changed(&match (&before, &after) {
                (None, Some(new)) => Change::Added {
                    object: new,
                    initial: false,
                },
                (Some(old), Some(new)) => Change::Updated { old, new },
                (Some(old), None) => Change::Deleted {
                    object: old,
                    final_state_unknown: false,
                },
                (None, None) => unreachable!("each case has a pod"),
            });
            let count = |event| metrics.tracked_pods.with_label_values(&[event]).get();
            assert_eq!((count("add"), count("delete")), (added, deleted), "{why}");
        }
    }
}
