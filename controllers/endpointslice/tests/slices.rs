//! Whole syncs: the life of the pods of a Service, foreign changes, stale caches, failures.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_devcluster::faults::{self, Matcher};
use steersman_helpers::endpointslice::SERVICE_NAME;

use super::{NAME, endpoints_of, node, pod, service, service_name, trigger_time};
use crate::endpointslice::DESCRIPTOR;
use crate::testing::gate::Gate;
use crate::testing::world::World;

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn each_change_of_a_pod_is_one_write_of_one_slice() {
    let world = World::with_slices().await;
    let writes = world.writes_of(async {
        world.create(service(json!({}))).await;
    });
    assert_eq!(writes.await, ["create 201"], "the placeholder");
    let placeholder = world.slice();
    let created = world.find("services", NAME).unwrap()["metadata"]["creationTimestamp"].clone();
    assert_eq!(trigger_time(&placeholder), created.as_str());
    assert_eq!(
        (service_name(&placeholder), endpoints_of(&placeholder).len()),
        (&json!(NAME), 0)
    );

    world.create(pod("a", "node")).await;
    assert_eq!(
        world.writes_of(async {}).await,
        [""; 0],
        "a pod without an address"
    );
    let status = json!({"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]});
    let writes = world.writes_of(world.pod_status("a", status));
    assert_eq!(writes.await, ["update 200"]);
    assert_eq!(world.endpoints(), ["10.0.0.1"]);
    assert_eq!(
        world.slice()["metadata"]["name"],
        placeholder["metadata"]["name"],
        "recycled"
    );

    assert_eq!(world.writes_of(world.make_ready("a")).await, ["update 200"]);
    assert_eq!(world.endpoints(), ["10.0.0.1 ready serving"]);
    let pod = world.find("pods", "a").unwrap();
    let since = pod["status"]["conditions"][0]["lastTransitionTime"].clone();
    assert_eq!(trigger_time(&world.slice()), since.as_str());

    assert_eq!(
        world.writes_of(world.delete("pods", "a")).await,
        ["update 200"]
    );
    assert_eq!(world.endpoints(), ["10.0.0.1 serving terminating"]);
    assert_eq!(world.writes_of(world.kill("a")).await, ["update 200"]);
    assert_eq!(world.endpoints(), [""; 0], "the placeholder again");
    assert_eq!(trigger_time(&world.slice()), None);
    assert!(world.service_events().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_finished_pod_leaves_its_slice_even_if_it_was_never_ready() {
    let world = World::with_service(json!({})).await;
    world.start_pod("a", "node", "10.0.0.1").await;
    world.at_rest().await;
    assert_eq!(world.endpoints(), ["10.0.0.1"]);
    let writes = world.writes_of(world.pod_status("a", json!({"phase": "Failed"})));
    assert_eq!(writes.await, ["update 200"]);
    assert_eq!(world.endpoints(), [""; 0]);
}

/// Upstream: `TestEndpointSliceTerminating` of `test/integration/endpointslice`.
#[tokio::test(start_paused = true)]
async fn terminating_pods_serve_as_long_as_they_are_ready() {
    // (why, publish not ready addresses, endpoint before and after the deletion, and once unready)
    let cases = [
        (
            "ready pods",
            false,
            "10.0.0.1 ready serving",
            "10.0.0.1 serving terminating",
            "10.0.0.1 terminating",
        ),
        (
            "published pods",
            true,
            "10.0.0.1 ready serving",
            "10.0.0.1 ready serving terminating",
            "10.0.0.1 ready terminating",
        ),
    ];
    for (why, publish, running, terminating, unready) in cases {
        let world = World::with_service(json!({"publishNotReadyAddresses": publish})).await;
        world.run_pod_at("a", "node", "10.0.0.1").await;
        world.at_rest().await;
        assert_eq!(world.endpoints(), [running], "{why}");
        world.delete("pods", "a").await;
        world.at_rest().await;
        assert_eq!(world.endpoints(), [terminating], "{why}");
        let condition = json!([{"type": "Ready", "status": "False"}]);
        world
            .pod_status("a", json!({"conditions": condition}))
            .await;
        world.at_rest().await;
        assert_eq!(world.endpoints(), [unready], "{why}");
    }
}

#[tokio::test(start_paused = true)]
async fn foreign_changes_of_a_slice_are_reverted() {
    let world = World::with_service(json!({})).await;
    world.run_pod_at("a", "node", "10.0.0.1").await;
    world.at_rest().await;
    let name = world.slice()["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    // (why, change, writes)
    let cases: [(&str, Value, &[&str]); 3] = [
        ("endpoints", json!({"endpoints": []}), &["update 200"]),
        (
            "a label",
            json!({"metadata": {"labels": {"mine": "1"}}}),
            &["update 200"],
        ),
        (
            "an annotation",
            json!({"metadata": {"annotations": {"mine": "1"}}}),
            &[],
        ),
    ];
    for (why, change, expected) in cases {
        let change = async { drop(world.patch("endpointslices", &name, change).await) };
        assert_eq!(world.writes_of(change).await, expected, "{why}");
        let slice = world.slice();
        assert_eq!(world.endpoints(), ["10.0.0.1 ready serving"], "{why}");
        assert_eq!(slice["metadata"]["labels"]["mine"], Value::Null, "{why}");
    }
    let annotations = &world.slice()["metadata"]["annotations"];
    assert_eq!(annotations["mine"], "1", "foreign annotations stay");
    let deletion = world.delete("endpointslices", &name);
    assert_eq!(world.writes_of(deletion).await, ["create 201"]);
    assert_eq!(world.endpoints(), ["10.0.0.1 ready serving"]);
}

#[tokio::test(start_paused = true)]
async fn a_slice_with_the_name_of_another_service_is_replaced() {
    let world = World::with_service(json!({})).await;
    world.run_pod_at("a", "node", "10.0.0.1").await;
    world.at_rest().await;
    let slice = world.slice();
    let lost = slice["metadata"]["name"].as_str().unwrap();
    let label = json!({"metadata": {"labels": {SERVICE_NAME: "other"}}});
    let change = async { drop(world.patch("endpointslices", lost, label).await) };
    assert_eq!(world.writes_of(change).await, ["create 201"]);
    let mut owners: Vec<_> = world.slices().iter().map(service_name).cloned().collect();
    owners.sort_by_key(Value::to_string);
    assert_eq!(owners, ["other", NAME]);
}

#[tokio::test(start_paused = true)]
async fn a_slice_that_was_deleted_after_a_restart_is_created_again() {
    let mut world = World::with_service(json!({})).await;
    world.run_pod_at("a", "node", "10.0.0.1").await;
    world.at_rest().await;
    world.restart(&[DESCRIPTOR]).await;
    assert_eq!(world.writes_of(async {}).await, [""; 0]);
    let name = world.slice()["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    let deletion = world.delete("endpointslices", &name);
    assert_eq!(world.writes_of(deletion).await, ["create 201"]);
}

/// Upstream: `TestSyncServiceEndpointSlicePendingDeletion`.
#[tokio::test(start_paused = true)]
async fn a_terminating_slice_does_not_count() {
    let world = World::with_service(json!({})).await;
    world.run_pod_at("a", "node", "10.0.0.1").await;
    world.at_rest().await;
    let name = world.slice()["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    let finalizers = json!({"metadata": {"finalizers": ["example.com/wait"]}});
    world.patch("endpointslices", &name, finalizers).await;
    let deletion = world.delete("endpointslices", &name);
    assert_eq!(world.writes_of(deletion).await, ["create 201"]);
    assert_eq!(world.slices().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_slice_of_another_address_type_is_deleted() {
    let world = World::with_service(json!({})).await;
    let labels = json!({
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        "kubernetes.io/service-name": NAME,
    });
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "FQDN",
        "metadata": {"name": "names", "labels": labels}, "endpoints": [],
    });
    let creation = async { drop(world.create(slice).await) };
    assert_eq!(world.writes_of(creation).await, ["delete 200"]);
    assert_eq!(world.slices().len(), 1);
}

/// Upstream: `TestServiceExternalNameTypeSync`, and the transition of selectors.
#[tokio::test(start_paused = true)]
async fn slices_stay_when_a_service_no_longer_selects_pods() {
    let external = json!({"type": "ExternalName", "externalName": "example.com", "clusterIP": null, "clusterIPs": null});
    for change in [json!({"selector": null}), external] {
        let world = World::with_service(json!({})).await;
        world.run_pod_at("a", "node", "10.0.0.1").await;
        world.at_rest().await;
        let writes = world.writes_of(async {
            world
                .patch("services", NAME, json!({ "spec": change }))
                .await;
            world.kill("a").await;
        });
        assert_eq!(writes.await, [""; 0], "{change}");
        assert_eq!(world.endpoints(), ["10.0.0.1 ready serving"], "{change}");
    }
}

/// Upstream: `TestSyncServiceMissing`.
#[tokio::test(start_paused = true)]
async fn the_slices_of_a_deleted_service_are_left_to_the_garbage_collector() {
    let world = World::with_service(json!({})).await;
    world.run_pod_at("a", "node", "10.0.0.1").await;
    world.at_rest().await;
    let writes = world.writes_of(async {
        world.delete("services", NAME).await;
        world.kill("a").await;
    });
    assert_eq!(writes.await, [""; 0]);
    let owner = &world.slice()["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["name"]),
        (&json!("Service"), &json!(NAME))
    );
}

/// Upstream: `TestSyncServicePendingDeletion`.
#[tokio::test(start_paused = true)]
async fn a_terminating_service_gets_no_new_slices() {
    let world = World::with_slices().await;
    let mut terminating = service(json!({}));
    terminating["metadata"]["finalizers"] = json!(["example.com/wait"]);
    terminating["metadata"]["deletionTimestamp"] = json!("2026-11-21T02:20:00Z");
    terminating["metadata"]["namespace"] = json!("default");
    terminating["metadata"]["uid"] = json!("uid-of-web");
    world.cluster.load(terminating).unwrap();
    let writes = world.writes_of(world.run_pod_at("a", "node", "10.0.0.1"));
    assert_eq!(writes.await, [""; 0]);
}

/// Upstream: `TestEndpointsHeadlessLabel` of `test/integration/endpointslice`.
#[tokio::test(start_paused = true)]
async fn the_headless_label_follows_the_cluster_ip() {
    // (why, cluster IP, label of the Service, label of the slice)
    let headless = "service.kubernetes.io/headless";
    let cases = [
        ("headless", Some("None"), None, json!("")),
        (
            "headless with the label",
            Some("None"),
            Some("x"),
            json!(""),
        ),
        ("not headless", None, None, Value::Null),
        ("not headless with the label", None, Some("x"), Value::Null),
    ];
    for (why, cluster_ip, label, expected) in cases {
        let world = World::with_slices().await;
        let mut object = service(json!({}));
        if let Some(ip) = cluster_ip {
            object["spec"]["clusterIP"] = json!(ip);
        }
        if let Some(label) = label {
            object["metadata"]["labels"] = json!({headless: label});
        }
        world.create(object).await;
        world.at_rest().await;
        assert_eq!(
            world.slice()["metadata"]["labels"][headless],
            expected,
            "{why}"
        );
    }
}

/// Upstream: `TestReconcileEndpointSlicesServicesLabelsUpdating`.
#[tokio::test(start_paused = true)]
async fn labels_of_the_service_are_copied() {
    let world = World::with_service(json!({})).await;
    let label = |value: Value| json!({"metadata": {"labels": {"team": value}}});
    for value in [json!("a"), json!("b"), Value::Null] {
        let change = async { drop(world.patch("services", NAME, label(value.clone())).await) };
        assert_eq!(world.writes_of(change).await, ["update 200"], "{value}");
        assert_eq!(world.slice()["metadata"]["labels"]["team"], value);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stale_cache_of_slices_leads_to_no_second_write() {
    let world = World::with_service(json!({})).await;
    world.run_pod_at("a", "node", "10.0.0.1").await;
    world.at_rest().await;
    world.cluster.faults().stall_watches("endpointslices");
    let writes = world.writes_of(world.run_pod_at("b", "node", "10.0.0.2"));
    assert_eq!(writes.await, ["update 200"], "the first change is written");
    let writes = world.writes_of(world.run_pod_at("c", "node", "10.0.0.3"));
    assert_eq!(writes.await, [""; 0], "the cache lacks the first write");
    let writes = world.writes_of(async { world.cluster.faults().resume_watches("endpointslices") });
    assert_eq!(writes.await, ["update 200"], "the others are one write");
    let ready = [
        "10.0.0.1 ready serving",
        "10.0.0.2 ready serving",
        "10.0.0.3 ready serving",
    ];
    assert_eq!(world.endpoints(), ready);
    assert!(world.service_events().await.is_empty());
    let text = prometheus::TextEncoder::new()
        .encode_to_string(&world.registry.gather())
        .unwrap();
    assert!(
        text.contains("endpoint_slice_controller_syncs{result=\"stale\"}"),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_missing_node_leaves_out_its_pod_until_it_appears() {
    let world = World::with_service(json!({})).await;
    world.run_pod_at("a", "node", "10.0.0.1").await;
    world.run_pod_at("b", "late", "10.0.0.2").await;
    let text = "skipping Pod b for Service default/web: Node late Not Found";
    let message = format!("Error updating Endpoint Slices for Service default/web: {text}");
    world
        .until("an Event", |state| {
            let expected = ("FailedToUpdateEndpointSlices".to_owned(), message.clone());
            state.events_about(NAME).contains(&expected)
        })
        .await;
    assert_eq!(world.endpoints(), ["10.0.0.1 ready serving"]);
    world.cluster.load(node("late", "b", "4")).unwrap();
    world
        .until("the pod of the late node", |_| world.endpoints().len() == 2)
        .await;
    assert_eq!(world.slices().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_arrival_of_a_node_enqueues_the_services_that_miss_it() {
    let world = World::with_service(json!({})).await;
    world.run_pod_at("a", "late", "10.0.0.1").await;
    // The retries are more than eight minutes apart by now.
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(world.endpoints(), [""; 0]);
    world.cluster.load(node("late", "b", "4")).unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(world.endpoints(), ["10.0.0.1 ready serving"]);
}

#[tokio::test(start_paused = true)]
async fn a_refused_write_is_reported_and_repeated() {
    let world = World::with_service(json!({})).await;
    let ours = |verb: &str| Matcher::new(verb, "endpointslices").client("endpointslice-controller");
    world
        .cluster
        .faults()
        .reject(ours("update"), faults::conflict(), Some(1));
    let writes = world.writes_of(world.start_pod("a", "node", "10.0.0.1"));
    assert_eq!(writes.await, ["update 409", "update 200"]);
    assert_eq!(world.endpoints(), ["10.0.0.1"]);
    let (reason, message) = &world.service_events().await[0];
    assert_eq!(reason, "FailedToUpdateEndpointSlices");
    assert!(
        message.starts_with(
            "Error updating Endpoint Slices for Service default/web: failed to update web-"
        ),
        "{message}"
    );
}

#[tokio::test(start_paused = true)]
async fn failed_syncs_are_repeated_fifteen_times() {
    let world = World::with_service(json!({})).await;
    let ours = Matcher::new("update", "endpointslices").client("endpointslice-controller");
    let rule = world
        .cluster
        .faults()
        .reject(ours, faults::internal_error(), None);
    world.start_pod("a", "node", "10.0.0.1").await;
    // 1 + 2 + ... + 512 + 5 x 1000 seconds, and each request is repeated by the client.
    tokio::time::sleep(7000 * SECOND).await;
    let tried = world.cluster.faults().hits(rule);
    tokio::time::sleep(7000 * SECOND).await;
    assert_eq!(
        world.cluster.faults().hits(rule),
        tried,
        "the Service was dropped"
    );
    assert!(tried >= 16, "{tried}");
    world.cluster.faults().remove(rule);
    assert_eq!(world.writes_of(world.make_ready("a")).await, ["update 200"]);
}

#[tokio::test(start_paused = true)]
async fn both_families_of_a_service_have_slices_and_count() {
    let world = World::with_slices().await;
    let mut both = service(
        json!({"ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack", "clusterIP": "None"}),
    );
    both["spec"]["clusterIPs"] = json!(["None"]);
    both["metadata"]["namespace"] = json!("default");
    both["metadata"]["uid"] = json!("uid-of-web");
    world.cluster.load(both).unwrap();
    world.create(pod("a", "node")).await;
    let ips = json!([{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]);
    world
        .pod_status(
            "a",
            json!({"phase": "Running", "podIP": "10.0.0.1", "podIPs": ips}),
        )
        .await;
    world.at_rest().await;
    assert_eq!(world.endpoints(), ["10.0.0.1", "fd00::1"]);
    let mut types: Vec<String> = world
        .slices()
        .iter()
        .map(|s| s["addressType"].to_string())
        .collect();
    types.sort();
    assert_eq!(types, ["\"IPv4\"", "\"IPv6\""]);
    let text = prometheus::TextEncoder::new()
        .encode_to_string(&world.registry.gather())
        .unwrap();
    for line in [
        "num_endpoint_slices 2",
        "endpoints_desired 2",
        "desired_endpoint_slices 2",
    ] {
        assert!(
            text.contains(&format!("endpoint_slice_controller_{line}\n")),
            "{line} in {text}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_closed_write_gate_leads_to_no_event() {
    let world = World::with_service(json!({})).await;
    let gate = std::sync::Arc::new(Gate::default());
    gate.set_open(false);
    let mut world = world;
    let clients = std::sync::Arc::clone(&world.clients);
    world
        .restart_with(&[DESCRIPTOR], |mut context| {
            let clients = std::sync::Arc::clone(&clients);
            let gate = std::sync::Arc::clone(&gate);
            context.clients =
                std::sync::Arc::new(move |identity: &str| clients(identity).fenced(gate.clone()));
            context
        })
        .await;
    world.start_pod("a", "node", "10.0.0.1").await;
    tokio::time::sleep(10 * SECOND).await;
    assert_eq!(world.endpoints(), [""; 0]);
    gate.set_open(true);
    world
        .until("the pod", |_| world.endpoints() == ["10.0.0.1"])
        .await;
    assert!(world.service_events().await.is_empty());
}
