//! Metadata that the server sets, resource versions and generations.

use http::Request;
use serde_json::{Value, json};

use super::promises;
use super::world::{
    JSON, KEEP, MERGE, Outcome, World, at, equal, holds, pod_template, revision, text, version,
    workload_spec,
};

promises! { "metadata":
    creation_sets_server_metadata,
    identity_and_creation_time_are_immutable,
    clients_cannot_write_deletion_fields,
    resource_versions_grow_across_types,
    unchanged_updates_keep_the_version,
    creation_with_a_resource_version_is_refused,
    body_and_path_must_name_the_same_object,
    default_managers_come_from_the_user_agent,
    generations_count_changes_of_the_spec,
    generations_of_workloads_ignore_metadata,
    generations_of_pods_count_deletion,
    generations_count_deletion_with_finalizers,
    unmanaged_generations_keep_the_value_of_creation,
    daemon_sets_count_template_generations,
}

async fn creation_sets_server_metadata(world: &World) -> Outcome {
    let metadata =
        json!({"uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z", "selfLink": "/x"});
    let made = world.map("a", metadata, json!({"k": "v"})).await?;
    at(&made, "/metadata/namespace", json!(world.namespace))?;
    at(&made, "/metadata/selfLink", Value::Null)?;
    let uid = uuid::Uuid::parse_str(text(&made, "/metadata/uid"));
    holds(
        "the uid is a new UUID of version 4",
        uid.is_ok_and(|uid| uid.get_version_num() == 4),
    )?;
    let created = text(&made, "/metadata/creationTimestamp");
    holds(
        "creationTimestamp is set by the server, in seconds",
        !created.starts_with("2001") && created.len() == 20,
    )?;
    holds("resourceVersion is a number", revision(&made) > 0)?;
    let deployment = world.deployment("a").await?;
    at(
        &deployment,
        "/spec/template/metadata/creationTimestamp",
        Value::Null,
    )?;
    equal(
        "stored object",
        world.get(&world.core("configmaps/a")).await?.ok()?,
        &made,
    )
}

async fn identity_and_creation_time_are_immutable(world: &World) -> Outcome {
    let made = world.map("a", json!({}), json!({})).await?;
    let path = world.core("configmaps/a");
    let mut other = made.clone();
    other["metadata"]["creationTimestamp"] = json!("2001-01-01T00:00:00Z");
    other["metadata"]["selfLink"] = json!("/x");
    other["data"] = json!({"k": "1"});
    let put = world.put(&path, &other).await?;
    at(
        put.ok()?,
        "/metadata/creationTimestamp",
        made["metadata"]["creationTimestamp"].clone(),
    )?;
    at(&put.body, "/metadata/selfLink", Value::Null)?;
    at(&put.body, "/metadata/uid", made["metadata"]["uid"].clone())?;
    let patched = world
        .merge(
            &path,
            &json!({"metadata": {"creationTimestamp": "2001-01-01T00:00:00Z"}}),
        )
        .await?;
    at(
        patched.ok()?,
        "/metadata/creationTimestamp",
        made["metadata"]["creationTimestamp"].clone(),
    )
}

async fn clients_cannot_write_deletion_fields(world: &World) -> Outcome {
    let going =
        json!({"deletionTimestamp": "2001-01-01T00:00:00Z", "deletionGracePeriodSeconds": 5});
    let has_no_deletion_fields = |map: &Value| {
        at(map, "/metadata/deletionTimestamp", Value::Null)?;
        at(map, "/metadata/deletionGracePeriodSeconds", Value::Null)
    };
    has_no_deletion_fields(&world.map("a", going.clone(), json!({})).await?)?;
    for (field, value) in going.as_object().into_iter().flatten() {
        let why = format!("metadata.{field}: Invalid value: {value}: field is immutable");
        world
            .merge(
                &world.core("configmaps/a"),
                &json!({"metadata": {field: value}}),
            )
            .await?
            .invalid(&why)?;
    }
    has_no_deletion_fields(world.get(&world.core("configmaps/a")).await?.ok()?)?;
    world
        .map("b", json!({"finalizers": [KEEP]}), json!({}))
        .await?;
    let path = world.core("configmaps/b");
    let gone = world.delete(&path).await?;
    let since = gone.ok()?["metadata"]["deletionTimestamp"].clone();
    let back = json!({"metadata": {"deletionTimestamp": null, "deletionGracePeriodSeconds": null}, "data": {"k": "1"}});
    let patched = world.merge(&path, &back).await?;
    at(patched.ok()?, "/metadata/deletionTimestamp", since)?;
    at(
        &patched.body,
        "/metadata/deletionGracePeriodSeconds",
        json!(0),
    )
}

async fn resource_versions_grow_across_types(world: &World) -> Outcome {
    let map = world.map("a", json!({}), json!({})).await?;
    let secret = world
        .post(&world.core("secrets"), &json!({"metadata": {"name": "a"}}))
        .await?
        .created()?
        .clone();
    let changed = world
        .merge(&world.core("configmaps/a"), &json!({"data": {"k": "1"}}))
        .await?
        .ok()?
        .clone();
    world.delete(&world.core("secrets/a")).await?.ok()?;
    let list = world.get(&world.core("secrets")).await?.ok()?.clone();
    let versions = [&map, &secret, &changed, &list].map(revision);
    holds(
        &format!("{versions:?} grow, and a deletion also increments them"),
        versions.is_sorted_by(|one, next| one < next),
    )
}

async fn unchanged_updates_keep_the_version(world: &World) -> Outcome {
    let made = world.map("a", json!({}), json!({"k": "1"})).await?;
    let path = world.core("configmaps/a");
    let same = json!({"metadata": {"name": "a"}, "data": {"k": "1"}});
    at(
        world.put(&path, &same).await?.ok()?,
        "/metadata/resourceVersion",
        json!(version(&made)),
    )?;
    at(
        world.merge(&path, &same).await?.ok()?,
        "/metadata/resourceVersion",
        json!(version(&made)),
    )?;
    let changed = world
        .put(
            &path,
            &json!({"metadata": {"name": "a"}, "data": {"k": "2"}}),
        )
        .await?;
    holds(
        "the resourceVersion grows",
        revision(changed.ok()?) > revision(&made),
    )
}

async fn creation_with_a_resource_version_is_refused(world: &World) -> Outcome {
    let map = json!({"metadata": {"name": "a", "resourceVersion": "1"}});
    let answer = world.post(&world.core("configmaps"), &map).await?;
    answer.refuses(
        500,
        "",
        "resourceVersion should not be set on objects to be created",
    )
}

async fn body_and_path_must_name_the_same_object(world: &World) -> Outcome {
    world.map("a", json!({}), json!({})).await?;
    let maps = world.core("configmaps");
    let map = world.core("configmaps/a");
    let other = json!({"metadata": {"name": "a", "namespace": "kube-system"}});
    let message =
        "the namespace of the provided object does not match the namespace sent on the request";
    world
        .post(&maps, &other)
        .await?
        .refuses(400, "BadRequest", message)?;
    world
        .put(&map, &other)
        .await?
        .refuses(400, "BadRequest", message)?;
    let message = "the name of the object (b) does not match the name on the URL (a)";
    world
        .put(&map, &json!({"metadata": {"name": "b"}}))
        .await?
        .refuses(400, "BadRequest", message)?;
    world.put(&map, &json!({"metadata": {}})).await?.refuses(
        400,
        "BadRequest",
        "name must be provided",
    )
}

async fn default_managers_come_from_the_user_agent(world: &World) -> Outcome {
    let request = Request::post(world.core("configmaps"))
        .header("content-type", JSON)
        .header("user-agent", "some-program/1.0 (x)");
    let made = world
        .send(
            request,
            b"{\"metadata\":{\"name\":\"a\"},\"data\":{\"k\":\"1\"}}".to_vec(),
        )
        .await?;
    at(
        made.created()?,
        "/metadata/managedFields/0/manager",
        json!("some-program"),
    )?;
    let path = world.core("configmaps/a?fieldManager=named");
    let request = Request::patch(path)
        .header("content-type", MERGE)
        .header("user-agent", "some-program/1.0");
    let patched = world
        .send(request, b"{\"data\":{\"l\":\"1\"}}".to_vec())
        .await?;
    let managers = patched.ok()?["metadata"]["managedFields"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let entry = |name: &str| {
        managers
            .iter()
            .find(|entry| entry["manager"] == name)
            .cloned()
            .unwrap_or_default()
    };
    let expected = json!({"operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"});
    super::world::includes("the entry of the given manager", &entry("named"), &expected)?;
    holds(
        "the entry has a time",
        text(&entry("named"), "/time").len() == 20,
    )
}

async fn generations_count_changes_of_the_spec(world: &World) -> Outcome {
    at(
        &world.deployment("a").await?,
        "/metadata/generation",
        json!(1),
    )?;
    let path = world.apps("deployments/a");
    // (patch, expected growth of the generation)
    let steps = [
        (json!({"metadata": {"labels": {"x": "y"}}}), 0),
        (json!({"metadata": {"annotations": {"x": "y"}}}), 1),
        (json!({"spec": {"paused": true}}), 1),
        (json!({"metadata": {"generation": 99}}), 0),
    ];
    let number = |object: &Value| {
        object["metadata"]["generation"]
            .as_i64()
            .unwrap_or_default()
    };
    for (patch, growth) in steps {
        // A controller may add one annotation in between, which also increments the generation.
        let before = number(world.get(&path).await?.ok()?);
        let after = number(world.merge(&path, &patch).await?.ok()?);
        let grown = after - before;
        holds(
            &format!("{patch} adds {growth}, not {grown}"),
            grown == growth || grown == growth + 1,
        )?;
    }
    Ok(())
}

async fn generations_of_workloads_ignore_metadata(world: &World) -> Outcome {
    let job = json!({"suspend": true, "template": {"spec": {"restartPolicy": "Never", "containers": pod_template(json!({}))["spec"]["containers"]}}});
    let mut set = workload_spec("s");
    set["serviceName"] = json!("s");
    let mut daemon = workload_spec("d");
    daemon["template"]["spec"]["nodeSelector"] = json!({"conformance.example.com/none": "such"});
    if let Some(fields) = daemon.as_object_mut() {
        fields.remove("replicas");
    }
    let ingress = json!({"defaultBackend": {"service": {"name": "a", "port": {"number": 80}}}});
    let cron = json!({"schedule": "0 0 1 1 *", "suspend": true, "jobTemplate": {"spec": job}});
    let controller = json!({"replicas": 0, "selector": {"app": "c"}, "template": workload_spec("c")["template"]});
    let budget = json!({"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}});
    let at_least = json!({"spec": {"minReadySeconds": 5}});
    // (path of the collection, spec, change of the spec)
    let cases = [
        (
            world.apps("replicasets"),
            workload_spec("r"),
            at_least.clone(),
        ),
        (world.apps("statefulsets"), set, at_least.clone()),
        (world.apps("daemonsets"), daemon, at_least.clone()),
        (world.core("replicationcontrollers"), controller, at_least),
        (
            world.group("batch/v1", "jobs"),
            job,
            json!({"spec": {"activeDeadlineSeconds": 5}}),
        ),
        (
            world.group("batch/v1", "cronjobs"),
            cron,
            json!({"spec": {"schedule": "0 0 2 1 *"}}),
        ),
        (
            world.group("policy/v1", "poddisruptionbudgets"),
            budget,
            json!({"spec": {"minAvailable": 2}}),
        ),
        (
            world.group("networking.k8s.io/v1", "ingresses"),
            ingress,
            json!({"spec": {"defaultBackend": {"service": {"name": "b"}}}}),
        ),
    ];
    for (path, spec, change) in cases {
        let made = world
            .post(&path, &json!({"metadata": {"name": "a"}, "spec": spec}))
            .await?;
        at(made.created()?, "/metadata/generation", json!(1))?;
        let path = format!("{path}/a");
        let annotated = world
            .merge(
                &path,
                &json!({"metadata": {"annotations": {"x": "y"}, "labels": {"x": "y"}}}),
            )
            .await?;
        annotated.ok()?;
        annotated.has("/metadata/generation", json!(1))?;
        let changed = world.merge(&path, &change).await?;
        changed.ok()?;
        changed.has("/metadata/generation", json!(2))?;
    }
    Ok(())
}

async fn generations_of_pods_count_deletion(world: &World) -> Outcome {
    world.pod("a", json!({"finalizers": [KEEP]})).await?;
    world.bind("a").await?;
    let path = world.core("pods/a");
    at(
        world.get(&path).await?.ok()?,
        "/metadata/generation",
        json!(1),
    )?;
    let image = json!([{"op": "replace", "path": "/spec/containers/0/image", "value": "registry.k8s.io/pause:3.9"}]);
    at(
        world
            .patch(&path, super::world::JSON_PATCH, &image)
            .await?
            .ok()?,
        "/metadata/generation",
        json!(2),
    )?;
    let condition = json!({"status": {"message": "x"}});
    at(
        world
            .merge(&format!("{path}/status"), &condition)
            .await?
            .ok()?,
        "/metadata/generation",
        json!(2),
    )?;
    at(
        world.delete(&path).await?.ok()?,
        "/metadata/generation",
        json!(3),
    )
}

async fn generations_count_deletion_with_finalizers(world: &World) -> Outcome {
    let budgets = world.group("policy/v1", "poddisruptionbudgets");
    let spec = json!({"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}});
    world.remove_finalizers_at_end(format!("{budgets}/a"));
    world
        .post(
            &budgets,
            &json!({"metadata": {"name": "a", "finalizers": [KEEP]}, "spec": spec}),
        )
        .await?
        .created()?;
    at(
        world.delete(&format!("{budgets}/a")).await?.ok()?,
        "/metadata/generation",
        json!(2),
    )?;
    at(
        world.delete(&format!("{budgets}/a")).await?.ok()?,
        "/metadata/generation",
        json!(2),
    )
}

async fn unmanaged_generations_keep_the_value_of_creation(world: &World) -> Outcome {
    let made = world.map("a", json!({"generation": 7}), json!({})).await?;
    at(&made, "/metadata/generation", json!(7))?;
    let changed = world
        .merge(
            &world.core("configmaps/a"),
            &json!({"metadata": {"generation": 9}, "data": {"k": "1"}}),
        )
        .await?;
    at(changed.ok()?, "/metadata/generation", json!(7))
}

async fn daemon_sets_count_template_generations(world: &World) -> Outcome {
    let mut spec = workload_spec("a");
    if let Some(fields) = spec.as_object_mut() {
        fields.remove("replicas");
    }
    spec["template"]["spec"]["nodeSelector"] = json!({"conformance.example.com/none": "such"});
    let made = world
        .post(
            &world.apps("daemonsets"),
            &json!({"metadata": {"name": "a"}, "spec": spec}),
        )
        .await?;
    let counted = |set: &Value| {
        set["metadata"]["annotations"]["deprecated.daemonset.template.generation"].clone()
    };
    equal("after creation", &counted(made.created()?), &json!("1"))?;
    let path = world.apps("daemonsets/a");
    let other = json!({"spec": {"template": {"metadata": {"labels": {"x": "y"}}}}});
    equal(
        "after a change of the template",
        &counted(world.merge(&path, &other).await?.ok()?),
        &json!("2"),
    )?;
    let slower = json!({"spec": {"minReadySeconds": 5}});
    equal(
        "after a change of another field",
        &counted(world.merge(&path, &slower).await?.ok()?),
        &json!("2"),
    )
}
