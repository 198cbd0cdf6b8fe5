//! Resizes of pods: the nodes and limits that refuse them. The texts are those of kube-apiserver 1.36.2.

use http::Method;
use serde_json::{Value, json};
use steersman_devcluster::DevCluster;

use crate::support::clock;

/// A cluster with Linux and Windows nodes, and a pod with these fields on each of `nodes`, called as the node.
async fn with_pods(nodes: &[&str], fields: Value) -> DevCluster {
    with_pods_of("1.36", nodes, fields).await
}

/// The same in a cluster of this release.
async fn with_pods_of(version: &str, nodes: &[&str], fields: Value) -> DevCluster {
    let cluster = DevCluster::builder().clock(clock());
    let cluster = cluster.kubernetes_version(version).start().await.unwrap();
    for (name, system) in [("linux", "linux"), ("windows", "windows")] {
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/os": system}},
            "status": {"allocatable": {"cpu": "2", "memory": "1Gi"}}
        });
        cluster.create(node).await.unwrap();
    }
    for node in nodes {
        let resources = json!({"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "3", "memory": "2Gi"}});
        let mut spec = json!({"nodeName": node, "containers": [{"name": "c", "image": "i", "resources": resources}]});
        let fields = fields.as_object().unwrap().clone();
        spec.as_object_mut().unwrap().extend(fields);
        let pod =
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": node}, "spec": spec});
        cluster.create(pod).await.unwrap();
    }
    cluster
}

/// The refusal of a resize, with its cause; `None` if it is accepted.
async fn refusal(cluster: &DevCluster, pod: &str, spec: Value) -> Option<(u16, String, Value)> {
    let path = format!("/api/v1/namespaces/default/pods/{pod}/resize");
    let kind = "application/strategic-merge-patch+json";
    let body = json!({"spec": spec}).to_string();
    let refused = cluster.call(Method::PATCH, &path, kind, body).await.err()?;
    let details = refused.details.unwrap_or_default();
    Some((refused.code, refused.message, details["causes"].clone()))
}

fn containers(requests: Value) -> Value {
    json!({"containers": [{"name": "c", "resources": {"requests": requests}}]})
}

#[tokio::test(start_paused = true)]
async fn nodes_refuse_what_they_cannot_resize() {
    let init = json!({"name": "i", "image": "i", "resources": {"requests": {"cpu": "100m"}}});
    let requests = json!({"cpu": "1", "memory": "128Mi"});
    let fields = json!({"initContainers": [init], "resources": {"requests": requests}});
    let cluster = with_pods(&["linux", "windows", "gone"], fields).await;
    let refused = |pod: &str, why: &str, cause: Value| {
        Some((403, format!("pods {pod:?} is forbidden: {why}"), cause))
    };
    let small = || containers(json!({"cpu": "200m"}));
    let none = Value::Null;
    let whole = || json!({"resources": {"requests": {"cpu": "2500m"}}});
    let lacking = "pod update requires features InPlacePodLevelResourcesVerticalScaling which are not available on node \
                   \"linux\"";
    assert_eq!(
        refusal(&cluster, "linux", whole()).await,
        refused("linux", lacking, none.clone())
    );
    let declared =
        json!({"status": {"declaredFeatures": ["InPlacePodLevelResourcesVerticalScaling"]}});
    cluster
        .patch("/api/v1/nodes/linux/status", declared)
        .await
        .unwrap();

    let system = "pod resize is only supported on linux nodes, node \"windows\" is \"windows\"";
    let capacity =
        "node didn't have enough allocatable resources: cpu, requested: 2500, allocatable: 2000";
    let lacking = "pod update requires features InPlacePodVerticalScalingInitContainers which are not available on node \
                   \"linux\"";
    let init =
        json!({"initContainers": [{"name": "i", "resources": {"requests": {"cpu": "200m"}}}]});
    let cause = |kind: &str| json!([{"reason": kind}]);
    let cases = [
        (
            "linux",
            whole(),
            refused("linux", capacity, cause("NodeCapacity")),
        ),
        ("linux", init, refused("linux", lacking, none.clone())),
        (
            "windows",
            small(),
            refused("windows", system, cause("UnsupportedPlatform")),
        ),
        (
            "gone",
            small(),
            refused("gone", "node \"gone\" not found", none),
        ),
        ("linux", small(), None),
    ];
    for (pod, change, expected) in cases {
        assert_eq!(
            refusal(&cluster, pod, change.clone()).await,
            expected,
            "{pod} {change}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn limits_apply_to_resizes() {
    let cluster = with_pods(&["linux"], json!({})).await;
    let range = |limit: Value| json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"}, "spec": {"limits": [limit]}});
    cluster
        .create(range(json!({"type": "Container", "max": {"cpu": "800m"}})))
        .await
        .unwrap();
    let small = || containers(json!({"cpu": "200m"}));
    let refused = refusal(&cluster, "linux", small()).await.unwrap();
    assert!(
        refused
            .1
            .contains("maximum cpu usage per Container is 800m, but limit is 3"),
        "{refused:?}"
    );

    // Defaults of another resource cannot be added to a running container.
    let path = cluster.path("limitranges", "default", "l");
    cluster.delete(&path).await.unwrap();
    cluster
        .create(range(
            json!({"type": "Container", "default": {"ephemeral-storage": "1Gi"}}),
        ))
        .await
        .unwrap();
    let (code, message, _) = refusal(&cluster, "linux", small()).await.unwrap();
    let why =
        "Pod \"linux\" is invalid: spec: Forbidden: only cpu and memory resources are mutable";
    assert_eq!((code, message.as_str()), (422, why));
}

#[tokio::test(start_paused = true)]
async fn before_1_36_nodes_have_no_say_in_the_admission_of_resizes() {
    for version in ["1.34", "1.35"] {
        let cluster = with_pods_of(version, &["linux", "windows", "gone"], json!({})).await;
        for pod in ["linux", "windows", "gone"] {
            let large = containers(json!({"cpu": "2500m"}));
            assert_eq!(refusal(&cluster, pod, large).await, None, "{version} {pod}");
        }
    }
}

/// The texts are those of the sources of 1.34, 1.35 and 1.36.
#[tokio::test(start_paused = true)]
async fn whole_pods_and_init_containers_are_resized_since_1_36() {
    let whole = "resize of pods with pod-level resources is forbidden when \
                 InPlacePodLevelResourcesVerticalScalingEnabled feature gate is disabled";
    let inits = "spec: Forbidden: resources for non-sidecar init containers are immutable";
    // (version, refusals of pods with resources of their own and of init containers)
    let cases = [
        (
            "1.34",
            [
                Some(": Forbidden: pods with pod-level resources cannot be resized"),
                Some(inits),
            ],
        ),
        (
            "1.35",
            [Some(&*format!(": Forbidden: {whole}")), Some(inits)],
        ),
        ("1.36", [None, None]),
    ];
    let init = json!({"name": "i", "image": "i", "resources": {"requests": {"cpu": "100m"}}});
    let requests = json!({"cpu": "1", "memory": "128Mi"});
    let fields = [
        json!({"resources": {"requests": requests}}),
        json!({"initContainers": [init]}),
    ];
    let changes = [
        json!({"resources": {"requests": {"cpu": "1500m"}}}),
        json!({"initContainers": [{"name": "i", "resources": {"requests": {"cpu": "200m"}}}]}),
    ];
    let features = [
        "InPlacePodLevelResourcesVerticalScaling",
        "InPlacePodVerticalScalingInitContainers",
    ];
    for (version, expected) in cases {
        for ((fields, change), expected) in fields.iter().zip(&changes).zip(expected) {
            let cluster = with_pods_of(version, &["linux"], fields.clone()).await;
            let declared = json!({"status": {"declaredFeatures": features}});
            cluster
                .patch("/api/v1/nodes/linux/status", declared)
                .await
                .unwrap();
            let expected = expected.map(|why| (422, format!("Pod \"linux\" is invalid: {why}")));
            let found = refusal(&cluster, "linux", change.clone()).await;
            let found = found.map(|(code, message, _)| (code, message));
            assert_eq!(found, expected, "{version} {change}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_resize_changes_resources_only() {
    let cluster = with_pods(&["linux"], json!({})).await;
    let path = format!("{}/resize", cluster.path("pods", "default", "linux"));
    let metadata =
        json!({"labels": {"l": "1"}, "annotations": {"a": "1"}, "finalizers": ["example.com/f"]});
    let body = json!({"metadata": metadata, "spec": containers(json!({"cpu": "200m"}))});
    let kind = "application/strategic-merge-patch+json";
    let pod = cluster.call(Method::PATCH, &path, kind, body.to_string());
    let pod = pod.await.unwrap();
    assert_eq!(
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"],
        "200m"
    );
    for field in ["labels", "annotations", "finalizers"] {
        assert!(pod["metadata"][field].is_null(), "{field}");
    }
}

#[tokio::test(start_paused = true)]
async fn limits_do_not_hold_up_pods_that_are_being_deleted() {
    let cluster = with_pods(&["linux"], json!({})).await;
    let limit = json!({"type": "Container", "max": {"cpu": "1"}});
    let range = json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"}, "spec": {"limits": [limit]}});
    cluster.create(range).await.unwrap();
    let small = || containers(json!({"cpu": "200m"}));
    assert!(refusal(&cluster, "linux", small()).await.is_some());
    let path = cluster.path("pods", "default", "linux");
    cluster
        .patch(
            &path,
            json!({"metadata": {"finalizers": ["example.com/f"]}}),
        )
        .await
        .unwrap();
    cluster.delete(&path).await.unwrap();
    assert_eq!(refusal(&cluster, "linux", small()).await, None);
}
