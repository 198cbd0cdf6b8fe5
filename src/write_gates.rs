//! Write gates: they decide whether a write may still be sent.
//!
//! - Controllers write while this process leads and has not been asked to stop.
//! - Events are sent while this process leads. After an orderly stop they are still sent, because
//!   they only report writes that happened.
//!
//! A gate closes before the Lease can belong to another process, so that two leaders never write at
//! the same time. docs/leader-election.md specifies this.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use steersman_client::WriteGate;
use steersman_runtime::tasks::CancellationToken;
use tokio::time::Instant;

/// The write gates of one term. Without leader election, this process always leads.
pub(crate) struct Gates {
    /// The gate of the elector: open while the Lease is held.
    election: Option<Arc<dyn WriteGate>>,
    stop: CancellationToken,
    /// Cancelled when controllers must not wait for their last writes.
    abandon: CancellationToken,
    /// Cancelled when all controllers have stopped while the Lease was held.
    done: CancellationToken,
}

impl Gates {
    /// Gates that close when the gate of `election` closes, or with `stop`.
    pub(crate) fn new(election: Option<Arc<dyn WriteGate>>, stop: &CancellationToken) -> Self {
        Self {
            election,
            stop: stop.child_token(),
            abandon: CancellationToken::new(),
            done: CancellationToken::new(),
        }
    }

    /// The gate of controllers.
    pub(crate) fn writes(&self) -> Arc<dyn WriteGate> {
        Arc::new(ControllerGate {
            election: self.election.clone(),
            stop: self.stop.clone(),
            abandon: self.abandon.clone(),
        })
    }

    /// The gate of Events, which are sent even after controllers have stopped.
    pub(crate) fn events(&self) -> Arc<dyn WriteGate> {
        Arc::new(EventGate {
            election: self.election.clone(),
            done: self.done.clone(),
        })
    }

    /// Closes the gate of controllers.
    pub(crate) fn close(&self) {
        self.stop.cancel();
    }

    /// Closes the gate of controllers, and cancels the wait for writes that were already sent.
    pub(crate) fn abandon(&self) {
        self.close();
        self.abandon.cancel();
    }

    /// Call it when no write of a controller is in progress. If the Lease is still held, Events may
    /// be sent from now on without it.
    pub(crate) fn work_is_done(&self) {
        if self
            .election
            .as_ref()
            .is_none_or(|election| election.is_open())
        {
            self.done.cancel();
        }
    }
}

/// The gate of controllers: open until the stop request or the loss of the Lease.
struct ControllerGate {
    election: Option<Arc<dyn WriteGate>>,
    stop: CancellationToken,
    abandon: CancellationToken,
}

impl WriteGate for ControllerGate {
    fn is_open(&self) -> bool {
        !self.stop.is_cancelled()
            && self
                .election
                .as_ref()
                .is_none_or(|election| election.is_open())
    }

    fn open_until(&self) -> Option<Instant> {
        self.election.as_ref()?.open_until()
    }

    fn closing(&self) -> BoxFuture<'_, ()> {
        self.stop.cancelled().boxed()
    }

    fn abandoning(&self) -> BoxFuture<'_, ()> {
        self.abandon.cancelled().boxed()
    }
}

/// The gate of Events: after an orderly stop it stays open without the Lease.
struct EventGate {
    election: Option<Arc<dyn WriteGate>>,
    done: CancellationToken,
}

impl WriteGate for EventGate {
    fn is_open(&self) -> bool {
        self.done.is_cancelled()
            || self
                .election
                .as_ref()
                .is_none_or(|election| election.is_open())
    }

    fn open_until(&self) -> Option<Instant> {
        if self.done.is_cancelled() {
            None
        } else {
            self.election.as_ref()?.open_until()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[derive(Default)]
    struct Lease(AtomicBool);

    impl WriteGate for Lease {
        fn is_open(&self) -> bool {
            self.0.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn stopping_closes_the_gate_of_controllers_but_not_that_of_events() {
        // (why, leads, stopped, controllers done, Lease lost or released afterwards, controllers
        // may write, Events may be written)
        let cases = [
            ("standby", false, false, false, false, false, false),
            ("leader", true, false, false, false, true, true),
            ("asked to stop", true, true, false, false, false, true),
            ("stopped", true, true, true, false, false, true),
            (
                "stopped, without the Lease",
                true,
                true,
                true,
                true,
                false,
                true,
            ),
            ("the Lease is lost", true, false, false, true, false, false),
            (
                "done after the Lease was lost",
                false,
                true,
                true,
                false,
                false,
                false,
            ),
        ];
        for (why, leads, stopped, done, given_up, writes, events) in cases {
            let lease = Arc::new(Lease(AtomicBool::new(leads)));
            let stop = CancellationToken::new();
            let gates = Gates::new(Some(Arc::clone(&lease) as Arc<dyn WriteGate>), &stop);
            if stopped {
                stop.cancel();
            }
            if done {
                gates.work_is_done();
            }
            if given_up {
                lease.0.store(false, Ordering::Relaxed);
            }
            let found = (
                gates.writes().is_open(),
                gates.events().is_open(),
                gates.writes().closing().now_or_never().is_some(),
            );
            assert_eq!(found, (writes, events, stopped), "{why}");
        }
    }

    #[test]
    fn without_leader_election_only_stop_closes_the_gate() {
        let stop = CancellationToken::new();
        let gates = Gates::new(None, &stop);
        assert!(gates.writes().is_open() && gates.events().is_open());
        gates.close();
        assert!(!gates.writes().is_open() && gates.events().is_open());
        assert!(
            !stop.is_cancelled(),
            "a controller that ends does not cancel the caller's token"
        );
    }
}
