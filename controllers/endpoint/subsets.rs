//! The subsets of a Service: its pods with their addresses and ports, packed in upstream's order.
//!
//! A pod needs an address of the Service's first family, and at least one of its ports. Upstream: the
//! loop of `syncService`, `podToEndpointAddressForService`, `addEndpointSubset`.

use std::net::IpAddr;
use std::sync::Arc;

use steersman_helpers::endpointslice::{AddressType, PortOrder, addresses, pods, repack};
use steersman_objects::{EndpointAddress, EndpointPort, EndpointSubset, Pod, Service, TargetRef};
use steersman_values::intern::Sym;

/// True if this controller writes the Endpoints object of `service`. Without a selector, it belongs
/// to other clients. Upstream checks both in this order in `syncService`; see
/// kubernetes/kubernetes#105986 for the type.
pub(super) fn is_managed(service: &Service) -> bool {
    let spec = &service.spec;
    spec.service_type != *"ExternalName" && !spec.selector.is_empty()
}

/// The subsets of `service` with the pods `selected`, which its selector matches.
///
/// Terminating pods are left out, unless the Service publishes addresses that are not ready. Each
/// pod and port gives one subset; `repack` puts equal ones together.
pub(super) fn subsets(
    service: &Service,
    selected: &[Arc<Pod>],
    order: PortOrder,
) -> Vec<EndpointSubset> {
    let publishes_all = service.spec.publish_not_ready_addresses;
    let mut subsets = Vec::new();
    for pod in selected {
        if !pods::is_endpoint(pod, publishes_all) {
            continue;
        }
        let Some(address) = address(service, pod) else {
            tracing::debug!(pod = %pod.meta.name, "Failed to find endpoint for service on pod");
            continue;
        };
        let is_ready = publishes_all || pod.is_ready();
        subsets.extend(ports(service, pod).map(|port| {
            let address = vec![address.clone()];
            let port = port.into_iter().collect();
            let (addresses, not_ready_addresses) = if is_ready {
                (address, Vec::new())
            } else {
                (Vec::new(), address)
            };
            EndpointSubset {
                addresses,
                not_ready_addresses,
                ports: port,
            }
        }));
    }
    repack(&subsets, order)
}

/// The ports of `service` that `pod` has. A headless Service may have no ports; its only answer is
/// `None`. Other Services without ports stay empty.
fn ports(service: &Service, pod: &Pod) -> impl Iterator<Item = Option<EndpointPort>> {
    let is_headless = &*service.spec.cluster_ip == "None";
    let no_port = (service.spec.ports.is_empty() && is_headless).then_some(None);
    let ports = service.spec.ports.iter().filter_map(|port| {
        // A pod without the named port lacks this port alone.
        let number = pods::target_port(&pod.spec, port)?;
        Some(Some(EndpointPort {
            name: port.name.clone(),
            port: number,
            protocol: port.protocol.clone(),
            app_protocol: port.app_protocol.clone(),
        }))
    });
    ports.chain(no_port)
}

/// The address of `pod` in the family of `service`. `None` for a pod without one, such as a pod on
/// a node of a single family. An Endpoints object has one family, so a dual-stack Service publishes
/// its first.
fn address(service: &Service, pod: &Pod) -> Option<EndpointAddress> {
    let family = family(service, pod);
    let mut ips = pod.ips().filter_map(addresses::parse);
    let ip: IpAddr = ips.find(|ip| AddressType::of(*ip) == family)?;
    let meta = &pod.meta;
    let target = TargetRef::new(
        Sym::new("Pod"),
        meta.namespace.clone(),
        Arc::clone(&meta.name),
        meta.uid.clone(),
    );
    Some(EndpointAddress {
        ip: ip.to_string().into(),
        hostname: pods::hostname(pod, service).unwrap_or_default().into(),
        // As upstream: present also without a node, although the API server rejects an empty name.
        node_name: Some(pod.node.clone().unwrap_or_else(|| Sym::new(""))),
        target_ref: Some(target),
    })
}

/// The family of the addresses of `service`. Old Services lack `ipFamilies`. Then the cluster IP
/// decides, and for a headless Service the first address of the pod.
fn family(service: &Service, pod: &Pod) -> AddressType {
    if let Some(first) = service.spec.ip_families.first() {
        return match first.as_str() {
            "IPv6" => AddressType::IPv6,
            _ => AddressType::IPv4,
        };
    }
    let decisive = if service.is_headless() {
        pod.ips().next().and_then(addresses::parse)
    } else {
        addresses::parse(&service.spec.cluster_ip)
    };
    decisive.map_or(AddressType::IPv4, AddressType::of)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use steersman_objects::Object;

    use super::*;

    fn service(spec: Value) -> Service {
        let json = json!({"metadata": {"name": "foo", "namespace": "ns"}, "spec": spec});
        Service::decode(json.to_string().as_bytes()).unwrap()
    }

    fn pod(spec: Value, status: Value) -> Arc<Pod> {
        let json = json!({
            "metadata": {"name": "foo-pod", "namespace": "ns", "uid": "uid-1"},
            "spec": spec, "status": status,
        });
        Arc::new(Pod::decode(json.to_string().as_bytes()).unwrap())
    }

    /// Number of ready and of not ready addresses.
    fn counts(subsets: &[EndpointSubset]) -> (usize, usize) {
        subsets.iter().fold((0, 0), |(ready, not_ready), subset| {
            (
                ready + subset.addresses.len(),
                not_ready + subset.not_ready_addresses.len(),
            )
        })
    }

    #[test]
    fn sync_service_addresses() {
        // (phase, ready, terminating, publishes not ready addresses, (ready, not ready))
        let cases = [
            ("Running", true, false, false, (1, 0)),
            ("Running", true, true, false, (0, 0)),
            ("Unknown", true, false, false, (1, 0)),
            ("Unknown", true, true, false, (0, 0)),
            ("Pending", true, false, false, (1, 0)),
            ("Pending", true, true, false, (0, 0)),
            ("Unknown", false, false, false, (0, 1)),
            ("Pending", false, false, false, (0, 1)),
            ("Failed", false, false, false, (0, 0)),
            ("Succeeded", false, false, false, (0, 0)),
            ("Running", false, false, true, (1, 0)),
            ("Running", false, true, true, (1, 0)),
            ("Unknown", false, false, true, (1, 0)),
            ("Unknown", false, true, true, (1, 0)),
            ("Pending", false, false, true, (1, 0)),
            ("Pending", false, true, true, (1, 0)),
            ("Failed", false, false, true, (0, 0)),
            ("Succeeded", false, false, true, (0, 0)),
        ];
        for (phase, ready, terminating, publishes, expected) in cases {
            let service = service(json!({
                "publishNotReadyAddresses": publishes, "clusterIP": "1.1.1.1",
                "ports": [{"port": 80, "targetPort": 80}], "ipFamilies": ["IPv4"],
            }));
            let status = if ready { "True" } else { "False" };
            let json = json!({
                "metadata": {
                    "name": "fakepod", "namespace": "ns",
                    "deletionTimestamp": terminating.then_some("2026-01-02T03:04:05Z"),
                },
                "status": {
                    "phase": phase, "podIP": "10.1.1.1", "podIPs": [{"ip": "10.1.1.1"}],
                    "conditions": [{"type": "Ready", "status": status}],
                },
            });
            let pod = Arc::new(Pod::decode(json.to_string().as_bytes()).unwrap());
            let found = counts(&subsets(&service, &[pod], PortOrder::default()));
            assert_eq!(found, expected, "{phase} {ready} {terminating} {publishes}");
        }
    }

    /// Upstream: `TestPodToEndpointAddressForService`,
    /// `TestPodToEndpointAddressForServiceEmptyIPFamilies`.
    #[test]
    fn pod_to_endpoint_address_for_service() {
        // Leading zeros, as in upstream's cases.
        const V4: &str = "1.2.3.004";
        const V6: &str = "2000::0004";
        // (families of the Service, cluster IP, addresses of the pod, address)
        let cases: [(&[&str], &str, &[&str], Option<&str>); 14] = [
            (&["IPv4"], "10.0.0.1", &[V4], Some("1.2.3.4")),
            (&["IPv4"], "10.0.0.1", &[V4, V6], Some("1.2.3.4")),
            (&["IPv4"], "10.0.0.1", &[V6, V4], Some("1.2.3.4")),
            (&["IPv4"], "None", &[V4], Some("1.2.3.4")),
            (&["IPv4"], "None", &[V4, V6], Some("1.2.3.4")),
            (&["IPv6"], "3000::1", &[V4, V6], Some("2000::4")),
            (&["IPv6"], "None", &[V6], Some("2000::4")),
            (&["IPv6"], "None", &[V4, V6], Some("2000::4")),
            (&["IPv6"], "3000::1", &[V4], None),
            (&[], "10.0.0.1", &["10.244.0.1"], Some("10.244.0.1")),
            (&[], "fd00::1", &["fd00::10"], Some("fd00::10")),
            (&[], "10.0.0.1", &["fd00::10"], None),
            (&[], "None", &["10.244.0.1"], Some("10.244.0.1")),
            (&[], "None", &["fd00::10"], Some("fd00::10")),
        ];
        for (families, cluster_ip, ips, expected) in cases {
            let service = service(json!({"clusterIP": cluster_ip, "ipFamilies": families}));
            let ips: Vec<Value> = ips.iter().map(|ip| json!({"ip": ip})).collect();
            let pod = pod(json!({"nodeName": "node-1"}), json!({"podIPs": ips}));
            let found = address(&service, &pod);
            let ip = found.as_ref().map(|address| &*address.ip);
            assert_eq!(ip, expected, "{families:?} {cluster_ip} {ips:?}");
            let Some(found) = found else { continue };
            assert_eq!(found.node_name, Some(Sym::new("node-1")));
            let target = serde_json::to_value(&found.target_ref).unwrap();
            let expected = json!({
                "kind": "Pod", "namespace": "ns", "name": "foo-pod", "uid": "uid-1",
            });
            assert_eq!(target, expected);
        }
    }

    /// Upstream: `TestSyncServiceExternalNameType`, `TestSyncEndpointsItemsPreserveNoSelector`.
    #[test]
    fn services_without_selector_are_left_to_other_clients() {
        let selector = json!({"foo": "bar"});
        // (type, selector, managed)
        let cases = [
            ("ClusterIP", selector.clone(), true),
            ("LoadBalancer", selector.clone(), true),
            ("ClusterIP", Value::Null, false),
            ("ExternalName", selector, false),
            ("ExternalName", Value::Null, false),
        ];
        for (kind, selector, expected) in cases {
            let service = service(json!({"type": kind, "selector": selector}));
            assert_eq!(is_managed(&service), expected, "{kind}");
        }
    }

    /// Upstream: `TestEndpointPortFromServicePort`, `TestSyncEndpointsProtocol...`,
    /// `TestSyncEndpointsAddDeletePorts`.
    #[test]
    fn ports_that_a_pod_lacks_are_left_out() {
        let service = service(json!({"clusterIP": "1.1.1.1", "ports": [
            {"name": "a", "port": 80, "targetPort": 8080, "protocol": "TCP", "appProtocol": "HTTP"},
            {"name": "b", "port": 80, "targetPort": 8080, "protocol": "UDP"},
            {"name": "c", "port": 81, "targetPort": "web", "protocol": "SCTP"},
            {"name": "d", "port": 82, "targetPort": "web", "protocol": "TCP"},
        ]}));
        let port = json!({"name": "web", "containerPort": 100, "protocol": "SCTP"});
        let pod = pod(
            json!({"containers": [{"name": "c", "ports": [port]}]}),
            json!({}),
        );
        let found: Vec<Option<EndpointPort>> = ports(&service, &pod).collect();
        let expected = json!([
            {"name": "a", "port": 8080, "protocol": "TCP", "appProtocol": "HTTP"},
            {"name": "b", "port": 8080, "protocol": "UDP"},
            {"name": "c", "port": 100, "protocol": "SCTP"},
        ]);
        assert_eq!(serde_json::to_value(found).unwrap(), expected);
    }
}
