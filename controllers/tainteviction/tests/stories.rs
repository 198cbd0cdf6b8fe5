//! Further stories: failures, stale caches, restarts, and the node lifecycle controller beside.

use serde_json::{Value, json};
use steersman_devcluster::faults::{Matcher, RequestFault, conflict, internal_error};
use steersman_devcluster::status::Status;

use super::{Evictions, node, pod, taint, toleration};
use crate::tainteviction::DESCRIPTOR;
use crate::{nodelifecycle, podgc};

/// The condition `DisruptionTarget` of a pod.
fn disruption(pod: &Value) -> Value {
    let conditions = pod["status"]["conditions"].as_array().cloned();
    let mut conditions = conditions.into_iter().flatten();
    conditions
        .find(|c| c["type"] == "DisruptionTarget")
        .unwrap_or(Value::Null)
}

fn untolerated() -> [Value; 2] {
    [
        node("node1", json!([taint(1)])),
        pod("p", "node1", json!([])),
    ]
}

/// The reference's example A, with the requests of upstream.
#[tokio::test(start_paused = true)]
async fn an_eviction_reads_the_pod_marks_it_and_deletes_it() {
    let evictions = Evictions::without_controller(&untolerated()).await;
    evictions.0.cluster.keep_contents();
    let evictions = evictions.started(&[DESCRIPTOR]).await;
    evictions.pass(1000).await;
    assert_eq!(
        evictions.requests(),
        [
            "get pods/p 200",
            "patch pods/p/status 200",
            "delete pods/p 200"
        ]
    );
    let bodies: Vec<Value> = {
        let requests = evictions.0.cluster.requests();
        let writes = requests
            .iter()
            .filter(|r| r.path.contains("/pods/p") && matches!(&*r.verb, "patch" | "delete"));
        writes
            .map(|r| serde_json::from_slice(&r.content.as_ref().unwrap().body).unwrap())
            .collect()
    };
    let time = disruption(&evictions.pod("p"))["lastTransitionTime"].clone();
    let condition = json!({
        "type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager",
        "message": "Taint manager: deleting due to NoExecute taint",
        "lastProbeTime": null, "lastTransitionTime": time, "observedGeneration": 1,
    });
    let patch = json!({
        "metadata": {"uid": "uid-of-p"},
        "status": {
            "$setElementOrder/conditions": [{"type": "Ready"}, {"type": "DisruptionTarget"}],
            "conditions": [condition],
        },
    });
    assert_eq!(bodies[0], patch);
    assert_eq!(bodies[1]["preconditions"], json!({"uid": "uid-of-p"}));
    assert_eq!(bodies[1].get("gracePeriodSeconds"), None);
    let gather = evictions.0.registry.gather();
    let value = |name: &str| {
        let family = gather.iter().find(|family| family.name() == name).unwrap();
        let metric = &family.get_metric()[0];
        metric.get_counter().get_value() + metric.get_histogram().get_sample_count() as f64
    };
    assert_eq!(value("taint_eviction_controller_pod_deletions_total"), 1.0);
    assert_eq!(
        value("taint_eviction_controller_pod_deletion_duration_seconds"),
        1.0
    );
}

/// Example B: the taint changes while the pod waits.
#[tokio::test(start_paused = true)]
async fn a_swapped_taint_keeps_the_deadline() {
    let exists = |index: i32| json!({"key": format!("testTaint{index}"), "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
    let waiting = pod("p", "node1", json!([exists(1), exists(2)]));
    let evictions = Evictions::with(&[node("node1", json!([taint(1)])), waiting]).await;
    evictions.pass(200_000).await;
    evictions
        .set_taints("node1", json!([taint(1), taint(2)]))
        .await;
    evictions.set_taints("node1", json!([taint(2)])).await;
    evictions.pass(99_000).await;
    assert_eq!(evictions.terminating(), [""; 0]);
    evictions.pass(2000).await;
    assert_eq!(evictions.terminating(), ["p"]);
}

/// Example G: an admission webhook refuses the deletion (kubernetes/kubernetes#140639).
#[tokio::test(start_paused = true)]
async fn a_refused_deletion_is_repeated_with_back_off() {
    let evictions = Evictions::without_controller(&untolerated()).await;
    let deletions = Matcher::new("delete", "pods");
    let fault = evictions
        .0
        .cluster
        .faults()
        .reject(deletions, internal_error(), None);
    let evictions = evictions.started(&[DESCRIPTOR]).await;
    evictions.pass(500).await;
    assert_eq!(evictions.count("delete pods/p"), 5);
    assert_eq!(
        evictions.count("patch pods/p"),
        1,
        "the condition is written once"
    );
    assert_eq!(
        evictions.events(),
        ["Marking for deletion Pod default/p x1"]
    );
    evictions.pass(1000).await;
    assert_eq!(evictions.count("delete pods/p"), 10);
    evictions.0.cluster.faults().remove(fault);
    evictions
        .0
        .until("the pod is deleted", |_| evictions.terminating() == ["p"])
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_repeated_at_once() {
    let evictions = Evictions::without_controller(&untolerated()).await;
    let writes = Matcher::new("patch", "pods").subresource("status");
    let faults = evictions.0.cluster.faults();
    let rule = faults.reject(writes, conflict(), Some(4));
    let evictions = evictions.started(&[DESCRIPTOR]).await;
    evictions.pass(500).await;
    assert_eq!(evictions.0.cluster.faults().hits(rule), 4);
    assert_eq!(evictions.terminating(), ["p"]);
}

/// A proxy that cannot reach the API server answers 404 as well.
#[tokio::test(start_paused = true)]
async fn the_answer_of_a_proxy_ends_no_eviction() {
    for verb in ["get", "delete"] {
        let evictions = Evictions::without_controller(&untolerated()).await;
        let page = Status::new(404, "NotFound", "404 page not found");
        let faults = evictions.0.cluster.faults();
        let rule = faults.reject(Matcher::new(verb, "pods"), page, Some(4));
        let evictions = evictions.started(&[DESCRIPTOR]).await;
        evictions.pass(500).await;
        assert_eq!(evictions.0.cluster.faults().hits(rule), 4, "{verb}");
        assert_eq!(evictions.terminating(), ["p"], "{verb}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_gone_is_not_searched_again() {
    let waiting = pod("p", "node1", json!([toleration(1, Some(10))]));
    let evictions = Evictions::with(&[node("node1", json!([taint(1)])), waiting]).await;
    evictions.pass(1000).await;
    evictions.0.cluster.faults().stall_watches("pods");
    let path = evictions.0.cluster.path("pods", "default", "p");
    let now = json!({"gracePeriodSeconds": 0});
    evictions.0.cluster.delete_with(&path, now).await.unwrap();
    evictions.pass(60_000).await;
    assert_eq!(evictions.requests(), ["get pods/p 404"]);
    assert_eq!(evictions.events(), [""; 0]);
}

/// kubernetes/kubernetes#107543
#[tokio::test(start_paused = true)]
async fn a_new_pod_of_the_same_name_survives_and_waits_on_its_own() {
    let waiting = pod("p", "node1", json!([toleration(1, Some(10))]));
    let evictions = Evictions::with(&[node("node1", json!([taint(1)])), waiting.clone()]).await;
    evictions.pass(1000).await;
    evictions.0.cluster.faults().stall_watches("pods");
    let path = evictions.0.cluster.path("pods", "default", "p");
    let now = json!({"gracePeriodSeconds": 0});
    evictions.0.cluster.delete_with(&path, now).await.unwrap();
    let mut another = waiting;
    another["metadata"]["uid"] = json!("another");
    evictions.load(another);
    evictions.pass(20_000).await;
    assert_eq!(evictions.requests(), ["get pods/p 200"]);
    assert_eq!(evictions.events(), [""; 0], "no Event about the new pod");
    evictions.0.cluster.faults().resume_watches("pods");
    evictions.pass(5000).await;
    assert_eq!(evictions.terminating(), [""; 0]);
    evictions.pass(6000).await;
    assert_eq!(evictions.terminating(), ["p"]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_tolerates_the_taint_at_the_deadline_stays() {
    let waiting = pod("p", "node1", json!([toleration(1, Some(10))]));
    let evictions = Evictions::with(&[node("node1", json!([taint(1)])), waiting]).await;
    evictions.pass(1000).await;
    evictions.0.cluster.faults().stall_watches("pods");
    evictions.load(pod("p", "node1", json!([toleration(1, None)])));
    evictions.pass(20_000).await;
    assert_eq!(evictions.requests(), ["get pods/p 200"]);
    assert_eq!(evictions.events(), [""; 0]);
}

/// A webhook answers no deletion in one namespace.
#[tokio::test(start_paused = true)]
async fn slow_evictions_in_one_namespace_hold_up_no_other() {
    let mut objects = vec![node("node1", json!([taint(1)]))];
    for index in 0..200 {
        let mut slow = pod(&format!("slow-{index}"), "node1", json!([]));
        slow["metadata"]["namespace"] = json!("slow");
        objects.push(slow);
    }
    objects.push(pod("p", "node1", json!([toleration(1, Some(5))])));
    let evictions = Evictions::without_controller(&objects).await;
    let slow = Matcher::new("delete", "pods").namespace("slow");
    let faults = evictions.0.cluster.faults();
    faults.on_request(slow, RequestFault::Hang, None);
    let evictions = evictions.started(&[DESCRIPTOR]).await;
    evictions.pass(6000).await;
    assert_eq!(evictions.terminating(), ["p"]);
}

/// Upstream evicts finished pods too (kubernetes/kubernetes#96363), and so does this controller.
#[tokio::test(start_paused = true)]
async fn finished_pods_are_evicted() {
    let mut done = pod("p", "node1", json!([]));
    done["status"]["phase"] = json!("Succeeded");
    let evictions = Evictions::with(&[node("node1", json!([taint(1)])), done]).await;
    evictions.pass(1000).await;
    assert_eq!(evictions.count("delete pods/p"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_writes_nothing_about_evicted_pods() {
    let evictions = Evictions::with(&untolerated()).await;
    evictions.pass(1000).await;
    assert_eq!(evictions.terminating(), ["p"]);
    evictions.0.clear_requests();
    let events = evictions.events();
    let evictions = evictions.started(&[DESCRIPTOR]).await;
    evictions
        .set_taints("node1", json!([taint(1), taint(2)]))
        .await;
    evictions.pass(60_000).await;
    assert_eq!(evictions.requests(), [""; 0]);
    assert_eq!(evictions.events(), events);
}

/// A new leader with a stale cache asks the API server before it evicts.
#[tokio::test(start_paused = true)]
async fn a_stale_cache_of_nodes_evicts_no_pod() {
    // (why, the taint is still there)
    for (why, is_tainted) in [
        ("the taint is gone", false),
        ("the taint is still there", true),
    ] {
        let mut evictions = Evictions::without_controller(&untolerated()).await;
        let nodes = Matcher {
            resource: Some("nodes".to_owned()),
            ..Matcher::default()
        };
        let before = evictions.0.cluster.revision();
        let view = evictions.0.cluster.faults().hold_view(nodes, before);
        let taints = if is_tainted {
            json!([taint(1), taint(2)])
        } else {
            json!([])
        };
        evictions.set_taints("node1", taints).await;
        let term = evictions.0.cluster.revision();
        let world = &mut evictions.0;
        world
            .restart_with(&[DESCRIPTOR], |mut context| {
                context.term_start_rv = term;
                context
            })
            .await;
        evictions.pass(5000).await;
        assert_eq!(!evictions.terminating().is_empty(), is_tainted, "{why}");
        assert!(
            evictions.count("get nodes/node1") > 0,
            "{why}: {:?}",
            evictions.requests()
        );
        evictions.0.cluster.faults().remove(view);
    }
}

/// Upstream: `TestEvictionForNoExecuteTaintAddedByUser`.
#[tokio::test(start_paused = true)]
async fn eviction_for_no_execute_taint_added_by_user() {
    // (controllers, evicted)
    let both = [nodelifecycle::DESCRIPTOR, DESCRIPTOR];
    for (controllers, evicted) in [(&both[..1], false), (&both[..], true)] {
        let mut objects: Vec<Value> = (0..3)
            .map(|i| node(&format!("testnode-{i}"), json!([])))
            .collect();
        for node in &mut objects {
            node["metadata"]["labels"] = json!({"node.kubernetes.io/exclude-disruption": "true"});
        }
        let evictions = Evictions::without_controller(&objects)
            .await
            .started(controllers)
            .await;
        evictions.load(pod("testpod", "testnode-1", json!([])));
        let by_user = json!([{"key": "CustomTaintByUser", "effect": "NoExecute"}]);
        evictions.set_taints("testnode-1", by_user).await;
        evictions.pass(20_000).await;
        assert_eq!(!evictions.terminating().is_empty(), evicted);
        let reason = &disruption(&evictions.pod("testpod"))["reason"];
        assert_eq!(reason == "DeletionByTaintManager", evicted);
    }
}

/// Upstream: `TestTaintBasedEvictions`. The admission of the API server adds the default
/// tolerations.
#[tokio::test(start_paused = true)]
async fn taint_based_evictions() {
    let tolerates = |seconds: i64| {
        json!([{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute",
            "tolerationSeconds": seconds}])
    };
    // (case, status of the node, tolerations, seconds until the eviction)
    let cases = [
        (
            "NodeNotReady and 200 tolerationseconds",
            "False",
            Some(tolerates(200)),
            200,
        ),
        ("NodeNotReady with no pod tolerations", "False", None, 300),
        (
            "NodeNotReady and 0 tolerationseconds",
            "False",
            Some(tolerates(0)),
            0,
        ),
        ("NodeUnreachable", "Unknown", None, 300),
    ];
    for (case, status, tolerations, seconds) in cases {
        let mut objects: Vec<Value> = (0..3)
            .map(|i| node(&format!("node-{i}"), json!([])))
            .collect();
        for node in &mut objects {
            node["metadata"]["labels"] = json!({"node.kubernetes.io/exclude-disruption": "true"});
        }
        objects[1]["status"]["conditions"][0]["status"] = json!(status);
        let key = if status == "False" {
            "not-ready"
        } else {
            "unreachable"
        };
        let evictions = Evictions::without_controller(&objects).await;
        let mut testpod = pod("testpod1", "node-1", json!([]));
        match tolerations {
            Some(tolerations) => testpod["spec"]["tolerations"] = tolerations,
            None => testpod["spec"]["tolerations"] = Value::Null,
        }
        testpod.as_object_mut().unwrap().remove("status");
        testpod["metadata"].as_object_mut().unwrap().remove("uid");
        evictions.0.create(testpod).await;
        let evictions = evictions
            .started(&[nodelifecycle::DESCRIPTOR, DESCRIPTOR])
            .await;
        evictions.pass(1000).await;
        let taints = evictions.0.cluster.objects("nodes")[1]["spec"]["taints"].clone();
        let has = |taint: &Value| {
            taint["key"] == format!("node.kubernetes.io/{key}") && taint["effect"] == "NoExecute"
        };
        assert!(
            taints.as_array().unwrap().iter().any(has),
            "{case}: {taints}"
        );
        if seconds > 0 {
            evictions.pass((seconds - 5) * 1000).await;
            assert_eq!(evictions.terminating(), [""; 0], "{case}");
        }
        evictions.pass(10_000).await;
        assert_eq!(evictions.terminating(), ["testpod1"], "{case}");
    }
}

/// The pod of a node that was deleted is left to podgc, which shares the pod.
#[tokio::test(start_paused = true)]
async fn a_deleted_node_leaves_its_pods_to_podgc() {
    let waiting = pod("p", "node1", json!([toleration(1, Some(300))]));
    let evictions =
        Evictions::without_controller(&[node("node1", json!([taint(1)])), waiting]).await;
    let evictions = evictions.started(&[DESCRIPTOR, podgc::DESCRIPTOR]).await;
    evictions.pass(1000).await;
    evictions.0.delete("nodes", "node1").await;
    evictions.pass(400_000).await;
    assert_eq!(evictions.pod("p"), Value::Null);
    assert_eq!(
        evictions.events(),
        ["Cancelling deletion of Pod default/p x1"]
    );
}
