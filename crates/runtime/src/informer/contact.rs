//! When an informer last heard from its server: what health checks and metrics want to know of a
//! watch.

use std::sync::PoisonError;
use std::time::Duration;

use tokio::time::Instant;

use crate::sync::{Mutex, MutexGuard};

/// A watch that could not be opened for this long is worth a report.
const DOWN: Duration = Duration::from_secs(60);

/// A watch this silent is worth one, too: servers send bookmarks every minute, and close a watch
/// after ten at the latest.
const SILENT: Duration = Duration::from_secs(11 * 60);

/// The connection of one informer to its server.
#[derive(Default)]
pub(super) struct Contact(Mutex<Option<State>>);

struct State {
    heard: Instant,
    /// Set while there is no watch.
    down_since: Option<Instant>,
}

impl Contact {
    /// The informer follows its server from now on.
    pub(super) fn began(&self) {
        let now = Instant::now();
        *self.lock() = Some(State {
            heard: now,
            down_since: Some(now),
        });
    }

    /// It does so no longer, so silence means nothing.
    pub(super) fn ended(&self) {
        *self.lock() = None;
    }

    /// Something arrived, if only the head of an answer.
    pub(super) fn heard(&self) {
        *self.lock() = Some(State {
            heard: Instant::now(),
            down_since: None,
        });
    }

    /// The watch ended.
    pub(super) fn lost(&self) {
        if let Some(state) = &mut *self.lock() {
            state.down_since.get_or_insert_with(Instant::now);
        }
    }

    /// How long nothing has arrived; `None` when nothing is asked for.
    pub(super) fn age(&self) -> Option<Duration> {
        self.lock().as_ref().map(|state| state.heard.elapsed())
    }

    /// What is wrong with the watch, if anything.
    pub(super) fn trouble(&self) -> Option<String> {
        let state = self.lock();
        let state = state.as_ref()?;
        let (down, silent) = (
            state.down_since.map(|since| since.elapsed()),
            state.heard.elapsed(),
        );
        match down {
            Some(down) if down > DOWN => Some(format!("has been down for {}s", down.as_secs())),
            _ if silent > SILENT => Some(format!("has been silent for {}s", silent.as_secs())),
            _ => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<State>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_watch_is_in_trouble_when_it_is_down_or_silent_for_too_long() {
        let seconds = |n| tokio::time::advance(Duration::from_secs(n));
        let contact = Contact::default();
        seconds(600).await;
        assert_eq!(
            (contact.trouble(), contact.age()),
            (None, None),
            "not begun"
        );
        contact.began();
        seconds(60).await;
        assert_eq!(contact.trouble(), None);
        seconds(1).await;
        assert_eq!(
            contact.trouble().unwrap(),
            "has been down for 61s",
            "never opened"
        );
        contact.heard();
        assert_eq!(
            (contact.trouble(), contact.age()),
            (None, Some(Duration::ZERO))
        );
        seconds(660).await;
        assert_eq!(
            contact.trouble(),
            None,
            "no bookmark, no event, and no reason to worry yet"
        );
        seconds(1).await;
        assert_eq!(contact.trouble().unwrap(), "has been silent for 661s");
        contact.heard();
        contact.lost();
        seconds(30).await;
        contact.lost();
        seconds(31).await;
        assert_eq!(
            contact.trouble().unwrap(),
            "has been down for 61s",
            "each failed attempt does not start anew"
        );
        contact.ended();
        assert_eq!((contact.trouble(), contact.age()), (None, None));
    }
}
