//! The failures of a sync, in upstream's words.
//!
//! All of them bring the key back with back-off. Only `Claim` is also an Event, since the user of the
//! pod can act on it.

use steersman_client::ApiError;
use steersman_client::live::LiveError;
use steersman_objects::{DecodeError, ObjectKey};
use steersman_values::intern::Sym;

/// The operation of a sync that failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum SyncError {
    /// The PodGroup of a pod is not in the cache.
    ///
    /// A pod may exist before its PodGroup. The back-off brings the pod back; the event of a PodGroup
    /// with claims comes earlier.
    #[error("get PodGroup for Pod {pod}: podgroup.scheduling.k8s.io \"{group}\" not found")]
    NoGroup {
        /// The pod.
        pod: ObjectKey,
        /// Name of the PodGroup.
        group: Sym,
    },
    /// A claim of a pod or a PodGroup could not be made.
    #[error("{holder}, {claim}: {source}")]
    Claim {
        /// The pod or PodGroup.
        holder: String,
        /// The claim within it.
        claim: String,
        /// The cause.
        source: ClaimError,
    },
    /// The names of claims could not be written to the status of a pod or a PodGroup.
    #[error("update {holder} ResourceClaimStatuses: {source}")]
    Status {
        /// The pod or PodGroup.
        holder: String,
        /// The cause.
        source: ApiError,
    },
    /// A claim could not be reserved for a pod.
    ///
    /// A conflict is usual here: the scheduler writes the same status.
    #[error("reserve claim {claim}: {source}")]
    Reserve {
        /// The claim.
        claim: ObjectKey,
        /// The cause.
        source: ApiError,
    },
    /// The PodGroup that a claim of a pod belongs to is unclear.
    #[error("{0}")]
    Bind(#[source] ClaimError),
    /// The pod or the PodGroup of a reservation could not be read.
    ///
    /// Its reservation stays until a read succeeds.
    #[error("{0}")]
    Read(#[source] LiveError),
    /// A claim could not be freed.
    ///
    /// A conflict means that a scheduler may have reserved it again, so the decision is made anew.
    #[error("{0}")]
    Release(#[source] ApiError),
    /// A claim without use could not be deleted.
    #[error("delete unused generated claim {claim}: {source}")]
    Delete {
        /// The claim.
        claim: ObjectKey,
        /// The cause.
        source: ApiError,
    },
    /// The answer of the API server is no object.
    #[error("{0}")]
    Answer(#[source] DecodeError),
}

/// The reason for which a pod or a PodGroup lacks a claim; also the end of an Event.
#[derive(Debug, thiserror::Error)]
pub(super) enum ClaimError {
    /// The claim has a field that this version lacks.
    ///
    /// Upstream: `ErrAPIUnsupported`. A newer API server may have a further source of claims.
    #[error("checking for claim before creating it: {0}: none of the supported fields are set")]
    Unsupported(String),
    /// A claim of the PodGroup of the pod has a field that this version lacks.
    #[error("PodGroup {group} claim {claim}: none of the supported fields are set")]
    UnsupportedInGroup {
        /// The PodGroup.
        group: ObjectKey,
        /// Name of the claim within the PodGroup.
        claim: Sym,
    },
    /// There is no such template.
    #[error(
        "resource claim template \"{0}\": resourceclaimtemplate.resource.k8s.io \"{0}\" not found"
    )]
    NoTemplate(Sym),
    /// The template asks for admin access, and the feature gate `DRAAdminAccess` is off.
    ///
    /// Upstream: `needsAdminAccess`.
    #[error("admin access is requested, but the feature is disabled")]
    AdminAccess,
    /// The template lists alternatives, and the feature gate `DRAPrioritizedList` is off.
    ///
    /// Upstream: `hasPrioritizedList`.
    #[error("template includes a prioritized list of subrequests, but the feature is disabled")]
    PrioritizedList,
    /// The claims of the namespace could not be listed.
    #[error("{0}")]
    Read(#[source] LiveError),
    /// The API server refused the claim. Upstream prints the name, which is empty before the answer.
    #[error("create ResourceClaim : {0}")]
    Create(#[source] ApiError),
    /// The answer of the API server is no claim.
    #[error("{0}")]
    Answer(#[source] DecodeError),
}
