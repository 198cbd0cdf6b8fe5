use tokio::time::{advance, sleep};

use tokio::runtime::Handle;

use super::*;
use crate::metrics::Registry;

const MS: Duration = Duration::from_millis(1);

fn queue() -> WorkQueue<&'static str> {
    WorkQueue::new("test", &QueueMetrics::register(&Registry::new()).unwrap())
}

/// Takes the next key, which must come within a minute, and marks it as done at once.
async fn next(queue: &WorkQueue<&'static str>) -> &'static str {
    let item = tokio::time::timeout(60_000 * MS, queue.get()).await;
    item.expect("a key within a minute")
        .expect("the queue is open")
        .key
}

/// One sample of a gathered family.
fn sample(registry: &Registry, family: &str) -> f64 {
    let families = registry.gather();
    let family = families
        .iter()
        .find(|f| f.name() == family)
        .unwrap_or_else(|| panic!("{family} is not there"));
    let [metric] = family.get_metric() else {
        panic!("one queue, one series")
    };
    assert_eq!(metric.get_label()[0].value(), "test");
    match family.get_field_type() {
        prometheus::proto::MetricType::COUNTER => metric.get_counter().get_value(),
        prometheus::proto::MetricType::GAUGE => metric.get_gauge().get_value(),
        _ => metric.get_histogram().get_sample_count() as f64,
    }
}

#[tokio::test(start_paused = true)]
async fn workers_get_every_key_from_concurrent_producers() {
    let queue = WorkQueue::new("test", &QueueMetrics::register(&Registry::new()).unwrap());
    let mut producers = tokio::task::JoinSet::new();
    for key in 0..50 {
        let queue = queue.clone();
        producers.spawn(async move {
            for _ in 0..50 {
                queue.add(key);
                sleep(MS).await;
            }
        });
    }
    let mut workers = tokio::task::JoinSet::new();
    let busy: Arc<Mutex<std::collections::HashSet<i32>>> = Arc::default();
    for _ in 0..10 {
        let queue = queue.clone();
        let busy = Arc::clone(&busy);
        workers.spawn(async move {
            let mut seen = Vec::new();
            while let Some(item) = queue.get().await {
                assert!(busy.lock().insert(item.key), "{} has two workers", item.key);
                sleep(3 * MS).await;
                busy.lock().remove(&item.key);
                seen.push(item.key);
            }
            seen
        });
    }
    while producers.join_next().await.is_some() {}
    queue.shut_down();
    queue.add(-1);
    let seen: std::collections::BTreeSet<i32> =
        workers.join_all().await.into_iter().flatten().collect();
    assert_eq!(
        seen,
        (0..50).collect(),
        "all keys except the one added after shutdown"
    );
    assert!(queue.is_empty());
}

#[tokio::test(start_paused = true)]
async fn queued_keys_are_deduplicated_and_first_in_first_out() {
    let queue = queue();
    for (key, len) in [("foo", 1), ("bar", 2), ("foo", 2)] {
        queue.add(key);
        assert_eq!(queue.len(), len, "after {key}");
    }
    assert_eq!(next(&queue).await, "foo");
    assert_eq!(next(&queue).await, "bar");
    assert!(queue.is_empty());
}

#[tokio::test(start_paused = true)]
async fn adds_during_processing_cause_exactly_one_more_run() {
    let queue = queue();
    queue.add("foo");
    let item = queue.get().await.unwrap();
    for _ in 0..3 {
        queue.add("foo");
    }
    assert_eq!(queue.len(), 0, "a second worker does not get the key");
    drop(item);
    assert_eq!(queue.len(), 1);
    assert_eq!(next(&queue).await, "foo");
    assert_eq!(queue.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_key_added_again_before_shutdown_is_processed_after_it() {
    let queue = queue();
    queue.add("foo");
    let item = queue.get().await.unwrap();
    queue.add("foo");
    queue.shut_down();
    assert!(queue.get().await.is_none(), "the queue is empty now");
    drop(item);
    assert_eq!(queue.get().await.unwrap().key, "foo");
    assert!(queue.get().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_panicking_worker_releases_its_key() {
    let queue = queue();
    queue.add("foo");
    let of_worker = queue.clone();
    let worker = tokio::spawn(async move {
        let _item = of_worker.get().await;
        panic!("as planned");
    });
    assert!(worker.await.is_err());
    queue.add("foo");
    assert_eq!(next(&queue).await, "foo");
}

#[tokio::test(start_paused = true)]
async fn shutdown_wakes_every_waiting_worker() {
    let queue = queue();
    let workers: Vec<_> = (0..3)
        .map(|_| {
            tokio::spawn({
                let queue = queue.clone();
                async move { queue.get().await.is_none() }
            })
        })
        .collect();
    tokio::task::yield_now().await;
    queue.shut_down();
    for worker in workers {
        assert!(worker.await.unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn the_earliest_of_several_delays_counts() {
    // (why, delays in ms, expected delay in ms)
    let cases: [(&str, &[u64], u64); 4] = [
        ("one", &[50], 50),
        ("a later one is ignored", &[50, 70], 50),
        ("an earlier one replaces a later one", &[50, 30], 30),
        ("seconds", &[5_000, 16_000], 5_000),
    ];
    for (why, delays, expected) in cases {
        let queue = queue();
        let started = Instant::now();
        for delay in delays {
            queue.add_after("foo", Duration::from_millis(*delay));
        }
        assert_eq!(queue.len(), 0, "{why}: not yet");
        assert_eq!(next(&queue).await, "foo", "{why}");
        assert_eq!(started.elapsed(), Duration::from_millis(expected), "{why}");
        sleep(Duration::from_secs(60)).await;
        assert_eq!(queue.len(), 0, "{why}: only once");
    }
}

#[tokio::test(start_paused = true)]
async fn an_immediate_add_does_not_cancel_a_delayed_one() {
    let queue = queue();
    let started = Instant::now();
    queue.add_after("foo", 5 * MS);
    queue.add("foo");
    assert_eq!(next(&queue).await, "foo");
    assert_eq!(started.elapsed(), Duration::ZERO);
    assert_eq!(next(&queue).await, "foo");
    assert_eq!(started.elapsed(), 5 * MS);
}

#[tokio::test(start_paused = true)]
async fn delayed_keys_are_added_in_the_order_of_their_deadlines() {
    let queue = queue();
    for (key, delay) in [("foo", 1000), ("bar", 500), ("baz", 250), ("tie", 500)] {
        queue.add_after(key, delay * MS);
    }
    advance(2000 * MS).await;
    for expected in ["baz", "bar", "tie", "foo"] {
        assert_eq!(next(&queue).await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn the_timer_follows_an_earlier_deadline_and_restarts_when_needed() {
    let queue = queue();
    let started = Instant::now();
    queue.add_after("foo", 1000 * MS);
    tokio::task::yield_now().await;
    queue.add_after("bar", 50 * MS);
    assert_eq!((next(&queue).await, started.elapsed()), ("bar", 50 * MS));
    queue.add_after("baz", 2000 * MS);
    assert_eq!((next(&queue).await, started.elapsed()), ("foo", 1000 * MS));
    assert_eq!((next(&queue).await, started.elapsed()), ("baz", 2050 * MS));
    sleep(10_000 * MS).await;
    queue.add_after("foo", 7 * MS);
    assert_eq!(
        (next(&queue).await, started.elapsed()),
        ("foo", 12_057 * MS)
    );
}

#[tokio::test(start_paused = true)]
async fn a_zero_delay_adds_at_once_and_the_longest_delay_does_not_panic() {
    let queue = queue();
    queue.add_after("never", Duration::MAX);
    queue.add_after("foo", Duration::ZERO);
    assert_eq!(queue.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn shutdown_drops_delayed_keys_and_ends_the_timer() {
    let queue = queue();
    queue.add_after("foo", 50 * MS);
    queue.shut_down();
    queue.add_after("bar", 50 * MS);
    assert!(queue.get().await.is_none());
    sleep(100 * MS).await;
    assert_eq!(queue.len(), 0);
    assert_eq!(Handle::current().metrics().num_alive_tasks(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_timer_ends_without_delayed_keys_and_with_the_last_clone() {
    let first = queue();
    first.add_after("foo", 50 * MS);
    assert_eq!(next(&first).await, "foo");
    tokio::task::yield_now().await;
    assert_eq!(
        Handle::current().metrics().num_alive_tasks(),
        0,
        "an idle queue has no task"
    );
    first.add_after("foo", 1_000_000 * MS);
    let second = first.clone();
    drop(first);
    tokio::task::yield_now().await;
    assert_eq!(Handle::current().metrics().num_alive_tasks(), 1);
    drop(second);
    tokio::task::yield_now().await;
    assert_eq!(Handle::current().metrics().num_alive_tasks(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_back_off_of_a_key_doubles_until_it_is_forgotten() {
    let queue = queue();
    for (failures, delay) in [(0, 5), (1, 10), (2, 20), (3, 40)] {
        assert_eq!(queue.failures(&"foo"), failures);
        let added = Instant::now();
        queue.add_rate_limited("foo");
        assert_eq!(next(&queue).await, "foo");
        assert_eq!(added.elapsed(), delay * MS);
    }
    queue.forget(&"foo");
    assert_eq!(queue.failures(&"foo"), 0);
    let added = Instant::now();
    queue.add_rate_limited("foo");
    assert_eq!(next(&queue).await, "foo");
    assert_eq!(added.elapsed(), 5 * MS);
}

#[tokio::test(start_paused = true)]
async fn rate_limited_adds_beyond_the_burst_are_100_ms_apart() {
    let queue = WorkQueue::new("test", &QueueMetrics::register(&Registry::new()).unwrap());
    let started = Instant::now();
    for key in 0..103 {
        queue.add_rate_limited(key);
    }
    let mut times = Vec::new();
    for _ in 0..103 {
        let item = queue.get().await.unwrap();
        times.push((item.key, started.elapsed().as_millis()));
    }
    assert!(times[..100].iter().all(|(_, at)| *at == 5));
    assert_eq!(times[100..], [(100, 100), (101, 200), (102, 300)]);
}

#[tokio::test(start_paused = true)]
async fn metrics_exist_from_the_start_and_follow_a_key() {
    let registry = Registry::new();
    let queue = WorkQueue::new("test", &QueueMetrics::register(&registry).unwrap());
    let all = |expected: [f64; 7], why: &str| {
        let families = [
            "workqueue_depth",
            "workqueue_adds_total",
            "workqueue_retries_total",
            "workqueue_queue_duration_seconds",
            "workqueue_work_duration_seconds",
            "workqueue_unfinished_work_seconds",
            "workqueue_longest_running_processor_seconds",
        ];
        assert_eq!(
            families.map(|family| sample(&registry, family)),
            expected,
            "{why}"
        );
    };
    all([0.0; 7], "a new queue");
    queue.add("foo");
    queue.add("foo");
    queue.add("bar");
    all([2.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0], "two keys queued");
    let foo = queue.get().await.unwrap();
    sleep(2000 * MS).await;
    let bar = queue.get().await.unwrap();
    sleep(1000 * MS).await;
    all([0.0, 2.0, 0.0, 2.0, 0.0, 4.0, 3.0], "two keys in process");
    queue.add("foo");
    all(
        [1.0, 3.0, 0.0, 2.0, 0.0, 4.0, 3.0],
        "one of them dirty again",
    );
    drop(foo);
    all([1.0, 3.0, 0.0, 2.0, 1.0, 1.0, 1.0], "queued again");
    queue.add_after("baz", 50 * MS);
    queue.add_after("baz", 70 * MS);
    queue.add_rate_limited("qux");
    queue.add_after("foo", Duration::ZERO);
    all(
        [1.0, 3.0, 4.0, 2.0, 1.0, 1.0, 1.0],
        "retries include delayed adds",
    );
    drop(bar);
    queue.shut_down();
    queue.add("late");
    queue.add_after("late", MS);
    all(
        [1.0, 3.0, 4.0, 2.0, 2.0, 0.0, 0.0],
        "adds after shutdown are refused",
    );
}

#[tokio::test(start_paused = true)]
async fn memory_is_released_after_a_burst() {
    let queue = WorkQueue::new("test", &QueueMetrics::register(&Registry::new()).unwrap());
    for key in 0..10_000 {
        queue.add(key);
        queue.add_after(key, MS);
    }
    while !queue.is_empty() {
        queue.get().await;
        tokio::task::yield_now().await;
    }
    sleep(10 * MS).await;
    while !queue.is_empty() {
        queue.get().await;
    }
    let state = queue.shared.lock();
    let capacities = [state.queue.capacity(), state.marks.capacity()];
    assert!(
        capacities
            .iter()
            .all(|capacity| *capacity <= 4 * steersman_values::capacity::KEPT),
        "{capacities:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_queue_is_stalled_only_with_work_and_without_progress() {
    let metrics = QueueMetrics::register(&Registry::new()).unwrap();
    let queue = WorkQueue::new("test", &metrics);
    queue.assign("controller");
    let stalled_time = || metrics.stalled().unwrap().1;
    advance(1000 * MS).await;
    assert_eq!(stalled_time(), Duration::ZERO, "no key is no work");
    queue.add_after("later", 5000 * MS);
    advance(1000 * MS).await;
    assert_eq!(
        stalled_time(),
        Duration::ZERO,
        "a delayed key is no work yet"
    );
    queue.add("a");
    advance(1000 * MS).await;
    assert_eq!(metrics.stalled(), Some(("controller", 1000 * MS)));
    let item = queue.get().await;
    assert_eq!(stalled_time(), Duration::ZERO, "taking a key is progress");
    advance(2000 * MS).await;
    assert_eq!(stalled_time(), 2000 * MS, "the sync still runs");
    drop(item);
    assert_eq!(stalled_time(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_dirty_key_is_queued_at_the_end_of_its_processing() {
    let queue = queue();
    queue.add("a");
    for added in ["during the processing", "after it"] {
        let item = queue.get().await.unwrap();
        sleep(5_000 * MS).await;
        if added == "during the processing" {
            queue.add("a");
        }
        drop(item);
        let done = Instant::now();
        queue.add("a");
        assert_eq!(queue.len(), 1, "{added}");
        assert_eq!(done.elapsed(), Duration::ZERO, "{added}");
    }
}
