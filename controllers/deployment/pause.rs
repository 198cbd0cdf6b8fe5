//! The `Progressing` condition of a paused and of a resumed Deployment.
//!
//! Both change `lastUpdateTime`, from which `progressDeadlineSeconds` counts. Thus the time of a
//! pause does not count against the deadline. Upstream: `checkPausedConditions` in `sync.go`. Pods are scaled
//! while a Deployment is paused, and only its rollout stops.

use jiff::Timestamp;
use steersman_objects::{Deployment, DeploymentStatus};

use super::conditions::{self, PROGRESSING, UNKNOWN, condition, reason};
use super::progress;

/// The status that reports a pause or its end, or `None` if `d` reports it already. A missed
/// deadline stays in the status.
///
/// The order of the checks is upstream's: without a deadline the condition has no use, and a reported failure
/// is worth more than the pause.
pub(super) fn status(d: &Deployment, now: Timestamp) -> Option<DeploymentStatus> {
    progress::deadline(d)?;
    let has = |reason| conditions::has_reason(&d.status.conditions, PROGRESSING, reason);
    if has(reason::PROGRESS_DEADLINE_EXCEEDED) || d.spec.paused == has(reason::DEPLOYMENT_PAUSED) {
        return None;
    }
    let (why, message) = if d.spec.paused {
        (reason::DEPLOYMENT_PAUSED, "Deployment is paused")
    } else {
        (reason::DEPLOYMENT_RESUMED, "Deployment is resumed")
    };
    let mut status = d.status.clone();
    conditions::set(
        &mut status.conditions,
        condition(PROGRESSING, UNKNOWN, why, message, now),
    );
    Some(status)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{self, deployment};

    #[test]
    fn a_pause_and_its_end_are_each_reported_once() {
        // (paused, deadline, current reason, reason set)
        let cases = [
            (true, Some(60), None, Some(reason::DEPLOYMENT_PAUSED)),
            (
                true,
                Some(60),
                Some(reason::REPLICA_SET_UPDATED),
                Some(reason::DEPLOYMENT_PAUSED),
            ),
            (true, Some(60), Some(reason::DEPLOYMENT_PAUSED), None),
            (
                true,
                Some(60),
                Some(reason::PROGRESS_DEADLINE_EXCEEDED),
                None,
            ),
            (true, None, None, None),
            (true, Some(i32::MAX), None, None),
            (false, Some(60), None, None),
            (false, Some(60), Some(reason::REPLICA_SET_UPDATED), None),
            (false, Some(60), Some(reason::DEPLOYMENT_RESUMED), None),
            (
                false,
                Some(60),
                Some(reason::DEPLOYMENT_PAUSED),
                Some(reason::DEPLOYMENT_RESUMED),
            ),
            (false, None, Some(reason::DEPLOYMENT_PAUSED), None),
        ];
        for (paused, deadline, current, expected) in cases {
            let conditions: Vec<_> = current
                .iter()
                .map(|r| testing::condition(PROGRESSING, UNKNOWN, r, 1))
                .collect();
            let d = deployment("web")
                .spec("paused", paused)
                .spec("progressDeadlineSeconds", deadline);
            let d = d.status("conditions", json!(conditions)).build();
            let status = status(&d, Timestamp::UNIX_EPOCH);
            let set = status.map(|status| {
                conditions::find(&status.conditions, PROGRESSING)
                    .unwrap()
                    .reason
                    .clone()
            });
            assert_eq!(
                set.as_deref(),
                expected,
                "{paused} {deadline:?} {current:?}"
            );
        }
    }
}
