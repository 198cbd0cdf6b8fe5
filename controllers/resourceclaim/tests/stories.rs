//! Lives of pods and their claims.

use serde_json::{Value, json};
use steersman_devcluster::DevCluster;
use steersman_devcluster::faults::{Matcher, RequestFault, internal_error};
use steersman_releases::Release;

use super::{
    CLAIM, Claims, DESCRIPTOR, POD, UID, allocated, bound_pod, claim, consumer, finished_pod, pod,
    pod_with_claim, protected, reserved, template, user_claim, with,
};
use crate::testing::world::World;

const CREATE: &str = "create resourceclaims 201";
const APPLY: &str = "patch pods/my-pod/status 200";

/// The path of the only claim.
fn only_claim(cluster: &DevCluster) -> String {
    let claims = cluster.objects("resourceclaims");
    assert_eq!(claims.len(), 1, "{claims:#?}");
    cluster.path(
        "resourceclaims",
        "default",
        claims[0]["metadata"]["name"].as_str().unwrap(),
    )
}

/// The reference's worked example 4. Upstream: `TestResourceClaimTemplateEventHandler`.
#[tokio::test(start_paused = true)]
async fn a_template_may_come_after_its_pods() {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "tmp"}});
    let other = with(pod(), &["metadata", "namespace"], json!("tmp"));
    let other = with(other, &["metadata", "uid"], json!("uid-of-other"));
    let claims = Claims::with(&[namespace, pod(), other]).await;
    assert_eq!(claims.events().len(), 2);
    claims.load(template());
    claims.rest().await;
    assert_eq!(claims.requests(), [CREATE, APPLY]);
    claims.load(with(template(), &["metadata", "namespace"], json!("tmp")));
    claims.rest().await;
    let requests = claims.requests();
    let of_other = [
        "create namespaces/tmp/resourceclaims 201",
        "patch namespaces/tmp/pods/my-pod/status 200",
    ];
    assert_eq!(requests[2..], of_other);
    assert_eq!(claims.named(), ["acme true", "acme true"]);
}

/// The body of the created claim, and the applied status, with their preconditions.
#[tokio::test(start_paused = true)]
async fn a_claim_belongs_to_its_pod() {
    let mut claims = Claims::stopped(&[pod(), template()]).await;
    claims.0.cluster.keep_contents();
    claims.start().await;
    let requests = claims.0.cluster.requests();
    let body = |verb: &str, resource: &str| -> Value {
        let mut own = requests
            .iter()
            .filter(|r| r.verb == verb && r.resource == resource);
        let request = own.next().unwrap();
        serde_json::from_slice(&request.content.as_ref().unwrap().body).unwrap()
    };
    let created = body("create", "resourceclaims");
    let owner =
        json!([{"apiVersion": "v1", "kind": "Pod", "name": POD, "uid": UID, "controller": true}]);
    assert_eq!(created["metadata"]["ownerReferences"], owner);
    assert_eq!(created["metadata"]["generateName"], "my-pod-acme-");
    let name = &claims.0.cluster.objects("resourceclaims")[0]["metadata"]["name"];
    let applied = json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {"name": POD, "namespace": "default", "uid": UID},
        "status": {"resourceClaimStatuses": [{"name": "acme", "resourceClaimName": name}]},
    });
    assert_eq!(body("patch", "pods/status"), applied);
}

/// The reference's worked example 5.
#[tokio::test(start_paused = true)]
async fn a_failed_status_makes_no_second_claim() {
    let mut claims = Claims::stopped(&[pod(), template()]).await;
    let applies = Matcher {
        subresource: Some("status".to_owned()),
        ..Matcher::new("patch", "pods")
    };
    claims
        .0
        .cluster
        .faults()
        .reject(applies, internal_error(), Some(1));
    claims.start().await;
    assert_eq!(
        claims.requests(),
        [CREATE, "patch pods/my-pod/status 500", APPLY]
    );
    assert_eq!(claims.named(), ["acme true"]);
}

/// The reference's worked example 6, with a pod of two claims: the entry of the other one stays. Entries have
/// the order of their names.
#[tokio::test(start_paused = true)]
async fn a_deleted_claim_is_made_again_beside_the_others() {
    let mut two = pod();
    let names = ["second", "acme"];
    two["spec"]["resourceClaims"] = names
        .map(|name| json!({"name": name, "resourceClaimTemplateName": "my-template"}))
        .into();
    let claims = Claims::with(&[two, template()]).await;
    assert_eq!(claims.requests(), [CREATE, CREATE, APPLY]);
    let first = claims.0.cluster.objects("pods")[0]["status"]["resourceClaimStatuses"][0].clone();
    claims
        .remove(
            "resourceclaims",
            first["resourceClaimName"].as_str().unwrap(),
        )
        .await;
    claims.rest().await;
    assert_eq!(claims.requests()[3..], [CREATE, APPLY]);
    assert_eq!(claims.named(), ["acme true", "second true"]);
}

/// A pod that no scheduler bound. Upstream: worked example 8 of the reference.
#[tokio::test(start_paused = true)]
async fn a_bound_pod_gets_its_reservation_after_the_allocation() {
    let bound = with(pod(), &["spec", "nodeName"], json!("worker"));
    let claims = Claims::with(&[bound, template()]).await;
    assert_eq!(claims.requests(), [CREATE, APPLY]);
    let path = only_claim(&claims.0.cluster) + "/status";
    let status = json!({"status": allocated(claim())["status"]});
    claims.0.cluster.patch(&path, status).await.unwrap();
    claims.rest().await;
    assert_eq!(claims.states(), ["my-pod allocated"]);
}

/// kubernetes/kubernetes#141274: upstream reserves the claim for the finished pod again and again.
#[tokio::test(start_paused = true)]
async fn finished_pods_get_neither_claims_nor_reservations() {
    let shared = with(
        pod(),
        &["spec", "resourceClaims"],
        json!([{"name": "acme", "resourceClaimName": CLAIM}]),
    );
    let shared = with(shared, &["spec", "nodeName"], json!("worker"));
    let shared = with(shared, &["status", "phase"], json!("Failed"));
    let other = with(
        bound_pod(),
        &["metadata"],
        json!({"name": "other", "namespace": "default", "uid": "uid-of-other"}),
    );
    let in_use = reserved(user_claim(), &[consumer("other")]);
    let unclaimed = with(pod(), &["status", "phase"], json!("Succeeded"));
    for objects in [vec![shared, other, in_use], vec![unclaimed, template()]] {
        let claims = Claims::with(&objects).await;
        assert_eq!(claims.requests(), [""; 0]);
    }
}

/// The reference's worked example 3.
#[tokio::test(start_paused = true)]
async fn a_shared_claim_stays_until_its_last_pod_is_done() {
    let names = ["a", "b"];
    let user = |name: &str| {
        let pod = with(
            pod(),
            &["metadata"],
            json!({"name": name, "namespace": "default", "uid": format!("uid-of-{name}")}),
        );
        with(
            pod,
            &["spec", "resourceClaims"],
            json!([{"name": "acme", "resourceClaimName": CLAIM}]),
        )
    };
    let shared = protected(reserved(user_claim(), &names.map(consumer)));
    let claims = Claims::with(&[user("a"), user("b"), shared]).await;
    let done = json!({"status": {"phase": "Succeeded"}});
    claims.0.patch("pods", "a/status", done.clone()).await;
    claims.rest().await;
    assert_eq!(claims.states(), ["b allocated protected"]);
    claims.0.patch("pods", "b/status", done).await;
    claims.rest().await;
    assert_eq!(claims.states(), [""]);
}

/// Upstream: `TestEnqueuePodExtendedResourceClaims`.
#[tokio::test(start_paused = true)]
async fn claims_for_extended_resources_are_freed_with_their_pod() {
    let extended = || {
        let annotations = json!({"resource.kubernetes.io/extended-resource-claim": "true"});
        let claim = with(claim(), &["metadata", "annotations"], annotations);
        protected(reserved(claim, &[consumer(POD)]))
    };
    let user = |phase: &str, claims: Value, is_extended: bool| {
        let pod = with(pod(), &["spec", "resourceClaims"], claims);
        let mut pod = with(pod, &["status", "phase"], json!(phase));
        if is_extended {
            pod["status"]["extendedResourceClaimStatus"] =
                json!({"resourceClaimName": CLAIM, "requestMappings": []});
        }
        pod
    };
    let both = json!([{"name": "regular", "resourceClaimName": "regular"}]);
    // (case, phase, claims, has an extended claim, deleted, freed)
    let cases = [
        (
            "no resource claims",
            "Running",
            json!([]),
            false,
            false,
            false,
        ),
        (
            "regular resource claims only",
            "Running",
            both.clone(),
            false,
            false,
            false,
        ),
        ("running", "Running", json!([]), true, false, false),
        ("completed", "Succeeded", json!([]), true, false, true),
        ("failed", "Failed", json!([]), true, false, true),
        ("deleted", "Running", json!([]), true, true, true),
        ("both, completed", "Succeeded", both, true, false, true),
    ];
    for (case, phase, named, is_extended, is_deleted, is_freed) in cases {
        let running = user("Running", named.clone(), is_extended);
        let claims = Claims::with(&[running, extended()]).await;
        assert_eq!(claims.requests(), [""; 0], "{case}");
        claims.load(user(phase, named, is_extended));
        if is_deleted {
            claims.remove("pods", POD).await;
        }
        claims.rest().await;
        assert_eq!(
            claims.states() != ["my-pod allocated protected"],
            is_freed,
            "{case}"
        );
    }
}

/// The reservation of a pod whose deletion was seen is removed without a further request.
#[tokio::test(start_paused = true)]
async fn a_seen_deletion_needs_no_read() {
    let claims = Claims::with(&[bound_pod(), protected(reserved(claim(), &[consumer(POD)]))]).await;
    claims.remove("pods", POD).await;
    claims.rest().await;
    let path = "resourceclaims/my-pod-acme-1";
    assert_eq!(
        claims.requests(),
        [
            format!("update {path}/status 200"),
            format!("update {path} 200")
        ]
    );
}

/// Upstream: `TestResourceClaimEventHandler`, the numbers of claims.
#[tokio::test(start_paused = true)]
async fn claims_are_counted_by_state_and_source() {
    let named = |claim: Value, name: &str| with(claim, &["metadata", "name"], json!(name));
    let mut admin = named(claim(), "admin");
    admin["spec"]["devices"]["requests"][0]["exactly"]["adminAccess"] = json!(true);
    let mut extended = named(user_claim(), "extended");
    extended["metadata"]["annotations"]["resource.kubernetes.io/extended-resource-claim"] =
        json!("true");
    let objects = [
        pod_with_claim(),
        claim(),
        named(user_claim(), "user"),
        named(allocated(user_claim()), "allocated"),
        named(allocated(user_claim()), "allocated-2"),
        admin,
        extended,
    ];
    let claims = Claims::with(&objects).await;
    let count = |labels: &str, count: f64| (labels.to_owned(), count);
    // Labels: admin_access, allocated, source.
    let expected = [
        count("false,false,", 1.0),
        count("false,false,extended_resource", 1.0),
        count("false,false,resource_claim_template", 1.0),
        count("false,true,", 2.0),
        count("true,false,resource_claim_template", 1.0),
    ];
    assert_eq!(sorted(claims.metric("resource_claims")), expected);
    claims.remove("resourceclaims", "allocated").await;
    claims.remove("resourceclaims", "user").await;
    claims.rest().await;
    let left = sorted(claims.metric("resource_claims"));
    assert_eq!((left.len(), &left[2]), (4, &count("false,true,", 1.0)));
}

#[tokio::test(start_paused = true)]
async fn claims_are_counted_with_the_labels_of_the_release() {
    for (minor, labels) in [(34, "false,false"), (35, "false,false,")] {
        let world = World::recorded_of(Release::of_minor(minor)).await;
        let mut claims = Claims(world);
        claims.load(user_claim());
        claims.0.restart(&[DESCRIPTOR]).await;
        let found = claims.metric("resource_claims");
        assert_eq!(found, [(labels.to_owned(), 1.0)], "1.{minor}");
    }
}

fn sorted(mut samples: Vec<(String, f64)>) -> Vec<(String, f64)> {
    samples.sort_by(|(one, _), (other, _)| one.cmp(other));
    samples
}

/// The answer to a creation is lost, and the watch is late.
#[tokio::test(start_paused = true)]
async fn a_lost_answer_makes_no_second_claim() {
    let mut claims = Claims::stopped(&[pod(), template()]).await;
    let before = claims.0.cluster.revision();
    let view = claims.0.hold("resourceclaims", before);
    let creations = Matcher::new("create", "resourceclaims");
    let faults = claims.0.cluster.faults();
    faults.on_request(creations, RequestFault::LoseAnswer, Some(1));
    claims.start().await;
    assert_eq!(claims.0.cluster.objects("resourceclaims").len(), 1);
    claims.0.cluster.faults().remove(view);
    claims.rest().await;
    assert_eq!(claims.0.cluster.objects("resourceclaims").len(), 1);
    assert_eq!(claims.named(), ["acme true"]);
}

/// A cluster at rest gets no write from a new leader.
#[tokio::test(start_paused = true)]
async fn a_new_leader_writes_nothing_about_claims_at_rest() {
    let objects = [
        bound_pod(),
        template(),
        protected(reserved(claim(), &[consumer(POD)])),
    ];
    let mut claims = Claims::with(&objects).await;
    claims.load(finished_other());
    claims.start().await;
    assert_eq!(claims.requests(), [""; 0]);
}

/// A finished pod whose claim is gone.
fn finished_other() -> Value {
    with(
        finished_pod(),
        &["metadata"],
        json!({"name": "other", "namespace": "default", "uid": "uid-of-other"}),
    )
}
