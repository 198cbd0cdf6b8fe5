//! Claims, the volumes that they get, and the pods that wait for them.

use steersman_devcluster::nodes::Pods;

use super::*;

const LIMIT: Duration = Duration::from_secs(600);

fn claim(name: &str, class: Option<&str>) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": class}
    })
}

fn class(name: &str, policy: &str, mode: &str) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
        "provisioner": "example.com/disk", "reclaimPolicy": policy, "volumeBindingMode": mode
    })
}

fn user(claim: &str) -> Value {
    let mut pod = pod("a");
    pod["spec"]["volumes"] = json!([{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]);
    pod
}

async fn bound(cluster: &DevCluster) -> Value {
    let is_bound = |claims: &[Value]| claims[0]["status"]["phase"] == "Bound";
    let claims = cluster
        .wait_for("persistentvolumeclaims", LIMIT, is_bound)
        .await
        .unwrap();
    claims[0].clone()
}

#[tokio::test(start_paused = true)]
async fn a_claim_gets_a_volume_of_the_default_class_until_it_is_deleted() {
    let cluster = cluster("stages: []").await;
    cluster.create(claim("data", None)).await.unwrap();
    let claim = bound(&cluster).await;
    let name = format!("pvc-{}", claim["metadata"]["uid"].as_str().unwrap());
    assert_eq!(
        (
            &claim["spec"]["storageClassName"],
            &claim["spec"]["volumeName"]
        ),
        (&json!("standard"), &json!(name))
    );
    assert_eq!(
        claim["status"],
        json!({"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}})
    );
    let volume = cluster.objects("persistentvolumes")[0].clone();
    assert_eq!(
        (
            &volume["metadata"]["name"],
            &volume["status"]["phase"],
            &volume["spec"]["claimRef"]["uid"]
        ),
        (&json!(name), &json!("Bound"), &claim["metadata"]["uid"])
    );
    let path = cluster.path("persistentvolumeclaims", "default", "data");
    cluster.delete(&path).await.unwrap();
    cluster
        .wait_for("persistentvolumes", LIMIT, |volumes| volumes.is_empty())
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_larger_request_is_granted() {
    let cluster = cluster("stages: []").await;
    cluster.create(claim("data", None)).await.unwrap();
    bound(&cluster).await;
    let path = cluster.path("persistentvolumeclaims", "default", "data");
    let request = json!({"spec": {"resources": {"requests": {"storage": "5Gi"}}}});
    cluster.patch(&path, request).await.unwrap();
    let is_granted = |claims: &[Value]| claims[0]["status"]["capacity"]["storage"] == "5Gi";
    cluster
        .wait_for("persistentvolumeclaims", LIMIT, is_granted)
        .await
        .unwrap();
    assert_eq!(
        cluster.objects("persistentvolumes")[0]["spec"]["capacity"]["storage"],
        "5Gi"
    );
}

#[tokio::test(start_paused = true)]
async fn the_reclaim_policy_retain_keeps_the_volume() {
    let cluster = cluster("stages: []").await;
    cluster
        .create(class("keep", "Retain", "Immediate"))
        .await
        .unwrap();
    cluster.create(claim("data", Some("keep"))).await.unwrap();
    bound(&cluster).await;
    let path = cluster.path("persistentvolumeclaims", "default", "data");
    cluster.delete(&path).await.unwrap();
    let is_released = |volumes: &[Value]| volumes[0]["status"]["phase"] == "Released";
    cluster
        .wait_for("persistentvolumes", LIMIT, is_released)
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_for_its_claims() {
    let cluster = cluster("stages: []").await;
    cluster.create(user("data")).await.unwrap();
    let message = |pod: &Value| pod["status"]["conditions"][0]["message"].clone();
    let pod = wait(&cluster, |pod| message(pod).is_string()).await;
    assert_eq!(
        message(&pod),
        "0/1 nodes are available: persistentvolumeclaim \"data\" not found. not found"
    );
    // The class comes last.
    cluster.create(claim("data", Some("late"))).await.unwrap();
    let unbound =
        "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found";
    wait(&cluster, |pod| message(pod) == unbound).await;
    cluster
        .create(class("late", "Delete", "Immediate"))
        .await
        .unwrap();
    wait(&cluster, |pod| pod["status"]["phase"] == "Running").await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_of_a_waiting_class_is_bound_for_its_first_pod() {
    let cluster = cluster("stages: []").await;
    cluster
        .create(class("wait", "Delete", "WaitForFirstConsumer"))
        .await
        .unwrap();
    cluster.create(claim("data", Some("wait"))).await.unwrap();
    sleep_until(Instant::now() + Duration::from_secs(60)).await;
    assert_eq!(
        cluster.objects("persistentvolumeclaims")[0]["status"]["phase"],
        "Pending"
    );
    cluster.create(user("data")).await.unwrap();
    wait(&cluster, |pod| pod["status"]["phase"] == "Running").await;
    let claim = bound(&cluster).await;
    assert_eq!(
        claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"],
        "node-0"
    );
}

#[tokio::test(start_paused = true)]
async fn other_kubelets_report_the_volumes_of_their_nodes() {
    let cluster = DevCluster::builder()
        .simulated_nodes(NodesConfig {
            count: 1,
            attaches_volumes: true,
            pods: Pods::OfOwnNodes,
            ..NodesConfig::default()
        })
        .start()
        .await
        .unwrap();
    let used = json!(["kubernetes.io/csi/example.com^v"]);
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "real"}, "status": {"volumesInUse": used}});
    cluster.create(node).await.unwrap();
    // The pod on `real` has changed before the one on the simulated node, which runs in the end.
    for (name, node) in [("on-real", "real"), ("p", "node-0")] {
        let mut pod = pod("a");
        pod["metadata"]["name"] = name.into();
        pod["spec"]["nodeName"] = node.into();
        cluster.create(pod).await.unwrap();
    }
    let runs = |pods: &[Value]| pods.iter().any(|pod| pod["status"]["phase"] == "Running");
    cluster.wait_for("pods", LIMIT, runs).await.unwrap();
    let nodes = cluster.objects("nodes");
    let real = nodes.iter().find(|node| node["metadata"]["name"] == "real");
    assert_eq!(real.unwrap()["status"]["volumesInUse"], used);
}
