//!
//! They are no failures of requests: the metrics API has answered. Each ends the evaluation of one metric;
//! another metric may still decide the size.
//!
//! Upstream: the errors of `replica_calculator.go` and of `GetResourceUtilizationRatio` in
//! `metrics/utilization.go`.
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
    /// The target is at zero, or its pods have labels other than those of its selector.
    /// The selector matches no pod.
    #[error("no pods returned by selector while calculating replica count")]
    NoPods,
    /// All samples are of pods that end or are not ready yet. It is the usual state just after a start.
    /// No sample is left.
    #[error("did not receive metrics for targeted pods (pods might be unready)")]
    NoSamples,
    /// The sum of the requests is zero, so a division has no meaning. A pod that was created again has the
    /// same effect, if the API still has the old name only.
    /// All samples are of other pods.
    #[error("no metrics returned matched known pods")]
    OtherPods,
    /// Only metrics with one value for the whole target need this base.
    /// The base of a ratio is unknown.
    #[error("unable to calculate ready pods: {0}")]
    ReadyPods(Box<Self>),
    /// One container without a request spoils the whole metric: the percentage has no base. Upstream fails
    /// likewise, rather than count that container as zero.
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
    /// Requests of a pod as a whole replace those of its containers, also if they lack this resource.
    /// A pod with requests as a whole requests nothing of the resource.
    #[error("missing pod-level request for {resource} in Pod {pod}")]
    PodRequest {
        /// The resource.
        resource: String,
        /// The pod.
        pod: Arc<str>,
    },
    /// During a rollout that renames the container, the old pods have this error.
    /// A pod lacks the container.
    #[error("container {container} not found in Pod {pod}")]
    NoContainer {
        /// The container.
        container: String,
        /// The pod.
        pod: Arc<str>,
    },
}
