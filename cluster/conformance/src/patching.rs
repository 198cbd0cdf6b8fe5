//! JSON patches and merge patches, and rules for the result of any patch.

use serde_json::{Value, json};

use super::promises;
use super::world::{
    APPLY, JSON, JSON_PATCH, MERGE, Outcome, STRATEGIC, World, at, equal, revision, version,
};

promises! { "patching":
    merge_patches_set_and_remove_fields,
    json_patches_are_atomic,
    json_patches_support_all_operations,
    invalid_json_patches_are_refused,
    copies_of_json_patches_are_limited,
    unknown_patch_types_are_refused,
    only_apply_can_be_forced,
    a_resource_version_in_a_patch_is_a_precondition,
    a_patch_cannot_change_the_uid,
    a_patch_must_result_in_a_decodable_object,
    patched_objects_are_defaulted_and_validated,
}

async fn merge_patches_set_and_remove_fields(world: &World) -> Outcome {
    let made = world
        .map("a", json!({"finalizers": []}), json!({"x": "1", "y": "2"}))
        .await?;
    let path = world.core("configmaps/a");
    let patched = world
        .merge(&path, &json!({"data": {"x": null, "z": "3"}}))
        .await?;
    at(patched.ok()?, "/data", json!({"y": "2", "z": "3"}))?;
    let nothing = world.merge(&path, &json!({"data": {"no": null}})).await?;
    at(
        nothing.ok()?,
        "/metadata/resourceVersion",
        json!(version(&patched.body)),
    )?;
    super::world::holds(
        "a change increments the resourceVersion",
        revision(&patched.body) > revision(&made),
    )?;
    world.deployment("a").await?;
    let other =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "d", "image": "i"}]}}}});
    let replaced = world.merge(&world.apps("deployments/a"), &other).await?;
    let containers = replaced.ok()?["spec"]["template"]["spec"]["containers"]
        .as_array()
        .map_or(0, Vec::len);
    equal(
        "number of containers in the replaced list",
        &json!(containers),
        &json!(1),
    )
}

async fn json_patches_are_atomic(world: &World) -> Outcome {
    let made = world.map("a", json!({}), json!({"x": "1"})).await?;
    let path = world.core("configmaps/a");
    let half = json!([{"op": "add", "path": "/data/y", "value": "2"}, {"op": "test", "path": "/data/x", "value": "7"}]);
    let refused = world.patch(&path, JSON_PATCH, &half).await?;
    refused.invalid("the server rejected our request due to an error in our request")?;
    refused.has("/details", json!({}))?;
    at(
        world.get(&path).await?.ok()?,
        "/metadata/resourceVersion",
        json!(version(&made)),
    )
}

async fn json_patches_support_all_operations(world: &World) -> Outcome {
    world
        .map("a", json!({}), json!({"x": "1", "y": "2"}))
        .await?;
    let patch = json!([
        {"op": "test", "path": "/data/x", "value": "1"},
        {"op": "move", "from": "/data/x", "path": "/data/moved"},
        {"op": "copy", "from": "/data/y", "path": "/data/copied"},
        {"op": "replace", "path": "/data/y", "value": "3"},
        {"op": "add", "path": "/data/a~1b", "value": "4"},
        {"op": "remove", "path": "/data/a~1b"},
    ]);
    let patched = world
        .patch(&world.core("configmaps/a"), JSON_PATCH, &patch)
        .await?;
    at(
        patched.ok()?,
        "/data",
        json!({"moved": "1", "copied": "2", "y": "3"}),
    )
}

async fn invalid_json_patches_are_refused(world: &World) -> Outcome {
    world.map("a", json!({}), json!({})).await?;
    let path = world.core("configmaps/a");
    world
        .patch(&path, JSON_PATCH, &json!({"op": "add"}))
        .await?
        .refuses(400, "BadRequest", "")?;
    let many = vec![json!({"op": "test", "path": "/kind", "value": "ConfigMap"}); 10_001];
    world
        .patch(&path, JSON_PATCH, &json!(many))
        .await?
        .refuses(413, "RequestEntityTooLarge", "10000")?;
    world
        .patch(&path, JSON_PATCH, &json!(many[1..]))
        .await?
        .ok()
        .map(|_| ())
}

async fn copies_of_json_patches_are_limited(world: &World) -> Outcome {
    // 256 KiB of JSON, so that twelve copies have 3 MiB.
    let text = "x".repeat((256 << 10) - 2);
    world.map("a", json!({}), json!({"k": text})).await?;
    let path = world.core("configmaps/a");
    let mut patch = vec![json!({"op": "copy", "from": "/data/k", "path": "/data/k"}); 12];
    world.patch(&path, JSON_PATCH, &json!(patch)).await?.ok()?;
    patch.push(patch[0].clone());
    world
        .patch(&path, JSON_PATCH, &json!(patch))
        .await?
        .refuses(422, "Invalid", "due to an error in our request")
}

async fn unknown_patch_types_are_refused(world: &World) -> Outcome {
    world.map("a", json!({}), json!({})).await?;
    for content_type in [JSON, "text/plain"] {
        let refused = world
            .patch(&world.core("configmaps/a"), content_type, &json!({}))
            .await?;
        refused.refuses(415, "UnsupportedMediaType", "415: Unsupported Media Type")?;
    }
    Ok(())
}

async fn only_apply_can_be_forced(world: &World) -> Outcome {
    world.map("a", json!({}), json!({})).await?;
    for content_type in [MERGE, STRATEGIC] {
        let forced = world
            .patch(
                &world.core("configmaps/a?force=true"),
                content_type,
                &json!({}),
            )
            .await?;
        forced.invalid("force: Forbidden: may not be specified for non-apply patch")?;
        forced.has("/details/kind", json!("PatchOptions"))?;
    }
    Ok(())
}

async fn a_resource_version_in_a_patch_is_a_precondition(world: &World) -> Outcome {
    let made = world.map("a", json!({}), json!({})).await?;
    let path = world.core("configmaps/a");
    let patch = |data: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"k": data},
            "metadata": {"name": "a", "resourceVersion": version(&made)},
        })
    };
    world.merge(&path, &patch("1")).await?.ok()?;
    let modified = "the object has been modified; please apply your changes to the latest version and try again";
    for content_type in [MERGE, STRATEGIC] {
        world
            .patch(&path, content_type, &patch("2"))
            .await?
            .refuses(409, "Conflict", modified)?;
    }
    let applied = world
        .patch(
            &format!("{path}?fieldManager=m&force=true"),
            APPLY,
            &patch("2"),
        )
        .await?;
    applied.refuses(409, "Conflict", modified)
}

async fn a_patch_cannot_change_the_uid(world: &World) -> Outcome {
    world.deployment("a").await?;
    let other = world
        .merge(
            &world.apps("deployments/a"),
            &json!({"metadata": {"uid": "1"}}),
        )
        .await?;
    other.invalid("metadata.uid: Invalid value: \"1\": field is immutable")?;
    other.has("/details/causes/0/field", json!("metadata.uid"))
}

async fn a_patch_must_result_in_a_decodable_object(world: &World) -> Outcome {
    world.deployment("a").await?;
    let path = world.apps("deployments/a");
    let wrong = world
        .merge(&path, &json!({"spec": {"replicas": "many"}}))
        .await?;
    wrong.invalid(" \"\" is invalid: patch: Invalid value")?;
    wrong.has("/details/causes/0/field", json!("patch"))
}

async fn patched_objects_are_defaulted_and_validated(world: &World) -> Outcome {
    world.deployment("a").await?;
    let path = world.apps("deployments/a");
    let patch = json!({"spec": {"progressDeadlineSeconds": null, "revisionHistoryLimit": null}});
    let patched = world.merge(&path, &patch).await?;
    at(patched.ok()?, "/spec/progressDeadlineSeconds", json!(600))?;
    at(&patched.body, "/spec/revisionHistoryLimit", json!(10))?;
    let negative = world
        .merge(&path, &json!({"spec": {"replicas": -1}}))
        .await?;
    negative.invalid("Deployment.apps \"a\" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0")?;
    let shown = world.get(&path).await?;
    at(shown.ok()?, "/spec/replicas", json!(0))?;
    at(&shown.body, "/kind", Value::from("Deployment"))
}
