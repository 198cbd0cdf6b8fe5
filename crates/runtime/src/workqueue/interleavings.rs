//! Producers and workers in every order.

use futures::FutureExt;
use shuttle::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use shuttle::{future, thread};

use super::*;
use crate::metrics::Registry;
use crate::sync::in_every_order;

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

#[test]
fn no_key_has_two_workers_and_no_change_is_left_unsynced() {
    in_every_order(|| {
        let queue = WorkQueue::new("test", &QueueMetrics::register(&Registry::new()).unwrap());
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
        producers.into_iter().for_each(|producer| producer.join().unwrap());
        queue.shut_down();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        for key in 0..KEYS {
            assert_eq!(world.synced[key].load(SeqCst), world.wanted[key].load(SeqCst), "key {key}");
        }
        assert!(queue.shared.lock().marks.is_empty());
    });
}

#[test]
fn a_worker_that_stops_waiting_takes_no_key_with_it() {
    in_every_order(|| {
        let queue = WorkQueue::new("test", &QueueMetrics::register(&Registry::new()).unwrap());
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
        assert!(matches!((taken, left), (Some(1), None) | (None, Some(1))), "{taken:?} {left:?}");
    });
}
