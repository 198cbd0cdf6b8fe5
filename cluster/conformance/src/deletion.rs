//! Deletion of single objects and of collections.

use serde_json::{Value, json};

use super::Broken;
use super::promises;
use super::world::{KEEP, Outcome, World, at, equal, holds, names, revision, text};

promises! { "deletion":
    a_deletion_answers_with_a_status,
    some_deletions_answer_with_the_last_state,
    finalizers_delay_a_deletion,
    terminating_objects_get_no_new_finalizers,
    deletions_check_preconditions,
    preconditions_of_namespaces_have_their_own_message,
    propagation_policies_become_finalizers,
    some_kinds_orphan_dependents_by_default,
    delete_options_can_be_query_parameters,
    deletion_without_orphans_answers_202,
    invalid_delete_options_are_refused,
    unscheduled_pods_are_removed_at_once,
    finished_pods_are_removed_at_once,
    pods_get_a_grace_period,
    grace_periods_are_only_shortened,
    collections_are_deleted_by_selector,
    collection_deletions_apply_options_to_each_object,
    owner_references_must_be_complete,
}

async fn a_deletion_answers_with_a_status(world: &World) -> Outcome {
    let made = world.map("a", json!({}), json!({})).await?;
    let path = world.core("configmaps/a");
    let gone = world.delete(&path).await?;
    let details = json!({"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]});
    let expected = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details});
    equal("body of the answer", gone.ok()?, &expected)?;
    world.get(&path).await?.is(404, "NotFound")?;
    let next = world.map("a", json!({}), json!({})).await?;
    holds(
        "a new object has a new uid",
        next["metadata"]["uid"] != made["metadata"]["uid"],
    )?;
    world.deployment("a").await?;
    world
        .delete(&world.apps("deployments/a"))
        .await?
        .has("/details/group", json!("apps"))
}

async fn some_deletions_answer_with_the_last_state(world: &World) -> Outcome {
    let claim =
        json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let cases = [
        (
            "services",
            json!({"spec": {"ports": [{"port": 80}]}}),
            "Service",
        ),
        ("serviceaccounts", json!({}), "ServiceAccount"),
        (
            "podtemplates",
            json!({"template": super::world::pod_template(json!({}))}),
            "PodTemplate",
        ),
        (
            "resourcequotas",
            json!({"spec": {"hard": {"pods": "1000"}}}),
            "ResourceQuota",
        ),
        (
            "persistentvolumeclaims",
            json!({"spec": claim}),
            "PersistentVolumeClaim",
        ),
    ];
    // Servers protect claims with a finalizer, which only a controller removes.
    world.remove_finalizers_at_end(world.core("persistentvolumeclaims/a"));
    for (plural, object, kind) in cases {
        let mut object = object;
        object["metadata"] = json!({"name": "a"});
        world.post(&world.core(plural), &object).await?.created()?;
        let gone = world.delete(&world.core(&format!("{plural}/a"))).await?;
        at(gone.ok()?, "/kind", json!(kind))?;
        at(&gone.body, "/metadata/name", json!("a"))?;
    }
    world.pod("a", json!({})).await?;
    world
        .delete(&world.core("pods/a"))
        .await?
        .has("/kind", json!("Pod"))
}

async fn finalizers_delay_a_deletion(world: &World) -> Outcome {
    world
        .map("a", json!({"finalizers": [KEEP]}), json!({}))
        .await?;
    let path = world.core("configmaps/a");
    let kept = world.delete(&path).await?;
    at(kept.ok()?, "/kind", json!("ConfigMap"))?;
    let since = text(&kept.body, "/metadata/deletionTimestamp").to_owned();
    holds("deletionTimestamp is set", !since.is_empty())?;
    at(&kept.body, "/metadata/deletionGracePeriodSeconds", json!(0))?;
    let again = world.delete(&path).await?;
    at(again.ok()?, "/metadata/deletionTimestamp", json!(since))?;
    let last = world
        .merge(&path, &json!({"metadata": {"finalizers": null}}))
        .await?;
    at(last.ok()?, "/metadata/name", json!("a"))?;
    world.get(&path).await?.is(404, "NotFound").map(|_| ())
}

async fn terminating_objects_get_no_new_finalizers(world: &World) -> Outcome {
    world
        .map("a", json!({"finalizers": [KEEP]}), json!({}))
        .await?;
    let path = world.core("configmaps/a");
    world.delete(&path).await?.ok()?;
    let more = json!({"metadata": {"finalizers": [KEEP, "d.e/f"]}});
    let why = "no new finalizers can be added if the object is being deleted, found new finalizers []string{\"d.e/f\"}";
    world.merge(&path, &more).await?.invalid(why)
}

async fn deletions_check_preconditions(world: &World) -> Outcome {
    let made = world.map("a", json!({}), json!({})).await?;
    let path = world.core("configmaps/a");
    let with = |preconditions: Value| json!({"preconditions": preconditions});
    let other = world
        .delete_with(&path, &with(json!({"uid": "other"})))
        .await?;
    let why = "Operation cannot be fulfilled on ConfigMap \"a\": the UID in the precondition (other) does not match the UID in record";
    other.refuses(409, "Conflict", why)?;
    other.has("/details/kind", json!("ConfigMap"))?;
    let old = world
        .delete_with(&path, &with(json!({"resourceVersion": "1"})))
        .await?;
    old.refuses(
        409,
        "Conflict",
        "the ResourceVersion in the precondition (1) does not match the ResourceVersion in record",
    )?;
    old.refuses(409, "Conflict", "The object might have been modified")?;
    let metadata = &made["metadata"];
    let both =
        with(json!({"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}));
    world.delete_with(&path, &both).await?.ok().map(|_| ())
}

async fn preconditions_of_namespaces_have_their_own_message(world: &World) -> Outcome {
    let path = format!("/api/v1/namespaces/{}", world.namespace);
    let refused = world
        .delete_with(&path, &json!({"preconditions": {"uid": "other"}}))
        .await?;
    let why = format!(
        "Operation cannot be fulfilled on namespaces \"{}\": Precondition failed: UID in precondition: other, UID in object meta: ",
        world.namespace
    );
    refused.refuses(409, "Conflict", &why)
}

async fn propagation_policies_become_finalizers(world: &World) -> Outcome {
    let path = world.core("configmaps/a");
    let cases = [
        (
            json!({"propagationPolicy": "Foreground"}),
            Some("foregroundDeletion"),
        ),
        (json!({"propagationPolicy": "Orphan"}), Some("orphan")),
        (json!({"orphanDependents": true}), Some("orphan")),
        (json!({"propagationPolicy": "Background"}), None),
    ];
    for (options, finalizer) in cases {
        world
            .map("a", json!({"finalizers": [KEEP]}), json!({}))
            .await?;
        let kept = world.delete_with(&path, &options).await?;
        // The garbage collector may already have acted, but never before the answer.
        let finalizers = kept.ok()?["metadata"]["finalizers"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let policies: Vec<&Value> = finalizers.iter().filter(|one| **one != KEEP).collect();
        equal(
            &options.to_string(),
            &json!(policies),
            &json!(finalizer.into_iter().collect::<Vec<_>>()),
        )?;
        world
            .merge(&path, &json!({"metadata": {"finalizers": null}}))
            .await?
            .ok()?;
    }
    Ok(())
}

async fn some_kinds_orphan_dependents_by_default(world: &World) -> Outcome {
    let template = super::world::workload_spec("a")["template"].clone();
    let mut never = template.clone();
    never["spec"]["restartPolicy"] = json!("Never");
    let cases = [
        (
            world.core("replicationcontrollers"),
            json!({"replicas": 0, "template": template}),
        ),
        (
            world.group("batch/v1", "jobs"),
            json!({"suspend": true, "template": never}),
        ),
    ];
    for (path, spec) in cases {
        let object = json!({"metadata": {"name": "a", "finalizers": [KEEP]}, "spec": spec});
        let one = format!("{path}/a");
        world.remove_finalizers_at_end(&one);
        world.post(&path, &object).await?.created()?;
        let kept = world.delete(&one).await?;
        let finalizers = kept.ok()?["metadata"]["finalizers"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        holds(
            &format!("{path} adds the finalizer orphan"),
            finalizers.contains(&json!("orphan")),
        )?;
    }
    Ok(())
}

/// Status 202 tells older clients that the object still exists.
async fn deletion_without_orphans_answers_202(world: &World) -> Outcome {
    world
        .map("a", json!({"finalizers": [KEEP]}), json!({}))
        .await?;
    let kept = world
        .delete_with(
            &world.core("configmaps/a"),
            &json!({"orphanDependents": false}),
        )
        .await?;
    at(kept.is(202, "")?, "/kind", json!("ConfigMap"))
}

async fn delete_options_can_be_query_parameters(world: &World) -> Outcome {
    world
        .map("a", json!({"finalizers": [KEEP]}), json!({}))
        .await?;
    let kept = world
        .delete(&world.core("configmaps/a?propagationPolicy=Orphan"))
        .await?;
    let finalizers = kept.ok()?["metadata"]["finalizers"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    holds(
        "the policy of the query applies",
        finalizers.iter().any(|one| one == "orphan"),
    )?;
    world.pod("a", json!({})).await?;
    world.bind("a").await?;
    world
        .delete(&world.core("pods/a?gracePeriodSeconds=0"))
        .await?
        .ok()?;
    world
        .get(&world.core("pods/a"))
        .await?
        .is(404, "NotFound")
        .map(|_| ())
}

async fn invalid_delete_options_are_refused(world: &World) -> Outcome {
    world.map("a", json!({}), json!({})).await?;
    let cases = [
        (
            json!({"propagationPolicy": "Foo"}),
            "Unsupported value: \"Foo\": supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\"",
        ),
        (
            json!({"propagationPolicy": "Orphan", "orphanDependents": true}),
            "orphanDependents and deletionPropagation cannot be both set",
        ),
        (json!({"dryRun": ["Some"]}), "dryRun"),
    ];
    for (options, why) in cases {
        let refused = world
            .delete_with(&world.core("configmaps/a"), &options)
            .await?;
        refused.invalid(why)?;
        refused.has("/details/kind", json!("DeleteOptions"))?;
        refused.has("/details/group", json!("meta.k8s.io"))?;
    }
    world
        .get(&world.core("configmaps/a"))
        .await?
        .ok()
        .map(|_| ())
}

async fn unscheduled_pods_are_removed_at_once(world: &World) -> Outcome {
    for options in [json!({}), json!({"gracePeriodSeconds": 30})] {
        world.pod("a", json!({})).await?;
        world
            .delete_with(&world.core("pods/a"), &options)
            .await?
            .ok()?;
        world
            .get(&world.core("pods/a"))
            .await?
            .is(404, "NotFound")?;
    }
    Ok(())
}

async fn finished_pods_are_removed_at_once(world: &World) -> Outcome {
    for phase in ["Succeeded", "Failed"] {
        world.pod("a", json!({})).await?;
        world.bind("a").await?;
        world
            .merge(
                &world.core("pods/a/status"),
                &json!({"status": {"phase": phase}}),
            )
            .await?
            .ok()?;
        world.delete(&world.core("pods/a")).await?.ok()?;
        world
            .get(&world.core("pods/a"))
            .await?
            .is(404, "NotFound")?;
    }
    Ok(())
}

/// A pod on a missing node. The finalizer protects it from the pod garbage collector.
async fn bound(world: &World, name: &str) -> Outcome {
    world.pod(name, json!({"finalizers": [KEEP]})).await?;
    world.bind(name).await
}

async fn pods_get_a_grace_period(world: &World) -> Outcome {
    // (name, options, expected grace period in seconds)
    let cases = [
        ("default", json!({}), 30),
        ("explicit", json!({"gracePeriodSeconds": 7}), 7),
        ("below", json!({"gracePeriodSeconds": -1}), 1),
    ];
    for (name, options, seconds) in cases {
        bound(world, name).await?;
        let kept = world
            .delete_with(&world.core(&format!("pods/{name}")), &options)
            .await?;
        at(
            kept.ok()?,
            "/metadata/deletionGracePeriodSeconds",
            json!(seconds),
        )?;
        at(&kept.body, "/metadata/generation", json!(2))?;
        holds(
            "deletionTimestamp is set",
            !text(&kept.body, "/metadata/deletionTimestamp").is_empty(),
        )?;
    }
    Ok(())
}

async fn grace_periods_are_only_shortened(world: &World) -> Outcome {
    bound(world, "a").await?;
    let path = world.core("pods/a");
    let grace = |object: &Value| object["metadata"]["deletionGracePeriodSeconds"].clone();
    let first = world
        .delete_with(&path, &json!({"gracePeriodSeconds": 600}))
        .await?
        .ok()?
        .clone();
    equal(
        "grace period of the first deletion",
        &grace(&first),
        &json!(600),
    )?;
    for (asked, expected, earlier) in [
        (None, 600, 0),
        (Some(600), 600, 0),
        (Some(900), 600, 0),
        (Some(300), 300, 300),
    ] {
        let options = asked.map_or(json!({}), |seconds| json!({"gracePeriodSeconds": seconds}));
        let again = world.delete_with(&path, &options).await?.ok()?.clone();
        equal(&options.to_string(), &grace(&again), &json!(expected))?;
        let time =
            |object: &Value| text(object, "/metadata/deletionTimestamp").parse::<jiff::Timestamp>();
        let apart = time(&first)
            .and_then(|first| Ok(first - time(&again)?))
            .map_err(|error| Broken(error.to_string()))?;
        equal(
            "seconds between the deletion timestamps",
            &json!(apart.get_seconds()),
            &json!(earlier),
        )?;
        at(&again, "/metadata/generation", json!(2))?;
    }
    let forced = world
        .delete_with(&path, &json!({"gracePeriodSeconds": 0}))
        .await?;
    equal(
        "grace period of the forced deletion",
        &grace(forced.ok()?),
        &json!(0),
    )
}

async fn collections_are_deleted_by_selector(world: &World) -> Outcome {
    for (name, tier) in [("a", "front"), ("b", "front"), ("c", "back")] {
        world
            .map(name, json!({"labels": {"tier": tier}}), json!({}))
            .await?;
    }
    let gone = world
        .delete(&world.core("configmaps?labelSelector=tier=front"))
        .await?;
    at(gone.ok()?, "/kind", json!("ConfigMapList"))?;
    equal(
        "deleted objects",
        &json!(names(&gone.body)),
        &json!(["a", "b"]),
    )?;
    holds("the list has a resourceVersion", revision(&gone.body) > 0)?;
    let left = world
        .get(&world.core("configmaps?labelSelector=tier"))
        .await?;
    equal(
        "remaining objects",
        &json!(names(left.ok()?)),
        &json!(["c"]),
    )?;
    let gone = world
        .delete(&world.core("configmaps?fieldSelector=metadata.name=c"))
        .await?;
    equal(
        "objects deleted by field selector",
        &json!(names(gone.ok()?)),
        &json!(["c"]),
    )?;
    let none = world
        .delete(&world.core("configmaps?labelSelector=tier"))
        .await?;
    at(none.ok()?, "/items", json!([]))?;
    world.delete("/api/v1/namespaces").await?.refuses(
        405,
        "MethodNotAllowed",
        "the server does not allow this method",
    )
}

async fn collection_deletions_apply_options_to_each_object(world: &World) -> Outcome {
    for name in ["a", "b"] {
        world
            .map(
                name,
                json!({"labels": {"x": "y"}, "finalizers": [KEEP]}),
                json!({}),
            )
            .await?;
    }
    let maps = world.core("configmaps?labelSelector=x=y");
    world.delete(&format!("{maps}&dryRun=All")).await?.ok()?;
    let still = world.get(&world.core("configmaps/a")).await?;
    at(still.ok()?, "/metadata/deletionTimestamp", Value::Null)?;
    let gone = world
        .delete_with(&maps, &json!({"propagationPolicy": "Foreground"}))
        .await?;
    equal(
        "deleted objects",
        &json!(names(gone.ok()?)),
        &json!(["a", "b"]),
    )?;
    at(
        &gone.body,
        "/items/0/metadata/deletionTimestamp",
        Value::Null,
    )?;
    for name in ["a", "b"] {
        let kept = world
            .get(&world.core(&format!("configmaps/{name}")))
            .await?;
        holds(
            "deletionTimestamp is set",
            kept.ok()?["metadata"]["deletionTimestamp"].is_string(),
        )?;
    }
    Ok(())
}

async fn owner_references_must_be_complete(world: &World) -> Outcome {
    let owner = |name: &str, uid: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid, "controller": true});
    let with = |owners: Value| json!({"metadata": {"name": "a", "ownerReferences": owners}});
    let maps = world.core("configmaps");
    for (field, noun) in [
        ("name", "name"),
        ("kind", "kind"),
        ("apiVersion", "version"),
        ("uid", "uid"),
    ] {
        let mut lacking = owner("o", "u");
        lacking[field] = json!("");
        let refused = world.post(&maps, &with(json!([lacking]))).await?;
        refused.invalid("must not be empty")?;
        let causes = refused.body["details"]["causes"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let named = |cause: &Value| text(cause, "/field").starts_with("metadata.ownerReferences");
        holds(
            &format!("the cause names {noun}"),
            !causes.is_empty() && causes.iter().all(named),
        )?;
    }
    let two = world
        .post(&maps, &with(json!([owner("o", "u"), owner("p", "v")])))
        .await?;
    two.invalid(
        "Only one reference can have Controller set to true. Found \"true\" in references for ConfigMap/o and ConfigMap/p",
    )
}
