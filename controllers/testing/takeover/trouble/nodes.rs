//! Nodes that are not ready, silent, or without ranges and attached volumes.

use serde_json::{Value, json};

use super::super::budgets;
use super::super::nodes::{lease, node, pod};
use super::{CHANGED, Trouble, cluster_object, is_condition, merge, object};
use crate::testing::world::World;
use crate::{
    devicetainteviction, disruption, endpoint, endpointslice, nodeipam, nodelifecycle, podgc,
    tainteviction, ttl,
};

const NOT_READY: &[(&str, &str)] = &[("not-ready", "NoSchedule"), ("not-ready", "NoExecute")];

const REGISTERED: &str = "`monitorNodeHealth`: `knownNodeSet` is empty";

pub(super) fn troubles() -> Vec<Trouble> {
    vec![
        not_ready(),
        silent(),
        lost_zone(),
        all_silent(),
        budgets_violated(),
        ranges_exhausted(),
        tainted_device(),
        lost_pods(),
    ]
}

/// A node of a zone.
fn in_zone(number: u32, zone: &str) -> Value {
    let mut node = node(number, "True", "KubeletReady", &[]);
    node["metadata"]["labels"]["topology.kubernetes.io/zone"] = json!(zone);
    node
}

/// A ready pod of the Service `web` with an address. It stays on any node.
fn endpoint_of_web(number: u32, on: u32) -> Value {
    let mut pod = pod(
        &format!("web-{number}"),
        on,
        "True",
        json!([{"operator": "Exists"}]),
    );
    let ip = format!("10.0.0.{number}");
    merge(
        &mut pod,
        json!({
            "metadata": {"labels": {"app": "web"}},
            "status": {"podIP": ip, "podIPs": [{"ip": ip}]},
        }),
    );
    pod
}

fn web() -> Value {
    object(
        "v1",
        "Service",
        "web",
        json!({"spec": {
            "selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080, "protocol": "TCP"}],
            "clusterIP": "10.1.0.1", "clusterIPs": ["10.1.0.1"], "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack", "type": "ClusterIP",
        }}),
    )
}

/// The number of ready endpoints in all slices.
fn ready_endpoints(world: &World) -> usize {
    let slices = world.cluster.objects("endpointslices");
    let endpoints = slices
        .iter()
        .filter_map(|slice| slice["endpoints"].as_array())
        .flatten();
    endpoints
        .filter(|endpoint| endpoint["conditions"]["ready"] == true)
        .count()
}

fn has_taint(world: &World, name: &str, key: &str) -> bool {
    let node = world.find("nodes", name).unwrap();
    let taints = node["spec"]["taints"].as_array().cloned();
    let mut taints = taints.into_iter().flatten();
    taints.any(|taint| taint["effect"] == "NoExecute" && taint["key"] == key)
}

/// The kubelet of a node lives and reports `Ready=False`; its pods still answer.
fn not_ready() -> Trouble {
    let controllers = [
        nodelifecycle::DESCRIPTOR,
        tainteviction::DESCRIPTOR,
        endpointslice::DESCRIPTOR,
        endpoint::DESCRIPTOR,
        ttl::DESCRIPTOR,
    ];
    Trouble::new("a node reports that it is not ready", &controllers)
        .with([
            node(0, "True", "KubeletReady", &[]),
            node(1, "False", "KubeletNotReady", NOT_READY),
            lease(0),
            lease(1),
            web(),
        ])
        .with((1..=20).map(|number| endpoint_of_web(number, 1)))
        .living(&["node-0", "node-1"])
        .reached(|world| ready_endpoints(world) == 20)
        .listing("Event RegisteredNode", REGISTERED)
}

/// A kubelet falls silent: its pods are marked, and one of them waits for its toleration time.
fn silent() -> Trouble {
    let controllers = [
        nodelifecycle::DESCRIPTOR,
        tainteviction::DESCRIPTOR,
        endpointslice::DESCRIPTOR,
        endpoint::DESCRIPTOR,
    ];
    let waits = json!([{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}]);
    Trouble::new("a node is silent", &controllers)
        .with([
            node(0, "True", "KubeletReady", &[]),
            node(1, "True", "KubeletReady", &[]),
            lease(0),
            lease(1),
            web(),
            endpoint_of_web(1, 0),
            endpoint_of_web(2, 1),
            pod("waits", 1, "True", waits),
        ])
        .living(&["node-0"])
        .reached(|world| has_taint(world, "node-1", "node.kubernetes.io/unreachable"))
        .settled_after(30)
        .listing("Event RegisteredNode", REGISTERED)
}

/// The nodes of a zone fall silent, and get their taints one after another.
fn lost_zone() -> Trouble {
    let controllers = [nodelifecycle::DESCRIPTOR, tainteviction::DESCRIPTOR];
    Trouble::new("a zone is lost", &controllers)
        .with((0..3).map(|number| in_zone(number, "a")))
        .with((3..11).map(|number| in_zone(number, "b")))
        .with((0..11).map(lease))
        .with((3..11).map(|number| endpoint_of_web(number, number)))
        .living(&["node-0", "node-1", "node-2"])
        .reached(|world| {
            (3..11).any(|number| {
                let name = format!("node-{number}");
                has_taint(world, &name, "node.kubernetes.io/unreachable")
            })
        })
        .settled_after(15)
        .alike("patch /api/v1/nodes/")
        .listing("Event RegisteredNode", REGISTERED)
}

/// All kubelets are silent, so no node may get a NoExecute taint.
fn all_silent() -> Trouble {
    let controllers = [nodelifecycle::DESCRIPTOR, tainteviction::DESCRIPTOR];
    Trouble::new("all nodes are silent", &controllers)
        .with((0..3).map(|number| in_zone(number, "a")))
        .with((0..3).map(lease))
        .with([pod("web", 1, "True", json!([]))])
        .reached(|world| {
            is_condition(
                world,
                "nodes",
                "node-1",
                ("Ready", "Unknown", "NodeStatusUnknown"),
            )
        })
        .listing("Event RegisteredNode", REGISTERED)
}

/// Fewer pods are healthy than budgets ask for, and an evicted pod has not gone.
fn budgets_violated() -> Trouble {
    let mut set = object("apps/v1", "ReplicaSet", "set", json!({}));
    set["spec"] =
        json!({"replicas": 4, "selector": {"matchLabels": {"app": "set"}}, "template": {}});
    let mut pods = budgets::pods("set", 4, Some(&set));
    for pod in &mut pods[..3] {
        pod["status"]["conditions"][0]["status"] = json!("False");
    }
    let mut evicted = budgets::budget("two", 7, &json!({"minAvailable": 2}), [0, 2, 2, 2]);
    evicted["status"]["disruptedPods"] = json!({"two-0": "2026-11-21T02:59:30Z"});
    Trouble::new("budgets are violated", &[disruption::DESCRIPTOR])
        .with(pods)
        .with(budgets::pods("two", 2, None))
        .with(budgets::pods("alone", 2, None))
        .with([
            set,
            evicted,
            budgets::budget("set", 8, &json!({"maxUnavailable": "30%"}), [0, 0, 0, 0]),
            budgets::budget("alone", 9, &json!({"maxUnavailable": 1}), [0, 0, 0, 0]),
        ])
        .reached(|world| {
            let expected = ("DisruptionAllowed", "False", "InsufficientPods");
            is_condition(world, "poddisruptionbudgets", "set", expected)
                && world.find("poddisruptionbudgets", "set").unwrap()["status"]["currentHealthy"]
                    == 1
        })
        .settled_after(5)
        .listing(
            "Event UnmanagedPods",
            "`sync` sends it whenever a budget with such pods is synced",
        )
}

fn ranges_exhausted() -> Trouble {
    let node = |name: &str| cluster_object("v1", "Node", name, json!({}));
    Trouble::new("a node gets no range", &[nodeipam::DESCRIPTOR])
        .with(["a", "b", "c"].map(node))
        .configured(|context| {
            context
                .with_flag("allocate-node-cidrs", "true")
                .with_flag("cluster-cidr", "10.0.0.0/23")
        })
        .alike("Event CIDRNotAvailable Node ")
        .reached(|world| {
            world
                .event_counts()
                .keys()
                .any(|event| event.contains("CIDRNotAvailable"))
        })
}

/// A pod waits for its toleration time on a tainted device.
fn tainted_device() -> Trouble {
    let taint = json!({
        "key": "example.com/broken", "value": "x", "effect": "NoExecute", "timeAdded": CHANGED,
    });
    let slice = cluster_object(
        "resource.k8s.io/v1",
        "ResourceSlice",
        "slice",
        json!({"spec": {
            "driver": "d", "nodeName": "node-0", "devices": [{"name": "x", "taints": [taint]}],
            "pool": {"name": "p", "generation": 0, "resourceSliceCount": 1},
        }}),
    );
    let claim = |name: &str, tolerations: Value| {
        let device = json!({"request": "r", "driver": "d", "pool": "p", "device": "x", "tolerations": tolerations});
        object(
            "resource.k8s.io/v1",
            "ResourceClaim",
            name,
            json!({
                "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}},
                "status": {
                    "allocation": {"devices": {"results": [device]}},
                    "reservedFor": [{"resource": "pods", "name": name, "uid": format!("uid-of-Pod-{name}")}],
                },
            }),
        )
    };
    let user = |name: &str| {
        object(
            "v1",
            "Pod",
            name,
            json!({
                "metadata": {"finalizers": ["example.com/hold"]},
                "spec": {
                    "nodeName": "node-0", "containers": [{"name": "main", "image": "i"}],
                    "resourceClaims": [{"name": "r", "resourceClaimName": name}],
                },
                "status": {"phase": "Running"},
            }),
        )
    };
    let waits = json!([{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 900}]);
    Trouble::new("a device is tainted", &[devicetainteviction::DESCRIPTOR])
        .with([
            slice,
            claim("now", json!([])),
            claim("waits", waits),
            user("now"),
            user("waits"),
        ])
        .reached(|world| {
            world.find("pods", "now").unwrap()["metadata"]["deletionTimestamp"].is_string()
        })
}

/// Pods without a node, of an absent node and of a node that is out of service.
fn lost_pods() -> Trouble {
    let held = |mut pod: Value| {
        pod["metadata"]["finalizers"] = json!(["example.com/hold"]);
        pod
    };
    let mut out = node(
        1,
        "Unknown",
        "NodeStatusUnknown",
        &[("out-of-service", "NoExecute")],
    );
    out["spec"]["taints"][0]["value"] = json!("nodeshutdown");
    let mut leaving = held(pod("leaving", 1, "False", json!([])));
    leaving["metadata"]["deletionTimestamp"] = json!(CHANGED);
    leaving["metadata"]["deletionGracePeriodSeconds"] = json!(30);
    Trouble::new("pods lost their nodes", &[podgc::DESCRIPTOR])
        .with([
            node(0, "True", "KubeletReady", &[]),
            out,
            leaving,
            held(pod("orphan", 7, "True", json!([]))),
        ])
        .reached(|world| {
            world.find("pods", "orphan").unwrap()["metadata"]["deletionTimestamp"].is_string()
        })
}
