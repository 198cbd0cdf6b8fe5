//! Runs the informer's task, its handlers, its waiters, and calls of start and stop in many orders
//! under Shuttle, see `steersman_values::sync`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use prometheus::Registry;
use shuttle::sync::Mutex;
use shuttle::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use shuttle::{future, thread};

use steersman_client::{ApiError, Query};
use steersman_objects::{Node, Object, ObjectKey};
use steersman_values::resource;
use steersman_values::sync::in_many_orders;

use super::{event, node, synced};
use crate::consistency::ConsistencyStore;
use crate::informer::metrics::InformerMetrics;
use crate::informer::source::{Frames, ListWatch};
use crate::informer::store::Objects;
use crate::informer::{Change, InformerFactory, SharedInformer};
use crate::tasks::{CancellationToken, Tasks};

fn informer() -> SharedInformer<Node> {
    SharedInformer::new(
        InformerMetrics::register(&Registry::new())
            .unwrap()
            .of(Node::RESOURCE, ""),
    )
}

fn decoded(name: &str, version: u64) -> Arc<Node> {
    Arc::new(Node::decode(node(name, version).to_string().as_bytes()).unwrap())
}

/// Feeds a list with a@1, then the addition of b@2, the update a@3, and the deletion of b at 4.
fn feed(informer: &SharedInformer<Node>) {
    let mut listed = Objects::default();
    listed.insert(decoded("a", 1));
    informer.shared.replace(listed, 1);
    informer.shared.set(decoded("b", 2));
    informer.shared.set(decoded("a", 3));
    informer.shared.remove(&decoded("b", 4));
}

/// The objects that a handler knows from its changes, and the changes that contradict them. A
/// handler cannot assert, because the informer catches its panics.
#[derive(Default)]
struct Receiver {
    known: BTreeSet<String>,
    wrong: Vec<String>,
}

impl Receiver {
    fn receive(&mut self, change: Change<'_, Node>) {
        let (fits, name) = match change {
            Change::Added { object, .. } => (
                self.known.insert(object.meta.name.to_string()),
                &object.meta.name,
            ),
            Change::Updated { new, .. } => (self.known.contains(&*new.meta.name), &new.meta.name),
            Change::Deleted { object, .. } => {
                (self.known.remove(&*object.meta.name), &object.meta.name)
            }
        };
        if !fits {
            self.wrong.push(name.to_string());
        }
    }
}

#[test]
fn a_late_handler_receives_each_change_exactly_once() {
    in_many_orders(|| {
        let informer = informer();
        let receiver = Arc::new(Mutex::new(Receiver::default()));
        let late = {
            let informer = informer.clone();
            let receiver = Arc::clone(&receiver);
            thread::spawn(move || {
                informer.add_handler(move |change| receiver.lock().unwrap().receive(change))
            })
        };
        feed(&informer);
        late.join().unwrap();
        let receiver = receiver.lock().unwrap();
        assert_eq!(receiver.known, BTreeSet::from(["a".to_owned()]));
        assert!(receiver.wrong.is_empty(), "{:?}", receiver.wrong);
    });
}

#[test]
fn a_waiter_is_called_once_after_store_and_handlers_reached_its_version() {
    in_many_orders(|| {
        let informer = informer();
        let handled = Arc::new(Mutex::new(0));
        let writer = Arc::clone(&handled);
        informer.add_handler(move |change| {
            if let Change::Added { object, .. } | Change::Updated { new: object, .. } = change {
                *writer.lock().unwrap() = object.meta.resource_version;
            }
        });
        let called = Arc::new(Mutex::new(Vec::new()));
        let waiting = {
            let informer = informer.clone();
            let called = Arc::clone(&called);
            thread::spawn(move || {
                let store = informer.store();
                let then = move || {
                    called
                        .lock()
                        .unwrap()
                        .push((store.resource_version(), *handled.lock().unwrap()))
                };
                informer.when_seen(2, then);
            })
        };
        feed(&informer);
        waiting.join().unwrap();
        let called = called.lock().unwrap();
        let [(version, handled)] = called[..] else {
            panic!("called {} times", called.len())
        };
        assert!(
            version >= 2 && handled >= 2,
            "called at store version {version} and handler version {handled}"
        );
    });
}

#[test]
fn readers_see_a_complete_state_while_the_store_is_replaced() {
    in_many_orders(|| {
        let informer = informer();
        feed(&informer);
        let reader = {
            let store = informer.store();
            thread::spawn(move || {
                let names = store.list();
                let version = store.resource_version();
                assert!(
                    names.len() == 1 || version == 9,
                    "{} objects at {version}",
                    names.len()
                );
                assert!(
                    store.get(&ObjectKey::new("", "a")).is_some(),
                    "a is in both states"
                );
            })
        };
        let mut listed = Objects::default();
        listed.insert(decoded("a", 3));
        listed.insert(decoded("c", 8));
        informer.shared.replace(listed, 9);
        reader.join().unwrap();
    });
}

/// Feeds a list with a@5 and b@6, and the addition of c@10. Then the server is restored from a
/// backup with only a@1. After that, d is added at 2 and deleted at 3.
fn feed_and_rewind(informer: &SharedInformer<Node>) {
    let listed = |names: &[(&str, u64)]| {
        let mut objects = Objects::default();
        names
            .iter()
            .for_each(|(name, version)| drop(objects.insert(decoded(name, *version))));
        objects
    };
    informer.shared.replace(listed(&[("a", 5), ("b", 6)]), 9);
    informer.shared.set(decoded("c", 10));
    informer.shared.replace(listed(&[("a", 1)]), 1);
    informer.shared.set(decoded("d", 2));
    informer.shared.remove(&decoded("d", 3));
}

#[test]
fn all_handlers_agree_after_a_rewind() {
    in_many_orders(|| {
        let informer = informer();
        let rewinds = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&rewinds);
        informer.on_rewind(move || {
            count.fetch_add(1, SeqCst);
        });
        let handlers = [(), ()].map(|()| {
            let informer = informer.clone();
            let rewinds = Arc::clone(&rewinds);
            let receiver = Arc::new(Mutex::new(Receiver::default()));
            let receiving = Arc::clone(&receiver);
            let adding = thread::spawn(move || {
                informer.add_handler(move |change| {
                    let mut receiver = receiving.lock().unwrap();
                    if let Change::Added { object, .. } | Change::Updated { new: object, .. } =
                        change
                        && object.meta.resource_version < 5
                        && rewinds.load(SeqCst) == 0
                    {
                        receiver
                            .wrong
                            .push(format!("{change:?} before the call of on_rewind"));
                    }
                    receiver.receive(change);
                });
            });
            (receiver, adding)
        });
        feed_and_rewind(&informer);
        for (receiver, adding) in handlers {
            adding.join().unwrap();
            let receiver = receiver.lock().unwrap();
            assert_eq!(receiver.known, BTreeSet::from(["a".to_owned()]));
            assert!(receiver.wrong.is_empty(), "{:?}", receiver.wrong);
        }
        assert_eq!(rewinds.load(SeqCst), 1);
    });
}

#[test]
fn a_sync_that_waits_for_the_cache_resumes_after_a_rewind() {
    in_many_orders(|| {
        let informer = informer();
        let store = ConsistencyStore::new(0);
        let owner = ObjectKey::new("default", "rs");
        // A write from before the restore, which the restore reverted.
        store.track(informer.versioned()).wrote_at(&owner, 11);
        let resumed = Arc::new(AtomicBool::new(false));
        let worker = {
            let store = store.clone();
            let resumed = Arc::clone(&resumed);
            thread::spawn(move || {
                let called = Arc::clone(&resumed);
                let waits = store.ready_or_call(&owner, move || called.store(true, SeqCst));
                if waits.is_ok() {
                    resumed.store(true, SeqCst);
                }
            })
        };
        feed_and_rewind(&informer);
        worker.join().unwrap();
        assert!(resumed.load(SeqCst), "the sync does not resume");
    });
}

/// A server with one node. It counts its watches.
#[derive(Default)]
struct CountingServer {
    /// Open watches.
    open: Arc<AtomicUsize>,
    /// All watches so far.
    total: AtomicUsize,
}

impl ListWatch for CountingServer {
    fn list<'a>(&'a self, _: &'a Query) -> BoxFuture<'a, Result<Bytes, ApiError>> {
        panic!("the informer uses streaming lists")
    }

    fn watch<'a>(&'a self, _: &'a Query) -> BoxFuture<'a, Result<Frames, ApiError>> {
        assert_eq!(self.open.fetch_add(1, SeqCst), 0, "two open watches");
        self.total.fetch_add(1, SeqCst);
        let watching = Watching(Arc::clone(&self.open));
        let initial = [event("ADDED", &node("a", 1)), synced(1)].map(|line| Ok(Bytes::from(line)));
        let frames = stream::iter(initial).chain(stream::once(async move {
            let _watching = watching;
            std::future::pending().await
        }));
        async { Ok(frames.boxed()) }.boxed()
    }
}

struct Watching(Arc<AtomicUsize>);

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

#[test]
fn a_metadata_informer_has_one_watch_at_most_and_one_after_the_last_start() {
    in_many_orders(|| {
        let server = Arc::new(CountingServer::default());
        let source = Arc::clone(&server);
        let factory = InformerFactory::over(
            move |_, _| Arc::clone(&source) as Arc<dyn ListWatch>,
            Duration::ZERO,
            &Registry::new(),
        )
        .unwrap();
        let tasks = Arc::new(Tasks::default());
        let stop = CancellationToken::new();
        let informers = [(), ()].map(|()| {
            let factory = factory.clone();
            let tasks = Arc::clone(&tasks);
            let stop = stop.clone();
            thread::spawn(move || {
                let informer = factory.metadata(&resource::NODES);
                informer.start(&tasks, &stop);
                informer.stop();
                informer.start(&tasks, &stop);
            })
        });
        informers
            .into_iter()
            .for_each(|informer| informer.join().unwrap());
        let informer = factory.metadata(&resource::NODES);
        informer.start(&tasks, &stop);
        // If the last start had no effect, this waits forever, and Shuttle reports a deadlock.
        future::block_on(informer.synced());
        assert_eq!(server.open.load(SeqCst), 1);
        informer.stop();
        future::block_on(tasks.join(Duration::from_secs(60)));
        assert!(!informer.is_synced(), "a stopped informer is not synced");
        assert_eq!(server.open.load(SeqCst), 0);
        assert!((1..=4).contains(&server.total.load(SeqCst)));
    });
}
