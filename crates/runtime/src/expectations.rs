//! Expectations: creations and deletions that a controller has sent and no cache has shown yet.
//!
//! Upstream: `controller_utils.go`. [`crate::own_writes`] is the other guard against stale caches.

use std::collections::{HashMap, HashSet};
use std::sync::PoisonError;
use std::time::Duration;

use tokio::time::Instant;

use crate::object::ObjectKey;
use crate::own_writes::Memory;
use crate::sync::{Mutex, MutexGuard};

/// After this long an expectation is taken for lost.
const TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// Creations and deletions in flight per owner, as upstream's `UIDTrackingControllerExpectations`
/// keeps them. Runs on Tokio's clock; a record older than five minutes counts as satisfied.
///
/// A record that is fulfilled is dropped: "no record" and "nothing outstanding" are the same answer
/// to every question.
#[derive(Debug, Default)]
pub struct Expectations {
    records: Mutex<HashMap<ObjectKey, Record>>,
}

#[derive(Debug)]
struct Record {
    since: Instant,
    outstanding: Outstanding,
}

#[derive(Debug)]
enum Outstanding {
    /// This many are to come.
    Creations(usize),
    /// These are to go.
    Deletions(HashSet<ObjectKey>),
}

impl Outstanding {
    fn is_nothing(&self) -> bool {
        match self {
            Self::Creations(count) => *count == 0,
            Self::Deletions(objects) => objects.is_empty(),
        }
    }
}

impl Expectations {
    /// Replaces the record of `owner`: `count` creations to come.
    pub fn expect_creations(&self, owner: &ObjectKey, count: usize) {
        self.replace(owner, Outstanding::Creations(count));
    }

    /// Replaces the record of `owner`: these objects are to go.
    pub fn expect_deletions(&self, owner: &ObjectKey, objects: HashSet<ObjectKey>) {
        self.replace(owner, Outstanding::Deletions(objects));
    }

    /// One creation was seen, or will not come.
    pub fn creation_observed(&self, owner: &ObjectKey) {
        self.observed(owner, |outstanding| {
            if let Outstanding::Creations(count) = outstanding {
                *count -= 1;
            }
        });
    }

    /// This object is going, or will not go. Counts once per object.
    pub fn deletion_observed(&self, owner: &ObjectKey, object: &ObjectKey) {
        self.observed(owner, |outstanding| {
            if let Outstanding::Deletions(objects) = outstanding {
                objects.remove(object);
            }
        });
    }

    /// Nothing outstanding, or too old to wait for.
    pub fn satisfied(&self, owner: &ObjectKey) -> bool {
        self.records()
            .get(owner)
            .is_none_or(|record| record.since.elapsed() > TIMEOUT)
    }

    /// Whether `owner` counts as satisfied only because something it expected did not show up in
    /// time.
    pub fn lost(&self, owner: &ObjectKey) -> bool {
        self.records()
            .get(owner)
            .is_some_and(|record| record.since.elapsed() > TIMEOUT)
    }

    /// How long until something that `owner` expects counts as lost; `None` when it expects
    /// nothing, or lost it already.
    pub fn expires_in(&self, owner: &ObjectKey) -> Option<Duration> {
        let left = TIMEOUT.checked_sub(self.records().get(owner)?.since.elapsed())?;
        Some(left + Duration::from_millis(1))
    }

    /// Drops the record of `owner`.
    pub fn forget(&self, owner: &ObjectKey) {
        self.records().remove(owner);
    }

    /// Drops all records, and tells whose they were: the server's history went back, so that what
    /// was expected may never come.
    pub fn forget_all(&self) -> Vec<ObjectKey> {
        std::mem::take(&mut *self.records()).into_keys().collect()
    }

    fn replace(&self, owner: &ObjectKey, outstanding: Outstanding) {
        let mut records = self.records();
        if outstanding.is_nothing() {
            records.remove(owner);
        } else {
            records.insert(
                owner.clone(),
                Record {
                    since: Instant::now(),
                    outstanding,
                },
            );
        }
    }

    fn observed(&self, owner: &ObjectKey, change: impl FnOnce(&mut Outstanding)) {
        let mut records = self.records();
        let Some(record) = records.get_mut(owner) else {
            return;
        };
        change(&mut record.outstanding);
        if record.outstanding.is_nothing() {
            records.remove(owner);
        }
    }

    fn records(&self) -> MutexGuard<'_, HashMap<ObjectKey, Record>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memory for Expectations {
    fn forget(&self, owner: &ObjectKey) {
        Self::forget(self, owner);
    }

    fn history_went_back(&self) {
        self.forget_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(name: &str) -> ObjectKey {
        ObjectKey::new("default", name)
    }

    fn pods(names: &[&str]) -> HashSet<ObjectKey> {
        names.iter().map(|name| owner(name)).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn creations_are_satisfied_by_as_many_observations() {
        // (why, expected, observed, satisfied)
        let cases = [
            ("none expected", 0, 0, true),
            ("none seen", 10, 0, false),
            ("one short", 10, 9, false),
            ("all seen", 10, 10, true),
            ("one too many, as an adopted pod may be", 10, 11, true),
        ];
        for (why, expected, observed, satisfied) in cases {
            let (expectations, rs) = (Expectations::default(), owner("rs"));
            expectations.expect_creations(&rs, expected);
            for _ in 0..observed {
                expectations.creation_observed(&rs);
            }
            assert_eq!(expectations.satisfied(&rs), satisfied, "{why}");
        }
    }

    #[test]
    fn observations_may_come_from_many_threads() {
        let (expectations, rs) = (Expectations::default(), owner("rs"));
        expectations.expect_creations(&rs, 41);
        std::thread::scope(|threads| {
            for _ in 0..40 {
                threads.spawn(|| expectations.creation_observed(&rs));
            }
        });
        assert!(!expectations.satisfied(&rs));
        expectations.creation_observed(&rs);
        assert!(expectations.satisfied(&rs));
    }

    #[tokio::test(start_paused = true)]
    async fn each_expected_deletion_counts_once() {
        let (expectations, rs) = (Expectations::default(), owner("rs"));
        expectations.expect_deletions(&rs, pods(&["pod-1", "pod-2"]));
        for (why, pod, satisfied) in [
            ("a stranger", "pod-9", false),
            ("the first", "pod-1", false),
            ("the first again", "pod-1", false),
            ("the second", "pod-2", true),
            ("the second again", "pod-2", true),
        ] {
            expectations.deletion_observed(&rs, &owner(pod));
            assert_eq!(expectations.satisfied(&rs), satisfied, "{why}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_other_kind_of_observation_satisfies_nothing() {
        let (expectations, rs) = (Expectations::default(), owner("rs"));
        expectations.expect_creations(&rs, 1);
        expectations.deletion_observed(&rs, &owner("pod-1"));
        assert!(!expectations.satisfied(&rs));
        expectations.expect_deletions(&rs, pods(&["pod-1"]));
        expectations.creation_observed(&rs);
        assert!(!expectations.satisfied(&rs));
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_expectation_replaces_the_old_one() {
        let (expectations, rs) = (Expectations::default(), owner("rs"));
        expectations.expect_creations(&rs, 7);
        expectations.expect_deletions(&rs, pods(&["pod-1"]));
        expectations.deletion_observed(&rs, &owner("pod-1"));
        assert!(expectations.satisfied(&rs));
        expectations.expect_deletions(&rs, pods(&["pod-1", "pod-2"]));
        expectations.expect_creations(&rs, 1);
        expectations.deletion_observed(&rs, &owner("pod-1"));
        expectations.creation_observed(&rs);
        assert!(expectations.satisfied(&rs));
    }

    #[tokio::test(start_paused = true)]
    async fn a_record_is_waited_for_five_minutes_and_not_longer() {
        let (expectations, rs) = (Expectations::default(), owner("rs"));
        assert_eq!(expectations.expires_in(&rs), None);
        expectations.expect_creations(&rs, 1);
        tokio::time::advance(TIMEOUT).await;
        assert!(!expectations.satisfied(&rs), "exactly five minutes");
        assert_eq!(expectations.expires_in(&rs), Some(Duration::from_millis(1)));
        assert!(!expectations.lost(&rs));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(expectations.satisfied(&rs));
        assert!(expectations.lost(&rs), "satisfied by its age alone");
        assert_eq!(expectations.expires_in(&rs), None);
        expectations.creation_observed(&rs);
        assert!(!expectations.lost(&rs), "seen after all");
        expectations.expect_creations(&rs, 1);
        assert!(!expectations.satisfied(&rs), "a new record has a new age");
    }

    #[tokio::test(start_paused = true)]
    async fn owners_do_not_share_records_and_forgetting_one_keeps_the_other() {
        let expectations = Expectations::default();
        let (a, b) = (owner("a"), owner("b"));
        expectations.expect_creations(&a, 1);
        expectations.expect_creations(&b, 1);
        expectations.forget(&a);
        assert!(expectations.satisfied(&a));
        assert!(!expectations.satisfied(&b));
    }
}

#[cfg(all(test, feature = "shuttle"))]
mod interleavings {
    use std::sync::Arc;

    use shuttle::future::block_on;
    use shuttle::sync::atomic::{AtomicU64, Ordering::SeqCst};
    use shuttle::thread;

    use super::*;
    use crate::sync::{in_many_orders, pass};

    #[test]
    fn nobody_is_told_that_all_is_there_before_it_is() {
        in_many_orders(|| {
            let (expectations, rs) = (
                Arc::new(Expectations::default()),
                ObjectKey::new("default", "rs"),
            );
            let there = Arc::new(AtomicU64::new(0));
            expectations.expect_creations(&rs, 2);
            let observers: Vec<_> = (0..2)
                .map(|_| {
                    let (expectations, rs, there) =
                        (Arc::clone(&expectations), rs.clone(), Arc::clone(&there));
                    thread::spawn(move || {
                        there.fetch_add(1, SeqCst);
                        expectations.creation_observed(&rs);
                    })
                })
                .collect();
            assert!(!expectations.satisfied(&rs) || there.load(SeqCst) == 2);
            observers
                .into_iter()
                .for_each(|observer| observer.join().unwrap());
            assert!(expectations.satisfied(&rs) && !expectations.lost(&rs));
        });
    }

    #[test]
    fn a_record_that_expires_takes_its_successor_with_it_for_nobody() {
        in_many_orders(|| {
            let (expectations, rs) = (
                Arc::new(Expectations::default()),
                ObjectKey::new("default", "rs"),
            );
            expectations.expect_creations(&rs, 1);
            let reader = {
                let (expectations, rs) = (Arc::clone(&expectations), rs.clone());
                thread::spawn(move || {
                    let left = expectations.expires_in(&rs);
                    assert!(
                        left.is_none_or(|left| left <= TIMEOUT + Duration::from_millis(1)),
                        "{left:?}"
                    );
                    (expectations.lost(&rs), expectations.satisfied(&rs))
                })
            };
            let observer = {
                let (expectations, rs) = (Arc::clone(&expectations), rs.clone());
                thread::spawn(move || expectations.creation_observed(&rs))
            };
            block_on(pass(TIMEOUT + Duration::from_millis(1)));
            assert!(expectations.satisfied(&rs), "observed or lost");
            expectations.expect_creations(&rs, 2);
            assert!(!expectations.lost(&rs), "a new record has a new age");
            reader.join().unwrap();
            observer.join().unwrap();
            assert!(
                !expectations.satisfied(&rs),
                "one of two was observed at most"
            );
            (0..2).for_each(|_| expectations.creation_observed(&rs));
            assert!(expectations.satisfied(&rs) && expectations.expires_in(&rs).is_none());
        });
    }

    #[test]
    fn a_deletion_told_by_the_watch_and_by_its_answer_counts_once() {
        in_many_orders(|| {
            let (expectations, rs) = (
                Arc::new(Expectations::default()),
                ObjectKey::new("default", "rs"),
            );
            let [one, two] = ["one", "two"].map(|name| ObjectKey::new("default", name));
            expectations.expect_deletions(&rs, [one.clone(), two.clone()].into());
            let tellers: Vec<_> = (0..2)
                .map(|_| {
                    let (expectations, rs, one) =
                        (Arc::clone(&expectations), rs.clone(), one.clone());
                    thread::spawn(move || expectations.deletion_observed(&rs, &one))
                })
                .collect();
            tellers
                .into_iter()
                .for_each(|teller| teller.join().unwrap());
            assert!(!expectations.satisfied(&rs), "the second is still there");
            expectations.deletion_observed(&rs, &two);
            assert!(expectations.satisfied(&rs));
        });
    }
}
