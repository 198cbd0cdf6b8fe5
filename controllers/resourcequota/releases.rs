//! The quotas whose usage may be lower than their status says.
//!
//! The API server charges a quota before it stores the object, and the cache shows the object later still.
//! A count at that time is too low. So a count after a new object may only raise the usage; it lowers the
//! usage after a release, a change of the limits, or a resync.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use steersman_objects::ObjectKey;
use tokio::time::Instant;

/// The times from which counts may lower the usage of quotas. Without an entry, counts only raise
/// the usage. The times are lost with the process, but the first event of a quota lets its first
/// count lower.
#[derive(Default)]
pub(super) struct Releases(Mutex<HashMap<ObjectKey, Instant>>);

impl Releases {
    /// Lets the next count from `at` on lower the usage. The earliest of several times counts.
    pub(super) fn expect(&self, quota: &ObjectKey, at: Instant) {
        self.lock()
            .entry(quota.clone())
            .and_modify(|first| *first = at.min(*first))
            .or_insert(at);
    }

    /// The time until a count may lower the usage; `None` without such a time. Zero ends with this
    /// call, which has to precede the count: a later release is then kept for the next one. A
    /// failed count has to call [`Releases::expect`] again.
    pub(super) fn take(&self, quota: &ObjectKey) -> Option<Duration> {
        let mut all = self.lock();
        let wait = all.get(quota)?.saturating_duration_since(Instant::now());
        if wait.is_zero() {
            all.remove(quota);
        }
        Some(wait)
    }

    /// Drops a deleted quota.
    pub(super) fn forget(&self, quota: &ObjectKey) {
        self.lock().remove(quota);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, Instant>> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_release_allows_one_lower_count() {
        let releases = Releases::default();
        let quota = ObjectKey::new("ns", "q");
        let now = Instant::now();
        let minute = Duration::from_secs(60);
        assert_eq!(releases.take(&quota), None);
        releases.expect(&quota, now + 2 * minute);
        releases.expect(&quota, now + minute);
        releases.expect(&quota, now + 2 * minute);
        assert_eq!(releases.take(&quota), Some(minute));
        advance(minute).await;
        assert_eq!(releases.take(&quota), Some(Duration::ZERO));
        assert_eq!(releases.take(&quota), None);
        releases.expect(&quota, now);
        releases.forget(&quota);
        assert_eq!(releases.take(&quota), None);
    }
}
