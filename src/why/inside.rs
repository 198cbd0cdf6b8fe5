//! The state of this process for explanations.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use steersman_options::features::{self, FeatureGates};
use steersman_runtime::controller::DebugPages;
use steersman_runtime::informer::InformerFactory;
use steersman_runtime::workqueue::QueueMetrics;
use steersman_why::{Code, Dependent, Inside, KeyState, ManagerState, Reason};

/// The number of requests of a client that wait for its throttle now, and the time until the last of
/// them is sent.
pub(crate) type Waiting = Box<dyn Fn(&str) -> Option<(usize, Duration)> + Send + Sync>;

/// A manager that leads.
pub(crate) struct ManagerInside {
    /// Its identity in the Lease; the host name without leader election.
    pub(crate) identity: String,
    /// Controllers that do not run.
    pub(crate) switched_off: Vec<String>,
    pub(crate) queues: QueueMetrics,
    pub(crate) informers: InformerFactory,
    pub(crate) debug: DebugPages,
    pub(crate) waiting: Waiting,
    pub(crate) features: FeatureGates,
}

impl ManagerInside {
    pub(crate) fn shared(self) -> Arc<dyn Inside> {
        Arc::new(self)
    }

    /// The reason if requests of `controller` wait for the limit of its client.
    fn throttled(&self, controller: &str, now: Timestamp) -> Option<Reason> {
        let all = steersman_controllers::ALL.iter();
        let identity = all
            .into_iter()
            .find(|descriptor| descriptor.name == controller)?
            .identity;
        let (count, left) = (self.waiting)(identity)?;
        let message = format!(
            "{count} requests of the controller wait for the limit of its client (--kube-api-qps, --kube-api-burst)"
        );
        let reason = Reason::new(Code::Throttled, controller, message).field("requests", count);
        Some(reason.next(now.checked_add(left).ok()))
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

    fn enables(&self, gate: &str) -> bool {
        let mut read = features::ALL.iter();
        let gate = read.find(|known| known.name == gate);
        gate.is_some_and(|gate| self.features.is_on(*gate))
    }

    fn memory(&self, controller: &str, key: &str, now: Timestamp) -> Vec<Reason> {
        let mut found = self.debug.memory(controller, key, now);
        found.extend(self.throttled(controller, now));
        found
    }

    fn blocking_dependents(&self, uid: &str) -> Vec<Dependent> {
        self.debug.dependents(uid)
    }
}
