//! Cordoned nodes that would take a pod otherwise, such as one that an earlier drain has left so. The scheduler's message
//! counts cordoned nodes, and names none.

use crate::demand::{Demand, host_ports};
use crate::site::Site;
use crate::{Doc, World, affinity, maker, room, spread};

/// Cordoned nodes that one answer judges. It reads the pods of each.
const JUDGED: usize = 12;
/// Words of the scheduler about rules that are not judged here.
const OTHERS: [&str; 2] = [
    "existing pods anti-affinity rules",
    "exceed max volume count",
];
/// Nodes in one sentence.
const SHOWN: usize = 3;

/// The cordoned nodes that would take `pod`, if the scheduler's `message` counts some. `None` for a pod with host ports,
/// with claims of devices, or with claims whose volumes are unknown: these are not judged here.
pub(crate) fn demand(
    world: &World,
    pod: &Doc,
    site: Option<&Site<'_>>,
    message: &str,
) -> Option<Demand> {
    let site = site.filter(|site| site.are_volumes_read && site.are_claims_bound)?;
    let is_judged = pod.items("/spec/resourceClaims").is_empty() && host_ports(pod).is_empty();
    // Pods on other nodes of a zone keep the pod away from the whole zone. Only those on the node itself are read.
    let is_other = OTHERS.iter().any(|words| message.contains(words));
    if !message.contains("were unschedulable") || !is_judged || is_other {
        return None;
    }
    let cordoned = site.candidates().into_iter();
    let cordoned = cordoned.filter(|node| site.repels_by_cordon_alone(node));
    let is_near = |node: &&Doc| {
        affinity::admits(world, pod, site.nodes, node) && spread::admits(world, pod, site, node)
    };
    let near = cordoned.take(JUDGED).filter(is_near);
    // The pods of all these nodes are asked for at once.
    let rooms = near.map(|node| {
        let takes = room::fits(world, pod, node) && !is_kept(world, pod, node);
        (node.name(), takes)
    });
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

/// Whether a pod on `node` may keep `pod` away: one of another maker with a required anti-affinity. Its labels are not
/// compared. `true` if the pods are unread.
fn is_kept(world: &World, pod: &Doc, node: &Doc) -> bool {
    let own = maker(pod);
    let repels =
        |other: &&Doc| !other.has_ended() && affinity::keeps_apart(other) && maker(other) != own;
    let pods = world.pods_on(node.name());
    pods.is_none_or(|pods| pods.iter().any(repels))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::{Value, json};
    use steersman_values::resource::{
        NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, ResourceType,
    };

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
        let mut guard = placed("guard", "guarded", "1").value().clone();
        let rule = json!({"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"});
        guard["spec"]["affinity"]["podAntiAffinity"] =
            json!({"requiredDuringSchedulingIgnoredDuringExecution": [rule]});
        let pods = vec![
            placed("db", "taken", "1"),
            placed("web", "full", "3"),
            Doc::new(guard),
        ];
        for (of, docs) in [(&NODES, nodes.to_vec()), (&PODS, pods)] {
            let all = Need::List {
                of: of.clone(),
                namespace: String::new(),
                fields: String::new(),
            };
            world.load(all, Loaded::Objects(docs));
        }
        let mut object = |of: &ResourceType, namespace: &str, name: &str, spec: Value| {
            let one = Need::Object {
                of: of.clone(),
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            };
            let doc = Doc::new(json!({"metadata": {"name": name}, "spec": spec}));
            world.load(one, Loaded::Objects(vec![doc]));
        };
        object(&PERSISTENT_VOLUMES, "", "disk", json!({}));
        for (claim, volume) in [("bound", "disk"), ("hidden", "other"), ("unbound", "")] {
            object(
                &PERSISTENT_VOLUME_CLAIMS,
                "shop",
                claim,
                json!({"volumeName": volume}),
            );
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
        let message =
            format!("{MESSAGE} 1 node(s) didn't satisfy existing pods anti-affinity rules");
        assert_eq!(told(&message, &with(vec![good()]), &spec), None);
        let message = "0/6 nodes are available: 6 Too many pods.";
        assert_eq!(told(message, &with(vec![good()]), &spec), None);
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

    #[test]
    fn a_node_without_a_requested_resource_or_with_a_pod_that_keeps_others_apart_is_no_remedy() {
        let node = |name: &str, gpus: Value| {
            node(name, |node| {
                node["status"]["allocatable"]["nvidia.com/gpu"] = gpus.clone();
            })
        };
        let nodes = [node("plain", Value::Null), node("guarded", json!("2"))];
        let gpu = |count: &str| json!({"containers": [{"resources": {"requests": {"nvidia.com/gpu": count}}}]});
        assert_eq!(told(MESSAGE, &nodes, &gpu("1")), None);
        assert_eq!(
            told(MESSAGE, &nodes, &gpu("0")).as_deref(),
            Some("plain is cordoned, and it would take the pod otherwise")
        );
        let with_gpus = [node("gpus", json!("2"))];
        assert!(told(MESSAGE, &with_gpus, &gpu("2")).is_some());
        assert_eq!(told(MESSAGE, &with_gpus, &gpu("3")), None);
    }

    #[test]
    fn pods_with_host_ports_devices_or_unknown_volumes_are_not_judged() {
        let nodes = [node("good", |_| {})];
        assert!(told(MESSAGE, &nodes, &json!({"containers": []})).is_some());
        for spec in [
            json!({"containers": [{"ports": [{"hostPort": 80}]}]}),
            json!({"containers": [], "resourceClaims": [{"name": "gpu"}]}),
        ] {
            assert_eq!(told(MESSAGE, &nodes, &spec), None, "{spec}");
        }
        for (claim, expected) in [
            ("bound", true),
            ("hidden", false),
            ("unbound", false),
            ("unread", false),
        ] {
            let volume = json!({"name": "a", "persistentVolumeClaim": {"claimName": claim}});
            let spec = json!({"containers": [], "volumes": [volume]});
            assert_eq!(told(MESSAGE, &nodes, &spec).is_some(), expected, "{claim}");
        }
    }

    #[test]
    fn cordoned_nodes_are_judged_beside_many_open_ones() {
        let open = (0..JUDGED)
            .map(|count| node(&format!("open-{count}"), |node| node["spec"] = json!({})));
        let nodes: Vec<Doc> = open.chain([node("last", |_| {})]).collect();
        assert!(told(MESSAGE, &nodes, &json!({"containers": []})).is_some());
    }
}
