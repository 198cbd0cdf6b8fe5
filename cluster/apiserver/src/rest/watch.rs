//! Watches: the initial state, if requested, then every change, as a stream of frames.
//!
//! history -> selection (on old and new state) -> view -> frames
//!
//! Each watch reads the shared history at its own pace, so a slow client costs no memory. Upstream
//! is `apiserver/pkg/storage/cacher` and `apiserver/pkg/endpoints/handlers/watch.go`.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use serde_json::{Value, json};
use tokio::sync::watch::Receiver;
use tokio::time::Instant;

use super::accept::{Form, View};
use super::query::{ListOptions, parse_revision};
use super::view::{self, RowObject};
use super::{Answer, Body, Call, Server, Verb};
use crate::faults::{EventFault, Seen, WatchFaults};
use crate::kinds::Storage;
use crate::registry::Registered;
use crate::selectors::Selection;
use crate::status::Status;
use crate::store::{Event, EventKind, Object};

/// Period of bookmarks, as upstream's.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// Time between the last bookmark and the end of the watch.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// Most events that one step reads from the history.
const BATCH: usize = 256;

/// The start of a watch.
enum Start {
    /// At the current state, as ADDED frames, with or without a bookmark at their end.
    State { mark: bool },
    /// After this revision.
    After(u64),
}

/// The next step of a watch.
enum Step {
    Send(Bytes),
    Wait(Duration),
    Close,
}

/// An open watch, polled as a stream.
struct Watch {
    server: Arc<Server>,
    /// The `User-Agent`, for fault rules.
    client: Box<str>,
    entry: Arc<Registered>,
    prefix: String,
    selection: Selection,
    form: Form,
    include: RowObject,
    columns_sent: bool,
    bookmarks: bool,
    committed: Receiver<u64>,
    faults: Receiver<WatchFaults>,
    /// Value of the break counter when the watch opened.
    breaks: u64,
    /// Revision up to which all events were sent or are in `ready`.
    position: u64,
    ready: VecDeque<Step>,
    /// Time until which a fault delays all frames.
    paused_until: Option<Instant>,
    /// Whether a fault merges the next events into one change per object.
    merges: bool,
    /// Time at which the watch ends with 410, because a fault dropped an event.
    expires: Option<Instant>,
    ends: Instant,
    next_bookmark: Instant,
    over: bool,
}

impl Server {
    /// Opens a watch. Errors of the options are answers; later errors are frames.
    pub(super) async fn watch(self: &Arc<Self>, call: &Call<'_>) -> Result<Answer, Status> {
        let options = ListOptions::parse(call.query, true)?;
        let target = call.target;
        let mut selection = Selection::parse(
            target.resource(),
            &options.label_selector,
            &options.field_selector,
        )?;
        if !target.name.is_empty() {
            selection = selection.and_name(&target.name);
        }
        let include = RowObject::parse(call.query.text("includeObject"))?;
        let revision = parse_revision(&options.resource_version).map_err(Status::unclassified)?;
        let start = match (options.send_initial_events, revision) {
            (Some(true), revision) => {
                // Without a version, the client requests the latest state.
                let wanted = revision.unwrap_or_else(|| self.revisions.current());
                if let Err(status) = self.wait_for(&call.seen(Verb::Watch), wanted).await {
                    // An error of an open watch is a frame.
                    return Ok(Answer::body(Body::whole(error_frame(&status))));
                }
                Start::State { mark: true }
            }
            (Some(false), None | Some(0)) => Start::After(self.revisions.current()),
            (None, None) => Start::State { mark: false },
            // Upstream's cache marks the end of this initial state, too.
            (None, Some(0)) => Start::State { mark: true },
            (_, Some(revision)) => Start::After(revision),
        };
        let ends = options.timeout_seconds.map_or_else(
            || Duration::from_secs(self.random.lifetimes.within(1800..3600)),
            Duration::from_secs,
        );
        let faults = self.faults.watch_faults();
        let breaks = faults.borrow().breaks(&target.resource().plural);
        let now = Instant::now();
        let mut watch = Watch {
            server: self.clone(),
            client: call.user_agent.into(),
            entry: target.entry.clone(),
            prefix: target.prefix(),
            selection,
            form: call.form,
            include,
            columns_sent: false,
            bookmarks: options.bookmarks,
            committed: target.entry.store.committed(),
            breaks,
            faults,
            position: 0,
            ready: VecDeque::new(),
            paused_until: None,
            merges: false,
            expires: None,
            ends: now + ends,
            next_bookmark: now
                + BOOKMARK_EVERY.min(
                    ends.saturating_sub(BOOKMARK_BEFORE_END)
                        .max(Duration::from_millis(1)),
                ),
            over: false,
        };
        if let Err(status) = watch.begin(start).await {
            watch.end_with(&status);
        }
        Ok(Answer::body(Body::stream(
            futures::stream::unfold(watch, |mut watch| async move {
                watch.next().await.map(|frame| (frame, watch))
            })
            .fuse(),
        )))
    }
}

impl Watch {
    /// Queues the initial state, or sets the position to start after. The error tells that a
    /// conversion failed.
    async fn begin(&mut self, start: Start) -> Result<(), Status> {
        match start {
            Start::After(revision) => self.position = revision,
            Start::State { mark } => {
                let snapshot = self
                    .server
                    .cached(&self.entry, &self.seen("", ""), &self.prefix);
                self.position = snapshot.revision;
                let resource = &self.entry.resource;
                let objects = self
                    .server
                    .all_in_version(resource, snapshot.objects)
                    .await?;
                for object in objects {
                    if self.selection.matches(&object) {
                        let frame = self.frame(EventKind::Added, &object);
                        self.ready.push_back(Step::Send(frame));
                    }
                }
                if mark && self.bookmarks {
                    let frame = self.bookmark(true);
                    self.ready.push_back(Step::Send(frame));
                }
            }
        }
        Ok(())
    }

    /// The next frame, or `None` at the end of the watch.
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
            let now = Instant::now();
            self.paused_until = self.paused_until.filter(|until| now < *until);
            if self.expires.is_some_and(|at| at <= now) {
                self.expire();
            }
            let current = self.server.revisions.current();
            let lags = self
                .faults
                .borrow()
                .view(&self.seen("", ""), current)
                .is_some();
            let silent = stalled || self.paused_until.is_some();
            if !silent {
                match self.ready.pop_front() {
                    Some(Step::Send(frame)) => return Some(frame),
                    Some(Step::Wait(delay)) => {
                        self.paused_until = Some(now + delay);
                        continue;
                    }
                    Some(Step::Close) => return None,
                    None if self.over => return None,
                    None => {}
                }
                // Marked as seen before the read, so that a later commit wakes the watch.
                self.committed.borrow_and_update();
                // The watch of a deleted custom kind ends after its last events, which were
                // committed before the end of the kind.
                let is_retired = self.entry.retired.is_cancelled();
                if self.take_events().await {
                    continue;
                }
                if is_retired {
                    return None;
                }
            }
            let bookmark = self.bookmarks && !silent;
            let wake = self.paused_until.into_iter().chain(self.expires).min();
            tokio::select! {
                biased;
                changed = self.faults.changed() => changed.ok()?,
                changed = self.committed.changed(), if !silent => changed.ok()?,
                // A lagging view advances with changes of any type.
                () = self.server.revisions.reached(current + 1), if lags && !silent => {}
                () = self.entry.retired.cancelled(), if !silent => {}
                () = tokio::time::sleep_until(wake.unwrap_or(self.ends)), if wake.is_some() => {}
                () = tokio::time::sleep_until(self.ends) => return None,
                () = tokio::time::sleep_until(self.next_bookmark), if bookmark => {
                    self.schedule_bookmark();
                    return Some(self.bookmark(false));
                }
            }
        }
    }

    /// Schedules a bookmark every minute, and one shortly before the end.
    fn schedule_bookmark(&mut self) {
        let now = Instant::now();
        let last = self.ends - BOOKMARK_BEFORE_END;
        self.next_bookmark = if now < last {
            (now + BOOKMARK_EVERY).min(last)
        } else {
            self.ends + BOOKMARK_EVERY
        };
    }

    /// Moves the next events from the history to `ready`. False if the history has none.
    async fn take_events(&mut self) -> bool {
        let limit = if self.merges { usize::MAX } else { BATCH };
        let (mut events, mut complete) =
            match self
                .entry
                .store
                .events_after(&self.server.revisions, self.position, limit)
            {
                Ok(found) => found,
                Err(compacted) => {
                    self.end_with(&Status::too_old(self.position, compacted.oldest));
                    return true;
                }
            };
        let view = self
            .faults
            .borrow()
            .view(&self.seen("", ""), self.server.revisions.current());
        if let Some(view) = view.filter(|view| *view < complete) {
            events.retain(|event| event.revision <= view);
            complete = view.max(self.position);
        }
        let resource = &self.entry.resource;
        let events = match self.server.events_in_version(resource, events).await {
            Ok(events) => events,
            Err(status) => {
                self.end_with(&status);
                return true;
            }
        };
        if std::mem::take(&mut self.merges) {
            self.merge(&events);
        } else {
            for event in &events {
                if !self.take(event) {
                    return true;
                }
            }
        }
        self.position = complete;
        !events.is_empty()
    }

    /// Moves one event to `ready`, subject to fault rules. False if later events must wait.
    fn take(&mut self, event: &Event) -> bool {
        let Some(frame) = self.selects(event).then(|| self.frame_of(event)).flatten() else {
            return true;
        };
        let object = event.object();
        let faults = self
            .server
            .faults
            .on_watch(&self.seen(object.namespace(), object.name()));
        for fault in faults {
            match fault {
                EventFault::Delay(delay) | EventFault::DelayUpTo(delay) => {
                    self.ready.push_back(Step::Wait(delay))
                }
                EventFault::Drop { repaired_after } => {
                    let at = Instant::now() + repaired_after;
                    self.expires = Some(self.expires.map_or(at, |earlier| earlier.min(at)));
                    return true;
                }
                EventFault::Coalesce(wait) => {
                    self.ready.push_back(Step::Wait(wait));
                    self.position = event.revision - 1;
                    self.merges = true;
                    return false;
                }
                EventFault::Close => {
                    self.ready.push_back(Step::Close);
                    self.over = true;
                    return false;
                }
                EventFault::Expire => {
                    self.end_with(&Status::too_old(event.revision - 1, event.revision));
                    return false;
                }
            }
        }
        self.ready.push_back(Step::Send(frame));
        true
    }

    /// Moves the events to `ready`, merged into one change per object.
    fn merge(&mut self, events: &[Arc<Event>]) {
        let mut changes: HashMap<Arc<str>, Vec<&Arc<Event>>> = HashMap::new();
        for event in events.iter().filter(|event| self.selects(event)) {
            changes
                .entry(event.object().key.clone())
                .or_default()
                .push(event);
        }
        let mut frames = BTreeMap::new();
        for changes in changes.into_values() {
            let (Some(first), Some(last)) = (changes.first(), changes.last()) else {
                continue;
            };
            let after = Some(last.object())
                .filter(|object| last.kind != EventKind::Deleted && self.selection.matches(object));
            let before = first
                .old
                .as_ref()
                .filter(|object| self.selection.matches(object));
            let same = before
                .zip(after)
                .is_some_and(|(old, new)| old.uid() == new.uid());
            if before.is_some() && !same {
                // An object with a new UID was deleted before it was created again.
                let gone = changes
                    .iter()
                    .rfind(|event| event.kind == EventKind::Deleted)
                    .unwrap_or(last);
                frames.insert(gone.revision, self.frame(EventKind::Deleted, gone.object()));
            }
            if let Some(object) = after {
                let kind = if same {
                    EventKind::Modified
                } else {
                    EventKind::Added
                };
                frames.insert(last.revision, self.frame(kind, object));
            }
        }
        self.ready.extend(frames.into_values().map(Step::Send));
    }

    fn expire(&mut self) {
        self.ready.clear();
        self.end_with(&Status::too_old(self.position, self.position + 1));
    }

    /// Ends the watch with an error frame, after the ready frames.
    fn end_with(&mut self, status: &Status) {
        self.expires = None;
        self.ready.push_back(Step::Send(error_frame(status)));
        self.over = true;
    }

    fn selects(&self, event: &Event) -> bool {
        event.object().key.starts_with(&self.prefix)
    }

    /// The event as fault rules match it.
    fn seen<'a>(&'a self, namespace: &'a str, name: &'a str) -> Seen<'a> {
        let resource = &self.entry.resource.plural;
        Seen {
            verb: Verb::Watch,
            resource,
            subresource: "",
            namespace,
            name,
            client: &self.client,
        }
    }

    /// The frame of a change. The selection of the states before and after decides its type.
    fn frame_of(&mut self, event: &Event) -> Option<Bytes> {
        let before = event
            .old
            .as_ref()
            .is_some_and(|old| self.selection.matches(old));
        let after = event.kind != EventKind::Deleted && self.selection.matches(event.object());
        match (before, after) {
            (false, false) => None,
            (false, true) => Some(self.frame(EventKind::Added, event.object())),
            (true, true) => Some(self.frame(EventKind::Modified, event.object())),
            (true, false) if event.kind == EventKind::Deleted => {
                Some(self.frame(EventKind::Deleted, event.object()))
            }
            (true, false) => {
                let old = event.old.as_ref()?;
                let resource = &self.entry.resource;
                let make =
                    || Arc::new(old.at_revision(resource, event.revision, EventKind::Deleted));
                if self.form.view == View::Full
                    && matches!(resource.storage, Storage::Own)
                    && !self.form.drops_managed_fields
                {
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
        let object = &self.form.trimmed(object);
        match self.form.view {
            View::Full | View::Discovery if matches!(resource.storage, Storage::Own) => {
                object.frame(kind)
            }
            View::Full | View::Discovery => framed(kind.as_str(), &view::full(resource, object)),
            View::Metadata => framed(kind.as_str(), &view::metadata_only(object)),
            View::Table => {
                let metadata = json!({"resourceVersion": object.revision.to_string()});
                let columns = !std::mem::replace(&mut self.columns_sent, true);
                let table = self.server.table(
                    resource,
                    metadata,
                    std::slice::from_ref(object),
                    self.include,
                    columns,
                );
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
        let object: Value = match self.form.view {
            View::Metadata => {
                json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
            }
            View::Table => {
                let bookmark = json!({"kind": resource.kind, "apiVersion": resource.api_version(), "metadata": metadata});
                let object = Arc::new(Object::unstored(resource, "", &bookmark));
                let list = json!({"resourceVersion": self.position.to_string()});
                let columns = !std::mem::replace(&mut self.columns_sent, true);
                self.server
                    .table(resource, list, &[object], self.include, columns)
            }
            View::Full | View::Discovery => {
                json!({"kind": resource.kind, "apiVersion": resource.api_version(), "metadata": metadata})
            }
        };
        framed("BOOKMARK", object.to_string().as_bytes())
    }
}

fn framed(kind: &str, object: &[u8]) -> Bytes {
    [
        b"{\"type\":\"",
        kind.as_bytes(),
        b"\",\"object\":",
        object,
        b"}\n",
    ]
    .concat()
    .into()
}

fn error_frame(status: &Status) -> Bytes {
    framed("ERROR", status.to_value().to_string().as_bytes())
}
