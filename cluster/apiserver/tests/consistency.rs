//! Guarantees for clients that write concurrently, and for clients that fall behind.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use http::{Method, Request};
use http_body_util::{BodyExt, BodyStream, Full};
use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_devcluster::DevCluster;
use steersman_devcluster::definitions::definition;
use steersman_values::clock::Clock;
use tokio::time::{Instant, timeout};
use tower::Service;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PATIENCE: Duration = Duration::from_secs(30);

fn cluster() -> DevCluster {
    DevCluster::new(Clock::runtime(
        "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap(),
    ))
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap()
}

/// Frames of a watch on the collection at `path`.
async fn watch(cluster: &DevCluster, path: &str, options: &str) -> BoxStream<'static, Value> {
    let request = Request::get(format!("{path}?watch=1&{options}"))
        .body(Full::<bytes::Bytes>::default())
        .unwrap();
    let response = cluster.service().call(request).await.unwrap();
    assert_eq!(response.status(), 200);
    let frames = BodyStream::new(response.into_body());
    frames
        .map(|frame| serde_json::from_slice(&frame.unwrap().into_data().unwrap()).unwrap())
        .boxed()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_watch_sees_every_write_once_and_in_order() {
    const WRITERS: usize = 8;
    const WRITES: usize = 50;
    let cluster = cluster();
    cluster.create(config_map("shared")).await.unwrap();
    let mut frames = watch(
        &cluster,
        MAPS,
        &format!("resourceVersion={}", cluster.revision()),
    )
    .await;
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let cluster = cluster.clone();
            tokio::spawn(async move {
                for write in 0..WRITES {
                    let patch = json!({"data": {format!("w{writer}-{write}"): "x"}});
                    cluster
                        .patch(&format!("{MAPS}/shared"), patch)
                        .await
                        .unwrap();
                }
            })
        })
        .collect();
    let mut versions = Vec::new();
    while versions.len() < WRITERS * WRITES {
        let frame = timeout(PATIENCE, frames.next())
            .await
            .expect("every write becomes a frame")
            .unwrap();
        assert_eq!(frame["type"], "MODIFIED");
        assert_eq!(
            frame["object"]["data"].as_object().unwrap().len(),
            versions.len() + 1
        );
        versions.push(version(&frame["object"]));
    }
    for writer in writers {
        writer.await.unwrap();
    }
    assert!(versions.is_sorted_by(|a, b| a < b), "{versions:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn watches_of_a_deleted_definition_end_after_the_deletion_of_its_objects() {
    const ROUNDS: usize = 50;
    const WATCHES: usize = 8;
    const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
    let cluster = cluster();
    for round in 0..ROUNDS {
        let widgets = definition("example.com", "Widget", &["v1"], "Namespaced");
        cluster.create(widgets).await.unwrap();
        let widget =
            json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}});
        cluster.create(widget).await.unwrap();
        let mut watchers = Vec::new();
        for _ in 0..WATCHES {
            let frames = watch(&cluster, WIDGETS, "").await;
            watchers.push(tokio::spawn(timeout(PATIENCE, frames.collect::<Vec<_>>())));
        }
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";
        cluster.delete(path).await.unwrap();
        for watcher in watchers {
            let frames = watcher.await.unwrap().expect("the watch ends");
            let types: Vec<_> = frames.iter().map(|frame| &frame["type"]).collect();
            assert_eq!(types, ["ADDED", "DELETED"], "round {round}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_of_many_writes_with_the_same_version_succeeds() {
    let cluster = cluster();
    let created = cluster.create(config_map("a")).await.unwrap();
    let writers_at_once = (0..16).map(|writer| {
        let cluster = cluster.clone();
        let mut map = created.clone();
        map["data"] = json!({"writer": writer.to_string()});
        tokio::spawn(async move { cluster.replace(map).await })
    });
    let mut codes = Vec::new();
    for writer in writers_at_once.collect::<Vec<_>>() {
        codes.push(
            writer
                .await
                .unwrap()
                .map_or_else(|status| status.code, |_| 200),
        );
    }
    codes.sort_unstable();
    assert_eq!(codes, [[200].as_slice(), &[409; 15]].concat());
}

#[tokio::test(start_paused = true)]
async fn an_expired_continue_token_comes_with_a_new_one() {
    let cluster = cluster();
    for name in ["a", "b", "c"] {
        cluster.create(config_map(name)).await.unwrap();
    }
    let page = cluster.get(&format!("{MAPS}?limit=1")).await.unwrap();
    assert_eq!(page["metadata"]["remainingItemCount"], 2);
    cluster.delete(&format!("{MAPS}/b")).await.unwrap();
    cluster.compact("configmaps");

    let token = page["metadata"]["continue"].as_str().unwrap();
    let request = Request::builder()
        .method(Method::GET)
        .uri(format!("{MAPS}?limit=1&continue={token}"));
    let response = cluster
        .service()
        .call(request.body(Full::<bytes::Bytes>::default()).unwrap())
        .await
        .unwrap();
    assert_eq!(response.status(), 410);
    let expired: Value =
        serde_json::from_slice(&response.into_body().collect().await.unwrap().to_bytes()).unwrap();
    let token = expired["metadata"]["continue"].as_str().unwrap();
    let rest = cluster
        .get(&format!("{MAPS}?continue={token}"))
        .await
        .unwrap();
    let names: Vec<&str> = rest["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|map| map["metadata"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["c"]);
}

#[tokio::test(start_paused = true)]
async fn an_idle_watch_sends_bookmarks_and_ends_after_its_timeout() {
    let cluster = cluster();
    let started = Instant::now();
    let mut frames = watch(
        &cluster,
        MAPS,
        "resourceVersion=1&allowWatchBookmarks=true&timeoutSeconds=150",
    )
    .await;
    let mut at = Vec::new();
    while let Some(frame) = frames.next().await {
        assert_eq!(frame["type"], "BOOKMARK");
        // A bookmark advances with changes of other types, too.
        assert_eq!(version(&frame["object"]), cluster.revision());
        at.push(started.elapsed().as_secs());
        let pod = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"generateName": "s-"}});
        cluster.create(pod).await.unwrap();
    }
    assert_eq!(at, [60, 120, 148]);
    assert_eq!(started.elapsed().as_secs(), 150);
}

#[tokio::test(start_paused = true)]
async fn a_watch_behind_the_history_ends_with_an_error() {
    let cluster = cluster();
    cluster.create(config_map("a")).await.unwrap();
    let mut frames = watch(
        &cluster,
        MAPS,
        &format!("resourceVersion={}", cluster.revision()),
    )
    .await;
    // More bytes than the history holds, and more events than it always keeps.
    for write in 0..1_200 {
        let patch = json!({"data": {"k": format!("{write}{}", "x".repeat(32_000))}});
        cluster.patch(&format!("{MAPS}/a"), patch).await.unwrap();
    }
    let frame = frames.next().await.unwrap();
    assert_eq!(
        (&frame["type"], &frame["object"]["code"]),
        (&json!("ERROR"), &json!(410))
    );
    assert!(frames.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn generated_names_are_unique() {
    let cluster = cluster();
    let mut names = BTreeSet::new();
    for _ in 0..500 {
        let map =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "m-"}});
        let created = cluster.create(map).await.unwrap();
        assert!(names.insert(created["metadata"]["name"].as_str().unwrap().to_owned()));
    }
    assert_eq!(cluster.count("configmaps"), 500);
}
