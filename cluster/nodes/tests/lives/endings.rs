//! Containers that exit by themselves, and pods that a finalizer holds.

use super::*;

/// A pod with containers `main` and `helper`, these annotations and this restart policy.
fn ending(annotations: Value, policy: &str, is_of_job: bool) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "annotations": annotations},
        "spec": {"restartPolicy": policy, "containers": [{"name": "main", "image": "i"}, {"name": "helper", "image": "i"}]}
    });
    if is_of_job {
        pod["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j-uid", "controller": true
        }]);
    }
    pod
}

fn seconds_between(from: &Value, to: &Value) -> i64 {
    let time = |value: &Value| value.as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    time(to).duration_since(time(from)).as_secs()
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_a_job_completes_after_one_second_as_a_kubelet_reports_it() {
    let cluster = cluster("stages: []").await;
    cluster
        .create(ending(json!({}), "Never", true))
        .await
        .unwrap();
    let ready = wait(&cluster, |pod| {
        pod["status"]["phase"] == "Running" && condition(pod, "Ready").0 == "True"
    })
    .await;
    let pod = wait(&cluster, |pod| pod["status"]["phase"] == "Succeeded").await;
    let status = &pod["status"];
    let started = &ready["status"]["containerStatuses"][0]["state"]["running"]["startedAt"];
    let terminated = &status["containerStatuses"][0]["state"]["terminated"];
    assert_eq!(
        *terminated,
        json!({"exitCode": 0, "reason": "Completed", "startedAt": started, "finishedAt": terminated["finishedAt"],
            "containerID": "simulated://main"})
    );
    assert!((1..=2).contains(&seconds_between(started, &terminated["finishedAt"])));
    let expected = [
        ("PodScheduled", "True", ""),
        ("PodReadyToStartContainers", "False", ""),
        ("Initialized", "True", "PodCompleted"),
        ("Ready", "False", "PodCompleted"),
        ("ContainersReady", "False", "PodCompleted"),
    ];
    for (kind, is_true, reason) in expected {
        assert_eq!(
            condition(&pod, kind),
            (is_true.to_owned(), reason.to_owned()),
            "{kind}"
        );
    }
    let container = &status["containerStatuses"][0];
    assert_eq!(
        (
            &container["ready"],
            &container["started"],
            &container["restartCount"]
        ),
        (&json!(false), &json!(false), &json!(0))
    );
    let initialized = |pod: &Value| {
        let conditions = pod["status"]["conditions"].as_array().unwrap();
        conditions
            .iter()
            .find(|c| c["type"] == "Initialized")
            .unwrap()["lastTransitionTime"]
            .clone()
    };
    assert_eq!(
        initialized(&pod),
        initialized(&ready),
        "the condition was true before"
    );
}

#[tokio::test(start_paused = true)]
async fn annotations_define_run_time_exit_codes_and_failures() {
    const RUN_TIME: &str = "simulate.steersman.dev/run-time";
    const EXIT_CODE: &str = "simulate.steersman.dev/exit-code";
    const FAILURES: &str = "simulate.steersman.dev/failures";
    // (annotations, policy, phase, [exit code, reason, restarts] of main and helper, seconds)
    let cases = [
        (
            json!({RUN_TIME: "30s"}),
            "Never",
            "Succeeded",
            [(0, "Completed", 0), (0, "Completed", 0)],
            30,
        ),
        (
            json!({EXIT_CODE: "3"}),
            "Never",
            "Failed",
            [(3, "Error", 0), (3, "Error", 0)],
            1,
        ),
        (
            json!({EXIT_CODE: "helper=2"}),
            "Never",
            "Failed",
            [(0, "Completed", 0), (2, "Error", 0)],
            1,
        ),
        (
            json!({RUN_TIME: "2s"}),
            "OnFailure",
            "Succeeded",
            [(0, "Completed", 0), (0, "Completed", 0)],
            2,
        ),
        // Restarts at once, after 10 s and after 20 s.
        (
            json!({EXIT_CODE: "helper=1", FAILURES: "3"}),
            "OnFailure",
            "Succeeded",
            [(0, "Completed", 0), (0, "Completed", 3)],
            34,
        ),
    ];
    for (annotations, policy, phase, expected, seconds) in cases {
        let cluster = cluster("stages: []").await;
        cluster
            .create(ending(annotations.clone(), policy, false))
            .await
            .unwrap();
        let began = Instant::now();
        let ended = |pod: &Value| {
            matches!(
                pod["status"]["phase"].as_str(),
                Some("Succeeded" | "Failed")
            )
        };
        let pod = wait(&cluster, ended).await;
        assert_eq!(pod["status"]["phase"], phase, "{annotations}");
        let statuses = pod["status"]["containerStatuses"].as_array().unwrap();
        for (status, (code, reason, restarts)) in statuses.iter().zip(expected) {
            let ended = &status["state"]["terminated"];
            assert_eq!(
                (
                    &ended["exitCode"],
                    &ended["reason"],
                    &status["restartCount"]
                ),
                (&json!(code), &json!(reason), &json!(restarts)),
                "{annotations}: {status}"
            );
        }
        let took = began.elapsed().as_secs();
        assert!(
            (seconds..seconds + 5).contains(&took),
            "{annotations} took {took} s"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_container_that_never_stays_up_waits_ever_longer() {
    let cluster = cluster("stages: []").await;
    let fails = json!({"simulate.steersman.dev/exit-code": "1"});
    cluster
        .create(ending(fails, "Always", false))
        .await
        .unwrap();
    // (restarts, back-off)
    for (restarts, wait_text) in [(1, "10s"), (2, "20s"), (3, "40s"), (7, "5m0s")] {
        let waits = |pod: &Value| {
            let container = &pod["status"]["containerStatuses"][0];
            container["restartCount"] == restarts && !container["state"]["waiting"].is_null()
        };
        let pod = wait(&cluster, waits).await;
        let status = &pod["status"];
        let container = &pod["status"]["containerStatuses"][0];
        let message = format!(
            "back-off {wait_text} restarting failed container=main pod=p_default({})",
            pod["metadata"]["uid"].as_str().unwrap()
        );
        assert_eq!(
            container["state"]["waiting"],
            json!({"reason": "CrashLoopBackOff", "message": message})
        );
        assert_eq!(container["lastState"]["terminated"]["exitCode"], 1);
        assert_eq!(status["phase"], "Running");
        assert_eq!(
            condition(&pod, "Ready"),
            ("False".to_owned(), "ContainersNotReady".to_owned())
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_failing_pod_of_a_job_restarts_or_ends_as_its_policy_says() {
    for (policy, expected) in [("Never", "Failed"), ("OnFailure", "Running")] {
        let cluster = cluster("stages: []").await;
        let fails = json!({"simulate.steersman.dev/behaviour": "fail"});
        cluster.create(ending(fails, policy, true)).await.unwrap();
        let failed = |pod: &Value| {
            let container = &pod["status"]["containerStatuses"][0];
            let restarts = container["restartCount"].as_i64().unwrap_or(0);
            container["state"]["terminated"]["exitCode"] == 1 || restarts == 4
        };
        let pod = wait(&cluster, failed).await;
        assert_eq!(pod["status"]["phase"], expected, "{policy}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_malformed_annotation_is_an_error_of_the_containers_configuration() {
    let cluster = cluster("stages: []").await;
    let wrong = json!({"simulate.steersman.dev/run-time": "soon"});
    cluster.create(ending(wrong, "Never", true)).await.unwrap();
    let pod = wait(&cluster, |pod| {
        !pod["status"]["containerStatuses"].is_null()
    })
    .await;
    assert_eq!(
        pod["status"]["containerStatuses"][0]["state"]["waiting"],
        json!({"reason": "CreateContainerConfigError",
            "message": "annotation simulate.steersman.dev/run-time: \"soon\" is no duration such as 500ms"})
    );
    assert_eq!(pod["status"]["phase"], "Pending");
}

#[tokio::test(start_paused = true)]
async fn sidecars_run_until_the_containers_have_ended() {
    let cluster = cluster("stages: []").await;
    let mut pod = ending(json!({}), "Never", true);
    pod["spec"]["initContainers"] = json!([
        {"name": "prepare", "image": "i"}, {"name": "proxy", "image": "i", "restartPolicy": "Always"}
    ]);
    cluster.create(pod).await.unwrap();
    let inits = |pod: &Value| pod["status"]["initContainerStatuses"].clone();
    let running = wait(&cluster, |pod| pod["status"]["phase"] == "Running").await;
    let [prepare, proxy] = [&inits(&running)[0], &inits(&running)[1]].map(Value::clone);
    assert_eq!(
        (&prepare["state"]["terminated"]["reason"], &prepare["ready"]),
        (&json!("Completed"), &json!(true))
    );
    assert!(
        proxy["state"]["running"].is_object() && proxy["ready"] == true,
        "{proxy}"
    );
    let ended = wait(&cluster, |pod| pod["status"]["phase"] == "Succeeded").await;
    assert_eq!(inits(&ended)[1]["state"]["terminated"]["exitCode"], 0);
    assert_eq!(
        inits(&ended)[0]["state"],
        prepare["state"],
        "it ended earlier"
    );
}

#[tokio::test(start_paused = true)]
async fn a_deleted_pod_with_a_finalizer_fails_and_stays_until_it_is_released() {
    let cluster = cluster("stages: []").await;
    let mut pod = ending(
        json!({"simulate.steersman.dev/run-time": "1h"}),
        "Never",
        true,
    );
    pod["metadata"]["finalizers"] = json!(["example.com/counted"]);
    cluster.create(pod).await.unwrap();
    wait(&cluster, |pod| pod["status"]["phase"] == "Running").await;
    cluster.delete(PATH).await.unwrap();
    let pod = wait(&cluster, |pod| pod["status"]["phase"] == "Failed").await;
    assert_eq!(
        pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"],
        143
    );
    assert_eq!(
        condition(&pod, "Ready"),
        ("False".to_owned(), "PodFailed".to_owned())
    );
    let limit = Duration::from_secs(600);
    let release = json!({"metadata": {"finalizers": null}});
    cluster.patch(PATH, release).await.unwrap();
    cluster
        .wait_for("pods", limit, |pods| pods.is_empty())
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_finished_pod_is_deleted_without_a_further_report() {
    let cluster = cluster("stages: []").await;
    let mut pod = ending(json!({}), "Never", true);
    pod["metadata"]["finalizers"] = json!(["example.com/counted"]);
    cluster.create(pod).await.unwrap();
    let before = wait(&cluster, |pod| pod["status"]["phase"] == "Succeeded").await;
    cluster.delete(PATH).await.unwrap();
    let deleted = wait(&cluster, |pod| {
        !pod["metadata"]["deletionTimestamp"].is_null()
    })
    .await;
    assert_eq!(deleted["status"], before["status"]);
    let release = json!({"metadata": {"finalizers": null}});
    cluster.patch(PATH, release).await.unwrap();
    let limit = Duration::from_secs(600);
    cluster
        .wait_for("pods", limit, |pods| pods.is_empty())
        .await
        .unwrap();
}

/// A pod whose container `main` has this rule about its exit codes, and is never restarted otherwise. It exits
/// with code 42 so often.
fn ruled(action: &str, operator: &str, code: i32, failures: u32) -> Value {
    let annotations = json!({
        "simulate.steersman.dev/exit-code": "main=42", "simulate.steersman.dev/failures": failures.to_string()
    });
    let mut pod = ending(annotations, "Never", false);
    pod["spec"]["containers"][0]["restartPolicy"] = "Never".into();
    let rule = json!({"action": action, "exitCodes": {"operator": operator, "values": [code]}});
    pod["spec"]["containers"][0]["restartPolicyRules"] = json!([rule]);
    pod
}

#[tokio::test(start_paused = true)]
async fn rules_about_exit_codes_restart_their_container_only() {
    // (operator, code, phase, exit code and restarts of main)
    let cases = [
        ("In", 42, "Succeeded", [0, 2]),
        ("In", 41, "Failed", [42, 0]),
        ("NotIn", 0, "Succeeded", [0, 2]),
        ("NotIn", 42, "Failed", [42, 0]),
    ];
    for (operator, code, phase, expected) in cases {
        let cluster = cluster("stages: []").await;
        cluster
            .create(ruled("Restart", operator, code, 2))
            .await
            .unwrap();
        let ended = |pod: &Value| {
            pod["status"]["phase"] != "Pending" && pod["status"]["phase"] != "Running"
        };
        let pod = wait(&cluster, ended).await;
        assert_eq!(pod["status"]["phase"], phase, "{operator} {code}");
        let statuses = &pod["status"]["containerStatuses"];
        let of = |index: usize| {
            let status = &statuses[index];
            [
                &status["state"]["terminated"]["exitCode"],
                &status["restartCount"],
            ]
            .map(Value::clone)
        };
        assert_eq!(of(0), expected, "{operator} {code}");
        assert_eq!(of(1), [0, 0], "{operator} {code}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_rule_restarts_all_containers_from_the_first_init_container_on() {
    let cluster = cluster("stages: []").await;
    let mut pod = ruled("RestartAllContainers", "In", 42, 1);
    pod["spec"]["initContainers"] = json!([
        {"name": "prepare", "image": "i"}, {"name": "proxy", "image": "i", "restartPolicy": "Always"}
    ]);
    cluster.create(pod).await.unwrap();
    let all = |pod: &Value| -> Vec<Value> {
        let lists = ["initContainerStatuses", "containerStatuses"];
        let lists = lists.map(|list| pod["status"][list].as_array().cloned());
        lists.into_iter().flatten().flatten().collect()
    };
    let restarts = |pod: &Value| -> Vec<Value> {
        let statuses = all(pod).into_iter();
        statuses.map(|one| one["restartCount"].clone()).collect()
    };
    let restarting = |pod: &Value| condition(pod, "AllContainersRestarting");
    let of = |status: &str, reason: &str| (status.to_owned(), reason.to_owned());
    let yes = || of("True", "");

    let pod = wait(&cluster, |pod| pod["status"]["phase"] == "Running").await;
    assert_eq!(restarting(&pod), of("False", ""));
    let pod = wait(&cluster, |pod| restarting(pod).0 == "True").await;
    assert_eq!(restarting(&pod), of("True", "RestartAllContainersStarted"));
    let main = &pod["status"]["containerStatuses"][0];
    assert_eq!(main["state"]["terminated"]["exitCode"], 42);
    assert_eq!(restarts(&pod), [0, 0, 0, 0]);
    assert_eq!(pod["status"]["phase"], "Running");

    let pod = wait(&cluster, |pod| restarting(pod).0 == "False").await;
    let message = "The container is removed because RestartAllContainers in place";
    for status in all(&pod) {
        assert_eq!(
            status["state"],
            json!({"waiting": {"reason": "RestartingAllContainers", "message": message}})
        );
        let last = &status["lastState"]["terminated"];
        assert_eq!(
            (&last["exitCode"], &last["reason"]),
            (&json!(137), &json!("RestartingAllContainers"))
        );
    }
    assert_eq!(restarts(&pod), [1, 1, 1, 1]);
    assert_eq!(pod["status"]["phase"], "Running");
    assert_eq!(condition(&pod, "Initialized"), yes());
    assert_eq!(condition(&pod, "PodReadyToStartContainers"), yes());

    // The init container runs again before the others.
    let pod = wait(&cluster, |pod| !all(pod)[0]["state"]["running"].is_null()).await;
    assert_eq!(pod["status"]["phase"], "Pending");
    assert_eq!(condition(&pod, "Initialized"), yes());
    let began = Instant::now();
    let pod = wait(&cluster, |pod| pod["status"]["phase"] == "Succeeded").await;
    assert!(began.elapsed().as_secs() < 5, "there is no back-off");
    assert_eq!(restarts(&pod), [1, 1, 1, 1]);
    assert_eq!(restarting(&pod), of("False", "PodCompleted"));
}

#[tokio::test(start_paused = true)]
async fn an_init_container_can_restart_all_containers_too() {
    let cluster = cluster("stages: []").await;
    let mut pod = ending(
        json!({"simulate.steersman.dev/exit-code": "setup=42", "simulate.steersman.dev/failures": "1"}),
        "Never",
        false,
    );
    let rule =
        json!({"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}});
    pod["spec"]["initContainers"] = json!([
        {"name": "first", "image": "i"},
        {"name": "setup", "image": "i", "restartPolicy": "Never", "restartPolicyRules": [rule]}
    ]);
    cluster.create(pod).await.unwrap();
    let restarting = |pod: &Value| {
        let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        let mut conditions = conditions.filter(|one| one["type"] == "AllContainersRestarting");
        conditions.any(|one| one["status"] == "True")
    };
    let pod = wait(&cluster, restarting).await;
    assert_eq!(pod["status"]["phase"], "Pending");
    let running = |pod: &Value| pod["status"]["phase"] == "Running";
    let pod = wait(&cluster, |pod| running(pod) && !restarting(pod)).await;
    let restarts = |list: &str| -> Vec<Value> {
        let statuses = pod["status"][list].as_array().unwrap().iter();
        statuses.map(|one| one["restartCount"].clone()).collect()
    };
    assert_eq!(restarts("initContainerStatuses"), [1, 1]);
    assert_eq!(restarts("containerStatuses"), [0, 0]);
}
