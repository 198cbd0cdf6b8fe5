//! Why a DaemonSet has no pod on a node, or does not update its pods.
//!
//! It asks the same functions as the sync: `obstacle` for nodes and `limits::resolve` for the step of an
//! update. Tolerations with the operators `Gt` and `Lt` are taken as off, as by default.

use std::collections::BTreeMap;

use serde_json::Value;
use steersman_helpers::scheduling::Comparisons;
use steersman_objects::{DaemonSet, DaemonSetStrategy, Node, Pod};
use steersman_values::resource::{DAEMON_SETS, NODES, PODS};
use steersman_why::{Code, Doc, Explanation, Reason, World, keys, pod, refusal, warning};

use super::placement::{Obstacle, obstacle};
use super::{NAME, layout, limits};

/// Names of nodes in one sentence.
const NAMES: usize = 5;

/// Adds the reasons about `doc`, and the answers about its pods.
///
/// The order is: excluded nodes, an unobserved change, missing pods, pods that are not available, and last
/// the update.
pub(crate) fn explain(world: &World, doc: &Doc, answer: &mut Explanation) {
    let Some(ds) = doc.view::<DaemonSet>() else {
        return;
    };
    let nodes = world.list(&NODES, "");
    let pods = world.controlled(&PODS, doc.namespace(), doc.uid());
    let (Some(nodes), Some(pods)) = (nodes, pods) else {
        return;
    };
    let mut wanted = Vec::new();
    let mut excluded: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for node in nodes.iter().filter_map(Doc::view::<Node>) {
        let name = node.meta.name.to_string();
        match obstacle(&ds.spec.constraints, &node, Comparisons::Disabled) {
            None => wanted.push(name),
            Some(why) => excluded.entry(words(why)).or_default().push(name),
        }
    }
    // Pods away are those that use up `maxUnavailable`, whether old or new.
    let (available, away): (Vec<&Doc>, Vec<&Doc>) = pods.iter().partition(|doc| {
        let view = doc.view::<Pod>();
        view.is_some_and(|pod| pod.is_available(ds.spec.min_ready_seconds, world.now))
    });
    let available = available.len();
    let desired = wanted.len();
    let updated = usize::try_from(ds.status.updated_number_scheduled).unwrap_or(0);
    answer.state = format!("has {available} of {desired} pods available, {updated} updated");
    for (why, names) in &excluded {
        let message = format!("no new pod on {}: {why}", list(names));
        let reason = Reason::new(Code::NodeExcluded, NAME, message).field("nodes", names.len());
        let owner = format!(
            "owner of DaemonSet {} (node selector, affinity, tolerations)",
            doc.name()
        );
        // A DaemonSet without a fitting node may have a wrong selector.
        answer.add(reason.who(match desired {
            0 => format!("{owner}, or administrator of the nodes"),
            _ => format!("{owner}, if it shall run there"),
        }));
    }
    if let Some(reason) = keys::not_observed(world, doc, NAME) {
        answer.add(reason);
    } else if available >= desired && updated >= desired {
        return;
    }
    // A pod that waits for the scheduler names its node in its affinity, and so counts as present.
    let place = |doc: &Doc| layout::target_node(&*doc.view::<Pod>()?);
    let has_pod = |node: &String| {
        pods.iter()
            .any(|doc| place(doc).is_some_and(|at| *at == **node))
    };
    let missing: Vec<String> = wanted.into_iter().filter(|node| !has_pod(node)).collect();
    if !missing.is_empty() && !answer.knows_cause() {
        creation(world, doc, &missing, answer);
    }
    for about in pod::unavailable(world, &pods, ds.spec.min_ready_seconds) {
        answer.follow(about);
    }
    if updated < desired {
        let name = |doc: &Doc| Some(format!("{} on {}", doc.name(), place(doc)?));
        let away: Vec<String> = away.into_iter().filter_map(name).collect();
        update(&ds, desired, updated, &away, answer);
    }
}

/// The DaemonSet that installs the network plugin, if it keeps its pods from `node`, and the reason.
///
/// The nodes without network are explained by it: their kubelet waits for a CNI configuration. Clusters with several
/// plugins have one of them on each node, and its obstacles elsewhere say nothing.
pub(crate) fn network_plugin(world: &World, node: &Doc) -> Option<(String, String)> {
    let pods = world.pods_on(node.name()).unwrap_or_default();
    let is_here = |set: &Doc| pods.iter().any(|pod| pod.is_controlled_by(set.uid()));
    if network_plugins(world).any(is_here) {
        return None;
    }
    kept_from(network_plugins(world), node)
}

/// The DaemonSet that registers the CSI driver `driver`, if it keeps its pods from `node`, and the reason.
pub(crate) fn storage_driver(world: &World, node: &Doc, driver: &str) -> Option<(String, String)> {
    let folder = format!("/var/lib/kubelet/plugins/{driver}");
    let all = world.list(&DAEMON_SETS, "").unwrap_or_default().iter();
    kept_from(all.filter(|doc| has_folders(doc, &[&folder])), node)
}

/// The first of `sets` that has an obstacle on `node`, as its full name and the reason.
fn kept_from<'w>(mut sets: impl Iterator<Item = &'w Doc>, node: &Doc) -> Option<(String, String)> {
    let node = node.view::<Node>()?;
    sets.find_map(|doc| {
        let set = doc.view::<DaemonSet>()?;
        let why = obstacle(&set.spec.constraints, &node, Comparisons::Disabled)?;
        Some((format!("{}/{}", doc.namespace(), doc.name()), words(why)))
    })
}

/// The DaemonSet that installs the network plugin, and the answer about its pod on `node` if that pod is stuck.
pub(crate) fn network_plugin_pod(world: &World, node: &Doc) -> Option<(String, Explanation)> {
    let pods = world.pods_on(node.name())?;
    network_plugins(world).find_map(|set| {
        let pod = pods.iter().find(|pod| pod.is_controlled_by(set.uid()))?;
        let about = world.explain(&PODS, pod);
        let name = format!("{}/{}", set.namespace(), set.name());
        about.is_stuck().then_some((name, about))
    })
}

/// The folders of network plugins. Container runtimes read the configurations and programs of CNI plugins
/// there.
const NETWORK_PLUGINS: [&str; 2] = ["/etc/cni/net.d", "/opt/cni/bin"];

/// Names of DaemonSets of network plugins. Some of them write to other folders.
const NAMES_OF_PLUGINS: [&str; 11] = [
    "antrea-agent",
    "aws-node",
    "calico-node",
    "canal",
    "cilium",
    "kindnet",
    "kube-flannel",
    "kube-flannel-ds",
    "kube-router",
    "ovnkube-node",
    "weave-net",
];

/// The DaemonSets that install network plugins.
fn network_plugins(world: &World) -> impl Iterator<Item = &Doc> {
    let all = world.list(&DAEMON_SETS, "").unwrap_or_default().iter();
    all.filter(|doc| NAMES_OF_PLUGINS.contains(&doc.name()) || has_folders(doc, &NETWORK_PLUGINS))
}

/// Whether the pods of `doc`, a DaemonSet, write to one of these folders of the node.
fn has_folders(doc: &Doc, folders: &[&str]) -> bool {
    let mut volumes = doc.items("/spec/template/spec/volumes").iter();
    volumes.any(|volume| {
        let path = volume.pointer("/hostPath/path").and_then(Value::as_str);
        path.is_some_and(|path| folders.iter().any(|folder| path.starts_with(folder)))
    })
}

/// The obstacle as a clause, which several nodes may share.
fn words(why: Obstacle<'_>) -> String {
    match why {
        Obstacle::Name => "the pod template names another node".to_owned(),
        Obstacle::Labels => {
            "the node selector or affinity of the pod template does not match its labels".to_owned()
        }
        Obstacle::Taint(taint) => {
            format!(
                "the pods do not tolerate the taint {}:{}",
                taint.key, taint.effect
            )
        }
    }
}

/// The first names, and the number of the others. A large cluster would fill the sentence otherwise.
fn list(names: &[String]) -> String {
    let shown = names
        .iter()
        .take(NAMES)
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(", ");
    match names.len().saturating_sub(NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more nodes"),
    }
}

/// The reason for missing pods: a failing pod, a refused creation, or only that they are due.
fn creation(world: &World, doc: &Doc, missing: &[String], answer: &mut Explanation) {
    if let Some(event) = warning(world, doc, &["FailedDaemonPod"]) {
        let message = format!("a pod fails again and again: {}", event.message);
        let reason = Reason::new(Code::DaemonBackOff, NAME, message)
            .who("administrator of the node, or owner of the pod template")
            .since(event.first);
        answer.add(reason);
    } else if let Some(event) = warning(world, doc, &["FailedCreate"]) {
        let text = event
            .message
            .strip_prefix("Error creating: ")
            .unwrap_or(&event.message);
        let mut reason = refusal(text, doc.namespace(), NAME).since(event.first);
        reason.last_try = event.at;
        reason.attempts = event.count;
        answer.add(reason);
    } else {
        let message = format!("pods have to be created on {}", list(missing));
        answer.add(Reason::new(Code::PodsMissing, NAME, message));
    }
}

/// The limits of a rolling update. The pods `away` are not available, so they use up maxUnavailable.
fn update(
    ds: &DaemonSet,
    desired: usize,
    updated: usize,
    away: &[String],
    answer: &mut Explanation,
) {
    // `updated` is that of the status, so it may lag behind the pods.
    match &ds.spec.update_strategy {
        DaemonSetStrategy::RollingUpdate(_) => {
            let Ok(limits) = limits::resolve(&ds.spec.update_strategy, desired) else {
                return;
            };
            let mut message = format!(
                "rolling update: {updated} of {desired} updated, at most {} nodes without an available pod (maxUnavailable), \
                 {} with a second one (maxSurge)",
                limits.max_unavailable, limits.max_surge
            );
            if limits.max_unavailable > 0 && away.len() >= limits.max_unavailable {
                message = format!(
                    "{message}; {} uses up maxUnavailable, so the other pods wait",
                    list(away)
                );
            }
            answer.add(Reason::new(Code::RolloutWindow, NAME, message));
        }
        _ => {
            let message = format!(
                "strategy OnDelete: a pod is updated after its deletion; {updated} of {desired} are"
            );
            answer.add(Reason::new(Code::UpdateOnDelete, NAME, message));
        }
    }
}
