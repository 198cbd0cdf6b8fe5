//! The state of this process for explanations.

use std::sync::Arc;

use steersman_runtime::controller::DebugPages;
use steersman_runtime::informer::InformerFactory;
use steersman_runtime::workqueue::QueueMetrics;
use steersman_why::{Dependent, Inside, KeyState, ManagerState};

/// A manager that leads.
pub(crate) struct ManagerInside {
    /// Its identity in the Lease; the host name without leader election.
    pub(crate) identity: String,
    /// Controllers that do not run.
    pub(crate) switched_off: Vec<String>,
    pub(crate) queues: QueueMetrics,
    pub(crate) informers: InformerFactory,
    pub(crate) debug: DebugPages,
}

impl ManagerInside {
    pub(crate) fn shared(self) -> Arc<dyn Inside> {
        Arc::new(self)
    }
}

impl Inside for ManagerInside {
    fn keys(&self, controller: &str, key: &str) -> Vec<KeyState> {
        self.queues.keys(controller, key)
    }

    fn manager(&self) -> ManagerState {
        ManagerState {
            identity: self.identity.clone(),
            switched_off: self.switched_off.clone(),
            not_synced: self.informers.not_synced(),
            watches: self.informers.findings(),
        }
    }

    fn blocking_dependents(&self, uid: &str) -> Vec<Dependent> {
        self.debug.dependents(uid)
    }
}
