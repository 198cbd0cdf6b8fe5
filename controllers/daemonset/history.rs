//! The revisions of a DaemonSet: which one is current, and which old ones are deleted.
//!
//! Upstream: `constructHistory`, `dedupCurHistories` and `cleanupHistory` in `update.go`.
//! Differences:
//!
//! - The newest revision is also current if it has other data, and a rollback to it would leave the
//!   template as it is. Other versions of Kubernetes store other data for the same template, and upstream
//!   restarts all pods at such an upgrade (kubernetes/kubernetes#134773).
//! - If several revisions have the same data, only the pods of these revisions get the label of the
//!   kept one. Upstream relabels all pods, so those of older templates are never updated
//!   (kubernetes/kubernetes#111280).

use std::collections::HashSet;
use std::sync::Arc;

use steersman_helpers::history::{self, Proposal, REVISION_LABEL};
use steersman_objects::{ControllerRevision, Pod};
use steersman_values::intern::Sym;

use super::layout::target_node;

/// The revisions of a DaemonSet, by their match with its template.
///
/// The templates of old ones are for `kubectl rollout undo`.
pub(super) struct Matched {
    /// The current revision; `None` if it does not exist yet.
    pub(super) current: Option<Arc<ControllerRevision>>,
    /// Further revisions for the current template.
    pub(super) duplicates: Vec<Arc<ControllerRevision>>,
    /// All other revisions, with the lowest number first.
    pub(super) old: Vec<Arc<ControllerRevision>>,
}

impl Matched {
    /// Compares `revisions` with the template of `proposal`. Of several equal ones, the one with
    /// the highest number is current.
    ///
    /// The newest old one counts as current if the proposal restores it, as the differences above say.
    pub(super) fn new(
        mut revisions: Vec<Arc<ControllerRevision>>,
        proposal: &Proposal<'_>,
    ) -> Self {
        history::sort(&mut revisions);
        let (mut equal, mut old): (Vec<_>, Vec<_>) = revisions
            .into_iter()
            .partition(|revision| proposal.equals(revision));
        if equal.is_empty() && old.last().is_some_and(|newest| proposal.restores(newest)) {
            equal.extend(old.pop());
        }
        Self {
            current: equal.pop(),
            duplicates: equal,
            old,
        }
    }

    /// The number of the current revision: one above all old ones.
    ///
    /// Thus a rollback gives the revision of the old template the highest number again. Upstream:
    /// `maxRevision` plus 1.
    pub(super) fn number(&self) -> i64 {
        history::next_number(&self.old)
    }

    /// The pods of `pods` that have the label of a duplicate.
    ///
    /// Pods with the kept label are left alone, even if a duplicate shares that label.
    pub(super) fn of_duplicates<'a>(&self, pods: &'a [Arc<Pod>]) -> Vec<&'a Arc<Pod>> {
        let labels: HashSet<&Sym> = self.duplicates.iter().filter_map(|r| label(r)).collect();
        let kept = self.current.as_deref().and_then(label);
        let has_label = |pod: &&Arc<Pod>| {
            let label = pod.meta.labels.get(REVISION_LABEL);
            label != kept && label.is_some_and(|label| labels.contains(label))
        };
        pods.iter().filter(has_label).collect()
    }
}

/// The label of `revision` that its pods have too.
pub(super) fn label(revision: &ControllerRevision) -> Option<&Sym> {
    revision.meta.labels.get(REVISION_LABEL)
}

/// The revisions of `old`, sorted by number, that exceed `limit` and have none of `pods`.
///
/// Revisions with pods count as well: of 12 old ones with a limit of 10, the two lowest without
/// pods are deleted.
///
/// Upstream: `cleanupHistory`. Finished pods count too, and pods without a target node do not. A negative
/// limit counts as 0.
pub(super) fn superfluous<'a>(
    old: &'a [Arc<ControllerRevision>],
    pods: &[Arc<Pod>],
    limit: i32,
) -> Vec<&'a Arc<ControllerRevision>> {
    let excess = old
        .len()
        .saturating_sub(usize::try_from(limit).unwrap_or(0));
    if excess == 0 {
        return Vec::new();
    }
    let on_nodes = pods.iter().filter(|pod| target_node(pod).is_some());
    let live: HashSet<&Sym> = on_nodes
        .filter_map(|pod| pod.meta.labels.get(REVISION_LABEL))
        .collect();
    let is_unused = |revision: &&Arc<ControllerRevision>| {
        label(revision).is_none_or(|label| !live.contains(label))
    };
    old.iter().filter(is_unused).take(excess).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use steersman_helpers::history::Style;
    use steersman_objects::template;
    use steersman_objects::{DaemonSet, Object};

    use super::*;
    use crate::testing::daemon_set;
    use crate::testing::pods::pod;

    fn revision(name: &str, number: i64, data: &str) -> Arc<ControllerRevision> {
        let metadata = json!({"name": name, "labels": {REVISION_LABEL: format!("hash-{name}")}});
        let json = format!(r#"{{"metadata":{metadata},"revision":{number},"data":{data}}}"#);
        Arc::new(ControllerRevision::decode(json.as_bytes()).unwrap())
    }

    fn names<'a>(revisions: impl IntoIterator<Item = &'a Arc<ControllerRevision>>) -> Vec<&'a str> {
        let names = revisions.into_iter().map(|revision| &*revision.meta.name);
        names.collect()
    }

    /// Matches revisions `(name, number, data)` with the template of a DaemonSet. The data is that
    /// of the template, or of another version of Kubernetes, or different.
    fn matched(revisions: &[(&str, i64, &str)]) -> Matched {
        let ds = daemon_set("foo").build();
        let template = template::defaulted(&ds.template());
        let proposal = Proposal::new::<DaemonSet>(
            Style::DaemonSet,
            &ds.meta,
            &ds.document,
            &template,
            None,
            0,
        );
        let same = proposal.data().to_owned();
        let mut foreign: Value = serde_json::from_str(&same).unwrap();
        foreign["spec"]["template"]["metadata"]["creationTimestamp"] = Value::Null;
        let foreign = foreign.to_string();
        let data = |kind: &str| match kind {
            "same" => same.clone(),
            "foreign" => foreign.clone(),
            _ => r#"{"spec":{"template":{"$patch":"replace"}}}"#.to_owned(),
        };
        let revisions = revisions
            .iter()
            .map(|(name, number, kind)| revision(name, *number, &data(kind)));
        Matched::new(revisions.collect(), &proposal)
    }

    #[test]
    fn revisions_are_compared_with_the_template() {
        // (why, revisions, current, duplicates, old, number)
        let cases: [(&str, &[_], Option<&str>, &[&str], &[&str], i64); 8] = [
            ("none", &[], None, &[], &[], 1),
            ("new template", &[("a", 1, "other")], None, &[], &["a"], 2),
            (
                "known template",
                &[("b", 2, "same"), ("a", 1, "other")],
                Some("b"),
                &[],
                &["a"],
                2,
            ),
            (
                "rollback",
                &[("b", 2, "other"), ("a", 1, "same")],
                Some("a"),
                &[],
                &["b"],
                3,
            ),
            (
                "duplicates",
                &[("b", 5, "same"), ("a", 3, "same"), ("c", 4, "other")],
                Some("b"),
                &["a"],
                &["c"],
                5,
            ),
            (
                "two of one number",
                &[("b", 1, "same"), ("a", 1, "same")],
                Some("b"),
                &["a"],
                &[],
                1,
            ),
            (
                "of another version",
                &[("a", 1, "other"), ("b", 2, "foreign")],
                Some("b"),
                &[],
                &["a"],
                2,
            ),
            (
                "an older one of another version",
                &[("a", 1, "foreign"), ("b", 2, "other")],
                None,
                &[],
                &["a", "b"],
                3,
            ),
        ];
        for (why, revisions, current, duplicates, old, number) in cases {
            let found = matched(revisions);
            assert_eq!(
                found.current.as_ref().map(|r| &*r.meta.name),
                current,
                "{why}"
            );
            assert_eq!(names(&found.duplicates), duplicates, "{why}");
            assert_eq!(names(&found.old), old, "{why}");
            assert_eq!(found.number(), number, "{why}");
        }
    }

    #[test]
    fn only_pods_of_duplicates_are_relabelled() {
        let found = matched(&[
            ("kept", 5, "same"),
            ("twin", 3, "same"),
            ("old", 4, "other"),
        ]);
        let of = |revision: &str| {
            let labels = json!({REVISION_LABEL: format!("hash-{revision}")});
            Arc::new(pod(revision).labels(labels).build())
        };
        let unlabelled = Arc::new(pod("none").build());
        let pods = [of("kept"), of("twin"), of("old"), unlabelled];
        let relabelled = found.of_duplicates(&pods);
        let names: Vec<&str> = relabelled.iter().map(|pod| &*pod.meta.name).collect();
        assert_eq!(names, ["twin"]);
    }

    #[test]
    fn revisions_beyond_the_limit_are_deleted_unless_pods_have_them() {
        let old: Vec<_> = (1..=5)
            .map(|number| revision(&format!("r{number}"), number, "null"))
            .collect();
        let on_node = |revision: &str, node: &str| {
            let labels = json!({REVISION_LABEL: format!("hash-{revision}")});
            Arc::new(pod(revision).labels(labels).node(node).build())
        };
        // (why, limit, pods, deleted)
        let cases: [(&str, i32, Vec<_>, &[&str]); 6] = [
            ("below the limit", 5, vec![], &[]),
            ("two above", 3, vec![], &["r1", "r2"]),
            ("with pods", 3, vec![on_node("r1", "n")], &["r2", "r3"]),
            (
                "pods without a node",
                3,
                vec![on_node("r1", "")],
                &["r1", "r2"],
            ),
            (
                "all with pods",
                0,
                (1..=5).map(|n| on_node(&format!("r{n}"), "n")).collect(),
                &[],
            ),
            ("no limit kept", 0, vec![], &["r1", "r2", "r3", "r4", "r5"]),
        ];
        for (why, limit, pods, expected) in cases {
            assert_eq!(names(superfluous(&old, &pods, limit)), expected, "{why}");
        }
    }
}
