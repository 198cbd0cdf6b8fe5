//! Every case of `testdata/syncs.json`, which upstream's own code computed: Service, pods and the
//! stored object, and the write of one sync.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use steersman_helpers::endpointslice::{PortOrder, TriggerTimes};
use steersman_objects::{Endpoints, Object, Pod, Service};

use crate::endpoint::subsets::{is_managed, subsets};
use crate::endpoint::write::{body, is_current};

#[derive(Deserialize)]
struct Case {
    name: String,
    service: Value,
    #[serde(default)]
    pods: Vec<Value>,
    existing: Option<Value>,
    verb: String,
    body: Option<Value>,
    /// In place of the subsets, in cases with many pods.
    counts: Option<Vec<String>>,
}

fn decode<T: Object>(json: &Value) -> T {
    T::decode(json.to_string().as_bytes()).unwrap()
}

/// Pod number `number` of a case with many pods.
fn numbered(number: usize, ready: bool, port: Option<u16>) -> Value {
    let status = if ready { "True" } else { "False" };
    let ports = port.map(|port| json!([{"name": "web", "containerPort": port, "protocol": "TCP"}]));
    let ip = format!("10.0.{}.{}", number / 200, number % 200 + 1);
    json!({
        "metadata": {
            "name": format!("pod-{number:04}"), "namespace": "ns", "uid": format!("uid-{number:04}"),
            "labels": {"app": "a"},
        },
        "spec": {"containers": [{"name": "c", "ports": ports}], "nodeName": "node-1"},
        "status": {
            "phase": "Running", "conditions": [{"type": "Ready", "status": status}],
            "podIP": ip, "podIPs": [{"ip": ip}],
        },
    })
}

fn pods(case: &Case) -> Vec<Value> {
    let all = |ready: usize, not_ready: usize| -> Vec<Value> {
        let total = ready + not_ready;
        (0..total).map(|n| numbered(n, n < ready, None)).collect()
    };
    match &*case.name {
        "capacity-1000" => all(1000, 0),
        "capacity-ready-1001" => all(1001, 0),
        "capacity-900-ready-200-not" => all(900, 200),
        "capacity-1100-ready-50-not" => all(1100, 50),
        "capacity-two-subsets" => (0..1201)
            .map(|n| numbered(n, true, Some(if n < 700 { 8080 } else { 9090 })))
            .collect(),
        _ => case.pods.clone(),
    }
}

/// A subset in the form of `counts`.
fn count(subset: &Value) -> String {
    let list = |field: &str| subset[field].as_array().cloned().unwrap_or_default();
    let ready = list("addresses");
    let not_ready = list("notReadyAddresses");
    let ip = |address: Option<&Value>| address.unwrap()["ip"].as_str().unwrap().to_owned();
    format!(
        "port {}: {} ready (first {}, last {}), {} not ready",
        subset["ports"][0]["port"],
        ready.len(),
        ip(ready.first()),
        ip(ready.last()),
        not_ready.len(),
    )
}

#[test]
fn every_case_that_upstream_computed() {
    #[derive(Deserialize)]
    struct Data {
        controller: Vec<Case>,
    }
    let data = include_str!("../testdata/syncs.json");
    let Data { controller } = serde_json::from_str(data).unwrap();
    assert_eq!(controller.len(), 24);
    for case in controller {
        let name = &case.name;
        let service: Service = decode(&case.service);
        let mut pods: Vec<Arc<Pod>> = pods(&case)
            .iter()
            .map(|pod| Arc::new(decode(pod)))
            .collect();
        pods.retain(|pod| pod.meta.labels.contains_all(&service.spec.selector));
        let stored: Option<Endpoints> = case.existing.as_ref().map(decode);
        let trigger = TriggerTimes::default().observe(&service.key(), &service, &pods);
        let subsets = subsets(&service, &pods, PortOrder::default());
        let needs_write = is_managed(&service)
            && !stored
                .as_ref()
                .is_some_and(|stored| is_current(stored, &service, &subsets, PortOrder::default()));
        let verb = match (needs_write, &stored) {
            (false, _) => "none",
            (true, None) => "create",
            (true, Some(_)) => "update",
        };
        assert_eq!(verb, case.verb, "{name}");
        let Some(mut expected) = case.body else {
            assert!(!needs_write, "{name}");
            continue;
        };
        let body = body(stored.as_ref(), &service, subsets, trigger);
        let mut found = serde_json::to_value(&body).unwrap();
        if let Some(counts) = &case.counts {
            let subsets = found.as_object_mut().unwrap().remove("subsets").unwrap();
            let subsets: Vec<String> = subsets.as_array().unwrap().iter().map(count).collect();
            assert_eq!(&subsets, counts, "{name}");
        }
        expected["kind"] = json!("Endpoints");
        expected["apiVersion"] = json!("v1");
        assert_eq!(found, expected, "{name}");
    }
}
