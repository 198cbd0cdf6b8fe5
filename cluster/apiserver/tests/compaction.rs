//! Lists of revisions that are older than the last compaction. The expected answers are those of
//! kube-apiserver 1.36.2 with `--etcd-compaction-interval=20s`.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use steersman_devcluster::DevCluster;

use crate::support::{Answer, send};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const INTERVAL: Duration = Duration::from_secs(5 * 60);
const SECOND: Duration = Duration::from_secs(1);

async fn cluster_with_maps() -> DevCluster {
    let map =
        |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let builder = ["a", "b", "c", "d"].map(map).into_iter();
    builder
        .fold(DevCluster::builder(), |builder, map| builder.object(map))
        .compaction_interval(INTERVAL)
        .start()
        .await
        .unwrap()
}

async fn list(cluster: &DevCluster, query: &str) -> Answer {
    send(cluster, "GET", &format!("{MAPS}?{query}"), &Value::Null).await
}

fn token(list: &Answer) -> &str {
    list.body["metadata"]["continue"].as_str().unwrap()
}

fn decoded(token: &str) -> Value {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(token).unwrap()).unwrap()
}

fn names(list: &Answer) -> Vec<&str> {
    let items = list.body["items"].as_array().unwrap().iter();
    items
        .map(|item| item["metadata"]["name"].as_str().unwrap())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_token_expires_at_the_second_compaction_without_any_write() {
    let cluster = cluster_with_maps().await;
    let first = list(&cluster, "limit=1").await;
    let version = first.body["metadata"]["resourceVersion"].as_str().unwrap();
    let next = format!("limit=2&continue={}", token(&first));
    let exact = format!("resourceVersion={version}&resourceVersionMatch=Exact");

    tokio::time::sleep(INTERVAL * 2 - SECOND).await;
    assert_eq!(names(&list(&cluster, &next).await), ["b", "c"]);
    assert_eq!(names(&list(&cluster, &exact).await).len(), 4);

    tokio::time::sleep(SECOND * 2).await;
    let expired = list(&cluster, &next).await;
    assert_eq!(
        (expired.code, &expired.body["reason"]),
        (410, &json!("Expired"))
    );
    let message = expired.body["message"].as_str().unwrap();
    assert!(message.contains("or use the continue token in this response"));
    let new = decoded(token(&expired));
    assert_eq!(
        new,
        json!({"v": "meta.k8s.io/v1", "rv": -1, "start": "a\0"})
    );
    let too_old = list(&cluster, &exact).await;
    assert_eq!(too_old.code, 410);
    let message = "The resourceVersion for the provided list is too old.";
    assert_eq!(too_old.body["message"], message);
}

#[tokio::test(start_paused = true)]
async fn the_token_of_an_expired_one_continues_at_the_present_version() {
    let cluster = cluster_with_maps().await;
    let first = list(&cluster, "limit=1").await;
    tokio::time::sleep(INTERVAL * 2 + SECOND).await;
    cluster.delete(&format!("{MAPS}/b")).await.unwrap();

    let expired = list(&cluster, &format!("limit=1&continue={}", token(&first))).await;
    let page = list(&cluster, &format!("limit=1&continue={}", token(&expired))).await;
    assert_eq!(names(&page), ["c"]);
    assert_eq!(
        page.body["metadata"]["resourceVersion"],
        cluster.revision().to_string()
    );
    assert_eq!(page.body["metadata"]["remainingItemCount"], 1);
    // The following pages are those of one version again.
    let next = decoded(token(&page));
    assert_eq!(next["rv"], cluster.revision());
    cluster.delete(&format!("{MAPS}/d")).await.unwrap();
    let last = list(&cluster, &format!("continue={}", token(&page))).await;
    assert_eq!(names(&last), ["d"]);
}

#[tokio::test(start_paused = true)]
async fn tokens_of_no_list_are_refused() {
    let cluster = cluster_with_maps().await;
    let mut found = Vec::new();
    for (version, start) in [
        (0, "/a"),
        (-1, ""),
        (-1, "/../a"),
        (-1, "/a//b"),
        (99_999, "/a"),
    ] {
        let token = json!({"v": "meta.k8s.io/v1", "rv": version, "start": start});
        let token = URL_SAFE_NO_PAD.encode(token.to_string());
        let answer = list(&cluster, &format!("continue={token}")).await;
        found.push(answer.body["message"].as_str().unwrap().to_owned());
    }
    let invalid = "invalid continue token: continue key is not valid";
    let present = cluster.revision();
    let expected = [
        format!("{invalid}: incorrect encoded start resourceVersion (version meta.k8s.io/v1)"),
        format!("{invalid}: encoded start key empty (version meta.k8s.io/v1)"),
        format!("{invalid}: /../a"),
        format!("{invalid}: /a//b"),
        format!("Timeout: Too large resource version: 99999, current: {present}"),
    ];
    assert_eq!(found, expected);
}

#[tokio::test(start_paused = true)]
async fn a_watch_continues_after_compactions() {
    let cluster = cluster_with_maps().await;
    let version = cluster.revision();
    tokio::time::sleep(INTERVAL * 3).await;
    cluster.delete(&format!("{MAPS}/b")).await.unwrap();
    let path = format!("watch=1&timeoutSeconds=1&resourceVersion={version}");
    assert_eq!(list(&cluster, &path).await.body["type"], "DELETED");
}
