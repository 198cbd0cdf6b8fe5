//! Whole syncs against the in-memory API server, under paused time.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use steersman_devcluster::faults::{Matcher, RequestFault, conflict, internal_error};
use steersman_runtime::controller::ControllerContext;
use steersman_runtime::tasks::CancellationToken;
use tracing::Level;

use crate::nodeipam::DESCRIPTOR;
use crate::testing::log::Log;
use crate::testing::world::World;

fn node(name: &str, cidrs: &[&str]) -> Value {
    let mut node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
    if let Some(first) = cidrs.first() {
        node["spec"] = json!({"podCIDR": first, "podCIDRs": cidrs});
    }
    node
}

fn with_ranges(clusters: &'static str) -> impl Fn(ControllerContext) -> ControllerContext {
    move |context| {
        context
            .with_flag("allocate-node-cidrs", "true")
            .with_flag("cluster-cidr", clusters)
    }
}

impl World {
    async fn ipam(clusters: &'static str) -> Self {
        let mut world = Self::bare().await;
        world
            .restart_with(&[DESCRIPTOR], with_ranges(clusters))
            .await;
        // The live list at the start is complete.
        tokio::time::sleep(Duration::from_secs(1)).await;
        world
    }

    fn cidrs(&self, name: &str) -> Vec<String> {
        let node = self.find("nodes", name).unwrap();
        let list = node["spec"]["podCIDRs"].as_array().cloned();
        let text = |cidr: Value| cidr.as_str().unwrap().to_owned();
        list.unwrap_or_default().into_iter().map(text).collect()
    }

    async fn until_given(&self, name: &str) -> Vec<String> {
        self.until(&format!("{name} has a block"), |_| {
            !self.cidrs(name).is_empty()
        })
        .await;
        self.cidrs(name)
    }

    async fn remove_node(&self, name: &str) {
        self.cluster
            .delete(&format!("/api/v1/nodes/{name}"))
            .await
            .unwrap();
    }

    fn node_events(&self, name: &str) -> BTreeSet<(String, String)> {
        self.state().events_about(name).into_iter().collect()
    }
}

/// Events of one node: reason and message.
fn reported(name: &str, reason: &str) -> BTreeSet<(String, String)> {
    let message = format!("Node {name} status is now: {reason}");
    BTreeSet::from([(reason.to_owned(), message)])
}

#[tokio::test(start_paused = true)]
async fn each_node_gets_one_block_of_each_cluster_cidr() {
    let world = World::ipam("10.244.0.0/16,fd00:10:244::/48").await;
    for number in 0..20 {
        world.create(node(&format!("n{number:02}"), &[])).await;
    }
    world.at_rest().await;
    let mut given = BTreeSet::new();
    for node in world.cluster.objects("nodes") {
        let cidrs = node["spec"]["podCIDRs"].as_array().unwrap();
        assert_eq!(node["spec"]["podCIDR"], cidrs[0]);
        let block = cidrs[0]
            .as_str()
            .unwrap()
            .split('.')
            .nth(2)
            .unwrap()
            .parse::<u32>();
        let block = block.unwrap();
        let second = match block {
            0 => "fd00:10:244::/64".to_owned(),
            _ => format!("fd00:10:244:{block:x}::/64"),
        };
        assert_eq!(cidrs[1], json!(second));
        given.insert(block);
    }
    assert_eq!(given, (0..20).collect());
    assert_eq!(world.writes().len(), 20, "{:#?}", world.writes());
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_with_a_stale_cache_gives_no_block_twice() {
    let mut world = World::bare().await;
    for name in ["a", "b", "c"] {
        world.create(node(name, &[])).await;
    }
    // The informers of the new leader show the nodes as they were at this revision.
    let before = world.cluster.revision();
    world
        .restart_with(&[DESCRIPTOR], with_ranges("10.0.0.0/22"))
        .await;
    let mut given = Vec::new();
    for name in ["a", "b"] {
        given.extend(world.until_given(name).await);
    }
    given.extend(world.until_given("c").await);
    let informers = Matcher::new("list", "nodes").client("shared-informers");
    let lists = world.cluster.faults().hold_view(informers, before);
    let informers = Matcher::new("watch", "nodes").client("shared-informers");
    let watches = world.cluster.faults().hold_view(informers, before);
    let log = Log::collect();
    world.clear_requests();
    world
        .restart_with(&[DESCRIPTOR], with_ranges("10.0.0.0/22"))
        .await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    world.cluster.faults().remove(lists);
    world.cluster.faults().remove(watches);
    world.cluster.faults().break_watches("nodes");
    world.create(node("d", &[])).await;
    given.extend(world.until_given("d").await);
    let different: BTreeSet<_> = given.iter().collect();
    assert_eq!(different.len(), 4, "{given:?}");
    // The live list shows the blocks of the other nodes, so the new leader sends no PATCH for them.
    assert_eq!(world.writes().len(), 1, "{:#?}", world.writes());
    assert_eq!(log.at(Level::ERROR), Default::default());
}

#[tokio::test(start_paused = true)]
async fn the_block_of_an_unanswered_patch_is_given_to_no_other_node() {
    for fault in [
        RequestFault::Hang,
        RequestFault::HangAfterwards,
        RequestFault::LoseAnswer,
    ] {
        let world = World::ipam("10.0.0.0/22").await;
        let patches = Matcher::new("patch", "nodes").name("a");
        let faults = world.cluster.faults();
        // The attempts of two syncs.
        faults.on_request(patches, fault.clone(), Some(6));
        world.create(node("a", &[])).await;
        // The attempts of the first sync have reached their time limit.
        tokio::time::sleep(Duration::from_secs(100)).await;
        world.create(node("b", &[])).await;
        let given = [world.until_given("b").await, world.until_given("a").await];
        assert_eq!(given.concat(), ["10.0.1.0/24", "10.0.0.0/24"], "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_node_frees_the_block_of_an_unanswered_patch() {
    let world = World::ipam("10.0.0.0/24").await;
    let patches = Matcher::new("patch", "nodes").name("a");
    let faults = world.cluster.faults();
    faults.on_request(patches, RequestFault::Hang, None);
    world.create(node("a", &[])).await;
    // The attempts of the first sync have reached their time limit.
    tokio::time::sleep(Duration::from_secs(100)).await;
    world.remove_node("a").await;
    world.create(node("b", &[])).await;
    assert_eq!(world.until_given("b").await, ["10.0.0.0/24"]);
}

/// So a late PATCH for a deleted node changes no new node of its name.
#[tokio::test(start_paused = true)]
async fn a_patch_names_the_uid_of_its_node() {
    let world = World::ipam("10.0.0.0/24").await;
    world.cluster.keep_contents();
    world.create(node("a", &[])).await;
    world.until_given("a").await;
    let requests = world.cluster.requests();
    let patch = requests.iter().find(|request| request.verb == "patch");
    let body = &patch.unwrap().content.as_ref().unwrap().body;
    let body: Value = serde_json::from_slice(body).unwrap();
    let uid = world.find("nodes", "a").unwrap()["metadata"]["uid"].clone();
    assert_eq!(body["metadata"], json!({"uid": uid}));
}

#[tokio::test(start_paused = true)]
async fn a_patch_for_a_replaced_node_is_no_failure() {
    let world = World::ipam("10.0.0.0/24").await;
    let patches = Matcher::new("patch", "nodes").name("a");
    let faults = world.cluster.faults();
    faults.on_request(patches, RequestFault::HangAfterwards, Some(1));
    world.create(node("a", &[])).await;
    // The PATCH has taken effect, and the controller awaits its answer.
    world.until_given("a").await;
    world.remove_node("a").await;
    world.create(node("a", &[])).await;
    assert_eq!(world.until_given("a").await, ["10.0.0.0/24"]);
    world.at_rest().await;
    let events = world.cluster.objects("events");
    assert!(events.is_empty(), "{events:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_refused_patch_is_sent_three_times_and_reported() {
    let world = World::ipam("10.0.0.0/22").await;
    let patches = Matcher::new("patch", "nodes").name("a");
    world.cluster.faults().reject(patches, conflict(), Some(3));
    world.create(node("a", &[])).await;
    // The next sync goes on with the next block, as upstream.
    assert_eq!(world.until_given("a").await, ["10.0.1.0/24"]);
    world.at_rest().await;
    let codes: Vec<_> = world.writes();
    assert_eq!(codes.len(), 4, "{codes:#?}");
    assert_eq!(
        world.node_events("a"),
        reported("a", "CIDRAssignmentFailed")
    );
    let events = world.cluster.objects("events");
    let event = &events[0];
    assert_eq!(event["type"], "Normal");
    assert_eq!(event["source"]["component"], "cidrAllocator");
    let node = world.find("nodes", "a").unwrap();
    let expected = json!({
        "apiVersion": "v1", "kind": "Node", "name": "a", "uid": node["metadata"]["uid"],
    });
    assert_eq!(event["involvedObject"], expected);
    assert_eq!(event["metadata"]["namespace"], "default");
}

#[tokio::test(start_paused = true)]
async fn a_node_without_a_free_block_gets_the_next_freed_one_at_once() {
    let world = World::ipam("10.0.0.0/23").await;
    for name in ["a", "b"] {
        world.create(node(name, &[])).await;
        world.until_given(name).await;
    }
    world.create(node("c", &[])).await;
    world
        .until("the Event", |state| !state.events_about("c").is_empty())
        .await;
    tokio::time::sleep(Duration::from_secs(900)).await;
    assert_eq!(world.node_events("c"), reported("c", "CIDRNotAvailable"));
    let freed = world.cidrs("a");
    world.remove_node("a").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(world.cidrs("c"), freed);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_node_frees_its_block_also_if_its_deletion_was_missed() {
    let world = World::ipam("10.0.0.0/24").await;
    for (name, is_missed) in [("a", false), ("b", true), ("c", false)] {
        world.create(node(name, &[])).await;
        assert_eq!(world.until_given(name).await, ["10.0.0.0/24"]);
        if is_missed {
            world.cluster.faults().stall_watches("nodes");
        }
        world.remove_node(name).await;
        if is_missed {
            world.cluster.faults().break_watches("nodes");
            world.cluster.faults().resume_watches("nodes");
        }
    }
}

/// Upstream: `TestNodeDeletionReleaseCIDR`.
#[tokio::test(start_paused = true)]
async fn only_a_deleted_node_releases_its_cidr() {
    // (finalizer, deleted, next block)
    let cases = [
        (false, false, "10.10.1.0/24"),
        (true, true, "10.10.1.0/24"),
        (false, true, "10.10.0.0/24"),
    ];
    for (has_finalizer, is_deleted, next) in cases {
        let mut world = World::bare().await;
        let mut node0 = node("node0", &["10.10.0.0/24"]);
        if has_finalizer {
            node0["metadata"]["finalizers"] = json!(["example.com/stays"]);
        }
        world.create(node0).await;
        if is_deleted {
            world.remove_node("node0").await;
        }
        world
            .restart_with(&[DESCRIPTOR], with_ranges("10.10.0.0/16"))
            .await;
        world.create(node("next", &[])).await;
        assert_eq!(world.until_given("next").await, [next]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_foreign_block_is_an_error_and_leaves_the_other_nodes_alone() {
    let world = World::ipam("10.0.0.0/22").await;
    let log = Log::collect();
    world.create(node("foreign", &["192.168.0.0/24"])).await;
    world.create(node("own", &["10.0.0.0/24"])).await;
    world.create(node("new", &[])).await;
    assert_eq!(world.until_given("new").await, ["10.0.1.0/24"]);
    world.at_rest().await;
    assert_eq!(world.writes().len(), 1, "{:#?}", world.writes());
    world.remove_node("foreign").await;
    world.at_rest().await;
    let messages = ["sync failed", "Error while processing CIDR Release"];
    log.assert_has(Level::ERROR, &messages);
}

/// Builds and runs the controller until it ends with an error.
async fn assert_ends(world: &World, clusters: &'static str) {
    let log = Log::collect();
    let context = with_ranges(clusters)(world.context());
    DESCRIPTOR.watch(&context.informers, &context.features, context.release);
    let controller = (DESCRIPTOR.init)(&context).unwrap();
    context.informers.start(&context.tasks, &context.stop);
    assert!(context.informers.wait_synced(&context.stop).await);
    controller.run(CancellationToken::new()).await;
    context.stop.cancel();
    log.assert_has(Level::ERROR, &["Error initializing a controller"]);
}

#[tokio::test(start_paused = true)]
async fn an_existing_node_with_a_foreign_block_ends_the_controller() {
    for cidrs in [&["10.245.0.0/24"][..], &["10.244.0.0/24", "fd00::/64"]] {
        let world = World::bare().await;
        world.create(node("a", cidrs)).await;
        assert_ends(&world, "10.244.0.0/16").await;
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_list_of_nodes_within_ten_minutes_the_controller_ends() {
    let mut world = World::bare().await;
    let lists = || Matcher::new("list", "nodes").client("node-controller");
    let failures = world
        .cluster
        .faults()
        .reject(lists(), internal_error(), Some(5));
    world.create(node("a", &[])).await;
    world
        .restart_with(&[DESCRIPTOR], with_ranges("10.0.0.0/22"))
        .await;
    assert_eq!(world.until_given("a").await, ["10.0.0.0/24"]);
    assert_eq!(world.cluster.faults().hits(failures), 5);

    world
        .cluster
        .faults()
        .reject(lists(), internal_error(), None);
    let begin = tokio::time::Instant::now();
    assert_ends(&world, "10.0.0.0/22").await;
    let limit = Duration::from_secs(600);
    assert!((limit..limit + Duration::from_secs(10)).contains(&begin.elapsed()));
}

#[tokio::test(start_paused = true)]
async fn flags_decide_if_the_controller_is_built() {
    let world = World::bare().await;
    let context = world.context();
    assert!((DESCRIPTOR.init)(&context).unwrap().is_switched_off());
    let context = with_ranges("10.0.0.0/16,10.1.0.0/16")(world.context());
    let error = (DESCRIPTOR.init)(&context).err().unwrap();
    assert_eq!(
        error.source.to_string(),
        "len of ClusterCIDRs==2 and they are not configured as dual stack (at least one from \
         each IPFamily"
    );
}
