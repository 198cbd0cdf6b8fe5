//! The pods of a target: which of them count, and their requests.
//!
//! Upstream: `groupPods` and `calculateRequests` in `replica_calculator.go`. A pod belongs to one group for
//! one metric only: the same pod may be ready for memory, and unready for CPU.
//!

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use steersman_helpers::scheduling::amounts::{self, is_of_pods};
use steersman_objects::{Phase, Pod};
use steersman_values::quantity::Quantity;

use super::config::{Config, Readiness};
use super::problem::{CalculationError, Problem};

/// The resource whose samples depend on the readiness of the pod.
const CPU: &str = "cpu";

/// The value of a metric for one pod. Upstream: `PodMetric` in `metrics/interfaces.go`. A sample that the
/// controller assumes has the earliest time and no window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sample {
    /// Thousandths of the unit. For CPU these are millicores, and for memory thousandths of a byte.
    pub(super) value: i64,
    /// End of the window.
    pub(super) timestamp: Timestamp,
    /// Time over which the value was collected.
    pub(super) window: Duration,
}

impl Sample {
    /// The assumed value of a pod without a sample.
    pub(super) fn assumed(value: i64) -> Self {
        Self {
            value,
            timestamp: Timestamp::MIN,
            window: Duration::ZERO,
        }
    }
}

/// Samples by the name of the pod.
pub(super) type Samples = BTreeMap<Arc<str>, Sample>;

/// Requests in thousandths by the name of the pod. A pod without the resource in its requests makes the whole
/// calculation fail, so each selected pod is here.
pub(super) type Requests = BTreeMap<Arc<str>, i64>;

/// The selected pods by their part in the calculation. Names are unique, since the pods are of one
/// namespace. It is the base of the proposal, rather than the size in the spec: samples describe these pods
/// only.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Groups {
    /// Number of pods whose samples count. They wait for a node or an image, or they still start by the rules
    /// of `is_unready`.
    pub(super) ready: usize,
    /// Pods that will serve later. They count as idle while the target grows. They count as busy while the
    /// target shrinks, and as idle while it grows. Both slow the change down.
    pub(super) unready: BTreeSet<Arc<str>>,
    /// Running pods without a sample. They terminate or have failed. Their samples are dropped.
    pub(super) missing: BTreeSet<Arc<str>>,
    /// Pods that end.
    pub(super) ignored: BTreeSet<Arc<str>>,
}

impl Groups {
    /// Groups the selected `pods` for a metric; an error without pods. `resource` is empty for metrics other than resources.
    ///
    /// Upstream: `groupPods`. The order decides: a pod that terminates is ignored even if it is ready, and a
    /// Pending one is unready even if it has a sample. Only CPU looks at readiness.
    pub(super) fn of(
        pods: &[Arc<Pod>],
        samples: &Samples,
        resource: &str,
        readiness: Readiness,
        now: Timestamp,
    ) -> Result<Self, CalculationError> {
        if pods.is_empty() {
            return Err(Problem::NoPods.into());
        }
        let mut groups = Self::default();
        for pod in pods {
            let name = Arc::clone(&pod.meta.name);
            if pod.meta.is_terminating() || pod.phase == Phase::Failed {
                groups.ignored.insert(name);
            } else if pod.phase == Phase::Pending {
                groups.unready.insert(name);
            } else {
                // As upstream, a Succeeded pod is treated like a Running one.
                match samples.get(&name) {
                    None => drop(groups.missing.insert(name)),
                    Some(sample) if resource == CPU && is_unready(pod, sample, readiness, now) => {
                        groups.unready.insert(name);
                    }
                    Some(_) => groups.ready += 1,
                }
            }
        }
        Ok(groups)
    }
}

/// Whether the CPU sample of a running pod says nothing about its later use: the pod starts, or it
/// has never been ready.
fn is_unready(pod: &Pod, sample: &Sample, readiness: Readiness, now: Timestamp) -> bool {
    // A pod lacks both until the kubelet has looked at it.
    let mut conditions = pod.conditions.iter();
    let Some(ready) = conditions.find(|condition| condition.kind == *"Ready") else {
        return true;
    };
    let Some(started) = pod.start_time.map(Timestamp::from) else {
        return true;
    };
    let is_false = ready.status == *"False";
    let changed = pod.ready.since.map_or(Timestamp::MIN, Timestamp::from);
    // In the first minutes, start-up work distorts the CPU. A sample counts once its whole window lies in the
    // ready time.
    if is_within(readiness.cpu_initialization, started, now) {
        is_false || is_within(sample.window, changed, sample.timestamp)
    } else {
        // Later, only a pod that was never ready is skipped. One that became unready under load is the reason
        // to grow.
        is_false && is_within(readiness.initial_delay, started, changed)
    }
}

/// Whether less than `span` lies between `since` and `time`. A clock of the node that is ahead makes the
/// difference negative, which counts as within.
fn is_within(span: Duration, since: Timestamp, time: Timestamp) -> bool {
    let span = SignedDuration::try_from(span).unwrap_or(SignedDuration::MAX);
    time.duration_since(since) < span
}

/// The requests of all pods for `resource`, in thousandths by the name of the pod. `container` limits
/// them to one container; empty means the whole pod.
///
/// Upstream: `calculateRequests`. A container of the autoscaler's metric has precedence over requests of the
/// pod as a whole.
pub(super) fn requests(
    pods: &[Arc<Pod>],
    container: &str,
    resource: &str,
    config: &Config,
) -> Result<Requests, CalculationError> {
    let request = |pod: &Arc<Pod>| {
        let has_pod_level = config.has_pod_level_resources;
        let of_pod = container.is_empty() && has_pod_level && is_of_pod_level(pod);
        let amount = if of_pod {
            // Overhead of the runtime class counts here, as in `PodRequests` of upstream's helpers.
            let all = amounts::requests(&pod.spec);
            let missing = || Problem::PodRequest {
                resource: resource.to_owned(),
                pod: Arc::clone(&pod.meta.name),
            };
            all.get(resource).ok_or_else(missing)?
        } else {
            match of_containers(pod, container, resource) {
                Err(Problem::NoContainer { .. }) if !config.requires_containers => 0,
                amount => amount?,
            }
        };
        Ok((Arc::clone(&pod.meta.name), amount))
    };
    pods.iter().map(request).collect()
}

/// Whether the pod as a whole requests a resource. Upstream: `IsPodLevelRequestsSet`.
fn is_of_pod_level(pod: &Pod) -> bool {
    let mut names = pod.spec.resources.requests.keys();
    names.any(|name| is_of_pods(name))
}

/// The sum over the containers and sidecars of a pod, or the request of one of them. Upstream:
/// `calculatePodRequestsFromContainers`. Other init containers have ended when samples count, so only
/// sidecars among them are included.
fn of_containers(pod: &Pod, container: &str, resource: &str) -> Result<i64, Problem> {
    let init_containers = pod.spec.init_containers.iter();
    let sidecars = init_containers.filter(|container| container.restarts_always());
    let mut chosen = pod
        .spec
        .containers
        .iter()
        .chain(sidecars)
        .filter(|found| container.is_empty() || found.name == *container)
        .peekable();
    // Names are unique in a pod, so the filter finds one container at most.
    if chosen.peek().is_none() && !container.is_empty() {
        return Err(Problem::NoContainer {
            container: container.to_owned(),
            pod: Arc::clone(&pod.meta.name),
        });
    }
    chosen.try_fold(0_i64, |sum, found| {
        // A request that is no quantity counts as missing. The API server admits none.
        let text = found.resources.requests.get(resource);
        let amount = text.and_then(|text| Quantity::parse(text));
        let amount = amount.ok_or_else(|| Problem::Request {
            resource: resource.to_owned(),
            container: found.name.to_string(),
            pod: Arc::clone(&pod.meta.name),
        })?;
        Ok(sum.saturating_add(amount.milli_value()))
    })
}
