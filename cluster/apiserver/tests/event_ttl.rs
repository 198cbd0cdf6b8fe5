//! Events are deleted after their time to live.

use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, WatchEvent, WatchParams};
use serde_json::{Value, json};
use steersman_devcluster::DevCluster;

const TTL: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);

fn event(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": name},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"}, "type": "Normal", "reason": "Tested",
    })
}

fn names(cluster: &DevCluster) -> Vec<String> {
    cluster
        .objects("events")
        .iter()
        .map(|event| event["metadata"]["name"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn events_are_deleted_a_ttl_after_their_last_write() {
    let cluster = DevCluster::builder().event_ttl(TTL).start().await.unwrap();
    for name in ["deleted", "updated", "written-once"] {
        cluster.create(event(name)).await.unwrap();
    }
    let events: Api<Event> = Api::default_namespaced(cluster.client());
    let frames = events
        .watch(&WatchParams::default(), &cluster.revision().to_string())
        .await
        .unwrap();
    tokio::time::sleep(TTL - SECOND).await;
    assert_eq!(names(&cluster), ["deleted", "updated", "written-once"]);
    cluster
        .patch(
            &cluster.path("events", "default", "updated"),
            json!({"count": 2}),
        )
        .await
        .unwrap();
    cluster
        .delete(&cluster.path("events", "default", "deleted"))
        .await
        .unwrap();
    tokio::time::sleep(SECOND * 2).await;
    assert_eq!(names(&cluster), ["updated"]);
    tokio::time::sleep(TTL).await;
    assert_eq!(names(&cluster), Vec::<String>::new());

    let seen: Vec<String> = frames
        .take(4)
        .map_ok(|frame| match frame {
            WatchEvent::Modified(event) => format!("modified {}", event.metadata.name.unwrap()),
            WatchEvent::Deleted(event) => format!("deleted {}", event.metadata.name.unwrap()),
            other => format!("{other:?}"),
        })
        .try_collect()
        .await
        .unwrap();
    assert_eq!(
        seen,
        [
            "modified updated",
            "deleted deleted",
            "deleted written-once",
            "deleted updated"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn events_of_both_groups_are_deleted_and_no_other_objects() {
    let cluster = DevCluster::builder().event_ttl(TTL).start().await.unwrap();
    let newer = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "newer"}, "eventTime": "2026-01-01T00:00:00.000000Z",
        "regarding": {"kind": "Pod", "namespace": "default", "name": "p"}, "type": "Normal", "reason": "Tested", "action": "Test",
        "reportingController": "example.com/test", "reportingInstance": "test-0",
    });
    cluster.create(newer).await.unwrap();
    cluster
        .create(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "stays"}}))
        .await
        .unwrap();
    let config_maps = cluster.count("configmaps");
    tokio::time::sleep(TTL + SECOND).await;
    assert_eq!(
        (cluster.count("events"), cluster.count("configmaps")),
        (0, config_maps)
    );
}

/// Objects from before the start, loaded or of a snapshot, get a whole time to live. So do objects
/// that were written while the history was lost.
#[tokio::test(start_paused = true)]
async fn events_outside_the_history_are_deleted() {
    let before = DevCluster::builder()
        .object(event("before"))
        .start()
        .await
        .unwrap()
        .snapshot();
    let cluster = DevCluster::builder()
        .snapshot(&before)
        .event_ttl(TTL)
        .start()
        .await
        .unwrap();
    tokio::time::sleep(TTL / 2).await;
    cluster.create(event("compacted")).await.unwrap();
    cluster.compact("events");
    tokio::time::sleep(TTL / 2 + SECOND).await;
    assert_eq!(names(&cluster), ["compacted"]);
    tokio::time::sleep(TTL / 2).await;
    assert_eq!(cluster.count("events"), 0);
}

#[tokio::test(start_paused = true)]
async fn events_without_a_ttl_stay() {
    let cluster = DevCluster::builder()
        .event_ttl(Duration::ZERO)
        .object(event("kept"))
        .start()
        .await
        .unwrap();
    let unset = DevCluster::builder()
        .object(event("kept"))
        .start()
        .await
        .unwrap();
    let never_due = DevCluster::builder()
        .event_ttl(Duration::MAX)
        .object(event("kept"))
        .start()
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(7 * 24 * 3600)).await;
    assert_eq!(
        [cluster, unset, never_due].map(|cluster| cluster.count("events")),
        [1, 1, 1]
    );
}
