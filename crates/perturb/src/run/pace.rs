//! How long a run may take: as long as the reference did, and what the fault takes.

use std::time::Duration;

use steersman_devcluster::DevCluster;
use steersman_devcluster::faults::RuleId;
use tokio::time::Instant;

use super::{BACK_OFF, HIDDEN, LAG, RESTART, Recording, TAKEOVER};
use crate::manager::REQUEST_TIMEOUT;
use crate::plan::{Answer, EventPlan, Plan};

/// How long a user waits for something to become so, and everybody for the end, where no reference says how long that takes.
pub(super) const PATIENCE: Duration = Duration::from_secs(30 * 60);
/// Beyond what the fault itself takes. Shorter than whatever rescues a controller that missed its cue: expectations time out after five
/// minutes, watches end after five at least.
const SLACK: Duration = Duration::from_secs(60);

/// A watch that is never answered is given up when it would have ended. Upstream's reflector waits for the server to end it, for as long.
const WATCH: Duration = Duration::from_secs(660);

/// How fast a story goes, and is to go.
pub(super) struct Pace {
    begun: Instant,
    expected: Vec<Duration>,
    lasts: Duration,
    /// Tells of a watch that is never answered, if that may be what the plan breaks.
    silent: Option<(DevCluster, RuleId)>,
    reached: Vec<Duration>,
}

impl Pace {
    pub(super) fn new(cluster: &DevCluster, plan: &Plan, faults: &[RuleId], reference: &Recording) -> Self {
        let is_silence = matches!(plan, Plan::Answer(_, Answer::Timeout | Answer::LateTimeout));
        let silent = faults.first().filter(|_| is_silence).map(|rule| (cluster.clone(), *rule));
        let (expected, lasts) = (reference.reached.clone(), lasts(plan, &reference.reached));
        Self { begun: Instant::now(), expected, lasts, silent, reached: Vec::new() }
    }

    /// How much longer than in the reference it may take.
    fn grace(&self) -> Duration {
        let hit = self.silent.as_ref().and_then(|(cluster, rule)| cluster.faults().last_hit(*rule));
        let lasts = if hit.is_some_and(|hit| hit.starts_with("watch ")) { WATCH } else { self.lasts };
        lasts + SLACK
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

/// For how long a plan holds the story up, at most. What a process was waiting for, such as podgc for a node to come back, the next one
/// waits for anew.
fn lasts(plan: &Plan, reached: &[Duration]) -> Duration {
    let begun = std::iter::once(&Duration::ZERO).chain(reached);
    let anew = begun.zip(reached).map(|(from, to)| to.saturating_sub(*from)).max().unwrap_or_default();
    match plan {
        Plan::Nothing => Duration::ZERO,
        Plan::Crash(points) => points.iter().map(|_| RESTART + anew).sum(),
        Plan::Failover(..) => TAKEOVER + anew,
        Plan::Stale(..) | Plan::StaleOf(..) | Plan::StaleEvent(..) => RESTART + LAG + anew,
        Plan::Event(_, _, EventPlan::Stall) => Duration::from_secs(40),
        Plan::Event(..) => Duration::from_secs(2),
        // The story waits for the answer, and tries again a little later.
        Plan::Answer(_, Answer::Timeout | Answer::LateTimeout) => REQUEST_TIMEOUT + BACK_OFF + anew,
        // One for discovery may end the process.
        Plan::Answer(..) => BACK_OFF + anew,
        // The last try before it is shown again is followed by a long pause.
        Plan::Hidden(..) => HIDDEN + BACK_OFF + anew,
        // One request or event after the other.
        Plan::Shuffle(_) => Duration::from_secs(30),
    }
}
