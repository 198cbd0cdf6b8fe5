//! Stories of upstream's tests in `stateful_set_control_test.go`, in both modes and with each
//! retention policy. Upstream checks invariants after each sync; here the changes of pods are
//! checked in the order in which the API server stored them.

use std::collections::BTreeSet;

use steersman_devcluster::faults::{self, Matcher};

use super::*;

/// Retention policies: when scaled and when deleted. `None` is an unset policy.
const POLICIES: [Option<(&str, &str)>; 5] = [
    Some(("Retain", "Retain")),
    Some(("Delete", "Retain")),
    Some(("Retain", "Delete")),
    Some(("Delete", "Delete")),
    None,
];

/// A set in each mode with each policy, and its description.
fn variants(replicas: i32) -> Vec<(String, Value)> {
    let mut variants = Vec::new();
    for policy in POLICIES {
        for (mode, set) in [
            ("ordered", web(replicas)),
            ("parallel", parallel(web(replicas))),
        ] {
            let set = with_claims(set);
            let set = match policy {
                Some((scaled, deleted)) => retention(set, deleted, scaled),
                None => set,
            };
            variants.push((format!("{mode} {policy:?}"), set));
        }
    }
    variants
}

impl World {
    /// All changes of pods so far: the name, and the pod after the change.
    fn pod_changes(&self) -> Vec<(String, Option<Value>)> {
        let changes = self.cluster.changes(0).unwrap();
        let pods = changes.into_iter().filter(|(plural, _)| plural == "pods");
        pods.map(|(_, event)| {
            let is_there = event.kind.as_str() != "DELETED";
            let pod = event.object().to_value();
            (name(&pod).to_owned(), is_there.then_some(pod))
        })
        .collect()
    }

    /// Asserts upstream's monotonic invariants on all changes of pods so far. A pod appears only
    /// beside ready pods of all lower ordinals, and pods leave one by one.
    fn assert_ordered(&self, why: &str) {
        let mut pods: BTreeMap<String, Value> = BTreeMap::new();
        for (name, pod) in self.pod_changes() {
            let is_new = !pods.contains_key(&name);
            let ordinal = super::super::identity::ordinal(&name).unwrap();
            if let Some(pod) = pod {
                let lower = (0..ordinal).map(|n| format!("web-{n}"));
                let mut unready = lower.filter(|n| !pods.get(n).is_some_and(is_ready));
                if is_new && let Some(unready) = unready.next() {
                    panic!("{why}: {name} appears, but {unready} is not ready");
                }
                let starts_to_go = |pod: &Value| !pod["metadata"]["deletionTimestamp"].is_null();
                let was_going = pods.get(&name).is_some_and(starts_to_go);
                if starts_to_go(&pod) && !was_going {
                    let going = pods.values().filter(|other| starts_to_go(other)).count();
                    assert_eq!(going, 0, "{why}: {name} goes beside another pod");
                }
                pods.insert(name, pod);
            } else {
                pods.remove(&name);
            }
        }
    }

    /// Asserts that each pod has its identity and mounts its claim, and that the claim exists.
    fn assert_identities(&self, why: &str) {
        let claims: BTreeSet<String> = self
            .names_of("persistentvolumeclaims")
            .into_iter()
            .collect();
        for pod in self.cluster.objects("pods") {
            let name = name(&pod);
            let (_, ordinal) = name.rsplit_once('-').unwrap();
            let label = |key: &str| &pod["metadata"]["labels"][key];
            assert_eq!(label("statefulset.kubernetes.io/pod-name"), name, "{why}");
            assert_eq!(label("apps.kubernetes.io/pod-index"), ordinal, "{why}");
            let claim = format!("data-{name}");
            assert_eq!(
                pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"],
                claim.as_str(),
                "{why}"
            );
            assert!(claims.contains(&claim), "{why}: {claim} is missing");
        }
    }

    fn assert_invariants(&self, why: &str) {
        self.assert_identities(why);
        if why.starts_with("ordered") {
            self.assert_ordered(why);
        }
    }
}

/// Upstream: `CreatePods`, `ScalesUp` and `ScalesDown` of `TestStatefulSetControl`.
#[tokio::test(start_paused = true)]
async fn creates_and_scales() {
    for (why, set) in variants(3) {
        let world = world_with(set).await;
        assert_eq!(counters(&world.set_status()), [3; 5], "{why}");
        world.change_set(json!({"replicas": 4})).await;
        world.make_pods_ready().await;
        assert_eq!(counters(&world.set_status()), [4; 5], "{why}");
        world.assert_invariants(&why);
        world.change_set(json!({"replicas": 0})).await;
        world.make_pods_ready().await;
        assert_eq!(counters(&world.set_status()), [0; 5], "{why}");
        world.assert_invariants(&why);
    }
}

/// Upstream: `ReplacesPods`, `RecreatesFailedPod`, `RecreatesSucceededPod`, both with a failed
/// deletion, and `RecreatesPVCForPendingPod`.
#[tokio::test(start_paused = true)]
async fn replaces_pods() {
    for (why, set) in variants(5) {
        let world = world_with(set).await;
        for pod in ["web-0", "web-2", "web-4"] {
            world.kill(pod).await;
        }
        world.make_pods_ready().await;
        assert_eq!(counters(&world.set_status()), [5; 5], "{why}");
        for (phase, failures) in [
            ("Failed", 0),
            ("Succeeded", 0),
            ("Failed", 1),
            ("Succeeded", 1),
        ] {
            let matcher = Matcher::new("delete", "pods");
            if failures > 0 {
                world
                    .cluster
                    .faults()
                    .reject(matcher, faults::internal_error(), Some(failures));
            }
            let uid =
                |world: &World| world.find("pods", "web-0").unwrap()["metadata"]["uid"].clone();
            let before = uid(&world);
            world.pod_status("web-0", json!({"phase": phase})).await;
            world.make_pods_ready().await;
            assert_ne!(
                uid(&world),
                before,
                "{why}: {phase} with {failures} failures"
            );
        }
        world.assert_identities(&why);
    }
}

/// Upstream: `CreatePodFailure`, `UpdatePodFailure`, `UpdateSetStatusFailure` and
/// `NewRevisionDeletePodFailure`, and `TestStatefulSetControlScaleDownDeleteError`.
#[tokio::test(start_paused = true)]
async fn recovers_from_failures() {
    for (why, set) in variants(3) {
        let world = world().await;
        let fail = |verb: &str, plural: &str| {
            let matcher = Matcher::new(verb, plural);
            world
                .cluster
                .faults()
                .reject(matcher, faults::internal_error(), Some(2));
        };
        fail("create", "pods");
        world.create(set).await;
        world.make_pods_ready().await;
        assert_eq!(counters(&world.set_status()), [3; 5], "{why}: create");
        fail("update", "pods");
        let label = json!({"metadata": {"labels": {"statefulset.kubernetes.io/pod-name": "x"}}});
        world.patch("pods", "web-0", label).await;
        world.make_pods_ready().await;
        world.assert_invariants(&why);
        let matcher = Matcher::new("update", "statefulsets").subresource("status");
        world
            .cluster
            .faults()
            .reject(matcher, faults::internal_error(), Some(2));
        world.change_set(json!({"replicas": 4})).await;
        world.make_pods_ready().await;
        assert_eq!(counters(&world.set_status()), [4; 5], "{why}: status");
        fail("delete", "pods");
        world.roll_set_to("v2").await;
        world.make_pods_ready().await;
        assert_eq!(counters(&world.set_status()), [4; 5], "{why}: roll-out");
        assert_eq!(world.names_of("controllerrevisions").len(), 2, "{why}");
        fail("delete", "pods");
        world.change_set(json!({"replicas": 2})).await;
        world.make_pods_ready().await;
        assert_eq!(counters(&world.set_status()), [2; 5], "{why}: scale-down");
        world.assert_invariants(&why);
    }
}

/// Upstream: `TestStatefulSetControlRollingUpdate`, `TestStatefulSetControlOnDeleteUpdate` and
/// `TestStatefulSetControlRollback`. Sizes before and after are upstream's.
#[tokio::test(start_paused = true)]
async fn updates_and_rollbacks() {
    // (name, replicas before, replicas after)
    let cases = [
        ("image update", 3, 3),
        ("and scale up", 3, 5),
        ("and scale down", 5, 3),
    ];
    for (name, before, after) in cases {
        for (mode, set) in [
            ("ordered", web(before)),
            ("parallel", parallel(web(before))),
        ] {
            let why = format!("{mode} {name}");
            let world = world_with(with_claims(set)).await;
            world.roll_set_to("v2").await;
            world.change_set(json!({"replicas": after})).await;
            world.make_pods_ready().await;
            assert_eq!(
                counters(&world.set_status()),
                [i64::from(after); 5],
                "{why}"
            );
            assert!(
                world.pod_images().values().all(|image| image == "v2"),
                "{why}"
            );
            world.roll_set_to("v1").await;
            world.change_set(json!({"replicas": before})).await;
            world.make_pods_ready().await;
            assert_eq!(
                counters(&world.set_status()),
                [i64::from(before); 5],
                "{why}"
            );
            assert!(
                world.pod_images().values().all(|image| image == "v1"),
                "{why}"
            );
            world.assert_invariants(&why);

            let on_delete = json!({"type": "OnDelete", "rollingUpdate": null});
            world.change_set(json!({"updateStrategy": on_delete})).await;
            world.roll_set_to("v3").await;
            world.change_set(json!({"replicas": after})).await;
            world.make_pods_ready().await;
            let images = world.pod_images();
            let is_new = |n: &i32| images[&format!("web-{n}")] == "v3";
            let new: Vec<i32> = (0..after).filter(is_new).collect();
            assert_eq!(
                new,
                (before..after).collect::<Vec<_>>(),
                "{why}: only new pods are updated"
            );
            for n in 0..after {
                world.kill(&format!("web-{n}")).await;
                world.make_pods_ready().await;
            }
            assert!(
                world.pod_images().values().all(|image| image == "v3"),
                "{why}"
            );
        }
    }
}

/// Upstream: `TestStatefulSetControlRollingUpdateWithPartition`.
#[tokio::test(start_paused = true)]
async fn rolling_update_with_partition() {
    // (partition, number of updated pods of 3)
    for (size, updated) in [(0, 3), (2, 1), (3, 0), (10, 0)] {
        for (mode, set) in [("ordered", web(3)), ("parallel", parallel(web(3)))] {
            let world = world_with(with_claims(partition(set, size))).await;
            world.roll_set_to("v2").await;
            world.make_pods_ready().await;
            let images = world.pod_images();
            let new = images.values().filter(|image| *image == "v2").count();
            assert_eq!(new, updated, "{mode}, partition {size}");
            assert!(images.values().skip(3 - updated).all(|image| image == "v2"));
        }
    }
}

/// Upstream: `TestParallelScale`.
#[tokio::test(start_paused = true)]
async fn parallel_scale() {
    // (name, replicas before, replicas after)
    let cases = [
        ("scale up from 3 to 30", 3, 30),
        ("scale down from 10 to 1", 10, 1),
        ("scale down to 0", 501, 0),
        ("scale up from 0", 0, 1000),
    ];
    for (name, before, after) in cases {
        let world = world().await;
        world.create(parallel(web(before))).await;
        world.at_rest().await;
        assert_eq!(
            world.cluster.count("pods"),
            usize::try_from(before).unwrap(),
            "{name}"
        );
        world.change_set(json!({"replicas": after})).await;
        world.at_rest().await;
        assert_eq!(
            world.cluster.count("pods"),
            usize::try_from(after).unwrap(),
            "{name}"
        );
        assert_eq!(world.set_status()["replicas"], after, "{name}");
    }
}
