//! A write gate that tests can close, in place of the one that leader election closes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use steersman_client::WriteGate;
use steersman_runtime::controller::Descriptor;

use super::world::World;

/// Less than the back-off after a first failure, so all writes refused in this time belong to one
/// sync.
pub(crate) const ONE_SYNC: Duration = Duration::from_millis(4);

/// The gate. It starts open, and counts passed and refused writes.
pub(crate) struct Gate {
    closed: AtomicBool,
    refused: AtomicUsize,
    passed: AtomicUsize,
    /// The gate closes after this number of writes.
    limit: AtomicUsize,
}

impl Default for Gate {
    fn default() -> Self {
        let [refused, passed] = Default::default();
        Self {
            closed: AtomicBool::default(),
            refused,
            passed,
            limit: AtomicUsize::new(usize::MAX),
        }
    }
}

impl WriteGate for Gate {
    fn is_open(&self) -> bool {
        let exhausted = self.passed.load(Ordering::Relaxed) >= self.limit.load(Ordering::Relaxed);
        let closed = exhausted || self.closed.load(Ordering::Relaxed);
        (if closed { &self.refused } else { &self.passed }).fetch_add(1, Ordering::Relaxed);
        !closed
    }
}

impl Gate {
    /// Opens or closes the gate.
    pub(crate) fn set_open(&self, open: bool) {
        self.closed.store(!open, Ordering::Relaxed);
    }

    /// Closes the gate after `more` further writes.
    pub(crate) fn close_after(&self, more: usize) {
        self.limit.store(
            self.passed.load(Ordering::Relaxed).saturating_add(more),
            Ordering::Relaxed,
        );
    }

    /// The number of writes refused since the last call.
    pub(crate) fn refused(&self) -> usize {
        self.refused.swap(0, Ordering::Relaxed)
    }
}

impl World {
    /// Restarts with these controllers. Their writes and Events must pass the returned gate.
    pub(crate) async fn restart_fenced(&mut self, controllers: &[Descriptor]) -> Arc<Gate> {
        let gate = Arc::new(Gate::default());
        self.restart_with(controllers, |mut context| {
            let clients = Arc::clone(&context.clients);
            let gate = Arc::clone(&gate);
            context.clients = Arc::new(move |identity| {
                clients(identity).fenced(Arc::clone(&gate) as Arc<dyn WriteGate>)
            });
            context
        })
        .await;
        gate
    }
}
