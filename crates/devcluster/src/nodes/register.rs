//! Node objects and the Leases that show they are alive.

use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use steersman_runtime::client::{ApiClient, ApiError, PatchKind, Target};
use steersman_runtime::clock::Clock;
use steersman_runtime::informer::Store;
use steersman_runtime::object::{DecodeError, Meta, Node, Object};
use steersman_runtime::resource::{LEASES, NODES, ResourceType};
use steersman_runtime::tasks::CancellationToken;

/// Namespace of node Leases.
const LEASE_NAMESPACE: &str = "kube-node-lease";
/// A kubelet's default renewal period.
const RENEW_EVERY: Duration = Duration::from_secs(10);

/// What the simulated scheduler reads of a node.
#[derive(Debug)]
pub struct SimNode {
    node: Node,
    unschedulable: bool,
}

impl SimNode {
    /// Ready, not cordoned, not being deleted.
    pub(super) fn is_usable(&self) -> bool {
        self.node.ready && !self.unschedulable && !self.node.meta.is_terminating()
    }
}

impl Object for SimNode {
    const RESOURCE: &'static ResourceType = &NODES;

    fn decode(json: &[u8]) -> Result<Self, DecodeError> {
        #[derive(Deserialize)]
        struct Wire {
            #[serde(default)]
            spec: Spec,
        }
        #[derive(Deserialize, Default)]
        struct Spec {
            #[serde(default)]
            unschedulable: bool,
        }
        let wire: Wire = serde_json::from_slice(json).map_err(|source| DecodeError::Json { kind: "Node", source })?;
        Ok(Self { node: Node::decode(json)?, unschedulable: wire.spec.unschedulable })
    }

    fn meta(&self) -> &Meta {
        &self.node.meta
    }
}

fn node_target(name: Option<&str>) -> Target<'_> {
    Target { resource: &NODES, namespace: None, name, subresource: None }
}

fn lease_target(name: Option<&str>) -> Target<'_> {
    Target { resource: &LEASES, namespace: Some(LEASE_NAMESPACE), name, subresource: None }
}

/// Creates the Node with its status and Lease; one that exists already is taken over.
pub(super) async fn register(client: &ApiClient, name: &str, index: usize, clock: &Clock) -> Result<(), ApiError> {
    let existing_is_fine = |result: Result<_, ApiError>| match result {
        Err(error) if !error.is_already_exists() => Err(error),
        _ => Ok(()),
    };
    existing_is_fine(client.create(node_target(None), &node(name, index)).await)?;
    let status = Target { subresource: Some("status"), ..node_target(Some(name)) };
    client.patch(status, PatchKind::Strategic, &node_status(name, index, clock.now_seconds())).await?;
    existing_is_fine(client.create(lease_target(None), &lease(name, clock.now())).await)
}

/// Renews the Leases of all nodes whose name starts with `prefix` until `stop`.
pub(super) async fn renew_leases(
    client: ApiClient,
    clock: Clock,
    nodes: Store<SimNode>,
    prefix: String,
    stop: CancellationToken,
) {
    while stop.run_until_cancelled(tokio::time::sleep(RENEW_EVERY)).await.is_some() {
        for node in nodes.list() {
            let name = &*node.meta().name;
            if !name.starts_with(&prefix) {
                continue;
            }
            let renewal = json!({ "spec": { "renewTime": micro_time(clock.now()) } });
            if let Err(error) = client.patch(lease_target(Some(name)), PatchKind::Merge, &renewal).await {
                tracing::warn!(node = name, %error, request = error.request(), "node lease not renewed");
            }
        }
    }
}

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
                "simulate.steersman.dev/node": "true"
            }
        },
        "spec": { "podCIDR": format!("10.244.{}.0/24", index % 256), "podCIDRs": [format!("10.244.{}.0/24", index % 256)] }
    })
}

fn node_status(name: &str, index: usize, now: Timestamp) -> Value {
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": now, "lastTransitionTime": now
        })
    };
    let resources = json!({ "cpu": "64", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "10000" });
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

pub(super) fn node_address(index: usize) -> String {
    format!("10.0.{}.{}", index / 250, index % 250 + 1)
}

fn lease(name: &str, now: Timestamp) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": { "name": name, "namespace": LEASE_NAMESPACE },
        "spec": { "holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": micro_time(now) }
    })
}

/// A `MicroTime`: always six decimals.
fn micro_time(time: Timestamp) -> String {
    format!("{time:.6}")
}
