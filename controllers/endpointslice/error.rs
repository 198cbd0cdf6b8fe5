//! The failures of a sync. A sync collects them, and continues where upstream does.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use steersman_runtime::client::ApiError;
use steersman_runtime::intern::Sym;
use steersman_runtime::live::LiveError;
use steersman_runtime::object::{DecodeError, ObjectKey};
use steersman_runtime::workers::Retry;

/// Failures in a row after which a Service is dropped until the next event.
const MAX_RETRIES: u32 = 15;

/// The time after which the caches of a new leader are compared with the API server again.
const CACHE_DELAY: Duration = Duration::from_secs(1);

/// One failure. The texts are upstream's.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// A pod is left out, because its node is not in the cache.
    #[error("skipping Pod {pod} for Service {service}: Node {node} Not Found")]
    MissingNode {
        service: ObjectKey,
        pod: String,
        node: Sym,
    },
    #[error("failed to create EndpointSlice for Service {service}: {source}")]
    Create {
        service: ObjectKey,
        #[source]
        source: ApiError,
    },
    #[error("failed to update {slice} EndpointSlice for Service {service}: {source}")]
    Update {
        service: ObjectKey,
        slice: String,
        #[source]
        source: ApiError,
    },
    #[error("failed to delete {slice} EndpointSlice for Service {service}: {source}")]
    Delete {
        service: ObjectKey,
        slice: String,
        #[source]
        source: ApiError,
    },
    /// The slice has an address type that the Service lacks.
    #[error("error deleting {slice} EndpointSlice for Service {service}: {source}")]
    DeleteOtherType {
        service: ObjectKey,
        slice: String,
        #[source]
        source: ApiError,
    },
    /// The caches lack changes from before this leadership term. Nothing was written.
    #[error("the caches of Service {service} are behind the API server")]
    Behind { service: ObjectKey },
    #[error("compare the caches of Service {service} with the API server: {source}")]
    Check {
        service: ObjectKey,
        #[source]
        source: LiveError,
    },
    /// The slice is written, but the answer has no metadata.
    #[error("failed to read the written EndpointSlice of Service {service}: {source}")]
    Answer {
        service: ObjectKey,
        #[source]
        source: DecodeError,
    },
}

/// All failures of a sync, at least one.
#[derive(Debug)]
pub(super) struct SyncError(pub(super) Vec<Failure>);

impl fmt::Display for SyncError {
    /// One failure has its own text. Several are in brackets, and equal texts appear once.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut texts: Vec<String> = Vec::new();
        for failure in &self.0 {
            let text = failure.to_string();
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        match &texts[..] {
            [text] => f.write_str(text),
            texts => write!(f, "[{}]", texts.join(", ")),
        }
    }
}

impl Error for SyncError {
    /// The first failed request, or else the first failure.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        let with_request = self
            .0
            .iter()
            .find(|failure| ApiError::within(*failure).is_some());
        let failure = with_request.or(self.0.first())?;
        Some(failure)
    }
}

impl SyncError {
    /// Whether the sync has to wait for a cache.
    pub(super) fn is_behind(&self) -> bool {
        self.0
            .iter()
            .any(|failure| matches!(failure, Failure::Behind { .. }))
    }

    /// The treatment of the key. `failures` is the number of earlier failures in a row.
    pub(super) fn retry(&self, failures: u32) -> Retry {
        if self.is_behind() {
            Retry::After(CACHE_DELAY)
        } else if failures >= MAX_RETRIES {
            Retry::Drop
        } else {
            Retry::after_request(ApiError::within(self))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_joined_like_upstream() {
        let missing = |pod: &str| Failure::MissingNode {
            service: ObjectKey::new("ns", "web"),
            pod: pod.to_owned(),
            node: Sym::new("gone"),
        };
        let text =
            |pod: &str| format!("skipping Pod {pod} for Service ns/web: Node gone Not Found");
        // (pods, text)
        let cases = [
            (vec!["a"], text("a")),
            (vec!["a", "a"], text("a")),
            (
                vec!["a", "b", "a"],
                format!("[{}, {}]", text("a"), text("b")),
            ),
        ];
        for (pods, expected) in cases {
            let error = SyncError(pods.into_iter().map(missing).collect());
            assert_eq!(error.to_string(), expected);
            assert_eq!(
                (error.retry(14), error.retry(15)),
                (Retry::BackOff, Retry::Drop)
            );
        }
    }
}
