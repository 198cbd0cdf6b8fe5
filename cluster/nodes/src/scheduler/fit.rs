//! Whether a pod fits a node, and the reasons for pods that fit no node.
//!
//! The checks and their texts are those of kube-scheduler's plugins NodeUnschedulable,
//! TaintToleration, NodeAffinity, NodePorts, NodeResourcesFit, those of volumes, PodTopologySpread
//! and InterPodAffinity (`pkg/scheduler/framework/plugins`), in its order. The first plugin that
//! refuses a node gives the reasons.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use steersman_helpers::scheduling::amounts::Amounts;
use steersman_helpers::scheduling::{Comparisons, Constraints, untolerated};
use steersman_objects::{Node, Taint};
use steersman_values::intern::Sym;

use super::node::{NodeFacts, Refusal};
use super::volumes;
use crate::claims::VolumeDemand;
use crate::rules::HostPort;

/// Key of the taint that an unschedulable node has.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// Key of the taint that a node without the condition `Ready` has.
const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// The effect that keeps new pods away from a node.
const NO_SCHEDULE: &str = "NoSchedule";
/// The message of a pod in a cluster without nodes. Upstream: `ErrNoNodesAvailable`.
const NO_NODES: &str = "no nodes available to schedule pods";
/// The resource that counts pods.
const PODS: &str = "pods";

/// The use of a node by its pods.
#[derive(Debug, Default)]
pub(super) struct Load {
    /// Sum of the requests.
    pub(super) requested: Amounts,
    /// Number of pods.
    pub(super) pods: u32,
    /// Ports in use, with the number of their pods. Pods that name their node may share a port.
    pub(super) ports: BTreeMap<HostPort, u32>,
}

/// The demands of a pod that is about to be placed. Demands about other pods are resolved: they
/// hold values of node labels.
#[derive(Debug)]
pub(super) struct Demand<'a> {
    pub(super) constraints: &'a Constraints,
    pub(super) requests: &'a Amounts,
    pub(super) ports: &'a [HostPort],
    pub(super) volumes: &'a VolumeDemand,
    /// Whether another pod uses a claim that only one pod may use.
    pub(super) has_claim_in_use: bool,
    pub(super) spread: Vec<SpreadDemand>,
    pub(super) affinity: Vec<Domains>,
    /// Whether the pod may be the first one of those that it has an affinity to.
    pub(super) may_be_first: bool,
    pub(super) anti_affinity: Vec<Domains>,
    /// Domains of pods that refuse this one by their anti-affinity.
    pub(super) repelled: Vec<Domains>,
}

/// The values of a node label on nodes with certain pods.
#[derive(Debug)]
pub(super) struct Domains {
    pub(super) key: Sym,
    pub(super) values: HashSet<Sym>,
}

impl Domains {
    fn have(&self, facts: &NodeFacts) -> bool {
        let value = facts.label(&self.key);
        value.is_some_and(|value| self.values.contains(value))
    }
}

/// One constraint of topology spread.
#[derive(Debug)]
pub(super) struct SpreadDemand {
    pub(super) key: Sym,
    pub(super) max_skew: i64,
    /// 1 if the pod itself counts.
    pub(super) own: i64,
    /// The smallest number of matching pods in a domain.
    pub(super) least: i64,
    /// Number of matching pods by domain.
    pub(super) counts: HashMap<Sym, i64>,
}

/// The refusal of the first plugin that a node does not pass; `None` if the pod fits.
pub(super) fn refusal(demand: &Demand<'_>, facts: &NodeFacts, load: &Load) -> Option<Refusal> {
    if facts.unschedulable && repels(demand.constraints, &taint(UNSCHEDULABLE)) {
        return Refusal::of_node("node(s) were unschedulable");
    }
    if has_untolerated_taint(demand.constraints, &facts.node) {
        return Refusal::of_node("node(s) had untolerated taint(s)");
    }
    if !demand.constraints.selects(&facts.node) {
        return Refusal::of_node("node(s) didn't match Pod's node affinity/selector");
    }
    let is_used = |port: &HostPort| load.ports.keys().any(|used| used.conflicts(port));
    if demand.ports.iter().any(is_used) {
        return Refusal::of_pods("node(s) didn't have free ports for the requested pod ports");
    }
    insufficient(demand.requests, &facts.allocatable, load)
        .or_else(|| volumes::refusal(demand.volumes, facts, demand.has_claim_in_use))
        .or_else(|| {
            demand
                .spread
                .iter()
                .find_map(|spread| spread.refusal(facts))
        })
        .or_else(|| demand.refusal_by_pods(facts))
}

/// Whether the node has a taint that keeps the pod away.
pub(super) fn has_untolerated_taint(constraints: &Constraints, node: &Node) -> bool {
    // Upstream's node lifecycle controller taints nodes that are not ready. Without it, the state
    // of the node has the same effect.
    let implied = (!node.is_ready()).then(|| taint(NOT_READY));
    let keeps_away = |taint: &&Taint| matches!(taint.effect.as_str(), NO_SCHEDULE | "NoExecute");
    let mut taints = node.spec.taints.iter().filter(keeps_away).chain(&implied);
    taints.any(|taint| repels(constraints, taint))
}

fn repels(constraints: &Constraints, taint: &Taint) -> bool {
    untolerated([taint], &constraints.tolerations, Comparisons::Disabled).is_some()
}

/// A taint without a value, with the effect `NoSchedule`.
fn taint(key: &str) -> Taint {
    Taint {
        key: Sym::new(key),
        value: Sym::new(""),
        effect: Sym::new(NO_SCHEDULE),
    }
}

/// The resources that the node has too little of.
fn insufficient(requests: &Amounts, allocatable: &Amounts, load: &Load) -> Option<Refusal> {
    if allocatable.is_empty() {
        return None;
    }
    let mut refusal = Refusal {
        reasons: Vec::new(),
        is_due_to_pods: true,
    };
    let pods = allocatable.get(PODS).unwrap_or_default();
    if i64::from(load.pods + 1) * 1000 > pods {
        refusal.reasons.push(Cow::Borrowed("Too many pods"));
    }
    for (name, requested) in requests.iter().filter(|(_, requested)| *requested > 0) {
        let has = allocatable.get(name).unwrap_or_default();
        let used = load.requested.get(name).unwrap_or_default();
        if requested > has - used {
            refusal
                .reasons
                .push(Cow::Owned(format!("Insufficient {name}")));
            refusal.is_due_to_pods &= requested <= has;
        }
    }
    (!refusal.reasons.is_empty()).then_some(refusal)
}

impl SpreadDemand {
    fn refusal(&self, facts: &NodeFacts) -> Option<Refusal> {
        let Some(value) = facts.label(&self.key) else {
            return Refusal::of_node(
                "node(s) didn't match pod topology spread constraints (missing required label)",
            );
        };
        let count = self.counts.get(value).copied().unwrap_or_default();
        if count + self.own - self.least > self.max_skew {
            return Refusal::of_pods("node(s) didn't match pod topology spread constraints");
        }
        None
    }
}

impl Demand<'_> {
    fn refusal_by_pods(&self, facts: &NodeFacts) -> Option<Refusal> {
        let has_keys = || {
            self.affinity
                .iter()
                .all(|term| facts.label(&term.key).is_some())
        };
        let is_near = self.affinity.iter().all(|term| term.have(facts));
        let is_first = || self.may_be_first && has_keys();
        if !is_near && !is_first() {
            return Refusal::of_node("node(s) didn't match pod affinity rules");
        }
        if self.anti_affinity.iter().any(|term| term.have(facts)) {
            return Refusal::of_pods("node(s) didn't match pod anti-affinity rules");
        }
        if self.repelled.iter().any(|term| term.have(facts)) {
            return Refusal::of_pods("node(s) didn't satisfy existing pods anti-affinity rules");
        }
        None
    }
}

/// The answers of the plugins after all nodes have refused a pod, and no pod makes room for it.
/// Upstream: `PostFilter` of the plugins DynamicResources and DefaultPreemption.
#[derive(Debug)]
pub(super) struct LastResort {
    pub(super) preemption: NoPreemption,
    /// Whether the pod has ResourceClaims.
    pub(super) has_devices: bool,
}

/// The reason why no pod makes room for another one.
#[derive(Debug)]
pub(super) enum NoPreemption {
    /// The `preemptionPolicy` of the pod is `Never`.
    Never,
    /// Pods that make room are still ending.
    Underway,
    /// The pod would fit no node. These are the answers of the nodes that other pods keep it from.
    Helpless(Refusals),
}

impl LastResort {
    fn text(&self, total: usize) -> String {
        let devices = if self.has_devices {
            "still not schedulable"
        } else {
            "no new claims to deallocate"
        };
        let preemption = match &self.preemption {
            NoPreemption::Never => "not eligible due to preemptionPolicy=Never.".to_owned(),
            NoPreemption::Underway => {
                "not eligible due to a terminating pod on the nominated node.".to_owned()
            }
            NoPreemption::Helpless(answers) => {
                let unasked = total - answers.nodes;
                let rest = ("Preemption is not helpful for scheduling", unasked);
                let rest = (unasked > 0).then_some(rest);
                histogram(total, answers.reasons().chain(rest))
            }
        };
        format!("{devices}, preemption: {preemption}")
    }
}

/// The point at which the scheduler knows that no node can take a pod, before it looks at nodes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PreFilter {
    /// A plugin before DynamicResources. The latter then fails with `not found`.
    BeforeDevices,
    /// The plugin DynamicResources.
    Devices,
}

/// The message of a pod that none of `total` nodes can take, for the reason `why`.
pub(super) fn unresolvable(
    total: usize,
    why: &str,
    stage: PreFilter,
    last_resort: &LastResort,
) -> String {
    if total == 0 {
        return NO_NODES.to_owned();
    }
    let tail = match stage {
        PreFilter::BeforeDevices => "not found".to_owned(),
        PreFilter::Devices => last_resort.text(total),
    };
    format!("0/{total} nodes are available: {why}. {tail}")
}

/// The reasons of all nodes against a pod.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    reasons: BTreeMap<Cow<'static, str>, usize>,
    /// Number of nodes with reasons.
    nodes: usize,
    /// Nodes that refuse the pod because of the pods on them.
    pub(super) due_to_pods: Vec<Arc<str>>,
}

impl Refusals {
    pub(super) fn add(&mut self, node: &Arc<str>, refusal: Refusal) {
        for reason in refusal.reasons {
            *self.reasons.entry(reason).or_default() += 1;
        }
        self.nodes += 1;
        if refusal.is_due_to_pods {
            self.due_to_pods.push(Arc::clone(node));
        }
    }

    /// Adds nodes that no plugin has looked at.
    pub(super) fn add_unseen(&mut self, nodes: usize, reason: &'static str) {
        if nodes > 0 {
            self.reasons.insert(Cow::Borrowed(reason), nodes);
        }
    }

    /// The message of a pod that fits none of `total` nodes. Upstream: `FitError.Error` in
    /// `framework/types.go`, which adds nothing if pods make room (`last_resort` is `None`).
    pub(super) fn message(&self, total: usize, last_resort: Option<&LastResort>) -> String {
        if total == 0 {
            return NO_NODES.to_owned();
        }
        let reasons = histogram(total, self.reasons());
        match last_resort {
            None => reasons,
            Some(last) => format!("{reasons} {}", last.text(total)),
        }
    }

    fn reasons(&self) -> impl Iterator<Item = (&str, usize)> {
        let reasons = self.reasons.iter();
        reasons.map(|(reason, count)| (&**reason, *count))
    }
}

fn histogram<'a>(total: usize, reasons: impl Iterator<Item = (&'a str, usize)>) -> String {
    let mut counts: Vec<String> = reasons
        .map(|(reason, count)| format!("{count} {reason}"))
        .collect();
    counts.sort_unstable();
    format!("0/{total} nodes are available: {}.", counts.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use steersman_objects::Object;

    use super::*;

    /// A ready node `n` with these labels and these further fields of its spec.
    fn node(labels: Value, spec: Value) -> NodeFacts {
        let unschedulable = spec["unschedulable"] == true;
        let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
        let json =
            json!({"metadata": {"name": "n", "labels": labels}, "spec": spec, "status": ready});
        NodeFacts {
            node: Node::decode(json.to_string().as_bytes()).unwrap(),
            unschedulable,
            allocatable: Amounts::default(),
        }
    }

    /// The reason of an empty node against a pod with these constraints only.
    fn obstacle(constraints: &Constraints, facts: &NodeFacts) -> Option<String> {
        let demand = Demand {
            constraints,
            requests: &Amounts::default(),
            ports: &[],
            volumes: &VolumeDemand::default(),
            has_claim_in_use: false,
            spread: Vec::new(),
            affinity: Vec::new(),
            may_be_first: false,
            anti_affinity: Vec::new(),
            repelled: Vec::new(),
        };
        let refusal = refusal(&demand, facts, &Load::default())?;
        Some(refusal.reasons.concat())
    }

    fn constraints(spec: Value) -> Constraints {
        Constraints::of_pod(json!({ "spec": spec }).to_string().as_bytes()).unwrap()
    }

    #[test]
    fn node_selector_and_affinity_choose_nodes() {
        let affinity = |terms: Value| {
            let required = json!({ "nodeSelectorTerms": terms });
            json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}})
        };
        let named = |name: &str| {
            affinity(
                json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}]),
            )
        };
        let mut both = named("n");
        both["nodeSelector"] = json!({"zone": "c"});
        // (why, spec of the pod, fits the node n with zone=b)
        let cases = [
            ("no rule", json!({}), true),
            ("selector", json!({"nodeSelector": {"zone": "b"}}), true),
            (
                "selector of another value",
                json!({"nodeSelector": {"zone": "c"}}),
                false,
            ),
            ("affinity", named("n"), true),
            ("affinity to another node", named("m"), false),
            ("no terms", affinity(json!([])), false),
            ("selector and affinity", both, false),
        ];
        for (why, spec, expected) in cases {
            let obstacle = obstacle(&constraints(spec), &node(json!({"zone": "b"}), json!({})));
            assert_eq!(obstacle.is_none(), expected, "{why}");
        }
    }

    #[test]
    fn taints_repel_pods_without_a_toleration() {
        let tainted = |effect: &str| {
            let taint = json!({"key": "k", "value": "v", "effect": effect});
            node(json!({}), json!({"taints": [taint]}))
        };
        let cordoned = || node(json!({}), json!({"unschedulable": true}));
        let not_ready = || NodeFacts {
            node: Node::decode(br#"{"metadata": {"name": "n"}}"#).unwrap(),
            unschedulable: false,
            allocatable: Amounts::default(),
        };
        let taint = Some("node(s) had untolerated taint(s)");
        // (node, tolerations, obstacle)
        let cases = [
            (tainted("NoSchedule"), json!([]), taint),
            (tainted("NoExecute"), json!([]), taint),
            (tainted("PreferNoSchedule"), json!([]), None),
            (
                tainted("NoSchedule"),
                json!([{"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}]),
                None,
            ),
            (
                tainted("NoSchedule"),
                json!([{"key": "k", "value": "other"}]),
                taint,
            ),
            (cordoned(), json!([]), Some("node(s) were unschedulable")),
            (
                cordoned(),
                json!([{"key": UNSCHEDULABLE, "operator": "Exists", "effect": "NoSchedule"}]),
                None,
            ),
            (
                not_ready(),
                json!([{"key": NOT_READY, "operator": "Exists", "effect": "NoExecute"}]),
                taint,
            ),
            (
                not_ready(),
                json!([{"key": NOT_READY, "operator": "Exists"}]),
                None,
            ),
        ];
        for (facts, tolerations, expected) in cases {
            let pod = constraints(json!({ "tolerations": tolerations }));
            let found = obstacle(&pod, &facts);
            assert_eq!(found.as_deref(), expected, "{facts:?} {tolerations}");
        }
    }

    #[test]
    fn heartbeats_change_no_placement() {
        let before = node(json!({"zone": "b"}), json!({}));
        // (why, node, takes the same pods)
        let cases = [
            (
                "heartbeat",
                node(json!({"zone": "b"}), json!({"podCIDR": "x"})),
                true,
            ),
            ("labels", node(json!({"zone": "c"}), json!({})), false),
            (
                "taints",
                node(json!({"zone": "b"}), json!({"taints": [{"key": "k"}]})),
                false,
            ),
            (
                "cordoned",
                node(json!({"zone": "b"}), json!({"unschedulable": true})),
                false,
            ),
        ];
        for (why, after, expected) in cases {
            assert_eq!(before.takes_same_pods(&after), expected, "{why}");
        }
    }

    #[test]
    fn messages_equal_those_of_kube_scheduler() {
        // Recorded from kube-scheduler 1.36.
        let mut refusals = Refusals::default();
        for reason in [
            "node(s) were unschedulable",
            "node(s) had untolerated taint(s)",
            "node(s) didn't match Pod's node affinity/selector",
        ] {
            refusals.add(&"n".into(), Refusal::of_node(reason).unwrap());
        }
        let helpless = |answers: Refusals, has_devices: bool| LastResort {
            preemption: NoPreemption::Helpless(answers),
            has_devices,
        };
        let none = helpless(Refusals::default(), false);
        assert_eq!(
            refusals.message(3, Some(&none)),
            "0/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) had untolerated taint(s), \
             1 node(s) were unschedulable. no new claims to deallocate, preemption: 0/3 nodes are available: 3 Preemption is \
             not helpful for scheduling."
        );
        assert_eq!(
            Refusals::default().message(0, Some(&none)),
            "no nodes available to schedule pods"
        );
        refusals.add(&"m".into(), Refusal::of_pods("Insufficient cpu").unwrap());
        assert_eq!(refusals.due_to_pods, [Arc::<str>::from("m")]);
        let mut answers = Refusals::default();
        answers.add(&"m".into(), Refusal::of_lack_of_victims());
        let with_devices = helpless(answers, true);
        assert!(refusals.message(4, Some(&with_devices)).ends_with(
            "1 node(s) were unschedulable. still not schedulable, preemption: 0/4 nodes are available: 1 No preemption victims found for incoming pod, \
             3 Preemption is not helpful for scheduling."
        ));
        let because = |preemption: NoPreemption| LastResort {
            preemption,
            has_devices: false,
        };
        // (reason, end of the message)
        let cases = [
            (NoPreemption::Never, "preemptionPolicy=Never."),
            (
                NoPreemption::Underway,
                "a terminating pod on the nominated node.",
            ),
        ];
        for (preemption, end) in cases {
            let message = refusals.message(4, Some(&because(preemption)));
            let end = format!(
                "1 node(s) were unschedulable. no new claims to deallocate, preemption: not eligible due to {end}"
            );
            assert!(message.ends_with(&end), "{message}");
        }
        let helped = refusals.message(4, None);
        assert!(
            helped.ends_with("1 node(s) were unschedulable."),
            "{helped}"
        );
    }
}
