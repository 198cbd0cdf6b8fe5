//! Scenarios of upstream's unit and integration tests that need a whole controller.
//!
//! Each doc comment names the upstream test. `docs/parity.md` lists all of them.

use super::*;

/// `TestNoSelector`, and `TestEmptySelector` of the integration tests for `policy/v1`.
#[tokio::test(start_paused = true)]
async fn no_selector() {
    let world = World::with_budget(json!({"minAvailable": 3, "selector": {}})).await;
    assert_eq!(world.settled().await, [0, 0, 3, 0]);
    world.run_pod("yo-yo-yo", None).await;
    assert_eq!(world.settled().await, [0, 1, 3, 1]);
}

/// `TestSelectorsForPodsWithoutLabels` of the integration tests, for `policy/v1`.
#[tokio::test(start_paused = true)]
async fn selectors_for_pods_without_labels() {
    let absent = json!({"matchExpressions": [{"key": "DoesNotExist", "operator": "DoesNotExist"}]});
    for selector in [json!({}), absent] {
        let world = World::with_budget(json!({"minAvailable": 1, "selector": selector})).await;
        assert_eq!(world.settled().await, [0, 0, 1, 0], "{selector}");
        let mut bare = pod("pod", None);
        bare["metadata"]["labels"] = json!({});
        world.create(bare).await;
        world.make_ready("pod").await;
        assert_eq!(world.settled().await, [0, 1, 1, 1], "{selector}");
    }
}

/// `TestUnavailable`.
#[tokio::test(start_paused = true)]
async fn unavailable() {
    let world = World::with_budget(json!({"minAvailable": 3})).await;
    for count in 0..4 {
        assert_eq!(world.settled().await, [0, count, 3, count]);
        world.run_pod(&format!("yo-yo-yo-{count}"), None).await;
    }
    assert_eq!(world.settled().await, [1, 4, 3, 4]);
    world.make_unready("yo-yo-yo-0").await;
    assert_eq!(world.settled().await, [0, 3, 3, 4]);
}

/// `TestIntegerMaxUnavailable`, `TestNakedPod`, `TestStatusForUnmanagedPod` and
/// `TestTotalUnmanagedPods`.
#[tokio::test(start_paused = true)]
async fn unmanaged_pods() {
    for limits in [json!({"maxUnavailable": 1}), json!({"minAvailable": "28%"})] {
        let world = World::with_budget(limits.clone()).await;
        assert_eq!(world.settled().await, [0, 0, 0, 0], "{limits}");
        world.run_pod("naked", None).await;
        assert_eq!(world.settled().await, [0, 1, 0, 0], "{limits}");
        assert!(world.shows("False", "InsufficientPods"), "{limits}");
        let events = world.state().events_about(NAME);
        let unmanaged = events.iter().find(|(reason, _)| reason == "UnmanagedPods");
        let (_, message) = unmanaged.expect("an Event tells of the pod");
        let selector = "&LabelSelector{MatchLabels:map[string]string{foo: bar,},MatchExpressions:[]LabelSelectorRequirement{},}";
        let expected = format!(
            "Pods selected by this PodDisruptionBudget (selector: {selector}) were found to be unmanaged. As a result, the status of \
             the PDB cannot be calculated correctly, which may result in undefined behavior. To account for these pods please set \
             \".spec.minAvailable\" field of the PDB to an integer value."
        );
        assert_eq!(*message, expected, "{limits}");
    }
}

/// `TestIntegerMaxUnavailableWithScaling` and `TestPercentageMaxUnavailableWithScaling`.
#[tokio::test(start_paused = true)]
async fn max_unavailable_with_scaling() {
    // (maxUnavailable, numbers with 7 replicas, new size, numbers then)
    let cases = [
        (json!(2), [0, 1, 5, 7], 5, [0, 1, 3, 5]),
        (json!("30%"), [0, 1, 4, 7], 3, [0, 1, 2, 3]),
    ];
    for (limit, before, size, after) in cases {
        let world = World::with_budget(json!({"maxUnavailable": limit})).await;
        let owner = world.create(workload("ReplicaSet", 7)).await;
        world.run_pod("pod", Some(&owner)).await;
        assert_eq!(world.settled().await, before, "{limit}");
        let resize = json!({"spec": {"replicas": size}});
        world.patch("replicasets", NAME, resize).await;
        assert_eq!(world.settled().await, after, "{limit}");
    }
}

/// `TestUnsupportedControllerPod`.
#[tokio::test(start_paused = true)]
async fn unsupported_controller_pod() {
    let world = World::with_budget(json!({"minAvailable": "28%"})).await;
    assert_eq!(world.settled().await, [0, 0, 0, 0]);
    let owner = json!({
        "apiVersion": "apps.test.io/v1", "kind": "TestWorkload",
        "metadata": {"name": "fake-controller", "uid": "b7329742-8daa-493a-8881-6ca07139172b"},
    });
    world.run_pod("naked", Some(&owner)).await;
    assert_eq!(world.settled().await[0], 0);
    let text = "no matches for kind \"TestWorkload\" in version \"apps.test.io/v1\"";
    assert_eq!(world.budget_status()["conditions"][0]["message"], text);
    let expected = (
        "CalculateExpectedPodCountFailed".to_owned(),
        format!("Failed to calculate the number of expected pods: {text}"),
    );
    let events = world.state().events_about(NAME);
    assert!(events.contains(&expected), "{events:?}");
}

/// `TestReplicaSet`.
#[tokio::test(start_paused = true)]
async fn replica_set() {
    let world = World::with_budget(json!({"minAvailable": "20%"})).await;
    let owner = world.create(workload("ReplicaSet", 10)).await;
    world.run_pod("pod", Some(&owner)).await;
    assert_eq!(world.settled().await, [0, 1, 2, 10]);
}

/// `TestMultipleControllers`, up to the assertion that upstream has disabled.
#[tokio::test(start_paused = true)]
async fn multiple_controllers() {
    let world = World::with_budget(json!({"minAvailable": "1%"})).await;
    world.run_pod("pod-0", None).await;
    world.run_pod("pod-1", None).await;
    assert_eq!(world.settled().await[0], 0, "no controllers yet");
    let owner = world.create(workload("ReplicationController", 1)).await;
    for name in ["pod-0", "pod-1"] {
        let owned = json!({"metadata": {"ownerReferences": [reference(&owner)]}});
        world.patch("pods", name, owned).await;
    }
    assert_eq!(world.settled().await[0], 1, "200% of 1% are healthy");
}

/// `TestReplicationController` and `TestStatefulSetController`.
#[tokio::test(start_paused = true)]
async fn replication_controller_and_stateful_set() {
    for kind in ["ReplicationController", "StatefulSet"] {
        let world = World::with_budget(json!({"minAvailable": "34%"})).await;
        let owner = world.create(workload(kind, 3)).await;
        // Only a pod leads to the controller.
        assert_eq!(world.settled().await, [0, 0, 0, 0], "{kind}");
        for count in 1..=3 {
            world
                .run_pod(&format!("foobar-{count}"), Some(&owner))
                .await;
            let allowed = i64::from(count == 3);
            let numbers = world.settled().await;
            assert_eq!(numbers, [allowed, count, 2, 3], "{kind}");
        }
        world.run_pod("rogue", None).await;
        assert_eq!(world.settled().await, [2, 4, 2, 3], "{kind}");
    }
}

/// `TestTwoControllers`.
#[tokio::test(start_paused = true)]
async fn two_controllers() {
    const SIZE: i64 = 11;
    const ONE: i64 = 4;
    const TWO: i64 = 7;
    let world = World::with_budget(json!({"minAvailable": "28%"})).await;
    let first = world.create(workload("ReplicationController", 11)).await;
    assert_eq!(world.settled().await, [0, 0, 0, 0]);
    let add = async |name: String, owner: &Value, ready: bool| {
        world.create(pod(&name, Some(owner))).await;
        if ready {
            world.make_ready(&name).await;
        }
        world.settled().await
    };
    let unready = SIZE - ONE - 1;
    for count in 1..=SIZE {
        let found = add(format!("quux-{count}"), &first, count > unready).await;
        let healthy = (count - unready).max(0);
        let allowed = (healthy - ONE).max(0);
        assert_eq!(found, [allowed, healthy, ONE, SIZE], "{count}");
    }
    let second = world.create(workload("ReplicaSet", 11)).await;
    assert_eq!(world.settled().await, [1, ONE + 1, ONE, SIZE]);
    let unready = 2 * SIZE - (TWO + 2) - unready;
    for count in 1..=SIZE {
        let found = add(format!("quuux-{count}"), &second, count > unready).await;
        let healthy = ONE + 1 + (count - unready).max(0);
        let allowed = (healthy - TWO).max(0);
        assert_eq!(found, [allowed, healthy, TWO, 2 * SIZE], "{count}");
    }
    assert_eq!(world.settled().await, [2, TWO + 2, TWO, 2 * SIZE]);
    world.make_unready("quux-11").await;
    assert_eq!(world.settled().await, [1, TWO + 1, TWO, 2 * SIZE]);
    world.make_unready("quux-10").await;
    assert_eq!(world.settled().await, [0, TWO, TWO, 2 * SIZE]);
    world.make_ready("quux-11").await;
    assert_eq!(world.settled().await, [1, TWO + 1, TWO, 2 * SIZE]);
}

/// `TestInvalidSelectors`. The API server refuses such a selector; here it is put past the server.
#[tokio::test(start_paused = true)]
async fn invalid_selectors() {
    let world = World::with_disruption().await;
    let requirement = json!({"key": "foo", "operator": "illegal", "values": ["bar"]});
    let mut broken =
        budget(json!({"minAvailable": 3, "selector": {"matchExpressions": [requirement]}}));
    let metadata = json!({"name": NAME, "namespace": NAMESPACE, "uid": "u", "generation": 1});
    broken["metadata"] = metadata;
    world.cluster.load(broken).unwrap();
    world.run_pod("a", None).await;
    assert_eq!(world.settled().await, [0, 0, 0, 0]);
    let text = "\"illegal\" is not a valid label selector operator";
    assert_eq!(world.budget_status()["conditions"][0]["message"], text);
    let expected = ("NoPods".to_owned(), format!("Failed to get pods: {text}"));
    let events = world.state().events_about(NAME);
    assert_eq!(events, [expected]);
    let written = world.sent_to(STATUS).len();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(
        world.sent_to(STATUS).len(),
        written,
        "silent until an event"
    );
    world.evict("a").await.unwrap();
}

/// `TestKeepExistingPDBConditionDuringSync`.
#[tokio::test(start_paused = true)]
async fn keep_existing_pdb_condition_during_sync() {
    let world = World::with_budget(json!({"minAvailable": 3, "selector": {}})).await;
    world.at_rest().await;
    let condition = json!({"type": "ExistingTestCondition", "status": "True", "message": "This is a test condition",
        "reason": "Test", "lastTransitionTime": "2026-01-02T03:04:05Z"});
    let own = world.budget_status()["conditions"][0].clone();
    let both = json!({"status": {"conditions": [condition, own]}});
    world.patch_budget("/status", both).await;
    world.run_pod("a", None).await;
    assert_eq!(world.settled().await, [0, 1, 3, 1]);
    assert_eq!(world.budget_status()["conditions"], json!([condition, own]));
}
