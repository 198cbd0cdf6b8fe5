//! Concurrent changes: recreated owners, late dependents, stalled watches, restarts and failed
//! requests.

use steersman_devcluster::faults::Matcher;
use steersman_devcluster::status::Status;

use super::*;

fn broken() -> Status {
    Status::new(500, "InternalError", "on purpose")
}

#[tokio::test(start_paused = true)]
async fn dependents_of_a_recreated_owner_stay_and_those_of_the_old_owner_are_deleted() {
    let world = World::with_collector().await;
    let old = world.config_map("a", &[]).await;
    world.config_map("old-child", &[(&old, true)]).await;
    world.cluster.faults().stall_watches("configmaps");
    world.delete_with("a", "Background").await;
    let new = world.config_map("a", &[]).await;
    world.config_map("new-child", &[(&new, true)]).await;
    world.cluster.faults().resume_watches("configmaps");
    world.until_config_maps(&["a", "new-child"]).await;
    tokio::time::sleep(A_WHILE).await;
    world.until_config_maps(&["a", "new-child"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_dependent_created_during_the_deletion_of_its_owner_is_deleted_too() {
    for policy in ["Foreground", "Background"] {
        let world = World::with_collector().await;
        let a = world.config_map("a", &[]).await;
        world
            .create(with_finalizer(owned("b", &[(&a, true)])))
            .await;
        world.delete_with("a", policy).await;
        world.config_map("late", &[(&a, true)]).await;
        world
            .until_config_maps(if policy == "Foreground" {
                &["a", "b"]
            } else {
                &["b"]
            })
            .await;
        world.remove_finalizers("b").await;
        world.until_config_maps(&[]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_dependent_created_during_orphaning_is_orphaned_too() {
    let world = World::with_collector().await;
    let a = world.config_map("a", &[]).await;
    world.config_map("b", &[(&a, true)]).await;
    // The first try of orphaning fails; the second has one more dependent.
    let refused = world.cluster.faults().reject(
        Matcher::new("patch", "configmaps").name("b"),
        broken(),
        Some(1),
    );
    world.delete_with("a", "Orphan").await;
    world.cluster.faults().met(refused).await;
    world.config_map("late", &[(&a, true)]).await;
    world.until_config_maps(&["b", "late"]).await;
    tokio::time::sleep(A_WHILE).await;
    world.until_config_maps(&["b", "late"]).await;
    assert_eq!(
        (world.owners_of("b"), world.owners_of("late")),
        (vec![], vec![])
    );
}

#[tokio::test(start_paused = true)]
async fn the_deletion_of_an_owner_is_noticed_although_its_watch_stalls() {
    let world = World::with_collector().await;
    world.cluster.faults().stall_watches("configmaps");
    let a = world.config_map("a", &[]).await;
    let owners = owned("x", &[(&a, true)])["metadata"]["ownerReferences"].clone();
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "ownerReferences": owners}});
    world.create(secret).await;
    tokio::time::sleep(A_WHILE).await;
    assert!(
        world.find("secrets", "s").is_some(),
        "the owner exists, although the watch does not show it"
    );
    world.delete_with("a", "Background").await;
    world
        .until("secret gone", |_| world.find("secrets", "s").is_none())
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_began_before_a_restart_is_completed_after_it() {
    for policy in ["Background", "Foreground", "Orphan"] {
        let mut world = World::with_collector().await;
        let a = world.config_map("a", &[]).await;
        let b = world.config_map("b", &[(&a, true)]).await;
        world.config_map("c", &[(&b, true)]).await;
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
            .until_config_maps(if policy == "Orphan" { &["b", "c"] } else { &[] })
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
async fn an_owner_stays_until_every_dependent_is_orphaned() {
    let world = World::with_collector().await;
    let a = world.config_map("a", &[]).await;
    world.config_map("b", &[(&a, true)]).await;
    world.config_map("c", &[(&a, true)]).await;
    let rule = world.cluster.faults().reject(
        Matcher::new("patch", "configmaps").name("b"),
        broken(),
        None,
    );
    world.delete_with("a", "Orphan").await;
    tokio::time::sleep(A_WHILE).await;
    world.until_config_maps(&["a", "b", "c"]).await;
    assert_eq!(
        (world.owners_of("b"), world.owners_of("c")),
        (vec!["a".to_owned()], vec![])
    );
    world.cluster.faults().remove(rule);
    world.until_config_maps(&["b", "c"]).await;
    assert_eq!(world.owners_of("b"), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_owner_does_not_count_as_absent() {
    let world = World::with_collector().await;
    let a = world.config_map("a", &[]).await;
    // A server error, and a 404 that concerns the resource type instead of the object.
    for status in [broken(), Status::no_such_resource()] {
        let rule = world.cluster.faults().reject(
            Matcher::new("get", "configmaps").name("a"),
            status,
            None,
        );
        // The graph lacks this UID, so the collector reads the owner.
        let mut other_uid = a.clone();
        other_uid["metadata"]["uid"] = json!("0e5f2a64-56c0-4c6e-a4bd-6d5d8f7d8a01");
        world.config_map("b", &[(&other_uid, true)]).await;
        tokio::time::sleep(A_WHILE).await;
        world.until_config_maps(&["a", "b"]).await;
        world.cluster.faults().remove(rule);
        world.until_config_maps(&["a"]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_adopted_between_read_and_deletion_stays() {
    let world = World::with_collector().await;
    let a = world.config_map("a", &[]).await;
    let new_owner = world.config_map("new-owner", &[]).await;
    world.config_map("b", &[(&a, true)]).await;
    world.cluster.faults().delay(
        Matcher::new("delete", "configmaps").name("b"),
        Duration::from_secs(5),
        Some(1),
    );
    world.delete_with("a", "Background").await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let owners = owned("x", &[(&new_owner, true)])["metadata"]["ownerReferences"].clone();
    world
        .patch(
            "configmaps",
            "b",
            json!({"metadata": {"ownerReferences": owners}}),
        )
        .await;
    tokio::time::sleep(A_WHILE).await;
    world.until_config_maps(&["b", "new-owner"]).await;

    // A change of other fields does not prevent the deletion.
    world.cluster.faults().delay(
        Matcher::new("delete", "configmaps").name("b"),
        Duration::from_secs(5),
        Some(1),
    );
    world.delete_with("new-owner", "Background").await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    world
        .patch("configmaps", "b", json!({"data": {"x": "y"}}))
        .await;
    world.until_config_maps(&[]).await;
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_removed_by_another_client_is_no_error() {
    let world = World::with_collector().await;
    let a = world.config_map("a", &[]).await;
    world
        .create(with_finalizer(owned("b", &[(&a, true)])))
        .await;
    world.delete_with("a", "Foreground").await;
    tokio::time::sleep(A_WHILE).await;
    world.cluster.faults().delay(
        Matcher::new("patch", "configmaps").name("a"),
        Duration::from_secs(5),
        Some(1),
    );
    world.remove_finalizers("b").await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    // The test sends the same patch as the delayed one of the collector.
    world.cluster.faults().delay(
        Matcher::new("patch", "configmaps").name("a"),
        Duration::ZERO,
        Some(1),
    );
    world.remove_finalizers("a").await;
    world.until_config_maps(&[]).await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(
        world
            .collector_requests()
            .iter()
            .filter(|request| request.contains(" a 5"))
            .count(),
        0
    );
}

#[tokio::test(start_paused = true)]
async fn an_api_group_missing_from_discovery_stays_watched_and_its_objects_count_as_existing() {
    let world = World::with_collector().await;
    tokio::time::sleep(A_WHILE).await;
    let set = json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": "owner"}, "revision": 1, "data": {},
    });
    let owner = world.create(set).await;
    world.config_map("before", &[(&owner, true)]).await;
    world.cluster.faults().hide_from_discovery("apps");
    world.cluster.faults().reject(
        Matcher::new("get", "controllerrevisions"),
        Status::no_such_resource(),
        Some(20),
    );
    tokio::time::sleep(A_WHILE).await;
    world.config_map("during", &[(&owner, true)]).await;
    tokio::time::sleep(A_WHILE).await;
    world.until_config_maps(&["before", "during"]).await;
    world.delete("controllerrevisions", "owner").await;
    world.until_config_maps(&[]).await;
    world.cluster.faults().show_in_discovery("apps");
    tokio::time::sleep(A_WHILE).await;
    let watches = world
        .cluster
        .requests()
        .into_iter()
        .filter(|r| r.verb == "watch" && r.resource == "controllerrevisions");
    assert_eq!(watches.count(), 1, "the monitor was not restarted");
}

#[tokio::test(start_paused = true)]
async fn two_objects_with_the_same_uid_each_keep_the_dependents_in_their_namespace() {
    let mut world = World::with_collector().await;
    world
        .create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}))
        .await;
    // A backup tool restored the object into another namespace, with its UID.
    let mut copy = world.config_map("a", &[]).await;
    copy["metadata"]["namespace"] = json!("other");
    world.cluster.load(copy.clone()).unwrap();
    world.config_map("child", &[(&copy, true)]).await;
    let mut child_of_copy = owned("child-of-copy", &[(&copy, true)]);
    child_of_copy["metadata"]["namespace"] = json!("other");
    world.create(child_of_copy).await;
    tokio::time::sleep(A_WHILE).await;
    world
        .until_config_maps(&["a", "child", "a", "child-of-copy"])
        .await;
    world.delete_with("a", "Background").await;
    world.until_config_maps(&["a", "child-of-copy"]).await;
    tokio::time::sleep(A_WHILE).await;
    world.until_config_maps(&["a", "child-of-copy"]).await;
    // The graph has one node per UID, as upstream's does. Only a restarted collector notices the
    // deletion of the second object.
    world
        .cluster
        .delete(&world.cluster.path("configmaps", "other", "a"))
        .await
        .unwrap();
    world.restart(&[DESCRIPTOR]).await;
    world.until_config_maps(&[]).await;
}

#[tokio::test(start_paused = true)]
async fn a_type_that_never_syncs_does_not_delay_other_types() {
    let mut world = World::bare().await;
    let rules = ["list", "watch"].map(|verb| {
        world
            .cluster
            .faults()
            .reject(Matcher::new(verb, "secrets"), broken(), None)
    });
    world.restart(&[DESCRIPTOR]).await;
    let a = world.config_map("a", &[]).await;
    world.config_map("b", &[(&a, true)]).await;
    let owners = owned("x", &[(&a, true)])["metadata"]["ownerReferences"].clone();
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "ownerReferences": owners}});
    world.create(secret).await;
    world.delete_with("a", "Background").await;
    world.until_config_maps(&[]).await;
    assert!(
        world.find("secrets", "s").is_some(),
        "no informer has shown the Secret"
    );
    rules
        .iter()
        .for_each(|rule| world.cluster.faults().remove(*rule));
    world
        .until("Secret deleted", |_| world.find("secrets", "s").is_none())
        .await;
}

#[tokio::test(start_paused = true)]
async fn twenty_workers_send_each_write_for_one_owner_once() {
    const DEPENDENTS: usize = 60;
    for policy in ["Background", "Foreground", "Orphan"] {
        let world = World::with_collector().await;
        let a = world.config_map("a", &[]).await;
        for number in 0..DEPENDENTS {
            world
                .config_map(&format!("d{number:02}"), &[(&a, true)])
                .await;
        }
        tokio::time::sleep(A_WHILE).await;
        // Slow answers keep all workers busy at the same time.
        for verb in ["get", "delete", "patch"] {
            world.cluster.faults().delay(
                Matcher::new(verb, "configmaps"),
                Duration::from_millis(20),
                None,
            );
        }
        world.clear_requests();
        world.delete_with("a", policy).await;
        let left = if policy == "Orphan" { DEPENDENTS } else { 0 };
        world
            .until(&format!("{policy}: {left} left"), |_| {
                world.config_maps().len() == left
            })
            .await;
        tokio::time::sleep(A_WHILE).await;
        let asked = world.collector_requests();
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
        assert_eq!(count("get", false), 0, "{policy}");
    }
}
