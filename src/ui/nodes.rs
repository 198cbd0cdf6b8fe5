//! Nodes by zone, with their pods.

use std::collections::HashMap;

use http::StatusCode;
use serde_json::{Value, json};
use steersman_values::resource::{NODES, PODS};
use steersman_why::{ClientReader, Doc};

use super::asked::{Refusal, list};

const ZONE: &str = "/metadata/labels/topology.kubernetes.io~1zone";
/// The annotation that selects the behaviour of a simulated node or pod.
const BEHAVIOUR: &str = "/metadata/annotations/simulate.steersman.dev~1behaviour";

/// All nodes that the caller may get.
pub(super) async fn view(reader: &ClientReader) -> Result<Value, Refusal> {
    let (nodes, pods) = futures::join!(list(reader, &NODES, "", ""), list(reader, &PODS, "", ""));
    let nodes = nodes.map_err(|why| (StatusCode::FORBIDDEN, format!("nodes: {why}")))?;
    let mut withheld = Vec::new();
    let pods = pods.unwrap_or_else(|why| {
        withheld.push(format!("pods: {why}"));
        Vec::new()
    });
    let mut by_node: HashMap<&str, Vec<Value>> = HashMap::new();
    for doc in &pods {
        by_node
            .entry(doc.text("/spec/nodeName"))
            .or_default()
            .push(pod(doc));
    }
    let unscheduled = by_node.remove("").unwrap_or_default();
    let mut shown: Vec<Value> = nodes
        .iter()
        .map(|doc| node(doc, by_node.remove(doc.name()).unwrap_or_default()))
        .collect();
    shown.sort_by_key(|node| {
        let text = |name: &str| node[name].as_str().unwrap_or_default().to_owned();
        (text("zone"), text("name").len(), text("name"))
    });
    Ok(json!({ "nodes": shown, "unscheduled": unscheduled, "withheld": withheld }))
}

fn node(doc: &Doc, pods: Vec<Value>) -> Value {
    let ready = doc.condition("Ready");
    let taints: Vec<String> = doc
        .items("/spec/taints")
        .iter()
        .filter_map(|taint| {
            let key = taint["key"].as_str()?;
            let effect = taint["effect"].as_str()?;
            Some(format!("{key}:{effect}"))
        })
        .collect();
    json!({
        "name": doc.name(), "zone": doc.text(ZONE),
        "ready": ready.as_ref().map_or("Unknown", |ready| ready.text("/status")),
        "since": ready.as_ref().and_then(|ready| ready.time("/lastTransitionTime")),
        "message": ready.as_ref().map(|ready| ready.text("/message")),
        "behaviour": doc.text(BEHAVIOUR), "taints": taints, "pods": pods,
    })
}

fn pod(doc: &Doc) -> Value {
    let ready = doc.condition("Ready");
    let is_ready = ready.is_some_and(|ready| ready.text("/status") == "True");
    let phase = doc.text("/status/phase");
    let state = match phase {
        _ if doc.deleted().is_some() => "ending",
        "Running" if is_ready => "ready",
        "Running" => "running",
        "Succeeded" => "done",
        "Failed" => "failed",
        _ => "pending",
    };
    json!({ "namespace": doc.namespace(), "name": doc.name(), "state": state })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_of_a_pod_is_one_word() {
        let of = |phase: &str, ready: &str, deleted: bool| {
            let mut doc = json!({
                "metadata": {"name": "a"},
                "status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]},
            });
            if deleted {
                doc["metadata"]["deletionTimestamp"] = "2026-11-28T12:00:00Z".into();
            }
            pod(&Doc::new(doc))["state"].clone()
        };
        let cases = [
            ("Running", "True", false, "ready"),
            ("Running", "False", false, "running"),
            ("Running", "True", true, "ending"),
            ("Pending", "False", false, "pending"),
            ("Succeeded", "False", false, "done"),
            ("Failed", "False", false, "failed"),
        ];
        for (phase, ready, deleted, expected) in cases {
            assert_eq!(of(phase, ready, deleted), expected);
        }
    }
}
