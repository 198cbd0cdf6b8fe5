//! Containers in the metrics of an autoscaler: one that no pod of the target has, or one without a request.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::Value;
use steersman_objects::Pod;
use steersman_values::labels::{Selector, WireSelector};
use steersman_values::resource::PODS;
use steersman_why::{Code, Doc, Reason, World};

use super::NAME;

/// The reasons of metrics of `doc` whose container neither `target`, in words `about`, nor a pod of it has.
pub(super) fn missing(world: &World, doc: &Doc, target: &Doc, about: &str) -> Vec<Reason> {
    let metrics = doc.items("/spec/metrics").iter().enumerate();
    let of_container = metrics.filter(|(_, metric)| metric["type"] == "ContainerResource");
    let found = of_container.filter_map(|(index, metric)| {
        let source = &metric["containerResource"];
        let container = source["container"].as_str()?;
        let known = containers(world, target)?;
        if known.contains(container) {
            return None;
        }
        let known = known.iter().map(String::as_str).collect::<Vec<_>>();
        let message = format!(
            "no pod of {about} has the container {container:?} of the metric {} (ContainerResource); the containers are {}",
            source["name"].as_str().unwrap_or_default(),
            known.join(", ")
        );
        let who = format!(
            "owner of the autoscaler (spec.metrics[{index}].containerResource.container)"
        );
        Some(Reason::new(Code::MetricsFailed, NAME, message).who(who))
    });
    found.collect()
}

/// The containers of the template of `target` and of its pods, to which admission may add some. `None` without pods,
/// and if they may not be read.
fn containers(world: &World, target: &Doc) -> Option<BTreeSet<String>> {
    let pods = pods(world, target)?;
    let template = target.at("/spec/template/spec")?;
    let specs = pods.iter().filter_map(|pod| pod.at("/spec"));
    let specs = specs.chain([template]);
    (!pods.is_empty()).then(|| specs.flat_map(names).collect())
}

/// The pods that the selector of `target` matches. `None` if they are unread or may not be read.
pub(super) fn pods<'w>(world: &'w World, target: &Doc) -> Option<Vec<&'w Doc>> {
    let wire = WireSelector::deserialize(target.at("/spec/selector")?).ok()?;
    let selector = Selector::parse(Some(&wire)).ok()?;
    let mut pods = world.within(&PODS, target.namespace())?;
    pods.retain(|pod| {
        let view = pod.view::<Pod>();
        view.is_some_and(|pod| selector.matches(&pod.meta.labels))
    });
    Some(pods)
}

/// The containers of a pod that run beside each other.
fn names(spec: &Value) -> BTreeSet<String> {
    let list = |field: &str| spec[field].as_array().into_iter().flatten();
    let sidecars = list("initContainers").filter(|one| one["restartPolicy"] == "Always");
    let all = list("containers").chain(sidecars);
    all.filter_map(|one| one["name"].as_str().map(str::to_owned))
        .collect()
}

/// The people that can set the request that `message` misses in a container of `target`.
pub(super) fn who_requests(target: Option<&Doc>, message: &str, about: &str) -> String {
    let container = message
        .split_once("in container ")
        .and_then(|(_, rest)| rest.split_whitespace().next());
    let spec = target.and_then(|target| target.at("/spec/template/spec"));
    match (container, spec) {
        (Some(container), Some(spec)) if !names(spec).contains(container) => format!(
            "operator of the admission that adds container {container} (its resources.requests), or owner of the autoscaler \
             (type ContainerResource)"
        ),
        (Some(container), _) => {
            format!("owner of {about} (set resources.requests of container {container})")
        }
        (None, _) => format!("owner of {about} (set resources.requests of its containers)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_missing_request_is_set_where_the_container_comes_from() {
        let target = Doc::new(json!({"spec": {"template": {"spec": {
            "containers": [{"name": "main"}],
            "initContainers": [{"name": "proxy", "restartPolicy": "Always"}, {"name": "setup"}],
        }}}}));
        let who = |message: &str, target: Option<&Doc>| {
            who_requests(target, message, "Deployment shop/web")
        };
        let missing =
            |name: &str| format!("missing request for cpu in container {name} of Pod web-1");
        let own = "owner of Deployment shop/web (set resources.requests of container main)";
        assert_eq!(who(&missing("main"), Some(&target)), own);
        assert_eq!(who(&missing("main"), None), own);
        assert!(who(&missing("proxy"), Some(&target)).starts_with("owner of Deployment"));
        assert!(who(&missing("injected"), Some(&target)).starts_with("operator of the admission"));
    }
}
