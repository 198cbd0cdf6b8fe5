//! Pausing and resuming: a condition that keeps the time of a pause from counting against the
//! deadline.

use jiff::Timestamp;
use steersman_runtime::object::{Deployment, DeploymentStatus};

use super::conditions::{self, PROGRESSING, UNKNOWN, condition, reason};
use super::progress;

/// The status that tells of a pause or its end, when it does not yet. A missed deadline is not
/// covered up.
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
    fn a_pause_is_told_once_and_so_is_its_end() {
        // (paused, deadline, reason there, reason set)
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
        for (paused, deadline, there, expected) in cases {
            let conditions: Vec<_> = there
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
            assert_eq!(set.as_deref(), expected, "{paused} {deadline:?} {there:?}");
        }
    }
}
