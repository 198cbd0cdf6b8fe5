//! The time at which a finished Job expires.
//!
//! Upstream: `needsCleanup`, `jobFinishTime` and `timeLeft` in `ttlafterfinished_controller.go`.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use steersman_objects::Job;

/// The state of a Job at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expiry {
    /// The Job runs, has no TTL, or is being deleted.
    None,
    /// The Job expires after this time.
    In(Duration),
    /// The Job expired at this time.
    At(Timestamp),
}

/// A finished Job has no time in its condition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unable to find the time when the Job {0} finished")]
pub(super) struct NoFinishTime(pub(super) String);

/// Whether the Job is finished, has a TTL, and is not being deleted.
pub(super) fn needs_cleanup(job: &Job) -> bool {
    !job.meta.is_terminating()
        && job.spec.ttl_seconds_after_finished.is_some()
        && job.finished().is_some()
}

/// The state of `job` at `now`.
pub(super) fn expiry(job: &Job, now: Timestamp) -> Result<Expiry, NoFinishTime> {
    let Some(ttl) = job.spec.ttl_seconds_after_finished else {
        return Ok(Expiry::None);
    };
    let Some(end) = job.finished() else {
        return Ok(Expiry::None);
    };
    if job.meta.is_terminating() {
        return Ok(Expiry::None);
    }
    let Some(finished) = end.last_transition_time else {
        return Err(NoFinishTime(format!(
            "{}/{}",
            job.meta.namespace, job.meta.name
        )));
    };
    if finished > now {
        tracing::info!(
            "Found Job finished in the future. This is likely due to time skew in the cluster. Job cleanup will be deferred."
        );
    }
    let ttl = SignedDuration::from_secs(i64::from(ttl));
    let expires = finished.saturating_add(ttl).unwrap_or(Timestamp::MAX);
    Ok(match Duration::try_from(expires.duration_since(now)) {
        Ok(left) if !left.is_zero() => Expiry::In(left),
        _ => Expiry::At(expires),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::batch::job;
    use crate::testing::time;

    /// Upstream: `TestTimeLeft`.
    #[test]
    fn time_left() {
        let now = 1_000_000;
        let at = |second| Timestamp::from_second(second).unwrap();
        let left = |seconds| Expiry::In(Duration::from_secs(seconds));
        let complete = Some("Complete");
        let failed = Some("Failed");
        // (case, condition, seconds since then, TTL, expiry)
        let cases = [
            (
                "Error case: Job unfinished",
                None,
                0,
                Some(100),
                Expiry::None,
            ),
            (
                "Error case: Job completed now, no TTL",
                complete,
                0,
                None,
                Expiry::None,
            ),
            (
                "Job completed now, 0s TTL",
                complete,
                0,
                Some(0),
                Expiry::At(at(now)),
            ),
            (
                "Job completed now, 10s TTL",
                complete,
                0,
                Some(10),
                left(10),
            ),
            (
                "Job completed 10s ago, 15s TTL",
                complete,
                10,
                Some(15),
                left(5),
            ),
            (
                "Error case: Job failed now, no TTL",
                failed,
                0,
                None,
                Expiry::None,
            ),
            (
                "Job failed now, 0s TTL",
                failed,
                0,
                Some(0),
                Expiry::At(at(now)),
            ),
            ("Job failed now, 10s TTL", failed, 0, Some(10), left(10)),
            ("Job failed 10s ago, 15s TTL", failed, 10, Some(15), left(5)),
            (
                "expired long ago",
                complete,
                3600,
                Some(100),
                Expiry::At(at(now - 3500)),
            ),
            ("finished in the future", complete, -60, Some(10), left(70)),
            (
                "other conditions are no end",
                Some("FailureTarget"),
                0,
                Some(0),
                Expiry::None,
            ),
        ];
        for (case, condition, ago, ttl, expected) in cases {
            let mut job = job("foobar").spec("ttlSecondsAfterFinished", ttl);
            if let Some(condition) = condition {
                job = job.finished(condition, now - ago);
            }
            let deleted = job.clone().metadata("deletionTimestamp", time(now)).build();
            let job = job.build();
            assert_eq!(expiry(&job, at(now)), Ok(expected), "{case}");
            assert_eq!(needs_cleanup(&job), expected != Expiry::None, "{case}");
            assert_eq!(expiry(&deleted, at(now)), Ok(Expiry::None), "{case}");
            assert!(!needs_cleanup(&deleted), "{case}");
        }
    }

    #[test]
    fn a_finished_job_without_a_time_is_an_error() {
        let condition = serde_json::json!([{"type": "Complete", "status": "True"}]);
        let job = job("foobar")
            .spec("ttlSecondsAfterFinished", 1)
            .status("conditions", condition);
        let error = expiry(&job.build(), Timestamp::UNIX_EPOCH).unwrap_err();
        let expected = "unable to find the time when the Job default/foobar finished";
        assert_eq!(error.to_string(), expected);
    }
}
