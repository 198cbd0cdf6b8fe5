//! Who manages which field, through the API: what clients of server-side apply rely on, and that entries stay few and small.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_devcluster::DevCluster;
use steersman_devcluster::status::Status;
use steersman_runtime::clock::Clock;

const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn clock() -> Clock {
    Clock::runtime("2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap())
}

async fn patch(cluster: &DevCluster, kind: &str, path: &str, body: Value) -> Result<Value, Status> {
    cluster.call(Method::PATCH, &format!("{MAPS}/{path}"), kind, body.to_string()).await
}

fn managers(object: &Value) -> Vec<(&str, &str)> {
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    entries.map(|entry| (entry["manager"].as_str().unwrap(), entry["operation"].as_str().unwrap())).collect()
}

fn config(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data})
}

#[tokio::test(start_paused = true)]
async fn where_creations_are_not_recorded_the_first_apply_begins() {
    let cluster = DevCluster::new(clock());
    let created = cluster.create(config(json!({"k": "1"}))).await.unwrap();
    assert_eq!(managers(&created), []);
    let patched = patch(&cluster, MERGE, "a", json!({"data": {"l": "1"}})).await.unwrap();
    assert_eq!(managers(&patched), []);

    let refused = patch(&cluster, APPLY, "a?fieldManager=m", config(json!({"k": "2"}))).await.unwrap_err();
    assert_eq!(refused.message, "Apply failed with 1 conflict: conflict with \"before-first-apply\" using v1: .data.k");
    let applied = patch(&cluster, APPLY, "a?fieldManager=m&force=true", config(json!({"k": "2"}))).await.unwrap();
    assert_eq!(managers(&applied), [("m", "Apply"), ("before-first-apply", "Update")]);
    let patched = patch(&cluster, MERGE, "a?fieldManager=u", json!({"data": {"l": "2"}})).await.unwrap();
    assert_eq!(managers(&patched), [("m", "Apply"), ("before-first-apply", "Update"), ("u", "Update")]);
}

#[tokio::test(start_paused = true)]
async fn entries_of_many_managers_are_joined() {
    let cluster = DevCluster::with_managed_fields(clock());
    cluster.create(config(json!({"k": "1"}))).await.unwrap();
    let mut last = Value::Null;
    for n in 0..30 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        last = patch(&cluster, MERGE, &format!("a?fieldManager=m{n}"), json!({"data": {format!("k{n}"): "1"}})).await.unwrap();
    }
    let found = managers(&last);
    assert_eq!(found.len(), 10, "{found:?}");
    assert_eq!((found[0].0, found[9].0), ("ancient-changes", "m29"));
    let ancient = &last["metadata"]["managedFields"][0]["fieldsV1"]["f:data"];
    assert_eq!(ancient.as_object().unwrap().len(), 23, "nothing is lost: {ancient}");
}

#[tokio::test(start_paused = true)]
async fn applying_the_same_again_later_is_no_change() {
    let cluster = DevCluster::with_managed_fields(clock());
    let first = patch(&cluster, APPLY, "a?fieldManager=m", config(json!({"k": "1"}))).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let again = patch(&cluster, APPLY, "a?fieldManager=m", config(json!({"k": "1"}))).await.unwrap();
    assert_eq!(first, again);
    let forced = patch(&cluster, APPLY, "a?fieldManager=n&force=true", config(json!({"k": "1"}))).await.unwrap();
    assert_ne!(first["metadata"]["resourceVersion"], forced["metadata"]["resourceVersion"], "a second owner is a change");
}

#[tokio::test(start_paused = true)]
async fn kubectl_takes_over_what_it_applied_from_the_client() {
    let cluster = DevCluster::with_managed_fields(clock());
    let last = config(json!({"k": "1"})).to_string();
    let mut object = config(json!({"k": "1", "other": "1"}));
    object["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/last-applied-configuration": last});
    cluster.create(object).await.unwrap();
    let applied = patch(&cluster, APPLY, "a?fieldManager=kubectl", config(json!({"k": "2"}))).await.unwrap();
    assert_eq!(applied["data"], json!({"k": "2", "other": "1"}));
    let refused = patch(&cluster, APPLY, "a?fieldManager=kubectl", config(json!({"k": "2", "other": "2"}))).await.unwrap_err();
    assert!(refused.message.contains(".data.other"), "{}", refused.message);
    // What its migration then does: one entry less, by a patch of the entries.
    let entries =
        [json!({"op": "replace", "path": "/metadata/managedFields", "value": [applied["metadata"]["managedFields"][0]]})];
    let migrated = patch(&cluster, "application/json-patch+json", "a?fieldManager=kubectl", json!(entries)).await.unwrap();
    assert_eq!(managers(&migrated), [("kubectl", "Apply")]);
    let reset = patch(&cluster, MERGE, "a", json!({"metadata": {"managedFields": [{}]}})).await.unwrap();
    assert_eq!(managers(&reset), []);
}

#[tokio::test(start_paused = true)]
async fn dropping_what_was_applied_removes_it_unless_another_wants_it() {
    let cluster = DevCluster::with_managed_fields(clock());
    let deployment = |containers: Value| {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
            "spec": {"selector": {"matchLabels": {"app": "d"}}, "template": {
                "metadata": {"labels": {"app": "d"}}, "spec": {"containers": containers}}},
        })
    };
    let path = |query: &str| format!("/apis/apps/v1/namespaces/default/deployments/d?fieldManager={query}");
    let apply = |manager, body: Value| {
        let (cluster, path) = (cluster.clone(), path(manager));
        async move { cluster.call(Method::PATCH, &path, APPLY, body.to_string()).await }
    };
    let names = |object: &Value| -> Vec<String> {
        let containers = object["spec"]["template"]["spec"]["containers"].as_array().unwrap();
        containers.iter().map(|container| container["name"].as_str().unwrap().to_owned()).collect()
    };
    let container = |name: &str| json!({"name": name, "image": "app:v1"});
    apply("m", deployment(json!([container("a"), container("b"), container("c")]))).await.unwrap();
    let both = apply("n", deployment(json!([container("z"), container("b")]))).await.unwrap();
    assert_eq!(names(&both), ["a", "z", "b", "c"]);
    let fewer = apply("m", deployment(json!([container("a")]))).await.unwrap();
    assert_eq!(names(&fewer), ["a", "z", "b"], "c goes with its defaults, b stays for n");

    let twice = deployment(
        json!([{"name": "a", "image": "i", "ports": [{"containerPort": 80}, {"containerPort": 80, "protocol": "TCP"}]}]),
    );
    let refused = apply("m", twice).await.unwrap_err();
    let words = ".spec.template.spec.containers[name=\"a\"].ports: duplicate entries for key [containerPort=80,protocol=\"TCP\"]";
    assert!(refused.message.ends_with(words), "{}", refused.message);
    let unknown = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"a": 1, "b": 2}});
    let refused = apply("m", unknown).await.unwrap_err();
    let words = "errors:\n  .spec.a: field not declared in schema\n  .spec.b: field not declared in schema";
    assert!(refused.message.ends_with(words), "{}", refused.message);
}
