//! Scenarios of upstream's unit and integration tests that need a whole controller.
//!
//! Each doc comment names the upstream test. `docs/parity.md` lists all of them.

use super::*;

/// Names of the removed pods, including terminating ones, which only a finalizer holds.
fn removed(world: &World, names: &[&str]) -> Vec<String> {
    let is_removed = |name: &&&str| {
        world
            .find("pods", name)
            .is_none_or(|pod| pod["metadata"]["deletionTimestamp"].is_string())
    };
    names
        .iter()
        .filter(is_removed)
        .map(|name| (*name).to_owned())
        .collect()
}

/// Names of the pods that the controller patched to phase `Failed`.
fn patched(world: &World) -> Vec<String> {
    let requests = world.cluster.requests();
    let paths = requests
        .iter()
        .filter(|r| r.verb == "patch" && r.user_agent.ends_with("/pod-garbage-collector"));
    let name = |path: &str| path.rsplit('/').nth(1).unwrap_or_default().to_owned();
    let mut names: Vec<String> = paths.map(|r| name(&r.path)).collect();
    names.sort();
    names.dedup();
    names
}

async fn pod_in(world: &World, name: &str, node: &str, phase: &str) {
    world.create(pod(name, node)).await;
    world.pod_status(name, json!({"phase": phase})).await;
}

/// `TestGCOrphaned`. The nodes of upstream's informer exist here before the watch stalls.
#[tokio::test(start_paused = true)]
async fn gc_orphaned() {
    struct Case {
        name: &'static str,
        /// Nodes in the cache.
        known: &'static [&'static str],
        /// Nodes that only the API server has.
        unknown: &'static [&'static str],
        /// Nodes created during the quarantine.
        added: &'static [&'static str],
        pods: &'static [(&'static str, &'static str, &'static str)],
        deleted: &'static [&'static str],
        patched: &'static [&'static str],
    }
    const NONE: Case = Case {
        name: "",
        known: &[],
        unknown: &[],
        added: &[],
        pods: &[],
        deleted: &[],
        patched: &[],
    };
    let on_existing: &[_] = &[
        ("a", "existing1", "Running"),
        ("b", "existing2", "Failed"),
        ("c", "existing2", "Succeeded"),
    ];
    let both: &[_] = &["existing1", "existing2"];
    let cases = [
        Case {
            name: "nodes present in lister",
            known: both,
            pods: on_existing,
            ..NONE
        },
        Case {
            name: "nodes present in client",
            unknown: both,
            pods: on_existing,
            ..NONE
        },
        Case {
            name: "no nodes",
            pods: &[("a", "deleted", "Failed"), ("b", "deleted", "Succeeded")],
            deleted: &["a", "b"],
            ..NONE
        },
        Case {
            name: "no nodes, one running pod",
            pods: &[
                ("a", "deleted", "Failed"),
                ("b", "deleted", "Succeeded"),
                ("c", "deleted", "Running"),
            ],
            deleted: &["a", "b", "c"],
            patched: &["c"],
            ..NONE
        },
        Case {
            name: "wrong nodes",
            known: &["existing"],
            pods: &[("a", "deleted", "Running")],
            deleted: &["a"],
            patched: &["a"],
            ..NONE
        },
        Case {
            name: "some nodes missing",
            known: &["existing"],
            pods: &[
                ("a", "deleted", "Failed"),
                ("b", "existing", "Failed"),
                ("c", "deleted", "Succeeded"),
                ("d", "deleted", "Running"),
            ],
            deleted: &["a", "c", "d"],
            patched: &["d"],
            ..NONE
        },
        Case {
            name: "node added to client after quarantine",
            added: &["node"],
            pods: &[("a", "node", "Running")],
            ..NONE
        },
    ];
    for case in cases {
        let mut world = World::bare().await;
        for name in case.known {
            world.create(node(name)).await;
        }
        for (name, node, phase) in case.pods {
            pod_in(&world, name, node, phase).await;
        }
        world.restart(&[DESCRIPTOR]).await;
        world.cluster.faults().stall_watches("nodes");
        for name in case.unknown {
            world.create(node(name)).await;
        }
        // Upstream's "quarantine not finished": half of the quarantine.
        tokio::time::sleep(Duration::from_secs(20)).await;
        let names: Vec<&str> = case.pods.iter().map(|(name, ..)| *name).collect();
        assert!(
            removed(&world, &names).is_empty(),
            "{}: no pods should be deleted at this point",
            case.name
        );
        for name in case.added {
            world.create(node(name)).await;
        }
        tokio::time::sleep(LONG).await;
        assert_eq!(removed(&world, &names), case.deleted, "{}", case.name);
        assert_eq!(patched(&world), case.patched, "{}", case.name);
    }
}

/// Two cases of `TestGCOrphaned`: "node added to informer after quarantine" and "node deleted from
/// informer after quarantine". A later deletion of a node starts a new quarantine.
#[tokio::test(start_paused = true)]
async fn a_node_deleted_later_gets_its_own_quarantine() {
    let mut world = World::bare().await;
    world.create(node("node")).await;
    pod_in(&world, "a", "node", "Succeeded").await;
    world.restart(&[DESCRIPTOR]).await;
    tokio::time::sleep(LONG).await;
    world.cluster.delete("/api/v1/nodes/node").await.unwrap();
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(removed(&world, &["a"]).is_empty());
    world.until_removed("a").await;
}

/// `TestGCUnscheduledTerminating`.
#[tokio::test(start_paused = true)]
async fn gc_unscheduled_terminating() {
    // (name, (pod, phase, being deleted, node), deleted, patched)
    type Pods = &'static [(&'static str, &'static str, bool, &'static str)];
    let cases: [(&str, Pods, &[&str], &[&str]); 2] = [
        (
            "Unscheduled pod in any phase must be deleted",
            &[
                ("a", "Failed", true, ""),
                ("b", "Succeeded", true, ""),
                ("c", "Running", true, ""),
            ],
            &["a", "b", "c"],
            &["c"],
        ),
        (
            "Scheduled pod in any phase must not be deleted",
            &[
                ("a", "Failed", false, ""),
                ("b", "Succeeded", false, "node"),
                ("c", "Running", true, "node"),
            ],
            &[],
            &[],
        ),
    ];
    for (case, pods, deleted, failed) in cases {
        let mut world = World::bare().await;
        world.create(node("node")).await;
        for (name, phase, being_deleted, node) in pods {
            let mut pod = pod(name, node);
            pod["metadata"]["finalizers"] = json!(["example.com/hold"]);
            world.create(pod).await;
            world.pod_status(name, json!({"phase": phase})).await;
            if *being_deleted {
                world.delete("pods", name).await;
            }
        }
        world.restart(&[DESCRIPTOR]).await;
        tokio::time::sleep(A_MINUTE).await;
        let requests = world.cluster.requests();
        let is_deletion = |name: &str| {
            requests.iter().any(|r| {
                r.verb == "delete"
                    && r.path.ends_with(&format!("/pods/{name}"))
                    && r.user_agent.ends_with("/pod-garbage-collector")
            })
        };
        let found: Vec<&str> = pods
            .iter()
            .map(|(name, ..)| *name)
            .filter(|name| is_deletion(name))
            .collect();
        assert_eq!(found, deleted, "{case}");
        assert_eq!(patched(&world), failed, "{case}");
    }
}

/// `TestPodGcOrphanedPodsWithFinalizer`. Its cases with a disabled gate are omitted, because 1.36
/// locks both gates.
#[tokio::test(start_paused = true)]
async fn pod_gc_orphaned_pods_with_finalizer() {
    // (name, phase before, phase after, disrupted)
    let cases = [
        ("PodDisruptionConditions enabled", "Pending", "Failed", true),
        (
            "PodDisruptionConditions enabled; succeeded pod",
            "Succeeded",
            "Succeeded",
            false,
        ),
        (
            "PodDisruptionConditions enabled; failed pod",
            "Failed",
            "Failed",
            false,
        ),
    ];
    for (case, before, after, disrupted) in cases {
        let mut world = World::bare().await;
        world.create(node("node")).await;
        let mut held = pod("testpod", "node");
        held["metadata"]["finalizers"] = json!(["test.k8s.io/finalizer"]);
        world.create(held).await;
        world.pod_status("testpod", json!({"phase": before})).await;
        world.restart(&[DESCRIPTOR]).await;
        world.cluster.delete("/api/v1/nodes/node").await.unwrap();
        world
            .until("terminating", |_| !removed(&world, &["testpod"]).is_empty())
            .await;
        let status = world.find("pods", "testpod").unwrap()["status"].take();
        assert_eq!(status["phase"], after, "{case}");
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        assert_eq!(
            conditions
                .iter()
                .any(|c| c["type"] == "DisruptionTarget" && c["status"] == "True"),
            disrupted,
            "{case}"
        );
    }
}

/// `TestTerminatingOnOutOfServiceNode`, with and without a finalizer.
#[tokio::test(start_paused = true)]
async fn terminating_on_out_of_service_node() {
    for finalizer in [true, false] {
        let mut world = World::bare().await;
        world.create(node("node")).await;
        let mut victim = pod("testpod", "node");
        if finalizer {
            victim["metadata"]["finalizers"] = json!(["test.k8s.io/finalizer"]);
        }
        world.create(victim).await;
        world.delete("pods", "testpod").await;
        world.restart(&[DESCRIPTOR]).await;
        tokio::time::sleep(A_MINUTE).await;
        assert_ne!(
            world.find("pods", "testpod").unwrap()["status"]["phase"],
            "Failed"
        );
        let taint = json!([{"key": "node.kubernetes.io/out-of-service", "value": "", "effect": "NoExecute"}]);
        world
            .cluster
            .patch("/api/v1/nodes/node", json!({"spec": {"taints": taint}}))
            .await
            .unwrap();
        if finalizer {
            world
                .until("failed", |_| {
                    world.find("pods", "testpod").unwrap()["status"]["phase"] == "Failed"
                })
                .await;
            let pod = world.find("pods", "testpod").unwrap();
            let conditions = pod["status"]["conditions"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            assert!(
                conditions.iter().all(|c| c["type"] != "DisruptionTarget"),
                "{conditions:?}"
            );
        } else {
            world.until_removed("testpod").await;
        }
    }
}

/// `TestPodGcForPodsWithDuplicatedFieldKeys`: lists in a pod may contain a merge key twice.
#[tokio::test(start_paused = true)]
async fn pod_gc_for_pods_with_duplicated_field_keys() {
    let cases = [
        (
            "Orphan pod with duplicated env vars",
            json!({"env": [{"name": "XYZ", "value": "1"}, {"name": "XYZ", "value": "2"}]}),
        ),
        (
            "Orphan pod with duplicated ports; scenario from https://issues.k8s.io/113482",
            json!({"ports": [{"containerPort": 93, "hostPort": 9376}, {"containerPort": 93, "hostPort": 9377}]}),
        ),
    ];
    for (case, fields) in cases {
        let mut world = World::bare().await;
        let mut orphan = pod("testpod", "non-existing-node");
        orphan["metadata"]["finalizers"] = json!(["test.k8s.io/finalizer"]);
        for (field, value) in fields.as_object().unwrap() {
            orphan["spec"]["containers"][0][field] = value.clone();
        }
        world.create(orphan).await;
        world.restart(&[DESCRIPTOR]).await;
        world
            .until("terminating", |_| !removed(&world, &["testpod"]).is_empty())
            .await;
        let pod = world.find("pods", "testpod").unwrap();
        assert_eq!(pod["status"]["phase"], "Failed", "{case}");
        let conditions = pod["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let condition = conditions
            .iter()
            .find(|c| c["type"] == "DisruptionTarget")
            .unwrap();
        assert_eq!(
            (&condition["status"], &condition["reason"]),
            (&json!("True"), &json!("DeletionByPodGC")),
            "{case}"
        );
        assert_eq!(
            condition["message"], "PodGC: node no longer exists",
            "{case}"
        );
        assert!(condition["lastTransitionTime"].is_string(), "{case}");
        let (field, value) = fields.as_object().unwrap().iter().next().unwrap();
        assert_eq!(
            pod["spec"]["containers"][0][field]
                .as_array()
                .unwrap()
                .len(),
            value.as_array().unwrap().len(),
            "{case}"
        );
    }
}
