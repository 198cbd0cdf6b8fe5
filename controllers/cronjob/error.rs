//! Failures of the sync of a CronJob, and the retry of its key after each of them.
//!
//! Failures that users can mend also are Events of the CronJob; the sync records those.

use steersman_client::writes::StatusError;
use steersman_client::{ApiError, Decision};
use steersman_objects::{DecodeError, ObjectKey};
use steersman_runtime::consistency::Unconfirmed;
use steersman_runtime::workers::Retry;

/// The decision to end a sync, because another CronJob has the name now.
const REPLACED: Decision = Decision("cron_job_replaced");

/// The operation that failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum SyncError {
    /// The live read of the CronJob failed. It is needed while the cache of Jobs shows a Job that the status
    /// lacks.
    #[error("get the cron job: {0}")]
    Live(#[source] ApiError),
    /// The live CronJob has another UID. The cache will show it. A sync that continued would start Jobs of a
    /// CronJob that is gone.
    #[error("another cron job has this name now")]
    Replaced(#[source] Decision),
    /// The live CronJob does not confirm the cached one. If the cache is stale, the sync ends without a
    /// failure, and the missing event enqueues the key. Only a new leader asks.
    #[error("check the cron job: {0}")]
    Check(#[source] Unconfirmed),
    /// The live read of a Job failed. Without an answer, a Job that exists could leave the list of running
    /// ones.
    #[error("get job {job}: {source}")]
    GetJob { job: ObjectKey, source: ApiError },
    /// The deletion of a Job beyond the history limits failed. The sync ends with it only at the end of
    /// leadership. All other failures of this kind are Events.
    #[error("delete job {job}: {source}")]
    Delete { job: ObjectKey, source: ApiError },
    /// The deletion of a running Job failed, so no other one replaces it. Both Jobs at once would break the
    /// policy `Replace`.
    #[error("could not replace job {job}: {source}")]
    Replace { job: ObjectKey, source: ApiError },
    /// The template of the CronJob makes no Job. The document itself is malformed, so a retry helps only
    /// after a change.
    #[error("make job {job} from spec.jobTemplate: {source}")]
    Template {
        job: ObjectKey,
        source: serde_json::Error,
    },
    /// The creation of a Job failed. A quota or a webhook is the usual reason, and the next try has the same
    /// name.
    #[error("create job {job}: {source}")]
    Create { job: ObjectKey, source: ApiError },
    /// The answer to a request could not be decoded.
    #[error("{0}")]
    Answer(#[source] DecodeError),
    /// The status could not be written. After a conflict, the next sync starts from the newer CronJob. A Job
    /// that was created keeps its name, so it is not created again.
    #[error("update status: {0}")]
    Status(#[source] StatusError),
}

impl SyncError {
    pub(super) fn replaced() -> Self {
        Self::Replaced(REPLACED)
    }

    /// See [`ApiError::is_fenced`]. The sync must end without another write.
    pub(super) fn is_fenced(&self) -> bool {
        ApiError::within(self).is_some_and(ApiError::is_fenced)
    }

    /// The treatment of the key after this failure. As upstream, nothing limits the number of
    /// retries; the back-off grows to 1000 s.
    pub(super) fn retry(&self) -> Retry {
        match self {
            Self::Replaced(_) => Retry::Quietly,
            _ => Retry::after_request(ApiError::within(self)),
        }
    }
}
