//! Answers without managed fields: `drop=metadata.managedFields` in `Accept`, as servers of 1.38 have it
//! behind the gate `ManagedFieldsOptOut`.

use http::Request;
use http::header::{ACCEPT, CONTENT_TYPE};
use serde_json::{Value, json};
use steersman_devcluster::DevCluster;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// The text of the answer to a request with this `Accept`.
async fn text(client: &kube::Client, method: &str, path: &str, accept: &str) -> String {
    let body = json!({"data": {"a": "c"}}).to_string().into_bytes();
    let request = Request::builder().method(method).uri(path);
    let request = request
        .header(ACCEPT, accept)
        .header(CONTENT_TYPE, "application/merge-patch+json");
    client
        .request_text(request.body(body).unwrap())
        .await
        .unwrap()
}

/// Every JSON value of a text without managed fields. A watch has one in each line.
fn without(text: &str) -> Vec<Value> {
    fn remove(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.shift_remove("managedFields");
                fields.values_mut().for_each(remove);
            }
            Value::Array(items) => items.iter_mut().for_each(remove),
            _ => {}
        }
    }
    let values = text.lines().map(|line| {
        let mut value: Value = serde_json::from_str(line).unwrap();
        remove(&mut value);
        value
    });
    values.collect()
}

#[tokio::test(start_paused = true)]
async fn managed_fields_are_dropped_if_the_gate_is_on_and_the_client_asks() {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "b"}});
    let metadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let table = "application/json;as=Table;g=meta.k8s.io;v=v1";
    let object = format!("{MAPS}/a");
    let watch = format!("{MAPS}?watch=true&timeoutSeconds=1");
    let changed = format!("{watch}&resourceVersion=1");
    // (method, path, accepted)
    let cases: [(&str, &str, &str); 7] = [
        ("GET", &object, "application/json"),
        ("GET", &object, metadata),
        ("GET", MAPS, "application/json"),
        ("GET", MAPS, table),
        ("GET", &watch, "application/json"),
        ("GET", &changed, "application/json"),
        ("PATCH", &object, "application/json"),
    ];
    for is_on in [false, true] {
        let mut builder = DevCluster::builder().clock(crate::support::clock());
        if is_on {
            builder = builder.managed_fields_opt_out();
        }
        let cluster = builder.start().await.unwrap();
        cluster.create(map.clone()).await.unwrap();
        let client = cluster.client();
        for (method, path, accept) in cases {
            let dropping = format!("{accept};drop=metadata.managedFields,application/json;q=0.9");
            let light = text(&client, method, path, &dropping).await;
            let whole = text(&client, method, path, accept).await;
            assert!(whole.contains("managedFields"), "{path} {accept}");
            assert_eq!(light.contains("managedFields"), !is_on, "{path} {accept}");
            assert_eq!(without(&light), without(&whole), "{path} {accept}");
        }
    }
}
