//! Subresources: status, scale, binding, ephemeral containers, resize, finalize.

use serde_json::{Value, json};

use super::promises;
use super::world::{
    JSON_PATCH, KEEP, NO_NODE, Outcome, World, at, equal, holds, text, version, workload_spec,
};

promises! { "parts":
    status_and_spec_are_written_separately,
    status_updates_change_some_metadata,
    scale_shows_the_replicas,
    scale_updates_are_validated_and_conditional,
    every_workload_has_a_scale,
    a_pod_is_bound_once,
    bindings_add_metadata,
    terminating_pods_are_not_bound,
    ephemeral_containers_can_be_added,
    containers_are_resized_through_a_subresource,
    namespaces_are_finalized_through_a_subresource,
    missing_subresources_are_not_found,
}

async fn status_and_spec_are_written_separately(world: &World) -> Outcome {
    let budgets = world.group("policy/v1", "poddisruptionbudgets");
    let spec = json!({"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}});
    let status = json!({"observedGeneration": 9});
    let made = world
        .post(
            &budgets,
            &json!({"metadata": {"name": "a"}, "spec": spec, "status": status}),
        )
        .await?;
    at(made.created()?, "/status/observedGeneration", Value::Null)?;
    let patch = json!({"spec": {"minAvailable": 2}, "status": {"expectedPods": 7}});
    let of_status = world.merge(&format!("{budgets}/a/status"), &patch).await?;
    at(of_status.ok()?, "/status/expectedPods", json!(7))?;
    at(&of_status.body, "/spec/minAvailable", json!(1))?;
    at(&of_status.body, "/metadata/generation", json!(1))?;
    let patch = json!({"spec": {"minAvailable": 2}, "status": {"expectedPods": 99}});
    let of_spec = world.merge(&format!("{budgets}/a"), &patch).await?;
    at(of_spec.ok()?, "/spec/minAvailable", json!(2))?;
    at(&of_spec.body, "/metadata/generation", json!(2))?;
    holds(
        "an update of the main endpoint keeps the status",
        of_spec.body["status"]["expectedPods"] != 99,
    )?;
    let mut whole = world
        .get(&format!("{budgets}/a/status"))
        .await?
        .ok()?
        .clone();
    whole["spec"]["minAvailable"] = json!(3);
    // A controller may write the status in between, so a conflict is accepted.
    if let Some(metadata) = whole["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    let put = world.put(&format!("{budgets}/a/status"), &whole).await?;
    holds(
        "a PUT of the status keeps the spec",
        put.code == 409 || put.body["spec"]["minAvailable"] == 2,
    )
}

async fn status_updates_change_some_metadata(world: &World) -> Outcome {
    let owner = world.map("owner", json!({}), json!({})).await?;
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]});
    let metadata =
        json!({"labels": {"new": "1"}, "annotations": {"new": "1"}, "ownerReferences": [owner]});
    world.deployment("a").await?;
    let deployment = world
        .merge(
            &world.apps("deployments/a/status"),
            &json!({"metadata": metadata}),
        )
        .await?;
    at(deployment.ok()?, "/metadata/labels/new", Value::Null)?;
    at(&deployment.body, "/metadata/annotations/new", json!("1"))?;
    world.pod("a", json!({})).await?;
    let pod = world
        .merge(&world.core("pods/a/status"), &json!({"metadata": metadata}))
        .await?;
    at(pod.ok()?, "/metadata/labels/new", json!("1"))?;
    at(&pod.body, "/metadata/annotations/new", json!("1"))?;
    at(&pod.body, "/metadata/ownerReferences", Value::Null)
}

async fn scale_shows_the_replicas(world: &World) -> Outcome {
    let made = world.deployment("a").await?;
    let path = world.apps("deployments/a/scale");
    let scale = world.get(&path).await?;
    at(scale.ok()?, "/kind", json!("Scale"))?;
    at(&scale.body, "/apiVersion", json!("autoscaling/v1"))?;
    at(&scale.body, "/spec", json!({}))?;
    at(&scale.body, "/status/selector", json!("app=a"))?;
    for field in ["name", "namespace", "uid", "creationTimestamp"] {
        at(
            &scale.body,
            &format!("/metadata/{field}"),
            made["metadata"][field].clone(),
        )?;
    }
    let scaled = world
        .merge(&path, &json!({"spec": {"replicas": 2}}))
        .await?;
    at(scaled.ok()?, "/spec/replicas", json!(2))?;
    let deployment = world.get(&world.apps("deployments/a")).await?;
    at(deployment.ok()?, "/spec/replicas", json!(2))?;
    holds(
        "the generation grows",
        deployment.body["metadata"]["generation"].as_i64() > Some(1),
    )
}

async fn scale_updates_are_validated_and_conditional(world: &World) -> Outcome {
    let sets = world.apps("replicasets");
    world
        .post(
            &sets,
            &json!({"metadata": {"name": "a"}, "spec": workload_spec("a")}),
        )
        .await?
        .created()?;
    let path = format!("{sets}/a/scale");
    let negative = world
        .merge(&path, &json!({"spec": {"replicas": -1}}))
        .await?;
    negative
        .invalid("Scale.autoscaling \"a\" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0")?;
    let scale = world.get(&path).await?.ok()?.clone();
    // A change of labels alone creates a new resourceVersion, but no pods.
    world
        .merge(
            &format!("{sets}/a"),
            &json!({"metadata": {"labels": {"x": "y"}}}),
        )
        .await?
        .ok()?;
    let stale = world.put(&path, &scale).await?;
    stale.refuses(
        409,
        "Conflict",
        "the object has been modified; please apply your changes to the latest version and try again",
    )?;
    let mut always = scale.clone();
    always["metadata"]["resourceVersion"] = json!("");
    world.put(&path, &always).await?.ok().map(|_| ())
}

async fn every_workload_has_a_scale(world: &World) -> Outcome {
    let mut controller = workload_spec("a");
    controller["selector"] = json!({"app": "a"});
    let cases = [
        (world.apps("replicasets"), workload_spec("a")),
        (world.apps("statefulsets"), workload_spec("a")),
        (world.core("replicationcontrollers"), controller),
    ];
    for (path, spec) in cases {
        world
            .post(&path, &json!({"metadata": {"name": "a"}, "spec": spec}))
            .await?
            .created()?;
        let scale = world.get(&format!("{path}/a/scale")).await?;
        at(scale.ok()?, "/kind", json!("Scale"))?;
        at(&scale.body, "/status/selector", json!("app=a"))?;
    }
    Ok(())
}

fn binding(node: &str) -> Value {
    json!({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": node}})
}

async fn a_pod_is_bound_once(world: &World) -> Outcome {
    world.pod("a", json!({})).await?;
    let path = world.core("pods/a/binding");
    let bound = world.post(&path, &binding(NO_NODE)).await?;
    at(bound.created()?, "/kind", json!("Status"))?;
    at(&bound.body, "/status", json!("Success"))?;
    let pod = world.get(&world.core("pods/a")).await?;
    at(pod.ok()?, "/spec/nodeName", json!(NO_NODE))?;
    at(&pod.body, "/metadata/generation", json!(1))?;
    let conditions = pod.body["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let scheduled =
        |condition: &Value| condition["type"] == "PodScheduled" && condition["status"] == "True";
    holds("PodScheduled is true", conditions.iter().any(scheduled))?;
    let again = world.post(&path, &binding("another")).await?;
    again.refuses(
        409,
        "Conflict",
        &format!("pod a is already assigned to node \"{NO_NODE}\""),
    )?;
    again.has("/details/kind", json!("pods/binding"))
}

async fn bindings_add_metadata(world: &World) -> Outcome {
    world.pod("a", json!({})).await?;
    let mut bound = binding(NO_NODE);
    bound["metadata"]["annotations"] = json!({"x": "1"});
    world
        .post(&world.core("bindings"), &bound)
        .await?
        .created()?;
    let pod = world.get(&world.core("pods/a")).await?;
    at(pod.ok()?, "/spec/nodeName", json!(NO_NODE))?;
    at(&pod.body, "/metadata/annotations/x", json!("1"))
}

async fn terminating_pods_are_not_bound(world: &World) -> Outcome {
    world.pod("a", json!({"finalizers": [KEEP]})).await?;
    world.delete(&world.core("pods/a")).await?.ok()?;
    let refused = world
        .post(&world.core("pods/a/binding"), &binding(NO_NODE))
        .await?;
    refused.refuses(
        409,
        "Conflict",
        "pod a is being deleted, cannot be assigned to a host",
    )
}

async fn ephemeral_containers_can_be_added(world: &World) -> Outcome {
    world.pod("a", json!({})).await?;
    let add = json!({"spec": {"ephemeralContainers": [{"name": "e", "image": "i"}]}});
    let patched = world
        .patch(
            &world.core("pods/a/ephemeralcontainers"),
            super::world::STRATEGIC,
            &add,
        )
        .await?;
    at(
        patched.ok()?,
        "/spec/ephemeralContainers/0/name",
        json!("e"),
    )?;
    at(&patched.body, "/spec/containers/0/name", json!("c"))?;
    let other = json!({"spec": {"activeDeadlineSeconds": 5}});
    let kept = world
        .merge(&world.core("pods/a/ephemeralcontainers"), &other)
        .await?;
    at(kept.ok()?, "/spec/activeDeadlineSeconds", Value::Null)?;
    let remove = json!([{"op": "remove", "path": "/spec/ephemeralContainers"}]);
    world
        .patch(
            &world.core("pods/a/ephemeralcontainers"),
            JSON_PATCH,
            &remove,
        )
        .await?
        .invalid("may not be removed")
}

async fn containers_are_resized_through_a_subresource(world: &World) -> Outcome {
    let requests = |cpu: &str| json!([{"name": "c", "image": "registry.k8s.io/pause:3.10", "resources": {"requests": {"cpu": cpu}}}]);
    world
        .pod_of("a", json!({}), json!({"containers": requests("100m")}))
        .await?;
    let larger = json!({"spec": {"containers": requests("200m")}});
    world
        .merge(&world.core("pods/a"), &larger)
        .await?
        .invalid("pod updates may not change fields other than")?;
    let resized = world.merge(&world.core("pods/a/resize"), &larger).await?;
    at(
        resized.ok()?,
        "/spec/containers/0/resources/requests/cpu",
        json!("200m"),
    )?;
    at(&resized.body, "/metadata/generation", json!(2))
}

async fn namespaces_are_finalized_through_a_subresource(world: &World) -> Outcome {
    const OWN: &str = "conformance.example.com/own";
    let new = json!({"metadata": {"generateName": "conformance-"}, "spec": {"finalizers": [OWN]}});
    let made = world
        .post("/api/v1/namespaces", &new)
        .await?
        .created()?
        .clone();
    let name = text(&made, "/metadata/name");
    let path = format!("/api/v1/namespaces/{name}");
    world.delete_at_end(&path);
    let finalizers = |object: &Value| object["spec"]["finalizers"].clone();
    equal(
        "finalizers after creation",
        &finalizers(&made),
        &json!([OWN, "kubernetes"]),
    )?;
    let fewer = json!({"metadata": {"name": name}, "spec": {"finalizers": ["kubernetes"]}});
    let outside = world.put(&path, &fewer).await?;
    let kept = finalizers(outside.ok()?);
    let finalized = world.put(&format!("{path}/finalize"), &fewer).await?;
    equal(
        "finalizers after finalize",
        &finalizers(finalized.ok()?),
        &json!(["kubernetes"]),
    )?;
    equal(
        "finalizers after a plain update",
        &kept,
        &json!([OWN, "kubernetes"]),
    )
}

async fn missing_subresources_are_not_found(world: &World) -> Outcome {
    let made = world.map("a", json!({}), json!({})).await?;
    for part in ["status", "scale", "soul"] {
        let refused = world
            .get(&world.core(&format!("configmaps/a/{part}")))
            .await?;
        refused.refuses(
            404,
            "NotFound",
            "the server could not find the requested resource",
        )?;
    }
    holds("the object still exists", !version(&made).is_empty())
}
