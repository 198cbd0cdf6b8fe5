use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use steersman_values::resource;
use steersman_values::resource::ResourceType;

use super::*;
use crate::workqueue::QueueMetrics;

type Callbacks<T> = Mutex<Vec<T>>;

/// A fake cache of `resource`. Tests set its version.
struct Cache {
    resource: &'static ResourceType,
    version: AtomicU64,
    waiting: Callbacks<(u64, Box<dyn FnOnce() + Send>)>,
    rewound: Callbacks<Box<dyn Fn() + Send + Sync>>,
    /// Simulates a rewind at the moment when a sync begins to wait.
    rewinds_on_wait: bool,
}

impl Cache {
    fn of(resource: &'static ResourceType) -> Self {
        Self {
            resource,
            version: AtomicU64::new(0),
            waiting: Mutex::default(),
            rewound: Mutex::default(),
            rewinds_on_wait: false,
        }
    }

    fn rewind(&self) {
        let rewound = self.rewound.lock();
        rewound.iter().for_each(|forget| forget());
    }
}

impl VersionedCache for Cache {
    fn resource(&self) -> &ResourceType {
        self.resource
    }

    fn resource_version(&self) -> u64 {
        self.version.load(SeqCst)
    }

    fn when_seen(&self, version: u64, then: Box<dyn FnOnce() + Send>) {
        self.waiting.lock().push((version, then));
        if self.rewinds_on_wait {
            self.rewind();
        }
    }

    fn on_rewind(&self, forget: Box<dyn Fn() + Send + Sync>) {
        self.rewound.lock().push(forget);
    }
}

fn owner() -> ObjectKey {
    ObjectKey::new("default", "web")
}

fn resource_of(behind: Option<Behind>) -> Option<String> {
    behind.map(|behind| behind.resource)
}

#[tokio::test]
async fn owners_return_once_when_the_cache_is_as_new_as_the_term() {
    let cache = Arc::new(Cache::of(&resource::PODS));
    let to_pods = OwnWrites::new(5).to(Arc::clone(&cache) as Arc<_>);
    let metrics = QueueMetrics::register(&prometheus::Registry::new()).unwrap();
    let queue = WorkQueue::new("test", &metrics);
    for owner in [owner(), owner(), ObjectKey::new("default", "db")] {
        assert!(to_pods.revisit_in_term(&owner, &queue));
    }
    assert!(queue.is_empty());
    let mut waiting = std::mem::take(&mut *cache.waiting.lock());
    let (version, enqueue) = waiting.pop().unwrap();
    assert_eq!(
        (version, waiting.len()),
        (5, 0),
        "one callback for all owners"
    );
    cache.version.store(5, SeqCst);
    enqueue();
    assert_eq!(queue.len(), 2);
    assert!(!to_pods.revisit_in_term(&owner(), &queue));
    assert_eq!(queue.len(), 2);
}

#[test]
fn records_do_not_keep_a_cache_alive() {
    let cache = Arc::new(Cache::of(&resource::PODS));
    let writes = OwnWrites::new(1);
    let web = owner();
    let to_pods = writes.to(Arc::clone(&cache) as Arc<_>);
    to_pods.record(&web, 8);
    let weak = Arc::downgrade(&cache);
    drop(cache);
    assert!(weak.upgrade().is_none());
    assert_eq!(
        writes.behind(&web),
        None,
        "no sync waits for a cache that is gone"
    );
    assert!(!to_pods.predates_term());
}

#[test]
fn owner_is_behind_until_every_cache_has_its_highest_write() {
    let pods = Arc::new(Cache::of(&resource::PODS));
    let sets = Arc::new(Cache::of(&resource::REPLICA_SETS));
    let writes = OwnWrites::new(0);
    let web = owner();
    let to_pods = writes.to(Arc::clone(&pods) as Arc<_>);
    let to_sets = writes.to(Arc::clone(&sets) as Arc<_>);
    assert_eq!(writes.behind(&web), None, "nothing written");
    to_pods.record(&web, 12);
    to_pods.record(&web, 9);
    to_sets.record(&web, 20);
    // (why, version of pods, version of ReplicaSets, expected)
    let cases = [
        ("both caches behind", 11, 19, Some("pods")),
        ("ReplicaSets behind", 12, 19, Some("replicasets")),
        ("pods behind", 11, 20, Some("pods")),
        ("both caught up", 12, 20, None),
        ("the record was dropped", 0, 0, None),
    ];
    for (why, at_pods, at_sets, expected) in cases {
        pods.version.store(at_pods, SeqCst);
        sets.version.store(at_sets, SeqCst);
        let found = resource_of(writes.behind(&web));
        assert_eq!(found.as_deref(), expected, "{why}");
    }
    to_pods.record(&web, 30);
    writes.forget(&web);
    assert_eq!(writes.behind(&web), None, "forgotten");
    to_pods.record(&web, 30);
    sets.rewind();
    assert_eq!(writes.behind(&web), None, "a rewind drops the record");
}

#[test]
fn owner_waits_for_the_cache_that_is_behind_but_not_after_a_rewind() {
    let cache = Arc::new(Cache::of(&resource::PODS));
    let writes = OwnWrites::new(0);
    let web = owner();
    writes.to(Arc::clone(&cache) as Arc<_>).record(&web, 8);
    let late = writes.wait_for_cache(&web, || ());
    assert_eq!(resource_of(late).as_deref(), Some("pods"));
    assert_eq!(cache.waiting.lock()[0].0, 8);

    let rewinding = Arc::new(Cache {
        rewinds_on_wait: true,
        ..Cache::of(&resource::PODS)
    });
    writes.forget(&web);
    writes.to(Arc::clone(&rewinding) as Arc<_>).record(&web, 8);
    assert_eq!(writes.wait_for_cache(&web, || ()), None);
    let without_record = writes.wait_for_cache(&web, || panic!("there is no record to wait for"));
    assert_eq!(without_record, None);
}

#[test]
fn seen_writes_are_forgotten_and_unseen_ones_kept() {
    let cache = Arc::new(Cache::of(&resource::PODS));
    let writes = OwnWrites::<&str>::new(0);
    let to_pods = writes.to(Arc::clone(&cache) as Arc<_>);
    to_pods.record(&"seen", 4);
    to_pods.record(&"unseen", 6);
    cache.version.store(5, SeqCst);
    writes.forget_seen();
    cache.version.store(0, SeqCst);
    let behind = ["seen", "unseen"].map(|key| writes.behind(&key).is_some());
    assert_eq!(behind, [false, true]);
}

#[test]
fn cache_older_than_the_term_may_lack_writes_of_the_previous_leader() {
    let cache = Arc::new(Cache::of(&resource::PODS));
    let to_pods = OwnWrites::<ObjectKey>::new(10).to(Arc::clone(&cache) as Arc<_>);
    for (version, expected) in [(9, true), (10, false), (11, false)] {
        cache.version.store(version, SeqCst);
        assert_eq!(to_pods.predates_term(), expected, "{version}");
    }
}

#[cfg(feature = "shuttle")]
mod interleavings {
    use shuttle::thread;

    use steersman_values::sync::in_many_orders;

    use super::*;

    #[test]
    fn own_writes_are_behind_until_the_cache_has_them_on_any_thread() {
        in_many_orders(|| {
            let cache = Arc::new(Cache::of(&resource::PODS));
            let writes = OwnWrites::new(0);
            let web = owner();
            let to_pods = writes.to(Arc::clone(&cache) as Arc<_>);
            to_pods.record(&web, 5);
            let informer = {
                let cache = Arc::clone(&cache);
                thread::spawn(move || {
                    (1..=5).for_each(|version| cache.version.store(version, SeqCst))
                })
            };
            if writes.behind(&web).is_none() {
                assert_eq!(cache.resource_version(), 5);
            }
            to_pods.record(&web, 6);
            informer.join().unwrap();
            let behind = resource_of(writes.behind(&web));
            assert_eq!(behind.as_deref(), Some("pods"), "the later write is kept");
        });
    }
}
