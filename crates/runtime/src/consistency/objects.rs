//! Objects as our own writes left them, for as long as the cache shows older versions.
//!
//! A sync waits until the cache has reached the versions of its earlier writes. A cache with that
//! version may still lack one event, if a watch omitted it. Upstream then counts the old state, and
//! a roll-out can exceed its surge. Here the written object counts.

use std::any::Any;
use std::sync::Arc;

use steersman_objects::Object;

use super::ConsistencyStore;
use crate::workers::Key;

impl<K: Key> ConsistencyStore<K> {
    /// `cached`, with each older object replaced by the written one. Drops a written object if
    /// `cached` has the same or a newer version of it, or lacks the object. An object that `cached`
    /// lacks was deleted in the meantime, so the written state must not revive it.
    pub fn newest<T: Object>(&self, owner: &K, mut cached: Vec<Arc<T>>) -> Vec<Arc<T>> {
        self.records.update(owner, |record| {
            record.objects.retain(|object| {
                let Some(written) = of_type::<T>(object) else {
                    return true;
                };
                let is_older = |shown: &&mut Arc<T>| {
                    shown.meta().uid == written.meta().uid
                        && shown.meta().resource_version < written.meta().resource_version
                };
                let older = cached.iter_mut().find(is_older);
                older.map(|shown| *shown = Arc::clone(&written)).is_some()
            });
        });
        cached
    }

    /// Keeps the object that the API server stored for `owner`. A later write of the same object
    /// replaces the kept one.
    pub(super) fn keep<T: Object>(&self, owner: &K, object: &Arc<T>) {
        let mut records = self.records.lock();
        let objects = &mut records.entry(owner.clone()).or_default().objects;
        let is_other = |known: &Arc<dyn Any + Send + Sync>| {
            of_type::<T>(known).is_none_or(|known| known.meta().uid != object.meta().uid)
        };
        objects.retain(is_other);
        objects.push(Arc::clone(object) as Arc<_>);
    }
}

fn of_type<T: Object>(object: &Arc<dyn Any + Send + Sync>) -> Option<Arc<T>> {
    Arc::clone(object).downcast().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use steersman_objects::{ObjectKey, ReplicaSet};

    use super::*;

    fn rs(name: &str, version: u64, size: i32) -> Arc<ReplicaSet> {
        let metadata = json!({"name": name, "uid": name, "resourceVersion": version.to_string()});
        let json = json!({"metadata": metadata, "spec": {"replicas": size}});
        Arc::new(ReplicaSet::decode(json.to_string().as_bytes()).unwrap())
    }

    #[test]
    fn written_object_replaces_an_older_one_until_the_cache_shows_it_or_a_newer_one() {
        let web = ObjectKey::new("default", "web");
        // (why, cached, sizes, whether it is still remembered)
        let cases = [
            (
                "the cache lacks the write",
                vec![rs("a", 5, 1), rs("b", 3, 9)],
                vec![4, 9],
                true,
            ),
            (
                "the cache has it",
                vec![rs("a", 7, 4), rs("b", 3, 9)],
                vec![4, 9],
                false,
            ),
            (
                "the cache has a newer version",
                vec![rs("a", 8, 2)],
                vec![2],
                false,
            ),
            (
                "the object was deleted",
                vec![rs("b", 3, 9)],
                vec![9],
                false,
            ),
        ];
        for (why, cached, sizes, remembered) in cases {
            let store = ConsistencyStore::new(0);
            store.keep(&web, &rs("a", 6, 3));
            store.keep(&web, &rs("a", 7, 4));
            let newest = store.newest(&web, cached);
            assert_eq!(
                newest.iter().map(|rs| rs.spec.replicas).collect::<Vec<_>>(),
                sizes,
                "{why}"
            );
            assert_eq!(store.records.lock().contains_key(&web), remembered, "{why}");
        }
    }

    #[test]
    fn owners_do_not_share_written_objects() {
        let [web, other] = ["web", "other"].map(|name| ObjectKey::new("default", name));
        let store = ConsistencyStore::new(0);
        store.keep(&web, &rs("a", 7, 4));
        assert_eq!(
            store.newest(&other, vec![rs("a", 5, 1)])[0].spec.replicas,
            1
        );
        store.clear(&web);
        assert_eq!(store.newest(&web, vec![rs("a", 5, 1)])[0].spec.replicas, 1);
    }
}
