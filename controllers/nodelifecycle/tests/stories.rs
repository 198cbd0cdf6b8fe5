//! Stories against the in-memory API server.

use std::time::Duration;

use serde_json::json;
use steersman_devcluster::faults::{Matcher, RequestFault, conflict, internal_error};
use steersman_runtime::controller::ControllerContext;

use super::super::DESCRIPTOR;
use super::condition;
use super::world::Kubelets;
use crate::tainteviction;

/// Writes of statuses of nodes by the controller.
fn status_writes() -> Matcher {
    Matcher::new("patch", "nodes")
        .subresource("status")
        .client("node-controller")
}

/// The reference's example A: the kubelet of one of three nodes dies.
#[tokio::test(start_paused = true)]
async fn a_dead_kubelet_leads_to_unknown_conditions_and_taints() {
    let kubelets = Kubelets::with(&["", "", ""]).await;
    kubelets.pod("p", "n1").await;
    kubelets.pass(60).await;
    assert_eq!(kubelets.requests(), [""; 0], "all is well");

    kubelets.kill("n1");
    kubelets.pass(49).await;
    assert_eq!(kubelets.requests(), [""; 0], "within the grace period");
    kubelets
        .until("n1 is tainted", |k| k.taints("n1").len() == 2)
        .await;
    kubelets.pass(10).await;
    assert_eq!(
        kubelets.taints("n1"),
        ["unreachable:NoExecute", "unreachable:NoSchedule"]
    );
    let mut requests = kubelets.requests();
    assert_eq!(requests[0], "patch nodes/n1/status 200");
    requests.sort();
    assert_eq!(
        requests,
        [
            "get nodes/n1?resourceVersion=0 200",
            "get nodes/n1?resourceVersion=0 200",
            "patch nodes/n1 200",
            "patch nodes/n1 200",
            "patch nodes/n1/status 200",
            "patch pods/p/status 200",
        ]
    );
    assert_eq!(kubelets.ready("nodes", "n1"), "Unknown");
    assert_eq!(kubelets.ready("pods", "p"), "False");
    assert_eq!(
        kubelets.events("NodeNotReady"),
        [
            "Normal Node n1: Node n1 status is now: NodeNotReady",
            "Warning Pod p: Node is not ready"
        ]
    );

    kubelets.renew("n1");
    kubelets.pass(120).await;
    assert_eq!(
        kubelets.requests().len(),
        6,
        "a Lease alone changes nothing"
    );
    kubelets.post("n1", "True").await;
    kubelets
        .until("n1 has no taint", |k| k.taints("n1").is_empty())
        .await;
    kubelets.pass(60).await;
    assert_eq!(kubelets.taints("n0"), [""; 0]);
}

/// Example B: the kubelet reports `False`, and dies later.
#[tokio::test(start_paused = true)]
async fn a_kubelet_that_reports_not_ready_leads_to_taints_only() {
    let kubelets = Kubelets::with(&["", "", ""]).await;
    kubelets.pod("p", "n1").await;
    kubelets.post("n1", "False").await;
    let taints = ["not-ready:NoExecute", "not-ready:NoSchedule"];
    kubelets
        .until("n1 is tainted", |k| k.taints("n1") == taints)
        .await;
    kubelets.pass(60).await;
    assert_eq!(
        kubelets.ready("pods", "p"),
        "True",
        "the kubelet marks its pods"
    );
    assert_eq!(kubelets.events("NodeNotReady"), [""; 0]);

    kubelets.kill("n1");
    let taints = ["unreachable:NoExecute", "unreachable:NoSchedule"];
    kubelets
        .until("the taints are swapped", |k| k.taints("n1") == taints)
        .await;
    kubelets.pass(60).await;
    assert_eq!(kubelets.ready("nodes", "n1"), "Unknown");
    assert_eq!(kubelets.ready("pods", "p"), "False");
    let events = kubelets.events("NodeNotReady");
    assert_eq!(events, ["Warning Pod p: Node is not ready"]);
}

/// Example C: all nodes of a cluster fail.
#[tokio::test(start_paused = true)]
async fn a_cluster_without_ready_nodes_evicts_no_pod() {
    let kubelets = Kubelets::with(&[""]).await;
    kubelets.pod("p", "n0").await;
    kubelets.kill("n0");
    kubelets
        .until("n0 is unknown", |k| k.ready("nodes", "n0") == "Unknown")
        .await;
    kubelets.pass(600).await;
    assert_eq!(kubelets.taints("n0"), ["unreachable:NoSchedule"]);
    assert_eq!(kubelets.ready("pods", "p"), "False");
}

/// Example F: the kubelet of a node never started.
#[tokio::test(start_paused = true)]
async fn a_node_without_status_becomes_unknown_after_the_startup_grace_period() {
    let kubelets = Kubelets::with(&["", ""]).await;
    let node = |name: &str| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
    kubelets.world.create(node("silent")).await;
    kubelets.pass(59).await;
    assert_eq!(kubelets.ready("nodes", "silent"), "");
    assert_eq!(
        kubelets.taints("silent"),
        [""; 0],
        "the taint of the admission is removed"
    );
    let taints = ["unreachable:NoExecute", "unreachable:NoSchedule"];
    kubelets
        .until("it is tainted", |k| k.taints("silent") == taints)
        .await;
    let conditions = kubelets.object("nodes", "silent")["status"]["conditions"].clone();
    assert_eq!(conditions.as_array().unwrap().len(), 4);
    assert_eq!(conditions[0]["reason"], "NodeStatusNeverUpdated");
    assert_eq!(kubelets.events("NodeNotReady"), [""; 0]);
}

/// Example G: the kubelet posts its status just before the write of the controller.
#[tokio::test(start_paused = true)]
async fn a_conflict_with_the_kubelet_leaves_the_node_ready() {
    let kubelets = Kubelets::with(&["", ""]).await;
    kubelets.pass(30).await;
    kubelets.kill("n1");
    kubelets.world.cluster.faults().stall_watches("nodes");
    kubelets.pass(30).await;
    kubelets.post("n1", "True").await;
    kubelets
        .until("the write conflicts", |k| !k.requests().is_empty())
        .await;
    kubelets.world.cluster.faults().resume_watches("nodes");
    kubelets.pass(10).await;
    assert_eq!(
        kubelets.requests(),
        ["patch nodes/n1/status 409", "get nodes/n1 200"]
    );
    assert_eq!(kubelets.ready("nodes", "n1"), "True");
}

#[tokio::test(start_paused = true)]
async fn a_status_write_is_tried_again_and_pods_are_marked_even_if_its_answer_is_lost() {
    let faults = [
        RequestFault::Reject(conflict()),
        RequestFault::Reject(internal_error()),
        RequestFault::LoseAnswer,
    ];
    for fault in faults {
        let kubelets = Kubelets::with(&["", ""]).await;
        kubelets.pod("p", "n1").await;
        kubelets.pass(30).await;
        kubelets
            .world
            .cluster
            .faults()
            .on_request(status_writes(), fault.clone(), Some(1));
        kubelets.kill("n1");
        kubelets
            .until("the pod is marked", |k| k.ready("pods", "p") == "False")
            .await;
        assert_eq!(kubelets.ready("nodes", "n1"), "Unknown", "{fault:?}");
        kubelets.pass(10).await;
        assert_eq!(kubelets.events("NodeNotReady").len(), 2, "{fault:?}");
    }
}

/// The Leases of all lost nodes are renewed while the first writes of the pass take their time.
#[tokio::test(start_paused = true)]
async fn a_node_that_recovers_during_the_pass_keeps_its_status() {
    let kubelets = Kubelets::with(&[""; 24]).await;
    kubelets.pass(30).await;
    let faults = kubelets.world.cluster.faults();
    let slow = faults.delay(status_writes(), Duration::from_secs(15), Some(8));
    let lost: Vec<String> = (0..12).map(|index| format!("n{index}")).collect();
    lost.iter().for_each(|node| kubelets.kill(node));
    kubelets.world.cluster.faults().met(slow).await;
    lost.iter().for_each(|node| kubelets.renew(node));
    kubelets.pass(60).await;
    let unknown = lost
        .iter()
        .filter(|node| kubelets.ready("nodes", node) == "Unknown");
    assert_eq!(unknown.count(), 8, "the writes that had begun");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_renewed_before_a_retry_counts() {
    let kubelets = Kubelets::with(&["", ""]).await;
    kubelets.pass(30).await;
    let faults = kubelets.world.cluster.faults();
    faults.reject(status_writes(), internal_error(), Some(1));
    let reads = Matcher::new("get", "nodes").client("node-controller");
    let slow = faults.delay(reads, Duration::from_secs(15), Some(1));
    kubelets.kill("n1");
    kubelets.world.cluster.faults().met(slow).await;
    kubelets.renew("n1");
    kubelets.pass(60).await;
    assert_eq!(
        kubelets.requests(),
        ["patch nodes/n1/status 500", "get nodes/n1 200"]
    );
    assert_eq!(kubelets.ready("nodes", "n1"), "True");
}

/// The watch cache of the API server does not show the new status yet.
#[tokio::test(start_paused = true)]
async fn an_old_answer_of_the_api_server_does_not_delay_a_swap() {
    let kubelets = Kubelets::with(&["", "", ""]).await;
    kubelets.post("n1", "False").await;
    let taints = ["not-ready:NoExecute", "not-ready:NoSchedule"];
    kubelets
        .until("n1 is tainted", |k| k.taints("n1") == taints)
        .await;
    kubelets.pass(10).await;
    let reads = Matcher::new("get", "nodes").client("node-controller");
    let cluster = &kubelets.world.cluster;
    cluster.faults().hold_view(reads, cluster.revision());
    kubelets.kill("n1");
    kubelets
        .until("n1 is unknown", |k| k.ready("nodes", "n1") == "Unknown")
        .await;
    kubelets.pass(1).await;
    let taints = ["unreachable:NoExecute", "unreachable:NoSchedule"];
    assert_eq!(kubelets.taints("n1"), taints);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_recovers_while_its_pods_are_marked_keeps_the_others() {
    let kubelets = Kubelets::with(&["", ""]).await;
    for name in ["p", "q"] {
        kubelets.pod(name, "n1").await;
    }
    kubelets.pass(30).await;
    let marks = Matcher::new("patch", "pods")
        .subresource("status")
        .client("node-controller");
    let faults = kubelets.world.cluster.faults();
    let slow = faults.delay(marks, Duration::from_secs(10), Some(1));
    kubelets.kill("n1");
    kubelets.world.cluster.faults().met(slow).await;
    kubelets.revive("n1", "True").await;
    kubelets.pass(60).await;
    let marked = ["p", "q"].map(|pod| kubelets.ready("pods", pod) == "False");
    assert_ne!(marked[0], marked[1], "only the first one is marked");
}

/// The node is recreated between the decision and the live read.
#[tokio::test(start_paused = true)]
async fn a_recreated_node_gets_no_taint_of_its_predecessor() {
    let kubelets = Kubelets::with(&["", ""]).await;
    kubelets.pass(10).await;
    let reads = Matcher::new("get", "nodes").client("node-controller");
    let faults = kubelets.world.cluster.faults();
    let slow = faults.delay(reads, Duration::from_secs(10), Some(1));
    let cordon = json!({"spec": {"unschedulable": true}});
    kubelets.world.patch("nodes", "n1", cordon).await;
    kubelets.world.cluster.faults().met(slow).await;
    kubelets.world.delete("nodes", "n1").await;
    kubelets
        .world
        .cluster
        .load(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "uid": "new"}}))
        .unwrap();
    kubelets.pass(30).await;
    assert_eq!(
        kubelets.requests(),
        ["get nodes/n1?resourceVersion=0 200"],
        "no write"
    );
}

/// The node waits for its taint, and somebody else gives it the opposite one.
#[tokio::test(start_paused = true)]
async fn a_taint_whose_opposite_could_not_be_removed_counts() {
    let mut kubelets = Kubelets::without_controllers(&["z"; 5]).await;
    let seldom = |context: ControllerContext| context.with_flag("node-monitor-period", "100s");
    kubelets.world.restart_with(&[DESCRIPTOR], seldom).await;
    kubelets.pass(30).await;
    for node in ["n0", "n1"] {
        kubelets.kill(node);
    }
    let is_tainted = |k: &Kubelets, node: &str| {
        let taints = k.taints(node);
        taints.contains(&"unreachable:NoExecute".to_owned())
    };
    kubelets
        .until("one is tainted", |k| {
            is_tainted(k, "n0") || is_tainted(k, "n1")
        })
        .await;
    let other = if is_tainted(&kubelets, "n0") {
        "n1"
    } else {
        "n0"
    };
    kubelets
        .until("the other one waits", |k| {
            k.taints(other) == ["unreachable:NoSchedule"]
        })
        .await;
    let opposite = json!([
        {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"},
        {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"},
    ]);
    let change = json!({"spec": {"taints": opposite}});
    kubelets.world.patch("nodes", other, change).await;
    let removal = Matcher::new("patch", "nodes")
        .client("node-controller")
        .nth(2);
    let faults = kubelets.world.cluster.faults();
    faults.reject(removal, internal_error(), Some(1));
    kubelets.pass(60).await;
    let taints = ["unreachable:NoExecute", "unreachable:NoSchedule"];
    assert_eq!(kubelets.taints(other), taints);
    let families = kubelets.world.registry.gather();
    let evictions = families
        .iter()
        .find(|family| family.name() == "node_collector_evictions_total")
        .unwrap();
    assert_eq!(evictions.get_metric()[0].get_counter().get_value(), 2.0);
}

#[tokio::test(start_paused = true)]
async fn the_duration_of_a_node_includes_its_requests() {
    let kubelets = Kubelets::with(&["", ""]).await;
    kubelets.pod("p", "n1").await;
    kubelets.pass(30).await;
    let seconds = |k: &Kubelets| {
        let families = k.world.registry.gather();
        let name = "node_collector_update_node_health_duration_seconds";
        let family = families.iter().find(|family| family.name() == name);
        family.unwrap().get_metric()[0]
            .get_histogram()
            .get_sample_sum()
    };
    let before = seconds(&kubelets);
    let marks = Matcher::new("patch", "pods").subresource("status");
    let faults = kubelets.world.cluster.faults();
    faults.delay(marks, Duration::from_secs(10), Some(1));
    faults.delay(status_writes(), Duration::from_secs(5), Some(1));
    kubelets.kill("n1");
    kubelets
        .until("the pod is marked", |k| k.ready("pods", "p") == "False")
        .await;
    kubelets.pass(10).await;
    let spent = seconds(&kubelets) - before;
    assert!((15.0..16.0).contains(&spent), "{spent}");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_cannot_be_written_is_skipped_until_the_next_pass() {
    let kubelets = Kubelets::with(&["", ""]).await;
    kubelets.pass(30).await;
    let fault = kubelets
        .world
        .cluster
        .faults()
        .reject(status_writes(), internal_error(), None);
    kubelets.kill("n1");
    kubelets.world.cluster.faults().met(fault).await;
    kubelets.pass(3).await;
    let tries = kubelets
        .requests()
        .iter()
        .filter(|r| r.starts_with("patch nodes/n1/status"))
        .count();
    assert!((4..=7).contains(&tries), "{tries} tries in a pass");
    kubelets.world.cluster.faults().remove(fault);
    kubelets
        .until("it is written", |k| k.ready("nodes", "n1") == "Unknown")
        .await;
}

#[tokio::test(start_paused = true)]
async fn pods_that_could_not_be_marked_are_marked_in_the_next_pass() {
    let kubelets = Kubelets::with(&["", ""]).await;
    for name in ["p", "q"] {
        kubelets.pod(name, "n1").await;
    }
    kubelets.pass(30).await;
    let pod = Matcher::new("patch", "pods")
        .subresource("status")
        .name("p");
    kubelets
        .world
        .cluster
        .faults()
        .reject(pod, conflict(), Some(1));
    kubelets.kill("n1");
    kubelets
        .until("both are marked", |k| {
            ["p", "q"].iter().all(|pod| k.ready("pods", pod) == "False")
        })
        .await;
    kubelets.pass(20).await;
    let requests = kubelets.requests();
    let marks = requests
        .iter()
        .filter(|r| r.starts_with("patch pods/p/status"));
    assert_eq!(marks.count(), 2, "{requests:#?}");
}

/// Upstream: `TestProcessPodMarkPodNotReady`.
#[tokio::test(start_paused = true)]
async fn a_pod_that_is_bound_later_is_marked_by_the_condition_of_its_node() {
    // (status of the node, the pod is ready afterwards)
    for (status, expected) in [("True", "True"), ("False", "False"), ("Unknown", "False")] {
        let kubelets = Kubelets::with(&["", ""]).await;
        if status == "Unknown" {
            kubelets.kill("n1");
        } else {
            kubelets.post("n1", status).await;
        }
        kubelets.pass(70).await;
        // The pod comes with its status, as a pod that the cache shows late.
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "p", "namespace": "default", "uid": "u"},
            "spec": {"nodeName": "n1", "containers": [{"name": "main", "image": "nginx"}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        });
        kubelets.world.cluster.load(pod).unwrap();
        kubelets.pass(5).await;
        assert_eq!(kubelets.ready("pods", "p"), expected, "{status}");
    }
}

/// Upstream: `TestNodeEventGeneration`.
#[tokio::test(start_paused = true)]
async fn events_tell_of_registered_and_removed_nodes() {
    let kubelets = Kubelets::with(&["", ""]).await;
    kubelets.pass(10).await;
    assert_eq!(
        kubelets.events("RegisteredNode"),
        [
            "Normal Node n0: Node n0 event: Registered Node n0 in Controller",
            "Normal Node n1: Node n1 event: Registered Node n1 in Controller",
        ]
    );
    let uid = kubelets.object("nodes", "n0")["metadata"]["uid"].clone();
    let events = kubelets.world.cluster.objects("events");
    assert!(
        events
            .iter()
            .any(|event| event["involvedObject"]["uid"] == uid)
    );
    kubelets.kill("n1");
    kubelets.world.delete("nodes", "n1").await;
    kubelets.pass(10).await;
    assert_eq!(
        kubelets.events("RemovingNode"),
        ["Normal Node n1: Node n1 event: Removing Node n1 from Controller"]
    );
}

#[tokio::test(start_paused = true)]
async fn labels_and_conditions_are_copied_at_once() {
    let kubelets = Kubelets::with(&["", ""]).await;
    let labels = json!({"metadata": {"labels": {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}}});
    kubelets.world.patch("nodes", "n0", labels).await;
    kubelets
        .world
        .patch("nodes", "n1", json!({"spec": {"unschedulable": true}}))
        .await;
    kubelets.pass(1).await;
    let labels = kubelets.object("nodes", "n0")["metadata"]["labels"].clone();
    assert_eq!(labels["beta.kubernetes.io/os"], "linux");
    assert_eq!(labels["beta.kubernetes.io/arch"], "amd64");
    assert_eq!(kubelets.taints("n1"), ["unschedulable:NoSchedule"]);
    let taint = kubelets.object("nodes", "n1")["spec"]["taints"][0].clone();
    assert!(taint["timeAdded"].is_string());
    kubelets
        .world
        .patch("nodes", "n1", json!({"spec": {"unschedulable": false}}))
        .await;
    kubelets.pass(1).await;
    assert_eq!(kubelets.taints("n1"), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_conflict_about_taints_reads_the_latest_node() {
    let kubelets = Kubelets::with(&["", ""]).await;
    kubelets.pass(10).await;
    let patches = Matcher::new("patch", "nodes").client("node-controller");
    kubelets
        .world
        .cluster
        .faults()
        .reject(patches, conflict(), Some(1));
    kubelets
        .world
        .patch("nodes", "n1", json!({"spec": {"unschedulable": true}}))
        .await;
    kubelets.pass(5).await;
    assert_eq!(
        kubelets.requests(),
        [
            "get nodes/n1?resourceVersion=0 200",
            "patch nodes/n1 409",
            "get nodes/n1 200",
            "patch nodes/n1 200",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_failed_taint_is_retried_and_labels_do_not_wait_for_it() {
    let kubelets = Kubelets::with(&["", ""]).await;
    let reads = Matcher::new("get", "nodes").client("node-controller");
    kubelets
        .world
        .cluster
        .faults()
        .reject(reads, internal_error(), Some(1));
    let change = json!({"metadata": {"labels": {"kubernetes.io/os": "linux"}}, "spec": {"unschedulable": true}});
    kubelets.world.patch("nodes", "n1", change).await;
    kubelets
        .until("it is tainted", |k| k.taints("n1").len() == 1)
        .await;
    let labels = kubelets.object("nodes", "n1")["metadata"]["labels"].clone();
    assert_eq!(labels["beta.kubernetes.io/os"], "linux");
}

/// Half of a zone of ten nodes fails together: example D.
#[tokio::test(start_paused = true)]
async fn nodes_of_a_zone_are_tainted_one_per_ten_seconds() {
    let kubelets = Kubelets::with(&["z"; 10]).await;
    kubelets.pass(30).await;
    for index in 0..5 {
        kubelets.kill(&format!("n{index}"));
    }
    let tainted = |k: &Kubelets| {
        let has = |index: &i32| {
            let taints = k.taints(&format!("n{index}"));
            taints.contains(&"unreachable:NoExecute".to_owned())
        };
        (0..10).filter(has).count()
    };
    for expected in 1..=5 {
        kubelets
            .until("the next node is tainted", |k| tainted(k) == expected)
            .await;
        if expected < 5 {
            kubelets.pass(9).await;
            assert_eq!(tainted(&kubelets), expected, "one token in 10 s");
        }
    }
    let zone = "node_collector_evictions_total";
    let families = kubelets.world.registry.gather();
    let evictions = families
        .iter()
        .find(|family| family.name() == zone)
        .unwrap();
    assert_eq!(evictions.get_metric()[0].get_counter().get_value(), 5.0);
    let gauge = |name: &str| {
        let family = families
            .iter()
            .find(|family| family.name() == name)
            .unwrap();
        family.get_metric()[0].get_gauge().get_value()
    };
    assert_eq!(gauge("node_collector_zone_size"), 10.0);
    assert_eq!(gauge("node_collector_zone_health"), 50.0);
    assert_eq!(gauge("node_collector_unhealthy_nodes_in_zone"), 5.0);
}

#[tokio::test(start_paused = true)]
async fn a_restart_keeps_taints_and_writes_nothing() {
    let mut kubelets = Kubelets::with(&["", "", ""]).await;
    kubelets.pod("p", "n1").await;
    kubelets.pass(10).await;
    kubelets.kill("n1");
    kubelets
        .until("n1 is tainted", |k| k.taints("n1").len() == 2)
        .await;
    kubelets.pass(60).await;
    kubelets.world.clear_requests();
    let before = kubelets.object("nodes", "n1");
    kubelets.restart(&[DESCRIPTOR]).await;
    kubelets.pass(600).await;
    assert_eq!(kubelets.requests(), [""; 0]);
    assert_eq!(kubelets.object("nodes", "n1"), before);
}

/// A crash between the status of the node and its pods (kubernetes/kubernetes#135205).
#[tokio::test(start_paused = true)]
async fn a_new_leader_marks_the_pods_that_its_predecessor_did_not() {
    let mut kubelets = Kubelets::with(&["", ""]).await;
    kubelets.pod("p", "n1").await;
    kubelets.pass(10).await;
    let pods = Matcher::new("patch", "pods").subresource("status");
    let fault = kubelets
        .world
        .cluster
        .faults()
        .reject(pods, internal_error(), None);
    kubelets.kill("n1");
    kubelets.world.cluster.faults().met(fault).await;
    kubelets.restart(&[]).await;
    kubelets.world.cluster.faults().remove(fault);
    assert_eq!(kubelets.ready("pods", "p"), "True");
    kubelets.restart(&[DESCRIPTOR]).await;
    kubelets
        .until("the pod is marked", |k| k.ready("pods", "p") == "False")
        .await;
}

/// The cache of pods lacks the `Ready` condition of a pod while the new leader marks the pods.
#[tokio::test(start_paused = true)]
async fn a_new_leader_marks_pods_again_after_its_cache_has_caught_up() {
    let mut kubelets = Kubelets::without_controllers(&["", ""]).await;
    kubelets
        .world
        .create(json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"},
            "spec": {"nodeName": "n1", "containers": [{"name": "main", "image": "nginx"}]},
        }))
        .await;
    let pods = Matcher {
        resource: Some("pods".to_owned()),
        ..Matcher::default()
    };
    let before = kubelets.world.cluster.revision();
    let stale = kubelets.world.cluster.faults().hold_view(pods, before);
    let now = kubelets.world.clock.now_seconds().to_string();
    let status =
        json!({"status": {"phase": "Running", "conditions": [condition("Ready", "True", &now)]}});
    kubelets.world.patch("pods", "p/status", status).await;
    kubelets.post("n1", "Unknown").await;
    let term = kubelets.world.cluster.revision();
    kubelets
        .world
        .restart_with(&[DESCRIPTOR], |mut context| {
            context.term_start_rv = term;
            context
        })
        .await;
    kubelets.pass(20).await;
    assert_eq!(kubelets.ready("pods", "p"), "True");
    kubelets.world.cluster.faults().remove(stale);
    kubelets.world.cluster.faults().break_watches("pods");
    kubelets
        .until("the pod is marked", |k| k.ready("pods", "p") == "False")
        .await;
}

/// The cache of a new leader shows a dead node, but the node is ready again.
#[tokio::test(start_paused = true)]
async fn a_stale_cache_taints_no_node_that_is_ready_again_and_marks_no_pod() {
    let mut kubelets = Kubelets::without_controllers(&["", ""]).await;
    kubelets.pod("p", "n1").await;
    kubelets.post("n1", "Unknown").await;
    let nodes = Matcher {
        resource: Some("nodes".to_owned()),
        ..Matcher::default()
    };
    let before = kubelets.world.cluster.revision();
    let stale = kubelets.world.cluster.faults().hold_view(nodes, before);
    kubelets.post("n1", "True").await;
    let term = kubelets.world.cluster.revision();
    let controllers = [DESCRIPTOR, tainteviction::DESCRIPTOR];
    kubelets
        .world
        .restart_with(&controllers, |mut context| {
            context.term_start_rv = term;
            context
        })
        .await;
    kubelets.pass(30).await;
    assert_eq!(kubelets.taints("n1"), [""; 0], "{:?}", kubelets.requests());
    assert_eq!(kubelets.ready("pods", "p"), "True");
    let reads = |requests: &[String]| requests.iter().any(|r| r == "get nodes/n1 200");
    assert!(reads(&kubelets.requests()), "{:?}", kubelets.requests());
    kubelets.world.cluster.faults().remove(stale);
}

#[tokio::test(start_paused = true)]
async fn an_idle_cluster_costs_no_requests() {
    let kubelets = Kubelets::with(&["a", "b"]).await;
    kubelets.pass(10).await;
    kubelets.world.clear_requests();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(kubelets.requests(), [""; 0]);
}
