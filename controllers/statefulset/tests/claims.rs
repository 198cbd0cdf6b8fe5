//! Claims: retention policies, claims in deletion, and claims with other owners.

use super::*;

/// Kind and name of the owners of a claim, each with `controller: true`.
pub(super) fn owners(world: &World, claim: &str) -> Vec<String> {
    let claim = world.find("persistentvolumeclaims", claim).unwrap();
    let references = claim["metadata"]["ownerReferences"].as_array().cloned();
    let text = |owner: Value| {
        assert_eq!(owner["controller"], true, "{owner}");
        format!(
            "{} {}",
            owner["kind"].as_str().unwrap(),
            name(&json!({"metadata": owner}))
        )
    };
    references.into_iter().flatten().map(text).collect()
}

#[tokio::test(start_paused = true)]
async fn a_new_retention_policy_changes_the_owners_of_claims() {
    let world = world_with(with_claims(web(2))).await;
    let before = world.writes().len();
    let policy = json!({"whenDeleted": "Delete", "whenScaled": "Delete"});
    world
        .change_set(json!({"persistentVolumeClaimRetentionPolicy": policy}))
        .await;
    world.at_rest().await;
    let expected = [
        "update persistentvolumeclaims/data-web-0 200",
        "update pods/web-0 200",
        "update persistentvolumeclaims/data-web-1 200",
        "update pods/web-1 200",
        "update statefulsets/web/status 200",
    ];
    assert_eq!(world.set_writes_since(before), expected);
    assert_eq!(owners(&world, "data-web-0"), ["StatefulSet web"]);
    let events = world.set_events().await;
    let updated = |pod: &str| {
        (
            "SuccessfulUpdate".to_owned(),
            format!("Update Pod {pod} in StatefulSet web successful"),
        )
    };
    assert!(events.contains(&updated("web-0")) && events.contains(&updated("web-1")));

    let before = world.writes().len();
    world.change_set(json!({"replicas": 1})).await;
    world.at_rest().await;
    let scaled = [
        "update persistentvolumeclaims/data-web-1 200",
        "delete pods/web-1 200",
    ];
    assert_eq!(world.set_writes_since(before)[..2], scaled);
    assert_eq!(owners(&world, "data-web-1"), ["Pod web-1"]);
}

/// Upstream: the integration test `TestAutodeleteOwnerRefs`.
#[tokio::test(start_paused = true)]
async fn autodelete_owner_refs() {
    // (when scaled, when deleted, owner of a claim, owner of the claim of a condemned pod)
    let cases: [(&str, &str, &[&str], &[&str]); 4] = [
        ("Retain", "Retain", &[], &[]),
        (
            "Retain",
            "Delete",
            &["StatefulSet web"],
            &["StatefulSet web"],
        ),
        ("Delete", "Retain", &[], &["Pod web-2"]),
        ("Delete", "Delete", &["StatefulSet web"], &["Pod web-2"]),
    ];
    for (scaled, deleted, kept, condemned) in cases {
        for set in [web(3), parallel(web(3))] {
            let world = world_with(retention(with_claims(set), deleted, scaled)).await;
            for claim in ["data-web-0", "data-web-1", "data-web-2"] {
                assert_eq!(owners(&world, claim), kept, "{scaled} {deleted} {claim}");
            }
            world.change_set(json!({"replicas": 2})).await;
            world.at_rest().await;
            assert_eq!(world.names_of("pods"), ["web-0", "web-1"]);
            assert_eq!(
                owners(&world, "data-web-2"),
                condemned,
                "{scaled} {deleted}"
            );
            assert_eq!(owners(&world, "data-web-1"), kept, "{scaled} {deleted}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_scaled_up_pod_waits_for_the_deletion_of_its_old_claim() {
    let world = world_with(retention(with_claims(parallel(web(2))), "Retain", "Delete")).await;
    world.change_set(json!({"replicas": 1})).await;
    world.at_rest().await;
    assert_eq!(owners(&world, "data-web-1"), ["Pod web-1"]);
    world.change_set(json!({"replicas": 2})).await;
    world.at_rest().await;
    assert_eq!(
        world.names_of("pods"),
        ["web-0"],
        "the claim of the old web-1 is still there"
    );
    // The garbage collector does this.
    let claim = world
        .cluster
        .path("persistentvolumeclaims", "default", "data-web-1");
    let finalizers = json!({"metadata": {"finalizers": null}});
    world
        .patch("persistentvolumeclaims", "data-web-1", finalizers)
        .await;
    world.cluster.delete(&claim).await.unwrap();
    world.make_pods_ready().await;
    assert_eq!(
        world.names_of("pods"),
        ["web-0", "web-1"],
        "the end of the claim enqueues the set"
    );
    assert_eq!(owners(&world, "data-web-1"), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_claim_with_another_controller_is_left_alone() {
    let world = world().await;
    let owner = json!({"apiVersion": "example.com/v1", "kind": "Backup", "name": "b", "uid": "u", "controller": true});
    let spec =
        json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    world
        .create(json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data-web-0", "ownerReferences": [owner]}, "spec": spec}))
        .await;
    world
        .create(retention(with_claims(web(1)), "Delete", "Delete"))
        .await;
    world.make_pods_ready().await;
    assert_eq!(owners(&world, "data-web-0"), ["Backup b"]);
    let message = "PersistentVolumeClaim data-web-0 has a conflicting OwnerReference that acts as a manging controller, \
                   the retention policy is ignored for this claim";
    let expected = ("ConflictingController".to_owned(), message.to_owned());
    assert!(world.set_events().await.contains(&expected));
    assert_eq!(counters(&world.set_status()), [1, 1, 1, 1, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_claim_in_deletion_fails_the_creation() {
    let world = world().await;
    let spec =
        json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    world
        .create(json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data-web-0", "finalizers": ["example.com/keep"]}, "spec": spec}))
        .await;
    world.delete("persistentvolumeclaims", "data-web-0").await;
    world.create(with_claims(web(1))).await;
    let message =
        "Create Pod web-0 in StatefulSet web failed error: pvc data-web-0 is being deleted";
    let expected = ("FailedCreate".to_owned(), message.to_owned());
    world
        .until("FailedCreate", |state| {
            state.events_about("web").contains(&expected)
        })
        .await;
    assert!(world.names_of("pods").is_empty());
    let finalizers = json!({"metadata": {"finalizers": null}});
    world
        .patch("persistentvolumeclaims", "data-web-0", finalizers)
        .await;
    world.until("web-0", |state| state.pods.len() == 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_pending_pod_gets_its_lost_claim_back() {
    let world = world().await;
    world.create(with_claims(web(1))).await;
    world.until("web-0", |state| state.pods.len() == 1).await;
    world.at_rest().await;
    let finalizers = json!({"metadata": {"finalizers": null}});
    world
        .patch("persistentvolumeclaims", "data-web-0", finalizers)
        .await;
    let claim = world
        .cluster
        .path("persistentvolumeclaims", "default", "data-web-0");
    world.cluster.delete(&claim).await.unwrap();
    world.at_rest().await;
    assert_eq!(world.names_of("persistentvolumeclaims"), ["data-web-0"]);
}

/// The API server accepts such templates.
#[tokio::test(start_paused = true)]
async fn claim_templates_of_one_name_make_one_claim() {
    let mut set = with_claims(web(1));
    let mut last = set["spec"]["volumeClaimTemplates"][0].clone();
    last["spec"]["resources"]["requests"]["storage"] = json!("2Gi");
    let templates = set["spec"]["volumeClaimTemplates"].as_array_mut().unwrap();
    templates.push(last);
    let world = world_with(set).await;
    assert_eq!(counters(&world.set_status()), [1; 5]);
    assert_eq!(world.names_of("persistentvolumeclaims"), ["data-web-0"]);
    let claim = world.find("persistentvolumeclaims", "data-web-0").unwrap();
    assert_eq!(claim["spec"]["resources"]["requests"]["storage"], "2Gi");
    let pod = world.find("pods", "web-0").unwrap();
    assert_eq!(pod["spec"]["volumes"].as_array().map(Vec::len), Some(1));
    let is_failed = |write: &String| !write.ends_with(" 200") && !write.ends_with(" 201");
    let failed: Vec<_> = world.writes().into_iter().filter(is_failed).collect();
    assert!(failed.is_empty(), "{failed:?}");
}

/// Upstream: the integration test `TestVolumeTemplateNoopUpdate`.
#[tokio::test(start_paused = true)]
async fn volume_template_noop_update() {
    let world = world_with(with_claims(web(1))).await;
    let before = world.writes().len();
    world
        .patch(
            "statefulsets",
            "web",
            json!({"metadata": {"annotations": {"a": "b"}}}),
        )
        .await;
    world.at_rest().await;
    assert!(
        world.set_writes_since(before).is_empty(),
        "{:?}",
        world.set_writes_since(before)
    );
    let size = json!({"requests": {"storage": "2Gi"}});
    let mut claim = world.find("persistentvolumeclaims", "data-web-0").unwrap();
    claim["spec"]["resources"] = size.clone();
    world.cluster.load(claim).unwrap();
    world.at_rest().await;
    let claim = world.find("persistentvolumeclaims", "data-web-0").unwrap();
    assert_eq!(
        claim["spec"]["resources"], size,
        "sizes of existing claims are not compared"
    );
}
