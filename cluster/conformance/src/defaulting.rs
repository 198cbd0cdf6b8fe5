//! Defaults of new objects. The checks use dry runs, because these also set defaults, and store
//! nothing.

use serde_json::{Value, json};

use super::Broken;
use super::promises;
use super::world::{Outcome, World, at, equal, holds, includes, text};

promises! { "defaulting":
    pods_get_defaults,
    containers_and_probes_get_defaults,
    pull_policies_depend_on_image_tags,
    volumes_get_defaults,
    pods_get_a_quality_of_service_class,
    deployments_get_defaults,
    replica_sets_and_controllers_get_defaults,
    daemon_sets_get_defaults,
    stateful_sets_get_defaults,
    jobs_get_defaults,
    services_get_defaults,
    headless_services_get_defaults,
    namespaces_get_defaults,
    secrets_get_defaults,
    nodes_get_defaults,
    some_kinds_get_no_defaults,
}

/// The object as a dry run returns it.
async fn completed(world: &World, path: &str, object: &Value) -> Result<Value, Broken> {
    let mut object = object.clone();
    if object["metadata"]["name"].is_null() {
        object["metadata"]["name"] = json!("a");
    }
    world
        .post_pod(&format!("{path}?dryRun=All"), &object)
        .await?
        .created()
        .cloned()
}

async fn pod(world: &World, spec: Value) -> Result<Value, Broken> {
    let mut pod = json!({"spec": {"containers": [{"name": "c", "image": "i"}]}});
    json_patch::merge(&mut pod["spec"], &spec);
    completed(world, &world.core("pods"), &pod).await
}

fn template() -> Value {
    json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}})
}

fn workload() -> Value {
    json!({"selector": {"matchLabels": {"app": "a"}}, "template": template()})
}

/// Defaults of pods and of pod templates.
fn completed_spec() -> Value {
    json!({
        "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler", "securityContext": {},
    })
}

async fn pods_get_defaults(world: &World) -> Outcome {
    let made = pod(world, json!({})).await?;
    includes("spec", &made["spec"], &completed_spec())?;
    at(&made, "/spec/enableServiceLinks", json!(true))?;
    let expected: Vec<Value> = ["not-ready", "unreachable"]
        .map(|key| json!({"key": format!("node.kubernetes.io/{key}"), "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}))
        .into();
    at(&made, "/spec/tolerations", json!(expected))?;
    at(&made, "/status/phase", json!("Pending"))?;
    at(&made, "/metadata/generation", json!(1))
}

async fn containers_and_probes_get_defaults(world: &World) -> Outcome {
    let container = json!({
        "name": "c", "image": "i:1", "ports": [{"containerPort": 80}], "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
        "livenessProbe": {"httpGet": {"port": 80}},
        "env": [{"name": "e", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
    });
    let made = pod(world, json!({"containers": [container]})).await?;
    let probe = json!({
        "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3,
        "httpGet": {"path": "/", "port": 80, "scheme": "HTTP"},
    });
    let expected = json!({
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File", "imagePullPolicy": "IfNotPresent",
        "ports": [{"containerPort": 80, "protocol": "TCP"}], "livenessProbe": probe,
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
        "env": [{"valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}],
    });
    includes("container", &made["spec"]["containers"][0], &expected)?;
    let plain = pod(world, json!({})).await?;
    at(&plain, "/spec/containers/0/resources", json!({}))
}

async fn pull_policies_depend_on_image_tags(world: &World) -> Outcome {
    for (image, policy) in [
        ("i", "Always"),
        ("i:latest", "Always"),
        ("i:1", "IfNotPresent"),
        ("r.io:5000/i", "Always"),
    ] {
        let made = pod(
            world,
            json!({"containers": [{"name": "c", "image": image}]}),
        )
        .await?;
        equal(
            image,
            &made["spec"]["containers"][0]["imagePullPolicy"],
            &json!(policy),
        )?;
    }
    Ok(())
}

async fn volumes_get_defaults(world: &World) -> Outcome {
    let cases = [
        (json!({}), json!({"emptyDir": {}})),
        (
            json!({"secret": {"secretName": "s"}}),
            json!({"secret": {"defaultMode": 420}}),
        ),
        (
            json!({"configMap": {"name": "m"}}),
            json!({"configMap": {"defaultMode": 420}}),
        ),
        (
            json!({"downwardAPI": {"items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.name"}}]}}),
            json!({"downwardAPI": {"defaultMode": 420, "items": [{"fieldRef": {"apiVersion": "v1"}}]}}),
        ),
        (
            json!({"projected": {"sources": [{"serviceAccountToken": {"path": "p"}}]}}),
            json!({"projected": {"defaultMode": 420, "sources": [{"serviceAccountToken": {"expirationSeconds": 3600}}]}}),
        ),
        (
            json!({"hostPath": {"path": "/p"}}),
            json!({"hostPath": {"type": ""}}),
        ),
    ];
    for (mut volume, expected) in cases {
        volume["name"] = json!("v");
        let made = pod(
            world,
            json!({"volumes": [volume], "serviceAccountName": "default"}),
        )
        .await?;
        includes("volume", &made["spec"]["volumes"][0], &expected)?;
    }
    Ok(())
}

async fn pods_get_a_quality_of_service_class(world: &World) -> Outcome {
    let all = json!({"cpu": "1", "memory": "1Gi"});
    let cases = [
        (json!({}), "BestEffort"),
        (json!({"requests": {"cpu": "1"}}), "Burstable"),
        (json!({"limits": all}), "Guaranteed"),
        (
            json!({"limits": all, "requests": {"cpu": "500m"}}),
            "Burstable",
        ),
    ];
    for (resources, class) in cases {
        let made = pod(
            world,
            json!({"containers": [{"name": "c", "image": "i", "resources": resources}]}),
        )
        .await?;
        equal(
            &resources.to_string(),
            &made["status"]["qosClass"],
            &json!(class),
        )?;
    }
    Ok(())
}

async fn deployments_get_defaults(world: &World) -> Outcome {
    let made = completed(
        world,
        &world.apps("deployments"),
        &json!({"spec": workload()}),
    )
    .await?;
    let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}});
    let expected = json!({"replicas": 1, "strategy": rolling, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600});
    includes("spec", &made["spec"], &expected)?;
    includes(
        "template",
        &made["spec"]["template"]["spec"],
        &completed_spec(),
    )?;
    at(&made, "/spec/template/spec/enableServiceLinks", Value::Null)?;
    at(&made, "/spec/template/spec/tolerations", Value::Null)?;
    at(&made, "/status", json!({}))
}

async fn replica_sets_and_controllers_get_defaults(world: &World) -> Outcome {
    let set = completed(
        world,
        &world.apps("replicasets"),
        &json!({"spec": workload()}),
    )
    .await?;
    at(&set, "/spec/replicas", json!(1))?;
    at(&set, "/metadata/labels", Value::Null)?;
    at(&set, "/status", json!({"replicas": 0}))?;
    let controller = completed(
        world,
        &world.core("replicationcontrollers"),
        &json!({"spec": {"template": template()}}),
    )
    .await?;
    at(&controller, "/spec/replicas", json!(1))?;
    at(&controller, "/spec/selector", json!({"app": "a"}))?;
    at(&controller, "/metadata/labels", json!({"app": "a"}))?;
    at(&controller, "/status", json!({"replicas": 0}))
}

async fn daemon_sets_get_defaults(world: &World) -> Outcome {
    let made = completed(
        world,
        &world.apps("daemonsets"),
        &json!({"spec": workload()}),
    )
    .await?;
    let rolling =
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}});
    includes(
        "spec",
        &made["spec"],
        &json!({"updateStrategy": rolling, "revisionHistoryLimit": 10}),
    )?;
    let status = json!({"currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0});
    at(&made, "/status", status)
}

async fn stateful_sets_get_defaults(world: &World) -> Outcome {
    let made = completed(
        world,
        &world.apps("statefulsets"),
        &json!({"spec": workload()}),
    )
    .await?;
    let expected = json!({
        "replicas": 1, "podManagementPolicy": "OrderedReady", "revisionHistoryLimit": 10, "serviceName": "",
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
    });
    includes("spec", &made["spec"], &expected)
}

async fn jobs_get_defaults(world: &World) -> Outcome {
    let mut template = template();
    template["spec"]["restartPolicy"] = json!("Never");
    let made = completed(
        world,
        &world.group("batch/v1", "jobs"),
        &json!({"spec": {"template": template}}),
    )
    .await?;
    let expected = json!({
        "parallelism": 1, "completions": 1, "backoffLimit": 6, "completionMode": "NonIndexed", "suspend": false,
        "podReplacementPolicy": "TerminatingOrFailed", "manualSelector": false,
    });
    includes("spec", &made["spec"], &expected)?;
    let uid = &made["metadata"]["uid"];
    at(
        &made,
        "/spec/selector",
        json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}),
    )?;
    let labels = json!({
        "app": "a", "batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": "a", "controller-uid": uid,
        "job-name": "a",
    });
    at(&made, "/spec/template/metadata/labels", labels)?;
    let many = completed(
        world,
        &world.group("batch/v1", "jobs"),
        &json!({"spec": {"parallelism": 3, "template": template}}),
    )
    .await?;
    at(&many, "/spec/completions", Value::Null)
}

async fn services_get_defaults(world: &World) -> Outcome {
    let services = world.core("services");
    let ports = json!([{"port": 80}]);
    let made = completed(
        world,
        &services,
        &json!({"spec": {"ports": ports, "selector": {"a": "b"}}}),
    )
    .await?;
    let expected = json!({
        "type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
    });
    includes("spec", &made["spec"], &expected)?;
    let address = text(&made, "/spec/clusterIP");
    holds(
        &format!("{address:?} is an address"),
        address.parse::<std::net::IpAddr>().is_ok(),
    )?;
    at(&made, "/spec/clusterIPs/0", json!(address))?;
    at(&made, "/spec/ipFamilyPolicy", json!("SingleStack"))?;
    holds(
        "ipFamilies has one element",
        made["spec"]["ipFamilies"]
            .as_array()
            .is_some_and(|families| families.len() == 1),
    )?;
    at(&made, "/status", json!({"loadBalancer": {}}))?;
    let port = completed(
        world,
        &services,
        &json!({"spec": {"type": "NodePort", "ports": ports}}),
    )
    .await?;
    let number = port["spec"]["ports"][0]["nodePort"]
        .as_i64()
        .unwrap_or_default();
    // A dry run allocates no port. It shows a number that services never get.
    equal("nodePort", &json!(number), &json!(32_769))?;
    at(&port, "/spec/externalTrafficPolicy", json!("Cluster"))
}

async fn headless_services_get_defaults(world: &World) -> Outcome {
    let services = world.core("services");
    let ports = json!([{"port": 80}]);
    let selected = json!({"spec": {"clusterIP": "None", "ports": ports, "selector": {"a": "b"}}});
    let made = completed(world, &services, &selected).await?;
    at(&made, "/spec/clusterIPs", json!(["None"]))?;
    at(&made, "/spec/ipFamilyPolicy", json!("SingleStack"))?;
    let made = completed(
        world,
        &services,
        &json!({"spec": {"clusterIP": "None", "ports": ports}}),
    )
    .await?;
    at(&made, "/spec/ipFamilyPolicy", json!("RequireDualStack"))?;
    let families = made["spec"]["ipFamilies"].as_array().map_or(0, Vec::len);
    equal("number of ipFamilies", &json!(families), &json!(2))
}

async fn namespaces_get_defaults(world: &World) -> Outcome {
    let name = format!("{}-other", world.namespace);
    let made = completed(
        world,
        "/api/v1/namespaces",
        &json!({"metadata": {"name": name}}),
    )
    .await?;
    at(
        &made,
        "/metadata/labels",
        json!({"kubernetes.io/metadata.name": name}),
    )?;
    at(&made, "/spec/finalizers", json!(["kubernetes"]))?;
    at(&made, "/status/phase", json!("Active"))
}

async fn secrets_get_defaults(world: &World) -> Outcome {
    let secret = json!({"stringData": {"k": "v"}, "data": {"l": "dw=="}});
    let made = completed(world, &world.core("secrets"), &secret).await?;
    at(&made, "/type", json!("Opaque"))?;
    at(&made, "/data", json!({"k": "dg==", "l": "dw=="}))?;
    at(&made, "/stringData", Value::Null)
}

async fn nodes_get_defaults(world: &World) -> Outcome {
    let node = completed(
        world,
        "/api/v1/nodes",
        &json!({"metadata": {"name": world.namespace}}),
    )
    .await?;
    at(
        &node,
        "/status/daemonEndpoints",
        json!({"kubeletEndpoint": {"Port": 0}}),
    )?;
    at(&node, "/status/nodeInfo/kubeletVersion", json!(""))
}

async fn some_kinds_get_no_defaults(world: &World) -> Outcome {
    let lease = completed(
        world,
        &world.group("coordination.k8s.io/v1", "leases"),
        &json!({}),
    )
    .await?;
    at(&lease, "/spec", json!({}))?;
    let spec = json!({"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}});
    let budget = completed(
        world,
        &world.group("policy/v1", "poddisruptionbudgets"),
        &json!({"spec": spec}),
    )
    .await?;
    at(&budget, "/spec", spec)?;
    let about = json!({"kind": "Pod", "namespace": world.namespace});
    let event = completed(
        world,
        &world.core("events"),
        &json!({"involvedObject": about}),
    )
    .await?;
    holds(
        "an unset firstTimestamp is null",
        event.get("firstTimestamp") == Some(&Value::Null),
    )
}
