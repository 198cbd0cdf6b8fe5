//! Reads the three metrics APIs. Each has a client with a throttle of its own, as upstream's.
//!
//! Upstream: `pkg/controller/podautoscaler/metrics/client.go`.
//!
//! - `metrics.k8s.io`: use of CPU and memory, by metrics-server (`resource.rs`)
//! - `custom.metrics.k8s.io`: metrics of pods and objects, by an adapter (`custom.rs`)
//! - `external.metrics.k8s.io`: metrics from outside of the cluster, by an adapter (this file)
//!
//! All are aggregated APIs: another server answers behind the API server, and a broken one fails only its own
//! metrics.

mod custom;
mod resource;

use std::time::Duration;

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use steersman_client::discovery::MappingError;
use steersman_client::{ApiClient, ApiError, Decision, Query, Target};
use steersman_runtime::controller::ControllerContext;
use steersman_values::quantity::Quantity;
use steersman_values::resource::ResourceType;

use self::custom::CustomMetrics;
use super::IDENTITY;

/// A metric could not be read. Users see these texts in Events and conditions. Each variant concerns one
/// metric of one sync. The next sync asks again.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    /// A request failed, or its answer is malformed. The server of the API may be down; the API server then
    /// answers 503.
    #[error("unable to fetch metrics from {api} metrics API: {source}")]
    Request {
        /// `resource`, `custom` or `external`.
        api: &'static str,
        /// The request.
        #[source]
        source: ApiError,
    },
    /// The custom metrics API cannot have the metric.
    #[error("unable to fetch metrics from custom metrics API: {0}")]
    Custom(#[from] CustomError),
    /// The answer has no values. The API works, but it knows no value for the selected pods or labels.
    #[error("no metrics returned from {api} metrics API")]
    Empty {
        /// `resource`, `custom` or `external`.
        api: &'static str,
        /// For the category of the error.
        #[source]
        decision: Decision,
    },
}

/// The custom metrics API cannot have a metric.
#[derive(Debug, thiserror::Error)]
pub(super) enum CustomError {
    /// No such API is registered. No adapter is installed, so discovery answers 404.
    #[error("no custom metrics API (custom.metrics.k8s.io) registered")]
    NotRegistered(#[source] Decision),
    /// The API has other versions only: its adapter is newer, or it is down.
    #[error("no known available metric versions found")]
    UnknownVersion(#[source] Decision),
    /// The described object is of an unknown kind. Upstream's mapper makes the path of the request, so an
    /// unknown kind has no path.
    #[error("unable to map kind {kind} to resource: {source}")]
    Kind {
        /// Kind and group.
        kind: String,
        /// The mapping.
        #[source]
        source: MappingError,
    },
    /// The answer has no kind or no API version. Upstream decodes by the type in the answer, and this is the
    /// text of its decoder.
    #[error("Object '{field}' is missing in '{answer}'")]
    Untyped {
        /// `Kind` or `apiVersion`.
        field: &'static str,
        /// The answer as received.
        answer: String,
        /// For the category of the error.
        #[source]
        decision: Decision,
    },
    /// The answer is no list of values. Upstream names the place in its source, too.
    #[error("no kind {kind:?} is registered for version {version:?} in scheme {SCHEME:?}")]
    OtherKind {
        /// Kind of the answer.
        kind: String,
        /// API version of the answer.
        version: String,
        /// For the category of the error.
        #[source]
        decision: Decision,
    },
    /// The answer is about several objects, or none. A metric of one object has exactly one value. More than
    /// one comes from an adapter that ignores the name.
    #[error("the custom metrics API server returned {0} results when we asked for exactly one")]
    Count(usize, #[source] Decision),
}

/// The set of types that answers of the custom metrics API have, as upstream names it. The line number is
/// that of the release that this program equals; users see it in Events.
const SCHEME: &str = "k8s.io/metrics/pkg/client/custom_metrics/scheme/register.go:36";

/// The decision to propose no size without values.
const MISSING: Decision = Decision("metrics_missing");

/// The metrics APIs. They share no throttle: a slow adapter must not delay the metrics of resources.
pub(super) struct MetricsApi {
    resource: ApiClient,
    custom: CustomMetrics,
    external: ApiClient,
}

impl MetricsApi {
    /// The APIs with one client each. `period` is the time for which the version of the custom
    /// metrics API is kept. Upstream invalidates its cached version by a timer of one sync period, too.
    pub(super) fn new(ctx: &ControllerContext, period: Duration) -> Self {
        Self {
            resource: ctx.client(IDENTITY),
            custom: CustomMetrics::new(ctx.client(IDENTITY), period),
            external: ctx.client(IDENTITY),
        }
    }

    /// The values of an external metric in thousandths, at least one. `selector` is for labels of the
    /// metric. Several series may match. The caller adds them up, so their labels and times are skipped.
    pub(super) async fn external(
        &self,
        namespace: &str,
        metric: &str,
        selector: &str,
    ) -> Result<Vec<i64>, ReadError> {
        const API: &str = "external";
        let resource = group_resource("external.metrics.k8s.io", "v1beta1", metric);
        let target = Target {
            resource: &resource,
            namespace: Some(namespace),
            name: None,
            subresource: None,
        };
        let query = query(&[("labelSelector", selector)]);
        let list: Items<ExternalValue> = read(API, &self.external, target, &query).await?;
        let values = list.items.iter().map(|item| milli(item.value));
        at_least_one(API, values.collect())
    }
}

/// A list of any kind. A missing list is an empty one, as in Go. The kind is not checked, except for custom
/// metrics.
#[derive(Deserialize)]
#[serde(bound(deserialize = "T: Deserialize<'de>"))]
struct Items<T> {
    #[serde(default = "Vec::new", deserialize_with = "nullable")]
    items: Vec<T>,
}

/// Decodes `null` as the default value, as Go's JSON does.
fn nullable<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Only the value counts. Upstream reads the time as well, for its log.
#[derive(Deserialize)]
struct ExternalValue {
    value: Option<Quantity>,
}

/// A value in thousandths. As in Go, a missing one is zero.
fn milli(value: Option<Quantity>) -> i64 {
    value.map_or(0, Quantity::milli_value)
}

/// The time of a sample; a missing one is the earliest time, like Go's zero time.
fn time(served: Option<Timestamp>) -> Timestamp {
    served.unwrap_or(Timestamp::MIN)
}

/// A type for paths. They need the plural only, so the kind is empty; `plural` may be the name of a metric.
fn group_resource(group: &'static str, version: &str, plural: &str) -> ResourceType {
    ResourceType {
        group: group.into(),
        version: version.to_owned().into(),
        kind: "".into(),
        plural: plural.to_owned().into(),
        namespaced: true,
    }
}

/// The query with these parameters. Empty ones are left out.
fn query(parameters: &[(&'static str, &str)]) -> Query {
    parameters
        .iter()
        .fold(Query::default(), |query, (name, value)| {
            query.with_text(name, value)
        })
}

async fn read<T: DeserializeOwned>(
    api: &'static str,
    client: &ApiClient,
    target: Target<'_>,
    query: &Query,
) -> Result<T, ReadError> {
    let answer = client.list(target, query).await;
    let answer = answer.map_err(|source| ReadError::Request { api, source })?;
    decoded(api, target, &answer)
}

/// A malformed answer counts as a failed request, so that logs and retries treat both alike.
fn decoded<T: DeserializeOwned>(
    api: &'static str,
    target: Target<'_>,
    answer: &[u8],
) -> Result<T, ReadError> {
    serde_json::from_slice(answer).map_err(|source| {
        let request = format!("GET {}", target.resource);
        let source = source.into();
        ReadError::Request {
            api,
            source: ApiError::Decode { request, source },
        }
    })
}

/// An empty list has no mean. Zero as its value would shrink the target.
fn at_least_one<T>(api: &'static str, values: Vec<T>) -> Result<Vec<T>, ReadError> {
    if values.is_empty() {
        return Err(ReadError::Empty {
            api,
            decision: MISSING,
        });
    }
    Ok(values)
}
