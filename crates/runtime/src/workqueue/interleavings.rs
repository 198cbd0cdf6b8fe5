//! Producers, workers and the timer in many orders.

use futures::FutureExt;
use shuttle::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use shuttle::{future, thread};

use super::*;
use crate::metrics::Registry;
use crate::sync::in_many_orders;

const KEYS: usize = 2;

#[derive(Default)]
struct World {
    /// What is to be synced, by key.
    wanted: [AtomicUsize; KEYS],
    synced: [AtomicUsize; KEYS],
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

/// Nothing is left in a queue that was shut down, and nothing runs for it.
fn assert_at_rest(queue: &WorkQueue<usize>) {
    let state = queue.shared.lock();
    let left = (state.queue.len(), state.marks.len(), state.delays.next());
    assert_eq!(left, (0, 0, None), "queued, marked, delayed");
    assert!(state.timer.is_none(), "the timer outlives the queue");
}

#[test]
fn no_key_has_two_workers_and_no_change_is_left_unsynced() {
    in_many_orders(|| {
        let queue = queue();
        let world = Arc::new(World::default());
        let workers: Vec<_> = (0..2)
            .map(|_| {
                let (queue, world) = (queue.clone(), Arc::clone(&world));
                thread::spawn(move || future::block_on(work(queue, world)))
            })
            .collect();
        let producers: Vec<_> = [[0, 1], [0, 0]]
            .map(|keys| {
                let (queue, world) = (queue.clone(), Arc::clone(&world));
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
fn every_delayed_key_comes_whoever_arms_the_timer() {
    in_many_orders(|| {
        let queue = queue();
        // The timer may be started, be told of an earlier key, or be at its end when the next delay
        // comes.
        let producers = [vec![(0, 3), (1, 2)], vec![(1, 1)]].map(|delays| {
            let queue = queue.clone();
            thread::spawn(move || {
                delays
                    .into_iter()
                    .for_each(|(key, delay)| queue.add_after(key, Duration::from_secs(delay)))
            })
        });
        // Without its timer it waits for ever, which the scheduler takes for a deadlock.
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
fn a_queue_that_is_shut_down_hands_out_nothing_that_was_delayed() {
    in_many_orders(|| {
        let queue = queue();
        let closed = Arc::new(AtomicBool::new(false));
        let worker = {
            let (queue, closed) = (queue.clone(), Arc::clone(&closed));
            thread::spawn(move || {
                let mut taken = 0;
                loop {
                    let was_closed = closed.load(SeqCst) && queue.is_empty();
                    let Some(item) = future::block_on(queue.get()) else {
                        return taken;
                    };
                    assert!(!was_closed, "{} comes after the end", item.key);
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
fn a_key_that_failed_comes_again_whoever_adds_or_forgets_it_meanwhile() {
    in_many_orders(|| {
        let queue = queue();
        let wanted = Arc::new(AtomicUsize::new(0));
        let producer = {
            let (queue, wanted) = (queue.clone(), Arc::clone(&wanted));
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
        // The first sync fails and sees nothing, so it is the retry that has to see the last change
        // if no add comes after it.
        let (mut synced, mut failed) = (0, false);
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
        assert_eq!(queue.failures(&1), 0, "forgotten after its last failure");
        queue.shut_down();
        while future::block_on(queue.get()).is_some() {}
        assert_at_rest(&queue);
    });
}

#[test]
fn failures_told_at_once_all_count() {
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
fn a_worker_that_stops_waiting_takes_no_key_with_it() {
    in_many_orders(|| {
        let queue = queue();
        let producer = {
            let queue = queue.clone();
            thread::spawn(move || queue.add(1))
        };
        let impatient = {
            let queue = queue.clone();
            // Asked once, whenever that is, and dropped.
            thread::spawn(move || queue.get().now_or_never().flatten().map(|item| item.key))
        };
        producer.join().unwrap();
        let taken = impatient.join().unwrap();
        queue.shut_down();
        let left = future::block_on(queue.get()).map(|item| item.key);
        assert!(
            matches!((taken, left), (Some(1), None) | (None, Some(1))),
            "{taken:?} {left:?}"
        );
    });
}
