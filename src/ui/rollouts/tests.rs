use super::*;

fn a_deployment(replicas: i64, strategy: Value, status: Value) -> Doc {
    Doc::new(json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": "web", "namespace": "shop", "uid": "u1", "generation": 2, "resourceVersion": "9",
            "annotations": {"deployment.kubernetes.io/revision": "2"},
        },
        "spec": {
            "replicas": replicas, "strategy": strategy, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "a", "image": "web:2"}]},
            },
        },
        "status": status,
    }))
}

fn a_set(name: &str, revision: &str, pods: i64, available: i64) -> Doc {
    Doc::new(json!({
        "metadata": {
            "name": name, "creationTimestamp": "2026-11-28T12:00:00Z",
            "annotations": {"deployment.kubernetes.io/revision": revision},
            "ownerReferences": [{"uid": "u1", "controller": true}],
        },
        "spec": {"replicas": pods, "template": {"spec": {"containers": [{"image": format!("web:{revision}")}]}}},
        "status": {"replicas": pods, "availableReplicas": available, "readyReplicas": available},
    }))
}

fn rolling(surge: &str, unavailable: &str) -> Value {
    json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}})
}

#[test]
fn a_deployment_shows_new_and_old_pods_between_its_limits() {
    let status = json!({
        "observedGeneration": 2, "replicas": 5, "updatedReplicas": 2, "availableReplicas": 4,
        "conditions": [{
            "type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated",
            "message": "is progressing", "lastUpdateTime": "2026-11-28T12:00:10Z",
        }],
    });
    let sets = [
        a_set("web-a", "1", 3, 3),
        a_set("web-b", "2", 2, 1),
        a_set("web-0", "0", 0, 0),
    ];
    let found = deployment(&a_deployment(4, rolling("25%", "25%"), status), &sets);
    assert_eq!(
        (
            found.state,
            found.desired,
            found.new,
            found.new_available,
            found.old
        ),
        ("progressing", 4, 2, 1, 3)
    );
    assert_eq!((found.most, found.fewest), (Some(5), Some(3)));
    assert_eq!(found.deadline.unwrap().to_string(), "2026-11-28T12:10:10Z");
    let names: Vec<&str> = found.sets.iter().map(|set| set.name.as_str()).collect();
    assert_eq!(
        names,
        ["web-b", "web-a"],
        "newest first, without empty ones"
    );
}

#[test]
fn no_deadline_runs_after_the_end_of_a_rollout() {
    let ended = json!({
        "type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable",
        "message": "has successfully progressed", "lastUpdateTime": "2026-11-28T12:00:10Z",
    });
    let refused = json!({
        "type": "ReplicaFailure", "status": "True", "reason": "FailedCreate",
        "message": "failed calling webhook",
    });
    let mended =
        json!({"type": "ReplicaFailure", "status": "False", "message": "failed calling webhook"});
    for (conditions, message) in [
        (json!([ended]), ""),
        (json!([ended, refused]), "failed calling webhook"),
        (json!([ended, mended]), ""),
    ] {
        let status = json!({
            "observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2,
            "conditions": conditions,
        });
        let doc = a_deployment(4, rolling("25%", "25%"), status);
        let found = deployment(&doc, &[a_set("web-b", "2", 2, 2)]);
        assert_eq!((found.state, found.deadline), ("progressing", None));
        assert_eq!(found.message, message);
    }
}

#[test]
fn limits_round_as_the_controller_does() {
    // (replicas, surge, unavailable, most, fewest)
    let cases = [
        (4, "25%", "25%", 5, 3),
        (3, "25%", "25%", 4, 3),
        (10, "0%", "0%", 10, 9),
        (1, "100%", "0%", 2, 1),
        (0, "25%", "25%", 0, 0),
    ];
    for (replicas, surge, unavailable, most, fewest) in cases {
        let doc = a_deployment(replicas, rolling(surge, unavailable), json!({}));
        let (found_most, found_fewest, _) = limits(&doc, replicas);
        // Both zero means one unavailable pod, also without replicas.
        assert_eq!(
            (found_most, found_fewest),
            (Some(most), Some(fewest)),
            "{replicas} {surge} {unavailable}"
        );
    }
    let recreate = a_deployment(2, json!({"type": "Recreate"}), json!({}));
    assert_eq!(limits(&recreate, 2).0, Some(2));
}

#[test]
fn the_state_of_a_deployment_follows_its_status() {
    let complete = json!({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2});
    let mut unseen = complete.clone();
    unseen["observedGeneration"] = 1.into();
    let failed = json!({
        "observedGeneration": 2, "replicas": 3,
        "conditions": [{"type": "Progressing", "reason": "ProgressDeadlineExceeded", "message": "timed out"}],
    });
    for (status, expected) in [
        (complete, "complete"),
        (unseen, "progressing"),
        (failed, "failed"),
        (json!({"observedGeneration": 2}), "progressing"),
    ] {
        let doc = a_deployment(2, rolling("1", "1"), status.clone());
        assert_eq!(deployment_state(&doc, 2).0, expected, "{status}");
    }
}

#[test]
fn a_stateful_set_is_complete_at_its_partition() {
    let doc = |updated: i64, partition: i64| {
        Doc::new(json!({
            "metadata": {"name": "db", "namespace": "shop", "generation": 1},
            "spec": {"replicas": 3, "updateStrategy": {"rollingUpdate": {"partition": partition}}},
            "status": {
                "observedGeneration": 1, "replicas": 3, "readyReplicas": 3, "availableReplicas": 3,
                "updatedReplicas": updated, "currentRevision": "db-1", "updateRevision": "db-2",
            },
        }))
    };
    let states =
        [(1, 0), (1, 2), (3, 0)].map(|(updated, partition)| stateful_set(&doc(updated, partition)));
    assert_eq!(
        states.each_ref().map(|found| found.state),
        ["progressing", "complete", "complete"]
    );
    assert_eq!((states[0].old, states[0].revision.as_str()), (2, "2"));
}

#[test]
fn a_job_shows_its_indexes_and_its_end() {
    let doc = |conditions: Value, suspend: bool| {
        Doc::new(json!({
            "metadata": {"name": "import", "namespace": "shop"},
            "spec": {"completions": 5, "parallelism": 2, "completionMode": "Indexed", "suspend": suspend},
            "status": {"active": 2, "ready": 1, "succeeded": 2, "failed": 1, "completedIndexes": "0,2", "conditions": conditions},
        }))
    };
    let ended = |kind: &str| json!([{"type": kind, "status": "True", "message": "over"}]);
    let running = job(&doc(json!([]), false));
    assert_eq!(
        (running.state, running.desired, running.new_available),
        ("progressing", 5, 2)
    );
    let part = running.job.unwrap();
    assert_eq!(
        (
            part.completed_indexes.as_str(),
            part.failed,
            part.is_indexed
        ),
        ("0,2", 1, true)
    );
    assert_eq!(job(&doc(ended("Complete"), false)).state, "complete");
    assert_eq!(job(&doc(ended("Failed"), false)).state, "failed");
    assert_eq!(job(&doc(json!([]), true)).state, "suspended");
}

#[test]
fn a_daemon_set_counts_nodes() {
    let doc = Doc::new(json!({
        "metadata": {"name": "log", "namespace": "shop", "generation": 1},
        "spec": {"updateStrategy": {"rollingUpdate": {"maxUnavailable": "50%"}}},
        "status": {
            "observedGeneration": 1, "desiredNumberScheduled": 5, "currentNumberScheduled": 5,
            "updatedNumberScheduled": 2, "numberAvailable": 4, "numberReady": 4,
        },
    }));
    let found = daemon_set(&doc);
    assert_eq!(
        (found.state, found.new, found.old, found.fewest),
        ("progressing", 2, 3, Some(2))
    );
}

#[test]
fn what_needs_a_look_comes_first() {
    let of = |state, name: &str| Rollout {
        state,
        name: name.to_owned(),
        ..Rollout::default()
    };
    let mut items = [
        of("complete", "a"),
        of("progressing", "c"),
        of("failed", "d"),
        of("progressing", "b"),
    ];
    items.sort_by(|a, b| order(a).cmp(&order(b)));
    assert_eq!(
        items.each_ref().map(|item| item.name.as_str()),
        ["d", "b", "c", "a"]
    );
}
