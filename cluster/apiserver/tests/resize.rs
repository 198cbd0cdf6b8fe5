//! Resizes of pods: the nodes and limits that refuse them. The texts are those of kube-apiserver 1.36.2.

use http::Method;
use serde_json::{Value, json};
use steersman_devcluster::DevCluster;

use crate::support::clock;

/// A cluster with Linux and Windows nodes, and a pod with these fields on each of `nodes`, called as the node.
async fn with_pods(nodes: &[&str], fields: Value) -> DevCluster {
    let cluster = DevCluster::new(clock());
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
