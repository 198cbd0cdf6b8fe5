//! The pods of a Job as one sync sees them.
//!
//! A pod keeps the tracking finalizer until its end is in the status of the Job. So a pod with the
//! finalizer is not counted yet, and a pod without it never counts again. Upstream: the predicates
//! in `job_controller.go` and `tracking_utils.go`.

use std::ops::Deref;
use std::sync::Arc;

use steersman_objects::{JobSpec, Phase, Pod, PodReplacementPolicy};

/// A pod of the Job. It adds the two facts about the finalizer that the cache alone cannot tell.
#[derive(Debug, Clone)]
pub(super) struct JobPod {
    /// The cached pod. It is shared with the cache, so a sync of thousands of pods copies none of them.
    pub(super) pod: Arc<Pod>,
    /// Whether the pod has the tracking finalizer. The cached copy of a pod that this sync adopted
    /// lacks it. Succeeded indexes are computed with it, because an index in the status never counts twice.
    pub(super) has_finalizer: bool,
    /// Whether the pod has the tracking finalizer, and no removal of it is in flight. Single pods are counted
    /// with it, because a counter in the status has no memory.
    pub(super) is_tracked: bool,
}

impl Deref for JobPod {
    type Target = Pod;
    fn deref(&self) -> &Pod {
        &self.pod
    }
}

impl JobPod {
    /// The completion index; `None` when missing or malformed. From the annotation; a label of the same name
    /// is for users. Upstream: `getCompletionIndex`.
    pub(super) fn index(&self) -> Option<i64> {
        self.details().completion_index
    }

    /// The completion index if it is valid, which means below `completions`. A pod of a higher index is a
    /// leftover of more completions, and counts for nothing.
    pub(super) fn index_below(&self, completions: i64) -> Option<i64> {
        self.index().filter(|index| *index < completions)
    }

    /// Whether the phase is `Succeeded`.
    pub(super) fn has_succeeded(&self) -> bool {
        self.phase == Phase::Succeeded
    }
}

/// Whether a pod is replaced only after its phase is `Failed`. A failure policy needs the final
/// state of the pod, so it implies this. Upstream: `onlyReplaceFailedPods`.
pub(super) fn replaces_only_failed(spec: &JobSpec) -> bool {
    spec.pod_replacement_policy == PodReplacementPolicy::Failed || spec.pod_failure_policy.is_some()
}

/// Whether the pod counts as failed. A terminating pod counts too, because a pod of a lost node keeps
/// its phase. If only failed pods are replaced, the phase alone decides. Upstream: `isPodFailed`.
pub(super) fn has_failed(pod: &Pod, spec: &JobSpec) -> bool {
    pod.phase == Phase::Failed
        || (!replaces_only_failed(spec)
            && pod.meta.is_terminating()
            && pod.phase != Phase::Succeeded)
}
