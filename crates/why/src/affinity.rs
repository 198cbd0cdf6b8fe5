//! Required affinity to pods, and anti-affinity. The message of the scheduler names neither the labels nor the pods.
//!
//! Upstream: the plugin `interpodaffinity` of kube-scheduler.

use serde_json::Value;
use steersman_objects::Pod;
use steersman_values::labels::{Selector, WireSelector};
use steersman_values::resource::PODS;

use crate::demand::{Demand, listed};
use crate::{Doc, World, count, maker};

/// The demands of `pod` for other pods in its topology domain, if the scheduler's `message` is about them.
pub(crate) fn demands(world: &World, pod: &Doc, message: &str) -> Vec<Demand> {
    let mut found = Vec::new();
    if message.contains("didn't match pod affinity rules") {
        found.extend(terms(pod, "podAffinity").filter_map(|term| near(world, pod, term)));
    }
    if message.contains("didn't match pod anti-affinity rules") {
        found.extend(terms(pod, "podAntiAffinity").filter_map(|term| apart(world, pod, term)));
    }
    found
}

/// The required terms of `pod` of this kind.
fn terms<'p>(pod: &'p Doc, kind: &str) -> impl Iterator<Item = &'p Value> + use<'p> {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    pod.items(&format!("/spec/affinity/{kind}/{REQUIRED}"))
        .iter()
}

/// Whether `pod` has a required anti-affinity.
pub(crate) fn keeps_apart(pod: &Doc) -> bool {
    terms(pod, "podAntiAffinity").next().is_some()
}

/// A term: its labels as text, its topology, and the placed pods that match it. `None` for the pods if they are unread,
/// or if the term is about namespaces by their labels.
struct Term<'w> {
    labels: String,
    topology: String,
    placed: Option<Vec<&'w Doc>>,
}

fn term<'w>(world: &'w World, pod: &Doc, term: &Value) -> Option<Term<'w>> {
    let wire: Option<WireSelector> = serde_json::from_value(term["labelSelector"].clone()).ok()?;
    let selector = Selector::parse(wire.as_ref()).ok()?;
    let is_placed = |other: &&Doc| {
        let view = other.view::<Pod>();
        let matches = view.is_some_and(|view| selector.matches(&view.meta.labels));
        matches && !other.has_ended() && !other.text("/spec/nodeName").is_empty()
    };
    let named = term["namespaces"]
        .as_array()
        .is_some_and(|all| !all.is_empty());
    let is_elsewhere = named || term["namespaceSelector"].is_object();
    let own = (!is_elsewhere).then(|| world.within(&PODS, pod.namespace()));
    Some(Term {
        labels: selector.to_string(),
        topology: term["topologyKey"].as_str().unwrap_or_default().to_owned(),
        placed: own
            .flatten()
            .map(|all| all.into_iter().filter(is_placed).collect()),
    })
}

/// Whether the required affinity and anti-affinity of `pod` admit `node`, one of `nodes`. `false` if pods are unread.
pub(crate) fn admits(world: &World, pod: &Doc, nodes: &[Doc], node: &Doc) -> bool {
    let is_near = |one: &Value| {
        let term = term(world, pod, one)?;
        let domain = |node: &Doc| node.label(&term.topology).map(str::to_owned);
        let own = domain(node)?;
        let mut others = term.placed?.into_iter().filter_map(|other| {
            let mut nodes = nodes.iter();
            domain(nodes.find(|node| node.name() == other.text("/spec/nodeName"))?)
        });
        Some(others.any(|other| other == own))
    };
    terms(pod, "podAntiAffinity").all(|one| is_near(one) == Some(false))
        && terms(pod, "podAffinity").all(|one| is_near(one) == Some(true))
}

/// The demand for a pod that must be near.
fn near(world: &World, pod: &Doc, one: &Value) -> Option<Demand> {
    let term = term(world, pod, one)?;
    let text = format!(
        "the pod asks for a pod with {} in its {} (podAffinity)",
        term.labels, term.topology
    );
    let placed = match term.placed {
        Some(placed) if placed.is_empty() => {
            format!(", and none runs on a node in namespace {}", pod.namespace())
        }
        Some(placed) => format!(", and such pods are on {}", nodes(&placed)),
        None => String::new(),
    };
    let who = format!(
        "owner of the pod template (podAffinity), or of the pods with {}",
        term.labels
    );
    let text = format!("{text}{placed}");
    Some(Demand { text, who })
}

/// The demand for pods that must be elsewhere.
fn apart(world: &World, pod: &Doc, one: &Value) -> Option<Demand> {
    let term = term(world, pod, one)?;
    let text = format!(
        "the pod asks for no pod with {} in its {} (podAntiAffinity)",
        term.labels, term.topology
    );
    let placed = term.placed.filter(|placed| !placed.is_empty());
    let placed = placed.map(|placed| {
        let own = maker(pod);
        let others = placed.iter().filter(|other| maker(other) != own);
        let others: Vec<String> = others.map(|other| maker(other)).collect();
        let of = match others.first() {
            None => format!(" of {own}"),
            Some(other) => format!(", such as one of {other}"),
        };
        format!(
            ", and {} on {}{of}",
            count(placed.len(), "such pod"),
            nodes(&placed)
        )
    });
    let text = format!("{text}{}", placed.unwrap_or_default());
    let who = "owner of the pod template (preferred in place of required anti-affinity, or fewer replicas), or \
               administrator of the nodes (one more)";
    let who = who.to_owned();
    Some(Demand { text, who })
}

fn nodes(pods: &[&Doc]) -> String {
    let mut names: Vec<&str> = pods.iter().map(|pod| pod.text("/spec/nodeName")).collect();
    names.sort_unstable();
    names.dedup();
    listed(&names)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;
    use steersman_values::resource::ResourceType;

    use super::*;
    use crate::{Explanation, Loaded, Need};

    fn told(kind: &str, message: &str, app: &str) -> Vec<String> {
        let none = |_: &World, of: &ResourceType, doc: &Doc| Explanation::new(doc.subject(of), "");
        let mut world = World::new(Timestamp::UNIX_EPOCH, None, none);
        let all = Need::List {
            of: PODS.clone(),
            namespace: "shop".to_owned(),
            fields: String::new(),
        };
        let placed = |name: &str, node: &str| {
            Doc::new(json!({
                "metadata": {"namespace": "shop", "name": name, "labels": {"app": "web"}},
                "spec": {"nodeName": node}, "status": {"phase": "Running"},
            }))
        };
        let pods = vec![placed("a", "n2"), placed("b", "n1"), placed("c", "")];
        world.load(all, Loaded::Objects(pods));
        let term = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app}}});
        let pod = Doc::new(json!({
            "metadata": {"namespace": "shop", "name": "new"},
            "spec": {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}},
        }));
        let demands = demands(&world, &pod, message).into_iter();
        demands.map(|demand| demand.text).collect()
    }

    #[test]
    fn the_pods_of_affinity_and_anti_affinity_are_told() {
        const NEAR: &str = "2 node(s) didn't match pod affinity rules.";
        const APART: &str = "2 node(s) didn't match pod anti-affinity rules.";
        assert_eq!(
            told("podAffinity", NEAR, "cache"),
            [
                "the pod asks for a pod with app=cache in its kubernetes.io/hostname (podAffinity), and none runs on a node in namespace shop"
            ]
        );
        assert!(told("podAffinity", NEAR, "web")[0].ends_with(", and such pods are on n1, n2"));
        assert_eq!(
            told("podAntiAffinity", APART, "web"),
            [
                "the pod asks for no pod with app=web in its kubernetes.io/hostname (podAntiAffinity), and 2 such pods on n1, n2, such as one of pod shop/a"
            ]
        );
        assert!(told("podAntiAffinity", NEAR, "web").is_empty());
    }
}
