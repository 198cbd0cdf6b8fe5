//! The failures of a sync. A sync collects them, and continues where upstream does.

use std::collections::HashSet;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

use steersman_client::ApiError;
use steersman_helpers::endpointslice::SliceWriteError;
use steersman_objects::ObjectKey;
use steersman_runtime::consistency::{RECHECK, Unconfirmed};
use steersman_runtime::workers::Retry;
use steersman_values::intern::Sym;

/// Failures in a row after which a Service is dropped until the next event. The last retries are
/// 1000 s apart. Upstream: `maxRetries`.
const MAX_RETRIES: u32 = 15;

/// A sync that failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum SyncError {
    /// The API server does not confirm the caches of a new leader. Nothing was written. Upstream
    /// has no such check.
    #[error("compare the caches of Service {service} with the API server: {source}")]
    Check {
        service: ObjectKey,
        #[source]
        source: Unconfirmed,
    },
    /// Parts of the sync failed.
    #[error("{0}")]
    Failed(#[source] Failures),
}

/// All failures of a sync, at least one.
#[derive(Debug)]
pub(super) struct Failures(pub(super) Vec<Failure>);

/// One failure. The texts are upstream's.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// A pod is left out, because its node is not in the cache.
    #[error("skipping Pod {pod} for Service {service}: Node {node} Not Found")]
    MissingNode {
        service: ObjectKey,
        pod: Arc<str>,
        node: Sym,
    },
    /// A slice of an address type of the Service.
    #[error("{0}")]
    Write(#[source] SliceWriteError),
    /// The slice has an address type that the Service lacks.
    #[error("error deleting {slice} EndpointSlice for Service {service}: {source}")]
    DeleteOtherType {
        service: ObjectKey,
        slice: String,
        #[source]
        source: ApiError,
    },
}

impl fmt::Display for Failures {
    /// One failure has its own text. Several are in brackets, and equal texts appear once.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Upstream's aggregate of errors drops repeated texts too. Both families miss the same
        // nodes, so each `MissingNode` comes twice with the same text.
        let mut known = HashSet::new();
        let texts: Vec<String> = self.0.iter().map(Failure::to_string).collect();
        let distinct: Vec<&str> = texts
            .iter()
            .map(String::as_str)
            .filter(|text| known.insert(*text))
            .collect();
        match &distinct[..] {
            [text] => f.write_str(text),
            texts => write!(f, "[{}]", texts.join(", ")),
        }
    }
}

impl Error for Failures {
    /// The first failed request, or else the first failure. Only a request tells the worker how to
    /// retry; a missing node does not.
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
    /// Whether the sync only has to wait for the caches.
    pub(super) fn is_stale(&self) -> bool {
        matches!(
            self,
            Self::Check {
                source: Unconfirmed::Stale,
                ..
            }
        )
    }

    /// The treatment of the key. `failures` is the number of earlier failures in a row. A stale
    /// cache is no failure of the Service. Its check comes before the count, so that such a Service
    /// is never dropped. Upstream counts its stale caches, and drops the Service after 15 tries.
    pub(super) fn retry(&self, failures: u32) -> Retry {
        if self.is_stale() {
            Retry::After(RECHECK)
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
            pod: pod.into(),
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
            let failures = Failures(pods.into_iter().map(missing).collect());
            let error = SyncError::Failed(failures);
            assert_eq!(error.to_string(), expected);
            assert_eq!(
                (error.retry(14), error.retry(15)),
                (Retry::BackOff, Retry::Drop)
            );
        }
    }
}
