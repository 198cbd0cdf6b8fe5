//! Watches: the state at the start where asked for, then every change, as a stream of frames.
//!
//! history -> selection (on old and new state) -> view -> frames

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use rand::Rng;
use serde_json::{Value, json};
use tokio::sync::watch::Receiver;
use tokio::time::Instant;

use super::accept::View;
use super::query::{ListOptions, parse_revision};
use super::view::{self, RowObject};
use super::{Answer, Body, Call, Server};
use crate::faults::WatchFaults;
use crate::kinds::{Registered, Storage};
use crate::selectors::Selection;
use crate::status::Status;
use crate::store::{Event, EventKind, Object};

const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// The last bookmark comes this long before a known end.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// Events taken from the history at a time.
const BATCH: usize = 256;

/// Where a watch begins.
enum Start {
    /// The current state as ADDED frames, with or without a mark at their end, then what follows.
    State { mark: bool },
    /// What follows this revision.
    After(u64),
}

struct Watch {
    server: Arc<Server>,
    entry: Arc<Registered>,
    prefix: String,
    selection: Selection,
    view: View,
    include: RowObject,
    columns_sent: bool,
    bookmarks: bool,
    committed: Receiver<u64>,
    faults: Receiver<WatchFaults>,
    /// Value of the break counter when the watch opened.
    breaks: u64,
    /// Everything up to here has been sent or is in `ready`.
    position: u64,
    ready: VecDeque<Bytes>,
    ends: Instant,
    next_bookmark: Instant,
    over: bool,
}

impl Server {
    pub(super) async fn watch(self: &Arc<Self>, call: &Call<'_>) -> Result<Answer, Status> {
        let options = ListOptions::parse(call.query, true)?;
        let target = call.target;
        let mut selection = Selection::parse(target.resource(), &options.label_selector, &options.field_selector)?;
        if !target.name.is_empty() {
            selection = selection.and_name(&target.name);
        }
        let include = RowObject::parse(call.query.text("includeObject"))?;
        let revision = parse_revision(&options.resource_version).map_err(Status::unclassified)?;
        let start = match (options.send_initial_events, revision) {
            (Some(true), revision) => {
                if let Err(status) = self.wait_for(revision.unwrap_or(0)).await {
                    // A watch that is open says what is wrong in a frame.
                    return Ok(Answer::body(Body::whole(error_frame(&status))));
                }
                Start::State { mark: true }
            }
            (Some(false), None | Some(0)) => Start::After(self.revisions.current()),
            (None, None) => Start::State { mark: false },
            // Upstream's cache marks the end of this state too.
            (None, Some(0)) => Start::State { mark: true },
            (_, Some(revision)) => Start::After(revision),
        };
        let ends = options
            .timeout_seconds
            .map_or_else(|| Duration::from_secs(rand::rng().random_range(1800..3600)), Duration::from_secs);
        let faults = self.faults.watch_faults();
        let breaks = faults.borrow().breaks(&target.resource().plural);
        let now = Instant::now();
        let mut watch = Watch {
            server: self.clone(),
            entry: target.entry.clone(),
            prefix: target.prefix(),
            selection,
            view: call.form.view,
            include,
            columns_sent: false,
            bookmarks: options.bookmarks,
            committed: target.entry.store.committed(),
            breaks,
            faults,
            position: 0,
            ready: VecDeque::new(),
            ends: now + ends,
            next_bookmark: now + BOOKMARK_EVERY.min(ends.saturating_sub(BOOKMARK_BEFORE_END).max(Duration::from_millis(1))),
            over: false,
        };
        watch.begin(start);
        Ok(Answer::body(Body::stream(
            futures::stream::unfold(watch, |mut watch| async move { watch.next().await.map(|frame| (frame, watch)) }).fuse(),
        )))
    }
}

impl Watch {
    fn begin(&mut self, start: Start) {
        match start {
            Start::After(revision) => self.position = revision,
            Start::State { mark } => {
                let snapshot = self.entry.store.list(&self.server.revisions, &self.prefix);
                self.position = snapshot.revision;
                for object in snapshot.objects {
                    if self.selection.matches(&object) {
                        let frame = self.frame(EventKind::Added, &object);
                        self.ready.push_back(frame);
                    }
                }
                if mark && self.bookmarks {
                    let frame = self.bookmark(true);
                    self.ready.push_back(frame);
                }
            }
        }
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            let (stalled, broken) = {
                let faults = self.faults.borrow_and_update();
                let plural = &self.entry.resource.plural;
                (faults.stalled(plural), faults.breaks(plural) > self.breaks)
            };
            if broken {
                return None;
            }
            if !stalled {
                if let Some(frame) = self.ready.pop_front() {
                    return Some(frame);
                }
                if self.over {
                    return None;
                }
                self.committed.borrow_and_update();
                if self.take_events() {
                    continue;
                }
            }
            let bookmark = self.bookmarks && !stalled;
            tokio::select! {
                biased;
                changed = self.faults.changed() => changed.ok()?,
                changed = self.committed.changed(), if !stalled => changed.ok()?,
                () = tokio::time::sleep_until(self.ends) => return None,
                () = tokio::time::sleep_until(self.next_bookmark), if bookmark => {
                    self.schedule_bookmark();
                    return Some(self.bookmark(false));
                }
            }
        }
    }

    /// Every minute, and once more shortly before the end.
    fn schedule_bookmark(&mut self) {
        let now = Instant::now();
        let last = self.ends - BOOKMARK_BEFORE_END;
        self.next_bookmark = if now < last { (now + BOOKMARK_EVERY).min(last) } else { self.ends + BOOKMARK_EVERY };
    }

    /// Moves the next events from the history to `ready`; false when there are none.
    fn take_events(&mut self) -> bool {
        match self.entry.store.events_after(&self.server.revisions, self.position, BATCH) {
            Ok((events, complete)) => {
                self.position = complete;
                for event in &events {
                    if event.object().key.starts_with(&self.prefix)
                        && let Some(frame) = self.frame_of(event)
                    {
                        self.ready.push_back(frame);
                    }
                }
                !events.is_empty()
            }
            Err(compacted) => {
                self.ready.push_back(error_frame(&Status::too_old(self.position, compacted.oldest)));
                self.over = true;
                true
            }
        }
    }

    /// What a change means for the selection, by the states before and after it.
    fn frame_of(&mut self, event: &Event) -> Option<Bytes> {
        let before = event.old.as_ref().is_some_and(|old| self.selection.matches(old));
        let after = event.kind != EventKind::Deleted && self.selection.matches(event.object());
        match (before, after) {
            (false, false) => None,
            (false, true) => Some(self.frame(EventKind::Added, event.object())),
            (true, true) => Some(self.frame(EventKind::Modified, event.object())),
            (true, false) if event.kind == EventKind::Deleted => Some(self.frame(EventKind::Deleted, event.object())),
            (true, false) => {
                let old = event.old.as_ref()?;
                let resource = &self.entry.resource;
                let make = || Arc::new(old.at_revision(resource, event.revision, EventKind::Deleted));
                if self.view == View::Full && resource.storage == Storage::Own {
                    Some(event.left_frame(|| make().frame(EventKind::Deleted)))
                } else {
                    let left = make();
                    Some(self.frame(EventKind::Deleted, &left))
                }
            }
        }
    }

    fn frame(&mut self, kind: EventKind, object: &Arc<Object>) -> Bytes {
        let resource = &self.entry.resource;
        match self.view {
            View::Full | View::Discovery if resource.storage == Storage::Own => object.frame(kind),
            View::Full | View::Discovery => framed(kind.as_str(), &view::full(resource, object)),
            View::Metadata => framed(kind.as_str(), &view::metadata_only(object)),
            View::Table => {
                let metadata = json!({"resourceVersion": object.revision.to_string()});
                let columns = !std::mem::replace(&mut self.columns_sent, true);
                let table = self.server.table(resource, metadata, std::slice::from_ref(object), self.include, columns);
                framed(kind.as_str(), table.to_string().as_bytes())
            }
        }
    }

    fn bookmark(&mut self, initial_events_end: bool) -> Bytes {
        let resource = &self.entry.resource;
        let mut metadata = json!({"resourceVersion": self.position.to_string()});
        if initial_events_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object: Value = match self.view {
            View::Metadata => json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}),
            View::Table => {
                let bookmark = json!({"kind": resource.kind, "apiVersion": resource.api_version(), "metadata": metadata});
                let object = Arc::new(Object::unstored(resource, "", &bookmark));
                let list = json!({"resourceVersion": self.position.to_string()});
                let columns = !std::mem::replace(&mut self.columns_sent, true);
                self.server.table(resource, list, &[object], self.include, columns)
            }
            View::Full | View::Discovery => {
                json!({"kind": resource.kind, "apiVersion": resource.api_version(), "metadata": metadata})
            }
        };
        framed("BOOKMARK", object.to_string().as_bytes())
    }
}

fn framed(kind: &str, object: &[u8]) -> Bytes {
    [b"{\"type\":\"", kind.as_bytes(), b"\",\"object\":", object, b"}\n"].concat().into()
}

fn error_frame(status: &Status) -> Bytes {
    framed("ERROR", status.to_value().to_string().as_bytes())
}
