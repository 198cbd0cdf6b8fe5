//! Volumes.

use serde_json::json;

use super::{Story, deleted, protected, volume};
use crate::protection::volumes::DESCRIPTOR;

const FINALIZER: &str = "kubernetes.io/pv-protection";

/// Upstream: `TestPVProtectionController`.
#[tokio::test(start_paused = true)]
async fn pv_protection_controller() {
    let plain = || volume("pv", "Available");
    let kept = || protected(plain(), FINALIZER);
    let update = "update persistentvolumes/pv";
    let failed = "update persistentvolumes/pv 500";
    let story = |object| Story::of(DESCRIPTOR, [object]);
    let failing = |object| story(object).failing("update", "persistentvolumes", 2);
    let bound = protected(volume("pv", "Bound"), FINALIZER);
    // (case, story, requests, finalizers afterwards)
    let cases = [
        (
            "PV without finalizer",
            story(plain()),
            vec![update],
            Some(json!([FINALIZER])),
        ),
        (
            "PV with finalizer",
            story(kept()),
            vec![],
            Some(json!([FINALIZER])),
        ),
        (
            "saving fails",
            failing(plain()),
            vec![update, failed, failed],
            Some(json!([FINALIZER])),
        ),
        ("deleted PV", story(deleted(kept())), vec![update], None),
        (
            "removal fails",
            failing(deleted(kept())),
            vec![update, failed, failed],
            None,
        ),
        (
            "deleted PV is bound",
            story(deleted(bound)),
            vec![],
            Some(json!([FINALIZER])),
        ),
    ];
    for (case, story, requests, finalizers) in cases {
        let world = story.begin().await;
        assert_eq!(world.sent_by(DESCRIPTOR.identity), requests, "{case}");
        assert_eq!(
            world.finalizers("persistentvolumes", "pv"),
            finalizers,
            "{case}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_volume_goes_when_its_claim_releases_it() {
    let bound = protected(volume("pv", "Bound"), FINALIZER);
    let world = Story::of(DESCRIPTOR, [deleted(bound)]).begin().await;
    assert!(world.find("persistentvolumes", "pv").is_some());
    let path = world.cluster.path("persistentvolumes", "", "pv");
    let released = json!({"status": {"phase": "Released"}});
    world
        .cluster
        .patch(&format!("{path}/status"), released)
        .await
        .unwrap();
    world.until_object_gone("persistentvolumes", "pv").await;
}
