//! A view as server-sent events: each event is the whole view, sent when it has changed.
//!
//! make the view -> changed? send -> rest -> again, for at most [`LIFE`]
//!
//! A stream ends after a minute, and the browser opens the next one. So the guard of the server checks
//! the caller again, and the time limit of idle connections needs no exception. The id of an event
//! tells the server of the next stream when the next view is due, and which view the browser has.
//!
//! The rest after a view is at least 49 times as long as the view took, so a reader costs at most a
//! fiftieth of a core.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use futures::stream;
use http::HeaderMap;
use http::header::{self, HeaderName};
use serde_json::{Value, json};
use steersman_runtime::tasks::CancellationToken;
use tokio::time::Instant;

use super::{Produce, Shared};
use crate::access::NOSNIFF;

/// The longest life of a stream. Below the time limit of idle connections.
const LIFE: Duration = Duration::from_secs(60);
/// The browser opens the next stream after this time.
const RETRY: Duration = Duration::from_millis(300);
/// The longest rest after a view that took long.
const LONGEST_REST: Duration = Duration::from_secs(300);
/// How many times as long as a view took the rest is.
const RESTS: u32 = 49;
/// Streams at once. A browser has one; a proxy between may keep those that it has left. A further stream
/// ends the oldest one, whose browser comes back if it is still there.
const MAX_STREAMS: usize = 32;

/// Marks a response whose body is made while it is sent.
#[derive(Clone, Copy)]
pub(crate) struct Streamed;

/// The latest streams, oldest first.
#[derive(Clone, Default)]
pub(super) struct Limit(Shared<VecDeque<CancellationToken>>);

impl Limit {
    /// Ends the oldest stream if there are too many. The token ends the new one.
    fn open(&self) -> CancellationToken {
        let token = CancellationToken::new();
        let mut streams = self.0.lock();
        streams.push_back(token.clone());
        if streams.len() > MAX_STREAMS
            && let Some(oldest) = streams.pop_front()
        {
            oldest.cancel();
        }
        token
    }
}

struct State<P> {
    source: P,
    /// The hash of the view that the browser has.
    sent: Option<u64>,
    /// When the next view is due.
    due: Instant,
    ends: Instant,
    is_first: bool,
    /// Cancelled when newer streams take the place of this one.
    over: CancellationToken,
}

/// The stream of the views of `source`.
pub(super) fn answer(source: impl Produce, limit: &Limit, headers: &HeaderMap) -> Response {
    let now = Instant::now();
    let (due, sent) = last_event(headers);
    let state = State {
        source,
        sent,
        due: now + due,
        ends: now + LIFE,
        is_first: true,
        over: limit.open(),
    };
    let events = stream::unfold(state, |state| async move {
        let (event, state) = next(state).await?;
        Some((Ok::<_, std::convert::Infallible>(Bytes::from(event)), state))
    });
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        // Proxies must not collect events.
        (HeaderName::from_static("x-accel-buffering"), "no"),
        NOSNIFF,
    ];
    let mut response = (headers, Body::from_stream(events)).into_response();
    response.extensions_mut().insert(Streamed);
    response
}

/// The next event; `None` at the end of the stream.
async fn next<P: Produce>(mut state: State<P>) -> Option<(String, State<P>)> {
    if state.is_first {
        state.is_first = false;
        // Sends the head of the response at once.
        return Some((format!("retry: {}\n\n", RETRY.as_millis()), state));
    }
    loop {
        if state.due >= state.ends {
            tokio::select! {
                () = state.over.cancelled() => {}
                () = tokio::time::sleep_until(state.ends) => {}
            }
            return None;
        }
        tokio::select! {
            () = state.over.cancelled() => return None,
            () = tokio::time::sleep_until(state.due) => {}
        }
        let began = Instant::now();
        let made = state.source.produce().await;
        let rest = rest(began.elapsed(), state.source.period());
        state.due = Instant::now() + rest;
        let data = made
            .unwrap_or_else(|(status, reason)| json!({ "error": reason, "code": status.as_u16() }));
        let hash = hash_of(&data);
        if state.sent.replace(hash) != Some(hash) {
            let millis = rest.as_millis();
            return Some((format!("id: {millis}.{hash:x}\ndata: {data}\n\n"), state));
        }
    }
}

/// The pause after a view that took `took`.
fn rest(took: Duration, period: Duration) -> Duration {
    (took * RESTS).min(LONGEST_REST).max(period)
}

/// Everything but the time of the view.
fn hash_of(data: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    match data {
        Value::Object(members) => {
            for (name, value) in members.iter().filter(|(name, _)| *name != "time") {
                name.hash(&mut hasher);
                value.to_string().hash(&mut hasher);
            }
        }
        other => other.to_string().hash(&mut hasher),
    }
    hasher.finish()
}

/// The rest and the hash in the id of the last event that the browser has got.
fn last_event(headers: &HeaderMap) -> (Duration, Option<u64>) {
    let id = headers
        .get(HeaderName::from_static("last-event-id"))
        .and_then(|id| id.to_str().ok());
    let parsed = id.and_then(|id| {
        let (millis, hash) = id.split_once('.')?;
        let rest = Duration::from_millis(millis.parse().ok()?);
        Some((rest.min(LONGEST_REST), u64::from_str_radix(hash, 16).ok()?))
    });
    match parsed {
        // A view that is cheap may come at once: the connection may have been lost for long.
        Some((rest, hash)) if rest > LIFE => (rest, Some(hash)),
        Some((_, hash)) => (Duration::ZERO, Some(hash)),
        None => (Duration::ZERO, None),
    }
}

#[cfg(test)]
mod tests {
    use futures::future::BoxFuture;
    use http::StatusCode;
    use http_body_util::BodyExt;
    use parking_lot::Mutex;

    use super::*;

    struct Views(Mutex<Vec<Value>>, Duration);

    impl Produce for Views {
        fn produce(&self) -> BoxFuture<'_, Result<Value, (StatusCode, String)>> {
            Box::pin(async move {
                tokio::time::sleep(self.1).await;
                let mut views = self.0.lock();
                let next = if views.len() > 1 {
                    views.remove(0)
                } else {
                    views[0].clone()
                };
                Ok(next)
            })
        }

        fn period(&self) -> Duration {
            Duration::from_secs(2)
        }
    }

    async fn events(views: &[Value], took: Duration, last: &str) -> Vec<(Duration, String)> {
        let mut headers = HeaderMap::new();
        if !last.is_empty() {
            headers.insert("last-event-id", last.parse().unwrap());
        }
        let source = Views(Mutex::new(views.to_vec()), took);
        let mut body = answer(source, &Limit::default(), &headers).into_body();
        let began = Instant::now();
        let mut events = Vec::new();
        while let Some(frame) = body.frame().await {
            let data = frame.unwrap().into_data().unwrap();
            let text = String::from_utf8(data.to_vec()).unwrap();
            if let Some((_, data)) = text.split_once("data: ") {
                events.push((began.elapsed(), data.trim().to_owned()));
            }
        }
        events.push((began.elapsed(), "end".to_owned()));
        events
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_changed_view_is_sent_and_a_stream_ends_after_a_minute() {
        let views = [
            json!({"time": 1, "n": 1}),
            json!({"time": 2, "n": 1}),
            json!({"time": 3, "n": 2}),
        ];
        let found = events(&views, Duration::ZERO, "").await;
        let second = Duration::from_secs(1);
        let expected = [
            (Duration::ZERO, r#"{"time":1,"n":1}"#),
            (second * 4, r#"{"time":3,"n":2}"#),
            (second * 60, "end"),
        ];
        let found: Vec<(Duration, Value)> = found
            .iter()
            .map(|(at, data)| (*at, serde_json::from_str(data).unwrap_or("end".into())))
            .collect();
        let expected: Vec<(Duration, Value)> = expected
            .iter()
            .map(|(at, data)| (*at, serde_json::from_str(data).unwrap_or("end".into())))
            .collect();
        assert_eq!(found, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn a_browser_that_returns_gets_only_what_it_lacks() {
        let view = json!({"n": 1});
        let known = format!("2000.{:x}", hash_of(&view));
        let found = events(std::slice::from_ref(&view), Duration::ZERO, &known).await;
        assert_eq!(found.len(), 1, "{found:?}");
        let found = events(std::slice::from_ref(&view), Duration::ZERO, "2000.1").await;
        assert_eq!(found.len(), 2, "{found:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_expensive_view_comes_rarely_also_to_a_browser_that_returns() {
        let view = json!({"n": 1});
        // Two seconds of work allow the next view after 98 s.
        let found = events(std::slice::from_ref(&view), Duration::from_secs(2), "").await;
        assert_eq!(found.len(), 2, "{found:?}");
        let found = events(
            std::slice::from_ref(&view),
            Duration::from_secs(2),
            "98000.1",
        )
        .await;
        assert_eq!(found.len(), 1, "{found:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_further_stream_ends_the_oldest_one() {
        let limit = Limit::default();
        let open = || {
            let source = Views(Mutex::new(vec![json!({"n": 1})]), Duration::ZERO);
            answer(source, &limit, &HeaderMap::new()).into_body()
        };
        let oldest = open();
        let second = open();
        let _others: Vec<Body> = (2..=MAX_STREAMS).map(|_| open()).collect();
        let began = Instant::now();
        oldest.collect().await.unwrap();
        assert!(began.elapsed() < Duration::from_secs(1));
        second.collect().await.unwrap();
        assert_eq!(began.elapsed(), LIFE);
    }

    #[test]
    fn a_reader_takes_at_most_a_fiftieth_of_the_time() {
        let period = Duration::from_secs(2);
        for millis in [0, 1, 40, 41, 500, 6000] {
            let took = Duration::from_millis(millis);
            let rest = rest(took, period);
            assert!(rest >= period && took * 50 <= took + rest, "{millis}");
        }
    }
}
