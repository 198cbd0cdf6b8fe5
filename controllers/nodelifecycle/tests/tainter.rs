//! The queue of waiting nodes and its limiter.
//!
//! Upstream: `scheduler/rate_limited_queue_test.go`.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::super::tainter::Tainter;

const ALWAYS: f32 = 1e9;

fn with(names: &[&str], rate: f32, now: Instant) -> Tainter {
    let mut tainter = Tainter::new(rate, now);
    for name in names {
        tainter.add(&Arc::from(*name));
    }
    tainter
}

/// Takes all waiting nodes in order.
fn drain(mut tainter: Tainter) -> Vec<String> {
    let mut names = Vec::new();
    while let Some(name) = tainter.first().cloned() {
        tainter.remove(&name);
        names.push(name.to_string());
    }
    names
}

/// Upstream: `TestUniqueQueueGet`, `TestAddNode`.
#[test]
fn nodes_wait_once_in_the_order_of_their_arrival() {
    let now = Instant::now();
    let all = ["first", "second", "third", "second", "first"];
    let mut tainter = with(&all, ALWAYS, now);
    assert_eq!(tainter.len(), 3);
    assert!(tainter.remove("first") && !tainter.remove("first"));
    assert_eq!(drain(tainter), ["second", "third"]);
}

/// Upstream: `TestDelNode`.
#[test]
fn del_node() {
    let all = ["first", "second", "third"];
    for removed in all {
        let mut tainter = with(&all, ALWAYS, Instant::now());
        tainter.remove(removed);
        let left: Vec<_> = all.into_iter().filter(|name| *name != removed).collect();
        assert_eq!(drain(tainter), left);
    }
}

/// Upstream: `TestTryOrdering`, where the second node fails and comes last.
#[test]
fn a_node_that_failed_waits_behind_all_others() {
    let mut tainter = with(&["first", "second", "third"], ALWAYS, Instant::now());
    tainter.remove("first");
    tainter.move_to_end(&Arc::from("second"));
    assert_eq!(drain(tainter), ["third", "second"]);
}

/// Upstream: `TestTryRemovingWhileTry`.
#[test]
fn a_node_that_was_removed_meanwhile_does_not_wait_again() {
    let mut tainter = with(&["first", "second"], ALWAYS, Instant::now());
    let first = tainter.first().cloned().unwrap();
    tainter.remove(&first);
    tainter.move_to_end(&first);
    assert_eq!(drain(tainter), ["second"]);
}

/// Upstream: `TestClear`.
#[test]
fn clear() {
    let mut tainter = with(&["first", "second"], ALWAYS, Instant::now());
    tainter.clear();
    assert_eq!((tainter.len(), drain(tainter)), (0, vec![]));
}

/// Upstream: `TestAddAfterTry`. There, a node that was taken is refused until it is removed; here
/// the taint on the node answers that.
#[test]
fn a_node_that_was_taken_can_wait_again() {
    let mut tainter = with(&["first", "second"], ALWAYS, Instant::now());
    tainter.remove("first");
    tainter.add(&Arc::from("first"));
    assert_eq!(drain(tainter), ["second", "first"]);
}

/// Upstream: `TestSwapLimiter`.
#[test]
fn swap_limiter() {
    let now = Instant::now();
    let mut tainter = Tainter::new(0.1, now);
    assert!(tainter.try_take(now));
    tainter.set_rate(0.0, now);
    assert_eq!((tainter.rate(), tainter.try_take(now)), (0.0, false));
    tainter.set_rate(1.0, now);
    assert!(
        !tainter.try_take(now),
        "a zone that was stopped starts without a token"
    );
    assert!(tainter.try_take(now + Duration::from_secs(1)));
    let later = now + Duration::from_secs(100);
    tainter.set_rate(10.0, later);
    assert!(tainter.try_take(later), "a full bucket stays full");
    tainter.set_rate(5.0, later);
    assert!(!tainter.try_take(later), "an empty bucket stays empty");
}

/// kubernetes/kubernetes#104639
#[test]
fn a_stopped_zone_resumes_with_any_rate() {
    for rate in [0.01, 1.0, 2.0] {
        let now = Instant::now();
        let mut tainter = Tainter::new(rate, now);
        tainter.set_rate(0.0, now);
        tainter.set_rate(rate, now);
        let later = now + Duration::from_secs_f32(1.0 / rate) + Duration::from_millis(1);
        assert!(
            !tainter.try_take(now) && tainter.try_take(later),
            "rate {rate}"
        );
    }
}

#[test]
fn rates_of_zero_and_less_give_one_token_and_no_other() {
    for rate in [0.0, -1.0] {
        let now = Instant::now();
        let mut tainter = Tainter::new(rate, now);
        assert!(tainter.try_take(now), "rate {rate}");
        assert!(
            !tainter.try_take(now + Duration::from_secs(1_000_000)),
            "rate {rate}"
        );
    }
}
