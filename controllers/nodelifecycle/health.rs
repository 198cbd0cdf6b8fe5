//! How long a node has been silent.
//!
//! A sign of life is a new heartbeat in the `Ready` condition, or a renewed Lease. The controller
//! measures from the moment at which it saw the sign, on its own monotonic clock. So clocks of
//! nodes may be wrong, and a jump of the wall clock makes no node silent.
//!
//! Upstream: the first half of `tryUpdateNodeHealth` in `node_lifecycle_controller.go`.

use std::time::Duration;

use jiff::Timestamp;
use steersman_objects::{Lease, Node};
use steersman_values::clock::{Clock, saturating_since};
use tokio::time::Instant;

use super::config::Config;

/// Status of a `Ready` condition. The three first ones are those of the API; each leads to another
/// treatment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ready {
    True,
    False,
    Unknown,
    /// Any other string. It counts as not ready. Only `False` and `Unknown` bring taints.
    Other,
}

impl Ready {
    /// The status of the first `Ready` condition; `None` without the condition.
    pub(super) fn of(node: &Node) -> Option<Self> {
        let mut conditions = node.status.conditions.iter();
        let ready = conditions.find(|condition| condition.kind == *"Ready")?;
        Some(Self::parse(&ready.status))
    }

    pub(super) fn parse(status: &str) -> Self {
        match status {
            "True" => Self::True,
            "False" => Self::False,
            "Unknown" => Self::Unknown,
            _ => Self::Other,
        }
    }
}

/// A moment on both clocks: timestamps use the wall clock, measured times the monotonic clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    pub(super) wall: Timestamp,
    pub(super) at: Instant,
}

impl Moment {
    pub(super) fn now(clock: &Clock) -> Self {
        Self {
            wall: clock.now(),
            at: Instant::now(),
        }
    }
}

/// The `Ready` condition in a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SeenReady {
    pub(super) status: Ready,
    /// Only a difference counts, in any direction and size: clocks of nodes may be wrong.
    pub(super) heartbeat: Option<Timestamp>,
}

impl SeenReady {
    pub(super) fn of(node: &Node) -> Option<Self> {
        Some(Self {
            status: Ready::of(node)?,
            heartbeat: node.status.conditions.ready_heartbeat,
        })
    }
}

/// The last signs of life of one node. Upstream: `nodeHealthData`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Health {
    /// The `Ready` condition in the last seen status.
    pub(super) ready: Option<SeenReady>,
    /// When this process last saw a sign of life. Upstream: `probeTimestamp`, which is wall time
    /// there.
    pub(super) probed_at: Instant,
    /// The silence before `probed_at`: the age of a node that never had a `Ready` condition.
    pub(super) silent_before: Duration,
    /// `renewTime` of the last seen Lease; `None` before the first Lease.
    pub(super) renewed: Option<Option<Timestamp>>,
}

impl Health {
    /// The health after a look at `node` and its Lease; `before` is the health until now.
    ///
    /// The cases, in their order:
    ///
    /// - A node with the condition is seen for the first time: its silence starts now.
    /// - A node without the condition is seen for the first time: it has been silent since its
    ///   creation.
    /// - The condition is missing or gone: the silence goes on. Upstream has a case for a condition
    ///   that was removed, and never reaches it: it stores the new status before it compares.
    /// - The heartbeat is the same: the silence goes on.
    /// - The heartbeat is another one, in either direction: a sign of life.
    pub(super) fn observe(
        before: Option<&Self>,
        node: &Node,
        lease: Option<&Lease>,
        now: Moment,
    ) -> Self {
        let seen = SeenReady::of(node);
        let fresh = |silent_before| Self {
            ready: seen,
            probed_at: now.at,
            silent_before,
            renewed: None,
        };
        let mut health = match (before, seen) {
            (None, Some(_)) => fresh(Duration::ZERO),
            (None, None) => {
                let created = node
                    .meta
                    .created
                    .map_or(Timestamp::UNIX_EPOCH, Timestamp::from);
                fresh(saturating_since(now.wall, created))
            }
            (Some(before), None) => Self {
                ready: None,
                ..before.clone()
            },
            (Some(before), Some(seen)) => match before.ready {
                Some(known) if known.heartbeat == seen.heartbeat => Self {
                    ready: Some(seen),
                    ..before.clone()
                },
                _ => fresh(Duration::ZERO),
            },
        };
        // The record from before counts, even if the heartbeat above has begun a new one. As in
        // upstream, that new record lacks the Lease, so the next pass takes it for renewed.
        let known = before.and_then(|before| before.renewed);
        if let Some(lease) = lease
            && is_renewed(known, lease.spec.renew_time.0)
        {
            health.renewed = Some(lease.spec.renew_time.0);
            health.live_at(now.at);
        }
        health
    }

    /// Whether the heartbeat in the status is another one than `before`.
    pub(super) fn has_other_heartbeat(&self, before: &Self) -> bool {
        let heartbeat = |health: &Self| health.ready.map(|ready| ready.heartbeat);
        self.ready.is_some() && heartbeat(self) != heartbeat(before)
    }

    /// Whether the Lease was renewed after `before`.
    pub(super) fn is_renewed(&self, before: &Self) -> bool {
        self.renewed
            .is_some_and(|renewed| is_renewed(before.renewed, renewed))
    }

    /// Notes a sign of life. Also used for all nodes at the end of a full disruption.
    pub(super) fn live_at(&mut self, now: Instant) {
        self.probed_at = now;
        self.silent_before = Duration::ZERO;
    }

    /// Whether the node has been silent for longer than its grace period. A node without the
    /// condition gets the longer time of a new node. Upstream: `gracePeriod`.
    pub(super) fn is_silent(&self, config: &Config, now: Instant) -> bool {
        let grace = match self.ready {
            Some(_) => config.monitor_grace,
            None => config.startup_grace,
        };
        now.saturating_duration_since(self.probed_at) + self.silent_before > grace
    }
}

/// Whether a Lease with the renewal time `seen` is newer than the last known one. Two times are
/// needed for that, as in upstream's `MicroTime.Before`.
fn is_renewed(known: Option<Option<Timestamp>>, seen: Option<Timestamp>) -> bool {
    match known {
        None => true,
        Some(known) => known.zip(seen).is_some_and(|(known, seen)| known < seen),
    }
}
