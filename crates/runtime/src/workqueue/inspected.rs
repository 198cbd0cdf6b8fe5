//! The queues and records that explanations read.

use std::sync::Weak;

use steersman_why::{KeyState, StuckKey};

/// A queue whose keys can be read. It hides the type of the keys.
pub(crate) trait Inspect: Send + Sync {
    /// The state of the key with this text. `None` without work and failures.
    fn key(&self, controller: &'static str, key: &str) -> Option<KeyState>;

    /// All keys with failures.
    fn stuck(&self, controller: &'static str) -> Vec<StuckKey>;
}

/// The records of a controller that hold back syncs of a key.
pub(crate) trait Waits: Send + Sync {
    /// Adds the waits of `key` to `state`. True if there are any.
    fn add_to(&self, key: &str, state: &mut KeyState) -> bool;
}

/// The queues and records of all controllers.
#[derive(Default)]
pub(super) struct Inspected {
    pub(super) queues: Vec<(&'static str, Weak<dyn Inspect>)>,
    pub(super) waits: Vec<(&'static str, Weak<dyn Waits>)>,
}

impl Inspected {
    /// Drops the queues and waits that ended with an earlier term.
    pub(super) fn tidy(&mut self) {
        self.queues.retain(|(_, queue)| queue.strong_count() > 0);
        self.waits.retain(|(_, waits)| waits.strong_count() > 0);
    }
}
