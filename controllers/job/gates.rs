//! The feature gates of the Job controller that older releases let users switch off.
//!
//! `JobPodReplacementPolicy` is locked since 1.34, and `JobManagedBy` since 1.35.

use std::sync::Arc;

use steersman_objects::{Job, PodReplacementPolicy};
use steersman_options::features::{self, FeatureGates};

/// The value of `spec.managedBy` that names this controller. Upstream: `JobControllerName` of `batch/v1`. An
/// absent field means the same.
pub(super) const BUILT_IN: &str = "kubernetes.io/job-controller";

/// The state of the gates. It is fixed for the life of the process, so that all syncs agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct JobGates {
    /// Gate `JobManagedBy`. With it, a Job of another manager is left alone.
    managed_by: bool,
    /// Gate `JobPodReplacementPolicy`. With it, `status.terminating` is reported, and
    /// `spec.podReplacementPolicy` counts.
    pub(super) replacement_policy: bool,
}

impl JobGates {
    pub(super) fn of(features: &FeatureGates) -> Self {
        Self {
            managed_by: features.is_on(features::JOB_MANAGED_BY),
            replacement_policy: features.is_on(features::JOB_POD_REPLACEMENT_POLICY),
        }
    }

    /// The controller that manages `job`, if it is not this one. Upstream:
    /// `managedByExternalController`.
    ///
    /// An empty name is another manager, too; the API server admits none.
    pub(super) fn external_manager(self, job: &Job) -> Option<&str> {
        let manager = job.spec.managed_by.as_deref()?;
        (self.managed_by && manager != BUILT_IN).then_some(manager)
    }

    /// Whether an interim condition announces the end of a Job, which then waits for terminating
    /// pods. Upstream: `delayTerminalCondition`.
    pub(super) fn delays_ends(self) -> bool {
        self.managed_by || self.replacement_policy
    }

    /// `job` as the controller treats it. Without the gate, `spec.podReplacementPolicy` has no
    /// effect. Upstream: `onlyReplaceFailedPods`. The copy has another spec than the served Job. Writes of
    /// the status are not affected by it.
    pub(super) fn apply(self, job: Arc<Job>) -> Arc<Job> {
        let policy = PodReplacementPolicy::TerminatingOrFailed;
        if self.replacement_policy || job.spec.pod_replacement_policy == policy {
            return job;
        }
        let mut job = Arc::unwrap_or_clone(job);
        job.spec.pod_replacement_policy = policy;
        Arc::new(job)
    }
}
