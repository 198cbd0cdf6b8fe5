//! The errors of a sync. Their texts are upstream's, because Events show them.
//!
//! A stale cache is no failure: `StatefulSetController::sync` ends without one, and the missing event brings
//! the key back.

use std::fmt;

use steersman_client::writes::StatusError;
use steersman_client::{Aggregate, ApiError, Decision};
use steersman_objects::{ObjectKey, PercentError};
use steersman_runtime::consistency::Unconfirmed;
use steersman_runtime::owner::{ClaimError, RecheckError};

/// The decision to wait for the deletion of a claim. The new pod would mount a claim that is about to vanish.
const CLAIM_DELETED: Decision = Decision("claim_deleted");

/// The operation of a sync that failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum SyncError {
    /// The live set may not adopt revisions. It is gone, terminates, or is another one of the same name.
    #[error("can't adopt ControllerRevisions: {0}")]
    Recheck(#[source] RecheckError),
    /// A revision could not be adopted.
    #[error("adopt ControllerRevisions: {0}")]
    Adopt(#[source] ApiError),
    /// A pod could not be adopted or released.
    #[error("claim pods: {0}")]
    Claim(#[source] ClaimError),
    /// The caches of a new leader are stale, so the key returns with the missing objects. Or a live
    /// read to confirm the caches failed.
    #[error("check caches: {0}")]
    Check(#[source] Unconfirmed),
    /// The update revision could not be created or renumbered. Without a revision, no pod can be labelled, so
    /// the sync writes no pods.
    #[error("find revisions: {0}")]
    Revision(#[source] ApiError),
    /// Pods or claims could not be written. An ordered set has one failure, and a parallel set all failures
    /// of a batch.
    #[error("{0}")]
    Pods(#[source] Aggregate<PodError>),
    /// The strategy is `Recreate`, and its gate is off. No pod is written, and no status.
    #[error("statefulset {set} uses Recreate strategy but feature gate {gate} is disabled")]
    Strategy {
        /// Namespace and name of the set.
        set: ObjectKey,
        /// Name of the gate.
        gate: &'static str,
    },
    /// `maxUnavailable` is malformed. Validation prevents it; pods were handled before.
    #[error("maxUnavailable: {0}")]
    MaxUnavailable(#[source] PercentError),
    /// The status could not be written. Pods may have been written. The next sync computes the status anew.
    #[error("write status: {0}")]
    Status(#[source] StatusError),
    /// A revision could not be deleted. It is reported after the status, since it harms no pod.
    #[error("truncate history: {0}")]
    Truncate(#[source] ApiError),
    /// The update and the clean-up of the history both failed. Upstream joins both errors as well.
    #[error("{0}")]
    Both(#[source] Box<Aggregate<SyncError>>),
}

/// A failed write of a pod or of its claims.
#[derive(Debug, thiserror::Error)]
pub(super) enum PodError {
    /// The write of the pod failed. A quota, a webhook or a conflict, for example.
    #[error("{0}")]
    Request(#[source] ApiError),
    /// A claim could not be provided. The pod is not created without its claims.
    #[error("{0}")]
    Claims(#[source] Aggregate<ClaimFailure>),
    /// The owners of a claim could not be corrected. The binder writes claims too, so conflicts are common
    /// just after a creation.
    #[error("could not update claim {claim} for delete policy ownerRefs: {source}")]
    Owners {
        /// Name of the claim.
        claim: String,
        /// The failed request.
        source: ApiError,
    },
    /// The data of a revision is no template of a pod. The API server checks no revision. Upstream fails in
    /// `ApplyRevision`.
    #[error("revision {revision} is malformed: {part} is no JSON object")]
    Revision {
        /// Name of the revision.
        revision: String,
        /// The path of the malformed part in the data.
        part: String,
    },
    /// The caches may lack writes of the previous leader. The pod is not at fault, and no Event is recorded.
    #[error("{0}")]
    Check(#[source] Box<SyncError>),
}

/// A claim that a pod needs does not exist. The pod has to wait; further claims are still created.
#[derive(Debug, thiserror::Error)]
pub(super) enum ClaimFailure {
    /// The claim could not be created.
    #[error("failed to create PVC {claim}: {source}")]
    Create {
        /// Name of the claim.
        claim: String,
        /// The failed request.
        source: ApiError,
    },
    /// The claim is terminating. A new one can be created when it is gone.
    #[error("pvc {claim} is being deleted")]
    Terminating {
        /// Name of the claim.
        claim: String,
        /// The decision to wait.
        #[source]
        decision: Decision,
    },
}

impl ClaimFailure {
    /// The failure for a terminating claim.
    pub(super) fn terminating(claim: impl fmt::Display) -> Self {
        Self::Terminating {
            claim: claim.to_string(),
            decision: CLAIM_DELETED,
        }
    }
}

impl SyncError {
    /// Whether the sync only has to wait for the cache.
    pub(super) fn is_stale(&self) -> bool {
        match self {
            Self::Check(Unconfirmed::Stale) => true,
            Self::Pods(errors) => errors.0.iter().any(PodError::is_stale),
            _ => false,
        }
    }

    /// Whether the write gate refused the request. The next leader does the work.
    pub(super) fn is_fenced(&self) -> bool {
        ApiError::within(self).is_some_and(ApiError::is_fenced)
    }

    /// Both errors, or the only one. Upstream: `utilerrors.NewAggregate` in `UpdateStatefulSet`.
    pub(super) fn join(first: Option<Self>, second: Option<Self>) -> Option<Self> {
        match (first, second) {
            (Some(first), Some(second)) => {
                Some(Self::Both(Box::new(Aggregate(vec![first, second]))))
            }
            (first, second) => first.or(second),
        }
    }
}

impl PodError {
    /// Whether the object changed since the cache showed it, so that the write can be repeated. Upstream:
    /// `retry.RetryOnConflict` in `UpdateStatefulPod`.
    pub(super) fn is_conflict(&self) -> bool {
        matches!(self, Self::Request(error) | Self::Owners { source: error, .. } if error.is_conflict())
    }

    fn is_stale(&self) -> bool {
        matches!(self, Self::Check(error) if error.is_stale())
    }
}
