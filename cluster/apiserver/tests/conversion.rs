//! Conversion webhooks of custom resources. All messages are those of kube-apiserver 1.36.

use futures::StreamExt;
use kube::api::{Api, DynamicObject, WatchEvent, WatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use steersman_devcluster::DevCluster;

use crate::support::hook::{Hook, Respond};
use crate::support::{Answer, ask, clock, send};

/// A definition whose versions have the host in `spec.host`, or as text `HOST:PORT` in
/// `spec.address`. Objects are stored in `stored`.
fn definition(hook: &Hook, stored: &str) -> Value {
    let version = |name: &str, spec: Value| {
        json!({
            "name": name, "served": true, "storage": name == stored,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}}},
            "subresources": {"scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
        })
    };
    let text = json!({"type": "string"});
    let number = json!({"type": "integer"});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "points.ex.com"},
        "spec": {
            "group": "ex.com", "scope": "Namespaced",
            "names": {"plural": "points", "singular": "point", "kind": "Point", "listKind": "PointList"},
            "conversion": {"strategy": "Webhook", "webhook": {
                "clientConfig": hook.client(), "conversionReviewVersions": ["v1"],
            }},
            "versions": [
                version("v1", json!({"host": text, "port": number, "replicas": number})),
                version("v2", json!({"address": text, "replicas": number})),
            ],
        },
    })
}

/// The object in the other version.
fn converted(object: &Value, version: &str) -> Value {
    let mut converted = object.clone();
    converted["apiVersion"] = json!(version);
    let spec = &object["spec"];
    converted["spec"] = if version == "ex.com/v2" {
        let host = spec["host"].as_str().unwrap();
        let port = &spec["port"];
        json!({"address": format!("{host}:{port}")})
    } else {
        let (host, port) = spec["address"].as_str().unwrap().split_once(':').unwrap();
        json!({"host": host, "port": port.parse::<u16>().unwrap()})
    };
    if let Some(replicas) = spec.get("replicas") {
        converted["spec"]["replicas"] = replicas.clone();
    }
    converted
}

fn answer(review: &Value, change: impl Fn(&mut Value)) -> Value {
    let request = &review["request"];
    let version = request["desiredAPIVersion"].as_str().unwrap();
    let objects = request["objects"].as_array().unwrap().iter();
    let objects = objects.map(|object| {
        let mut converted = converted(object, version);
        change(&mut converted);
        converted
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "response": {
            "uid": request["uid"], "result": {"status": "Success"},
            "convertedObjects": objects.collect::<Vec<_>>(),
        },
    })
}

fn convert(review: &Value) -> Value {
    answer(review, |_| {})
}

async fn cluster(respond: Respond, stored: &str) -> (DevCluster, Hook) {
    let hook = Hook::start(respond).await;
    let cluster = DevCluster::with_managed_fields(clock());
    cluster.create(definition(&hook, stored)).await.unwrap();
    (cluster, hook)
}

fn points(version: &str) -> String {
    format!("/apis/ex.com/{version}/namespaces/default/points")
}

fn v1(name: &str, host: &str) -> Value {
    json!({"apiVersion": "ex.com/v1", "kind": "Point", "metadata": {"name": name}, "spec": {"host": host, "port": 80}})
}

fn v2(name: &str, address: &str) -> Value {
    json!({"apiVersion": "ex.com/v2", "kind": "Point", "metadata": {"name": name}, "spec": {"address": address}})
}

/// The code, version and spec of an answer.
fn shown(answer: &Answer) -> (u16, &str, &Value) {
    let version = answer.body["apiVersion"].as_str().unwrap();
    (answer.code, version, &answer.body["spec"])
}

#[tokio::test]
async fn objects_are_read_and_written_in_every_version() {
    for stored in ["v1", "v2"] {
        let (cluster, _hook) = cluster(convert, stored).await;
        let one = |version: &str| format!("{}/a", points(version));
        let created = send(&cluster, "POST", &points("v1"), &v1("a", "x")).await;
        assert_eq!(
            shown(&created),
            (201, "ex.com/v1", &json!({"host": "x", "port": 80})),
            "{}",
            created.body
        );
        let read = send(&cluster, "GET", &one("v2"), &json!({})).await;
        assert_eq!(
            shown(&read),
            (200, "ex.com/v2", &json!({"address": "x:80"}))
        );
        assert_eq!(
            read.body["metadata"]["uid"],
            created.body["metadata"]["uid"]
        );

        let mut changed = read.body.clone();
        changed["spec"]["address"] = json!("y:81");
        let updated = send(&cluster, "PUT", &one("v2"), &changed).await;
        assert_eq!(
            shown(&updated),
            (200, "ex.com/v2", &json!({"address": "y:81"}))
        );
        let merge = json!({"spec": {"port": 82}}).to_string();
        let kind = "application/merge-patch+json";
        let patched = ask(
            &cluster.client(),
            "PATCH",
            &one("v1"),
            kind,
            merge.as_bytes(),
        )
        .await;
        assert_eq!(
            shown(&patched),
            (200, "ex.com/v1", &json!({"host": "y", "port": 82}))
        );
        let applied = v2("a", "z:83").to_string();
        let path = format!("{}?fieldManager=f&force=true", one("v2"));
        let kind = "application/apply-patch+yaml";
        let applied = ask(&cluster.client(), "PATCH", &path, kind, applied.as_bytes()).await;
        assert_eq!(
            shown(&applied),
            (200, "ex.com/v2", &json!({"address": "z:83"}))
        );

        let scale = json!({
            "apiVersion": "autoscaling/v1", "kind": "Scale",
            "metadata": {"name": "a", "namespace": "default"}, "spec": {"replicas": 4},
        });
        for version in ["v1", "v2"] {
            let path = format!("{}/scale", one(version));
            let scaled = send(&cluster, "PUT", &path, &scale).await;
            assert_eq!(
                shown(&scaled),
                (200, "autoscaling/v1", &json!({"replicas": 4}))
            );
        }
        let stored_object = &cluster.objects("points")[0];
        assert_eq!(stored_object["apiVersion"], format!("ex.com/{stored}"));
        assert_eq!(
            send(&cluster, "DELETE", &one("v2"), &json!({})).await.code,
            200
        );
    }
}

#[tokio::test]
async fn a_list_is_converted_with_one_call() {
    let (cluster, hook) = cluster(convert, "v1").await;
    for name in ["a", "b"] {
        send(&cluster, "POST", &points("v1"), &v1(name, name)).await;
    }
    assert_eq!(hook.requests(), [] as [Value; 0]);
    let list = send(&cluster, "GET", &points("v2"), &json!({})).await;
    let items = list.body["items"].as_array().unwrap();
    let specs: Vec<&Value> = items.iter().map(|item| &item["spec"]).collect();
    assert_eq!(
        specs,
        [&json!({"address": "a:80"}), &json!({"address": "b:80"})]
    );
    let requests = hook.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0]["desiredAPIVersion"], "ex.com/v2");
    assert_eq!(requests[0]["objects"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_write_converts_each_object_once_for_all_its_managers() {
    let (cluster, hook) = cluster(convert, "v1").await;
    send(&cluster, "POST", &points("v1"), &v1("a", "x")).await;
    let patch = async |version: &str, manager: &str, patch: Value| {
        let path = format!("{}/a?fieldManager={manager}", points(version));
        let patch = patch.to_string();
        let kind = "application/merge-patch+json";
        ask(&cluster.client(), "PATCH", &path, kind, patch.as_bytes()).await
    };
    for manager in ["b", "c", "d"] {
        patch(
            "v1",
            manager,
            json!({"metadata": {"labels": {manager: "1"}}}),
        )
        .await;
    }
    assert_eq!(hook.requests().len(), 0);
    let patched = patch("v2", "e", json!({"spec": {"address": "y:81"}})).await;
    let managers = patched.body["metadata"]["managedFields"].as_array();
    assert_eq!(managers.map(Vec::len), Some(5), "{}", patched.body);
    let mut requests = hook.requests();
    for request in &mut requests {
        request["uid"] = Value::Null;
    }
    // The old and the new object for the managers, the new one for the store, and both for the client.
    assert_eq!(requests.len(), 5);
    let texts: std::collections::HashSet<String> = requests.iter().map(Value::to_string).collect();
    assert_eq!(texts.len(), requests.len());
}

#[tokio::test]
async fn watches_show_the_requested_version() {
    let (cluster, _hook) = cluster(convert, "v1").await;
    send(&cluster, "POST", &points("v1"), &v1("a", "x")).await;
    let kind = GroupVersionKind::gvk("ex.com", "v2", "Point");
    let resource = ApiResource::from_gvk_with_plural(&kind, "points");
    let api: Api<DynamicObject> = Api::namespaced_with(cluster.client(), "default", &resource);
    let mut events = api
        .watch(&WatchParams::default().disable_bookmarks(), "0")
        .await
        .unwrap()
        .boxed();
    let mut next = async || match events.next().await.unwrap().unwrap() {
        WatchEvent::Added(object) => ("added", object.data["spec"].clone()),
        WatchEvent::Modified(object) => ("modified", object.data["spec"].clone()),
        WatchEvent::Deleted(object) => ("deleted", object.data["spec"].clone()),
        other => panic!("{other:?}"),
    };
    assert_eq!(next().await, ("added", json!({"address": "x:80"})));
    let one = format!("{}/a", points("v1"));
    let merge = json!({"spec": {"port": 81}}).to_string();
    let kind = "application/merge-patch+json";
    ask(&cluster.client(), "PATCH", &one, kind, merge.as_bytes()).await;
    assert_eq!(next().await, ("modified", json!({"address": "x:81"})));
    send(&cluster, "DELETE", &one, &json!({})).await;
    assert_eq!(next().await, ("deleted", json!({"address": "x:81"})));
}

#[tokio::test]
async fn stored_objects_keep_their_version_when_another_one_is_stored() {
    let (cluster, hook) = cluster(convert, "v1").await;
    send(&cluster, "POST", &points("v1"), &v1("a", "x")).await;
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/points.ex.com";
    let mut changed = send(&cluster, "GET", path, &json!({})).await.body;
    changed["spec"]["versions"] = definition(&hook, "v2")["spec"]["versions"].clone();
    assert_eq!(send(&cluster, "PUT", path, &changed).await.code, 200);
    assert_eq!(cluster.objects("points")[0]["apiVersion"], "ex.com/v1");
    let read = send(&cluster, "GET", &format!("{}/a", points("v2")), &json!({})).await;
    assert_eq!(read.body["spec"], json!({"address": "x:80"}));
    let written = send(&cluster, "PUT", &format!("{}/a", points("v2")), &read.body).await;
    assert_eq!(written.code, 200);
    let mut new = read.body.clone();
    new["spec"]["address"] = json!("y:80");
    send(&cluster, "PUT", &format!("{}/a", points("v2")), &new).await;
    assert_eq!(cluster.objects("points")[0]["apiVersion"], "ex.com/v2");
}

#[tokio::test]
async fn only_labels_and_annotations_of_the_metadata_can_change() {
    let (cluster, _hook) = cluster(
        |review| {
            answer(review, |object| {
                object["metadata"]["labels"] = json!({"a": "b"});
                object["metadata"]["generation"] = json!(17);
            })
        },
        "v1",
    )
    .await;
    send(&cluster, "POST", &points("v1"), &v1("a", "x")).await;
    let read = send(&cluster, "GET", &format!("{}/a", points("v2")), &json!({})).await;
    let metadata = &read.body["metadata"];
    assert_eq!(
        (&metadata["labels"], &metadata["generation"]),
        (&json!({"a": "b"}), &json!(1))
    );
}

#[tokio::test]
async fn failed_conversions_are_errors() {
    let failed = |why: &str| format!("conversion webhook for ex.com/v1, Kind=Point {why}");
    let cases: [(Respond, String); 6] = [
        (
            |review| {
                json!({
                    "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
                    "response": {"uid": review["request"]["uid"], "result": {"status": "Failed", "message": "no"}},
                })
            },
            failed("failed: no"),
        ),
        (
            |_| json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview"}),
            failed("failed: no response provided"),
        ),
        (
            |review| {
                let mut answer = convert(review);
                answer["response"]["convertedObjects"] = json!([]);
                answer
            },
            failed("returned 0 objects, expected 1"),
        ),
        (
            |review| answer(review, |object| object["metadata"]["name"] = json!("b")),
            failed("returned invalid object: must have the same name: a != b"),
        ),
        (
            |review| answer(review, |object| object["apiVersion"] = json!("ex.com/v3")),
            failed(
                "returned invalid object at index 0: invalid groupVersion (expected ex.com/v2, received ex.com/v3)",
            ),
        ),
        (
            |review| {
                answer(review, |object| {
                    object["metadata"]["labels"] = json!({"a": "-"})
                })
            },
            failed(
                "returned invalid metadata: metadata.labels: Invalid value: \"-\": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
            ),
        ),
    ];
    for (respond, message) in cases {
        let (cluster, _hook) = cluster(respond, "v1").await;
        send(&cluster, "POST", &points("v1"), &v1("a", "x")).await;
        for path in [points("v2"), format!("{}/a", points("v2"))] {
            let refused = send(&cluster, "GET", &path, &json!({})).await;
            assert_eq!(
                (refused.code, refused.body["message"].as_str().unwrap()),
                (500, message.as_str())
            );
        }
    }
}

#[tokio::test]
async fn a_failed_conversion_stores_nothing() {
    let (cluster, _hook) = cluster(
        |review| {
            json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
                "response": {"uid": review["request"]["uid"], "result": {"status": "Failed", "message": "no"}},
            })
        },
        "v1",
    )
    .await;
    let message = "conversion webhook for ex.com/v2, Kind=Point failed: no";
    for query in ["", "?dryRun=All"] {
        let path = format!("{}{query}", points("v2"));
        let refused = send(&cluster, "POST", &path, &v2("a", "x:80")).await;
        assert_eq!(
            (
                refused.code,
                refused.body["message"].as_str().unwrap(),
                cluster.count("points")
            ),
            (500, message, 0)
        );
    }
}
