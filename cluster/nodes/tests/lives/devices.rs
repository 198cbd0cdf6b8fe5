//! Pods with ResourceClaims, and the simulated allocation of their devices.

use super::*;

const FINALIZER: &str = "resource.kubernetes.io/delete-protection";

/// A cluster of two nodes; `node-1` has two healthy devices and a tainted one.
async fn with_devices() -> DevCluster {
    let cluster = DevCluster::builder().nodes(2).start().await.unwrap();
    let taint = json!([{"key": "k", "effect": "NoSchedule"}]);
    let devices = json!([{"name": "a", "taints": taint}, {"name": "b"}, {"name": "c"}]);
    let pool = |generation: i64| json!({"name": "node-1", "generation": generation, "resourceSliceCount": 1});
    let class = |name: &str, expression: &str| {
        json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name},
            "spec": {"selectors": [{"cel": {"expression": expression}}]},
        })
    };
    let slice = |name: &str, generation: i64, devices: &Value| {
        json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name},
            "spec": {
                "driver": "gpu.example.com", "nodeName": "node-1", "pool": pool(generation),
                "devices": devices,
            },
        })
    };
    for object in [
        class("gpu", "device.driver == \"gpu.example.com\""),
        class("other", "device.driver == \"other.example.com\""),
        class(
            "model",
            "device.attributes[\"gpu.example.com\"].model == \"x\"",
        ),
        slice("old", 1, &json!([{"name": "old"}])),
        slice("new", 2, &devices),
    ] {
        cluster.create(object).await.unwrap();
    }
    cluster
}

/// Creates a claim for one device of `class`, and a pod that uses it.
async fn use_device(cluster: &DevCluster, name: &str, class: &str) {
    let claim = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": class}}]}},
    });
    cluster.create(claim).await.unwrap();
    let mut user = pod("user");
    user["metadata"]["name"] = json!(name);
    user["spec"]["resourceClaims"] = json!([{"name": "gpu", "resourceClaimName": name}]);
    cluster.create(user).await.unwrap();
}

/// Waits until this number of pods runs, and no pod is without a node and a message.
async fn settled(cluster: &DevCluster, running: usize) -> Vec<Value> {
    let is_settled = |pods: &[Value]| {
        let count = pods
            .iter()
            .filter(|pod| pod["status"]["phase"] == "Running")
            .count();
        let is_judged = |pod: &Value| pod["status"]["conditions"].is_array();
        count == running && pods.iter().all(is_judged)
    };
    let limit = Duration::from_secs(600);
    cluster.wait_for("pods", limit, is_settled).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn pods_start_on_the_node_of_their_devices() {
    let cluster = with_devices().await;
    for name in ["x", "y", "z"] {
        use_device(&cluster, name, "gpu").await;
    }
    let pods = settled(&cluster, 2).await;
    let nodes = pods
        .iter()
        .filter_map(|pod| pod["spec"]["nodeName"].as_str());
    assert_eq!(nodes.collect::<Vec<_>>(), ["node-1", "node-1"]);
    let waiting = pods
        .iter()
        .find(|pod| pod["status"]["phase"] != "Running")
        .unwrap();
    let message = &waiting["status"]["conditions"][0]["message"];
    let expected = "0/2 nodes are available: 2 cannot allocate all claims. still not \
                    schedulable, preemption: 0/2 nodes are available: 2 Preemption is not helpful \
                    for scheduling.";
    assert_eq!(message, expected);
    let claims = cluster.objects("resourceclaims");
    let allocated = claims
        .iter()
        .filter(|claim| claim["status"]["allocation"].is_object());
    let mut devices = Vec::new();
    for claim in allocated {
        let name = &claim["metadata"]["name"];
        assert_eq!(claim["metadata"]["finalizers"], json!([FINALIZER]));
        assert_eq!(claim["status"]["reservedFor"][0]["name"], *name);
        let result = &claim["status"]["allocation"]["devices"]["results"][0];
        assert_eq!(
            (&result["request"], &result["pool"]),
            (&json!("r"), &json!("node-1"))
        );
        devices.push(result["device"].as_str().unwrap());
    }
    devices.sort_unstable();
    assert_eq!(
        devices,
        ["b", "c"],
        "the healthy devices of the newest generation"
    );

    // The ResourceClaim controller frees the claim of a pod that is gone.
    let used = claims
        .iter()
        .find(|claim| claim["status"]["allocation"].is_object())
        .unwrap();
    let name = used["metadata"]["name"].as_str().unwrap();
    let now = json!({"gracePeriodSeconds": 0});
    let pod = cluster.path("pods", "default", name);
    cluster.delete_with(&pod, now).await.unwrap();
    let freed = json!({"status": {"reservedFor": null, "allocation": null}});
    let claim = cluster.path("resourceclaims", "default", name);
    cluster
        .patch(&format!("{claim}/status"), freed)
        .await
        .unwrap();
    assert_eq!(settled(&cluster, 2).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn pods_without_a_possible_device_say_why() {
    // (class, message)
    let cases = [
        (
            "other",
            "0/2 nodes are available: 2 cannot allocate all claims.",
        ),
        (
            "model",
            "0/2 nodes are available: resourceclaim \"x\" needs a real scheduler.",
        ),
        (
            "absent",
            "0/2 nodes are available: request r: device class absent does not exist.",
        ),
    ];
    for (class, expected) in cases {
        let cluster = with_devices().await;
        use_device(&cluster, "x", class).await;
        let pods = settled(&cluster, 0).await;
        let message = pods[0]["status"]["conditions"][0]["message"]
            .as_str()
            .unwrap();
        assert!(message.starts_with(expected), "{class}: {message}");
    }
}
