//! Spaces the writes of a status whose counts are on their way.
//!
//! While the pods of an object start or end, each event changes a count in the status. A user sees
//! no difference between each of these states and two of them per second, but the API server and
//! all watchers do. The first change, the last one and every change of another field are written at
//! once.
//!
//! Upstream writes each state that a sync finds.

use std::collections::HashMap;
use std::sync::PoisonError;
use std::time::Duration;

use tokio::time::Instant;

use crate::capacity::RemoveAndRelease;
use crate::object::ObjectKey;
use crate::own_writes::Memory;
use crate::sync::{Mutex, MutexGuard};

/// The least time between two writes of counts that are on their way.
pub const INTERVAL: Duration = Duration::from_millis(500);

/// A change of a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Only counts differ, and they are not those of the spec yet.
    Counts,
    /// All counts are those of the spec, or another field differs.
    Final,
}

/// The times of the latest writes, by the key of the object.
#[derive(Debug, Default)]
pub struct StatusPace(Mutex<HashMap<ObjectKey, Instant>>);

impl StatusPace {
    /// The time until `change` of the object with this key may be written; `None` if at once. The
    /// caller syncs the key again after that time.
    pub fn wait(&self, key: &ObjectKey, change: Change) -> Option<Duration> {
        if change == Change::Final {
            return None;
        }
        let due = *self.lock().get(key)? + INTERVAL;
        let left = due.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// Records that `change` has been written.
    pub fn written(&self, key: &ObjectKey, change: Change) {
        let mut written = self.lock();
        match change {
            Change::Counts => {
                written.insert(key.clone(), Instant::now());
            }
            // The next change is the first one of its kind.
            Change::Final => {
                written.remove_and_release(key);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memory for StatusPace {
    fn forget(&self, key: &ObjectKey) {
        self.lock().remove_and_release(key);
    }

    /// Times stay valid in every history.
    fn history_went_back(&self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn counts_are_written_once_per_interval() {
        let (pace, key) = (StatusPace::default(), ObjectKey::new("default", "web"));
        assert_eq!(pace.wait(&key, Change::Counts), None, "the first change");
        pace.written(&key, Change::Counts);
        assert_eq!(pace.wait(&key, Change::Counts), Some(INTERVAL));
        assert_eq!(pace.wait(&key, Change::Final), None, "other changes");
        tokio::time::sleep(INTERVAL / 2).await;
        assert_eq!(pace.wait(&key, Change::Counts), Some(INTERVAL / 2));
        tokio::time::sleep(INTERVAL / 2).await;
        assert_eq!(
            pace.wait(&key, Change::Counts),
            None,
            "the interval is over"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_change_after_a_final_one_is_written_at_once() {
        let (pace, key) = (StatusPace::default(), ObjectKey::new("default", "web"));
        pace.written(&key, Change::Counts);
        pace.written(&key, Change::Final);
        assert_eq!(pace.wait(&key, Change::Counts), None);
        pace.written(&key, Change::Counts);
        pace.forget(&key);
        assert_eq!(pace.wait(&key, Change::Counts), None, "a deleted object");
    }
}
