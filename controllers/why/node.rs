//! Why a node takes no pods: its kubelet, its conditions, and the taints that a program has not removed yet.

use jiff::SignedDuration;
use steersman_why::{Code, Doc, Explanation, Reason, World, remover};

use crate::daemonset;

/// Time after which a program should have removed its taint from a new node.
const PATIENCE: SignedDuration = SignedDuration::from_secs(60);

/// The condition of a node without a network: of a network plugin, or of the routes of a cloud.
const NO_NETWORK: &str = "NetworkUnavailable";
/// Its reason before the cloud has made a route. Network plugins have no part in it.
const NO_ROUTE: &str = "NoRouteCreated";

/// Conditions that keep pods away while they are True, with the people that can act.
const PRESSURES: [(&str, &str); 4] = [
    (
        "DiskPressure",
        " (free disk space: images, logs, local data)",
    ),
    ("MemoryPressure", " (more memory, or fewer pods)"),
    ("PIDPressure", " (fewer processes, or a higher limit)"),
    (
        NO_NETWORK,
        ", or operator of its network plugin or of the routes of the cloud",
    ),
];

/// Adds the reasons about `doc`.
pub(super) fn explain(world: &World, doc: &Doc, answer: &mut Explanation) {
    let ready = doc.condition("Ready");
    let is_ready = ready
        .as_ref()
        .is_some_and(|ready| ready.text("/status") == "True");
    answer.state = state(doc, is_ready);
    if let Some(ready) = ready.filter(|_| !is_ready) {
        silent(world, doc, &ready, answer);
        return;
    }
    for (kind, how) in PRESSURES {
        let Some(condition) = doc.condition(kind) else {
            continue;
        };
        if condition.text("/status") != "True" {
            continue;
        }
        let message = format!(
            "{kind} is True ({}): {}; the node takes no new pods as long as it lasts",
            condition.text("/reason"),
            condition.text("/message").trim_end_matches('.')
        );
        let who = format!("administrator of node {}{how}", doc.name());
        let is_network = kind == NO_NETWORK;
        // The condition does not tell the program that set it.
        let by = if is_network { "" } else { "kubelet" };
        let mut reason = Reason::new(Code::NodePressure, by, message).who(who);
        if is_network && condition.text("/reason") != NO_ROUTE {
            name_network_plugin(world, doc, &mut reason, answer);
        }
        answer.add(reason.since(condition.time("/lastTransitionTime")));
    }
    uninitialized(world, doc, answer);
}

/// The state with the taints.
fn state(doc: &Doc, is_ready: bool) -> String {
    let is_cordoned = doc.at("/spec/unschedulable").is_some_and(|is| *is == true);
    let state = match (is_ready, is_cordoned) {
        (true, false) => "is ready",
        (true, true) => "is ready, and takes no new pods (cordoned)",
        (false, _) => "is not ready",
    };
    let taints = doc.items("/spec/taints").iter().map(|taint| {
        let text = |field: &str| taint[field].as_str().unwrap_or_default();
        match text("value") {
            "" => format!("{}:{}", text("key"), text("effect")),
            value => format!("{}={value}:{}", text("key"), text("effect")),
        }
    });
    match &taints.collect::<Vec<_>>()[..] {
        [] => state.to_owned(),
        taints => format!("{state}; taints: {}", taints.join(", ")),
    }
}

/// Adds the reason of a node whose condition `ready` is not True.
fn silent(world: &World, doc: &Doc, ready: &Doc, answer: &mut Explanation) {
    let message = format!("{}: {}", ready.text("/reason"), ready.text("/message"));
    let is_without_network = message.contains("NetworkPluginNotReady");
    let mut reason = Reason::new(Code::NodeNotReady, "kubelet", message);
    reason.who = "administrator of the node".to_owned();
    if is_without_network {
        name_network_plugin(world, doc, &mut reason, answer);
    }
    answer.add(reason.since(ready.time("/lastTransitionTime")));
}

/// Names the DaemonSet of the network plugin in `reason`, if it has no working pod on `doc`, and follows that pod.
fn name_network_plugin(world: &World, doc: &Doc, reason: &mut Reason, answer: &mut Explanation) {
    if let Some((set, why)) = daemonset::explain::network_plugin(world, doc) {
        reason.message = format!(
            "{}; DaemonSet {set}, which installs the network plugin, has no pod here: {why}",
            reason.message
        );
        reason.who = format!("owner of DaemonSet {set} (tolerations)");
    } else if let Some((set, pod)) = daemonset::explain::network_plugin_pod(world, doc) {
        reason.message = format!(
            "{}; the pod of DaemonSet {set}, which installs the network plugin, does not run",
            reason.message
        );
        reason.who = Reason::see(&format!("the pod of DaemonSet {set}"));
        answer.follow(pod);
    }
}

/// Adds the taints that a program has not removed from `doc`, and the state of that program.
fn uninitialized(world: &World, doc: &Doc, answer: &mut Explanation) {
    let created = doc.time("/metadata/creationTimestamp");
    let is_new = created.is_some_and(|at| world.now.duration_since(at) < PATIENCE);
    for taint in doc.items("/spec/taints").iter().filter(|_| !is_new) {
        let text = |field: &str| taint[field].as_str().unwrap_or_default();
        let Some((name, program)) = remover(text("key")) else {
            continue;
        };
        let mut message = format!(
            "the taint {} keeps pods away until {name} removes it",
            text("key")
        );
        let mut who = format!("operator of {name}");
        if let Some((trouble, about)) = program.and_then(|program| program.trouble(world)) {
            message = format!("{message}; {trouble}");
            if let Some(about) = about {
                who = Reason::see(&about.object.long());
                answer.follow(about);
            }
        }
        let reason = Reason::new(Code::NodeUninitialized, name, message).who(who);
        answer.add(reason.since(created));
    }
}
