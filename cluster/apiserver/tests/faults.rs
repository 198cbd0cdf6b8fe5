//! Each failure as a client observes it.

use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use http::Request;
use http_body_util::{BodyStream, Full};
use serde_json::{Value, json};
use steersman_devcluster::DevCluster;
use steersman_devcluster::faults::*;
use steersman_values::clock::Clock;
use tokio::time::{Instant, timeout};
use tower::Service;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SECOND: Duration = Duration::from_secs(1);

fn cluster() -> DevCluster {
    DevCluster::new(Clock::runtime(
        "2026-01-01T00:00:00Z".parse::<jiff::Timestamp>().unwrap(),
    ))
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

async fn create(cluster: &DevCluster, names: &[&str]) {
    for name in names {
        cluster.create(config_map(name)).await.unwrap();
    }
}

async fn touch(cluster: &DevCluster, name: &str, value: &str) {
    cluster
        .patch(&format!("{MAPS}/{name}"), json!({"data": {"value": value}}))
        .await
        .unwrap();
}

async fn delete(cluster: &DevCluster, name: &str) {
    cluster.delete(&format!("{MAPS}/{name}")).await.unwrap();
}

/// The events of a watch of the ConfigMaps in `default`, as `TYPE name`, `TYPE name=value` or
/// `ERROR code`.
async fn watch(cluster: &DevCluster, options: &str) -> BoxStream<'static, String> {
    let request = Request::get(format!("{MAPS}?watch=1&{options}"))
        .body(Full::<bytes::Bytes>::default())
        .unwrap();
    let response = cluster.service().call(request).await.unwrap();
    let frames = BodyStream::new(response.into_body());
    frames
        .map(|frame| serde_json::from_slice(&frame.unwrap().into_data().unwrap()).unwrap())
        .map(summary)
        .boxed()
}

fn summary(frame: Value) -> String {
    let kind = frame["type"].as_str().unwrap();
    let object = &frame["object"];
    match (kind, object["data"]["value"].as_str()) {
        ("ERROR", _) => format!("ERROR {}", object["code"]),
        (kind, Some(value)) => format!(
            "{kind} {}={value}",
            object["metadata"]["name"].as_str().unwrap()
        ),
        (kind, None) => format!("{kind} {}", object["metadata"]["name"].as_str().unwrap()),
    }
}

/// The events until ten seconds pass without one. The last entry is `end` if the watch has ended.
async fn rest(frames: &mut BoxStream<'static, String>) -> Vec<String> {
    let mut all = Vec::new();
    loop {
        match timeout(10 * SECOND, frames.next()).await {
            Ok(Some(frame)) => all.push(frame),
            Ok(None) => {
                all.push("end".to_owned());
                return all;
            }
            Err(_) => return all,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn unanswered_requests_are_handled_as_the_fault_says() {
    let cases = [
        (RequestFault::Reset, false, true),
        (RequestFault::LoseAnswer, true, true),
        (RequestFault::Hang, false, false),
        (RequestFault::HangAfterwards, true, false),
    ];
    for (fault, applied, reset) in cases {
        let cluster = cluster();
        let rule = cluster.faults().on_request(
            Matcher::new("create", "configmaps"),
            fault.clone(),
            Some(1),
        );
        let body = Full::from(config_map("a").to_string());
        let request = Request::post(MAPS)
            .header("content-type", "application/json")
            .body(body)
            .unwrap();
        let mut service = cluster.service();
        let answer = timeout(SECOND, service.call(request)).await;
        match answer {
            Ok(outcome) => assert_eq!(
                outcome.unwrap_err().kind(),
                std::io::ErrorKind::ConnectionReset,
                "{fault:?}"
            ),
            Err(_) => assert!(!reset, "{fault:?}"),
        }
        assert_eq!(cluster.count("configmaps") == 1, applied, "{fault:?}");
        timeout(SECOND, cluster.faults().met(rule)).await.unwrap();
        create(&cluster, &["b"]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn rules_skip_matches_and_filter_clients() {
    let cluster = cluster();
    let faults = cluster.faults();
    let third = faults.reject(
        Matcher::writes().except("secrets").nth(3),
        internal_error(),
        Some(1),
    );
    let others = faults.reject(
        Matcher::writes().client("another-client"),
        internal_error(),
        None,
    );
    cluster
        .create(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}))
        .await
        .unwrap();
    create(&cluster, &["a", "b"]).await;
    assert!(cluster.get(MAPS).await.is_ok());
    assert_eq!(faults.hits(third), 0);
    assert_eq!(cluster.create(config_map("c")).await.unwrap_err().code, 500);
    create(&cluster, &["c"]).await;
    assert_eq!((faults.hits(third), faults.hits(others)), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn discovery_fails_like_other_requests() {
    let cluster = cluster();
    let faults = cluster.faults();
    let refused = faults.reject(Matcher::discovery().nth(2), internal_error(), Some(1));
    let reset = faults.on_request(
        Matcher::discovery().name("/apis/apps/v1"),
        RequestFault::Reset,
        Some(1),
    );
    assert!(cluster.get("/api/v1").await.is_ok());
    assert_eq!(cluster.get("/apis").await.unwrap_err().code, 500);
    assert!(cluster.get("/apis/apps/v1").await.is_err());
    assert_eq!(
        [refused, reset].map(|rule| faults.last_hit(rule).unwrap()),
        ["get /apis", "get /apis/apps/v1"]
    );
    for fine in [
        "/api",
        "/apis",
        "/apis/apps",
        "/apis/apps/v1",
        "/version",
        MAPS,
    ] {
        assert!(cluster.get(fine).await.is_ok(), "{fine}");
    }
    // Discovery excludes requests for objects, and `/version`.
    let all = faults.reject(Matcher::discovery(), internal_error(), None);
    assert!(cluster.get("/version").await.is_ok() && cluster.get(MAPS).await.is_ok());
    assert_eq!(faults.hits(all), 0);
}

#[tokio::test(start_paused = true)]
async fn rejections_have_the_codes_of_upstream() {
    let cases = [
        (conflict(), 409, None),
        (expired(), 410, None),
        (throttled(7), 429, Some("7")),
        (internal_error(), 500, None),
    ];
    for (status, code, retry_after) in cases {
        let cluster = cluster();
        cluster
            .faults()
            .reject(Matcher::new("list", "configmaps"), status, Some(1));
        let request = Request::get(MAPS)
            .body(Full::<bytes::Bytes>::default())
            .unwrap();
        let response = cluster.service().call(request).await.unwrap();
        assert_eq!(response.status(), code);
        assert_eq!(
            response
                .headers()
                .get("retry-after")
                .map(|value| value.to_str().unwrap()),
            retry_after
        );
    }
}

#[tokio::test(start_paused = true)]
async fn random_delays_are_bounded_and_repeat_with_their_seed() {
    let mut sequences = Vec::new();
    for seed in [1, 1, 2] {
        let cluster = cluster();
        cluster.faults().seed(seed);
        cluster
            .faults()
            .on_request(Matcher::default(), RequestFault::DelayUpTo(SECOND), None);
        let mut delays = Vec::new();
        for _ in 0..8 {
            let begun = Instant::now();
            cluster.get(MAPS).await.unwrap();
            delays.push(begun.elapsed());
        }
        assert!(
            delays
                .iter()
                .all(|delay| *delay <= SECOND + Duration::from_millis(1)),
            "{delays:?}"
        );
        sequences.push(delays);
    }
    assert_eq!(sequences[0], sequences[1]);
    assert_ne!(sequences[0], sequences[2]);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_event_is_missing_until_the_watch_expires() {
    let cluster = cluster();
    let mut frames = watch(&cluster, "resourceVersion=1").await;
    let fault = EventFault::Drop {
        repaired_after: 2 * SECOND,
    };
    cluster
        .faults()
        .on_event(Matcher::new("watch", "configmaps").nth(2), fault, Some(1));
    create(&cluster, &["a", "b", "c"]).await;
    let begun = Instant::now();
    assert_eq!(
        rest(&mut frames).await,
        ["ADDED a", "ADDED c", "ERROR 410", "end"]
    );
    assert!(begun.elapsed() < 3 * SECOND);
    assert_eq!(
        rest(&mut watch(&cluster, "").await).await,
        ["ADDED a", "ADDED b", "ADDED c"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_at_the_event_and_a_new_one_sees_all() {
    for (fault, end) in [
        (EventFault::Close, vec!["ADDED a", "end"]),
        (EventFault::Expire, vec!["ADDED a", "ERROR 410", "end"]),
    ] {
        let cluster = cluster();
        let mut frames = watch(&cluster, "resourceVersion=1").await;
        cluster.faults().on_event(
            Matcher::new("watch", "configmaps").name("b"),
            fault,
            Some(1),
        );
        create(&cluster, &["a", "b", "c"]).await;
        assert_eq!(rest(&mut frames).await, end);
        assert_eq!(rest(&mut watch(&cluster, "").await).await.len(), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn a_delayed_event_delays_later_events() {
    let cluster = cluster();
    let mut frames = watch(&cluster, "resourceVersion=1").await;
    cluster.faults().on_event(
        Matcher::new("watch", "configmaps").name("b"),
        EventFault::Delay(5 * SECOND),
        Some(1),
    );
    create(&cluster, &["a", "b", "c"]).await;
    assert_eq!(frames.next().await.unwrap(), "ADDED a");
    let begun = Instant::now();
    assert_eq!(frames.next().await.unwrap(), "ADDED b");
    assert!(begun.elapsed() >= 5 * SECOND);
    assert_eq!(frames.next().await.unwrap(), "ADDED c");
}

#[tokio::test(start_paused = true)]
async fn coalesced_events_are_the_last_state_of_each_object() {
    let cluster = cluster();
    create(&cluster, &["changed", "deleted", "recreated"]).await;
    let mut frames = watch(&cluster, &format!("resourceVersion={}", cluster.revision())).await;
    cluster.faults().on_event(
        Matcher::new("watch", "configmaps"),
        EventFault::Coalesce(5 * SECOND),
        Some(1),
    );
    let changes = async {
        for value in ["1", "2"] {
            touch(&cluster, "changed", value).await;
        }
        create(&cluster, &["brief", "new"]).await;
        touch(&cluster, "new", "1").await;
        for name in ["deleted", "recreated", "brief"] {
            delete(&cluster, name).await;
        }
        create(&cluster, &["recreated"]).await;
    };
    let (seen, ()) = tokio::join!(rest(&mut frames), changes);
    let expected = [
        "MODIFIED changed=2",
        "ADDED new=1",
        "DELETED deleted",
        "DELETED recreated",
        "ADDED recreated",
    ];
    assert_eq!(seen, expected);
    touch(&cluster, "new", "2").await;
    assert_eq!(rest(&mut frames).await, ["MODIFIED new=2"]);
}

#[tokio::test(start_paused = true)]
async fn a_held_view_lags_until_it_is_released() {
    let cluster = cluster();
    create(&cluster, &["old", "gone"]).await;
    let revision = cluster.revision();
    let mut following = watch(&cluster, &format!("resourceVersion={revision}")).await;
    let view = cluster.faults().hold_view(Matcher::default(), revision);
    create(&cluster, &["new"]).await;
    delete(&cluster, "gone").await;
    touch(&cluster, "old", "new").await;

    let names = |list: Value| -> Vec<String> {
        list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|map| map["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let cached = cluster
        .get(&format!("{MAPS}?resourceVersion=0"))
        .await
        .unwrap();
    assert_eq!(cached["metadata"]["resourceVersion"], revision.to_string());
    assert_eq!(names(cached), ["gone", "old"]);
    assert_eq!(
        names(cluster.get(MAPS).await.unwrap()),
        ["new", "old"],
        "a read without resourceVersion bypasses the cache"
    );
    let old = cluster
        .get(&format!("{MAPS}/old?resourceVersion=0"))
        .await
        .unwrap();
    assert_eq!(old.get("data"), None);
    let latest = format!("{MAPS}?resourceVersion={}", cluster.revision());
    assert_eq!(cluster.get(&latest).await.unwrap_err().code, 504);
    assert_eq!(rest(&mut following).await, [""; 0]);
    let options =
        "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    assert_eq!(
        rest(&mut watch(&cluster, options).await).await,
        ["ERROR 504", "end"]
    );
    let mut begun = watch(&cluster, "resourceVersion=0").await;
    assert_eq!(rest(&mut begun).await, ["ADDED gone", "ADDED old"]);

    cluster.faults().remove(view);
    let missed = ["ADDED new", "DELETED gone", "MODIFIED old=new"];
    assert_eq!(rest(&mut following).await, missed);
    assert_eq!(rest(&mut begun).await, missed);
    assert!(cluster.get(&latest).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_lagging_view_advances_with_every_change() {
    let cluster = cluster();
    create(&cluster, &["a"]).await;
    let view = cluster.faults().lag_view(Matcher::default(), 2);
    let mut following = watch(&cluster, &format!("resourceVersion={}", cluster.revision())).await;
    let cached = async |cluster: &DevCluster| {
        let list = cluster
            .get(&format!("{MAPS}?resourceVersion=0"))
            .await
            .unwrap();
        let revision: u64 = list["metadata"]["resourceVersion"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap();
        (
            list["items"].as_array().unwrap().len(),
            cluster.revision() - revision,
        )
    };
    assert_eq!(cached(&cluster).await, (0, 2));
    create(&cluster, &["b", "c"]).await;
    assert_eq!(cached(&cluster).await, (1, 2));
    assert_eq!(rest(&mut following).await, [""; 0]);
    // A write of any resource advances the view.
    cluster
        .create(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}))
        .await
        .unwrap();
    assert_eq!(cached(&cluster).await, (2, 2));
    assert_eq!(rest(&mut following).await, ["ADDED b"]);
    let latest = format!("{MAPS}?resourceVersion={}", cluster.revision());
    assert_eq!(cluster.get(&latest).await.unwrap_err().code, 504);
    cluster.faults().remove(view);
    assert_eq!(rest(&mut following).await, ["ADDED c"]);
    assert!(cluster.get(&latest).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_read_waits_for_a_lagging_view() {
    let cluster = cluster();
    create(&cluster, &["a"]).await;
    let latest = format!("{MAPS}/a?resourceVersion={}", cluster.revision());
    cluster.faults().lag_view(Matcher::default(), 2);
    let changes = async {
        tokio::time::sleep(SECOND).await;
        create(&cluster, &["b", "c"]).await;
    };
    let (read, ()) = tokio::join!(cluster.get(&latest), changes);
    assert_eq!(read.unwrap()["metadata"]["name"], "a");
}
