//! Objects that are deeper than the server reads.

use serde_json::{Value, json};
use steersman_devcluster::DevCluster;

use crate::support::{Answer, ask, clock, widgets};

const JSON: &str = "application/json";

fn message(answer: &Answer) -> (u16, &str) {
    (
        answer.code,
        answer.body["message"].as_str().unwrap_or_default(),
    )
}

/// A definition that keeps unknown fields.
fn definition() -> Value {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let served = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    widgets(json!([served]))
}

#[tokio::test(start_paused = true)]
async fn a_stored_object_can_be_read_again() {
    let cluster = DevCluster::with_managed_fields(clock());
    cluster.create(definition()).await.unwrap();
    let client = cluster.client();
    let path = "/apis/example.com/v1/namespaces/default/widgets";
    let deep = |levels| format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels));
    let refused = (400, "exceeded max depth");
    let mut stored = 0;
    for levels in 110..=125 {
        let body = format!(
            "{{\"apiVersion\":\"example.com/v1\",\"kind\":\"Widget\",\"metadata\":{{\"name\":\"m\"}},\"spec\":{}}}",
            deep(levels)
        );
        let made = ask(&client, "POST", path, JSON, body.as_bytes()).await;
        if made.code == 201 {
            stored += 1;
            let path = format!("{path}/m");
            let gone = ask(&client, "DELETE", &path, "", b"").await;
            assert_eq!(gone.code, 200, "{levels}");
        } else {
            // Managed fields have a few levels more than the object.
            assert_eq!(message(&made), refused, "{levels}");
        }
    }
    assert!((1..16).contains(&stored), "{stored}");

    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "n"}, "spec": {"a": {}}});
    cluster.create(widget).await.unwrap();
    let mut place = "/spec/a".to_owned();
    let mut add = || {
        let patch = format!(
            "[{{\"op\":\"add\",\"path\":\"{place}\",\"value\":{}}}]",
            deep(90)
        );
        place += &"/a".repeat(90);
        patch
    };
    let path = format!("{path}/n");
    for expected in [(200, ""), refused] {
        let patched = ask(
            &client,
            "PATCH",
            &path,
            "application/json-patch+json",
            add().as_bytes(),
        )
        .await;
        assert_eq!(message(&patched), expected);
    }
}
