//! Failures of open watches, and views of a lagging watch cache.

use std::time::Duration;

use super::matcher::Seen;
use super::{Matcher, RuleId};

/// The failure of a watch at an event. A rule counts the events of all watches that it matches.
#[derive(Debug, Clone)]
pub enum EventFault {
    /// The event and all later events of that watch are delayed.
    Delay(Duration),
    /// The same with a random delay up to this limit.
    DelayUpTo(Duration),
    /// The event is lost. The watch ends with 410 later, so that clients list again.
    Drop {
        /// Time until the watch ends.
        repaired_after: Duration,
    },
    /// This and later events are held back for this time. Then each object gets one event with its
    /// last state. An object that was created and deleted in between gets none. An object that was
    /// deleted and created again gets both events.
    Coalesce(Duration),
    /// The watch closes before the event.
    Close,
    /// The watch ends with 410 instead of the event.
    Expire,
}

/// The current failures of watches and cached reads.
#[derive(Debug, Clone, Default)]
pub(crate) struct WatchFaults {
    stalled: Vec<String>,
    /// Counts how often the watches of a resource were closed.
    broken: Vec<(String, u64)>,
    /// Rules that limit the visible revision.
    views: Vec<(RuleId, Matcher, View)>,
}

/// The latest visible revision.
#[derive(Debug, Clone, Copy)]
pub(super) enum View {
    /// This revision.
    At(u64),
    /// This number of revisions before the latest.
    Behind(u64),
}

impl View {
    fn revision(self, current: u64) -> u64 {
        match self {
            Self::At(revision) => revision.min(current),
            Self::Behind(revisions) => current.saturating_sub(revisions),
        }
    }
}

impl WatchFaults {
    pub(crate) fn stalled(&self, plural: &str) -> bool {
        self.stalled.iter().any(|resource| resource == plural)
    }

    /// How often the watches of a resource were closed. A watch ends when this grows.
    pub(crate) fn breaks(&self, plural: &str) -> u64 {
        self.broken
            .iter()
            .find(|(resource, _)| resource == plural)
            .map_or(0, |(_, count)| *count)
    }

    /// The latest revision that a lagging cache shows to this request. `current` is the revision of
    /// the server.
    pub(crate) fn view(&self, seen: &Seen<'_>, current: u64) -> Option<u64> {
        let views = self
            .views
            .iter()
            .filter(|(_, matcher, _)| matcher.matches(seen));
        views.map(|(_, _, view)| view.revision(current)).min()
    }

    pub(super) fn stall(&mut self, plural: &str) {
        if !self.stalled(plural) {
            self.stalled.push(plural.to_owned());
        }
    }

    pub(super) fn resume(&mut self, plural: &str) {
        self.stalled.retain(|resource| resource != plural);
    }

    pub(super) fn close_open(&mut self, plural: &str) {
        match self
            .broken
            .iter_mut()
            .find(|(resource, _)| resource == plural)
        {
            Some((_, count)) => *count += 1,
            None => self.broken.push((plural.to_owned(), 1)),
        }
    }

    /// Limits the view of matching requests.
    pub(super) fn limit(&mut self, id: RuleId, matcher: Matcher, view: View) {
        self.views.push((id, matcher, view));
    }

    pub(super) fn release(&mut self, id: RuleId) {
        self.views.retain(|(limited, _, _)| *limited != id);
    }
}
