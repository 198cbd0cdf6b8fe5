//! Stories of upstream's integration tests (`test/integration/daemonset`), most of them for both
//! strategies.

use serde_json::{Value, json};
use steersman_objects::template::hash;

use super::{A_WHILE, REVISION, agent, is_active, name, node, on_delete, rolling, target};
use crate::testing::world::World;

fn strategies() -> [Value; 2] {
    [on_delete(), rolling(0, 1)]
}

/// A node with these fields of its spec and status.
fn node_with(name: &str, spec: Value, status: Value) -> Value {
    let mut node = node(name);
    node["spec"] = spec;
    node["status"] = status;
    node
}

fn not_ready() -> Value {
    json!({"conditions": [{"type": "Ready", "status": "False"}]})
}

/// `TestOneNodeDaemonLaunchesPod`, `TestSimpleDaemonSetLaunchesPods`,
/// `TestNotReadyNodeDaemonDoesLaunchPod`, `TestInsufficientCapacityNode` and
/// `TestUnschedulableNodeDaemonDoesLaunchPod`.
#[tokio::test(start_paused = true)]
async fn nodes_get_a_pod_in_any_state() {
    let small = json!({"allocatable": {"pods": "0", "memory": "1Mi"}});
    let cordon = |key: &str, effect: &str| json!({"taints": [{"key": format!("node.kubernetes.io/{key}"), "effect": effect}]});
    // (upstream's test, node)
    let cases = [
        ("OneNodeDaemonLaunchesPod", node("n1")),
        (
            "NotReadyNodeDaemonDoesLaunchPod",
            node_with("n1", cordon("not-ready", "NoExecute"), not_ready()),
        ),
        (
            "InsufficientCapacityNode",
            node_with("n1", json!({}), small),
        ),
        (
            "UnschedulableNodeDaemonDoesLaunchPod",
            node_with("n1", cordon("unschedulable", "NoSchedule"), json!({})),
        ),
    ];
    for strategy in strategies() {
        for (test, node) in &cases {
            let world = World::of_nodes(&[]).await;
            world.create(node.clone()).await;
            world.create(agent(strategy.clone())).await;
            world.all_available(1).await;
            assert_eq!(target(&world.agents()[0]), "n1", "{test}");
        }
        let world = World::running(&["n1", "n2", "n3", "n4", "n5"], agent(strategy)).await;
        assert_eq!(world.agents().len(), 5);
    }
}

/// `TestSimpleDaemonSetRestartsPodsOnTerminalPhase`.
#[tokio::test(start_paused = true)]
async fn simple_daemon_set_restarts_pods_on_terminal_phase() {
    const FINALIZER: &str = "test.k8s.io/finalizer";
    // (name, phase, with a finalizer)
    let cases = [
        ("Succeeded", "Succeeded", false),
        ("Failed", "Failed", false),
        ("Succeeded with finalizer", "Succeeded", true),
    ];
    for strategy in strategies() {
        for (case, phase, with_finalizer) in cases {
            let mut ds = agent(strategy.clone());
            if with_finalizer {
                ds["spec"]["template"]["metadata"]["finalizers"] = json!([FINALIZER]);
            }
            let world = World::of_nodes(&["n1", "n2", "n3"]).await;
            world.create(ds).await;
            world
                .with_kubelets(
                    "3 pods",
                    || world.agent_status()["numberAvailable"] == 3,
                    |_| {},
                )
                .await;
            let ended = name(&world.agents()[0]);
            world.pod_status(&ended, json!({ "phase": phase })).await;
            let replaced = || {
                let agents = world.agents();
                let active = agents.iter().filter(|pod| is_active(pod));
                active.count() == 3 && world.agent_status()["numberAvailable"] == 3
            };
            // A pod with a finalizer stays, so kubelets may not delete it a second time.
            for _ in 0..200 {
                if replaced() {
                    break;
                }
                world.bind_pods().await;
                for pod in world.agents().iter().filter(|pod| is_active(pod)) {
                    if !pod["spec"]["nodeName"].is_null() && !super::is_ready(pod) {
                        world.make_ready(&name(pod)).await;
                    }
                }
                if !with_finalizer
                    && world
                        .find("pods", &ended)
                        .is_some_and(|pod| !pod["metadata"]["deletionTimestamp"].is_null())
                {
                    world.kill(&ended).await;
                }
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
            assert!(replaced(), "{case}: {:#?}", world.agents());
            let is_there = world.find("pods", &ended).is_some();
            assert_eq!(is_there, with_finalizer, "{case}");
        }
    }
}

/// `TestDaemonSetWithNodeSelectorLaunchesPods`.
#[tokio::test(start_paused = true)]
async fn daemon_set_with_node_selector_launches_pods() {
    let term = |key: &str, operator: &str, values: Value| {
        let requirement = json!({"key": key, "operator": operator, "values": values});
        let part = if key == "metadata.name" {
            "matchFields"
        } else {
            "matchExpressions"
        };
        json!({ part: [requirement] })
    };
    let terms = json!([
        term("zone", "In", json!(["test"])),
        term("metadata.name", "In", json!(["node-1"])),
    ]);
    for strategy in strategies() {
        let mut ds = agent(strategy);
        ds["spec"]["template"]["spec"]["affinity"] = json!({"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}});
        let world = World::of_nodes(&["node-0", "node-1", "node-2"]).await;
        let mut labelled = node("node-3");
        labelled["metadata"]["labels"] = json!({"zone": "test"});
        world.create(labelled).await;
        world.create(ds).await;
        world.all_available(2).await;
        let mut targets: Vec<String> = world.agents().iter().map(target).collect();
        targets.sort();
        assert_eq!(targets, ["node-1", "node-3"]);
    }
}

/// `TestTaintedNode`.
#[tokio::test(start_paused = true)]
async fn tainted_node() {
    for strategy in strategies() {
        let taints =
            json!({"taints": [{"key": "key1", "value": "value1", "effect": "NoSchedule"}]});
        let world = World::of_nodes(&[]).await;
        world.create(agent(strategy)).await;
        world.create(node_with("tainted", taints, json!({}))).await;
        world.create(node("untainted")).await;
        world.all_available(1).await;
        assert_eq!(target(&world.agents()[0]), "untainted");
        world
            .patch("nodes", "tainted", json!({"spec": {"taints": null}}))
            .await;
        world.all_available(2).await;
    }
}

/// `TestUpdateStatusDespitePodCreationFailure`: a quota admits some of the pods.
#[tokio::test(start_paused = true)]
async fn update_status_despite_pod_creation_failure() {
    use steersman_devcluster::faults::Matcher;
    use steersman_devcluster::status::Status;
    for strategy in strategies() {
        let names: Vec<String> = (0..10).map(|n| format!("n{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let world = World::of_nodes(&names).await;
        let quota = Status::new(
            403,
            "Forbidden",
            "pods \"agent-\" is forbidden: exceeded quota",
        );
        // The sixth creation fails, and all later ones.
        for nth in 6..60 {
            let creation = Matcher::new("create", "pods").nth(nth);
            world
                .cluster
                .faults()
                .reject(creation, quota.clone(), Some(1));
        }
        world.create(agent(strategy)).await;
        let scheduled = |_: &_| world.agent_status()["currentNumberScheduled"] == 5;
        world.until("5 pods in the status", scheduled).await;
        assert_eq!(world.agents().len(), 5);
    }
}

/// A revision of `ds` with the data of `of`, under the name and hash of another template.
fn foreign_revision(ds: &Value, of: &Value, template: &Value) -> Value {
    let hash = hash(template, None);
    let metadata = json!({
        "name": format!("agent-{hash}"), "labels": {"app": "agent", REVISION: hash},
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent",
            "uid": ds["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true}],
    });
    json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": metadata, "data": of["data"],
        "revision": of["revision"].as_i64().unwrap() + 1})
}

/// `TestLaunchWithHashCollision`.
#[tokio::test(start_paused = true)]
async fn launch_with_hash_collision() {
    let world = World::running(&["n1"], agent(rolling(0, 1))).await;
    let ds = world.find("daemonsets", "agent").unwrap();
    let revision = world.cluster.objects("controllerrevisions").remove(0);
    let mut template = ds["spec"]["template"].clone();
    template["spec"]["terminationGracePeriodSeconds"] = json!(1);
    world
        .create(foreign_revision(&ds, &revision, &template))
        .await;
    let change = json!({"spec": {"terminationGracePeriodSeconds": 1}});
    world
        .patch("daemonsets", "agent", json!({"spec": {"template": change}}))
        .await;
    world.all_available(1).await;
    assert_eq!(
        world.agents()[0]["spec"]["terminationGracePeriodSeconds"],
        1
    );
    assert_eq!(world.agent_status()["collisionCount"], 1);
    let suffix = hash(&template, Some(1));
    let names: Vec<String> = world
        .cluster
        .objects("controllerrevisions")
        .iter()
        .map(name)
        .collect();
    assert!(names.contains(&format!("agent-{suffix}")), "{names:?}");
    assert_eq!(world.agents()[0]["metadata"]["labels"][REVISION], suffix);
}

/// `TestDSCUpdatesPodLabelAfterDedupCurHistories`.
#[tokio::test(start_paused = true)]
async fn dsc_updates_pod_label_after_dedup_cur_histories() {
    let world = World::running(&["n1"], agent(rolling(0, 1))).await;
    world.at_rest().await;
    let ds = world.find("daemonsets", "agent").unwrap();
    let revision = world.cluster.objects("controllerrevisions").remove(0);
    let mut template = ds["spec"]["template"].clone();
    template["spec"]["terminationGracePeriodSeconds"] = json!(1);
    let twin = world
        .create(foreign_revision(&ds, &revision, &template))
        .await;
    let before = name(&world.agents()[0]);
    world.create(node("n2")).await;
    world.all_available(2).await;
    world.at_rest().await;
    let revisions = world.cluster.objects("controllerrevisions");
    assert_eq!(
        revisions.iter().map(name).collect::<Vec<_>>(),
        [name(&twin)]
    );
    for pod in world.agents() {
        assert_eq!(
            pod["metadata"]["labels"][REVISION],
            twin["metadata"]["labels"][REVISION]
        );
    }
    assert!(
        world.find("pods", &before).is_some(),
        "the pod is not replaced"
    );
}

/// `TestDaemonSetRollingUpdateWithTolerations`: nodes that the new template excludes lose their pod,
/// and the update of the others does not stop.
#[tokio::test(start_paused = true)]
async fn daemon_set_rolling_update_with_tolerations() {
    const ZONE: &str = "zone";
    for strategy in [rolling(0, 1), rolling(1, 0)] {
        let mut ds = agent(strategy);
        ds["spec"]["template"]["spec"]["tolerations"] =
            json!([{"key": ZONE, "operator": "Exists"}]);
        let world = World::of_nodes(&["n1", "n2", "n3"]).await;
        let taints = json!({"taints": [{"key": ZONE, "effect": "NoSchedule"}]});
        for name in ["t1", "t2"] {
            world
                .create(node_with(name, taints.clone(), json!({})))
                .await;
        }
        world.create(ds).await;
        world.all_available(5).await;
        let change = json!({"spec": {"tolerations": null}});
        world
            .patch("daemonsets", "agent", json!({"spec": {"template": change}}))
            .await;
        let done = || {
            let status = world.agent_status();
            status["updatedNumberScheduled"] == 3 && status["numberAvailable"] == 3
        };
        world.with_kubelets("3 updated pods", done, |_| {}).await;
        tokio::time::sleep(A_WHILE).await;
        world
            .with_kubelets(
                "settled",
                || world.agents().iter().all(super::is_ready),
                |_| {},
            )
            .await;
    }
}
