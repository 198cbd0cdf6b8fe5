//! Categories of failures: the field `category` of logged errors.
//!
//! A category is a fixed word, so that alerts and log queries need not match on error texts. It
//! describes the failed request at the root of the chain of errors.

use std::error::Error;
use std::fmt;

use steersman_objects::DecodeError;

use super::{ApiError, Decision};

/// The category of a failure, by the request that caused it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Category {
    /// No request failed: a decision ended the sync.
    Decision,
    /// The write gate refused the request, since leadership has ended.
    Fenced,
    /// An invariant refused the write: a bug of Steersman.
    Invariant,
    /// 409 on a stale resource version or another UID.
    Conflict,
    /// 409 on a taken name.
    AlreadyExists,
    /// 404.
    NotFound,
    /// 403 in a namespace that is being deleted.
    NamespaceTerminating,
    /// 403 for any other reason, such as quota or missing rights.
    Forbidden,
    /// 422.
    Invalid,
    /// 429.
    TooManyRequests,
    /// 500 and above.
    Server,
    /// Any other status.
    Status,
    /// No answer in time.
    Timeout,
    /// The connection failed.
    Transport,
    /// The answer could not be decoded.
    Decode,
    /// No request failed: a decision with this name ended the sync.
    Named(Decision),
}

impl Category {
    /// The category of `error` by the request that caused it, or else by the name of the decision.
    pub fn of(error: &(dyn Error + 'static)) -> Self {
        if let Some(request) = ApiError::within(error) {
            Self::of_request(request)
        } else if find::<DecodeError>(error).is_some() {
            Self::Decode
        } else {
            find(error).copied().map_or(Self::Decision, Self::Named)
        }
    }

    fn of_request(error: &ApiError) -> Self {
        match error {
            ApiError::Fenced { .. } => Self::Fenced,
            ApiError::Refused(_) => Self::Invariant,
            ApiError::Timeout { .. } => Self::Timeout,
            ApiError::Transport { .. } => Self::Transport,
            ApiError::Decode { .. } => Self::Decode,
            ApiError::Path(_) => Self::Invalid,
            _ if error.is_conflict() => Self::Conflict,
            _ if error.is_already_exists() => Self::AlreadyExists,
            _ if error.is_not_found() => Self::NotFound,
            _ if error.has_cause("NamespaceTerminating") => Self::NamespaceTerminating,
            _ if error.is_forbidden() => Self::Forbidden,
            _ if error.is_invalid() => Self::Invalid,
            ApiError::Status { code: 429, .. } => Self::TooManyRequests,
            ApiError::Status { code: 500.., .. } => Self::Server,
            ApiError::Status { .. } => Self::Status,
        }
    }

    /// The word for logs, such as `already_exists`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Decision => "decision",
            Self::Fenced => "fenced",
            Self::Invariant => "invariant",
            Self::Conflict => "conflict",
            Self::AlreadyExists => "already_exists",
            Self::NotFound => "not_found",
            Self::NamespaceTerminating => "namespace_terminating",
            Self::Forbidden => "forbidden",
            Self::Invalid => "invalid",
            Self::TooManyRequests => "too_many_requests",
            Self::Server => "server",
            Self::Status => "status",
            Self::Timeout => "timeout",
            Self::Transport => "transport",
            Self::Decode => "decode",
            Self::Named(Decision(name)) => name,
        }
    }
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl ApiError {
    /// The failed request that caused `error`: the first one in its chain of sources.
    pub fn within<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Self> {
        find(error)
    }
}

/// The first `T` in the chain of sources of `error`, `error` included.
fn find<'a, T: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a T> {
    std::iter::successors(Some(error), |&error| error.source())
        .find_map(|error| error.downcast_ref())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use steersman_objects::Identity;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    enum Outer {
        #[error("write: {0}")]
        Write(#[source] ApiError),
        #[error("two of three")]
        Quorum,
        #[error("the owner is gone")]
        Owner(#[source] Decision),
        #[error("read the answer: {0}")]
        Answer(#[source] DecodeError),
    }

    #[test]
    fn category_is_that_of_the_failed_request() {
        let status = |code: u16, reason: &str, cause: &str| {
            let details = json!({"name": "web", "causes": [{"reason": cause}]});
            let status = json!({"code": code, "reason": reason, "details": details});
            ApiError::Status {
                request: "PUT /x".to_owned(),
                code,
                status: serde_json::from_value(status).unwrap(),
            }
        };
        let fenced = ApiError::Fenced {
            request: "PUT /x".to_owned(),
        };
        // (error, category)
        let cases = [
            (fenced, "fenced"),
            (status(409, "Conflict", ""), "conflict"),
            (status(409, "AlreadyExists", ""), "already_exists"),
            (status(404, "NotFound", ""), "not_found"),
            (status(403, "Forbidden", ""), "forbidden"),
            (
                status(403, "Forbidden", "NamespaceTerminating"),
                "namespace_terminating",
            ),
            (status(422, "Invalid", ""), "invalid"),
            (status(429, "TooManyRequests", ""), "too_many_requests"),
            (status(503, "ServiceUnavailable", ""), "server"),
            (status(415, "UnsupportedMediaType", ""), "status"),
        ];
        for (error, expected) in cases {
            assert_eq!(Category::of(&Outer::Write(error)).as_str(), expected);
        }
        assert_eq!(Category::of(&Outer::Quorum), Category::Decision);
        let owner = Outer::Owner(Decision("owner_gone"));
        assert_eq!(Category::of(&owner).as_str(), "owner_gone");
        let answer = Outer::Answer(Identity::decode(b"no object").unwrap_err());
        assert_eq!(Category::of(&answer), Category::Decode);
    }
}
