//! Changes that cross: recreation, late dependents, stalled watches, restarts, and answers that
//! fail.

use steersman_devcluster::faults::Matcher;
use steersman_devcluster::status::Status;

use super::*;

fn broken() -> Status {
    Status::new(500, "InternalError", "on purpose")
}

#[tokio::test(start_paused = true)]
async fn children_of_a_namesake_stay_and_those_of_the_old_owner_go() {
    let world = World::collected().await;
    let old = world.map("a", &[]).await;
    world.map("old-child", &[(&old, true)]).await;
    world.cluster.faults().stall_watches("configmaps");
    world.delete_with("a", "Background").await;
    let new = world.map("a", &[]).await;
    world.map("new-child", &[(&new, true)]).await;
    world.cluster.faults().resume_watches("configmaps");
    world.until_maps(&["a", "new-child"]).await;
    tokio::time::sleep(A_WHILE).await;
    world.until_maps(&["a", "new-child"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_dependent_created_while_its_owner_is_being_deleted_goes_too() {
    for policy in ["Foreground", "Background"] {
        let world = World::collected().await;
        let a = world.map("a", &[]).await;
        world.create(held(owned("b", &[(&a, true)]))).await;
        world.delete_with("a", policy).await;
        world.map("late", &[(&a, true)]).await;
        world
            .until_maps(if policy == "Foreground" {
                &["a", "b"]
            } else {
                &["b"]
            })
            .await;
        world.let_go("b").await;
        world.until_maps(&[]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_dependent_created_while_others_are_orphaned_is_orphaned_too() {
    let world = World::collected().await;
    let a = world.map("a", &[]).await;
    world.map("b", &[(&a, true)]).await;
    // Orphaning takes a second try, by then of one dependent more.
    let refused = world.cluster.faults().reject(
        Matcher::new("patch", "configmaps").name("b"),
        broken(),
        Some(1),
    );
    world.delete_with("a", "Orphan").await;
    world.cluster.faults().met(refused).await;
    world.map("late", &[(&a, true)]).await;
    world.until_maps(&["b", "late"]).await;
    tokio::time::sleep(A_WHILE).await;
    world.until_maps(&["b", "late"]).await;
    assert_eq!(
        (world.owners_of("b"), world.owners_of("late")),
        (vec![], vec![])
    );
}

#[tokio::test(start_paused = true)]
async fn an_owner_deleted_while_its_watch_says_nothing_is_found_out() {
    let world = World::collected().await;
    world.cluster.faults().stall_watches("configmaps");
    let a = world.map("a", &[]).await;
    let owners = owned("x", &[(&a, true)])["metadata"]["ownerReferences"].clone();
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "ownerReferences": owners}});
    world.create(secret).await;
    tokio::time::sleep(A_WHILE).await;
    assert!(
        world.find("secrets", "s").is_some(),
        "its owner exists, whether or not a watch shows it"
    );
    world.delete_with("a", "Background").await;
    world
        .until("secret gone", |_| world.find("secrets", "s").is_none())
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_deletion_begun_before_a_restart_is_finished_after_it() {
    for policy in ["Background", "Foreground", "Orphan"] {
        let mut world = World::collected().await;
        let a = world.map("a", &[]).await;
        let b = world.map("b", &[(&a, true)]).await;
        world.map("c", &[(&b, true)]).await;
        // The first step of each policy fails until the restart.
        for verb in ["delete", "patch"] {
            world.cluster.faults().reject(
                Matcher::new(verb, "configmaps").name("b"),
                broken(),
                Some(3),
            );
        }
        world.delete_with("a", policy).await;
        world.restart(&[]).await;
        tokio::time::sleep(A_WHILE).await;
        world.restart(&[DESCRIPTOR]).await;
        world
            .until_maps(if policy == "Orphan" { &["b", "c"] } else { &[] })
            .await;
        tokio::time::sleep(A_WHILE).await;
        if policy == "Orphan" {
            assert_eq!(
                (world.owners_of("b"), world.owners_of("c")),
                (vec![], vec!["b".to_owned()])
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn one_dependent_that_cannot_be_orphaned_keeps_the_owner() {
    let world = World::collected().await;
    let a = world.map("a", &[]).await;
    world.map("b", &[(&a, true)]).await;
    world.map("c", &[(&a, true)]).await;
    let rule = world.cluster.faults().reject(
        Matcher::new("patch", "configmaps").name("b"),
        broken(),
        None,
    );
    world.delete_with("a", "Orphan").await;
    tokio::time::sleep(A_WHILE).await;
    world.until_maps(&["a", "b", "c"]).await;
    assert_eq!(
        (world.owners_of("b"), world.owners_of("c")),
        (vec!["a".to_owned()], vec![])
    );
    world.cluster.faults().remove(rule);
    world.until_maps(&["b", "c"]).await;
    assert_eq!(world.owners_of("b"), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_cannot_be_read_is_not_taken_for_absent() {
    let world = World::collected().await;
    let a = world.map("a", &[]).await;
    // Errors, and a 404 of something other than the object.
    for status in [broken(), Status::no_such_resource()] {
        let rule = world.cluster.faults().reject(
            Matcher::new("get", "configmaps").name("a"),
            status,
            None,
        );
        // Never seen under that UID, so it is asked for.
        let mut elsewhere = a.clone();
        elsewhere["metadata"]["uid"] = json!("0e5f2a64-56c0-4c6e-a4bd-6d5d8f7d8a01");
        world.map("b", &[(&elsewhere, true)]).await;
        tokio::time::sleep(A_WHILE).await;
        world.until_maps(&["a", "b"]).await;
        world.cluster.faults().remove(rule);
        world.until_maps(&["a"]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_adopted_between_look_and_deletion_stays() {
    let world = World::collected().await;
    let (a, heir) = (world.map("a", &[]).await, world.map("heir", &[]).await);
    world.map("b", &[(&a, true)]).await;
    world.cluster.faults().delay(
        Matcher::new("delete", "configmaps").name("b"),
        Duration::from_secs(5),
        Some(1),
    );
    world.delete_with("a", "Background").await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let owners = owned("x", &[(&heir, true)])["metadata"]["ownerReferences"].clone();
    world
        .patch(
            "configmaps",
            "b",
            json!({"metadata": {"ownerReferences": owners}}),
        )
        .await;
    tokio::time::sleep(A_WHILE).await;
    world.until_maps(&["b", "heir"]).await;

    // A change of something else does not save it.
    world.cluster.faults().delay(
        Matcher::new("delete", "configmaps").name("b"),
        Duration::from_secs(5),
        Some(1),
    );
    world.delete_with("heir", "Background").await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    world
        .patch("configmaps", "b", json!({"data": {"x": "y"}}))
        .await;
    world.until_maps(&[]).await;
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_taken_by_somebody_else_is_no_error() {
    let world = World::collected().await;
    let a = world.map("a", &[]).await;
    world.create(held(owned("b", &[(&a, true)]))).await;
    world.delete_with("a", "Foreground").await;
    tokio::time::sleep(A_WHILE).await;
    world.cluster.faults().delay(
        Matcher::new("patch", "configmaps").name("a"),
        Duration::from_secs(5),
        Some(1),
    );
    world.let_go("b").await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    // The same change as the collector's, which is on its way.
    world.cluster.faults().delay(
        Matcher::new("patch", "configmaps").name("a"),
        Duration::ZERO,
        Some(1),
    );
    world.let_go("a").await;
    world.until_maps(&[]).await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(
        world
            .collector_asked()
            .iter()
            .filter(|request| request.contains(" a 5"))
            .count(),
        0
    );
}

#[tokio::test(start_paused = true)]
async fn a_group_that_discovery_loses_for_a_while_stays_watched_and_nothing_of_it_counts_as_absent()
{
    let world = World::collected().await;
    tokio::time::sleep(A_WHILE).await;
    let set = json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": "owner"}, "revision": 1,
    });
    let owner = world.create(set).await;
    world.map("before", &[(&owner, true)]).await;
    world.cluster.faults().hide_from_discovery("apps");
    world.cluster.faults().reject(
        Matcher::new("get", "controllerrevisions"),
        Status::no_such_resource(),
        Some(20),
    );
    tokio::time::sleep(A_WHILE).await;
    world.map("during", &[(&owner, true)]).await;
    tokio::time::sleep(A_WHILE).await;
    world.until_maps(&["before", "during"]).await;
    world.delete("controllerrevisions", "owner").await;
    world.until_maps(&[]).await;
    world.cluster.faults().show_in_discovery("apps");
    tokio::time::sleep(A_WHILE).await;
    let watches = world
        .cluster
        .requests()
        .into_iter()
        .filter(|r| r.verb == "watch" && r.resource == "controllerrevisions");
    assert_eq!(watches.count(), 1, "the monitor was never started anew");
}

#[tokio::test(start_paused = true)]
async fn an_object_seen_twice_under_one_uid_keeps_its_children_in_each_namespace_while_it_is_there()
{
    let mut world = World::collected().await;
    world
        .create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}))
        .await;
    // As a backup brings it back in another namespace, where the first one still is.
    let mut twin = world.map("a", &[]).await;
    twin["metadata"]["namespace"] = json!("other");
    world.cluster.load(twin.clone()).unwrap();
    world.map("child", &[(&twin, true)]).await;
    let mut there = owned("child-of-twin", &[(&twin, true)]);
    there["metadata"]["namespace"] = json!("other");
    world.create(there).await;
    tokio::time::sleep(A_WHILE).await;
    world
        .until_maps(&["a", "child", "a", "child-of-twin"])
        .await;
    world.delete_with("a", "Background").await;
    world.until_maps(&["a", "child-of-twin"]).await;
    tokio::time::sleep(A_WHILE).await;
    world.until_maps(&["a", "child-of-twin"]).await;
    // The graph knows one object per UID, as upstream's does: that the second one goes is noticed
    // by a collector that starts afterwards.
    world
        .cluster
        .delete(&world.cluster.path("configmaps", "other", "a"))
        .await
        .unwrap();
    world.restart(&[DESCRIPTOR]).await;
    world.until_maps(&[]).await;
}

#[tokio::test(start_paused = true)]
async fn a_type_that_never_syncs_holds_nobody_else_up() {
    let mut world = World::bare().await;
    let rules = ["list", "watch"].map(|verb| {
        world
            .cluster
            .faults()
            .reject(Matcher::new(verb, "secrets"), broken(), None)
    });
    world.restart(&[DESCRIPTOR]).await;
    let a = world.map("a", &[]).await;
    world.map("b", &[(&a, true)]).await;
    let owners = owned("x", &[(&a, true)])["metadata"]["ownerReferences"].clone();
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "ownerReferences": owners}});
    world.create(secret).await;
    world.delete_with("a", "Background").await;
    world.until_maps(&[]).await;
    assert!(world.find("secrets", "s").is_some(), "nobody has seen it");
    rules
        .iter()
        .for_each(|rule| world.cluster.faults().remove(*rule));
    world
        .until("seen at last", |_| world.find("secrets", "s").is_none())
        .await;
}

#[tokio::test(start_paused = true)]
async fn twenty_workers_on_one_owner_do_each_thing_once() {
    const DEPENDENTS: usize = 60;
    for policy in ["Background", "Foreground", "Orphan"] {
        let world = World::collected().await;
        let a = world.map("a", &[]).await;
        for number in 0..DEPENDENTS {
            world.map(&format!("d{number:02}"), &[(&a, true)]).await;
        }
        tokio::time::sleep(A_WHILE).await;
        // Answers take a while, so that all workers are at it at once.
        for verb in ["get", "delete", "patch"] {
            world.cluster.faults().delay(
                Matcher::new(verb, "configmaps"),
                Duration::from_millis(20),
                None,
            );
        }
        world.cluster.clear_requests();
        world.delete_with("a", policy).await;
        let left = if policy == "Orphan" { DEPENDENTS } else { 0 };
        world
            .until(&format!("{policy}: {left} left"), |_| {
                world.maps().len() == left
            })
            .await;
        tokio::time::sleep(A_WHILE).await;
        let asked = world.collector_asked();
        let count = |verb: &str, of_owner: bool| {
            let is_owner = |request: &String| request.contains(" a ");
            asked
                .iter()
                .filter(|request| request.starts_with(verb) && is_owner(request) == of_owner)
                .count()
        };
        let writes = (
            count("delete", false),
            count("patch", false),
            count("delete", true),
            count("patch", true),
        );
        let expected = match policy {
            "Background" => (DEPENDENTS, 0, 0, 0),
            "Foreground" => (DEPENDENTS, 0, 0, 1),
            _ => (0, DEPENDENTS, 0, 1),
        };
        assert_eq!(writes, expected, "{policy}: {asked:#?}");
        assert!(
            asked.iter().all(|request| request.ends_with(" 200")),
            "{policy}: {asked:#?}"
        );
        let reads = if policy == "Orphan" { 0 } else { DEPENDENTS };
        assert_eq!(count("get", false), reads, "{policy}");
    }
}
