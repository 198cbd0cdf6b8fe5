//! The room on the one node that takes a pod, as each pod of a DaemonSet has one. The scheduler's message
//! counts nodes, and does not name this one.

use serde_json::Value;
use steersman_values::quantity::Quantity;
use steersman_values::resource::NODES;

use crate::placement::{insufficient, quantity, requested};
use crate::{Doc, World};

/// The only node that the required affinity of `pod` allows by its name.
pub(crate) fn only_node(pod: &Doc) -> Option<&str> {
    const TERMS: &str = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    let mut names = pod.items(TERMS).iter().map(named);
    let first = names.next()??;
    names.all(|name| name == Some(first)).then_some(first)
}

fn named(term: &Value) -> Option<&str> {
    let mut fields = term["matchFields"].as_array()?.iter();
    let is_name = |field: &&Value| field["key"] == "metadata.name" && field["operator"] == "In";
    match &fields.find(is_name)?["values"].as_array()?[..] {
        [only] => only.as_str(),
        _ => None,
    }
}

/// The room of `node`, the only one for `pod`, for each resource that the scheduler's `message` finds
/// insufficient: `node-4 has 8Gi memory, and its pods request 6Gi (the largest: pod logging/buffer with 5Gi)`.
pub(crate) fn told(world: &World, pod: &Doc, node: &str, message: &str) -> String {
    let found = world.get(&NODES, "", node);
    if found.is_absent() {
        return format!("{node} does not exist");
    }
    let found = found.found();
    let rooms = insufficient(message).filter_map(|resource| {
        let has = quantity(&found.as_ref()?.at("/status/allocatable")?[resource])?;
        let used = used(world, pod, node, resource, has).unwrap_or_default();
        Some(format!("{} {resource}{used}", has.canonical()))
    });
    match &rooms.collect::<Vec<_>>()[..] {
        [] => format!("is {node}"),
        rooms => format!("{node} has {}", rooms.join("; ")),
    }
}

/// The requests of the pods on `node`, and the largest of them. `None` if `pod` fits beside them, because
/// the scheduler's message is old then.
fn used(world: &World, pod: &Doc, node: &str, resource: &str, has: Quantity) -> Option<String> {
    let asked = requested(pod, resource)?;
    let pods = world.pods_on(node)?;
    let running = pods
        .into_iter()
        .filter(|pod| !matches!(pod.text("/status/phase"), "Succeeded" | "Failed"));
    let requests: Vec<(&Doc, Quantity)> = running
        .filter_map(|pod| Some((pod, requested(pod, resource)?)))
        .collect();
    let amounts = requests.iter().map(|(_, amount)| *amount);
    let total = amounts.reduce(Quantity::plus)?;
    if total.plus(asked) <= has {
        return None;
    }
    let (largest, amount) = requests
        .into_iter()
        .reduce(|one, other| if one.1 < other.1 { other } else { one })?;
    Some(format!(
        ", and its pods request {} (the largest: pod {}/{} with {})",
        total.canonical(),
        largest.namespace(),
        largest.name(),
        amount.canonical()
    ))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;
    use steersman_values::resource::{PODS, ResourceType};

    use super::*;
    use crate::{Explanation, Loaded, Need};

    fn daemon_pod(names: &[&str]) -> Doc {
        let term = |name: &&str| json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]});
        let terms: Vec<Value> = names.iter().map(term).collect();
        let container = json!({"resources": {"requests": {"memory": "3Gi"}}});
        Doc::new(
            json!({"spec": {"containers": [container], "affinity": {"nodeAffinity":
            {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}}}),
        )
    }

    #[test]
    fn a_pod_has_an_only_node_if_all_terms_name_it() {
        assert_eq!(only_node(&daemon_pod(&["a"])), Some("a"));
        assert_eq!(only_node(&daemon_pod(&["a", "a"])), Some("a"));
        assert_eq!(only_node(&daemon_pod(&["a", "b"])), None);
        assert_eq!(only_node(&daemon_pod(&[])), None);
        let by_labels = json!({"matchExpressions": [{"key": "disk", "operator": "Exists"}]});
        let pod = json!({"spec": {"affinity": {"nodeAffinity":
            {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [by_labels]}}}}});
        assert_eq!(only_node(&Doc::new(pod)), None);
    }

    #[test]
    fn the_largest_pod_of_a_full_node_is_told() {
        let none = |_: &World, of: &ResourceType, doc: &Doc| Explanation::new(doc.subject(of), "");
        let pod = |name: &str, memory: &str, phase: &str| {
            let container = json!({"resources": {"requests": {"memory": memory}}});
            Doc::new(json!({
                "metadata": {"namespace": "logs", "name": name},
                "spec": {"nodeName": "a", "containers": [container]}, "status": {"phase": phase},
            }))
        };
        let told_with = |pods: Option<Vec<Doc>>| {
            let mut world = World::new(Timestamp::UNIX_EPOCH, None, none);
            let node = Doc::new(json!({"status": {"allocatable": {"memory": "8Gi"}}}));
            let of_node = Need::Object {
                of: NODES.clone(),
                namespace: String::new(),
                name: "a".to_owned(),
            };
            world.load(of_node, Loaded::Objects(vec![node]));
            let on_node = Need::List {
                of: PODS.clone(),
                namespace: String::new(),
                fields: "spec.nodeName=a".to_owned(),
            };
            world.load(on_node, pods.map_or(Loaded::Denied, Loaded::Objects));
            let message = "0/2 nodes are available: 1 Insufficient memory.";
            told(&world, &daemon_pod(&["a"]), "a", message)
        };
        let full = vec![
            pod("small", "1Gi", "Running"),
            pod("large", "5Gi", "Running"),
            pod("ended", "7Gi", "Succeeded"),
        ];
        assert_eq!(
            told_with(Some(full)),
            "a has 8Gi memory, and its pods request 6Gi (the largest: pod logs/large with 5Gi)"
        );
        // A message of the past, and pods that the caller may not read.
        let fits = vec![pod("small", "5Gi", "Running")];
        assert_eq!(told_with(Some(fits)), "a has 8Gi memory");
        assert_eq!(told_with(None), "a has 8Gi memory");
    }
}
