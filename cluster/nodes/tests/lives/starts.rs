//! Starts of pods: missing configuration, init containers, and the Events of scheduler and kubelets.

use super::*;

fn with_spec(fields: Value) -> Value {
    let mut pod = pod("a");
    for (field, value) in fields.as_object().unwrap() {
        pod["spec"][field] = value.clone();
    }
    pod
}

/// `component reason: message` of all Events, in order of their first times, with counts above 1.
fn events(cluster: &DevCluster) -> Vec<String> {
    let mut events = cluster.objects("events");
    events.sort_by_key(|event| event["metadata"]["name"].as_str().unwrap().to_owned());
    let line = |event: &Value| {
        let text = |field: &str| event[field].as_str().unwrap_or_default().to_owned();
        let count = event["count"].as_i64().unwrap_or(1);
        let count = if count > 1 {
            format!(" x{count}")
        } else {
            String::new()
        };
        let from = event["source"]["component"].as_str();
        let from = from.map_or_else(|| text("reportingComponent"), str::to_owned);
        format!("{from} {}: {}{count}", text("reason"), text("message"))
    };
    events.iter().map(line).collect()
}

/// Waits until an Event has this text.
async fn wait_for_event(cluster: &DevCluster, text: &str) {
    let found = cluster
        .wait_for("events", Duration::from_secs(600), |_| {
            events(cluster).iter().any(|event| event.contains(text))
        })
        .await;
    assert!(found.is_ok(), "no {text:?} in {:#?}", events(cluster));
}

fn waiting(pod: &Value) -> (Value, Value) {
    let waiting = &pod["status"]["containerStatuses"][0]["state"]["waiting"];
    (waiting["reason"].clone(), waiting["message"].clone())
}

#[tokio::test(start_paused = true)]
async fn a_container_waits_for_the_key_of_a_config_map() {
    let cluster = with_events().await;
    let reference = json!({"configMapKeyRef": {"name": "settings", "key": "colour"}});
    let env = json!([{"name": "COLOUR", "valueFrom": reference}]);
    let container = json!({"name": "c", "image": "i", "env": env});
    cluster
        .create(with_spec(json!({"containers": [container]})))
        .await
        .unwrap();
    let map = |data: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": data});
    let error = |message: &str| (json!("CreateContainerConfigError"), json!(message));
    let missing = error("configmap \"settings\" not found");
    let pod = wait(&cluster, |pod| waiting(pod) == missing).await;
    assert_eq!(pod["status"]["phase"], "Pending");
    assert_eq!(condition(&pod, "PodReadyToStartContainers").0, "True");
    wait_for_event(
        &cluster,
        "kubelet Failed: Error: configmap \"settings\" not found x3",
    )
    .await;
    cluster.create(map(json!({"size": "1"}))).await.unwrap();
    let missing = error("couldn't find key colour in ConfigMap default/settings");
    wait(&cluster, |pod| waiting(pod) == missing).await;
    let path = cluster.path("configmaps", "default", "settings");
    cluster
        .patch(&path, json!({"data": {"colour": "red"}}))
        .await
        .unwrap();
    wait(&cluster, |pod| pod["status"]["phase"] == "Running").await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_for_its_account_and_the_root_certificate() {
    let cluster = with_events().await;
    let sources = json!([
        {"serviceAccountToken": {"path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
    ]);
    let volumes = json!([{"name": "api", "projected": {"sources": sources}}]);
    cluster
        .create(with_spec(
            json!({"serviceAccountName": "bot", "volumes": volumes}),
        ))
        .await
        .unwrap();
    let message = "kubelet FailedMount: MountVolume.SetUp failed for volume \"api\" : [failed to fetch token: \
                   serviceaccounts \"bot\" not found, configmap \"kube-root-ca.crt\" not found] x2";
    wait_for_event(&cluster, message).await;
    let object = |kind: &str, name: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
    cluster
        .create(object("ServiceAccount", "bot"))
        .await
        .unwrap();
    let message = "kubelet FailedMount: MountVolume.SetUp failed for volume \"api\" : configmap \
                   \"kube-root-ca.crt\" not found";
    wait_for_event(&cluster, message).await;
    let mut map = object("ConfigMap", "kube-root-ca.crt");
    map["data"] = json!({"ca.crt": ""});
    cluster.create(map).await.unwrap();
    wait(&cluster, |pod| pod["status"]["phase"] == "Running").await;
}

#[tokio::test(start_paused = true)]
async fn no_container_starts_before_its_secret_is_mounted() {
    let cluster = with_events().await;
    let volumes = json!([{"name": "keys", "secret": {"secretName": "tls"}}, {"name": "more", "secret": {"secretName": "none", "optional": true}}]);
    cluster
        .create(with_spec(json!({"volumes": volumes})))
        .await
        .unwrap();
    let creating = (json!("ContainerCreating"), Value::Null);
    wait(&cluster, |pod| waiting(pod) == creating).await;
    let message = "kubelet FailedMount: MountVolume.SetUp failed for volume \"keys\" : secret \"tls\" not found x2";
    wait_for_event(&cluster, message).await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "tls"}});
    cluster.create(secret).await.unwrap();
    wait(&cluster, |pod| pod["status"]["phase"] == "Running").await;
}

#[tokio::test(start_paused = true)]
async fn init_containers_run_in_order_and_are_restarted() {
    let cluster = with_events().await;
    let init = |name: &str| json!({"name": name, "image": "i"});
    let sidecar = json!({"name": "proxy", "image": "i", "restartPolicy": "Always"});
    let mut pod = with_spec(json!({"initContainers": [init("one"), sidecar, init("two")]}));
    pod["metadata"]["annotations"] = json!({
        "simulate.steersman.dev/exit-code": "two=3", "simulate.steersman.dev/failures": "2"
    });
    cluster.create(pod).await.unwrap();
    let state = |pod: &Value, index: usize| {
        let state = &pod["status"]["initContainerStatuses"][index]["state"];
        state
            .as_object()
            .and_then(|state| state.keys().next())
            .cloned()
            .unwrap_or_default()
    };
    let states = |pod: &Value| [0, 1, 2].map(|index| state(pod, index)).join(" ");
    let pod = wait(&cluster, |pod| states(pod) == "running waiting waiting").await;
    assert_eq!(waiting(&pod).0, "PodInitializing");
    assert_eq!(
        condition(&pod, "Initialized"),
        ("False".to_owned(), "ContainersNotInitialized".to_owned())
    );
    wait(&cluster, |pod| states(pod) == "terminated running running").await;
    let pod = wait(&cluster, |pod| states(pod) == "terminated running waiting").await;
    let two = &pod["status"]["initContainerStatuses"][2];
    assert_eq!(two["state"]["waiting"]["reason"], "CrashLoopBackOff");
    assert_eq!(two["lastState"]["terminated"]["exitCode"], 3);
    let pod = wait(&cluster, |pod| {
        pod["status"]["containerStatuses"][0]["ready"] == true
    })
    .await;
    assert_eq!(states(&pod), "terminated running terminated");
    assert_eq!(pod["status"]["initContainerStatuses"][2]["restartCount"], 2);
    assert_eq!(condition(&pod, "Initialized").0, "True");
}

#[tokio::test(start_paused = true)]
async fn a_failed_init_container_without_restarts_fails_its_pod() {
    let cluster = with_events().await;
    let init = json!([{"name": "setup", "image": "i"}]);
    let mut pod = with_spec(json!({"initContainers": init, "restartPolicy": "Never"}));
    pod["metadata"]["annotations"] = json!({"simulate.steersman.dev/exit-code": "setup=4"});
    cluster.create(pod).await.unwrap();
    let pod = wait(&cluster, |pod| pod["status"]["phase"] == "Failed").await;
    let setup = &pod["status"]["initContainerStatuses"][0];
    assert_eq!(setup["state"]["terminated"]["exitCode"], 4);
    assert_eq!(waiting(&pod).0, "PodInitializing");
}

#[tokio::test(start_paused = true)]
async fn events_tell_the_life_of_a_pod_as_real_ones_do() {
    let cluster = with_events().await;
    cluster.create(pod("a")).await.unwrap();
    let ready = |pod: &Value| pod["status"]["containerStatuses"][0]["ready"] == true;
    let created = wait(&cluster, ready).await;
    cluster.delete(PATH).await.unwrap();
    wait_for_event(&cluster, "Killing").await;
    let expected = [
        "default-scheduler Scheduled: Successfully assigned default/p to node-0",
        "kubelet Pulling: Pulling image \"i\"",
        "kubelet Pulled: Successfully pulled image \"i\" in 0s (0s including waiting). Image size: 0 bytes.",
        "kubelet Created: Container created",
        "kubelet Started: Container started",
        "kubelet Killing: Stopping container c",
    ];
    assert_eq!(events(&cluster), expected);
    let events = cluster.objects("events");
    let started = events
        .iter()
        .find(|event| event["reason"] == "Started")
        .unwrap();
    assert_eq!(started["source"]["host"], "node-0");
    assert_eq!(started["involvedObject"]["fieldPath"], "spec.containers{c}");
    assert_eq!(started["involvedObject"]["uid"], created["metadata"]["uid"]);
}

#[tokio::test(start_paused = true)]
async fn events_explain_a_crash_loop_and_failed_probes() {
    // (behaviour, event)
    let cases = [
        (
            "fail",
            "kubelet BackOff: Back-off restarting failed container c in pod p_default(",
        ),
        (
            "never-ready",
            "kubelet Unhealthy: Readiness probe failed: simulated x3",
        ),
    ];
    for (behaviour, event) in cases {
        let cluster = with_events().await;
        let mut pod = pod("a");
        pod["metadata"]["annotations"] = json!({"simulate.steersman.dev/behaviour": behaviour});
        cluster.create(pod).await.unwrap();
        wait_for_event(&cluster, event).await;
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_without_events_write_none() {
    let cluster = cluster("stages: []").await;
    cluster.create(pod("a")).await.unwrap();
    wait(&cluster, |pod| pod["status"]["phase"] == "Running").await;
    assert_eq!(events(&cluster), [""; 0]);
}
