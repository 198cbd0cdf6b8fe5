//! The informer's task, its handlers, and who waits or starts and stops it, in many orders.

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

use super::{event, node, synced};
use crate::client::ApiError;
use crate::informer::metrics::InformerMetrics;
use crate::informer::source::{Frames, ListWatch};
use crate::informer::store::Objects;
use crate::informer::{Change, InformerFactory, SharedInformer};
use crate::object::{Node, Object, ObjectKey};
use crate::own_writes::OwnWrites;
use crate::resource;
use crate::sync::in_many_orders;
use crate::tasks::{CancellationToken, Tasks};

fn informer() -> SharedInformer<Node> {
    SharedInformer::new(
        InformerMetrics::register(&Registry::new())
            .unwrap()
            .of(Node::RESOURCE),
    )
}

fn decoded(name: &str, version: u64) -> Arc<Node> {
    Arc::new(Node::decode(node(name, version).to_string().as_bytes()).unwrap())
}

/// a@1 is listed; b@2 comes, a@3 changes, b goes at 4.
fn feed(informer: &SharedInformer<Node>) {
    let mut listed = Objects::default();
    listed.insert(decoded("a", 1));
    informer.shared.replace(listed, 1);
    informer.shared.set(decoded("b", 2));
    informer.shared.set(decoded("a", 3));
    informer.shared.remove(&decoded("b", 4));
}

/// What a handler believes to be there, and what it was told that cannot be: its panics would be
/// caught.
#[derive(Default)]
struct Belief {
    there: BTreeSet<String>,
    wrong: Vec<String>,
}

impl Belief {
    fn hear(&mut self, change: Change<'_, Node>) {
        let (fits, name) = match change {
            Change::Added { object, .. } => (
                self.there.insert(object.meta.name.to_string()),
                &object.meta.name,
            ),
            Change::Updated { new, .. } => (self.there.contains(&*new.meta.name), &new.meta.name),
            Change::Deleted { object, .. } => {
                (self.there.remove(&*object.meta.name), &object.meta.name)
            }
        };
        if !fits {
            self.wrong.push(name.to_string());
        }
    }
}

#[test]
fn a_handler_hears_everything_once_whenever_it_comes() {
    in_many_orders(|| {
        let informer = informer();
        let belief = Arc::new(Mutex::new(Belief::default()));
        let late = {
            let (informer, belief) = (informer.clone(), Arc::clone(&belief));
            thread::spawn(move || {
                informer.add_handler(move |change| belief.lock().unwrap().hear(change))
            })
        };
        feed(&informer);
        late.join().unwrap();
        let belief = belief.lock().unwrap();
        assert_eq!(belief.there, BTreeSet::from(["a".to_owned()]));
        assert!(belief.wrong.is_empty(), "{:?}", belief.wrong);
    });
}

#[test]
fn whoever_waits_for_a_version_is_called_once_and_sees_it() {
    in_many_orders(|| {
        let informer = informer();
        let heard = Arc::new(Mutex::new(0));
        let writer = Arc::clone(&heard);
        informer.add_handler(move |change| {
            if let Change::Added { object, .. } | Change::Updated { new: object, .. } = change {
                *writer.lock().unwrap() = object.meta.resource_version;
            }
        });
        let called = Arc::new(Mutex::new(Vec::new()));
        let waiting = {
            let (informer, called) = (informer.clone(), Arc::clone(&called));
            thread::spawn(move || {
                let store = informer.store();
                let then = move || {
                    called
                        .lock()
                        .unwrap()
                        .push((store.resource_version(), *heard.lock().unwrap()))
                };
                informer.when_seen(2, then);
            })
        };
        feed(&informer);
        waiting.join().unwrap();
        let called = called.lock().unwrap();
        let [(version, heard)] = called[..] else {
            panic!("called {} times", called.len())
        };
        assert!(
            version >= 2 && heard >= 2,
            "called at {version}, when the handler had heard of {heard}"
        );
    });
}

#[test]
fn readers_see_every_object_whole_while_the_cache_is_replaced() {
    in_many_orders(|| {
        let informer = informer();
        feed(&informer);
        let reader = {
            let store = informer.store();
            thread::spawn(move || {
                let (names, version) = (store.list(), store.resource_version());
                assert!(
                    names.len() == 1 || version == 9,
                    "{} objects at {version}",
                    names.len()
                );
                assert!(
                    store.get(&ObjectKey::new("", "a")).is_some(),
                    "it is in both states"
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

/// a@5 and b@6 are listed, c@10 comes; then the server is restored from a backup in which there is
/// only a@1; d comes at 2 and goes at 3.
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
fn all_handlers_hear_the_same_though_the_history_goes_back() {
    in_many_orders(|| {
        let informer = informer();
        let rewinds = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&rewinds);
        informer.on_rewind(move || {
            count.fetch_add(1, SeqCst);
        });
        let handlers = [(), ()].map(|()| {
            let (informer, rewinds) = (informer.clone(), Arc::clone(&rewinds));
            let belief = Arc::new(Mutex::new(Belief::default()));
            let hears = Arc::clone(&belief);
            let adding = thread::spawn(move || {
                informer.add_handler(move |change| {
                    let mut belief = hears.lock().unwrap();
                    if let Change::Added { object, .. } | Change::Updated { new: object, .. } =
                        change
                        && object.meta.resource_version < 5
                        && rewinds.load(SeqCst) == 0
                    {
                        belief.wrong.push(format!(
                            "{change:?} before it was told that the history went back"
                        ));
                    }
                    belief.hear(change);
                });
            });
            (belief, adding)
        });
        feed_and_rewind(&informer);
        for (belief, adding) in handlers {
            adding.join().unwrap();
            let belief = belief.lock().unwrap();
            assert_eq!(belief.there, BTreeSet::from(["a".to_owned()]));
            assert!(belief.wrong.is_empty(), "{:?}", belief.wrong);
        }
        assert_eq!(rewinds.load(SeqCst), 1);
    });
}

#[test]
fn owner_that_waits_for_a_version_comes_back_though_the_history_goes_back() {
    in_many_orders(|| {
        let informer = informer();
        let (writes, owner) = (OwnWrites::new(0), ObjectKey::new("default", "rs"));
        // Written before the restore, and gone with it.
        writes.to(informer.versioned()).record(&owner, 11);
        let back = Arc::new(AtomicBool::new(false));
        let worker = {
            let (writes, back) = (writes.clone(), Arc::clone(&back));
            thread::spawn(move || {
                let called = Arc::clone(&back);
                let waits = writes.wait_for_cache(&owner, move || called.store(true, SeqCst));
                if waits.is_none() {
                    back.store(true, SeqCst);
                }
            })
        };
        feed_and_rewind(&informer);
        worker.join().unwrap();
        assert!(back.load(SeqCst), "nothing brings it back");
    });
}

/// A server with one node, which knows how many watch it.
#[derive(Default)]
struct Counting {
    now: Arc<AtomicUsize>,
    rounds: AtomicUsize,
}

impl ListWatch for Counting {
    fn list<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Bytes, ApiError>> {
        panic!("the list is streamed")
    }

    fn watch<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Frames, ApiError>> {
        assert_eq!(self.now.fetch_add(1, SeqCst), 0, "two follow the server");
        self.rounds.fetch_add(1, SeqCst);
        let watching = Watching(Arc::clone(&self.now));
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
fn a_metadata_informer_is_followed_by_one_task_at_most_and_by_one_after_the_last_start() {
    in_many_orders(|| {
        let server = Arc::new(Counting::default());
        let source = Arc::clone(&server);
        let factory = InformerFactory::over(
            move |_, _| Arc::clone(&source) as Arc<dyn ListWatch>,
            Duration::ZERO,
            &Registry::new(),
        )
        .unwrap();
        let (tasks, stop) = (Arc::new(Tasks::default()), CancellationToken::new());
        let informers = [(), ()].map(|()| {
            let (factory, tasks, stop) = (factory.clone(), Arc::clone(&tasks), stop.clone());
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
        // Never, if the last start was lost: the scheduler takes that for a deadlock.
        future::block_on(informer.synced());
        assert_eq!(server.now.load(SeqCst), 1);
        informer.stop();
        future::block_on(tasks.join(Duration::from_secs(60)));
        assert!(!informer.is_synced(), "nobody follows the server");
        assert_eq!(server.now.load(SeqCst), 0);
        assert!((1..=4).contains(&server.rounds.load(SeqCst)));
    });
}
