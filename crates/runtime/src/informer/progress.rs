//! Decides the next request of the reflector, without IO.
//!
//! Without streaming lists (feature gate `WatchListClient` off), each stream-list is a list.
//!
//! stream-list -(initial state complete)-> watch -(closed)-> watch
//!     |                                     |
//!     +-(refused)-> list -(complete)-> watch +-(expired, failed)-> stream-list, after a back-off
//!
//! A watch that ended resumes at the last version, so that no event is missed. If this is not
//! possible, a new list replaces the state. Upstream: `ListAndWatch` in
//! `client-go/tools/cache/reflector.go`.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use tokio::time::Instant;

use steersman_client::{ApiError, Query};

/// A stream that ends sooner shows a problem of the server. The next request then waits. Upstream:
/// `VeryShortWatchError`, for a stream without events.
const SHORT: Duration = Duration::from_secs(1);

/// The least time between the starts of two watches of which the first one sent a frame. It bounds
/// the requests to a server that closes each watch early.
const APART: Duration = Duration::from_millis(100);

/// Objects per page of a list. Upstream: `defaultPageSize` of the `pager` package.
const PAGE: u32 = 500;

/// A request of the reflector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Request {
    /// A watch that starts with all objects (a streaming list), at version `from` or later. `None`
    /// asks for the latest version.
    StreamList { from: Option<u64> },
    /// A list, for servers without streaming lists.
    List { from: ListFrom, paged: bool },
    /// A watch of all changes after this version.
    Watch { from: u64 },
}

/// How recent a list must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListFrom {
    /// Any version in the server's watch cache.
    Cached,
    /// At least this version.
    Version(u64),
    /// The latest version.
    Latest,
}

/// How a stream or a list ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The stream was closed or broke. It can be resumed.
    Closed { lived: Duration, frames: u64 },
    /// Status 429. Nothing was missed, so the same request follows after a pause.
    Throttled,
    /// Connection refused. As upstream's `isWatchErrorRetriable`, it is treated like a throttled
    /// request.
    Refused,
    /// The server has compacted the requested version. Upstream: `isExpiredError`.
    Expired,
    /// The server has not reached the requested version, or its history was rewound before it.
    /// Upstream: `isTooLargeResourceVersionError`.
    TooLarge,
    /// Any other error.
    Failed,
}

/// The pause before the next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pause {
    /// This time.
    For(Duration),
    /// The next step of the back-off.
    BackOff,
}

impl Pause {
    const NONE: Self = Self::For(Duration::ZERO);
}

/// The state of the reflector.
#[derive(Debug)]
pub(super) struct Progress {
    /// The version up to which the informer has all changes.
    version: Option<u64>,
    /// True if the server refused that version. The next list then asks for the latest version.
    /// Upstream: `isLastSyncResourceVersionUnavailable`.
    version_unavailable: bool,
    /// True if the server pages even lists from its watch cache. Upstream: `paginatedResult`.
    paginated: bool,
    /// Whether the server is asked for streaming lists. Upstream: `useWatchList`.
    streams: bool,
    request: Request,
}

impl Progress {
    pub(super) fn new(streams: bool) -> Self {
        let mut progress = Self {
            version: None,
            version_unavailable: false,
            paginated: false,
            streams,
            request: Request::StreamList { from: None },
        };
        progress.request = progress.relist();
        progress
    }

    /// The request to send now.
    pub(super) fn request(&self) -> Request {
        self.request
    }

    /// The state at `version` is complete. The next request is a watch.
    pub(super) fn synced(&mut self, version: u64) {
        self.version_unavailable = false;
        self.advanced(version);
    }

    /// The server paged a list. If the request allowed its watch cache, later lists are paged too.
    pub(super) fn saw_pages(&mut self) {
        if self.request
            == (Request::List {
                from: ListFrom::Cached,
                paged: true,
            })
        {
            self.paginated = true;
        }
    }

    /// True if the informer already has a later version than `version`.
    pub(super) fn is_past(&self, version: u64) -> bool {
        self.version.is_some_and(|reached| version < reached)
    }

    /// The informer has all changes up to `version`.
    pub(super) fn advanced(&mut self, version: u64) {
        self.version = Some(version);
        self.request = Request::Watch { from: version };
    }

    /// Decides the next request after `end`, and the pause before it.
    pub(super) fn ended(&mut self, end: End) -> Pause {
        let short = matches!(end, End::Closed { lived, .. } if lived < SHORT);
        let empty = matches!(end, End::Closed { frames: 0, .. });
        let (request, pause) = match (self.request, end) {
            // Upstream reopens a short stream with frames at once. A server that closes each stream
            // early would then get thousands of requests per second. A streaming list starts from nothing
            // each time, so a short one makes no progress.
            (Request::StreamList { .. }, End::Closed { .. }) if !(short && empty) => {
                let pause = if short { Pause::BackOff } else { Pause::NONE };
                (self.stream_list(), pause)
            }
            // kube-apiserver closes a watch that cannot take its events in time. The watches of a new
            // server have little room, so a burst of changes closes several in a row. The informer
            // must not fall behind by a back-off then.
            (request @ Request::Watch { .. }, End::Closed { lived, .. }) if !(short && empty) => {
                (request, Pause::For(APART.saturating_sub(lived)))
            }
            (Request::StreamList { .. }, End::Throttled | End::Refused) => {
                (self.stream_list(), Pause::BackOff)
            }
            (request @ Request::Watch { .. }, End::Throttled | End::Refused) => {
                (request, Pause::BackOff)
            }
            (Request::StreamList { from: Some(_) }, End::Expired | End::TooLarge) => {
                self.version_unavailable = true;
                (self.stream_list(), Pause::NONE)
            }
            (Request::StreamList { .. }, _) => (self.list(), Pause::NONE),
            (Request::List { from, .. }, End::Expired | End::TooLarge)
                if from != ListFrom::Latest =>
            {
                self.version_unavailable = true;
                (self.list(), Pause::NONE)
            }
            (Request::Watch { .. }, End::TooLarge) => {
                self.version_unavailable = true;
                (self.relist(), Pause::BackOff)
            }
            (Request::List { .. } | Request::Watch { .. }, _) => (self.relist(), Pause::BackOff),
        };
        self.request = request;
        pause
    }

    /// The request for the whole state.
    fn relist(&self) -> Request {
        if self.streams {
            self.stream_list()
        } else {
            self.list()
        }
    }

    /// A streaming list that is at least as recent as the informer's state. A lagging API server
    /// therefore cannot send an older state. Upstream: `rewatchResourceVersion`.
    fn stream_list(&self) -> Request {
        Request::StreamList {
            from: self.version.filter(|_| !self.version_unavailable),
        }
    }

    /// A list with the same rule. The first list may come from the server's watch cache, as
    /// upstream's. Upstream: `relistResourceVersion`.
    fn list(&self) -> Request {
        let from = match self.version {
            _ if self.version_unavailable => ListFrom::Latest,
            None => ListFrom::Cached,
            Some(version) => ListFrom::Version(version),
        };
        // Without a limit, the server answers from its watch cache; with one, it reads etcd.
        Request::List {
            from,
            paged: self.paginated || !matches!(from, ListFrom::Version(_)),
        }
    }
}

impl Request {
    /// The query, with parameters in alphabetical order. The server closes a watch after `timeout`,
    /// in whole seconds.
    pub(super) fn query(self, timeout: Duration) -> Query {
        let seconds = timeout.as_secs();
        let limited = |query: Query| {
            query
                .with("timeout", format!("{}m{}s", seconds / 60, seconds % 60))
                .with("timeoutSeconds", seconds)
        };
        let bookmarks = Query::from("allowWatchBookmarks=true");
        match self {
            Self::StreamList { from } => {
                let query = match from {
                    Some(version) => bookmarks.with("resourceVersion", version),
                    None => bookmarks,
                };
                limited(
                    query
                        .with("resourceVersionMatch", "NotOlderThan")
                        .with("sendInitialEvents", true),
                )
            }
            Self::Watch { from } => limited(bookmarks.with("resourceVersion", from)),
            Self::List { from, paged } => {
                let query = if paged {
                    Query::default().with("limit", PAGE)
                } else {
                    Query::default()
                };
                match from {
                    ListFrom::Cached => query.with("resourceVersion", 0),
                    ListFrom::Version(version) => query.with("resourceVersion", version),
                    ListFrom::Latest => query,
                }
            }
        }
    }
}

/// The query for the next page of a list; `token` is the `continue` value of the previous page.
pub(super) fn next_page(token: &str) -> Query {
    Query::default().with("continue", token).with("limit", PAGE)
}

/// Classifies a Status from a response or from an ERROR frame.
pub(super) fn end_of_status(status: &Status, code: u16) -> End {
    let causes = status
        .details
        .as_ref()
        .and_then(|d| d.causes.as_deref())
        .unwrap_or_default();
    if causes
        .iter()
        .any(|cause| cause.reason.as_deref() == Some("ResourceVersionTooLarge"))
    {
        return End::TooLarge;
    }
    match (status.reason.as_deref().unwrap_or_default(), code) {
        // The code counts only for a Status without a reason.
        ("Expired" | "Gone", _) | ("", 410) => End::Expired,
        ("TooManyRequests", _) | ("", 429) => End::Throttled,
        _ => End::Failed,
    }
}

/// Classifies a failed request.
pub(super) fn end_of_error(error: &ApiError) -> End {
    match error {
        ApiError::Status { status, code, .. } => end_of_status(status, *code),
        ApiError::Transport { source, .. } if is_refused(&**source) => End::Refused,
        _ => End::Failed,
    }
}

/// True if a cause of `error` is a refused connection.
fn is_refused(error: &(dyn std::error::Error + 'static)) -> bool {
    if let Some(io) = error.downcast_ref::<std::io::Error>() {
        // `source` skips the inner error of an IO error, so this code looks at it directly.
        let inner = io.get_ref().is_some_and(|inner| is_refused(inner));
        return inner || io.kind() == std::io::ErrorKind::ConnectionRefused;
    }
    error.source().is_some_and(is_refused)
}

/// The pauses between requests: 0.8 s, doubled up to 30 s. Jitter adds up to 100 % to each.
#[derive(Debug)]
pub(super) struct Backoff {
    next: Duration,
    since: Instant,
}

impl Backoff {
    /// Upstream: `defaultBackoffInit`, `defaultBackoffMax` and `defaultBackoffReset`.
    const FIRST: Duration = Duration::from_millis(800);
    const LAST: Duration = Duration::from_secs(30);
    const RESET: Duration = Duration::from_secs(120);

    pub(super) fn new(now: Instant) -> Self {
        Self {
            next: Self::FIRST,
            since: now,
        }
    }

    /// The next pause, with `jitter` in [0, 1).
    ///
    /// The sequence starts again two minutes after its last start, even without a success in
    /// between. Upstream's does the same.
    pub(super) fn step(&mut self, now: Instant, jitter: f64) -> Duration {
        if now.duration_since(self.since) > Self::RESET {
            *self = Self::new(now);
        }
        let pause = self.next;
        self.next = (pause * 2).min(Self::LAST);
        pause.mul_f64(1.0 + jitter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(400);
    const BRIEF: Duration = Duration::from_millis(300);
    const CLEAN: End = End::Closed {
        lived: LONG,
        frames: 0,
    };
    const SHORT_EMPTY: End = End::Closed {
        lived: BRIEF,
        frames: 0,
    };
    const SHORT_BUSY: End = End::Closed {
        lived: BRIEF,
        frames: 3,
    };
    const INSTANT_BUSY: End = End::Closed {
        lived: Duration::from_millis(30),
        frames: 3,
    };

    fn at(version: Option<u64>, request: Request) -> Progress {
        Progress {
            version,
            version_unavailable: false,
            paginated: false,
            streams: true,
            request,
        }
    }

    #[test]
    fn each_end_decides_the_next_request_and_the_pause() {
        let fresh = Request::StreamList { from: None };
        let again = Request::StreamList { from: Some(7) };
        let watch = Request::Watch { from: 7 };
        let none = Pause::NONE;
        let back_off = Pause::BackOff;
        let list = |from, paged| Request::List { from, paged };
        let cached = list(ListFrom::Cached, true);
        let newer = list(ListFrom::Version(7), false);
        let latest = list(ListFrom::Latest, true);
        // (why, version, request, its end, next request, pause)
        let cases = [
            (
                "closed before the bookmark",
                None,
                fresh,
                CLEAN,
                fresh,
                none,
            ),
            (
                "closed soon, after some objects",
                None,
                fresh,
                SHORT_BUSY,
                fresh,
                back_off,
            ),
            ("very short", None, fresh, SHORT_EMPTY, cached, none),
            (
                "very short, later",
                Some(7),
                again,
                SHORT_EMPTY,
                newer,
                none,
            ),
            ("throttled", Some(7), again, End::Throttled, again, back_off),
            ("refused", None, fresh, End::Refused, fresh, back_off),
            ("version expired", Some(7), again, End::Expired, fresh, none),
            (
                "version too large",
                Some(7),
                again,
                End::TooLarge,
                fresh,
                none,
            ),
            (
                "no version, yet expired",
                None,
                fresh,
                End::Expired,
                cached,
                none,
            ),
            (
                "streaming not supported",
                None,
                fresh,
                End::Failed,
                cached,
                none,
            ),
            (
                "streaming not supported, later",
                Some(7),
                again,
                End::Failed,
                newer,
                none,
            ),
            ("list failed", Some(7), newer, End::Failed, again, back_off),
            (
                "list throttled",
                None,
                cached,
                End::Throttled,
                fresh,
                back_off,
            ),
            ("list expired", Some(7), newer, End::Expired, latest, none),
            (
                "list too large",
                Some(7),
                newer,
                End::TooLarge,
                latest,
                none,
            ),
            (
                "latest list, yet expired",
                None,
                latest,
                End::Expired,
                fresh,
                back_off,
            ),
            ("watch timed out", Some(7), watch, CLEAN, watch, none),
            (
                "watch closed soon, after some changes",
                Some(7),
                watch,
                SHORT_BUSY,
                watch,
                none,
            ),
            (
                "watch closed at once, after some changes",
                Some(7),
                watch,
                INSTANT_BUSY,
                watch,
                Pause::For(Duration::from_millis(70)),
            ),
            (
                "watch very short",
                Some(7),
                watch,
                SHORT_EMPTY,
                again,
                back_off,
            ),
            (
                "watch throttled",
                Some(7),
                watch,
                End::Throttled,
                watch,
                back_off,
            ),
            (
                "watch refused",
                Some(7),
                watch,
                End::Refused,
                watch,
                back_off,
            ),
            (
                "watch expired",
                Some(7),
                watch,
                End::Expired,
                again,
                back_off,
            ),
            ("watch failed", Some(7), watch, End::Failed, again, back_off),
            (
                "watch of a history that went back",
                Some(7),
                watch,
                End::TooLarge,
                fresh,
                back_off,
            ),
        ];
        for (why, version, request, end, next, pause) in cases {
            let mut progress = at(version, request);
            assert_eq!(
                (progress.ended(end), progress.request()),
                (pause, next),
                "{why}"
            );
        }
    }

    #[test]
    fn a_refused_version_is_not_requested_until_a_list_is_complete() {
        let mut progress = at(Some(7), Request::StreamList { from: Some(7) });
        progress.ended(End::TooLarge);
        progress.ended(End::Failed);
        assert_eq!(
            progress.request(),
            Request::List {
                from: ListFrom::Latest,
                paged: true
            }
        );
        progress.ended(End::Failed);
        assert_eq!(progress.request(), Request::StreamList { from: None });
        progress.synced(5);
        progress.ended(End::Expired);
        assert_eq!(progress.request(), Request::StreamList { from: Some(5) });
    }

    /// Feature gate `WatchListClient` off.
    #[test]
    fn without_streaming_lists_each_state_comes_as_a_list() {
        let list = |from, paged| Request::List { from, paged };
        let mut progress = Progress::new(false);
        assert_eq!(progress.request(), list(ListFrom::Cached, true));
        progress.ended(End::Failed);
        assert_eq!(progress.request(), list(ListFrom::Cached, true));
        progress.synced(7);
        assert_eq!(progress.request(), Request::Watch { from: 7 });
        for (end, expected) in [
            (End::Expired, list(ListFrom::Version(7), false)),
            (End::TooLarge, list(ListFrom::Latest, true)),
        ] {
            progress.synced(7);
            assert_eq!(progress.ended(end), Pause::BackOff);
            assert_eq!(progress.request(), expected, "{end:?}");
        }
    }

    #[test]
    fn lists_stay_paged_if_the_server_pages_its_cache() {
        let mut progress = at(
            None,
            Request::List {
                from: ListFrom::Cached,
                paged: true,
            },
        );
        progress.saw_pages();
        progress.synced(7);
        progress.ended(End::Failed);
        progress.ended(End::Failed);
        assert_eq!(
            progress.request(),
            Request::List {
                from: ListFrom::Version(7),
                paged: true
            }
        );
    }

    #[test]
    fn queries_equal_upstreams() {
        let list = |from, paged| Request::List { from, paged };
        let cases = [
            (
                Request::StreamList { from: None },
                "allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&timeout=8m35s&timeoutSeconds=515",
            ),
            (
                Request::StreamList { from: Some(9) },
                "allowWatchBookmarks=true&resourceVersion=9&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&timeout=8m35s&timeoutSeconds=515",
            ),
            (
                Request::Watch { from: 9 },
                "allowWatchBookmarks=true&resourceVersion=9&timeout=8m35s&timeoutSeconds=515",
            ),
            (list(ListFrom::Cached, true), "limit=500&resourceVersion=0"),
            (list(ListFrom::Version(9), false), "resourceVersion=9"),
            (list(ListFrom::Latest, true), "limit=500"),
            (list(ListFrom::Latest, false), ""),
        ];
        for (request, expected) in cases {
            assert_eq!(request.query(Duration::from_secs(515)).as_str(), expected);
        }
        assert_eq!(
            next_page("a-Z_0+/=").as_str(),
            "continue=a-Z_0%2B%2F%3D&limit=500"
        );
    }

    #[test]
    fn pauses_double_and_restart_after_two_minutes() {
        let start = Instant::now();
        let mut backoff = Backoff::new(start);
        let pauses: Vec<f64> = (0..8)
            .map(|_| backoff.step(start, 0.0).as_secs_f64())
            .collect();
        assert_eq!(pauses, [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]);
        assert_eq!(
            backoff.step(start + Duration::from_secs(120), 0.5),
            Duration::from_secs(45)
        );
        let reset = start + Duration::from_secs(121);
        assert_eq!(backoff.step(reset, 0.5), Duration::from_millis(1200));
        assert_eq!(
            backoff.step(reset + Duration::from_secs(119), 0.0),
            Duration::from_millis(1600)
        );
    }

    #[test]
    fn errors_are_classified_by_cause_reason_and_code() {
        let status = |json: serde_json::Value| serde_json::from_value::<Status>(json).unwrap();
        let too_large = serde_json::json!({"reason": "Timeout", "details": {"causes": [{"reason": "ResourceVersionTooLarge"}]}});
        let cases = [
            (
                status(serde_json::json!({"reason": "Expired"})),
                410,
                End::Expired,
            ),
            (
                status(serde_json::json!({"reason": "Gone"})),
                410,
                End::Expired,
            ),
            (status(serde_json::json!({})), 410, End::Expired),
            (status(too_large), 504, End::TooLarge),
            (
                status(serde_json::json!({"reason": "Timeout"})),
                504,
                End::Failed,
            ),
            (
                status(serde_json::json!({"reason": "TooManyRequests"})),
                429,
                End::Throttled,
            ),
            (status(serde_json::json!({})), 429, End::Throttled),
            (
                status(serde_json::json!({"reason": "InternalError"})),
                500,
                End::Failed,
            ),
        ];
        for (status, code, end) in cases {
            assert_eq!(end_of_status(&status, code), end, "{status:?}");
            let error = ApiError::Status {
                request: "GET /".to_owned(),
                code,
                status: Box::new(status),
            };
            assert_eq!(end_of_error(&error), end);
        }
        let refused = std::io::Error::new(std::io::ErrorKind::ConnectionRefused, "refused");
        let wrapped = std::io::Error::other(std::io::Error::other(refused));
        let error = ApiError::Transport {
            request: "GET /".to_owned(),
            source: Box::new(wrapped),
        };
        assert_eq!(end_of_error(&error), End::Refused);
    }
}
