//! The queue of waiting nodes and its limiter.
//!
//! Upstream: `scheduler/rate_limited_queue_test.go`.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::super::zone_queue::ZoneQueue;

const ALWAYS: f32 = 1e9;

fn with(names: &[&str], rate: f32, now: Instant) -> ZoneQueue {
    let mut queue = ZoneQueue::new(rate, now);
    for name in names {
        queue.add(&Arc::from(*name));
    }
    queue
}

/// Takes all waiting nodes in order.
fn drain(mut queue: ZoneQueue) -> Vec<String> {
    let mut names = Vec::new();
    while let Some(name) = queue.first().cloned() {
        queue.remove(&name);
        names.push(name.to_string());
    }
    names
}

/// Upstream: `TestUniqueQueueGet`, `TestAddNode`.
#[test]
fn nodes_wait_once_in_the_order_of_their_arrival() {
    let now = Instant::now();
    let all = ["first", "second", "third", "second", "first"];
    let mut queue = with(&all, ALWAYS, now);
    assert_eq!(queue.len(), 3);
    assert!(queue.remove("first") && !queue.remove("first"));
    assert_eq!(drain(queue), ["second", "third"]);
}

/// Upstream: `TestDelNode`.
#[test]
fn del_node() {
    let all = ["first", "second", "third"];
    for removed in all {
        let mut queue = with(&all, ALWAYS, Instant::now());
        queue.remove(removed);
        let left: Vec<_> = all.into_iter().filter(|name| *name != removed).collect();
        assert_eq!(drain(queue), left);
    }
}

/// Upstream: `TestTryOrdering`, where the second node fails and comes last.
#[test]
fn a_node_that_failed_waits_behind_all_others() {
    let mut queue = with(&["first", "second", "third"], ALWAYS, Instant::now());
    queue.remove("first");
    queue.move_to_end(&Arc::from("second"));
    assert_eq!(drain(queue), ["third", "second"]);
}

/// Upstream: `TestTryRemovingWhileTry`.
#[test]
fn a_node_that_was_removed_meanwhile_does_not_wait_again() {
    let mut queue = with(&["first", "second"], ALWAYS, Instant::now());
    let first = queue.first().cloned().unwrap();
    queue.remove(&first);
    queue.move_to_end(&first);
    assert_eq!(drain(queue), ["second"]);
}

/// Upstream: `TestClear`.
#[test]
fn clear() {
    let mut queue = with(&["first", "second"], ALWAYS, Instant::now());
    queue.clear();
    assert_eq!((queue.len(), drain(queue)), (0, vec![]));
}

/// Upstream: `TestAddAfterTry`. There, a node that was taken is refused until it is removed; here
/// the taint on the node answers that.
#[test]
fn a_node_that_was_taken_can_wait_again() {
    let mut queue = with(&["first", "second"], ALWAYS, Instant::now());
    queue.remove("first");
    queue.add(&Arc::from("first"));
    assert_eq!(drain(queue), ["second", "first"]);
}

/// Upstream: `TestSwapLimiter`.
#[test]
fn swap_limiter() {
    let now = Instant::now();
    let mut queue = ZoneQueue::new(0.1, now);
    assert!(queue.try_take(now));
    queue.set_rate(0.0, now);
    assert_eq!((queue.rate(), queue.try_take(now)), (0.0, false));
    queue.set_rate(1.0, now);
    assert!(
        !queue.try_take(now),
        "a zone that was stopped starts without a token"
    );
    assert!(queue.try_take(now + Duration::from_secs(1)));
    let later = now + Duration::from_secs(100);
    queue.set_rate(10.0, later);
    assert!(queue.try_take(later), "a full bucket stays full");
    queue.set_rate(5.0, later);
    assert!(!queue.try_take(later), "an empty bucket stays empty");
}

/// kubernetes/kubernetes#104639
#[test]
fn a_stopped_zone_resumes_with_any_rate() {
    for rate in [0.01, 1.0, 2.0] {
        let now = Instant::now();
        let mut queue = ZoneQueue::new(rate, now);
        queue.set_rate(0.0, now);
        queue.set_rate(rate, now);
        let later = now + Duration::from_secs_f32(1.0 / rate) + Duration::from_millis(1);
        assert!(!queue.try_take(now) && queue.try_take(later), "rate {rate}");
    }
}

#[test]
fn rates_of_zero_and_less_give_one_token_and_no_other() {
    for rate in [0.0, -1.0] {
        let now = Instant::now();
        let mut queue = ZoneQueue::new(rate, now);
        assert!(queue.try_take(now), "rate {rate}");
        assert!(
            !queue.try_take(now + Duration::from_secs(1_000_000)),
            "rate {rate}"
        );
    }
}
