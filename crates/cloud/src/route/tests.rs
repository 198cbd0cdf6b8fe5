//! Tests of the route controller against the in-memory API server.

use steersman_devcluster::faults::{Matcher, conflict};

use super::*;
use crate::provider::{CloudError, Route};
use crate::testing::cloud::FakeCloud;
use crate::testing::world::World;

const FLAGS: [(&str, &str); 1] = [("cluster-cidr", "10.244.0.0/16")];

fn route(node: &str, range: &str) -> Route {
    Route {
        name: format!("{node} {range}"),
        target_node: node.to_owned(),
        destination_cidr: range.to_owned(),
        ..Route::default()
    }
}

impl World {
    /// Status and reason of the condition.
    fn network(&self, node: &str) -> Option<String> {
        let node = self.object("nodes", node)?;
        let conditions = node["status"]["conditions"].as_array()?;
        let found = conditions
            .iter()
            .find(|c| c["type"] == "NetworkUnavailable")?;
        let field = |name: &str| found[name].as_str().unwrap_or_default();
        Some(format!("{} {}", field("status"), field("reason")))
    }

    fn places(&self) -> Vec<String> {
        let routes = self.cloud.routes_now().into_iter();
        let mut places: Vec<String> = routes
            .map(|route| format!("{} {}", route.target_node, route.destination_cidr))
            .collect();
        places.sort();
        places
    }
}

/// Upstream: `TestReconcile`; the table is beside `plan`.
#[tokio::test(start_paused = true)]
async fn routes_follow_nodes_and_nodes_report_them() {
    let mut world = World::new(FakeCloud::default());
    world.create_node("a", "10.244.0.0/24", "True").await;
    world.create_node("b", "10.244.1.0/24", "True").await;
    world.cloud.put_routes(vec![
        route("a", "10.244.0.0/24"),
        route("a", "10.244.7.0/24"),
        route("gone", "10.244.9.0/24"),
        route("other", "192.168.0.0/24"),
    ]);
    world.start(descriptor::<FakeCloud>(), &FLAGS).await;
    world
        .until("b has its route", || world.network("b").is_some())
        .await;
    let expected = ["a 10.244.0.0/24", "b 10.244.1.0/24", "other 192.168.0.0/24"];
    assert_eq!(world.places(), expected);
    for node in ["a", "b"] {
        world
            .until("the report", || {
                world.network(node).as_deref() == Some("False RouteCreated")
            })
            .await;
    }
    let (path, body) = world.writes().remove(0);
    assert!(path.ends_with("/status"), "{path}");
    let condition = &body["status"]["conditions"][0];
    assert_eq!(condition["message"], "RouteController created a route");
    assert_eq!(
        condition["lastHeartbeatTime"],
        condition["lastTransitionTime"]
    );

    world.cluster.clear_requests();
    world.cloud.calls();
    world.pass(34).await;
    assert_eq!(world.writes(), []);
    assert_eq!(world.cloud.calls(), ["list "; 3], "a pass each 10 seconds");

    world.cluster.delete("/api/v1/nodes/b").await.unwrap();
    world
        .until("the route of the deleted node is gone", || {
            world.places().len() == 2
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_creation_is_an_event_and_makes_the_network_unavailable() {
    let mut world = World::new(FakeCloud::default());
    world.create_node("a", "10.244.0.0/24", "True").await;
    world
        .cloud
        .fail("create", 1, || CloudError::failed("no quota"));
    world.start(descriptor::<FakeCloud>(), &FLAGS).await;
    world
        .until("the failure shows", || world.network("a").is_some())
        .await;
    assert_eq!(world.network("a").as_deref(), Some("True NoRouteCreated"));
    let uid = world.object("nodes", "a").unwrap()["metadata"]["uid"].clone();
    world
        .until("the next pass repairs it", || {
            world.network("a").as_deref() == Some("False RouteCreated")
        })
        .await;
    let uid = uid.as_str().unwrap();
    let text = format!(
        "Warning FailedToCreateRoute Could not create route {uid} 10.244.0.0/24 for node a after 0s: no quota"
    );
    assert_eq!(world.events(), [text]);
}

#[tokio::test(start_paused = true)]
async fn conflicts_are_tried_five_times() {
    // (conflicts, calls in the first pass, condition after it)
    let cases = [(4, 5, "False RouteCreated"), (5, 5, "True NoRouteCreated")];
    for (conflicts, calls, expected) in cases {
        let mut world = World::new(FakeCloud::default());
        world.create_node("a", "10.244.0.0/24", "True").await;
        world.cloud.fail("create", conflicts, || {
            CloudError::Conflict("changed".into())
        });
        let matcher = Matcher::new("patch", "nodes").subresource("status");
        world.cluster.faults().reject(matcher, conflict(), Some(4));
        world.start(descriptor::<FakeCloud>(), &FLAGS).await;
        world.pass(8).await;
        let found = world
            .cloud
            .calls()
            .iter()
            .filter(|call| call.starts_with("create"))
            .count();
        assert_eq!(found, calls);
        assert_eq!(world.network("a").as_deref(), Some(expected));
        assert_eq!(
            world.writes().len(),
            5,
            "the condition needs five tries, too"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_list_changes_nothing() {
    let mut world = World::new(FakeCloud::default());
    world.create_node("a", "10.244.0.0/24", "True").await;
    world
        .cloud
        .fail("list", 2, || CloudError::failed("unreachable"));
    world.start(descriptor::<FakeCloud>(), &FLAGS).await;
    world.pass(15).await;
    assert_eq!(world.cloud.seen(), ["list ", "list "]);
    assert_eq!(world.writes(), []);
    world
        .until("the third pass works", || world.network("a").is_some())
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_with_an_old_cache_keeps_the_routes_of_new_nodes() {
    let mut world = World::new(FakeCloud::default());
    world.create_node("a", "10.244.0.0/24", "True").await;
    let revision = world.cluster.revision();
    world.create_node("b", "10.244.1.0/24", "True").await;
    world.cloud.put_routes(vec![route("b", "10.244.1.0/24")]);
    let nodes = Matcher {
        resource: Some("nodes".to_owned()),
        ..Matcher::default()
    };
    world.cluster.faults().hold_view(nodes, revision);
    world.start(descriptor::<FakeCloud>(), &FLAGS).await;
    world.pass(25).await;
    assert_eq!(world.places(), ["a 10.244.0.0/24", "b 10.244.1.0/24"]);
}

#[tokio::test(start_paused = true)]
async fn flags_and_missing_areas_switch_the_loop_off() {
    let table = [descriptor::<FakeCloud>()];
    let build = |cloud: FakeCloud, flag: &str, value: &str| {
        let world = World::new(cloud);
        let context = world.context(&table).with_flag(flag, value);
        (table[0].init)(&context).map(|built| built.is_switched_off())
    };
    let off = build(FakeCloud::default(), "configure-cloud-routes", "false");
    assert!(off.unwrap());
    assert!(build(FakeCloud::without("routes"), "cluster-cidr", "").unwrap());
    assert!(!build(FakeCloud::default(), "cluster-cidr", "10.244.0.0/16").unwrap());
    let error = build(FakeCloud::default(), "cluster-cidr", "10.244").unwrap_err();
    assert_eq!(
        error.to_string(),
        "build node-route-controller: invalid CIDR[0]: <nil> (invalid CIDR address: 10.244)"
    );
}
