//! Whole syncs against the in-memory API server, under paused time.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_devcluster::faults::{Matcher, RequestFault, conflict, internal_error};
use steersman_runtime::controller::ControllerContext;

use crate::endpoint::DESCRIPTOR;
use crate::testing::world::World;

const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";
/// Longer than several comparisons of the caches with the API server.
const A_WHILE: Duration = Duration::from_secs(20);

fn service(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "selector": {"app": "web"}, "clusterIP": "None", "ipFamilies": ["IPv4"],
            "ports": [{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}],
        },
    })
}

fn pod(name: &str, ip: &str, ready: bool) -> Value {
    let status = if ready { "True" } else { "False" };
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "web:1"}]},
        "status": {
            "phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
            "conditions": [{
                "type": "Ready", "status": status, "lastTransitionTime": "2023-11-14T22:00:00Z",
            }],
        },
    })
}

fn endpoints(name: &str, annotations: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Endpoints",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations},
        "subsets": [{"addresses": [{"ip": "192.168.0.1"}], "ports": [{"port": 1}]}],
    })
}

fn batched(period: &'static str) -> impl Fn(ControllerContext) -> ControllerContext {
    move |context| context.with_flag("endpoint-updates-batch-period", period)
}

impl World {
    async fn endpoints_controller() -> Self {
        let mut world = Self::bare().await;
        world.restart(&[DESCRIPTOR]).await;
        world
    }

    /// The ready and the not ready addresses of an Endpoints object.
    fn addresses(&self, name: &str) -> Option<[Vec<String>; 2]> {
        let object = self.find("endpoints", name)?;
        let subsets = object["subsets"].as_array().cloned().unwrap_or_default();
        Some(["addresses", "notReadyAddresses"].map(|field| {
            let lists = subsets.iter().filter_map(|subset| subset[field].as_array());
            let ip = |address: &Value| address["ip"].as_str().unwrap().to_owned();
            lists.flatten().map(ip).collect()
        }))
    }

    async fn until_addresses(&self, name: &str, ready: &[&str], not_ready: &[&str]) {
        let expected =
            Some([ready, not_ready].map(|ips| ips.iter().map(|ip| (*ip).into()).collect()));
        let holds = |_: &_| self.addresses(name) == expected;
        self.until(&format!("{name} has {expected:?}"), holds).await;
    }

    fn annotation(&self, name: &str, key: &str) -> Value {
        self.find("endpoints", name).unwrap()["metadata"]["annotations"][key].clone()
    }

    async fn ready_condition(&self, pod: &str, ready: bool, since: &str) {
        let status = if ready { "True" } else { "False" };
        let condition = json!({"type": "Ready", "status": status, "lastTransitionTime": since});
        self.pod_status(pod, json!({"conditions": [condition]}))
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn addresses_follow_the_readiness_of_pods() {
    let world = World::endpoints_controller().await;
    world.create(service("web")).await;
    world.until_addresses("web", &[], &[]).await;
    world.cluster.load(pod("a", "10.0.0.1", false)).unwrap();
    world.until_addresses("web", &[], &["10.0.0.1"]).await;
    world.make_ready("a").await;
    world.until_addresses("web", &["10.0.0.1"], &[]).await;
    world.cluster.load(pod("b", "10.0.0.2", true)).unwrap();
    world
        .until_addresses("web", &["10.0.0.1", "10.0.0.2"], &[])
        .await;
    world.kill("a").await;
    world.until_addresses("web", &["10.0.0.2"], &[]).await;
    world.pod_status("b", json!({"phase": "Failed"})).await;
    world.until_addresses("web", &[], &[]).await;
    world.at_rest().await;
    let expected = ["create endpoints 201"]
        .into_iter()
        .chain(["update endpoints/web 200"; 5]);
    assert_eq!(world.writes(), expected.collect::<Vec<_>>());
}

/// Upstream: `TestEndpointUpdates`.
#[tokio::test(start_paused = true)]
async fn changes_without_effect_cause_no_write() {
    let world = World::endpoints_controller().await;
    world.create(pod("a", "10.0.0.1", true)).await;
    let status = pod("a", "10.0.0.1", true)["status"].clone();
    world.pod_status("a", status).await;
    world.create(service("web")).await;
    world.until_addresses("web", &["10.0.0.1"], &[]).await;
    world
        .patch(
            "services",
            "web",
            json!({"metadata": {"annotations": {"test": "1"}}}),
        )
        .await;
    world
        .patch(
            "pods",
            "a",
            json!({"metadata": {"annotations": {"test": "1"}}}),
        )
        .await;
    world.pod_status("a", json!({"message": "changed"})).await;
    world.at_rest().await;
    assert_eq!(world.writes(), ["create endpoints 201"]);
}

/// Upstream: `TestEndpointWithMultiplePodUpdates`, `TestMultiplePodChanges`,
/// `TestMultipleServiceChanges`, `TestStaleEndpointsTracker`.
#[tokio::test(start_paused = true)]
async fn a_stale_cache_of_endpoints_leads_to_the_last_state() {
    let world = World::endpoints_controller().await;
    world.cluster.load(pod("a", "10.0.0.1", true)).unwrap();
    world.create(service("web")).await;
    world.until_addresses("web", &["10.0.0.1"], &[]).await;
    world.at_rest().await;
    world.cluster.faults().stall_watches("endpoints");
    world
        .ready_condition("a", false, "2023-11-14T22:13:21Z")
        .await;
    world.until_addresses("web", &[], &["10.0.0.1"]).await;
    world
        .ready_condition("a", true, "2023-11-14T22:13:22Z")
        .await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    // The cached object equals the next one, so a sync with it would write nothing.
    assert_eq!(world.addresses("web").unwrap()[1], ["10.0.0.1"]);
    world.cluster.faults().resume_watches("endpoints");
    world.until_addresses("web", &["10.0.0.1"], &[]).await;
    world.at_rest().await;
    let writes = world.writes();
    assert!(
        writes.iter().all(|write| !write.ends_with("409")),
        "{writes:#?}"
    );
    assert_eq!(writes.len(), 3, "{writes:#?}");
}

/// Upstream: `TestExternalNameToClusterIPTransition`.
#[tokio::test(start_paused = true)]
async fn an_external_name_gets_endpoints_when_it_becomes_a_cluster_ip() {
    let world = World::endpoints_controller().await;
    world.cluster.load(pod("a", "10.0.0.1", true)).unwrap();
    let mut external = service("web");
    external["spec"] = json!({
        "type": "ExternalName", "externalName": "example.com", "selector": {"app": "web"},
        "ports": [{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}],
    });
    world.create(external).await;
    world.at_rest().await;
    assert_eq!(world.addresses("web"), None);
    let spec = json!({
        "type": "ClusterIP", "externalName": null, "clusterIP": "10.96.0.9", "ipFamilies": ["IPv4"],
    });
    world
        .patch("services", "web", json!({ "spec": spec }))
        .await;
    world.until_addresses("web", &["10.0.0.1"], &[]).await;
    let labels = &world.find("endpoints", "web").unwrap()["metadata"]["labels"];
    let expected = json!({"endpoints.kubernetes.io/managed-by": "endpoint-controller"});
    assert_eq!(*labels, expected);
}

/// Upstream: `TestEndpointWithTerminatingPod`.
#[tokio::test(start_paused = true)]
async fn a_terminating_pod_is_no_endpoint() {
    let world = World::endpoints_controller().await;
    let mut a = pod("a", "10.0.0.1", true);
    a["metadata"]["finalizers"] = json!(["example.com/stays"]);
    world.cluster.load(a).unwrap();
    world.create(service("web")).await;
    let mut all = service("all");
    all["spec"]["publishNotReadyAddresses"] = json!(true);
    world.create(all).await;
    world.until_addresses("web", &["10.0.0.1"], &[]).await;
    world.kill("a").await;
    world.until_addresses("web", &[], &[]).await;
    assert!(world.find("pods", "a").is_some());
    world.until_addresses("all", &["10.0.0.1"], &[]).await;
}

/// Upstream: `TestEndpointTruncate`, `TestSyncServiceOverCapacity`.
#[tokio::test(start_paused = true)]
async fn a_truncated_object_has_an_annotation_and_stays_up_to_date() {
    let world = World::endpoints_controller().await;
    for number in 0..1001 {
        let ip = format!("10.0.{}.{}", number / 250, number % 250 + 1);
        world
            .cluster
            .load(pod(&format!("p{number:04}"), &ip, true))
            .unwrap();
    }
    world.create(service("web")).await;
    let ready = |count: usize| {
        let world = &world;
        move |_: &_| {
            world
                .addresses("web")
                .is_some_and(|[ready, _]| ready.len() == count)
        }
    };
    world.until("1000 addresses", ready(1000)).await;
    assert_eq!(world.annotation("web", OVER_CAPACITY), "truncated");
    // The address that is left out changes, and the object does not.
    let [kept, _] = world.addresses("web").unwrap();
    let left_out = (0..1001)
        .map(|number| format!("10.0.{}.{}", number / 250, number % 250 + 1))
        .position(|ip| !kept.contains(&ip))
        .unwrap();
    let left_out = format!("p{left_out:04}");
    world
        .ready_condition(&left_out, false, "2023-11-14T22:13:21Z")
        .await;
    world.at_rest().await;
    assert_eq!(world.addresses("web").unwrap()[0], kept);
    world
        .ready_condition(&left_out, true, "2023-11-14T22:13:22Z")
        .await;
    world.at_rest().await;
    world.kill("p0000").await;
    world
        .until("the annotation is gone", |_| {
            world.annotation("web", OVER_CAPACITY).is_null()
        })
        .await;
    assert!(ready(1000)(&world.state()));
}

/// Upstream: `TestCheckLeftoverEndpoints`, `TestSyncEndpointsServiceNotFound`.
#[tokio::test(start_paused = true)]
async fn endpoints_without_a_service_are_deleted_at_the_start() {
    let mut world = World::bare().await;
    let lock = json!({"control-plane.alpha.kubernetes.io/leader": "{}"});
    world.create(endpoints("orphan", json!({}))).await;
    world.create(endpoints("lock", lock)).await;
    world.create(endpoints("manual", json!({}))).await;
    let mut manual = service("manual");
    manual["spec"]["selector"] = Value::Null;
    world.create(manual).await;
    world.restart(&[DESCRIPTOR]).await;
    world.at_rest().await;
    assert_eq!(world.writes(), ["delete endpoints/orphan 200"]);
    world.delete("services", "manual").await;
    world
        .until("its Endpoints are gone", |_| {
            world.addresses("manual").is_none()
        })
        .await;
    world.at_rest().await;
    assert!(world.addresses("lock").is_some());
}

#[tokio::test(start_paused = true)]
async fn endpoints_of_a_service_that_the_cache_lacks_are_kept() {
    let mut world = World::bare().await;
    let first = world.create(endpoints("manual", json!({}))).await;
    let before: u64 = first["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    let mut manual = service("manual");
    manual["spec"]["selector"] = Value::Null;
    world.create(manual).await;
    for verb in ["list", "watch"] {
        let informers = Matcher::new(verb, "services").client("shared-informers");
        world.cluster.faults().hold_view(informers, before);
    }
    world.restart(&[DESCRIPTOR]).await;
    world.at_rest().await;
    assert_eq!(world.writes(), [""; 0]);
    assert!(world.addresses("manual").is_some());
}

/// A new leader whose cache of `resource` stays as it was at `before`.
async fn restart_with_stale(world: &mut World, resource: &str, before: u64) {
    for verb in ["list", "watch"] {
        let informers = Matcher::new(verb, resource).client("shared-informers");
        world.cluster.faults().hold_view(informers, before);
    }
    let term = world.cluster.revision();
    world
        .restart_with(&[DESCRIPTOR], |mut context| {
            context.term_start_rv = term;
            context
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_with_a_stale_cache_of_pods_keeps_ready_addresses() {
    let mut world = World::endpoints_controller().await;
    world.create(service("web")).await;
    world.cluster.load(pod("a", "10.0.0.1", true)).unwrap();
    world.until_addresses("web", &["10.0.0.1"], &[]).await;
    let before = world.cluster.revision();
    world.cluster.load(pod("b", "10.0.0.2", true)).unwrap();
    let both = ["10.0.0.1", "10.0.0.2"];
    world.until_addresses("web", &both, &[]).await;
    let writes = world.writes().len();
    restart_with_stale(&mut world, "pods", before).await;
    world.at_rest().await;
    assert_eq!(world.writes().len(), writes, "{:#?}", world.writes());
    world.until_addresses("web", &both, &[]).await;
}

#[tokio::test(start_paused = true)]
async fn a_sync_on_old_caches_keeps_the_trigger_time() {
    let mut world = World::bare().await;
    let created = world.create(service("web")).await["metadata"]["creationTimestamp"].clone();
    world.cluster.load(pod("a", "10.0.0.1", true)).unwrap();
    let before = world.cluster.revision();
    world.pod_status("a", json!({"message": "touched"})).await;
    let view = world.take_over_behind(&[DESCRIPTOR], "pods", before).await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(world.writes(), [""; 0]);
    world.cluster.faults().remove(view);
    world.until_addresses("web", &["10.0.0.1"], &[]).await;
    assert_eq!(world.annotation("web", TRIGGER_TIME), created);
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_catches_up_during_a_sync_does_not_confirm_what_was_read() {
    let mut world = World::endpoints_controller().await;
    world.create(service("web")).await;
    world.cluster.load(pod("a", "10.0.0.1", true)).unwrap();
    let before = world.cluster.revision();
    world.cluster.load(pod("b", "10.0.0.2", true)).unwrap();
    let both = ["10.0.0.1", "10.0.0.2"];
    world.until_addresses("web", &both, &[]).await;
    world.at_rest().await;
    world.restart(&[]).await;
    let writes = world.writes().len();
    let services = world.hold("services", before);
    let slow = Matcher::new("get", "services").client("endpoint-controller");
    let slow = world.cluster.faults().delay(slow, A_WHILE, Some(1));
    let pods = world.take_over_behind(&[DESCRIPTOR], "pods", before).await;
    world.cluster.faults().met(slow).await;
    for view in [services, pods] {
        world.cluster.faults().remove(view);
    }
    // The event of this change brings the cache of pods beyond the start of the term.
    world.pod_status("b", json!({"message": "touched"})).await;
    tokio::time::sleep(2 * A_WHILE).await;
    assert_eq!(world.writes().len(), writes, "{:#?}", world.writes());
    world.until_addresses("web", &both, &[]).await;
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_with_a_stale_cache_of_services_creates_no_endpoints() {
    let mut world = World::bare().await;
    world.create(service("web")).await;
    let before = world.cluster.revision();
    world.delete("services", "web").await;
    restart_with_stale(&mut world, "services", before).await;
    world.at_rest().await;
    assert_eq!(world.writes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_deletes_leftover_endpoints_that_its_cache_lacks() {
    let mut world = World::bare().await;
    world.create(service("web")).await;
    let before = world.cluster.revision();
    world.create(endpoints("web", json!({}))).await;
    restart_with_stale(&mut world, "endpoints", before).await;
    world.at_rest().await;
    assert_eq!(world.writes(), [""; 0]);
    world.delete("services", "web").await;
    let gone = |_: &_| world.addresses("web").is_none();
    world.until("the Endpoints are gone", gone).await;
}

/// Upstream: `TestEndpointsDeletionEvents`.
#[tokio::test(start_paused = true)]
async fn deleted_endpoints_are_created_again() {
    let world = World::endpoints_controller().await;
    world.cluster.load(pod("a", "10.0.0.1", true)).unwrap();
    world.create(service("web")).await;
    world.until_addresses("web", &["10.0.0.1"], &[]).await;
    world.delete("endpoints", "web").await;
    world.until_addresses("web", &["10.0.0.1"], &[]).await;
    // No time has changed since the last write.
    assert!(world.annotation("web", TRIGGER_TIME).is_null());
}

/// Upstream: `TestLastTriggerChangeTimeAnnotation`, `..._AnnotationOverridden`,
/// `..._AnnotationCleared`.
#[tokio::test(start_paused = true)]
async fn the_trigger_time_is_that_of_the_earliest_change() {
    let world = World::endpoints_controller().await;
    world.cluster.load(pod("a", "10.0.0.1", true)).unwrap();
    world.cluster.load(pod("b", "10.0.0.2", false)).unwrap();
    let created = world.create(service("web")).await;
    world
        .until_addresses("web", &["10.0.0.1"], &["10.0.0.2"])
        .await;
    let time = &created["metadata"]["creationTimestamp"];
    assert_eq!(world.annotation("web", TRIGGER_TIME), *time);
    world
        .ready_condition("b", true, "2023-11-14T22:15:00Z")
        .await;
    world
        .until_addresses("web", &["10.0.0.1", "10.0.0.2"], &[])
        .await;
    assert_eq!(
        world.annotation("web", TRIGGER_TIME),
        "2023-11-14T22:15:00Z"
    );
    world.kill("a").await;
    world.until_addresses("web", &["10.0.0.2"], &[]).await;
    assert!(world.annotation("web", TRIGGER_TIME).is_null());
}

/// Upstream: `TestPodAddsBatching`, `TestPodUpdatesBatching`, `TestPodDeleteBatching`.
#[tokio::test(start_paused = true)]
async fn changes_of_pods_are_batched() {
    let ms = Duration::from_millis;
    // (batch period, time before each change, writes)
    let cases = [
        ("0s", [200, 100, 100], 3),
        ("1s", [200, 100, 100], 1),
        ("1s", [200, 100, 1000], 2),
    ];
    for (period, delays, expected) in cases {
        for change in ["add", "update", "delete"] {
            let mut world = World::bare().await;
            world.create(service("web")).await;
            if change != "add" {
                for number in 0..10 {
                    let ip = format!("1.2.3.{}", 4 + number);
                    world
                        .cluster
                        .load(pod(&format!("pod{number}"), &ip, true))
                        .unwrap();
                }
            }
            world.restart_with(&[DESCRIPTOR], batched(period)).await;
            tokio::time::sleep(Duration::from_secs(10)).await;
            let before = world.writes().len();
            for (number, delay) in delays.into_iter().enumerate() {
                tokio::time::sleep(ms(delay)).await;
                let name = format!("pod{number}");
                let ip = format!("10.0.0.{number}");
                match change {
                    "add" => world.cluster.load(pod(&name, &ip, true)).unwrap(),
                    "update" => {
                        let status = json!({"podIP": ip, "podIPs": [{"ip": ip}]});
                        world.pod_status(&name, status).await;
                    }
                    _ => world.kill(&name).await,
                }
            }
            tokio::time::sleep(Duration::from_secs(3)).await;
            let writes = world.writes().len() - before;
            assert_eq!(writes, expected, "{change} {period} {delays:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn labels_follow_the_service_and_annotations_stay() {
    let world = World::endpoints_controller().await;
    world.create(service("web")).await;
    world.until_addresses("web", &[], &[]).await;
    world
        .patch(
            "endpoints",
            "web",
            json!({"metadata": {"annotations": {"mine": "1"}}}),
        )
        .await;
    world.at_rest().await;
    world
        .patch(
            "services",
            "web",
            json!({"metadata": {"labels": {"tier": "db"}}}),
        )
        .await;
    world.at_rest().await;
    let metadata = &world.find("endpoints", "web").unwrap()["metadata"];
    let labels = json!({
        "endpoints.kubernetes.io/managed-by": "endpoint-controller",
        "service.kubernetes.io/headless": "", "tier": "db",
    });
    assert_eq!(metadata["labels"], labels);
    assert_eq!(metadata["annotations"]["mine"], "1");
    world
        .patch(
            "services",
            "web",
            json!({"metadata": {"labels": {"tier": null}}}),
        )
        .await;
    world.at_rest().await;
    let metadata = &world.find("endpoints", "web").unwrap()["metadata"];
    assert!(metadata["labels"].get("tier").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_failed_write_is_reported_and_retried() {
    let world = World::endpoints_controller().await;
    let faults = world.cluster.faults();
    faults.reject(
        Matcher::new("create", "endpoints"),
        internal_error(),
        Some(1),
    );
    faults.reject(Matcher::new("update", "endpoints"), conflict(), Some(1));
    world.create(service("web")).await;
    world.until_addresses("web", &[], &[]).await;
    world.cluster.load(pod("a", "10.0.0.1", true)).unwrap();
    world.until_addresses("web", &["10.0.0.1"], &[]).await;
    world.at_rest().await;
    let events = world.cluster.objects("events");
    let of = |reason: &str| {
        let found = events.iter().find(|event| event["reason"] == reason);
        found.unwrap_or_else(|| panic!("no {reason} in {events:#?}"))
    };
    let failed = of("FailedToCreateEndpoint");
    let conflict = of("FailedToUpdateEndpoint");
    let message = failed["message"].as_str().unwrap();
    assert!(message.starts_with("Failed to create endpoint for service default/web: "));
    let object = json!({"apiVersion": "v1", "kind": "Endpoints", "name": "web"});
    assert_eq!(failed["involvedObject"], object);
    assert_eq!(failed["type"], "Warning");
    assert_eq!(failed["source"]["component"], "endpoint-controller");
    let message = conflict["message"].as_str().unwrap();
    assert!(message.starts_with("Failed to update endpoint default/web: "));
    let uid = &world.find("endpoints", "web").unwrap()["metadata"]["uid"];
    assert_eq!(conflict["involvedObject"]["uid"], *uid);
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_creation_is_no_lasting_failure() {
    let world = World::endpoints_controller().await;
    let creation = Matcher::new("create", "endpoints");
    let lost = RequestFault::LoseAnswer;
    world.cluster.faults().on_request(creation, lost, Some(1));
    world.cluster.load(pod("a", "10.0.0.1", true)).unwrap();
    world.create(service("web")).await;
    world.until_addresses("web", &["10.0.0.1"], &[]).await;
    world.kill("a").await;
    world.until_addresses("web", &[], &[]).await;
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_being_deleted_gets_no_endpoints_and_no_event() {
    let world = World::endpoints_controller().await;
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "old"},
        "spec": {"finalizers": ["kubernetes"]},
    });
    world.create(namespace).await;
    let mut web = service("web");
    web["metadata"]["namespace"] = json!("old");
    web["spec"]["selector"] = Value::Null;
    // Without a policy, a headless Service without a selector has both families, and takes no selector later.
    web["spec"]["ipFamilyPolicy"] = json!("SingleStack");
    world.create(web).await;
    world
        .cluster
        .delete("/api/v1/namespaces/old")
        .await
        .unwrap();
    let path = "/api/v1/namespaces/old/services/web";
    let selector = json!({"spec": {"selector": {"app": "web"}}});
    world.cluster.patch(path, selector).await.unwrap();
    world.at_rest().await;
    let writes = world.writes();
    assert_eq!(writes.len(), 1, "{writes:#?}");
    assert!(writes[0].ends_with("403"), "{writes:#?}");
    assert_eq!(world.cluster.count("events"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_takeover_at_rest_writes_nothing() {
    let mut world = World::endpoints_controller().await;
    for (name, ip, ready) in [("a", "10.0.0.1", true), ("b", "10.0.0.2", false)] {
        world.cluster.load(pod(name, ip, ready)).unwrap();
    }
    world.create(service("web")).await;
    let mut ports = service("ports");
    ports["spec"]["ports"] = json!([
        {"name": "x", "port": 1, "targetPort": 1, "protocol": "TCP", "appProtocol": "h2c"},
        {"name": "y", "port": 2, "targetPort": 2, "protocol": "TCP", "appProtocol": "h2c"},
    ]);
    world.create(ports).await;
    world
        .until_addresses("web", &["10.0.0.1"], &["10.0.0.2"])
        .await;
    world.at_rest().await;
    let before = world.writes().len();
    world.restart(&[DESCRIPTOR]).await;
    world.at_rest().await;
    assert_eq!(world.writes().len(), before, "{:#?}", world.writes());
}
