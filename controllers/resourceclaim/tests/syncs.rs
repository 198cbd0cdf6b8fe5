//! Upstream's table of syncs. Here the whole controller runs, so that the other keys are synced too.

use serde_json::{Value, json};
use steersman_devcluster::faults::{Matcher, conflict};

use super::{
    Claims, POD, POD_CLAIM, allocated, bound_pod, claim, consumer, finished_pod, pod,
    pod_with_claim, protected, reserved, template, terminating, user_claim, with,
};

const CREATE: &str = "create resourceclaims 201";
const APPLY: &str = "patch pods/my-pod/status 200";
const STATUS: &str = "update resourceclaims/my-pod-acme-1/status 200";
const FREE: &str = "update resourceclaims/my-pod-acme-1 200";
const DELETE: &str = "delete resourceclaims/my-pod-acme-1 200";
const GONE: &str = "get pods/my-pod 404";

/// A case: name, objects, requests, states of the claims, entries in the status of pods.
type Case = (
    &'static str,
    Vec<Value>,
    Vec<&'static str>,
    Vec<&'static str>,
    Vec<&'static str>,
);

async fn check(cases: Vec<Case>) {
    for (case, objects, requests, states, named) in cases {
        let claims = Claims::with(&objects).await;
        assert_eq!(claims.requests(), requests, "{case}");
        assert_eq!(claims.states(), states, "{case}");
        assert_eq!(claims.named(), named, "{case}");
    }
}

/// Upstream: `TestSyncHandler`, the cases about pods.
#[tokio::test(start_paused = true)]
async fn claims_are_made_for_pods() {
    let named = vec!["acme true"];
    let made = vec![CREATE, APPLY];
    let other = with(user_claim(), &["metadata", "namespace"], json!("other"));
    let no_claims = with(pod(), &["spec", "resourceClaims"], json!([]));
    check(vec![
        (
            "create",
            vec![pod(), template()],
            made.clone(),
            vec![""],
            named.clone(),
        ),
        (
            "nop",
            vec![pod_with_claim(), template(), claim()],
            vec![],
            vec![""],
            named.clone(),
        ),
        (
            "recreate",
            vec![pod_with_claim(), template()],
            made.clone(),
            vec![""],
            named.clone(),
        ),
        ("missing-template", vec![pod()], vec![], vec![], vec![]),
        (
            "find-existing-claim-by-label",
            vec![pod(), claim()],
            vec![APPLY],
            vec![""],
            named.clone(),
        ),
        (
            "pod-deleted",
            vec![terminating(pod()), template()],
            vec![],
            vec![],
            vec![],
        ),
        ("no-volumes", vec![no_claims], vec![], vec![], vec![]),
        (
            "create-with-other-claim",
            vec![pod(), template(), other],
            made,
            vec!["", ""],
            named,
        ),
        (
            "wrong-claim-owner",
            vec![pod(), user_claim()],
            vec![],
            vec![""],
            vec![],
        ),
    ])
    .await;
}

/// Upstream: `TestSyncHandler`, the cases about claims.
#[tokio::test(start_paused = true)]
async fn claims_are_freed() {
    let mine = || reserved(claim(), &[consumer(POD)]);
    let twice = || reserved(claim(), &[consumer(POD), consumer("my-pod-II")]);
    let foreign = json!({"apiGroup": "foo.com", "resource": "foo", "name": "foo", "uid": "123"});
    let group = json!({
        "apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "uid-of-g",
    });
    let orphan = reserved(user_claim(), &[consumer(POD)]);
    let named = vec!["acme true"];
    check(vec![
        (
            "stay-reserved-seen",
            vec![pod_with_claim(), mine()],
            vec![],
            vec!["my-pod allocated"],
            named.clone(),
        ),
        (
            "clear-reserved-structured",
            vec![protected(mine())],
            vec![GONE, STATUS, FREE],
            vec![""],
            vec![],
        ),
        (
            "dont-clear-reserved-podgroup-feature-disabled",
            vec![protected(reserved(claim(), &[group]))],
            vec![],
            vec!["g allocated protected"],
            vec![],
        ),
        (
            "dont-clear-reserved-structured",
            vec![pod_with_claim(), protected(twice())],
            vec!["get pods/my-pod-II 404", STATUS],
            vec!["my-pod allocated protected"],
            named.clone(),
        ),
        (
            "clear-reserved-structured-deleted",
            vec![terminating(protected(mine()))],
            vec![GONE, STATUS, FREE],
            vec![],
            vec![],
        ),
        (
            "structured-deleted",
            vec![terminating(protected(allocated(claim())))],
            vec![STATUS, FREE],
            vec![],
            vec![],
        ),
        (
            "clear-reserved-when-done",
            vec![finished_pod(), orphan],
            vec![STATUS],
            vec!["allocated"],
            named.clone(),
        ),
        (
            "remove-reserved",
            vec![pod_with_claim(), twice()],
            vec!["get pods/my-pod-II 404", STATUS],
            vec!["my-pod allocated"],
            named.clone(),
        ),
        (
            "delete-claim-when-done",
            vec![finished_pod(), mine()],
            vec![STATUS, DELETE],
            vec![],
            vec!["acme false"],
        ),
        (
            "delete-claim-when-done, allocated by the scheduler",
            vec![finished_pod(), protected(mine())],
            vec![STATUS, FREE, DELETE],
            vec![],
            vec!["acme false"],
        ),
        (
            "add-reserved",
            vec![bound_pod(), template(), allocated(claim())],
            vec![STATUS],
            vec!["my-pod allocated"],
            named.clone(),
        ),
        (
            "clean up pod reservation with non-pod reservation present",
            vec![finished_pod(), reserved(claim(), &[consumer(POD), foreign])],
            vec![STATUS],
            vec!["foo allocated"],
            named,
        ),
    ])
    .await;
}

/// Upstream: `TestSyncHandler`, the cases "missing-template" and "wrong-claim-owner", and a claim
/// with a field that this version lacks.
#[tokio::test(start_paused = true)]
async fn events_tell_why_a_pod_has_no_claim() {
    let missing = "PodResourceClaim acme: resource claim template \"my-template\": \
                   resourceclaimtemplate.resource.k8s.io \"my-template\" not found";
    let newer = with(
        pod(),
        &["spec", "resourceClaims"],
        json!([{"name": POD_CLAIM}]),
    );
    let unsupported = "PodResourceClaim acme: checking for claim before creating it: pod \
                       \"default/my-pod\", spec.resourceClaim \"acme\": none of the supported \
                       fields are set";
    let cases = [
        (vec![pod()], missing),
        (vec![pod(), user_claim()], missing),
        (vec![newer], unsupported),
    ];
    for (objects, message) in cases {
        let claims = Claims::with(&objects).await;
        assert_eq!(claims.events(), [message]);
    }
}

/// Upstream: `TestSyncHandler`, the case "create-conflict".
#[tokio::test(start_paused = true)]
async fn a_refused_claim_is_made_later() {
    let mut claims = Claims::stopped(&[pod(), template()]).await;
    let creations = Matcher::new("create", "resourceclaims");
    claims
        .0
        .cluster
        .faults()
        .reject(creations, conflict(), Some(1));
    claims.start().await;
    assert_eq!(
        claims.requests(),
        ["create resourceclaims 409", CREATE, APPLY]
    );
    let events = claims.events();
    assert!(
        events[0].starts_with("PodResourceClaim acme: create ResourceClaim : "),
        "{events:?}"
    );
    let expected = [
        ("false,failure".to_owned(), 1.0),
        ("false,success".to_owned(), 1.0),
    ];
    assert_eq!(claims.metric("creates_total"), expected);
}

/// Upstream: `TestSyncHandler`, the case "create with admin and feature gate on". The gate is locked.
#[tokio::test(start_paused = true)]
async fn claims_for_administrative_access_are_counted_apart() {
    let mut template = template();
    template["spec"]["spec"]["devices"]["requests"][0]["exactly"]["adminAccess"] = json!(true);
    let mut claims = Claims::stopped(&[pod(), template]).await;
    let label = json!({"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}});
    let namespace = "/api/v1/namespaces/default";
    claims.0.cluster.patch(namespace, label).await.unwrap();
    claims.start().await;
    assert_eq!(claims.requests(), [CREATE, APPLY]);
    assert_eq!(
        claims.metric("creates_total"),
        [("true,success".to_owned(), 1.0)]
    );
}
