//! Deletion of one object and of many.

use serde_json::{Value, json};

use super::{MERGE, Outcome, World, at, equal, holds, names, promises, text};

promises! { "deletion":
    what_is_deleted_is_answered_and_gone,
    finalizers_keep_an_object_until_they_are_gone,
    nothing_new_keeps_what_is_being_deleted,
    preconditions_are_kept,
    policies_become_finalizers,
    unscheduled_pods_go_at_once_and_others_in_time,
    collections_are_deleted_by_selector,
    owners_are_named_in_full,
}

const KEEP: &str = "conformance.example.com/keep";

async fn what_is_deleted_is_answered_and_gone(world: &World) -> Outcome {
    let made = world.map("a", json!({}), json!({})).await?;
    let path = world.core("configmaps/a");
    let gone = world.delete(&path).await?;
    at(gone.ok()?, "/kind", json!("Status"))?;
    at(&gone.body, "/status", json!("Success"))?;
    at(&gone.body, "/details", json!({"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]}))?;
    world.get(&path).await?.is(404, "NotFound")?;
    let next = world.map("a", json!({}), json!({})).await?;
    holds("a new object has a new uid", next["metadata"]["uid"] != made["metadata"]["uid"])?;
    let service = json!({"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}});
    world.post(&world.core("services"), &service).await?.created()?;
    world.delete(&world.core("services/a")).await?.has("/kind", json!("Service"))
}

async fn finalizers_keep_an_object_until_they_are_gone(world: &World) -> Outcome {
    world.map("a", json!({"finalizers": [KEEP]}), json!({})).await?;
    let path = world.core("configmaps/a");
    let kept = world.delete(&path).await?;
    let since = text(kept.ok()?, "/metadata/deletionTimestamp").to_owned();
    holds("it is being deleted", !since.is_empty())?;
    at(&kept.body, "/metadata/deletionGracePeriodSeconds", json!(0))?;
    let exists = world.post(&world.core("configmaps"), &json!({"metadata": {"name": "a"}})).await?;
    exists.refuses(409, "AlreadyExists", "object is being deleted: configmaps \"a\" already exists")?;
    let still = world.patch(&path, MERGE, &json!({"metadata": {"deletionTimestamp": null}})).await?;
    at(still.ok()?, "/metadata/deletionTimestamp", json!(since))?;
    world.patch(&path, MERGE, &json!({"metadata": {"finalizers": null}})).await?.ok()?;
    world.get(&path).await?.is(404, "NotFound").map(|_| ())
}

async fn nothing_new_keeps_what_is_being_deleted(world: &World) -> Outcome {
    world.map("a", json!({"finalizers": [KEEP]}), json!({})).await?;
    let path = world.core("configmaps/a");
    world.delete(&path).await?.ok()?;
    let more = json!({"metadata": {"finalizers": [KEEP, "conformance.example.com/more"]}});
    let why = "no new finalizers can be added if the object is being deleted";
    world.patch(&path, MERGE, &more).await?.refuses(422, "Invalid", why)?;
    world.patch(&path, MERGE, &json!({"metadata": {"finalizers": null}})).await?.ok().map(|_| ())
}

async fn preconditions_are_kept(world: &World) -> Outcome {
    let made = world.map("a", json!({}), json!({})).await?;
    let path = world.core("configmaps/a");
    let with = |preconditions: Value| json!({"preconditions": preconditions});
    let other = world.delete_with(&path, &with(json!({"uid": "other"}))).await?;
    other.refuses(409, "Conflict", "the UID in the precondition (other) does not match the UID in record")?;
    let old = world.delete_with(&path, &with(json!({"resourceVersion": "1"}))).await?;
    old.refuses(409, "Conflict", "the ResourceVersion in the precondition (1) does not match the ResourceVersion in record")?;
    world.delete_with(&path, &with(json!({"uid": made["metadata"]["uid"]}))).await?.ok().map(|_| ())
}

async fn policies_become_finalizers(world: &World) -> Outcome {
    let path = world.core("configmaps/a");
    for (policy, finalizer) in [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")] {
        world.map("a", json!({"finalizers": [KEEP]}), json!({})).await?;
        let kept = world.delete_with(&path, &json!({"propagationPolicy": policy})).await?;
        // The garbage collector may have done its part by now, but not before the answer.
        let finalizers = kept.ok()?["metadata"]["finalizers"].clone();
        holds(policy, finalizers.as_array().is_some_and(|list| list.iter().any(|one| one == finalizer)))?;
        world.patch(&path, MERGE, &json!({"metadata": {"finalizers": null}})).await?.ok()?;
    }
    let refused = world.delete_with(&path, &json!({"propagationPolicy": "Foo"})).await?;
    refused.refuses(
        422,
        "Invalid",
        "Unsupported value: \"Foo\": supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\"",
    )
}

async fn unscheduled_pods_go_at_once_and_others_in_time(world: &World) -> Outcome {
    world.pod("a", json!({})).await?;
    world.delete(&world.core("pods/a")).await?.has("/kind", json!("Pod"))?;
    world.get(&world.core("pods/a")).await?.is(404, "NotFound")?;
    // The finalizer keeps it from those who clean up after nodes that are not there.
    world.pod("b", json!({"finalizers": [KEEP]})).await?;
    let binding = json!({"metadata": {"name": "b"}, "target": {"kind": "Node", "name": "no-such-node"}});
    world.post(&world.core("pods/b/binding"), &binding).await?.created()?;
    let kept = world.delete(&world.core("pods/b")).await?;
    at(kept.ok()?, "/metadata/deletionGracePeriodSeconds", json!(30))?;
    at(&kept.body, "/metadata/generation", json!(2))?;
    let sooner = world.delete_with(&world.core("pods/b"), &json!({"gracePeriodSeconds": 5})).await?;
    let grace = sooner.ok()?["metadata"]["deletionGracePeriodSeconds"].as_i64();
    holds("a shorter grace counts", grace.is_some_and(|grace| grace <= 5))?;
    world.patch(&world.core("pods/b"), MERGE, &json!({"metadata": {"finalizers": null}})).await?.ok()?;
    let forced = world.delete_with(&world.core("pods/b"), &json!({"gracePeriodSeconds": 0})).await?;
    holds("a forced deletion is done at once", matches!(forced.code, 200 | 404))
}

async fn collections_are_deleted_by_selector(world: &World) -> Outcome {
    for (name, tier) in [("a", "front"), ("b", "front"), ("c", "back")] {
        world.map(name, json!({"labels": {"tier": tier}}), json!({})).await?;
    }
    let gone = world.delete(&world.core("configmaps?labelSelector=tier=front")).await?;
    at(gone.ok()?, "/kind", json!("ConfigMapList"))?;
    equal("the deleted", &json!(names(&gone.body)), &json!(["a", "b"]))?;
    let left = world.get(&world.core("configmaps?labelSelector=tier")).await?;
    equal("the rest", &json!(names(left.ok()?)), &json!(["c"]))?;
    world.delete("/api/v1/namespaces").await?.refuses(405, "MethodNotAllowed", "the server does not allow this method")
}

async fn owners_are_named_in_full(world: &World) -> Outcome {
    let owner = |extra: Value| {
        let mut owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u", "controller": true});
        owner.as_object_mut().expect("it is one").extend(extra.as_object().cloned().unwrap_or_default());
        owner
    };
    let with = |owners: Value| json!({"metadata": {"name": "a", "ownerReferences": owners}});
    let maps = world.core("configmaps");
    let nameless = world.post(&maps, &with(json!([owner(json!({"name": ""}))]))).await?;
    nameless.refuses(422, "Invalid", "metadata.ownerReferences.name: Invalid value: \"\": must not be empty")?;
    let two = world.post(&maps, &with(json!([owner(json!({})), owner(json!({"name": "p", "uid": "v"}))]))).await?;
    two.refuses(422, "Invalid", "Only one reference can have Controller set to true")
}
