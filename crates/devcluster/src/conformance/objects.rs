//! Creation, update, metadata, defaults, validation.

use serde_json::{Value, json};

use super::{JSON, Outcome, World, at, deployment, equal, holds, pod_template, promises, text, version};

promises! { "objects":
    creations_are_completed_by_the_server,
    generated_names_are_new,
    an_object_needs_a_name,
    what_exists_is_not_created_again,
    a_body_is_of_the_kind_of_its_path,
    names_and_namespaces_of_body_and_path_agree,
    a_version_at_birth_is_refused,
    stale_updates_conflict,
    what_is_missing_is_told_by_name,
    unchanged_updates_keep_the_version,
    generations_count_changes_of_the_spec,
    some_kinds_are_created_by_updates,
    some_kinds_are_updated_with_a_version_only,
    a_dry_run_stores_nothing,
    unknown_fields_are_dropped_told_or_refused,
    workloads_get_their_defaults,
    invalid_objects_are_refused_with_every_cause,
    what_is_immutable_stays,
    names_follow_the_rules,
}

async fn creations_are_completed_by_the_server(world: &World) -> Outcome {
    let metadata = json!({"uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z", "selfLink": "/x"});
    let made = world.map("a", metadata, json!({"k": "v"})).await?;
    at(&made, "/metadata/namespace", json!(world.namespace))?;
    at(&made, "/metadata/selfLink", Value::Null)?;
    holds("the uid is the server's", uuid::Uuid::parse_str(text(&made, "/metadata/uid")).is_ok())?;
    holds("the time is the server's", !text(&made, "/metadata/creationTimestamp").starts_with("2001"))?;
    holds("the version is a number", version(&made).parse::<u64>().is_ok())?;
    equal("what is stored", world.get(&world.core("configmaps/a")).await?.ok()?, &made)
}

async fn generated_names_are_new(world: &World) -> Outcome {
    let maps = world.core("configmaps");
    let mut names = Vec::new();
    for _ in 0..3 {
        let made = world.post(&maps, &json!({"metadata": {"generateName": "some-"}})).await?;
        names.push(text(made.created()?, "/metadata/name").to_owned());
    }
    let fits = |name: &String| name.len() == 10 && name[5..].bytes().all(|byte| b"bcdfghjklmnpqrstvwxz2456789".contains(&byte));
    holds("a name is its prefix and five letters", names.iter().all(fits))?;
    names.sort();
    names.dedup();
    holds("names differ", names.len() == 3)
}

async fn an_object_needs_a_name(world: &World) -> Outcome {
    let answer = world.post(&world.core("configmaps"), &json!({"metadata": {}})).await?;
    answer.refuses(422, "Invalid", "metadata.name: Required value: name or generateName is required")
}

async fn what_exists_is_not_created_again(world: &World) -> Outcome {
    world.map("a", json!({}), json!({})).await?;
    let again = world.post(&world.core("configmaps"), &json!({"metadata": {"name": "a"}})).await?;
    again.refuses(409, "AlreadyExists", "configmaps \"a\" already exists")?;
    again.has("/details", json!({"name": "a", "kind": "configmaps"}))
}

async fn a_body_is_of_the_kind_of_its_path(world: &World) -> Outcome {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}});
    let answer = world.post(&world.core("configmaps"), &secret).await?;
    answer.refuses(400, "BadRequest", "Secret in version \"v1\" cannot be handled as a ConfigMap")?;
    let wrong = json!({"metadata": {"name": "a"}, "data": 7});
    world.post(&world.core("configmaps"), &wrong).await?.refuses(400, "BadRequest", "cannot be handled as a ConfigMap")
}

async fn names_and_namespaces_of_body_and_path_agree(world: &World) -> Outcome {
    world.map("a", json!({}), json!({})).await?;
    let other = json!({"metadata": {"name": "b", "namespace": "kube-system"}});
    let message = "the namespace of the provided object does not match the namespace sent on the request";
    world.post(&world.core("configmaps"), &other).await?.refuses(400, "BadRequest", message)?;
    let message = "the name of the object (b) does not match the name on the URL (a)";
    world.put(&world.core("configmaps/a"), &json!({"metadata": {"name": "b"}})).await?.refuses(400, "BadRequest", message)
}

async fn a_version_at_birth_is_refused(world: &World) -> Outcome {
    let map = json!({"metadata": {"name": "a", "resourceVersion": "1"}});
    let answer = world.post(&world.core("configmaps"), &map).await?;
    answer.refuses(500, "", "resourceVersion should not be set on objects to be created")
}

async fn stale_updates_conflict(world: &World) -> Outcome {
    let (path, first) = (world.core("configmaps/a"), world.map("a", json!({}), json!({"k": "1"})).await?);
    let mut second = first.clone();
    second["data"]["k"] = json!("2");
    world.put(&path, &second).await?.ok()?;
    let stale = world.put(&path, &second).await?;
    let message = "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to the \
                   latest version and try again";
    stale.refuses(409, "Conflict", message)?;
    stale.has("/details", json!({"name": "a", "kind": "configmaps"}))?;
    let mut other = first.clone();
    other["metadata"]["uid"] = json!("00000000-0000-0000-0000-000000000000");
    world.put(&path, &other).await?.refuses(409, "Conflict", "Precondition failed: UID in precondition")
}

async fn what_is_missing_is_told_by_name(world: &World) -> Outcome {
    let missing = world.get(&world.group("apps/v1", "deployments/a")).await?;
    missing.refuses(404, "NotFound", "deployments.apps \"a\" not found")?;
    missing.has("/details", json!({"name": "a", "group": "apps", "kind": "deployments"}))?;
    let update = json!({"metadata": {"name": "a"}});
    world.put(&world.core("configmaps/a"), &update).await?.refuses(404, "NotFound", "configmaps \"a\" not found")?;
    world.delete(&world.core("configmaps/a")).await?.refuses(404, "NotFound", "configmaps \"a\" not found")
}

async fn unchanged_updates_keep_the_version(world: &World) -> Outcome {
    let made = world.map("a", json!({}), json!({"k": "1"})).await?;
    let path = world.core("configmaps/a");
    let same = world.put(&path, &json!({"metadata": {"name": "a"}, "data": {"k": "1"}})).await?;
    at(same.ok()?, "/metadata/resourceVersion", json!(version(&made)))?;
    let changed = world.put(&path, &json!({"metadata": {"name": "a"}, "data": {"k": "2"}})).await?;
    let number = |object: &Value| version(object).parse::<u64>().unwrap_or_default();
    holds("versions grow", number(changed.ok()?) > number(&made))
}

async fn generations_count_changes_of_the_spec(world: &World) -> Outcome {
    at(&world.deployment("a").await?, "/metadata/generation", json!(1))?;
    let path = world.group("apps/v1", "deployments/a");
    // (patch, generation)
    let steps = [
        (json!({"metadata": {"labels": {"x": "y"}}}), 1),
        (json!({"metadata": {"annotations": {"x": "y"}}}), 2),
        (json!({"spec": {"paused": true}}), 3),
    ];
    for (patch, generation) in steps {
        let changed = world.patch(&path, super::MERGE, &patch).await?;
        // A controller may annotate it meanwhile.
        let found = changed.ok()?["metadata"]["generation"].as_i64().unwrap_or_default();
        holds(&format!("{patch} leads to generation {generation}, not {found}"), found == generation || found == generation + 1)?;
    }
    Ok(())
}

async fn some_kinds_are_created_by_updates(world: &World) -> Outcome {
    let lease = json!({"metadata": {"name": "a"}, "spec": {"holderIdentity": "me"}});
    let made = world.put(&world.group("coordination.k8s.io/v1", "leases/a"), &lease).await?;
    at(made.created()?, "/spec/holderIdentity", json!("me"))
}

async fn some_kinds_are_updated_with_a_version_only(world: &World) -> Outcome {
    let lease = json!({"metadata": {"name": "a"}, "spec": {"holderIdentity": "me"}});
    let path = world.group("coordination.k8s.io/v1", "leases");
    world.post(&path, &lease).await?.created()?;
    let message = "metadata.resourceVersion: Invalid value: 0: must be specified for an update";
    world.put(&format!("{path}/a"), &lease).await?.refuses(422, "Invalid", message)
}

async fn a_dry_run_stores_nothing(world: &World) -> Outcome {
    let maps = world.core("configmaps");
    let tried = world.post(&format!("{maps}?dryRun=All"), &json!({"metadata": {"name": "a"}})).await?;
    at(tried.created()?, "/metadata/resourceVersion", Value::Null)?;
    world.get(&format!("{maps}/a")).await?.is(404, "NotFound")?;
    world.map("a", json!({}), json!({"k": "1"})).await?;
    let tried = world.patch(&format!("{maps}/a?dryRun=All"), super::MERGE, &json!({"data": {"k": "2"}})).await?;
    at(tried.ok()?, "/data/k", json!("2"))?;
    world.delete(&format!("{maps}/a?dryRun=All")).await?.ok()?;
    at(world.get(&format!("{maps}/a")).await?.ok()?, "/data/k", json!("1"))?;
    world.post(&format!("{maps}?dryRun=Some"), &json!({"metadata": {"name": "b"}})).await?.refuses(422, "Invalid", "dryRun")
}

async fn unknown_fields_are_dropped_told_or_refused(world: &World) -> Outcome {
    let maps = world.core("configmaps");
    let ask = async |mode: &str| {
        let body = json!({"metadata": {"generateName": "a-"}, "dat": {}});
        world.ask("POST", &format!("{maps}?fieldValidation={mode}"), JSON, &body).await
    };
    let warned = ask("Warn").await?;
    at(warned.created()?, "/dat", Value::Null)?;
    holds("Warn warns", warned.headers.get("warning").is_some_and(|text| text == "299 - \"unknown field \\\"dat\\\"\""))?;
    let ignored = ask("Ignore").await?;
    ignored.created()?;
    holds("Ignore is silent", !ignored.headers.contains_key("warning"))?;
    ask("Strict").await?.refuses(400, "BadRequest", "strict decoding error: unknown field \"dat\"")?;
    ask("Maybe").await?.refuses(422, "Invalid", "fieldValidation")
}

async fn workloads_get_their_defaults(world: &World) -> Outcome {
    let made = world.deployment("a").await?;
    let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}});
    at(&made, "/spec/strategy", rolling)?;
    at(&made, "/spec/revisionHistoryLimit", json!(10))?;
    at(&made, "/spec/progressDeadlineSeconds", json!(600))?;
    let template = &made["spec"]["template"]["spec"];
    at(template, "/restartPolicy", json!("Always"))?;
    at(template, "/terminationGracePeriodSeconds", json!(30))?;
    at(template, "/dnsPolicy", json!("ClusterFirst"))?;
    at(template, "/containers/0/imagePullPolicy", json!("IfNotPresent"))?;
    let pod = world.pod("a", json!({})).await?;
    at(&pod, "/spec/enableServiceLinks", json!(true))?;
    at(&pod, "/status/phase", json!("Pending"))?;
    at(&pod, "/status/qosClass", json!("BestEffort"))?;
    let tolerations = pod["spec"]["tolerations"].as_array().map_or(0, Vec::len);
    holds("pods tolerate nodes that are not ready for a while", tolerations == 2)
}

async fn invalid_objects_are_refused_with_every_cause(world: &World) -> Outcome {
    let mut wrong = deployment("a");
    wrong["spec"]["replicas"] = json!(-1);
    wrong["spec"]["template"] = pod_template(json!({"labels": {"app": "other"}}));
    let refused = world.post(&world.group("apps/v1", "deployments"), &wrong).await?;
    refused.refuses(422, "Invalid", "Deployment.apps \"a\" is invalid: [")?;
    refused.has("/details/kind", json!("Deployment"))?;
    let fields: Vec<&str> =
        refused.body["details"]["causes"].as_array().into_iter().flatten().map(|cause| text(cause, "/field")).collect();
    let told = |field: &str| holds(&format!("{field} is a cause"), fields.contains(&field));
    told("spec.replicas")?;
    told("spec.template.metadata.labels")
}

async fn what_is_immutable_stays(world: &World) -> Outcome {
    world.deployment("a").await?;
    let labels = json!({"x": "y"});
    let patch = json!({"spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}}});
    let refused = world.patch(&world.group("apps/v1", "deployments/a"), super::MERGE, &patch).await?;
    refused.refuses(422, "Invalid", "field is immutable")?;
    let map = json!({"metadata": {"name": "frozen"}, "immutable": true, "data": {"k": "1"}});
    world.post(&world.core("configmaps"), &map).await?.created()?;
    let refused = world.patch(&world.core("configmaps/frozen"), super::MERGE, &json!({"data": {"k": "2"}})).await?;
    refused.refuses(422, "Invalid", "field is immutable when `immutable` is set")
}

async fn names_follow_the_rules(world: &World) -> Outcome {
    for name in ["Upper", "under_score", "-dash", "a/b", "a b"] {
        let refused = world.post(&world.core("configmaps"), &json!({"metadata": {"name": name}})).await?;
        refused.refuses(422, "Invalid", "a lowercase RFC 1123 subdomain must consist of")?;
    }
    let labels = json!({"metadata": {"name": "a", "labels": {"a b": "c"}}});
    world.post(&world.core("configmaps"), &labels).await?.refuses(422, "Invalid", "metadata.labels: Invalid value")
}
