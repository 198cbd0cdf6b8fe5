//! Server-side apply and managed fields.

use serde_json::{Value, json};

use super::Broken;
use super::promises;
use super::world::{APPLY, Answer, MERGE, Outcome, World, at, equal, holds, text, version};

promises! { "applying":
    apply_creates_and_owns_its_fields,
    apply_needs_a_manager_and_no_managed_fields,
    apply_with_a_uid_does_not_create,
    apply_conflicts_with_other_managers_unless_forced,
    conflicts_name_manager_and_version,
    conflicts_name_the_subresource,
    fields_no_longer_applied_are_removed,
    writes_are_recorded_by_manager,
    writes_of_subresources_are_recorded_separately,
    list_elements_are_owned_by_key,
    unknown_fields_and_duplicate_keys_cannot_be_applied,
    apply_with_a_resource_version_is_conditional,
    managed_fields_can_be_reset,
    new_times_of_managed_fields_are_not_a_change,
    apply_without_a_change_sets_no_time,
}

async fn apply(world: &World, manager: &str, force: bool, data: Value) -> Result<Answer, Broken> {
    let path = world.core(&format!(
        "configmaps/a?fieldManager={manager}{}",
        if force { "&force=true" } else { "" }
    ));
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data});
    world.patch(&path, APPLY, &map).await
}

/// The managed fields entry of a manager and operation.
fn entry(object: &Value, manager: &str, operation: &str) -> Value {
    let entries = object["metadata"]["managedFields"]
        .as_array()
        .into_iter()
        .flatten();
    let mut entries =
        entries.filter(|entry| entry["manager"] == manager && entry["operation"] == operation);
    entries.next().cloned().unwrap_or_default()
}

async fn apply_creates_and_owns_its_fields(world: &World) -> Outcome {
    let made = apply(world, "one", false, json!({"k": "1"})).await?;
    equal(
        "number of entries",
        &json!(
            made.created()?["metadata"]["managedFields"]
                .as_array()
                .map_or(0, Vec::len)
        ),
        &json!(1),
    )?;
    let entry = entry(&made.body, "one", "Apply");
    at(&entry, "/apiVersion", json!("v1"))?;
    at(&entry, "/fieldsType", json!("FieldsV1"))?;
    at(&entry, "/fieldsV1", json!({"f:data": {"f:k": {}}}))?;
    let again = apply(world, "one", false, json!({"k": "1"})).await?;
    at(
        again.ok()?,
        "/metadata/resourceVersion",
        json!(version(&made.body)),
    )
}

async fn apply_needs_a_manager_and_no_managed_fields(world: &World) -> Outcome {
    let unmanaged = json!({"apiVersion": "v1", "kind": "ConfigMap"});
    let refused = world
        .patch(&world.core("configmaps/a"), APPLY, &unmanaged)
        .await?;
    refused.invalid("fieldManager: Required value: is required for apply patch")?;
    let entries = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "managedFields": [{"manager": "x"}]}});
    let refused = world
        .patch(&world.core("configmaps/a?fieldManager=m"), APPLY, &entries)
        .await?;
    refused.refuses(400, "BadRequest", "metadata.managedFields must be nil")
}

async fn apply_with_a_uid_does_not_create(world: &World) -> Outcome {
    let uid = "00000000-0000-0000-0000-000000000000";
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "uid": uid}});
    let refused = world
        .patch(&world.core("configmaps/a?fieldManager=m"), APPLY, &map)
        .await?;
    refused.refuses(
        409,
        "Conflict",
        "uid mismatch: the provided object specified uid",
    )
}

async fn apply_conflicts_with_other_managers_unless_forced(world: &World) -> Outcome {
    apply(world, "one", false, json!({"k": "1"}))
        .await?
        .created()?;
    let conflict = apply(world, "two", false, json!({"k": "2"})).await?;
    conflict.refuses(
        409,
        "Conflict",
        "Apply failed with 1 conflict: conflict with \"one\": .data.k",
    )?;
    let cause = json!({"reason": "FieldManagerConflict", "message": "conflict with \"one\"", "field": ".data.k"});
    conflict.has("/details/causes", json!([cause]))?;
    let shared = apply(world, "three", false, json!({"k": "1"})).await?;
    at(
        &entry(shared.ok()?, "three", "Apply"),
        "/fieldsV1",
        json!({"f:data": {"f:k": {}}}),
    )?;
    let forced = apply(world, "two", true, json!({"k": "2"})).await?;
    at(forced.ok()?, "/data/k", json!("2"))?;
    equal(
        "fields of the first manager",
        &entry(&forced.body, "one", "Apply")["fieldsV1"],
        &Value::Null,
    )
}

async fn conflicts_name_manager_and_version(world: &World) -> Outcome {
    apply(world, "one", false, json!({"k": "1", "l": "1"}))
        .await?
        .created()?;
    let two = apply(world, "two", false, json!({"k": "2", "l": "2"})).await?;
    two.refuses(
        409,
        "Conflict",
        "Apply failed with 2 conflicts: conflicts with \"one\":\n- .data.k\n- .data.l",
    )?;
    world
        .merge(
            &world.core("configmaps/a?fieldManager=patcher"),
            &json!({"data": {"m": "1"}}),
        )
        .await?
        .ok()?;
    let update = apply(world, "two", false, json!({"m": "2"})).await?;
    update.refuses(
        409,
        "Conflict",
        "Apply failed with 1 conflict: conflict with \"patcher\" using v1: .data.m",
    )
}

async fn conflicts_name_the_subresource(world: &World) -> Outcome {
    world.deployment("a").await?;
    let path = world.apps("deployments/a");
    world
        .merge(
            &format!("{path}/scale?fieldManager=scaler"),
            &json!({"spec": {"replicas": 1}}),
        )
        .await?
        .ok()?;
    let applied = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 3}});
    let conflict = world
        .patch(&format!("{path}?fieldManager=m"), APPLY, &applied)
        .await?;
    conflict.refuses(
        409,
        "Conflict",
        "conflict with \"scaler\" with subresource \"scale\"",
    )?;
    conflict.has("/details/causes/0/field", json!(".spec.replicas"))
}

async fn fields_no_longer_applied_are_removed(world: &World) -> Outcome {
    apply(world, "one", false, json!({"k": "1", "l": "1"}))
        .await?
        .created()?;
    apply(world, "two", false, json!({"l": "1"})).await?.ok()?;
    let less = apply(world, "one", false, json!({})).await?;
    at(less.ok()?, "/data", json!({"l": "1"}))
}

async fn writes_are_recorded_by_manager(world: &World) -> Outcome {
    let map = json!({"metadata": {"name": "a"}, "data": {"k": "1"}});
    world
        .post(&world.core("configmaps?fieldManager=one"), &map)
        .await?
        .created()?;
    let path = world.core("configmaps/a?fieldManager=two");
    let patched = world
        .patch(&path, MERGE, &json!({"data": {"l": "1"}}))
        .await?;
    let fields = |manager: &str| {
        Ok::<_, Broken>(entry(patched.ok()?, manager, "Update")["fieldsV1"]["f:data"].clone())
    };
    equal(
        "fields of the first manager",
        &fields("one")?,
        &json!({".": {}, "f:k": {}}),
    )?;
    equal(
        "fields of the second manager",
        &fields("two")?,
        &json!({"f:l": {}}),
    )?;
    let taken = world
        .patch(&path, MERGE, &json!({"data": {"k": "2"}}))
        .await?;
    let fields =
        |manager: &str| entry(&taken.body, manager, "Update")["fieldsV1"]["f:data"].clone();
    taken.ok()?;
    equal(
        "remaining fields of the first manager",
        &fields("one"),
        &json!({}),
    )?;
    equal(
        "fields of the second manager",
        &fields("two"),
        &json!({"f:k": {}, "f:l": {}}),
    )
}

async fn writes_of_subresources_are_recorded_separately(world: &World) -> Outcome {
    world.pod("a", json!({})).await?;
    let path = world.core("pods/a/status?fieldManager=reporter");
    let patched = world
        .merge(&path, &json!({"status": {"message": "x"}}))
        .await?;
    let entry = entry(patched.ok()?, "reporter", "Update");
    at(&entry, "/subresource", json!("status"))?;
    at(&entry, "/fieldsV1", json!({"f:status": {"f:message": {}}}))
}

async fn list_elements_are_owned_by_key(world: &World) -> Outcome {
    let container = json!({
        "name": "c", "image": "i", "args": ["x"], "env": [{"name": "e", "value": "v"}], "ports": [{"containerPort": 80, "protocol": "TCP"}],
    });
    let spec = json!({"schedulerName": "nobody", "containers": [container]});
    let labels = json!({"app": "a"});
    let template = json!({"metadata": {"labels": labels}, "spec": spec});
    let applied = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "finalizers": [super::world::KEEP]},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
    });
    world.remove_finalizers_at_end(world.apps("deployments/a"));
    let made = world
        .patch(&world.apps("deployments/a?fieldManager=m"), APPLY, &applied)
        .await?;
    let fields = &entry(made.created()?, "m", "Apply")["fieldsV1"];
    let finalizer = format!("v:\"{}\"", super::world::KEEP);
    equal(
        "finalizers",
        &fields["f:metadata"]["f:finalizers"],
        &json!({finalizer: {}}),
    )?;
    equal("the selector", &fields["f:spec"]["f:selector"], &json!({}))?;
    let container = &fields["f:spec"]["f:template"]["f:spec"]["f:containers"]["k:{\"name\":\"c\"}"];
    equal("a container", &container["."], &json!({}))?;
    equal("arguments", &container["f:args"], &json!({}))?;
    let port = json!({"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}, "f:protocol": {}}});
    equal("ports", &container["f:ports"], &port)?;
    let variable = json!({"k:{\"name\":\"e\"}": {".": {}, "f:name": {}, "f:value": {}}});
    equal("variables", &container["f:env"], &variable)
}

async fn unknown_fields_and_duplicate_keys_cannot_be_applied(world: &World) -> Outcome {
    world.deployment("a").await?;
    let containers = json!([{"name": "x", "image": "i"}, {"name": "x", "image": "i"}]);
    for spec in [
        json!({"bogus": 1}),
        json!({"template": {"spec": {"containers": containers}}}),
    ] {
        let applied = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": spec});
        for validation in ["", "&fieldValidation=Strict"] {
            let path = world.apps(&format!("deployments/a?fieldManager=m{validation}"));
            world.patch(&path, APPLY, &applied).await?.refuses(
                500,
                "",
                "failed to create typed patch object (",
            )?;
        }
    }
    Ok(())
}

async fn apply_with_a_resource_version_is_conditional(world: &World) -> Outcome {
    let made = apply(world, "m", false, json!({"k": "1"}))
        .await?
        .created()?
        .clone();
    let with = |version: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "resourceVersion": version}, "data": {"k": "2"}});
    let path = world.core("configmaps/a?fieldManager=m");
    world
        .patch(&path, APPLY, &with(version(&made)))
        .await?
        .ok()?;
    world
        .patch(&path, APPLY, &with(version(&made)))
        .await?
        .refuses(409, "Conflict", "the object has been modified")
}

async fn managed_fields_can_be_reset(world: &World) -> Outcome {
    apply(world, "m", false, json!({"k": "1"}))
        .await?
        .created()?;
    let path = world.core("configmaps/a");
    let reset = world
        .merge(&path, &json!({"metadata": {"managedFields": [{}]}}))
        .await?;
    at(reset.ok()?, "/metadata/managedFields", Value::Null)?;
    let patched = world.merge(&path, &json!({"data": {"l": "1"}})).await?;
    at(patched.ok()?, "/metadata/managedFields", Value::Null)?;
    let applied = apply(world, "m", true, json!({"k": "2"})).await?;
    holds(
        "an apply records fields again",
        entry(applied.ok()?, "m", "Apply").is_object(),
    )
}

async fn new_times_of_managed_fields_are_not_a_change(world: &World) -> Outcome {
    let made = world.map("a", json!({}), json!({"k": "1"})).await?;
    let mut same = made.clone();
    for entry in same["metadata"]["managedFields"]
        .as_array_mut()
        .into_iter()
        .flatten()
    {
        entry["time"] = json!("2001-01-01T00:00:00Z");
    }
    holds(
        "managed fields are recorded",
        text(&same, "/metadata/managedFields/0/time").starts_with("2001"),
    )?;
    let put = world.put(&world.core("configmaps/a"), &same).await?;
    at(
        put.ok()?,
        "/metadata/resourceVersion",
        json!(version(&made)),
    )
}

async fn apply_without_a_change_sets_no_time(world: &World) -> Outcome {
    let made = apply(world, "m", false, json!({"k": "1"})).await?;
    let since = entry(made.created()?, "m", "Apply")["time"].clone();
    let same = apply(world, "n", false, json!({"k": "1"})).await?;
    holds(
        "the new manager has an entry",
        entry(same.ok()?, "n", "Apply").is_object(),
    )?;
    at(&entry(&same.body, "n", "Apply"), "/time", Value::Null)?;
    at(&entry(&same.body, "m", "Apply"), "/time", since)?;
    let changed = apply(world, "n", false, json!({"k": "1", "l": "1"})).await?;
    holds(
        "the entry has a time",
        entry(changed.ok()?, "n", "Apply")["time"].is_string(),
    )
}
