//! Expectations: creations and deletions that a controller sent and its cache does not show yet.
//!
//! A sync that scales while its cache lacks earlier writes would repeat them. So a controller
//! records the expected number before it writes, handlers count observations down, and syncs do not
//! scale until the record is satisfied. A record expires after five minutes, so that a lost event
//! does not block an owner for ever.
//!
//! [`crate::own_writes`] is the other guard against stale caches. It needs the answers of writes;
//! expectations also cover writes that are still in flight.
//!
//! Upstream: `controller_utils.go` in `pkg/controller`.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tokio::time::Instant;

use steersman_objects::ObjectKey;
use steersman_values::capacity::RemoveAndRelease;
use steersman_values::sync::{Mutex, MutexGuard};

use crate::own_writes::{self, Memory};

/// The age at which an expectation counts as lost. Upstream: `ExpectationsTimeout`.
const TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// Creations and deletions in flight per owner, as in upstream's
/// `UIDTrackingControllerExpectations`. A record older than five minutes of Tokio's clock counts as
/// satisfied.
///
/// A fulfilled record is dropped, since an owner without a record is satisfied too.
#[derive(Debug, Default)]
pub struct Expectations {
    records: Mutex<HashMap<ObjectKey, Record>>,
}

/// The expectations of one owner.
#[derive(Debug)]
struct Record {
    since: Instant,
    outstanding: Outstanding,
}

/// The observations that a record still waits for.
#[derive(Debug)]
struct Outstanding {
    /// The number of creations still to be observed.
    creations: usize,
    /// The objects whose deletion is still to be observed.
    deletions: HashSet<ObjectKey>,
}

impl Outstanding {
    fn is_fulfilled(&self) -> bool {
        self.creations == 0 && self.deletions.is_empty()
    }
}

impl Expectations {
    /// Replaces the record of `owner`: `count` creations are expected.
    pub fn expect_creations(&self, owner: &ObjectKey, count: usize) {
        self.expect(owner, count, HashSet::new());
    }

    /// Replaces the record of `owner`: the deletions of `objects` are expected.
    pub fn expect_deletions(&self, owner: &ObjectKey, objects: HashSet<ObjectKey>) {
        self.expect(owner, 0, objects);
    }

    /// Replaces the record of `owner`: `creations` creations and the deletions of `deletions` are
    /// expected.
    pub fn expect(&self, owner: &ObjectKey, creations: usize, deletions: HashSet<ObjectKey>) {
        let outstanding = Outstanding {
            creations,
            deletions,
        };
        self.replace(owner, outstanding);
    }

    /// A creation was observed, or failed. Counts down the record of `owner`.
    pub fn creation_observed(&self, owner: &ObjectKey) {
        self.observed(owner, |outstanding| {
            outstanding.creations = outstanding.creations.saturating_sub(1);
        });
    }

    /// The deletion of `object` was observed, or failed. Each object counts once, since a watch
    /// shows first a deletion timestamp and then the removal.
    pub fn deletion_observed(&self, owner: &ObjectKey, object: &ObjectKey) {
        self.observed(owner, |outstanding| {
            outstanding.deletions.remove(object);
        });
    }

    /// True if `owner` has no outstanding expectations, or only expired ones.
    pub fn satisfied(&self, owner: &ObjectKey) -> bool {
        self.records()
            .get(owner)
            .is_none_or(|record| record.since.elapsed() > TIMEOUT)
    }

    /// True if `owner` is satisfied only because its record expired. The cache may then lack
    /// writes.
    pub fn lost(&self, owner: &ObjectKey) -> bool {
        self.records()
            .get(owner)
            .is_some_and(|record| record.since.elapsed() > TIMEOUT)
    }

    /// The time until the record of `owner` expires. `None` without a record, or with an expired
    /// one.
    pub fn expires_in(&self, owner: &ObjectKey) -> Option<Duration> {
        let left = TIMEOUT.checked_sub(self.records().get(owner)?.since.elapsed())?;
        Some(left + Duration::from_millis(1))
    }

    /// Drops the record of `owner`.
    pub fn forget(&self, owner: &ObjectKey) {
        self.records().remove_and_release(owner);
    }

    /// Drops all records after a rewind, and returns their owners. The expected events may never
    /// come after it.
    pub fn forget_all(&self) -> Vec<ObjectKey> {
        std::mem::take(&mut *self.records()).into_keys().collect()
    }

    fn replace(&self, owner: &ObjectKey, outstanding: Outstanding) {
        let mut records = self.records();
        if outstanding.is_fulfilled() {
            records.remove_and_release(owner);
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
        if record.outstanding.is_fulfilled() {
            records.remove_and_release(owner);
        }
    }

    fn records(&self) -> MutexGuard<'_, HashMap<ObjectKey, Record>> {
        self.records.lock()
    }
}

impl Memory for Expectations {
    fn forget(&self, owner: &ObjectKey) {
        Self::forget(self, owner);
    }

    fn history_went_back(&self) {
        self.forget_all();
    }

    fn outstanding(&self, owner: &ObjectKey) -> Option<own_writes::Outstanding> {
        let expire = self.expires_in(owner);
        let records = self.records();
        let Outstanding {
            creations,
            deletions,
        } = &records.get(owner)?.outstanding;
        Some(own_writes::Outstanding {
            creations: *creations,
            deletions: deletions.len(),
            expire,
        })
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
            let expectations = Expectations::default();
            let rs = owner("rs");
            expectations.expect_creations(&rs, expected);
            for _ in 0..observed {
                expectations.creation_observed(&rs);
            }
            assert_eq!(expectations.satisfied(&rs), satisfied, "{why}");
        }
    }

    #[test]
    fn observations_may_come_from_many_threads() {
        let expectations = Expectations::default();
        let rs = owner("rs");
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
        let expectations = Expectations::default();
        let rs = owner("rs");
        expectations.expect_deletions(&rs, pods(&["pod-1", "pod-2"]));
        for (why, pod, satisfied) in [
            ("a pod without expectation", "pod-9", false),
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
    async fn creations_and_deletions_do_not_satisfy_each_other() {
        let expectations = Expectations::default();
        let rs = owner("rs");
        expectations.expect_creations(&rs, 1);
        expectations.deletion_observed(&rs, &owner("pod-1"));
        assert!(!expectations.satisfied(&rs));
        expectations.expect_deletions(&rs, pods(&["pod-1"]));
        expectations.creation_observed(&rs);
        assert!(!expectations.satisfied(&rs));
    }

    #[tokio::test(start_paused = true)]
    async fn creations_and_deletions_of_one_record_are_both_awaited() {
        let expectations = Expectations::default();
        let ds = owner("ds");
        expectations.expect(&ds, 1, pods(&["pod-1"]));
        expectations.creation_observed(&ds);
        expectations.creation_observed(&ds);
        assert!(!expectations.satisfied(&ds), "the deletion is outstanding");
        expectations.deletion_observed(&ds, &owner("pod-1"));
        assert!(expectations.satisfied(&ds));
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_expectation_replaces_the_old_one() {
        let expectations = Expectations::default();
        let rs = owner("rs");
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
    async fn record_expires_after_five_minutes() {
        let expectations = Expectations::default();
        let rs = owner("rs");
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
        let a = owner("a");
        let b = owner("b");
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

    use steersman_values::sync::{in_many_orders, pass};

    use super::*;

    #[test]
    fn creations_are_satisfied_only_after_all_were_observed() {
        in_many_orders(|| {
            let expectations = Arc::new(Expectations::default());
            let rs = ObjectKey::new("default", "rs");
            let created = Arc::new(AtomicU64::new(0));
            expectations.expect_creations(&rs, 2);
            let observers: Vec<_> = (0..2)
                .map(|_| {
                    let expectations = Arc::clone(&expectations);
                    let rs = rs.clone();
                    let created = Arc::clone(&created);
                    thread::spawn(move || {
                        created.fetch_add(1, SeqCst);
                        expectations.creation_observed(&rs);
                    })
                })
                .collect();
            assert!(!expectations.satisfied(&rs) || created.load(SeqCst) == 2);
            observers
                .into_iter()
                .for_each(|observer| observer.join().unwrap());
            assert!(expectations.satisfied(&rs) && !expectations.lost(&rs));
        });
    }

    #[test]
    fn expired_record_does_not_affect_its_successor() {
        in_many_orders(|| {
            let expectations = Arc::new(Expectations::default());
            let rs = ObjectKey::new("default", "rs");
            expectations.expect_creations(&rs, 1);
            let reader = {
                let expectations = Arc::clone(&expectations);
                let rs = rs.clone();
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
                let expectations = Arc::clone(&expectations);
                let rs = rs.clone();
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
    fn deletion_observed_on_two_threads_counts_once() {
        in_many_orders(|| {
            let expectations = Arc::new(Expectations::default());
            let rs = ObjectKey::new("default", "rs");
            let [one, two] = ["one", "two"].map(|name| ObjectKey::new("default", name));
            expectations.expect_deletions(&rs, [one.clone(), two.clone()].into());
            let observers: Vec<_> = (0..2)
                .map(|_| {
                    let expectations = Arc::clone(&expectations);
                    let rs = rs.clone();
                    let one = one.clone();
                    thread::spawn(move || expectations.deletion_observed(&rs, &one))
                })
                .collect();
            observers
                .into_iter()
                .for_each(|observer| observer.join().unwrap());
            assert!(!expectations.satisfied(&rs), "the second is still there");
            expectations.deletion_observed(&rs, &two);
            assert!(expectations.satisfied(&rs));
        });
    }
}
