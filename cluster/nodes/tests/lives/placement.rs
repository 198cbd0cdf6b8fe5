//! Pods that choose their nodes, and pods that fit none.

use super::*;

async fn three_nodes() -> DevCluster {
    DevCluster::builder().nodes(3).start().await.unwrap()
}

fn pinned(name: &str, node: &str) -> Value {
    let field = json!({"key": "metadata.name", "operator": "In", "values": [node]});
    let required = json!({"nodeSelectorTerms": [{"matchFields": [field]}]});
    let mut pod = pod("a");
    pod["metadata"]["name"] = json!(name);
    pod["spec"]["affinity"] =
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}});
    pod
}

#[tokio::test(start_paused = true)]
async fn pods_are_bound_to_the_node_that_they_name() {
    let cluster = three_nodes().await;
    for (name, node) in [("x", "node-2"), ("y", "node-2"), ("z", "node-0")] {
        cluster.create(pinned(name, node)).await.unwrap();
    }
    let is_running = |pods: &[Value]| {
        pods.len() == 3 && pods.iter().all(|pod| pod["status"]["phase"] == "Running")
    };
    let pods = cluster
        .wait_for("pods", Duration::from_secs(600), is_running)
        .await
        .unwrap();
    let nodes: Vec<&Value> = pods.iter().map(|pod| &pod["spec"]["nodeName"]).collect();
    assert_eq!(nodes, ["node-2", "node-2", "node-0"]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_fits_nowhere_waits_and_says_why() {
    let tail = "no new claims to deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.";
    // (event that ends the wait, spec, reasons)
    let cases = [
        (
            "label",
            json!({"nodeSelector": {"disk": "ssd"}}),
            "3 node(s) didn't match Pod's node affinity/selector",
        ),
        ("uncordon", json!({}), "3 node(s) were unschedulable"),
        ("untaint", json!({}), "3 node(s) had untolerated taint(s)"),
    ];
    for (event, spec, reasons) in cases {
        let cluster = three_nodes().await;
        let nodes = ["node-0", "node-1", "node-2"];
        let patch = async |node: &str, body: Value| {
            let path = format!("/api/v1/nodes/{node}");
            cluster.patch(&path, body).await.unwrap();
        };
        for node in nodes {
            match event {
                "uncordon" => patch(node, json!({"spec": {"unschedulable": true}})).await,
                "untaint" => {
                    let taint = json!({"key": "k", "effect": "NoSchedule"});
                    patch(node, json!({"spec": {"taints": [taint]}})).await;
                }
                _ => {}
            }
        }
        let mut pod = pod("a");
        for (field, value) in spec.as_object().unwrap() {
            pod["spec"][field] = value.clone();
        }
        cluster.create(pod).await.unwrap();
        let reported = |pod: &Value| !pod["status"]["conditions"].is_null();
        let waiting = wait(&cluster, reported).await;
        let scheduled = &waiting["status"]["conditions"][0];
        assert_eq!(
            (
                &scheduled["type"],
                &scheduled["status"],
                &scheduled["reason"]
            ),
            (
                &json!("PodScheduled"),
                &json!("False"),
                &json!("Unschedulable")
            )
        );
        assert_eq!(
            scheduled["message"],
            format!("0/3 nodes are available: {reasons}. {tail}")
        );
        assert_eq!(waiting["status"]["phase"], "Pending");
        match event {
            "label" => patch("node-1", json!({"metadata": {"labels": {"disk": "ssd"}}})).await,
            "uncordon" => patch("node-1", json!({"spec": {"unschedulable": null}})).await,
            _ => patch("node-1", json!({"spec": {"taints": null}})).await,
        }
        let running = wait(&cluster, |pod| pod["status"]["phase"] == "Running").await;
        assert_eq!(running["spec"]["nodeName"], "node-1");
        assert_eq!(
            condition(&running, "PodScheduled"),
            ("True".to_owned(), String::new())
        );
    }
}

#[tokio::test(start_paused = true)]
async fn room_goes_to_the_waiting_pod_of_the_highest_priority() {
    let cluster = DevCluster::builder().nodes(1).start().await.unwrap();
    let big = |name: &str, priority: i32| {
        let mut pod = pod("a");
        pod["metadata"]["name"] = json!(name);
        pod["spec"]["priority"] = json!(priority);
        pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "40"}});
        pod
    };
    cluster.create(big("first", 0)).await.unwrap();
    let limit = Duration::from_secs(600);
    let phase = |pods: &[Value], name: &str| {
        let pod = pods.iter().find(|pod| pod["metadata"]["name"] == name);
        pod.map(|pod| pod["status"]["phase"].clone())
            .unwrap_or_default()
    };
    cluster
        .wait_for("pods", limit, |pods| phase(pods, "first") == "Running")
        .await
        .unwrap();
    cluster.create(big("low", 1)).await.unwrap();
    cluster.create(big("high", 9)).await.unwrap();
    let full = "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: \
                0/1 nodes are available: 1 No preemption victims found for incoming pod.";
    let wait_for_room = |pods: &[Value]| {
        let waits = |pod: &&Value| pod["status"]["conditions"][0]["message"] == full;
        pods.iter().filter(waits).count() == 2
    };
    cluster
        .wait_for("pods", limit, wait_for_room)
        .await
        .unwrap();
    cluster
        .delete(&cluster.path("pods", "default", "first"))
        .await
        .unwrap();
    let pods = cluster
        .wait_for("pods", limit, |pods| phase(pods, "high") == "Running")
        .await
        .unwrap();
    assert_eq!(phase(&pods, "low"), "Pending");
}
