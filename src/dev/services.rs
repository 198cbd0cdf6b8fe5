//! Applied Services that select no pod, most often by a misspelled label.

use serde_json::Value;
use steersman_devcluster::DevCluster;
use steersman_devcluster::manifests::Manifest;

/// One line for each applied Service whose selector matches no pod.
pub(super) fn without_pods(cluster: &DevCluster, manifests: &[Manifest]) -> Vec<String> {
    let pods = cluster.objects("pods");
    let applied = manifests
        .iter()
        .filter(|manifest| manifest.kind() == "Service");
    let services = cluster.objects("services");
    let found = applied.filter_map(|manifest| {
        let is_it = |service: &&Value| {
            service["metadata"]["name"] == manifest.name()
                && service["metadata"]["namespace"] == manifest.namespace()
        };
        without_pod(services.iter().find(is_it)?, &pods)
    });
    found.collect()
}

/// The line about a Service that selects none of `pods`. A Service without a selector selects by
/// hand.
fn without_pod(service: &Value, pods: &[Value]) -> Option<String> {
    let selector = service["spec"]["selector"].as_object()?;
    let namespace = &service["metadata"]["namespace"];
    let is_selected = |pod: &Value| {
        pod["metadata"]["namespace"] == *namespace
            && selector
                .iter()
                .all(|(key, value)| pod["metadata"]["labels"].get(key) == Some(value))
    };
    if selector.is_empty() || pods.iter().any(is_selected) {
        return None;
    }
    let mut labels: Vec<String> = selector
        .iter()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    labels.sort();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let name = text(&service["metadata"]["name"]);
    Some(format!(
        "service {}/{name} selects no pod: none has the labels {}",
        text(namespace),
        labels.join(",")
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_service_that_selects_nothing_is_named() {
        let pod = |namespace: &str| json!({"metadata": {"namespace": namespace, "labels": {"app": "web", "tier": "front"}}});
        let service = |selector: Value| json!({"metadata": {"name": "web", "namespace": "default"}, "spec": {"selector": selector}});
        let line = "service default/web selects no pod: none has the labels app=web,tier=frontend";
        // (why, selector, namespace of the pod, line)
        let cases = [
            ("selected", json!({"app": "web"}), "default", None),
            (
                "misspelled",
                json!({"tier": "frontend", "app": "web"}),
                "default",
                Some(line),
            ),
            ("no selector", Value::Null, "default", None),
            (
                "another namespace",
                json!({"app": "web"}),
                "other",
                Some("service default/web selects no pod: none has the labels app=web"),
            ),
        ];
        for (why, selector, namespace, expected) in cases {
            let found = without_pod(&service(selector), &[pod(namespace)]);
            assert_eq!(found.as_deref(), expected, "{why}");
        }
    }
}
