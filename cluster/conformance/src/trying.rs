//! Dry runs, field validation and warnings.

use serde_json::{Value, json};

use super::Broken;
use super::promises;
use super::world::{
    APPLY, Answer, JSON, JSON_PATCH, MERGE, NO_NODE, Outcome, STRATEGIC, World, at, deployment,
    equal, holds, revision, text, types_and_names, version,
};

promises! { "trying":
    a_dry_run_creates_nothing,
    a_dry_run_changes_nothing,
    a_dry_run_deletes_nothing,
    a_dry_run_of_a_subresource_changes_nothing,
    a_dry_run_causes_no_watch_events,
    a_dry_run_validates_like_a_write,
    only_dry_run_all_is_supported,
    unknown_fields_cause_warnings_or_errors,
    duplicate_fields_cause_warnings_or_errors,
    unknown_fields_of_patches_cause_warnings_or_errors,
    unknown_field_validation_is_refused,
    duplicate_owner_references_are_dropped_with_a_warning,
}

async fn a_dry_run_creates_nothing(world: &World) -> Outcome {
    let maps = world.core("configmaps?dryRun=All");
    let tried = world
        .post(&maps, &json!({"metadata": {"generateName": "a-"}}))
        .await?;
    at(tried.created()?, "/metadata/resourceVersion", Value::Null)?;
    holds(
        "the dry run sets a uid",
        !text(&tried.body, "/metadata/uid").is_empty(),
    )?;
    let name = text(&tried.body, "/metadata/name");
    holds(
        "the dry run generates a name",
        name.starts_with("a-") && name.len() == 7,
    )?;
    world
        .get(&world.core(&format!("configmaps/{name}")))
        .await?
        .is(404, "NotFound")?;
    let applied = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}});
    world
        .patch(
            &world.core("configmaps/b?dryRun=All&fieldManager=m"),
            APPLY,
            &applied,
        )
        .await?
        .created()?;
    world
        .get(&world.core("configmaps/b"))
        .await?
        .is(404, "NotFound")?;
    let lease = world.group("coordination.k8s.io/v1", "leases/a");
    world
        .put(
            &format!("{lease}?dryRun=All"),
            &json!({"metadata": {"name": "a"}}),
        )
        .await?
        .created()?;
    world.get(&lease).await?.is(404, "NotFound").map(|_| ())
}

async fn a_dry_run_changes_nothing(world: &World) -> Outcome {
    let made = world.map("a", json!({}), json!({"k": "1"})).await?;
    let path = world.core("configmaps/a");
    let change = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "2"}});
    let operations = json!([{"op": "replace", "path": "/data/k", "value": "2"}]);
    let cases = [
        ("PUT", "", JSON, &change),
        ("PATCH", "", MERGE, &change),
        ("PATCH", "", STRATEGIC, &change),
        ("PATCH", "", JSON_PATCH, &operations),
        ("PATCH", "&fieldManager=m&force=true", APPLY, &change),
    ];
    for (method, query, content_type, body) in cases {
        let tried = world
            .ask(
                method,
                &format!("{path}?dryRun=All{query}"),
                content_type,
                body,
            )
            .await?;
        at(tried.ok()?, "/data/k", json!("2"))?;
    }
    at(
        world.get(&path).await?.ok()?,
        "/metadata/resourceVersion",
        json!(version(&made)),
    )
}

async fn a_dry_run_deletes_nothing(world: &World) -> Outcome {
    world
        .map("a", json!({"labels": {"x": "y"}}), json!({}))
        .await?;
    let path = world.core("configmaps/a");
    world.delete(&format!("{path}?dryRun=All")).await?.ok()?;
    world
        .delete_with(&path, &json!({"dryRun": ["All"]}))
        .await?
        .ok()?;
    world
        .delete(&world.core("configmaps?dryRun=All&labelSelector=x=y"))
        .await?
        .ok()?;
    let still = world.get(&path).await?;
    at(still.ok()?, "/metadata/deletionTimestamp", Value::Null)
}

async fn a_dry_run_of_a_subresource_changes_nothing(world: &World) -> Outcome {
    world.deployment("a").await?;
    let scale = world.apps("deployments/a/scale");
    let scaled = world
        .merge(
            &format!("{scale}?dryRun=All"),
            &json!({"spec": {"replicas": 5}}),
        )
        .await?;
    at(scaled.ok()?, "/spec/replicas", json!(5))?;
    at(
        world.get(&scale).await?.ok()?,
        "/spec/replicas",
        Value::Null,
    )?;
    world.pod("a", json!({})).await?;
    let status = world.core("pods/a/status?dryRun=All");
    at(
        world
            .merge(&status, &json!({"status": {"message": "x"}}))
            .await?
            .ok()?,
        "/status/message",
        json!("x"),
    )?;
    let binding = json!({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": NO_NODE}});
    world
        .post(&world.core("pods/a/binding?dryRun=All"), &binding)
        .await?
        .created()?;
    world
        .post(
            &world.core("pods/a/eviction?dryRun=All"),
            &json!({"metadata": {"name": "a"}}),
        )
        .await?
        .created()?;
    let pod = world.get(&world.core("pods/a")).await?;
    at(pod.ok()?, "/spec/nodeName", Value::Null)?;
    at(&pod.body, "/status/message", Value::Null)?;
    at(&pod.body, "/metadata/deletionTimestamp", Value::Null)
}

async fn a_dry_run_causes_no_watch_events(world: &World) -> Outcome {
    let made = world
        .map("a", json!({"labels": {"x": "y"}}), json!({}))
        .await?;
    let path = world.core("configmaps/a");
    world
        .merge(&format!("{path}?dryRun=All"), &json!({"data": {"k": "1"}}))
        .await?
        .ok()?;
    world.delete(&format!("{path}?dryRun=All")).await?.ok()?;
    let new = json!({"metadata": {"name": "b", "labels": {"x": "y"}}});
    world
        .post(&world.core("configmaps?dryRun=All"), &new)
        .await?
        .created()?;
    let query = format!("labelSelector=x=y&resourceVersion={}", version(&made));
    equal(
        "frames",
        &types_and_names(&world.frames(&world.core("configmaps"), &query).await?),
        &json!([]),
    )
}

async fn a_dry_run_validates_like_a_write(world: &World) -> Outcome {
    let made = world.map("a", json!({}), json!({"k": "1"})).await?;
    let maps = world.core("configmaps");
    let exists = world
        .post(
            &format!("{maps}?dryRun=All"),
            &json!({"metadata": {"name": "a"}}),
        )
        .await?;
    exists.refuses(409, "AlreadyExists", "configmaps \"a\" already exists")?;
    let mut wrong = deployment("a");
    wrong["spec"]["replicas"] = json!(-1);
    world
        .post(&world.apps("deployments?dryRun=All"), &wrong)
        .await?
        .invalid("spec.replicas")?;
    let old =
        json!({"metadata": {"name": "a", "resourceVersion": (revision(&made) - 1).to_string()}});
    world
        .put(&format!("{maps}/a?dryRun=All"), &old)
        .await?
        .is(409, "Conflict")?;
    world
        .delete(&format!("{maps}/b?dryRun=All"))
        .await?
        .is(404, "NotFound")
        .map(|_| ())
}

async fn only_dry_run_all_is_supported(world: &World) -> Outcome {
    world.map("a", json!({}), json!({})).await?;
    let maps = world.core("configmaps?dryRun=Some");
    let map = world.core("configmaps/a?dryRun=Some");
    let body = json!({"metadata": {"name": "a"}});
    let cases = [
        ("POST", &maps, JSON, "CreateOptions"),
        ("PUT", &map, JSON, "UpdateOptions"),
        ("PATCH", &map, MERGE, "PatchOptions"),
    ];
    for (method, path, content_type, kind) in cases {
        let refused = world.ask(method, path, content_type, &body).await?;
        refused.invalid("dryRun: Unsupported value: ")?;
        refused.has("/details/kind", json!(kind))?;
    }
    world
        .delete(&map)
        .await?
        .invalid("dryRun: Unsupported value: ")
}

/// Creates a ConfigMap with these raw fields and this field validation.
async fn create(world: &World, validation: &str, fields: &str) -> Result<Answer, Broken> {
    let request =
        http::Request::post(world.core(&format!("configmaps?fieldValidation={validation}")))
            .header("content-type", JSON);
    world
        .send(
            request,
            format!("{{\"metadata\":{{\"generateName\":\"a-\"}},{fields}}}").into_bytes(),
        )
        .await
}

async fn unknown_fields_cause_warnings_or_errors(world: &World) -> Outcome {
    let fields = "\"dat\":{},\"binaryDat\":{}";
    for validation in ["", "Warn"] {
        let warned = create(world, validation, fields).await?;
        at(warned.created()?, "/dat", Value::Null)?;
        equal(
            "warnings",
            &json!(warned.warnings()),
            &json!(["unknown field \"dat\"", "unknown field \"binaryDat\""]),
        )?;
    }
    let ignored = create(world, "Ignore", fields).await?;
    at(ignored.created()?, "/dat", Value::Null)?;
    equal("warnings", &json!(ignored.warnings()), &json!([]))?;
    let why = "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: unknown field \"dat\", unknown \
               field \"binaryDat\"";
    create(world, "Strict", fields)
        .await?
        .refuses(400, "BadRequest", why)
}

async fn duplicate_fields_cause_warnings_or_errors(world: &World) -> Outcome {
    let fields = "\"data\":{\"a\":\"1\",\"a\":\"2\"}";
    let warned = create(world, "Warn", fields).await?;
    at(warned.created()?, "/data", json!({"a": "2"}))?;
    equal(
        "warnings",
        &json!(warned.warnings()),
        &json!(["duplicate field \"data.a\""]),
    )?;
    create(world, "Strict", fields).await?.refuses(
        400,
        "BadRequest",
        "strict decoding error: duplicate field \"data.a\"",
    )
}

async fn unknown_fields_of_patches_cause_warnings_or_errors(world: &World) -> Outcome {
    world.deployment("a").await?;
    let patch = json!({"spec": {"bogus": 1}});
    for content_type in [MERGE, STRATEGIC] {
        let path =
            |validation: &str| world.apps(&format!("deployments/a?fieldValidation={validation}"));
        let warned = world.patch(&path("Warn"), content_type, &patch).await?;
        at(warned.ok()?, "/spec/bogus", Value::Null)?;
        equal(
            "warnings",
            &json!(warned.warnings()),
            &json!(["unknown field \"spec.bogus\""]),
        )?;
        equal(
            "warnings",
            &json!(
                world
                    .patch(&path("Ignore"), content_type, &patch)
                    .await?
                    .warnings()
            ),
            &json!([]),
        )?;
        let refused = world.patch(&path("Strict"), content_type, &patch).await?;
        refused.invalid(" \"\" is invalid: patch: Invalid value: ")?;
        refused.invalid("strict decoding error: unknown field \"spec.bogus\"")?;
    }
    Ok(())
}

async fn unknown_field_validation_is_refused(world: &World) -> Outcome {
    world.map("a", json!({}), json!({})).await?;
    let maps = world.core("configmaps?fieldValidation=Maybe");
    let map = world.core("configmaps/a?fieldValidation=Maybe");
    let body = json!({"metadata": {"name": "a"}});
    let cases = [
        ("POST", &maps, JSON, "CreateOptions"),
        ("PUT", &map, JSON, "UpdateOptions"),
        ("PATCH", &map, MERGE, "PatchOptions"),
    ];
    for (method, path, content_type, kind) in cases {
        let refused = world.ask(method, path, content_type, &body).await?;
        refused.invalid("fieldValidation: Unsupported value: \"Maybe\": supported values: ")?;
        refused.has("/details/kind", json!(kind))?;
    }
    Ok(())
}

async fn duplicate_owner_references_are_dropped_with_a_warning(world: &World) -> Outcome {
    let owner = world.map("owner", json!({}), json!({})).await?;
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]});
    let map = json!({"metadata": {"name": "a", "ownerReferences": [owner, owner]}});
    let made = world.post(&world.core("configmaps"), &map).await?;
    at(made.created()?, "/metadata/ownerReferences", json!([owner]))?;
    let warning_start = ".metadata.ownerReferences contains duplicate entries";
    holds(
        "a warning is sent",
        made.warnings()
            .iter()
            .any(|warning| warning.starts_with(warning_start)),
    )?;
    let put = world.put(&world.core("configmaps/a"), &map).await?;
    at(put.ok()?, "/metadata/ownerReferences", json!([owner]))
}
