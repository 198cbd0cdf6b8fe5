//! Devices of pods in whole managers: evictions, their feature gate, and servers without claims for
//! devices.

use serde_json::json;
use steersman::health::Probe;
use steersman_devcluster::DevCluster;
use steersman_devcluster::faults::Matcher;
use steersman_devcluster::status::Status;

use crate::election::{cluster, start};
use crate::support::LIMIT;
use crate::support::cluster::{deployment, wait_for_count};

/// A pod on a device with a taint that its claim does not tolerate.
fn load_pod_on_tainted_device(cluster: &DevCluster) {
    let taint = json!({"key": "k", "effect": "NoExecute", "timeAdded": "2025-01-01T00:00:00Z"});
    let device = json!({"request": "r", "driver": "d", "pool": "p", "device": "x"});
    let consumer = json!({"resource": "pods", "name": "user", "uid": "u"});
    for object in [
        json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"},
            "spec": {
                "driver": "d", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
                "allNodes": true, "devices": [{"name": "x", "taints": [taint]}],
            },
        }),
        json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": {"name": "c", "namespace": "default"},
            "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "d"}}]}},
            "status": {"allocation": {"devices": {"results": [device]}}, "reservedFor": [consumer]},
        }),
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "user", "namespace": "default", "uid": "u"},
            "spec": {
                "nodeName": "n", "containers": [{"name": "main", "image": "i"}],
                "resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}],
            },
            "status": {"phase": "Running"},
        }),
    ] {
        cluster.load(object).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn pods_leave_tainted_devices_unless_the_feature_gate_is_off() {
    for (gates, evicted) in [("", true), ("DRADeviceTaints=false", false)] {
        let cluster = cluster();
        load_pod_on_tainted_device(&cluster);
        let manager = start(&cluster, &[("feature-gates", gates)]);
        tokio::time::sleep(LIMIT * 3).await;
        let events = cluster.objects("events");
        let marked = events
            .iter()
            .any(|event| event["reason"] == "DeviceTaintManagerEviction");
        assert_eq!(marked, evicted, "{gates}");
        let report = manager.health.report(Probe::Readyz, "verbose");
        assert!(report.healthy, "{gates}: {}", report.body);
        let runs = report
            .body
            .contains("[+]device-taint-eviction-controller ok");
        assert_eq!(runs, evicted, "{gates}: {}", report.body);
        manager.stop().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_without_claims_for_devices_blocks_no_manager() {
    let cluster = cluster();
    for plural in ["resourceclaims", "resourceslices", "deviceclasses"] {
        let requests = Matcher {
            resource: Some(plural.to_owned()),
            ..Matcher::default()
        };
        let page = Status::new(404, "NotFound", "404 page not found");
        cluster.faults().reject(requests, page, None);
    }
    let manager = start(&cluster, &[]);
    cluster.create(deployment("web", 2)).await.unwrap();
    wait_for_count(&cluster, "pods", 2).await;
    tokio::time::sleep(LIMIT).await;
    let report = manager.health.report(Probe::Readyz, "verbose");
    assert!(report.healthy, "{}", report.body);
    manager.stop().await.unwrap();
}
