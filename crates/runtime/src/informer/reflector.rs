//! Keeps one informer up to date: sends the requests that [`Progress`] decides, and applies the
//! results to the informer.
//!
//! The reflector never skips a frame. If it cannot apply one, it lists again. Upstream:
//! `client-go/tools/cache/reflector.go`.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use tokio::time::{self, Instant};
use tracing::{debug, error, trace, warn};

use steersman_client::{ApiError, Query};
use steersman_objects::Object;

use super::progress::{
    Backoff, End, ListFrom, Pause, Progress, Request, end_of_error, end_of_status, next_page,
};
use super::shared::Shared;
use super::source::ListWatch;
use super::store::Objects;
use super::wire::{self, Frame, Page, WireError};

/// The server should close a watch at its timeout. A watch that is still open and silent this long
/// after it counts as broken.
const GRACE: Duration = Duration::from_secs(30);

/// A pause within the initial state is logged after this time.
const INITIAL_SILENCE: Duration = Duration::from_secs(10);

/// Lists and watches `source` for as long as this future is polled. A dropped future leaves the
/// informer in its last state, and the next one lists again.
pub(super) async fn run<T: Object>(source: &dyn ListWatch, informer: &Shared<T>) {
    let mut reflector = Reflector {
        source,
        informer,
        progress: Progress::new(source.streams()),
        initial: Objects::default(),
    };
    let mut backoff = Backoff::new(Instant::now());
    loop {
        let Some(end) = reflector.ask().await else {
            continue;
        };
        // Also before a pause of zero: the next message from the server ends this state.
        informer.contact.lost();
        time::sleep(match reflector.progress.ended(end) {
            Pause::For(time) => time,
            Pause::BackOff => backoff.step(Instant::now(), rand::random()),
        })
        .await;
    }
}

struct Reflector<'a, T> {
    /// The API server, or a script in tests.
    source: &'a dyn ListWatch,
    informer: &'a Shared<T>,
    /// Decides each request. It survives errors, so a new watch resumes at the last version.
    progress: Progress,
    /// The objects of an incomplete streaming list. They reach the informer with the bookmark at
    /// their end, all at once. Upstream: `temporaryStore`.
    initial: Objects<T>,
}

/// A failed list, by the place of the failure.
#[derive(Debug, thiserror::Error)]
enum ListError {
    #[error(transparent)]
    Request(#[from] ApiError),
    #[error(transparent)]
    Decode(#[from] WireError),
}

impl<T: Object> Reflector<'_, T> {
    /// Sends one request and handles it to its end. `None` after a complete list.
    async fn ask(&mut self) -> Option<End> {
        let request = self.progress.request();
        // A random timeout for each watch, so that the watches of a process do not end together.
        // Upstream: `defaultMinWatchTimeout` and `defaultMaxWatchTimeout`.
        let timeout = Duration::from_secs(rand::random_range(300..600));
        let query = request.query(timeout);
        if let Request::List { from, .. } = request {
            return self.list(query, from).await;
        }
        let end = self.follow(&query, timeout + GRACE).await;
        // An incomplete state is of no use: the next streaming list starts from nothing.
        self.initial = Objects::default();
        trace!(resource = %self.informer.resource, ?request, ?end, "watch ended");
        Some(end)
    }

    /// Lists all objects and replaces the informer's state. `None` after a success.
    async fn list(&mut self, query: Query, from: ListFrom) -> Option<End> {
        match self.pages(query, from).await {
            Ok((objects, version)) => {
                self.informer.contact.received();
                self.replace(objects, version);
                None
            }
            Err(ListError::Request(error)) => {
                warn!(resource = %self.informer.resource, %error, "list failed");
                Some(end_of_error(&error))
            }
            // The state of the store stays, so controllers continue with it.
            Err(ListError::Decode(error)) => {
                error!(resource = %self.informer.resource, %error, "list cannot be decoded");
                Some(End::Failed)
            }
        }
    }

    /// Reads all pages of a list. Unchanged objects are shared with the store, to save memory.
    async fn pages(
        &mut self,
        mut query: Query,
        from: ListFrom,
    ) -> Result<(Objects<T>, u64), ListError> {
        let mut objects = Objects::default();
        let mut continued = false;
        loop {
            let body = match self.source.list(&query).await {
                Ok(body) => body,
                Err(error) if continued && end_of_error(&error) == End::Expired => {
                    // The snapshot of the continue token has expired. Only a list without pages is
                    // safe from that.
                    objects = Objects::default();
                    continued = false;
                    query = Request::List { from, paged: false }.query(Duration::ZERO);
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let page = Page::parse(&body)?;
            for object in page.objects() {
                objects.insert(self.informer.reuse_unchanged(object?));
            }
            let Some(token) = page.next else {
                return Ok((objects, page.version));
            };
            // Before the next page, so that even a failed list leaves this knowledge.
            self.progress.saw_pages();
            continued = true;
            query = next_page(&token);
        }
    }

    /// Handles a watch until it ends. `limit` is its longest allowed silence.
    ///
    /// Also the head of the answer may take `limit`: some proxies send it with the first frame
    /// only.
    async fn follow(&mut self, query: &Query, limit: Duration) -> End {
        let opened = Instant::now();
        let mut stream = match time::timeout(limit, self.source.watch(query)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                let end = end_of_error(&error);
                // Old servers have no streaming lists, so this is only a debug line. A failure of
                // the list that follows is a warning.
                if self.is_initial() && end == End::Failed {
                    debug!(resource = %self.informer.resource, %error, "streaming list failed");
                } else {
                    warn!(resource = %self.informer.resource, %error, "watch failed");
                }
                return end;
            }
            Err(_) => return self.silent(limit),
        };
        let mut frames = 0;
        let mut last_frame = Instant::now();
        self.informer.contact.received();
        loop {
            // Objects of the initial state come without pauses from a healthy server. Upstream:
            // `initialEventsEndBookmarkTicker`.
            let wait = if self.is_initial() {
                INITIAL_SILENCE.min(limit)
            } else {
                limit
            };
            let line = match time::timeout(wait, stream.next()).await {
                Ok(Some(Ok(line))) => line,
                Ok(None) => {
                    return End::Closed {
                        lived: opened.elapsed(),
                        frames,
                    };
                }
                Ok(Some(Err(error))) if error.is_too_long() => {
                    // Resuming would meet the same event again. A list may contain its object.
                    error!(resource = %self.informer.resource, %error, "watch event is too long");
                    return End::Failed;
                }
                Ok(Some(Err(error))) => {
                    // All frames before the break were applied, so the watch can resume there.
                    debug!(resource = %self.informer.resource, %error, "watch broke");
                    return match end_of_error(&error) {
                        End::Failed if error.status().is_none() => End::Closed {
                            lived: opened.elapsed(),
                            frames,
                        },
                        end => end,
                    };
                }
                Err(_) if last_frame.elapsed() < limit => {
                    let silence = last_frame.elapsed();
                    let received = self.initial.len();
                    warn!(resource = %self.informer.resource, ?silence, received, "initial state is slow to arrive");
                    continue;
                }
                Err(_) => return self.silent(limit),
            };
            frames += 1;
            last_frame = Instant::now();
            self.informer.contact.received();
            if let Err(end) = self.take(&line) {
                return end;
            }
        }
    }

    /// The end of a watch without frames for `limit`. It counts as failed, so a list follows.
    fn silent(&self, limit: Duration) -> End {
        warn!(resource = %self.informer.resource, ?limit, "watch is silent, closing it");
        End::Failed
    }

    /// True until the bookmark that ends the initial state. The same stream then continues as a
    /// watch.
    fn is_initial(&self) -> bool {
        matches!(self.progress.request(), Request::StreamList { .. })
    }

    /// Applies one frame. A frame that cannot be decoded ends the watch with [`End::Failed`]. The
    /// list that follows contains its change.
    fn take(&mut self, line: &[u8]) -> Result<(), End> {
        let frame = wire::frame::<T>(line).map_err(|error| {
            error!(resource = %self.informer.resource, %error, "watch event cannot be decoded");
            End::Failed
        })?;
        // Frames of the initial state and errors count as well.
        self.informer.metrics.event();
        match frame {
            Frame::Error(status) => {
                let code = status
                    .code
                    .and_then(|code| u16::try_from(code).ok())
                    .unwrap_or_default();
                let end = end_of_status(&status, code);
                if end == End::Failed {
                    let message = status.message.as_deref().unwrap_or_default();
                    warn!(resource = %self.informer.resource, code, message, "watch ended with an error");
                }
                return Err(end);
            }
            Frame::Bookmark {
                version,
                ends_initial,
            } if self.is_initial() => {
                if ends_initial {
                    let objects = std::mem::take(&mut self.initial);
                    self.replace(objects, version);
                }
            }
            // Versions in the initial state have no order, so their comparison would fail.
            Frame::Set(object) if self.is_initial() => {
                self.initial.insert(self.informer.reuse_unchanged(object));
            }
            // An object can go while its list is still on the way.
            Frame::Gone(object) if self.is_initial() => {
                self.initial.remove(&Arc::new(object));
            }
            Frame::Bookmark { version, .. } => {
                self.forward(version)?;
                self.informer.advance(version);
                self.progress.advanced(version);
            }
            Frame::Set(object) => {
                let version = object.meta().resource_version;
                self.forward(version)?;
                self.informer.set(Arc::new(object));
                self.progress.advanced(version);
            }
            Frame::Gone(object) => {
                let version = object.meta().resource_version;
                self.forward(version)?;
                self.informer.remove(&Arc::new(object));
                self.progress.advanced(version);
            }
        }
        Ok(())
    }

    /// Checks that versions only increase.
    ///
    /// A lower version comes from another history, such as a restored etcd. Changes between the two
    /// histories are unknown, so the informer must list again.
    fn forward(&self, version: u64) -> Result<(), End> {
        if self.progress.is_past(version) {
            warn!(resource = %T::RESOURCE, version, "watch sent a lower version, the server has lost some of its history");
            return Err(End::TooLarge);
        }
        Ok(())
    }

    /// Replaces the informer's state by a complete list.
    fn replace(&mut self, objects: Objects<T>, version: u64) {
        // Upstream's words, which it repeats for later lists.
        let first = !self.informer.is_synced();
        let count = objects.len();
        self.informer.replace(objects, version);
        self.progress.synced(version);
        if first {
            debug!(resource = %self.informer.resource, objects = count, version, "Caches populated");
        } else {
            debug!(resource = %self.informer.resource, objects = count, version, "informer listed again");
        }
    }
}
