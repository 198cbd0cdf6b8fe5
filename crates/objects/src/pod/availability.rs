//! Availability of pods: a pod is available after it has been ready for `minReadySeconds`.
//!
//! The API stores whole seconds, and no object changes when a pod becomes available. Controllers
//! therefore compute the time of the next check.
//!
//! Upstream: `IsPodAvailable` in `pkg/api/v1/pod`, and `FindMinNextPodAvailabilityCheck` in
//! `controller_utils.go`.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use steersman_values::clock::saturating_since;

use super::Pod;
use crate::Time;

impl Pod {
    /// Whether the pod has been ready for `min_ready_seconds` at the time `now`.
    pub fn is_available(&self, min_ready_seconds: i32, now: Timestamp) -> bool {
        let is_old =
            |since: Time| now.duration_since(since.into()) >= ready_time(min_ready_seconds);
        self.is_ready() && (min_ready_seconds == 0 || self.ready.since.is_some_and(is_old))
    }

    /// The time from `decided_at` until a ready pod becomes available; `None` if it is available or
    /// not ready, or if its transition time is unknown.
    pub fn next_availability_check(
        &self,
        min_ready_seconds: i32,
        decided_at: Timestamp,
    ) -> Option<Duration> {
        let since = self
            .ready
            .since
            .filter(|_| self.is_ready() && min_ready_seconds > 0)?;
        // A difference of times stays in range; a sum would overflow for times near the end of the
        // range.
        let ready_for = decided_at.duration_since(since.into());
        let left = ready_time(min_ready_seconds).saturating_sub(ready_for);
        Duration::try_from(left).ok().filter(|left| !left.is_zero())
    }
}

/// The delay after `now` until the next of `pods` becomes available.
///
/// `decided_at` is the time for which the controller counted the pods. The delay is zero if a pod
/// became available since then, and `min_ready_seconds` if no pod has a known time.
pub fn next_availability_check(
    pods: &[Arc<Pod>],
    min_ready_seconds: i32,
    decided_at: Timestamp,
    now: Timestamp,
) -> Duration {
    let checks = pods
        .iter()
        .filter_map(|pod| pod.next_availability_check(min_ready_seconds, decided_at));
    let all = Duration::try_from(ready_time(min_ready_seconds)).unwrap_or_default();
    checks.min().map_or(all, |delay| {
        delay.saturating_sub(saturating_since(now, decided_at))
    })
}

fn ready_time(min_ready_seconds: i32) -> SignedDuration {
    SignedDuration::from_secs(min_ready_seconds.max(0).into())
}
