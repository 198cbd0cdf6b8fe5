//! Tests of the service controller against the in-memory API server.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_devcluster::faults::Matcher;
use steersman_devcluster::status::Status;
use tokio::time::Instant;

use super::changes::FINALIZER;
use super::*;
use crate::provider::CloudError;
use crate::testing::cloud::{ADDRESS, FakeCloud};
use crate::testing::world::World;

const WEB: &str = "/api/v1/namespaces/default/services/web";

fn failure() -> CloudError {
    CloudError::failed("out of order")
}

fn service(name: &str, kind: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"type": kind, "ports": [{"port": 80}]},
    })
}

/// A cluster with the nodes `a` and `b` and a running controller.
async fn world() -> World {
    let mut world = World::new(FakeCloud::default());
    world.create_node("a", "10.1.0.0/24", "True").await;
    world.create_node("b", "10.1.1.0/24", "False").await;
    world.start(descriptor::<FakeCloud>(), &[]).await;
    world
}

impl World {
    fn address(&self, name: &str) -> Option<String> {
        let service = self.object("services", name)?;
        let ip = &service["status"]["loadBalancer"]["ingress"][0]["ip"];
        ip.as_str().map(str::to_owned)
    }

    async fn until_served(&self, name: &str) {
        self.until("the Service has an address", || {
            self.address(name).as_deref() == Some(ADDRESS)
        })
        .await;
    }

    /// The Service `web`, with its load balancer.
    async fn create_web(&self) {
        self.create(service("web", "LoadBalancer")).await;
        self.until_served("web").await;
        self.pass(2).await;
    }

    fn uid(&self) -> Value {
        self.object("services", "web").unwrap()["metadata"]["uid"].clone()
    }

    /// The writes without the version that each of them names.
    fn versioned_writes(&self) -> Vec<(String, Value)> {
        let mut writes = self.writes();
        for (path, body) in &mut writes {
            let metadata = body["metadata"].as_object_mut().unwrap();
            let version = metadata.shift_remove("resourceVersion");
            assert!(version.is_some_and(|version| version.is_string()), "{path}");
        }
        writes
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_gets_a_load_balancer_and_its_address() {
    let world = world().await;
    world.create_web().await;
    world.pass(120).await;
    assert_eq!(world.cloud.calls(), ["ensure web a b"]);
    assert_eq!(
        world.events(),
        [
            "Normal EnsuringLoadBalancer Ensuring load balancer",
            "Normal EnsuredLoadBalancer Ensured load balancer",
        ]
    );
    let path = format!("patch {WEB}/status");
    let uid = world.uid();
    let expected = [
        json!({"metadata": {"uid": uid, "finalizers": [FINALIZER]}}),
        json!({"metadata": {"uid": uid}, "status": {"loadBalancer": {"ingress": [{"ip": ADDRESS}]}}}),
    ];
    assert_eq!(
        world.versioned_writes(),
        expected.map(|body| (path.clone(), body))
    );
}

#[tokio::test(start_paused = true)]
async fn a_service_of_another_type_loses_its_load_balancer() {
    let world = world().await;
    world.create_web().await;
    world.cloud.calls();
    world.cluster.clear_requests();
    world
        .patch(WEB, json!({"spec": {"type": "ClusterIP"}}))
        .await;
    world
        .until("the address is gone", || world.address("web").is_none())
        .await;
    world.pass(60).await;
    assert_eq!(world.cloud.calls(), ["get web", "delete web"]);
    assert_eq!(
        world.events()[2..],
        [
            "Normal DeletingLoadBalancer Deleting load balancer",
            "Normal DeletedLoadBalancer Deleted load balancer",
        ]
    );
    // The API server itself has cleared the address of another type.
    let delete = json!({"uid": world.uid(), "$deleteFromPrimitiveList/finalizers": [FINALIZER]});
    let expected = (format!("patch {WEB}/status"), json!({"metadata": delete}));
    assert_eq!(world.versioned_writes(), [expected]);
    let web = world.object("services", "web").unwrap();
    assert_eq!(web["metadata"]["finalizers"], json!(null));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_service_stays_until_its_load_balancer_is_deleted() {
    let world = world().await;
    world.create_web().await;
    world.cloud.fail("delete", 2, failure);
    world.cluster.delete(WEB).await.unwrap();
    world.pass(4).await;
    assert!(
        world.object("services", "web").is_some(),
        "the finalizer keeps it"
    );
    world
        .until("the Service is gone", || {
            world.object("services", "web").is_none()
        })
        .await;
    assert!(world.cloud.balancers().is_empty());
    world.pass(60).await;
    let reasons = world.reasons();
    assert_eq!(
        reasons[2..4],
        ["DeletingLoadBalancer", "SyncLoadBalancerFailed"]
    );
    assert_eq!(reasons.last().unwrap(), "DeletedLoadBalancer");
    let failed = "Warning SyncLoadBalancerFailed Error syncing load balancer: failed to delete load balancer: out of order";
    assert!(
        world.events().iter().any(|event| event == failed),
        "{:#?}",
        world.events()
    );
}

/// Upstream: `TestSyncLoadBalancerIfNeeded`, `TestProcessServiceCreateOrUpdate`, `TestSyncService`.
#[tokio::test(start_paused = true)]
async fn type_class_finalizer_and_deletion_decide_about_a_service() {
    let with = |kind: &str, changes: Value| {
        let mut service = service("web", kind);
        for (part, fields) in changes.as_object().unwrap() {
            for (field, value) in fields.as_object().unwrap() {
                service[part][field] = value.clone();
            }
        }
        service
    };
    let finalizer = json!({"metadata": {"finalizers": [FINALIZER]}});
    let port = |protocol| json!({"spec": {"ports": [{"port": 80, "protocol": protocol}]}});
    let class = json!({"spec": {"loadBalancerClass": "example.com/other"}});
    // (why, Service, has a load balancer, calls, patches)
    let cases: [(&str, Value, bool, &[&str], usize); 8] = [
        ("another type", service("web", "ClusterIP"), false, &[], 0),
        (
            "UDP",
            with("LoadBalancer", port("UDP")),
            false,
            &["ensure web a b"],
            2,
        ),
        (
            "TCP",
            service("web", "LoadBalancer"),
            false,
            &["ensure web a b"],
            2,
        ),
        (
            "SCTP",
            with("LoadBalancer", port("SCTP")),
            false,
            &["ensure web a b"],
            2,
        ),
        ("a class", with("LoadBalancer", class), false, &[], 0),
        (
            "finalizer",
            with("LoadBalancer", finalizer.clone()),
            false,
            &["ensure web a b"],
            1,
        ),
        (
            "another type now",
            with("ClusterIP", finalizer.clone()),
            true,
            &["get web", "delete web"],
            1,
        ),
        (
            "another type, none left",
            with("ClusterIP", finalizer),
            false,
            &["get web"],
            1,
        ),
    ];
    for (why, service, has_balancer, calls, patches) in cases {
        let world = world().await;
        if has_balancer {
            world.cloud.put_balancer("web");
        }
        world.create(service).await;
        world.pass(100).await;
        assert_eq!(world.cloud.calls(), calls, "{why}");
        assert_eq!(
            world.writes().len(),
            patches,
            "{why}: {:#?}",
            world.writes()
        );
    }
}

/// Upstream: `TestServiceQueueDelay`.
#[tokio::test(start_paused = true)]
async fn failures_back_off_and_planned_waits_do_not() {
    let retry_after = || CloudError::RetryAfter {
        message: "in progress".to_owned(),
        after: Duration::from_secs(42),
    };
    // (failure, times, seconds until success, message)
    let cases: [(fn() -> CloudError, usize, u64, &str); 3] = [
        (failure, 0, 0, ""),
        (
            failure,
            8,
            5 + 10 + 20 + 40 + 80 + 160 + 300 + 300,
            "out of order",
        ),
        (retry_after, 3, 3 * 42, "in progress"),
    ];
    for (failure, times, seconds, message) in cases {
        let world = world().await;
        world.cloud.fail("ensure", times, failure);
        let began = Instant::now();
        world.create(service("web", "LoadBalancer")).await;
        world.until_served("web").await;
        assert_eq!(began.elapsed().as_secs(), seconds, "{message}");
        let failed = format!(
            "Warning SyncLoadBalancerFailed Error syncing load balancer: failed to ensure load balancer: {message}"
        );
        let found = world
            .events()
            .iter()
            .filter(|event| **event == failed)
            .count();
        assert_eq!(found, usize::from(times > 0), "{:#?}", world.events());
    }
}

#[tokio::test(start_paused = true)]
async fn a_load_balancer_of_another_controller_is_left_alone() {
    let world = world().await;
    world
        .cloud
        .fail("ensure", 1, || CloudError::ImplementedElsewhere);
    world.create(service("web", "LoadBalancer")).await;
    world.pass(60).await;
    assert_eq!(world.cloud.calls(), ["ensure web a b"]);
    assert_eq!(world.reasons(), ["EnsuringLoadBalancer"]);
    assert_eq!(world.writes().len(), 1, "the finalizer");
}

/// Upstream: `TestUpdateNodesInExternalLoadBalancer`, `TestNodeChangesForStableNodeSetEnabled`,
/// `TestNodeChangesInExternalLoadBalancer`.
#[tokio::test(start_paused = true)]
async fn load_balancers_follow_the_nodes() {
    const LABEL: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
    let mut world = World::new(FakeCloud::default());
    world.create_node("a", "10.1.0.0/24", "True").await;
    world.create_node("b", "10.1.1.0/24", "True").await;
    let flags = [("concurrent-service-syncs", "3")];
    world.start(descriptor::<FakeCloud>(), &flags).await;
    for name in ["s0", "s1", "s2"] {
        world.create(service(name, "LoadBalancer")).await;
        world.until_served(name).await;
    }
    world.create(service("inner", "ClusterIP")).await;
    world.pass(5).await;
    world.cloud.calls();
    // (why, node, changes of the node; none for a deletion, nodes of the update)
    let b = "/api/v1/nodes/b";
    let taint = |key: &str| json!({"spec": {"taints": [{"key": key, "effect": "NoSchedule"}]}});
    let cases = [
        ("another taint", b, Some(taint("x")), None),
        (
            "the taint of the autoscaler waits for another change",
            b,
            Some(taint("ToBeDeletedByClusterAutoscaler")),
            None,
        ),
        (
            "the autoscaler's node goes with the next change",
            "/api/v1/nodes/a",
            Some(json!({"spec": {"providerID": "p://1"}})),
            Some("a"),
        ),
        ("no taint", b, Some(json!({"spec": {"taints": null}})), None),
        (
            "provider ID",
            b,
            Some(json!({"spec": {"providerID": "p://2"}})),
            Some("a b"),
        ),
        (
            "excluded",
            b,
            Some(json!({"metadata": {"labels": {LABEL: ""}}})),
            Some("a"),
        ),
        (
            "still excluded",
            b,
            Some(json!({"metadata": {"labels": {LABEL: "true"}}})),
            None,
        ),
        (
            "included",
            b,
            Some(json!({"metadata": {"labels": {LABEL: "false"}}})),
            Some("a b"),
        ),
        (
            "a finalizer",
            b,
            Some(json!({"metadata": {"finalizers": ["x/y"]}})),
            None,
        ),
        ("deleted", "/api/v1/nodes/a", None, Some("b")),
    ];
    for (why, path, changes, nodes) in cases {
        match changes {
            Some(changes) => world.patch(path, changes).await,
            None => drop(world.cluster.delete(path).await.unwrap()),
        }
        world.pass(5).await;
        let mut calls = world.cloud.calls();
        calls.sort();
        let call = |name: &str| nodes.map(|nodes| format!("update {name} {nodes}"));
        let expected: Vec<String> = ["s0", "s1", "s2"].into_iter().filter_map(call).collect();
        assert_eq!(calls, expected, "{why}");
    }
    let not_ready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    world.patch("/api/v1/nodes/b/status", not_ready).await;
    world.pass(5).await;
    assert_eq!(world.cloud.calls(), [""; 0], "readiness does not matter");

    world
        .patch(b, json!({"metadata": {"labels": {LABEL: ""}}}))
        .await;
    world.pass(5).await;
    assert_eq!(world.cloud.calls().len(), 3, "no nodes");
    let none = "Warning UnAvailableLoadBalancer There are no available nodes for LoadBalancer";
    assert_eq!(
        world.events().iter().filter(|event| *event == none).count(),
        3
    );
    let metrics = world.registry.gather();
    let value = |name: &str| {
        let family = metrics.iter().find(|family| family.name() == name).unwrap();
        let metric = &family.get_metric()[0];
        metric.get_counter().get_value() as u64 + metric.get_histogram().get_sample_count()
    };
    assert_eq!(value("service_controller_loadbalancer_sync_total"), 6 * 3);
    assert_eq!(value("service_controller_nodesync_error_total"), 0);
    assert_eq!(
        value("service_controller_update_loadbalancer_host_latency_seconds"),
        6 * 3
    );
    assert!(value("service_controller_nodesync_latency_seconds") >= 6);
}

#[tokio::test(start_paused = true)]
async fn a_failed_update_of_nodes_ensures_the_service() {
    let ensured = ["update web a b c", "get web", "ensure web a b c"];
    // (calls that fail, exists, calls)
    let cases: [(&[&str], bool, &[&str]); 3] = [
        (&["update"], true, &ensured),
        (&["update", "get"], true, &ensured),
        (&["update"], false, &["update web a b c", "get web"]),
    ];
    for (failing, exists, calls) in cases {
        let world = world().await;
        world.create_web().await;
        for call in ["update", "get"] {
            if failing.contains(&call) {
                world.cloud.fail(call, 1, failure);
            }
        }
        if !exists {
            world.cloud.lose_balancer("web");
        }
        world.cloud.calls();
        world.create_node("c", "10.1.2.0/24", "True").await;
        world.pass(3).await;
        assert_eq!(world.cloud.calls(), calls);
        let text = "Warning UpdateLoadBalancerFailed Error updating load balancer with new hosts [a b c] [node names limited, total number of nodes: 3], error: out of order";
        let found = world.events().iter().any(|event| event == text);
        assert_eq!(found, exists, "{:#?}", world.events());
    }
}

/// Upstream: `TestSlowNodeSync`.
#[tokio::test(start_paused = true)]
async fn a_slow_pass_over_nodes_repeats_no_newer_sync() {
    let world = world().await;
    for name in ["one", "two"] {
        world.create(service(name, "LoadBalancer")).await;
        world.until_served(name).await;
    }
    world.cloud.calls();
    world.cloud.hold("update");
    world.create_node("c", "10.1.2.0/24", "True").await;
    world
        .until("the pass began", || !world.cloud.seen().is_empty())
        .await;
    let slow = world.cloud.calls();
    let other = if slow[0].starts_with("update one") {
        "two"
    } else {
        "one"
    };
    assert_eq!(slow.len(), 1, "one worker");

    world.create_node("d", "10.1.3.0/24", "True").await;
    let path = format!("/api/v1/namespaces/default/services/{other}");
    let changed = json!({"metadata": {"annotations": {"touched": "yes"}}});
    world.patch(&path, changed).await;
    world.pass(5).await;
    assert_eq!(world.cloud.calls(), [format!("ensure {other} a b c d")]);
    world.cloud.release("update");
    world.pass(5).await;
    let rest = world.cloud.calls();
    let first = slow[0].replace("a b c", "a b c d");
    assert_eq!(rest, [first], "only the slow one gets the last node");
}

/// Upstream: `TestProcessServiceDeletion`.
#[tokio::test(start_paused = true)]
async fn a_service_that_vanishes_without_finalizer_takes_its_load_balancer_along() {
    let world = world().await;
    world.create_web().await;
    world.cloud.calls();
    world.cloud.fail("delete", 1, failure);
    world
        .patch(WEB, json!({"metadata": {"finalizers": null}}))
        .await;
    world.cluster.delete(WEB).await.unwrap();
    // The controller learns of it at the next event for the key.
    world.create(service("web", "ClusterIP")).await;
    world
        .patch(WEB, json!({"spec": {"type": "LoadBalancer"}}))
        .await;
    world
        .until("the new one is served", || world.address("web").is_some())
        .await;
    assert_eq!(
        world.cloud.calls(),
        ["delete web", "delete web", "ensure web a b"]
    );
    let failed = "Warning DeleteLoadBalancerFailed Error deleting load balancer: out of order";
    assert!(
        world.events().iter().any(|event| event == failed),
        "{:#?}",
        world.events()
    );
}

#[tokio::test(start_paused = true)]
async fn a_service_that_vanishes_during_its_back_off_leaves_no_load_balancer() {
    let world = world().await;
    world.cloud.fail("ensure", 1, failure);
    world.create(service("web", "LoadBalancer")).await;
    world.pass(2).await;
    let changes = json!({"metadata": {"finalizers": null}});
    world.patch(WEB, changes).await;
    world.cluster.delete(WEB).await.unwrap();
    world.pass(10).await;
    assert_eq!(world.cloud.calls(), ["ensure web a b", "delete web"]);
    assert_eq!(world.reasons().last().unwrap(), "DeletedLoadBalancer");
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_with_an_old_cache_keeps_load_balancers() {
    let mut world = world().await;
    world.create_web().await;
    world.stop().await;
    world
        .patch(WEB, json!({"spec": {"type": "ClusterIP"}}))
        .await;
    let revision = world.cluster.revision();
    world
        .patch(WEB, json!({"spec": {"type": "LoadBalancer"}}))
        .await;
    world.cloud.calls();
    let services = Matcher {
        resource: Some("services".to_owned()),
        ..Matcher::default()
    };
    let view = world.cluster.faults().hold_view(services, revision);
    world.start(descriptor::<FakeCloud>(), &[]).await;
    world.pass(20).await;
    let calls = world.cloud.calls();
    assert!(
        !calls.is_empty() && calls.iter().all(|call| call == "get web"),
        "{calls:?}"
    );
    world.cluster.faults().remove(view);
    world
        .until("the Service is ensured", || {
            world
                .cloud
                .seen()
                .iter()
                .any(|call| call.starts_with("ensure web"))
        })
        .await;
    assert!(
        world
            .cloud
            .seen()
            .iter()
            .all(|call| !call.starts_with("delete"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_failed_patch_is_reported_and_repeated() {
    use steersman_devcluster::faults::internal_error;
    // (patches that succeed before, reason of the failure)
    let cases = [
        (0, "failed to add load balancer cleanup finalizer"),
        (1, "failed to update load balancer status"),
    ];
    for (before, reason) in cases {
        let world = world().await;
        if before == 0 {
            let matcher = Matcher::new("patch", "services").subresource("status");
            world
                .cluster
                .faults()
                .reject(matcher, internal_error(), Some(1));
        } else {
            world.cloud.hold("ensure");
        }
        world.create(service("web", "LoadBalancer")).await;
        if before == 1 {
            world
                .until("the provider is called", || !world.cloud.seen().is_empty())
                .await;
            let matcher = Matcher::new("patch", "services").subresource("status");
            world
                .cluster
                .faults()
                .reject(matcher, internal_error(), Some(1));
            world.cloud.release("ensure");
        }
        world.until_served("web").await;
        let text =
            format!("Warning SyncLoadBalancerFailed Error syncing load balancer: {reason}: ");
        world.pass(2).await;
        assert!(
            world.events().iter().any(|event| event.starts_with(&text)),
            "{reason}: {:#?}",
            world.events()
        );
    }
}

/// A Service that changed meanwhile is handled again, in its new state.
#[tokio::test(start_paused = true)]
async fn an_address_waits_for_the_latest_service() {
    let world = world().await;
    world.cloud.hold("ensure");
    let mut web = service("web", "LoadBalancer");
    web["metadata"]["finalizers"] = json!([FINALIZER]);
    world.create(web).await;
    world
        .until("the provider is called", || !world.cloud.seen().is_empty())
        .await;
    let change = json!({"spec": {"type": "ClusterIP"}});
    world.patch(WEB, change).await;
    world.cloud.release("ensure");
    world.pass(60).await;
    assert_eq!(world.address("web"), None);
    assert!(world.cloud.balancers().is_empty());
    let failures = world.events();
    let failures = failures.iter().filter(|event| event.starts_with("Warning"));
    assert_eq!(failures.count(), 0, "{:#?}", world.events());
}

/// A proxy that cannot reach the API server answers 404 as well.
#[tokio::test(start_paused = true)]
async fn the_answer_of_a_proxy_does_not_stand_for_a_written_address() {
    let world = world().await;
    let page = Status::new(404, "NotFound", "404 page not found");
    let writes = Matcher::new("patch", "services").subresource("status");
    world.cluster.faults().reject(writes, page, Some(1));
    let mut web = service("web", "LoadBalancer");
    web["metadata"]["finalizers"] = json!([FINALIZER]);
    world.create(web).await;
    world.pass(60).await;
    assert_eq!(world.address("web").as_deref(), Some(ADDRESS));
}

#[tokio::test(start_paused = true)]
async fn a_cloud_without_load_balancers_switches_the_loop_off() {
    let world = World::new(FakeCloud::without("load balancers"));
    let table = [descriptor::<FakeCloud>()];
    let built = (table[0].init)(&world.context(&table)).unwrap();
    assert!(built.is_switched_off());
}
