//! Whole syncs of the mirroring controller against the in-memory API server.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_devcluster::faults::{self, Matcher};
use steersman_helpers::endpointslice::MANAGED_BY;

use super::{DESCRIPTOR, MANAGER};
use crate::testing::world::World;

/// Name of Service and Endpoints.
const NAME: &str = "db";

/// A Service with this selector.
fn service(selector: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": NAME},
        "spec": {"selector": selector, "ports": [{"port": 80}]},
    })
}

/// Endpoints with these ready addresses, one port, and metadata.
fn endpoints(ips: &[&str], port: i32, metadata: Value) -> Value {
    let addresses: Vec<Value> = ips.iter().map(|ip| json!({ "ip": ip })).collect();
    let subset =
        json!({"addresses": addresses, "ports": [{"name": "p", "port": port, "protocol": "TCP"}]});
    let mut endpoints = json!({
        "apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": NAME, "namespace": "default"}, "subsets": [subset],
    });
    for (field, value) in metadata.as_object().unwrap() {
        endpoints["metadata"][field] = value.clone();
    }
    endpoints
}

impl World {
    async fn with_mirroring() -> Self {
        let mut world = Self::bare().await;
        world.restart(&[DESCRIPTOR]).await;
        world
    }

    /// The same with a Service without a selector and these Endpoints.
    async fn mirrored(endpoints: Value) -> Self {
        let world = Self::with_mirroring().await;
        world.create(service(Value::Null)).await;
        world.create(endpoints).await;
        world.at_rest().await;
        world
    }

    /// The mirrored slices, by address type.
    fn mirrors(&self) -> Vec<Value> {
        let mut slices = self.cluster.objects("endpointslices");
        slices.retain(|slice| slice["metadata"]["labels"][MANAGED_BY] == MANAGER);
        slices.sort_by_key(|slice| slice["addressType"].to_string());
        slices
    }

    /// Verb and status code of the controller's writes during `action`.
    async fn mirror_writes(&self, action: impl Future<Output = ()>) -> Vec<String> {
        let before = self.writes().len();
        action.await;
        self.at_rest().await;
        let writes = self.writes().split_off(before);
        let words = writes.iter().map(|write| {
            let words: Vec<&str> = write.split(' ').collect();
            format!("{} {}", words[0], words[words.len() - 1])
        });
        words.collect()
    }

    /// Changes the Endpoints.
    async fn change(&self, changes: Value) {
        self.patch("endpoints", NAME, changes).await;
    }
}

fn ips(slice: &Value) -> Vec<&str> {
    let endpoints = slice["endpoints"].as_array().into_iter().flatten();
    endpoints
        .map(|endpoint| endpoint["addresses"][0].as_str().unwrap())
        .collect()
}

/// Upstream: `TestEndpointSliceMirroring` of `test/integration/endpointslice`, and
/// `TestSyncEndpoints`.
#[tokio::test(start_paused = true)]
async fn endpoints_of_services_without_a_selector_are_mirrored() {
    let plain = || Some(endpoints(&["10.0.0.1"], 80, json!({})));
    let with = |metadata: Value| Some(endpoints(&["10.0.0.1"], 80, metadata));
    let skip = |value: &str| json!({"labels": {"endpointslice.kubernetes.io/skip-mirror": value}});
    let leader = json!({"annotations": {"control-plane.alpha.kubernetes.io/leader": "{}"}});
    // (upstream's case, Service, Endpoints, slices)
    let cases = [
        (
            "Service without selector, with endpoints",
            Some(service(Value::Null)),
            plain(),
            1,
        ),
        (
            "Service with empty selector",
            Some(service(json!({}))),
            plain(),
            1,
        ),
        (
            "Service with selector",
            Some(service(json!({"app": "web"}))),
            plain(),
            0,
        ),
        (
            "Service with selector, no endpoints",
            Some(service(json!({"app": "web"}))),
            None,
            0,
        ),
        ("Endpoints without Service", None, plain(), 0),
        (
            "Service without Endpoints",
            Some(service(Value::Null)),
            None,
            0,
        ),
        (
            "skip label true",
            Some(service(Value::Null)),
            with(skip("true")),
            0,
        ),
        (
            "skip label false",
            Some(service(Value::Null)),
            with(skip("false")),
            1,
        ),
        (
            "leader election",
            Some(service(Value::Null)),
            with(leader),
            0,
        ),
    ];
    for (case, service, endpoints, expected) in cases {
        let world = World::with_mirroring().await;
        for object in [service, endpoints].into_iter().flatten() {
            world.create(object).await;
        }
        world.at_rest().await;
        assert_eq!(world.mirrors().len(), expected, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_slice_has_the_content_of_its_endpoints() {
    let metadata = json!({"labels": {"l": "1"}, "annotations": {
        "a": "1", "endpoints.kubernetes.io/last-change-trigger-time": "t",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
    }});
    let mut object = endpoints(&["10.0.0.1", "fd00::1"], 80, metadata);
    object["subsets"][0]["notReadyAddresses"] = json!([{"ip": "10.0.0.2"}]);
    let world = World::mirrored(object).await;
    let slices = world.mirrors();
    assert_eq!(slices.len(), 2);
    assert_eq!(ips(&slices[0]), ["10.0.0.1", "10.0.0.2"]);
    assert_eq!(ips(&slices[1]), ["fd00::1"]);
    let conditions = |n: usize| &slices[0]["endpoints"][n]["conditions"];
    assert_eq!(
        (conditions(0), conditions(1)),
        (&json!({"ready": true}), &json!({"ready": false}))
    );
    let owner = world.find("endpoints", NAME).unwrap()["metadata"]["uid"].clone();
    for slice in &slices {
        let metadata = &slice["metadata"];
        let labels = json!({
            "l": "1", "kubernetes.io/service-name": NAME, "endpointslice.kubernetes.io/managed-by": MANAGER,
        });
        assert_eq!(
            (&metadata["labels"], &metadata["annotations"]),
            (&labels, &json!({"a": "1"}))
        );
        assert_eq!(metadata["generateName"], "db-");
        let reference = json!([{
            "apiVersion": "v1", "kind": "Endpoints", "name": NAME, "uid": owner, "controller": true,
            "blockOwnerDeletion": true,
        }]);
        assert_eq!(metadata["ownerReferences"], reference);
    }
}

/// Upstream: `TestEndpointSliceMirroringUpdates` of `test/integration/endpointslice`.
#[tokio::test(start_paused = true)]
async fn changes_of_endpoints_replace_their_slice() {
    // (upstream's case, change)
    let cases = [
        (
            "Update labels",
            json!({"metadata": {"labels": {"foo": "bar"}}}),
        ),
        (
            "Update annotations",
            json!({"metadata": {"annotations": {"foo": "bar"}}}),
        ),
        (
            "Update endpoints annotations and labels",
            json!({"metadata": {"labels": {"a": "1"}, "annotations": {"b": "2"}}}),
        ),
        (
            "Update addresses",
            json!({"subsets": [{"addresses": [{"ip": "10.0.0.9"}], "ports": [{"name": "p", "port": 80, "protocol": "TCP"}]}]}),
        ),
        (
            "Update ports",
            json!({"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"name": "p", "port": 81, "protocol": "TCP"}]}]}),
        ),
    ];
    for (case, change) in cases {
        let world = World::mirrored(endpoints(&["10.0.0.1"], 80, json!({}))).await;
        let name = world.mirrors()[0]["metadata"]["name"].clone();
        assert_eq!(
            world.mirror_writes(world.change(change.clone())).await,
            ["update 200"],
            "{case}"
        );
        let slices = world.mirrors();
        assert_eq!(
            (slices.len(), &slices[0]["metadata"]["name"]),
            (1, &name),
            "{case}"
        );
        let written = &slices[0];
        for (field, value) in change["metadata"]["labels"]
            .as_object()
            .into_iter()
            .flatten()
        {
            assert_eq!(&written["metadata"]["labels"][field], value, "{case}");
        }
        for (field, value) in change["metadata"]["annotations"]
            .as_object()
            .into_iter()
            .flatten()
        {
            assert_eq!(&written["metadata"]["annotations"][field], value, "{case}");
        }
        let subset = &world.find("endpoints", NAME).unwrap()["subsets"][0];
        assert_eq!(
            written["ports"][0]["port"], subset["ports"][0]["port"],
            "{case}"
        );
        assert_eq!(
            ips(written),
            [subset["addresses"][0]["ip"].as_str().unwrap()],
            "{case}"
        );
        let time = json!({"metadata": {"annotations": {"endpoints.kubernetes.io/last-change-trigger-time": "x"}}});
        assert_eq!(
            world.mirror_writes(world.change(time)).await,
            [""; 0],
            "{case}"
        );
    }
}

/// Upstream: `TestEndpointSliceMirroringSelectorTransition` of `test/integration/endpointslice`.
#[tokio::test(start_paused = true)]
async fn slices_follow_the_selector_of_the_service() {
    // (upstream's case, selector before, selector after, slices before and after)
    let set = || json!({"foo": "bar"});
    let cases = [
        ("nil -> {foo: bar} selector", Value::Null, set(), 1, 0),
        ("{foo: bar} -> nil selector", set(), Value::Null, 0, 1),
        ("{} -> {foo: bar} selector", json!({}), set(), 1, 0),
        (
            "{foo: bar} -> {} selector",
            set(),
            json!({"foo": null}),
            0,
            1,
        ),
    ];
    for (case, before, after, mirrored_before, mirrored_after) in cases {
        let world = World::with_mirroring().await;
        world.create(service(before)).await;
        world.create(endpoints(&["10.0.0.1"], 80, json!({}))).await;
        world.at_rest().await;
        assert_eq!(world.mirrors().len(), mirrored_before, "{case}");
        world
            .patch("services", NAME, json!({"spec": {"selector": after}}))
            .await;
        world.at_rest().await;
        assert_eq!(world.mirrors().len(), mirrored_after, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn slices_of_deleted_endpoints_and_services_are_deleted() {
    for plural in ["endpoints", "services"] {
        let world = World::mirrored(endpoints(&["10.0.0.1", "fd00::1"], 80, json!({}))).await;
        let writes = world.mirror_writes(world.delete(plural, NAME)).await;
        assert_eq!(writes, ["delete 200", "delete 200"], "{plural}");
        assert!(world.mirrors().is_empty(), "{plural}");
    }
}

#[tokio::test(start_paused = true)]
async fn skipped_addresses_are_reported() {
    let mut world = World::bare().await;
    let configure = |context: steersman_runtime::controller::ControllerContext| {
        context.with_flag("mirroring-max-endpoints-per-subset", "2")
    };
    world.restart_with(&[DESCRIPTOR], configure).await;
    world.create(service(Value::Null)).await;
    let mut many = endpoints(&["10.0.0.1", "10.0.0.2", "10.0.0.3"], 80, json!({}));
    world.create(many.clone()).await;
    let events = world.at_rest().await.events_about(NAME);
    let text = "A max of 2 addresses can be mirrored to EndpointSlices per Endpoints subset. 1 addresses were skipped";
    assert_eq!(
        events,
        [("TooManyAddressesToMirror".to_owned(), text.to_owned())]
    );
    assert_eq!(ips(&world.mirrors()[0]), ["10.0.0.1", "10.0.0.2"]);

    let mut world = World::bare().await;
    world.create(service(Value::Null)).await;
    // The API server refuses such an address today.
    many["subsets"][0]["addresses"] = json!([{"ip": "10.0.0.1"}, {"ip": "None"}]);
    many["metadata"]["uid"] = json!("u");
    world.cluster.load(many).unwrap();
    world.restart(&[DESCRIPTOR]).await;
    let events = world.at_rest().await.events_about(NAME);
    let text = "Skipped 1 invalid IP addresses when mirroring to EndpointSlices";
    assert_eq!(events, [("InvalidIPAddress".to_owned(), text.to_owned())]);
    assert_eq!(ips(&world.mirrors()[0]), ["10.0.0.1"]);
}

#[tokio::test(start_paused = true)]
async fn foreign_changes_of_a_mirrored_slice_are_reverted() {
    let world = World::mirrored(endpoints(&["10.0.0.1"], 80, json!({}))).await;
    let name = world.mirrors()[0]["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    let changes = [
        json!({"endpoints": []}),
        json!({"metadata": {"labels": {"mine": "1"}}}),
        json!({"metadata": {"annotations": {"mine": "1"}}}),
    ];
    for change in changes {
        let action = async { drop(world.patch("endpointslices", &name, change.clone()).await) };
        assert_eq!(
            world.mirror_writes(action).await,
            ["update 200"],
            "{change}"
        );
    }
    let deletion = world.delete("endpointslices", &name);
    assert_eq!(world.mirror_writes(deletion).await, ["create 201"]);
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_writes_nothing() {
    let object = endpoints(
        &["10.0.0.1", "fd00::1"],
        80,
        json!({"labels": {"l": "1"}, "annotations": {"a": "1"}}),
    );
    let mut world = World::mirrored(object).await;
    world.restart(&[DESCRIPTOR]).await;
    assert_eq!(world.mirror_writes(async {}).await, [""; 0]);
}

/// Longer than several comparisons of the caches with the API server.
const A_WHILE: Duration = Duration::from_secs(20);

#[tokio::test(start_paused = true)]
async fn old_caches_of_a_new_leader_lead_to_no_wrong_write() {
    for plural in ["services", "endpoints", "endpointslices"] {
        let mut world = World::with_mirroring().await;
        let before = world.cluster.revision();
        world.create(service(Value::Null)).await;
        world.create(endpoints(&["10.0.0.1"], 80, json!({}))).await;
        world.at_rest().await;
        world.restart(&[]).await;
        let view = world.take_over_behind(&[DESCRIPTOR], plural, before).await;
        let writes = world.mirror_writes(tokio::time::sleep(A_WHILE)).await;
        assert_eq!(writes, [""; 0], "{plural}");
        let writes = world.mirror_writes(async { world.cluster.faults().remove(view) });
        assert_eq!(writes.await, [""; 0], "{plural}");
        assert_eq!(world.mirrors().len(), 1, "{plural}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_sync_on_old_caches_leaves_no_trace() {
    let mut world = World::bare().await;
    world.create(service(Value::Null)).await;
    let many = endpoints(&["10.0.0.1", "10.0.0.2"], 80, json!({}));
    world.create(many).await;
    let before = world.cluster.revision();
    let touch = json!({"metadata": {"labels": {"touched": "1"}}});
    world.patch("services", NAME, touch).await;
    let view = world.hold("services", before);
    let term = world.cluster.revision();
    let configure = |mut context: steersman_runtime::controller::ControllerContext| {
        context.term_start_rv = term;
        context.with_flag("mirroring-max-endpoints-per-subset", "1")
    };
    world.restart_with(&[DESCRIPTOR], configure).await;
    tokio::time::sleep(A_WHILE).await;
    let counted = |world: &World| {
        let text = prometheus::TextEncoder::new()
            .encode_to_string(&world.registry.gather())
            .unwrap();
        text.contains("addresses_skipped_per_sync_count")
    };
    assert!(!counted(&world));
    assert!(world.at_rest().await.events_about(NAME).is_empty());
    world.cluster.faults().remove(view);
    assert_eq!(world.at_rest().await.events_about(NAME).len(), 1);
    assert!(counted(&world));
    assert_eq!(ips(&world.mirrors()[0]), ["10.0.0.1"]);
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_catches_up_during_a_sync_does_not_confirm_what_was_read() {
    let mut world = World::with_mirroring().await;
    world.create(endpoints(&["10.0.0.1"], 80, json!({}))).await;
    let before = world.cluster.revision();
    world.create(service(Value::Null)).await;
    world.at_rest().await;
    world.restart(&[]).await;
    let views = ["endpoints", "services"].map(|plural| world.hold(plural, before));
    let slow = Matcher::new("get", "endpoints").client("endpointslicemirroring-controller");
    let slow = world.cluster.faults().delay(slow, A_WHILE, Some(1));
    let term = world.cluster.revision();
    world
        .restart_with(&[DESCRIPTOR], |mut context| {
            context.term_start_rv = term;
            context
        })
        .await;
    let writes = world.mirror_writes(async {
        world.cluster.faults().met(slow).await;
        for view in views {
            world.cluster.faults().remove(view);
        }
        // The event of this change brings the cache of Services beyond the start of the term.
        let touch = json!({"metadata": {"labels": {"touched": "1"}}});
        world.patch("services", NAME, touch).await;
        tokio::time::sleep(2 * A_WHILE).await;
    });
    assert_eq!(writes.await, [""; 0], "the sync read no Service");
    assert_eq!(world.mirrors().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_refused_write_is_repeated() {
    let world = World::with_mirroring().await;
    let create =
        Matcher::new("create", "endpointslices").client("endpointslicemirroring-controller");
    world
        .cluster
        .faults()
        .reject(create, faults::conflict(), Some(1));
    world.create(service(Value::Null)).await;
    let writes = world.mirror_writes(async {
        world.create(endpoints(&["10.0.0.1"], 80, json!({}))).await;
    });
    assert_eq!(writes.await, ["create 409", "create 201"]);
    assert!(
        world.state().events_about(NAME).is_empty(),
        "upstream has no Event for it"
    );
}

#[tokio::test(start_paused = true)]
async fn a_stale_cache_leads_to_no_second_slice() {
    let world = World::with_mirroring().await;
    world.create(service(Value::Null)).await;
    world.at_rest().await;
    world.cluster.faults().stall_watches("endpointslices");
    let writes = world.mirror_writes(async {
        world.create(endpoints(&["10.0.0.1"], 80, json!({}))).await;
        world
            .change(json!({"metadata": {"labels": {"l": "1"}}}))
            .await;
    });
    let first = writes.await;
    assert_eq!(first, ["create 201"]);
    let writes =
        world.mirror_writes(async { world.cluster.faults().resume_watches("endpointslices") });
    assert!(writes.await.len() <= 1);
    assert_eq!(world.mirrors().len(), 1);
    assert_eq!(world.mirrors()[0]["metadata"]["labels"]["l"], "1");
}
