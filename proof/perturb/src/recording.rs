//! The reference run: a run without faults. Plans are derived from its numbers, and other runs are
//! compared with its final state.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::history::Counts;
use crate::mask::Masked;
use crate::subject::Subject;

/// Numbers and final state of a reference run. Counts stop at the final state of the scenario.
#[derive(Debug, Default)]
pub struct Recording {
    /// The manager of the reference run, and of the runs that are compared with it.
    pub subject: Subject,
    /// Writes of the manager, without Events and Leases.
    pub writes: usize,
    /// All requests of the manager, without those for Events and Leases.
    pub requests: usize,
    /// Discovery requests of the manager; [`Self::requests`] includes them.
    pub discovery_requests: usize,
    /// Requests that write Events, one number for each of [`crate::plan::EVENT_VERBS`].
    pub event_writes: [usize; 2],
    /// Resources that change in the scenario and that the manager watches.
    pub plurals: BTreeSet<String>,
    /// API groups of the objects that change in the scenario.
    pub groups: BTreeSet<String>,
    /// Watch events that the manager received, by plural resource.
    pub events: BTreeMap<String, usize>,
    pub(crate) end: Masked,
    /// Samples of the scenario's gauges in the final state.
    pub(crate) gauges: Vec<String>,
    pub(crate) counts: Counts,
    /// Seed of the cluster: names, UIDs, and delays of simulated nodes.
    pub(crate) seed: u64,
    /// Time from the start to the end of each wait of the user, and to the final state.
    pub(crate) reached: Vec<Duration>,
}

impl Recording {
    /// Whether this is a finished reference run; the first run of a scenario has only a seed and a
    /// subject.
    pub(crate) fn is_complete(&self) -> bool {
        !self.end.is_empty()
    }
}
