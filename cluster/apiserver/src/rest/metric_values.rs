//! `custom.metrics.k8s.io` and `external.metrics.k8s.io`, from ConfigMaps.
//!
//! A ConfigMap with the label `simulate.steersman.dev/metrics` has values of metrics in `data`:
//!
//! | label | values of |
//! |---|---|
//! | `external` | external metrics in its namespace |
//! | `custom` | the object in its annotation `simulate.steersman.dev/object`, such as `services/web`, `ingresses.networking.k8s.io/main`, `namespaces/shop`, `pods/web-1`, or `pods/*` for all pods |
//!
//! The labels of the ConfigMap are those of its metrics. Values may be sawtooths, as those of pods.
//!
//! Upstream: adapters that implement `k8s.io/metrics/pkg/apis`.

use http::Response;
use serde_json::{Value, json};
use steersman_values::label_selector::LabelSelector;

use super::query::Query;
use super::resource_metrics::seconds;
use super::usage::value_at;
use super::{Body, Server, respond};
use crate::route::MetricPath;
use crate::status::Status;

/// The label that marks a ConfigMap.
const METRICS: &str = "simulate.steersman.dev/metrics";
/// The annotation that names the object of custom metrics.
const OBJECT: &str = "simulate.steersman.dev/object";
/// The name that means all pods.
const ALL: &str = "*";

impl Server {
    /// Answers a GET of values of a metric.
    pub(super) fn metric_values(
        &self,
        path: &MetricPath,
        query: &Query,
    ) -> Result<Response<Body>, Status> {
        let selector = |parameter: &str| {
            LabelSelector::parse(query.text(parameter)).map_err(Status::bad_request)
        };
        let list = if path.is_external() {
            self.external_values(path, &selector("labelSelector")?)
        } else {
            let of_metric = selector("metricLabelSelector")?;
            self.custom_values(path, &selector("labelSelector")?, &of_metric)?
        };
        Ok(respond(
            200,
            "application/json",
            Body::whole(list.to_string()),
        ))
    }

    /// The marked ConfigMaps of a namespace that the selector matches.
    fn metric_maps(&self, namespace: &str, mark: &str, selector: &LabelSelector) -> Vec<Value> {
        let maps = self.objects_in("configmaps", namespace);
        let maps = maps.iter().filter(|map| {
            map.label(METRICS) == Some(mark) && selector.matches(|key| map.label(key))
        });
        maps.map(|map| map.to_value()).collect()
    }

    fn external_values(&self, path: &MetricPath, selector: &LabelSelector) -> Value {
        let maps = self.metric_maps(&path.namespace, "external", selector);
        let items = maps.iter().filter_map(|map| {
            Some(json!({
                "metricName": path.metric, "metricLabels": map["metadata"]["labels"],
                "timestamp": seconds(self.clock.now()), "value": self.value(map, &path.metric)?,
            }))
        });
        list(path, "ExternalMetricValueList", items.collect())
    }

    fn custom_values(
        &self,
        path: &MetricPath,
        selector: &LabelSelector,
        of_metric: &LabelSelector,
    ) -> Result<Value, Status> {
        let maps = self.metric_maps(&path.namespace, "custom", of_metric);
        let objects: Vec<(String, &Value)> = maps
            .iter()
            .filter(|map| map["data"][&*path.metric].is_string())
            .filter_map(|map| {
                let (resource, name) = map["metadata"]["annotations"][OBJECT]
                    .as_str()?
                    .split_once('/')?;
                (resource == path.resource).then(|| (name.to_owned(), map))
            })
            .collect();
        let is_meant =
            |(name, _): &&(String, &Value)| path.name == ALL || *name == path.name || name == ALL;
        if !objects.iter().any(|object| is_meant(&object)) {
            let MetricPath {
                metric,
                resource,
                name,
                ..
            } = path;
            return Err(Status::new(
                404,
                "NotFound",
                format!("the server could not find the metric {metric} for {resource} {name}"),
            ));
        }
        let names: Vec<String> = if path.name == ALL {
            let pods = self.objects_in(&path.resource, &path.namespace);
            let selected = pods
                .iter()
                .filter(|pod| selector.matches(|key| pod.label(key)));
            selected.map(|pod| pod.name().to_owned()).collect()
        } else {
            vec![path.name.clone()]
        };
        let kind = self.kind_of(&path.resource);
        let items = names.iter().filter_map(|name| {
            let own = objects.iter().find(|(known, _)| known == name);
            let (_, map) = own.or(objects.iter().find(|(known, _)| known == ALL))?;
            Some(json!({
                "describedObject": {"kind": kind, "namespace": path.namespace, "name": name},
                "metric": {"name": path.metric}, "metricName": path.metric,
                "timestamp": seconds(self.clock.now()), "value": self.value(map, &path.metric)?,
            }))
        });
        Ok(list(path, "MetricValueList", items.collect()))
    }

    /// The value of a metric now; `None` for a malformed one.
    fn value(&self, map: &Value, metric: &str) -> Option<String> {
        let text = map["data"][metric].as_str()?;
        Some(value_at(text, self.clock.now())?.canonical())
    }

    /// The kind of `plural` or `plural.group`.
    fn kind_of(&self, resource: &str) -> String {
        let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
        let found = self.registry.find_in_group(group, plural);
        found.map_or_else(String::new, |row| row.resource.kind.to_string())
    }
}

fn list(path: &MetricPath, kind: &str, items: Vec<Value>) -> Value {
    json!({"kind": kind, "apiVersion": path.api_version, "metadata": {}, "items": items})
}
