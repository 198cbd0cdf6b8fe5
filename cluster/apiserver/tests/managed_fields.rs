//! Managed fields through the API: guarantees for clients of server-side apply, and limits on the
//! number of entries.

use std::time::Duration;

use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_devcluster::DevCluster;
use steersman_devcluster::status::Status;
use steersman_values::clock::Clock;

const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn clock() -> Clock {
    Clock::runtime("2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap())
}

async fn patch(cluster: &DevCluster, kind: &str, path: &str, body: Value) -> Result<Value, Status> {
    cluster
        .call(
            Method::PATCH,
            &format!("{MAPS}/{path}"),
            kind,
            body.to_string(),
        )
        .await
}

fn managers(object: &Value) -> Vec<(&str, &str)> {
    let entries = object["metadata"]["managedFields"]
        .as_array()
        .into_iter()
        .flatten();
    entries
        .map(|entry| {
            (
                entry["manager"].as_str().unwrap(),
                entry["operation"].as_str().unwrap(),
            )
        })
        .collect()
}

fn config(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data})
}

#[tokio::test(start_paused = true)]
async fn without_recorded_creations_entries_begin_at_the_first_apply() {
    let cluster = DevCluster::new(clock());
    let created = cluster.create(config(json!({"k": "1"}))).await.unwrap();
    assert_eq!(managers(&created), []);
    let patched = patch(&cluster, MERGE, "a", json!({"data": {"l": "1"}}))
        .await
        .unwrap();
    assert_eq!(managers(&patched), []);

    let refused = patch(
        &cluster,
        APPLY,
        "a?fieldManager=m",
        config(json!({"k": "2"})),
    )
    .await
    .unwrap_err();
    assert_eq!(
        refused.message,
        "Apply failed with 1 conflict: conflict with \"before-first-apply\" using v1: .data.k"
    );
    let applied = patch(
        &cluster,
        APPLY,
        "a?fieldManager=m&force=true",
        config(json!({"k": "2"})),
    )
    .await
    .unwrap();
    assert_eq!(
        managers(&applied),
        [("m", "Apply"), ("before-first-apply", "Update")]
    );
    let patched = patch(
        &cluster,
        MERGE,
        "a?fieldManager=u",
        json!({"data": {"l": "2"}}),
    )
    .await
    .unwrap();
    assert_eq!(
        managers(&patched),
        [
            ("m", "Apply"),
            ("before-first-apply", "Update"),
            ("u", "Update")
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn old_entries_are_merged() {
    let cluster = DevCluster::with_managed_fields(clock());
    cluster.create(config(json!({"k": "1"}))).await.unwrap();
    let mut last = Value::Null;
    for n in 0..30 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        last = patch(
            &cluster,
            MERGE,
            &format!("a?fieldManager=m{n}"),
            json!({"data": {format!("k{n}"): "1"}}),
        )
        .await
        .unwrap();
    }
    let found = managers(&last);
    assert_eq!(found.len(), 10, "{found:?}");
    assert_eq!((found[0].0, found[9].0), ("ancient-changes", "m29"));
    let ancient = &last["metadata"]["managedFields"][0]["fieldsV1"]["f:data"];
    assert_eq!(
        ancient.as_object().unwrap().len(),
        23,
        "all fields are kept: {ancient}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_repeated_apply_changes_no_version() {
    let cluster = DevCluster::with_managed_fields(clock());
    let first = patch(
        &cluster,
        APPLY,
        "a?fieldManager=m",
        config(json!({"k": "1"})),
    )
    .await
    .unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let again = patch(
        &cluster,
        APPLY,
        "a?fieldManager=m",
        config(json!({"k": "1"})),
    )
    .await
    .unwrap();
    assert_eq!(first, again);
    let forced = patch(
        &cluster,
        APPLY,
        "a?fieldManager=n&force=true",
        config(json!({"k": "1"})),
    )
    .await
    .unwrap();
    assert_ne!(
        first["metadata"]["resourceVersion"], forced["metadata"]["resourceVersion"],
        "a second owner is a change"
    );
}

#[tokio::test(start_paused = true)]
async fn kubectl_migrates_from_client_side_apply() {
    let cluster = DevCluster::with_managed_fields(clock());
    let last = config(json!({"k": "1"})).to_string();
    let mut object = config(json!({"k": "1", "other": "1"}));
    object["metadata"]["annotations"] =
        json!({"kubectl.kubernetes.io/last-applied-configuration": last});
    cluster.create(object).await.unwrap();
    let applied = patch(
        &cluster,
        APPLY,
        "a?fieldManager=kubectl",
        config(json!({"k": "2"})),
    )
    .await
    .unwrap();
    assert_eq!(applied["data"], json!({"k": "2", "other": "1"}));
    let refused = patch(
        &cluster,
        APPLY,
        "a?fieldManager=kubectl",
        config(json!({"k": "2", "other": "2"})),
    )
    .await
    .unwrap_err();
    assert!(
        refused.message.contains(".data.other"),
        "{}",
        refused.message
    );
    // The migration of kubectl then removes one entry with a patch of the entries.
    let entries = [
        json!({"op": "replace", "path": "/metadata/managedFields", "value": [applied["metadata"]["managedFields"][0]]}),
    ];
    let migrated = patch(
        &cluster,
        "application/json-patch+json",
        "a?fieldManager=kubectl",
        json!(entries),
    )
    .await
    .unwrap();
    assert_eq!(managers(&migrated), [("kubectl", "Apply")]);
    let reset = patch(
        &cluster,
        MERGE,
        "a",
        json!({"metadata": {"managedFields": [{}]}}),
    )
    .await
    .unwrap();
    assert_eq!(managers(&reset), []);
}

#[tokio::test(start_paused = true)]
async fn fields_dropped_from_an_apply_are_removed_unless_others_own_them() {
    let cluster = DevCluster::with_managed_fields(clock());
    let deployment = |containers: Value| {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
            "spec": {"selector": {"matchLabels": {"app": "d"}}, "template": {
                "metadata": {"labels": {"app": "d"}}, "spec": {"containers": containers}}},
        })
    };
    let path = |query: &str| {
        format!("/apis/apps/v1/namespaces/default/deployments/d?fieldManager={query}")
    };
    let apply = |manager, body: Value| {
        let cluster = cluster.clone();
        let path = path(manager);
        async move {
            cluster
                .call(Method::PATCH, &path, APPLY, body.to_string())
                .await
        }
    };
    let names = |object: &Value| -> Vec<String> {
        let containers = object["spec"]["template"]["spec"]["containers"]
            .as_array()
            .unwrap();
        containers
            .iter()
            .map(|container| container["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let container = |name: &str| json!({"name": name, "image": "app:v1"});
    apply(
        "m",
        deployment(json!([container("a"), container("b"), container("c")])),
    )
    .await
    .unwrap();
    let both = apply("n", deployment(json!([container("z"), container("b")])))
        .await
        .unwrap();
    assert_eq!(names(&both), ["a", "z", "b", "c"]);
    let fewer = apply("m", deployment(json!([container("a")])))
        .await
        .unwrap();
    assert_eq!(
        names(&fewer),
        ["a", "z", "b"],
        "c goes with its defaults, b stays for n"
    );

    let twice = deployment(
        json!([{"name": "a", "image": "i", "ports": [{"containerPort": 80}, {"containerPort": 80, "protocol": "TCP"}]}]),
    );
    let refused = apply("m", twice).await.unwrap_err();
    let words = ".spec.template.spec.containers[name=\"a\"].ports: duplicate entries for key [containerPort=80,protocol=\"TCP\"]";
    assert!(refused.message.ends_with(words), "{}", refused.message);
    let unknown = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"a": 1, "b": 2, "replicas": "3"}});
    let refused = apply("m", unknown).await.unwrap_err();
    // Upstream names one of them at random, too.
    let words = "errors:\n  .spec.replicas: expected numeric (int or float), got string\n  .spec.a: field not declared in schema";
    assert!(refused.message.ends_with(words), "{}", refused.message);
}

/// One request to an object or its Scale, and its outcome: the replicas and their managers, or the
/// conflict.
struct Step {
    what: &'static str,
    method: Method,
    content_type: &'static str,
    /// The part after the name of the object.
    path: &'static str,
    body: Value,
    outcome: Result<(u64, &'static [&'static str]), &'static str>,
}

#[rustfmt::skip]
fn scaling(object: &Value, name: &str) -> Vec<Step> {
    const JSON: &str = "application/json";
    let scale = |replicas| json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": name}, "spec": {"replicas": replicas}});
    let step = |what, method, content_type, path, body, outcome| Step { what, method, content_type, path, body, outcome };
    let patch = Method::PATCH;
    let put = Method::PUT;
    let five = json!({"spec": {"replicas": 5}});
    vec![
        step("created", patch.clone(), APPLY, "?fieldManager=applier", object.clone(), Ok((1, &["applier"]))),
        step("scaled", patch.clone(), MERGE, "/scale?fieldManager=scaler", five.clone(), Ok((5, &["scaler"]))),
        step("the status of a Scale has no manager", patch.clone(), MERGE, "/scale?fieldManager=x", json!({"status": {"replicas": 42}}), Ok((5, &["scaler"]))),
        step("applied again", patch.clone(), APPLY, "?fieldManager=applier", object.clone(), Err("conflict with \"scaler\" with subresource \"scale\" using ")),
        step("forced", patch.clone(), APPLY, "?fieldManager=applier&force=true", object.clone(), Ok((1, &["applier"]))),
        step("scale applied", patch.clone(), APPLY, "/scale?fieldManager=scales", scale(17), Err("conflict with \"applier\": .spec.replicas")),
        step("scale forced", patch.clone(), APPLY, "/scale?fieldManager=scales&force=true", scale(17), Ok((17, &["scales"]))),
        step("scale replaced", put, JSON, "/scale?fieldManager=replacer", scale(7), Ok((7, &["replacer"]))),
        step("applied with another value", patch.clone(), APPLY, "/scale?fieldManager=other", scale(8), Err("conflict with \"replacer\" with subresource \"scale\" using autoscaling/v1: .spec.replicas")),
        step("applied with the same value", patch.clone(), APPLY, "/scale?fieldManager=other", scale(7), Ok((7, &["other", "replacer"]))),
        step("scaled by another", patch.clone(), MERGE, "/scale?fieldManager=scaler", five, Ok((5, &["scaler"]))),
    ]
}

fn scalable_widgets() -> Value {
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": any, "status": any}}},
                "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
            }],
        },
    })
}

#[tokio::test(start_paused = true)]
async fn the_last_manager_to_scale_owns_the_replicas() {
    let cluster = DevCluster::with_managed_fields(clock());
    cluster.create(scalable_widgets()).await.unwrap();
    let cases = [
        ("apps/v1", "Deployment", "deployments"),
        ("apps/v1", "ReplicaSet", "replicasets"),
        ("apps/v1", "StatefulSet", "statefulsets"),
        ("v1", "ReplicationController", "replicationcontrollers"),
        ("example.com/v1", "Widget", "widgets"),
    ];
    for (api_version, kind, plural) in cases {
        let labels = json!({"app": "a"});
        let selector = if api_version == "v1" {
            labels.clone()
        } else {
            json!({"matchLabels": labels})
        };
        let object = json!({
            "apiVersion": api_version, "kind": kind, "metadata": {"name": "a"},
            "spec": {"replicas": 1, "selector": selector, "template": {
                "metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}},
        });
        let object_path = cluster.path(plural, "default", "a");
        for step in scaling(&object, "a") {
            let what = step.what;
            let answer = cluster
                .call(
                    step.method,
                    &format!("{object_path}{}", step.path),
                    step.content_type,
                    step.body.to_string(),
                )
                .await;
            match (answer, step.outcome) {
                (Ok(_), Ok((replicas, owners))) => {
                    let object = cluster.get(&object_path).await.unwrap();
                    assert_eq!(object["spec"]["replicas"], replicas, "{kind} {what}");
                    assert_eq!(owners_of_replicas(&object), owners, "{kind} {what}");
                }
                (Err(status), Err(words)) => {
                    assert!(
                        status.code == 409 && status.message.contains(words),
                        "{kind} {what}: {status:?}"
                    )
                }
                (answer, outcome) => panic!("{kind} {what}: {answer:?} instead of {outcome:?}"),
            }
        }
    }
}

fn owners_of_replicas(object: &Value) -> Vec<&str> {
    let entries = object["metadata"]["managedFields"]
        .as_array()
        .into_iter()
        .flatten();
    let mut owners: Vec<&str> = entries
        .filter(|entry| !entry["fieldsV1"]["f:spec"]["f:replicas"].is_null())
        .map(|entry| entry["manager"].as_str().unwrap())
        .collect();
    owners.sort_unstable();
    owners
}

#[tokio::test(start_paused = true)]
async fn an_invalid_apply_to_a_scale_is_refused() {
    let cluster = DevCluster::new(clock());
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "a"}}, "template": {
            "metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}},
    });
    cluster.create(deployment).await.unwrap();
    let apply = |query: &'static str, change: Value| {
        let mut scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": 4}});
        steersman_apiserver::patch::merge(&mut scale, &change);
        let path = format!("/apis/apps/v1/namespaces/default/deployments/{query}");
        let cluster = cluster.clone();
        async move {
            cluster
                .call(Method::PATCH, &path, APPLY, scale.to_string())
                .await
        }
    };
    // (query, change of a valid Scale, code, part of the error)
    let cases = [
        ("a/scale", json!({}), 422, "is required for apply patch"),
        (
            "a/scale?fieldManager=m",
            json!({"kind": "Deployment"}),
            400,
            "invalid object type: autoscaling/v1, Kind=Deployment",
        ),
        (
            "a/scale?fieldManager=m",
            json!({"metadata": {"name": "b"}}),
            400,
            "does not match the name on the URL",
        ),
        (
            "a/scale?fieldManager=m",
            json!({"spec": {"size": 1}}),
            500,
            ".spec.size: field not declared in schema",
        ),
        (
            "a/scale?fieldManager=m",
            json!({"spec": {"replicas": "many"}}),
            500,
            ".spec.replicas: expected numeric (int or float), got string",
        ),
        (
            "a/scale?fieldManager=m&force=true",
            json!({"spec": {"replicas": -1}}),
            422,
            "must be greater than or equal to 0",
        ),
        (
            "a/scale?fieldManager=m&force=true",
            json!({"metadata": {"resourceVersion": "1"}}),
            409,
            "the object has been modified",
        ),
        (
            "a/scale?fieldManager=m&force=true",
            json!({"metadata": {"uid": "u"}}),
            409,
            "Precondition failed: UID in precondition: u",
        ),
        (
            "b/scale?fieldManager=m",
            json!({"metadata": {"name": "b"}}),
            404,
            "\"b\" not found",
        ),
        (
            "a/scale?fieldManager=m",
            json!({}),
            409,
            "conflict with \"before-first-apply\" using autoscaling/v1: .spec.replicas",
        ),
    ];
    for (query, change, code, words) in cases {
        let refused = apply(query, change).await.unwrap_err();
        assert!(
            refused.code == code && refused.message.contains(words),
            "{query}: {refused:?}"
        );
    }
    let many = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": "many"}});
    for (method, content_type, code) in [
        (Method::PUT, "application/json", 400),
        (Method::PATCH, MERGE, 422),
    ] {
        let path = "/apis/apps/v1/namespaces/default/deployments/a/scale";
        let refused = cluster
            .call(method, path, content_type, many.to_string())
            .await
            .unwrap_err();
        assert!(
            refused.code == code && refused.message.contains("cannot unmarshal string"),
            "{refused:?}"
        );
    }
    let dry = apply("a/scale?fieldManager=m&force=true&dryRun=All", json!({}))
        .await
        .unwrap();
    assert_eq!(
        (&dry["kind"], &dry["spec"]["replicas"]),
        (&json!("Scale"), &json!(4))
    );
    let applied = apply("a/scale?fieldManager=m&force=true", json!({}))
        .await
        .unwrap();
    assert_eq!(applied["spec"], json!({"replicas": 4}));
    let none = apply(
        "a/scale?fieldManager=m",
        json!({"spec": {"replicas": null}}),
    )
    .await
    .unwrap();
    assert_eq!(none["spec"], json!({}), "no manager sets replicas");
}

#[tokio::test(start_paused = true)]
async fn an_apply_to_a_status_owns_its_writable_fields_only() {
    let cluster = DevCluster::with_managed_fields(clock());
    cluster.create(scalable_widgets()).await.unwrap();
    let pod_spec = json!({"containers": [{"name": "c", "image": "i"}]});
    let template = json!({"metadata": {"labels": {"app": "a"}}, "spec": pod_spec});
    let workload = json!({"selector": {"matchLabels": {"app": "a"}}, "template": template});
    // (version, kind, plural, spec, status, owned metadata fields)
    let cases = [
        (
            "apps/v1",
            "Deployment",
            "deployments",
            workload.clone(),
            json!({"replicas": 1}),
            json!({"f:annotations": {"f:a": {}}}),
        ),
        (
            "apps/v1",
            "ReplicaSet",
            "replicasets",
            workload,
            json!({"replicas": 1}),
            json!({"f:annotations": {"f:a": {}}, "f:labels": {"f:a": {}}}),
        ),
        (
            "v1",
            "Pod",
            "pods",
            pod_spec,
            json!({"message": "m"}),
            json!({"f:annotations": {"f:a": {}}, "f:labels": {"f:a": {}}}),
        ),
        (
            "example.com/v1",
            "Widget",
            "widgets",
            json!({}),
            json!({"replicas": 1}),
            Value::Null,
        ),
    ];
    for (version, kind, plural, spec, status, owned) in cases {
        let mut object =
            json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, "spec": spec});
        cluster.create(object.clone()).await.unwrap();
        let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u"});
        object["metadata"] = json!({"name": "a", "labels": {"a": "b"}, "annotations": {"a": "b"}});
        if kind == "Pod" {
            object["metadata"]["ownerReferences"] = json!([owner]);
        }
        object["status"] = status;
        let path = format!(
            "{}/status?fieldManager=m",
            cluster.path(plural, "default", "a")
        );
        let applied = cluster
            .call(Method::PATCH, &path, APPLY, object.to_string())
            .await
            .unwrap();
        let entries = applied["metadata"]["managedFields"].as_array().unwrap();
        let entry = entries
            .iter()
            .find(|entry| entry["manager"] == "m")
            .unwrap();
        assert_eq!(
            (&entry["subresource"], &entry["operation"]),
            (&json!("status"), &json!("Apply")),
            "{kind}"
        );
        assert_eq!(entry["fieldsV1"]["f:metadata"], owned, "{kind}");
        assert!(
            entry["fieldsV1"]["f:spec"].is_null() && entry["fieldsV1"]["f:status"].is_object(),
            "{kind}: {entry}"
        );
    }
}

/// The fields of the only entry of a manager, as JSON.
fn fields<'a>(object: &'a Value, manager: &str) -> &'a Value {
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    let mut found = entries.iter().filter(|entry| entry["manager"] == manager);
    let entry = found.next().unwrap();
    assert_eq!(found.next(), None, "{manager} has one entry");
    &entry["fieldsV1"]
}

#[tokio::test(start_paused = true)]
async fn allocated_fields_of_services_have_no_manager() {
    let cluster = DevCluster::with_managed_fields(clock());
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "default"},
        "spec": {"type": "NodePort", "selector": {"a": "b"}, "ports": [{"port": 80}]}});
    let created = cluster.create(service).await.unwrap();
    assert_eq!(created["spec"]["ipFamilies"], json!(["IPv4"]));
    assert_eq!(
        created["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"],
        json!({
            "f:externalTrafficPolicy": {}, "f:internalTrafficPolicy": {}, "f:selector": {}, "f:sessionAffinity": {}, "f:type": {},
            "f:ports": {".": {}, "k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}, "f:protocol": {}, "f:targetPort": {}}},
        })
    );
}

#[tokio::test(start_paused = true)]
async fn the_template_generation_belongs_to_writers_of_whole_daemon_sets() {
    const GENERATION: &str = "f:deprecated.daemonset.template.generation";
    let cluster = DevCluster::with_managed_fields(clock());
    let set = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "d", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    let path = "/apis/apps/v1/namespaces/default/daemonsets";
    let write = async |method, path: &str, kind, body: &Value| {
        let sent = cluster.call(method, path, kind, body.to_string()).await;
        sent.unwrap()
    };
    let created = write(
        Method::POST,
        &format!("{path}?fieldManager=creator"),
        "application/json",
        &set,
    )
    .await;
    assert_eq!(
        fields(&created, "creator")["f:metadata"]["f:annotations"][GENERATION],
        json!({})
    );
    let patched = write(
        Method::PATCH,
        &format!("{path}/d?fieldManager=patcher"),
        MERGE,
        &json!({"spec": {"template": {"metadata": {"annotations": {"x": "y"}}}}}),
    )
    .await;
    assert_eq!(fields(&patched, "patcher").get("f:metadata"), None);
    let replaced = write(
        Method::PUT,
        &format!("{path}/d?fieldManager=replacer"),
        "application/json",
        &set,
    )
    .await;
    assert_eq!(
        fields(&replaced, "replacer")["f:metadata"]["f:annotations"],
        json!({GENERATION: {}})
    );
    assert_eq!(
        replaced["metadata"]["annotations"]["deprecated.daemonset.template.generation"],
        "3"
    );
}

#[tokio::test(start_paused = true)]
async fn an_apply_to_the_object_leaves_the_managers_of_its_status() {
    let cluster = DevCluster::with_managed_fields(clock());
    let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/v"}}});
    cluster.create(volume.clone()).await.unwrap();
    let call = async |path: &str, kind, body: &Value| {
        let sent = cluster
            .call(Method::PATCH, path, kind, body.to_string())
            .await;
        sent.unwrap()
    };
    let path = "/api/v1/persistentvolumes/v";
    let status = json!({"status": {"phase": "Available"}});
    let before = call(
        &format!("{path}/status?fieldManager=binder"),
        MERGE,
        &status,
    )
    .await;
    let mut config = volume;
    config["status"] = json!({"phase": "Failed"});
    let after = call(&format!("{path}?fieldManager=applier"), APPLY, &config).await;
    assert_eq!(after["status"]["phase"], "Available");
    assert_eq!(fields(&after, "binder"), fields(&before, "binder"));
}

#[tokio::test(start_paused = true)]
async fn an_apply_refuses_unknown_fields_inside_values_with_one_manager() {
    let cluster = DevCluster::new(clock());
    let binding = |reference: Value, subject: Value| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "b", "namespace": "default"},
            "roleRef": reference, "subjects": [subject]})
    };
    let reference = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"});
    let subject = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "u"});
    let mut unknown = reference.clone();
    unknown["bogus"] = json!(1);
    let mut unknown_subject = subject.clone();
    unknown_subject["bogus"] = json!(1);
    // (reference, subject, path)
    let cases = [
        (unknown, subject.clone(), ".roleRef.bogus"),
        (reference.clone(), unknown_subject, ".subjects[0].bogus"),
    ];
    let path =
        "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings/b?fieldManager=m";
    for (reference, subject, field) in cases {
        let body = binding(reference, subject).to_string();
        let refused = cluster
            .call(Method::PATCH, path, APPLY, body)
            .await
            .unwrap_err();
        let words = format!(
            "failed to create typed patch object (default/b; rbac.authorization.k8s.io/v1, Kind=RoleBinding): {field}: field not \
             declared in schema"
        );
        assert_eq!((refused.code, refused.message), (500, words));
    }
    let body = binding(reference, subject).to_string();
    cluster
        .call(Method::PATCH, path, APPLY, body)
        .await
        .unwrap();
}
