//! JSON patches and merge patches, and what any patch has to leave.

use serde_json::{Value, json};

use super::promises;
use super::world::{
    APPLY, JSON, JSON_PATCH, MERGE, Outcome, STRATEGIC, World, at, equal, revision, version,
};

promises! { "patching":
    merge_patches_set_and_remove,
    json_patches_apply_whole_or_not_at_all,
    json_patches_have_all_operations,
    json_patches_that_are_none_are_refused,
    patches_of_other_types_are_refused,
    only_apply_is_forced,
    a_version_in_a_patch_is_a_condition,
    a_uid_in_a_patch_stays,
    a_patch_leaves_an_object_of_its_kind,
    what_a_patch_leaves_is_completed_and_checked,
}

async fn merge_patches_set_and_remove(world: &World) -> Outcome {
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
        "a change is a new version",
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
        "containers of a replaced list",
        &json!(containers),
        &json!(1),
    )
}

async fn json_patches_apply_whole_or_not_at_all(world: &World) -> Outcome {
    let (made, path) = (
        world.map("a", json!({}), json!({"x": "1"})).await?,
        world.core("configmaps/a"),
    );
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

async fn json_patches_have_all_operations(world: &World) -> Outcome {
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

async fn json_patches_that_are_none_are_refused(world: &World) -> Outcome {
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

async fn patches_of_other_types_are_refused(world: &World) -> Outcome {
    world.map("a", json!({}), json!({})).await?;
    for content_type in [JSON, "text/plain"] {
        let refused = world
            .patch(&world.core("configmaps/a"), content_type, &json!({}))
            .await?;
        refused.refuses(415, "UnsupportedMediaType", "415: Unsupported Media Type")?;
    }
    Ok(())
}

async fn only_apply_is_forced(world: &World) -> Outcome {
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

async fn a_version_in_a_patch_is_a_condition(world: &World) -> Outcome {
    let (made, path) = (
        world.map("a", json!({}), json!({})).await?,
        world.core("configmaps/a"),
    );
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

async fn a_uid_in_a_patch_stays(world: &World) -> Outcome {
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

async fn a_patch_leaves_an_object_of_its_kind(world: &World) -> Outcome {
    world.deployment("a").await?;
    let path = world.apps("deployments/a");
    let wrong = world
        .merge(&path, &json!({"spec": {"replicas": "many"}}))
        .await?;
    wrong.invalid(" \"\" is invalid: patch: Invalid value")?;
    wrong.has("/details/causes/0/field", json!("patch"))
}

async fn what_a_patch_leaves_is_completed_and_checked(world: &World) -> Outcome {
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
