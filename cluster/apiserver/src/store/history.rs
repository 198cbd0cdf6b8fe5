//! The recent changes of one type, for watches and for lists of older revisions.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::Compacted;
use super::object::{EventKind, Object};

/// The history keeps this number of events at any age.
const MIN_EVENTS: usize = 100;
/// Age in real time after which events are dropped. Upstream's watch cache keeps events for the
/// same time. Older events would fill most of the memory of a long-running server. Under paused
/// test time events do not age, because memory use is real.
const FRESH: Duration = Duration::from_secs(75);
/// The history keeps this number of fresh events at any size.
const MIN_FRESH_EVENTS: usize = 1_000;
/// Most events, if they fit into [`MAX_BYTES`].
const MAX_EVENTS: usize = 16_384;
/// Bytes of ten thousand pods of 3 KB. At thousands of changes per second, a client that stops for
/// two seconds can still continue. An event shares memory with the stored object while that object
/// is current.
const MAX_BYTES: usize = 32 << 20;

/// The type of a change.
/// One change.
#[derive(Debug)]
pub struct Event {
    /// The revision of the change.
    pub revision: u64,
    /// The type of the change.
    pub kind: EventKind,
    /// The object before the change; `None` for [`EventKind::Added`].
    pub old: Option<Arc<Object>>,
    new: Arc<Object>,
    /// Frame for watches with a selector that the object no longer matches.
    left: OnceLock<Bytes>,
    since: Instant,
}

impl Event {
    pub(super) fn new(
        revision: u64,
        kind: EventKind,
        old: Option<Arc<Object>>,
        new: Arc<Object>,
    ) -> Self {
        Self {
            revision,
            kind,
            old,
            new,
            left: OnceLock::new(),
            since: Instant::now(),
        }
    }

    /// The same change with other forms of both states.
    pub(crate) fn with_states(&self, old: Option<Arc<Object>>, new: Arc<Object>) -> Self {
        Self::new(self.revision, self.kind, old, new)
    }

    /// The object after the change. For a deletion, the last state with the revision of the
    /// deletion.
    pub fn object(&self) -> &Arc<Object> {
        &self.new
    }

    /// The `DELETED` frame of an object that left a selection. The first watch that needs the frame
    /// makes it.
    pub fn left_frame(&self, make: impl FnOnce() -> Bytes) -> Bytes {
        self.left.get_or_init(make).clone()
    }

    fn bytes(&self) -> usize {
        self.new.size()
    }
}

/// A queue of events, limited in number, bytes and age.
#[derive(Debug, Default)]
pub(super) struct History {
    events: VecDeque<Arc<Event>>,
    bytes: usize,
    /// Revision of the newest dropped event.
    forgotten: u64,
}

impl History {
    pub(super) fn push(&mut self, event: Event) {
        self.bytes += event.bytes();
        self.events.push_back(Arc::new(event));
        while self.has_surplus()
            && let Some(oldest) = self.events.pop_front()
        {
            self.bytes -= oldest.bytes();
            self.forgotten = oldest.revision;
        }
    }

    /// Whether the oldest event exceeds a limit of number, bytes or age.
    fn has_surplus(&self) -> bool {
        let is_old = || {
            self.events
                .front()
                .is_some_and(|oldest| oldest.since.elapsed() > FRESH)
        };
        match self.events.len() {
            count if count <= MIN_EVENTS => false,
            count if count <= MIN_FRESH_EVENTS => is_old(),
            count => count > MAX_EVENTS || self.bytes > MAX_BYTES || is_old(),
        }
    }

    /// Events after `revision`, oldest first.
    pub(super) fn after(
        &self,
        revision: u64,
    ) -> Result<impl DoubleEndedIterator<Item = &Arc<Event>>, Compacted> {
        if revision < self.forgotten {
            return Err(Compacted {
                oldest: self.forgotten,
            });
        }
        let start = self
            .events
            .partition_point(|event| event.revision <= revision);
        Ok(self.events.range(start..))
    }

    pub(super) fn compact(&mut self, revision: u64) {
        self.events.clear();
        self.bytes = 0;
        self.forgotten = revision;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registry;
    use serde_json::json;

    fn event(revision: u64, padding: usize) -> Event {
        let pods = Registry::built_in().find("", "v1", "pods").unwrap();
        let value = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p"}, "x": "x".repeat(padding)});
        let object = Object::stored(&pods.resource, "p", value, revision, EventKind::Added);
        Event::new(revision, EventKind::Added, None, Arc::new(object))
    }

    #[test]
    fn a_revision_before_the_history_is_an_error() {
        let mut history = History::default();
        history.push(event(5, 0));
        assert_eq!(history.after(5).unwrap().count(), 0);
        assert_eq!(history.after(4).unwrap().count(), 1);
        history.compact(7);
        assert_eq!(history.after(6).err(), Some(Compacted { oldest: 7 }));
        assert_eq!(history.after(7).unwrap().count(), 0);
    }

    #[test]
    fn old_events_are_dropped_except_the_last_hundred() {
        let mut history = History::default();
        for revision in 1..=200 {
            let mut event = event(revision, 0);
            if revision <= 150 {
                event.since = event
                    .since
                    .checked_sub(FRESH + Duration::from_secs(1))
                    .unwrap();
            }
            history.push(event);
        }
        assert_eq!(
            history.after(100).unwrap().count(),
            100,
            "the minimum number stays"
        );
        assert_eq!(history.after(99).err(), Some(Compacted { oldest: 100 }));
        (201..=400).for_each(|revision| history.push(event(revision, 0)));
        assert_eq!(
            history.after(150).unwrap().count(),
            250,
            "only the fresh events stay"
        );
        assert_eq!(history.after(149).err(), Some(Compacted { oldest: 150 }));
    }

    #[test]
    fn large_events_are_dropped_except_a_thousand_fresh_ones() {
        let mut history = History::default();
        for revision in 1..=1_200 {
            history.push(event(revision, 40_000));
        }
        assert_eq!(history.events.len(), MIN_FRESH_EVENTS);
        assert_eq!(history.after(199).err(), Some(Compacted { oldest: 200 }));
        assert_eq!(history.after(200).unwrap().count(), MIN_FRESH_EVENTS);
    }
}
