//! Reasons for which no size follows from the samples of a metric.
//!
//! They are no failures of requests: the metrics API has answered. Each ends the evaluation of one metric;
//! another metric may still decide the size.
//!
//! Upstream: the errors of `replica_calculator.go` and of `GetResourceUtilizationRatio` in
//! `metrics/utilization.go`.

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
    /// The selector matches no pod. The target is at zero, or its pods have labels other than those of its
    /// selector.
    #[error("no pods returned by selector while calculating replica count")]
    NoPods,
    /// No sample is left. All samples are of pods that end or are not ready yet. It is the usual state just
    /// after a start.
    #[error("did not receive metrics for targeted pods (pods might be unready)")]
    NoSamples,
    /// All samples are of other pods. The sum of the requests is zero, so a division has no meaning. A pod
    /// that was created again has the same effect, if the API still has the old name only.
    #[error("no metrics returned matched known pods")]
    OtherPods,
    /// The base of a ratio is unknown. Only metrics with one value for the whole target need this base.
    #[error("unable to calculate ready pods: {0}")]
    ReadyPods(Box<Self>),
    /// A container requests nothing of the resource. One container without a request spoils the whole metric:
    /// the percentage has no base. Upstream fails likewise, rather than count that container as zero.
    #[error("missing request for {resource} in container {container} of Pod {pod}")]
    Request {
        /// The resource.
        resource: String,
        /// The container.
        container: String,
        /// The pod.
        pod: Arc<str>,
    },
    /// A pod with requests as a whole requests nothing of the resource. Requests of a pod as a whole replace
    /// those of its containers, also if they lack this resource.
    #[error("missing pod-level request for {resource} in Pod {pod}")]
    PodRequest {
        /// The resource.
        resource: String,
        /// The pod.
        pod: Arc<str>,
    },
    /// A pod lacks the container. During a rollout that renames the container, the old pods have this error.
    #[error("container {container} not found in Pod {pod}")]
    NoContainer {
        /// The container.
        container: String,
        /// The pod.
        pod: Arc<str>,
    },
}
