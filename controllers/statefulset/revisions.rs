//! The choice of the update revision, and the clean-up of the history.
//!
//! Upstream: `getStatefulSetRevisions` and `truncateHistory` in `stateful_set_control.go`.
//!
//! `History` of `steersman_helpers` compares and stores revisions; DaemonSets use it, too.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use steersman_helpers::history::Proposal;
use steersman_objects::{ControllerRevision, Meta, ObjectKey, Uid};
use steersman_runtime::consistency::Memory;

/// The stored revision of the current template. Each variant leads to at most one write.
#[derive(Debug)]
pub(super) enum Found {
    /// The newest revision has the template. Nothing is written. It is the case of nearly all syncs.
    Newest(Arc<ControllerRevision>),
    /// An older one has it. It becomes the newest by another number, which is a rollback. Names and data
    /// stay, so pods of the old time have the right label already.
    Older(Arc<ControllerRevision>),
    /// No revision has it. Then a new revision is created with the next number.
    None,
}

/// Finds the template of `proposal` in `sorted`, the revisions of a set by number.
///
/// `restores` compares by meaning, for revisions that other versions of Kubernetes stored. Only the
/// newest revision is compared in this way.
///
/// Equal data comes first, as it is cheap. An older revision precedes the comparison by meaning, as upstream.
pub(super) fn find(
    sorted: &[Arc<ControllerRevision>],
    proposal: &Proposal<'_>,
    restores: impl FnOnce(&ControllerRevision) -> bool,
) -> Found {
    let Some((newest, older)) = sorted.split_last() else {
        return Found::None;
    };
    if proposal.equals(newest) {
        return Found::Newest(Arc::clone(newest));
    }
    // The youngest of several equal ones.
    if let Some(equal) = older.iter().rev().find(|r| proposal.equals(r)) {
        return Found::Older(Arc::clone(equal));
    }
    if restores(newest) {
        return Found::Newest(Arc::clone(newest));
    }
    Found::None
}

/// The revisions of `sorted` beyond the history limit, oldest first. Revisions with a name in `live`
/// do not count. A negative limit keeps all.
///
/// Upstream: `truncateHistory`. A live revision stays even if it is the oldest, since its pods name it.
pub(super) fn surplus<'a>(
    sorted: &'a [Arc<ControllerRevision>],
    live: &HashSet<&str>,
    limit: i32,
) -> Vec<&'a Arc<ControllerRevision>> {
    let mut unused: Vec<_> = sorted
        .iter()
        .filter(|revision| !live.contains(&*revision.meta.name))
        .collect();
    let Ok(limit) = usize::try_from(limit) else {
        return Vec::new();
    };
    unused.truncate(unused.len().saturating_sub(limit));
    unused
}

/// The comparisons by meaning with the answer yes, one for each set. The comparison takes longer
/// than all other decisions of a sync, and its answer stays until the set or the revision changes. The state
/// is UID and generation of the set, and the version of the revision. Upstream keeps at most 10000 answers of
/// all sets, in `revisionEqualityCache`.
#[derive(Debug, Default)]
pub(super) struct KnownEqual(Mutex<HashMap<ObjectKey, (Uid, i64, u64)>>);

impl KnownEqual {
    /// The answer of `compare`, or the one for the same set and revision from an earlier sync. Only "yes" is
    /// kept: after a "no", a new revision follows anyway.
    pub(super) fn check(
        &self,
        key: &ObjectKey,
        set: &Meta,
        revision: &ControllerRevision,
        compare: impl FnOnce() -> bool,
    ) -> bool {
        // The generation stands for the template: it rises with each change of the spec.
        let state = (
            set.uid.clone(),
            set.generation,
            revision.meta.resource_version,
        );
        if self.all().get(key) == Some(&state) {
            return true;
        }
        let is_equal = compare();
        if is_equal {
            self.all().insert(key.clone(), state);
        }
        is_equal
    }

    fn all(&self) -> MutexGuard<'_, HashMap<ObjectKey, (Uid, i64, u64)>> {
        self.0.lock()
    }
}

impl Memory for KnownEqual {
    fn forget(&self, owner: &ObjectKey) {
        self.all().remove(owner);
    }

    fn history_went_back(&self) {
        self.all().clear();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use serde_json::{Value, json};
    use steersman_helpers::history::Style;
    use steersman_objects::{Object, StatefulSet};

    use super::*;
    use crate::testing::stateful_set;

    fn template(image: &str) -> Value {
        json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image}]}})
    }

    /// The stored revision `name` with the template of this image.
    fn stored(name: &str, image: &str) -> Arc<ControllerRevision> {
        let set = stateful_set("web").build();
        let template = template(image);
        let proposal = Proposal::new::<StatefulSet>(
            Style::StatefulSet,
            &set.meta,
            &set.document,
            &template,
            None,
            1,
        );
        let metadata = json!({"name": name, "uid": name, "resourceVersion": "7"});
        let json = format!(r#"{{"metadata":{metadata},"data":{}}}"#, proposal.data());
        Arc::new(ControllerRevision::decode(json.as_bytes()).unwrap())
    }

    /// Upstream: `TestStatefulSetControl_getSetRevisions`. Revisions are names with an image.
    #[test]
    fn get_set_revisions() {
        let set = stateful_set("web").build();
        let current = template("foo");
        let proposal = Proposal::new::<StatefulSet>(
            Style::StatefulSet,
            &set.meta,
            &set.document,
            &current,
            None,
            3,
        );
        // (name, revisions, whether the newest restores, found)
        let cases: [(&str, &[(&str, &str)], bool, &str); 7] = [
            ("creates initial revision", &[], false, "none"),
            (
                "creates revision on update",
                &[("rev0", "bar")],
                false,
                "none",
            ),
            (
                "must not recreate a new revision of same set",
                &[("rev0", "bar"), ("rev1", "foo")],
                false,
                "newest rev1",
            ),
            (
                "must rollback to a previous revision",
                &[("rev0", "foo"), ("rev1", "bar")],
                false,
                "older rev0",
            ),
            (
                "the last of several equal revisions",
                &[("rev0", "foo"), ("rev1", "foo"), ("rev2", "bar")],
                false,
                "older rev1",
            ),
            ("equal by meaning", &[("rev0", "bar")], true, "newest rev0"),
            (
                "equal bytes win over equal meaning",
                &[("rev0", "foo"), ("rev1", "bar")],
                true,
                "older rev0",
            ),
        ];
        for (name, revisions, restores, expected) in cases {
            let sorted: Vec<_> = revisions
                .iter()
                .map(|(n, image)| stored(n, image))
                .collect();
            let found = match find(&sorted, &proposal, |_| restores) {
                Found::None => "none".to_owned(),
                Found::Newest(revision) => format!("newest {}", revision.meta.name),
                Found::Older(revision) => format!("older {}", revision.meta.name),
            };
            assert_eq!(found, expected, "{name}");
        }
    }

    #[test]
    fn the_oldest_unused_revisions_are_surplus() {
        let sorted: Vec<_> = ["a", "b", "c", "d"].map(|name| stored(name, "foo")).into();
        // (why, live, limit, surplus)
        let cases: [(&str, &[&str], i32, &[&str]); 6] = [
            ("below the limit", &[], 4, &[]),
            ("above the limit", &[], 2, &["a", "b"]),
            ("live revisions do not count", &["a", "c"], 1, &["b"]),
            ("live revisions stay", &["a", "d"], 0, &["b", "c"]),
            ("zero", &[], 0, &["a", "b", "c", "d"]),
            ("no limit", &[], -1, &[]),
        ];
        for (why, live, limit, expected) in cases {
            let found = surplus(&sorted, &live.iter().copied().collect(), limit);
            let names: Vec<&str> = found.iter().map(|r| &*r.meta.name).collect();
            assert_eq!(names, expected, "{why}");
        }
    }

    #[test]
    fn a_comparison_is_repeated_only_after_a_change() {
        let known = KnownEqual::default();
        let calls = Cell::new(0);
        let key = ObjectKey::new("default", "web");
        let set = stateful_set("web").build();
        let revision = stored("rev0", "foo");
        let changed = stateful_set("web").metadata("generation", 2).build();
        let check = |set: &StatefulSet, answer: bool| {
            known.check(&key, &set.meta, &revision, || {
                calls.set(calls.get() + 1);
                answer
            })
        };
        assert!(!check(&set, false), "a negative answer is not kept");
        assert!(check(&set, true) && check(&set, false));
        assert_eq!(calls.get(), 2);
        assert!(!check(&changed, false), "another generation");
        known.forget(&key);
        assert!(!check(&set, false), "forgotten");
    }
}
