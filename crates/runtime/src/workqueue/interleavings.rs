//! Runs producers, workers and the timer in many orders under Shuttle, see `steersman_values::sync`.

use futures::FutureExt;
use shuttle::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use shuttle::{future, thread};

use steersman_values::sync::in_many_orders;

use super::*;
use crate::metrics::Registry;

const KEYS: usize = 2;

#[derive(Default)]
struct World {
    /// The number of changes of each key.
    wanted: [AtomicUsize; KEYS],
    /// The number of changes that the last sync of each key saw.
    synced: [AtomicUsize; KEYS],
    /// True while a worker has the key.
    busy: [AtomicBool; KEYS],
}

async fn work(queue: WorkQueue<usize>, world: Arc<World>) {
    while let Some(item) = queue.get().await {
        let key = item.key;
        assert!(!world.busy[key].swap(true, SeqCst), "{key} has two workers");
        let wanted = world.wanted[key].load(SeqCst);
        world.synced[key].store(wanted, SeqCst);
        world.busy[key].store(false, SeqCst);
    }
}

fn queue() -> WorkQueue<usize> {
    WorkQueue::new("test", &QueueMetrics::register(&Registry::new()).unwrap())
}

/// Asserts that a queue is empty after shutdown and that its timer has ended.
fn assert_at_rest(queue: &WorkQueue<usize>) {
    let state = queue.shared.lock();
    let left = (state.queue.len(), state.marks.len(), state.delays.next());
    assert_eq!(left, (0, 0, None), "queued, marked, delayed");
    assert!(state.timer.is_none(), "the timer runs after shutdown");
}

#[test]
fn a_key_has_at_most_one_worker_and_each_change_is_synced() {
    in_many_orders(|| {
        let queue = queue();
        let world = Arc::new(World::default());
        let workers: Vec<_> = (0..2)
            .map(|_| {
                let queue = queue.clone();
                let world = Arc::clone(&world);
                thread::spawn(move || future::block_on(work(queue, world)))
            })
            .collect();
        let producers: Vec<_> = [[0, 1], [0, 0]]
            .map(|keys| {
                let queue = queue.clone();
                let world = Arc::clone(&world);
                thread::spawn(move || {
                    for key in keys {
                        world.wanted[key].fetch_add(1, SeqCst);
                        queue.add(key);
                    }
                })
            })
            .into();
        producers
            .into_iter()
            .for_each(|producer| producer.join().unwrap());
        queue.shut_down();
        workers
            .into_iter()
            .for_each(|worker| worker.join().unwrap());
        for key in 0..KEYS {
            assert_eq!(
                world.synced[key].load(SeqCst),
                world.wanted[key].load(SeqCst),
                "key {key}"
            );
        }
        assert_at_rest(&queue);
    });
}

#[test]
fn each_delayed_key_is_added_in_all_states_of_the_timer() {
    in_many_orders(|| {
        let queue = queue();
        // At the next delay the timer may not run yet, may sleep until a later deadline, or may be
        // about to end.
        let producers = [vec![(0, 3), (1, 2)], vec![(1, 1)]].map(|delays| {
            let queue = queue.clone();
            thread::spawn(move || {
                delays
                    .into_iter()
                    .for_each(|(key, delay)| queue.add_after(key, Duration::from_secs(delay)))
            })
        });
        // Without a timer, `get` waits forever, and Shuttle reports a deadlock.
        let mut missing = vec![0, 1];
        while !missing.is_empty() {
            let item = future::block_on(queue.get()).unwrap();
            missing.retain(|key| *key != item.key);
        }
        producers
            .into_iter()
            .for_each(|producer| producer.join().unwrap());
        queue.shut_down();
        while future::block_on(queue.get()).is_some() {}
        assert_at_rest(&queue);
    });
}

#[test]
fn delayed_keys_are_dropped_at_shutdown() {
    in_many_orders(|| {
        let queue = queue();
        let closed = Arc::new(AtomicBool::new(false));
        let worker = {
            let queue = queue.clone();
            let closed = Arc::clone(&closed);
            thread::spawn(move || {
                let mut taken = 0;
                loop {
                    let was_closed = closed.load(SeqCst) && queue.is_empty();
                    let Some(item) = future::block_on(queue.get()) else {
                        return taken;
                    };
                    assert!(!was_closed, "{} comes after shutdown", item.key);
                    taken += 1;
                }
            })
        };
        let producer = {
            let queue = queue.clone();
            thread::spawn(move || {
                (1..3).for_each(|delay| queue.add_after(7, Duration::from_secs(delay as u64)))
            })
        };
        queue.shut_down();
        closed.store(true, SeqCst);
        producer.join().unwrap();
        assert!(worker.join().unwrap() <= 2);
        assert_at_rest(&queue);
    });
}

#[test]
fn a_failed_key_is_retried_despite_concurrent_add_and_forget() {
    in_many_orders(|| {
        let queue = queue();
        let wanted = Arc::new(AtomicUsize::new(0));
        let producer = {
            let queue = queue.clone();
            let wanted = Arc::clone(&wanted);
            thread::spawn(move || {
                for _ in 0..2 {
                    wanted.fetch_add(1, SeqCst);
                    queue.add(1);
                }
            })
        };
        let other = {
            let queue = queue.clone();
            thread::spawn(move || queue.forget(&1))
        };
        // The first sync fails without a look at `wanted`. So the retry must see the last change,
        // if no add follows.
        let mut synced = 0;
        let mut failed = false;
        while synced < 2 {
            let item = future::block_on(queue.get()).unwrap();
            if std::mem::replace(&mut failed, true) {
                synced = wanted.load(SeqCst);
                queue.forget(&item.key);
            } else {
                queue.add_rate_limited(item.key);
                assert!(queue.failures(&item.key) <= 1);
            }
        }
        producer.join().unwrap();
        other.join().unwrap();
        assert_eq!(
            queue.failures(&1),
            0,
            "`forget` came after the last failure"
        );
        queue.shut_down();
        while future::block_on(queue.get()).is_some() {}
        assert_at_rest(&queue);
    });
}

#[test]
fn concurrent_failures_are_all_counted() {
    in_many_orders(|| {
        let queue = queue();
        let failing = [(), ()].map(|()| {
            let queue = queue.clone();
            thread::spawn(move || queue.add_rate_limited(1))
        });
        failing
            .into_iter()
            .for_each(|failing| failing.join().unwrap());
        assert_eq!(queue.failures(&1), 2);
        assert_eq!(future::block_on(queue.get()).map(|item| item.key), Some(1));
        queue.shut_down();
        while future::block_on(queue.get()).is_some() {}
        assert_at_rest(&queue);
    });
}

#[test]
fn a_cancelled_get_loses_no_key() {
    in_many_orders(|| {
        let queue = queue();
        let producer = {
            let queue = queue.clone();
            thread::spawn(move || queue.add(1))
        };
        let cancelled = {
            let queue = queue.clone();
            // Polls `get` once, at any time, and drops it.
            thread::spawn(move || queue.get().now_or_never().flatten().map(|item| item.key))
        };
        producer.join().unwrap();
        let taken = cancelled.join().unwrap();
        queue.shut_down();
        let left = future::block_on(queue.get()).map(|item| item.key);
        assert!(
            matches!((taken, left), (Some(1), None) | (None, Some(1))),
            "{taken:?} {left:?}"
        );
    });
}
