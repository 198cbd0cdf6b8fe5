//! The invariant of evictions.

use steersman_client::Violation;
use steersman_objects::{Taint, Toleration};

/// The invariant of this file.
pub(super) const TOLERATING_POD: &str = "tolerating_pod";

/// `tolerating_pod`: no pod is evicted from a node without NoExecute taints, and none that tolerates all
/// taints for ever, as pods of DaemonSets of the system do.
///
/// Tolerations of single taints are left to the decision.
pub(super) fn may_be_evicted(
    taints: &[Taint],
    tolerations: &[Toleration],
) -> Result<(), Violation> {
    let is_tainted = taints.iter().any(|taint| taint.effect == *"NoExecute");
    let tolerates_all = |toleration: &Toleration| {
        toleration.key == *""
            && toleration.operator == *"Exists"
            && (toleration.effect == *"" || toleration.effect == *"NoExecute")
    };
    // An earlier toleration with a time counts in place of a later one.
    let ends = tolerations
        .iter()
        .any(|toleration| toleration.toleration_seconds.is_some());
    let stays = !ends && tolerations.iter().any(tolerates_all);
    Violation::unless(is_tainted && !stays, TOLERATING_POD, || {
        let taints = taints.len();
        format!(
            "evict a pod from a node with {taints} taints, NoExecute: {is_tainted}, tolerated for ever: {stays}"
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use steersman_helpers::scheduling::Comparisons;

    use super::*;
    use crate::tainteviction::tolerance::{Tolerance, no_execute, of_pod};
    use crate::testing::pods::pod;

    fn taints(effects: &[&str]) -> Vec<Taint> {
        let taint = |effect: &&str| json!({"key": "k", "value": "v", "effect": effect});
        serde_json::from_value(effects.iter().map(taint).collect()).unwrap()
    }

    #[test]
    fn pods_that_tolerate_everything_stay() {
        let all = json!({"operator": "Exists"});
        let all_no_execute = json!({"operator": "Exists", "effect": "NoExecute"});
        let all_no_schedule = json!({"operator": "Exists", "effect": "NoSchedule"});
        let all_for_a_time =
            json!({"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5});
        let one = json!({"key": "k", "operator": "Equal", "value": "v"});
        let other = json!({"key": "other", "operator": "Exists"});
        // (taints, tolerations, allowed)
        let cases: [(&[&str], Value, bool); 11] = [
            (&["NoExecute"], json!([]), true),
            (&["NoExecute"], json!([other]), true),
            (&["NoExecute"], json!([all_no_schedule]), true),
            (&["NoExecute"], json!([all_for_a_time]), true),
            (&["NoExecute"], json!([all_for_a_time, all]), true),
            // The decision keeps it.
            (&["NoExecute"], json!([one]), true),
            (&["NoExecute"], json!([all]), false),
            (
                &["NoExecute", "NoSchedule"],
                json!([other, all_no_execute]),
                false,
            ),
            (&["NoSchedule"], json!([]), false),
            (&["NoSchedule"], json!([all]), false),
            (&[], json!([]), false),
        ];
        for (effects, tolerations, allowed) in cases {
            let pod = pod("web").spec("tolerations", tolerations.clone()).build();
            let tolerations_of_pod = &pod.spec.tolerations;
            let taints = taints(effects);
            let checked = may_be_evicted(&taints, tolerations_of_pod);
            assert_eq!(
                checked.is_ok(),
                allowed,
                "{effects:?} {tolerations}: {checked:?}"
            );
            let stays =
                of_pod(&taints, tolerations_of_pod, Comparisons::Disabled) == Tolerance::Forever;
            let has_to_go = no_execute(&taints).next().is_some() && !stays;
            assert!(allowed || !has_to_go, "{effects:?} {tolerations}");
        }
    }
}
