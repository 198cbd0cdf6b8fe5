//! Pods as a kubelet reads them.

use serde::Deserialize;
use serde_json::Value;
use steersman_runtime::object::{DecodeError, Meta, Object, Pod};
use steersman_runtime::resource::{self, ResourceType};

use super::BEHAVIOUR;

/// Pods name it unless they name another.
const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// What the simulation reads of a pod.
#[derive(Debug)]
pub(super) struct SimPod {
    /// The part that controllers read too.
    pub(super) pod: Pod,
    /// What its containers do, after the annotation; empty without it.
    pub(super) behaviour: Box<str>,
    /// Containers, in order.
    pub(super) containers: Vec<Container>,
    /// Init containers, in order.
    pub(super) init_containers: Vec<Container>,
    /// Containers that were added to look at the others.
    pub(super) ephemeral_containers: Box<[Container]>,
    /// Whether ended containers start again.
    pub(super) restart_policy: Box<str>,
    /// Whether it may be scheduled, and by the default scheduler, in whose place these nodes bind
    /// pods.
    pub(super) schedulable: bool,
    /// Whether a container waits with a reason, as one that crash-loops or cannot be pulled.
    pub(super) waiting: bool,
    /// What was reported of its containers so far.
    pub(super) reported: Vec<Reported>,
    /// Its address, once it has one.
    pub(super) address: Option<Box<str>>,
}

/// One container.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Container {
    pub(super) name: String,
    #[serde(default)]
    pub(super) image: String,
}

/// What was reported of a container so far.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Reported {
    name: Box<str>,
    /// How often it was started again.
    pub(super) restart_count: i32,
    /// How it ended before its latest restart.
    #[serde(deserialize_with = "unless_empty")]
    pub(super) last_state: Option<Value>,
    state: StateWire,
}

impl Reported {
    /// Since when it runs.
    pub(super) fn running_since(&self) -> Option<&str> {
        self.state.running.as_ref()?.started_at.as_deref()
    }
}

/// Nearly all containers never ended, which should not cost memory.
fn unless_empty<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Value>, D::Error> {
    let value = Option::<Value>::deserialize(deserializer)?;
    Ok(value.filter(|value| value.as_object().is_some_and(|fields| !fields.is_empty())))
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
    annotations: std::collections::HashMap<String, Box<str>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct SpecWire {
    containers: Vec<Container>,
    init_containers: Vec<Container>,
    ephemeral_containers: Box<[Container]>,
    restart_policy: Box<str>,
    scheduling_gates: Vec<serde::de::IgnoredAny>,
    scheduler_name: Box<str>,
}

impl SpecWire {
    fn schedulable(&self) -> bool {
        self.scheduling_gates.is_empty() && matches!(&*self.scheduler_name, "" | DEFAULT_SCHEDULER)
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct StatusWire {
    container_statuses: Vec<Reported>,
    ephemeral_container_statuses: Vec<Reported>,
    #[serde(rename = "podIP")]
    pod_ip: Option<Box<str>>,
}

#[derive(Debug, Deserialize, Default)]
#[serde(default)]
struct StateWire {
    waiting: Option<serde::de::IgnoredAny>,
    running: Option<RunningWire>,
}

#[derive(Debug, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct RunningWire {
    started_at: Option<Box<str>>,
}

impl SimPod {
    /// Whether a container was added that nobody has started yet.
    pub(super) fn is_debugged(&self) -> bool {
        self.ephemeral_containers
            .iter()
            .any(|container| self.reported_of(&container.name).is_none())
    }

    /// What was reported of a container so far.
    pub(super) fn reported_of(&self, container: &str) -> Option<&Reported> {
        self.reported
            .iter()
            .find(|reported| *reported.name == *container)
    }
}

impl Object for SimPod {
    const RESOURCE: &'static ResourceType = &resource::PODS;

    fn decode(json: &[u8]) -> Result<Self, DecodeError> {
        let pod = Pod::decode(json)?;
        let mut wire: Wire = serde_json::from_slice(json).map_err(|source| DecodeError::Json {
            kind: "Pod",
            source,
        })?;
        Ok(Self {
            pod,
            behaviour: wire
                .metadata
                .annotations
                .remove(BEHAVIOUR)
                .unwrap_or_default(),
            schedulable: wire.spec.schedulable(),
            containers: wire.spec.containers,
            init_containers: wire.spec.init_containers,
            ephemeral_containers: wire.spec.ephemeral_containers,
            restart_policy: wire.spec.restart_policy,
            waiting: wire
                .status
                .container_statuses
                .iter()
                .any(|status| status.state.waiting.is_some()),
            reported: {
                let mut reported = wire.status.container_statuses;
                reported.extend(wire.status.ephemeral_container_statuses);
                reported
            },
            address: wire.status.pod_ip,
        })
    }

    fn meta(&self) -> &Meta {
        &self.pod.meta
    }
}
