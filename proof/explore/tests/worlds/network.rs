//! A Service whose two pods become ready and go.

use serde_json::{Value, json};
use steersman_controllers::endpointslice;
use steersman_explore::World;
use steersman_perturb::{Scenario, Step, rules};

use crate::{BLANK, blank, node};

/// A pod that waits for its kubelet. The prefix makes its name one of a ReplicaSet's.
fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "generateName": "web-", "uid": format!("uid-of-{name}"), "labels": {"app": "web"}},
        "spec": {"nodeName": "node-a", "containers": [{"name": "main", "image": "web:1"}]},
        "status": {"phase": "Pending"},
    })
}

pub(super) fn endpoint_slice() -> World {
    let scenario = Scenario {
        controller: "endpointslice",
        name: "pods",
        controllers: &[endpointslice::DESCRIPTOR],
        before: || vec![node("node-a"), pod("web-one"), pod("web-two")],
        steps: || {
            let service = json!({
                "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
                "spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]},
            });
            let path = "/api/v1/namespaces/default/pods/web-one".to_owned();
            vec![
                Step::Create(service),
                Step::Delete(path, json!({"gracePeriodSeconds": 0})),
            ]
        },
        rules: &[rules::NO_MISSING_ENDPOINT],
        final_rules: &[rules::EXACT_ENDPOINTS],
        ..BLANK
    };
    World {
        lags: &["services", "pods", "endpointslices"],
        ..blank(scenario)
    }
}
