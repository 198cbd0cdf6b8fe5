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

fn resource_of(ready: Result<(), NotReady>) -> Option<String> {
    ready.err().map(|late| late.resource)
}

#[tokio::test]
async fn owners_return_once_when_the_cache_is_as_new_as_the_term() {
    let cache = Arc::new(Cache::of(&resource::PODS));
    let to_pods = ConsistencyStore::new(5).track(Arc::clone(&cache) as Arc<_>);
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
    let store = ConsistencyStore::new(1);
    let web = owner();
    let to_pods = store.track(Arc::clone(&cache) as Arc<_>);
    to_pods.wrote_at(&web, 8);
    let weak = Arc::downgrade(&cache);
    drop(cache);
    assert!(weak.upgrade().is_none());
    assert_eq!(
        store.ensure_ready(&web),
        Ok(()),
        "no sync waits for a cache that is gone"
    );
    assert!(!to_pods.predates_term());
}

#[test]
fn owner_is_behind_until_every_cache_has_its_highest_write() {
    let pods = Arc::new(Cache::of(&resource::PODS));
    let sets = Arc::new(Cache::of(&resource::REPLICA_SETS));
    let store = ConsistencyStore::new(0);
    let web = owner();
    let to_pods = store.track(Arc::clone(&pods) as Arc<_>);
    let to_sets = store.track(Arc::clone(&sets) as Arc<_>);
    assert_eq!(store.ensure_ready(&web), Ok(()), "nothing written");
    to_pods.wrote_at(&web, 12);
    to_pods.wrote_at(&web, 9);
    to_sets.wrote_at(&web, 20);
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
        let found = resource_of(store.ensure_ready(&web));
        assert_eq!(found.as_deref(), expected, "{why}");
    }
    to_pods.wrote_at(&web, 30);
    store.clear(&web);
    assert_eq!(store.ensure_ready(&web), Ok(()), "forgotten");
    to_pods.wrote_at(&web, 30);
    sets.rewind();
    assert_eq!(
        store.ensure_ready(&web),
        Ok(()),
        "a rewind drops the record"
    );
}

#[test]
fn owner_waits_for_the_version_of_a_deletion_that_the_answer_tells() {
    let sets = Arc::new(Cache::of(&resource::REPLICA_SETS));
    let web = owner();
    let status = |metadata: &str| format!(r#"{{"kind": "Status", "metadata": {metadata}}}"#);
    // (answer, whether the owner waits)
    let cases = [
        (status(r#"{"resourceVersion": "7"}"#), true),
        (status("{}"), false),
        (
            status(r#"{"name": "web-1", "resourceVersion": "7"}"#),
            false,
        ),
        ("{".to_owned(), false),
    ];
    for (answer, waits) in cases {
        let store = ConsistencyStore::new(0);
        let to_sets = store.track(Arc::clone(&sets) as Arc<_>);
        assert_eq!(to_sets.deleted(&web, answer.as_bytes()), waits, "{answer}");
        let late = resource_of(store.ensure_ready(&web));
        assert_eq!(late.is_some(), waits, "{answer}");
    }
}

#[test]
fn owner_waits_for_the_cache_that_is_behind_but_not_after_a_rewind() {
    let cache = Arc::new(Cache::of(&resource::PODS));
    let store = ConsistencyStore::new(0);
    let web = owner();
    store.track(Arc::clone(&cache) as Arc<_>).wrote_at(&web, 8);
    let late = store.ready_or_call(&web, || ());
    assert_eq!(resource_of(late).as_deref(), Some("pods"));
    assert_eq!(cache.waiting.lock()[0].0, 8);

    let rewinding = Arc::new(Cache {
        rewinds_on_wait: true,
        ..Cache::of(&resource::PODS)
    });
    store.clear(&web);
    store
        .track(Arc::clone(&rewinding) as Arc<_>)
        .wrote_at(&web, 8);
    assert_eq!(store.ready_or_call(&web, || ()), Ok(()));
    let without_record = store.ready_or_call(&web, || panic!("there is no record to wait for"));
    assert_eq!(without_record, Ok(()));
}

#[test]
fn a_rewind_drops_all_records_and_leaves_owners_with_expectations_in_doubt() {
    let pods = Arc::new(Cache::of(&resource::PODS));
    let sets = Arc::new(Cache::of(&resource::REPLICA_SETS));
    let store = ConsistencyStore::new(0);
    let to_pods = store.track(Arc::clone(&pods) as Arc<_>);
    let _to_sets = store.track(Arc::clone(&sets) as Arc<_>);
    let [written, expecting] = ["written", "expecting"].map(|name| ObjectKey::new("default", name));
    for owner in [&written, &expecting] {
        to_pods.wrote_at(owner, 8);
    }
    store.expect_creations(&expecting, 1);
    sets.rewind();
    for owner in [&written, &expecting] {
        assert_eq!(store.ensure_ready(owner), Ok(()), "{owner}");
    }
    assert!(store.satisfied(&expecting));
    assert!(store.is_in_doubt(&expecting));
    assert!(!store.is_in_doubt(&written));
    store.confirmed(&expecting);
    assert!(!store.is_in_doubt(&expecting));
    assert!(store.records.lock().is_empty());
}

#[test]
fn parts_of_a_record_end_one_by_one() {
    let pods = Arc::new(Cache::of(&resource::PODS));
    let store = ConsistencyStore::new(0);
    let web = owner();
    let to_pods = store.track(Arc::clone(&pods) as Arc<_>);
    store.expect_creations(&web, 1);
    to_pods.wrote_at(&web, 8);
    store.doubt(&web);
    store.creation_observed(&web);
    assert!(store.ensure_ready(&web).is_err() && store.is_in_doubt(&web));
    store.confirmed(&web);
    assert!(
        store.has_written(&web),
        "a live list says nothing of versions"
    );
    pods.version.store(8, SeqCst);
    assert_eq!(store.ensure_ready(&web), Ok(()));
    assert!(!store.has_written(&web));
    assert!(store.records.lock().is_empty());
}

#[test]
fn a_doubt_about_a_deletion_ends_with_a_live_list_or_with_the_version_of_the_last_one() {
    let pods = Arc::new(Cache::of(&resource::PODS));
    let store = ConsistencyStore::new(0);
    let web = owner();
    let to_pods = store.track(Arc::clone(&pods) as Arc<_>);
    let in_doubt_at = |version| {
        pods.version.store(version, SeqCst);
        store.is_in_doubt(&web)
    };
    to_pods.doubt_until(&web, 8);
    assert_eq!([7, 8].map(in_doubt_at), [true, false]);
    assert!(store.records.lock().is_empty());

    to_pods.doubt_until(&web, 20);
    store.confirmed(&web);
    assert!(!in_doubt_at(9));
    assert!(store.records.lock().is_empty());

    to_pods.doubt_until(&web, 20);
    store.doubt(&web);
    assert!(in_doubt_at(20), "the list is older than the later write");

    to_pods.doubt_until(&web, 30);
    pods.rewind();
    assert!(in_doubt_at(30), "the version is of another history");
}

#[test]
fn seen_writes_are_forgotten_and_unseen_ones_kept() {
    let cache = Arc::new(Cache::of(&resource::PODS));
    let store = ConsistencyStore::<&'static str>::new(0);
    let to_pods = store.track(Arc::clone(&cache) as Arc<_>);
    to_pods.wrote_at(&"seen", 4);
    to_pods.wrote_at(&"unseen", 6);
    cache.version.store(5, SeqCst);
    store.clear_seen();
    cache.version.store(0, SeqCst);
    let behind = ["seen", "unseen"].map(|key| store.ensure_ready(&key).is_err());
    assert_eq!(behind, [false, true]);
}

#[test]
fn cache_older_than_the_term_may_lack_writes_of_the_previous_leader() {
    let cache = Arc::new(Cache::of(&resource::PODS));
    let to_pods = ConsistencyStore::<ObjectKey>::new(10).track(Arc::clone(&cache) as Arc<_>);
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
            let store = ConsistencyStore::new(0);
            let web = owner();
            let to_pods = store.track(Arc::clone(&cache) as Arc<_>);
            to_pods.wrote_at(&web, 5);
            let informer = {
                let cache = Arc::clone(&cache);
                thread::spawn(move || {
                    (1..=5).for_each(|version| cache.version.store(version, SeqCst))
                })
            };
            if store.ensure_ready(&web).is_ok() {
                assert_eq!(cache.resource_version(), 5);
            }
            to_pods.wrote_at(&web, 6);
            informer.join().unwrap();
            let behind = resource_of(store.ensure_ready(&web));
            assert_eq!(behind.as_deref(), Some("pods"), "the later write is kept");
        });
    }
}
