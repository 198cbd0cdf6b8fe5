//! PodGroups. The API server here has the type by a definition.

use serde_json::{Value, json};
use steersman_devcluster::definitions::definition;

use super::{Story, deleted, pod_with, protected, with};
use crate::protection::pod_groups::DESCRIPTOR;
use crate::testing::NAMESPACE;

const FINALIZER: &str = "scheduling.k8s.io/podgroup-protection";
const GROUPS: &str = "podgroups";
const REMOVED: [&str; 2] = ["list default/pods", "update default/podgroups/g"];

fn group() -> Value {
    json!({
        "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": NAMESPACE, "uid": "uid-of-g"},
        "spec": {"schedulingPolicy": {"basic": {}}},
    })
}

fn kept() -> Value {
    protected(group(), FINALIZER)
}

fn gone() -> Value {
    deleted(kept())
}

/// A pod of the group in this phase.
fn member(name: &str, phase: &str) -> Value {
    let pod = pod_with(name, json!({"name": "v", "emptyDir": {}}));
    let pod = with(pod, "/spec/schedulingGroup", json!({"podGroupName": "g"}));
    with(pod, "/status/phase", json!(phase))
}

fn story(objects: impl IntoIterator<Item = Value>) -> Story {
    let groups = definition("scheduling.k8s.io", "PodGroup", &["v1alpha2"], "Namespaced");
    Story::of(DESCRIPTOR, objects).with_type(groups)
}

/// Upstream: the cases of `TestPodGroupProtectionController`, `TestHasActivePods`,
/// `TestHandlePodGroupUpdate`, `TestActivePodSchedulingGroupIndexer` and `TestIsPodTerminated` about
/// objects that exist.
#[tokio::test(start_paused = true)]
async fn pod_group_protection_controller() {
    let running = || member("p", "Running");
    let of_another = with(
        running(),
        "/spec/schedulingGroup",
        json!({"podGroupName": "other"}),
    );
    let alone = with(running(), "/spec/schedulingGroup", Value::Null);
    let ending = deleted(running());
    // (case, objects, whether the finalizer is removed)
    let cases = [
        ("new PodGroup", vec![group()], false),
        ("new PodGroup with a pod", vec![group(), running()], false),
        ("PodGroup with finalizer", vec![kept()], false),
        ("deleted, no active pods", vec![gone()], true),
        ("deleted, active pod", vec![gone(), running()], false),
        (
            "deleted, pending pod",
            vec![gone(), member("p", "Pending")],
            false,
        ),
        (
            "deleted, pod of unknown phase",
            vec![gone(), member("p", "Unknown")],
            false,
        ),
        ("deleted, terminating pod", vec![gone(), ending], false),
        (
            "deleted, only terminated pods",
            vec![gone(), member("p", "Succeeded"), member("q", "Failed")],
            true,
        ),
        (
            "deleted, mix of active and terminated pods",
            vec![gone(), running(), member("q", "Failed")],
            false,
        ),
        (
            "deleted, pod of another PodGroup",
            vec![gone(), of_another],
            true,
        ),
        (
            "deleted, pod without schedulingGroup",
            vec![gone(), alone],
            true,
        ),
        (
            "deleted without finalizer",
            vec![protected(deleted(group()), "example.com/keep")],
            false,
        ),
        (
            "deleted without finalizer, active pod",
            vec![protected(deleted(group()), "example.com/keep"), running()],
            false,
        ),
    ];
    for (case, objects, is_removed) in cases {
        let world = story(objects).begin().await;
        let expected: &[&str] = if is_removed { &REMOVED } else { &[] };
        assert_eq!(world.sent_by(DESCRIPTOR.identity), expected, "{case}");
    }
}

/// Upstream: the cases of `TestPodGroupProtectionController` and `TestHandlePodChange` about events
/// of pods.
#[tokio::test(start_paused = true)]
async fn events_of_pods() {
    let running = || member("p", "Running");
    let another = |pod| with(pod, "/metadata/uid", json!("uid2"));
    let elsewhere = with(
        running(),
        "/spec/schedulingGroup",
        json!({"podGroupName": "other"}),
    );
    // (case, the next state of the pod, whether the finalizer is removed)
    let cases = [
        ("pod deleted", None, true),
        ("pod succeeded", Some(member("p", "Succeeded")), true),
        ("pod failed", Some(member("p", "Failed")), true),
        (
            "pod runs on",
            Some(with(running(), "/metadata/labels", json!({"a": "b"}))),
            false,
        ),
        (
            "another pod of the name and group",
            Some(another(running())),
            false,
        ),
        ("another pod of the name", Some(another(elsewhere)), true),
    ];
    for (case, next, is_removed) in cases {
        let world = story([gone(), running()]).begin().await;
        assert_eq!(world.sent_by(DESCRIPTOR.identity), [""; 0], "{case}");
        match next {
            Some(pod) => world.store_and_rest(pod).await,
            None => world.remove_and_rest("p").await,
        }
        assert_eq!(world.find(GROUPS, "g").is_none(), is_removed, "{case}");
    }
}

/// Upstream: "terminated pod references non-existent PodGroup".
#[tokio::test(start_paused = true)]
async fn a_pod_of_a_missing_group_causes_no_request() {
    let world = story([member("p", "Failed")]).begin().await;
    assert_eq!(world.sent_by(DESCRIPTOR.identity), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn pods_that_the_cache_lacks_keep_their_group() {
    let hidden = [member("p", "Running")];
    let world = story([gone()]).uncached("pods", hidden).begin().await;
    assert_eq!(world.finalizers(GROUPS, "g"), Some(json!([FINALIZER])));
}
