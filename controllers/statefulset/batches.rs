//! The two ways to take the turns of a loop: one by one, and in batches that double.
//!
//! If a quota rejects every pod, one request shows it, instead of hundreds. The slow start of
//! `pod_control` returns one failure and has no largest batch; parallel sets report all failures of
//! a batch. Upstream: `runForAll` and `slowStartBatch` in `stateful_set_control.go`.

use futures::StreamExt;
use futures::stream::FuturesOrdered;

/// The most turns at once. Upstream: `MaxBatchSize`.
const LARGEST: usize = 500;

/// Takes the turns of all `items` in batches of 1, 2, 4 and so on. Stops after the first batch with
/// a failure, and returns all failures of that batch.
///
/// The turns of one batch run at the same time. A fault ends the loop with its batch, so most requests of a
/// hopeless set are never sent.
pub(super) async fn in_batches<T, E, F>(
    items: impl Iterator<Item = T>,
    turn: impl Fn(T) -> F,
) -> Result<(), Vec<E>>
where
    F: Future<Output = Result<(), E>>,
{
    let mut items = items.fuse();
    let mut size = 1;
    loop {
        let mut turns: FuturesOrdered<F> = items.by_ref().take(size).map(&turn).collect();
        if turns.is_empty() {
            return Ok(());
        }
        let mut failures = Vec::new();
        while let Some(outcome) = turns.next().await {
            failures.extend(outcome.err());
        }
        if !failures.is_empty() {
            return Err(failures);
        }
        size = (2 * size).min(LARGEST);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[tokio::test]
    async fn turns_are_taken_in_batches_until_one_fails() {
        // (why, items, items that fail, turns taken, failures)
        let cases: [(&str, usize, &[usize], usize, &[usize]); 6] = [
            ("nothing to do", 0, &[], 0, &[]),
            ("all succeed", 10, &[], 10, &[]),
            ("the first fails", 10, &[0], 1, &[0]),
            ("one of the second batch fails", 10, &[2], 3, &[2]),
            ("two of the third batch fail", 10, &[4, 6], 7, &[4, 6]),
            (
                "a failure after the largest batch",
                3000,
                &[1011],
                1511,
                &[1011],
            ),
        ];
        for (why, count, failing, taken, expected) in cases {
            let turns = RefCell::new(Vec::new());
            let turn = |item: usize| {
                turns.borrow_mut().push(item);
                async move {
                    if failing.contains(&item) {
                        Err(item)
                    } else {
                        Ok(())
                    }
                }
            };
            let failures = in_batches(0..count, turn).await.err().unwrap_or_default();
            assert_eq!(failures, expected, "{why}");
            assert_eq!(turns.into_inner(), (0..taken).collect::<Vec<_>>(), "{why}");
        }
    }
}
