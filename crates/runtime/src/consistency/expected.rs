//! Expectations: creations and deletions that a controller sent and its cache does not show yet.
//!
//! A sync that scales while its cache lacks earlier writes would repeat them. So a controller
//! records the expected number before it writes, handlers count observations down, and syncs do not
//! scale until the record is satisfied. Expectations expire after five minutes, so that a lost event
//! does not block an owner for ever.
//!
//! Versions need the answers of writes. Expectations also cover writes that are still in flight, and
//! deletions, whose answers may lack a version.
//!
//! Upstream: `controller_utils.go` in `pkg/controller`.

use std::collections::HashSet;
use std::time::Duration;

use tokio::time::Instant;

use steersman_objects::ObjectKey;

use super::{ConsistencyStore, Record};
use crate::workers::Key;

/// The age at which an expectation counts as lost. Upstream: `ExpectationsTimeout`. It has to be
/// longer than the delay of watch events in a busy cluster.
const TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// The creations and deletions that an owner still waits for. Never without any. Upstream:
/// `ControlleeExpectations`, and the UIDs of `UIDTrackingControllerExpectations`.
#[derive(Debug)]
pub(super) struct Expected {
    since: Instant,
    /// The number of creations still to be observed.
    creations: usize,
    /// The objects whose deletion is still to be observed. Names instead of a number, because one
    /// deletion may be observed twice.
    deletions: HashSet<ObjectKey>,
}

/// Writes whose watch events are outstanding, for explanations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outstanding {
    /// Number of creations.
    pub creations: usize,
    /// Number of deletions.
    pub deletions: usize,
    /// Time until the expectations expire; `None` if they have expired.
    pub expire: Option<Duration>,
}

impl Expected {
    fn is_fulfilled(&self) -> bool {
        self.creations == 0 && self.deletions.is_empty()
    }

    fn is_expired(&self) -> bool {
        self.since.elapsed() > TIMEOUT
    }

    /// One millisecond later than the limit, since [`Self::is_expired`] compares with "greater".
    fn expires_in(&self) -> Option<Duration> {
        let left = TIMEOUT.checked_sub(self.since.elapsed())?;
        Some(left + Duration::from_millis(1))
    }
}

impl Record {
    /// True if the expectations are satisfied only because they expired. Such an owner is in doubt,
    /// where upstream's `SatisfiedExpectations` trusts the cache again.
    pub(super) fn is_lost(&self) -> bool {
        self.expected
            .as_ref()
            .is_some_and(|expected| expected.is_expired())
    }
}

/// Creations and deletions in flight per owner, as in upstream's
/// `UIDTrackingControllerExpectations`. Expectations older than five minutes of Tokio's clock count
/// as satisfied.
impl<K: Key> ConsistencyStore<K> {
    /// Replaces the expectations of `owner`: `count` creations are expected. Upstream:
    /// `ExpectCreations`. Call it before the first request: an event may come before the answer.
    pub fn expect_creations(&self, owner: &K, count: usize) {
        self.expect(owner, count, HashSet::new());
    }

    /// Replaces the expectations of `owner`: the deletions of `objects` are expected. Upstream:
    /// `ExpectDeletions`.
    pub fn expect_deletions(&self, owner: &K, objects: HashSet<ObjectKey>) {
        self.expect(owner, 0, objects);
    }

    /// Replaces the expectations of `owner`: `creations` creations and the deletions of `deletions`
    /// are expected. One record for both, because a second call would drop the first.
    pub fn expect(&self, owner: &K, creations: usize, deletions: HashSet<ObjectKey>) {
        let expected = Expected {
            since: Instant::now(),
            creations,
            deletions,
        };
        if expected.is_fulfilled() {
            self.records.update(owner, |record| record.expected = None);
        } else {
            let mut records = self.records.lock();
            records.entry(owner.clone()).or_default().expected = Some(Box::new(expected));
        }
    }

    /// A creation was observed, or failed. Counts down the expectations of `owner`. An observation
    /// counts only against expectations: other programs create objects too. Upstream:
    /// `CreationObserved`.
    pub fn creation_observed(&self, owner: &K) {
        self.observed(owner, |expected| {
            expected.creations = expected.creations.saturating_sub(1);
        });
    }

    /// The deletion of `object` was observed, or failed. Each object counts once, since a watch
    /// shows first a deletion timestamp and then the removal. Upstream: `DeletionObserved`.
    pub fn deletion_observed(&self, owner: &K, object: &ObjectKey) {
        self.observed(owner, |expected| {
            expected.deletions.remove(object);
        });
    }

    /// True if `owner` has no outstanding expectations, or only expired ones.
    ///
    /// Ask before the objects are read. In the other order, an object that arrives in between is
    /// missing from both. Requeue an owner for the time when its expectations expire: if the
    /// objects never arrive, no event enqueues it. Upstream: `SatisfiedExpectations`.
    pub fn satisfied(&self, owner: &K) -> bool {
        self.look(owner, |expected| !expected.is_expired()) != Some(true)
    }

    /// The time until the expectations of `owner` expire. `None` without any, or with expired ones.
    pub fn expires_in(&self, owner: &K) -> Option<Duration> {
        self.look(owner, Expected::expires_in)?
    }

    /// The writes for `owner` whose watch events are outstanding.
    pub fn outstanding(&self, owner: &K) -> Option<Outstanding> {
        self.look(owner, |expected| Outstanding {
            creations: expected.creations,
            deletions: expected.deletions.len(),
            expire: expected.expires_in(),
        })
    }

    fn look<R>(&self, owner: &K, look: impl FnOnce(&Expected) -> R) -> Option<R> {
        let records = self.records.lock();
        records.get(owner)?.expected.as_deref().map(look)
    }

    fn observed(&self, owner: &K, change: impl FnOnce(&mut Expected)) {
        self.records.update(owner, |record| {
            if let Some(expected) = record.expected.as_deref_mut() {
                change(expected);
            }
            record.expected.take_if(|expected| expected.is_fulfilled());
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store() -> ConsistencyStore {
        ConsistencyStore::new(0)
    }

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
            let expectations = store();
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
        let expectations = store();
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
        let expectations = store();
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
        let expectations = store();
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
        let expectations = store();
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
        let expectations = store();
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
        let expectations = store();
        let rs = owner("rs");
        assert_eq!(expectations.expires_in(&rs), None);
        expectations.expect_creations(&rs, 1);
        tokio::time::advance(TIMEOUT).await;
        assert!(!expectations.satisfied(&rs), "exactly five minutes");
        assert_eq!(expectations.expires_in(&rs), Some(Duration::from_millis(1)));
        assert!(!expectations.is_in_doubt(&rs));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(expectations.satisfied(&rs));
        assert!(expectations.is_in_doubt(&rs), "satisfied by its age alone");
        assert_eq!(expectations.expires_in(&rs), None);
        expectations.creation_observed(&rs);
        assert!(!expectations.is_in_doubt(&rs), "seen after all");
        expectations.expect_creations(&rs, 1);
        assert!(!expectations.satisfied(&rs), "a new record has a new age");
    }

    #[tokio::test(start_paused = true)]
    async fn owners_do_not_share_records_and_forgetting_one_keeps_the_other() {
        let expectations = store();
        let a = owner("a");
        let b = owner("b");
        expectations.expect_creations(&a, 1);
        expectations.expect_creations(&b, 1);
        expectations.clear(&a);
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

    fn store() -> ConsistencyStore {
        ConsistencyStore::new(0)
    }

    #[test]
    fn creations_are_satisfied_only_after_all_were_observed() {
        in_many_orders(|| {
            let expectations = store();
            let rs = ObjectKey::new("default", "rs");
            let created = Arc::new(AtomicU64::new(0));
            expectations.expect_creations(&rs, 2);
            let observers: Vec<_> = (0..2)
                .map(|_| {
                    let expectations = expectations.clone();
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
            assert!(expectations.satisfied(&rs) && !expectations.is_in_doubt(&rs));
        });
    }

    #[test]
    fn expired_record_does_not_affect_its_successor() {
        in_many_orders(|| {
            let expectations = store();
            let rs = ObjectKey::new("default", "rs");
            expectations.expect_creations(&rs, 1);
            let reader = {
                let expectations = expectations.clone();
                let rs = rs.clone();
                thread::spawn(move || {
                    let left = expectations.expires_in(&rs);
                    assert!(
                        left.is_none_or(|left| left <= TIMEOUT + Duration::from_millis(1)),
                        "{left:?}"
                    );
                    (expectations.is_in_doubt(&rs), expectations.satisfied(&rs))
                })
            };
            let observer = {
                let expectations = expectations.clone();
                let rs = rs.clone();
                thread::spawn(move || expectations.creation_observed(&rs))
            };
            block_on(pass(TIMEOUT + Duration::from_millis(1)));
            assert!(expectations.satisfied(&rs), "observed or lost");
            expectations.expect_creations(&rs, 2);
            assert!(!expectations.is_in_doubt(&rs), "a new record has a new age");
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
            let expectations = store();
            let rs = ObjectKey::new("default", "rs");
            let [one, two] = ["one", "two"].map(|name| ObjectKey::new("default", name));
            expectations.expect_deletions(&rs, [one.clone(), two.clone()].into());
            let observers: Vec<_> = (0..2)
                .map(|_| {
                    let expectations = expectations.clone();
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
