//! Topology spread constraints that forbid a node. The message of the scheduler names neither the topology domain with
//! too few pods nor its nodes.
//!
//! Upstream: the plugin `podtopologyspread` of kube-scheduler.

use std::collections::BTreeMap;

use serde_json::Value;
use steersman_objects::Pod;
use steersman_values::labels::{Selector, WireSelector};
use steersman_values::resource::PODS;

use crate::demand::{Demand, listed};
use crate::site::{Site, actors};
use crate::{Doc, World, count};

/// The field value, and its default, by which tainted nodes count.
const IGNORE: &str = "Ignore";

/// The demands of the hard constraints of `pod`, one each.
pub(crate) fn demands(world: &World, pod: &Doc, site: Option<&Site<'_>>) -> Vec<Demand> {
    let (hard, keys) = hard(pod);
    let demands = hard.iter().map(|one| demand(world, pod, site, one, &keys));
    demands.collect()
}

/// The hard constraints of `pod`, and their keys.
fn hard(pod: &Doc) -> (Vec<&Value>, Vec<&str>) {
    let all = pod.items("/spec/topologySpreadConstraints").iter();
    let hard = all.filter(|one| one["whenUnsatisfiable"] == "DoNotSchedule");
    let hard: Vec<&Value> = hard.collect();
    let keys = hard.iter().filter_map(|one| one["topologyKey"].as_str());
    let keys = keys.collect();
    (hard, keys)
}

/// Whether the hard constraints of `pod`, which match its own labels, admit `node`. `false` if that is unknown.
pub(crate) fn admits(world: &World, pod: &Doc, site: &Site<'_>, node: &Doc) -> bool {
    let (hard, keys) = hard(pod);
    let is_met = |one: &Value| {
        let least = least(world, pod, site, one, &keys)?;
        let key = one["topologyKey"].as_str()?;
        let domain = node.label(key)?;
        let nodes = site
            .nodes
            .iter()
            .filter(|node| node.label(key) == Some(domain));
        let names: Vec<&str> = nodes.map(Doc::name).collect();
        let placed = matching(world, pod, one)?;
        let here = placed
            .iter()
            .filter(|pod| names.contains(&pod.text("/spec/nodeName")));
        let skew = one["maxSkew"]
            .as_u64()
            .and_then(|skew| usize::try_from(skew).ok())?;
        Some(here.count() < least.pods + skew)
    };
    hard.into_iter().all(|one| is_met(one) == Some(true))
}

/// The demand of the constraint `one`. `keys` are those of all hard constraints.
fn demand(world: &World, pod: &Doc, site: Option<&Site<'_>>, one: &Value, keys: &[&str]) -> Demand {
    let key = one["topologyKey"].as_str().unwrap_or_default();
    let skew = &one["maxSkew"];
    let mut demand = Demand {
        text: format!("the pod asks for maxSkew {skew} over {key} (topologySpreadConstraints)"),
        who: String::new(),
    };
    let least = site.and_then(|site| Some((site, least(world, pod, site, one, keys)?)));
    if let Some((site, least)) = least {
        let (text, who) = least.words(site, one);
        demand.text = format!("{}; {text}", demand.text);
        demand.who = who;
    }
    demand
}

/// The topology domain with the fewest pods.
struct Least<'w> {
    domain: &'w str,
    nodes: Vec<&'w Doc>,
    pods: usize,
}

/// The domain with the fewest matching pods. Among equals, one whose nodes all keep the pod away by their taints comes
/// first: it stays so. `None` if the pods are unread, and with `minDomains`: too few domains count as an empty one.
/// Nodes without one of `keys` do not count, as in upstream's `nodeLabelsMatchSpreadConstraints`.
fn least<'w>(
    world: &'w World,
    pod: &Doc,
    site: &Site<'w>,
    one: &Value,
    keys: &[&str],
) -> Option<Least<'w>> {
    if !one["minDomains"].is_null() {
        return None;
    }
    let key = one["topologyKey"].as_str()?;
    let by_affinity = one["nodeAffinityPolicy"] != IGNORE;
    let by_taints = one["nodeTaintsPolicy"] == "Honor";
    let counts = |node: &&Doc| {
        let has_keys = keys.iter().all(|key| node.label(key).is_some());
        let is_selected = !by_affinity || site.selects(node);
        has_keys && is_selected && !(by_taints && site.repelling(node).is_some())
    };
    let mut domains: BTreeMap<&str, Vec<&Doc>> = BTreeMap::new();
    for node in site.nodes.iter().filter(counts) {
        if let Some(domain) = node.label(key) {
            domains.entry(domain).or_default().push(node);
        }
    }
    let matching = matching(world, pod, one)?;
    let all = domains.into_iter().map(|(domain, nodes)| {
        let is_here = |pod: &&&Doc| {
            let name = pod.text("/spec/nodeName");
            nodes.iter().any(|node| node.name() == name)
        };
        let pods = matching.iter().filter(is_here).count();
        Least {
            domain,
            nodes,
            pods,
        }
    });
    all.min_by_key(|one| (one.pods, !one.is_closed(site)))
}

/// The pods of the namespace that the constraint counts.
fn matching<'w>(world: &'w World, pod: &Doc, one: &Value) -> Option<Vec<&'w Doc>> {
    let wire: Option<WireSelector> = serde_json::from_value(one["labelSelector"].clone()).ok()?;
    let selector = Selector::parse(wire.as_ref()).ok()?;
    let keys = one["matchLabelKeys"].as_array();
    let keys: Vec<&str> = keys
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let is_counted = |other: &&Doc| {
        let is_like = keys.iter().all(|key| other.label(key) == pod.label(key));
        let view = other.view::<Pod>();
        let matches = view.is_some_and(|view| selector.matches(&view.meta.labels));
        other.deleted().is_none() && !other.has_ended() && is_like && matches
    };
    let all = world.within(&PODS, pod.namespace())?;
    Some(all.into_iter().filter(is_counted).collect())
}

impl Least<'_> {
    /// Whether taints keep the pod from all nodes of the domain.
    fn is_closed(&self, site: &Site<'_>) -> bool {
        self.nodes.iter().all(|node| site.repelling(node).is_some())
    }

    /// The domain in words, and the people that can act.
    fn words(&self, site: &Site<'_>, one: &Value) -> (String, String) {
        let skew = one["maxSkew"].as_u64().unwrap_or(1);
        let key = one["topologyKey"].as_str().unwrap_or_default();
        let name = key.rsplit('/').next().unwrap_or_default();
        let names: Vec<&str> = self.nodes.iter().map(|node| node.name()).collect();
        let head = format!(
            "{name} {} has the fewest ({}), so each other {name} takes at most {}",
            self.domain,
            count(self.pods, "pod"),
            u64::try_from(self.pods).unwrap_or_default() + skew
        );
        if !self.is_closed(site) {
            return (
                format!("{head}; its nodes: {}", listed(&names)),
                String::new(),
            );
        }
        let repelled = site.repelled(&self.nodes);
        let taints = repelled
            .iter()
            .map(|(taint, nodes)| format!("{} ({})", taint.text, listed(nodes)));
        let taints = taints.collect::<Vec<_>>().join(", ");
        let text = format!(
            "{head}; the pod does not tolerate the taints of all nodes there, {taints}, and they count all the same \
             (nodeTaintsPolicy Ignore)"
        );
        let who = format!(
            "owner of the pod template (nodeTaintsPolicy Honor, a larger maxSkew, or whenUnsatisfiable \
             ScheduleAnyway); or {}",
            actors(&repelled)
        );
        (text, who)
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;
    use steersman_values::resource::{NODES, ResourceType};

    use super::*;
    use crate::{Explanation, Loaded, Need};

    /// The demand of a pod with this constraint. Zones a and b have a pod each, and zone c has none.
    fn told(changes: &Value) -> Option<Demand> {
        let demands = told_with(&[changes]);
        demands.into_iter().next()
    }

    /// The demands of a pod with one constraint for each of these changes.
    fn told_with(changes: &[&Value]) -> Vec<Demand> {
        let none = |_: &World, of: &ResourceType, doc: &Doc| Explanation::new(doc.subject(of), "");
        let mut world = World::new(Timestamp::UNIX_EPOCH, None, none);
        let node = |name: &str, zone: &str, taints: Value| {
            let labels = json!({"zone": zone, "pool": "web"});
            json!({"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints}})
        };
        // The nodes of zone c alone have no rack.
        let racked = |name: &str, zone: &str| {
            let mut node = node(name, zone, json!([]));
            node["metadata"]["labels"]["rack"] = json!("r1");
            node
        };
        let taint = json!([{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}]);
        let nodes = [
            racked("n0", "a"),
            racked("n1", "b"),
            node("n2", "c", taint.clone()),
            node("n3", "c", taint),
        ];
        let pod = |name: &str, node: &str, app: &str| json!({"metadata": {"name": name, "namespace": "shop", "labels": {"app": app}}, "spec": {"nodeName": node}});
        let pods = [
            pod("p0", "n0", "web"),
            pod("p1", "n1", "web"),
            pod("p2", "n2", "other"),
        ];
        for (of, namespace, docs) in [(&NODES, "", nodes.to_vec()), (&PODS, "shop", pods.to_vec())]
        {
            let need = Need::List {
                of: of.clone(),
                namespace: namespace.to_owned(),
                fields: String::new(),
            };
            world.load(
                need,
                Loaded::Objects(docs.into_iter().map(Doc::new).collect()),
            );
        }
        let constraint = |changes: &&Value| {
            let mut constraint = json!({
                "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "web"}},
            });
            for (name, value) in changes.as_object().unwrap() {
                constraint[name] = value.clone();
            }
            constraint
        };
        let constraints: Vec<Value> = changes.iter().map(constraint).collect();
        let pod = Doc::new(json!({
            "metadata": {"name": "p", "namespace": "shop", "labels": {"app": "web"}},
            "spec": {"topologySpreadConstraints": constraints},
        }));
        let site = Site::of(&world, &pod);
        demands(&world, &pod, site.as_ref())
    }

    #[test]
    fn the_domain_with_the_fewest_pods_is_told_with_the_taints_of_its_nodes() {
        let demand = told(&json!({})).unwrap();
        assert_eq!(
            demand.text,
            "the pod asks for maxSkew 1 over zone (topologySpreadConstraints); zone c has the fewest (0 pods), so \
             each other zone takes at most 1; the pod does not tolerate the taints of all nodes there, \
             dedicated=batch:NoSchedule (n2, n3), and they count all the same (nodeTaintsPolicy Ignore)"
        );
        assert!(
            demand.who.contains("nodeTaintsPolicy Honor"),
            "{}",
            demand.who
        );
        assert!(
            demand.who.contains("administrator of node n2, n3"),
            "{}",
            demand.who
        );
    }

    #[test]
    fn a_domain_of_tainted_nodes_does_not_count_if_the_constraint_says_so() {
        let demand = told(&json!({"nodeTaintsPolicy": "Honor"})).unwrap();
        assert!(demand.text.ends_with(
            "zone a has the fewest (1 pod), so each other zone takes at most 2; its nodes: n0"
        ));
        assert_eq!(demand.who, "");
        // With too few domains, the scheduler takes an empty one for the least.
        let demand = told(&json!({"minDomains": 4})).unwrap();
        assert!(!demand.text.contains("has the fewest"), "{}", demand.text);
        // A soft constraint forbids nothing.
        let soft = json!({"whenUnsatisfiable": "ScheduleAnyway"});
        assert!(told(&soft).is_none());
        // No node has the label of the topology, and nothing is known about its domains.
        let demand = told(&json!({"topologyKey": "row"})).unwrap();
        assert!(
            demand
                .text
                .ends_with("over row (topologySpreadConstraints)")
        );
    }

    #[test]
    fn a_node_without_the_key_of_another_hard_constraint_does_not_count() {
        let rack = json!({"topologyKey": "rack"});
        let demands = told_with(&[&json!({}), &rack]);
        let zone = &demands[0].text;
        assert!(
            zone.ends_with(
                "zone a has the fewest (1 pod), so each other zone takes at most 2; its nodes: n0"
            ),
            "{zone}"
        );
        // A soft constraint leaves all nodes in.
        let soft = json!({"topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway"});
        let demands = told_with(&[&json!({}), &soft]);
        assert!(demands[0].text.contains("zone c has the fewest (0 pods)"));
    }
}
