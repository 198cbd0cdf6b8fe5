//! Revision numbers: each new template gets the next number.
//!
//! A template that becomes current again, by a rollback, gets a new number too, and its old number
//! goes to the history annotation. Upstream: `SetNewReplicaSetAnnotations`, `MaxRevision` and
//! `LastRevision` in `deployment_util.go`.
//!
//! A revision is a number of ReplicaSets; the Deployment only shows the one of its new ReplicaSet.

use std::collections::BTreeMap;
use std::sync::Arc;

use steersman_objects::{Annotations, Deployment, ReplicaSet};

use super::annotations::{self, REVISION, REVISION_HISTORY};

/// Longest `revision-history`, in characters. Upstream: `maxRevHistoryLengthInChars`.
const HISTORY_LIMIT: usize = 2000;

/// The revision of `rs`: 0 if the annotation is missing, `None` if it is unreadable. Upstream: `Revision`. An
/// unreadable one takes no part in the choice of the next number.
pub(super) fn revision(rs: &ReplicaSet) -> Option<i64> {
    rs.annotations
        .get(REVISION)
        .map_or(Some(0), |text| text.parse().ok())
}

/// The revision of the new ReplicaSet, given the old ones. The new ReplicaSet itself is left out: its number
/// may be the highest already, and then it keeps it.
pub(super) fn next<'a>(old: impl IntoIterator<Item = &'a Arc<ReplicaSet>>) -> i64 {
    old.into_iter()
        .filter_map(|rs| revision(rs))
        .fold(0, i64::max)
        .saturating_add(1)
}

/// The second highest revision, or 0. If two ReplicaSets share the highest number, it is that
/// number. It is the target of a rollback to revision 0.
pub(super) fn last<'a>(sets: impl IntoIterator<Item = &'a Arc<ReplicaSet>>) -> i64 {
    let mut highest = 0;
    let mut second = 0;
    for revision in sets.into_iter().filter_map(|rs| revision(rs)) {
        if revision >= highest {
            second = highest;
            highest = revision;
        } else {
            second = second.max(revision);
        }
    }
    second
}

/// The desired annotations of the new ReplicaSet.
#[derive(Debug, PartialEq)]
pub(super) struct Wanted {
    /// All annotations, including those that stay.
    pub(super) annotations: BTreeMap<String, String>,
    /// Whether a write is needed for them.
    pub(super) changed: bool,
}

/// The desired annotations of the new ReplicaSet, given its `current` ones: those of `d` are added,
/// and the revision is at least `next`. The previous revision goes to the history.
///
/// An older number of the new ReplicaSet means a rollback to its template. A higher one stays, for example
/// after the deletion of other ReplicaSets.
pub(super) fn annotations(d: &Deployment, current: &Annotations, next: i64) -> Wanted {
    let missing: Vec<_> = annotations::missing(d, current).collect();
    let mut changed = !missing.is_empty();
    let all = current.iter().chain(missing);
    let mut wanted: BTreeMap<String, String> = all
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    let old = current.get(REVISION);
    let number = match old {
        None | Some("") => 0,
        Some(text) => match text.parse::<i64>() {
            Ok(number) => number,
            // As in upstream's SetNewReplicaSetAnnotations, an unreadable revision also prevents
            // the write of the copied annotations.
            Err(_) => {
                return Wanted {
                    annotations: wanted,
                    changed: false,
                };
            }
        },
    };
    if number < next {
        let history = current.get(REVISION_HISTORY).unwrap_or_default();
        if let Some(history) = old.and_then(|old| longer_history(history, old, HISTORY_LIMIT)) {
            wanted.insert(REVISION_HISTORY.to_owned(), history);
        }
        wanted.insert(REVISION.to_owned(), next.to_string());
        changed = true;
    }
    Wanted {
        annotations: wanted,
        changed,
    }
}

/// `history` with `revision` appended. Entries at the front are removed until the text fits
/// `limit`; `None` if even `revision` alone exceeds it.
fn longer_history(history: &str, revision: &str, limit: usize) -> Option<String> {
    if history.is_empty() || history.starts_with(',') {
        return Some(revision.to_owned());
    }
    let mut total = history.len() + revision.len() + 1;
    let mut kept: Vec<&str> = history.split(',').collect();
    let mut dropped = 0;
    while total > limit && dropped < kept.len() {
        total -= kept[dropped].len() + 1;
        dropped += 1;
    }
    kept.drain(..dropped);
    kept.push(revision);
    (total <= limit).then(|| kept.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{deployment, replica_set};

    fn sets(revisions: &[Option<&str>]) -> Vec<Arc<ReplicaSet>> {
        let build = |(i, revision): (usize, &Option<&str>)| {
            let rs = replica_set(&format!("rs-{i}"));
            Arc::new(
                revision
                    .iter()
                    .fold(rs, |rs, text| rs.annotation(REVISION, text))
                    .build(),
            )
        };
        revisions.iter().enumerate().map(build).collect()
    }

    #[test]
    fn unreadable_revisions_are_ignored() {
        // (revisions, next, last)
        let cases: [(&[Option<&str>], i64, i64); 7] = [
            (&[], 1, 0),
            (&[None], 1, 0),
            (&[Some("1")], 2, 0),
            (&[Some("1"), Some("3"), Some("2")], 4, 2),
            (&[Some("3"), Some("x"), Some("1")], 4, 1),
            (&[Some("5"), Some("5")], 6, 5),
            (&[None, Some("4")], 5, 0),
        ];
        for (revisions, expected_next, expected_last) in cases {
            let sets = sets(revisions);
            assert_eq!(
                (next(&sets), last(&sets)),
                (expected_next, expected_last),
                "{revisions:?}"
            );
        }
    }

    #[test]
    fn test_annotation_utils_set_new_replica_set_annotations() {
        let d = deployment("nginx").annotation(REVISION, "1").build();
        let mut current = Annotations::default();
        for revision in 11..=20 {
            let wanted = annotations(&d, &current, revision);
            assert!(wanted.changed);
            assert_eq!(wanted.annotations[REVISION], revision.to_string());
            let all = wanted.annotations.iter();
            current = Annotations::new(all.map(|(key, value)| (&**key, &**value)));
        }
        let history = current.get(REVISION_HISTORY);
        assert_eq!(history, Some("11,12,13,14,15,16,17,18,19"));
        assert!(!annotations(&d, &current, 20).changed);
    }

    #[test]
    fn a_revision_is_never_lowered() {
        let current = Annotations::new([(REVISION, "7")]);
        let wanted = annotations(&deployment("web").build(), &current, 3);
        assert_eq!(
            wanted,
            Wanted {
                annotations: [(REVISION.to_owned(), "7".to_owned())].into(),
                changed: false
            }
        );
    }

    #[test]
    fn an_empty_revision_counts_as_zero_and_enters_the_history_as_it_is() {
        let current = Annotations::new([(REVISION, "")]);
        let wanted = annotations(&deployment("web").build(), &current, 3);
        assert_eq!(
            (
                &*wanted.annotations[REVISION],
                &*wanted.annotations[REVISION_HISTORY]
            ),
            ("3", "")
        );
    }

    #[test]
    fn an_unreadable_revision_prevents_the_write_of_copied_annotations() {
        let current = Annotations::new([(REVISION, "x")]);
        let wanted = annotations(
            &deployment("web").annotation("team", "a").build(),
            &current,
            3,
        );
        assert!(!wanted.changed);
        assert_eq!(
            wanted.annotations["team"], "a",
            "a write for another reason includes it"
        );
        assert_eq!(wanted.annotations[REVISION], "x");
    }

    #[test]
    fn a_long_history_loses_its_first_entries() {
        // (why, history, revision, expected)
        let long = vec!["1234"; 400].join(",");
        let huge = "9".repeat(HISTORY_LIMIT + 1);
        let cases = [
            ("first", "", "1", Some("1".to_owned())),
            ("second", "1", "3", Some("1,3".to_owned())),
            (
                "at the limit one entry is removed",
                &long,
                "5678",
                Some(format!("{},5678", vec!["1234"; 399].join(","))),
            ),
            (
                "a twice as long entry removes two",
                &long,
                "56789012",
                Some(format!("{},56789012", vec!["1234"; 398].join(","))),
            ),
            ("longer than the limit", "1", &huge, None),
        ];
        for (why, history, revision, expected) in cases {
            assert_eq!(
                longer_history(history, revision, HISTORY_LIMIT),
                expected,
                "{why}"
            );
        }
        // Upstream's case: five characters hold two revisions.
        assert_eq!(longer_history("17,18", "19", 5), Some("18,19".to_owned()));
    }
}
