//! Upstream's unit tests of creations, deletions and rolling updates, with their values.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_helpers::history::REVISION_LABEL;

use super::model::{Counts, Model};
use crate::testing::DaemonSetBuilder;

/// Label of some nodes.
fn color() -> Value {
    json!({"color": "blue"})
}

/// A cluster of 4 nodes without and 3 nodes with a label, as in many tests of upstream.
fn seven_nodes() -> Model {
    let mut model = Model::new();
    model.add_nodes(0..4, &json!({}));
    model.add_nodes(4..7, &color());
    model
}

fn nodes(count: usize) -> Model {
    let mut model = Model::new();
    model.add_nodes(0..count, &json!({}));
    model
}

/// A cluster of one node with these taints.
fn tainted(taints: &[(&str, &str)]) -> Model {
    let taints: Vec<Value> = taints
        .iter()
        .map(|(key, effect)| json!({"key": key, "effect": effect}))
        .collect();
    let mut model = Model::new();
    model
        .nodes
        .push(json!({"metadata": {"name": "tainted"}, "spec": {"taints": taints}}));
    model
}

fn with_pods(mut model: Model, pods: &[(&str, usize)]) -> Model {
    for (node, count) in pods {
        model.add_pods(node, *count);
    }
    model
}

/// The pods of the cluster end as failed ones.
fn failed(mut model: Model) -> Model {
    for pod in &mut model.pods {
        *pod = pod.clone().phase("Failed");
    }
    model
}

fn selecting(spec: Value) -> impl Fn(DaemonSetBuilder) -> DaemonSetBuilder {
    move |ds| ds.pod_spec(spec.clone())
}

#[test]
fn pods_are_created_and_deleted_per_node() {
    let dedicated = [("dedicated", "NoSchedule")];
    let selector = json!({ "nodeSelector": color() });
    let term =
        json!({"matchExpressions": [{"key": "color", "operator": "In", "values": ["blue"]}]});
    let affinity = json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}});
    let named = |name: &str| json!({ "nodeName": name });
    let both = |name: &str| json!({"nodeName": name, "nodeSelector": color()});
    let tolerating = json!({"tolerations": [{"key": "dedicated", "effect": "NoSchedule"}]});
    let ten_nodes = || {
        let mut model = nodes(5);
        model.add_nodes(5..10, &color());
        model
    };
    let pressure = [
        ("node.kubernetes.io/disk-pressure", "NoSchedule"),
        ("node.kubernetes.io/memory-pressure", "NoSchedule"),
        ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ];
    let terminating = || {
        let mut model = with_pods(nodes(1), &[("node-0", 1)]);
        model.pods[0] = model.pods[0].clone().deleted(1);
        model
    };
    let for_missing_node = || {
        let mut model = with_pods(nodes(1), &[("node-0", 1), ("node-1", 1)]);
        let unbound = model.new_pod("node-2");
        model.pods.push(unbound);
        model
    };
    // (upstream's test, spec of the template, cluster, creations, deletions, Events)
    let none = || json!({});
    let cases: Vec<(&str, Value, Model, Counts)> = vec![
        ("SimpleDaemonSetLaunchesPods", none(), nodes(5), (5, 0, 0)),
        ("NoNodesDoesNothing", none(), nodes(0), (0, 0, 0)),
        ("OneNodeDaemonLaunchesPod", none(), nodes(1), (1, 0, 0)),
        (
            "DealsWithExistingPods",
            none(),
            with_pods(nodes(5), &[("node-1", 1), ("node-2", 2), ("node-3", 5)]),
            (2, 5, 0),
        ),
        (
            "SelectorDaemonLaunchesPods",
            selector.clone(),
            seven_nodes(),
            (3, 0, 0),
        ),
        (
            "SelectorDaemonDeletesUnselectedPods",
            selector.clone(),
            with_pods(ten_nodes(), &[("node-1", 3), ("node-4", 1)]),
            (5, 4, 0),
        ),
        (
            "SelectorDaemonDealsWithExistingPods",
            selector,
            with_pods(
                ten_nodes(),
                &[
                    ("node-0", 1),
                    ("node-1", 3),
                    ("node-2", 4),
                    ("node-6", 13),
                    ("node-9", 1),
                ],
            ),
            (3, 20, 0),
        ),
        (
            "BadSelectorDaemonDoesNothing",
            json!({"nodeSelector": {"color": "red"}}),
            seven_nodes(),
            (0, 0, 0),
        ),
        (
            "NameDaemonSetLaunchesPods",
            named("node-0"),
            nodes(5),
            (1, 0, 0),
        ),
        (
            "BadNameDaemonSetDoesNothing",
            named("node-10"),
            nodes(5),
            (0, 0, 0),
        ),
        (
            "NameAndSelectorDaemonSetLaunchesPods",
            both("node-6"),
            seven_nodes(),
            (1, 0, 0),
        ),
        (
            "InconsistentNameSelectorDaemonSetDoesNothing",
            both("node-0"),
            seven_nodes(),
            (0, 0, 0),
        ),
        (
            "NodeAffinityDaemonLaunchesPods",
            affinity,
            seven_nodes(),
            (3, 0, 0),
        ),
        (
            "NoScheduleTaintedDoesntEvicitRunningIntolerantPod",
            none(),
            with_pods(tainted(&dedicated), &[("tainted", 1)]),
            (0, 0, 0),
        ),
        (
            "NoExecuteTaintedDoesEvicitRunningIntolerantPod",
            none(),
            with_pods(tainted(&[("dedicated", "NoExecute")]), &[("tainted", 1)]),
            (0, 1, 0),
        ),
        (
            "TaintedNodeDaemonDoesNotLaunchIntolerantPod",
            none(),
            tainted(&dedicated),
            (0, 0, 0),
        ),
        (
            "TaintedNodeDaemonLaunchesToleratePod",
            tolerating.clone(),
            tainted(&dedicated),
            (1, 0, 0),
        ),
        (
            "NotReadyNodeDaemonLaunchesPod",
            none(),
            tainted(&[("node.kubernetes.io/not-ready", "NoExecute")]),
            (1, 0, 0),
        ),
        (
            "UnreachableNodeDaemonLaunchesPod",
            none(),
            tainted(&[("node.kubernetes.io/unreachable", "NoExecute")]),
            (1, 0, 0),
        ),
        (
            "NodeDaemonLaunchesToleratePod",
            tolerating,
            nodes(1),
            (1, 0, 0),
        ),
        (
            "TaintPressureNodeDaemonLaunchesPod",
            none(),
            tainted(&pressure),
            (1, 0, 0),
        ),
        (
            "NetworkUnavailableNodeDaemonLaunchesPod",
            json!({"hostNetwork": true}),
            tainted(&[("node.kubernetes.io/network-unavailable", "NoSchedule")]),
            (1, 0, 0),
        ),
        (
            "DaemonSetRespectsTermination",
            none(),
            terminating(),
            (0, 0, 0),
        ),
        (
            "DeleteUnscheduledPodForNotExistingNode",
            none(),
            for_missing_node(),
            (0, 1, 0),
        ),
        (
            "KillFailedPods: normal (do nothing)",
            none(),
            with_pods(nodes(1), &[("node-0", 1)]),
            (0, 0, 0),
        ),
        (
            "KillFailedPods: no pods (create 1)",
            none(),
            nodes(1),
            (1, 0, 0),
        ),
        (
            "KillFailedPods: 1 failed pod (kill 1), 0 normal pod (create 0; will create in the next sync)",
            none(),
            failed(with_pods(nodes(1), &[("node-0", 1)])),
            (0, 1, 1),
        ),
        (
            "KillFailedPods: 1 failed pod (kill 1), 3 normal pods (kill 2)",
            none(),
            with_pods(
                failed(with_pods(nodes(1), &[("node-0", 1)])),
                &[("node-0", 3)],
            ),
            (0, 3, 1),
        ),
    ];
    for (name, spec, mut model, expected) in cases {
        model.ds = selecting(spec)(model.ds);
        assert_eq!(model.sync(), expected, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn daemon_kill_failed_pods_backoff() {
    let mut model = failed(with_pods(nodes(1), &[("node-0", 1)]));
    let pod = model.pods[0].clone();
    assert_eq!(model.sync(), (0, 1, 1), "the first sync deletes the pod");
    model.pods = vec![pod.clone()];
    assert_eq!(
        model.sync(),
        (0, 0, 0),
        "the back-off limits the second sync"
    );
    tokio::time::advance(Duration::from_millis(999)).await;
    assert_eq!(
        model.sync(),
        (0, 0, 0),
        "just before the end of the back-off"
    );
    tokio::time::advance(Duration::from_millis(1)).await;
    assert_eq!(model.sync(), (0, 1, 1), "at its end");
    model.pods = vec![pod];
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(model.sync(), (0, 0, 0), "the next back-off is longer");
}

/// kubernetes/kubernetes#124388: upstream creates a further pod in each of these syncs.
#[tokio::test(start_paused = true)]
async fn a_failed_pod_in_its_back_off_gets_no_further_pod_beside_it() {
    let mut model = nodes(1);
    model.limit(1, 0);
    model.add_pods("node-0", 1);
    model = failed(model);
    assert_eq!(
        model.sync(),
        (1, 1, 1),
        "surge replaces the first one at once"
    );
    model = failed(model);
    for _ in 0..5 {
        assert_eq!(model.sync(), (0, 0, 0), "in back-off");
    }
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(model.sync(), (1, 1, 1), "after the back-off");
}

#[test]
fn finished_pods_are_deleted_with_an_event() {
    // (phase, type, reason, message)
    let cases = [
        (
            "Failed",
            "Warning",
            "FailedDaemonPod",
            "Found failed daemon pod default/pod-1 on node node-0, will try to kill it",
        ),
        (
            "Succeeded",
            "Normal",
            "SucceededDaemonPod",
            "Found succeeded daemon pod default/pod-1 on node node-0, will try to delete it",
        ),
    ];
    for (phase, kind, reason, message) in cases {
        let mut model = with_pods(nodes(1), &[("node-0", 1)]);
        model.pods[0] = model.pods[0].clone().phase(phase);
        let events = model.events();
        assert_eq!(events, [(kind, reason, message.to_owned())], "{phase}");
    }
}

/// Pods of node-1 for the tests of surge: one of the current revision, and older ones.
fn surging(min_ready_seconds: i32, now: i64) -> Model {
    let mut model = nodes(5);
    model.now = now;
    model.ds = model.ds.spec("minReadySeconds", min_ready_seconds);
    model.limit(1, 0);
    model
}

/// Adds a pod of an old revision that was created at `created`.
fn old_pod(model: &mut Model, node: &str, created: i64, ready: bool) -> String {
    let labels = json!({"app": "web"});
    let pod = model
        .new_pod(node)
        .node(node)
        .labels(labels)
        .created(created);
    let pod = if ready {
        pod.ready_since(0)
    } else {
        pod.not_ready()
    };
    let name = pod.0["metadata"]["name"].as_str().unwrap().to_owned();
    model.pods.push(pod);
    name
}

#[test]
fn surge_deals_with_existing_pods() {
    let mut model = with_pods(
        surging(0, 1000),
        &[("node-1", 1), ("node-2", 2), ("node-3", 5)],
    );
    assert_eq!(model.sync(), (2, 5, 0));
}

#[test]
fn surge_decides_between_old_and_new_pods() {
    // (upstream's test, minReadySeconds, now, whether the new pod is ready since second 50,
    // whether the oldest pod is ready, deleted: oldest, second oldest)
    let cases = [
        (
            "SurgePreservesReadyOldPods",
            0,
            1000,
            false,
            true,
            (false, true),
        ),
        (
            "SurgeDeletesUnreadyOldPods",
            0,
            1000,
            false,
            false,
            (true, true),
        ),
        (
            "SurgePreservesOldReadyWithUnsatisfiedMinReady",
            15,
            60,
            true,
            true,
            (false, true),
        ),
        (
            "SurgeDeletesOldReadyWithUnsatisfiedMinReady",
            15,
            70,
            true,
            true,
            (true, true),
        ),
    ];
    for (name, min_ready_seconds, now, new_ready, old_ready, deleted) in cases {
        let mut model = surging(min_ready_seconds, now);
        let new = model.new_pod("node-1").node("node-1").created(100);
        let new = if new_ready { new.ready_since(50) } else { new };
        model.pods.push(new);
        let oldest = old_pod(&mut model, "node-1", 50, old_ready);
        let second = old_pod(&mut model, "node-1", 60, true);
        model.add_pods("node-2", 1);
        let count = [deleted.0, deleted.1].iter().filter(|is| **is).count();
        assert_eq!(model.sync(), (3, count, 0), "{name}");
        let is_gone = |pod: &str| !model.pods.iter().any(|p| p.0["metadata"]["name"] == pod);
        assert_eq!((is_gone(&oldest), is_gone(&second)), deleted, "{name}");
    }
}

#[test]
fn surge_creates_new_pod_when_at_max_surge_and_old_pod_deleted() {
    let mut model = surging(0, 1000);
    let new = model
        .new_pod("node-0")
        .node("node-0")
        .created(100)
        .not_ready();
    model.pods.push(new);
    old_pod(&mut model, "node-0", 50, true);
    for number in 1..5 {
        old_pod(&mut model, &format!("node-{number}"), 1, true);
    }
    let last = model.pods.len() - 1;
    model.pods[last] = model.pods[last].clone().deleted(31);
    assert_eq!(model.sync(), (1, 0, 0), "node-4 has only a terminating pod");
    assert_eq!(model.sync(), (0, 0, 0));
}

/// One sync deletes `deleted` pods, the next one creates as many, and the third one waits.
fn replaces(model: &mut Model, deleted: usize) {
    assert_eq!(model.sync(), (0, deleted, 0));
    assert_eq!(model.sync(), (deleted, 0, 0));
    assert_eq!(model.sync(), (0, 0, 0));
}

#[test]
fn daemon_set_updates_pods() {
    let mut model = Model::running(5);
    model.change_template("second");
    model.limit(Value::Null, 2);
    for deleted in [2, 2, 1] {
        replaces(&mut model, deleted);
        model.mark_ready();
    }
    assert_eq!(model.sync(), (0, 0, 0));
}

#[test]
fn daemon_set_updates_pods_with_max_surge() {
    let mut model = Model::running(5);
    model.change_template("second");
    model.limit(2, 0);
    for expected in [(2, 0, 0), (2, 2, 0), (1, 2, 0), (0, 1, 0)] {
        assert_eq!(model.sync(), expected);
        assert_eq!(model.sync(), (0, 0, 0));
        model.mark_ready();
    }
}

#[test]
fn daemon_set_updates_pods_not_match_taint_with_max_surge() {
    const KEY: &str = "node-role.kubernetes.io/control-plane";
    let mut model = nodes(5);
    model.limit(1, 0);
    model.nodes[0]["spec"] = json!({"taints": [{"key": KEY, "effect": "NoSchedule"}]});
    let tolerations = json!([{"key": KEY, "operator": "Exists"}]);
    model.ds = model.ds.pod_spec(json!({ "tolerations": tolerations }));
    assert_eq!(model.sync(), (5, 0, 0));
    model.mark_ready();
    model.ds = model.ds.pod_spec(json!({"tolerations": []}));
    model.change_template("second");
    for expected in [(1, 1, 0), (1, 1, 0), (1, 1, 0), (1, 1, 0), (0, 1, 0)] {
        assert_eq!(model.sync(), expected);
        assert_eq!(model.sync(), (0, 0, 0));
        model.mark_ready();
    }
}

#[test]
fn daemon_set_updates_when_new_pod_is_not_ready() {
    let mut model = Model::running(5);
    model.change_template("second");
    model.limit(Value::Null, 3);
    replaces(&mut model, 3);
}

#[test]
fn daemon_set_updates_some_old_pods_not_ready() {
    let mut model = Model::running(5);
    model.limit(Value::Null, 2);
    for template in ["second", "third"] {
        model.change_template(template);
        replaces(&mut model, 2);
    }
    assert_eq!(model.ready_pods().len(), 3);
}

#[test]
fn daemon_set_updates_save_old_healthy_pods() {
    let mut model = Model::running(20);
    model.change_template("second");
    model.limit(Value::Null, 10);
    replaces(&mut model, 10);
    let old = model.ready_pods();
    // Upstream takes ten random numbers below 10.
    for max_unavailable in 0..10 {
        model.change_template(&format!("third-{max_unavailable}"));
        model.limit(Value::Null, max_unavailable);
        replaces(&mut model, 10);
        assert_eq!(model.ready_pods(), old, "maxUnavailable {max_unavailable}");
    }
    model.change_template("fourth");
    model.limit(Value::Null, 11);
    replaces(&mut model, 11);
    assert_eq!(model.ready_pods().len(), 9);
}

#[test]
fn daemon_set_updates_all_old_not_ready_pods_and_new_not_ready_pods() {
    let mut model = Model::running(100);
    model.change_template("second");
    model.limit(Value::Null, 10);
    for _ in 0..10 {
        assert_eq!(model.sync(), (0, 10, 0));
        assert_eq!(model.sync(), (10, 0, 0));
        model.mark_ready();
    }
    assert_eq!(model.sync(), (0, 0, 0));
    // 88 unavailable new pods, 2 unavailable old pods and 10 available old pods.
    for (number, pod) in model.pods.iter_mut().enumerate() {
        if number >= 10 {
            *pod = pod.clone().not_ready();
        }
        if number < 12 {
            pod.0["metadata"]["labels"][REVISION_LABEL] = json!("first");
        }
    }
    let old = [10, 11].map(|number| model.pods[number].0["metadata"]["name"].clone());
    replaces(&mut model, 2);
    let is_old = |pod: &Value| old.contains(&pod["metadata"]["name"]);
    assert!(!model.pods.iter().any(|pod| is_old(&pod.0)));
}

#[test]
fn daemon_set_updates_all_old_pods_not_ready() {
    let mut model = nodes(5);
    assert_eq!(model.sync(), (5, 0, 0));
    model.change_template("second");
    model.limit(Value::Null, 3);
    replaces(&mut model, 5);
}

#[test]
fn daemon_set_updates_all_old_pods_not_ready_max_surge() {
    let mut model = nodes(5);
    assert_eq!(model.sync(), (5, 0, 0));
    model.change_template("second");
    model.limit(3, 0);
    model.now = 1100;
    assert_eq!(model.sync(), (5, 0, 0), "all old pods are unavailable");
    model.now = 1200;
    assert_eq!(
        model.sync(),
        (0, 5, 0),
        "neither old nor new pods are ready"
    );
    model.mark_ready();
    model.ds = model.ds.clone().spec("minReadySeconds", 15);
    model.change_template("third");
    model.now = 1300;
    assert_eq!(model.sync(), (3, 0, 0), "three additional pods");

    let is_new = |pod: &Value| pod["metadata"]["labels"][REVISION_LABEL] == "third";
    let target = |pod: &Value| pod["spec"]["affinity"].clone();
    model.set_ready(true, 2, is_new);
    let with_new: Vec<Value> = model
        .pods
        .iter()
        .filter(|pod| is_new(&pod.0))
        .map(|pod| target(&pod.0))
        .collect();
    model.set_ready(false, 1, |pod| {
        !is_new(pod) && !with_new.contains(&target(pod))
    });
    model.now = 1310;
    assert_eq!(
        model.sync(),
        (1, 0, 0),
        "beside the old pod that is not ready"
    );
    model.now = 1320;
    assert_eq!(model.sync(), (1, 3, 0), "two new pods are available");
    model.set_ready(true, 3, is_new);
    model.now = 1340;
    assert_eq!(model.sync(), (0, 2, 0), "the other new pods are available");
    model.now = 1350;
    assert_eq!(model.sync(), (0, 0, 0));
}

#[test]
fn daemon_set_updates_no_template_changed() {
    let mut model = nodes(5);
    assert_eq!(model.sync(), (5, 0, 0));
    model.limit(Value::Null, 3);
    assert_eq!(model.sync(), (0, 0, 0));
}

/// Upstream deletes a terminating pod of a missing node again in each sync.
#[test]
fn an_unbound_pod_of_a_missing_node_is_deleted_once() {
    // (terminating, deletions)
    for (is_terminating, deletions) in [(false, 1), (true, 0)] {
        let mut model = Model::running(1);
        let gone = model.new_pod("gone");
        let gone = if is_terminating {
            gone.deleted(1)
        } else {
            gone
        };
        model.pods.push(gone);
        assert_eq!(model.sync(), (0, deletions, 0), "{is_terminating}");
    }
}

/// Upstream's update fails as a whole until the pod is gone.
#[test]
fn surge_ignores_old_pods_on_nodes_that_do_not_exist() {
    for ready in [true, false] {
        let mut model = Model::running(2);
        let gone = model.new_pod("gone").node("gone");
        model
            .pods
            .push(if ready { gone.ready_since(0) } else { gone });
        model.change_template("second");
        model.limit(1, 0);
        assert_eq!(model.sync(), (1, 0, 0), "ready: {ready}");
    }
}
