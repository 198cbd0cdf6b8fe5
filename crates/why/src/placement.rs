//! The part of a pod's spec that the scheduler's message is about. The message counts nodes, and names
//! neither the labels nor the amounts that the pod asks for.

use std::collections::BTreeMap;

use serde_json::Value;
use steersman_objects::Node;
use steersman_objects::scheduling::{Comparisons, Constraints, untolerated};
use steersman_values::quantity::Quantity;
use steersman_values::resource::NODES;

use crate::{Doc, World};

/// The end of a demand for an extended resource without a node that offers it.
pub(crate) const NO_PLUGIN: &str = ", which no device plugin reports on any node";

/// The start of the end of a demand that no node can fulfil.
pub(crate) const TOO_LARGE: &str = ", and the largest node has ";

/// Names of nodes in one sentence.
const NAMES: usize = 5;

/// Taints in one sentence.
const TAINTS: usize = 4;

/// The taint of a node that waits for its cloud.
/// Upstream: `TaintExternalCloudProvider`.
const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";

/// The demands of `pod` that the scheduler's `message` is about, each as the end of a sentence. A node
/// that the caller may not read is no proof of anything.
pub(crate) fn demands(world: &World, pod: &Doc, message: &str) -> Vec<String> {
    let nodes = world.list(&NODES, "");
    let mut found = Vec::new();
    if message.contains("node affinity/selector") {
        found.extend(labels(pod, nodes));
    }
    if message.contains("topology spread constraints") {
        let is_tainted = message.contains("untolerated taint");
        found.extend(spread(pod, is_tainted, nodes));
    }
    if message.contains("untolerated taint") {
        found.extend(nodes.and_then(|nodes| taints(pod, nodes)));
    }
    found.extend(insufficient(message).filter_map(|resource| amount(pod, resource, nodes)));
    found
}

/// The resources in `Insufficient cpu, 2 Insufficient memory`.
pub(crate) fn insufficient(message: &str) -> impl Iterator<Item = &str> {
    message.split("Insufficient ").skip(1).map(|rest| {
        // Names of extended resources have dots: `example.com/gpu`.
        let end = rest.find([',', ';', ' ']).unwrap_or(rest.len());
        rest[..end].trim_end_matches('.')
    })
}

/// The labels of nodes that the pod asks for.
fn labels(pod: &Doc, nodes: Option<&[Doc]>) -> Option<String> {
    const TERMS: &str = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    let selector = pod.at("/spec/nodeSelector").and_then(Value::as_object);
    let selector: Vec<String> = selector
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    let terms: Vec<String> = pod.items(TERMS).iter().map(term).collect();
    let mut asks = Vec::new();
    if !selector.is_empty() {
        asks.push(format!("{} (nodeSelector)", selector.join(",")));
    }
    if !terms.is_empty() {
        asks.push(format!("{} (nodeAffinity)", terms.join(" or ")));
    }
    let constraints = Constraints::of_pod(pod.value().to_string().as_bytes()).ok()?;
    let is_right = |node: &Doc| {
        let view = node.view::<Node>();
        view.is_some_and(|view| constraints.selects(&view))
    };
    let ends = match nodes {
        Some(nodes) if !nodes.iter().any(is_right) => ", which no node has",
        _ => "",
    };
    (!asks.is_empty()).then(|| format!("the pod asks for nodes with {}{ends}", asks.join(" and ")))
}

/// The terms of a required node affinity, in the syntax of `kubectl --selector`.
pub(crate) fn terms(required: &Value) -> String {
    let terms = required["nodeSelectorTerms"].as_array();
    let texts = terms.into_iter().flatten().map(term);
    texts.collect::<Vec<_>>().join(" or ")
}

/// A term of a node selector in the syntax of `kubectl --selector`.
fn term(term: &Value) -> String {
    let list = |field: &str| term[field].as_array().cloned().unwrap_or_default();
    let all = [list("matchExpressions"), list("matchFields")].concat();
    let texts = all.iter().map(|one| {
        let key = one["key"].as_str().unwrap_or_default();
        let values = one["values"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        let values: Vec<&str> = values.iter().filter_map(Value::as_str).collect();
        let values = values.join(",");
        match one["operator"].as_str().unwrap_or_default() {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            "DoesNotExist" => format!("!{key}"),
            "Gt" => format!("{key}>{values}"),
            "Lt" => format!("{key}<{values}"),
            other => format!("{key} {other} ({values})"),
        }
    });
    texts.collect::<Vec<_>>().join(",")
}

/// The constraints of topology spread that forbid a node.
fn spread(pod: &Doc, is_tainted: bool, nodes: Option<&[Doc]>) -> Vec<String> {
    let all = pod.items("/spec/topologySpreadConstraints").iter();
    let hard = all.filter(|one| one["whenUnsatisfiable"] == "DoNotSchedule");
    let text = |one: &Value| {
        let key = one["topologyKey"].as_str().unwrap_or_default();
        let ignores_taints = matches!(one["nodeTaintsPolicy"].as_str(), Some("Ignore") | None);
        let ends = if ignores_taints && is_tainted {
            tainted(pod, key, nodes)
        } else {
            String::new()
        };
        format!(
            "the pod asks for maxSkew {} over {key} (topologySpreadConstraints){ends}",
            one["maxSkew"]
        )
    };
    hard.map(text).collect()
}

/// The nodes that count for the topology `key`, and whose taints keep the pod away. Taints of nodes
/// that the selector of the pod excludes are no matter. Empty if no node is one.
fn tainted(pod: &Doc, key: &str, nodes: Option<&[Doc]>) -> String {
    const TEXT: &str =
        "; tainted nodes count, although the pod cannot run there (nodeTaintsPolicy Ignore)";
    let constraints = Constraints::of_pod(pod.value().to_string().as_bytes());
    let (Some(nodes), Ok(constraints)) = (nodes, constraints) else {
        return TEXT.to_owned();
    };
    let is_tainted =
        |node: &&Doc| node.label(key).is_some() && repelling(&constraints, node).is_some();
    let names: Vec<&str> = nodes.iter().filter(is_tainted).map(Doc::name).collect();
    if names.is_empty() {
        return String::new();
    }
    format!("{TEXT}: {}", listed(&names))
}

/// The taints that keep the pod from nodes that its selector admits, each with its nodes.
fn taints(pod: &Doc, nodes: &[Doc]) -> Option<String> {
    let constraints = Constraints::of_pod(pod.value().to_string().as_bytes()).ok()?;
    let mut nodes_of: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for node in nodes {
        if let Some(taint) = repelling(&constraints, node) {
            nodes_of.entry(taint).or_default().push(node.name());
        }
    }
    let texts = nodes_of.iter().take(TAINTS).map(|(taint, nodes)| {
        let remover = if taint.starts_with(UNINITIALIZED) {
            "; the cloud controller manager removes it"
        } else {
            ""
        };
        format!("{taint} ({}{remover})", listed(nodes))
    });
    let text = texts.collect::<Vec<_>>().join(", ");
    match nodes_of.len().saturating_sub(TAINTS) {
        _ if nodes_of.is_empty() => None,
        0 => Some(format!("the pod does not tolerate {text}")),
        more => Some(format!(
            "the pod does not tolerate {text}, and {more} more taints"
        )),
    }
}

/// The first taint of `node` that keeps a pod away, in the syntax of `kubectl taint`. `None` if the node has none,
/// or if the selector of the pod excludes the node.
fn repelling(constraints: &Constraints, node: &Doc) -> Option<String> {
    let view = node.view::<Node>()?;
    let hard = view.spec.taints.iter();
    let hard = hard.filter(|taint| *taint.effect != *"PreferNoSchedule");
    let taint = untolerated(hard, &constraints.tolerations, Comparisons::Disabled)
        .filter(|_| constraints.selects(&view))?;
    Some(match &*taint.value {
        "" => format!("{}:{}", taint.key, taint.effect),
        value => format!("{}={value}:{}", taint.key, taint.effect),
    })
}

/// The first of `names`, and the number of the others.
fn listed(names: &[&str]) -> String {
    let shown = names.iter().take(NAMES).copied().collect::<Vec<_>>();
    match names.len().saturating_sub(NAMES) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// The amount of `resource` that the pod asks for, and the largest node if it has less.
fn amount(pod: &Doc, resource: &str, nodes: Option<&[Doc]>) -> Option<String> {
    let asked = requested(pod, resource)?;
    let largest = nodes
        .unwrap_or_default()
        .iter()
        .filter_map(|node| quantity(&node.at("/status/allocatable")?[resource]))
        .reduce(|one, other| if one < other { other } else { one });
    let ends = match largest {
        Some(largest) if largest < asked => {
            format!("{TOO_LARGE}{}", largest.canonical())
        }
        None if nodes.is_some() && resource.contains('/') => NO_PLUGIN.to_owned(),
        None if nodes.is_some() => ", which no node has".to_owned(),
        _ => String::new(),
    };
    Some(format!(
        "the pod asks for {} {resource}{ends}",
        asked.canonical()
    ))
}

/// The request of a pod for `resource`: its own, else that of its containers or of a larger init
/// container. Upstream: `PodRequests` in `component-helpers/resource`.
pub(crate) fn requested(pod: &Doc, resource: &str) -> Option<Quantity> {
    let of = |container: &Value| quantity(&container["resources"]["requests"][resource]);
    let own = pod.at("/spec").and_then(of);
    let (sidecars, inits): (Vec<&Value>, Vec<&Value>) = pod
        .items("/spec/initContainers")
        .iter()
        .partition(|container| container["restartPolicy"] == "Always");
    let containers = pod.items("/spec/containers").iter();
    let sum = containers
        .chain(sidecars)
        .filter_map(of)
        .reduce(Quantity::plus);
    let all = inits
        .into_iter()
        .filter_map(of)
        .chain(sum)
        .reduce(|one, other| if one < other { other } else { one });
    let overhead = pod
        .at("/spec/overhead")
        .and_then(|all| quantity(&all[resource]));
    own.or(all)
        .into_iter()
        .chain(overhead)
        .reduce(Quantity::plus)
}

pub(crate) fn quantity(value: &Value) -> Option<Quantity> {
    Quantity::parse(value.as_str()?)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;
    use steersman_values::resource::ResourceType;

    use super::*;
    use crate::{Explanation, Loaded, Need};

    fn world(nodes: Option<Value>) -> World {
        let none = |_: &World, of: &ResourceType, doc: &Doc| Explanation::new(doc.subject(of), "");
        let mut world = World::new(Timestamp::UNIX_EPOCH, None, none);
        let all = Need::List {
            of: NODES.clone(),
            namespace: String::new(),
            fields: String::new(),
        };
        let outcome = match nodes {
            Some(nodes) => {
                let nodes = nodes.as_array().unwrap().iter().cloned();
                Loaded::Objects(nodes.map(Doc::new).collect())
            }
            None => Loaded::Denied,
        };
        world.load(all, outcome);
        world
    }

    fn told(nodes: Option<Value>, spec: &Value, message: &str) -> String {
        let pod = Doc::new(json!({"metadata": {"name": "a"}, "spec": spec}));
        demands(&world(nodes), &pod, message).join("; ")
    }

    #[test]
    fn labels_of_nodes_are_told_in_the_syntax_of_selectors() {
        let message =
            "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.";
        let spec = json!({"nodeSelector": {"disk": "ssd"}});
        let node =
            |disk: &str| Some(json!([{"metadata": {"name": "n", "labels": {"disk": disk}}}]));
        let asks = "the pod asks for nodes with disk=ssd (nodeSelector)";
        assert_eq!(told(node("ssd"), &spec, message), asks);
        assert_eq!(
            told(node("hdd"), &spec, message),
            format!("{asks}, which no node has")
        );
        // Unread nodes prove nothing.
        assert_eq!(told(None, &spec, message), asks);
        assert_eq!(
            told(
                node("hdd"),
                &spec,
                "0/1 nodes are available: 1 Too many pods."
            ),
            ""
        );

        let expression = |key: &str, operator: &str, values: Value| json!({"key": key, "operator": operator, "values": values});
        let first = json!({"matchExpressions": [
            expression("zone", "In", json!(["a", "b"])), expression("gpu", "Exists", json!(null)),
            expression("old", "DoesNotExist", json!(null)), expression("cores", "Gt", json!(["7"])),
        ]});
        let second = json!({"matchFields": [expression("metadata.name", "NotIn", json!(["n"]))]});
        let terms = json!({"nodeSelectorTerms": [first, second]});
        let spec = json!({"affinity": {"nodeAffinity":
            {"requiredDuringSchedulingIgnoredDuringExecution": terms}}});
        assert_eq!(
            told(None, &spec, message),
            "the pod asks for nodes with zone in (a,b),gpu,!old,cores>7 or metadata.name notin (n) (nodeAffinity)"
        );
    }

    #[test]
    fn taints_are_told_with_the_nodes_that_the_selector_admits() {
        let message = "0/5 nodes are available: 4 node(s) had untolerated taint(s).";
        let node = |name: &str, pool: &str, key: &str, effect: &str| {
            json!({
                "metadata": {"name": name, "labels": {"pool": pool}}, "spec": {"taints": [{"key": key, "effect": effect, "value": "x"}]},
            })
        };
        let nodes = json!([
            node("a", "web", "dedicated", "NoSchedule"),
            node("b", "web", "dedicated", "NoSchedule"),
            node("c", "web", "soft", "PreferNoSchedule"),
            node("d", "batch", "other", "NoSchedule"),
            node("e", "web", UNINITIALIZED, "NoSchedule"),
            node("f", "web", "known", "NoSchedule"),
        ]);
        let spec = json!({"nodeSelector": {"pool": "web"}, "tolerations": [{"key": "known", "operator": "Exists"}]});
        assert_eq!(
            told(Some(nodes), &spec, message),
            "the pod does not tolerate dedicated=x:NoSchedule (a, b), \
             node.cloudprovider.kubernetes.io/uninitialized=x:NoSchedule (e; the cloud controller manager removes it)"
        );
        // Unread nodes prove nothing.
        assert_eq!(told(None, &spec, message), "");
    }

    #[test]
    fn a_request_is_told_beside_the_largest_node() {
        let container =
            |cpu: &str| json!({"resources": {"requests": {"cpu": cpu, "example.com/gpu": "1"}}});
        let sidecar = json!({"restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}});
        let spec = json!({
            "containers": [container("1500m"), container("1")], "initContainers": [container("2"), sidecar],
            "overhead": {"cpu": "500m"},
        });
        let node = |cpu: &str| json!({"status": {"allocatable": {"cpu": cpu}}});
        let message = "0/2 nodes are available: 2 Insufficient cpu.";
        let nodes = Some(json!([node("2"), node("3500m")]));
        assert_eq!(
            told(nodes, &spec, message),
            "the pod asks for 4 cpu, and the largest node has 3500m"
        );
        let nodes = Some(json!([node("4")]));
        assert_eq!(
            told(nodes.clone(), &spec, message),
            "the pod asks for 4 cpu"
        );
        let message =
            "0/2 nodes are available: 1 Insufficient cpu, 2 Insufficient example.com/gpu.";
        assert_eq!(
            told(nodes, &spec, message),
            "the pod asks for 4 cpu; the pod asks for 2 example.com/gpu, which no device plugin reports on any node"
        );
    }

    #[test]
    fn constraints_of_topology_spread_are_told_with_the_taints_that_they_ignore() {
        let message = "0/3 nodes are available: 1 node(s) had untolerated taint(s), \
                       2 node(s) didn't match pod topology spread constraints.";
        let constraint = |when: &str, policy: &str| json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": when, "nodeTaintsPolicy": policy});
        let spec = |one: Value| json!({"topologySpreadConstraints": [one]});
        let hard = spec(constraint("DoNotSchedule", "Ignore"));
        let asks = "the pod asks for maxSkew 1 over zone (topologySpreadConstraints)";
        assert_eq!(
            told(None, &hard, message),
            format!(
                "{asks}; tainted nodes count, although the pod cannot run there (nodeTaintsPolicy Ignore)"
            )
        );
        let node = |name: &str, pool: &str, taints: Value| json!({"metadata": {"name": name, "labels": {"zone": name, "pool": pool}}, "spec": {"taints": taints}});
        let taint = |effect: &str| json!([{"key": "dedicated", "effect": effect}]);
        let nodes = Some(json!([
            node("free", "web", json!([])),
            node("soft", "web", taint("PreferNoSchedule")),
            node("other", "batch", taint("NoSchedule")),
            node("hard", "web", taint("NoSchedule")),
        ]));
        let mut of_pool = hard.clone();
        of_pool["nodeSelector"] = json!({"pool": "web"});
        assert!(told(nodes.clone(), &of_pool, message).ends_with(
            "(nodeTaintsPolicy Ignore): hard; the pod does not tolerate dedicated:NoSchedule (hard)"
        ));
        of_pool["tolerations"] = json!([{"operator": "Exists"}]);
        assert_eq!(told(nodes, &of_pool, message), asks);
        let spread = message.split(", ").last().unwrap();
        assert_eq!(told(None, &hard, spread), asks);
        assert_eq!(
            told(None, &spec(constraint("DoNotSchedule", "Honor")), message),
            asks
        );
        assert_eq!(
            told(None, &spec(constraint("ScheduleAnyway", "Ignore")), message),
            ""
        );
    }
}
