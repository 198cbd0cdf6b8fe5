//! Services without a working network: refused slices, wrong Endpoints, ranges that are in use.

use serde_json::{Value, json};
use steersman_devcluster::faults::{Matcher, internal_error};

use super::{CHANGED, Trouble, cluster_object, is_condition, object};
use crate::{endpoint, endpointslice, endpointslicemirroring, servicecidrs};

pub(super) fn troubles() -> Vec<Trouble> {
    vec![refused(), mirrored(), range_in_use()]
}

fn service(name: &str, selector: Value) -> Value {
    object(
        "v1",
        "Service",
        name,
        json!({"spec": {
            "selector": selector, "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
            "clusterIP": "10.1.0.1", "clusterIPs": ["10.1.0.1"], "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack", "type": "ClusterIP",
        }}),
    )
}

fn pod(number: u32, node: &str) -> Value {
    let ip = format!("10.0.0.{number}");
    let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": CHANGED});
    object(
        "v1",
        "Pod",
        &format!("web-{number}"),
        json!({
            "metadata": {"labels": {"app": "web"}},
            "spec": {"nodeName": node, "containers": [{"name": "main", "image": "i"}]},
            "status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}], "conditions": [ready]},
        }),
    )
}

/// The API server refuses slices and Endpoints. A second Service has a pod on an absent node.
fn refused() -> Trouble {
    let controllers = [endpointslice::DESCRIPTOR, endpoint::DESCRIPTOR];
    Trouble::new("slices are refused", &controllers)
        .with([
            cluster_object("v1", "Node", "node", json!({})),
            service("web", json!({"app": "web"})),
            pod(1, "node"),
            pod(2, "absent"),
        ])
        .refusing(Matcher::new("create", "endpointslices"), internal_error())
        .refusing(Matcher::new("create", "endpoints"), internal_error())
        .reached(|world| !world.event_counts().is_empty())
}

/// Endpoints with an address that slices skip, and refused slices of other Endpoints.
fn mirrored() -> Trouble {
    let endpoints = |name: &str, addresses: Value| {
        object(
            "v1",
            "Endpoints",
            name,
            json!({"subsets": [{
                "addresses": addresses, "ports": [{"name": "p", "port": 1, "protocol": "TCP"}],
            }]}),
        )
    };
    Trouble::new(
        "mirrored slices are refused",
        &[endpointslicemirroring::DESCRIPTOR],
    )
    .with([
        service("odd", Value::Null),
        endpoints("odd", json!([{"ip": "192.0.2.1"}, {"ip": "none"}])),
        service("refused", Value::Null),
        endpoints("refused", json!([{"ip": "192.0.2.2"}])),
    ])
    .refusing(Matcher::new("create", "endpointslices"), internal_error())
    .reached(|world| !world.event_counts().is_empty())
}

/// A deleted ServiceCIDR still has addresses.
fn range_in_use() -> Trouble {
    let range = cluster_object(
        "networking.k8s.io/v1",
        "ServiceCIDR",
        "extra",
        json!({
            "metadata": {
                "deletionTimestamp": CHANGED, "deletionGracePeriodSeconds": 0,
                "finalizers": ["networking.k8s.io/service-cidr-finalizer"],
            },
            "spec": {"cidrs": ["10.2.0.0/24"]},
        }),
    );
    let address = cluster_object(
        "networking.k8s.io/v1",
        "IPAddress",
        "10.2.0.1",
        json!({
            "metadata": {"labels": {
                "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
                "ipaddress.kubernetes.io/ip-family": "IPv4",
            }},
            "spec": {"parentRef": {"resource": "services", "namespace": "default", "name": "web"}},
        }),
    );
    Trouble::new("a range is in use", &[servicecidrs::DESCRIPTOR])
        .with([range, address])
        .reached(|world| {
            is_condition(
                world,
                "servicecidrs",
                "extra",
                ("Ready", "False", "Terminating"),
            )
        })
}
