//! Custom resources: the effects of a CustomResourceDefinition and of its deletion.

use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use http::Method;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, WatchEvent, WatchParams};
use serde_json::{Value, json};
use steersman_devcluster::DevCluster;
use steersman_devcluster::status::Status;
use steersman_values::clock::Clock;

use crate::support::{ask, widgets};

const DEFINITION: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

fn cluster() -> DevCluster {
    DevCluster::with_managed_fields(Clock::runtime("2026-01-01T00:00:00Z".parse().unwrap()))
}

/// Deletes the definition of Widgets, and waits until it is gone.
async fn undefine(cluster: &DevCluster) {
    cluster.delete(DEFINITION).await.unwrap();
    let is_other = |one: &Value| one["metadata"]["name"] != "widgets.example.com";
    let gone = cluster
        .wait_for(
            "customresourcedefinitions",
            Duration::from_secs(60),
            |all| all.iter().all(is_other),
        )
        .await;
    gone.unwrap();
}

fn version(name: &str, spec: Value) -> Value {
    json!({
        "name": name, "served": true, "storage": name == "v1", "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {
            "spec": {"type": "object", "properties": spec},
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }}},
    })
}

/// A cluster that serves Widgets with these fields in their spec.
async fn with_widgets(spec: Value) -> DevCluster {
    let cluster = cluster();
    cluster
        .create(widgets(json!([version("v1", spec)])))
        .await
        .unwrap();
    cluster
}

fn widget(spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "default"}, "spec": spec})
}

fn message(refused: Result<Value, Status>) -> String {
    refused.unwrap_err().message
}

#[tokio::test(start_paused = true)]
async fn deleting_a_definition_deletes_its_objects() {
    let cluster = with_widgets(json!({"size": {"type": "integer"}})).await;
    let mut kept = widget(json!({"size": 1}));
    kept["metadata"]["finalizers"] = json!(["example.com/hold"]);
    cluster.create(kept).await.unwrap();
    let mut other = widget(json!({"size": 2}));
    other["metadata"]["name"] = json!("other");
    cluster.create(other.clone()).await.unwrap();

    let going = cluster.delete(DEFINITION).await.unwrap();
    assert_eq!(
        going["metadata"]["finalizers"],
        json!(["customresourcecleanup.apiextensions.k8s.io"])
    );
    let pending = |definition: &Value| definition["status"]["conditions"][2]["reason"].clone();
    let shown = cluster.get(DEFINITION).await.unwrap();
    assert_eq!(
        pending(&shown),
        "InstanceDeletionPending",
        "the answer comes first"
    );
    let only_the_held_one = cluster
        .wait_for("widgets", Duration::from_secs(60), |widgets| {
            widgets.len() == 1
        })
        .await;
    assert_eq!(only_the_held_one.unwrap()[0]["metadata"]["name"], "w");
    let refused = cluster.create(other).await.unwrap_err();
    assert_eq!(
        (refused.code, refused.message.as_str()),
        (
            405,
            "create not allowed while custom resource definition is terminating"
        )
    );
    let definition = cluster.get(DEFINITION).await.unwrap();
    assert_eq!(
        definition["status"]["conditions"][2]["reason"],
        "InstanceDeletionInProgress"
    );

    cluster
        .patch(
            &format!("{WIDGETS}/w"),
            json!({"metadata": {"finalizers": null}}),
        )
        .await
        .unwrap();
    assert_eq!(cluster.get(DEFINITION).await.unwrap_err().code, 404);
    assert_eq!(cluster.get(WIDGETS).await.unwrap_err().code, 404);
    let groups = cluster.get("/apis").await.unwrap();
    assert!(!groups.to_string().contains("example.com"), "{groups}");

    cluster.create(definition_again()).await.unwrap();
    assert_eq!(
        cluster.get(WIDGETS).await.unwrap()["items"],
        json!([]),
        "a new definition has no objects"
    );
}

fn definition_again() -> Value {
    widgets(json!([version("v1", json!({}))]))
}

#[tokio::test(start_paused = true)]
async fn a_watch_sees_deletions_and_ends_with_its_kind() {
    let cluster = with_widgets(json!({})).await;
    cluster.create(widget(json!({}))).await.unwrap();
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Widget"));
    let widgets: Api<DynamicObject> = Api::default_namespaced_with(cluster.client(), &kind);
    let watch = widgets.watch(&WatchParams::default(), "0").await.unwrap();
    cluster.delete(DEFINITION).await.unwrap();
    let events: Vec<WatchEvent<DynamicObject>> = watch.boxed().try_collect().await.unwrap();
    let kinds: Vec<&str> = events
        .iter()
        .filter_map(|event| match event {
            WatchEvent::Added(_) => Some("added"),
            WatchEvent::Deleted(_) => Some("deleted"),
            _ => None,
        })
        .collect();
    assert_eq!(kinds, ["added", "deleted"]);
}

#[tokio::test(start_paused = true)]
async fn every_served_version_shows_the_same_objects() {
    let cluster = cluster();
    let mut old = version(
        "v1beta1",
        json!({"size": {"type": "integer"}, "old": {"type": "string", "default": "yes"}}),
    );
    let new = version("v1", json!({"size": {"type": "integer"}}));
    let mut hidden = version("v1alpha1", json!({}));
    hidden["served"] = json!(false);
    old["deprecated"] = json!(true);
    cluster
        .create(widgets(json!([old, new, hidden])))
        .await
        .unwrap();

    let beta = "/apis/example.com/v1beta1/namespaces/default/widgets";
    let mut created = widget(json!({"size": 1}));
    created["apiVersion"] = json!("example.com/v1beta1");
    let created = cluster
        .call(Method::POST, beta, "application/json", created.to_string())
        .await
        .unwrap();
    assert_eq!(created["apiVersion"], "example.com/v1beta1");
    assert_eq!(
        created["spec"],
        json!({"size": 1}),
        "the stored version lacks the default of the request's version"
    );
    let stored = cluster.get(&format!("{WIDGETS}/w")).await.unwrap();
    assert_eq!(
        (&stored["apiVersion"], &stored["spec"]),
        (&json!("example.com/v1"), &json!({"size": 1}))
    );
    let listed = cluster.get(beta).await.unwrap();
    assert_eq!(listed["items"][0]["apiVersion"], "example.com/v1beta1");
    let patched = cluster
        .patch(&format!("{beta}/w"), json!({"spec": {"size": 5}}))
        .await
        .unwrap();
    assert_eq!(
        (&patched["apiVersion"], &patched["metadata"]["generation"]),
        (&json!("example.com/v1beta1"), &json!(2))
    );
    assert_eq!(
        cluster.get(&format!("{WIDGETS}/w")).await.unwrap()["spec"]["size"],
        5
    );

    assert_eq!(
        message(cluster.get("/apis/example.com/v1alpha1").await),
        "the server could not find the requested resource"
    );
    let group = cluster.get("/apis/example.com").await.unwrap();
    assert_eq!(group["preferredVersion"]["version"], "v1");
    assert_eq!(group["versions"].as_array().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_new_schema_applies_to_existing_objects() {
    let cluster =
        with_widgets(json!({"size": {"type": "integer"}, "gone": {"type": "string"}})).await;
    let before = cluster
        .create(widget(json!({"size": 1, "gone": "x"})))
        .await
        .unwrap();
    let versions = json!([version(
        "v1",
        json!({"size": {"type": "integer"}, "color": {"type": "string", "default": "red"}})
    )]);
    cluster
        .patch(DEFINITION, json!({"spec": {"versions": versions}}))
        .await
        .unwrap();
    let after = cluster.get(&format!("{WIDGETS}/w")).await.unwrap();
    assert_eq!(after["spec"], json!({"size": 1, "color": "red"}));
    assert_eq!(
        after["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"],
        "conversion is not a write"
    );
}

#[tokio::test(start_paused = true)]
async fn a_new_selectable_field_applies_to_existing_objects() {
    let cluster = with_widgets(json!({"color": {"type": "string"}})).await;
    for (name, labels, color) in [("a", json!({"red": "x"}), "blue"), ("b", json!({}), "red")] {
        let mut widget = widget(json!({"color": color}));
        widget["metadata"]["name"] = json!(name);
        widget["metadata"]["labels"] = labels;
        cluster.create(widget).await.unwrap();
    }
    let mut version = version("v1", json!({"color": {"type": "string"}}));
    version["selectableFields"] = json!([{"jsonPath": ".spec.color"}]);
    let versions = json!({"spec": {"versions": [version]}});
    cluster.patch(DEFINITION, versions).await.unwrap();
    for (selector, expected) in [
        ("spec.color%3Dred", &["b"][..]),
        ("spec.color!%3Dred", &["a"]),
        ("spec.color%3D", &[]),
    ] {
        let path = format!("{WIDGETS}?fieldSelector={selector}");
        let list = cluster.get(&path).await.unwrap();
        let items = list["items"].as_array().unwrap().iter();
        let names: Vec<_> = items.map(|item| &item["metadata"]["name"]).collect();
        assert_eq!(names, expected, "{selector}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_custom_kind_may_be_named_like_a_built_in_one() {
    let cluster = cluster();
    let mut service = widgets(json!([version("v1", json!({"image": {"type": "string"}}))]));
    service["metadata"]["name"] = json!("services.serving.example.com");
    service["spec"]["group"] = json!("serving.example.com");
    service["spec"]["names"] = json!({"plural": "services", "kind": "Service"});
    cluster.create(service).await.unwrap();
    let created = cluster
        .create(json!({
            "apiVersion": "serving.example.com/v1", "kind": "Service", "metadata": {"name": "a.b", "namespace": "default"},
            "spec": {"image": "web"},
        }))
        .await
        .unwrap();
    assert_eq!(
        created["spec"],
        json!({"image": "web"}),
        "no cluster address, and a name that no built-in service can have"
    );
    assert_eq!(
        cluster.path("services", "default", ""),
        "/api/v1/namespaces/default/services"
    );
}

#[tokio::test(start_paused = true)]
async fn the_older_of_two_definitions_keeps_a_name() {
    let cluster = with_widgets(json!({})).await;
    let mut second = definition_again();
    second["metadata"]["name"] = json!("others.example.com");
    second["spec"]["names"] = json!({"plural": "others", "kind": "Other", "shortNames": ["wd"]});
    cluster.create(second).await.unwrap();
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/others.example.com";
    let refused = cluster.get(path).await.unwrap();
    assert_eq!(
        refused["status"]["conditions"][0]["message"],
        "\"wd\" is already in use"
    );
    assert_eq!(
        cluster
            .get("/apis/example.com/v1/others")
            .await
            .unwrap_err()
            .code,
        404
    );

    undefine(&cluster).await;
    let accepted = cluster.get(path).await.unwrap();
    assert_eq!(
        accepted["status"]["acceptedNames"]["shortNames"],
        json!(["wd"]),
        "a waiting definition gets the freed name"
    );
    assert_eq!(
        cluster.get("/apis/example.com/v1/others").await.unwrap()["items"],
        json!([])
    );
}

#[tokio::test(start_paused = true)]
async fn a_fork_serves_its_own_custom_resources() {
    let cluster = with_widgets(json!({})).await;
    cluster.create(widget(json!({}))).await.unwrap();
    let fork = cluster.fork();
    undefine(&fork).await;
    assert_eq!(fork.get(WIDGETS).await.unwrap_err().code, 404);
    assert_eq!(cluster.objects("widgets").len(), 1);
}

/// A valid definition with one changed value.
fn broken(pointer: &str, value: Value) -> Value {
    let mut definition = widgets(json!([version("v1", json!({"size": {"type": "integer"}}))]));
    let (holder, field) = pointer.rsplit_once('/').unwrap();
    definition.pointer_mut(holder).unwrap()[field] = value;
    definition
}

#[tokio::test(start_paused = true)]
async fn invalid_definitions_are_refused() {
    const SCHEMA: &str = "/spec/versions/0/schema/openAPIV3Schema";
    let size = format!("{SCHEMA}/properties/spec/properties/size");
    // (pointer, value, part of the error)
    let cases = [
        (
            "/spec/group",
            json!("example"),
            "spec.group: Invalid value: \"example\": should be a domain with at least one dot",
        ),
        (
            "/spec/scope",
            json!("Galaxy"),
            "spec.scope: Unsupported value: \"Galaxy\": supported values: \"Cluster\", \"Namespaced\"",
        ),
        (
            "/spec/names/plural",
            json!("Widgets"),
            "spec.names.plural: Invalid value: \"Widgets\": a DNS-1035 label must consist",
        ),
        (
            "/spec/versions/0/storage",
            json!(false),
            "must have exactly one version marked as storage version",
        ),
        (
            "/spec/versions/0/name",
            json!("1"),
            "spec.versions[0].name: Invalid value: \"1\"",
        ),
        (
            "/spec/versions/0/additionalPrinterColumns",
            json!([{"name": "x", "type": "text", "jsonPath": ".spec"}]),
            "spec.additionalPrinterColumns[0].type: Invalid value: \"text\": must be one of boolean,date,integer,number,string",
        ),
        (
            "/spec/versions/0/selectableFields",
            json!([{"jsonPath": ".spec.color"}]),
            "spec.selectableFields[0].jsonPath: Invalid value: \".spec.color\": is an invalid path",
        ),
        (
            SCHEMA,
            json!({"type": "string"}),
            "openAPIV3Schema.type: Invalid value: \"string\": must be object at the root",
        ),
        (
            &size,
            json!({}),
            "properties[size].type: Required value: must not be empty for specified object fields",
        ),
        (
            &size,
            json!({"type": "list"}),
            "properties[size].type: Unsupported value: \"list\": supported values: \"array\", \"boolean\"",
        ),
        (
            &size,
            json!({"type": "array"}),
            "properties[size].items: Required value: must be specified",
        ),
        (
            &size,
            json!({"type": "string", "pattern": "("}),
            "properties[size].pattern: Invalid value: \"(\": must be a valid regular expression, but isn't: error parsing regexp: missing closing ): `(`",
        ),
        (
            &size,
            json!({"type": "string", "pattern": "a**"}),
            "must be a valid regular expression, but isn't: error parsing regexp: invalid nested repetition operator: `**`",
        ),
        (
            &size,
            json!({"type": "integer", "default": "x"}),
            "properties[size].default: Invalid value: \"string\"",
        ),
        (
            &size,
            json!({"type": "integer", "anyOf": [{"type": "integer"}]}),
            "anyOf[0].type: Forbidden: must be empty to be structural",
        ),
        (
            &size,
            json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "properties": {"k": {"type": "string"}}}}),
            "must have a default or be a required property",
        ),
    ];
    let cluster = cluster();
    for (pointer, value, words) in cases {
        let refused = cluster.create(broken(pointer, value)).await.unwrap_err();
        assert!(
            refused.code == 422 && refused.message.contains(words),
            "{pointer}: {}",
            refused.message
        );
    }
    assert_eq!(cluster.count("customresourcedefinitions"), 0);

    cluster
        .create(broken("/spec/names/shortNames", json!(["wd"])))
        .await
        .unwrap();
    let refused = cluster
        .patch(DEFINITION, json!({"spec": {"scope": "Cluster"}}))
        .await
        .unwrap_err();
    assert!(
        refused
            .message
            .contains("spec.scope: Invalid value: \"Cluster\": field is immutable"),
        "{}",
        refused.message
    );
    let other = json!([version("v2", json!({}))])
        .to_string()
        .replace("\"storage\":false", "\"storage\":true");
    let other: Value = serde_json::from_str(&other).unwrap();
    let refused = cluster
        .patch(DEFINITION, json!({"spec": {"versions": other}}))
        .await
        .unwrap_err();
    assert!(
        refused.message.contains(
            "status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions"
        ),
        "{}",
        refused.message
    );
}

#[tokio::test(start_paused = true)]
async fn documents_describe_built_in_and_custom_kinds() {
    let cluster =
        with_widgets(json!({"size": {"type": "integer", "description": "How large it is."}})).await;
    let index = cluster.get("/openapi/v3").await.unwrap();
    let address = index["paths"]["apis/example.com/v1"]["serverRelativeURL"]
        .as_str()
        .unwrap()
        .to_owned();
    let document = cluster.get(&address).await.unwrap();
    let widget = &document["components"]["schemas"]["com.example.v1.Widget"];
    assert_eq!(
        widget["properties"]["spec"]["properties"]["size"]["description"],
        "How large it is."
    );
    assert_eq!(
        widget["x-kubernetes-group-version-kind"][0]["kind"],
        "Widget"
    );

    let document = cluster.get("/openapi/v3/apis/apps/v1").await.unwrap();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let pod = &schemas["io.k8s.api.core.v1.PodSpec"]["properties"];
    assert_eq!(pod["containers"]["x-kubernetes-patch-merge-key"], "name");
    assert_eq!(
        pod["containers"]["x-kubernetes-list-map-keys"],
        json!(["name"])
    );
    assert_eq!(
        pod["volumes"]["x-kubernetes-patch-strategy"],
        "merge,retainKeys"
    );
    let container = &schemas["io.k8s.api.core.v1.Container"]["properties"];
    assert_eq!(
        container["imagePullPolicy"]["enum"],
        json!(["Always", "IfNotPresent", "Never"])
    );
    let claim = &schemas["io.k8s.api.core.v1.PersistentVolumeClaimSpec"]["properties"];
    assert_eq!(claim["accessModes"].get("enum"), None);
    assert_eq!(
        claim["accessModes"]["items"]["enum"],
        json!([
            "ReadOnlyMany",
            "ReadWriteMany",
            "ReadWriteOnce",
            "ReadWriteOncePod"
        ])
    );
    let dangling: Vec<&str> = references(&document)
        .into_iter()
        .filter(|name| !schemas.contains_key(*name))
        .collect();
    assert_eq!(dangling, [""; 0], "every reference names a schema");

    let versions = json!([version("v1", json!({"size": {"type": "integer"}}))]);
    cluster
        .patch(DEFINITION, json!({"spec": {"versions": versions}}))
        .await
        .unwrap();
    let index = cluster.get("/openapi/v3").await.unwrap();
    assert_ne!(
        index["paths"]["apis/example.com/v1"]["serverRelativeURL"], address,
        "another schema has another URL"
    );
}

/// Names of the schemas that a document refers to.
fn references(value: &Value) -> Vec<&str> {
    match value {
        Value::Object(fields) => {
            let own = fields
                .get("$ref")
                .and_then(Value::as_str)
                .and_then(|text| text.rsplit('/').next());
            own.into_iter()
                .chain(fields.values().flat_map(references))
                .collect()
        }
        Value::Array(items) => items.iter().flat_map(references).collect(),
        _ => Vec::new(),
    }
}

#[tokio::test(start_paused = true)]
async fn nulls_of_nullable_fields_at_the_root_stay() {
    let cluster = cluster();
    let mut definition = widgets(json!([version("v1", json!({}))]));
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = json!({
        "type": "object", "required": ["data", "spec"], "properties": {
            "data": {"type": "string", "nullable": true},
            "spec": {"type": "object", "nullable": true, "properties": {"size": {"type": "integer"}}},
            "other": {"type": "string"},
        },
    });
    cluster.create(definition).await.unwrap();
    let mut nulls = widget(Value::Null);
    nulls["data"] = Value::Null;
    nulls["other"] = Value::Null;
    let created = cluster.create(nulls).await.unwrap();
    assert_eq!(
        (created.get("data"), created.get("spec")),
        (Some(&Value::Null), Some(&Value::Null))
    );
    assert_eq!(created.get("other"), None, "null is no value of this field");
    let patched = cluster
        .patch(
            &format!("{WIDGETS}/w"),
            json!({"metadata": {"labels": {"a": "b"}}}),
        )
        .await
        .unwrap();
    assert_eq!(patched.get("data"), Some(&Value::Null));
}

#[tokio::test(start_paused = true)]
async fn unchanged_versions_of_a_definition_are_valid() {
    let cluster = with_widgets(json!({"size": {"type": "integer"}})).await;
    let mut stored = cluster.objects("customresourcedefinitions").remove(0);
    let outdated = json!({"type": "integer", "default": "x"});
    stored["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        ["size"] = outdated;
    cluster.load(stored).unwrap();
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    cluster.patch(DEFINITION, label).await.unwrap();
    let changed = json!({"spec": {"versions": [version("v1", json!({"size": {"type": "list"}}))]}});
    let refused = cluster.patch(DEFINITION, changed).await.unwrap_err();
    assert_eq!(refused.code, 422);
}

#[tokio::test(start_paused = true)]
async fn versions_of_definitions_have_api_services() {
    let cluster = cluster();
    let names = || -> Vec<String> {
        let all = cluster.objects("apiservices");
        let of_group = all
            .iter()
            .filter(|object| object["spec"]["group"] == "example.com");
        of_group
            .map(|object| object["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let versions = json!([version("v1", json!({})), version("v2", json!({}))]);
    cluster.create(widgets(versions)).await.unwrap();
    assert_eq!(names(), ["v1.example.com", "v2.example.com"]);

    let path = "/apis/apiregistration.k8s.io/v1/apiservices";
    cluster
        .delete(&format!("{path}/v1.example.com"))
        .await
        .unwrap();
    assert_eq!(
        names(),
        ["v1.example.com", "v2.example.com"],
        "the server restores it"
    );
    let versions = json!({"spec": {"versions": [version("v1", json!({}))]}});
    cluster.patch(DEFINITION, versions).await.unwrap();
    assert_eq!(names(), ["v1.example.com"]);
    undefine(&cluster).await;
    assert!(names().is_empty());
}

/// Upstream: `ScaleREST` in `pkg/registry/customresource/etcd.go` of apiextensions-apiserver.
#[tokio::test(start_paused = true)]
async fn a_patch_of_a_scale_sets_missing_replicas() {
    let cluster = cluster();
    let mut scaled = version("v1", json!({"replicas": {"type": "integer"}}));
    scaled["subresources"]["scale"] =
        json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"});
    cluster.create(widgets(json!([scaled]))).await.unwrap();
    cluster.create(widget(json!({}))).await.unwrap();
    let path = format!("{WIDGETS}/w/scale");
    let missing = cluster.get(&path).await;
    assert_eq!(
        message(missing),
        "Internal error occurred: the spec replicas field \".spec.replicas\" does not exist"
    );
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    let refused = cluster.patch(&path, labels).await.unwrap_err();
    assert_eq!(
        (refused.code, refused.message.as_str()),
        (
            400,
            "the spec replicas field \".spec.replicas\" cannot be empty"
        )
    );
    let scale = cluster
        .patch(&path, json!({"spec": {"replicas": 3}}))
        .await
        .unwrap();
    assert_eq!(scale["spec"]["replicas"], 3);
    assert_eq!(
        cluster.get(&format!("{WIDGETS}/w")).await.unwrap()["spec"],
        json!({"replicas": 3})
    );
}

/// A write in another version has the fields and the defaults of the stored one, also in a dry run. The answers
/// are those of kube-apiserver 1.36.2.
#[tokio::test(start_paused = true)]
async fn a_dry_run_answers_as_the_write() {
    let cluster = cluster();
    let number = json!({"type": "integer"});
    let stored = version(
        "v1",
        json!({"size": {"type": "integer", "default": 3}, "replicas": number}),
    );
    let shape = json!({"type": "string", "default": "round"});
    let other =
        json!({"size": number, "replicas": number, "colour": {"type": "string"}, "shape": shape});
    let versions = json!([stored, version("v2", other)]);
    cluster.create(widgets(versions)).await.unwrap();
    let widget = |spec: Value| {
        let mut widget = widget(spec);
        widget["apiVersion"] = json!("example.com/v2");
        widget
    };
    const MERGE: &str = "application/merge-patch+json";
    const APPLY: &str = "application/apply-patch+yaml";
    for (method, path, content_type, body, spec, owned) in [
        (
            "POST",
            "",
            "application/json",
            widget(json!({"colour": "red"})),
            json!({"size": 3}),
            json!({".": {}, "f:colour": {}, "f:shape": {}}),
        ),
        (
            "PATCH",
            "/w",
            MERGE,
            json!({"spec": {"colour": "blue", "replicas": 1}}),
            json!({"replicas": 1, "size": 3}),
            json!({".": {}, "f:colour": {}, "f:replicas": {}, "f:shape": {}}),
        ),
        (
            "PATCH",
            "/w",
            APPLY,
            widget(json!({"colour": "green", "size": 5})),
            json!({"replicas": 1, "size": 5}),
            json!({"f:colour": {}, "f:size": {}}),
        ),
    ] {
        for dry_run in ["&dryRun=All", ""] {
            let force = if content_type == APPLY {
                "&force=true"
            } else {
                ""
            };
            let path = WIDGETS.replace("/v1/", "/v2/") + path;
            let path = format!("{path}?fieldManager=m{force}{dry_run}");
            let body = body.to_string();
            let answer = ask(
                &cluster.client(),
                method,
                &path,
                content_type,
                body.as_bytes(),
            )
            .await;
            let shown = &answer.body;
            assert_eq!(shown["apiVersion"], "example.com/v2", "{path}: {shown}");
            assert_eq!(shown["spec"], spec, "{path}");
            let fields = &shown["metadata"]["managedFields"][0]["fieldsV1"];
            assert_eq!(fields, &json!({"f:spec": owned}), "{path}");
        }
    }
}

/// The answers are those of kube-apiserver 1.36.2.
#[tokio::test(start_paused = true)]
async fn values_of_the_wrong_type_have_no_scale() {
    let cluster = cluster();
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let scaled = json!({
        "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": open},
        "subresources": {"scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector"}},
    });
    cluster.create(widgets(json!([scaled]))).await.unwrap();
    const SPEC: &str = ".spec.replicas: Invalid value: 0: .spec.replicas accessor error:";
    const STATUS: &str = ".status.replicas: Invalid value: 0: .status.replicas accessor error:";
    const SELECTOR: &str =
        ".status.selector: Invalid value: \"\": .status.selector accessor error:";
    for (fields, errors) in [
        (
            json!({"spec": {"replicas": "<a&b>"}}),
            format!("{SPEC} <a&b> is of the type string, expected int64"),
        ),
        (
            json!({"spec": {"replicas": 3.0}}),
            format!("{SPEC} 3 is of the type float64, expected int64"),
        ),
        (
            json!({"spec": {"replicas": null}}),
            format!("{SPEC} <nil> is of the type <nil>, expected int64"),
        ),
        (
            json!({"spec": "x"}),
            format!("{SPEC} x is of the type string, expected map[string]interface{{}}"),
        ),
        (
            json!({"spec": {"replicas": -1}}),
            ".spec.replicas: Invalid value: -1: should be a non-negative integer".to_owned(),
        ),
        (
            json!({"spec": {"replicas": 2_147_483_648_u64}}),
            ".spec.replicas: Invalid value: 2147483648: should be less than or equal to 2147483647"
                .to_owned(),
        ),
        (
            json!({"status": {"replicas": "x", "selector": {"a": "b"}}}),
            format!(
                "[{STATUS} x is of the type string, expected int64, \
                 {SELECTOR} map[a:b] is of the type map[string]interface {{}}, expected string]"
            ),
        ),
        (
            json!({"status": [1]}),
            format!(
                "[{STATUS} [1] is of the type []interface {{}}, expected map[string]interface{{}}, \
                 {SELECTOR} [1] is of the type []interface {{}}, expected map[string]interface{{}}]"
            ),
        ),
    ] {
        let mut widget = widget(json!({}));
        for (field, value) in fields.as_object().unwrap() {
            widget[field] = value.clone();
        }
        assert_eq!(
            message(cluster.create(widget).await),
            format!("Widget.example.com \"w\" is invalid: {errors}")
        );
    }
    let mut widget = widget(Value::Null);
    widget["status"] = Value::Null;
    cluster.create(widget).await.unwrap();
}

/// The answers are those of kube-apiserver 1.36.2.
#[tokio::test(start_paused = true)]
async fn an_unusable_bundle_is_refused_in_an_established_definition_only() {
    let cluster = cluster();
    let conversion = |bundle: Value| {
        let service = json!({"name": "s", "namespace": "default"});
        let client = json!({"service": service, "caBundle": bundle});
        let webhook = json!({"clientConfig": client, "conversionReviewVersions": ["v1"]});
        json!({"spec": {"conversion": {"strategy": "Webhook", "webhook": webhook}}})
    };
    let mut created = definition_again();
    created["spec"]["conversion"] = conversion(json!("Cg=="))["spec"]["conversion"].clone();
    let established = |definition: &Value| definition["status"]["conditions"][1]["reason"].clone();
    cluster.create(created).await.unwrap();
    let waiting = cluster.get(DEFINITION).await.unwrap();
    assert_eq!(established(&waiting), "InvalidCABundle");

    cluster
        .patch(DEFINITION, conversion(Value::Null))
        .await
        .unwrap();
    let mended = cluster.get(DEFINITION).await.unwrap();
    assert_eq!(established(&mended), "InitialNamesAccepted");
    let refused = cluster.patch(DEFINITION, conversion(json!("Cg=="))).await;
    let why = "spec.conversion.webhookClientConfig.caBundle: Invalid value: \"Cg==\": unable to load root certificates: \
               unable to parse bytes as PEM block";
    assert!(message(refused).ends_with(why));
}
