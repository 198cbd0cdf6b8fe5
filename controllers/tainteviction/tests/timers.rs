//! The timers of pods.
//!
//! Upstream: `timed_workers_test.go`.

use std::time::Duration;

use steersman_objects::{ObjectKey, Uid};
use tokio::time::Instant;

use super::super::timers::Timers;
use super::super::tolerance::Tolerance;

const SECOND: Duration = Duration::from_secs(1);

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("default", name)
}

fn update(timers: &mut Timers, name: &str, tolerance: Tolerance, now: Instant) -> bool {
    timers.update(&key(name), &Uid::new(name), tolerance, now)
}

/// Names of the pods that are due, and their lateness.
fn due(timers: &mut Timers, now: Instant) -> Vec<(String, Duration)> {
    let due = timers.take_due(now, usize::MAX);
    due.into_iter()
        .map(|due| (due.pod.name.to_string(), now - due.fires_at))
        .collect()
}

/// Upstream: `TestExecute`. Each pod is evicted once, however often it is added.
#[test]
fn execute() {
    let mut timers = Timers::default();
    let now = Instant::now();
    for _ in 0..2 {
        for name in ["1", "2", "3", "4", "5"] {
            assert!(!update(
                &mut timers,
                name,
                Tolerance::For(Duration::ZERO),
                now
            ));
        }
    }
    assert_eq!(due(&mut timers, now).len(), 5);
    assert_eq!(due(&mut timers, now), []);
}

/// Upstream: `TestExecuteDelayed`.
#[test]
fn execute_delayed() {
    let mut timers = Timers::default();
    let now = Instant::now();
    for name in ["1", "2", "3", "4", "5"] {
        update(&mut timers, name, Tolerance::For(10 * SECOND), now);
    }
    assert_eq!(timers.next(), Some(now + 10 * SECOND));
    assert_eq!(due(&mut timers, now + 9 * SECOND), []);
    assert_eq!(due(&mut timers, now + 11 * SECOND).len(), 5);
}

/// Upstream: `TestCancel`, `TestCancelAndRead`.
#[test]
fn cancel() {
    let mut timers = Timers::default();
    let now = Instant::now();
    for name in ["1", "2", "3", "4", "5"] {
        update(&mut timers, name, Tolerance::For(10 * SECOND), now);
    }
    for name in ["2", "4"] {
        assert!(timers.cancel(&key(name)) && !timers.cancel(&key(name)));
    }
    update(&mut timers, "2", Tolerance::For(SECOND), now);
    let names: Vec<String> = due(&mut timers, now + 11 * SECOND)
        .into_iter()
        .map(|d| d.0)
        .collect();
    assert_eq!(names, ["2", "1", "3", "5"]);
}

#[test]
fn a_waiting_timer_keeps_its_deadline_until_it_is_cancelled() {
    let now = Instant::now();
    let minutes = |n: u32| Tolerance::For(n * 60 * SECOND);
    // (case, tolerance five seconds later, cancelled with an Event, deadline after the first moment)
    let cases = [
        ("same", minutes(5), false, Some(300 * SECOND)),
        ("shorter", minutes(1), false, Some(300 * SECOND)),
        ("longer", minutes(60), false, Some(300 * SECOND)),
        (
            "zero",
            Tolerance::For(Duration::ZERO),
            false,
            Some(300 * SECOND),
        ),
        ("not tolerated", Tolerance::None, true, Some(5 * SECOND)),
        ("tolerated without limit", Tolerance::Forever, true, None),
    ];
    for (case, tolerance, cancelled, deadline) in cases {
        let mut timers = Timers::default();
        update(&mut timers, "a", minutes(5), now);
        let later = now + 5 * SECOND;
        assert_eq!(
            update(&mut timers, "a", tolerance, later),
            cancelled,
            "{case}"
        );
        assert_eq!(
            timers.next(),
            deadline.map(|deadline| now + deadline),
            "{case}"
        );
        assert_eq!(timers.len(), usize::from(deadline.is_some()), "{case}");
    }
}

#[test]
fn an_eviction_that_runs_is_neither_repeated_nor_reported_as_cancelled() {
    let mut timers = Timers::default();
    let now = Instant::now();
    update(&mut timers, "a", Tolerance::None, now);
    let running = timers.take_due(now, 1).pop().unwrap();
    for tolerance in [Tolerance::None, Tolerance::For(SECOND)] {
        assert!(!update(&mut timers, "a", tolerance, now));
        assert_eq!(timers.next(), None, "{tolerance:?}");
    }
    timers.finished(&running);
    assert!(timers.is_empty());
    timers.failed(&running, now);
    assert!(timers.is_empty(), "a finished eviction is not repeated");
}

#[test]
fn failed_evictions_are_repeated_with_back_off() {
    let mut timers = Timers::default();
    let mut now = Instant::now();
    update(&mut timers, "a", Tolerance::None, now);
    let first = now;
    for pause in [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300] {
        let failed = timers.take_due(now, 1).pop().unwrap();
        assert_eq!(failed.fires_at, first, "the deadline stays");
        timers.failed(&failed, now);
        now += pause * SECOND;
        assert_eq!(timers.next(), Some(now));
    }
    assert!(
        update(&mut timers, "a", Tolerance::Forever, now),
        "it can be cancelled"
    );
    assert!(timers.is_empty());
}

#[test]
fn a_pod_of_the_same_name_gets_a_timer_of_its_own() {
    let mut timers = Timers::default();
    let now = Instant::now();
    let pod = key("a");
    timers.update(&pod, &Uid::new("old"), Tolerance::For(SECOND), now);
    let later = now + SECOND / 2;
    assert!(timers.update(&pod, &Uid::new("new"), Tolerance::For(SECOND), later));
    assert_eq!(timers.next(), Some(later + SECOND));
    let running = timers.take_due(later + SECOND, 1).pop().unwrap();
    assert_eq!(running.uid, Uid::new("new"));
    timers.update(&pod, &Uid::new("third"), Tolerance::None, later + SECOND);
    timers.failed(&running, later + SECOND);
    let third = timers.take_due(later + SECOND, 2);
    assert_eq!(third.len(), 1);
    assert_eq!(third[0].uid, Uid::new("third"));
}

#[test]
fn an_eviction_that_is_due_keeps_its_turn() {
    let mut timers = Timers::default();
    let now = Instant::now();
    for _ in 0..2 {
        assert!(!update(&mut timers, "a", Tolerance::None, now));
    }
    assert_eq!(due(&mut timers, now).len(), 1);
}

#[test]
fn the_end_of_an_old_eviction_leaves_a_newer_timer() {
    let mut timers = Timers::default();
    let now = Instant::now();
    let pod = key("a");
    timers.update(&pod, &Uid::new("old"), Tolerance::None, now);
    let old = timers.take_due(now, 1).pop().unwrap();
    let cancelled = timers.update(&pod, &Uid::new("new"), Tolerance::None, now);
    assert!(!cancelled, "the old one runs");
    timers.finished(&old);
    timers.failed(&old, now);
    let new = timers.take_due(now, 2).pop().unwrap();
    assert_eq!((&new.uid, timers.next()), (&Uid::new("new"), None));
    timers.finished(&old);
    assert!(!timers.is_empty(), "the new one runs");
    timers.failed(&new, now);
    timers.finished(&new);
    assert_eq!(timers.next(), Some(now + SECOND), "it waits again");
    let third = Uid::new("third");
    assert!(timers.update(&pod, &third, Tolerance::Forever, now));
    assert!(timers.is_empty());
}

#[test]
fn at_most_the_limit_of_evictions_starts_and_the_others_can_be_cancelled() {
    let mut timers = Timers::default();
    let now = Instant::now();
    for name in ["a", "b", "c"] {
        update(&mut timers, name, Tolerance::None, now);
    }
    assert_eq!(timers.take_due(now, 2).len(), 2);
    assert!(timers.cancel(&key("c")));
    assert_eq!(timers.take_due(now, 2), []);
}

#[test]
fn an_endless_toleration_never_fires() {
    let mut timers = Timers::default();
    let now = Instant::now();
    update(&mut timers, "a", Tolerance::For(Duration::MAX), now);
    assert_eq!(timers.next(), None);
}
