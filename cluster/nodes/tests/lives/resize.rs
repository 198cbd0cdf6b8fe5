//! Changes of running pods: resizes in place, and new images.

use http::Method;
use steersman_devcluster::status::Status;

use super::*;

const RESIZE: &str = "/api/v1/namespaces/default/pods/p/resize";

/// Sends a strategic merge patch, which keeps the other containers and fields.
async fn patch(cluster: &DevCluster, path: &str, body: Value) -> Result<Value, Status> {
    let kind = "application/strategic-merge-patch+json";
    cluster
        .call(Method::PATCH, path, kind, body.to_string())
        .await
}

async fn resize(cluster: &DevCluster, body: Value) -> Result<Value, Status> {
    patch(cluster, RESIZE, body).await
}

fn asking(name: &str, cpu: &str) -> Value {
    let resources = json!({"requests": {"cpu": cpu, "memory": "64Mi"}, "limits": {"cpu": "8", "memory": "1Gi"}});
    let policy = json!([{"resourceName": "memory", "restartPolicy": "RestartContainer"}]);
    let mounts = json!([{"name": "data", "mountPath": "/data", "readOnly": true}]);
    let container = json!({"name": "c", "image": "i", "resources": resources, "resizePolicy": policy, "volumeMounts": mounts});
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [container], "volumes": [{"name": "data", "emptyDir": {}}]}
    })
}

fn requests(amounts: Value) -> Value {
    json!({"spec": {"containers": [{"name": "c", "resources": {"requests": amounts}}]}})
}

/// Waits for the pod `p` to fulfil `is_met`, and returns it.
async fn wait_for_p(cluster: &DevCluster, is_met: impl Fn(&Value) -> bool) -> Value {
    let of_p = |pods: &[Value]| -> Option<Value> {
        let mut pods = pods.iter();
        pods.find(|pod| pod["metadata"]["name"] == "p").cloned()
    };
    let met = |pods: &[Value]| of_p(pods).is_some_and(|pod| is_met(&pod));
    let limit = Duration::from_secs(600);
    let pods = cluster.wait_for("pods", limit, met).await;
    of_p(&pods.unwrap()).unwrap()
}

fn is_ready(pod: &Value) -> bool {
    pod["status"]["containerStatuses"][0]["ready"] == true
}

/// The container's requests of CPU: allocated, and actual.
fn cpu(pod: &Value) -> [&str; 2] {
    let status = &pod["status"]["containerStatuses"][0];
    [
        &status["allocatedResources"],
        &status["resources"]["requests"],
    ]
    .map(|list| list["cpu"].as_str().unwrap_or_default())
}

/// The pod-level requests of CPU: allocated, and actual.
fn pod_level_cpu(pod: &Value) -> [&str; 2] {
    let status = &pod["status"];
    [
        &status["allocatedResources"],
        &status["resources"]["requests"],
    ]
    .map(|list| list["cpu"].as_str().unwrap_or_default())
}

/// The conditions about a resize: type, reason, message and generation.
fn conditions(pod: &Value) -> Vec<String> {
    let all = pod["status"]["conditions"].as_array().unwrap().iter();
    let text = |one: &Value, field: &str| one[field].as_str().unwrap_or_default().to_owned();
    all.filter(|one| text(one, "type").starts_with("PodResize"))
        .map(|one| {
            let [kind, reason, message] =
                ["type", "reason", "message"].map(|field| text(one, field));
            format!("{kind} {reason} {message} {}", one["observedGeneration"])
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_resize_is_in_progress_before_the_container_has_it() {
    let cluster = with_events().await;
    cluster.create(asking("p", "1")).await.unwrap();
    let pod = wait_for_p(&cluster, is_ready).await;
    assert_eq!(cpu(&pod), ["1", "1"]);
    let mounts = json!([{"name": "data", "mountPath": "/data", "readOnly": true, "recursiveReadOnly": "Disabled"}]);
    assert_eq!(
        pod["status"]["containerStatuses"][0]["volumeMounts"],
        mounts
    );
    assert_eq!(
        pod["status"]["containerStatuses"][0]["resources"],
        pod["spec"]["containers"][0]["resources"]
    );

    resize(&cluster, requests(json!({"cpu": "2"})))
        .await
        .unwrap();
    let pod = wait_for_p(&cluster, |pod| !conditions(pod).is_empty()).await;
    assert_eq!(cpu(&pod), ["2", "1"]);
    assert_eq!(conditions(&pod), ["PodResizeInProgress   2"]);
    let pod = wait_for_p(&cluster, |pod| conditions(pod).is_empty()).await;
    assert_eq!(cpu(&pod), ["2", "2"]);
    assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 0);
    assert_eq!(pod["status"]["observedGeneration"], 2);

    // A change of memory restarts this container.
    resize(&cluster, requests(json!({"memory": "96Mi"})))
        .await
        .unwrap();
    let restarted = |pod: &Value| pod["status"]["containerStatuses"][0]["restartCount"] == 1;
    wait_for_p(&cluster, |pod| restarted(pod) && is_ready(pod)).await;
    let has_event = |events: &[Value]| {
        let mut events = events.iter();
        events.any(|event| {
            event["reason"] == "ResizeCompleted"
                && event["message"].as_str().unwrap().starts_with(
                    "Pod resize completed: {\"containers\":[{\"name\":\"c\",\"resources\":{\"limits\":",
                )
        })
    };
    let found = cluster
        .wait_for("events", Duration::from_secs(60), has_event)
        .await;
    assert!(found.is_ok(), "{found:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_resize_without_room_is_deferred() {
    let cluster = with_events().await;
    let node = "/api/v1/nodes/node-0/status";
    let allocatable =
        json!({"status": {"allocatable": {"cpu": "3", "memory": "4Gi", "pods": "10"}}});
    cluster.patch(node, allocatable).await.unwrap();
    for (name, amount) in [("p", "1"), ("other", "1500m")] {
        cluster.create(asking(name, amount)).await.unwrap();
    }
    let all_ready = |pods: &[Value]| pods.len() == 2 && pods.iter().all(is_ready);
    let ready = cluster
        .wait_for("pods", Duration::from_secs(60), all_ready)
        .await;
    assert!(ready.is_ok(), "{ready:#?}");

    resize(&cluster, requests(json!({"cpu": "2"})))
        .await
        .unwrap();
    let pod = wait_for_p(&cluster, |pod| !conditions(pod).is_empty()).await;
    assert_eq!(cpu(&pod), ["1", "1"]);
    let pending = "PodResizePending Deferred Node didn't have enough resource: cpu, requested: 2000, used: 1500, \
                   capacity: 3000 2";
    assert_eq!(conditions(&pod), [pending]);
    assert!(
        wait_for_event(
            &cluster,
            "ResizeDeferred",
            "Pod resize OutOfcpu: {\"containers\""
        )
        .await
    );
    let refused = resize(&cluster, requests(json!({"cpu": "4"}))).await;
    let why = "pods \"p\" is forbidden: node didn't have enough allocatable resources: cpu, requested: 4000, \
               allocatable: 3000";
    assert_eq!(refused.unwrap_err().message, why);

    let other = "/api/v1/namespaces/default/pods/other";
    cluster
        .delete_with(other, json!({"gracePeriodSeconds": 0}))
        .await
        .unwrap();
    let pod = wait_for_p(&cluster, |pod| cpu(pod) == ["2", "2"]).await;
    assert!(conditions(&pod).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_new_image_restarts_its_container_only() {
    let cluster = with_events().await;
    let mut two = pod("a");
    two["spec"]["containers"] = json!([{"name": "c", "image": "i"}, {"name": "d", "image": "i"}]);
    cluster.create(two).await.unwrap();
    let all_ready = |pod: &Value| {
        let statuses = pod["status"]["containerStatuses"].as_array();
        statuses.is_some_and(|all| all.iter().all(|one| one["ready"] == true))
    };
    wait(&cluster, all_ready).await;
    let image = json!({"spec": {"containers": [{"name": "d", "image": "j"}]}});
    patch(&cluster, PATH, image).await.unwrap();
    let restarts = |pod: &Value| -> Vec<Value> {
        let statuses = pod["status"]["containerStatuses"].as_array().unwrap();
        statuses
            .iter()
            .map(|one| one["restartCount"].clone())
            .collect()
    };
    let pod = wait(&cluster, |pod| restarts(pod) == [0, 1] && all_ready(pod)).await;
    assert_eq!(pod["status"]["observedGeneration"], 2);
    assert_eq!(pod["status"]["containerStatuses"][1]["image"], "j");
}

/// A cluster of one node, which writes Events, of this release.
async fn of_release(version: &str) -> DevCluster {
    let nodes = NodesConfig {
        count: 1,
        events: true,
        ..NodesConfig::default()
    };
    let cluster = DevCluster::builder().simulated_nodes(nodes);
    cluster.kubernetes_version(version).start().await.unwrap()
}

/// Waits for an Event with this reason and begin of the message.
async fn wait_for_event(cluster: &DevCluster, reason: &str, begin: &str) -> bool {
    let is_it = |event: &Value| {
        let message = event["message"].as_str().unwrap_or_default();
        event["reason"] == reason && message.starts_with(begin)
    };
    let limit = Duration::from_secs(60);
    let found = cluster.wait_for("events", limit, |events| events.iter().any(is_it));
    found.await.is_ok()
}

#[tokio::test(start_paused = true)]
async fn before_1_36_the_kubelet_refuses_what_exceeds_the_whole_node() {
    for (version, has_event) in [("1.34", false), ("1.35", true)] {
        let cluster = of_release(version).await;
        let node = "/api/v1/nodes/node-0/status";
        let allocatable = json!({"status": {"allocatable": {"cpu": "3", "memory": "4Gi"}}});
        cluster.patch(node, allocatable).await.unwrap();
        let features = &cluster.get("/api/v1/nodes/node-0").await.unwrap()["status"];
        assert!(features["declaredFeatures"].is_null(), "{version}");
        cluster.create(asking("p", "1")).await.unwrap();
        wait_for_p(&cluster, is_ready).await;

        resize(&cluster, requests(json!({"cpu": "4"})))
            .await
            .unwrap();
        let pod = wait_for_p(&cluster, |pod| !conditions(pod).is_empty()).await;
        assert_eq!(cpu(&pod), ["1", "1"]);
        let why = "Node didn't have enough capacity: cpu, requested: 4000, capacity: 3000";
        let pending = format!("PodResizePending Infeasible {why} 2");
        assert_eq!(conditions(&pod), [pending], "{version}");
        let begin = "Pod resize Infeasible: {\"containers\":[{\"name\":\"c\",";
        assert_eq!(
            wait_for_event(&cluster, "ResizeInfeasible", begin).await,
            has_event
        );

        // More room does not help; a smaller request does.
        let allocatable = json!({"status": {"allocatable": {"cpu": "8"}}});
        cluster.patch(node, allocatable).await.unwrap();
        sleep_until(Instant::now() + Duration::from_secs(60)).await;
        assert_eq!(cpu(&cluster.get(PATH).await.unwrap()), ["1", "1"]);
        resize(&cluster, requests(json!({"cpu": "2"})))
            .await
            .unwrap();
        let pod = wait_for_p(&cluster, |pod| cpu(pod) == ["2", "2"]).await;
        assert!(conditions(&pod).is_empty(), "{version}");
    }
}

#[tokio::test(start_paused = true)]
async fn guaranteed_pods_keep_cores_that_a_node_gave_them_alone() {
    let cluster = with_events().await;
    let policy = json!({"metadata": {"annotations": {"simulate.steersman.dev/cpu-manager-policy": "static"}}});
    cluster.patch("/api/v1/nodes/node-0", policy).await.unwrap();
    let mut pod = asking("p", "1");
    let equal = |cpu: &str| json!({"cpu": cpu, "memory": "64Mi"});
    pod["spec"]["containers"][0]["resources"] =
        json!({"requests": equal("1"), "limits": equal("1")});
    // The container exits although its resize is refused.
    pod["metadata"]["annotations"] = json!({"simulate.steersman.dev/run-time": "100s"});
    pod["spec"]["restartPolicy"] = "OnFailure".into();
    cluster.create(pod).await.unwrap();
    wait_for_p(&cluster, is_ready).await;
    let larger = json!({"requests": equal("2"), "limits": equal("2")});
    let body = json!({"spec": {"containers": [{"name": "c", "resources": larger}]}});
    resize(&cluster, body).await.unwrap();
    let pod = wait_for_p(&cluster, |pod| !conditions(pod).is_empty()).await;
    let why = "Resize is infeasible for Guaranteed Pods alongside CPU Manager policy \"static\"";
    assert_eq!(
        conditions(&pod),
        [format!("PodResizePending Infeasible {why} 2")]
    );
    assert!(wait_for_event(&cluster, "ResizeInfeasible", "Pod resize Infeasible: ").await);
    wait_for_p(&cluster, |pod| pod["status"]["phase"] == "Succeeded").await;
}

#[tokio::test(start_paused = true)]
async fn pod_level_resources_are_resized() {
    let cluster = with_events().await;
    let mut pod = asking("p", "1");
    pod["spec"]["resources"] =
        json!({"requests": {"cpu": "2", "memory": "1Gi"}, "limits": {"cpu": "9", "memory": "2Gi"}});
    cluster.create(pod).await.unwrap();
    let pod = wait_for_p(&cluster, is_ready).await;
    assert_eq!(pod_level_cpu(&pod), ["2", "2"]);
    assert_eq!(pod["status"]["resources"], pod["spec"]["resources"]);

    let larger = json!({"spec": {"resources": {"requests": {"cpu": "3"}}}});
    resize(&cluster, larger).await.unwrap();
    let pod = wait_for_p(&cluster, |pod| !conditions(pod).is_empty()).await;
    assert_eq!(conditions(&pod), ["PodResizeInProgress   2"]);
    assert_eq!(pod_level_cpu(&pod), ["3", "2"]);
    let pod = wait_for_p(&cluster, |pod| conditions(pod).is_empty()).await;
    assert_eq!(pod_level_cpu(&pod), ["3", "3"]);
    assert_eq!(cpu(&pod), ["1", "1"]);
    assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 0);
    assert!(wait_for_event(&cluster, "ResizeCompleted", "Pod resize completed: ").await);
}

#[tokio::test(start_paused = true)]
async fn a_refused_resize_ends_an_earlier_one_in_what_was_allocated() {
    let cluster = with_events().await;
    let node = "/api/v1/nodes/node-0/status";
    let allocatable =
        json!({"status": {"allocatable": {"cpu": "4", "memory": "4Gi", "pods": "10"}}});
    cluster.patch(node, allocatable).await.unwrap();
    for (name, amount) in [("p", "1"), ("other", "1")] {
        cluster.create(asking(name, amount)).await.unwrap();
    }
    wait_for_p(&cluster, is_ready).await;
    resize(&cluster, requests(json!({"cpu": "2"})))
        .await
        .unwrap();
    let pod = wait_for_p(&cluster, |pod| !conditions(pod).is_empty()).await;
    assert_eq!(conditions(&pod), ["PodResizeInProgress   2"]);
    assert_eq!(pod_level_cpu(&pod), ["2", "1"]);

    resize(&cluster, requests(json!({"cpu": "4"})))
        .await
        .unwrap();
    let is_pending = |pod: &Value| {
        let conditions = conditions(pod);
        let first = conditions.first();
        first.is_some_and(|first| first.starts_with("PodResizePending Deferred"))
    };
    let pod = wait_for_p(&cluster, is_pending).await;
    assert_eq!(conditions(&pod).len(), 1);
    assert_eq!(cpu(&pod), ["2", "2"]);
    assert_eq!(pod_level_cpu(&pod), ["2", "2"]);
}

#[tokio::test(start_paused = true)]
async fn every_pod_reports_pod_level_resources_since_1_36() {
    for (version, reports) in [("1.35", false), ("1.36", true)] {
        let cluster = of_release(version).await;
        cluster.create(asking("p", "1")).await.unwrap();
        let pod = wait_for_p(&cluster, is_ready).await;
        let status = &pod["status"];
        let of_pod = [&status["resources"], &status["allocatedResources"]];
        let container = &pod["spec"]["containers"][0]["resources"];
        let expected = if reports {
            [container, &container["requests"]]
        } else {
            [&Value::Null; 2]
        };
        assert_eq!(of_pod, expected, "{version}");
    }
}
