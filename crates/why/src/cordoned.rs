//! Cordoned nodes that would take a pod otherwise, such as one that an earlier drain has left so. The scheduler's message
//! counts cordoned nodes, and names none.

use crate::demand::Demand;
use crate::site::Site;
use crate::{Doc, World, affinity, room, spread};

/// Nodes whose pods one answer reads.
const COUNTED: usize = 8;
/// Nodes in one sentence.
const SHOWN: usize = 3;

/// Rules about other pods that nodes without the matching pods can break, too. They are not judged here.
const UNJUDGED: [&str; 2] = ["existing pods anti-affinity rules", "free ports"];

/// The cordoned nodes that would take `pod`, if the scheduler's `message` counts some.
pub(crate) fn demand(
    world: &World,
    pod: &Doc,
    site: Option<&Site<'_>>,
    message: &str,
) -> Option<Demand> {
    let site = site?;
    if !message.contains("were unschedulable") || UNJUDGED.iter().any(|rule| message.contains(rule))
    {
        return None;
    }
    let is_near = |node: &&Doc| {
        site.repels_by_cordon_alone(node)
            && affinity::admits(world, pod, site.nodes, node)
            && spread::admits(world, pod, site, node)
    };
    let near: Vec<&Doc> = site.candidates().into_iter().filter(is_near).collect();
    // The pods of all these nodes are asked for at once.
    let rooms = near
        .iter()
        .take(COUNTED)
        .map(|node| (node.name(), room::fits(world, pod, node)));
    let rooms: Vec<(&str, bool)> = rooms.collect();
    let names: Vec<&str> = rooms
        .iter()
        .filter(|(_, fits)| *fits)
        .map(|(name, _)| *name)
        .take(SHOWN)
        .collect();
    let (are, take) = match &names[..] {
        [] => return None,
        [_] => ("is", "it"),
        _ => ("are", "each"),
    };
    Some(Demand {
        text: format!(
            "{} {are} cordoned, and {take} would take the pod otherwise",
            names.join(", ")
        ),
        who: format!("administrator of the nodes (kubectl uncordon {})", names[0]),
    })
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::{Value, json};
    use steersman_values::resource::{NODES, PODS, ResourceType};

    use super::*;
    use crate::{Explanation, Loaded, Need};

    const MESSAGE: &str = "0/6 nodes are available: 2 node(s) were unschedulable.";

    fn node(name: &str, change: impl Fn(&mut Value)) -> Doc {
        let mut node = json!({
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "pool": "db"}},
            "spec": {"unschedulable": true, "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]},
            "status": {"allocatable": {"cpu": "4", "pods": "9"}},
        });
        change(&mut node);
        Doc::new(node)
    }

    fn placed(name: &str, node: &str, cpu: &str) -> Doc {
        Doc::new(json!({
            "metadata": {"namespace": "shop", "name": name, "labels": {"app": name}},
            "spec": {"nodeName": node, "containers": [{"resources": {"requests": {"cpu": cpu}}}]}, "status": {"phase": "Running"},
        }))
    }

    fn told(message: &str, nodes: &[Doc], spec: &Value) -> Option<String> {
        let none = |_: &World, of: &ResourceType, doc: &Doc| Explanation::new(doc.subject(of), "");
        let mut world = World::new(Timestamp::UNIX_EPOCH, None, none);
        let pods = vec![placed("db", "taken", "1"), placed("web", "full", "3")];
        for (of, docs) in [(&NODES, nodes.to_vec()), (&PODS, pods)] {
            let all = Need::List {
                of: of.clone(),
                namespace: String::new(),
                fields: String::new(),
            };
            world.load(all, Loaded::Objects(docs));
        }
        let pod = Doc::new(json!({
            "metadata": {"namespace": "shop", "name": "db-1", "labels": {"app": "db"}}, "spec": spec,
        }));
        let site = Site::of(&world, &pod);
        demand(&world, &pod, site.as_ref(), message).map(|demand| demand.text)
    }

    #[test]
    fn a_cordoned_node_is_told_if_nothing_else_keeps_the_pod_away() {
        let rule = json!({"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "kubernetes.io/hostname"});
        let spec = json!({
            "nodeSelector": {"pool": "db"}, "containers": [{"resources": {"requests": {"cpu": "2"}}}],
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [rule]}},
        });
        let good = || node("good", |_| {});
        let others = [
            node("open", |node| node["spec"] = json!({})),
            node("taken", |_| {}),
            node("full", |_| {}),
            node("other", |node| {
                node["metadata"]["labels"]["pool"] = json!("web")
            }),
            node("lost", |node| {
                node["spec"]["taints"][0]["key"] = json!("node.kubernetes.io/unreachable");
            }),
        ];
        let with = |extra: Vec<Doc>| [others.to_vec(), extra].concat();
        assert_eq!(
            told(MESSAGE, &with(vec![good()]), &spec).as_deref(),
            Some("good is cordoned, and it would take the pod otherwise")
        );
        assert_eq!(told(MESSAGE, &others, &spec), None);
        let more = ["a", "b", "c"].map(|name| node(name, |_| {}));
        assert_eq!(
            told(
                MESSAGE,
                &with([vec![good()], more.to_vec()].concat()),
                &spec
            )
            .as_deref(),
            Some("good, a, b are cordoned, and each would take the pod otherwise")
        );
        for message in [
            "0/6 nodes are available: 6 Too many pods.",
            "1 node(s) were unschedulable, 1 node(s) didn't have free ports",
        ] {
            assert_eq!(told(message, &with(vec![good()]), &spec), None);
        }
    }

    #[test]
    fn a_cordoned_node_counts_only_if_hard_spread_constraints_admit_it() {
        let spread = |skew: i32| {
            let rule = json!({"maxSkew": skew, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "db"}}});
            json!({"topologySpreadConstraints": [rule]})
        };
        let nodes = [node("taken", |_| {}), node("empty", |_| {})];
        assert_eq!(
            told(MESSAGE, &nodes, &spread(1)).as_deref(),
            Some("empty is cordoned, and it would take the pod otherwise")
        );
        assert_eq!(
            told(MESSAGE, &nodes, &spread(2)).as_deref(),
            Some("taken, empty are cordoned, and each would take the pod otherwise")
        );
    }
}
