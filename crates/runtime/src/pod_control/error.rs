//! The failures of creations and deletions of pods.

use steersman_client::ApiError;

use crate::pod_control::TemplateError;

/// A failed creation or deletion of pods. The texts are upstream's; the condition `ReplicaFailure`
/// shows them.
#[derive(Debug, thiserror::Error)]
pub enum PodsError {
    /// The template of the owner makes no pod. No request was sent, and a retry fails until the
    /// owner changes.
    #[error("{0}")]
    Template(#[source] TemplateError),
    /// A pod could not be created.
    #[error("{0}")]
    Create(#[source] ApiError),
    /// A pod could not be deleted. Upstream: `DeletePod` of `RealPodControl`.
    #[error("unable to delete pods: {0}")]
    Delete(#[source] ApiError),
    /// A pod could not lose its finalizer, which comes before its deletion.
    #[error("removing completion finalizer: {0}")]
    Release(#[source] ApiError),
    /// A pod could not get its finalizer back.
    #[error("adding completion finalizer: {0}")]
    Track(#[source] ApiError),
}

impl PodsError {
    /// See [`ApiError::is_fenced`].
    pub fn is_fenced(&self) -> bool {
        ApiError::within(self).is_some_and(ApiError::is_fenced)
    }
}
