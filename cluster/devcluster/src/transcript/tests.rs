use serde_json::json;
use steersman_values::clock::Clock;

use super::*;
use crate::DevCluster;

const BEGIN: Timestamp = Timestamp::constant(1_700_000_000, 0);

fn tell(cluster: &DevCluster) -> String {
    let mut transcript = Transcript::new("a test", BEGIN);
    transcript.step("all there was", &cluster.requests(), |request| {
        request.verb != "get"
    });
    transcript.text().to_owned()
}

fn cluster() -> DevCluster {
    let cluster = DevCluster::with_managed_fields(Clock::runtime(BEGIN));
    cluster.keep_contents();
    cluster
}

#[tokio::test(start_paused = true)]
async fn generated_values_have_stand_ins() {
    let mut texts = Vec::new();
    for _ in 0..2 {
        let cluster = cluster();
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "web-", "labels": {"app": "web"}},
            "spec": {"containers": [{"name": "main", "image": "registry.example/a/rather/long/name/that/needs/a/line/of/its/own/and/so/on:0123456789abcdef"}]},
        });
        let name = cluster.create(pod).await.unwrap()["metadata"]["name"].clone();
        let path = cluster.path("pods", "default", name.as_str().unwrap());
        let pod = cluster.get(&path).await.unwrap();
        let owner = json!([{"apiVersion": "v1", "kind": "Pod", "name": name, "uid": pod["metadata"]["uid"]}]);
        cluster
            .patch(&path, json!({"metadata": {"ownerReferences": owner}}))
            .await
            .unwrap();
        texts.push(tell(&cluster));
    }
    assert_eq!(texts[0], texts[1]);
    let expected = r#"# a test

== all there was

devcluster: POST /api/v1/namespaces/default/pods 201 (application/json)
    {
      "apiVersion": "v1",
      "kind": "Pod",
      "metadata": {"generateName":"web-","labels":{"app":"web"}},
      "spec": {"containers":[{"name":"main","image":"registry.example/a/rather/long/name/that/needs/a/line/of/its/own/and/so/on:0123456789abcdef"}]}
    }

devcluster: PATCH /api/v1/namespaces/default/pods/web-xxxxx 200 (application/merge-patch+json)
    {"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"web-xxxxx","uid":"<uid of Pod web-xxxxx>"}]}}
"#;
    assert_eq!(texts[0], expected);
}

#[tokio::test(start_paused = true)]
async fn a_put_shows_its_changes() {
    let cluster = cluster();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "1", "y": "1", "z.z": "1"}});
    let mut stored = cluster.create(map).await.unwrap();
    cluster.clear_requests();
    stored["data"] = json!({"x": "2", "z.z": "1", "w.w": "2023-11-14T22:13:25Z"});
    stored["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("managedFields");
    cluster.replace(stored.clone()).await.unwrap();
    cluster.replace(stored).await.unwrap_err();
    let expected = r#"# a test

== all there was

devcluster: PUT /api/v1/namespaces/default/configmaps/a 200 (application/json)
    the object as it is without managedFields, but
    ~ data.x: "1" -> "2"
    - data.y: "1"
    + data["w.w"]: "<+5s>"

devcluster: PUT /api/v1/namespaces/default/configmaps/a 409 (application/json)
    the object as it is without managedFields, seen at another version, but
    nothing
"#;
    assert_eq!(tell(&cluster), expected);
}

#[tokio::test(start_paused = true)]
async fn the_order_of_requests_for_pods_is_normalized() {
    let tell = async |names: [&str; 3]| {
        let cluster = cluster();
        for name in names {
            let _ = cluster.delete(&cluster.path("pods", "default", name)).await;
        }
        tell(&cluster)
    };
    let told = tell(["a", "b", "b"]).await;
    assert_eq!(told, tell(["b", "a", "b"]).await);
    assert!(
        told.ends_with(
            "pods/a 404\n\n2x devcluster: DELETE /api/v1/namespaces/default/pods/b 404\n"
        ),
        "{told}"
    );
}
