//! Evictions, between the API server and the controller.

use steersman_client::{ApiError, PatchKind, Target};
use steersman_values::resource::PODS;

use super::*;

/// Longer than the deletion timeout of an evicted pod.
const LONG: Duration = Duration::from_secs(130);

fn eviction_of(pod: &str) -> Target<'_> {
    Target {
        resource: &PODS,
        namespace: Some(NAMESPACE),
        name: Some(pod),
        subresource: Some("eviction"),
    }
}

impl World {
    /// Evicts a pod, as a user does.
    pub(super) async fn evict(&self, pod: &str) -> Result<(), ApiError> {
        self.evict_with(pod, json!({})).await
    }

    /// The same with these `DeleteOptions`.
    async fn evict_with(&self, pod: &str, options: Value) -> Result<(), ApiError> {
        let eviction = json!({
            "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}, "deleteOptions": options,
        });
        let client = (self.clients)("tester");
        client.create(eviction_of(pod), &eviction).await.map(drop)
    }

    /// A cluster with these ready pods and a budget that keeps `least` of them.
    async fn with_pods(least: i64, names: &[&str]) -> Self {
        let world = Self::with_budget(json!({"minAvailable": least})).await;
        for name in names {
            world.run_pod(name, None).await;
        }
        world.at_rest().await;
        world
    }
}

#[tokio::test(start_paused = true)]
async fn an_evicted_pod_is_recorded_until_its_deletion_shows() {
    let world = World::with_pods(2, &["a", "b", "c"]).await;
    assert_eq!(world.settled().await, [1, 3, 2, 3]);
    world.evict("a").await.unwrap();
    let refused = world.evict("b").await.unwrap_err();
    assert_eq!(refused.code(), Some(429));
    assert_eq!(world.settled().await, [0, 2, 2, 3]);
    assert_eq!(world.budget_status().get("disruptedPods"), None);
    assert!(world.shows("False", "InsufficientPods"));
    let pod = world.find("pods", "a").unwrap();
    let target = condition_of(&pod, "DisruptionTarget");
    assert_eq!(target, Some(("True", "EvictionByEvictionAPI")));
    world.kill("a").await;
    assert_eq!(world.settled().await, [0, 2, 2, 2]);
    world.run_pod("d", None).await;
    assert_eq!(world.settled().await, [1, 3, 2, 3]);
    world.evict("b").await.unwrap();
}

/// The deletion of an evicted pod may be refused after the budget gave a disruption.
#[tokio::test(start_paused = true)]
async fn a_pod_that_was_evicted_and_not_deleted_counts_again_after_two_minutes() {
    let world = World::with_pods(1, &["a", "b"]).await;
    let evicted = json!({"disruptionsAllowed": 0, "disruptedPods": {"a": world.clock.now_seconds().to_string()}});
    world
        .patch_budget("/status", json!({"status": evicted}))
        .await;
    assert_eq!(world.settled().await, [0, 1, 1, 2]);
    assert_eq!(
        world.budget_status()["disruptedPods"],
        evicted["disruptedPods"]
    );
    assert!(world.budget_reasons("a").await.is_empty());
    tokio::time::sleep(LONG).await;
    assert_eq!(world.settled().await, [1, 2, 1, 2]);
    assert_eq!(world.budget_status().get("disruptedPods"), None);
    let text = "Pod was expected by PDB default/default to be deleted but it wasn't";
    let expected = ("NotDeleted".to_owned(), text.to_owned());
    assert_eq!(world.state().events_about("a"), [expected]);
}

/// Upstream: `TestUpdatePDBStatusRetries`.
#[tokio::test(start_paused = true)]
async fn update_pdb_status_retries() {
    let world = World::with_pods(1, &["moe", "larry", "curly"]).await;
    assert_eq!(world.settled().await, [2, 3, 1, 3]);
    let begin = world.cluster.revision();
    let budgets = Matcher::new("watch", "poddisruptionbudgets");
    let view = world.cluster.faults().hold_view(budgets, begin);
    world.evict("larry").await.unwrap();
    world.evict("curly").await.unwrap();
    world.kill("moe").await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let sent = world.sent_to(STATUS);
    assert!(sent.contains(&"update 409".to_owned()), "{sent:?}");
    assert_eq!(world.budget_status()["disruptionsAllowed"], 0);
    world.cluster.faults().remove(view);
    assert_eq!(world.settled().await, [0, 0, 1, 2]);
    let allowed = |event: &Value| event["status"]["disruptionsAllowed"].as_i64().unwrap();
    let changes = world.cluster.changes(begin).unwrap();
    let of_budget = changes
        .iter()
        .filter(|(plural, _)| plural == "poddisruptionbudgets");
    let history: Vec<i64> = of_budget
        .map(|(_, event)| allowed(&event.object().to_value()))
        .collect();
    assert_eq!(history[..2], [1, 0], "two evictions");
    assert!(history[2..].iter().all(|&left| left == 0), "{history:?}");
}

/// Upstream: `TestConcurrentEvictionRequests`, here with a budget that allows two at a time.
#[tokio::test(start_paused = true)]
async fn concurrent_eviction_requests() {
    let names: Vec<String> = (0..10).map(|n| format!("test-pod-{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let world = World::with_pods(8, &names).await;
    let evictions = names.iter().map(|name| world.evict(name));
    let answers = futures::future::join_all(evictions).await;
    let accepted = answers.iter().filter(|answer| answer.is_ok()).count();
    assert_eq!(accepted, 2);
    for error in answers.into_iter().filter_map(Result::err) {
        assert_eq!(error.code(), Some(429), "{error}");
    }
    world
        .patch_budget("", json!({"spec": {"minAvailable": 0}}))
        .await;
    world.at_rest().await;
    let evictions = names.iter().map(|name| world.evict(name));
    let answers = futures::future::join_all(evictions).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
}

/// Upstream: `TestTerminalPodEviction` and `TestEvictionWithETCD`.
#[tokio::test(start_paused = true)]
async fn terminal_pod_eviction() {
    // (phase, whether the budget guards such a pod)
    let cases = [
        ("Pending", false),
        ("Succeeded", false),
        ("Failed", false),
        ("Running", true),
    ];
    for (phase, guarded) in cases {
        let world = World::with_pods(1, &["a"]).await;
        world.pod_status("a", json!({"phase": phase})).await;
        world.at_rest().await;
        let before = world.budget_status();
        let evicted = world.evict("a").await;
        assert_eq!(evicted.is_err(), guarded, "{phase}");
        let pod = world.find("pods", "a");
        let is_deleted = pod.is_none_or(|pod| pod["metadata"]["deletionTimestamp"].is_string());
        assert_eq!(is_deleted, !guarded, "{phase}");
        assert_eq!(
            world.budget_status(),
            before,
            "{phase}: no disruption is taken"
        );
    }
}

/// Upstream: `TestEvictionWithFinalizers`.
#[tokio::test(start_paused = true)]
async fn eviction_with_finalizers() {
    // (name, phase, options, whether the pod gets the condition)
    let cases = [
        ("terminal pod", "Succeeded", json!({}), true),
        ("running pod", "Running", json!({}), true),
        (
            "running pod should not update conditions in dry-run mode",
            "Running",
            json!({"dryRun": ["All"]}),
            false,
        ),
    ];
    for (name, phase, options, marked) in cases {
        let world = World::with_disruption().await;
        let mut held = pod("pod", None);
        held["metadata"]["finalizers"] = json!(["test.k8s.io/finalizer"]);
        world.create(held).await;
        world.make_ready("pod").await;
        world.pod_status("pod", json!({"phase": phase})).await;
        world.evict_with("pod", options).await.unwrap();
        let pod = world.find("pods", "pod").unwrap();
        let found = condition_of(&pod, "DisruptionTarget").is_some();
        assert_eq!(found, marked, "{name}");
        let is_terminating = pod["metadata"]["deletionTimestamp"].is_string();
        assert_eq!(is_terminating, marked, "{name}");
    }
}

/// Upstream: `TestEvictionWithUnhealthyPodEvictionPolicy`.
#[tokio::test(start_paused = true)]
async fn eviction_with_unhealthy_pod_eviction_policy() {
    // (policy, least healthy pods, is the pod ready, is another pod ready, evicted)
    let cases = [
        (json!(null), 0, true, false, true),
        (json!("IfHealthyBudget"), 0, true, false, true),
        (json!("AlwaysAllow"), 0, true, false, true),
        (json!("AlwaysAllow"), 0, false, false, true),
        (json!("AlwaysAllow"), 1, false, false, true),
        (json!("AlwaysAllow"), 1, true, false, false),
        (json!("IfHealthyBudget"), 1, false, false, false),
        (json!("IfHealthyBudget"), 1, false, true, true),
        (json!(null), 1, false, true, true),
        (json!(null), 0, false, false, false),
    ];
    for (policy, least, ready, other, evicted) in cases {
        let limits = json!({"minAvailable": least, "unhealthyPodEvictionPolicy": policy});
        let world = World::with_budget(limits.clone()).await;
        for (name, ready) in [("a", ready), ("other", other)] {
            world.run_pod(name, None).await;
            if !ready {
                world.make_unready(name).await;
            }
        }
        let [allowed, ..] = world.settled().await;
        assert_eq!(
            world.evict("a").await.is_ok(),
            evicted,
            "{limits} {ready} {other}"
        );
        let left = world.budget_status()["disruptionsAllowed"]
            .as_i64()
            .unwrap();
        let taken = i64::from(ready && evicted);
        assert_eq!(allowed - left, taken, "{limits} {ready} {other}");
    }
}

/// Upstream: `TestEvictionPDBStatus`.
#[tokio::test(start_paused = true)]
async fn eviction_pdb_status() {
    // (name, disruptions before and after an eviction, status and reason after it)
    let cases = [
        (
            "pdb status is updated after eviction",
            1,
            0,
            ("False", "InsufficientPods"),
        ),
        (
            "condition reason is only updated if AllowedDisruptions becomes 0",
            3,
            2,
            ("True", "SufficientPods"),
        ),
    ];
    for (name, before, after, (status, reason)) in cases {
        let world = World::bare().await;
        world.create(budget(json!({"minAvailable": 0}))).await;
        let condition = json!({"type": "DisruptionAllowed", "status": "True", "reason": "SufficientPods", "message": "",
            "lastTransitionTime": "2023-01-02T03:04:05Z"});
        let full = json!({"observedGeneration": 1, "disruptionsAllowed": before, "conditions": [condition]});
        world.patch_budget("/status", json!({"status": full})).await;
        for pod in ["foo-1", "foo-2"] {
            world.run_pod(pod, None).await;
        }
        world.evict("foo-1").await.unwrap();
        let found = world.budget_status();
        assert_eq!(found["disruptionsAllowed"], after, "{name}");
        assert!(world.shows(status, reason), "{name}: {found}");
        let evicted: Vec<&String> = found["disruptedPods"].as_object().unwrap().keys().collect();
        assert_eq!(evicted, ["foo-1"], "{name}");
    }
}

/// Upstream: `TestEvictionWithDeleteOptions`.
#[tokio::test(start_paused = true)]
async fn eviction_with_delete_options() {
    let world = World::with_pods(1, &["a", "b"]).await;
    let before = world.budget_status();
    let dry_run = json!({"dryRun": ["All"]});
    world.evict_with("a", dry_run.clone()).await.unwrap();
    assert_eq!(world.budget_status(), before, "dry run - with pdbs");
    let unsafe_deletion = json!({"ignoreStoreReadErrorWithClusterBreakingPotential": true});
    let error = world.evict_with("a", unsafe_deletion).await.unwrap_err();
    assert!(error.is_invalid(), "{error}");
    world.evict("b").await.unwrap();
    let refused = world.evict_with("a", dry_run).await.unwrap_err();
    assert_eq!(refused.code(), Some(429), "a dry run asks the budget too");
    let pod = world.find("pods", "a").unwrap();
    assert_eq!(condition_of(&pod, "DisruptionTarget"), None);
}

/// Upstream: `TestEvictionVersions`.
#[tokio::test(start_paused = true)]
async fn eviction_versions() {
    let world = World::with_disruption().await;
    world.run_pod("test", None).await;
    let client = (world.clients)("tester");
    let target = eviction_of("test");
    assert!(
        client
            .get(target)
            .await
            .unwrap_err()
            .is_method_not_allowed()
    );
    for kind in [PatchKind::Json, PatchKind::Merge, PatchKind::Strategic] {
        let patched = client.patch(target, kind, &json!({})).await;
        assert!(patched.unwrap_err().is_method_not_allowed(), "{kind:?}");
    }
    let mut eviction = json!({"metadata": {"name": "test"}, "deleteOptions": {"dryRun": ["All"]}});
    client.create(target, &eviction).await.unwrap();
    eviction["kind"] = json!("Eviction");
    for version in ["policy/v1beta1", "policy/v1"] {
        eviction["apiVersion"] = json!(version);
        let answer = client.create(target, &eviction).await.unwrap();
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        let shown = (&answer["apiVersion"], &answer["kind"]);
        assert_eq!(shown, (&json!("v1"), &json!("Status")), "{version}");
    }
    eviction["apiVersion"] = json!("policy/v2");
    let error = client.create(target, &eviction).await.unwrap_err();
    assert_eq!(error.code(), Some(400));
    assert!(error.to_string().contains("policy/v2"), "{error}");
}

/// Upstream: `TestEvictionWithPrecondition`.
#[tokio::test(start_paused = true)]
async fn eviction_with_precondition() {
    const OLD: &str = "1";
    // (name, resource version and UID in the preconditions, succeeds)
    let cases = [
        ("resource version", Some(""), None, true),
        ("UID", None, Some(""), true),
        ("resource version and UID", Some(""), Some(""), true),
        ("wrong resource version", Some(OLD), None, false),
        ("wrong UID", None, Some("other"), false),
    ];
    for (phase, guarded) in [("Running", false), ("Running", true), ("Pending", false)] {
        for (name, version, uid, succeeds) in cases {
            let world = World::with_disruption().await;
            if guarded {
                world.create(budget(json!({"minAvailable": 0}))).await;
            }
            world.run_pod("pod", None).await;
            world.pod_status("pod", json!({"phase": phase})).await;
            world.at_rest().await;
            let pod = world.find("pods", "pod").unwrap();
            // The empty text stands for the current value.
            let mut preconditions = json!({});
            for (field, wanted) in [("resourceVersion", version), ("uid", uid)] {
                match wanted {
                    Some("") => preconditions[field] = pod["metadata"][field].clone(),
                    Some(other) => preconditions[field] = json!(other),
                    None => {}
                }
            }
            let options = json!({"preconditions": preconditions});
            let answer = world.evict_with("pod", options).await;
            let case = format!("{phase} {guarded} {name}");
            assert_eq!(answer.is_ok(), succeeds, "{case}");
            if let Err(error) = answer {
                assert!(error.is_conflict(), "{case}: {error}");
                let after = world.find("pods", "pod").unwrap();
                assert_eq!(
                    after["status"], pod["status"],
                    "{case}: the pod is unchanged"
                );
            }
        }
    }
}

/// Upstream: `TestStalePodDisruption`, of the unit tests and of the integration tests.
#[tokio::test(start_paused = true)]
async fn stale_pod_disruption() {
    struct Case {
        name: &'static str,
        phase: &'static str,
        reason: &'static str,
        status: &'static str,
        deleted: bool,
        wait: u64,
        expected: &'static str,
    }
    const BASE: Case = Case {
        name: "",
        phase: "Running",
        reason: "EvictionByEvictionAPI",
        status: "True",
        deleted: false,
        wait: 125,
        expected: "True",
    };
    let cases = [
        Case {
            name: "stale pod disruption",
            expected: "False",
            ..BASE
        },
        Case {
            name: "pod disruption in progress",
            wait: 115,
            ..BASE
        },
        Case {
            name: "pod disruption actuated",
            deleted: true,
            ..BASE
        },
        Case {
            name: "pod disruption cleared",
            status: "False",
            expected: "False",
            ..BASE
        },
        Case {
            name: "disruption-condition-by-kubelet",
            reason: "TerminationByKubelet",
            ..BASE
        },
        Case {
            name: "disruption-condition-on-failed-pod",
            phase: "Failed",
            ..BASE
        },
    ];
    for case in cases {
        let Case { name, .. } = case;
        let world = World::with_disruption().await;
        world.create(pod("a", None)).await;
        let since = world.clock.now_seconds().to_string();
        let condition = json!({"type": "DisruptionTarget", "status": case.status, "reason": case.reason, "message": "m",
            "lastTransitionTime": since});
        let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": since});
        let status = json!({"phase": case.phase, "conditions": [ready, condition]});
        world.pod_status("a", status).await;
        if case.deleted {
            world.delete("pods", "a").await;
        }
        tokio::time::sleep(Duration::from_secs(case.wait)).await;
        let found = world.find("pods", "a").unwrap();
        let conditions = &found["status"]["conditions"];
        assert_eq!(conditions[1]["status"], case.expected, "{name}");
        assert_eq!(conditions[0]["type"], "Ready", "{name}");
        let written = world.sent_to("pods/status");
        let is_reset = case.expected != case.status;
        assert_eq!(written.len(), usize::from(is_reset), "{name}: {written:?}");
        if is_reset {
            let mut expected = json!({"type": "DisruptionTarget", "status": "False", "observedGeneration": 1, "lastProbeTime": null});
            expected["lastTransitionTime"] = conditions[1]["lastTransitionTime"].clone();
            assert_eq!(conditions[1], expected, "{name}: no reason, no message");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_stale_condition_is_reset_after_a_conflict() {
    let world = World::with_disruption().await;
    world.run_pod("a", None).await;
    let since = world.clock.now_seconds().to_string();
    let condition = json!({"type": "DisruptionTarget", "status": "True", "reason": "R", "lastTransitionTime": since});
    let status = json!({"conditions": [condition]});
    world.pod_status("a", status).await;
    world.at_rest().await;
    let pods = Matcher::new("watch", "pods");
    let view = world
        .cluster
        .faults()
        .hold_view(pods, world.cluster.revision());
    let label = json!({"metadata": {"labels": {"new": "label"}}});
    world.patch("pods", "a", label).await;
    tokio::time::sleep(LONG).await;
    let sent = world.sent_to("pods/status");
    assert!(sent.iter().all(|sent| sent == "update 409"), "{sent:?}");
    assert!(!sent.is_empty());
    world.cluster.faults().remove(view);
    let reset = |_: &_| {
        let pod = world.find("pods", "a").unwrap();
        pod["status"]["conditions"][0]["status"] == "False"
    };
    world.until("the condition is reset", reset).await;
    let labels = &world.find("pods", "a").unwrap()["metadata"]["labels"];
    assert_eq!(labels["new"], "label");
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_with_an_old_cache_of_pods_allows_no_more_evictions() {
    let mut world = World::with_pods(2, &["a", "b", "c"]).await;
    assert_eq!(world.settled().await, [1, 3, 2, 3]);
    let before = world.cluster.revision();
    world.make_unready("a").await;
    assert_eq!(world.settled().await, [0, 2, 2, 3]);
    let view = world.take_over_behind(&[DESCRIPTOR], "pods", before).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(world.budget_status()["disruptionsAllowed"], 0);
    world.cluster.faults().remove(view);
    world.make_ready("a").await;
    assert_eq!(world.settled().await, [1, 3, 2, 3]);
}
