//! The custom metrics API: metrics of pods and of other objects.
//!
//! Upstream: `k8s.io/metrics/pkg/client/custom_metrics`.
//!
//! Metrics of pods are one list for all pods of a selector. Metrics of an object are a list with one entry.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;
use steersman_client::discovery::{RestMapper, discover, split_api_version};
use steersman_client::{ApiClient, ApiError, Query, Target};
use steersman_objects::CrossVersionReference;
use steersman_values::quantity::Quantity;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::super::pods::{Sample, Samples};
use super::{
    CustomError, Items, MISSING, MetricsApi, ReadError, at_least_one, decoded, group_resource,
    milli, query, time,
};

const API: &str = "custom";
const GROUP: &str = "custom.metrics.k8s.io";
/// Discovery of the versions.
const PATH: &str = "/apis/custom.metrics.k8s.io";
/// Versions that this client reads. They differ only in fields that it skips. The order is that of upstream's
/// `MetricVersions`.
const VERSIONS: [&str; 2] = ["v1beta2", "v1beta1"];
/// Window of a sample that has none. Upstream: `metricServerDefaultMetricWindow` in `metrics/client.go`.
const DEFAULT_WINDOW: Duration = Duration::from_secs(60);

/// The client of the custom metrics API.
pub(super) struct CustomMetrics {
    client: ApiClient,
    /// Time for which a version is kept: the sync period.
    period: Duration,
    kept: Mutex<Option<Kept>>,
}

/// The version in use. An adapter may be replaced while the manager runs, so the version expires.
struct Kept {
    since: Instant,
    version: Arc<str>,
    /// A request has been answered since the version was read, so its server was there.
    was_served: bool,
}

impl CustomMetrics {
    pub(super) fn new(client: ApiClient, period: Duration) -> Self {
        Self {
            client,
            period,
            kept: Mutex::default(),
        }
    }

    /// The version to use: the preferred one of the group if it is known, or else the first known
    /// one. Upstream reads all groups; the answer for one group is much smaller.
    async fn version(&self) -> Result<Arc<str>, ReadError> {
        // The lock is held during the request, so that concurrent syncs share one discovery.
        let mut kept = self.kept.lock().await;
        if let Some(known) = &*kept
            && known.since.elapsed() < self.period
        {
            return Ok(Arc::clone(&known.version));
        }
        let failed = |source| ReadError::Request { api: API, source };
        let answer = match self.client.get_path(PATH).await {
            // Only 404 means "not installed". Other failures are reported as they are, and nothing is kept.
            Err(error) if error.is_not_found() => {
                return Err(CustomError::NotRegistered(MISSING).into());
            }
            answer => answer.map_err(failed)?,
        };
        let group: Group = serde_json::from_slice(&answer).map_err(|source| {
            let request = format!("GET {PATH}");
            let source = source.into();
            failed(ApiError::Decode { request, source })
        })?;
        let version = group
            .version()
            .ok_or(CustomError::UnknownVersion(MISSING))?;
        *kept = Some(Kept {
            since: Instant::now(),
            version: Arc::clone(&version),
            was_served: false,
        });
        Ok(version)
    }

    /// Whether the version came from the discovery of a server that was down already. Upstream reads
    /// versions from the aggregated discovery, which leaves such versions out. That document is large,
    /// so it is read only for a version whose first request failed.
    ///
    /// So the texts are upstream's, which tell an absent adapter from a broken one.
    async fn was_down(&self) -> bool {
        let mut kept = self.kept.lock().await;
        // A server that has answered once was no leftover of discovery; its failure is a failure of the
        // request.
        if kept.as_ref().is_none_or(|known| known.was_served) {
            return false;
        }
        // Discovery itself failed, so the request's own error says more.
        let Ok(found) = discover(&self.client).await else {
            return false;
        };
        let mut groups = found.groups.iter().filter(|group| group.name == GROUP);
        let is_down = groups.all(|group| {
            let mut versions = group.versions.iter();
            versions.all(|(version, _)| !VERSIONS.contains(&&**version))
        });
        if is_down {
            *kept = None;
        }
        is_down
    }

    /// `plural`, `name` and `metric` are the last parts of the path. An empty `metric` is left out.
    async fn values(
        &self,
        namespace: &str,
        [plural, name, metric]: [&str; 3],
        query: &Query,
    ) -> Result<Vec<MetricValue>, ReadError> {
        let version = self.version().await?;
        let resource = group_resource(GROUP, &version, plural);
        let target = Target {
            resource: &resource,
            namespace: Some(namespace),
            // A metric of a namespace has the path `metrics/NAME`, in place of an object.
            name: Some(name),
            subresource: Some(metric).filter(|metric| !metric.is_empty()),
        };
        let answer = match self.client.list(target, query).await {
            Ok(answer) => answer,
            Err(source) => {
                if source.is_unavailable() && self.was_down().await {
                    return Err(CustomError::UnknownVersion(MISSING).into());
                }
                return Err(ReadError::Request { api: API, source });
            }
        };
        // The answer may also be malformed. It still proves that the server exists.
        if let Some(known) = &mut *self.kept.lock().await {
            known.was_served = true;
        }
        check_type(&decoded(API, target, &answer)?, &answer)?;
        let list: Items<MetricValue> = decoded(API, target, &answer)?;
        Ok(list.items)
    }
}

/// Refuses an `answer` of another type than a list of values. Upstream decodes the answers of this
/// API alone by their kind. Others decode any object with a list of items, and so does this program for them.
fn check_type(found: &TypeMeta, answer: &[u8]) -> Result<(), CustomError> {
    let missing = |field| CustomError::Untyped {
        field,
        answer: String::from_utf8_lossy(answer).into_owned(),
        decision: MISSING,
    };
    if found.kind.is_empty() {
        return Err(missing("Kind"));
    }
    // An API version of more than two parts counts as absent. Its text is in the error.
    let (group, version) = split_api_version(&found.api_version).unwrap_or_default();
    if version.is_empty() {
        return Err(missing("apiVersion"));
    }
    if found.kind == "MetricValueList" && group == GROUP && VERSIONS.contains(&version) {
        return Ok(());
    }
    Err(CustomError::OtherKind {
        kind: found.kind.clone(),
        version: found.api_version.clone(),
        decision: MISSING,
    })
}

impl MetricsApi {
    /// The metric of the pods that `selector` matches. A value without a window gets one minute, and a
    /// negative window is empty.
    pub(in super::super) async fn of_pods(
        &self,
        namespace: &str,
        selector: &str,
        metric: &str,
        metric_selector: &str,
    ) -> Result<Samples, ReadError> {
        let query = query(&[
            ("labelSelector", selector),
            ("metricLabelSelector", metric_selector),
        ]);
        let values = self.custom.values(namespace, ["pods", "*", metric], &query);
        let values = at_least_one(API, values.await?)?;
        // The last value wins if the adapter names a pod twice, as in upstream's map.
        let samples = values.into_iter().map(|value| {
            let seconds = value
                .window_seconds
                .map(|number| number.try_into().unwrap_or(0));
            let window = seconds.map(Duration::from_secs);
            let sample = Sample {
                value: milli(value.value),
                timestamp: time(value.timestamp),
                window: window.unwrap_or(DEFAULT_WINDOW),
            };
            (Arc::from(value.described_object.name), sample)
        });
        Ok(samples.collect())
    }

    /// The metric of `object`, in thousandths. As upstream, a Namespace stands for `namespace`. A reference
    /// cannot leave the namespace of its autoscaler. So the name of a Namespace is ignored.
    pub(in super::super) async fn of_object(
        &self,
        mapper: &RestMapper,
        namespace: &str,
        object: &CrossVersionReference,
        metric: &str,
        metric_selector: &str,
    ) -> Result<i64, ReadError> {
        // A malformed version of the reference means the core group, like in upstream's
        // `FromAPIVersionAndKind`.
        let group = split_api_version(&object.api_version).map_or("", |(group, _)| group);
        let query = query(&[("metricLabelSelector", metric_selector)]);
        let values = if object.kind == "Namespace" && group.is_empty() {
            let path = ["metrics", metric, ""];
            self.custom.values(namespace, path, &query).await?
        } else {
            // The version comes first, as upstream reports its failure first.
            self.custom.version().await?;
            let resource = mapper.resources(group, &object.kind).await;
            let resource = resource.map_err(|source| CustomError::Kind {
                kind: qualified(&object.kind, group),
                source,
            })?;
            let plural = resource
                .first()
                .map(ToString::to_string)
                .unwrap_or_default();
            let path = [&*plural, &*object.name, metric];
            self.custom.values(namespace, path, &query).await?
        };
        match &values[..] {
            [value] => Ok(milli(value.value)),
            several => Err(CustomError::Count(several.len(), MISSING).into()),
        }
    }
}

/// `Kind.group`, or only the kind for core. The form of Go's `GroupKind`.
fn qualified(kind: &str, group: &str) -> String {
    if group.is_empty() {
        kind.to_owned()
    } else {
        format!("{kind}.{group}")
    }
}

/// `APIGroup`. Only the names of versions matter.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Group {
    preferred_version: GroupVersion,
    versions: Vec<GroupVersion>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct GroupVersion {
    version: String,
}

impl Group {
    /// The server's preference comes first, even if `VERSIONS` has another order.
    fn version(&self) -> Option<Arc<str>> {
        let mut candidates = std::iter::once(&self.preferred_version).chain(&self.versions);
        let known = candidates.find(|known| VERSIONS.contains(&&*known.version))?;
        Some(Arc::from(&*known.version))
    }
}

/// The type of an answer.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct TypeMeta {
    kind: String,
    api_version: String,
}

/// `MetricValue` of both versions.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MetricValue {
    #[serde(default)]
    described_object: Described,
    timestamp: Option<Timestamp>,
    window_seconds: Option<i64>,
    value: Option<Quantity>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Described {
    name: String,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_missing_value_is_zero() {
        for (answer, expected) in [
            (json!({}), 0),
            (json!({"value": null}), 0),
            (json!({"value": "2"}), 2_000),
        ] {
            let value: MetricValue = serde_json::from_value(answer).unwrap();
            assert_eq!(milli(value.value), expected);
        }
    }

    #[test]
    fn only_lists_of_values_are_read() {
        let of = |kind: &str, version: &str| json!({"kind": kind, "apiVersion": version});
        let list = |version: &str| of("MetricValueList", version);
        let other = |kind: &str, version: &str| {
            format!(
                "no kind {kind:?} is registered for version {version:?} in scheme \"k8s.io/metrics/pkg/client/custom_metrics/scheme/register.go:36\""
            )
        };
        let untyped = json!({"items": []});
        let missing = |field: &str, answer: &serde_json::Value| {
            format!("Object '{field}' is missing in '{answer}'")
        };
        let without_version = list("");
        // (answer, error)
        let cases = [
            (list("custom.metrics.k8s.io/v1beta1"), None),
            (list("custom.metrics.k8s.io/v1beta2"), None),
            (untyped.clone(), Some(missing("Kind", &untyped))),
            (
                without_version.clone(),
                Some(missing("apiVersion", &without_version)),
            ),
            (of("PodList", "v1"), Some(other("PodList", "v1"))),
            (
                list("custom.metrics.k8s.io/v2"),
                Some(other("MetricValueList", "custom.metrics.k8s.io/v2")),
            ),
            (
                list("metrics.k8s.io/v1beta1"),
                Some(other("MetricValueList", "metrics.k8s.io/v1beta1")),
            ),
        ];
        for (answer, error) in cases {
            let text = answer.to_string();
            let found = serde_json::from_str(&text).unwrap();
            let result = check_type(&found, text.as_bytes());
            assert_eq!(result.err().map(|error| error.to_string()), error, "{text}");
        }
    }

    #[test]
    fn the_preferred_known_version_is_used() {
        // (preferred version, versions, used version)
        let cases: [(&str, &[&str], Option<&str>); 4] = [
            ("v1beta2", &["v1beta2", "v1beta1"], Some("v1beta2")),
            ("v1beta1", &["v1beta2", "v1beta1"], Some("v1beta1")),
            ("v2", &["v2", "v1beta1"], Some("v1beta1")),
            ("v2", &["v2"], None),
        ];
        for (preferred, versions, expected) in cases {
            let versions: Vec<_> = versions.iter().map(|v| json!({ "version": v })).collect();
            let group = json!({"preferredVersion": {"version": preferred}, "versions": versions});
            let group: Group = serde_json::from_value(group).unwrap();
            assert_eq!(group.version().as_deref(), expected);
        }
    }
}
