//! The part of the spec that pods of one template share.
//!
//! served pod -> raw members (`SpecWire`) -> key -> the shared [`PodSpec`]
//!
//! 50,000 pods of 200 templates need 200 shared specs. The key contains the served text of exactly
//! the members that `PodSpec` has. It omits members that differ between pods of one template:
//! `nodeName`, `hostname`, `volumes`, the node affinity of DaemonSets, and `volumeMounts` with the
//! name of the token volume. A known key costs one look-up; for a new key, the decoder parses the
//! pod a second time.
//!
//! Add a field here if pods of one template have equal values. Add a member of the same name to
//! `SpecWire` and to its key as well: without it, pods with different values would share a spec.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use steersman_values::intern::{Memo, PartsKey, Sym};

use super::volumes::VolumeWire;
use crate::view;
use crate::wire::{Text, nullable};

static SPECS: Memo<PartsKey, PodSpec> = Memo::new();

/// Amounts of resources by resource name. Each amount is a quantity as served.
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
        /// Tolerations, in the served order.
        pub tolerations: Vec<Toleration>,
        /// Claims for devices.
        pub resource_claims: Vec<PodResourceClaim>,
        /// The group of pods that are scheduled together.
        pub scheduling_group: SchedulingGroup,
        /// Subdomain of the pod's DNS name.
        pub subdomain: Option<Sym>,
        /// Name of the priority class.
        pub priority_class_name: Option<Sym>,
        /// Seconds for which the pod may run.
        pub active_deadline_seconds: Option<i64>,
        /// Affinity and anti-affinity to other pods.
        pub affinity: PodAffinities,
    }

    /// The fields of a container that controllers read.
    pub struct Container {
        /// Name.
        pub name: Sym,
        /// Ports, in the served order.
        pub ports: Vec<ContainerPort>,
        /// Requests and limits.
        pub resources: Resources,
        /// Restart policy of an init container; `Always` makes it a sidecar.
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
        /// Key of the taint; empty matches every key.
        pub key: Sym,
        /// `Exists` or `Equal`; empty means `Equal`.
        pub operator: Sym,
        /// Value of the taint.
        pub value: Sym,
        /// Effect of the taint; empty matches every effect.
        pub effect: Sym,
        /// Seconds for which the pod tolerates a `NoExecute` taint; unset means forever.
        pub toleration_seconds: Option<i64>,
    }

    /// A claim for devices, with the name of a ResourceClaim or of a ResourceClaimTemplate.
    pub struct PodResourceClaim {
        /// Name within the pod.
        pub name: Sym,
        /// Name of a ResourceClaim.
        pub resource_claim_name: Option<Sym>,
        /// Name of a ResourceClaimTemplate.
        pub resource_claim_template_name: Option<Sym>,
    }

    /// The group of pods that a pod is scheduled with.
    pub struct SchedulingGroup {
        /// Name of the PodGroup.
        pub pod_group_name: Option<Sym>,
    }

    /// `affinity` without the affinity to nodes, which differs between pods of a DaemonSet.
    pub struct PodAffinities {
        /// Affinity to pods.
        pub pod_affinity: PodAffinity,
        /// Anti-affinity to pods.
        pub pod_anti_affinity: PodAffinity,
    }

    /// Affinity or anti-affinity to pods.
    pub struct PodAffinity {
        /// Required terms.
        #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
        pub required: Vec<PodAffinityTerm>,
        /// Preferred terms.
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
        /// Set if the term has a namespace selector.
        pub namespace_selector: Option<Present>,
    }
}

/// A marker for a member that is set. The view does not keep its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Present;

impl<'de> Deserialize<'de> for Present {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        serde::de::IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}

impl Container {
    /// Whether this init container is a sidecar: it runs beside the containers and is restarted.
    pub fn restarts_always(&self) -> bool {
        self.restart_policy.as_deref() == Some("Always")
    }
}

/// `spec` of a pod: the members of [`Pod`](super::Pod), and the raw members of the key.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SpecWire<'a> {
    #[serde(borrow)]
    pub(super) node_name: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) hostname: Option<Text<'a>>,
    #[serde(deserialize_with = "nullable")]
    pub(super) volumes: Vec<VolumeWire>,
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
    scheduling_group: Option<&'a RawValue>,
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
    /// The shared part of the spec. `json` is the text of the pod; a new key needs it.
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

    /// The served text of the resources of the container or init container `name`.
    pub(super) fn resources_of(&self, name: &str) -> Option<&str> {
        let mut all = self.containers.iter().chain(&self.init_containers);
        let is_named = |container: &&ContainerWire<'_>| {
            // Names of containers have no characters that JSON escapes.
            let quoted = container.name.map_or("", RawValue::get);
            quoted
                .strip_prefix('"')
                .and_then(|text| text.strip_suffix('"'))
                == Some(name)
        };
        all.find(is_named)?.resources.map(RawValue::get)
    }

    /// The key: the served text of each member of [`PodSpec`].
    fn key(&self) -> PartsKey {
        let mut key = PartsKey::with_capacity(1024);
        // Init containers come before containers; their number separates the two lists.
        key.push(&self.init_containers.len().to_le_bytes());
        let mut push = |raw: Option<&RawValue>| {
            // An absent member is the empty part, which differs from every JSON value.
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
        push(self.scheduling_group);
        push(self.subdomain);
        push(self.priority_class_name);
        push(self.active_deadline_seconds);
        push(self.affinity.pod_affinity);
        push(self.affinity.pod_anti_affinity);
        key
    }
}
