use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use http_body_util::BodyExt;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

use steersman_client::{ClientMetrics, ClientSettings};

use super::*;
use crate::metrics::Registry;

/// A recorder, and the requests that it sent.
struct TestRecorder {
    recorder: EventRecorder,
    requests: Arc<Mutex<Vec<Seen>>>,
    tasks: Tasks,
    stop: CancellationToken,
}

#[derive(Debug, Clone)]
struct Seen {
    line: String,
    content_type: String,
    body: Value,
    at: Duration,
}

/// Starts a recorder. `answer` gets number and verb of each request, and returns the status code
/// and the body. `None` resets the connection.
fn start(
    answer: impl Fn(usize, &str) -> Option<(u16, Value)> + Send + Sync + 'static,
) -> TestRecorder {
    let requests: Arc<Mutex<Vec<Seen>>> = Arc::default();
    let answer = Arc::new(answer);
    let started = Instant::now();
    let seen = Arc::clone(&requests);
    let service = tower::service_fn(move |request: Request<Body>| {
        let seen = Arc::clone(&seen);
        let answer = Arc::clone(&answer);
        async move {
            let (parts, body) = request.into_parts();
            let body = serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap();
            let content_type = parts.headers["content-type"].to_str().unwrap().to_owned();
            let number = {
                let mut seen = seen.lock();
                let line = format!("{} {}", parts.method, parts.uri);
                seen.push(Seen {
                    line,
                    content_type,
                    body,
                    at: started.elapsed(),
                });
                seen.len()
            };
            match answer(number, parts.method.as_str()) {
                Some((code, body)) => Ok(Response::builder()
                    .status(code)
                    .body(Body::from(body.to_string().into_bytes()))
                    .unwrap()),
                None => Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset)),
            }
        }
    });
    let settings = ClientSettings {
        user_agent: "test".to_owned(),
        qps: 0.0,
        burst: 0,
        timeout: Duration::from_secs(5),
    };
    let client = ApiClient::new(
        kube::Client::new(service, "default"),
        settings,
        ClientMetrics::register(&Registry::new()).unwrap(),
    );
    let tasks = Tasks::default();
    let stop = CancellationToken::new();
    let clock = Clock::runtime("2026-01-01T00:00:00.5Z".parse().unwrap());
    let recorder = EventRecorder::start("replicaset-controller", client, clock, &tasks, &stop);
    TestRecorder {
        recorder,
        requests,
        tasks,
        stop,
    }
}

impl TestRecorder {
    /// Stops the recorder, waits for its end, and returns its requests.
    async fn end(self) -> Vec<Seen> {
        self.stop.cancel();
        self.tasks.join(Duration::from_secs(60)).await;
        let seen = self.requests.lock();
        seen.clone()
    }

    async fn end_after(self, seconds: u64) -> Vec<Seen> {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        self.end().await
    }

    fn record(&self, message: &str) {
        self.recorder.event(
            replica_set(),
            EventType::Normal,
            "SuccessfulCreate",
            message.to_owned(),
        );
    }
}

fn replica_set() -> ObjectReference {
    ObjectReference {
        api_version: "apps/v1".to_owned(),
        kind: "ReplicaSet".to_owned(),
        namespace: "shop".to_owned(),
        name: "web".to_owned(),
        uid: "u-1".to_owned(),
        resource_version: "42".to_owned(),
    }
}

fn ok(_: usize, _: &str) -> Option<(u16, Value)> {
    Some((201, json!({})))
}

fn failure(code: u16, reason: &str) -> Option<(u16, Value)> {
    Some((
        code,
        json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code }),
    ))
}

#[tokio::test(start_paused = true)]
async fn an_event_has_upstreams_fields_and_a_repetition_is_a_patch() {
    let test = start(ok);
    test.record("Created pod: web-1");
    tokio::time::sleep(Duration::from_secs(3)).await;
    test.record("Created pod: web-1");
    let seen = test.end().await;
    let [post, patch] = &*seen else {
        panic!("{seen:?}")
    };
    assert_eq!(
        (&*post.line, &*post.content_type),
        ("POST /api/v1/namespaces/shop/events", "application/json")
    );
    // The suffix is later than the clock if another test of this process used the nanosecond.
    let name = post.body["metadata"]["name"].as_str().unwrap();
    assert!(
        i64::from_str_radix(name.strip_prefix("web.").unwrap(), 16).unwrap()
            >= 0x1886_7252_0bc7_6500,
        "{name}"
    );
    assert_eq!(
        post.body,
        json!({
            "kind": "Event",
            "apiVersion": "v1",
            "metadata": { "name": name, "namespace": "shop" },
            "involvedObject": {
                "kind": "ReplicaSet", "namespace": "shop", "name": "web", "uid": "u-1", "apiVersion": "apps/v1", "resourceVersion": "42"
            },
            "reason": "SuccessfulCreate",
            "message": "Created pod: web-1",
            "source": { "component": "replicaset-controller" },
            "firstTimestamp": "2026-01-01T00:00:00Z",
            "lastTimestamp": "2026-01-01T00:00:00Z",
            "count": 1,
            "type": "Normal",
            "eventTime": null,
            "reportingComponent": "replicaset-controller",
            "reportingInstance": "",
        })
    );
    assert_eq!(
        patch.line,
        format!("PATCH /api/v1/namespaces/shop/events/{name}")
    );
    assert_eq!(patch.content_type, "application/strategic-merge-patch+json");
    assert_eq!(
        patch.body,
        json!({ "count": 2, "lastTimestamp": "2026-01-01T00:00:03Z", "message": "Created pod: web-1" })
    );
}

#[tokio::test(start_paused = true)]
async fn a_combined_event_has_no_reporting_component() {
    let test = start(ok);
    for n in 1..=10 {
        test.record(&format!("Created pod: web-{n}"));
    }
    let seen = test.end().await;
    assert_eq!(seen.len(), 10);
    let last = &seen[9].body;
    assert_eq!(
        last["message"],
        "(combined from similar events): Created pod: web-10"
    );
    assert_eq!(
        (&last["reportingComponent"], &last["source"]["component"]),
        (&json!(""), &json!("replicaset-controller"))
    );
    assert_eq!(last["count"], 1);
}

#[tokio::test(start_paused = true)]
async fn events_of_cluster_scoped_objects_are_in_the_default_namespace() {
    let test = start(ok);
    let node = ObjectReference {
        namespace: String::new(),
        kind: "Node".to_owned(),
        api_version: "v1".to_owned(),
        ..replica_set()
    };
    test.recorder
        .event(node, EventType::Warning, "Gone", "gone".to_owned());
    let seen = test.end().await;
    assert_eq!(seen[0].line, "POST /api/v1/namespaces/default/events");
    assert_eq!(seen[0].body["metadata"]["namespace"], "default");
    assert_eq!(seen[0].body["involvedObject"].get("namespace"), None);
    assert_eq!(seen[0].body["type"], "Warning");
}

#[tokio::test(start_paused = true)]
async fn an_expired_event_is_created_again_with_its_count() {
    let test = start(|_, verb| {
        if verb == "PATCH" {
            failure(404, "NotFound")
        } else {
            ok(0, verb)
        }
    });
    test.record("again");
    test.record("again");
    let seen = test.end().await;
    let verbs: Vec<_> = seen
        .iter()
        .map(|s| s.line.split(' ').next().unwrap())
        .collect();
    assert_eq!(verbs, ["POST", "PATCH", "POST"]);
    assert_eq!(
        seen[2].body["metadata"]["name"],
        seen[0].body["metadata"]["name"]
    );
    assert_eq!(seen[2].body["count"], 2);
}

#[tokio::test(start_paused = true)]
async fn error_answers_are_not_retried() {
    for (code, reason) in [
        (403, "Forbidden"),
        (409, "AlreadyExists"),
        (422, "Invalid"),
        (500, "InternalError"),
        (429, "TooManyRequests"),
    ] {
        let test = start(move |_, _| failure(code, reason));
        test.record("once");
        assert_eq!(test.end_after(300).await.len(), 1, "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_server_gets_twelve_attempts_ten_seconds_apart() {
    let test = start(|_, _| None);
    test.record("never arrives");
    let seen = test.end_after(600).await;
    assert_eq!(seen.len(), 12);
    let pauses: Vec<_> = seen
        .windows(2)
        .map(|pair| pair[1].at - pair[0].at)
        .collect();
    assert!(
        pauses[0] < Duration::from_secs(10),
        "the first pause is random: {pauses:?}"
    );
    for pause in &pauses[1..] {
        assert_eq!(pause.as_secs(), 10, "{pauses:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn later_events_wait_for_a_retried_event() {
    let test = start(|number, verb| if number == 1 { None } else { ok(number, verb) });
    test.record("first");
    test.record("second");
    let seen = test.end_after(60).await;
    let messages: Vec<_> = seen
        .iter()
        .map(|s| s.body["message"].as_str().unwrap())
        .collect();
    assert_eq!(messages, ["first", "first", "second"]);
}

#[tokio::test(start_paused = true)]
async fn queued_events_are_sent_at_shutdown_without_retries() {
    let test = start(|number, verb| if number == 1 { None } else { ok(number, verb) });
    test.record("first");
    test.record("second");
    let started = Instant::now();
    let recorder = test.recorder.clone();
    let seen = test.end().await;
    let messages: Vec<_> = seen
        .iter()
        .map(|s| s.body["message"].as_str().unwrap())
        .collect();
    assert_eq!(messages, ["first", "second"]);
    assert!(started.elapsed() <= Duration::from_secs(2));
    recorder.event(
        replica_set(),
        EventType::Normal,
        "Late",
        "after shutdown".to_owned(),
    );
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_drops_events_and_does_not_block() {
    let test = start(ok);
    for n in 0..QUEUE + 10 {
        let object = ObjectReference {
            name: format!("web-{n}"),
            ..replica_set()
        };
        test.recorder.event(
            object,
            EventType::Normal,
            "SuccessfulCreate",
            "made".to_owned(),
        );
    }
    assert_eq!(test.end().await.len(), QUEUE);
}

#[tokio::test(start_paused = true)]
async fn an_event_about_an_object_without_kind_is_not_sent() {
    let test = start(ok);
    test.recorder.event(
        ObjectReference {
            kind: String::new(),
            ..replica_set()
        },
        EventType::Normal,
        "Any",
        "any".to_owned(),
    );
    assert!(test.end().await.is_empty());
}
