//! Leader election on a Lease.
//!
//! state.rs decides (record seen, time passed -> next request, lead, give up); this file does the IO; the gate closes all writes
//! before another process may lead.

use std::sync::Arc;
use std::time::Duration;

use crate::client::{ApiClient, WriteGate};
use crate::clock::Clock;
use crate::events::EventRecorder;
use crate::metrics::Registry;
use crate::tasks::CancellationToken;

/// Which Lease, who we are, and how patient to be.
#[derive(Debug, Clone)]
pub struct ElectionConfig {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// `<hostname>_<uuid>`, new for each process.
    pub identity: String,
    /// How long a standby waits after the last renewal it saw.
    pub lease_duration: Duration,
    /// How long the leader keeps trying to renew before it gives up.
    pub renew_deadline: Duration,
    /// Step between attempts.
    pub retry_period: Duration,
}

/// Durations that cannot work together; upstream's texts, on which it exits 2.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ElectionConfigError(pub &'static str);

/// How a term ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TermEnd {
    /// `stop` came; the Lease is still ours.
    Stopped,
    /// The Lease could not be renewed in time. All writes are refused from now on.
    Lost,
}

/// Tells `/healthz` whether the election is well. Cheap to clone.
#[derive(Clone)]
pub struct ElectionHealth {}

impl ElectionHealth {
    /// Fails when we lead and the last renewal is older than lease duration + 20 s.
    pub fn check(&self) -> Result<(), String> {
        todo!("helper: client")
    }

    /// Whether this process leads.
    pub fn is_leader(&self) -> bool {
        todo!("helper: client")
    }
}

/// One candidate.
pub struct Elector {}

impl Elector {
    /// A candidate; no request is made yet. `client` should be of its own (`leader-election`), timing out after
    /// max(1 s, renew deadline / 2).
    pub fn new(
        _config: ElectionConfig,
        _client: ApiClient,
        _recorder: EventRecorder,
        _clock: Clock,
        _registry: &Registry,
    ) -> Result<Self, ElectionConfigError> {
        todo!("helper: client")
    }

    /// The gate for [`ApiClient::fenced`]: open from winning the Lease until the last renewal is as old as the renew deadline.
    pub fn gate(&self) -> Arc<dyn WriteGate> {
        todo!("helper: client")
    }

    /// For `/healthz`.
    pub fn health(&self) -> ElectionHealth {
        todo!("helper: client")
    }

    /// Tries until the Lease is ours (true) or `stop` comes (false). While somebody else holds it the Lease is watched, so that a
    /// release is answered at once.
    pub async fn acquire(&mut self, _stop: &CancellationToken) -> bool {
        todo!("helper: client")
    }

    /// Renews the Lease until `stop` or until it is lost.
    pub async fn hold(&mut self, _stop: &CancellationToken) -> TermEnd {
        todo!("helper: client")
    }

    /// Gives the Lease up, after everything that writes has stopped. Closes the gate. An error leaves the Lease to run out.
    pub async fn release(&mut self) {
        todo!("helper: client")
    }
}
