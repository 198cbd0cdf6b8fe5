//! The failures of a sync. Their texts are upstream's. Users see them in Events and in conditions, and alerts
//! match them; so a change of a word is a change of behaviour. The source of each error has its category for
//! the log.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use steersman_client::writes::StatusError;
use steersman_client::{ApiError, Decision};
use steersman_objects::DecodeError;

use super::evaluate::MetricError;
use super::rescale::TargetError;

/// The operation of a sync that failed. Each variant ends the sync, and the next one follows after one
/// period. Only `Metrics` and `Status` can come after a write of the size.
#[derive(Debug, thiserror::Error)]
pub(super) enum SyncError {
    /// `apiVersion` of the target is malformed.
    #[error("invalid API version in scale target reference: {0}")]
    ApiVersion(#[source] TargetError),
    /// The kind of the target is not served. A CRD that comes later mends it, so it counts as internal.
    #[error("unable to determine resource for scale target reference: {0}")]
    Kind(#[source] TargetError),
    /// The size of the target could not be read. The target may be missing, or its kind may lack the
    /// subresource.
    #[error("failed to query scale subresource for {reference}: {source}")]
    Scale {
        /// Kind, namespace and name of the target.
        reference: String,
        /// The read.
        #[source]
        source: TargetError,
    },
    /// The metrics propose no size. The size stays, and the status has the reason in `ScalingActive`.
    #[error(
        "failed to compute desired number of replicas based on listed metrics for {reference}: {source}"
    )]
    Compute {
        /// Kind, namespace and name of the target.
        reference: String,
        /// The metrics.
        #[source]
        source: ComputeError,
    },
    /// Some metrics could not be used; the others decided. As in upstream's `computeReplicasForMetrics`, the
    /// others may only enlarge the target.
    #[error("{0}")]
    Metrics(#[source] InvalidMetrics),
    /// The size of the target could not be written. `AbleToScale` is `False` until a later sync writes the
    /// size.
    #[error("failed to rescale {reference}: {source}")]
    Rescale {
        /// Kind, namespace and name of the target.
        reference: String,
        /// The write.
        #[source]
        source: ApiError,
    },
    /// The status could not be written. The size may have been written already. The next sync finds it, and
    /// needs no second write.
    #[error("failed to update status for {name}: {source}")]
    Status {
        /// Name of the autoscaler.
        name: Arc<str>,
        /// The write.
        #[source]
        source: StatusError,
    },
    /// The answer to the write of the status is no object.
    #[error("{0}")]
    Answer(#[source] DecodeError),
}

impl SyncError {
    /// Whether the spec of the autoscaler is at fault, for the label `error` of the metrics. Upstream wraps `errSpec` for
    /// a malformed `apiVersion`, and for an unknown type of metric. Up to 1.36 it loses the latter when it formats the
    /// errors of all metrics; `wraps_errors` is false then.
    pub(super) fn is_of_spec(&self, wraps_errors: bool) -> bool {
        let invalid = match self {
            Self::ApiVersion(_) => return true,
            Self::Metrics(invalid)
            | Self::Compute {
                source: ComputeError::Metrics(invalid),
                ..
            } => invalid,
            _ => return false,
        };
        let first = invalid.first.as_ref();
        wraps_errors && first.is_some_and(|first| first.is_of_spec())
    }
}

/// The metrics propose no size. Upstream: the errors of `computeReplicasForMetrics` and
/// `validateAndParseSelector`.
#[derive(Debug, thiserror::Error)]
pub(super) enum ComputeError {
    /// The target has no selector. An empty selector matches each pod of the namespace, so upstream refuses
    /// it.
    #[error("selector is required")]
    NoSelector(#[source] Decision),
    /// Several autoscalers select the pods of the target. Up to 1.36 the error names all autoscalers, and
    /// later releases name two. The parts around the names differ, too. All of them stop, because each would
    /// take the replicas of the others for load.
    #[error("pods by selector {selector} are controlled by {relation} [{autoscalers}]{end}")]
    Ambiguous {
        /// The words before the autoscalers.
        relation: &'static str,
        /// The words after them.
        end: &'static str,
        /// The selector.
        selector: String,
        /// Namespaces and names.
        autoscalers: String,
        /// For the category of the error.
        #[source]
        decision: Decision,
    },
    /// Too many metrics could not be used. All metrics failed, or some failed and the others propose a
    /// smaller size.
    #[error("{0}")]
    Metrics(#[from] InvalidMetrics),
}

/// The decision to leave pods without a selector of their own alone. A decision is the source of an error
/// without a failed request, so that the log has a category.
const SELECTOR: Decision = Decision("selector_unusable");
/// The decision to leave a target without a metric alone.
static NO_METRIC: Decision = Decision("metrics_missing");

/// Metrics that could not be used.
#[derive(Debug)]
pub(super) struct InvalidMetrics {
    /// Number of these metrics.
    pub(super) bad: usize,
    /// Number of all metrics.
    pub(super) all: usize,
    /// The first failure; `None` for an autoscaler without metrics.
    pub(super) first: Option<Box<MetricError>>,
}

impl ComputeError {
    pub(super) fn no_selector() -> Self {
        Self::NoSelector(SELECTOR)
    }

    /// The error for `autoscalers`, which all select pods under `selector`, and which are two of many if
    /// `are_examples`. Up to 1.36, `are_examples` is false.
    pub(super) fn ambiguous(selector: String, autoscalers: String, are_examples: bool) -> Self {
        let (relation, end) = if are_examples {
            ("more than one HPA (e.g.", ")")
        } else {
            ("multiple HPAs:", "")
        };
        Self::Ambiguous {
            relation,
            end,
            selector,
            autoscalers,
            decision: SELECTOR,
        }
    }
}

impl fmt::Display for InvalidMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bad, all, first } = self;
        write!(f, "invalid metrics ({bad} invalid out of {all})")?;
        match first {
            Some(first) => write!(f, ", first error is: {first}"),
            None => Ok(()),
        }
    }
}

impl Error for InvalidMetrics {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.first {
            Some(first) => Some(&**first),
            // An autoscaler always has a metric after the API server's defaults. An empty list needs a client
            // that bypasses them.
            None => Some(&NO_METRIC),
        }
    }
}
