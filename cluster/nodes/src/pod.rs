//! Pods with the fields that the simulated kubelet reads.
//!
//! [`SimPod`] wraps the controllers' `Pod` view and adds container statuses, the rules about its
//! node, and the annotations of the simulation. Pods are decoded once, in the informer.

use std::borrow::Cow;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use steersman_helpers::scheduling::Constraints;
use steersman_objects::{DecodeError, Meta, Object, Pod, ResourceList, Resources, VolumeSource};
use steersman_values::intern::Sym;
use steersman_values::resource::{self, ResourceType};

use super::BEHAVIOUR;
use super::ending::Ending;
use super::needs::{EnvFromWire, EnvWire, Need, VolumeWire};
use super::restarts::{ALL_RESTARTING, REMOVED, Restarts, Rule};
use super::rules::{AffinityWire, PortWire, Rules, RulesWire, SpreadWire};

/// The scheduler of pods without `spec.schedulerName`.
const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// The condition of a resize that waits for room.
pub(super) const PENDING: &str = "PodResizePending";
/// The condition of a resize that the containers do not have yet.
pub(super) const IN_PROGRESS: &str = "PodResizeInProgress";

/// The condition of a pod that is about to end because of a disruption.
pub(super) const DISRUPTION: &str = "DisruptionTarget";
/// The reason of this condition if another pod needs the room.
pub(super) const PREEMPTED: &str = "PreemptionByScheduler";

/// The fields of a pod that the simulation reads.
#[derive(Debug)]
pub(super) struct SimPod {
    /// The fields that controllers read too.
    pub(super) pod: Pod,
    /// Value of the behaviour annotation; empty without the annotation.
    pub(super) behaviour: Box<str>,
    /// The end of its containers, if they exit by themselves. The error names a malformed
    /// annotation.
    pub(super) ending: Result<Option<Ending>, String>,
    /// Whether it has a finalizer, so that it outlives its containers.
    pub(super) is_held: bool,
    /// The rules of its spec about its node.
    pub(super) constraints: Constraints,
    /// Its rules about other pods; `None` without any.
    pub(super) rules: Option<Arc<Rules>>,
    /// The objects that its containers cannot start without.
    pub(super) needs: Box<[Need]>,
    /// The message of its condition `PodScheduled`, if that is false.
    pub(super) unscheduled: Option<Box<str>>,
    /// `status.nominatedNodeName`: the node where other pods make room for it.
    pub(super) nominated: Option<Box<str>>,
    /// Whether a scheduler ends it to make room for another pod.
    pub(super) is_preempted: bool,
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
    /// Reported statuses of its containers, init containers and ephemeral containers.
    pub(super) reported: Vec<Reported>,
    /// Its readiness gates; `None` without any.
    gates: Option<Box<Gates>>,
    /// `status.observedGeneration`; 0 on servers that do not keep it.
    pub(super) observed_generation: i64,
    /// The conditions of its resize in place; `None` without any.
    pub(super) resizing: Option<Box<Resizing>>,
    /// Whether its status has pod-level resources.
    pub(super) reports_pod_level: bool,
    /// Its pod-level resources, if its spec has some and its status shows them.
    pub(super) pod_level: Option<Box<PodLevel>>,
}

/// Pod-level resources in a status.
#[derive(Debug)]
pub(super) struct PodLevel {
    /// `status.resources`.
    pub(super) resources: Resources,
    /// `status.allocatedResources`, which are requests.
    pub(super) allocated: ResourceList,
}

/// The conditions of a pod about a resize in place.
#[derive(Debug, Default)]
pub(super) struct Resizing {
    /// The condition `PodResizePending`.
    pub(super) pending: Option<Pending>,
    /// The generation in the condition `PodResizeInProgress`.
    pub(super) in_progress: Option<i64>,
}

/// The condition `PodResizePending`.
#[derive(Debug)]
pub(super) struct Pending {
    /// Whether the node will not try again.
    pub(super) is_infeasible: bool,
    pub(super) message: Box<str>,
    pub(super) observed_generation: i64,
}

impl Resizing {
    fn of(conditions: &[ConditionWire]) -> Option<Box<Self>> {
        let find = |kind: &str| {
            let mut all = conditions.iter();
            all.find(|one| *one.kind == *kind && *one.status == *"True")
        };
        let pending = find(PENDING).map(|found| Pending {
            is_infeasible: *found.reason == *"Infeasible",
            message: found.message.clone(),
            observed_generation: found.observed_generation,
        });
        let in_progress = find(IN_PROGRESS).map(|found| found.observed_generation);
        (pending.is_some() || in_progress.is_some()).then(|| {
            Box::new(Self {
                pending,
                in_progress,
            })
        })
    }
}

/// The readiness gates of a pod, which are conditions that another program sets.
#[derive(Debug)]
struct Gates {
    /// The types of the conditions.
    kinds: Vec<Box<str>>,
    /// The message of its condition `Ready`, if that is false.
    told: Option<Box<str>>,
}

/// A container of the spec.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Container {
    pub(super) name: String,
    #[serde(default)]
    pub(super) image: String,
    /// Its restarts; ephemeral containers have none.
    #[serde(skip)]
    pub(super) restarts: Restarts,
    #[serde(default)]
    image_pull_policy: Option<Box<str>>,
    #[serde(default)]
    readiness_probe: Option<ProbeWire>,
    /// `volumeMounts` of its status, as JSON; empty without any.
    #[serde(default, rename = "volumeMounts", deserialize_with = "mount_statuses")]
    pub(super) volume_mounts: Sym,
    /// The resources whose change restarts it.
    #[serde(default, rename = "resizePolicy", deserialize_with = "restarting")]
    pub(super) restarts_for: Box<[Sym]>,
}

/// The statuses of the mounts of a container, as JSON that many containers share. Upstream: `volumeMounts` in
/// `convertToAPIContainerStatuses`; no simulated runtime mounts recursively read-only.
fn mount_statuses<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Sym, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Mount {
        name: Box<str>,
        mount_path: Box<str>,
        #[serde(default)]
        read_only: bool,
    }
    let mounts = Option::<Vec<Mount>>::deserialize(deserializer)?.unwrap_or_default();
    if mounts.is_empty() {
        return Ok(Sym::default());
    }
    let statuses = mounts.iter().map(|mount| {
        let mut status = json!({"name": mount.name, "mountPath": mount.mount_path});
        if mount.read_only {
            status["readOnly"] = true.into();
            status["recursiveReadOnly"] = "Disabled".into();
        }
        status
    });
    Ok(Sym::new(&statuses.collect::<Value>().to_string()))
}

/// The names of the resources with the restart policy `RestartContainer`.
fn restarting<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Box<[Sym]>, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Policy {
        resource_name: Sym,
        restart_policy: Box<str>,
    }
    let policies = Option::<Vec<Policy>>::deserialize(deserializer)?.unwrap_or_default();
    let restarts = policies.into_iter();
    let restarts = restarts.filter(|policy| *policy.restart_policy == *"RestartContainer");
    Ok(restarts.map(|policy| policy.resource_name).collect())
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ProbeWire {
    #[serde(default)]
    period_seconds: Option<u64>,
}

/// A container of the spec, with the members that only its decoding needs.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContainerWire {
    name: String,
    #[serde(default)]
    image: String,
    #[serde(default)]
    restart_policy: Option<Box<str>>,
    #[serde(default)]
    restart_policy_rules: Box<[Rule]>,
    #[serde(default)]
    image_pull_policy: Option<Box<str>>,
    #[serde(default)]
    readiness_probe: Option<ProbeWire>,
    #[serde(default, deserialize_with = "mount_statuses")]
    volume_mounts: Sym,
    #[serde(default, rename = "resizePolicy", deserialize_with = "restarting")]
    restarts_for: Box<[Sym]>,
    #[serde(default)]
    ports: Vec<PortWire>,
    #[serde(default)]
    env: Vec<EnvWire>,
    #[serde(default)]
    env_from: Vec<EnvFromWire>,
}

impl ContainerWire {
    /// The container, after its needs have been added to `needs`.
    fn split(self, needs: &mut Vec<Need>) -> Container {
        needs.extend(Need::of_container(&self.name, &self.env_from, &self.env));
        Container {
            name: self.name,
            image: self.image,
            restarts: Restarts::new(self.restart_policy, self.restart_policy_rules),
            image_pull_policy: self.image_pull_policy,
            readiness_probe: self.readiness_probe,
            volume_mounts: self.volume_mounts,
            restarts_for: self.restarts_for,
        }
    }
}

impl Container {
    /// Whether the image is pulled before every start.
    pub(super) fn always_pulls(&self) -> bool {
        self.image_pull_policy.as_deref() == Some("Always")
    }

    /// Time between two readiness probes; by default as upstream's.
    pub(super) fn probe_period(&self) -> Duration {
        let probe = self.readiness_probe.as_ref();
        let seconds = probe.and_then(|probe| probe.period_seconds);
        Duration::from_secs(seconds.unwrap_or(10).max(1))
    }

    /// Whether an init container is a sidecar, which runs until the containers have ended.
    pub(super) fn is_sidecar(&self) -> bool {
        self.restarts.are_always()
    }
}

/// The reason and message of a container that waits.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Waiting {
    pub(super) reason: Box<str>,
    pub(super) message: Box<str>,
}

/// The reported status of a container.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Reported {
    name: Box<str>,
    /// Whether its readiness probe has passed.
    pub(super) ready: bool,
    /// Number of restarts.
    pub(super) restart_count: i32,
    /// State before the latest restart.
    #[serde(deserialize_with = "unless_empty")]
    pub(super) last_state: Option<Value>,
    /// The image that it runs.
    pub(super) image: Sym,
    /// `resources`; `None` on servers that do not keep them, and before the container is created.
    pub(super) resources: Option<Box<Resources>>,
    /// `allocatedResources`, which are requests.
    pub(super) allocated_resources: ResourceList,
    state: StateWire,
}

impl Reported {
    /// Start time of the running container.
    pub(super) fn running_since(&self) -> Option<&str> {
        self.state.running.as_ref()?.started_at.as_deref()
    }

    /// The state of a container that has ended, as reported.
    pub(super) fn ended(&self) -> Option<&Value> {
        self.state.terminated.as_ref()
    }

    /// The exit code of a container that has ended.
    pub(super) fn exit_code(&self) -> Option<i32> {
        i32::try_from(self.ended()?["exitCode"].as_i64()?).ok()
    }

    /// The reason and message of a waiting container.
    pub(super) fn waiting(&self) -> Option<&Waiting> {
        self.state.waiting.as_ref()
    }

    /// Whether the container has ended and waits for a restart that is not counted yet. The removal of all
    /// containers has counted its own.
    pub(super) fn waits_for_restart(&self) -> bool {
        self.state.waiting.is_some() && self.last_state.is_some() && !self.was_removed()
    }

    /// Whether its latest end is the removal of all containers.
    fn was_removed(&self) -> bool {
        let last = self.last_state.as_ref();
        last.is_some_and(|last| last["terminated"]["reason"] == REMOVED)
    }

    /// Whether the container has been removed with all others, and waits for its start.
    pub(super) fn is_removed(&self) -> bool {
        self.waiting()
            .is_some_and(|waiting| *waiting.reason == *REMOVED)
    }

    /// Whether the container has ended without an error.
    pub(super) fn has_succeeded(&self) -> bool {
        self.ended().is_some_and(|ended| ended["exitCode"] == 0)
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

/// A claim that a volume of a pod uses.
#[derive(Debug)]
pub(super) struct UsedClaim<'a> {
    /// Its name.
    pub(super) name: Cow<'a, str>,
    /// Whether a controller creates it for the pod.
    pub(super) is_ephemeral: bool,
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
    annotations: HashMap<String, Box<str>>,
    #[serde(default)]
    finalizers: Vec<serde::de::IgnoredAny>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct SpecWire {
    containers: Vec<ContainerWire>,
    init_containers: Vec<ContainerWire>,
    ephemeral_containers: Box<[Container]>,
    restart_policy: Box<str>,
    scheduling_gates: Vec<serde::de::IgnoredAny>,
    readiness_gates: Vec<GateWire>,
    scheduler_name: Box<str>,
    service_account_name: Box<str>,
    volumes: Vec<VolumeWire>,
    affinity: AffinityWire,
    topology_spread_constraints: Vec<SpreadWire>,
    priority: i32,
    preemption_policy: Box<str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GateWire {
    condition_type: Box<str>,
}

impl SpecWire {
    fn schedulable(&self) -> bool {
        self.scheduling_gates.is_empty() && matches!(&*self.scheduler_name, "" | DEFAULT_SCHEDULER)
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct StatusWire {
    observed_generation: i64,
    nominated_node_name: Option<Box<str>>,
    conditions: Vec<ConditionWire>,
    container_statuses: Vec<Reported>,
    init_container_statuses: Vec<Reported>,
    resources: Option<Resources>,
    allocated_resources: ResourceList,
    ephemeral_container_statuses: Vec<Reported>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ConditionWire {
    #[serde(rename = "type")]
    kind: Box<str>,
    status: Box<str>,
    reason: Box<str>,
    message: Box<str>,
    observed_generation: i64,
}

#[derive(Debug, Deserialize, Default)]
#[serde(default)]
struct StateWire {
    waiting: Option<Waiting>,
    running: Option<RunningWire>,
    terminated: Option<Value>,
}

#[derive(Debug, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct RunningWire {
    started_at: Option<Box<str>>,
}

impl SimPod {
    /// The claims that its volumes use.
    pub(super) fn claims(&self) -> impl Iterator<Item = UsedClaim<'_>> {
        let pod = &self.pod.meta.name;
        let volumes = self.pod.volumes.iter();
        volumes.filter_map(move |volume| match &volume.source {
            VolumeSource::Claim(name) => Some(UsedClaim {
                name: Cow::Borrowed(name.as_str()),
                is_ephemeral: false,
            }),
            VolumeSource::Ephemeral(_) => Some(UsedClaim {
                name: Cow::Owned(format!("{pod}-{}", volume.name)),
                is_ephemeral: true,
            }),
            VolumeSource::InlineCsi(_) | VolumeSource::Inline { .. } => None,
        })
    }

    /// A number that changes with every step of the init containers.
    pub(super) fn initialization(&self) -> i32 {
        let step = |status: &Reported| {
            let state = if status.ended().is_some() {
                3
            } else if status.waits_for_restart() {
                2
            } else {
                i32::from(status.running_since().is_some())
            };
            4 * status.restart_count + state
        };
        let statuses = self.init_containers.iter();
        statuses
            .filter_map(|container| self.reported_of(&container.name))
            .map(step)
            .sum()
    }

    /// The restarts of an init container that waits for the next one.
    pub(super) fn waiting_init(&self) -> Option<i32> {
        let mut statuses = self
            .init_containers
            .iter()
            .filter_map(|container| self.reported_of(&container.name));
        let waits = statuses.find(|status| status.waits_for_restart())?;
        Some(waits.restart_count)
    }

    /// Whether an exit of one of its containers can restart all of them. Such pods have a condition about it.
    pub(super) fn can_restart_all(&self) -> bool {
        let mut containers = self.init_containers.iter().chain(&self.containers);
        containers.any(|container| container.restarts.can_be_of_all())
    }

    /// Whether a container has exited so that all containers restart, and they have not been removed yet.
    pub(super) fn is_restarting_all(&self) -> bool {
        self.can_restart_all() && self.pod.conditions.is_true(ALL_RESTARTING)
    }

    /// Whether its containers have been removed, and none has started again.
    pub(super) fn is_removed(&self) -> bool {
        self.reported.iter().any(Reported::is_removed)
    }

    /// Whether the pod has an ephemeral container without a status, which must start now.
    pub(super) fn is_debugged(&self) -> bool {
        self.ephemeral_containers
            .iter()
            .any(|container| self.reported_of(&container.name).is_none())
    }

    /// Whether every container is ready or has ended, and at least one is ready. Further reports
    /// would not make such a pod readier.
    pub(super) fn is_settled(&self) -> bool {
        let found = |container: &Container| self.reported_of(&container.name);
        let is_ready = |container| found(container).is_some_and(|status| status.ready);
        let has_ended = |container| found(container).is_some_and(|s| s.ended().is_some());
        self.containers.iter().any(is_ready)
            && self
                .containers
                .iter()
                .all(|container| is_ready(container) || has_ended(container))
    }

    /// Its addresses, without malformed ones.
    pub(super) fn addresses(&self) -> Vec<IpAddr> {
        self.pod
            .ips()
            .filter_map(|address| address.parse().ok())
            .collect()
    }

    /// Whether all containers are ready. Another program may have reported that the pod is not, as
    /// the node lifecycle controller does for pods of silent nodes.
    pub(super) fn has_ready_containers(&self) -> bool {
        let is_ready = |container: &Container| {
            let status = self.reported_of(&container.name);
            status.is_some_and(|status| status.ready && status.ended().is_none())
        };
        !self.containers.is_empty() && self.containers.iter().all(is_ready)
    }

    /// The words of the kubelet about readiness gates that are not fulfilled; `None` if all are. Upstream:
    /// `GeneratePodReadyCondition` in `pkg/kubelet/status/generate.go`.
    pub(super) fn unfulfilled_gates(&self) -> Option<String> {
        let gates = self.gates.as_ref()?;
        let unfulfilled = gates.kinds.iter().filter_map(|kind| {
            let condition = self
                .pod
                .conditions
                .iter()
                .find(|state| state.kind == **kind);
            match condition {
                None => Some(format!(
                    "corresponding condition of pod readiness gate \"{kind}\" does not exist."
                )),
                Some(state) if state.status != *"True" => Some(format!(
                    "the status of pod readiness gate \"{kind}\" is not \"True\", but {}",
                    &*state.status
                )),
                Some(_) => None,
            }
        });
        let all: Vec<String> = unfulfilled.collect();
        (!all.is_empty()).then(|| all.join(", "))
    }

    /// Whether the condition `Ready` already tells which readiness gates are not fulfilled.
    pub(super) fn tells_of_gates(&self) -> bool {
        let told = self.gates.as_ref().and_then(|gates| gates.told.as_deref());
        told.is_some_and(|told| self.unfulfilled_gates().is_some_and(|now| now == told))
    }

    /// The resources of a container in the spec; `None` for an ephemeral container.
    pub(super) fn resources_of(&self, container: &str) -> Option<&Resources> {
        let spec = &self.pod.spec;
        let mut all = spec.containers.iter().chain(&spec.init_containers);
        let found = all.find(|one| one.name == *container)?;
        Some(&found.resources)
    }

    /// The end of its containers; `None` if they run for ever.
    pub(super) fn ending(&self) -> Option<&Ending> {
        self.ending_of_inits()
            .filter(|ending| ending.is_of_containers)
    }

    /// The end of its containers, or of its init containers only.
    pub(super) fn ending_of_inits(&self) -> Option<&Ending> {
        self.ending.as_ref().ok()?.as_ref()
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
        let malformed = |source| DecodeError::Json {
            kind: "Pod",
            source,
        };
        let wire: Wire = serde_json::from_slice(json).map_err(malformed)?;
        let constraints = Constraints::of_pod(json).map_err(malformed)?;
        let annotations = &wire.metadata.annotations;
        let behaviour = annotations.get(BEHAVIOUR).cloned().unwrap_or_default();
        let is_of_job = pod
            .meta
            .controller()
            .is_some_and(|owner| *owner.kind == *"Job");
        let spec = wire.spec;
        let schedulable = spec.schedulable();
        let is_init = |name: &str| spec.init_containers.iter().any(|init| init.name == name);
        let ending = Ending::of(
            |key| annotations.get(key).map(|value| &**value),
            is_of_job,
            *behaviour == *"fail",
            is_init,
        );
        let volumes = spec.volumes.iter();
        let account = &spec.service_account_name;
        let mut needs: Vec<Need> = volumes
            .flat_map(|volume| Need::of_volume(volume, account))
            .collect();
        let sidecars = spec.init_containers.iter();
        let sidecars = sidecars.filter(|init| init.restart_policy.as_deref() == Some("Always"));
        let ports = spec.containers.iter().chain(sidecars);
        let rules = Rules::of(
            RulesWire {
                affinity: spec.affinity,
                spread: spec.topology_spread_constraints,
                priority: spec.priority,
                preemption_policy: spec.preemption_policy,
            },
            ports.flat_map(|container| &container.ports),
            &pod.meta.namespace,
            &pod.meta.labels,
        );
        let mut split = |containers: Vec<ContainerWire>| -> Vec<Container> {
            let containers = containers.into_iter();
            containers.map(|one| one.split(&mut needs)).collect()
        };
        let init_containers = split(spec.init_containers);
        let containers = split(spec.containers);
        let conditions = wire.status.conditions;
        let told_of = |kind: &str| -> Option<Box<str>> {
            let mut all = conditions.iter();
            let found = all.find(|one| *one.kind == *kind && *one.status == *"False")?;
            Some(found.message.clone())
        };
        let is_preempted = conditions.iter().any(|one| {
            *one.kind == *DISRUPTION && *one.status == *"True" && *one.reason == *PREEMPTED
        });
        let kinds: Vec<Box<str>> = spec
            .readiness_gates
            .into_iter()
            .map(|gate| gate.condition_type)
            .collect();
        let gates = (!kinds.is_empty()).then(|| {
            let told = told_of("Ready");
            Box::new(Gates { kinds, told })
        });
        let waiting = wire
            .status
            .container_statuses
            .iter()
            .any(|status| status.state.waiting.is_some());
        let has_pod_level = pod.spec.resources != Resources::default();
        let reports_pod_level = wire.status.resources.is_some();
        let pod_level = wire.status.resources.filter(|_| has_pod_level);
        let pod_level = pod_level.map(|resources| {
            Box::new(PodLevel {
                resources,
                allocated: wire.status.allocated_resources,
            })
        });
        let mut reported = wire.status.container_statuses;
        reported.extend(wire.status.init_container_statuses);
        reported.extend(wire.status.ephemeral_container_statuses);
        Ok(Self {
            pod,
            behaviour,
            ending,
            is_held: !wire.metadata.finalizers.is_empty(),
            constraints,
            rules: rules.map(Arc::new),
            needs: needs.into(),
            unscheduled: told_of("PodScheduled"),
            nominated: wire.status.nominated_node_name,
            is_preempted,
            schedulable,
            containers,
            init_containers,
            ephemeral_containers: spec.ephemeral_containers,
            restart_policy: spec.restart_policy,
            waiting,
            reported,
            gates,
            observed_generation: wire.status.observed_generation,
            resizing: Resizing::of(&conditions),
            reports_pod_level,
            pod_level,
        })
    }

    fn meta(&self) -> &Meta {
        &self.pod.meta
    }
}
