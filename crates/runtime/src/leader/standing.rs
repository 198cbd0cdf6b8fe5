//! What the rest of the process may know of the election: the gate, and the health check.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::state::State;
use crate::client::WriteGate;

/// A leader that has not renewed for lease duration + this is ill: its process should have ended
/// long ago.
const GRACE: Duration = Duration::from_secs(20);

pub(super) struct Standing {
    lease_name: String,
    lease_duration: Duration,
    now: Mutex<(State, Option<Instant>)>,
}

impl Standing {
    pub(super) fn new(lease_name: &str, lease_duration: Duration) -> Self {
        Self {
            lease_name: lease_name.to_owned(),
            lease_duration,
            now: Mutex::new((State::Standby, None)),
        }
    }

    pub(super) fn set(&self, state: State, observed_since: Option<Instant>) {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = (state, observed_since);
    }

    fn get(&self) -> (State, Option<Instant>) {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WriteGate for Standing {
    fn is_open(&self) -> bool {
        matches!(self.get().0, State::Leading { until } if Instant::now() < until)
    }

    fn open_until(&self) -> Option<Instant> {
        match self.get().0 {
            State::Leading { until } => Some(until),
            State::Standby | State::Lost => Some(Instant::now()),
        }
    }
}

/// Tells `/healthz` whether the election is well. Cheap to clone.
#[derive(Clone)]
pub struct ElectionHealth(Arc<Standing>);

impl ElectionHealth {
    pub(super) fn of(standing: &Arc<Standing>) -> Self {
        Self(Arc::clone(standing))
    }

    /// Fails when we lead and the last renewal is older than lease duration + 20 s.
    pub fn check(&self) -> Result<(), String> {
        let (state, observed_since) = self.0.get();
        let age = observed_since.map_or(Duration::ZERO, |since| since.elapsed());
        if matches!(state, State::Leading { .. }) && age > self.0.lease_duration + GRACE {
            return Err(format!(
                "failed election to renew leadership on lease {}",
                self.0.lease_name
            ));
        }
        Ok(())
    }

    /// Whether this process leads.
    pub fn is_leader(&self) -> bool {
        self.0.is_open()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(15);

    #[tokio::test(start_paused = true)]
    async fn the_gate_is_open_up_to_its_deadline_and_no_longer() {
        let standing = Standing::new("l", LEASE);
        assert!(!standing.is_open(), "a standby does not write");
        let until = Instant::now() + Duration::from_secs(10);
        standing.set(State::Leading { until }, Some(Instant::now()));
        tokio::time::advance(Duration::from_millis(9_999)).await;
        assert!(standing.is_open());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(!standing.is_open(), "though nobody told it");
        standing.set(State::Lost, None);
        assert!(!standing.is_open());
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_leader_that_hangs_is_ill() {
        let standing = Arc::new(Standing::new("l", LEASE));
        let health = ElectionHealth::of(&standing);
        let now = Instant::now();
        standing.set(
            State::Leading {
                until: now + Duration::from_secs(10),
            },
            Some(now),
        );
        tokio::time::advance(Duration::from_secs(35)).await;
        assert_eq!(health.check(), Ok(()));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(
            health.check(),
            Err("failed election to renew leadership on lease l".to_owned())
        );
        assert!(!health.is_leader());
        standing.set(State::Standby, Some(now));
        assert_eq!(health.check(), Ok(()));
    }
}
