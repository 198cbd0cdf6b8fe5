//! Registers Node objects, and renews the Leases that show that the nodes are alive.
//!
//! A node whose machine the simulated cloud has stopped renews no Lease. When the machine is back,
//! the node posts its status, as a kubelet does at its start.
//!
//! Nodes have the status that upstream's kubelet (`pkg/kubelet/nodestatus`) writes, with all
//! conditions healthy.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use steersman_runtime::client::{ApiClient, PatchKind, Target};
use steersman_runtime::clock::Clock;
use steersman_runtime::informer::Store;
use steersman_runtime::object::{DecodeError, Meta, Node, Object, ObjectKey};
use steersman_runtime::resource::{LEASES, NODES, ResourceType};
use steersman_runtime::tasks::CancellationToken;

use super::NodesError;
use super::machine::{self, Machine};
use super::placement::NodeFacts;

/// Namespace of node Leases.
const LEASE_NAMESPACE: &str = "kube-node-lease";
/// The label of every simulated node.
const SIMULATED: &str = "simulate.steersman.dev/node";
/// Requests in flight at once, so that thousands of nodes register fast without flooding the
/// server.
const AT_ONCE: usize = 16;
/// Renewal period of a kubelet's Lease by default.
const RENEW_EVERY: Duration = Duration::from_secs(10);

/// The fields of a Node that the simulated scheduler reads.
#[derive(Debug)]
pub(super) struct SimNode {
    facts: NodeFacts,
    machine: Machine,
}

impl SimNode {
    /// The fields that decide which pods the node takes; `None` for a node that is being deleted.
    pub(super) fn facts(&self) -> Option<&NodeFacts> {
        (!self.meta().is_terminating()).then_some(&self.facts)
    }

    /// Whether the machine runs, and with it the kubelet.
    pub(super) fn is_running(&self) -> bool {
        self.machine == Machine::Running
    }
}

impl Object for SimNode {
    const RESOURCE: &'static ResourceType = &NODES;

    fn decode(json: &[u8]) -> Result<Self, DecodeError> {
        #[derive(Deserialize)]
        struct Wire {
            metadata: Annotated,
            #[serde(default)]
            spec: Spec,
        }
        #[derive(Deserialize)]
        struct Annotated {
            #[serde(default)]
            annotations: Option<HashMap<String, String>>,
        }
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Spec {
            unschedulable: bool,
        }
        let wire: Wire = serde_json::from_slice(json).map_err(|source| DecodeError::Json {
            kind: "Node",
            source,
        })?;
        let annotations = wire.metadata.annotations.unwrap_or_default();
        let machine = annotations.get(machine::MACHINE).map(String::as_str);
        Ok(Self {
            facts: NodeFacts {
                node: Node::decode(json)?,
                unschedulable: wire.spec.unschedulable,
            },
            machine: Machine::of(machine),
        })
    }

    fn meta(&self) -> &Meta {
        &self.facts.node.meta
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
    clock: &Clock,
) -> Result<(), NodesError> {
    let registered = names
        .iter()
        .enumerate()
        .map(|(index, name)| register(client, name, index, clock));
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
    clock: &Clock,
) -> Result<(), NodesError> {
    let failed = |source| NodesError::Register {
        node: name.to_owned(),
        source,
    };
    match client.create(node_target(None), &node(name, index)).await {
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
            &node_status(name, index, clock.now_seconds()),
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

/// Renews the Leases of these nodes until `stop` is cancelled. A missing Lease stays missing, and so
/// does the Lease of a node whose machine stopped before the node was deleted.
pub(super) async fn renew_leases(
    client: ApiClient,
    clock: Clock,
    names: Arc<[String]>,
    nodes: Store<SimNode>,
    stop: CancellationToken,
) {
    let mut stopped: HashSet<usize> = HashSet::new();
    while stop
        .run_until_cancelled(tokio::time::sleep(RENEW_EVERY))
        .await
        .is_some()
    {
        let mut back = Vec::new();
        for (index, name) in names.iter().enumerate() {
            match nodes.get(&ObjectKey::new("", name)) {
                Some(node) if node.is_running() => {
                    if stopped.remove(&index) {
                        back.push((index, name));
                    }
                }
                Some(_) => drop(stopped.insert(index)),
                None => {}
            }
        }
        let renewals = names
            .iter()
            .enumerate()
            .filter(|(index, _)| !stopped.contains(index));
        let renewals = stream::iter(renewals).for_each_concurrent(AT_ONCE, async |(_, name)| {
            let renewal = json!({ "spec": { "renewTime": micro_time(clock.now()) } });
            match client.patch(lease_target(Some(name)), PatchKind::Merge, &renewal).await {
                Err(error) if !error.is_not_found() => {
                    tracing::warn!(node = name, %error, request = error.request(), "node lease not renewed");
                }
                _ => {}
            }
        });
        renewals.await;
        stream::iter(back)
            .for_each_concurrent(AT_ONCE, async |(index, name)| {
                let status = Target {
                    subresource: Some("status"),
                    ..node_target(Some(name))
                };
                let body = node_status(name, index, clock.now_seconds());
                let posted = client.patch(status, PatchKind::Strategic, &body).await;
                if let Err(error) = posted {
                    tracing::warn!(node = name, %error, request = error.request(), "node status not posted");
                }
            })
            .await;
    }
}

/// The Node object. Pod CIDRs repeat from node 256 on.
fn node(name: &str, index: usize) -> Value {
    json!({
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
        },
        "spec": { "podCIDR": format!("10.244.{}.0/24", index % 256), "podCIDRs": [format!("10.244.{}.0/24", index % 256)] }
    })
}

/// The body of the status patch, with `now` as the time of all conditions.
fn node_status(name: &str, index: usize, now: Timestamp) -> Value {
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": now, "lastTransitionTime": now
        })
    };
    let resources =
        json!({ "cpu": "64", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "10000" });
    json!({ "status": {
        "capacity": resources,
        "allocatable": resources,
        "addresses": [
            { "type": "InternalIP", "address": node_address(index) },
            { "type": "Hostname", "address": name }
        ],
        "conditions": [
            condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
            condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
            condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
            condition("Ready", "True", "KubeletReady", "kubelet is posting ready status")
        ],
        "nodeInfo": {
            "machineID": name, "systemUUID": name, "bootID": name, "architecture": "amd64", "operatingSystem": "linux",
            "osImage": "Simulated", "kernelVersion": "none", "containerRuntimeVersion": "simulated://1",
            "kubeletVersion": "v1.36.2", "kubeProxyVersion": ""
        }
    }})
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

/// Formats a `MicroTime`, which always has six decimals.
fn micro_time(time: Timestamp) -> String {
    format!("{time:.6}")
}
