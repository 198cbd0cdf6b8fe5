//! Claims of PodGroups, with the feature gate `DRAWorkloadResourceClaims`. The API server here has the
//! type by a definition.

use serde_json::{Value, json};
use steersman_devcluster::definitions::definition;
use steersman_devcluster::faults::{Matcher, conflict};
use steersman_options::features::{self, FeatureGates};
use steersman_releases::Release;

use super::{
    CLAIM, Claims, DESCRIPTOR, POD, POD_CLAIM, TEMPLATE, allocated, claim, pod, protected,
    reserved, template, terminating, user_claim, with,
};

const GROUP: &str = "test-podgroup";
const CREATE: &str = "create resourceclaims 201";
const APPLY: &str = "patch podgroups/test-podgroup/status 200";
const APPLY_TO_POD: &str = "patch pods/my-pod/status 200";
const MISSING: &str = "PodGroupResourceClaim acme: resource claim template \"my-template\": \
                       resourceclaimtemplate.resource.k8s.io \"my-template\" not found";

fn claims_of_spec() -> Value {
    json!([{"name": POD_CLAIM, "resourceClaimTemplateName": TEMPLATE}])
}

/// A PodGroup that names the template.
fn group() -> Value {
    json!({
        "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
        "metadata": {"name": GROUP, "namespace": "default", "uid": "uidpodgroup1"},
        "spec": {"resourceClaims": claims_of_spec()},
    })
}

fn status() -> Value {
    json!([{"name": POD_CLAIM, "resourceClaimName": CLAIM}])
}

/// The same PodGroup, whose status names the claim.
fn group_with_claim() -> Value {
    let mut group = group();
    group["status"] = json!({"resourceClaimStatuses": status()});
    group
}

/// The claim that was made for the PodGroup.
fn claim_of_group() -> Value {
    let owner = json!({
        "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "name": GROUP,
        "uid": "uidpodgroup1", "controller": true,
    });
    with(claim(), &["metadata", "ownerReferences"], json!([owner]))
}

/// A pod of the group.
fn member() -> Value {
    with(
        pod(),
        &["spec", "schedulingGroup"],
        json!({"podGroupName": GROUP}),
    )
}

fn bound_member() -> Value {
    let bound = with(member(), &["spec", "nodeName"], json!("worker"));
    with(bound, &["status", "resourceClaimStatuses"], status())
}

fn consumer() -> Value {
    json!({
        "apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": GROUP,
        "uid": "uidpodgroup1",
    })
}

/// A cluster with the type and these objects, and without the controller.
async fn stopped(objects: &[Value]) -> Claims {
    stopped_with("v1alpha2", objects).await
}

/// The same with the type in this version.
async fn stopped_with(version: &str, objects: &[Value]) -> Claims {
    let claims = Claims::stopped(&[]).await;
    let groups = definition("scheduling.k8s.io", "PodGroup", &[version], "Namespaced");
    claims.0.create(groups).await;
    objects
        .iter()
        .for_each(|object| claims.load(object.clone()));
    claims
}

async fn start(claims: &mut Claims, is_on: bool) {
    claims
        .0
        .restart_with(&[DESCRIPTOR], |mut context| {
            let gate = features::DRA_WORKLOAD_RESOURCE_CLAIMS.name;
            context.features = FeatureGates::new(|name| is_on && name == gate);
            context
        })
        .await;
    claims.rest().await;
}

/// Requests about claims, and about the status of pods and PodGroups, with paths as in the tests of
/// pods.
fn requests(claims: &Claims) -> Vec<String> {
    let requests = claims.requests().into_iter();
    let short = |request: String| {
        let path = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/";
        request.replace(path, "")
    };
    requests.map(short).collect()
}

/// Names in the status of the PodGroup, with those of the cluster as `true`.
fn named(claims: &Claims) -> Vec<String> {
    let Some(group) = claims.0.find("podgroups", GROUP) else {
        return Vec::new();
    };
    let statuses = group["status"]["resourceClaimStatuses"].as_array().cloned();
    let name = |status: Value| {
        let claim = status["resourceClaimName"].as_str().unwrap();
        let is_there = claims.0.find("resourceclaims", claim).is_some();
        format!("{} {is_there}", status["name"].as_str().unwrap())
    };
    statuses.unwrap_or_default().into_iter().map(name).collect()
}

/// Upstream: `TestSyncHandler`, the cases about PodGroups.
#[tokio::test(start_paused = true)]
async fn claims_are_made_for_pod_groups() {
    let made = vec![CREATE, APPLY];
    let other = with(user_claim(), &["metadata", "namespace"], json!("other"));
    // (case, objects, requests, states of the claims, entries in the status of the PodGroup)
    let cases = [
        (
            "create for PodGroup",
            vec![group(), template()],
            made.clone(),
            vec![""],
            vec!["acme true"],
        ),
        (
            "nop for PodGroup",
            vec![group_with_claim(), claim_of_group()],
            vec![],
            vec![""],
            vec!["acme true"],
        ),
        (
            "recreate for PodGroup",
            vec![group_with_claim(), template()],
            made.clone(),
            vec![""],
            vec!["acme true"],
        ),
        (
            "missing-template-podgroup",
            vec![group()],
            vec![],
            vec![],
            vec![],
        ),
        (
            "find-existing-claim-by-label-podgroup",
            vec![group(), claim_of_group()],
            vec![APPLY],
            vec![""],
            vec!["acme true"],
        ),
        ("no-such-podgroup", vec![template()], vec![], vec![], vec![]),
        (
            "podgroup-deleted",
            vec![terminating(group()), template()],
            vec![],
            vec![],
            vec![],
        ),
        (
            "create-with-other-claim-podgroup",
            vec![group(), template(), other],
            made,
            vec!["", ""],
            vec!["acme true"],
        ),
        (
            "wrong-claim-owner-podgroup",
            vec![group(), user_claim()],
            vec![],
            vec![""],
            vec![],
        ),
        (
            "clear-reserved-podgroup",
            vec![protected(reserved(user_claim(), &[consumer()]))],
            vec![
                "get podgroups/test-podgroup 404",
                "update resourceclaims/my-pod-acme-1/status 200",
                "update resourceclaims/my-pod-acme-1 200",
            ],
            vec![""],
            vec![],
        ),
        (
            "stay-reserved, podgroup",
            vec![
                group_with_claim(),
                protected(reserved(claim_of_group(), &[consumer()])),
            ],
            vec![],
            vec!["test-podgroup allocated protected"],
            vec!["acme true"],
        ),
    ];
    for (case, objects, expected, states, names) in cases {
        let mut claims = stopped(&objects).await;
        start(&mut claims, true).await;
        assert_eq!(requests(&claims), expected, "{case}");
        assert_eq!(claims.states(), states, "{case}");
        assert_eq!(named(&claims), names, "{case}");
        let made = claims.0.cluster.objects("resourceclaims");
        if requests(&claims).contains(&CREATE.to_owned()) {
            let of_group = made
                .iter()
                .find(|claim| claim["metadata"]["namespace"] == "default");
            let metadata = &of_group.unwrap()["metadata"];
            assert_eq!(metadata["generateName"], "test-podgroup-acme-", "{case}");
            let expected = &claim_of_group()["metadata"]["ownerReferences"];
            assert_eq!(&metadata["ownerReferences"], expected, "{case}");
        }
        if case.starts_with("missing") || case.starts_with("wrong") {
            assert_eq!(claims.events(), [MISSING], "{case}");
        }
    }
}

/// API servers of 1.37 have PodGroups in `v1beta1`. A reference in another version leads nowhere.
#[tokio::test(start_paused = true)]
async fn references_to_a_pod_group_have_the_version_of_the_api_server() {
    let served = "scheduling.k8s.io/v1beta1";
    let group = || with(group(), &["apiVersion"], json!(served));
    let mut claims = stopped_with("v1beta1", &[group()]).await;
    start(&mut claims, true).await;
    claims.0.a_minute().await;
    let events = claims.0.cluster.objects("events");
    assert_eq!(events[0]["involvedObject"]["apiVersion"], served);
    claims.load(template());
    claims.0.a_minute().await;
    let made = claims.0.cluster.objects("resourceclaims");
    let owner = &made[0]["metadata"]["ownerReferences"][0];
    assert_eq!(owner["apiVersion"], served);
    assert_eq!(named(&claims), ["acme true"]);
}

/// Upstream: `TestSyncHandler`, the case "create-conflict-podgroup".
#[tokio::test(start_paused = true)]
async fn a_refused_claim_of_a_pod_group_is_made_later() {
    let mut claims = stopped(&[group(), template()]).await;
    let creations = Matcher::new("create", "resourceclaims");
    let faults = claims.0.cluster.faults();
    faults.reject(creations, conflict(), Some(1));
    start(&mut claims, true).await;
    assert_eq!(
        requests(&claims),
        ["create resourceclaims 409", CREATE, APPLY]
    );
}

/// Upstream: `TestSyncHandler`, the cases about pods with a PodGroup.
#[tokio::test(start_paused = true)]
async fn pods_use_the_claims_of_their_pod_group() {
    let other_claim = json!([{"name": "own", "resourceClaimTemplateName": TEMPLATE}]);
    let with_own = with(member(), &["spec", "resourceClaims"], other_claim);
    let reservation = "update resourceclaims/my-pod-acme-1/status 200";
    // (case, whether the gate is on, objects, requests, reservations)
    let cases = [
        (
            "skip create for Pod with PodGroup before template exists",
            true,
            vec![member(), group()],
            vec![],
            vec![],
        ),
        (
            "skip create for Pod with PodGroup after template exists",
            true,
            vec![member(), group(), template()],
            vec![CREATE, APPLY, APPLY_TO_POD],
            vec![""],
        ),
        (
            "update Pod status with PodGroup claim",
            true,
            vec![member(), group_with_claim(), claim_of_group()],
            vec![APPLY_TO_POD],
            vec![""],
        ),
        (
            "create ResourceClaim for Pod with PodGroup claim when feature is disabled",
            false,
            vec![member(), group(), claim_of_group(), template()],
            vec![CREATE, APPLY_TO_POD],
            vec!["", ""],
        ),
        (
            "a claim that the PodGroup lacks belongs to the pod",
            true,
            vec![with_own, group_with_claim(), claim_of_group(), template()],
            vec![CREATE, APPLY_TO_POD],
            vec!["", ""],
        ),
        (
            "add-reserved-podgroup",
            true,
            vec![
                bound_member(),
                group_with_claim(),
                allocated(claim_of_group()),
            ],
            vec![reservation],
            vec!["test-podgroup allocated"],
        ),
        (
            "reserved for the PodGroup",
            true,
            vec![
                bound_member(),
                group_with_claim(),
                reserved(claim_of_group(), &[consumer()]),
            ],
            vec![],
            vec!["test-podgroup allocated"],
        ),
        (
            "add-reserved-podgroup-feature-disabled",
            false,
            vec![bound_member(), group(), allocated(claim())],
            vec![reservation],
            vec!["my-pod allocated"],
        ),
    ];
    for (case, is_on, objects, expected, states) in cases {
        let mut claims = stopped(&objects).await;
        start(&mut claims, is_on).await;
        assert_eq!(requests(&claims), expected, "{case}");
        let mut found = claims.states();
        found.sort_unstable();
        assert_eq!(found, states, "{case}");
    }
}

/// Upstream: the cases of `TestEventHandlers`. Here the events have their effects.
#[tokio::test(start_paused = true)]
async fn event_handlers() {
    for is_on in [true, false] {
        // A template may come after the PodGroup, and the PodGroup after its pod.
        let mut claims = stopped(&[member()]).await;
        start(&mut claims, is_on).await;
        claims.load(group());
        claims.rest().await;
        assert!(requests(&claims).is_empty());
        claims.load(template());
        // The pod waits with back-off for a PodGroup that the cache lacks.
        claims.0.a_minute().await;
        let mut expected = vec![CREATE, APPLY_TO_POD];
        if is_on {
            expected.insert(1, APPLY);
        }
        assert_eq!(requests(&claims), expected);
        assert_eq!(claims.named(), ["acme true"]);
    }

    // A claim that vanishes is made again for the PodGroup.
    let mut claims = stopped(&[group_with_claim(), claim_of_group(), template()]).await;
    start(&mut claims, true).await;
    assert!(requests(&claims).is_empty());
    claims.remove("resourceclaims", CLAIM).await;
    claims.rest().await;
    assert_eq!(requests(&claims), [CREATE, APPLY]);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_pod_group_leaves_its_claims() {
    let shared = reserved(user_claim(), &[consumer()]);
    let named = json!([{"name": POD_CLAIM, "resourceClaimName": CLAIM}]);
    let group = with(group(), &["spec", "resourceClaims"], named);
    let mut claims = stopped(&[group, protected(shared)]).await;
    start(&mut claims, true).await;
    assert!(requests(&claims).is_empty());
    claims.remove("podgroups", GROUP).await;
    claims.rest().await;
    let free = [
        "update resourceclaims/my-pod-acme-1/status 200",
        "update resourceclaims/my-pod-acme-1 200",
    ];
    assert_eq!(requests(&claims), free);
    assert_eq!(claims.states(), [""]);
}

/// The former leader made the claim, and ended before it wrote the status.
#[tokio::test(start_paused = true)]
async fn a_new_leader_finds_the_claim_of_a_pod_group() {
    let mut claims = stopped(&[group(), template()]).await;
    let before = claims.0.cluster.revision();
    claims.load(claim_of_group());
    let term = claims.0.cluster.revision();
    let view = claims.0.hold("resourceclaims", before);
    claims
        .0
        .restart_with(&[DESCRIPTOR], |mut context| {
            let gate = features::DRA_WORKLOAD_RESOURCE_CLAIMS.name;
            context.features = FeatureGates::new(|name| name == gate);
            context.term_start_rv = term;
            context
        })
        .await;
    claims.rest().await;
    assert_eq!(requests(&claims), ["list resourceclaims 200", APPLY]);
    claims.0.cluster.faults().remove(view);
    claims.rest().await;
    assert_eq!(named(&claims), ["acme true"]);
    assert_eq!(claims.states(), [""]);
}

/// Each bound pod of the group has one reservation, that of the group.
#[tokio::test(start_paused = true)]
async fn two_pods_share_one_reservation() {
    let second = {
        let named = with(bound_member(), &["metadata", "name"], json!("second"));
        with(named, &["metadata", "uid"], json!("uid-of-second"))
    };
    let objects = [
        bound_member(),
        second,
        group_with_claim(),
        allocated(claim_of_group()),
    ];
    let mut claims = stopped(&objects).await;
    start(&mut claims, true).await;
    let consumers = &claims.0.cluster.objects("resourceclaims")[0]["status"]["reservedFor"];
    assert_eq!(*consumers, json!([consumer()]));
    claims.remove("pods", POD).await;
    claims.rest().await;
    assert_eq!(claims.states(), ["test-podgroup allocated"]);
}

/// The label of the group is empty for pods.
#[tokio::test(start_paused = true)]
async fn created_claims_are_counted_by_owner_since_1_37() {
    let own = with(pod(), &["metadata", "name"], json!("alone"));
    let own = with(own, &["metadata", "uid"], json!("uid-of-alone"));
    for (minor, expected) in [
        (36, vec![("false,success", 2.0)]),
        (
            37,
            vec![
                ("false,,Pod,success", 1.0),
                ("false,scheduling.k8s.io,PodGroup,success", 1.0),
            ],
        ),
    ] {
        let mut claims = stopped(&[group(), template(), own.clone()]).await;
        claims
            .0
            .restart_with(&[DESCRIPTOR], |mut context| {
                context.release = Release::of_minor(minor);
                context.features = FeatureGates::new(|_| true);
                context
            })
            .await;
        claims.rest().await;
        let mut found = claims.metric("creates_total");
        found.sort_by(|(one, _), (other, _)| one.cmp(other));
        let found: Vec<_> = found
            .iter()
            .map(|(labels, value)| (&**labels, *value))
            .collect();
        assert_eq!(found, expected, "1.{minor}");
    }
}
