//! Evictions and PodDisruptionBudgets.

use serde_json::{Value, json};

use super::Broken;
use super::promises;
use super::world::{Answer, KEEP, Outcome, World, at, equal, holds};

promises! { "evicting":
    an_eviction_deletes_a_pod,
    an_eviction_applies_its_delete_options,
    pending_and_finished_pods_need_no_budget,
    a_budget_with_disruptions_left_allows_an_eviction,
    a_budget_without_disruptions_left_refuses_an_eviction,
    always_allow_evicts_unready_pods,
    unready_pods_are_evicted_while_enough_are_healthy,
    a_pod_with_two_budgets_is_not_evicted,
}

const APP: &str = "guarded";

async fn evict(world: &World, name: &str) -> Result<Answer, Broken> {
    let eviction =
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
    world
        .post(&world.core(&format!("pods/{name}/eviction")), &eviction)
        .await
}

/// A pod with phase Running and this readiness. Its finalizer keeps it after deletion.
async fn running(world: &World, name: &str, ready: &str) -> Outcome {
    world
        .pod(name, json!({"labels": {"app": APP}, "finalizers": [KEEP]}))
        .await?;
    let status = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]});
    world
        .merge(
            &world.core(&format!("pods/{name}/status")),
            &json!({"status": status}),
        )
        .await?
        .ok()
        .map(|_| ())
}

/// A budget with a status that equals the status of the disruption controller.
async fn budget(world: &World, name: &str, spec: Value, healthy: i64, desired: i64) -> Outcome {
    let budgets = world.group("policy/v1", "poddisruptionbudgets");
    let mut spec = spec;
    spec["selector"] = json!({"matchLabels": {"app": APP}});
    world
        .post(&budgets, &json!({"metadata": {"name": name}, "spec": spec}))
        .await?
        .created()?;
    let status = json!({
        "observedGeneration": 1, "expectedPods": 1, "currentHealthy": healthy, "desiredHealthy": desired,
        "disruptionsAllowed": (healthy - desired).max(0),
    });
    world
        .merge(
            &format!("{budgets}/{name}/status"),
            &json!({"status": status}),
        )
        .await?
        .ok()
        .map(|_| ())
}

async fn an_eviction_deletes_a_pod(world: &World) -> Outcome {
    world.pod("a", json!({})).await?;
    let path = world.core("pods/a/eviction");
    let other = world
        .post(&path, &json!({"metadata": {"name": "b"}}))
        .await?;
    other.refuses(
        400,
        "BadRequest",
        "name in URL does not match name in Eviction object",
    )?;
    let evicted = evict(world, "a").await?;
    at(evicted.created()?, "/status", json!("Success"))?;
    world
        .get(&world.core("pods/a"))
        .await?
        .is(404, "NotFound")?;
    evict(world, "a")
        .await?
        .refuses(404, "NotFound", "pods \"a\" not found")
}

async fn an_eviction_applies_its_delete_options(world: &World) -> Outcome {
    world.pod("a", json!({})).await?;
    let path = world.core("pods/a/eviction");
    let with = |options: Value| json!({"metadata": {"name": "a"}, "deleteOptions": options});
    let other = world
        .post(&path, &with(json!({"preconditions": {"uid": "other"}})))
        .await?;
    other.refuses(
        409,
        "Conflict",
        "the UID in the precondition (other) does not match the UID in record",
    )?;
    world
        .post(&path, &with(json!({"dryRun": ["All"]})))
        .await?
        .created()?;
    world.get(&world.core("pods/a")).await?.ok()?;
    world
        .post(&format!("{path}?dryRun=All"), &with(json!({})))
        .await?
        .created()?;
    world.get(&world.core("pods/a")).await?.ok().map(|_| ())
}

async fn pending_and_finished_pods_need_no_budget(world: &World) -> Outcome {
    budget(world, "a", json!({"minAvailable": 1}), 0, 1).await?;
    world
        .pod("pending", json!({"labels": {"app": APP}}))
        .await?;
    evict(world, "pending").await?.created()?;
    for phase in ["Succeeded", "Failed"] {
        let name = phase.to_lowercase();
        world.pod(&name, json!({"labels": {"app": APP}})).await?;
        let status = json!({"status": {"phase": phase}});
        world
            .merge(&world.core(&format!("pods/{name}/status")), &status)
            .await?
            .ok()?;
        evict(world, &name).await?.created()?;
    }
    Ok(())
}

async fn a_budget_with_disruptions_left_allows_an_eviction(world: &World) -> Outcome {
    running(world, "a", "True").await?;
    budget(world, "a", json!({"minAvailable": 0}), 1, 0).await?;
    // A disruption controller may have counted before the pod was ready.
    let evicted = world.until(201, async || evict(world, "a").await).await?;
    at(evicted.created()?, "/status", json!("Success"))?;
    let pod = world.get(&world.core("pods/a")).await?;
    holds(
        "deletionTimestamp is set",
        pod.ok()?["metadata"]["deletionTimestamp"].is_string(),
    )?;
    let budget = world
        .get(&world.group("policy/v1", "poddisruptionbudgets/a"))
        .await?;
    at(budget.ok()?, "/status/disruptionsAllowed", json!(0))?;
    let conditions = pod.body["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let why = conditions
        .iter()
        .find(|condition| condition["type"] == "DisruptionTarget")
        .cloned()
        .unwrap_or_default();
    let shown = json!([why["status"], why["reason"], why["message"]]);
    equal(
        "why",
        &shown,
        &json!(["True", "EvictionByEvictionAPI", "Eviction API: evicting"]),
    )
}

async fn a_budget_without_disruptions_left_refuses_an_eviction(world: &World) -> Outcome {
    running(world, "a", "True").await?;
    budget(world, "a", json!({"minAvailable": 1}), 1, 1).await?;
    let refused = evict(world, "a").await?;
    refused.refuses(
        429,
        "TooManyRequests",
        "Cannot evict pod as it would violate the pod's disruption budget.",
    )?;
    // A disruption controller may not have processed the budget yet.
    refused.has("/details/causes/0/reason", json!("DisruptionBudget"))?;
    let why = super::world::text(&refused.body, "/details/causes/0/message");
    if why.contains("is still being processed") {
        return equal(
            "retry-after of an unprocessed budget",
            &json!(refused.header("retry-after")),
            &json!("10"),
        );
    }
    holds(
        &format!("{why:?} names the budget"),
        why.starts_with("The disruption budget a needs 1 healthy pods and has "),
    )?;
    equal(
        "retry-after",
        &json!(refused.header("retry-after")),
        &json!(""),
    )
}

async fn always_allow_evicts_unready_pods(world: &World) -> Outcome {
    running(world, "a", "False").await?;
    budget(world, "a", json!({"minAvailable": 1}), 0, 1).await?;
    evict(world, "a").await?.is(429, "TooManyRequests")?;
    let always = json!({"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}});
    world
        .merge(&world.group("policy/v1", "poddisruptionbudgets/a"), &always)
        .await?
        .ok()?;
    world
        .until(201, async || evict(world, "a").await)
        .await?
        .created()
        .map(|_| ())
}

async fn unready_pods_are_evicted_while_enough_are_healthy(world: &World) -> Outcome {
    running(world, "a", "False").await?;
    running(world, "b", "True").await?;
    budget(world, "a", json!({"minAvailable": 1}), 1, 1).await?;
    world
        .until(201, async || evict(world, "a").await)
        .await?
        .created()?;
    evict(world, "b")
        .await?
        .is(429, "TooManyRequests")
        .map(|_| ())
}

async fn a_pod_with_two_budgets_is_not_evicted(world: &World) -> Outcome {
    running(world, "a", "True").await?;
    for name in ["a", "b"] {
        budget(world, name, json!({"minAvailable": 0}), 1, 0).await?;
    }
    let why = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
    evict(world, "a").await?.refuses(500, "", why)
}
