//! Parts of objects with paths of their own.

use serde_json::{Value, json};

use super::{MERGE, Outcome, World, at, promises};

promises! { "parts":
    status_and_the_rest_are_written_apart,
    scale_is_a_view_of_the_replicas,
    a_pod_is_bound_once,
    an_eviction_deletes_a_pod,
    a_budget_that_was_not_counted_puts_evictions_off,
}

async fn status_and_the_rest_are_written_apart(world: &World) -> Outcome {
    let budgets = world.group("policy/v1", "poddisruptionbudgets");
    let spec = json!({"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}});
    let status = json!({"observedGeneration": 9});
    let made = world.post(&budgets, &json!({"metadata": {"name": "a"}, "spec": spec, "status": status})).await?;
    at(made.created()?, "/status/observedGeneration", Value::Null)?;
    let patch = json!({"spec": {"minAvailable": 2}, "status": {"expectedPods": 7}});
    let of_status = world.patch(&format!("{budgets}/a/status"), MERGE, &patch).await?;
    at(of_status.ok()?, "/status/expectedPods", json!(7))?;
    at(&of_status.body, "/spec/minAvailable", json!(1))?;
    at(&of_status.body, "/metadata/generation", json!(1))?;
    let patch = json!({"spec": {"minAvailable": 2}, "status": {"expectedPods": 99}});
    let of_spec = world.patch(&format!("{budgets}/a"), MERGE, &patch).await?;
    at(of_spec.ok()?, "/spec/minAvailable", json!(2))?;
    at(&of_spec.body, "/metadata/generation", json!(2))?;
    super::holds("the status stays", of_spec.body["status"]["expectedPods"] != 99)
}

async fn scale_is_a_view_of_the_replicas(world: &World) -> Outcome {
    world.deployment("a").await?;
    let path = world.group("apps/v1", "deployments/a/scale");
    let scale = world.get(&path).await?;
    at(scale.ok()?, "/kind", json!("Scale"))?;
    at(&scale.body, "/apiVersion", json!("autoscaling/v1"))?;
    at(&scale.body, "/spec", json!({}))?;
    at(&scale.body, "/status/selector", json!("app=a"))?;
    // So that nobody makes pods of it.
    let deployment = world.group("apps/v1", "deployments/a");
    world
        .patch(&deployment, MERGE, &json!({"spec": {"paused": true, "template": {"spec": {"nodeName": "none"}}}}))
        .await?
        .ok()?;
    let fewer = world.patch(&path, MERGE, &json!({"spec": {"replicas": -1}})).await?;
    fewer.refuses(422, "Invalid", "must be greater than or equal to 0")?;
    let scaled = world.patch(&path, MERGE, &json!({"spec": {"replicas": 2}})).await?;
    at(scaled.ok()?, "/spec/replicas", json!(2))?;
    at(world.get(&deployment).await?.ok()?, "/spec/replicas", json!(2))
}

fn binding(node: &str) -> Value {
    json!({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": node}})
}

async fn a_pod_is_bound_once(world: &World) -> Outcome {
    world.pod("a", json!({})).await?;
    let path = world.core("pods/a/binding");
    let bound = world.post(&path, &binding("no-such-node")).await?;
    at(bound.created()?, "/status", json!("Success"))?;
    let pod = world.get(&world.core("pods/a")).await?;
    at(pod.ok()?, "/spec/nodeName", json!("no-such-node"))?;
    at(&pod.body, "/status/conditions/0/type", json!("PodScheduled"))?;
    let again = world.post(&path, &binding("another")).await?;
    again.refuses(409, "Conflict", "pod a is already assigned to node \"no-such-node\"")
}

async fn an_eviction_deletes_a_pod(world: &World) -> Outcome {
    world.pod("a", json!({})).await?;
    let eviction = |name: &str| json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
    let other = world.post(&world.core("pods/a/eviction"), &eviction("b")).await?;
    other.refuses(400, "BadRequest", "name in URL does not match name in Eviction object")?;
    let evicted = world.post(&world.core("pods/a/eviction"), &eviction("a")).await?;
    at(evicted.created()?, "/status", json!("Success"))?;
    world.get(&world.core("pods/a")).await?.is(404, "NotFound")?;
    world.post(&world.core("pods/a/eviction"), &eviction("a")).await?.refuses(404, "NotFound", "pods \"a\" not found")
}

async fn a_budget_that_was_not_counted_puts_evictions_off(world: &World) -> Outcome {
    let labels = json!({"app": "guarded"});
    world.pod("a", json!({"labels": labels, "finalizers": ["conformance.example.com/keep"]})).await?;
    world.patch(&world.core("pods/a/status"), MERGE, &json!({"status": {"phase": "Running"}})).await?.ok()?;
    let spec = json!({"minAvailable": 1, "selector": {"matchLabels": labels}});
    let budget = json!({"metadata": {"name": "a"}, "spec": spec});
    let budget = world.post(&world.group("policy/v1", "poddisruptionbudgets"), &budget).await?;
    budget.created()?;
    // Whether somebody counts by now or not: the pod is not ready, and so nothing is allowed.
    let eviction = json!({"metadata": {"name": "a"}});
    let refused = world.post(&world.core("pods/a/eviction"), &eviction).await?;
    refused.refuses(429, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.")?;
    refused.has("/details/causes/0/reason", json!("DisruptionBudget"))?;
    let freed = world.patch(&world.core("pods/a"), MERGE, &json!({"metadata": {"finalizers": null}})).await?;
    freed.ok().map(|_| ())
}
