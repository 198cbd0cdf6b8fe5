//! The time of the last message from the API server to one informer, for health checks and metrics.
//!
//! A broken watch may look like a quiet one. But a healthy server sends bookmarks and closes
//! watches, so a long silence shows a problem.

use std::time::Duration;

use tokio::time::Instant;

use steersman_values::sync::{Mutex, MutexGuard};

/// The health check reports a watch that is down for longer. A restart of an API server usually takes less.
const DOWN: Duration = Duration::from_secs(60);

/// The health check reports a watch that is silent for longer. Servers send bookmarks every minute,
/// and close a watch after ten minutes at the latest.
const SILENT: Duration = Duration::from_secs(11 * 60);

/// The state of one informer's connection to the API server. `None` while the informer is stopped.
#[derive(Default)]
pub(super) struct Contact(Mutex<Option<State>>);

struct State {
    /// The time of the last message; at first that of the start.
    received: Instant,
    /// Set while there is no open watch.
    down_since: Option<Instant>,
}

impl Contact {
    /// The informer has started.
    pub(super) fn started(&self) {
        let now = Instant::now();
        *self.lock() = Some(State {
            received: now,
            down_since: Some(now),
        });
    }

    /// The informer has stopped, so silence is no problem.
    pub(super) fn stopped(&self) {
        *self.lock() = None;
    }

    /// A message from the server arrived: a frame, a list, or the head of an answer.
    pub(super) fn received(&self) {
        *self.lock() = Some(State {
            received: Instant::now(),
            down_since: None,
        });
    }

    /// The watch ended.
    pub(super) fn lost(&self) {
        if let Some(state) = &mut *self.lock() {
            state.down_since.get_or_insert_with(Instant::now);
        }
    }

    /// The time since the last message; `None` for a stopped informer.
    pub(super) fn age(&self) -> Option<Duration> {
        self.lock().as_ref().map(|state| state.received.elapsed())
    }

    /// The problem of the watch, if it has one. A closed watch is the more exact finding, so it
    /// comes first.
    pub(super) fn finding(&self) -> Option<String> {
        let state = self.lock();
        let state = state.as_ref()?;
        let down = state.down_since.map(|since| since.elapsed());
        let silent = state.received.elapsed();
        match down {
            Some(down) if down > DOWN => Some(format!("has been down for {}s", down.as_secs())),
            _ if silent > SILENT => Some(format!("has been silent for {}s", silent.as_secs())),
            _ => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<State>> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_watch_is_reported_if_it_is_down_or_silent_for_too_long() {
        let seconds = |n| tokio::time::advance(Duration::from_secs(n));
        let contact = Contact::default();
        seconds(600).await;
        assert_eq!(
            (contact.finding(), contact.age()),
            (None, None),
            "not started"
        );
        contact.started();
        seconds(60).await;
        assert_eq!(contact.finding(), None);
        seconds(1).await;
        assert_eq!(
            contact.finding().unwrap(),
            "has been down for 61s",
            "never opened"
        );
        contact.received();
        assert_eq!(
            (contact.finding(), contact.age()),
            (None, Some(Duration::ZERO))
        );
        seconds(660).await;
        assert_eq!(
            contact.finding(),
            None,
            "eleven minutes of silence are allowed"
        );
        seconds(1).await;
        assert_eq!(contact.finding().unwrap(), "has been silent for 661s");
        contact.received();
        contact.lost();
        seconds(30).await;
        contact.lost();
        seconds(31).await;
        assert_eq!(
            contact.finding().unwrap(),
            "has been down for 61s",
            "a failed attempt does not restart the time"
        );
        contact.stopped();
        assert_eq!((contact.finding(), contact.age()), (None, None));
    }
}
