//! Pods as a kubelet reads them.

use serde::Deserialize;
use steersman_runtime::object::{DecodeError, Meta, Object, Pod};
use steersman_runtime::resource::{self, ResourceType};

use super::BEHAVIOUR;
use super::stages::Behaviour;

/// What the simulation reads of a pod.
#[derive(Debug)]
pub(super) struct SimPod {
    /// The part that controllers read too.
    pub(super) pod: Pod,
    /// What its containers do.
    pub(super) behaviour: Behaviour,
    /// Containers, in order.
    pub(super) containers: Vec<Container>,
    /// Init containers, in order.
    pub(super) init_containers: Vec<Container>,
    /// Whether ended containers stay ended.
    pub(super) never_restarts: bool,
    /// Whether something else decides when it may be scheduled.
    pub(super) gated: bool,
    /// Whether a container waits with a reason, as one that crash-loops or cannot be pulled.
    pub(super) waiting: bool,
}

/// One container.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Container {
    pub(super) name: String,
    #[serde(default)]
    pub(super) image: String,
}

#[derive(Deserialize)]
struct Wire {
    metadata: MetaWire,
    #[serde(default)]
    spec: SpecWire,
    #[serde(default)]
    status: StatusWire,
}

#[derive(Deserialize)]
struct MetaWire {
    #[serde(default)]
    annotations: std::collections::HashMap<String, String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct SpecWire {
    containers: Vec<Container>,
    init_containers: Vec<Container>,
    restart_policy: String,
    scheduling_gates: Vec<serde::de::IgnoredAny>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct StatusWire {
    container_statuses: Vec<ContainerStatusWire>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ContainerStatusWire {
    state: StateWire,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct StateWire {
    waiting: Option<serde::de::IgnoredAny>,
}

impl Object for SimPod {
    const RESOURCE: &'static ResourceType = &resource::PODS;

    fn decode(json: &[u8]) -> Result<Self, DecodeError> {
        let pod = Pod::decode(json)?;
        let wire: Wire = serde_json::from_slice(json).map_err(|source| DecodeError::Json { kind: "Pod", source })?;
        Ok(Self {
            pod,
            behaviour: wire.metadata.annotations.get(BEHAVIOUR).map_or(Behaviour::Run, |text| Behaviour::parse(text)),
            containers: wire.spec.containers,
            init_containers: wire.spec.init_containers,
            never_restarts: wire.spec.restart_policy == "Never",
            gated: !wire.spec.scheduling_gates.is_empty(),
            waiting: wire.status.container_statuses.iter().any(|status| status.state.waiting.is_some()),
        })
    }

    fn meta(&self) -> &Meta {
        &self.pod.meta
    }
}
