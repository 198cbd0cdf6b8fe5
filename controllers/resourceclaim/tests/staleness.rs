//! Caches that are older than the cluster.

use serde_json::json;

use super::{
    CLAIM, Claims, DESCRIPTOR, POD, bound_pod, claim, consumer, finished_pod, pod, protected,
    reserved, template, with,
};

/// Upstream: `TestSyncHandler`, the case "stay-reserved-not-seen".
#[tokio::test(start_paused = true)]
async fn a_reservation_for_an_unseen_pod_stays() {
    let mut claims = Claims::stopped(&[protected(reserved(claim(), &[consumer(POD)]))]).await;
    let before = claims.0.cluster.revision();
    claims.load(bound_pod());
    claims.0.hold("pods", before);
    claims.start().await;
    assert_eq!(claims.requests(), ["get pods/my-pod 200"]);
    assert_eq!(claims.states(), ["my-pod allocated protected"]);
}

/// The cache shows the former pod of the name, which ended before the claim of the new one was made.
#[tokio::test(start_paused = true)]
async fn claims_of_a_replaced_pod_are_not_confused_with_those_of_its_successor() {
    let former = with(bound_pod(), &["metadata", "uid"], json!("former"));
    let in_use = protected(reserved(claim(), &[consumer(POD)]));
    for (claim, state) in [(in_use, "my-pod allocated protected"), (claim(), "")] {
        let mut claims = Claims::stopped(&[former.clone(), claim]).await;
        let before = claims.0.cluster.revision();
        claims.remove("pods", POD).await;
        claims.load(bound_pod());
        let view = claims.0.hold("pods", before);
        claims.start().await;
        assert_eq!(claims.states(), [state]);
        claims.0.cluster.faults().remove(view);
        claims.rest().await;
        assert_eq!(claims.states(), [state]);
        let requests = claims.requests();
        assert!(
            requests
                .iter()
                .all(|request| request == "get pods/my-pod 200"),
            "{requests:?}"
        );
    }
}

/// The former leader made the claim, and ended before it wrote the status.
#[tokio::test(start_paused = true)]
async fn a_new_leader_finds_the_claim_that_its_cache_lacks() {
    let mut claims = Claims::stopped(&[pod(), template()]).await;
    let before = claims.0.cluster.revision();
    claims.load(claim());
    let view = claims
        .0
        .take_over_behind(&[DESCRIPTOR], "resourceclaims", before)
        .await;
    claims.rest().await;
    let list = "list resourceclaims 200";
    assert_eq!(claims.requests(), [list, "patch pods/my-pod/status 200"]);
    claims.0.cluster.faults().remove(view);
    claims.rest().await;
    let status = &claims.0.cluster.objects("pods")[0]["status"];
    assert_eq!(
        status["resourceClaimStatuses"][0]["resourceClaimName"],
        CLAIM
    );
    assert_eq!(claims.states(), [""]);
}

/// The cache of a new leader shows a pod that has ended, and whose claim is gone.
#[tokio::test(start_paused = true)]
async fn a_new_leader_makes_no_claim_for_a_pod_that_has_ended() {
    let mut claims = Claims::stopped(&[pod(), template()]).await;
    let before = claims.0.cluster.revision();
    claims.load(finished_pod());
    let view = claims
        .0
        .take_over_behind(&[DESCRIPTOR], "pods", before)
        .await;
    claims.rest().await;
    assert_eq!(claims.requests(), ["get pods/my-pod 200"]);
    claims.0.cluster.faults().remove(view);
    claims.rest().await;
    assert_eq!(claims.requests().len(), 1);
}

/// An etcd restore brings back a pod whose deletion was seen.
#[tokio::test(start_paused = true)]
async fn a_restored_pod_keeps_its_reservation() {
    let objects = [bound_pod(), protected(reserved(claim(), &[consumer(POD)]))];
    let mut claims = Claims::with(&objects).await;
    let backup = claims.0.cluster.snapshot();
    claims.remove("pods", POD).await;
    claims.rest().await;
    assert_eq!(claims.states(), [""]);
    claims.0.restore(&backup);
    claims.rest().await;
    assert_eq!(claims.states(), ["my-pod allocated protected"]);
}
