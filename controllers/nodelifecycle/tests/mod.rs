//! Tests of the node lifecycle controller: tables of decisions, virtual hours and a day of a large
//! cluster, and stories against the in-memory API server.

mod day;
mod health;
mod hours;
pub(crate) mod leases;
mod model;
mod monitor;
mod stories;
mod taints;
mod world;
mod zone_queue;

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_objects::{Node, Object};

use super::config::Config;

/// The flags in upstream's tests.
fn config() -> Config {
    Config {
        monitor_period: std::time::Duration::from_secs(5),
        monitor_grace: std::time::Duration::from_secs(50),
        startup_grace: std::time::Duration::from_secs(60),
        eviction_rate: 0.1,
        secondary_eviction_rate: 0.01,
        large_zone: 50,
        unhealthy_threshold: 0.55,
    }
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// A node without status in the zone `region:zone`; the empty text means a node outside all zones.
fn node(name: &str, zone: &str, created: &str) -> Value {
    let mut labels = json!({});
    if let Some((region, zone)) = zone.split_once(':') {
        labels = json!({
            "topology.kubernetes.io/region": region, "topology.kubernetes.io/zone": zone,
            "failure-domain.beta.kubernetes.io/region": region,
            "failure-domain.beta.kubernetes.io/zone": zone,
        });
    }
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": name, "uid": format!("uid-of-{name}"), "resourceVersion": "1",
            "creationTimestamp": created, "labels": labels,
        },
    })
}

/// A condition of a node with both times at `time`.
fn condition(kind: &str, status: &str, time: &str) -> Value {
    json!({
        "type": kind, "status": status, "lastHeartbeatTime": time, "lastTransitionTime": time,
    })
}

fn decode(node: &Value) -> Node {
    Node::decode(node.to_string().as_bytes()).unwrap()
}

/// A taint of the node.
fn taint(key: &str, effect: &str) -> Value {
    json!({"key": format!("node.kubernetes.io/{key}"), "effect": effect})
}
