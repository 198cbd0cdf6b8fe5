//! The rules of EndpointSlices, and a rule of Endpoints and EndpointSlices.

use serde_json::Value;

use super::{is_active, is_ready};
use crate::history::{Change, State, key_of};
use crate::scenario::{FinalRule, Rule};

/// The EndpointSlice controller removes no address of a pod that has been ready and selected for a
/// while.
pub const NO_MISSING_ENDPOINT: Rule = Rule {
    name: "an endpoint stays while its pod is ready",
    check: no_missing_endpoint,
};

/// In the end, Endpoints and slices have the addresses of all ready pods of their Service, and no
/// address of a pod that is gone, or of an earlier pod of its name.
pub const EXACT_ENDPOINTS: FinalRule = FinalRule {
    name: "Endpoints and slices have the pods of their Service",
    check: exact_endpoints,
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

fn exact_endpoints(state: &State) -> Result<(), String> {
    let all = [
        (
            "endpoints",
            subset_addresses as fn(&Value) -> Vec<Address<'_>>,
        ),
        ("endpointslices", slice_addresses),
    ];
    for (plural, addresses) in all {
        for object in state.all(plural) {
            for address in addresses(object) {
                if !state.all("pods").any(|pod| address.is_of(pod)) {
                    let key = key_of(object);
                    return Err(format!("{key} has {address:?}, which no pod has"));
                }
            }
        }
        // A scenario runs one of the two controllers.
        if state.all(plural).next().is_none() {
            continue;
        }
        for service in state.all("services") {
            let of_service = |object: &&Value| match plural {
                "endpoints" => key_of(object) == key_of(service),
                _ => object["metadata"]["labels"][SERVICE] == service["metadata"]["name"],
            };
            let objects = state.all(plural).filter(of_service);
            let listed: Vec<Address<'_>> = objects.flat_map(addresses).collect();
            let serves = |pod: &&Value| {
                selects(service, pod) && is_active(pod) && is_ready(pod) && has_address(pod)
            };
            let mut ready = state.all("pods").filter(serves);
            if let Some(pod) = ready.find(|pod| !listed.iter().any(|one| one.is_of(pod))) {
                let service = key_of(service);
                let pod = key_of(pod);
                return Err(format!("the {plural} of {service} lack {pod}"));
            }
        }
    }
    Ok(())
}

/// An address of a pod: name and UID of the pod, and the IP.
#[derive(Debug)]
struct Address<'a> {
    pod: &'a Value,
    uid: &'a Value,
    ip: &'a Value,
}

impl Address<'_> {
    fn is_of(&self, pod: &Value) -> bool {
        let metadata = &pod["metadata"];
        let ips = pod["status"]["podIPs"].as_array();
        metadata["name"] == *self.pod
            && metadata["uid"] == *self.uid
            && ips.is_some_and(|ips| ips.iter().any(|one| one["ip"] == *self.ip))
    }
}

fn subset_addresses(endpoints: &Value) -> Vec<Address<'_>> {
    let subsets = endpoints["subsets"].as_array().into_iter().flatten();
    let lists = subsets.flat_map(|subset| [&subset["addresses"], &subset["notReadyAddresses"]]);
    let addresses = lists.filter_map(|list| list.as_array()).flatten();
    addresses
        .map(|address| Address {
            pod: &address["targetRef"]["name"],
            uid: &address["targetRef"]["uid"],
            ip: &address["ip"],
        })
        .collect()
}

fn slice_addresses(slice: &Value) -> Vec<Address<'_>> {
    let endpoints = slice["endpoints"].as_array().into_iter().flatten();
    endpoints
        .flat_map(|endpoint| {
            let addresses = endpoint["addresses"].as_array().into_iter().flatten();
            addresses.map(|ip| Address {
                pod: &endpoint["targetRef"]["name"],
                uid: &endpoint["targetRef"]["uid"],
                ip,
            })
        })
        .collect()
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

    use super::super::tests::{check, object, put, with};
    use super::*;
    use crate::history::ChangeKind;

    #[test]
    fn final_endpoints_are_those_of_the_pods() {
        let pod = |uid: &str, status: &str| {
            let status = json!({
                "podIPs": [{"ip": "10.0.0.1"}], "conditions": [{"type": "Ready", "status": status}],
            });
            json!({"metadata": {"namespace": "default", "name": "a", "uid": uid, "labels": {"app": "web"}},
                   "status": status})
        };
        let target = |uid: &str| json!({"name": "a", "uid": uid});
        let subsets = |list: &str, uid: &str, ip: &str| {
            let addresses = json!([{"ip": ip, "targetRef": target(uid)}]);
            let web = object("web", json!({}));
            (
                "endpoints",
                with(web, "/subsets", json!([{list: addresses}])),
            )
        };
        let slice = |endpoints: Value| {
            let slice = json!({"metadata": {"name": "web-a", "labels": {SERVICE: "web"}}, "endpoints": endpoints});
            ("endpointslices", slice)
        };
        let endpoint = |uid: &str, ip: &str| json!([{"addresses": [ip], "targetRef": target(uid)}]);
        let ip = "10.0.0.1";
        let other = "10.0.0.2";
        let ready = Some(pod("a", "True"));
        let unready = Some(pod("a", "False"));
        // (why, pod, Endpoints or slice, kept)
        let cases = [
            ("listed", &ready, slice(endpoint("a", ip)), true),
            ("missing", &ready, slice(json!([])), false),
            ("missing and not ready", &unready, slice(json!([])), true),
            (
                "another address",
                &ready,
                slice(endpoint("a", other)),
                false,
            ),
            ("an earlier pod", &ready, slice(endpoint("old", ip)), false),
            ("gone", &None, slice(endpoint("a", ip)), false),
            ("listed", &ready, subsets("addresses", "a", ip), true),
            (
                "not ready",
                &unready,
                subsets("notReadyAddresses", "a", ip),
                true,
            ),
            (
                "missing",
                &ready,
                ("endpoints", object("web", json!({}))),
                false,
            ),
            (
                "another address",
                &ready,
                subsets("addresses", "a", other),
                false,
            ),
            (
                "an earlier pod",
                &ready,
                subsets("addresses", "old", ip),
                false,
            ),
            ("gone", &None, subsets("notReadyAddresses", "a", ip), false),
        ];
        for (why, pod, listed, kept) in cases {
            let mut state = State::default();
            let service = object("web", json!({"selector": {"app": "web"}}));
            let mut objects = vec![("services", service), listed];
            objects.extend(pod.clone().map(|pod| ("pods", pod)));
            for (plural, object) in objects {
                put(&mut state, plural, ChangeKind::Created, object, "");
            }
            let verdict = (EXACT_ENDPOINTS.check)(&state);
            assert_eq!(verdict.is_ok(), kept, "{why}: {verdict:?}");
        }
    }

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
