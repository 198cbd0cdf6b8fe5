//! The cache of one type: its objects, indexes over them, and the resource version it has reached.
//!
//! One lock covers all three, so that a reader never sees an object that an index lacks. Objects
//! are shared with readers as [`Arc`]s and are immutable. No IO happens under the lock.
//!
//! Upstream: `thread_safe_store.go` in `client-go/tools/cache`.

use std::borrow::Borrow;
use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use steersman_objects::{Object, ObjectKey};
use steersman_values::capacity::{ReleaseSpare, RemoveAndRelease};
use steersman_values::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::IndexKey;

/// Index over the namespace, present for every namespaced type. Upstream: `NamespaceIndex`.
const NAMESPACE: &str = "namespace";
/// Its position: [`Store::new`] adds it first.
const NAMESPACE_POSITION: usize = 0;

/// Read access to an informer's cache. Cheap to clone. Its functions block only for short times,
/// since no IO happens under the lock.
pub struct Store<T> {
    cache: Arc<RwLock<Cache<T>>>,
}

/// Read access to one index of a cache. Cheap to clone.
pub struct Index<T> {
    store: Store<T>,
    /// Its position among the indexes of the cache. Indexes are never removed.
    position: usize,
}

impl<T> Clone for Index<T> {
    fn clone(&self) -> Self {
        Self {
            store: self.store.clone(),
            position: self.position,
        }
    }
}

impl<T: Object> FromIterator<Arc<T>> for Store<T> {
    /// A cache of fixed objects, without an informer; for tests and single decisions.
    fn from_iter<I: IntoIterator<Item = Arc<T>>>(objects: I) -> Self {
        let store = Self::new();
        objects.into_iter().for_each(|object| {
            store.set(&object);
        });
        store
    }
}

impl<T: Object> Index<T> {
    /// The cache that this index belongs to.
    pub fn store(&self) -> &Store<T> {
        &self.store
    }

    /// All objects with this value, in any order.
    pub fn get(&self, value: &str) -> Vec<Arc<T>> {
        self.store.read().indexes[self.position].get(value)
    }

    /// The number of objects with this value.
    pub fn count(&self, value: &str) -> usize {
        let entries = &self.store.read().indexes[self.position].entries;
        entries.get(value).map_or(0, Objects::len)
    }
}

/// The content of a store, under its lock.
struct Cache<T> {
    /// All objects by key.
    objects: Objects<T>,
    /// In the order of their addition, so that a position stays valid.
    indexes: Vec<Entries<T>>,
    /// See [`Store::resource_version`].
    version: u64,
}

/// One index: its function, and the objects by value.
struct Entries<T> {
    name: &'static str,
    /// The values of an object; it may have none or several. Upstream: `IndexFunc`.
    values: fn(&T) -> Vec<IndexKey>,
    /// Whether two states of an object surely have the same values. A wrong "no" costs time only. A
    /// wrong "yes" would leave the object under an old value.
    is_same: fn(&T, &T) -> bool,
    // An entry is a pointer to the object. That is smaller than its key, and saves a lookup.
    entries: HashMap<IndexKey, Objects<T>>,
}

impl<T> Clone for Store<T> {
    fn clone(&self) -> Self {
        Self {
            cache: Arc::clone(&self.cache),
        }
    }
}

impl<T: Object> Store<T> {
    pub(super) fn new() -> Self {
        let mut indexes = Vec::new();
        if T::RESOURCE.namespaced {
            let namespace = |object: &T| vec![object.meta().namespace.clone()];
            // Two states with one key have one namespace.
            indexes.push(Entries::new(NAMESPACE, namespace, |_, _| true));
        }
        Self {
            cache: Arc::new(RwLock::new(Cache {
                objects: Objects::default(),
                indexes,
                version: 0,
            })),
        }
    }

    // A panic of an index function frees the lock, and may leave indexes half changed. The informer
    // then lists again, and `replace` rebuilds all indexes.
    fn read(&self) -> RwLockReadGuard<'_, Cache<T>> {
        self.cache.read()
    }

    fn write(&self) -> RwLockWriteGuard<'_, Cache<T>> {
        self.cache.write()
    }

    /// The object with this key.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<T>> {
        self.read().objects.get(key).cloned()
    }

    /// All objects, in any order.
    pub fn list(&self) -> Vec<Arc<T>> {
        self.read().objects.iter().cloned().collect()
    }

    /// All objects of a namespace, in any order. Objects without one are in the namespace "".
    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<T>> {
        if T::RESOURCE.namespaced {
            self.read().indexes[NAMESPACE_POSITION].get(namespace)
        } else if namespace.is_empty() {
            self.list()
        } else {
            Vec::new()
        }
    }

    /// The resource version up to which the cache shows the changes of this type, by events and
    /// bookmarks. 0 before the first list. It decreases only at a rewind, for example after an etcd
    /// restore.
    pub fn resource_version(&self) -> u64 {
        self.read().version
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.read().objects.len()
    }

    /// True if the cache has no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds an index called `name` over present and future objects. `values` returns the index
    /// values of an object, and must not panic. An existing index of that name is returned as is.
    ///
    /// The returned [`Index`] is the only way to read it, so a missing index cannot be read.
    /// Upstream: `AddIndexers`, which also takes them at any time.
    pub fn add_index(&self, name: &'static str, values: fn(&T) -> Vec<IndexKey>) -> Index<T> {
        self.add_index_over(name, |_, _| false, values)
    }

    /// The same for values that cost much. `is_same` tells whether two states of an object agree in
    /// the fields that `values` reads. An update then computes the values once, not twice.
    pub fn add_index_over(
        &self,
        name: &'static str,
        is_same: fn(&T, &T) -> bool,
        values: fn(&T) -> Vec<IndexKey>,
    ) -> Index<T> {
        let mut cache = self.write();
        let existing = cache.indexes.iter().position(|index| index.name == name);
        let position = existing.unwrap_or_else(|| {
            let mut entries = Entries::new(name, values, is_same);
            entries.fill(&cache.objects);
            cache.indexes.push(entries);
            cache.indexes.len() - 1
        });
        Index {
            store: self.clone(),
            position,
        }
    }

    /// Stores `object`, and returns the object with the same key that it replaces.
    pub(super) fn set(&self, object: &Arc<T>) -> Option<Arc<T>> {
        let mut cache = self.write();
        let Cache {
            objects,
            indexes,
            version,
        } = &mut *cache;
        let old = objects.peer(object).cloned();
        indexes
            .iter_mut()
            .for_each(|index| index.change(old.as_ref(), Some(object)));
        objects.insert(Arc::clone(object));
        // The version of the last change is that of the whole cache, since a watch sends changes in
        // order.
        *version = object.meta().resource_version;
        old
    }

    /// Removes and returns the object with the key of `gone`, the final state of a deleted object.
    /// The deletion has a version of its own, which `gone` carries.
    pub(super) fn remove(&self, gone: &Arc<T>) -> Option<Arc<T>> {
        let mut cache = self.write();
        let Cache {
            objects,
            indexes,
            version,
        } = &mut *cache;
        let old = objects.remove(gone);
        indexes
            .iter_mut()
            .for_each(|index| index.change(old.as_ref(), None));
        *version = gone.meta().resource_version;
        old
    }

    /// Replaces all objects by `objects`, and returns the former ones.
    pub(super) fn replace(&self, mut objects: Objects<T>, version: u64) -> Objects<T> {
        // Indexing many objects takes long, so it happens before the write lock blocks readers.
        // Only the informer's task changes objects, so they cannot change between the two locks.
        let mut indexes: Vec<Entries<T>> =
            self.read().indexes.iter().map(Entries::emptied).collect();
        indexes.iter_mut().for_each(|index| index.fill(&objects));
        let mut cache = self.write();
        // Indexes that another thread added in the meantime.
        for added in &cache.indexes[indexes.len()..] {
            let mut index = added.emptied();
            index.fill(&objects);
            indexes.push(index);
        }
        std::mem::swap(&mut cache.indexes, &mut indexes);
        std::mem::swap(&mut cache.objects, &mut objects);
        cache.version = version;
        // The former objects and indexes are freed after the lock.
        drop(cache);
        objects
    }

    /// Records a bookmark: there are no further changes of this type up to `version`.
    pub(super) fn advance(&self, version: u64) {
        self.write().version = version;
    }
}

impl<T: Object> Entries<T> {
    fn get(&self, value: &str) -> Vec<Arc<T>> {
        self.entries
            .get(value)
            .map(|objects| objects.iter().cloned().collect())
            .unwrap_or_default()
    }

    fn new(
        name: &'static str,
        values: fn(&T) -> Vec<IndexKey>,
        is_same: fn(&T, &T) -> bool,
    ) -> Self {
        Self {
            name,
            values,
            is_same,
            entries: HashMap::new(),
        }
    }

    /// The same index without objects.
    fn emptied(&self) -> Self {
        Self::new(self.name, self.values, self.is_same)
    }

    /// Adds all of `objects` to an empty index.
    fn fill(&mut self, objects: &Objects<T>) {
        objects
            .iter()
            .for_each(|object| self.change(None, Some(object)));
    }

    /// Moves an object from the index values of `old` to those of `new`. `None` stands for no
    /// object.
    fn change(&mut self, old: Option<&Arc<T>>, new: Option<&Arc<T>>) {
        let values = |object: Option<&Arc<T>>| object.map(|object| (self.values)(object));
        // The new object replaces the old one under values that stay, so no value keeps the old
        // state.
        let after = values(new).unwrap_or_default();
        let is_same = matches!((old, new), (Some(old), Some(new)) if (self.is_same)(old, new));
        let before = values(old.filter(|_| !is_same)).unwrap_or_default();
        for value in before.iter().filter(|value| !after.contains(value)) {
            if let Some(objects) = self.entries.get_mut(value)
                && let Some(old) = old
            {
                objects.remove(old);
                // Without this, each value that ever existed would keep an empty set.
                if objects.len() == 0 {
                    self.entries.remove_and_release(value);
                }
            }
        }
        for value in after {
            if let Some(new) = new {
                self.entries
                    .entry(value)
                    .or_default()
                    .insert(Arc::clone(new));
            }
        }
    }
}

/// A set of objects, one per key. An element is one pointer, and the key is read from the object.
/// That saves the 32 bytes of a key per object and index.
pub(super) struct Objects<T>(HashSet<Entry<T>>);

impl<T> Default for Objects<T> {
    fn default() -> Self {
        Self(HashSet::new())
    }
}

impl<T: Object> Objects<T> {
    pub(super) fn get(&self, key: &ObjectKey) -> Option<&Arc<T>> {
        self.0.get(key as &dyn Keyed).map(|entry| &entry.0)
    }

    /// The object with the key of `object`.
    pub(super) fn peer(&self, object: &Arc<T>) -> Option<&Arc<T>> {
        self.0.get(&Entry(Arc::clone(object))).map(|entry| &entry.0)
    }

    /// Stores `object`, and returns the object with the same key that it replaces. `replace`
    /// instead of `insert` of the set, which would keep the old element of an equal key.
    pub(super) fn insert(&mut self, object: Arc<T>) -> Option<Arc<T>> {
        self.0.replace(Entry(object)).map(|entry| entry.0)
    }

    /// Removes and returns the object with the key of `object`.
    pub(super) fn remove(&mut self, object: &Arc<T>) -> Option<Arc<T>> {
        let removed = self.0.take(&Entry(Arc::clone(object)));
        self.0.release_spare();
        removed.map(|entry| entry.0)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.0.iter().map(|entry| &entry.0)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// An object as a set element. Two elements are equal if namespace and name are.
struct Entry<T>(Arc<T>);

/// Anything with a namespace and a name, so that a set of objects can be searched by key.
trait Keyed {
    fn parts(&self) -> (&str, &str);
}

impl<T: Object> Keyed for Entry<T> {
    fn parts(&self) -> (&str, &str) {
        let meta = self.0.meta();
        (&meta.namespace, &meta.name)
    }
}

impl Keyed for ObjectKey {
    fn parts(&self) -> (&str, &str) {
        (&self.namespace, &self.name)
    }
}

impl Hash for dyn Keyed + '_ {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}

impl PartialEq for dyn Keyed + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for dyn Keyed + '_ {}

impl<T: Object> Hash for Entry<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}

impl<T: Object> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl<T: Object> Eq for Entry<T> {}

impl<'a, T: Object> Borrow<dyn Keyed + 'a> for Entry<T> {
    fn borrow(&self) -> &(dyn Keyed + 'a) {
        self
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use steersman_objects::{Node, Pod};

    use super::*;

    fn pod(key: &str, version: u64, node: &str) -> Arc<Pod> {
        let (namespace, name) = key.split_once('/').unwrap();
        let json = serde_json::json!({
            "metadata": {"namespace": namespace, "name": name, "uid": name, "resourceVersion": version.to_string()},
            "spec": {"nodeName": node}
        });
        Arc::new(Pod::decode(json.to_string().as_bytes()).unwrap())
    }

    fn by_node(pod: &Pod) -> Vec<IndexKey> {
        pod.node.iter().cloned().collect()
    }

    fn names(pods: Vec<Arc<Pod>>) -> Vec<String> {
        let mut names: Vec<String> = pods.iter().map(|pod| pod.key().to_string()).collect();
        names.sort();
        names
    }

    #[test]
    fn index_reflects_every_change() {
        let store = Store::new();
        store.set(&pod("a/one", 1, "n1"));
        let nodes = store.add_index("node", by_node);
        assert_eq!(
            names(nodes.get("n1")),
            ["a/one"],
            "objects from before the index are indexed"
        );
        let again = store.add_index("node", |_| vec![]);
        assert_eq!(
            again.position, nodes.position,
            "the first index with a name is kept"
        );
        store.set(&pod("a/two", 2, "n1"));
        store.set(&pod("b/one", 3, "n2"));
        assert_eq!(names(nodes.get("n1")), ["a/one", "a/two"]);
        assert_eq!((nodes.count("n1"), nodes.count("none")), (2, 0));
        assert_eq!(names(store.in_namespace("a")), ["a/one", "a/two"]);

        assert_eq!(
            store
                .set(&pod("a/one", 4, "n2"))
                .unwrap()
                .meta
                .resource_version,
            1
        );
        assert_eq!(names(nodes.get("n1")), ["a/two"]);
        let moved = nodes.get("n2");
        assert!(
            moved.iter().all(|pod| pod.node.as_deref() == Some("n2")),
            "the index holds the new state"
        );
        assert_eq!(names(moved), ["a/one", "b/one"]);

        store.remove(&pod("b/one", 5, "gone-elsewhere"));
        assert_eq!(names(nodes.get("n2")), ["a/one"]);
        assert!(store.in_namespace("b").is_empty());
        assert_eq!((store.len(), store.resource_version()), (2, 5));

        let mut next = Objects::default();
        next.insert(pod("c/one", 6, "n3"));
        let old = store.replace(next, 9);
        assert_eq!(
            (old.len(), store.len(), store.resource_version()),
            (2, 1, 9)
        );
        assert_eq!(names(nodes.get("n3")), ["c/one"]);
        assert!(nodes.get("n2").is_empty() && store.in_namespace("a").is_empty());
        assert!(
            store.get(&ObjectKey::new("c", "one")).is_some()
                && store.get(&ObjectKey::new("a", "one")).is_none()
        );
    }

    #[test]
    fn an_update_that_keeps_the_values_computes_them_once() {
        static COMPUTED: AtomicUsize = AtomicUsize::new(0);
        let same_node = |old: &Pod, new: &Pod| old.node == new.node;
        let counted = |pod: &Pod| {
            COMPUTED.fetch_add(1, Ordering::Relaxed);
            by_node(pod)
        };
        let store = Store::new();
        let nodes = store.add_index_over("counted", same_node, counted);
        // (why, node, computations, version under the node)
        let cases = [
            ("added", "n1", 1, 1),
            ("the same node", "n1", 1, 2),
            ("another node", "n2", 2, 3),
        ];
        for (why, node, computations, version) in cases {
            COMPUTED.store(0, Ordering::Relaxed);
            store.set(&pod("a/one", version, node));
            assert_eq!(COMPUTED.load(Ordering::Relaxed), computations, "{why}");
            let found = nodes.get(node);
            assert_eq!(found.len(), 1, "{why}");
            assert_eq!(found[0].meta.resource_version, version, "{why}");
        }
        assert!(nodes.get("n1").is_empty());
    }

    #[test]
    fn values_without_objects_are_dropped_from_an_index() {
        let store = Store::new();
        store.add_index("node", by_node);
        for version in 1..100 {
            store.set(&pod("a/one", version, &format!("n{version}")));
        }
        store.remove(&pod("a/one", 100, "n99"));
        let cache = store.read();
        assert!(cache.indexes.iter().all(|index| index.entries.is_empty()));
    }

    #[test]
    fn objects_without_a_namespace_are_in_the_empty_one() {
        let store = Store::<Node>::new();
        let json = br#"{"metadata":{"name":"n1","resourceVersion":"4"}}"#;
        store.set(&Arc::new(Node::decode(json).unwrap()));
        assert_eq!(
            (
                store.in_namespace("").len(),
                store.in_namespace("default").len()
            ),
            (1, 0)
        );
        assert!(store.get(&ObjectKey::new("", "n1")).is_some());
    }
}
