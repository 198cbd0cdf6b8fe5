//! Revisions: adoption, collisions of names, and the history limit.

use super::*;

fn revision(name: &str, number: i64, data: Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision",
        "metadata": {"name": name, "labels": {"app": "web"}}, "data": data, "revision": number,
    })
}

/// The name and data of the revision of `set`.
async fn revision_of(set: Value) -> (String, Value) {
    let world = world_with(set).await;
    let revision = world.cluster.objects("controllerrevisions").remove(0);
    (name(&revision).to_owned(), revision["data"].clone())
}

#[tokio::test(start_paused = true)]
async fn orphan_revisions_are_adopted() {
    let (name, data) = revision_of(web(1)).await;
    let world = world().await;
    world.create(revision(&name, 7, data)).await;
    let set = world.create(web(1)).await;
    world.make_pods_ready().await;
    let revisions = world.cluster.objects("controllerrevisions");
    assert_eq!(
        revisions.len(),
        1,
        "the orphan is the revision of the template"
    );
    let owner = &revisions[0]["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["uid"], &owner["controller"]),
        (&set["metadata"]["uid"], &json!(true))
    );
    assert_eq!(revisions[0]["revision"], 7);
    let adoption = format!("patch controllerrevisions/{name} 200");
    let writes = world.writes();
    assert_eq!(
        writes.iter().filter(|write| **write == adoption).count(),
        1,
        "{writes:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_set_in_deletion_adopts_no_revision() {
    let mut set = web(1);
    set["metadata"]["finalizers"] = json!(["example.com/keep"]);
    let world = world_with(set).await;
    world.delete("statefulsets", "web").await;
    world
        .create(revision("orphan", 7, json!({"spec": {}})))
        .await;
    // A pod that ends enqueues the set.
    world.kill("web-0").await;
    world.at_rest().await;
    let orphan = world.find("controllerrevisions", "orphan").unwrap();
    assert_eq!(orphan["metadata"].get("ownerReferences"), None);
}

#[tokio::test(start_paused = true)]
async fn a_taken_name_raises_the_collision_count() {
    let (taken, _) = revision_of(web(1)).await;
    let world = world().await;
    let mut foreign = revision(&taken, 1, json!({"spec": {"other": true}}));
    foreign["metadata"]["labels"] = json!({"app": "other"});
    world.create(foreign).await;
    world.create(web(1)).await;
    world.make_pods_ready().await;
    let status = world.set_status();
    assert_eq!(status["collisionCount"], 1);
    let name = status["currentRevision"].as_str().unwrap();
    assert_ne!(name, taken);
    let created = world.find("controllerrevisions", name).unwrap();
    let hash = &created["metadata"]["labels"]["controller.kubernetes.io/hash"];
    assert_eq!(
        format!("web-{}", hash.as_str().unwrap()),
        taken,
        "the label keeps the first hash"
    );
    let writes = world.writes();
    let creations = writes
        .iter()
        .filter(|write| write.starts_with("create controllerrevisions"));
    let creations: Vec<_> = creations.collect();
    assert_eq!(
        creations,
        [
            "create controllerrevisions 409",
            "create controllerrevisions 201"
        ]
    );
    world.roll_set_to("v2").await;
    world.make_pods_ready().await;
    assert_eq!(world.set_status()["collisionCount"], 1, "the count stays");
}

#[tokio::test(start_paused = true)]
async fn an_existing_revision_with_the_same_data_is_used() {
    let (taken, data) = revision_of(web(1)).await;
    let world = world().await;
    let mut foreign = revision(&taken, 9, data);
    // The controller lists only revisions with the labels of the set.
    foreign["metadata"]["labels"] = json!({"app": "other"});
    world.create(foreign).await;
    world.create(web(1)).await;
    world.make_pods_ready().await;
    let status = world.set_status();
    assert_eq!(
        (&status["collisionCount"], &status["currentRevision"]),
        (&json!(0), &json!(taken))
    );
    let kept = world.find("controllerrevisions", &taken).unwrap();
    assert_eq!(
        (&kept["revision"], kept["metadata"].get("ownerReferences")),
        (&json!(9), None)
    );
}

#[tokio::test(start_paused = true)]
async fn the_history_keeps_its_limit() {
    let world = world_with(with(web(1), "revisionHistoryLimit", json!(2))).await;
    for number in 2..=6 {
        world.roll_set_to(&format!("v{number}")).await;
        world.make_pods_ready().await;
    }
    let revisions = world.cluster.objects("controllerrevisions");
    let mut numbers: Vec<_> = revisions
        .iter()
        .map(|r| r["revision"].as_i64().unwrap())
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [4, 5, 6], "the current one and two unused ones");
}

/// Upstream: `TestStatefulSetHonorRevisionHistoryLimit`.
#[tokio::test(start_paused = true)]
async fn the_history_keeps_its_limit_while_the_status_cannot_be_written() {
    use steersman_devcluster::faults::{self, Matcher};
    let world = world_with(with(web(1), "revisionHistoryLimit", json!(1))).await;
    let matcher = Matcher::new("update", "statefulsets").subresource("status");
    world
        .cluster
        .faults()
        .reject(matcher, faults::internal_error(), None);
    for number in 2..=5 {
        world.roll_set_to(&format!("v{number}")).await;
        let image = format!("v{number}");
        world
            .until("the new pod", |_| {
                world.pod_images().get("web-0") == Some(&image)
            })
            .await;
        world.make_ready("web-0").await;
    }
    world
        .until("old revisions are deleted", |_| {
            world.names_of("controllerrevisions").len() <= 3
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn revisions_in_use_by_pods_stay() {
    let set = with(partition(web(2), 1), "revisionHistoryLimit", json!(0));
    let world = world_with(set).await;
    let first = world.set_status()["currentRevision"]
        .as_str()
        .unwrap()
        .to_owned();
    for image in ["v2", "v3"] {
        world.roll_set_to(image).await;
        world.make_pods_ready().await;
    }
    let status = world.set_status();
    let mut expected = vec![first, status["updateRevision"].as_str().unwrap().to_owned()];
    expected.sort();
    assert_eq!(world.names_of("controllerrevisions"), expected);
}

#[tokio::test(start_paused = true)]
async fn annotations_are_copied_when_a_revision_is_created() {
    let mut set = web(1);
    set["metadata"]["annotations"] = json!({"kubernetes.io/change-cause": "first"});
    let world = world_with(set).await;
    world
        .patch(
            "statefulsets",
            "web",
            json!({"metadata": {"annotations": {"kubernetes.io/change-cause": "second"}}}),
        )
        .await;
    world.roll_set_to("v2").await;
    world.make_pods_ready().await;
    let revisions = world.cluster.objects("controllerrevisions");
    let mut causes: Vec<_> = revisions
        .iter()
        .map(|r| {
            (
                r["revision"].as_i64(),
                r["metadata"]["annotations"]["kubernetes.io/change-cause"].clone(),
            )
        })
        .collect();
    causes.sort_by_key(|(number, _)| *number);
    assert_eq!(
        causes,
        [(Some(1), json!("first")), (Some(2), json!("second"))]
    );
}
