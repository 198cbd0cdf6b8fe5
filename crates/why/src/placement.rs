//! The part of a pod's spec that the scheduler's message is about. The message counts nodes, and names
//! neither the labels nor the amounts that the pod asks for.

use serde_json::Value;

use crate::defaults::{Bound, Origin};
use crate::demand::{Demand, insufficient, quantity, requested, term};
use crate::site::Site;
use crate::{Doc, World, affinity, classes, cordoned, devices, spread};

/// The demands of `pod` that the scheduler's `message` is about. Nodes that the caller may not read, and so a missing
/// `site`, are no proof of anything.
pub(crate) fn demands(
    world: &World,
    pod: &Doc,
    site: Option<&Site<'_>>,
    message: &str,
) -> Vec<Demand> {
    let nodes = site.map(|site| site.nodes);
    let mut found = Vec::new();
    if message.contains("node affinity/selector") {
        found.extend(labels(pod, site).map(Demand::from));
    }
    if message.contains("topology spread constraints") {
        found.extend(spread::demands(world, pod, site));
    }
    if message.contains("find available persistent volumes") {
        found.extend(classes::demands(world, pod, site));
    }
    found.extend(affinity::demands(world, pod, message));
    found.extend(devices::demands(world, pod, message));
    // The taints of a topology domain are told with it.
    let is_told = found.iter().any(|demand| !demand.who.is_empty());
    // A cordoned node has a taint, too.
    let is_kept_away =
        message.contains("untolerated taint") || message.contains("were unschedulable");
    if is_kept_away && !is_told {
        found.extend(site.and_then(Site::taints));
    }
    let amounts = insufficient(message).filter_map(|resource| amount(world, pod, resource, nodes));
    found.extend(amounts);
    // Its remedy is the easiest one.
    if let Some(cordoned) = cordoned::demand(world, pod, site, message) {
        found.insert(0, cordoned);
    }
    found
}

/// The labels of nodes that the pod asks for.
fn labels(pod: &Doc, site: Option<&Site<'_>>) -> Option<String> {
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
    let ends = match site {
        Some(site) if !site.nodes.iter().any(|node| site.selects(node)) => ", which no node has",
        _ => "",
    };
    (!asks.is_empty()).then(|| format!("the pod asks for nodes with {}{ends}", asks.join(" and ")))
}

/// The amount of `resource` that the pod asks for, and the largest node if it has less.
fn amount(world: &World, pod: &Doc, resource: &str, nodes: Option<&[Doc]>) -> Option<Demand> {
    let asked = requested(pod, resource)?;
    let largest = nodes
        .unwrap_or_default()
        .iter()
        .filter_map(|node| quantity(&node.at("/status/allocatable")?[resource]))
        .reduce(|one, other| if one < other { other } else { one });
    let (ends, who) = match largest {
        Some(largest) if largest < asked => (
            format!(", and the largest node has {}", largest.canonical()),
            "owner of the pod template (resources.requests), or administrator of the nodes (a larger one)",
        ),
        None if nodes.is_some() && resource.contains('/') => (
            ", which no device plugin reports on any node".to_owned(),
            "administrator of the nodes (the device plugin), or owner of the pod template",
        ),
        None if nodes.is_some() => (", which no node has".to_owned(), ""),
        _ => (String::new(), ""),
    };
    let mut demand = Demand {
        text: format!("the pod asks for {} {resource}{ends}", asked.canonical()),
        who: who.to_owned(),
    };
    let containers = ["/spec/containers", "/spec/initContainers"].into_iter();
    let mut containers = containers.flat_map(|field| pod.items(field));
    let origin = containers.find_map(|container| {
        let name = container["name"].as_str()?;
        let value = &container["resources"]["requests"][resource];
        let origin = Origin::of(world, pod, name, Bound::Request, (resource, value))?;
        Some((name, origin))
    });
    if let Some((name, origin)) = origin {
        demand.text = format!(
            "{}; the request of container {name} is {}",
            demand.text,
            origin.words()
        );
        if !demand.who.is_empty() {
            demand.who = format!("{}, or owner {}", demand.who, origin.who());
        }
    }
    Some(demand)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;
    use steersman_values::resource::{NODES, ResourceType};

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
        let world = world(nodes);
        let site = Site::of(&world, &pod);
        let demands = demands(&world, &pod, site.as_ref(), message);
        let texts = demands.into_iter().map(|demand| demand.text);
        texts.collect::<Vec<_>>().join("; ")
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
            node(
                "e",
                "web",
                "node.cloudprovider.kubernetes.io/uninitialized",
                "NoSchedule"
            ),
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
}
