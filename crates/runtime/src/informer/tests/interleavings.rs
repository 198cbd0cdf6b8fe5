//! The informer's task, late handlers and waiters in every order.

use std::collections::BTreeSet;
use std::sync::Arc;

use prometheus::Registry;
use shuttle::sync::Mutex;
use shuttle::thread;

use super::node;
use crate::informer::metrics::InformerMetrics;
use crate::informer::store::Objects;
use crate::informer::{Change, SharedInformer};
use crate::object::{Node, Object, ObjectKey};
use crate::sync::in_every_order;

fn informer() -> SharedInformer<Node> {
    SharedInformer::new(InformerMetrics::register(&Registry::new()).unwrap().of(Node::RESOURCE))
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

/// What a handler believes to be there, and what it was told that cannot be: its panics would be caught.
#[derive(Default)]
struct Belief {
    there: BTreeSet<String>,
    wrong: Vec<String>,
}

impl Belief {
    fn hear(&mut self, change: Change<'_, Node>) {
        let (fits, name) = match change {
            Change::Added { object, .. } => (self.there.insert(object.meta.name.to_string()), &object.meta.name),
            Change::Updated { new, .. } => (self.there.contains(&*new.meta.name), &new.meta.name),
            Change::Deleted { object, .. } => (self.there.remove(&*object.meta.name), &object.meta.name),
        };
        if !fits {
            self.wrong.push(name.to_string());
        }
    }
}

#[test]
fn a_handler_hears_everything_once_whenever_it_comes() {
    in_every_order(|| {
        let informer = informer();
        let belief = Arc::new(Mutex::new(Belief::default()));
        let late = {
            let (informer, belief) = (informer.clone(), Arc::clone(&belief));
            thread::spawn(move || informer.add_handler(move |change| belief.lock().unwrap().hear(change)))
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
    in_every_order(|| {
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
                let then = move || called.lock().unwrap().push((store.resource_version(), *heard.lock().unwrap()));
                informer.when_seen(2, then);
            })
        };
        feed(&informer);
        waiting.join().unwrap();
        let called = called.lock().unwrap();
        let [(version, heard)] = called[..] else { panic!("called {} times", called.len()) };
        assert!(version >= 2 && heard >= 2, "called at {version}, when the handler had heard of {heard}");
    });
}

#[test]
fn readers_see_every_object_whole_while_the_cache_is_replaced() {
    in_every_order(|| {
        let informer = informer();
        feed(&informer);
        let reader = {
            let store = informer.store();
            thread::spawn(move || {
                let (names, version) = (store.list(), store.resource_version());
                assert!(names.len() == 1 || version == 9, "{} objects at {version}", names.len());
                assert!(store.get(&ObjectKey::new("", "a")).is_some(), "it is in both states");
            })
        };
        let mut listed = Objects::default();
        listed.insert(decoded("a", 3));
        listed.insert(decoded("c", 8));
        informer.shared.replace(listed, 9);
        reader.join().unwrap();
    });
}
