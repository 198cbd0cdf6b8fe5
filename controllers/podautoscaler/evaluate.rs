//! One metric of an autoscaler: reads it, and computes the size that it proposes.
//!
//! metric -> metrics API, cached pods -> `replicas.rs` -> [`Evaluated`] or [`MetricError`]
//!
//! Upstream: `computeReplicasForMetric` and the functions that it calls in `horizontal.go`. Its texts
//! are reproduced with their oddities, since users and alerts read them.
//!
//! A failure of one metric is no failure of the sync. `sync.rs` decides with the metrics that remain.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use steersman_client::discovery::RestMapper;
use steersman_helpers::endpointslice::PodsByLabel;
use steersman_objects::{
    CrossVersionReference, ExternalMetric, HorizontalPodAutoscaler, MetricIdentifier, MetricSpec,
    MetricTarget, ObjectMetric, Pod, PodsMetric,
};
use steersman_values::label_selector::LabelSelector;
use steersman_values::labels::SelectorError;
use steersman_values::quantity::Quantity;

use super::config::Config;
use super::metrics_api::{MetricsApi, ReadError};
use super::pods::{Groups, Samples, requests};
use super::problem::CalculationError;
use super::replicas::{Proposal, Tolerances, by_ratio, by_share, by_utilization, by_value};
use super::status;

/// A metric that cannot be used. `Display` is the error of the sync. Upstream records the inner error in the
/// Event and the condition, and returns it with a prefix. So `cause` alone is the text for users, and
/// `Display` the text of the log.
#[derive(Debug, thiserror::Error)]
#[error("{prefix}{cause}")]
pub(super) struct MetricError {
    /// Reason of the Event and of the condition `ScalingActive`.
    pub(super) reason: &'static str,
    /// Words of upstream's callers, which differ between the types of metrics.
    prefix: String,
    /// The text of the Event and of the condition.
    #[source]
    pub(super) cause: Cause,
}

impl MetricError {
    /// Whether the spec of the autoscaler is at fault. Upstream wraps `errSpec` for an unknown type only. A
    /// missing target counts as internal, although the spec is at fault there as well.
    pub(super) fn is_of_spec(&self) -> bool {
        matches!(self.cause, Cause::UnknownType(_))
    }
}

/// The cause of a [`MetricError`].
#[derive(Debug, thiserror::Error)]
pub(super) enum Cause {
    /// The use of a resource is unknown. Both types of resource metrics have these words, a container's too.
    #[error("failed to get {resource} {measure}: {source}")]
    Resource {
        resource: String,
        measure: &'static str,
        #[source]
        source: ValueError,
    },
    /// The value of another metric is unknown. For metrics of pods, of objects, and external ones.
    #[error("{0}")]
    Value(#[from] ValueError),
    /// The selector of the metric is invalid. The API server validates it as well, so this needs an object
    /// from before that validation.
    #[error("{0}")]
    Selector(#[from] SelectorError),
    /// The metric has no target. Neither of the fields that the type of the target needs is set.
    #[error("{0}")]
    NoTarget(&'static str),
    /// The metric has an unknown type. A newer API server may have a type that this release lacks.
    #[error("unknown metric source type {0:?}")]
    UnknownType(String),
}

/// The value of a metric is unknown, or no size follows from it. The texts contain the words of the API
/// server that answers for the metrics API.
#[derive(Debug, thiserror::Error)]
pub(super) enum ValueError {
    #[error("unable to get metrics for resource {resource}: {source}")]
    Resource {
        resource: String,
        #[source]
        source: Box<ReadError>,
    },
    #[error("unable to get metric {metric}: {source}")]
    Pods {
        metric: String,
        #[source]
        source: Box<ReadError>,
    },
    #[error("unable to get metric {metric}{place}{source}")]
    Object {
        metric: String,
        /// The object, with the words around it.
        place: String,
        #[source]
        source: Box<ReadError>,
    },
    #[error("unable to get external metric {namespace}/{metric}/{selector}: {source}")]
    External {
        namespace: String,
        metric: String,
        selector: String,
        #[source]
        source: Box<ReadError>,
    },
    #[error("{0}")]
    Calculation(#[from] CalculationError),
}

/// The described object in the error about its metric. Up to 1.36, upstream's format has its arguments in another
/// order than its words.
fn place(object: &CrossVersionReference, namespace: &str, is_mended: bool) -> String {
    let CrossVersionReference { kind, name, .. } = object;
    if is_mended {
        format!(" on {kind} {namespace}/{name}: ")
    } else {
        format!(": {kind} on {namespace} {name}/")
    }
}

impl From<CalculationError> for Cause {
    fn from(error: CalculationError) -> Self {
        Self::Value(error.into())
    }
}

/// A metric that proposes a size.
#[derive(Debug)]
pub(super) struct Evaluated {
    /// The proposed size.
    pub(super) replicas: i32,
    /// The metric, as Events and conditions describe it.
    pub(super) name: String,
    /// The entry of the status.
    pub(super) status: Value,
}

/// The parts that every evaluation needs. They live as long as the controller; all else about one evaluation
/// is in [`Subject`].
pub(super) struct Sources {
    pub(super) api: MetricsApi,
    pub(super) mapper: RestMapper,
    pub(super) pods: PodsByLabel,
}

/// The target of an autoscaler, for the evaluation of its metrics. It is a snapshot of one sync, so all
/// metrics of an autoscaler are compared with the same sizes and pods.
pub(super) struct Subject<'a> {
    pub(super) sources: &'a Sources,
    pub(super) config: &'a Config,
    pub(super) hpa: &'a HorizontalPodAutoscaler,
    /// Wanted size of the target. `spec.replicas` of the scale. It is the size that metrics within the
    /// tolerance keep.
    pub(super) current: i32,
    /// Observed size of the target. `status.replicas` of the scale. It includes pods of a surge, and may lag
    /// behind `spec.replicas`.
    pub(super) observed: i32,
    /// Selector of the target's pods.
    pub(super) selector: &'a LabelSelector,
    pub(super) now: Timestamp,
}

impl Subject<'_> {
    /// Evaluates one metric. Promises the same order of checks as upstream, so that of several faults the
    /// same one is reported. The order of arms has no effect, since each needs its own `kind`.
    pub(super) async fn evaluate(&self, metric: &MetricSpec) -> Result<Evaluated, MetricError> {
        let failed = |reason, prefix: String| {
            move |cause| MetricError {
                reason,
                prefix,
                cause,
            }
        };
        // A type without its field has no arm of its own and is unknown. Upstream would panic; validation
        // excludes it.
        match metric {
            MetricSpec {
                kind,
                resource: Some(source),
                ..
            } if kind == "Resource" => {
                let name = &*source.name;
                let target = &source.target;
                let used = self.resource(name, "", target, "resource").await;
                let prefix = format!("failed to get {name} resource metric value: ");
                let found = used.map_err(failed("FailedGetResourceMetric", prefix))?;
                let status = status::resource(name, found.status);
                Ok(Evaluated { status, ..found })
            }
            MetricSpec {
                kind,
                container_resource: Some(source),
                ..
            } if kind == "ContainerResource" => {
                let name = &*source.name;
                let container = &*source.container;
                let used = self.resource(name, container, &source.target, "container resource");
                let prefix = format!("failed to get {container} container metric value: ");
                let found = used
                    .await
                    .map_err(failed("FailedGetContainerResourceMetric", prefix))?;
                let status = status::container_resource(name, container, found.status);
                Ok(Evaluated { status, ..found })
            }
            MetricSpec {
                kind,
                pods: Some(source),
                ..
            } if kind == "Pods" => {
                let prefix = "failed to get pods metric value: ".to_owned();
                let found = self.pods_metric(source).await;
                found.map_err(failed("FailedGetPodsMetric", prefix))
            }
            MetricSpec {
                kind,
                object: Some(source),
                ..
            } if kind == "Object" => {
                let mut prefix = "failed to get object metric value: ".to_owned();
                let found = self.object_metric(source).await;
                // Upstream adds its inner prefix to a failed read or calculation, and not to a failed
                // selector.
                let is_value = |error: &Cause| matches!(error, Cause::Value(_));
                if source.target.kind == "AverageValue" && found.as_ref().is_err_and(is_value) {
                    prefix = format!(
                        "{prefix}failed to get {} object metric: ",
                        source.metric.name
                    );
                }
                found.map_err(failed("FailedGetObjectMetric", prefix))
            }
            MetricSpec {
                kind,
                external: Some(source),
                ..
            } if kind == "External" => {
                let name = &source.metric.name;
                // Upstream's two branches have the same words in another order.
                let step = match source.target {
                    MetricTarget {
                        average_value: parsed,
                        ..
                    } if parsed.0.is_some() => format!("failed to get {name} external metric: "),
                    MetricTarget { value, .. } if value.0.is_some() => {
                        format!("failed to get external metric {name}: ")
                    }
                    _ => String::new(),
                };
                let prefix = format!("failed to get {name} external metric value: {step}");
                let found = self.external_metric(source).await;
                found.map_err(failed("FailedGetExternalMetric", prefix))
            }
            MetricSpec { kind, .. } => {
                let cause = Cause::UnknownType(kind.clone());
                Err(failed("InvalidMetricSourceType", String::new())(cause))
            }
        }
    }

    fn namespace(&self) -> &str {
        &self.hpa.meta.namespace
    }

    /// The selected pods, sorted by name. Reads the cache, which may lag behind the metrics API by a moment:
    /// a new pod may have a sample and be missing here.
    fn selected(&self) -> Vec<Arc<Pod>> {
        let pods = &self.sources.pods;
        pods.matching(self.namespace(), self.selector)
    }

    /// `resource` is empty for all metrics but those of resources; then readiness plays no part.
    fn groups(
        &self,
        pods: &[Arc<Pod>],
        samples: &Samples,
        resource: &str,
    ) -> Result<Groups, CalculationError> {
        Groups::of(pods, samples, resource, self.config.readiness, self.now)
    }

    /// Each direction has its own, and the flag is the default of both.
    fn tolerances(&self) -> Tolerances {
        let rules = self.hpa.spec.behavior.as_ref();
        let rules = rules.filter(|_| self.config.has_own_tolerances);
        Tolerances::of(rules, self.config.tolerance)
    }

    /// A resource of pods, or of one container. The entry of the status is only the current value. Upstream:
    /// `computeStatusForResourceMetricGeneric`. A target value per pod has precedence over a utilization,
    /// although validation admits one of them only.
    async fn resource(
        &self,
        resource: &str,
        container: &str,
        target: &MetricTarget,
        kind: &str,
    ) -> Result<Evaluated, Cause> {
        // Both types of resource metrics share this text; upstream has no other for containers.
        const NO_TARGET: &str = "invalid resource metric source: neither an average utilization target nor an average value (usage) target was set";
        let wants_value = target.average_value.0.is_some();
        if !wants_value && target.average_utilization.is_none() {
            return Err(Cause::NoTarget(NO_TARGET));
        }
        let used = self.resource_use(resource, container, target).await;
        let (replicas, current) = used.map_err(|source| Cause::Resource {
            resource: resource.to_owned(),
            measure: if wants_value { "usage" } else { "utilization" },
            source,
        })?;
        // For a value, upstream omits the word "container", also for the metric of a container.
        let name = if wants_value {
            format!("{resource} resource")
        } else {
            format!("{resource} {kind} utilization (percentage of request)")
        };
        Ok(Evaluated {
            replicas,
            name,
            status: current,
        })
    }

    /// The proposed size for the use of a resource, and its current value. The API comes before the pods, as
    /// upstream: with both at fault, the API's error is reported.
    async fn resource_use(
        &self,
        resource: &str,
        container: &str,
        target: &MetricTarget,
    ) -> Result<(i32, Value), ValueError> {
        let api = &self.sources.api;
        let selector = self.selector.to_string();
        let samples = api
            .resource(self.namespace(), &selector, resource, container)
            .await
            .map_err(|source| ValueError::Resource {
                resource: resource.to_owned(),
                source: source.into(),
            })?;
        let pods = self.selected();
        let groups = self.groups(&pods, &samples, resource)?;
        let current = self.current;
        let tolerances = self.tolerances();
        if let Some(value) = target.average_value.0 {
            let target = value.milli_value();
            let found = by_value(current, target, tolerances, &groups, samples)?;
            let is_binary = self.config.has_binary_suffixes;
            let value = status::of_resource(resource, found.value, is_binary);
            return Ok((found.replicas, value));
        }
        // The check above has excluded an absent target.
        let percent = target.average_utilization.unwrap_or_default();
        // Requests are read only after samples are found, as upstream: a missing request is reported last.
        let requests = || requests(&pods, container, resource, self.config);
        let found = by_utilization(current, percent, tolerances, &groups, samples, requests)?;
        let is_binary = self.config.has_binary_suffixes;
        let value = status::of_utilization(resource, found.value, is_binary);
        Ok((found.replicas, value))
    }

    /// Upstream: `computeStatusForPodsMetric`. The condition `Ready` of pods plays no part, since the
    /// resource is empty.
    async fn pods_metric(&self, source: &PodsMetric) -> Result<Evaluated, Cause> {
        let PodsMetric { metric, target } = source;
        let selector = self.selector.to_string();
        let of_metric = metric.query()?;
        let api = &self.sources.api;
        let samples = api
            .of_pods(self.namespace(), &selector, &metric.name, &of_metric)
            .await
            .map_err(|source| ValueError::Pods {
                metric: metric.name.clone(),
                source: source.into(),
            })?;
        let groups = self.groups(&self.selected(), &samples, "")?;
        // The API server demands a target; upstream would panic without one.
        let target = target.average_value.0.map_or(0, Quantity::milli_value);
        let found = by_value(self.current, target, self.tolerances(), &groups, samples)?;
        Ok(Evaluated {
            replicas: found.replicas,
            name: format!("pods metric {}", metric.name),
            status: status::pods(metric, status::current("averageValue", found.value)),
        })
    }

    /// Upstream: `computeStatusForObjectMetric`. The type of the target decides here, whereas external
    /// metrics look at the fields alone.
    async fn object_metric(&self, source: &ObjectMetric) -> Result<Evaluated, Cause> {
        const NO_TARGET: &str = "invalid object metric source: neither a value target nor an average value target was set";
        let ObjectMetric {
            described_object: object,
            metric,
            target,
        } = source;
        let of_metric = metric.query()?;
        let value = target.value.0;
        let average = target.average_value.0;
        let (target, is_share) = match (&*target.kind, value, average) {
            ("Value", Some(value), _) => (value.milli_value(), false),
            ("AverageValue", _, Some(average)) => (average.milli_value(), true),
            _ => return Err(Cause::NoTarget(NO_TARGET)),
        };
        let Sources { api, mapper, .. } = self.sources;
        let usage = api
            .of_object(mapper, self.namespace(), object, &metric.name, &of_metric)
            .await
            .map_err(|source| ValueError::Object {
                metric: metric.name.clone(),
                place: place(object, self.namespace(), self.config.wraps_errors),
                source: source.into(),
            })?;
        // The pods of the target are read only if the ratio leaves the tolerance.
        let (found, field) = self.sized(usage, target, is_share)?;
        let name = if is_share {
            // Upstream names it like an external metric.
            external_name(metric)
        } else {
            format!("{} metric {}", object.kind, metric.name)
        };
        Ok(Evaluated {
            replicas: found.replicas,
            name,
            status: status::object(object, metric, status::current(field, found.value)),
        })
    }

    /// Upstream: `computeStatusForExternalMetric`. A value per pod has precedence over a value of the whole
    /// target.
    async fn external_metric(&self, source: &ExternalMetric) -> Result<Evaluated, Cause> {
        const NO_TARGET: &str = "invalid external metric source: neither a value target nor an average value target was set";
        let ExternalMetric { metric, target } = source;
        let (target, is_share) = match (target.average_value.0, target.value.0) {
            (Some(average), _) => (average.milli_value(), true),
            (None, Some(value)) => (value.milli_value(), false),
            (None, None) => return Err(Cause::NoTarget(NO_TARGET)),
        };
        // The target is checked before the selector: upstream parses the selector in its calculator.
        let of_metric = metric.query()?;
        let api = &self.sources.api;
        let values = api
            .external(self.namespace(), &metric.name, &of_metric)
            .await
            .map_err(|source| ValueError::External {
                namespace: self.namespace().to_owned(),
                metric: metric.name.clone(),
                selector: metric.printed_selector(),
                source: source.into(),
            })?;
        let usage = if is_share {
            shared_usage(&values)
        } else {
            // Upstream caps positive overflows in `GetExternalMetricReplicas`; a negative sum stays negative,
            // unlike below.
            values.into_iter().fold(0, i64::saturating_add)
        };
        let (found, field) = self.sized(usage, target, is_share)?;
        Ok(Evaluated {
            replicas: found.replicas,
            name: external_name(metric),
            status: status::external(metric, status::current(field, found.value)),
        })
    }

    /// The proposal for one value, and the field of the status that shows the value. `is_share` is true for a
    /// target per pod: all pods share the value, so their number is the observed size.
    fn sized(
        &self,
        usage: i64,
        target: i64,
        is_share: bool,
    ) -> Result<(Proposal<i64>, &'static str), ValueError> {
        let tolerances = self.tolerances();
        if is_share {
            let found = by_share(self.current, self.observed, usage, target, tolerances);
            return Ok((found, "averageValue"));
        }
        let pods = || self.selected();
        let found = by_ratio(self.current, usage, target, tolerances, pods)?;
        Ok((found, "value"))
    }
}

/// The sum of the values of a metric that all pods share. As in upstream's
/// `GetExternalPerPodMetricReplicas`, a negative sum counts as an overflow.
fn shared_usage(values: &[i64]) -> i64 {
    // One negative step is enough, even if later values would lift the sum above zero.
    let add = |sum: i64, value: &i64| sum.checked_add(*value).filter(|sum| *sum >= 0);
    values.iter().try_fold(0, add).unwrap_or(i64::MAX)
}

/// The selector has Go's format of a struct, since upstream prints it by `%+v`.
fn external_name(metric: &MetricIdentifier) -> String {
    let selector = metric.printed_selector();
    format!("external metric {}({selector})", metric.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_negative_sum_of_shared_values_counts_as_an_overflow() {
        // (values, sum)
        let cases: [(&[i64], i64); 6] = [
            (&[], 0),
            (&[5, 7], 12),
            (&[-5], i64::MAX),
            (&[9, -5], 4),
            (&[5, -9, 30], i64::MAX),
            (&[i64::MAX, 1], i64::MAX),
        ];
        for (values, sum) in cases {
            assert_eq!(shared_usage(values), sum, "{values:?}");
        }
    }
}
