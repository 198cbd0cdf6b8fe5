//! `metrics.k8s.io`: the use of CPU and memory by pods and nodes, computed for each request.
//!
//! annotations of a running pod -> `usage` -> PodMetrics -> sum over the pods of a node -> NodeMetrics
//!
//! The annotation `simulate.steersman.dev/cpu` is the use of the first container, and
//! `simulate.steersman.dev/cpu.NAME` that of the container NAME; `memory` likewise. Containers without
//! an annotation are idle. A malformed value is a missing sample.
//!
//! Upstream: metrics-server, which a cluster serves through the aggregation layer.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use steersman_values::quantity::Quantity;

use super::read::Page;
use super::usage::value_at;
use super::{Answer, Call, Server, Verb};
use crate::kinds;
use crate::selectors::Selection;
use crate::status::Status;
use crate::store::Object;

/// Prefix of the annotations.
const PREFIX: &str = "simulate.steersman.dev/";
/// The resources with samples.
const RESOURCES: [&str; 2] = ["cpu", "memory"];
/// Time over which a sample was collected, as metrics-server reports it.
const WINDOW: &str = "15s";

impl Server {
    /// Serves the metrics APIs from now on, as a cluster with metrics-server and adapters does.
    pub fn serve_metrics(&self) {
        for row in kinds::metrics() {
            self.registry.add(row);
        }
    }

    /// Answers a GET or a list of PodMetrics or NodeMetrics.
    pub(super) fn resource_metrics(&self, verb: Verb, call: &Call<'_>) -> Result<Answer, Status> {
        let resource = call.target.resource();
        let now = self.clock.now();
        let selection = Selection::parse(
            resource,
            call.query.text("labelSelector"),
            call.query.text("fieldSelector"),
        )?;
        let selection = match verb {
            Verb::Get => selection.and_name(&call.target.name),
            _ => selection,
        };
        // Metrics have the names and labels of their pods and nodes.
        let selected = |plural: &str| {
            let mut objects = self.objects_in(plural, &call.target.namespace);
            objects.retain(|object| selection.matches(object));
            objects
        };
        let metrics: Vec<Value> = if resource.is("PodMetrics") {
            let pods = selected("pods");
            pods.iter()
                .filter_map(|pod| of_pod(&pod.to_value(), now))
                .collect()
        } else {
            let all = self.objects_in("pods", "");
            let samples: Vec<_> = all.iter().filter_map(|pod| sample(pod, now)).collect();
            let nodes = selected("nodes");
            nodes
                .iter()
                .map(|node| of_node(&node.to_value(), &samples, now))
                .collect()
        };
        let mut objects = metrics.into_iter().map(|value| {
            let text = |field: &str| value["metadata"][field].as_str().unwrap_or_default();
            let key = match text("namespace") {
                "" => text("name").to_owned(),
                namespace => format!("{namespace}/{}", text("name")),
            };
            Arc::new(Object::unstored(resource, &key, &value))
        });
        if verb == Verb::Get {
            let missing = || Status::not_found(resource.named(), &call.target.name);
            return objects
                .next()
                .map(|object| Answer::object(200, object))
                .ok_or_else(missing);
        }
        self.show_page(call, Page::unstored(objects.collect()))
    }

    /// The built-in objects of a plural resource in `namespace`; empty means all.
    pub(super) fn objects_in(&self, plural: &str, namespace: &str) -> Vec<Arc<Object>> {
        let prefix = match namespace {
            "" => String::new(),
            namespace => format!("{namespace}/"),
        };
        let found = self.registry.find_plural(plural);
        found.map_or_else(Vec::new, |entry| {
            entry.store.list(&self.revisions, &prefix).objects
        })
    }
}

/// The sample of a pod, with the name of its node.
fn sample(pod: &Object, now: Timestamp) -> Option<(Value, Value)> {
    let mut pod = pod.to_value();
    let metrics = of_pod(&pod, now)?;
    Some((pod["spec"]["nodeName"].take(), metrics))
}

/// PodMetrics of a running pod; `None` for others.
fn of_pod(pod: &Value, now: Timestamp) -> Option<Value> {
    if pod["status"]["phase"] != "Running" {
        return None;
    }
    let sidecars = list(&pod["spec"]["initContainers"]);
    let sidecars = sidecars.filter(|container| container["restartPolicy"] == "Always");
    let containers = list(&pod["spec"]["containers"]).chain(sidecars);
    let usages = containers.enumerate().map(|(place, container)| {
        let name = container["name"].as_str().unwrap_or_default();
        json!({"name": name, "usage": usage(pod, place, name, now)})
    });
    let metadata = &pod["metadata"];
    Some(json!({
        "kind": "PodMetrics", "apiVersion": "metrics.k8s.io/v1beta1",
        "metadata": {
            "name": metadata["name"], "namespace": metadata["namespace"],
            "creationTimestamp": seconds(now), "labels": metadata["labels"],
        },
        "timestamp": seconds(now), "window": WINDOW, "containers": usages.collect::<Vec<_>>(),
    }))
}

/// The use of the container at `place` in the list of containers.
fn usage(pod: &Value, place: usize, name: &str, now: Timestamp) -> Map<String, Value> {
    let annotations = &pod["metadata"]["annotations"];
    let value = |resource: &str| {
        let own = &annotations[format!("{PREFIX}{resource}.{name}")];
        let first = &annotations[format!("{PREFIX}{resource}")];
        let text = own.as_str().or(first.as_str().filter(|_| place == 0));
        value_at(text.unwrap_or("0"), now)
    };
    let known = RESOURCES
        .iter()
        .filter_map(|resource| Some(((*resource).to_owned(), value(resource)?.canonical().into())));
    known.collect()
}

/// NodeMetrics: the sum over the samples of the node's pods, which come with the names of their
/// nodes.
fn of_node(node: &Value, samples: &[(Value, Value)], now: Timestamp) -> Value {
    let name = &node["metadata"]["name"];
    let sum = |resource: &str| {
        let here = samples.iter().filter(|(node, _)| node == name);
        let containers = here.flat_map(|(_, sample)| list(&sample["containers"]));
        let values = containers
            .filter_map(|container| Quantity::parse(container["usage"][resource].as_str()?));
        values.fold(Quantity::whole(0), Quantity::plus).canonical()
    };
    let usage = RESOURCES.map(|resource| (resource.to_owned(), Value::from(sum(resource))));
    json!({
        "kind": "NodeMetrics", "apiVersion": "metrics.k8s.io/v1beta1",
        "metadata": {
            "name": name, "creationTimestamp": seconds(now), "labels": node["metadata"]["labels"],
        },
        "timestamp": seconds(now), "window": WINDOW, "usage": Map::from_iter(usage),
    })
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// A time as the API prints it.
pub(super) fn seconds(time: Timestamp) -> String {
    steersman_values::clock::whole_seconds(time).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, phase: &str, annotations: Value) -> Value {
        let sidecar = json!({"name": "proxy", "restartPolicy": "Always"});
        json!({
            "metadata": {"name": name, "namespace": "ns", "labels": {"app": "web"}, "annotations": annotations},
            "spec": {"nodeName": "n", "containers": [{"name": "main"}, {"name": "side"}], "initContainers": [{"name": "init"}, sidecar]},
            "status": {"phase": phase},
        })
    }

    #[test]
    fn annotations_are_the_use_of_containers() {
        let now = Timestamp::from_second(30).unwrap();
        let annotations = json!({
            "simulate.steersman.dev/cpu": "100m..900m/60s", "simulate.steersman.dev/memory": "64Mi",
            "simulate.steersman.dev/cpu.side": "7m", "simulate.steersman.dev/memory.proxy": "a lot",
        });
        let running = pod("a", "Running", annotations);
        let found = of_pod(&running, now).unwrap();
        assert_eq!(
            found["containers"],
            json!([
                {"name": "main", "usage": {"cpu": "500m", "memory": "64Mi"}},
                {"name": "side", "usage": {"cpu": "7m", "memory": "0"}},
                {"name": "proxy", "usage": {"cpu": "0"}},
            ])
        );
        assert_eq!(found["timestamp"], "1970-01-01T00:00:30Z");
        assert_eq!(of_pod(&pod("b", "Pending", Value::Null), now), None);
        let node = json!({"metadata": {"name": "n"}});
        let sample = |node: &str| (json!(node), found.clone());
        let found = of_node(&node, &[sample("n"), sample("n"), sample("other")], now);
        assert_eq!(found["usage"], json!({"cpu": "1014m", "memory": "128Mi"}));
    }
}
