//! Why the scheduler puts a pod on no node.

use serde_json::Value;
use steersman_objects::Node;
use steersman_values::resource::{NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS};

use super::{NAMES, ONLY_NODE, START, claims, name, starting};
use crate::site::{self, Site, reachable_from};
use crate::{Code, Doc, Explanation, Reason, World, demand, maker, placement, room};

const SCHEDULER: &str = "kube-scheduler";

pub(super) fn unscheduled(world: &World, doc: &Doc, answer: &mut Explanation) {
    let gates: Vec<&str> = doc
        .items("/spec/schedulingGates")
        .iter()
        .filter_map(|gate| gate["name"].as_str())
        .collect();
    if !gates.is_empty() {
        let message = format!("scheduling gates hold the pod: {}", gates.join(", "));
        let who = "program that removes the gate; if none runs, owner of the pod template (schedulingGates)";
        let reason = Reason::new(Code::PodGated, SCHEDULER, message).who(who);
        answer.add(reason.since(doc.time("/metadata/creationTimestamp")));
        return;
    }
    let created = doc.time("/metadata/creationTimestamp");
    device_claims(world, doc, answer);
    match doc.condition("PodScheduled") {
        Some(condition) if condition.text("/status") == "False" => {
            let message = match condition.text("/message") {
                "" => condition.text("/reason"),
                message => message,
            };
            let known = answer.causes().count();
            follow_claims(world, doc, answer);
            let since = condition.time("/lastTransitionTime");
            if message.contains("ReadWriteOncePod") && claims::exclusive(world, doc, since, answer)
            {
                return;
            }
            if message.contains("free ports") {
                ports(world, doc, answer);
            }
            let has_cause = answer.causes().count() > known;
            let (message, who) = told(world, doc, message, has_cause, answer);
            let reason = Reason::new(Code::PodUnscheduled, SCHEDULER, message).who(who);
            answer.add(reason.since(since));
        }
        // The scheduler waits for the claims.
        _ if answer.has(Code::DeviceClaimMissing) => {}
        _ if created.is_some_and(|at| world.now.duration_since(at) > START) => {
            let scheduler = match doc.text("/spec/schedulerName") {
                "" => "default-scheduler",
                name => name,
            };
            answer.add(unnoticed(scheduler).since(created));
        }
        _ => answer.add(starting("the pod waits for the scheduler")),
    }
}

/// The scheduler's `message` with the objects that it is about, and the people that can act. Nodes that stand still are
/// followed in `answer`. The reasons there come first if `has_cause` says that they tell the cause.
fn told(
    world: &World,
    doc: &Doc,
    message: &str,
    has_cause: bool,
    answer: &mut Explanation,
) -> (String, String) {
    let site = Site::of(world, doc);
    let candidates = site.as_ref().map(Site::candidates).unwrap_or_default();
    let only = room::only_node(doc).or(match &candidates[..] {
        [only] => Some(only.name()),
        _ => None,
    });
    let room = only.map(|node| room::told(world, doc, node, message));
    let mut demands = placement::demands(world, doc, site.as_ref(), message);
    if only.is_none() {
        demands.extend(shared_room(world, doc, site.as_ref(), &candidates, message));
    }
    let mut by_demand = demands.iter().filter(|demand| !demand.who.is_empty());
    let who = match (by_demand.next(), &room) {
        _ if has_cause => Reason::see("the other causes"),
        (Some(demand), _) => demand.who.clone(),
        (None, Some(room)) if !room.who.is_empty() => room.who.clone(),
        _ => match only {
            Some(node) => format!("owner of the pod template, or administrator of node {node}"),
            None => "owner of the pod template, or administrator of the nodes".to_owned(),
        },
    };
    let mut message = nodes_in(message).to_owned();
    for demand in demands {
        message = format!("{}; {}", message.trim_end_matches('.'), demand.text);
    }
    if let Some(room) = room {
        message = format!("{}{ONLY_NODE}{}", message.trim_end_matches('.'), room.text);
    }
    follow_nodes(world, site.as_ref(), &candidates, answer);
    match no_further_node(world, doc) {
        Some((said, operator)) => {
            let message = format!("{}; {said}", message.trim_end_matches('.'));
            (message, format!("{who}, or {operator}"))
        }
        None => (message, who),
    }
}

/// The room on the candidates whose taints admit the pod.
fn shared_room(
    world: &World,
    doc: &Doc,
    site: Option<&Site<'_>>,
    candidates: &[&Doc],
    message: &str,
) -> Option<demand::Demand> {
    // Unread volumes may keep the pod from some of the nodes.
    let site = site.filter(|site| site.are_volumes_read)?;
    let admits = |node: &&&Doc| site.repelling(node).is_none();
    let nodes: Vec<&Doc> = candidates.iter().filter(admits).copied().collect();
    room::shared(world, doc, &nodes, message)
}

/// Follows the candidates that stand still themselves, if their taints leave none to the pod.
fn follow_nodes(
    world: &World,
    site: Option<&Site<'_>>,
    candidates: &[&Doc],
    answer: &mut Explanation,
) {
    let Some(site) = site else {
        return;
    };
    if !candidates.iter().all(|node| site.repelling(node).is_some()) {
        return;
    }
    let followed = answer.followed();
    let is_new = |node: &&&Doc| !followed.contains(&&node.subject(&NODES));
    let nodes = candidates.iter().take(NAMES).filter(is_new);
    let about = nodes.map(|node| world.explain(&NODES, node));
    let stuck: Vec<Explanation> = about.filter(Explanation::is_stuck).collect();
    answer.waits_for.extend(stuck);
}

/// The reason of a pod that no scheduler has looked at.
fn unnoticed(scheduler: &str) -> Reason {
    let message = format!("no scheduler has looked at the pod; it asks for {scheduler:?}");
    let operator = format!("operator of the scheduler {scheduler:?}");
    let (by, who) = match scheduler {
        "default-scheduler" => (SCHEDULER, operator),
        other => (
            other,
            format!("{operator}, or owner of the pod template (schedulerName)"),
        ),
    };
    Reason::new(Code::PodUnscheduled, by, message).who(who)
}

/// The words of an autoscaler of nodes that adds none for the pod, and its operator.
fn no_further_node(world: &World, doc: &Doc) -> Option<(String, String)> {
    let events = world.events(doc);
    let (from, event) = events.iter().find_map(|event| {
        let from = match event.text("/source/component") {
            "" => event.text("/reportingComponent"),
            component => component,
        };
        let is_refusal = match event.text("/reason") {
            "NotTriggerScaleUp" => true,
            "FailedScheduling" => from == "karpenter",
            _ => false,
        };
        is_refusal.then_some((from, event))
    })?;
    Some((
        format!("{from} adds no node: {}", event.text("/message").trim()),
        format!("operator of {from}"),
    ))
}

/// Adds the resource claims of the pod that do not exist, and the missing templates of others.
fn device_claims(world: &World, doc: &Doc, answer: &mut Explanation) {
    const GROUP: &str = "resource.k8s.io";
    for claim in doc.items("/spec/resourceClaims") {
        let named = |field: &str| claim[field].as_str().unwrap_or_default().to_owned();
        let (plural, kind, object) = match &*named("resourceClaimTemplateName") {
            "" => (
                "resourceclaims",
                "ResourceClaim",
                named("resourceClaimName"),
            ),
            template => (
                "resourceclaimtemplates",
                "ResourceClaimTemplate",
                template.to_owned(),
            ),
        };
        let Some(of) = world.resource(GROUP, plural).found() else {
            continue;
        };
        let namespace = doc.namespace();
        if world.get(&of, namespace, &object).is_absent() {
            let message = format!(
                "resource claim {} needs {kind} {namespace}/{object}, which does not exist",
                name(claim)
            );
            let reason = Reason::new(Code::DeviceClaimMissing, SCHEDULER, message)
                .who(format!("creator of {kind} {namespace}/{object}"));
            answer.add(reason.since(doc.time("/metadata/creationTimestamp")));
        }
    }
}

/// Adds the pods that have a host port of `doc`, on its node if its affinity names one.
fn ports(world: &World, doc: &Doc, answer: &mut Explanation) {
    let wanted = demand::host_ports(doc);
    let only = room::only_node(doc);
    let holders = world.list(&PODS, "").unwrap_or_default().iter();
    let holders = holders.filter(|pod| {
        let node = pod.text("/spec/nodeName");
        !node.is_empty() && !pod.has_ended() && only.is_none_or(|only| node == only)
    });
    let taken = holders.filter_map(|pod| {
        let port = demand::host_ports(pod)
            .into_iter()
            .find(|port| wanted.contains(port))?;
        Some((pod, port))
    });
    for (pod, port) in taken.take(NAMES) {
        let holder = format!("pod {}/{}", pod.namespace(), pod.name());
        let message = format!(
            "host port {port} of {} belongs to {holder}",
            pod.text("/spec/nodeName")
        );
        let who = match maker(pod) {
            other if other == maker(doc) => format!(
                "owner of {other} (fewer replicas, or no hostPort), or administrator of the nodes (one more)"
            ),
            other => format!("owner of {other}, or of the pod template (hostPort)"),
        };
        answer.add(Reason::new(Code::PortTaken, SCHEDULER, message).who(who));
    }
}

/// The part of the scheduler's message that tells about nodes. The rest tells that an eviction of other
/// pods would not help.
fn nodes_in(message: &str) -> &str {
    ["no new claims to deallocate", "preemption: "]
        .iter()
        .filter_map(|rest| message.find(rest))
        .min()
        .map_or(message, |at| message[..at].trim_end_matches([' ', ',']))
}

/// Adds the nodes that reach the volume of `claim`, if its volume limits them.
fn reach(world: &World, pod: &Doc, claim: &Doc, answer: &mut Explanation) {
    let name = claim.text("/spec/volumeName");
    if name.is_empty() {
        return;
    }
    let Some(volume) = world.get(&PERSISTENT_VOLUMES, "", name).found() else {
        return;
    };
    let required = volume.at("/spec/nodeAffinity/required");
    let selector = reachable_from(&volume);
    let (Some(selector), Some(nodes)) = (selector, world.list(&NODES, "")) else {
        return;
    };
    let reaches = |node: &&Doc| {
        let view = node.view::<Node>();
        view.is_some_and(|view| selector.matches(&view))
    };
    let near: Vec<&Doc> = nodes.iter().filter(reaches).collect();
    let is_cordoned = |node: &Doc| node.at("/spec/unschedulable").is_some_and(|is| *is == true);
    let names: Vec<&str> = near.iter().map(|node| node.name()).collect();
    let names = demand::listed(&names);
    let site = Site::of(world, pod);
    let repelled = site.as_ref().map(|site| site.repelled(&near));
    let repelled =
        repelled.filter(|found| found.values().map(Vec::len).sum::<usize>() == near.len());
    let bound = format!("claim {} is bound to volume {name}", claim.name());
    let (code, message, who) = if near.is_empty() {
        (
            Code::VolumeUnreachable,
            format!(
                "{bound}, which no node reaches: its spec.nodeAffinity asks for {}",
                demand::terms(required.unwrap_or(&Value::Null))
            ),
            format!(
                "administrator of the nodes (a node with these labels), or owner of claim {}",
                claim.name()
            ),
        )
    } else if near.iter().all(|node| is_cordoned(node)) {
        (
            Code::VolumeUnreachable,
            format!("{bound}, and the nodes that reach it are cordoned: {names}"),
            format!(
                "administrator of the nodes (kubectl uncordon {})",
                near[0].name()
            ),
        )
    } else if let Some(repelled) = repelled {
        let taints = repelled
            .iter()
            .map(|(taint, nodes)| format!("{} of {}", taint.text, demand::listed(nodes)));
        let message = format!(
            "{bound}, which {names} alone {}; the pod does not tolerate {}",
            if near.len() == 1 { "reaches" } else { "reach" },
            taints.collect::<Vec<_>>().join(", ")
        );
        (Code::VolumeUnreachable, message, site::actors(&repelled))
    } else {
        let message = format!("{bound}, which these nodes alone reach: {names}");
        (Code::VolumeTopology, message, String::new())
    };
    answer.add(Reason::new(code, SCHEDULER, message).who(who));
}

/// Follows the claims of the pod that stand still themselves.
pub(super) fn follow_claims(world: &World, doc: &Doc, answer: &mut Explanation) {
    let namespace = doc.namespace();
    for claim in demand::claim_names(doc) {
        let found = world.get(&PERSISTENT_VOLUME_CLAIMS, namespace, &claim);
        if found.is_absent() {
            let message = format!("the pod's claim {claim} does not exist");
            let reason = Reason::new(Code::ClaimPending, SCHEDULER, message).who(format!(
                "creator of PersistentVolumeClaim {namespace}/{claim}"
            ));
            answer.add(reason);
        }
        if let Some(claim) = found.found() {
            let about = world.explain(&PERSISTENT_VOLUME_CLAIMS, &claim);
            if about.is_stuck() {
                answer.follow(about);
            }
            reach(world, doc, &claim, answer);
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;
    use steersman_values::resource::ResourceType;

    use super::*;
    use crate::{Explanation, Loaded, Need};

    #[test]
    fn nodes_admit_a_pod_only_if_its_volumes_are_known() {
        let none = |_: &World, of: &ResourceType, doc: &Doc| Explanation::new(doc.subject(of), "");
        let mut world = World::new(Timestamp::UNIX_EPOCH, None, none);
        let pod = |name: &str, spec: Value| {
            let metadata = json!({"namespace": "shop", "name": name});
            Doc::new(json!({"metadata": metadata, "spec": spec}))
        };
        let containers = json!([{"resources": {"requests": {"memory": "5Gi"}}}]);
        let node = Doc::new(
            json!({"metadata": {"name": "a"}, "status": {"allocatable": {"memory": "8Gi"}}}),
        );
        let full = pod("full", json!({"nodeName": "a", "containers": containers}));
        for (of, doc) in [(&NODES, node), (&PODS, full)] {
            let all = Need::List {
                of: of.clone(),
                namespace: String::new(),
                fields: String::new(),
            };
            world.load(all, Loaded::Objects(vec![doc]));
        }
        let told = |volumes: Value| {
            let pod = pod("new", json!({"containers": containers, "volumes": volumes}));
            let site = Site::of(&world, &pod);
            let candidates = site.as_ref().map(Site::candidates).unwrap_or_default();
            let message = "0/1 nodes are available: 1 Insufficient memory.";
            shared_room(&world, &pod, site.as_ref(), &candidates, message).is_some()
        };
        assert!(told(json!([])));
        let claim = json!({"persistentVolumeClaim": {"claimName": "unread"}});
        assert!(!told(json!([claim])));
    }
}
