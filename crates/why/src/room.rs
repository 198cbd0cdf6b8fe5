//! The room on the nodes that admit a pod. Each pod of a DaemonSet has one. The scheduler's message counts nodes, and
//! names neither them nor the pods that fill them.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde_json::Value;
use steersman_values::quantity::Quantity;
use steersman_values::resource::NODES;

use crate::demand::{Demand, insufficient, listed, quantity, requested, resources};
use crate::{Doc, World, maker};

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

/// Workloads with the largest parts of a node, in one text.
const SHOWN: usize = 3;
/// Nodes whose pods one answer reads, each by a request of its own.
const COUNTED: usize = 8;
/// The resource that the scheduler calls `Too many pods`.
const BY_COUNT: &str = "pods";

/// The room on the only node of a pod.
pub(crate) struct Room {
    /// The room in words.
    pub(crate) text: String,
    /// The people that can make room; empty if the pod fits.
    pub(crate) who: String,
}

/// The room of `node`, the only one for `pod`, for each resource that the scheduler's `message` finds
/// insufficient: `node-4 has 8Gi memory, and its pods request 6Gi: 5Gi of daemonset logging/buffer, 1Gi of
/// deployment shop/web`, or `node-5 takes 11 pods, and runs 11: 9 of deployment media/thumbnailer, ...`.
pub(crate) fn told(world: &World, pod: &Doc, node: &str, message: &str) -> Room {
    let found = world.get(&NODES, "", node);
    let mut who = String::new();
    if found.is_absent() {
        let text = format!("{node} does not exist");
        return Room { text, who };
    }
    let Some(found) = found.found() else {
        let text = format!("is {node}");
        return Room { text, who };
    };
    let mut rooms = Vec::new();
    for resource in lacking(message) {
        let Some(has) = allocatable(&found, resource) else {
            continue;
        };
        let parts = parts(world, pod, node, resource, has).unwrap_or_default();
        if !parts.is_empty() && who.is_empty() {
            who = makers_of_room(pod, node, resource, &parts);
        }
        rooms.push(words(resource, 1, has, &parts));
    }
    let text = match &rooms[..] {
        [] => format!("is {node}"),
        rooms => format!("{node} {}", rooms.join("; ")),
    };
    Room { text, who }
}

/// The room on `nodes`, which admit `pod`, for the first resource that the scheduler's `message` finds insufficient and
/// that other pods take: `the 4 nodes that admit it (node-0, ...) have 1000Gi memory, and their pods request 920Gi: 920Gi
/// of deployment spark/executors; at most 20Gi is left on one of them`. `None` if each node is too small for the
/// pod or has room for it.
pub(crate) fn shared(world: &World, pod: &Doc, nodes: &[&Doc], message: &str) -> Option<Demand> {
    lacking(message).find_map(|resource| shared_of(world, pod, nodes, resource))
}

/// A node that would take the pod without other pods, and the requests of these.
struct Counted<'n> {
    name: &'n str,
    has: Quantity,
    parts: BTreeMap<String, Quantity>,
}

impl Counted<'_> {
    fn left(&self) -> Quantity {
        let used = sum(self.parts.values());
        used.map_or(self.has, |used| self.has.beyond(used))
    }
}

fn shared_of(world: &World, pod: &Doc, nodes: &[&Doc], resource: &str) -> Option<Demand> {
    let asked = request(pod, resource)?;
    let large = nodes.iter().filter_map(|node| {
        let has = allocatable(node, resource)?;
        (has >= asked).then_some((node.name(), has))
    });
    // The pods of all these nodes are asked for at once.
    let counted = large.take(COUNTED).map(|(name, has)| {
        let parts = requests(world, name, resource)?;
        Some(Counted { name, has, parts })
    });
    let counted: Vec<Option<Counted<'_>>> = counted.collect();
    let mut full: Vec<Counted<'_>> = counted.into_iter().collect::<Option<_>>()?;
    full.retain(|node| node.left() < asked);
    let has = sum(full.iter().map(|node| &node.has))?;
    let left = full.iter().map(Counted::left);
    let left = left.reduce(|one, other| if one < other { other } else { one })?;
    let names: Vec<&str> = full.iter().map(|node| node.name).collect();
    let mut parts = BTreeMap::new();
    for (maker, amount) in full.into_iter().flat_map(|node| node.parts) {
        add(&mut parts, maker, amount);
    }
    let parts = by_size(parts);
    let which = match (names.len(), nodes.len()) {
        (1, 1) => "the only node that admits it".to_owned(),
        (some, all) if some == all => format!("the {all} nodes that admit it"),
        (some, all) => format!("{some} of the {all} nodes that admit it"),
    };
    let left = match (resource, names.len()) {
        (BY_COUNT, _) => String::new(),
        (_, 1) => format!("; {} is left", left.canonical()),
        _ => format!("; at most {} is left on one of them", left.canonical()),
    };
    Some(Demand {
        text: format!(
            "{which} ({}) {}{left}",
            listed(&names),
            words(resource, names.len(), has, &parts)
        ),
        who: makers_of_shared(pod, &parts),
    })
}

/// Whether `node` has room for all that `pod` requests, and for one pod more. `false` if its pods are unread.
///
/// A resource that the node does not report has no room. Upstream: `fitsRequest` in `noderesources/fit.go`.
pub(crate) fn fits(world: &World, pod: &Doc, node: &Doc) -> bool {
    let asked = resources(pod).into_iter().chain([BY_COUNT]);
    let mut asked = asked.filter_map(|resource| Some((resource, request(pod, resource)?)));
    asked.all(|(resource, asked)| {
        let has = allocatable(node, resource);
        let used = requests(world, node.name(), resource);
        let (Some(has), Some(used)) = (has, used) else {
            return asked.is_zero();
        };
        sum(used.values()).map_or(asked, |used| used.plus(asked)) <= has
    })
}

/// The resources that the scheduler's `message` finds insufficient.
fn lacking(message: &str) -> impl Iterator<Item = &str> {
    let too_many = message.contains("Too many pods").then_some(BY_COUNT);
    insufficient(message).chain(too_many)
}

fn allocatable(node: &Doc, resource: &str) -> Option<Quantity> {
    quantity(&node.at("/status/allocatable")?[resource])
}

/// The request of `pod` for `resource`. Each pod is one of the pods of its node.
fn request(pod: &Doc, resource: &str) -> Option<Quantity> {
    match resource {
        BY_COUNT => Some(Quantity::whole(1)),
        _ => requested(pod, resource),
    }
}

/// The workloads with pods on `node` and their requests, the largest first. `None` if `pod` fits beside them,
/// because the scheduler's message is old then.
fn parts(
    world: &World,
    pod: &Doc,
    node: &str,
    resource: &str,
    has: Quantity,
) -> Option<Vec<(String, Quantity)>> {
    let asked = request(pod, resource)?;
    let parts = requests(world, node, resource)?;
    let total = sum(parts.values())?;
    if total.plus(asked) <= has {
        return None;
    }
    Some(by_size(parts))
}

/// The requests of the pods on `node`, by the workloads that make them.
fn requests(world: &World, node: &str, resource: &str) -> Option<BTreeMap<String, Quantity>> {
    let mut parts = BTreeMap::new();
    for other in world.pods_on(node)? {
        if other.has_ended() {
            continue;
        }
        if let Some(amount) = request(other, resource) {
            add(&mut parts, maker(other), amount);
        }
    }
    Some(parts)
}

fn add(parts: &mut BTreeMap<String, Quantity>, maker: String, amount: Quantity) {
    let part = parts.entry(maker);
    part.and_modify(|sum| *sum = sum.plus(amount))
        .or_insert(amount);
}

/// The largest one first.
fn by_size(parts: BTreeMap<String, Quantity>) -> Vec<(String, Quantity)> {
    let mut parts: Vec<_> = parts.into_iter().collect();
    parts.sort_by(|one, other| other.1.partial_cmp(&one.1).unwrap_or(Ordering::Equal));
    parts
}

fn sum<'a>(amounts: impl Iterator<Item = &'a Quantity>) -> Option<Quantity> {
    amounts.copied().reduce(Quantity::plus)
}

/// The words behind the names of one node, or of several ones.
fn words(resource: &str, nodes: usize, has: Quantity, parts: &[(String, Quantity)]) -> String {
    let has = has.canonical();
    let total = sum(parts.iter().map(|(_, amount)| amount));
    let (begin, used) = match (resource, nodes) {
        (BY_COUNT, 1) => (format!("takes {has} pods"), "runs"),
        (BY_COUNT, _) => (format!("take {has} pods"), "run"),
        (_, 1) => (format!("has {has} {resource}"), "its pods request"),
        _ => (format!("have {has} {resource}"), "their pods request"),
    };
    let Some(total) = total else {
        return begin;
    };
    let shown = parts.iter().take(SHOWN);
    let shown = shown.map(|(maker, amount)| format!("{} of {maker}", amount.canonical()));
    let shown = shown.collect::<Vec<_>>().join(", ");
    let more = match parts.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and the rest of {more} more"),
    };
    format!("{begin}, and {used} {}: {shown}{more}", total.canonical())
}

/// The people that can make room for `pod`.
fn makers_of_room(pod: &Doc, node: &str, resource: &str, parts: &[(String, Quantity)]) -> String {
    let field = match (pod.text("/spec/priorityClassName"), resource) {
        ("", _) => "priorityClassName",
        (_, BY_COUNT) => "",
        _ => "requests",
    };
    let own = match field {
        "" => String::new(),
        field => format!("owner of {} ({field}), ", maker(pod)),
    };
    let limit = match resource {
        BY_COUNT => " (max pods)",
        _ => "",
    };
    let others = parts.iter().take(SHOWN).map(|(maker, _)| &**maker);
    let others = others.collect::<Vec<_>>().join(", ");
    format!("{own}administrator of node {node}{limit}, or owners of {others}")
}

/// The people that can make room for `pod` on several nodes.
fn makers_of_shared(pod: &Doc, parts: &[(String, Quantity)]) -> String {
    let own = maker(pod);
    let others = parts.iter().map(|(maker, _)| &**maker);
    let others: Vec<&str> = others.filter(|other| *other != own).take(SHOWN).collect();
    match &others[..] {
        [] => {
            format!("owner of {own} (replicas, requests), or administrator of the nodes (one more)")
        }
        others => format!(
            "owner of {own} (requests), administrator of the nodes (one more), or owners of {}",
            others.join(", ")
        ),
    }
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

    fn on_node(name: &str, memory: &str, phase: &str) -> Doc {
        let container = json!({"resources": {"requests": {"memory": memory}}});
        Doc::new(json!({
            "metadata": {"namespace": "logs", "name": name},
            "spec": {"nodeName": "a", "containers": [container]}, "status": {"phase": phase},
        }))
    }

    /// The room of a node with 8Gi and three pods, for a pod that asks for 3Gi.
    fn told_with(pods: Option<Vec<Doc>>, message: &str) -> Room {
        let none = |_: &World, of: &ResourceType, doc: &Doc| Explanation::new(doc.subject(of), "");
        let mut world = World::new(Timestamp::UNIX_EPOCH, None, none);
        let node = Doc::new(json!({"status": {"allocatable": {"memory": "8Gi", "pods": "3"}}}));
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
        told(&world, &daemon_pod(&["a"]), "a", message)
    }

    #[test]
    fn the_largest_pods_of_a_full_node_are_told() {
        let message = "0/2 nodes are available: 1 Insufficient memory.";
        let full = vec![
            on_node("small", "1Gi", "Running"),
            on_node("large", "5Gi", "Running"),
            on_node("ended", "7Gi", "Succeeded"),
        ];
        let room = told_with(Some(full), message);
        assert_eq!(
            room.text,
            "a has 8Gi memory, and its pods request 6Gi: 5Gi of pod logs/large, 1Gi of pod logs/small"
        );
        assert!(room.who.contains("(priorityClassName)"), "{}", room.who);
        assert!(
            room.who
                .ends_with("or owners of pod logs/large, pod logs/small")
        );
        // A message of the past, and pods that the caller may not read.
        let fits = vec![on_node("small", "5Gi", "Running")];
        for pods in [Some(fits), None] {
            let room = told_with(pods, message);
            assert_eq!((&*room.text, &*room.who), ("a has 8Gi memory", ""));
        }
    }

    #[test]
    fn a_node_that_is_full_by_count_is_told_with_the_makers_of_its_pods() {
        let message = "0/2 nodes are available: 1 Too many pods.";
        let mut pods: Vec<Doc> = ["x", "y", "z"]
            .into_iter()
            .map(|name| on_node(name, "1Gi", "Running"))
            .collect();
        let room = told_with(Some(pods.clone()), message);
        assert_eq!(
            room.text,
            "a takes 3 pods, and runs 3: 1 of pod logs/x, 1 of pod logs/y, 1 of pod logs/z"
        );
        assert!(room.who.contains("administrator of node a (max pods)"));
        pods.pop();
        assert_eq!(told_with(Some(pods), message).text, "a takes 3 pods");
    }

    #[test]
    fn the_pods_that_fill_several_nodes_are_told() {
        let none = |_: &World, of: &ResourceType, doc: &Doc| Explanation::new(doc.subject(of), "");
        let mut world = World::new(Timestamp::UNIX_EPOCH, None, none);
        // (node, its memory, requests of its pods)
        let nodes = [
            ("a", "8Gi", &[("x", "6Gi"), ("z", "1Gi")][..]),
            ("b", "8Gi", &[("x", "3Gi"), ("y", "3Gi")]),
            ("roomy", "16Gi", &[("x", "6Gi")]),
            ("small", "2Gi", &[]),
        ];
        for (node, _, pods) in nodes {
            let need = Need::List {
                of: PODS.clone(),
                namespace: String::new(),
                fields: format!("spec.nodeName={node}"),
            };
            let pods = pods
                .iter()
                .map(|(name, memory)| on_node(name, memory, "Running"));
            world.load(need, Loaded::Objects(pods.collect()));
        }
        let docs = nodes.map(|(name, memory, _)| {
            let allocatable = json!({"memory": memory, "pods": "9"});
            Doc::new(json!({"metadata": {"name": name}, "status": {"allocatable": allocatable}}))
        });
        let told = |names: &[&str], message: &str| {
            let nodes = docs.iter().filter(|node| names.contains(&node.name()));
            shared(
                &world,
                &daemon_pod(&[]),
                &nodes.collect::<Vec<_>>(),
                message,
            )
        };
        let message = "0/4 nodes are available: 4 Insufficient memory.";
        let demand = told(&["a", "b"], message).unwrap();
        assert_eq!(
            demand.text,
            "the 2 nodes that admit it (a, b) have 16Gi memory, and their pods request 13Gi: 9Gi of pod logs/x, 3Gi of pod \
             logs/y, 1Gi of pod logs/z; at most 2Gi is left on one of them"
        );
        assert!(
            demand
                .who
                .ends_with("owners of pod logs/x, pod logs/y, pod logs/z"),
            "{}",
            demand.who
        );
        let some = told(&["a", "roomy", "small"], message).unwrap().text;
        assert!(
            some.starts_with(
                "1 of the 3 nodes that admit it (a) has 8Gi memory, and its pods request 7Gi"
            ),
            "{some}"
        );
        // Nodes with room, nodes that are too small, and unread pods.
        for (names, message) in [
            (&["roomy"][..], message),
            (&["small"], message),
            (&["a"], "0/4 nodes are available: 4 Too many pods."),
        ] {
            assert!(told(names, message).is_none(), "{names:?}");
        }
    }
}
