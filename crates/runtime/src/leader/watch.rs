//! Watches the Lease, so that a candidate sees a release at once and not at its next attempt, and the
//! LeaseCandidate, so that it answers a ping at once.
//!
//! The watch is only a hint: the elector still reads the Lease before it decides. So a late or
//! failed watch costs time and never safety. Upstream's elector has no watch.

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use serde::Deserialize;
use tokio::time::sleep;

use steersman_client::{ApiClient, ApiError, Query, Target};
use steersman_values::resource::{LEASES, ResourceType};

use super::ElectionConfig;

/// The longest pause before a failed watch is opened again. A server without watches of Leases is
/// asked twice a minute at most.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Only the holder is read: the elector reads the whole Lease by itself.
#[derive(Deserialize)]
struct Frame {
    #[serde(rename = "type")]
    kind: String,
    object: Option<Object>,
}

#[derive(Deserialize)]
struct Object {
    spec: Option<Spec>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    holder_identity: Option<String>,
}

/// A named object whose watch is kept open.
pub(super) struct Watched {
    pub(super) client: ApiClient,
    pub(super) resource: &'static ResourceType,
    pub(super) namespace: String,
    pub(super) name: String,
    /// The first pause before a failed watch is opened again.
    pub(super) retry_period: Duration,
}

struct Watch<T> {
    object: Watched,
    /// Reads one line of the watch.
    read: fn(&[u8]) -> Seen<T>,
    /// `None` while the watch is closed.
    lines: Option<BoxStream<'static, Result<Bytes, ApiError>>>,
    /// Pause before the watch is opened; zero for the first time.
    pause: Duration,
}

/// Yields the holder after each change of the Lease; an empty name for a free or deleted Lease.
///
/// The stream never ends. While the watch fails it yields nothing, and only attempts at the retry
/// period remain. A yielded holder may be stale, so the caller must read the Lease.
pub(super) fn holders(client: ApiClient, config: ElectionConfig) -> BoxStream<'static, String> {
    let lease = Watched {
        client,
        resource: &LEASES,
        namespace: config.namespace,
        name: config.name,
        retry_period: config.retry_period,
    };
    changes(lease, holder_in)
}

/// Yields that part of each change of `object` that `read` finds. The stream never ends.
pub(super) fn changes<T: Send + 'static>(
    object: Watched,
    read: fn(&[u8]) -> Seen<T>,
) -> BoxStream<'static, T> {
    let watch = Watch {
        object,
        read,
        lines: None,
        pause: Duration::ZERO,
    };
    stream::unfold(watch, |mut watch| async move {
        let seen = watch.next().await;
        Some((seen, watch))
    })
    .boxed()
}

impl<T> Watch<T> {
    /// The next change. Opens the watch as often as needed.
    async fn next(&mut self) -> T {
        loop {
            if self.lines.is_none() {
                sleep(self.pause).await;
                self.lines = self.open().await;
            }
            while let Some(lines) = &mut self.lines {
                match lines.next().await {
                    Some(Ok(line)) => match (self.read)(&line) {
                        Seen::Change(change) => {
                            self.pause = Duration::ZERO;
                            return change;
                        }
                        Seen::Bookmark => {}
                        Seen::Failure => self.lines = None,
                    },
                    Some(Err(_)) | None => self.lines = None,
                }
            }
            // A watch that showed a change has reset the pause to zero, and opens again after the
            // retry period.
            self.pause =
                (self.pause * 2).clamp(self.object.retry_period.min(LONGEST_PAUSE), LONGEST_PAUSE);
        }
    }

    /// `None` after an error. That is no warning, because attempts at the retry period remain.
    async fn open(&mut self) -> Option<BoxStream<'static, Result<Bytes, ApiError>>> {
        let Watched {
            client,
            resource,
            namespace,
            name,
            ..
        } = &self.object;
        // The name is in the field selector. So RBAC rules with a resource name allow this watch.
        let target = Target {
            resource,
            namespace: Some(namespace),
            name: None,
            subresource: None,
        };
        let query = Query::default().with("fieldSelector", format!("metadata.name={name}"));
        match client.watch(target, &query).await {
            Ok(lines) => Some(lines),
            Err(error) => {
                tracing::debug!(%error, %resource, "Cannot watch, attempts are made every retry period only");
                None
            }
        }
    }
}

/// The content of one watch event.
#[derive(Debug, PartialEq)]
pub(super) enum Seen<T> {
    Change(T),
    /// The query asks for none, but a server may send them.
    Bookmark,
    /// The watch must be opened again. An unreadable line or an ERROR frame: nothing is known about
    /// the changes after it.
    Failure,
}

/// A deleted Lease counts as free, because the next attempt creates it.
fn holder_in(line: &[u8]) -> Seen<String> {
    let Ok(frame) = serde_json::from_slice::<Frame>(line) else {
        return Seen::Failure;
    };
    match frame.kind.as_str() {
        "ADDED" | "MODIFIED" => {
            let spec = frame.object.and_then(|o| o.spec);
            Seen::Change(spec.and_then(|s| s.holder_identity).unwrap_or_default())
        }
        "DELETED" => Seen::Change(String::new()),
        "BOOKMARK" => Seen::Bookmark,
        _ => Seen::Failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_is_read_from_a_watch_event() {
        let holder = |name: &str| Seen::Change(name.to_owned());
        // (frame, expected)
        let cases = [
            (
                r#"{"type":"ADDED","object":{"spec":{"holderIdentity":"a"}}}"#,
                holder("a"),
            ),
            (
                r#"{"type":"MODIFIED","object":{"spec":{"holderIdentity":""}}}"#,
                holder(""),
            ),
            (r#"{"type":"MODIFIED","object":{"spec":{}}}"#, holder("")),
            (
                r#"{"type":"DELETED","object":{"spec":{"holderIdentity":"a"}}}"#,
                holder(""),
            ),
            (
                r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"5"}}}"#,
                Seen::Bookmark,
            ),
            (
                r#"{"type":"ERROR","object":{"kind":"Status","status":"Failure","code":410}}"#,
                Seen::Failure,
            ),
            ("not json", Seen::Failure),
        ];
        for (frame, expected) in cases {
            assert_eq!(holder_in(frame.as_bytes()), expected, "{frame}");
        }
    }
}
