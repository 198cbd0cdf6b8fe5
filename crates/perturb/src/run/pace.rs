//! How long a run may take: as long as the reference did, and what the fault takes.

use std::time::Duration;

use steersman_devcluster::DevCluster;
use steersman_devcluster::faults::RuleId;
use tokio::time::Instant;

use super::{BACK_OFF, HIDDEN, LAG, RESTART, TAKEOVER};
use crate::manager::REQUEST_TIMEOUT;
use crate::oracle::is_look;
use crate::plan::{Answer, EventPlan, Plan};
use crate::recording::Recording;

/// How long a user waits for something to become so, and everybody for the end, where no reference
/// says how long that takes.
pub(super) const PATIENCE: Duration = Duration::from_secs(30 * 60);
/// Beyond what the fault itself takes. Shorter than whatever rescues a controller that missed its
/// cue: expectations time out after five minutes, watches end after five at least.
const SLACK: Duration = Duration::from_secs(60);

/// A watch that is never answered is given up when it would have ended. Upstream's reflector waits
/// for the server to end it, for as long.
const WATCH: Duration = Duration::from_secs(660);

/// A deletion of a collection that is never answered is given up later than other requests, by the
/// namespace controller.
const COLLECTION: Duration = Duration::from_secs(302);

/// Longer than anything else that a plan breaks stays broken.
const SETTLE: Duration = Duration::from_secs(90);

/// How fast a story goes, and is to go.
pub(super) struct Pace {
    begun: Instant,
    expected: Vec<Duration>,
    lasts: Duration,
    /// What a process was waiting for, such as podgc for a node to come back, the next one waits
    /// for anew.
    anew: Duration,
    /// Tells which request is answered badly, and whether it gets no answer at all.
    answered: Option<(DevCluster, RuleId, bool)>,
    reached: Vec<Duration>,
}

impl Pace {
    pub(super) fn new(
        cluster: &DevCluster,
        plan: &Plan,
        faults: &[RuleId],
        reference: &Recording,
    ) -> Self {
        let is_silence = matches!(plan, Plan::Answer(_, Answer::Timeout | Answer::LateTimeout));
        let is_answer = matches!(plan, Plan::Answer(..));
        let answered = faults
            .first()
            .filter(|_| is_answer)
            .map(|rule| (cluster.clone(), *rule, is_silence));
        let begun = std::iter::once(&Duration::ZERO).chain(&reference.reached);
        let anew = begun
            .zip(&reference.reached)
            .map(|(from, to)| to.saturating_sub(*from))
            .max()
            .unwrap_or_default();
        let (expected, lasts) = (reference.reached.clone(), lasts(plan, anew));
        Self {
            begun: Instant::now(),
            expected,
            lasts,
            anew,
            answered,
            reached: Vec::new(),
        }
    }

    /// How much longer than in the reference it may take.
    fn grace(&self) -> Duration {
        let lasts = match self.hit() {
            Some((hit, true)) if hit.starts_with("watch ") => WATCH,
            Some((hit, true)) if hit.starts_with("deletecollection ") => COLLECTION,
            // It may have ended the process.
            Some((hit, _)) if is_look(&hit) => self.lasts + BACK_OFF + self.anew,
            _ => self.lasts,
        };
        lasts + SLACK
    }

    /// How long what the plan broke may stay broken.
    pub(super) fn settle(&self) -> Duration {
        match self.hit() {
            Some((hit, true)) if hit.starts_with("deletecollection ") => COLLECTION + SETTLE,
            _ => SETTLE,
        }
    }

    /// The request that was answered badly, and whether it got no answer at all.
    fn hit(&self) -> Option<(String, bool)> {
        let (cluster, rule, is_silence) = self.answered.as_ref()?;
        Some((cluster.faults().last_hit(*rule)?, *is_silence))
    }

    /// Whether the wait that began then is to be over by now.
    pub(super) fn is_late(&self, since: Instant) -> bool {
        match self.expected.get(self.reached.len()) {
            Some(expected) => self.begun.elapsed() >= *expected + self.grace(),
            None if self.expected.is_empty() => since.elapsed() >= PATIENCE,
            // It has been at the end before.
            None => since.elapsed() >= self.grace(),
        }
    }

    /// A wait is over.
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

/// For how long a plan holds the story up, at most, where a process that starts anew takes so much
/// longer.
fn lasts(plan: &Plan, anew: Duration) -> Duration {
    match plan {
        Plan::Nothing => Duration::ZERO,
        Plan::Crash(points) => points.iter().map(|_| RESTART + anew).sum(),
        Plan::Failover(..) => TAKEOVER + anew,
        Plan::Stale(..) | Plan::StaleOf(..) | Plan::StaleEvent(..) => RESTART + LAG + anew,
        Plan::Event(_, _, EventPlan::Stall) => Duration::from_secs(40),
        Plan::Event(..) => Duration::from_secs(2),
        // The story waits for the answer, and tries again a little later.
        Plan::Answer(_, Answer::Timeout | Answer::LateTimeout) => {
            REQUEST_TIMEOUT + Duration::from_secs(2)
        }
        Plan::Answer(..) => Duration::from_secs(2),
        // The last try before it is shown again is followed by a long pause.
        Plan::Hidden(..) => HIDDEN + BACK_OFF + anew,
        // One request or event after the other.
        Plan::Shuffle(_) => Duration::from_secs(30),
    }
}
