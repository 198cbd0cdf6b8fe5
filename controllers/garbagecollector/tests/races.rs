//! Changes that cross: recreation, late dependents, stalled watches, restarts, and answers that fail.

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
        world.until_maps(if policy == "Foreground" { &["a", "b"] } else { &["b"] }).await;
        world.let_go("b").await;
        world.until_maps(&[]).await;
    }
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
    assert!(world.find("secrets", "s").is_some(), "its owner exists, whether or not a watch shows it");
    world.delete_with("a", "Background").await;
    world.until("secret gone", |_| world.find("secrets", "s").is_none()).await;
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
            world.cluster.faults().reject(Matcher::new(verb, "configmaps").name("b"), broken(), Some(3));
        }
        world.delete_with("a", policy).await;
        world.restart(&[]).await;
        tokio::time::sleep(A_WHILE).await;
        world.restart(&[DESCRIPTOR]).await;
        world.until_maps(if policy == "Orphan" { &["b", "c"] } else { &[] }).await;
        tokio::time::sleep(A_WHILE).await;
        if policy == "Orphan" {
            assert_eq!((world.owners_of("b"), world.owners_of("c")), (vec![], vec!["b".to_owned()]));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn one_dependent_that_cannot_be_orphaned_keeps_the_owner() {
    let world = World::collected().await;
    let a = world.map("a", &[]).await;
    world.map("b", &[(&a, true)]).await;
    world.map("c", &[(&a, true)]).await;
    let rule = world.cluster.faults().reject(Matcher::new("patch", "configmaps").name("b"), broken(), None);
    world.delete_with("a", "Orphan").await;
    tokio::time::sleep(A_WHILE).await;
    world.until_maps(&["a", "b", "c"]).await;
    assert_eq!((world.owners_of("b"), world.owners_of("c")), (vec!["a".to_owned()], vec![]));
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
        let rule = world.cluster.faults().reject(Matcher::new("get", "configmaps").name("a"), status, None);
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
    world.cluster.faults().delay(Matcher::new("delete", "configmaps").name("b"), Duration::from_secs(5), Some(1));
    world.delete_with("a", "Background").await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let owners = owned("x", &[(&heir, true)])["metadata"]["ownerReferences"].clone();
    world.patch("configmaps", "b", json!({"metadata": {"ownerReferences": owners}})).await;
    tokio::time::sleep(A_WHILE).await;
    world.until_maps(&["b", "heir"]).await;

    // A change of something else does not save it.
    world.cluster.faults().delay(Matcher::new("delete", "configmaps").name("b"), Duration::from_secs(5), Some(1));
    world.delete_with("heir", "Background").await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    world.patch("configmaps", "b", json!({"data": {"x": "y"}})).await;
    world.until_maps(&[]).await;
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_taken_by_somebody_else_is_no_error() {
    let world = World::collected().await;
    let a = world.map("a", &[]).await;
    world.create(held(owned("b", &[(&a, true)]))).await;
    world.delete_with("a", "Foreground").await;
    tokio::time::sleep(A_WHILE).await;
    world.cluster.faults().delay(Matcher::new("patch", "configmaps").name("a"), Duration::from_secs(5), Some(1));
    world.let_go("b").await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    // The same change as the collector's, which is on its way.
    world.cluster.faults().delay(Matcher::new("patch", "configmaps").name("a"), Duration::ZERO, Some(1));
    world.let_go("a").await;
    world.until_maps(&[]).await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(world.collector_asked().iter().filter(|request| request.contains(" a 5")).count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_group_that_discovery_loses_for_a_while_stays_watched_and_nothing_of_it_counts_as_absent() {
    let world = World::collected().await;
    tokio::time::sleep(A_WHILE).await;
    let set = json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": "owner"}, "revision": 1,
    });
    let owner = world.create(set).await;
    world.map("before", &[(&owner, true)]).await;
    world.cluster.faults().hide_from_discovery("apps");
    world.cluster.faults().reject(Matcher::new("get", "controllerrevisions"), Status::no_such_resource(), Some(20));
    tokio::time::sleep(A_WHILE).await;
    world.map("during", &[(&owner, true)]).await;
    tokio::time::sleep(A_WHILE).await;
    world.until_maps(&["before", "during"]).await;
    world.delete("controllerrevisions", "owner").await;
    world.until_maps(&[]).await;
    world.cluster.faults().show_in_discovery("apps");
    tokio::time::sleep(A_WHILE).await;
    let watches = world.cluster.requests().into_iter().filter(|r| r.verb == "watch" && r.resource == "controllerrevisions");
    assert_eq!(watches.count(), 1, "the monitor was never started anew");
}
