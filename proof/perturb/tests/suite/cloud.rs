//! Scenarios of the loops over a cloud provider, with the simulated cloud. Each process connects to a
//! cloud of its own. A later one finds addresses in the status of Services, and creates routes anew.

use serde_json::{Value, json};
use steersman_cloud::{lifecycle, route, service};
use steersman_devcluster::cloud::SimulatedCloud;
use steersman_perturb::{Change, Rule, Scenario, State, Step};

use crate::nodes::node_path;
use crate::objects::{
    BLANK, delete, has_condition, is_gone, patch, path, until_caches_are_current,
};

const SERVICE: Scenario = Scenario {
    controller: "service-lb",
    controllers: &[service::descriptor::<SimulatedCloud>()],
    rules: &[CLEANED_UP],
    ..BLANK
};

const ROUTE: Scenario = Scenario {
    controller: "node-route",
    controllers: &[route::descriptor::<SimulatedCloud>()],
    configure: |context| context.with_flag("cluster-cidr", "10.0.0.0/16"),
    ..BLANK
};

const LIFECYCLE: Scenario = Scenario {
    controller: "cloud-node-lifecycle",
    controllers: &[lifecycle::descriptor::<SimulatedCloud>()],
    rules: &[DELETED_MACHINE],
    ..BLANK
};

const FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";
const MACHINE: &str = "simulate.steersman.dev/cloud";
const SHUTDOWN: &str = "node.cloudprovider.kubernetes.io/shutdown";

const CLEANED_UP: Rule = Rule {
    name: "a Service with an address has the finalizer",
    check: |_, change| {
        let object = &change.object;
        let is_service = &*change.plural == "services" && change.is_by("service-controller");
        if !is_service || address(object).is_none() || has_finalizer(object) {
            return Ok(());
        }
        Err(format!("{} has an address only", change.key))
    },
};

const DELETED_MACHINE: Rule = Rule {
    name: "only a node that is not ready, and whose machine is deleted, is deleted",
    check: deleted_machine,
};

fn deleted_machine(state: &State, change: &Change) -> Result<(), String> {
    let is_deletion = &*change.plural == "nodes" && change.begins_deletion();
    let before = change.before.as_deref();
    let Some(node) = before.filter(|_| is_deletion && change.is_by("node-controller")) else {
        return Ok(());
    };
    let is_lost = |node: &Value| {
        node["metadata"]["annotations"][MACHINE] == "deleted"
            && !has_condition(node, "Ready", "True", "")
    };
    if state.recent_versions("nodes", node).any(is_lost) {
        return Ok(());
    }
    Err(format!("{} was deleted", change.key))
}

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "type-changes",
            steps: type_changes,
            ..SERVICE
        },
        Scenario {
            name: "deleted",
            steps: deleted,
            ..SERVICE
        },
        Scenario {
            name: "other-class",
            steps: other_class,
            ..SERVICE
        },
        Scenario {
            name: "nodes",
            steps: nodes_come_and_go,
            ..SERVICE
        },
        Scenario {
            name: "ports",
            steps: ports_change,
            ..SERVICE
        },
        Scenario {
            name: "edited",
            steps: edited,
            ..SERVICE
        },
        Scenario {
            name: "join",
            steps: join,
            ..ROUTE
        },
        Scenario {
            name: "late-range",
            steps: late_range,
            ..ROUTE
        },
        Scenario {
            name: "leave",
            steps: leave,
            ..ROUTE
        },
        Scenario {
            name: "swapped-ranges",
            steps: swapped_ranges,
            ..ROUTE
        },
        Scenario {
            name: "overwritten",
            steps: overwritten,
            ..ROUTE
        },
        Scenario {
            name: "status-replaced",
            steps: status_replaced,
            ..ROUTE
        },
        Scenario {
            name: "deleted",
            steps: machine_deleted,
            ..LIFECYCLE
        },
        Scenario {
            name: "shut-down",
            steps: shut_down,
            ..LIFECYCLE
        },
        Scenario {
            name: "ready-again",
            steps: ready_again,
            ..LIFECYCLE
        },
        Scenario {
            name: "recreated",
            steps: recreated,
            ..LIFECYCLE
        },
        Scenario {
            name: "all-lost",
            steps: all_lost,
            ..LIFECYCLE
        },
        Scenario {
            name: "shut-down-and-deleted",
            steps: shut_down_and_deleted,
            ..LIFECYCLE
        },
    ]
}

fn address(service: &Value) -> Option<&str> {
    service["status"]["loadBalancer"]["ingress"][0]["ip"].as_str()
}

fn has_finalizer(service: &Value) -> bool {
    let finalizers = service["metadata"]["finalizers"].as_array();
    finalizers.is_some_and(|all| all.iter().any(|finalizer| finalizer == FINALIZER))
}

fn web() -> Step {
    Step::Create(json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
    }))
}

fn set_type(kind: &str) -> Step {
    patch("services", "web", json!({"spec": {"type": kind}}))
}

/// Waits until the Service has an address, or has neither address nor finalizer.
fn served(expected: bool) -> Step {
    Step::until("served or cleaned up", move |state: &State| {
        let web = state.get("services", "default/web");
        web.is_some_and(|web| address(web).is_some() == expected && has_finalizer(web) == expected)
    })
}

fn type_changes() -> Vec<Step> {
    vec![
        web(),
        served(true),
        set_type("ClusterIP"),
        served(false),
        set_type("LoadBalancer"),
        served(true),
    ]
}

/// A Service of the same name follows the deleted one.
fn deleted() -> Vec<Step> {
    let remove = || delete("services", "web", json!({}));
    let gone = || is_gone("services", "default/web");
    vec![
        web(),
        served(true),
        remove(),
        gone(),
        web(),
        served(true),
        remove(),
        gone(),
    ]
}

/// A Service of another class is left to its own controller.
fn other_class() -> Vec<Step> {
    let other = Step::Create(json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "other"},
        "spec": {
            "type": "LoadBalancer", "loadBalancerClass": "example.com/other", "ports": [{"port": 80}],
        },
    }));
    let untouched = Step::until("the other Service is untouched", |state: &State| {
        let other = state.get("services", "default/other");
        other.is_some_and(|other| address(other).is_none() && !has_finalizer(other))
    });
    vec![
        other,
        web(),
        served(true),
        set_type("NodePort"),
        served(false),
        untouched,
    ]
}

/// Each change of the nodes updates all load balancers.
fn nodes_come_and_go() -> Vec<Step> {
    vec![
        node("a", None),
        report("a", "True"),
        web(),
        node("b", None),
        report("b", "True"),
        served(true),
        delete("nodes", "a", json!({})),
        report("b", "False"),
        until_caches_are_current(),
        served(true),
    ]
}

fn ports_change() -> Vec<Step> {
    let ports = |port: u16| {
        let port = json!({"port": port, "protocol": "TCP"});
        patch("services", "web", json!({"spec": {"ports": [port]}}))
    };
    vec![
        web(),
        ports(81),
        served(true),
        ports(82),
        until_caches_are_current(),
        ports(83),
        set_type("ClusterIP"),
        served(false),
    ]
}

/// Users change fields that the loop ignores, so that the version it has read is an old one.
fn edited() -> Vec<Step> {
    let label = |value: &str| {
        let labels = json!({"edited": value});
        patch("services", "web", json!({"metadata": {"labels": labels}}))
    };
    vec![
        web(),
        label("first"),
        label("second"),
        served(true),
        set_type("ClusterIP"),
        label("third"),
        label("fourth"),
        served(false),
    ]
}

fn node(name: &str, range: Option<&str>) -> Step {
    let mut node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
    if let Some(range) = range {
        node["spec"] = json!({"podCIDR": range, "podCIDRs": [range]});
    }
    Step::Create(node)
}

/// Waits until there are this many nodes, each with its routes.
fn routed(nodes: usize) -> Step {
    Step::until("all nodes have routes", move |state: &State| {
        let mut all = state.all("nodes");
        all.all(|node| has_condition(node, "NetworkUnavailable", "False", "RouteCreated"))
            && state.all("nodes").count() == nodes
    })
}

fn join() -> Vec<Step> {
    vec![
        node("a", Some("10.0.1.0/24")),
        node("b", Some("10.0.2.0/24")),
        routed(2),
        node("c", Some("10.0.3.0/24")),
        routed(3),
        delete("nodes", "a", json!({})),
        until_caches_are_current(),
        node("a", Some("10.0.4.0/24")),
        routed(3),
    ]
}

fn late_range() -> Vec<Step> {
    let range = json!({"spec": {"podCIDR": "10.0.1.0/24", "podCIDRs": ["10.0.1.0/24"]}});
    vec![
        node("a", None),
        until_caches_are_current(),
        patch("nodes", "a", range),
        routed(1),
    ]
}

fn two_routed() -> Vec<Step> {
    vec![
        node("a", Some("10.0.1.0/24")),
        node("b", Some("10.0.2.0/24")),
        routed(2),
    ]
}

fn leave() -> Vec<Step> {
    let mut steps = two_routed();
    steps.extend([
        node("c", Some("10.0.3.0/24")),
        delete("nodes", "a", json!({})),
        delete("nodes", "b", json!({})),
        until_caches_are_current(),
        routed(1),
    ]);
    steps
}

/// New nodes of the same names have the ranges of each other.
fn swapped_ranges() -> Vec<Step> {
    let mut steps = two_routed();
    steps.extend([
        delete("nodes", "a", json!({})),
        delete("nodes", "b", json!({})),
        node("a", Some("10.0.2.0/24")),
        node("b", Some("10.0.1.0/24")),
        routed(2),
    ]);
    steps
}

fn set_conditions(name: &str, conditions: &Value) -> Step {
    let status = json!({"status": {"conditions": conditions}});
    Step::Patch(node_path(name) + "/status", status)
}

/// Another program reports that the network is unavailable.
fn overwritten() -> Vec<Step> {
    let unavailable = json!([{"type": "NetworkUnavailable", "status": "True", "reason": "Other"}]);
    let mut steps = two_routed();
    steps.extend([
        set_conditions("a", &unavailable),
        until_caches_are_current(),
        routed(2),
    ]);
    steps
}

/// A kubelet replaces all conditions.
fn status_replaced() -> Vec<Step> {
    let mut steps = two_routed();
    steps.extend([
        report("a", "True"),
        report("b", "True"),
        until_caches_are_current(),
        routed(2),
    ]);
    steps
}

fn report(name: &str, ready: &str) -> Step {
    set_conditions(name, &json!([{"type": "Ready", "status": ready}]))
}

fn machine(name: &str, state: Option<&str>) -> Step {
    let annotations = json!({ MACHINE: state });
    Step::Patch(
        path("nodes", name),
        json!({"metadata": {"annotations": annotations}}),
    )
}

/// Waits until the node has the taint of a machine that is shut down, or has it no more.
fn tainted(name: &'static str, expected: bool) -> Step {
    Step::until("tainted", move |state: &State| {
        state.get("nodes", name).is_some_and(|node| {
            let taints = node["spec"]["taints"].as_array();
            let is_on = taints.is_some_and(|all| all.iter().any(|t| t["key"] == SHUTDOWN));
            is_on == expected
        })
    })
}

fn machine_deleted() -> Vec<Step> {
    let mut steps = vec![node("a", None), node("b", None), node("c", None)];
    steps.extend([
        report("a", "False"),
        report("b", "Unknown"),
        report("c", "True"),
    ]);
    steps.extend([machine("a", Some("deleted")), is_gone("nodes", "a")]);
    steps.extend([machine("c", Some("deleted")), until_caches_are_current()]);
    steps.extend([report("c", "Unknown"), is_gone("nodes", "c")]);
    steps
}

fn shut_down() -> Vec<Step> {
    vec![
        node("a", None),
        report("a", "Unknown"),
        machine("a", Some("shutdown")),
        tainted("a", true),
        machine("a", None),
        report("a", "True"),
        tainted("a", false),
    ]
}

/// The kubelet of a lost node is back, and the cloud errs about its machine.
fn ready_again() -> Vec<Step> {
    vec![
        node("a", None),
        report("a", "Unknown"),
        until_caches_are_current(),
        report("a", "True"),
        machine("a", Some("deleted")),
        until_caches_are_current(),
    ]
}

/// The machine of a node comes back under its name, as a new node.
fn recreated() -> Vec<Step> {
    vec![
        node("a", None),
        report("a", "Unknown"),
        machine("a", Some("deleted")),
        is_gone("nodes", "a"),
        node("a", None),
        report("a", "True"),
        until_caches_are_current(),
        report("a", "Unknown"),
        until_caches_are_current(),
    ]
}

fn all_lost() -> Vec<Step> {
    let names = ["a", "b", "c"];
    let mut steps: Vec<Step> = names.map(|name| node(name, None)).into();
    steps.extend(names.map(|name| report(name, "Unknown")));
    steps.extend(names.map(|name| machine(name, Some("deleted"))));
    steps.extend(names.map(|name| is_gone("nodes", name)));
    steps
}

fn shut_down_and_deleted() -> Vec<Step> {
    vec![
        node("a", None),
        report("a", "Unknown"),
        machine("a", Some("shutdown")),
        tainted("a", true),
        machine("a", Some("deleted")),
        is_gone("nodes", "a"),
    ]
}
