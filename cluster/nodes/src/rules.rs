//! The rules of a pod about other pods: affinity, anti-affinity, topology spread, host ports, and its
//! priority.
//!
//! Upstream: `pkg/scheduler/framework/types.go` (`getAffinityTerms`) and the plugins InterPodAffinity,
//! PodTopologySpread and NodePorts.

use serde::Deserialize;
use serde_json::{Value, json};
use steersman_values::intern::Sym;
use steersman_values::labels::{Labels, Selector, WireSelector};

/// The rules of one pod. Most pods have none beside their priority.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Rules {
    /// Required affinity to pods.
    pub(crate) affinity: Box<[Term]>,
    /// Required anti-affinity to pods.
    pub(crate) anti_affinity: Box<[Term]>,
    /// Topology spread with `whenUnsatisfiable: DoNotSchedule`.
    pub(crate) spread: Box<[Spread]>,
    /// Ports of the node that its containers use.
    pub(crate) ports: Box<[HostPort]>,
    /// `spec.priority`.
    pub(crate) priority: i32,
    /// Whether `spec.preemptionPolicy` is `Never`.
    pub(crate) never_preempts: bool,
}

/// The pods that a rule is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct PodSelection {
    namespaces: Box<[Sym]>,
    namespace_selector: Selector,
    selector: Selector,
}

impl PodSelection {
    /// Whether a pod in this namespace with these labels is meant. `labels_of` returns the labels of
    /// the namespace.
    pub(crate) fn matches(
        &self,
        namespace: &Sym,
        labels_of: impl FnOnce() -> Labels,
        labels: &Labels,
    ) -> bool {
        self.selector.matches(labels)
            && (self.namespaces.contains(namespace)
                || self.selects_namespaces() && self.namespace_selector.matches(&labels_of()))
    }

    /// Whether the answer depends on labels of namespaces.
    pub(crate) fn selects_namespaces(&self) -> bool {
        !self.namespace_selector.is_nothing()
    }

    /// Whether the selector of labels is empty.
    pub(crate) fn is_every_pod(&self) -> bool {
        self.selector.is_everything()
    }
}

/// One term of affinity or anti-affinity.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Term {
    pub(crate) pods: PodSelection,
    pub(crate) topology_key: Sym,
}

/// One constraint of topology spread.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Spread {
    pub(crate) pods: PodSelection,
    pub(crate) topology_key: Sym,
    pub(crate) max_skew: i64,
    pub(crate) min_domains: usize,
    /// Whether nodes count only if the pod's node affinity selects them.
    pub(crate) honors_affinity: bool,
    /// Whether nodes count only if the pod tolerates their taints.
    pub(crate) honors_taints: bool,
}

/// A port of a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HostPort {
    port: i32,
    protocol: Sym,
    address: Sym,
}

impl HostPort {
    /// Whether both cannot be used at once. An unset address means all addresses.
    pub(crate) fn conflicts(&self, other: &Self) -> bool {
        let is_any = |address: &Sym| matches!(address.as_str(), "" | "0.0.0.0");
        self.port == other.port
            && self.protocol == other.protocol
            && (is_any(&self.address) || is_any(&other.address) || self.address == other.address)
    }
}

/// The members of a pod's spec that hold its rules, as served.
#[derive(Debug)]
pub(crate) struct RulesWire {
    pub(crate) affinity: AffinityWire,
    pub(crate) spread: Vec<SpreadWire>,
    pub(crate) priority: i32,
    pub(crate) preemption_policy: Box<str>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct AffinityWire {
    pod_affinity: TermsWire,
    pod_anti_affinity: TermsWire,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TermsWire {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    required: Vec<TermWire>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct TermWire {
    label_selector: Option<Value>,
    namespaces: Vec<Sym>,
    namespace_selector: Option<WireSelector>,
    topology_key: Sym,
    match_label_keys: Vec<String>,
    mismatch_label_keys: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SpreadWire {
    max_skew: i64,
    topology_key: Sym,
    when_unsatisfiable: Box<str>,
    label_selector: Option<Value>,
    min_domains: Option<usize>,
    node_affinity_policy: Option<Box<str>>,
    node_taints_policy: Option<Box<str>>,
    match_label_keys: Vec<String>,
}

/// A port of a container, as served.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PortWire {
    host_port: i32,
    protocol: Sym,
    #[serde(rename = "hostIP")]
    host_ip: Sym,
}

impl Rules {
    /// The rules of a pod in this namespace with these labels, whose containers and sidecars have
    /// these ports. `None` for a pod without rules.
    pub(crate) fn of<'a>(
        wire: RulesWire,
        ports: impl Iterator<Item = &'a PortWire>,
        namespace: &Sym,
        labels: &Labels,
    ) -> Option<Self> {
        let affinity = wire.affinity;
        let terms = |terms: TermsWire| -> Box<[Term]> {
            let required = terms.required.into_iter();
            required.map(|term| term.parse(namespace, labels)).collect()
        };
        let spread = wire.spread.into_iter();
        let ports = ports
            .filter(|port| port.host_port > 0)
            .map(|port| HostPort {
                port: port.host_port,
                protocol: match port.protocol.as_str() {
                    "" => Sym::new("TCP"),
                    _ => port.protocol.clone(),
                },
                address: port.host_ip.clone(),
            });
        let rules = Self {
            affinity: terms(affinity.pod_affinity),
            anti_affinity: terms(affinity.pod_anti_affinity),
            spread: spread
                .filter(|spread| *spread.when_unsatisfiable == *"DoNotSchedule")
                .map(|spread| spread.parse(namespace, labels))
                .collect(),
            ports: ports.collect(),
            priority: wire.priority,
            never_preempts: *wire.preemption_policy == *"Never",
        };
        (rules != Self::default()).then_some(rules)
    }

    /// Whether pods on nodes can make a node fit that did not fit before.
    pub(crate) fn depend_on_pods(&self) -> bool {
        !self.affinity.is_empty() || !self.spread.is_empty()
    }
}

impl TermWire {
    fn parse(self, namespace: &Sym, labels: &Labels) -> Term {
        let namespaces = match (&self.namespaces[..], &self.namespace_selector) {
            ([], None) => vec![namespace.clone()],
            _ => self.namespaces,
        };
        let equal = (&self.match_label_keys[..], "In");
        let different = (&self.mismatch_label_keys[..], "NotIn");
        Term {
            pods: PodSelection {
                namespaces: namespaces.into(),
                namespace_selector: parse(self.namespace_selector.as_ref()),
                selector: selector(self.label_selector, [equal, different], labels),
            },
            topology_key: self.topology_key,
        }
    }
}

impl SpreadWire {
    fn parse(self, namespace: &Sym, labels: &Labels) -> Spread {
        let equal = (&self.match_label_keys[..], "In");
        Spread {
            pods: PodSelection {
                namespaces: [namespace.clone()].into(),
                namespace_selector: Selector::nothing(),
                selector: selector(self.label_selector, [equal], labels),
            },
            topology_key: self.topology_key,
            max_skew: self.max_skew,
            min_domains: self.min_domains.unwrap_or(1),
            honors_affinity: self.node_affinity_policy.as_deref() != Some("Ignore"),
            honors_taints: self.node_taints_policy.as_deref() == Some("Honor"),
        }
    }
}

/// An invalid selector, which the API server refuses, matches nothing.
fn parse(wire: Option<&WireSelector>) -> Selector {
    Selector::parse(wire).unwrap_or_else(|_| Selector::nothing())
}

/// A label selector, with a requirement on the pod's own value of each key. Upstream's API server
/// merges these keys into the selector when it creates the pod.
fn selector<const N: usize>(
    wire: Option<Value>,
    keys: [(&[String], &str); N],
    labels: &Labels,
) -> Selector {
    let Some(mut wire) = wire else {
        return Selector::nothing();
    };
    for (keys, operator) in keys {
        for key in keys {
            let Some(value) = labels.get(key) else {
                continue;
            };
            let requirement = json!({"key": key, "operator": operator, "values": [value.as_str()]});
            match wire
                .get_mut("matchExpressions")
                .and_then(Value::as_array_mut)
            {
                Some(all) => all.push(requirement),
                None => wire["matchExpressions"] = json!([requirement]),
            }
        }
    }
    parse(serde_json::from_value(wire).ok().as_ref())
}
