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
    cluster.create(big("first", 9)).await.unwrap();
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

#[tokio::test(start_paused = true)]
async fn a_pod_preempts_the_lowest_priority_and_gets_its_room() {
    let nodes = NodesConfig {
        count: 2,
        events: true,
        ..NodesConfig::default()
    };
    let cluster = DevCluster::builder().simulated_nodes(nodes);
    let cluster = cluster.start().await.unwrap();
    let big = |name: &str, node: &str, priority: i32| {
        let mut pod = pinned(name, node);
        pod["metadata"]["finalizers"] = json!(["example.com/watched"]);
        pod["spec"]["priority"] = json!(priority);
        pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "40"}});
        pod
    };
    for (name, node, priority) in [("middle", "node-0", 5), ("low", "node-1", 1)] {
        cluster.create(big(name, node, priority)).await.unwrap();
    }
    let limit = Duration::from_secs(600);
    let are_running = |pods: &[Value]| {
        pods.len() == 2 && pods.iter().all(|pod| pod["status"]["phase"] == "Running")
    };
    cluster.wait_for("pods", limit, are_running).await.unwrap();
    let mut high = big("high", "", 9);
    high["spec"]["affinity"] = Value::Null;
    cluster.create(high).await.unwrap();
    let find = |pods: &[Value], name: &str| {
        let found = pods.iter().find(|pod| pod["metadata"]["name"] == name);
        found.cloned().unwrap_or_default()
    };
    let is_nominated =
        |pods: &[Value]| find(pods, "high")["status"]["nominatedNodeName"] == "node-1";
    let pods = cluster.wait_for("pods", limit, is_nominated).await.unwrap();
    assert_eq!(
        find(&pods, "high")["status"]["conditions"][0]["message"],
        "0/2 nodes are available: 2 Insufficient cpu."
    );
    let is_running = |pods: &[Value]| find(pods, "high")["status"]["phase"] == "Running";
    let pods = cluster.wait_for("pods", limit, is_running).await.unwrap();
    assert_eq!(find(&pods, "high")["spec"]["nodeName"], "node-1");
    let low = find(&pods, "low");
    assert!(low["metadata"]["deletionTimestamp"].is_string());
    let conditions = low["status"]["conditions"].as_array().unwrap();
    let condition = conditions
        .iter()
        .find(|one| one["type"] == "DisruptionTarget");
    let condition = condition.unwrap();
    assert_eq!(
        (
            &condition["status"],
            &condition["reason"],
            &condition["message"]
        ),
        (
            &json!("True"),
            &json!("PreemptionByScheduler"),
            &json!("default-scheduler: preempting to accommodate a higher priority pod")
        )
    );
    assert!(find(&pods, "middle")["metadata"]["deletionTimestamp"].is_null());
    let is_told = |event: &Value| event["reason"] == "Preempted";
    let is_written = |events: &[Value]| events.iter().any(is_told);
    let events = cluster.wait_for("events", limit, is_written).await.unwrap();
    let event = events.iter().find(|event| is_told(event)).unwrap();
    let uid = find(&pods, "high")["metadata"]["uid"].clone();
    assert_eq!(
        event["message"],
        format!("Preempted by pod {} on node node-1", uid.as_str().unwrap())
    );
    assert_eq!(event["involvedObject"]["name"], "low");
    assert_eq!(event["action"], "Preempting");
    assert!(event["related"].is_null());
}
