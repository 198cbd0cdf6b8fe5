//! Slow start: calls in batches of 1, 2, 4 and so on.
//!
//! If a quota rejects every pod, one request shows it, instead of hundreds. Upstream:
//! `slowStartBatch` in `pkg/controller/replicaset`.

use std::future::Future;

use futures::StreamExt;
use futures::stream::FuturesUnordered;

/// Size of the first batch. Upstream: `SlowStartInitialBatchSize`.
const FIRST_BATCH: usize = 1;

/// Makes `count` calls in batches that double, and stops after the first batch with a failure.
/// Each call gets its number, from 0. Returns how many calls succeeded, and the first failure.
pub(super) async fn slow_start<F, E>(count: usize, call: impl Fn(usize) -> F) -> (usize, Option<E>)
where
    F: Future<Output = Result<(), E>>,
{
    let mut successes = 0;
    let mut batch = FIRST_BATCH;
    let mut remaining = count;
    let mut failure = None;
    while remaining > 0 && failure.is_none() {
        batch = batch.min(remaining);
        let next = count - remaining;
        let mut calls: FuturesUnordered<F> = (next..next + batch).map(&call).collect();
        while let Some(result) = calls.next().await {
            match result {
                Ok(()) => successes += 1,
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        remaining -= batch;
        batch *= 2;
    }
    (successes, failure)
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    #[tokio::test]
    async fn slow_start_batch() {
        // (why, count, calls that succeed, successes, calls, failed)
        let cases = [
            ("callLimit = 0 (all fail)", 10, 0, 0, 1, true),
            ("callLimit = count (all succeed)", 10, 10, 10, 10, false),
            ("callLimit < count (some succeed)", 10, 5, 5, 7, true),
            ("nothing to do", 0, 0, 0, 0, false),
            ("a quota of 3 for 20 pods", 20, 3, 3, 7, true),
            // Upstream's TestSyncReplicaSetCreateFailures: 1 + 2 + 4 + 8 calls.
            ("a quota of 10 for 100 pods", 100, 10, 10, 15, true),
        ];
        for (why, count, limit, successes, calls, failed) in cases {
            let made = Cell::new(0);
            let (found, failure) = slow_start(count, |_| async {
                made.set(made.get() + 1);
                if made.get() > limit {
                    Err("fake error")
                } else {
                    Ok(())
                }
            })
            .await;
            assert_eq!(
                (found, made.get(), failure.is_some()),
                (successes, calls, failed),
                "{why}"
            );
        }
    }

    #[tokio::test]
    async fn each_call_gets_its_number() {
        let numbers = RefCell::new(Vec::new());
        slow_start(5, |number| {
            numbers.borrow_mut().push(number);
            async { Ok::<(), ()>(()) }
        })
        .await;
        assert_eq!(numbers.into_inner(), [0, 1, 2, 3, 4]);
    }

    #[tokio::test]
    async fn batches_double_and_run_concurrently() {
        let running = Cell::new(0);
        let batches = RefCell::new(Vec::new());
        let (successes, failure) = slow_start(500, |_| async {
            running.set(running.get() + 1);
            tokio::task::yield_now().await;
            let batch = running.replace(0);
            if batch > 0 {
                batches.borrow_mut().push(batch);
            }
            Ok::<(), ()>(())
        })
        .await;
        assert_eq!((successes, failure), (500, None));
        assert_eq!(batches.into_inner(), [1, 2, 4, 8, 16, 32, 64, 128, 245]);
    }
}
