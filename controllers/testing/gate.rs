//! A gate in front of all writes of the controllers, as leader election and the end of the process close it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use steersman_runtime::client::WriteGate;
use steersman_runtime::controller::Descriptor;

use super::world::World;

/// Less than the back-off after a first failure: what is refused in this time is refused to one sync.
pub(crate) const ONE_SYNC: Duration = Duration::from_millis(4);

/// Open at first; counts what it refuses.
#[derive(Default)]
pub(crate) struct Gate {
    closed: AtomicBool,
    refused: AtomicUsize,
}

impl WriteGate for Gate {
    fn is_open(&self) -> bool {
        let closed = self.closed.load(Ordering::Relaxed);
        self.refused.fetch_add(usize::from(closed), Ordering::Relaxed);
        !closed
    }
}

impl Gate {
    pub(crate) fn set_open(&self, open: bool) {
        self.closed.store(!open, Ordering::Relaxed);
    }

    /// How many writes it refused since it was asked last.
    pub(crate) fn refused(&self) -> usize {
        self.refused.swap(0, Ordering::Relaxed)
    }
}

impl World {
    /// Starts these controllers, with a gate that their writes and Events must pass.
    pub(crate) async fn restart_fenced(&mut self, controllers: &[Descriptor]) -> Arc<Gate> {
        let gate = Arc::new(Gate::default());
        self.restart_with(controllers, |mut context| {
            let (clients, gate) = (Arc::clone(&context.clients), Arc::clone(&gate));
            context.clients = Arc::new(move |identity| clients(identity).fenced(Arc::clone(&gate) as Arc<dyn WriteGate>));
            context
        })
        .await;
        gate
    }
}
