//! Objects in memory: a sorted map and a bounded history per type, and one revision counter for all
//! types.
//!
//! read -> decide without a lock -> commit, which fails after another commit to the object ->
//! history -> watches
//!
//! Watches pull from the history, so a slow watch costs no memory. A watch behind the start of the
//! history ends with 410, as with upstream's watch cache (`apiserver/pkg/storage/cacher`) and etcd
//! compaction.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use serde_json::Value;
use tokio::sync::{Notify, watch};

use crate::kinds::Resource;

mod history;
mod object;

pub use history::Event;
pub use object::{EventKind, Object};

use history::History;

/// The revision counter of the server.
#[derive(Debug)]
pub struct Revisions {
    last: AtomicU64,
    /// Lists of older revisions are refused.
    compacted: AtomicU64,
    grown: Notify,
}

impl Default for Revisions {
    fn default() -> Self {
        Self::starting_at(0)
    }
}

impl Revisions {
    /// The revision of the latest change to any object.
    pub fn current(&self) -> u64 {
        self.last.load(Ordering::Acquire)
    }

    /// Waits until the counter has reached `revision`.
    pub async fn reached(&self, revision: u64) {
        loop {
            // Created before the check, so that no increase is missed.
            let grown = self.grown.notified();
            if self.current() >= revision {
                return;
            }
            grown.await;
        }
    }

    /// A counter for a fork, which continues from `last`.
    pub(crate) fn starting_at(last: u64) -> Self {
        Self {
            last: AtomicU64::new(last),
            compacted: AtomicU64::new(0),
            grown: Notify::new(),
        }
    }

    /// Moves the counter to `revision`, unless it is there or beyond.
    pub fn raise(&self, revision: u64) {
        self.last.fetch_max(revision, Ordering::AcqRel);
        self.grown.notify_waiters();
    }

    /// Takes a revision that changes no object, and returns it.
    pub(crate) fn skip_one(&self) -> u64 {
        let revision = self.next();
        self.grown.notify_waiters();
        revision
    }

    /// Refuses lists of revisions before `revision` from now on.
    pub(crate) fn compact(&self, revision: u64) {
        self.compacted.fetch_max(revision, Ordering::AcqRel);
    }

    /// An error if lists of `revision` are refused.
    pub(crate) fn check(&self, revision: u64) -> Result<(), Compacted> {
        let oldest = self.compacted.load(Ordering::Acquire);
        if revision < oldest {
            Err(Compacted { oldest })
        } else {
            Ok(())
        }
    }

    fn next(&self) -> u64 {
        self.last.fetch_add(1, Ordering::AcqRel) + 1
    }
}

/// The change that a commit makes to an object.
#[derive(Debug)]
pub enum Change {
    /// Stores this object. The commit sets `metadata.resourceVersion`.
    Put(Value),
    /// Removes the object.
    Remove,
}

/// Another commit changed the object after it was read.
#[derive(Debug, PartialEq, Eq)]
pub struct Raced;

/// A revision is older than the history, or older than the last compaction.
#[derive(Debug, PartialEq, Eq)]
pub struct Compacted {
    /// The oldest revision in the history.
    pub oldest: u64,
}

/// All objects of one type, with their history.
#[derive(Debug)]
pub struct TypeStore {
    kind: String,
    api_version: String,
    inner: RwLock<Inner>,
    committed: watch::Sender<u64>,
    /// Revision at which the type began.
    begun: u64,
}

#[derive(Debug, Default)]
struct Inner {
    /// Shared with snapshots. The first change after a snapshot copies the map.
    objects: Arc<BTreeMap<Arc<str>, Arc<Object>>>,
    history: History,
}

/// A read lock on a type, during which no commit happens.
pub(crate) struct Frozen<'a> {
    store: &'a TypeStore,
    inner: RwLockReadGuard<'a, Inner>,
}

impl Frozen<'_> {
    /// An independent store with the same objects. Its history starts at `revision`.
    pub(crate) fn copy(&self, revision: u64) -> TypeStore {
        let mut history = History::default();
        history.compact(revision);
        TypeStore {
            kind: self.store.kind.clone(),
            api_version: self.store.api_version.clone(),
            inner: RwLock::new(Inner {
                objects: Arc::clone(&self.inner.objects),
                history,
            }),
            committed: watch::Sender::new(revision),
            begun: revision,
        }
    }
}

/// A list of objects, and the revision at which it is complete.
#[derive(Debug)]
pub struct Snapshot {
    /// In the order of their keys.
    pub objects: Vec<Arc<Object>>,
    /// No object of this type changed between the newest of `objects` and this revision.
    pub revision: u64,
}

impl TypeStore {
    /// An empty store for objects of `resource`.
    pub fn new(resource: &Resource) -> Self {
        Self {
            kind: resource.kind.to_string(),
            api_version: resource.api_version(),
            inner: RwLock::default(),
            committed: watch::Sender::new(0),
            begun: 0,
        }
    }

    /// An empty store of a type that begins at `revision`. Watches and lists from older revisions
    /// fail.
    pub(crate) fn beginning_at(revision: u64, resource: &Resource) -> Self {
        let mut store = Self::new(resource);
        store.begun = revision;
        store.write().history.compact(revision);
        store
    }

    /// Revision at which the type began. The type has no older changes.
    pub fn begun(&self) -> u64 {
        self.begun
    }

    /// The object under `key`, which is `namespace/name` or `name`.
    pub fn get(&self, key: &str) -> Option<Arc<Object>> {
        self.read().objects.get(key).cloned()
    }

    /// Number of objects.
    pub fn len(&self) -> usize {
        self.read().objects.len()
    }

    /// Whether the store has no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Objects with keys that start with `prefix`, at the current revision.
    pub fn list(&self, revisions: &Revisions, prefix: &str) -> Snapshot {
        let inner = self.read();
        Snapshot {
            objects: with_prefix(&inner.objects, prefix).cloned().collect(),
            revision: revisions.current(),
        }
    }

    /// Objects with keys that start with `prefix`, as they were at `revision`.
    pub fn list_at(&self, prefix: &str, revision: u64) -> Result<Snapshot, Compacted> {
        let inner = self.read();
        let later = inner.history.after(revision)?;
        let mut objects: BTreeMap<Arc<str>, Arc<Object>> = with_prefix(&inner.objects, prefix)
            .map(|object| (object.key.clone(), object.clone()))
            .collect();
        // The loop undoes the newest change first, so the oldest `old` state remains.
        for event in later.rev() {
            match &event.old {
                Some(old) if old.key.starts_with(prefix) => {
                    objects.insert(old.key.clone(), old.clone());
                }
                Some(_) => {}
                None => {
                    objects.remove(&event.object().key);
                }
            }
        }
        Ok(Snapshot {
            objects: objects.into_values().collect(),
            revision,
        })
    }

    /// Replaces `expected` under `key`; `None` creates. Returns the new object, or the last state
    /// of a removed one, with the revision of the change.
    pub fn commit(
        &self,
        resource: &Resource,
        revisions: &Revisions,
        key: &str,
        expected: Option<&Arc<Object>>,
        change: Change,
    ) -> Result<Arc<Object>, Raced> {
        let mut inner = self.write();
        let unchanged = match (inner.objects.get(key), expected) {
            (None, None) => true,
            // Each commit stores a new `Arc`, so equal pointers mean the same version.
            (Some(current), Some(expected)) => Arc::ptr_eq(current, expected),
            _ => false,
        };
        if !unchanged {
            return Err(Raced);
        }
        let old = expected.cloned();
        let revision = revisions.next();
        let (kind, new) = match change {
            Change::Put(value) => {
                let kind = if old.is_some() {
                    EventKind::Modified
                } else {
                    EventKind::Added
                };
                let new = Object::stored(resource, key, value, revision, kind);
                (
                    kind,
                    Arc::new(if let Some(old) = &old {
                        new.sharing(old)
                    } else {
                        new
                    }),
                )
            }
            Change::Remove => {
                let Some(last) = &old else { return Err(Raced) };
                (
                    EventKind::Deleted,
                    Arc::new(last.at_revision(resource, revision, EventKind::Deleted)),
                )
            }
        };
        if kind == EventKind::Deleted {
            Arc::make_mut(&mut inner.objects).remove(key);
        } else {
            Arc::make_mut(&mut inner.objects).insert(new.key.clone(), new.clone());
        }
        inner
            .history
            .push(Event::new(revision, kind, old, new.clone()));
        // Sent under the lock, so that watches see increasing revisions.
        self.committed.send_replace(revision);
        drop(inner);
        revisions.grown.notify_waiters();
        Ok(new)
    }

    /// Puts an object in place with the revision that another server gave it. Returns the object that
    /// it replaces, and the new one. Watches see no event.
    pub(crate) fn put_back(
        &self,
        resource: &Resource,
        key: &str,
        value: Value,
        revision: u64,
    ) -> (Option<Arc<Object>>, Arc<Object>) {
        let new = Arc::new(Object::stored(
            resource,
            key,
            value,
            revision,
            EventKind::Added,
        ));
        let mut inner = self.write();
        let old = Arc::make_mut(&mut inner.objects).insert(new.key.clone(), new.clone());
        (old, new)
    }

    /// Converts all stored objects by the present rules of `resource`, such as a newer schema. The
    /// objects keep their revision, because a conversion is not a write. Watches see no event.
    pub(crate) fn reread(&self, resource: &Resource, read: impl Fn(Value) -> Value) {
        let mut inner = self.write();
        for object in Arc::make_mut(&mut inner.objects).values_mut() {
            let stored = object.to_value();
            let now = read(stored.clone());
            if now != stored {
                *object = Arc::new(Object::unstored(resource, &object.key, &now));
            }
        }
    }

    /// Events after `revision`, oldest first and at most `limit`, and the revision up to which they
    /// are complete.
    pub fn events_after(
        &self,
        revisions: &Revisions,
        revision: u64,
        limit: usize,
    ) -> Result<(Vec<Arc<Event>>, u64), Compacted> {
        let inner = self.read();
        let events: Vec<Arc<Event>> = inner
            .history
            .after(revision)?
            .take(limit)
            .cloned()
            .collect();
        // Commits of this type take their revision under this lock, so the counter is complete
        // here.
        let complete = events
            .last()
            .map_or_else(|| revisions.current().max(revision), |last| last.revision);
        Ok((events, complete))
    }

    /// A channel with the revision of the latest change of this type.
    pub fn committed(&self) -> watch::Receiver<u64> {
        self.committed.subscribe()
    }

    /// The revision of the latest change of this type.
    pub fn latest(&self) -> u64 {
        *self.committed.borrow()
    }

    /// Drops the history, as etcd's compaction does. Watches and lists from older revisions then
    /// fail.
    pub fn compact(&self, revisions: &Revisions) {
        self.write().history.compact(revisions.current());
    }

    /// Blocks commits until the result is dropped.
    pub(crate) fn freeze(&self) -> Frozen<'_> {
        Frozen {
            store: self,
            inner: self.read(),
        }
    }

    /// Kind of the stored objects.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// `apiVersion` of the stored objects.
    pub fn api_version(&self) -> &str {
        &self.api_version
    }

    fn read(&self) -> RwLockReadGuard<'_, Inner> {
        self.inner.read()
    }

    fn write(&self) -> RwLockWriteGuard<'_, Inner> {
        self.inner.write()
    }
}

fn with_prefix<'a>(
    objects: &'a BTreeMap<Arc<str>, Arc<Object>>,
    prefix: &'a str,
) -> impl Iterator<Item = &'a Arc<Object>> {
    objects
        .range::<str, _>((Bound::Included(prefix), Bound::Unbounded))
        .take_while(move |(key, _)| key.starts_with(prefix))
        .map(|(_, object)| object)
}
