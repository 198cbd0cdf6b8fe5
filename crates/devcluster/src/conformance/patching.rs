//! Patches of all four kinds.

use serde_json::{Value, json};

use super::{APPLY, JSON, JSON_PATCH, MERGE, Outcome, STRATEGIC, World, at, holds, promises, version};

promises! { "patching":
    merge_patches_set_and_remove,
    json_patches_apply_whole_or_not_at_all,
    strategic_patches_merge_lists_by_key,
    strategic_patches_have_directives,
    patches_of_other_types_are_refused,
    a_version_in_a_patch_is_a_condition,
    a_patch_leaves_a_valid_object,
    apply_creates_and_owns_what_it_names,
    apply_conflicts_with_other_managers_unless_forced,
    what_is_applied_no_longer_goes,
    writes_are_recorded_by_manager,
}

async fn merge_patches_set_and_remove(world: &World) -> Outcome {
    world.map("a", json!({}), json!({"x": "1", "y": "2"})).await?;
    let patched = world.patch(&world.core("configmaps/a"), MERGE, &json!({"data": {"x": null, "z": "3"}})).await?;
    at(patched.ok()?, "/data", json!({"y": "2", "z": "3"}))
}

async fn json_patches_apply_whole_or_not_at_all(world: &World) -> Outcome {
    let (made, path) = (world.map("a", json!({}), json!({"x": "1"})).await?, world.core("configmaps/a"));
    let half = json!([{"op": "add", "path": "/data/y", "value": "2"}, {"op": "test", "path": "/data/x", "value": "7"}]);
    let why = "the server rejected our request due to an error in our request";
    world.patch(&path, JSON_PATCH, &half).await?.refuses(422, "Invalid", why)?;
    at(world.get(&path).await?.ok()?, "/metadata/resourceVersion", json!(version(&made)))?;
    let whole = json!([{"op": "test", "path": "/data/x", "value": "1"}, {"op": "move", "from": "/data/x", "path": "/data/y"}]);
    at(world.patch(&path, JSON_PATCH, &whole).await?.ok()?, "/data", json!({"y": "1"}))
}

fn containers(object: &Value) -> Vec<&str> {
    let containers = object["spec"]["template"]["spec"]["containers"].as_array().into_iter().flatten();
    containers.map(|container| super::text(container, "/name")).collect()
}

async fn strategic_patches_merge_lists_by_key(world: &World) -> Outcome {
    world.deployment("a").await?;
    let path = world.group("apps/v1", "deployments/a");
    let patch = |containers: Value| json!({"spec": {"template": {"spec": {"containers": containers}}}});
    let added = world.patch(&path, STRATEGIC, &patch(json!([{"name": "new", "image": "i:1"}]))).await?;
    holds("new elements come first", containers(added.ok()?) == ["new", "c"])?;
    let changed = world.patch(&path, STRATEGIC, &patch(json!([{"name": "c", "image": "i:2"}]))).await?;
    at(changed.ok()?, "/spec/template/spec/containers/1/image", json!("i:2"))?;
    let keyless = world.patch(&path, STRATEGIC, &patch(json!([{"image": "i:3"}]))).await?;
    keyless.refuses(500, "", "does not contain declared merge key: name")
}

async fn strategic_patches_have_directives(world: &World) -> Outcome {
    world.deployment("a").await?;
    let path = world.group("apps/v1", "deployments/a");
    let patch = |spec: Value| json!({"spec": {"template": {"spec": spec}}});
    let order = json!({
        "$setElementOrder/containers": [{"name": "c"}, {"name": "d"}],
        "containers": [{"name": "d", "image": "i"}],
    });
    let ordered = world.patch(&path, STRATEGIC, &patch(order)).await?;
    holds("elements are in the order asked for", containers(ordered.ok()?) == ["c", "d"])?;
    let gone = json!({"containers": [{"name": "c", "$patch": "delete"}]});
    holds("elements go", containers(world.patch(&path, STRATEGIC, &patch(gone)).await?.ok()?) == ["d"])?;
    let strategy = json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}});
    at(world.patch(&path, STRATEGIC, &strategy).await?.ok()?, "/spec/strategy", json!({"type": "Recreate"}))
}

async fn patches_of_other_types_are_refused(world: &World) -> Outcome {
    world.map("a", json!({}), json!({})).await?;
    let path = world.core("configmaps/a");
    world.patch(&path, JSON, &json!({})).await?.refuses(415, "UnsupportedMediaType", "415: Unsupported Media Type")?;
    let forced = world.patch(&format!("{path}?force=true"), MERGE, &json!({})).await?;
    forced.refuses(422, "Invalid", "may not be specified for non-apply patch")?;
    world.patch(&world.core("configmaps/none"), MERGE, &json!({})).await?.refuses(
        404,
        "NotFound",
        "configmaps \"none\" not found",
    )
}

async fn a_version_in_a_patch_is_a_condition(world: &World) -> Outcome {
    let (made, path) = (world.map("a", json!({}), json!({})).await?, world.core("configmaps/a"));
    let patch = |data: &str| json!({"metadata": {"resourceVersion": version(&made)}, "data": {"k": data}});
    world.patch(&path, MERGE, &patch("1")).await?.ok()?;
    world.patch(&path, MERGE, &patch("2")).await?.refuses(409, "Conflict", "the object has been modified")
}

async fn a_patch_leaves_a_valid_object(world: &World) -> Outcome {
    world.deployment("a").await?;
    let path = world.group("apps/v1", "deployments/a");
    let wrong = world.patch(&path, MERGE, &json!({"spec": {"replicas": "many"}})).await?;
    wrong.refuses(422, "Invalid", "patch: Invalid value")?;
    let other = world.patch(&path, MERGE, &json!({"metadata": {"uid": "1"}})).await?;
    other.refuses(422, "Invalid", "field is immutable")
}

async fn apply(world: &World, manager: &str, force: bool, data: Value) -> Result<super::Answer, super::Broken> {
    let path = world.core(&format!("configmaps/a?fieldManager={manager}{}", if force { "&force=true" } else { "" }));
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data});
    world.patch(&path, APPLY, &map).await
}

async fn apply_creates_and_owns_what_it_names(world: &World) -> Outcome {
    let made = apply(world, "one", false, json!({"k": "1"})).await?;
    at(made.created()?, "/metadata/managedFields/0/manager", json!("one"))?;
    at(&made.body, "/metadata/managedFields/0/operation", json!("Apply"))?;
    at(&made.body, "/metadata/managedFields/0/fieldsV1", json!({"f:data": {"f:k": {}}}))?;
    let again = apply(world, "one", false, json!({"k": "1"})).await?;
    at(again.ok()?, "/metadata/resourceVersion", json!(version(&made.body)))?;
    let nobody = json!({"apiVersion": "v1", "kind": "ConfigMap"});
    let refused = world.patch(&world.core("configmaps/a"), APPLY, &nobody).await?;
    refused.refuses(422, "Invalid", "is required for apply patch")
}

async fn apply_conflicts_with_other_managers_unless_forced(world: &World) -> Outcome {
    apply(world, "one", false, json!({"k": "1"})).await?.created()?;
    let conflict = apply(world, "two", false, json!({"k": "2"})).await?;
    conflict.refuses(409, "Conflict", "Apply failed with 1 conflict: conflict with \"one\": .data.k")?;
    conflict.has("/details/causes/0/reason", json!("FieldManagerConflict"))?;
    conflict.has("/details/causes/0/field", json!(".data.k"))?;
    apply(world, "three", false, json!({"k": "1"})).await?.ok()?;
    at(apply(world, "two", true, json!({"k": "2"})).await?.ok()?, "/data/k", json!("2"))
}

async fn what_is_applied_no_longer_goes(world: &World) -> Outcome {
    apply(world, "one", false, json!({"k": "1", "l": "1"})).await?.created()?;
    apply(world, "two", false, json!({"l": "1"})).await?.ok()?;
    let less = apply(world, "one", false, json!({})).await?;
    at(less.ok()?, "/data", json!({"l": "1"}))
}

async fn writes_are_recorded_by_manager(world: &World) -> Outcome {
    world
        .post(&world.core("configmaps?fieldManager=one"), &json!({"metadata": {"name": "a"}, "data": {"k": "1"}}))
        .await?
        .created()?;
    let path = world.core("configmaps/a?fieldManager=two");
    let patched = world.patch(&path, MERGE, &json!({"data": {"l": "1"}})).await?;
    let entries = patched.ok()?["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let fields = |manager: &str| {
        let entry = entries.iter().find(|entry| entry["manager"] == manager && entry["operation"] == "Update");
        entry.map_or(Value::Null, |entry| entry["fieldsV1"]["f:data"].clone())
    };
    super::equal("fields of the first", &fields("one"), &json!({".": {}, "f:k": {}}))?;
    super::equal("fields of the second", &fields("two"), &json!({"f:l": {}}))
}
