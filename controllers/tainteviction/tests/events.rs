//! Upstream's cases, against the in-memory API server.

use serde_json::{Value, json};

use super::{Evictions, node, pod, taint, toleration};

/// Whether the status of the pod was patched, and whether the pod was deleted.
fn outcome(evictions: &Evictions) -> (bool, bool) {
    (
        evictions.count("patch pods/") > 0,
        evictions.count("delete pods/") > 0,
    )
}

/// Upstream: `TestCreatePod`.
#[tokio::test(start_paused = true)]
async fn create_pod() {
    let tainted = || json!([taint(1)]);
    // (case, node of the pod, taints of node1, tolerations, evicted)
    let cases = [
        ("not scheduled - ignore", "", json!([]), json!([]), false),
        (
            "scheduled on untainted Node",
            "node1",
            json!([]),
            json!([]),
            false,
        ),
        (
            "schedule on tainted Node",
            "node1",
            tainted(),
            json!([]),
            true,
        ),
        (
            "schedule on tainted Node with finite toleration",
            "node1",
            tainted(),
            json!([toleration(1, Some(100))]),
            false,
        ),
        (
            "schedule on tainted Node with infinite toleration",
            "node1",
            tainted(),
            json!([toleration(1, None)]),
            false,
        ),
        (
            "schedule on tainted Node with infinite invalid toleration",
            "node1",
            tainted(),
            json!([toleration(2, None)]),
            true,
        ),
    ];
    for (case, on, taints, tolerations, evicted) in cases {
        let evictions = Evictions::with(&[node("node1", taints)]).await;
        evictions.load(pod("pod1", on, tolerations));
        evictions.pass(50_000).await;
        assert_eq!(outcome(&evictions), (evicted, evicted), "{case}");
    }
}

/// Upstream: `TestDeletePod`.
#[tokio::test(start_paused = true)]
async fn delete_pod() {
    let waiting = pod("pod1", "node1", json!([toleration(1, Some(100))]));
    let evictions = Evictions::with(&[node("node1", json!([taint(1)])), waiting]).await;
    evictions.pass(1000).await;
    let path = evictions.0.cluster.path("pods", "default", "pod1");
    let now = json!({"gracePeriodSeconds": 0});
    evictions.0.cluster.delete_with(&path, now).await.unwrap();
    evictions.pass(200_000).await;
    assert_eq!(evictions.requests(), [""; 0]);
    assert_eq!(
        evictions.events(),
        ["Cancelling deletion of Pod default/pod1 x1"]
    );
}

/// Upstream: `TestUpdatePod`.
#[tokio::test(start_paused = true)]
async fn update_pod() {
    let none = || json!([]);
    let forever = || json!([toleration(1, None)]);
    let seconds = |seconds| json!([toleration(1, Some(seconds))]);
    // (case, node and tolerations before and after, evicted within 50 s)
    let cases = [
        (
            "scheduling onto tainted Node",
            ("", none()),
            ("node1", none()),
            true,
        ),
        (
            "scheduling onto tainted Node with toleration",
            ("", forever()),
            ("node1", forever()),
            false,
        ),
        (
            "removing toleration",
            ("node1", seconds(100)),
            ("node1", none()),
            true,
        ),
        (
            "lengthening toleration shouldn't work",
            ("node1", seconds(1)),
            ("node1", seconds(100)),
            true,
        ),
        (
            "shortening toleration has no effect",
            ("node1", seconds(100)),
            ("node1", seconds(1)),
            false,
        ),
        (
            "infinite toleration",
            ("node1", seconds(10)),
            ("node1", forever()),
            false,
        ),
    ];
    for (case, before, after, evicted) in cases {
        let first = pod("pod1", before.0, before.1);
        let evictions = Evictions::with(&[node("node1", json!([taint(1)])), first]).await;
        evictions.pass(500).await;
        assert_eq!(
            outcome(&evictions),
            (false, false),
            "{case}: before the update"
        );
        evictions.load(pod("pod1", after.0, after.1));
        evictions.pass(50_000).await;
        assert_eq!(outcome(&evictions), (evicted, evicted), "{case}");
    }
}

/// Upstream: `TestCreateNode`.
#[tokio::test(start_paused = true)]
async fn create_node() {
    // (case, tolerations, taints, evicted)
    let cases = [
        (
            "Creating Node matching already assigned Pod",
            json!([]),
            json!([]),
            false,
        ),
        (
            "Creating tainted Node matching already assigned Pod",
            json!([]),
            json!([taint(1)]),
            true,
        ),
        (
            "Creating tainted Node matching already assigned tolerating Pod",
            json!([toleration(1, None)]),
            json!([taint(1)]),
            false,
        ),
    ];
    for (case, tolerations, taints, evicted) in cases {
        let evictions = Evictions::with(&[pod("pod1", "node1", tolerations)]).await;
        evictions.load(node("node1", taints));
        evictions.pass(10_000).await;
        assert_eq!(outcome(&evictions), (evicted, evicted), "{case}");
    }
}

/// Upstream: `TestDeleteNode`.
#[tokio::test(start_paused = true)]
async fn delete_node() {
    let waiting = pod("pod1", "node1", json!([toleration(1, Some(100))]));
    let evictions = Evictions::with(&[node("node1", json!([taint(1)])), waiting]).await;
    evictions.pass(1000).await;
    evictions.0.delete("nodes", "node1").await;
    evictions.load(pod("late", "node1", json!([])));
    evictions.pass(50_000).await;
    assert_eq!(
        outcome(&evictions),
        (false, false),
        "a deleted node has no taints"
    );
    evictions.pass(60_000).await;
    assert_eq!(
        evictions.terminating(),
        ["pod1"],
        "a timer that runs goes on"
    );
}

/// Upstream: `TestUpdateNode`.
#[tokio::test(start_paused = true)]
async fn update_node() {
    let seconds = |index, seconds| toleration(index, Some(seconds));
    // (case, tolerations, taints before and after, evicted within 50 s)
    let cases = [
        (
            "Added taint, expect node patched and deleted",
            json!([]),
            json!([]),
            json!([taint(1)]),
            true,
        ),
        (
            "Added tolerated taint",
            json!([seconds(1, 100)]),
            json!([]),
            json!([taint(1)]),
            false,
        ),
        (
            "Only one added taint tolerated",
            json!([seconds(1, 100)]),
            json!([]),
            json!([taint(1), taint(2)]),
            true,
        ),
        (
            "Taint removed",
            json!([seconds(1, 1)]),
            json!([taint(1)]),
            json!([]),
            false,
        ),
        (
            "Pod with multiple tolerations are evicted when first one runs out",
            json!([seconds(1, 1), seconds(2, 100)]),
            json!([]),
            json!([taint(1), taint(2)]),
            true,
        ),
    ];
    for (case, tolerations, before, after, evicted) in cases {
        let objects = [node("node1", before), pod("pod1", "node1", tolerations)];
        let evictions = Evictions::with(&objects).await;
        evictions.pass(500).await;
        evictions.set_taints("node1", after).await;
        evictions.pass(50_000).await;
        assert_eq!(outcome(&evictions), (evicted, evicted), "{case}");
    }
}

/// Upstream: `TestUpdateNodeWithMultipleTaints`.
#[tokio::test(start_paused = true)]
async fn update_node_with_multiple_taints() {
    let exists = |index: i32, seconds: Value| json!({"key": format!("testTaint{index}"), "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds});
    let tolerations = json!([exists(1, json!(null)), exists(2, json!(60))]);
    let objects = [node("node1", json!([])), pod("pod1", "node1", tolerations)];
    let evictions = Evictions::with(&objects).await;
    for taints in [
        json!([taint(1)]),
        json!([taint(1), taint(2)]),
        json!([taint(1)]),
    ] {
        evictions.set_taints("node1", taints).await;
        evictions.pass(30_000).await;
    }
    evictions.pass(100_000).await;
    assert_eq!(evictions.requests(), [""; 0]);
    assert_eq!(
        evictions.events(),
        ["Cancelling deletion of Pod default/pod1 x1"]
    );
}

/// Upstream: `TestUpdateNodeWithMultiplePods`.
#[tokio::test(start_paused = true)]
async fn update_node_with_multiple_pods() {
    let all: &[&str] = &["pod1", "pod2", "pod3"];
    // (case, taints, pods that terminate at once and after two seconds)
    let cases: [(&str, Value, &[&str], &[&str]); 2] = [
        (
            "Pods with different toleration times are evicted appropriately",
            json!([taint(1)]),
            &["pod1"],
            &["pod1", "pod2"],
        ),
        (
            "Evict all pods not matching all taints instantly",
            json!([taint(1), taint(2)]),
            all,
            all,
        ),
    ];
    for (case, taints, at_once, later) in cases {
        let objects = [
            node("node1", json!([])),
            pod("pod1", "node1", json!([])),
            pod("pod2", "node1", json!([toleration(1, Some(1))])),
            pod("pod3", "node1", json!([toleration(1, None)])),
        ];
        let evictions = Evictions::with(&objects).await;
        evictions.set_taints("node1", taints).await;
        evictions.pass(500).await;
        assert_eq!(evictions.terminating(), at_once, "{case}");
        evictions.pass(1500).await;
        assert_eq!(evictions.terminating(), later, "{case}");
    }
}

/// Upstream: `TestEventualConsistency`.
#[tokio::test(start_paused = true)]
async fn eventual_consistency() {
    let none = || json!([]);
    let tolerated = || json!([toleration(1, Some(100))]);
    // (case, tolerations, the pod exists before the taint, evicted at once)
    let cases = [
        (
            "existing pod2 scheduled onto tainted Node",
            none(),
            true,
            true,
        ),
        (
            "existing pod2 with taint toleration scheduled onto tainted Node",
            tolerated(),
            true,
            false,
        ),
        ("new pod2 created on tainted Node", none(), false, true),
        (
            "new pod2 with tait toleration created on tainted Node",
            tolerated(),
            false,
            false,
        ),
    ];
    for (case, tolerations, exists, at_once) in cases {
        let objects = [node("node1", json!([])), pod("pod1", "node1", json!([]))];
        let evictions = Evictions::with(&objects).await;
        if exists {
            evictions.load(pod("pod2", "", tolerations.clone()));
        }
        evictions.set_taints("node1", json!([taint(1)])).await;
        evictions.pass(500).await;
        assert_eq!(evictions.terminating(), ["pod1"], "{case}");
        evictions.load(pod("pod2", "node1", tolerations));
        evictions.pass(500).await;
        assert_eq!(
            evictions.terminating().len(),
            1 + usize::from(at_once),
            "{case}"
        );
        evictions.pass(100_000).await;
        assert_eq!(evictions.terminating(), ["pod1", "pod2"], "{case}");
    }
}

/// Upstream: `TestPodDeletionEvent`.
#[tokio::test(start_paused = true)]
async fn pod_deletion_event() {
    let objects = [
        node("node1", json!([taint(1)])),
        pod("gone", "node1", json!([])),
        pod("stays", "node1", json!([toleration(1, Some(100))])),
    ];
    let evictions = Evictions::with(&objects).await;
    evictions.pass(1000).await;
    evictions.set_taints("node1", json!([])).await;
    evictions.pass(5000).await;
    assert_eq!(
        evictions.events(),
        [
            "Marking for deletion Pod default/gone x1",
            "Cancelling deletion of Pod default/stays x1"
        ]
    );
    for event in evictions.0.cluster.objects("events") {
        let object = &event["involvedObject"];
        assert_eq!(
            (&event["type"], &event["reason"]),
            (&json!("Normal"), &json!("TaintManagerEviction"))
        );
        assert_eq!(
            (&object["apiVersion"], &object["kind"]),
            (&json!("v1"), &json!("Pod"))
        );
        assert_eq!(
            (object.get("uid"), object.get("resourceVersion")),
            (None, None)
        );
        assert_eq!(
            event["source"],
            json!({"component": "taint-eviction-controller"})
        );
    }
}
