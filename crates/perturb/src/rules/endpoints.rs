//! The rule of EndpointSlices.

use serde_json::Value;

use super::{is_active, is_ready};
use crate::history::{Change, State};
use crate::scenario::Rule;

/// The EndpointSlice controller removes no address of a pod that has been ready and selected for a
/// while.
pub const NO_MISSING_ENDPOINT: Rule = Rule {
    name: "an endpoint stays while its pod is ready",
    check: no_missing_endpoint,
};

const SERVICE: &str = "kubernetes.io/service-name";

fn no_missing_endpoint(state: &State, change: &Change) -> Result<(), String> {
    if &*change.plural != "endpointslices" || !change.is_by("endpointslice-controller") {
        return Ok(());
    }
    let Some(before) = change.before.as_deref() else {
        return Ok(());
    };
    let service = &before["metadata"]["labels"][SERVICE];
    let key = format!("default/{}", service.as_str().unwrap_or_default());
    let Some(owner) = state.get("services", &key) else {
        return Ok(());
    };
    let slices: Vec<&Value> = state
        .all("endpointslices")
        .filter(|slice| slice["metadata"]["labels"][SERVICE] == *service)
        .collect();
    for pod in targets(before) {
        let Some(current) = state.get("pods", &format!("default/{pod}")) else {
            continue;
        };
        let mut versions = state.recent_versions("pods", current);
        let mut selectors = state.recent_versions("services", owner);
        let is_serving = versions.all(|pod| is_active(pod) && is_ready(pod) && has_address(pod))
            && selectors.all(|owner| {
                let mut versions = state.recent_versions("pods", current);
                versions.all(|pod| selects(owner, pod))
            });
        if is_serving
            && !slices
                .iter()
                .any(|slice| targets(slice).any(|other| other == pod))
        {
            return Err(format!("{pod} is ready, and no slice has it"));
        }
    }
    Ok(())
}

/// The names of the pods behind the endpoints of `slice`.
fn targets(slice: &Value) -> impl Iterator<Item = &str> {
    let endpoints = slice["endpoints"].as_array().into_iter().flatten();
    endpoints.filter_map(|endpoint| endpoint["targetRef"]["name"].as_str())
}

fn has_address(pod: &Value) -> bool {
    pod["status"]["podIPs"]
        .as_array()
        .is_some_and(|ips| !ips.is_empty())
}

fn selects(service: &Value, pod: &Value) -> bool {
    let selector = service["spec"]["selector"].as_object();
    selector.is_some_and(|selector| {
        let labels = &pod["metadata"]["labels"];
        selector.iter().all(|(key, value)| labels[key] == *value)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{check, object, with};
    use super::*;
    use crate::history::ChangeKind;

    #[test]
    fn endpoints_of_ready_pods_stay() {
        let controller = "endpointslice-controller";
        let slice = |pods: &[&str]| {
            let endpoints: Vec<Value> = pods
                .iter()
                .map(|pod| json!({"targetRef": {"name": pod}}))
                .collect();
            let slice = with(
                object("web-a", json!({})),
                "/metadata/labels",
                json!({SERVICE: "web"}),
            );
            with(slice, "/endpoints", json!(endpoints))
        };
        let pod = |status: &str, app: &str| {
            let ready = json!({
                "podIPs": [{"ip": "10.0.0.1"}], "conditions": [{"type": "Ready", "status": status}],
            });
            let pod = with(
                object("a", json!({})),
                "/metadata/labels",
                json!({"app": app}),
            );
            with(pod, "/status", ready)
        };
        let world = |pod: Option<Value>| {
            let service = object("web", json!({"selector": {"app": "web"}}));
            let mut world = vec![("services", service), ("endpointslices", slice(&["a"]))];
            world.extend(pod.map(|pod| ("pods", pod)));
            world
        };
        let case = |why, pod, by, pods: &[&str], breaks| {
            (
                why,
                world(pod),
                by,
                "endpointslices",
                ChangeKind::Updated,
                slice(pods),
                breaks,
            )
        };
        check(
            NO_MISSING_ENDPOINT,
            [
                case("kept", Some(pod("True", "web")), controller, &["a"], false),
                case("removed", Some(pod("True", "web")), controller, &[], true),
                case(
                    "not ready",
                    Some(pod("False", "web")),
                    controller,
                    &[],
                    false,
                ),
                case(
                    "not selected",
                    Some(pod("True", "db")),
                    controller,
                    &[],
                    false,
                ),
                case("gone", None, controller, &[], false),
                case("by a user", Some(pod("True", "web")), "kubectl", &[], false),
            ],
        );
    }
}
