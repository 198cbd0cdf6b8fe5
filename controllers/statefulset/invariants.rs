//! The invariant of deletions: a pod that the set still wants stays.
//!
//! `plan/` keeps it; this check is independent, and it stands directly before the deletion. A violation stops
//! the write, and a metric counts it.

use steersman_client::Violation;
use steersman_helpers::history::REVISION_LABEL;
use steersman_objects::{Phase, Pod, StatefulSet, UpdateStrategy};

/// The invariant of this file.
pub(super) const WANTED: &str = "wanted_pods";

/// `wanted_pods`: a set deletes a pod only if the pod has ended, if its ordinal is outside
/// `spec.replicas`, or if an update replaces it by one of the revision `update`.
///
/// Pods are counted from the start ordinal, so the partition is an index and no ordinal.
pub(super) fn may_be_deleted(set: &StatefulSet, update: &str, pod: &Pod) -> Result<(), Violation> {
    // Parsed anew, so that a fault of `identity.rs` cannot hide one of the plan.
    let index = pod.meta.name.rsplit_once('-');
    let index = index.and_then(|(_, digits)| digits.parse::<i64>().ok());
    let index = index.map(|ordinal| ordinal - i64::from(set.spec.start_ordinal));
    let is_wanted = |index: i64| (0..i64::from(set.spec.replicas)).contains(&index);
    let partition = match &set.spec.update_strategy {
        // Under `OnDelete` no partition is reached, and users replace the pods.
        UpdateStrategy::OnDelete => i64::MAX,
        UpdateStrategy::RollingUpdate { partition, .. } | UpdateStrategy::Other { partition } => {
            partition.map_or(0, i64::from)
        }
        UpdateStrategy::Recreate => 0,
    };
    let revision = pod.meta.labels.get(REVISION_LABEL);
    let revision = revision.map_or("", |label| label);
    let has_ended = matches!(pod.phase, Phase::Succeeded | Phase::Failed);
    let holds = has_ended
        || index.is_some_and(|index| !is_wanted(index) || index >= partition && revision != update);
    Violation::unless(holds, WANTED, || {
        let replicas = set.spec.replicas;
        format!(
            "delete the pod with the index {index:?} and the revision {revision:?}, of {replicas} wanted, update revision {update:?}, partition {partition}"
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::pods::{PodBuilder, pod};
    use crate::testing::{StatefulSetBuilder, stateful_set};

    #[test]
    fn only_ended_surplus_and_outdated_pods_may_be_deleted() {
        let of = |name: &str, revision: &str| pod(name).labels(json!({REVISION_LABEL: revision}));
        let web = || stateful_set("web").replicas(3);
        let partition = |from: i32| {
            let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": from}});
            web().update_strategy(strategy)
        };
        let on_delete = || web().update_strategy(json!({"type": "OnDelete"}));
        let from_five = || web().spec("ordinals", json!({"start": 5}));
        // (why, set, pod, allowed)
        let recreated = || web().update_strategy(json!({"type": "Recreate"}));
        let cases: [(&str, StatefulSetBuilder, PodBuilder, bool); 14] = [
            ("current", web(), of("web-0", "new"), false),
            ("outdated", web(), of("web-0", "old"), true),
            ("without a revision", web(), pod("web-0"), true),
            (
                "outdated above the partition",
                partition(2),
                of("web-2", "old"),
                true,
            ),
            (
                "outdated below the partition",
                partition(2),
                of("web-1", "old"),
                false,
            ),
            (
                "outdated, with OnDelete",
                on_delete(),
                of("web-2", "old"),
                false,
            ),
            (
                "outdated, with Recreate",
                recreated(),
                of("web-0", "old"),
                true,
            ),
            (
                "current, with Recreate",
                recreated(),
                of("web-0", "new"),
                false,
            ),
            (
                "failed",
                on_delete(),
                of("web-0", "new").phase("Failed"),
                true,
            ),
            (
                "succeeded",
                web(),
                of("web-0", "new").phase("Succeeded"),
                true,
            ),
            ("beyond the size", on_delete(), of("web-3", "new"), true),
            (
                "below the first ordinal",
                from_five(),
                of("web-4", "new"),
                true,
            ),
            (
                "the last of a late start",
                from_five(),
                of("web-7", "new"),
                false,
            ),
            ("a name without an ordinal", web(), of("web", "old"), false),
        ];
        for (why, set, pod, allowed) in cases {
            let checked = may_be_deleted(&set.build(), "new", &pod.build());
            assert_eq!(checked.is_ok(), allowed, "{why}: {checked:?}");
        }
    }
}
