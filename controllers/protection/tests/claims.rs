//! Claims.

use serde_json::{Value, json};

use super::{Story, claim, deleted, protected, user, with};
use crate::protection::claims::DESCRIPTOR;
use crate::testing::world::{World, condition_of};

const FINALIZER: &str = "kubernetes.io/pvc-protection";
const CLAIMS: &str = "persistentvolumeclaims";
const LIST: &str = "list default/pods";
const UPDATE: &str = "update default/persistentvolumeclaims/a";
const STATUS: &str = "update default/persistentvolumeclaims/a/status";

fn kept(name: &str) -> Value {
    protected(claim(name), FINALIZER)
}

fn gone(name: &str) -> Value {
    deleted(kept(name))
}

/// The same object in another namespace.
fn in_other(object: Value) -> Value {
    with(object, "/metadata/namespace", json!("other"))
}

fn story(objects: impl IntoIterator<Item = Value>) -> Story {
    Story::of(DESCRIPTOR, objects)
}

fn phase(pod: Value, phase: &str) -> Value {
    with(pod, "/status/phase", json!(phase))
}

fn unscheduled(pod: Value) -> Value {
    with(pod, "/spec/nodeName", json!(""))
}

fn another(pod: Value) -> Value {
    with(pod, "/metadata/uid", json!("uid2"))
}

impl World {
    /// The requests of the controller.
    fn sent_for_claims(&self) -> Vec<String> {
        self.sent_by(DESCRIPTOR.identity)
    }
}

/// Upstream: the cases of `TestPVCProtectionController` about events of claims. Claims that are
/// deleted together share one list.
#[tokio::test(start_paused = true)]
async fn events_of_claims() {
    let failed_update = "update default/persistentvolumeclaims/a 500";
    let other = "update other/persistentvolumeclaims/a";
    let second = "update default/persistentvolumeclaims/b";
    let third = "update default/persistentvolumeclaims/c";
    // (case, story, requests)
    let cases = [
        (
            "PVC without finalizer",
            story([claim("a"), in_other(claim("a"))]),
            vec![UPDATE, other],
        ),
        (
            "PVC with finalizer",
            story([kept("a"), in_other(kept("a"))]),
            vec![],
        ),
        (
            "saving fails",
            story([claim("a")]).failing("update", CLAIMS, 2),
            vec![UPDATE, failed_update, failed_update],
        ),
        (
            "deleted PVCs across namespaces",
            story([gone("a"), in_other(gone("a"))]),
            vec![LIST, "list other/pods", UPDATE, other],
        ),
        (
            "deleted PVCs of one namespace",
            story([gone("a"), gone("b")]),
            vec![LIST, UPDATE, second],
        ),
        (
            "removal fails",
            story([gone("a")]).failing("update", CLAIMS, 2),
            vec![LIST, LIST, LIST, UPDATE, failed_update, failed_update],
        ),
        (
            "pod list fails for one PVC",
            story([gone("a"), gone("b")]).failing("list", "pods", 1),
            vec![LIST, LIST, "list default/pods 500", UPDATE, second],
        ),
        (
            "pod with the PVC",
            story([gone("a"), user("p", "a")]),
            vec![],
        ),
        (
            "pod with unrelated PVC",
            story([gone("a"), user("p", "unrelated")]),
            vec![LIST, UPDATE],
        ),
        (
            "several PVCs and a pod with unrelated PVC",
            story([gone("a"), gone("b"), gone("c"), user("p", "unrelated")]),
            vec![LIST, UPDATE, second, third],
        ),
        (
            "finished pod with the PVC",
            story([gone("a"), phase(user("p", "a"), "Failed")]),
            vec![],
        ),
    ];
    for (case, story, requests) in cases {
        let world = story.begin().await;
        assert_eq!(world.sent_for_claims(), requests, "{case}");
    }
}

/// Upstream: the cases of `TestPVCProtectionController` with late informers.
#[tokio::test(start_paused = true)]
async fn pods_that_the_cache_lacks_keep_their_claims() {
    let in_namespace_3 = |object| with(object, "/metadata/namespace", json!("namespace-3"));
    let claims = [gone("a"), gone("b"), in_namespace_3(gone("a"))];
    let pods = [user("p", "a"), in_namespace_3(user("p", "a"))];
    let world = story(claims).uncached("pods", pods).begin().await;
    let sent = world.sent_for_claims();
    let updates: Vec<_> = sent
        .iter()
        .filter(|one| one.starts_with("update"))
        .collect();
    assert_eq!(updates, ["update default/persistentvolumeclaims/b"]);
    for list in [LIST, "list namespace-3/pods"] {
        assert!(sent.iter().any(|one| one == list), "{sent:?}");
    }
}

/// Upstream: the cases of `TestPVCProtectionController` about events of pods.
#[tokio::test(start_paused = true)]
async fn events_of_pods() {
    let using = || user("p", "a");
    // (case, claim, first pod, its successor, requests after it)
    let cases = [
        (
            "running",
            gone("a"),
            None,
            Some(phase(using(), "Running")),
            vec![],
        ),
        (
            "finished",
            gone("a"),
            Some(using()),
            Some(phase(using(), "Succeeded")),
            vec![],
        ),
        (
            "deleted running Pod",
            gone("a"),
            Some(using()),
            None,
            vec![LIST, UPDATE],
        ),
        (
            "another pod of the name, without the PVC",
            gone("a"),
            Some(using()),
            Some(another(user("p", "unrelated"))),
            vec![LIST, UPDATE],
        ),
        (
            "another pod of the name, PVC not deleted",
            kept("a"),
            Some(using()),
            Some(another(user("p", "unrelated"))),
            vec![],
        ),
        (
            "another pod of the name, with the PVC",
            gone("a"),
            Some(using()),
            Some(another(using())),
            vec![],
        ),
    ];
    for (case, claim, first, then, requests) in cases {
        let keeper = user("keeper", "a");
        let without_first = first.is_none().then_some(keeper);
        let objects = [claim]
            .into_iter()
            .chain(first.clone())
            .chain(without_first);
        let world = story(objects).begin().await;
        assert_eq!(world.sent_for_claims(), [""; 0], "{case}");
        match then {
            Some(pod) => world.store_and_rest(pod).await,
            None => world.remove_and_rest("p").await,
        }
        assert_eq!(world.sent_for_claims(), requests, "{case}");
    }
}

/// Upstream: the cases of `TestPVCProtectionController` about unscheduled pods.
#[tokio::test(start_paused = true)]
async fn unscheduled_pods_keep_no_claim() {
    let waiting = unscheduled(user("p", "a"));
    let world = story([gone("a"), waiting]).begin().await;
    assert_eq!(world.sent_for_claims(), [LIST, UPDATE]);
    // A pod that got its node keeps the claim.
    let world = story([kept("a"), unscheduled(user("p", "a"))])
        .begin()
        .await;
    world.store_and_rest(user("p", "a")).await;
    world.delete(CLAIMS, "a").await;
    world.at_rest().await;
    assert_eq!(world.sent_for_claims(), [""; 0]);
}

fn unused(claim: Value, status: &str) -> Value {
    let condition = json!({"type": "Unused", "status": status, "reason": "r", "message": "m"});
    with(claim, "/status/conditions", json!([condition]))
}

/// Upstream: the cases of `TestPVCProtectionController` with the feature gate.
#[tokio::test(start_paused = true)]
async fn the_condition_unused() {
    let yes = Some(("True", "NoPodsUsingPVC"));
    let no = Some(("False", "PodUsingPVC"));
    let failed = "update default/persistentvolumeclaims/a/status 500";
    let running = || phase(user("p", "a"), "Running");
    // (case, story, requests, condition)
    let cases = [
        ("no pods", story([kept("a")]), vec![LIST, STATUS], yes),
        (
            "still unused",
            story([unused(kept("a"), "True")]),
            vec![],
            Some(("True", "r")),
        ),
        (
            "running pod",
            story([kept("a"), running()]),
            vec![STATUS],
            no,
        ),
        (
            "used again",
            story([unused(kept("a"), "True"), running()]),
            vec![STATUS],
            no,
        ),
        (
            "unscheduled pod",
            story([kept("a"), unscheduled(user("p", "a"))]),
            vec![STATUS],
            no,
        ),
        (
            "succeeded pod",
            story([kept("a"), phase(user("p", "a"), "Succeeded")]),
            vec![LIST, STATUS],
            yes,
        ),
        (
            "failed pod",
            story([kept("a"), phase(user("p", "a"), "Failed")]),
            vec![LIST, STATUS],
            yes,
        ),
        (
            "status update fails",
            story([kept("a")]).failing("update", CLAIMS, 2),
            vec![LIST, LIST, LIST, STATUS, failed, failed],
            yes,
        ),
        (
            "pod is not in the cache",
            story([kept("a")]).uncached("pods", [running()]),
            vec![LIST, STATUS],
            no,
        ),
        (
            "used PVC without finalizer",
            story([claim("a"), user("p", "a")]),
            vec![UPDATE, STATUS],
            no,
        ),
        ("deleted PVC", story([gone("a")]), vec![LIST, UPDATE], None),
        (
            "deleted PVC with the condition",
            story([unused(gone("a"), "True")]),
            vec![LIST, UPDATE],
            None,
        ),
        (
            "deleted PVC with a pod",
            story([gone("a"), user("p", "a")]),
            vec![],
            None,
        ),
    ];
    for (case, story, requests, condition) in cases {
        let world = story.with_gates().begin().await;
        assert_eq!(world.sent_for_claims(), requests, "{case}");
        let found = world.find(CLAIMS, "a").unwrap_or_default();
        assert_eq!(condition_of(&found, "Unused"), condition, "{case}");
    }
}

/// Upstream: the cases of `TestPVCProtectionController` with the feature gate and a deleted pod.
#[tokio::test(start_paused = true)]
async fn a_claim_is_unused_after_its_last_pod() {
    let objects = [kept("a"), user("p", "a"), user("q", "a")];
    let world = story(objects).with_gates().begin().await;
    world.remove_and_rest("p").await;
    assert_eq!(world.sent_for_claims(), [STATUS]);
    world.remove_and_rest("q").await;
    assert_eq!(world.sent_for_claims(), [LIST, STATUS, STATUS]);
    let found = world.find(CLAIMS, "a").unwrap();
    assert_eq!(
        condition_of(&found, "Unused"),
        Some(("True", "NoPodsUsingPVC"))
    );
}

/// Upstream: the cases of `TestPVCProtectionController` about claims that are not bound, of 1.37. The binding itself
/// brings the condition.
#[tokio::test(start_paused = true)]
async fn claims_are_unused_once_they_are_bound_since_1_37() {
    let of_phase = |phase: &str| with(kept("a"), "/status/phase", json!(phase));
    let yes = Some(("True", "NoPodsUsingPVC"));
    // (release, phase, condition)
    let cases = [
        (36, "Pending", yes),
        (37, "Pending", None),
        (37, "Lost", None),
        (37, "Bound", yes),
    ];
    for (minor, phase, condition) in cases {
        let story = story([of_phase(phase)]).with_gates().of_release(minor);
        let world = story.begin().await;
        let found = world.find(CLAIMS, "a").unwrap();
        assert_eq!(
            condition_of(&found, "Unused"),
            condition,
            "1.{minor}, {phase}"
        );
    }
    let before = unused(of_phase("Pending"), "True");
    let user = unscheduled(user("p", "a"));
    let world = story([before, user])
        .with_gates()
        .of_release(37)
        .begin()
        .await;
    assert_eq!(world.sent_for_claims(), [""; 0]);
    let bound = unused(of_phase("Bound"), "True");
    world.store_and_rest(bound).await;
    let found = world.find(CLAIMS, "a").unwrap();
    assert_eq!(
        condition_of(&found, "Unused"),
        Some(("False", "PodUsingPVC"))
    );
}
