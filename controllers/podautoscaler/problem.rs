//! Reasons for which no size follows from the samples of a metric.

use std::sync::Arc;

use steersman_client::Decision;

/// A size could not be computed from the samples.
#[derive(Debug, thiserror::Error)]
#[error("{problem}")]
pub(super) struct CalculationError {
    problem: Problem,
    #[source]
    decision: Decision,
}

/// The decision to propose no size.
const UNUSABLE: Decision = Decision("metrics_unusable");

impl From<Problem> for CalculationError {
    fn from(problem: Problem) -> Self {
        Self {
            problem,
            decision: UNUSABLE,
        }
    }
}

/// The cause of a [`CalculationError`]. Users see these texts in Events and conditions.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Problem {
    /// The selector matches no pod.
    #[error("no pods returned by selector while calculating replica count")]
    NoPods,
    /// No sample is left.
    #[error("did not receive metrics for targeted pods (pods might be unready)")]
    NoSamples,
    /// All samples are of other pods.
    #[error("no metrics returned matched known pods")]
    OtherPods,
    /// The base of a ratio is unknown.
    #[error("unable to calculate ready pods: {0}")]
    ReadyPods(Box<Self>),
    /// A container requests nothing of the resource.
    #[error("missing request for {resource} in container {container} of Pod {pod}")]
    Request {
        /// The resource.
        resource: String,
        /// The container.
        container: String,
        /// The pod.
        pod: Arc<str>,
    },
    /// A pod with requests as a whole requests nothing of the resource.
    #[error("missing pod-level request for {resource} in Pod {pod}")]
    PodRequest {
        /// The resource.
        resource: String,
        /// The pod.
        pod: Arc<str>,
    },
    /// A pod lacks the container.
    #[error("container {container} not found in Pod {pod}")]
    NoContainer {
        /// The container.
        container: String,
        /// The pod.
        pod: Arc<str>,
    },
}
