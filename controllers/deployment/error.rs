//! Why the sync of a Deployment failed, and what that means for its key.

use steersman_runtime::client::ApiError;
use steersman_runtime::labels::SelectorError;
use steersman_runtime::live::LiveError;
use steersman_runtime::object::ObjectKey;
use steersman_runtime::owner::ClaimError;
use steersman_runtime::workers::Retry;

use super::limits::LimitError;

/// How often a failing key is tried again before it waits for the next event; 15 tries take 164 s.
const MAX_RETRIES: u32 = 15;

/// The operation that failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum SyncError {
    #[error("deployment {key} has invalid label selector: {source}")]
    Selector {
        key: ObjectKey,
        source: SelectorError,
    },
    #[error("unexpected deployment strategy type: {0}")]
    Strategy(String),
    #[error(transparent)]
    Limit(#[from] LimitError),
    #[error(transparent)]
    Claim(#[from] ClaimError),
    #[error("create replica set {name}: {source}")]
    Create { name: String, source: ApiError },
    #[error("update replica set {name}: {source}")]
    UpdateReplicaSet { name: String, source: ApiError },
    #[error("delete replica set {name}: {source}")]
    Delete { name: String, source: ApiError },
    #[error("update status: {0}")]
    Status(#[source] ApiError),
    #[error("update deployment for rollback: {0}")]
    Rollback(#[source] ApiError),
    #[error("check replica sets: {0}")]
    Check(#[source] LiveError),
    /// The caches lack what the leader before us did. No failure: what they lack wakes the key when
    /// it comes.
    #[error("the cache is behind the API server")]
    Behind,
}

impl SyncError {
    /// The request that failed, where one did.
    fn api(&self) -> Option<&ApiError> {
        match self {
            Self::Selector { .. } | Self::Strategy(_) | Self::Limit(_) | Self::Behind => None,
            Self::Check(error) => error.request(),
            Self::Claim(error) => error.source.as_ref(),
            Self::Create { source, .. }
            | Self::UpdateReplicaSet { source, .. }
            | Self::Delete { source, .. } => Some(source),
            Self::Status(source) | Self::Rollback(source) => Some(source),
        }
    }

    /// See [`ApiError::is_fenced`]. Nothing more is to be tried in this sync.
    pub(super) fn is_fenced(&self) -> bool {
        self.api().is_some_and(ApiError::is_fenced)
    }

    /// Whether the API server has no such Deployment any more. The cache will hear of that: trying
    /// again until then helps nobody.
    pub(super) fn is_gone(&self) -> bool {
        matches!(self, Self::Status(error) | Self::Rollback(error) if error.is_object_not_found())
    }

    /// Whether the namespace is going, so that nothing can be created in it any more.
    pub(super) fn is_namespace_terminating(&self) -> bool {
        self.api()
            .is_some_and(|error| error.has_cause("NamespaceTerminating"))
    }

    /// What becomes of the key after this failure, which is number `failures` (from 0) in a row.
    pub(super) fn retry(&self, failures: u32) -> Retry {
        // What an old cache still shows may be gone: the next event says so. Upstream logs none of
        // these as an error, either.
        let is_race = |error: &ApiError| {
            error.is_conflict() || error.is_already_exists() || error.is_object_not_found()
        };
        if self.is_fenced() {
            Retry::Quietly
        } else if failures >= MAX_RETRIES {
            Retry::Drop
        } else if self.api().is_some_and(is_race) {
            Retry::Quietly
        } else {
            Retry::BackOff
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
    fn races_are_retried_quietly_and_nothing_for_ever() {
        let created = |source| SyncError::Create {
            name: "web-1".to_owned(),
            source,
        };
        let delete = |source| SyncError::Delete {
            name: "web-1".to_owned(),
            source,
        };
        let fenced = || ApiError::Fenced {
            request: "POST /x".to_owned(),
        };
        // (why, error, failures before, retry)
        let cases = [
            (
                "conflict",
                SyncError::Status(status(409, "Conflict", "")),
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
                SyncError::Status(status(409, "Conflict", "")),
                15,
                Retry::Drop,
            ),
            (
                "strategy",
                SyncError::Strategy("Magic".to_owned()),
                0,
                Retry::BackOff,
            ),
            ("fenced", created(fenced()), 0, Retry::Quietly),
            ("fenced, many times", created(fenced()), 15, Retry::Quietly),
        ];
        for (why, error, failures, retry) in cases {
            assert_eq!(error.retry(failures), retry, "{why}");
        }
    }

    #[test]
    fn a_terminating_namespace_is_known_by_its_cause() {
        for (cause, expected) in [("NamespaceTerminating", true), ("", false)] {
            let error = SyncError::Create {
                name: "web-1".to_owned(),
                source: status(403, "Forbidden", cause),
            };
            assert_eq!(error.is_namespace_terminating(), expected, "{cause:?}");
        }
    }
}
