//! Validation of objects, with upstream's messages. The checks use dry runs, because nothing needs
//! to be stored.

use serde_json::{Value, json};

use super::Broken;
use super::promises;
use super::world::{Answer, Outcome, World, at, deployment, equal, holds, text, workload_spec};

promises! { "validation":
    refusals_name_field_reason_and_value,
    refusals_list_every_cause,
    names_are_validated,
    labels_annotations_and_finalizers_are_validated,
    deployments_are_validated,
    other_workloads_are_validated,
    pods_are_validated,
    services_are_validated,
    leases_are_validated,
    events_must_involve_objects_of_their_namespace,
    immutable_fields_cannot_change,
    immutable_config_maps_and_secrets_cannot_change,
    few_fields_of_pods_can_change,
    selectors_of_replication_controllers_can_change,
    phases_of_namespaces_follow_their_deletion,
    addresses_of_services_are_immutable,
}

async fn tried(world: &World, path: &str, object: &Value) -> Result<Answer, Broken> {
    world.post_pod(&format!("{path}?dryRun=All"), object).await
}

/// Dry run of a new Deployment with these changes of its spec.
async fn tried_deployment(world: &World, spec: Value) -> Result<Answer, Broken> {
    let mut object = deployment("a");
    json_patch::merge(&mut object["spec"], &spec);
    tried(world, &world.apps("deployments"), &object).await
}

async fn tried_pod(world: &World, spec: Value) -> Result<Answer, Broken> {
    let mut pod =
        json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    json_patch::merge(&mut pod["spec"], &spec);
    tried(world, &world.core("pods"), &pod).await
}

/// The cause of the refusal for this field.
fn cause(answer: &Answer, field: &str) -> Value {
    let mut causes = answer.body["details"]["causes"]
        .as_array()
        .into_iter()
        .flatten();
    causes
        .find(|cause| cause["field"] == field)
        .cloned()
        .unwrap_or_default()
}

async fn refusals_name_field_reason_and_value(world: &World) -> Outcome {
    let mount = |name: &str| json!({"name": "c", "image": "i", "volumeMounts": [{"name": name, "mountPath": "/m"}]});
    let two = json!({"containers": [{"name": "c", "image": "i"}, {"name": "c", "image": "i"}]});
    // (spec of a pod, field, reason, message of the cause)
    let cases = [
        (
            json!({"containers": [{"name": "c"}]}),
            "spec.containers[0].image",
            "FieldValueRequired",
            "Required value",
        ),
        (
            json!({"containers": []}),
            "spec.containers",
            "FieldValueRequired",
            "Required value",
        ),
        (
            json!({"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 70_000}]}]}),
            "spec.containers[0].ports[0].containerPort",
            "FieldValueInvalid",
            "Invalid value: 70000: must be between 1 and 65535, inclusive",
        ),
        (
            json!({"restartPolicy": "Sometimes"}),
            "spec.restartPolicy",
            "FieldValueNotSupported",
            "Unsupported value: \"Sometimes\": supported values: \"Always\", \"OnFailure\", \"Never\"",
        ),
        (
            json!({"containers": [mount("nope")]}),
            "spec.containers[0].volumeMounts[0].name",
            "FieldValueNotFound",
            "Not found: \"nope\"",
        ),
        (
            two,
            "spec.containers[1].name",
            "FieldValueDuplicate",
            "Duplicate value: \"c\"",
        ),
    ];
    for (spec, field, reason, message) in cases {
        let refused = tried_pod(world, spec).await?;
        refused.invalid(&format!("{field}: {message}"))?;
        refused.has("/details/name", json!("a"))?;
        refused.has("/details/kind", json!("Pod"))?;
        equal(
            field,
            &cause(&refused, field),
            &json!({"reason": reason, "message": message, "field": field}),
        )?;
    }
    let recreate = json!({"strategy": {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}});
    let refused = tried_deployment(world, recreate).await?;
    at(
        &cause(&refused, "spec.strategy.rollingUpdate"),
        "/reason",
        json!("FieldValueForbidden"),
    )?;
    let data = json!({"metadata": {"name": "a"}, "data": {"k": "x".repeat(1 << 20), "l": "x"}});
    let refused = tried(world, &world.core("configmaps"), &data).await?;
    refused.invalid("Too long: may not be more than 1048576 bytes")?;
    refused.has("/details/causes/0/reason", json!("FieldValueTooLong"))
}

async fn refusals_list_every_cause(world: &World) -> Outcome {
    let template = json!({"metadata": {"labels": {"app": "other"}}});
    let refused = tried_deployment(world, json!({"replicas": -1, "template": template})).await?;
    refused.invalid("Deployment.apps \"a\" is invalid: [")?;
    refused.has("/details/kind", json!("Deployment"))?;
    refused.has("/details/group", json!("apps"))?;
    for field in ["spec.replicas", "spec.template.metadata.labels"] {
        holds(
            &format!("{field} has a cause"),
            cause(&refused, field).is_object(),
        )?;
    }
    Ok(())
}

async fn names_are_validated(world: &World) -> Outcome {
    let subdomain = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start \
                     and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '";
    for name in ["Upper", "under_score", "-dash", "a b", "a..b"] {
        tried(
            world,
            &world.core("configmaps"),
            &json!({"metadata": {"name": name}}),
        )
        .await?
        .invalid(subdomain)?;
    }
    let long = tried(
        world,
        &world.core("configmaps"),
        &json!({"metadata": {"name": "a".repeat(254)}}),
    )
    .await?;
    long.invalid("must be no more than 253 characters")?;
    let fits = tried(
        world,
        &world.core("configmaps"),
        &json!({"metadata": {"name": format!("{}.b", "a".repeat(251))}}),
    )
    .await?;
    fits.created()?;
    tried(
        world,
        "/api/v1/namespaces",
        &json!({"metadata": {"name": "a.b"}}),
    )
    .await?
    .invalid("must not contain dots")?;
    let set = json!({"metadata": {"name": "a.b"}, "spec": workload_spec("a")});
    tried(world, &world.apps("statefulsets"), &set)
        .await?
        .invalid("metadata.name: Invalid value: \"a.b\"")?;
    let service =
        |name: &str| json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}});
    tried(world, &world.core("services"), &service("a.b"))
        .await?
        .invalid("metadata.name: Invalid value: \"a.b\"")?;
    let with_digit = tried(world, &world.core("services"), &service("1a")).await?;
    // The gate RelaxedServiceNameValidation is on since 1.36.
    if world.minor().await? >= 36 {
        with_digit.created()?;
    } else {
        with_digit.invalid("a DNS-1035 label must consist of")?;
    }
    let container = tried_pod(
        world,
        json!({"containers": [{"name": "a.b", "image": "i"}]}),
    )
    .await?;
    container.invalid("spec.containers[0].name: Invalid value: \"a.b\"")
}

async fn labels_annotations_and_finalizers_are_validated(world: &World) -> Outcome {
    let cases = [
        (
            json!({"labels": {"a b": "c"}}),
            "metadata.labels: Invalid value: \"a b\"",
        ),
        (
            json!({"labels": {"a/b/c": "d"}}),
            "metadata.labels: Invalid value: \"a/b/c\"",
        ),
        (
            json!({"labels": {"a": "b c"}}),
            "metadata.labels: Invalid value: \"b c\"",
        ),
        (
            json!({"labels": {"a": "b".repeat(64)}}),
            "must be no more than 63",
        ),
        (
            json!({"annotations": {"a b": "c"}}),
            "metadata.annotations: Invalid value: \"a b\"",
        ),
        (
            json!({"annotations": {"a": "b".repeat(256 << 10)}}),
            "metadata.annotations: Too long: may not be more than 262144 bytes",
        ),
        (
            json!({"finalizers": ["orphan", "foregroundDeletion"]}),
            "finalizer orphan and foregroundDeletion cannot be both set",
        ),
        (
            json!({"finalizers": ["mine"]}),
            "name is neither a standard finalizer name nor is it fully qualified",
        ),
    ];
    for (metadata, why) in cases {
        let mut metadata = metadata;
        metadata["name"] = json!("a");
        tried(
            world,
            &world.core("configmaps"),
            &json!({"metadata": metadata}),
        )
        .await?
        .invalid(why)?;
    }
    let fine = json!({
        "name": "a", "labels": {"a.b/c_d": "", "e": "F-1.g"}, "annotations": {"A": "any text\n"},
        "finalizers": ["orphan", "kubernetes", "x.y/z"],
    });
    tried(world, &world.core("configmaps"), &json!({"metadata": fine}))
        .await?
        .created()
        .map(|_| ())
}

async fn deployments_are_validated(world: &World) -> Outcome {
    let never = json!({"template": {"spec": {"restartPolicy": "Never"}}});
    let rolling = |surge: Value, unavailable: Value| json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}});
    let no_strategy = "spec.strategy: Unsupported value: {\"Type\":\"Foo\",\"RollingUpdate\":null}: supported values: \"Recreate\", \
               \"RollingUpdate\"";
    let recreate = json!({"strategy": {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}});
    let cases = [
        (json!({"selector": null}), "spec.selector: Required value"),
        (
            json!({"selector": {"matchLabels": null}}),
            "empty selector is invalid for deployment",
        ),
        (
            json!({"template": {"metadata": {"labels": {"app": "b"}}}}),
            "`selector` does not match template `labels`",
        ),
        (
            never,
            "spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"",
        ),
        (
            json!({"replicas": -1}),
            "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            rolling(json!(0), json!(0)),
            "may not be 0 when `maxSurge` is 0",
        ),
        (
            rolling(json!(1), json!("101%")),
            "must not be greater than 100%",
        ),
        (
            rolling(json!("x%"), json!(1)),
            "spec.strategy.rollingUpdate.maxSurge: Invalid value: \"x%\"",
        ),
        (
            recreate,
            "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'",
        ),
        (json!({"strategy": {"type": "Foo"}}), no_strategy),
        (
            json!({"progressDeadlineSeconds": 5, "minReadySeconds": 5}),
            "must be greater than minReadySeconds",
        ),
    ];
    for (spec, why) in cases {
        tried_deployment(world, spec).await?.invalid(why)?;
    }
    Ok(())
}

async fn other_workloads_are_validated(world: &World) -> Outcome {
    let with = |change: Value| {
        let mut spec = workload_spec("a");
        json_patch::merge(&mut spec, &change);
        json!({"metadata": {"name": "a"}, "spec": spec})
    };
    let sets = world.apps("replicasets");
    let cases = [
        (json!({"selector": null}), "spec.selector: Required value"),
        (
            json!({"selector": {"matchLabels": null}}),
            "empty selector is invalid",
        ),
        (
            json!({"selector": {"matchLabels": {"app": "b"}}}),
            "`selector` does not match template `labels`",
        ),
        (
            json!({"template": {"spec": {"restartPolicy": "Never"}}}),
            "Unsupported value: \"Never\": supported values: \"Always\"",
        ),
    ];
    for (change, why) in cases {
        tried(world, &sets, &with(change)).await?.invalid(why)?;
    }
    let mut other = with(json!({}));
    other["spec"]["selector"] = json!({"app": "b"});
    let why = "`selector` does not match template `labels`";
    tried(world, &world.core("replicationcontrollers"), &other)
        .await?
        .invalid(why)?;
    let job =
        json!({"metadata": {"name": "a"}, "spec": {"template": workload_spec("a")["template"]}});
    let why = "spec.template.spec.restartPolicy: ";
    let refused = tried(world, &world.group("batch/v1", "jobs"), &job).await?;
    refused.invalid(why)?;
    refused.invalid("values: \"OnFailure\", \"Never\"")
}

async fn pods_are_validated(world: &World) -> Outcome {
    let init = json!({"initContainers": [{"name": "c", "image": "i"}]});
    let twice = json!({"volumes": [{"name": "v", "emptyDir": {}}, {"name": "v", "emptyDir": {}}]});
    let token = |source: Value| {
        let volume =
            json!({"name": "v", "projected": {"sources": [{"serviceAccountToken": source}]}});
        json!({"serviceAccountName": "default", "volumes": [volume]})
    };
    let cases = [
        (
            token(json!({})),
            "spec.volumes[0].projected.path: Required value",
        ),
        (
            token(json!({"path": "/p"})),
            "spec.volumes[0].projected.path: Invalid value: \"/p\": must be a relative path",
        ),
        (
            token(json!({"path": "p/../q"})),
            "spec.volumes[0].projected.path: Invalid value: \"p/../q\": must not contain '..'",
        ),
        (
            token(json!({"path": "p", "expirationSeconds": 599})),
            "spec.volumes[0].projected.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 599: may not specify a \
             duration less than 10 minutes",
        ),
        (init, "spec.initContainers[0].name: Duplicate value: \"c\""),
        (twice, "spec.volumes[1].name: Duplicate value: \"v\""),
        (
            json!({"containers": [{"image": "i"}]}),
            "spec.containers[0].name: Required value",
        ),
        (
            json!({"dnsPolicy": "Nobody"}),
            "spec.dnsPolicy: Unsupported value: \"Nobody\"",
        ),
        (
            json!({"activeDeadlineSeconds": -1}),
            "spec.activeDeadlineSeconds: Invalid value: -1",
        ),
    ];
    for (spec, why) in cases {
        tried_pod(world, spec).await?.invalid(why)?;
    }
    Ok(())
}

async fn services_are_validated(world: &World) -> Outcome {
    let service = |spec: Value| json!({"metadata": {"name": "a"}, "spec": spec});
    let cases = [
        (
            json!({"ports": [{"port": 80}, {"port": 81}]}),
            "spec.ports[0].name: Required value",
        ),
        (json!({"ports": []}), "spec.ports: Required value"),
        (
            json!({"ports": [{"port": 0}]}),
            "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
        ),
        (
            json!({"type": "Odd", "ports": [{"port": 80}]}),
            "spec.type: Unsupported value: \"Odd\"",
        ),
    ];
    for (spec, why) in cases {
        tried(world, &world.core("services"), &service(spec))
            .await?
            .invalid(why)?;
    }
    Ok(())
}

async fn leases_are_validated(world: &World) -> Outcome {
    let leases = world.group("coordination.k8s.io/v1", "leases");
    let cases = [
        (
            json!({"leaseDurationSeconds": 0}),
            "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
        ),
        (
            json!({"leaseTransitions": -1}),
            "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0",
        ),
    ];
    for (spec, why) in cases {
        tried(
            world,
            &leases,
            &json!({"metadata": {"name": "a"}, "spec": spec}),
        )
        .await?
        .invalid(why)?;
    }
    Ok(())
}

async fn events_must_involve_objects_of_their_namespace(world: &World) -> Outcome {
    let event = |namespace: &str| json!({"metadata": {"name": "a"}, "involvedObject": {"kind": "Pod", "name": "p", "namespace": namespace}});
    for namespace in ["", "default"] {
        let why = format!(
            "involvedObject.namespace: Invalid value: \"{namespace}\": does not match event.namespace"
        );
        tried(world, &world.core("events"), &event(namespace))
            .await?
            .invalid(&why)?;
    }
    tried(world, &world.core("events"), &event(&world.namespace))
        .await?
        .created()?;
    let mut clusterwide = event("");
    clusterwide["metadata"]["name"] = json!(world.namespace);
    tried(world, "/api/v1/namespaces/default/events", &clusterwide)
        .await?
        .created()?;
    let system = tried(world, "/api/v1/namespaces/kube-system/events", &clusterwide).await?;
    system.invalid("does not match event.namespace")
}

async fn immutable_fields_cannot_change(world: &World) -> Outcome {
    let labels = json!({"x": "y"});
    let other = json!({"spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}}});
    world.deployment("a").await?;
    let why = "spec.selector: Invalid value: ";
    for kind in ["deployments", "replicasets"] {
        if kind == "replicasets" {
            world
                .post(
                    &world.apps(kind),
                    &json!({"metadata": {"name": "a"}, "spec": workload_spec("a")}),
                )
                .await?
                .created()?;
        }
        let refused = world
            .merge(&world.apps(&format!("{kind}/a")), &other)
            .await?;
        refused.invalid(why)?;
        refused.invalid("field is immutable")?;
    }
    let set = json!({"metadata": {"name": "a"}, "spec": workload_spec("a")});
    world
        .post(&world.apps("statefulsets"), &set)
        .await?
        .created()?;
    let why = "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
               'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
    world
        .merge(
            &world.apps("statefulsets/a"),
            &json!({"spec": {"serviceName": "other"}}),
        )
        .await?
        .invalid(why)?;
    let mut template = workload_spec("a")["template"].clone();
    template["spec"]["restartPolicy"] = json!("Never");
    let jobs = world.group("batch/v1", "jobs");
    let job = json!({"metadata": {"name": "a"}, "spec": {"suspend": true, "template": template}});
    world.post(&jobs, &job).await?.created()?;
    for change in [
        json!({"completions": 7}),
        json!({"template": {"spec": {"hostNetwork": true}}}),
    ] {
        world
            .merge(&format!("{jobs}/a"), &json!({"spec": change}))
            .await?
            .invalid("field is immutable")?;
    }
    Ok(())
}

async fn immutable_config_maps_and_secrets_cannot_change(world: &World) -> Outcome {
    for plural in ["configmaps", "secrets"] {
        let frozen = json!({"metadata": {"name": "a"}, "immutable": true, "data": {"k": "MTIz"}});
        world.post(&world.core(plural), &frozen).await?.created()?;
        let path = world.core(&format!("{plural}/a"));
        for change in [json!({"data": {"k": "NDU2"}}), json!({"immutable": false})] {
            world
                .merge(&path, &change)
                .await?
                .invalid("field is immutable when `immutable` is set")?;
        }
        world
            .merge(&path, &json!({"metadata": {"labels": {"x": "y"}}}))
            .await?
            .ok()?;
    }
    let typed = world
        .merge(&world.core("secrets/a"), &json!({"type": "other"}))
        .await?;
    typed.invalid("type: Invalid value: \"other\": field is immutable")
}

async fn few_fields_of_pods_can_change(world: &World) -> Outcome {
    world
        .pod_of("a", json!({}), json!({"terminationGracePeriodSeconds": -1}))
        .await?;
    let path = world.core("pods/a");
    let forbidden =
        "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`";
    for spec in [
        json!({"hostNetwork": true}),
        json!({"schedulerName": "x"}),
        json!({"terminationGracePeriodSeconds": 5}),
    ] {
        world
            .merge(&path, &json!({"spec": spec}))
            .await?
            .invalid(forbidden)?;
    }
    let mut tolerations = world.get(&path).await?.ok()?["spec"]["tolerations"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    tolerations.push(json!({"key": "x", "operator": "Exists"}));
    let spec = json!({"activeDeadlineSeconds": 600, "tolerations": tolerations, "terminationGracePeriodSeconds": 1});
    let changed = world.merge(&path, &json!({"spec": spec})).await?;
    at(changed.ok()?, "/spec/activeDeadlineSeconds", json!(600))?;
    let fewer = world
        .merge(&path, &json!({"spec": {"tolerations": []}}))
        .await?;
    holds("existing tolerations cannot be removed", fewer.code == 422)
}

async fn selectors_of_replication_controllers_can_change(world: &World) -> Outcome {
    let template = workload_spec("a")["template"].clone();
    let controller =
        json!({"metadata": {"name": "a"}, "spec": {"replicas": 0, "template": template}});
    world
        .post(&world.core("replicationcontrollers"), &controller)
        .await?
        .created()?;
    let labels = json!({"app": "b"});
    let change =
        json!({"spec": {"selector": labels, "template": {"metadata": {"labels": labels}}}});
    let changed = world
        .merge(&world.core("replicationcontrollers/a"), &change)
        .await?;
    at(changed.ok()?, "/spec/selector", labels)
}

async fn phases_of_namespaces_follow_their_deletion(world: &World) -> Outcome {
    let path = format!("/api/v1/namespaces/{}/status", world.namespace);
    let refused = world
        .merge(&path, &json!({"status": {"phase": "Terminating"}}))
        .await?;
    refused.invalid("may only be 'Active' if `deletionTimestamp` is empty")
}

async fn addresses_of_services_are_immutable(world: &World) -> Outcome {
    let service = json!({"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}});
    let made = world
        .post(&world.core("services"), &service)
        .await?
        .created()?
        .clone();
    let path = world.core("services/a");
    let refused = world
        .merge(&path, &json!({"spec": {"clusterIP": "10.96.77.77"}}))
        .await?;
    refused.invalid("may not change once set")?;
    let put = world.put(&path, &service).await?;
    at(
        put.ok()?,
        "/spec/clusterIP",
        json!(text(&made, "/spec/clusterIP")),
    )
}
