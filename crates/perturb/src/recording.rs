//! A run without faults, from which plans are derived and with which other runs are compared.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::film::Counts;
use crate::mask::Masked;

/// What a run without faults does.
#[derive(Debug, Default)]
pub struct Recording {
    /// Writes of the manager.
    pub writes: usize,
    /// All of its requests.
    pub requests: usize,
    /// Those for discovery.
    pub looks: usize,
    /// Events it told of, by the verbs of [`crate::plan::TELLING`]; they are none of the above.
    pub told: [usize; 2],
    /// The resources that the story is about and somebody watches.
    pub plurals: BTreeSet<String>,
    /// The API groups of what the story is about.
    pub groups: BTreeSet<String>,
    /// Events it was told, by resource.
    pub events: BTreeMap<String, usize>,
    pub(crate) end: Masked,
    pub(crate) counts: Counts,
    /// What everything is drawn from.
    pub(crate) seed: u64,
    /// When each wait of the user came to its end, and when the story did.
    pub(crate) reached: Vec<Duration>,
}

impl Recording {
    /// Whether it is one, and not just a seed for the first.
    pub(crate) fn is_told(&self) -> bool {
        !self.end.is_empty()
    }
}
