//! Objects as our own writes left them, for as long as the cache shows older versions.
//!
//! A sync waits until the cache has reached the versions of its earlier writes. A cache with that
//! version may still lack one event, if a watch omitted it. Upstream then counts the old state, and
//! a roll-out can exceed its surge. Here the written object counts.

use std::collections::HashMap;
use std::sync::Arc;

use steersman_objects::{Object, ObjectKey};
use steersman_values::capacity::RemoveAndRelease;
use steersman_values::sync::{Mutex, MutexGuard};

use super::Memory;

/// Written objects of type `T` by the key of their owner.
pub struct WrittenObjects<T>(Mutex<HashMap<ObjectKey, Vec<Arc<T>>>>);

impl<T> Default for WrittenObjects<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Object> WrittenObjects<T> {
    /// Remembers the object that the API server stored for `owner`.
    pub fn record(&self, owner: &ObjectKey, object: &Arc<T>) {
        let mut all = self.all();
        let written = all.entry(owner.clone()).or_default();
        written.retain(|other| other.meta().uid != object.meta().uid);
        written.push(Arc::clone(object));
    }

    /// `cached`, with each older object replaced by the written one. Drops a written object if
    /// `cached` has the same or a newer version of it, or lacks the object.
    pub fn newest(&self, owner: &ObjectKey, mut cached: Vec<Arc<T>>) -> Vec<Arc<T>> {
        let mut all = self.all();
        let Some(written) = all.get_mut(owner) else {
            return cached;
        };
        written.retain(|object| {
            let is_older = |shown: &&mut Arc<T>| {
                shown.meta().uid == object.meta().uid
                    && shown.meta().resource_version < object.meta().resource_version
            };
            cached
                .iter_mut()
                .find(is_older)
                .map(|shown| *shown = Arc::clone(object))
                .is_some()
        });
        if written.is_empty() {
            all.remove_and_release(owner);
        }
        cached
    }

    fn all(&self) -> MutexGuard<'_, HashMap<ObjectKey, Vec<Arc<T>>>> {
        self.0.lock()
    }
}

impl<T: Object> Memory for WrittenObjects<T> {
    fn forget(&self, owner: &ObjectKey) {
        self.all().remove_and_release(owner);
    }

    fn history_went_back(&self) {
        self.all().clear();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use steersman_objects::ReplicaSet;

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
            let written = WrittenObjects::default();
            written.record(&web, &rs("a", 6, 3));
            written.record(&web, &rs("a", 7, 4));
            let newest = written.newest(&web, cached);
            assert_eq!(
                newest.iter().map(|rs| rs.spec.replicas).collect::<Vec<_>>(),
                sizes,
                "{why}"
            );
            assert_eq!(written.all().contains_key(&web), remembered, "{why}");
        }
    }

    #[test]
    fn owners_do_not_share_written_objects() {
        let [web, other] = ["web", "other"].map(|name| ObjectKey::new("default", name));
        let written = WrittenObjects::default();
        written.record(&web, &rs("a", 7, 4));
        assert_eq!(
            written.newest(&other, vec![rs("a", 5, 1)])[0].spec.replicas,
            1
        );
        written.forget(&web);
        assert_eq!(
            written.newest(&web, vec![rs("a", 5, 1)])[0].spec.replicas,
            1
        );
    }
}
