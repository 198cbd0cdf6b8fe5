//! Creation and replacement of whole objects.

use serde_json::{Value, json};

use super::Broken;
use super::promises;
use super::world::{KEEP, Outcome, World, at, deployment, equal, holds, text};

promises! { "writing":
    generated_names_are_unique,
    generated_names_truncate_long_prefixes,
    a_name_takes_precedence_over_generate_name,
    an_object_needs_a_name,
    existing_objects_are_not_created_again,
    terminating_objects_block_creation,
    creation_and_update_ignore_the_status,
    a_body_must_have_the_kind_of_its_path,
    kind_and_version_are_optional,
    stale_updates_conflict,
    updates_with_another_uid_conflict,
    not_found_errors_name_the_object,
    updates_without_a_version_are_unconditional,
    some_kinds_need_a_version_for_updates,
    some_cluster_scoped_kinds_need_a_version_for_updates,
    some_kinds_are_created_by_updates,
}

async fn generated_names_are_unique(world: &World) -> Outcome {
    let maps = world.core("configmaps");
    let mut names = Vec::new();
    for _ in 0..3 {
        let made = world
            .post(&maps, &json!({"metadata": {"generateName": "some-"}}))
            .await?;
        names.push(text(made.created()?, "/metadata/name").to_owned());
    }
    let fits = |name: &String| {
        name.len() == 10
            && name[5..]
                .bytes()
                .all(|byte| b"bcdfghjklmnpqrstvwxz2456789".contains(&byte))
    };
    holds(
        "a generated name is the prefix and five letters",
        names.iter().all(fits),
    )?;
    names.sort();
    names.dedup();
    holds("generated names differ", names.len() == 3)
}

async fn generated_names_truncate_long_prefixes(world: &World) -> Outcome {
    let made = world
        .post(
            &world.core("configmaps"),
            &json!({"metadata": {"generateName": "a".repeat(70)}}),
        )
        .await?;
    let name = text(made.created()?, "/metadata/name");
    holds(
        &format!("{name} starts with 58 letters of the prefix"),
        name.len() == 63 && name.starts_with(&"a".repeat(58)),
    )
}

async fn a_name_takes_precedence_over_generate_name(world: &World) -> Outcome {
    let made = world
        .map("a", json!({"generateName": "some-"}), json!({}))
        .await?;
    at(&made, "/metadata/name", json!("a"))?;
    at(&made, "/metadata/generateName", json!("some-"))
}

async fn an_object_needs_a_name(world: &World) -> Outcome {
    let answer = world
        .post(&world.core("configmaps"), &json!({"metadata": {}}))
        .await?;
    answer.invalid("metadata.name: Required value: name or generateName is required")
}

async fn existing_objects_are_not_created_again(world: &World) -> Outcome {
    world.map("a", json!({}), json!({})).await?;
    let again = world
        .post(
            &world.core("configmaps"),
            &json!({"metadata": {"name": "a"}}),
        )
        .await?;
    again.refuses(409, "AlreadyExists", "configmaps \"a\" already exists")?;
    again.has("/details", json!({"name": "a", "kind": "configmaps"}))
}

async fn terminating_objects_block_creation(world: &World) -> Outcome {
    world
        .map("a", json!({"finalizers": [KEEP]}), json!({}))
        .await?;
    world.delete(&world.core("configmaps/a")).await?.ok()?;
    let exists = world
        .post(
            &world.core("configmaps"),
            &json!({"metadata": {"name": "a"}}),
        )
        .await?;
    exists.refuses(
        409,
        "AlreadyExists",
        "object is being deleted: configmaps \"a\" already exists",
    )
}

async fn creation_and_update_ignore_the_status(world: &World) -> Outcome {
    let mut new = deployment("a");
    new["status"] = json!({"collisionCount": 7});
    let made = world.post(&world.apps("deployments"), &new).await?;
    at(made.created()?, "/status/collisionCount", Value::Null)?;
    let updated = world.put(&world.apps("deployments/a"), &new).await?;
    at(updated.ok()?, "/status/collisionCount", Value::Null)
}

async fn a_body_must_have_the_kind_of_its_path(world: &World) -> Outcome {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}});
    let why = "Secret in version \"v1\" cannot be handled as a ConfigMap";
    world
        .post(&world.core("configmaps"), &secret)
        .await?
        .refuses(400, "BadRequest", why)?;
    let wrong = json!({"metadata": {"name": "a"}, "data": 7});
    let why = "ConfigMap in version \"v1\" cannot be handled as a ConfigMap";
    world
        .post(&world.core("configmaps"), &wrong)
        .await?
        .refuses(400, "BadRequest", why)
}

async fn kind_and_version_are_optional(world: &World) -> Outcome {
    let made = world
        .post(
            &world.core("configmaps"),
            &json!({"metadata": {"name": "a"}}),
        )
        .await?;
    at(made.created()?, "/kind", json!("ConfigMap"))?;
    at(&made.body, "/apiVersion", json!("v1"))?;
    let named = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}});
    world
        .post(&world.core("configmaps"), &named)
        .await?
        .created()
        .map(|_| ())
}

async fn stale_updates_conflict(world: &World) -> Outcome {
    let path = world.core("configmaps/a");
    let first = world.map("a", json!({}), json!({"k": "1"})).await?;
    let mut second = first.clone();
    second["data"]["k"] = json!("2");
    world.put(&path, &second).await?.ok()?;
    let stale = world.put(&path, &second).await?;
    let message = "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to the \
                   latest version and try again";
    stale.refuses(409, "Conflict", message)?;
    stale.has("/details", json!({"name": "a", "kind": "configmaps"}))
}

async fn updates_with_another_uid_conflict(world: &World) -> Outcome {
    world.map("a", json!({}), json!({})).await?;
    let other = json!({"metadata": {"name": "a", "uid": "00000000-0000-0000-0000-000000000000"}});
    let why = "Precondition failed: UID in precondition: 00000000-0000-0000-0000-000000000000, UID in object meta: ";
    world
        .put(&world.core("configmaps/a"), &other)
        .await?
        .refuses(409, "Conflict", why)
}

async fn not_found_errors_name_the_object(world: &World) -> Outcome {
    let missing = world.get(&world.apps("deployments/a")).await?;
    missing.refuses(404, "NotFound", "deployments.apps \"a\" not found")?;
    missing.has(
        "/details",
        json!({"name": "a", "group": "apps", "kind": "deployments"}),
    )?;
    let map = world.core("configmaps/a");
    let update = json!({"metadata": {"name": "a"}});
    let why = "configmaps \"a\" not found";
    world
        .put(&map, &update)
        .await?
        .refuses(404, "NotFound", why)?;
    world
        .merge(&map, &update)
        .await?
        .refuses(404, "NotFound", why)?;
    world.delete(&map).await?.refuses(404, "NotFound", why)
}

async fn updates_without_a_version_are_unconditional(world: &World) -> Outcome {
    const WRITERS: usize = 10;
    world.map("a", json!({}), json!({})).await?;
    let path = &world.core("configmaps/a");
    let put = world
        .put(
            path,
            &json!({"metadata": {"name": "a"}, "data": {"k": "1"}}),
        )
        .await?;
    at(put.ok()?, "/data", json!({"k": "1"}))?;
    // The server repeats a patch that loses a race against another write.
    let writes = (0..WRITERS).map(|index| async move {
        world
            .merge(path, &json!({"data": {format!("k{index}"): "1"}}))
            .await?
            .ok()
            .map(|_| ())
    });
    let written: Result<Vec<()>, Broken> = futures::future::join_all(writes)
        .await
        .into_iter()
        .collect();
    written?;
    let map = world.get(path).await?;
    equal(
        "keys",
        &json!(
            map.ok()?["data"]
                .as_object()
                .map_or(0, serde_json::Map::len)
        ),
        &json!(WRITERS + 1),
    )
}

async fn some_kinds_need_a_version_for_updates(world: &World) -> Outcome {
    let budget = json!({"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}});
    let cases = [
        (
            world.group("coordination.k8s.io/v1", "leases"),
            json!({"holderIdentity": "me"}),
            "leases.coordination.k8s.io \"a\"",
        ),
        (
            world.group("policy/v1", "poddisruptionbudgets"),
            budget,
            "poddisruptionbudgets.policy \"a\"",
        ),
    ];
    for (path, spec, named) in cases {
        let object = json!({"metadata": {"name": "a"}, "spec": spec});
        let made = world.post(&path, &object).await?.created()?.clone();
        let path = format!("{path}/a");
        let why = format!(
            "{named} is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update"
        );
        world.put(&path, &object).await?.invalid(&why)?;
        let mut named = object.clone();
        named["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"].clone();
        let mut answer = world.put(&path, &named).await?;
        // A controller may write the status of the object meanwhile.
        while answer.code == 409 {
            let now = world.get(&path).await?.ok()?.clone();
            named["metadata"]["resourceVersion"] = now["metadata"]["resourceVersion"].clone();
            answer = world.put(&path, &named).await?;
        }
        answer.ok()?;
    }
    Ok(())
}

/// Cluster-scoped kinds, with objects that have no effect on the cluster.
async fn some_cluster_scoped_kinds_need_a_version_for_updates(world: &World) -> Outcome {
    let cases = [
        (
            "/apis/node.k8s.io/v1/runtimeclasses",
            json!({"handler": "none"}),
        ),
        (
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
            json!({"webhooks": []}),
        ),
        (
            "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
            json!({"webhooks": []}),
        ),
    ];
    for (path, object) in cases {
        let mut object = object;
        object["metadata"] = json!({"name": world.namespace});
        let one = format!("{path}/{}", world.namespace);
        world.delete_at_end(&one);
        let made = world.post(path, &object).await?.created()?.clone();
        world.put(&one, &object).await?.invalid(
            "metadata.resourceVersion: Invalid value: 0: must be specified for an update",
        )?;
        world.put(&one, &made).await?.ok()?;
    }
    Ok(())
}

async fn some_kinds_are_created_by_updates(world: &World) -> Outcome {
    let rbac = |resource: &str| world.group("rbac.authorization.k8s.io/v1", resource);
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "a"});
    let about = json!({"kind": "ConfigMap", "name": "x", "namespace": world.namespace});
    let cases = [
        (
            world.group("coordination.k8s.io/v1", "leases"),
            json!({"spec": {"holderIdentity": "me"}}),
        ),
        (world.core("endpoints"), json!({})),
        (world.core("limitranges"), json!({"spec": {"limits": []}})),
        (
            world.core("services"),
            json!({"spec": {"ports": [{"port": 80}]}}),
        ),
        (world.core("events"), json!({"involvedObject": about})),
        (rbac("roles"), json!({"rules": []})),
        (
            rbac("rolebindings"),
            json!({"roleRef": role, "subjects": []}),
        ),
    ];
    for (path, object) in cases {
        let mut object = object;
        object["metadata"] = json!({"name": "a"});
        let made = world.put(&format!("{path}/a"), &object).await?;
        at(made.created()?, "/metadata/name", json!("a"))?;
    }
    Ok(())
}
