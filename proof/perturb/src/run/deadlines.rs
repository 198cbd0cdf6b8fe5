//! Deadlines of a run: the time of the reference run, plus the duration of the fault, plus a
//! minute.
//!
//! A longer limit would hide bugs. A controller that missed an event recovers later anyway, when
//! expectations expire after five minutes or when the watch ends.

use std::time::Duration;

use steersman_devcluster::DevCluster;
use steersman_devcluster::faults::RuleId;
use tokio::time::Instant;

use super::{BACK_OFF, TAKEOVER};
use crate::manager::REQUEST_TIMEOUT;
use crate::oracle::is_discovery;
use crate::pace::Pace;
use crate::plan::{Answer, EventPlan, Plan};
use crate::recording::Recording;

/// Time after which an informer gives up a watch request without an answer: the longest time that a
/// watch lasts. Upstream's reflector waits as long for the server to end the watch.
const WATCH: Duration = Duration::from_secs(660);

/// Time after which the namespace controller gives up a `deletecollection` without an answer. Its
/// limit of five minutes is longer than that of other requests.
const COLLECTION: Duration = Duration::from_secs(302);

/// The times at which the waits of a run ended, and the times by which they must end.
pub(super) struct Deadlines {
    begun: Instant,
    pace: &'static Pace,
    /// The times of the reference run; empty in a reference run.
    expected: Vec<Duration>,
    fault_duration: Duration,
    /// The longest wait of the reference run. After a restart, a process may have to wait that long
    /// again, such as podgc for a node to return.
    longest_wait: Duration,
    /// For a plan that changes an answer: the cluster, the rule, and whether the request gets no
    /// answer at all.
    answered: Option<(DevCluster, RuleId, bool)>,
    reached: Vec<Duration>,
}

impl Deadlines {
    pub(super) fn new(
        cluster: &DevCluster,
        plan: &Plan,
        faults: &[RuleId],
        reference: &Recording,
    ) -> Self {
        let is_timeout = matches!(plan, Plan::Answer(_, Answer::Timeout | Answer::LateTimeout));
        let is_answer = matches!(plan, Plan::Answer(..));
        let answered = faults
            .first()
            .filter(|_| is_answer)
            .map(|rule| (cluster.clone(), *rule, is_timeout));
        let begun = std::iter::once(&Duration::ZERO).chain(&reference.reached);
        let longest_wait = begun
            .zip(&reference.reached)
            .map(|(from, to)| to.saturating_sub(*from))
            .max()
            .unwrap_or_default();
        let expected = reference.reached.clone();
        let pace = reference.subject.pace();
        let fault_duration = fault_duration(plan, longest_wait, pace);
        Self {
            begun: Instant::now(),
            pace,
            expected,
            fault_duration,
            longest_wait,
            answered,
            reached: Vec::new(),
        }
    }

    /// The allowed delay relative to the reference run.
    fn grace(&self) -> Duration {
        let fault = match self.hit() {
            Some((hit, true)) if hit.starts_with("watch ") => WATCH,
            Some((hit, true)) if hit.starts_with("deletecollection ") => COLLECTION,
            // A failed discovery request may have ended the process.
            Some((hit, _)) if is_discovery(&hit) => {
                self.fault_duration + BACK_OFF + self.longest_wait
            }
            _ => self.fault_duration,
        };
        fault + self.pace.slack
    }

    /// The time after the final state during which the fault may still cause writes.
    pub(super) fn settle(&self) -> Duration {
        match self.hit() {
            Some((hit, true)) if hit.starts_with("deletecollection ") => {
                COLLECTION + self.pace.settle
            }
            _ => self.pace.settle,
        }
    }

    /// The request with the faulty answer, and whether it got no answer at all.
    fn hit(&self) -> Option<(String, bool)> {
        let (cluster, rule, is_timeout) = self.answered.as_ref()?;
        Some((cluster.faults().last_hit(*rule)?, *is_timeout))
    }

    /// Whether the wait that began at `since` should have ended by now.
    pub(super) fn is_late(&self, since: Instant) -> bool {
        match self.expected.get(self.reached.len()) {
            Some(expected) => self.begun.elapsed() >= *expected + self.grace(),
            None if self.expected.is_empty() => since.elapsed() >= self.pace.reference,
            // The run has reached the final state once already.
            None => since.elapsed() >= self.grace(),
        }
    }

    /// Records the end of a wait.
    pub(super) fn reach(&mut self) {
        self.reached.push(self.begun.elapsed());
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    pub(super) fn into_reached(self) -> Vec<Duration> {
        self.reached
    }
}

/// The longest delay that the plan's fault explains. A restarted process adds `longest_wait`,
/// because it may have to repeat that wait.
fn fault_duration(plan: &Plan, longest_wait: Duration, pace: &Pace) -> Duration {
    match plan {
        Plan::Nothing => Duration::ZERO,
        Plan::Crash(points) => points.iter().map(|_| pace.restart + longest_wait).sum(),
        Plan::Failover(..) => TAKEOVER + longest_wait,
        Plan::Stale(..) | Plan::StaleOf(..) | Plan::StaleEvent(..) => {
            pace.restart + pace.lag + longest_wait
        }
        Plan::Event(_, _, EventPlan::Stall) => Duration::from_secs(40),
        Plan::Event(..) => Duration::from_secs(2),
        // The client waits for the answer, and repeats the request a little later.
        Plan::Answer(_, Answer::Timeout | Answer::LateTimeout) => {
            REQUEST_TIMEOUT + Duration::from_secs(2)
        }
        Plan::Answer(..) => Duration::from_secs(2),
        // The last failed try before the group returns is followed by a long back-off.
        Plan::Hidden(..) => pace.hidden + BACK_OFF + longest_wait,
        // Many short delays, one after another.
        Plan::Shuffle(_) => Duration::from_secs(30),
    }
}
