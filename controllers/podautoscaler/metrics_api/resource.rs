//! The resource metrics API: use of CPU, memory and other resources by containers.
//!
//! The answer has one entry per pod and container. A target in percent needs the requests of pods, too: see
//! `requests` in `pods.rs`.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;
use steersman_client::Target;
use steersman_options::duration::GoDuration;
use steersman_values::quantity::Quantity;

use super::super::pods::{Sample, Samples};
use super::{
    Items, MetricsApi, ReadError, at_least_one, group_resource, nullable, query, read, time,
};

impl MetricsApi {
    /// The use of `resource` by the pods that `selector` matches; `container` limits it to one
    /// container. Pods with an incomplete use are left out. Upstream: `GetResourceMetric`, with
    /// `getPodMetrics` and `getContainerMetrics`. Such a pod counts as missing later, which slows a change of
    /// the size.
    pub(in super::super) async fn resource(
        &self,
        namespace: &str,
        selector: &str,
        resource: &str,
        container: &str,
    ) -> Result<Samples, ReadError> {
        const API: &str = "resource";
        let pods = group_resource("metrics.k8s.io", "v1beta1", "pods");
        let target = Target {
            resource: &pods,
            namespace: Some(namespace),
            name: None,
            subresource: None,
        };
        let query = query(&[("labelSelector", selector)]);
        let list: Items<PodMetrics> = read(API, &self.resource, target, &query).await?;
        // Only a list without pods is a failure. Without this resource, all pods count as missing.
        let pods = at_least_one(API, list.items)?;
        let samples = pods.iter().filter_map(|pod| {
            let sample = Sample {
                value: pod.used(resource, container)?,
                timestamp: time(pod.timestamp),
                window: pod.window(),
            };
            Some((Arc::from(&*pod.metadata.name), sample))
        });
        Ok(samples.collect())
    }
}

/// `PodMetrics`. An absent time or window has Go's zero value.
#[derive(Deserialize)]
struct PodMetrics {
    metadata: Named,
    timestamp: Option<Timestamp>,
    #[serde(default, deserialize_with = "nullable")]
    window: String,
    #[serde(default, deserialize_with = "nullable")]
    containers: Vec<ContainerMetrics>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

#[derive(Deserialize)]
struct ContainerMetrics {
    name: String,
    #[serde(default, deserialize_with = "nullable")]
    usage: BTreeMap<String, Quantity>,
}

impl PodMetrics {
    /// The sum over all containers, or the use of one. `None` if a part is unknown: half of a pod would look
    /// idle.
    fn used(&self, resource: &str, container: &str) -> Option<i64> {
        let of = |container: &ContainerMetrics| {
            let used = container.usage.get(resource)?;
            Some(used.milli_value())
        };
        // Names of containers are unique, so the first match is the only one.
        if !container.is_empty() {
            let mut containers = self.containers.iter();
            return of(containers.find(|found| found.name == container)?);
        }
        // Without containers, the sum stays unknown rather than zero.
        let mut sum = None;
        for used in self.containers.iter().map(of) {
            sum = Some(used?.saturating_add(sum.unwrap_or(0)));
        }
        sum
    }

    /// The window; a malformed one is zero.
    fn window(&self) -> std::time::Duration {
        let window: Result<GoDuration, _> = self.window.parse();
        window.map_or(std::time::Duration::ZERO, GoDuration::to_std)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Upstream: `TestRESTClientPodCPU`, `TestRESTClientContainerCPU` and those without samples.
    #[test]
    fn a_use_is_complete_or_unknown() {
        let full = json!([{"name": "a", "usage": {"cpu": "250m", "memory": "1Ki"}}, {"name": "b", "usage": {"cpu": "1"}}]);
        // (containers, resource, container, thousandths)
        let cases = [
            (&full, "cpu", "", Some(1250)),
            (&full, "memory", "", None),
            (&full, "memory", "a", Some(1_024_000)),
            (&full, "memory", "b", None),
            (&full, "cpu", "c", None),
            (&Value::Array(Vec::new()), "cpu", "", None),
        ];
        for (containers, resource, container, expected) in cases {
            let pod = json!({"metadata": {"name": "p"}, "containers": containers, "window": "30s"});
            let pod: PodMetrics = serde_json::from_value(pod).unwrap();
            assert_eq!(
                pod.used(resource, container),
                expected,
                "{resource} of {container:?}"
            );
            assert_eq!(pod.window().as_secs(), 30);
        }
    }
}
