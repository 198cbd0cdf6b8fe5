//! The state of the election as the rest of the process sees it: the write gate and the health
//! check.
//!
//! Both read the clock on each call, so they are right even if the election's task does not run.
//! Upstream: `HealthzAdaptor` in `client-go/tools/leaderelection/healthzadaptor.go`.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use steersman_client::WriteGate;

use super::state::State;

/// The health check of a leader fails if its last renewal is older than the lease duration plus
/// this time. Its process should have ended long before. Upstream: the argument of
/// `NewLeaderHealthzAdaptor` in `controllermanager.go`.
const GRACE: Duration = Duration::from_secs(20);

/// The published state of the election.
pub(super) struct Standing {
    /// For the text of the health check.
    lease_name: String,
    lease_duration: Duration,
    /// The state, and the time of the last change of the record. Both under one lock, so that
    /// readers never see a new state with an old time.
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
        *self.now.lock() = (state, observed_since);
    }

    fn get(&self) -> (State, Option<Instant>) {
        *self.now.lock()
    }
}

impl WriteGate for Standing {
    fn is_open(&self) -> bool {
        matches!(self.get().0, State::Leading { until } if Instant::now() < until)
    }

    /// A closed gate counts as open until now, so a caller has no time left for its write.
    fn open_until(&self) -> Option<Instant> {
        match self.get().0 {
            State::Leading { until } => Some(until),
            State::Standby | State::Lost => Some(Instant::now()),
        }
    }
}

/// The health check of the election, for `/healthz`. Cheap to clone.
#[derive(Clone)]
pub struct ElectionHealth(Arc<Standing>);

impl ElectionHealth {
    pub(super) fn of(standing: &Arc<Standing>) -> Self {
        Self(Arc::clone(standing))
    }

    /// Fails if this process leads and the last renewal is older than the lease duration + 20 s. A
    /// standby is always healthy. Upstream: `Check` in `leaderelection.go`.
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

    /// True if this process leads.
    pub fn is_leader(&self) -> bool {
        self.0.is_open()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(15);

    #[tokio::test(start_paused = true)]
    async fn the_gate_closes_at_the_end_of_the_term() {
        let standing = Standing::new("l", LEASE);
        assert!(!standing.is_open(), "a standby does not write");
        let until = Instant::now() + Duration::from_secs(10);
        standing.set(State::Leading { until }, Some(Instant::now()));
        tokio::time::advance(Duration::from_millis(9_999)).await;
        assert!(standing.is_open());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(!standing.is_open(), "closed without a call of `set`");
        standing.set(State::Lost, None);
        assert!(!standing.is_open());
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_leader_without_recent_renewal_is_unhealthy() {
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
