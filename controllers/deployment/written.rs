//! ReplicaSets as our writes left them, for as long as the cache still shows them as they were
//! before.
//!
//! A sync waits until the cache has reached the versions of the writes before it. That the cache
//! has come so far does not mean that it has heard of everything: a watch that leaves out an event
//! shows the rest. Where upstream then adds up what was, and with it goes beyond the surge, what we
//! wrote ourselves counts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use steersman_runtime::object::{ObjectKey, ReplicaSet};

/// Written ReplicaSets by Deployment.
#[derive(Debug, Default)]
pub(super) struct Written(Mutex<HashMap<ObjectKey, Vec<Arc<ReplicaSet>>>>);

impl Written {
    /// Remembers what the server made of a write for `deployment`.
    pub(super) fn note(&self, deployment: &ObjectKey, rs: &Arc<ReplicaSet>) {
        let mut all = self.all();
        let written = all.entry(deployment.clone()).or_default();
        written.retain(|known| known.meta.uid != rs.meta.uid);
        written.push(Arc::clone(rs));
    }

    /// `cached`, with what is remembered in place of what is older. What is shown, newer or gone
    /// there is remembered no longer.
    pub(super) fn newest(
        &self,
        deployment: &ObjectKey,
        mut cached: Vec<Arc<ReplicaSet>>,
    ) -> Vec<Arc<ReplicaSet>> {
        let mut all = self.all();
        let Some(written) = all.get_mut(deployment) else {
            return cached;
        };
        written.retain(|rs| {
            let is_older = |shown: &&mut Arc<ReplicaSet>| {
                shown.meta.uid == rs.meta.uid
                    && shown.meta.resource_version < rs.meta.resource_version
            };
            cached
                .iter_mut()
                .find(is_older)
                .map(|shown| *shown = Arc::clone(rs))
                .is_some()
        });
        if written.is_empty() {
            all.remove(deployment);
        }
        cached
    }

    /// Forgets what belongs to `deployment`.
    pub(super) fn forget(&self, deployment: &ObjectKey) {
        self.all().remove(deployment);
    }

    /// Forgets everything: a restored server may know none of it.
    pub(super) fn forget_all(&self) {
        self.all().clear();
    }

    fn all(&self) -> MutexGuard<'_, HashMap<ObjectKey, Vec<Arc<ReplicaSet>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::replica_set;

    fn rs(name: &str, version: u64, size: i32) -> Arc<ReplicaSet> {
        let mut rs = replica_set(name).replicas(size).build();
        rs.meta.resource_version = version;
        Arc::new(rs)
    }

    #[test]
    fn what_we_wrote_counts_until_the_cache_shows_it_or_something_newer() {
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
                "the cache has something newer",
                vec![rs("a", 8, 2)],
                vec![2],
                false,
            ),
            ("it is gone", vec![rs("b", 3, 9)], vec![9], false),
        ];
        for (why, cached, sizes, remembered) in cases {
            let written = Written::default();
            written.note(&web, &rs("a", 6, 3));
            written.note(&web, &rs("a", 7, 4));
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
    fn deployments_do_not_share_what_was_written() {
        let [web, other] = ["web", "other"].map(|name| ObjectKey::new("default", name));
        let written = Written::default();
        written.note(&web, &rs("a", 7, 4));
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
