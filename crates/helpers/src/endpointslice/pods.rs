//! The part of a pod in the endpoints of a Service: membership, ports and hostname.
//!
//! Upstream: `ShouldPodBeInEndpoints`, `ShouldSetHostname` and `FindPort` of
//! `k8s.io/endpointslice`.

use steersman_objects::{Container, ContainerPort, Pod, PodSpec, Service, ServicePort, TargetPort};

/// Whether `pod` is an endpoint of the Services that select it. `terminating` includes terminating
/// pods.
pub fn is_endpoint(pod: &Pod, terminating: bool) -> bool {
    !pod.is_finished() && pod.ips().next().is_some() && (terminating || !pod.meta.is_terminating())
}

/// The hostname of `pod` as an endpoint of `service`: set if the subdomain of the pod is the name of
/// the Service.
pub fn hostname<'a>(pod: &'a Pod, service: &Service) -> Option<&'a str> {
    let hostname = pod.hostname.as_deref().filter(|name| !name.is_empty())?;
    let is_in_domain = pod.spec.subdomain.as_deref() == Some(&service.meta.name)
        && pod.meta.namespace == service.meta.namespace;
    is_in_domain.then_some(hostname)
}

/// The number of the port of pods with `spec` behind a port of a Service. `None` if the port has a
/// name that no container of the pods has.
pub fn target_port(spec: &PodSpec, port: &ServicePort) -> Option<i32> {
    let name = match &port.target_port {
        TargetPort::Number(number) => return Some(*number),
        TargetPort::Name(name) => name,
    };
    declared_ports(spec)
        .filter(|found| found.name == *name && found.protocol == port.protocol)
        .map(|found| found.container_port)
        .next()
}

/// The ports that the containers of pods with `spec` declare, those of sidecars last.
pub fn declared_ports(spec: &PodSpec) -> impl Iterator<Item = &ContainerPort> {
    let sidecars = spec.init_containers.iter();
    let sidecars = sidecars.filter(|container| container.restarts_always());
    spec.containers.iter().chain(sidecars).flat_map(ports_of)
}

fn ports_of(container: &Container) -> impl Iterator<Item = &ContainerPort> {
    container.ports.iter()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use steersman_objects::Object;

    use super::*;

    fn pod(spec: &Value, status: &Value, deleted: bool) -> Pod {
        let mut pod =
            json!({"metadata": {"name": "a", "namespace": "ns"}, "spec": spec, "status": status});
        if deleted {
            pod["metadata"]["deletionTimestamp"] = json!("2026-01-02T03:04:05Z");
        }
        Pod::decode(pod.to_string().as_bytes()).unwrap()
    }

    fn service(namespace: &str, name: &str) -> Service {
        let json = json!({"metadata": {"name": name, "namespace": namespace}});
        Service::decode(json.to_string().as_bytes()).unwrap()
    }

    /// Upstream: `TestShouldPodBeInEndpoints`.
    #[test]
    fn pods_with_an_address_are_endpoints_until_they_finish() {
        let ip = json!([{"ip": "1.2.3.4"}]);
        // (upstream's case, phase, IPs, deleted, include terminating, is endpoint)
        let cases = [
            ("Failed pod with PodIP", "Failed", &ip, false, false, false),
            (
                "Failed pod with PodIP, terminating",
                "Failed",
                &ip,
                true,
                true,
                false,
            ),
            (
                "Succeeded pod with PodIP",
                "Succeeded",
                &ip,
                false,
                false,
                false,
            ),
            (
                "Succeeded pod, terminating",
                "Succeeded",
                &ip,
                true,
                true,
                false,
            ),
            (
                "Running pod without PodIP",
                "Running",
                &json!([]),
                false,
                false,
                false,
            ),
            ("Running pod with PodIP", "Running", &ip, false, false, true),
            (
                "Pending ready pod with PodIPs",
                "Pending",
                &ip,
                false,
                false,
                true,
            ),
            (
                "Unknown phase with PodIP",
                "Unknown",
                &ip,
                false,
                false,
                true,
            ),
            (
                "Running pod, terminating, not included",
                "Running",
                &ip,
                true,
                false,
                false,
            ),
            (
                "Running pod, terminating, included",
                "Running",
                &ip,
                true,
                true,
                true,
            ),
            (
                "Running pod without IP, terminating, included",
                "Running",
                &json!([]),
                true,
                true,
                false,
            ),
        ];
        for (case, phase, ips, deleted, terminating, expected) in cases {
            let pod = pod(&json!({}), &json!({"phase": phase, "podIPs": ips}), deleted);
            assert_eq!(is_endpoint(&pod, terminating), expected, "{case}");
        }
    }

    /// Upstream: `TestShouldSetHostname`.
    #[test]
    fn the_hostname_needs_the_subdomain_of_the_service() {
        // (upstream's case, spec, namespace and name of the Service, hostname)
        let matching = json!({"hostname": "h", "subdomain": "foo"});
        let cases = [
            ("all matching", &matching, ("ns", "foo"), Some("h")),
            (
                "all matching, hostname not set",
                &json!({"subdomain": "foo"}),
                ("ns", "foo"),
                None,
            ),
            (
                "hostname empty",
                &json!({"hostname": "", "subdomain": "foo"}),
                ("ns", "foo"),
                None,
            ),
            (
                "all set, different name/subdomain",
                &matching,
                ("ns", "bar"),
                None,
            ),
            (
                "all set, different namespace",
                &matching,
                ("other", "foo"),
                None,
            ),
        ];
        for (case, spec, (namespace, name), expected) in cases {
            let pod = pod(spec, &json!({}), false);
            assert_eq!(
                hostname(&pod, &service(namespace, name)),
                expected,
                "{case}"
            );
        }
    }

    /// Upstream: `TestFindPort`.
    #[test]
    fn ports_are_found_by_number_or_by_name_and_protocol() {
        let container = |name: &str, protocol: &str, port: i32| json!({"name": "c", "ports": [{"name": name, "protocol": protocol, "containerPort": port}]});
        let containers = |list: Vec<Value>| json!({ "containers": list });
        let init = |policy: &str, list: Vec<Value>| {
            let list: Vec<Value> = list
                .into_iter()
                .map(|mut container| {
                    if !policy.is_empty() {
                        container["restartPolicy"] = Value::from(policy);
                    }
                    container
                })
                .collect();
            json!({"containers": [container("other", "TCP", 1)], "initContainers": list})
        };
        let by_name = json!("p");
        // (upstream's case, spec, target port, number)
        let cases = [
            (
                "valid int, no ports",
                containers(vec![json!({"name": "c"})]),
                json!(93),
                Some(93),
            ),
            (
                "valid int, with ports",
                containers(vec![container("", "TCP", 11)]),
                json!(93),
                Some(93),
            ),
            (
                "valid str, no ports",
                containers(vec![json!({"name": "c"})]),
                by_name.clone(),
                None,
            ),
            (
                "valid str, one ctr with ports",
                containers(vec![container("p", "TCP", 22)]),
                by_name.clone(),
                Some(22),
            ),
            (
                "valid str, two ctr with ports",
                containers(vec![container("q", "UDP", 1), container("p", "TCP", 33)]),
                by_name.clone(),
                Some(33),
            ),
            (
                "valid str, protocol differs",
                containers(vec![container("p", "UDP", 22), container("q", "TCP", 1)]),
                by_name.clone(),
                None,
            ),
            (
                "valid str, same name, other protocol first",
                containers(vec![container("p", "UDP", 22), container("p", "TCP", 33)]),
                by_name.clone(),
                Some(33),
            ),
            (
                "sidecar",
                init("Always", vec![container("p", "TCP", 90)]),
                by_name.clone(),
                Some(90),
            ),
            (
                "init container that is no sidecar",
                init("", vec![container("p", "TCP", 90)]),
                by_name.clone(),
                None,
            ),
            (
                "init container with another policy",
                init("OnFailure", vec![container("p", "TCP", 90)]),
                by_name.clone(),
                None,
            ),
            (
                "port zero",
                containers(vec![container("p", "TCP", 22)]),
                Value::Null,
                Some(0),
            ),
        ];
        for (case, spec, target, expected) in cases {
            let json = json!({"protocol": "TCP", "port": 80, "targetPort": target});
            let port: ServicePort = serde_json::from_value(json).unwrap();
            let pod = pod(&spec, &json!({}), false);
            assert_eq!(target_port(&pod.spec, &port), expected, "{case}");
        }
    }
}
