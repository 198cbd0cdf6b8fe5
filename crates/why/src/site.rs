//! The nodes that may take a pod, and the taints that keep it from them. The message of the scheduler counts such
//! nodes, and names neither taint nor node.

use std::collections::{BTreeMap, BTreeSet};

use steersman_objects::Node;
use steersman_objects::scheduling::{Comparisons, Constraints, NodeSelector, untolerated};
use steersman_values::resource::{NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES};

use crate::demand::{Demand, claim_names, listed};
use crate::programs::Program;
use crate::{Doc, Known, World};

/// Taints in one sentence.
const TAINTS: usize = 4;

/// Names of taints that a program removes from a new node when it is ready, after the domain of that program.
const REMOVED: [&str; 3] = ["agent-not-ready", "uninitialized", "unregistered"];

/// The taint of a cordoned node.
const CORDONED: &str = "node.kubernetes.io/unschedulable";

/// The taints that Kubernetes itself sets by the conditions of a node.
const OF_CONDITIONS: [&str; 6] = [
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/network-unavailable",
];

/// The program that removes the taint `key` from a node: its name, and itself if it is known.
pub fn remover(key: &str) -> Option<(String, Option<Program>)> {
    let (domain, name) = key.split_once('/')?;
    let program = Program::of_domain(domain);
    let text = program.map_or_else(
        || format!("the program of {domain}"),
        |program| program.name.to_owned(),
    );
    REMOVED.contains(&name).then_some((text, program))
}

/// A taint of a node that a pod does not tolerate.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Repelling {
    key: String,
    /// The taint in the syntax of `kubectl taint`.
    pub(crate) text: String,
}

impl Repelling {
    /// The people or the program that can remove the taint from `nodes`, or make the pod tolerate it.
    pub(crate) fn who(&self, nodes: &str) -> String {
        if let Some((program, _)) = remover(&self.key) {
            return format!("operator of {program}");
        }
        match &*self.key {
            CORDONED => format!("administrator of node {nodes} (kubectl uncordon)"),
            key if OF_CONDITIONS.contains(&key) => format!("administrator of node {nodes}"),
            key => format!(
                "owner of the pod template (a toleration of {key}), or administrator of node {nodes} (the taint)"
            ),
        }
    }
}

/// The nodes of the cluster as one pod sees them.
pub(crate) struct Site<'w> {
    /// All nodes.
    pub(crate) nodes: &'w [Doc],
    constraints: Constraints,
    volumes: Vec<NodeSelector>,
    /// Whether the claims of the pod and their volumes are read.
    pub(crate) are_volumes_read: bool,
    /// Whether each claim of the pod has a volume. Other claims may get one that only some nodes reach.
    pub(crate) are_claims_bound: bool,
}

impl<'w> Site<'w> {
    /// The site of `pod`. `None` if the nodes are unread or may not be read.
    pub(crate) fn of(world: &'w World, pod: &Doc) -> Option<Self> {
        let nodes = world.list(&NODES, "")?;
        let constraints = Constraints::of_pod(pod.value().to_string().as_bytes()).ok()?;
        let mut site = Self {
            nodes,
            constraints,
            volumes: Vec::new(),
            are_volumes_read: true,
            are_claims_bound: true,
        };
        for claim in claim_names(pod) {
            match volume(world, pod.namespace(), &claim) {
                Known::Yes(volume) => site.volumes.extend(reachable_from(&volume)),
                Known::Absent => site.are_claims_bound = false,
                Known::Unknown => site.are_volumes_read = false,
            }
        }
        Some(site)
    }

    /// Whether the selector and the required affinity of the pod admit `node`.
    pub(crate) fn selects(&self, node: &Doc) -> bool {
        let view = node.view::<Node>();
        view.is_some_and(|view| self.constraints.selects(&view))
    }

    /// The nodes that the selector, the required affinity and the known volumes of the pod admit.
    pub(crate) fn candidates(&self) -> Vec<&'w Doc> {
        let reaches = |node: &&Doc| {
            let view = node.view::<Node>();
            view.is_some_and(|view| self.volumes.iter().all(|volume| volume.matches(&view)))
        };
        let nodes = self.nodes.iter();
        nodes
            .filter(|node| self.selects(node))
            .filter(reaches)
            .collect()
    }

    /// The first taint of `node` that keeps the pod away.
    pub(crate) fn repelling(&self, node: &Doc) -> Option<Repelling> {
        let view = node.view::<Node>()?;
        let hard = view.spec.taints.iter();
        let hard = hard.filter(|taint| *taint.effect != *"PreferNoSchedule");
        let taint = untolerated(hard, &self.constraints.tolerations, Comparisons::Disabled)?;
        let text = match &*taint.value {
            "" => format!("{}:{}", taint.key, taint.effect),
            value => format!("{}={value}:{}", taint.key, taint.effect),
        };
        let key = taint.key.to_string();
        Some(Repelling { key, text })
    }

    /// Whether `node` is cordoned, and the pod tolerates its other taints.
    pub(crate) fn repels_by_cordon_alone(&self, node: &Doc) -> bool {
        let Some(view) = node.view::<Node>() else {
            return false;
        };
        let taints = view.spec.taints.iter();
        let (cordon, others): (Vec<_>, Vec<_>) = taints
            .filter(|taint| *taint.effect != *"PreferNoSchedule")
            .partition(|taint| *taint.key == *CORDONED);
        let is_cordoned =
            !cordon.is_empty() || node.at("/spec/unschedulable").is_some_and(|is| *is == true);
        let tolerations = &self.constraints.tolerations;
        let others = untolerated(others, tolerations, Comparisons::Disabled);
        is_cordoned && others.is_none()
    }

    /// The nodes of `nodes` by the taint that keeps the pod away.
    pub(crate) fn repelled<'n>(&self, nodes: &[&'n Doc]) -> BTreeMap<Repelling, Vec<&'n str>> {
        let mut found: BTreeMap<Repelling, Vec<&str>> = BTreeMap::new();
        for node in nodes {
            if let Some(taint) = self.repelling(node) {
                found.entry(taint).or_default().push(node.name());
            }
        }
        found
    }

    /// The taints that keep the pod from its candidates, each with its nodes. Their actors are told if no candidate is
    /// left.
    pub(crate) fn taints(&self) -> Option<Demand> {
        let candidates = self.candidates();
        let repelled = self.repelled(&candidates);
        let texts = repelled.iter().take(TAINTS).map(|(taint, nodes)| {
            let remover = remover(&taint.key);
            let remover = remover.map(|(name, _)| format!("; {name} removes it"));
            format!(
                "{} ({}{})",
                taint.text,
                listed(nodes),
                remover.unwrap_or_default()
            )
        });
        let text = texts.collect::<Vec<_>>().join(", ");
        let text = match repelled.len().saturating_sub(TAINTS) {
            _ if repelled.is_empty() => return None,
            0 => format!("the pod does not tolerate {text}"),
            more => format!("the pod does not tolerate {text}, and {more} more taints"),
        };
        let count: usize = repelled.values().map(Vec::len).sum();
        let who = if count == candidates.len() {
            actors(&repelled)
        } else {
            String::new()
        };
        Some(Demand { text, who })
    }
}

/// The people that can act about taints, by the taints and their nodes.
pub(crate) fn actors(repelled: &BTreeMap<Repelling, Vec<&str>>) -> String {
    let each = repelled.iter().take(TAINTS);
    let each: BTreeSet<String> = each
        .map(|(taint, nodes)| taint.who(&listed(nodes)))
        .collect();
    each.into_iter().collect::<Vec<_>>().join("; or ")
}

/// The volume of `claim`.
fn volume(world: &World, namespace: &str, claim: &str) -> Known<Doc> {
    match world.get(&PERSISTENT_VOLUME_CLAIMS, namespace, claim) {
        Known::Yes(claim) => match claim.text("/spec/volumeName") {
            "" => Known::Absent,
            name => world.get(&PERSISTENT_VOLUMES, "", name),
        },
        other => other,
    }
}

/// The nodes that reach `volume`. `None` if all do.
pub(crate) fn reachable_from(volume: &Doc) -> Option<NodeSelector> {
    let required = volume.at("/spec/nodeAffinity/required")?;
    serde_json::from_str(&required.to_string()).ok()
}
