//! Registers Node objects with their Leases, and sends one heartbeat of each. The loop of heartbeats is
//! in `heartbeat.rs`.
//!
//! Nodes have the status that upstream's kubelet (`pkg/kubelet/nodestatus`) writes, with all
//! conditions healthy.

use std::collections::HashMap;

use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use steersman_client::{ApiClient, ApiError, PatchKind, Target};
use steersman_objects::{Conditions, DecodeError, Meta, Node, Object, ResourceList};
use steersman_releases::Release;
use steersman_values::clock::{Clock, micro_time};
use steersman_values::resource::{LEASES, NODES, ResourceType};
use steersman_values::version::GIT_VERSION;

use super::machine::{MACHINE, Machine};
use super::scheduler::{Amounts, NodeFacts};
use super::{BEHAVIOUR, NodesConfig, NodesError};

/// Annotation of a node with the policy of its CPU manager: `static` gives cores to guaranteed pods alone.
const CPU_POLICY: &str = "simulate.steersman.dev/cpu-manager-policy";
/// Likewise of its memory manager: `Static`.
const MEMORY_POLICY: &str = "simulate.steersman.dev/memory-manager-policy";
/// Namespace of node Leases.
const LEASE_NAMESPACE: &str = "kube-node-lease";
/// The label of every simulated node.
const SIMULATED: &str = "simulate.steersman.dev/node";
/// Requests in flight at once, so that thousands of nodes register fast without flooding the
/// server.
const AT_ONCE: usize = 16;
/// The features that kubelets declare if they are on by default. Upstream: `nodedeclaredfeatures` of
/// `k8s.io/component-helpers`.
const DECLARED_FEATURES: [&str; 4] = [
    "ExtendWebSocketsToKubelet",
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScalingInitContainers",
    "RestartAllContainersOnContainerExits",
];
/// Type, status, reason and message of the conditions of a healthy node.
const CONDITIONS: [[&str; 4]; 4] = [
    [
        "MemoryPressure",
        "False",
        "KubeletHasSufficientMemory",
        "kubelet has sufficient memory available",
    ],
    [
        "DiskPressure",
        "False",
        "KubeletHasNoDiskPressure",
        "kubelet has no disk pressure",
    ],
    [
        "PIDPressure",
        "False",
        "KubeletHasSufficientPID",
        "kubelet has sufficient PID available",
    ],
    [
        "Ready",
        "True",
        "KubeletReady",
        "kubelet is posting ready status",
    ],
];

/// The fields of a Node that the simulation reads.
#[derive(Debug)]
pub(super) struct SimNode {
    facts: NodeFacts,
    behaviour: Option<Box<str>>,
    machine: Machine,
    /// The release of its kubelet.
    release: Release,
    cpu_policy: Option<Box<str>>,
    memory_policy: Option<Box<str>>,
}

impl SimNode {
    /// The fields that decide which pods the node takes; `None` for a node that is being deleted.
    pub(super) fn facts(&self) -> Option<&NodeFacts> {
        (!self.meta().is_terminating()).then_some(&self.facts)
    }

    /// The fields that controllers read too.
    pub(super) fn node(&self) -> &Node {
        &self.facts.node
    }

    /// The ranges of its pods, one per family.
    pub(super) fn ranges(&self) -> &[Box<str>] {
        &self.node().spec.pod_cidrs
    }

    /// Value of the behaviour annotation.
    pub(super) fn behaviour(&self) -> Option<&str> {
        self.behaviour.as_deref()
    }

    /// The release of its kubelet.
    pub(super) fn release(&self) -> Release {
        self.release
    }

    /// The policy of its CPU manager, by annotation.
    pub(super) fn cpu_policy(&self) -> Option<&str> {
        self.cpu_policy.as_deref()
    }

    /// The policy of its memory manager, by annotation.
    pub(super) fn memory_policy(&self) -> Option<&str> {
        self.memory_policy.as_deref()
    }

    /// Whether its machine runs, and with it the kubelet.
    pub(super) fn is_running(&self) -> bool {
        self.machine == Machine::Running
    }
}

impl Object for SimNode {
    const RESOURCE: &'static ResourceType = &NODES;

    fn decode(json: &[u8]) -> Result<Self, DecodeError> {
        #[derive(Deserialize)]
        struct Wire {
            metadata: Metadata,
            #[serde(default)]
            spec: Spec,
            #[serde(default)]
            status: Status,
        }
        #[derive(Deserialize, Default)]
        #[serde(default)]
        #[serde(rename_all = "camelCase")]
        struct Status {
            allocatable: ResourceList,
            node_info: NodeInfo,
        }
        #[derive(Deserialize, Default)]
        #[serde(default, rename_all = "camelCase")]
        struct NodeInfo {
            kubelet_version: Box<str>,
        }
        #[derive(Deserialize)]
        struct Metadata {
            #[serde(default)]
            annotations: HashMap<String, Box<str>>,
        }
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Spec {
            unschedulable: bool,
        }
        let mut wire: Wire = serde_json::from_slice(json).map_err(|source| DecodeError::Json {
            kind: "Node",
            source,
        })?;
        let annotations = &mut wire.metadata.annotations;
        Ok(Self {
            machine: Machine::of(annotations.get(MACHINE).map(|value| &**value)),
            behaviour: annotations.remove(BEHAVIOUR),
            release: release_of(&wire.status.node_info.kubelet_version),
            cpu_policy: annotations.remove(CPU_POLICY),
            memory_policy: annotations.remove(MEMORY_POLICY),
            facts: NodeFacts {
                node: Node::decode(json)?,
                unschedulable: wire.spec.unschedulable,
                allocatable: Amounts::of(&wire.status.allocatable),
            },
        })
    }

    fn meta(&self) -> &Meta {
        &self.node().meta
    }
}

fn node_target(name: Option<&str>) -> Target<'_> {
    Target {
        resource: &NODES,
        namespace: None,
        name,
        subresource: None,
    }
}

fn lease_target(name: Option<&str>) -> Target<'_> {
    Target {
        resource: &LEASES,
        namespace: Some(LEASE_NAMESPACE),
        name,
        subresource: None,
    }
}

/// Registers nodes with these names, several at a time.
pub(super) async fn register_all(
    client: &ApiClient,
    names: &[String],
    config: &NodesConfig,
    clock: &Clock,
) -> Result<(), NodesError> {
    // By index: rustc cannot prove that a future is Send if its closure takes a reference.
    let registered =
        (0..names.len()).map(|index| register(client, &names[index], index, config, clock));
    stream::iter(registered)
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await
}

/// Creates the Node, its status and its Lease. An existing simulated Node of that name is reused;
/// any other Node is an error.
async fn register(
    client: &ApiClient,
    name: &str,
    index: usize,
    config: &NodesConfig,
    clock: &Clock,
) -> Result<(), NodesError> {
    let failed = |source| NodesError::Register {
        node: name.to_owned(),
        source,
    };
    match client
        .create(node_target(None), &node(name, index, config))
        .await
    {
        Err(error) if error.is_already_exists() => {
            let found = client.get(node_target(Some(name))).await.map_err(failed)?;
            if !is_simulated(&found) {
                return Err(NodesError::Taken(name.to_owned()));
            }
        }
        created => drop(created.map_err(failed)?),
    }
    let status = Target {
        subresource: Some("status"),
        ..node_target(Some(name))
    };
    client
        .patch(
            status,
            PatchKind::Strategic,
            &node_status(name, index, clock.now_seconds(), config),
        )
        .await
        .map_err(failed)?;
    match client
        .create(lease_target(None), &lease(name, clock.now()))
        .await
    {
        Err(error) if !error.is_already_exists() => Err(failed(error)),
        _ => Ok(()),
    }
}

/// Whether the Node has the label of simulated nodes. It protects real nodes of the same name.
fn is_simulated(node: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Wire {
        metadata: Labelled,
    }
    #[derive(Deserialize)]
    struct Labelled {
        #[serde(default)]
        labels: HashMap<String, String>,
    }
    serde_json::from_slice::<Wire>(node)
        .is_ok_and(|node| node.metadata.labels.contains_key(SIMULATED))
}

/// Renews the Lease of the node. 404 if it has none.
pub(super) async fn renew(
    client: &ApiClient,
    node: &SimNode,
    now: Timestamp,
) -> Result<(), ApiError> {
    let renewal = json!({ "spec": { "renewTime": micro_time(now) } });
    let lease = lease_target(Some(&node.meta().name));
    client
        .patch(lease, PatchKind::Merge, &renewal)
        .await
        .map(drop)
}

/// Posts that the node is healthy. Conditions that were so before keep the time of their change.
pub(super) async fn post(
    client: &ApiClient,
    node: &SimNode,
    now: Timestamp,
) -> Result<(), ApiError> {
    let target = Target {
        subresource: Some("status"),
        ..node_target(Some(&node.meta().name))
    };
    let body = json!({
        "metadata": { "uid": node.meta().uid.to_string() },
        "status": { "conditions": conditions(&node.node().status.conditions, now) }
    });
    client
        .patch(target, PatchKind::Strategic, &body)
        .await
        .map(drop)
}

/// Whether all conditions are those of a healthy node.
pub(super) fn is_posted(conditions: &Conditions) -> bool {
    CONDITIONS
        .iter()
        .all(|[kind, status, ..]| has(conditions, kind, status))
}

fn has(conditions: &Conditions, kind: &str, status: &str) -> bool {
    let mut conditions = conditions.iter();
    conditions.any(|condition| condition.kind == *kind && condition.status == *status)
}

/// The conditions of a healthy node, which had the conditions `before`.
fn conditions(before: &Conditions, now: Timestamp) -> Value {
    CONDITIONS
        .iter()
        .map(|[kind, status, reason, message]| {
            let mut condition = json!({
                "type": kind, "status": status, "reason": reason, "message": message,
                "lastHeartbeatTime": now
            });
            if !has(before, kind, status) {
                condition["lastTransitionTime"] = json!(now);
            }
            condition
        })
        .collect()
}

/// The zone of a node by its number: `a`, `b`, `c`, ... in turn. `None` without zones.
fn zone(index: usize, zones: u8) -> Option<char> {
    let turn = u8::try_from(index.checked_rem(zones.into())?).ok()?;
    Some(char::from(b'a' + turn))
}

/// The Node object. As with a kubelet, another program gives it a range of pod addresses.
fn node(name: &str, index: usize, config: &NodesConfig) -> Value {
    let mut node = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                SIMULATED: "true"
            }
        }
    });
    if let Some(zone) = zone(index, config.zones) {
        node["metadata"]["labels"]["topology.kubernetes.io/zone"] = zone.to_string().into();
    }
    if config.attaches_volumes {
        let managed = "volumes.kubernetes.io/controller-managed-attach-detach";
        node["metadata"]["annotations"] = json!({ managed: "true" });
    }
    node
}

/// The release of a kubelet's version. Nodes without a known one have the default release.
fn release_of(version: &str) -> Release {
    let release = Release::in_version(version).unwrap_or(Release::DEFAULT);
    release.nearest_known()
}

/// The features that a kubelet of `release` declares; `None` before the API has them.
fn declared_features(release: Release) -> Option<Vec<&'static str>> {
    let features = DECLARED_FEATURES.into_iter();
    let declare = || features.filter(|name| release.enables(name)).collect();
    release.enables("NodeDeclaredFeatures").then(declare)
}

/// The body of the status patch, with `now` as the time of all conditions.
fn node_status(name: &str, index: usize, now: Timestamp, config: &NodesConfig) -> Value {
    let version = config.kubelet_version.as_deref().unwrap_or(GIT_VERSION);
    let resources =
        json!({ "cpu": "64", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "10000" });
    let mut body = json!({ "status": {
        "capacity": resources,
        "allocatable": resources,
        "addresses": [
            { "type": "InternalIP", "address": node_address(index) },
            { "type": "Hostname", "address": name }
        ],
        "conditions": conditions(&Conditions::default(), now),
        "nodeInfo": {
            "machineID": name, "systemUUID": name, "bootID": name, "architecture": "amd64", "operatingSystem": "linux",
            "osImage": "Simulated", "kernelVersion": "none", "containerRuntimeVersion": "simulated://1",
            "kubeletVersion": version, "kubeProxyVersion": ""
        }
    }});
    if let Some(features) = declared_features(release_of(version)) {
        body["status"]["declaredFeatures"] = features.into();
    }
    body
}

/// Address of a node by its number. Addresses repeat from node 64,000 on.
pub(super) fn node_address(index: usize) -> String {
    format!("10.0.{}.{}", index / 250 % 256, index % 250 + 1)
}

fn lease(name: &str, now: Timestamp) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": { "name": name, "namespace": LEASE_NAMESPACE },
        "spec": { "holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": micro_time(now) }
    })
}
