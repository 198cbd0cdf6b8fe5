//! The pods and PodGroups that are known to be deleted.
//!
//! A reservation of such an object is removed without a request. Upstream: `uid_cache.go`.
//!
//! The cache of pods forgets a deleted pod, and then cannot tell it from one that it has yet to show.
//! This memory saves a GET for each of them.

use std::collections::{HashSet, VecDeque};

use parking_lot::{Mutex, MutexGuard};

use steersman_objects::Uid;

/// The number of objects that are remembered. Upstream: `maxUIDCacheEntries`.
///
/// A deletion beyond it costs one GET, and never a wrong decision.
const CAPACITY: usize = 500;

/// The UIDs of the pods and PodGroups with claims that were deleted last.
#[derive(Debug, Default)]
pub(super) struct Deleted(Mutex<Latest>);

#[derive(Debug, Default)]
struct Latest {
    /// The same UIDs as `order`, for lookups.
    known: HashSet<Uid>,
    /// Oldest first.
    order: VecDeque<Uid>,
}

impl Deleted {
    /// Remembers a deletion. The oldest one is forgotten when there are too many.
    pub(super) fn add(&self, uid: &Uid) {
        let mut latest = self.latest();
        if !latest.known.insert(uid.clone()) {
            return;
        }
        latest.order.push_back(uid.clone());
        if latest.order.len() > CAPACITY
            && let Some(oldest) = latest.order.pop_front()
        {
            latest.known.remove(&oldest);
        }
    }

    /// Whether the deletion of this object is remembered.
    ///
    /// A lookup does not make the entry younger, unlike upstream's LRU cache. Each deletion is asked
    /// for soon after it was added.
    pub(super) fn contains(&self, uid: &Uid) -> bool {
        self.latest().known.contains(uid)
    }

    /// Forgets all deletions. An etcd restore may bring deleted objects back.
    pub(super) fn clear(&self) {
        *self.latest() = Latest::default();
    }

    fn latest(&self) -> MutexGuard<'_, Latest> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_deletion_is_forgotten_first() {
        let deleted = Deleted::default();
        let uid = |number: usize| Uid::new(&format!("pod-{number}"));
        for number in 0..=CAPACITY {
            deleted.add(&uid(number));
            deleted.add(&uid(number));
        }
        assert!(!deleted.contains(&uid(0)));
        assert!((1..=CAPACITY).all(|number| deleted.contains(&uid(number))));
        deleted.clear();
        assert!(!deleted.contains(&uid(CAPACITY)));
    }
}
