//! What goes wrong on watches that are open.

use std::time::Duration;

use super::matcher::Seen;
use super::{Matcher, RuleId};

/// What a watch does when it comes to an event. Every rule counts the events of all the watches it
/// matches.
#[derive(Debug, Clone)]
pub enum EventFault {
    /// The event, and what follows it on that watch, comes late.
    Delay(Duration),
    /// The same, by a random time up to this.
    DelayUpTo(Duration),
    /// The event is never sent. So long afterwards the watch ends with 410, upon which clients list
    /// again.
    Drop {
        /// Until the watch ends.
        repaired_after: Duration,
    },
    /// Everything from this event on is held back for so long. Of each object only the last state
    /// is sent then; nothing of an object that was created and deleted meanwhile; a deletion and a
    /// creation of one created anew.
    Coalesce(Duration),
    /// The watch closes before it sends the event.
    Close,
    /// The watch ends with 410 in place of the event.
    Expire,
}

/// What watches and cached reads are told.
#[derive(Debug, Clone, Default)]
pub(crate) struct WatchFaults {
    stalled: Vec<String>,
    /// Grows each time the watches of a resource are to break.
    broken: Vec<(String, u64)>,
    /// Who sees how much.
    views: Vec<(RuleId, Matcher, View)>,
}

/// How far a cache that lags has come.
#[derive(Debug, Clone, Copy)]
pub(super) enum View {
    /// To this revision.
    At(u64),
    /// All but so many revisions.
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

    pub(crate) fn breaks(&self, plural: &str) -> u64 {
        self.broken
            .iter()
            .find(|(resource, _)| resource == plural)
            .map_or(0, |(_, count)| *count)
    }

    /// The latest revision that the cache shows to this request, when it lags behind `current`, the
    /// server's.
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

    pub(super) fn break_open(&mut self, plural: &str) {
        match self
            .broken
            .iter_mut()
            .find(|(resource, _)| resource == plural)
        {
            Some((_, count)) => *count += 1,
            None => self.broken.push((plural.to_owned(), 1)),
        }
    }

    pub(super) fn limit(&mut self, id: RuleId, matcher: Matcher, view: View) {
        self.views.push((id, matcher, view));
    }

    pub(super) fn release(&mut self, id: RuleId) {
        self.views.retain(|(limited, _, _)| *limited != id);
    }
}
