//! The decision whether a Job ends, and why.
//!
//! The first match counts: an end that the status announces already, then failures, then successes.
//! So a Job fails after too many failures, even if its last pod succeeds. The interim conditions
//! `FailureTarget` and `SuccessCriteriaMet` announce an end; see [`crate::job::tracking`] for the
//! steps from there to the final condition. Upstream: the middle part of `syncJob`.
//!
//! Only `completions_reached` is asked after the pods of the sync were managed: completions are a success
//! only without active pods. All else is decided before, since an end deletes the active pods.

use std::time::Duration;

use jiff::Timestamp;
use steersman_objects::conditions::{self, TRUE};
use steersman_objects::{Condition, Job, Phase};

use super::conditions::{FAILURE_TARGET, SUCCESS_CRITERIA_MET};
use super::pod_failure_policy::{self, Action};
use super::pods::{JobPod, has_failed};
use super::snapshot::{Indexed, Snapshot};
use super::success_policy;

/// The end of a Job. It lives for one sync. The status carries it to the next one, by the interim condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finish {
    /// Whether the Job is complete; otherwise it failed.
    pub(super) is_complete: bool,
    /// Reason of the conditions. Users and other controllers match it. Upstream: the constants `JobReason...`
    /// of `batch/v1`.
    pub(super) reason: String,
    /// Message of the conditions. A policy puts the pod or the rule into it.
    pub(super) message: String,
    /// Whether the status has the interim condition already. Then no second interim condition is added.
    pub(super) is_announced: bool,
}

impl Finish {
    fn complete(reason: &str, message: impl Into<String>) -> Self {
        Self {
            is_complete: true,
            reason: reason.to_owned(),
            message: message.into(),
            is_announced: false,
        }
    }

    fn failed(reason: &str, message: impl Into<String>) -> Self {
        Self {
            is_complete: false,
            ..Self::complete(reason, message)
        }
    }

    /// Whether a policy of the Job decided about its end. Such an end has an interim condition even if
    /// `JobGates::delays_ends` is false: the reason is in the pods, which vanish.
    pub(super) fn is_by_policy(&self) -> bool {
        ["PodFailurePolicy", "SuccessPolicy"].contains(&&*self.reason)
    }

    /// The end that the interim condition `condition` announced. The condition has the reason, so later pods
    /// and limits cannot change an end that users have seen.
    fn announced(condition: &Condition, is_complete: bool) -> Self {
        Self {
            is_complete,
            reason: condition.reason.to_string(),
            message: condition.message.to_string(),
            is_announced: true,
        }
    }
}

/// The end of the Job in `snapshot`, if it ends now. `start` is its start time, or the time at which
/// this sync starts it.
///
/// The order is that of `syncJob`. It matters when several ends hold at once: a policy gives the more precise
/// reason, so it precedes the limits. Successes come last, since a failed limit is final even for a Job that
/// succeeds at the same time.
pub(super) fn evaluate(
    snapshot: &Snapshot<'_>,
    start: Option<Timestamp>,
    now: Timestamp,
) -> Option<Finish> {
    announced(snapshot.job)
        .or_else(|| failed_by_policy(snapshot))
        .or_else(|| failed_by_limit(snapshot, start, now))
        // Only an Indexed Job can fail or succeed by indexes.
        .or_else(|| {
            let indexed = snapshot.indexed.as_ref()?;
            failed_by_indexes(snapshot.job, indexed).or_else(|| succeeded(snapshot.job, indexed))
        })
}

/// The time until the Job exceeds `activeDeadlineSeconds`; `None` without a deadline, and for a
/// suspended Job. Zero means that the deadline has passed.
///
/// Upstream: `pastActiveDeadline`. The deadline is reached at the exact second, and not only after it.
pub(super) fn deadline_in(job: &Job, start: Option<Timestamp>, now: Timestamp) -> Option<Duration> {
    if job.spec.suspend {
        return None;
    }
    // Validation excludes negative deadlines; such a one has passed at once.
    let seconds = u64::try_from(job.spec.active_deadline_seconds?).unwrap_or(0);
    let end = start?
        .saturating_add(Duration::from_secs(seconds))
        .unwrap_or(Timestamp::MAX);
    Some(Duration::try_from(end.duration_since(now)).unwrap_or(Duration::ZERO))
}

/// The end by completions, evaluated after pods were created and deleted. `active` is the number of
/// active pods then.
///
/// Upstream: `newSuccessCondition` and the branch before it in `syncJob`.
pub(super) fn completions_reached(snapshot: &Snapshot<'_>, active: usize) -> Option<Finish> {
    let is_reached = match snapshot.job.spec.completions {
        // The pods agree among themselves when the work is done, so one success is enough.
        None => snapshot.succeeded > 0,
        // More successes than completions are possible: a user may lower `completions`, or pods end at the
        // same time.
        Some(completions) => snapshot.succeeded >= i64::from(completions),
    };
    let message = "Reached expected number of succeeded pods";
    (is_reached && active == 0).then(|| Finish::complete("CompletionsReached", message))
}

/// Upstream: `hasSuccessCriteriaMetCondition`, then `JobFailureTarget`.
fn announced(job: &Job) -> Option<Finish> {
    let find = |kind| {
        conditions::find(&job.status.conditions, kind).filter(|condition| condition.status == TRUE)
    };
    find(SUCCESS_CRITERIA_MET)
        .map(|condition| Finish::announced(condition, true))
        .or_else(|| find(FAILURE_TARGET).map(|condition| Finish::announced(condition, false)))
}

/// Upstream: `getFailJobMessage`. As upstream, failed pods that are counted already are asked, too.
fn failed_by_policy(snapshot: &Snapshot<'_>) -> Option<Finish> {
    let spec = &snapshot.job.spec;
    spec.pod_failure_policy.as_ref()?;
    let mut failed = snapshot.pods.iter().filter(|pod| has_failed(pod, spec));
    let message = failed.find_map(|pod| match pod_failure_policy::action(spec, pod) {
        Some(Action::FailJob(message)) => Some(message),
        _ => None,
    })?;
    Some(Finish::failed("PodFailurePolicy", message))
}

/// The limit precedes the deadline, as upstream. `backoffLimit` is the number of retries, so it must be
/// exceeded.
fn failed_by_limit(
    snapshot: &Snapshot<'_>,
    start: Option<Timestamp>,
    now: Timestamp,
) -> Option<Finish> {
    let job = snapshot.job;
    let exceeds = snapshot.failed > i64::from(job.spec.backoff_limit);
    if exceeds || has_too_many_restarts(job, &snapshot.pods) {
        let message = "Job has reached the specified backoff limit";
        return Some(Finish::failed("BackoffLimitExceeded", message));
    }
    let is_late = deadline_in(job, start, now).is_some_and(|left| left.is_zero());
    let message = "Job was active longer than specified deadline";
    is_late.then(|| Finish::failed("DeadlineExceeded", message))
}

/// Whether kubelets restarted containers too often, for pods that are restarted in place. There is
/// one retry less than with new pods, as in upstream's `pastBackoffLimitOnFailure`.
fn has_too_many_restarts(job: &Job, pods: &[JobPod]) -> bool {
    if !job.spec.restarts_on_failure {
        return false;
    }
    let running = pods
        // A pod that ended counts as a failure of its own, so its restarts are left out.
        .iter()
        .filter(|pod| matches!(pod.phase, Phase::Running | Phase::Pending));
    let restarts: i64 = running
        .map(|pod| i64::from(pod.restarts) + i64::from(pod.details().further_restarts))
        .sum();
    let limit = i64::from(job.spec.backoff_limit);
    // The limit 0 means that no restart is allowed, in spite of the `>=` below.
    if limit == 0 {
        restarts > 0
    } else {
        restarts >= limit
    }
}

/// A Job goes on after failed indexes until the other indexes have ended, so that one bad index costs no good
/// one. `maxFailedIndexes` ends it earlier.
fn failed_by_indexes(job: &Job, indexed: &Indexed) -> Option<Finish> {
    let failed = indexed.per_index.as_ref()?.failed.len();
    let maximum = job.spec.max_failed_indexes.map(i64::from);
    if maximum.is_some_and(|maximum| failed > maximum) {
        let message = "Job has exceeded the specified maximal number of failed indexes";
        return Some(Finish::failed("MaxFailedIndexesExceeded", message));
    }
    let all_ended = failed + indexed.succeeded.len() >= indexed.completions;
    (failed > 0 && all_ended).then(|| Finish::failed("FailedIndexes", "Job has failed indexes"))
}

/// The policy may be met long before all indexes have succeeded; remaining pods are then deleted.
fn succeeded(job: &Job, indexed: &Indexed) -> Option<Finish> {
    let policy = job.spec.success_policy.as_ref()?;
    let rule = success_policy::matching_rule(policy, indexed.completions, &indexed.succeeded)?;
    let message = format!("Matched rules at index {rule}");
    Some(Finish::complete("SuccessPolicy", message))
}

#[cfg(test)]
mod tests;
