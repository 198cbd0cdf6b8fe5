//! The part of a pod's spec that pods of one template have in common.
//!
//! served pod -> raw members (`SpecWire`) -> key -> the shared [`PodSpec`]
//!
//! 50,000 pods of 200 templates hold 200 of these. The key is made of the served text of exactly
//! the members that `PodSpec` has, so members that differ from pod to pod do not separate siblings:
//! `nodeName`, `hostname`, `volumes`, the node affinity of DaemonSets, and the name of the token
//! volume in `volumeMounts`. A pod with a known key costs one look-up; otherwise the pod is parsed
//! a second time.
//!
//! A further field belongs here if pods of one template agree on it. It needs a member of the same
//! name in `SpecWire` and in its key.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::volumes::AnyVolume;
use crate::intern::{Memo, PartsKey, Sym};
use crate::object::view::view;
use crate::object::wire::{Text, nullable};

static SPECS: Memo<PartsKey, PodSpec> = Memo::new();

/// Amounts of resources by name, each a quantity as served.
pub type ResourceList = BTreeMap<Sym, Sym>;

view! {
    /// The part of `spec` that pods of one template share.
    pub struct PodSpec {
        /// Containers.
        pub containers: Vec<Container>,
        /// Init containers.
        pub init_containers: Vec<Container>,
        /// Resources of the pod as a whole.
        pub resources: Resources,
        /// Resources that the runtime class adds.
        pub overhead: ResourceList,
        /// Tolerations, in order.
        pub tolerations: Vec<Toleration>,
        /// Claims of devices.
        pub resource_claims: Vec<PodResourceClaim>,
        /// Subdomain of the pod's DNS name.
        pub subdomain: Option<Sym>,
        /// Priority class.
        pub priority_class_name: Option<Sym>,
        /// Seconds that the pod may run.
        pub active_deadline_seconds: Option<i64>,
        /// Affinity to other pods.
        pub affinity: PodAffinities,
    }

    /// A container, as controllers read it.
    pub struct Container {
        /// Name.
        pub name: Sym,
        /// Ports, in order.
        pub ports: Vec<ContainerPort>,
        /// Requests and limits.
        pub resources: Resources,
        /// Set on init containers only; `Always` makes one a sidecar.
        pub restart_policy: Option<Sym>,
    }

    /// A port of a container.
    pub struct ContainerPort {
        /// Name; empty when unset.
        pub name: Sym,
        /// Number.
        pub container_port: i32,
        /// `TCP`, `UDP` or `SCTP`.
        pub protocol: Sym,
    }

    /// Requests and limits.
    pub struct Resources {
        /// Requests.
        pub requests: ResourceList,
        /// Limits.
        pub limits: ResourceList,
    }

    /// A toleration.
    pub struct Toleration {
        /// Key of the taint; empty for every key.
        pub key: Sym,
        /// `Exists`, or `Equal` when empty.
        pub operator: Sym,
        /// Value of the taint.
        pub value: Sym,
        /// Effect of the taint; empty for every effect.
        pub effect: Sym,
        /// Seconds that a `NoExecute` taint is tolerated; unset is for ever.
        pub toleration_seconds: Option<i64>,
    }

    /// A claim of devices, by the name of a ResourceClaim or of its template.
    pub struct PodResourceClaim {
        /// Name within the pod.
        pub name: Sym,
        /// Name of a ResourceClaim.
        pub resource_claim_name: Option<Sym>,
        /// Name of a ResourceClaimTemplate.
        pub resource_claim_template_name: Option<Sym>,
    }

    /// `affinity` without the affinity to nodes, which differs within a DaemonSet.
    pub struct PodAffinities {
        /// Affinity to pods.
        pub pod_affinity: PodAffinity,
        /// Anti-affinity to pods.
        pub pod_anti_affinity: PodAffinity,
    }

    /// Affinity or anti-affinity to pods.
    pub struct PodAffinity {
        /// Terms that must hold.
        #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
        pub required: Vec<PodAffinityTerm>,
        /// Terms that should hold.
        #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
        pub preferred: Vec<WeightedPodAffinityTerm>,
    }

    /// A term with a weight.
    pub struct WeightedPodAffinityTerm {
        /// The term.
        pub pod_affinity_term: PodAffinityTerm,
    }

    /// The namespaces of a term.
    pub struct PodAffinityTerm {
        /// Namespaces by name.
        pub namespaces: Vec<Sym>,
        /// Set where a selector chooses namespaces.
        pub namespace_selector: Option<Present>,
    }
}

/// A value that is there, whatever it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Present;

impl<'de> Deserialize<'de> for Present {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        serde::de::IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}

impl Container {
    /// Whether this init container runs beside the containers (a sidecar).
    pub fn restarts_always(&self) -> bool {
        self.restart_policy.as_deref() == Some("Always")
    }
}

/// `spec` of a pod: what each pod has of its own, and the raw members that make the key.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SpecWire<'a> {
    #[serde(borrow)]
    pub(super) node_name: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) hostname: Option<Text<'a>>,
    #[serde(deserialize_with = "nullable")]
    pub(super) volumes: Vec<AnyVolume>,
    #[serde(borrow, deserialize_with = "nullable")]
    pub(super) affinity: AffinityWire<'a>,
    #[serde(borrow, deserialize_with = "nullable")]
    containers: Vec<ContainerWire<'a>>,
    #[serde(borrow, deserialize_with = "nullable")]
    init_containers: Vec<ContainerWire<'a>>,
    #[serde(borrow)]
    resources: Option<&'a RawValue>,
    #[serde(borrow)]
    overhead: Option<&'a RawValue>,
    #[serde(borrow)]
    tolerations: Option<&'a RawValue>,
    #[serde(borrow)]
    resource_claims: Option<&'a RawValue>,
    #[serde(borrow)]
    subdomain: Option<&'a RawValue>,
    #[serde(borrow)]
    priority_class_name: Option<&'a RawValue>,
    #[serde(borrow)]
    active_deadline_seconds: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct AffinityWire<'a> {
    #[serde(borrow)]
    pub(super) node_affinity: Option<&'a RawValue>,
    #[serde(borrow)]
    pod_affinity: Option<&'a RawValue>,
    #[serde(borrow)]
    pod_anti_affinity: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ContainerWire<'a> {
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    ports: Option<&'a RawValue>,
    #[serde(borrow)]
    resources: Option<&'a RawValue>,
    #[serde(borrow)]
    restart_policy: Option<&'a RawValue>,
}

impl SpecWire<'_> {
    /// The shared part of the spec of the pod `json`.
    pub(super) fn shared(&self, json: &str) -> Result<Arc<PodSpec>, serde_json::Error> {
        SPECS.get(&self.key(), || {
            #[derive(Deserialize, Default)]
            #[serde(default)]
            struct PodWire {
                spec: PodSpec,
            }
            Ok(serde_json::from_str::<PodWire>(json)?.spec)
        })
    }

    fn key(&self) -> PartsKey {
        let mut key = PartsKey::with_capacity(1024);
        // The number of init containers tells them from the containers.
        key.push(&self.init_containers.len().to_le_bytes());
        let mut push = |raw: Option<&RawValue>| {
            // No JSON value is empty, so an absent member differs from every other.
            key.push(raw.map_or("", RawValue::get).as_bytes());
        };
        for containers in [&self.init_containers, &self.containers] {
            for container in containers {
                push(container.name);
                push(container.ports);
                push(container.resources);
                push(container.restart_policy);
            }
        }
        push(self.resources);
        push(self.overhead);
        push(self.tolerations);
        push(self.resource_claims);
        push(self.subdomain);
        push(self.priority_class_name);
        push(self.active_deadline_seconds);
        push(self.affinity.pod_affinity);
        push(self.affinity.pod_anti_affinity);
        key
    }
}
