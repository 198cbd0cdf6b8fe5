//! Pods with the fields that the simulated kubelet reads.
//!
//! [`SimPod`] wraps the controllers' `Pod` view and adds container statuses and the behaviour
//! annotation. Pods are decoded once, in the informer.

use serde::Deserialize;
use serde_json::Value;
use steersman_runtime::object::{DecodeError, Meta, Object, Pod};
use steersman_runtime::resource::{self, ResourceType};

use super::BEHAVIOUR;

/// The scheduler of pods without `spec.schedulerName`.
const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// The fields of a pod that the simulation reads.
#[derive(Debug)]
pub(super) struct SimPod {
    /// The fields that controllers read too.
    pub(super) pod: Pod,
    /// Value of the behaviour annotation; empty without the annotation.
    pub(super) behaviour: Box<str>,
    /// `spec.containers`, in order.
    pub(super) containers: Vec<Container>,
    /// `spec.initContainers`, in order.
    pub(super) init_containers: Vec<Container>,
    /// `spec.ephemeralContainers`, which `kubectl debug` adds.
    pub(super) ephemeral_containers: Box<[Container]>,
    /// `spec.restartPolicy`.
    pub(super) restart_policy: Box<str>,
    /// Whether the pod has no scheduling gates and names the default scheduler. The simulated nodes
    /// bind such pods in its place.
    pub(super) schedulable: bool,
    /// Whether a container's state is `waiting`, for example with `CrashLoopBackOff`.
    pub(super) waiting: bool,
    /// Reported statuses of its containers and ephemeral containers.
    pub(super) reported: Vec<Reported>,
    /// `status.podIP`, if assigned.
    pub(super) address: Option<Box<str>>,
}

/// A container of the spec.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Container {
    pub(super) name: String,
    #[serde(default)]
    pub(super) image: String,
}

/// The reported status of a container.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Reported {
    name: Box<str>,
    /// Number of restarts.
    pub(super) restart_count: i32,
    /// State before the latest restart.
    #[serde(deserialize_with = "unless_empty")]
    pub(super) last_state: Option<Value>,
    state: StateWire,
}

impl Reported {
    /// Start time of the running container.
    pub(super) fn running_since(&self) -> Option<&str> {
        self.state.running.as_ref()?.started_at.as_deref()
    }
}

/// Drops empty objects. Few containers ever restarted, and the others need no memory for this
/// field.
fn unless_empty<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Value>, D::Error> {
    let value = Option::<Value>::deserialize(deserializer)?;
    Ok(value.filter(|value| value.as_object().is_some_and(|fields| !fields.is_empty())))
}

/// The parts of a pod's JSON that [`SimPod`] has beside the controllers' view.
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
    /// Whether the pod has an ephemeral container without a status, which must start now.
    pub(super) fn is_debugged(&self) -> bool {
        self.ephemeral_containers
            .iter()
            .any(|container| self.reported_of(&container.name).is_none())
    }

    /// The reported status of a container, by its name.
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
