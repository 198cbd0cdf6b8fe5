//! Failures of the sync of a Deployment, and the retry of its key after each of them.

use steersman_client::ApiError;
use steersman_client::writes::StatusError;
use steersman_objects::ObjectKey;
use steersman_runtime::consistency::Unconfirmed;
use steersman_runtime::owner::ClaimError;
use steersman_runtime::workers::Retry;
use steersman_values::labels::SelectorError;

use super::limits::LimitError;

/// The number of retries of a failing key before it waits for the next event, as upstream's
/// `maxRetries`. With the back-off of the queue, 15 retries take 164 s.
const MAX_RETRIES: u32 = 15;

/// The operation that failed. Each one ends the sync before further writes, except that the status may
/// follow.
#[derive(Debug, thiserror::Error)]
pub(super) enum SyncError {
    /// Only a change of the spec mends it. The limit of retries ends the tries.
    #[error("deployment {key} has invalid label selector: {source}")]
    Selector {
        key: ObjectKey,
        source: SelectorError,
    },
    /// A strategy of a later release. Validation excludes other texts.
    #[error("unexpected deployment strategy type: {0}")]
    Strategy(String),
    /// Validation excludes such limits, too.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// An adoption was refused, or the live read before it failed.
    #[error(transparent)]
    Claim(#[from] ClaimError),
    /// The status has the message, unless the namespace terminates.
    #[error("create replica set {name}: {source}")]
    Create { name: String, source: ApiError },
    /// A conflict is the usual cause: the ReplicaSet controller writes the same object.
    #[error("update replica set {name}: {source}")]
    UpdateReplicaSet { name: String, source: ApiError },
    /// The preconditions may fail as well, and the next sync looks again.
    #[error("delete replica set {name}: {source}")]
    Delete { name: String, source: ApiError },
    /// Writes of ReplicaSets may precede it; the next sync reports them.
    #[error("update status: {0}")]
    Status(#[source] StatusError),
    /// The annotation is still there, so the next sync repeats it.
    #[error("update deployment for rollback: {0}")]
    Rollback(#[source] ApiError),
    /// The decision breaks an invariant.
    #[error("{0}")]
    Refused(#[source] ApiError),
    /// If the caches of a new leader are stale, the sync ends without a failure, and the missing
    /// events enqueue the key.
    #[error("check replica sets: {0}")]
    Check(#[source] Unconfirmed),
}

impl SyncError {
    /// See [`ApiError::is_fenced`]. The sync must end without another write.
    pub(super) fn is_fenced(&self) -> bool {
        ApiError::within(self).is_some_and(ApiError::is_fenced)
    }

    /// True if the Deployment was deleted. Its key returns when the cache shows the deletion.
    pub(super) fn is_gone(&self) -> bool {
        match self {
            Self::Status(error) => error.is_object_not_found(),
            Self::Rollback(error) => error.is_object_not_found(),
            _ => false,
        }
    }

    /// True if the namespace is terminating. The API server then refuses every creation in it.
    pub(super) fn is_namespace_terminating(&self) -> bool {
        ApiError::within(self).is_some_and(|error| error.has_cause("NamespaceTerminating"))
    }

    /// The treatment of the key after this failure. `failures` is the number of earlier failures in
    /// a row. Upstream: `handleErr`.
    pub(super) fn retry(&self, failures: u32) -> Retry {
        if failures >= MAX_RETRIES {
            Retry::Drop
        } else {
            Retry::after_request(ApiError::within(self))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn status(code: u16, reason: &str, cause: &str) -> ApiError {
        let causes = json!([{"reason": cause}]);
        let status = json!({"code": code, "reason": reason, "message": "no", "details": {"name": "web", "causes": causes}});
        ApiError::Status {
            request: "PUT /x".to_owned(),
            code,
            status: serde_json::from_value(status).unwrap(),
        }
    }

    #[test]
    fn races_are_retried_quietly_and_all_errors_at_most_15_times() {
        let created = |source| SyncError::Create {
            name: "web-1".to_owned(),
            source,
        };
        let delete = |source| SyncError::Delete {
            name: "web-1".to_owned(),
            source,
        };
        // (why, error, failures before, retry)
        let cases = [
            (
                "conflict",
                SyncError::Rollback(status(409, "Conflict", "")),
                0,
                Retry::Quietly,
            ),
            (
                "gone",
                delete(status(404, "NotFound", "")),
                0,
                Retry::Quietly,
            ),
            (
                "collision",
                created(status(409, "AlreadyExists", "")),
                14,
                Retry::Quietly,
            ),
            (
                "quota",
                created(status(403, "Forbidden", "")),
                0,
                Retry::BackOff,
            ),
            (
                "quota, last try",
                created(status(403, "Forbidden", "")),
                14,
                Retry::BackOff,
            ),
            (
                "quota, too often",
                created(status(403, "Forbidden", "")),
                15,
                Retry::Drop,
            ),
            (
                "conflict, too often",
                SyncError::Rollback(status(409, "Conflict", "")),
                15,
                Retry::Drop,
            ),
            (
                "strategy",
                SyncError::Strategy("Magic".to_owned()),
                0,
                Retry::BackOff,
            ),
        ];
        for (why, error, failures, retry) in cases {
            assert_eq!(error.retry(failures), retry, "{why}");
        }
    }

    #[test]
    fn terminating_namespace_is_recognised_by_the_cause_of_the_error() {
        for (cause, expected) in [("NamespaceTerminating", true), ("", false)] {
            let error = SyncError::Create {
                name: "web-1".to_owned(),
                source: status(403, "Forbidden", cause),
            };
            assert_eq!(error.is_namespace_terminating(), expected, "{cause:?}");
        }
    }
}
